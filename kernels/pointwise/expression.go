package pointwise

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/words"
	"github.com/graphrun/graphrun/iter"
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

// Pointwise is an op of the user's own, as text.
var Pointwise = kit.Define[expressionAttrs](graph.Op{
	Name: "pointwise",
	Doc: "Computes an expression of one's own for each element: where(x > 0, x, alpha * y). Inputs are broadcast " +
		"together, and each operation promotes as PyTorch's do; of integers / and functions make float32, comparisons " +
		"bool. The result is laid out as that of any pointwise op. Integers divided by 0 give any number.",
	Params: []graph.Param{{Name: "operands", Variadic: true, Number: true}},
	Many:   true,
	Each:   graph.Each{Simple: 2, Function: 1},
	Pointwise: &graph.Pointwise{
		Config: func(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
			t, err := expressionOf(c)
			if err != nil {
				return iter.Config{}, err
			}
			cfg := iter.New().CheckAllSameDType(false)
			for i, o := range outs {
				if !o.Defined {
					o = iter.UndefinedOf(t.code.Out[i].DType)
				}
				cfg = cfg.Output(o)
			}
			for _, a := range c.In {
				cfg = cfg.Input(a.Operand())
			}
			return cfg, nil
		},
		Body: func(c *graph.Call, _ *iter.Rule) (iter.Kernel, error) {
			t, err := expressionOf(c)
			if err != nil {
				return iter.Kernel{}, err
			}
			return t.kernel, nil
		},
		Results: func(c *graph.Call) (int, error) {
			t, err := expressionOf(c)
			if err != nil {
				return 0, err
			}
			return t.formula.Results(), nil
		},
	},
	Ref: expressionRef,
	Examples: []graph.Example{
		kit.Example(graph.Attrs{"expr": "where(x > 0, x * sigmoid(x), alpha * y)", "alpha": 0.5}, kit.ExTurned, kit.ExTurned),
		kit.Example(graph.Attrs{"expr": "k * a + b", "params": []string{"a", "b"}, "k": 3}, kit.ExInts, kit.ExInts),
		kit.Example(graph.Attrs{"expr": "not x"}, kit.ExBools),
	},
})

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
				words.DidYouMean(words.Nearest(name, slices.Values(known))))
		}
	}
	return f, nil
}

func wrongAttr(name, format string, args ...any) error {
	return &graph.AttrError{Attr: name, Err: fmt.Errorf("attribute %q: "+format, append([]any{name}, args...)...)}
}

// expressionRef computes each element by definition.
func expressionRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	t, err := expressionOf(c)
	if err != nil {
		return nil, err
	}
	code := t.code
	var shape []int
	for _, t := range in {
		if shape, err = tensor.Broadcast(shape, t.Shape); err != nil {
			return nil, err
		}
	}
	rows, out := make([]*tensor.Tensor, len(in)), make([]*tensor.Tensor, len(code.Out))
	for k, t := range in {
		full, err := t.CopyTo(tensor.New(code.In[k], t.Shape...)).Expanded(shape)
		if err != nil {
			return nil, err
		}
		rows[k] = full.CopyTo(tensor.New(code.In[k], shape...))
	}
	for k, o := range code.Out {
		out[k] = tensor.Zeros(o.DType, shape...)
	}
	x := make([]expr.Number, len(in))
	for i := range tensor.Numel(shape) {
		for k, t := range rows {
			x[k] = numberAt(t, i)
		}
		for k, y := range code.Eval(x...) {
			setNumber(out[k], i, y)
		}
	}
	return out, nil
}

// parts are the bytes of the parts of element i of a row-major tensor: one, of a complex one two.
func parts(t *tensor.Tensor, i int) (re, im []byte) {
	n := t.DType.Size()
	b := unsafe.Slice((*byte)(unsafe.Add(t.Pointer(), i*n)), n)
	if t.DType.IsComplex() {
		return b[:n/2], b[n/2:]
	}
	return b, nil
}

// numberAt and setNumber read and write an element by its bits, of which the lowest come first.
func numberAt(t *tensor.Tensor, i int) expr.Number {
	re, im := parts(t, i)
	return expr.Number{Re: bitsOf(re), Im: bitsOf(im)}
}

func setNumber(t *tensor.Tensor, i int, x expr.Number) {
	re, im := parts(t, i)
	for k := range re {
		re[k] = byte(x.Re >> (8 * k))
	}
	for k := range im {
		im[k] = byte(x.Im >> (8 * k))
	}
}

func bitsOf(b []byte) (x uint64) {
	for k := range b {
		x |= uint64(b[k]) << (8 * k)
	}
	return x
}
