package product

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// composite defines an op that applies the op `base`, with its default attributes, to views of its operands. views
// returns the types of these views: outer([3], [4]) is mul of the views [3, 1] and [4]. The op's Infer and Ref call
// the functions Infer and Ref of base.
func composite(op graph.Op, base *graph.Op, views func(c *graph.Call) ([]tensor.Type, error)) *graph.Op {
	// callOnViews returns the call of base, and the types of the views.
	callOnViews := func(c *graph.Call) (*graph.Call, []tensor.Type, error) {
		types, err := views(c)
		if err != nil {
			return nil, nil, err
		}
		defaults, err := base.Schema.Decode(nil, nil)
		return kit.DelegatedCall(c, defaults, types...), types, err
	}
	op.Infer = func(c *graph.Call) ([]graph.Result, error) {
		inner, _, err := callOnViews(c)
		if err != nil {
			return nil, err
		}
		return base.Infer(inner)
	}
	op.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		inner, types, err := callOnViews(c)
		if err != nil {
			return nil, err
		}
		if in, err = viewsOf(in, types...); err != nil {
			return nil, err
		}
		return base.Ref(inner, in)
	}
	return kit.DefineWith(kit.NoAttrs, op)
}

// viewsOf returns a view of each tensor with the shape and layout of the corresponding type.
func viewsOf(in []*tensor.Tensor, types ...tensor.Type) ([]*tensor.Tensor, error) {
	var out []*tensor.Tensor
	for i, viewType := range types {
		meta, _ := viewType.Meta()
		viewed, err := in[i].View(meta)
		if err != nil {
			return nil, err
		}
		out = append(out, viewed)
	}
	return out, nil
}

// Outer is torch.outer, the product of a column and a row.
var Outer = composite(graph.Op{
	Semantics: graph.Semantics{
		Name: "outer", Doc: "Multiplies each element of self by each element of `vec2`: [n] and [m] give [n, m].",
		Params:   []graph.Param{kit.Self, {Name: "vec2"}},
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3), kit.F32(4)}}},
	},
	Lowerings: graph.Lowerings{
		Decompose: func(p *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
			column, err := p.Add(view.Reshape, graph.Attrs{"shape": []int{-1, 1}}, c.In[0])
			if err != nil {
				return nil, err
			}
			return p.Add(pointwise.Mul, nil, graph.ArgOf(column[0]), c.In[1])
		},
	},
}, pointwise.Mul, outerViews)

// outerViews returns the types of the column and the row, for [composite].
func outerViews(c *graph.Call) ([]tensor.Type, error) {
	a, b := c.Type(0), c.Type(1)
	if a.Rank() != 1 || b.Rank() != 1 {
		return nil, fmt.Errorf("outer: Expected 1-D argument self and vec2, but got %d-D and %d-D", a.Rank(), b.Rank())
	}
	// PyTorch uses self.reshape, which gives other strides than unsqueeze if there are no elements.
	a, err := a.View([]sym.Int{sym.Of(-1), sym.Of(1)})
	return []tensor.Type{a, b}, err
}

// Trace is torch.trace, the sum of the diagonal.
var Trace = composite(graph.Op{
	Semantics: graph.Semantics{
		Name: "trace", Doc: "Sums the diagonal of a matrix.",
		Params: []graph.Param{kit.Self}, Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 4)}}},
	},
	Lowerings: graph.Lowerings{
		Decompose: func(p *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
			diagonal, err := p.Add(view.Diagonal, nil, c.In[0])
			if err != nil {
				return nil, err
			}
			return p.Add(reduce.Sum, nil, graph.ArgOf(diagonal[0]))
		},
	},
}, reduce.Sum, traceViews)

// traceViews returns the type of the diagonal, for [composite].
func traceViews(c *graph.Call) ([]tensor.Type, error) {
	matrixType := c.Type(0)
	if matrixType.Rank() != 2 {
		return nil, errors.New("trace: expected a matrix")
	}
	const offset, dim1, dim2 = 0, 0, 1
	diagonalType, err := matrixType.Diagonal(offset, dim1, dim2)
	return []tensor.Type{diagonalType}, err
}

// Numel is torch.numel: the number of elements, as a tensor.
var Numel = kit.ElementOp[*kit.EmptyAttrs](graph.Op{Semantics: graph.Semantics{
	Name: "numel", Doc: "Returns the number of self's elements, a 0-dim int64.", Params: []graph.Param{kit.Self},
	Examples: kit.OneExample(kit.F32(2, 3), nil),
}}, numelType, numelElement)

func numelType(*graph.Call) (tensor.Type, error) { return tensor.NewType(tensor.Int64), nil }

// numelElement returns the function that computes element i of the result, which has one element.
func numelElement(c *graph.Call) func(i int) tensor.Scalar {
	return func(int) tensor.Scalar { return tensor.IntScalar(int64(c.Meta(0).Numel())) }
}
