package product

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/pointwise"
	"github.com/graphrun/graphrun/kernels/reduce"
	"github.com/graphrun/graphrun/tensor"
)

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

// Outer is torch.outer.
var Outer = delegateOp[kit.None](graph.Op{
	AnyOrder: true,
	Name:     "outer", Doc: "Multiplies every element of a vector by every one of another: [n] and [m] give [n, m].",
	Params: []graph.Param{kit.Self, {Name: "vec2"}}, Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3), kit.F32(4)}}},
}, pointwise.Mul, func(c *graph.Call) ([]tensor.Type, any, error) {
	a, b := c.Type(0), c.Type(1)
	if a.Rank() != 1 || b.Rank() != 1 {
		return nil, nil, fmt.Errorf("outer: Expected 1-D argument self and vec2, but got %d-D and %d-D", a.Rank(), b.Rank())
	}
	a, err := a.Unsqueeze(1)
	if err != nil {
		return nil, nil, err
	}
	attrs, err := pointwise.Mul.Schema.Decode(nil, nil)
	return []tensor.Type{a, b}, attrs, err
})

// Trace is torch.trace.
var Trace = delegateOp[kit.None](graph.Op{
	Name: "trace", Doc: "Sums the diagonal of a matrix.",
	Params: []graph.Param{kit.Self}, Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 4)}}},
}, reduce.Sum, func(c *graph.Call) ([]tensor.Type, any, error) {
	m := c.Type(0)
	if m.Rank() != 2 {
		return nil, nil, errors.New("trace: expected a matrix")
	}
	m, err := m.Diagonal(0, 0, 1)
	if err != nil {
		return nil, nil, err
	}
	attrs, err := reduce.Sum.Schema.Decode(nil, nil)
	return []tensor.Type{m}, attrs, err
})

// delegateOp defines an op that is another one on views of its operands. The views begin
// at the same elements.
func delegateOp[A any](o graph.Op, to *graph.Op, views func(c *graph.Call) ([]tensor.Type, any, error)) *graph.Op {
	o.Infer = func(c *graph.Call) ([]graph.Result, error) {
		types, a, err := views(c)
		if err != nil {
			return nil, err
		}
		return to.Infer(kit.Delegated(c, a, types...))
	}
	o.Compile = func(c *graph.Call) (*graph.Kernel, error) {
		types, a, err := views(c)
		if err != nil {
			return nil, err
		}
		k, err := to.Compile(kit.Delegated(c, a, types...))
		if k != nil {
			k.InPlace = nil // operands have other shapes than they are said to have
		}
		return k, err
	}
	o.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		types, a, err := views(c)
		if err != nil {
			return nil, err
		}
		if in, err = viewsOf(in, types...); err != nil {
			return nil, err
		}
		return to.Ref(kit.Delegated(c, a, types...), in)
	}
	return kit.Define[A](o)
}

// Numel is torch.numel as a value.
var Numel = kit.ElementOp[kit.None](graph.Op{
	Name: "numel", Doc: "Gives the number of self's elements, a 0-dim int64.", Params: []graph.Param{kit.Self}, Examples: kit.OneExample(kit.F32(2, 3), nil),
}, func(*graph.Call) (tensor.Type, error) { return tensor.NewType(tensor.Int64), nil },
	func(c *graph.Call) func(int, []*tensor.Tensor) tensor.Scalar {
		return func(int, []*tensor.Tensor) tensor.Scalar { return tensor.IntScalar(int64(c.Meta(0).Numel())) }
	})
