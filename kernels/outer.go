package kernels

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// delegated is a call of another op on views of a call's operands.
func delegated(c *graph.Call, attrs any, types ...tensor.Type) *graph.Call {
	in := &graph.Call{Attrs: attrs, Out: c.Out}
	for _, t := range types {
		m, _ := t.Meta()
		in.In = append(in.In, graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Type: t, Meta: m}})
	}
	return in
}

// viewsOf shows tensors as other types of the same storage.
func viewsOf(in []*tensor.Tensor, types ...tensor.Type) ([]*tensor.Tensor, error) {
	var out []*tensor.Tensor
	for i, v := range types {
		m, _ := v.Meta()
		t, err := in[i].View(m)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// Outer is torch.outer: the product of a column and a row.
var Outer = composite[none](graph.Op{
	Name: "outer", Doc: "Multiplies every element of a vector by every one of another: [n] and [m] give [n, m].",
	Params: []graph.Param{self, {Name: "vec2"}}, Examples: []graph.Example{{In: []tensor.Meta{f32(3), f32(4)}}},
	Decompose: func(p *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
		column, err := p.Add(Unsqueeze, graph.Attrs{"dim": 1}, c.In[0])
		if err != nil {
			return nil, err
		}
		return p.Add(Mul, nil, graph.Of(column[0]), c.In[1])
	},
}, Mul, func(c *graph.Call) ([]tensor.Type, error) {
	a, b := c.Type(0), c.Type(1)
	if a.Rank() != 1 || b.Rank() != 1 {
		return nil, fmt.Errorf("outer: Expected 1-D argument self and vec2, but got %d-D and %d-D", a.Rank(), b.Rank())
	}
	a, err := a.Unsqueeze(1)
	return []tensor.Type{a, b}, err
})

// Trace is torch.trace: the sum of the diagonal.
var Trace = composite[none](graph.Op{
	Name: "trace", Doc: "Sums the diagonal of a matrix.",
	Params: []graph.Param{self}, Examples: []graph.Example{{In: []tensor.Meta{f32(3, 4)}}},
	Decompose: func(p *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
		diagonal, err := p.Add(Diagonal, nil, c.In[0])
		if err != nil {
			return nil, err
		}
		return p.Add(Sum, nil, graph.Of(diagonal[0]))
	},
}, Sum, func(c *graph.Call) ([]tensor.Type, error) {
	m := c.Type(0)
	if m.Rank() != 2 {
		return nil, errors.New("trace: expected a matrix")
	}
	m, err := m.Diagonal(0, 0, 1)
	return []tensor.Type{m}, err
})

// composite defines an op that is another one, without attributes, on views of its operands: what is inferred, and
// what it means, are the other one's.
func composite[A any](o graph.Op, to *graph.Op, views func(c *graph.Call) ([]tensor.Type, error)) *graph.Op {
	of := func(c *graph.Call) (*graph.Call, []tensor.Type, error) {
		types, err := views(c)
		if err != nil {
			return nil, nil, err
		}
		a, err := to.Schema.Decode(nil, nil)
		return delegated(c, a, types...), types, err
	}
	o.Infer = func(c *graph.Call) ([]graph.Result, error) {
		inner, _, err := of(c)
		if err != nil {
			return nil, err
		}
		return to.Infer(inner)
	}
	o.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		inner, types, err := of(c)
		if err != nil {
			return nil, err
		}
		if in, err = viewsOf(in, types...); err != nil {
			return nil, err
		}
		return to.Ref(inner, in)
	}
	return define[A](o)
}

// Numel is torch.numel as a value.
var Numel = elementOp[none](graph.Op{
	Name: "numel", Doc: "Gives the number of self's elements, a 0-dim int64.", Params: []graph.Param{self}, Examples: oneExample(f32(2, 3), nil),
}, func(*graph.Call) (tensor.Type, error) { return tensor.NewType(tensor.Int64), nil },
	func(c *graph.Call) func(int, []*tensor.Tensor) tensor.Scalar {
		return func(int, []*tensor.Tensor) tensor.Scalar { return tensor.IntScalar(int64(c.Meta(0).Numel())) }
	})
