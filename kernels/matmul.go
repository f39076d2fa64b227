package kernels

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Matmul is the product of vectors, matrices and batches of matrices.
var Matmul = define[none](graph.Op{
	AnyOrder: true,
	Name:     "matmul",
	Doc: "Multiplies matrices: [..., m, k] by [..., k, n] gives [..., m, n]. Batch dimensions broadcast. A vector " +
		"on the left is a row, on the right a column, and the dimension of size 1 is dropped from the result.",
	Params: []graph.Param{self, other},
	Infer:  inferBy(matmulType),
	Impls:  product(matmulOf),
	Flops:  productFlops,
	Ref:    productRef,
	Examples: []graph.Example{
		{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 1, 3, 4), tensor.New(tensor.Float32, 5, 4, 6)}},
		{In: []tensor.Meta{tensor.New(tensor.Float32, 3), tensor.New(tensor.Float32, 3)}},
		{In: []tensor.Meta{tensor.New(tensor.Float64, 3, 4).WithStrides([]int{1, 3}), tensor.New(tensor.Float64, 4)}},
		{In: []tensor.Meta{tensor.New(tensor.Int64, 1, 4), tensor.New(tensor.Int64, 2, 4, 3)}},
	},
})

// Mm is the product of two matrices.
var Mm = define[none](graph.Op{
	AnyOrder: true,
	Name:     "mm",
	Doc:      "Multiplies two matrices: [m, k] by [k, n] gives [m, n]. Nothing broadcasts.",
	Params:   []graph.Param{self, {Name: "mat2"}},
	Infer:    inferBy(mmType),
	Impls:    product(matmulOf),
	Flops:    productFlops,
	Ref:      productRef,
	Examples: []graph.Example{
		{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 3, 4).WithStrides([]int{1, 3})}},
		{In: []tensor.Meta{tensor.New(tensor.BFloat16, 2, 3), tensor.New(tensor.BFloat16, 3, 4)}},
	},
})

// Bmm is the product of two batches of matrices.
var Bmm = define[none](graph.Op{
	AnyOrder: true,
	Name:     "bmm",
	Doc:      "Multiplies two batches of matrices: [b, m, k] by [b, k, n] gives [b, m, n]. Nothing broadcasts.",
	Params:   []graph.Param{self, {Name: "mat2"}},
	Infer:    inferBy(func(a, b tensor.Type) (tensor.Type, error) { return bmmType("bmm", a, b) }),
	Impls:    product(matmulOf),
	Flops:    productFlops,
	Ref:      productRef,
	Examples: []graph.Example{{In: []tensor.Meta{
		tensor.New(tensor.Float32, 2, 3, 4).WithStrides([]int{4, 8, 1}), tensor.New(tensor.Float32, 2, 4, 5)}}},
})

// Mv is the product of a matrix and a vector.
var Mv = define[none](graph.Op{
	Name:     "mv",
	Doc:      "Multiplies a matrix by a vector: [m, k] by [k] gives [m].",
	Params:   []graph.Param{self, {Name: "vec"}},
	Infer:    inferBy(mvType),
	Impls:    product(matmulOf),
	Flops:    productFlops,
	Ref:      productRef,
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 3)}}},
})

// Dot is the inner product of two vectors.
var Dot = define[none](graph.Op{
	Name:     "dot",
	Doc:      "Sums the products of two vectors' elements: [k] and [k] give a 0-dim value.",
	Params:   []graph.Param{self, {Name: "tensor"}},
	Infer:    inferBy(dotType),
	Impls:    product(matmulOf),
	Flops:    productFlops,
	Ref:      productRef,
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3), tensor.New(tensor.Float32, 3)}}},
})

func inferBy(f func(a, b tensor.Type) (tensor.Type, error)) func(*graph.Call) ([]graph.Result, error) {
	return func(c *graph.Call) ([]graph.Result, error) {
		t, err := f(c.Type(0), c.Type(1))
		if err != nil {
			return nil, err
		}
		return graph.New1(t), nil
	}
}

// productOf reads a call of matmul or one of its special cases as a contraction.
func productOf(c *graph.Call, out tensor.Meta) (*contraction, error) {
	a, b := c.Meta(0), c.Meta(1)
	x := &contraction{m: 1, n: 1, opA: 0, opB: 1, alpha: tensor.IntScalar(1)}
	na, nb, no := a.Rank(), b.Rank(), out.Rank()
	x.k = a.Shape[na-1]
	x.a.col, x.b.row = a.Strides[na-1], b.Strides[max(nb-2, 0)]
	if nb > 1 {
		no--
		x.n, x.b.col, x.c.col = b.Shape[nb-1], b.Strides[nb-1], out.Strides[no]
	}
	if na > 1 {
		no--
		x.m, x.a.row, x.c.row = a.Shape[na-2], a.Strides[na-2], out.Strides[no]
	}
	x.batch, x.c.batch = out.Shape[:no], out.Strides[:no]
	var err error
	if x.a.batch, err = expandedStrides(a, max(na-2, 0), x.batch); err != nil {
		return nil, err
	}
	x.b.batch, err = expandedStrides(b, max(nb-2, 0), x.batch)
	return x, err
}

// expandedStrides returns the strides of a value's leading dimensions broadcast to a shape.
func expandedStrides(m tensor.Meta, dims int, shape []int) ([]int, error) {
	e, err := tensor.Meta{DType: m.DType, Shape: m.Shape[:dims], Strides: m.Strides[:dims]}.Expand(shape)
	for d, s := range e.Shape {
		if s == 1 {
			e.Strides[d] = 0
		}
	}
	// Expand numbers added dimensions as if they moved; they repeat.
	for d := range len(shape) - dims {
		e.Strides[d] = 0
	}
	return e.Strides, err
}

func matmulOf(c *graph.Call) (*contraction, error) { return productOf(c, c.Out[0]) }

func productFlops(c *graph.Call) float64 {
	x, err := productOf(c, c.Out[0])
	if err != nil {
		return 0
	}
	return x.flops()
}
