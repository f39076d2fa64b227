package view

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// ViewAsReal views complex numbers as pairs of real numbers. ViewAsComplex views pairs of real numbers as complex
// numbers.
var (
	ViewAsReal = kit.Define[*kit.EmptyAttrs](graph.Op{Semantics: graph.Semantics{
		Name: "view_as_real", Doc: "Views complex numbers as pairs of real ones along a new last dimension.",
		Params: []graph.Param{kit.Self}, Kind: graph.View,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			self := c.Type(0)
			if !self.DType.IsComplex() {
				return nil, errors.New("view_as_real is only supported for complex tensors")
			}
			return c.AliasResult(asReal(self), 0), nil
		},
		Ref: func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			meta := kit.KnownMeta(asReal(in[0].Meta.Type()))
			out := tensor.Zeros(meta.DType, meta.Shape...)
			kit.EachIndex(in[0].Shape, func(coords []int) {
				number := in[0].At(coords...).Complex()
				out.Set(tensor.FloatScalar(real(number)), append(slices.Clone(coords), 0)...)
				out.Set(tensor.FloatScalar(imag(number)), append(slices.Clone(coords), 1)...)
			})
			return []*tensor.Tensor{out}, nil
		},
		Examples: kit.OneExample(tensor.New(tensor.Complex64, 2, 3).WithStrides([]int{1, 2}), nil),
	}, Facts: graph.Facts{Parallel: kit.LoopsOverLeadingDims}})
	ViewAsComplex = kit.Define[*kit.EmptyAttrs](graph.Op{Semantics: graph.Semantics{
		Name: "view_as_complex",
		Doc: "Views pairs of real numbers along the last dimension as complex ones. It fails " +
			"if a copy is needed.",
		Params: []graph.Param{kit.Self}, Kind: graph.View,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			viewed, err := asComplex(c.Type(0))
			return c.AliasResult(viewed, 0), err
		},
		Ref: func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			viewed, err := asComplex(in[0].Meta.Type())
			if err != nil {
				return nil, err
			}
			meta := kit.KnownMeta(viewed)
			out := tensor.Zeros(meta.DType, meta.Shape...)
			kit.EachIndex(meta.Shape, func(coords []int) {
				re, im := in[0].At(append(slices.Clone(coords), 0)...).Float(), in[0].At(append(slices.Clone(coords), 1)...).Float()
				out.Set(tensor.ComplexScalar(complex(re, im)), coords...)
			})
			return []*tensor.Tensor{out}, nil
		},
		Examples: kit.OneExample(kit.F32(3, 4, 2), nil),
	}, Facts: graph.Facts{Parallel: kit.LoopsOverLeadingDims}})
)

// asReal returns the type of the result of view_as_real.
func asReal(self tensor.Type) tensor.Type {
	rank, two := self.Rank(), sym.Of(2)
	out := tensor.Type{DType: self.DType.ToReal(), Shape: kit.ReplaceSizes(self.Shape, rank, two),
		Strides: make([]sym.Int, rank+1), Offset: two.Mul(self.Offset)}
	for d, stride := range self.Strides {
		out.Strides[d] = two.Mul(stride)
	}
	out.Strides[rank] = sym.Of(1)
	return out
}

// asComplex returns the type of the result of view_as_complex, or PyTorch's error if the last dimension does not hold
// adjacent pairs.
func asComplex(self tensor.Type) (tensor.Type, error) {
	last, two := self.Rank()-1, sym.Of(2)
	if self.DType != tensor.Float32 && self.DType != tensor.Float64 {
		return self, fmt.Errorf("view_as_complex is only supported for float and double tensors, but got a tensor of "+
			"scalar type: %s", self.DType.TorchName())
	}
	switch {
	case last < 0:
		return self, errors.New("Input tensor must have one or more dimensions")
	case !kit.SizeIs(self.Shape[last], 2):
		return self, errors.New("Tensor must have a last dimension of size 2")
	case !kit.SizeIs(self.Strides[last], 1):
		return self, errors.New("Tensor must have a last dimension with stride 1")
	case !kit.SizeIs(self.Offset.Mod(two), 0):
		return self, errors.New("Tensor must have a storage_offset divisible by 2")
	}
	out := tensor.Type{DType: self.DType.ToComplex(), Shape: self.Shape[:last], Strides: make([]sym.Int, last),
		Offset: self.Offset.Div(two)}
	for d, stride := range self.Strides[:last] {
		if !kit.SizeIs(stride.Mod(two), 0) {
			return self, fmt.Errorf("Tensor must have a stride divisible by 2 for all but last dimension")
		}
		out.Strides[d] = stride.Div(two)
	}
	return out, nil
}

// Complex is torch.complex.
var Complex = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "complex", Doc: "Creates complex numbers from real and imaginary parts, which are broadcast.",
		Params: []graph.Param{{Name: "real"}, {Name: "imag"}},
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			dtype, other := call.Type(0).DType, call.Type(1).DType
			if !dtype.IsFloat() || dtype == tensor.BFloat16 || dtype == tensor.Float16 {
				return nil, fmt.Errorf("Expected both inputs to be Half, Float or Double tensors but got %s and %s",
					dtype.TorchName(), other.TorchName())
			}
			if dtype != other {
				return nil, fmt.Errorf("Expected object of scalar type %s but got scalar type %s for second argument",
					dtype.TorchName(), other.TorchName())
			}
			result, err := kit.FirstResultType(rule.New().Output(rule.UndefinedOutputOf(dtype.ToComplex())).
				Input(call.In[0].Operand()).Input(call.In[1].Operand()))
			return call.NewResult(result), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			shape, err := tensor.Broadcast(in[0].Shape, in[1].Shape)
			if err != nil {
				return nil, err
			}
			re, err := in[0].Expanded(shape)
			if err != nil {
				return nil, err
			}
			im, err := in[1].Expanded(shape)
			if err != nil {
				return nil, err
			}
			out := tensor.Zeros(in[0].DType.ToComplex(), shape...)
			kit.EachIndex(shape, func(coords []int) {
				out.Set(tensor.ComplexScalar(complex(re.At(coords...).Float(), im.At(coords...).Float())), coords...)
			})
			return []*tensor.Tensor{out}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 3).WithStrides([]int{1, 2}), kit.F32(3)}}},
	},
	Facts: graph.Facts{Parallel: graph.BroadcastLoops, WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{
		Compile: func(call *graph.Call) (*graph.Kernel, error) {
			// The result is viewed as real numbers. Operand i is copied to index i of the last dimension of this view.
			out := kit.KnownMeta(asReal(call.Out[0].Type()))
			if out.Numel() == 0 {
				return &graph.Kernel{}, nil
			}
			var jobs []copies.Job
			for i := range 2 {
				part, err := out.Select(out.Rank()-1, i)
				if err != nil {
					return nil, err
				}
				src := kit.InBuffer(call, i)
				expanded, err := src.Meta.Expand(part.Shape)
				if err != nil {
					return nil, err
				}
				const result = 0 // the index in Mem.Ptrs
				jobs = append(jobs, copies.Job{Dst: kit.PtrBuffer(result, part).Shifted(i*part.DType.Size(), part),
					Src: src.View(expanded)})
			}
			return copies.Kernel(jobs...), nil
		},
	},
})
