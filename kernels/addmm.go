package kernels

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type addmmAttrs struct {
	Beta  tensor.Scalar `attr:"beta" default:"1" doc:"factor of self; 0 leaves self unread"`
	Alpha tensor.Scalar `attr:"alpha" default:"1" doc:"factor of the product"`
}

// Addmm is beta*self + alpha*(mat1 @ mat2).
var Addmm = define[addmmAttrs](graph.Op{
	AnyOrder: true,
	Name:     "addmm",
	Doc:      "Multiplies two matrices and adds self: [m, k] by [k, n], with self broadcast to [m, n].",
	Params:   []graph.Param{self, {Name: "mat1"}, {Name: "mat2"}},
	Infer:    inferSum(addmmType),
	Impls:    product(sumOf),
	Flops:    sumFlops,
	Ref:      sumRef,
	Examples: []graph.Example{
		{In: []tensor.Meta{tensor.New(tensor.Float32, 4), tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 3, 4)}},
		{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 4).WithStrides([]int{1, 2}), tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 3, 4)},
			Attrs: graph.Attrs{"beta": 0.5, "alpha": 2.0}},
	},
})

// Baddbmm is beta*self + alpha*(batch1 @ batch2).
var Baddbmm = define[addmmAttrs](graph.Op{
	AnyOrder: true,
	Name:     "baddbmm",
	Doc:      "Multiplies two batches of matrices and adds self: [b, m, k] by [b, k, n], with self broadcast to [b, m, n].",
	Params:   []graph.Param{self, {Name: "batch1"}, {Name: "batch2"}},
	Infer:    inferSum(baddbmmType),
	Impls:    product(sumOf),
	Flops:    sumFlops,
	Ref:      sumRef,
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 1, 5),
		tensor.New(tensor.Float32, 2, 3, 4), tensor.New(tensor.Float32, 2, 4, 5)}, Attrs: graph.Attrs{"beta": 2}}},
})

func addmmType(s, a, b tensor.Type) (tensor.Type, error) {
	switch {
	case s.DType != b.DType:
		return tensor.Type{}, errors.New("self and mat2 must have the same dtype")
	case a.DType != b.DType:
		return tensor.Type{}, errors.New("mat1 and mat2 must have the same dtype")
	case a.Rank() != 2:
		return tensor.Type{}, fmt.Errorf("mat1 must be a matrix, got %d-D tensor", a.Rank())
	case b.Rank() != 2:
		return tensor.Type{}, fmt.Errorf("mat2 must be a matrix, got %d-D tensor", b.Rank())
	}
	if err := multipliable(a, b); err != nil {
		return tensor.Type{}, err
	}
	m, k, n := a.Shape[0], a.Shape[1], b.Shape[1]
	if _, err := s.Expand([]sym.Int{m, n}); err != nil {
		return tensor.Type{}, err
	}
	return tensor.NewType(a.DType, m, n), productServes("addmm_impl_cpu_", a.DType, b.DType, m, k, n)
}

// baddbmmType broadcasts self before it looks at the other operands.
func baddbmmType(s, a, b tensor.Type) (tensor.Type, error) {
	shape := make([]sym.Int, 3)
	for d, m := range []tensor.Type{a, a, b} {
		if m.Rank() == 0 {
			return tensor.Type{}, fmt.Errorf("Dimension specified as %d but tensor has no dimensions", d)
		}
		i, err := tensor.WrapDim(d, m.Rank())
		if err != nil {
			return tensor.Type{}, err
		}
		shape[d] = m.Shape[i]
	}
	if _, err := s.Expand(shape); err != nil {
		return tensor.Type{}, err
	}
	return bmmType("baddbmm", a, b)
}

func inferSum(f func(s, a, b tensor.Type) (tensor.Type, error)) func(*graph.Call) ([]graph.Result, error) {
	return func(c *graph.Call) ([]graph.Result, error) {
		t, err := f(c.Type(0), c.Type(1), c.Type(2))
		if err != nil {
			return nil, err
		}
		at := attrs[addmmAttrs](c)
		if t.DType == tensor.Bool && t.Numel().Ne(sym.Int{}).Holds() {
			// Only a product without terms comes here: it is self times beta.
			return nil, fmt.Errorf("result type %s can't be cast to the desired output type Bool", at.Beta.DType().TorchName())
		}
		for _, v := range []tensor.Scalar{at.Beta, at.Alpha} {
			if v.DType().IsComplex() && !t.DType.IsComplex() {
				return nil, fmt.Errorf("value cannot be converted to type %s without overflow", cppName(t.DType))
			}
		}
		return graph.New1(t), nil
	}
}

// sumOf reads a call of addmm or baddbmm as a contraction.
func sumOf(c *graph.Call) (*contraction, error) {
	at, out := attrs[addmmAttrs](c), c.Out[0]
	s, a, b := c.Meta(0), c.Meta(1), c.Meta(2)
	lead := out.Rank() - 2
	x := &contraction{opA: 1, opB: 2, opAdd: 0, hasAdd: true, alpha: at.Alpha, beta: at.Beta,
		batch: out.Shape[:lead], m: out.Shape[lead], n: out.Shape[lead+1], k: a.Shape[lead+1],
		a: matricesOf(a), b: matricesOf(b), c: matricesOf(out)}
	e, err := s.Expand(out.Shape)
	if err != nil {
		return nil, err
	}
	x.add = addendOf(s, e)
	return x, nil
}

// matricesOf takes the last two dimensions as those of matrices.
func matricesOf(m tensor.Meta) matrices {
	lead := m.Rank() - 2
	return matrices{m.Strides[:lead], m.Strides[lead], m.Strides[lead+1]}
}

// addendOf reads an expanded addend. Expand numbers the dimensions that it adds as if they
// moved; they repeat.
func addendOf(m, expanded tensor.Meta) matrices {
	for d := range expanded.Rank() - m.Rank() {
		expanded.Strides[d] = 0
	}
	for d, s := range expanded.Shape {
		if s == 1 {
			expanded.Strides[d] = 0
		}
	}
	return matricesOf(expanded)
}

func sumFlops(c *graph.Call) float64 {
	x, err := sumOf(c)
	if err != nil {
		return 0
	}
	return x.flops() + 2*float64(x.entries()*x.m*x.n)
}

// cppName is the C++ type of an element, which some messages of PyTorch print.
func cppName(d tensor.DType) string {
	switch d {
	case tensor.Bool:
		return "bool"
	case tensor.Uint8:
		return "unsigned char"
	case tensor.Int8:
		return "signed char"
	case tensor.Int16:
		return "short int"
	case tensor.Int32:
		return "int"
	case tensor.Int64:
		return "long int"
	case tensor.Float16:
		return "c10::Half"
	case tensor.BFloat16:
		return "c10::BFloat16"
	case tensor.Float32:
		return "float"
	case tensor.Float64:
		return "double"
	case tensor.Complex64:
		return "c10::complex<float>"
	case tensor.Complex128:
		return "c10::complex<double>"
	}
	return d.String()
}
