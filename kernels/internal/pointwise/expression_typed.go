package pointwise

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type expressionAttrs struct {
	Expr    string                   `attr:"expr" doc:"expression for one element; a tuple gives several results"`
	Params  []string                 `attr:"params" default:"none" doc:"names of the inputs; default: x, y, z, a, b, c, d, u, v, w"`
	Numbers map[string]tensor.Scalar `attr:"*" doc:"number with a name in the expression"`
}

// Check finds the errors that do not depend on operands: syntax errors and invalid names. If params is omitted, Check
// assumes one operand, because the number of operands is unknown here.
func (a *expressionAttrs) Check() error {
	names := a.Params
	if names == nil {
		names = expr.DefaultParams()[:1]
	}
	var nameErr *expr.Error // "0" is a valid expression, so an error is about the names
	if _, err := expr.Parse("0", names...); errors.As(err, &nameErr) {
		return wrongAttr("params", "%s", nameErr.Msg)
	}
	if _, err := expr.Parse(a.Expr, names...); err != nil {
		return wrongAttr("expr", "%w", err)
	}
	return nil
}

// typedExpression is an expression with the dtypes of its operations inferred for a call. It depends on the text, the
// attributes and the dtypes of the operands.
type typedExpression struct {
	// The following three fields and the text are the key in typingCache.

	names   []string                 // attribute params; nil if it was omitted
	numbers map[string]tensor.Scalar // the numbers among the attributes, which the expression names
	in      []typedOperand           // properties of the operands

	formula *expr.Formula // the parsed text
	code    *expr.Code    // the formula with inferred dtypes
	kernel  rule.Kernel   // the kernel of code
}

// typedOperand has the properties of an operand on which typing depends: the dtype and 0-dim flag of a tensor, or the
// value of a plain number.
type typedOperand struct {
	dtype     tensor.DType
	isZeroDim bool
	number    tensor.Scalar // unset for a tensor
}

// typedOperandOf returns the properties of an operand on which typing depends.
func typedOperandOf(operand *graph.Arg) typedOperand {
	if operand.Kind == graph.NumberArg {
		return typedOperand{number: operand.Number}
	}
	t := operand.Type()
	return typedOperand{dtype: t.DType, isZeroDim: t.Rank() == 0}
}

// expressionOf returns the typed expression of a call.
func expressionOf(call *graph.Call) (*typedExpression, error) {
	return cachedExpression(call, kit.Attrs[*expressionAttrs](call))
}

// Typed expressions are cached, because parsing and typing take some tens of microseconds and inference needs the typed
// expression three times per node. A graph has many nodes, but few distinct texts.
const (
	maxTexts   = 256 // greatest number of texts; the cache is cleared before the next text is added
	maxTypings = 8   // greatest number of typed expressions per text; the oldest is evicted
)

// typingCache is the cache of typed expressions by text. Typed expressions are immutable.
var typingCache = struct {
	sync.Mutex
	byText map[string][]*typedExpression
}{byText: map[string][]*typedExpression{}}

// cachedExpression returns the typed expression of a call from the cache. It adds the expression if necessary. The
// cache is not locked while an expression is typed.
func cachedExpression(call *graph.Call, attrs *expressionAttrs) (*typedExpression, error) {
	typingCache.Lock()
	for _, typed := range typingCache.byText[attrs.Expr] {
		if typed.matches(call, attrs) {
			typingCache.Unlock()
			return typed, nil
		}
	}
	typingCache.Unlock()
	typed, err := typeExpression(call, attrs)
	if err != nil {
		return nil, err
	}
	typingCache.Lock()
	defer typingCache.Unlock()
	list, isCached := typingCache.byText[attrs.Expr]
	if !isCached && len(typingCache.byText) >= maxTexts {
		clear(typingCache.byText)
	}
	if len(list) >= maxTypings {
		list = slices.Delete(list, 0, 1)
	}
	typingCache.byText[attrs.Expr] = append(list, typed)
	return typed, nil
}

// matches reports whether an expression was typed for the operands and attributes of a call.
func (t *typedExpression) matches(c *graph.Call, attrs *expressionAttrs) bool {
	hasSameNames := (attrs.Params == nil) == (t.names == nil) && slices.Equal(attrs.Params, t.names)
	if len(c.In) != len(t.in) || !hasSameNames || len(attrs.Numbers) != len(t.numbers) {
		return false
	}
	for k := range c.In {
		operand, typed := typedOperandOf(&c.In[k]), &t.in[k]
		hasSameType := operand.dtype == typed.dtype && operand.isZeroDim == typed.isZeroDim
		if !hasSameType || !sameNumber(operand.number, typed.number) {
			return false
		}
	}
	for name, number := range attrs.Numbers {
		if typedNumber, ok := t.numbers[name]; !ok || !sameNumber(typedNumber, number) {
			return false
		}
	}
	return true
}

// sameNumber reports whether a equals b, including the dtype. Unlike ==, it distinguishes 0 from -0. A NaN equals no
// number, so an expression with a NaN is typed again for each call.
func sameNumber(a, b tensor.Scalar) bool {
	if a != b {
		return false
	}
	x, y := a.Complex(), b.Complex()
	return math.Signbit(real(x)) == math.Signbit(real(y)) && math.Signbit(imag(x)) == math.Signbit(imag(y))
}

// typeExpression parses the expression and infers the dtypes of its operations for the operands of a call. Plain
// numbers are typed like number literals of the text.
func typeExpression(call *graph.Call, attrs *expressionAttrs) (*typedExpression, error) {
	formula, err := parseExpression(call, attrs)
	if err != nil {
		return nil, err
	}
	typed := &typedExpression{names: slices.Clone(attrs.Params), numbers: maps.Clone(attrs.Numbers), formula: formula}
	namedNumbers := numbers{}
	maps.Copy(namedNumbers, attrs.Numbers)
	in, isZeroDim := make([]tensor.DType, len(call.In)), make([]bool, len(call.In))
	for k := range call.In {
		arg := &call.In[k]
		typed.in = append(typed.in, typedOperandOf(arg))
		operand := arg.Operand()
		in[k], isZeroDim[k] = operand.Type.DType, operand.Type.Rank() == 0
		if arg.Kind == graph.NumberArg {
			namedNumbers[formula.Params()[k]] = arg.Number
		}
	}
	if typed.code, err = formula.Code(in, expr.Typing{Attrs: namedNumbers, ZeroDim: isZeroDim}); err != nil {
		return nil, wrongAttr("expr", "%w", err)
	}
	typed.kernel = rule.Expr(typed.code)
	return typed, nil
}

// parseExpression parses the text with the names of the call's operands and checks the attributes against the names in
// the text.
func parseExpression(call *graph.Call, attrs *expressionAttrs) (*expr.Formula, error) {
	names, err := inputNames(call, attrs)
	if err != nil {
		return nil, err
	}
	formula, err := expr.Parse(attrs.Expr, names...)
	if err != nil {
		return nil, wrongAttr("expr", "%w", err)
	}
	if n := len(call.In) + formula.Results(); n > expr.MaxOperands {
		return nil, fmt.Errorf("has %d inputs and results, but at most %d are supported", n, expr.MaxOperands)
	}
	numberNames := formula.Attrs()
	for _, name := range sorted.Keys(attrs.Numbers) {
		switch {
		case slices.Contains(names, name):
			return nil, wrongAttr(name, "an input has this name")
		case !slices.Contains(numberNames, name):
			return nil, wrongAttr(name, "the expression names no such number%s",
				suggest.DidYouMean(suggest.Nearest(name, slices.Values(numberNames))))
		}
	}
	return formula, nil
}

// inputNames returns the names of the call's operands in the expression.
func inputNames(call *graph.Call, attrs *expressionAttrs) ([]string, error) {
	names := expr.DefaultParams()
	switch {
	case len(call.In) == 0:
		return nil, errors.New("expected a non-empty list of tensors")
	case attrs.Params != nil && len(attrs.Params) != len(call.In):
		return nil, wrongAttr("params", "it names %d inputs, and there are %d", len(attrs.Params), len(call.In))
	case attrs.Params != nil:
		return attrs.Params, nil
	case len(call.In) > len(names):
		return nil, fmt.Errorf("takes up to %d inputs without names: give names to %d under \"params\"", len(names),
			len(call.In))
	}
	return names[:len(call.In)], nil
}

// wrongAttr returns an error about an attribute. The format and args make its text.
func wrongAttr(name, format string, args ...any) error {
	return &graph.AttrError{Attr: name, Err: fmt.Errorf("attribute %q: "+format, append([]any{name}, args...)...)}
}
