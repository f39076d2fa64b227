package kernels

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// ViewAsReal and ViewAsComplex show complex numbers as pairs and pairs as complex numbers.
var (
	ViewAsReal = define[none](graph.Op{
		Name: "view_as_real", Doc: "Shows complex numbers as pairs of real ones along a new last dimension.", Params: []graph.Param{self}, Kind: graph.View,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			m := c.Meta(0)
			if !m.DType.IsComplex() {
				return nil, errors.New("view_as_real is only supported for complex tensors")
			}
			return []graph.Result{{Meta: asReal(m), Alias: 0}}, nil
		},
		Ref: func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			m := asReal(in[0].Meta)
			out := tensor.Zeros(m.DType, m.Shape...)
			eachIndex(in[0].Shape, func(at []int) {
				v := in[0].At(at...).Complex()
				out.Set(tensor.FloatScalar(real(v)), append(slices.Clone(at), 0)...)
				out.Set(tensor.FloatScalar(imag(v)), append(slices.Clone(at), 1)...)
			})
			return []*tensor.Tensor{out}, nil
		},
		Examples: oneExample(tensor.New(tensor.Complex64, 2, 3).WithStrides([]int{1, 2}), nil),
	})
	ViewAsComplex = define[none](graph.Op{
		Name: "view_as_complex", Doc: "Shows pairs of real numbers along the last dimension as complex ones. Refused where only a copy could.", Params: []graph.Param{self}, Kind: graph.View,
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			m, err := asComplex(c.Meta(0))
			return []graph.Result{{Meta: m, Alias: 0}}, err
		},
		Ref: func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			m, err := asComplex(in[0].Meta)
			if err != nil {
				return nil, err
			}
			out := tensor.Zeros(m.DType, m.Shape...)
			eachIndex(m.Shape, func(at []int) {
				re, im := in[0].At(append(slices.Clone(at), 0)...).Float(), in[0].At(append(slices.Clone(at), 1)...).Float()
				out.Set(tensor.ComplexScalar(complex(re, im)), at...)
			})
			return []*tensor.Tensor{out}, nil
		},
		Examples: oneExample(f32(3, 4, 2), nil),
	})
)

func asReal(m tensor.Meta) tensor.Meta {
	out := tensor.Meta{DType: m.DType.ToReal(), Shape: append(slices.Clone(m.Shape), 2), Offset: 2 * m.Offset}
	for _, s := range m.Strides {
		out.Strides = append(out.Strides, 2*s)
	}
	out.Strides = append(out.Strides, 1)
	return out
}

func asComplex(m tensor.Meta) (tensor.Meta, error) {
	n := m.Rank() - 1
	if m.DType != tensor.Float32 && m.DType != tensor.Float64 {
		return m, fmt.Errorf("view_as_complex is only supported for float and double tensors, but got a tensor of scalar type: %s", m.DType.TorchName())
	}
	switch {
	case n < 0:
		return m, errors.New("Input tensor must have one or more dimensions")
	case m.Shape[n] != 2:
		return m, errors.New("Tensor must have a last dimension of size 2")
	case m.Strides[n] != 1:
		return m, errors.New("Tensor must have a last dimension with stride 1")
	case m.Offset%2 != 0:
		return m, errors.New("Tensor must have a storage_offset divisible by 2")
	}
	out := tensor.Meta{DType: m.DType.ToComplex(), Shape: m.Shape[:n], Strides: make([]int, n), Offset: m.Offset / 2}
	for d, s := range m.Strides[:n] {
		if s%2 != 0 {
			return m, fmt.Errorf("Tensor must have a stride divisible by 2 for all but last dimension")
		}
		out.Strides[d] = s / 2
	}
	return out, nil
}

// Complex is torch.complex.
var Complex = define[none](graph.Op{
	Name: "complex", Doc: "Makes complex numbers of real and imaginary parts, which broadcast together.",
	Params: []graph.Param{{Name: "real"}, {Name: "imag"}},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		d := c.Meta(0).DType
		if !d.IsFloat() || d == tensor.BFloat16 || d == tensor.Float16 {
			return nil, fmt.Errorf("Expected both inputs to be Half, Float or Double tensors but got %s and %s", d.TorchName(), c.Meta(1).DType.TorchName())
		}
		if d != c.Meta(1).DType {
			return nil, fmt.Errorf("Expected object of scalar type %s but got scalar type %s for second argument", d.TorchName(), c.Meta(1).DType.TorchName())
		}
		m, err := laidOut(iter.New().Output(iter.UndefinedOf(d.ToComplex())).Input(c.In[0].Operand()).Input(c.In[1].Operand()))
		return graph.New1(m), err
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		out := asReal(c.Out[0])
		if out.Numel() == 0 {
			return &graph.Kernel{}, nil
		}
		var jobs []copyJob
		for i := range 2 {
			part, err := out.Select(out.Rank()-1, i)
			if err != nil {
				return nil, err
			}
			src := inSide(c, i)
			e, err := src.meta.Expand(part.Shape)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, copyJob{dst: side{at: 0, off: i * part.DType.Size(), meta: part}, src: src.show(e)})
		}
		return copyKernel(jobs...)
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
		eachIndex(shape, func(at []int) {
			out.Set(tensor.ComplexScalar(complex(re.At(at...).Float(), im.At(at...).Float())), at...)
		})
		return []*tensor.Tensor{out}, nil
	},
	Examples: []graph.Example{{In: []tensor.Meta{f32(2, 3).WithStrides([]int{1, 2}), f32(3)}}},
})
