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
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type expressionAttrs struct {
	Expr    string                   `attr:"expr" doc:"what is computed for one element; several results are a tuple"`
	Params  []string                 `attr:"params" default:"none" doc:"names of the inputs; null: x, y, z, a, b, c, d, u, v, w"`
	Numbers map[string]tensor.Scalar `attr:"*" doc:"a number that the expression names"`
}

// Check finds mistakes of syntax, which need no operands. Their number tells how they are named.
func (a *expressionAttrs) Check() error {
	names := a.Params
	if names == nil {
		names = expr.Names()[:1]
	}
	var unfit *expr.Error
	if _, err := expr.Parse("0", names...); errors.As(err, &unfit) {
		return wrongAttr("params", "%s", unfit.Msg)
	}
	if _, err := expr.Parse(a.Expr, names...); err != nil {
		return wrongAttr("expr", "%w", err)
	}
	return nil
}

// typedExpression is an expression as it is for a call: what its text, its numbers and the dtypes of operands decide.
type typedExpression struct {
	names   []string // attribute params: nil for none
	numbers map[string]tensor.Scalar
	in      []typedOperand

	formula *expr.Formula
	code    *expr.Code
	kernel  rule.Kernel
}

// typedOperand is what an operand decides: a plain number by its value.
type typedOperand struct {
	dtype   tensor.DType
	zeroDim bool
	number  tensor.Scalar
}

func typedOperandOf(a *graph.Arg) typedOperand {
	if a.Kind == graph.NumberArg {
		return typedOperand{number: a.Number}
	}
	t := a.Type()
	return typedOperand{dtype: t.DType, zeroDim: t.Rank() == 0}
}

// Of each text those typings are kept that were made last. A text takes some tens of microseconds to parse and to type,
// a node asks for it three times in an inference, and a graph has few texts in many nodes.
const (
	mostTexts   = 256
	mostTypings = 8
)

// typings are the typed expressions that are kept, by their texts. They are immutable.
var typings = struct {
	sync.Mutex
	of map[string][]*typedExpression
}{of: map[string][]*typedExpression{}}

// typedFor returns the expression of a call, typed.
func typedFor(c *graph.Call, a *expressionAttrs) (*typedExpression, error) {
	typings.Lock()
	for _, t := range typings.of[a.Expr] {
		if t.fits(c, a) {
			typings.Unlock()
			return t, nil
		}
	}
	typings.Unlock()
	t, err := typeExpression(c, a)
	if err != nil {
		return nil, err
	}
	typings.Lock()
	defer typings.Unlock()
	list, known := typings.of[a.Expr]
	if !known && len(typings.of) >= mostTexts {
		clear(typings.of)
	}
	if len(list) >= mostTypings {
		list = slices.Delete(list, 0, 1)
	}
	typings.of[a.Expr] = append(list, t)
	return t, nil
}

// fits reports whether a call is one for which the expression was typed.
func (t *typedExpression) fits(c *graph.Call, a *expressionAttrs) bool {
	if len(c.In) != len(t.in) || (a.Params == nil) != (t.names == nil) || !slices.Equal(a.Params, t.names) ||
		len(a.Numbers) != len(t.numbers) {
		return false
	}
	for k := range c.In {
		if o := typedOperandOf(&c.In[k]); o.dtype != t.in[k].dtype || o.zeroDim != t.in[k].zeroDim ||
			!sameNumber(o.number, t.in[k].number) {
			return false
		}
	}
	for name, n := range a.Numbers {
		if m, ok := t.numbers[name]; !ok || !sameNumber(m, n) {
			return false
		}
	}
	return true
}

// sameNumber tells 0 from -0, which Go's == does not. A NaN is like no other.
func sameNumber(a, b tensor.Scalar) bool {
	if a != b {
		return false
	}
	x, y := a.Complex(), b.Complex()
	return math.Signbit(real(x)) == math.Signbit(real(y)) && math.Signbit(imag(x)) == math.Signbit(imag(y))
}

// expressionOf returns the expression of a call.
func expressionOf(c *graph.Call) (*typedExpression, error) {
	return typedFor(c, kit.Attrs[expressionAttrs](c))
}

// parseExpression parses the text for the operands of a call.
func parseExpression(c *graph.Call, a *expressionAttrs) (*expr.Formula, error) {
	names := expr.Names()
	switch {
	case len(c.In) == 0:
		return nil, errors.New("expected a non-empty list of tensors")
	case a.Params != nil && len(a.Params) != len(c.In):
		return nil, wrongAttr("params", "it names %d inputs, and there are %d", len(a.Params), len(c.In))
	case a.Params != nil:
		names = a.Params
	case len(c.In) > len(names):
		return nil, fmt.Errorf("takes up to %d inputs without names: give names to %d under \"params\"", len(names),
			len(c.In))
	default:
		names = names[:len(c.In)]
	}
	f, err := expr.Parse(a.Expr, names...)
	if err != nil {
		return nil, wrongAttr("expr", "%w", err)
	}
	if n := len(c.In) + f.Results(); n > expr.MaxOperands {
		return nil, fmt.Errorf("has %d inputs and results, the most are %d", n, expr.MaxOperands)
	}
	known := f.Attrs()
	for _, name := range slices.Sorted(maps.Keys(a.Numbers)) {
		switch {
		case slices.Contains(names, name):
			return nil, wrongAttr(name, "an input has this name")
		case !slices.Contains(known, name):
			return nil, wrongAttr(name, "the expression names no such number%s",
				suggest.DidYouMean(suggest.Nearest(name, slices.Values(known))))
		}
	}
	return f, nil
}

func wrongAttr(name, format string, args ...any) error {
	return &graph.AttrError{Attr: name, Err: fmt.Errorf("attribute %q: "+format, append([]any{name}, args...)...)}
}

// typeExpression types the expression for the operands of a call. Plain numbers are taken as the text would have them.
func typeExpression(c *graph.Call, a *expressionAttrs) (*typedExpression, error) {
	f, err := parseExpression(c, a)
	if err != nil {
		return nil, err
	}
	t := &typedExpression{names: slices.Clone(a.Params), numbers: maps.Clone(a.Numbers), formula: f}
	attrs := numbers{}
	maps.Copy(attrs, a.Numbers)
	in, zeroDim := make([]tensor.DType, len(c.In)), make([]bool, len(c.In))
	for k := range c.In {
		x := &c.In[k]
		t.in = append(t.in, typedOperandOf(x))
		o := x.Operand()
		in[k], zeroDim[k] = o.Type.DType, o.Type.Rank() == 0
		if x.Kind == graph.NumberArg {
			attrs[f.Params()[k]] = x.Number
		}
	}
	if t.code, err = f.Code(in, expr.Typing{Attrs: attrs, ZeroDim: zeroDim}); err != nil {
		return nil, wrongAttr("expr", "%w", err)
	}
	t.kernel = rule.Expr(t.code)
	return t, nil
}
