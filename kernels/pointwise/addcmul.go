package pointwise

import (
	"errors"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type valueAttrs struct {
	Value tensor.Scalar `attr:"value" default:"1" doc:"factor of the product or quotient"`
}

var tensors12 = []graph.Param{kit.Self, {Name: "tensor1"}, {Name: "tensor2"}}

// Addcmul is self + value * tensor1 * tensor2.
var Addcmul = elementwise[valueAttrs]("addcmul", "Adds value times tensor1 times tensor2 to self, all "+
	"broadcast together.", tensors12,
	&graph.Pointwise{Config: ternary, Body: scaledTernary("addcmul_cpu_out", true)},
	func(c *graph.Call) kit.ScalarFunc {
		v := kit.Attrs[valueAttrs](c).Value
		return kit.ByKind(
			func(x []int64) int64 { return x[0] + v.Int()*x[1]*x[2] },
			func(x []float64) float64 { return x[0] + v.Float()*x[1]*x[2] },
			func(x []complex128) complex128 { return x[0] + v.Complex()*x[1]*x[2] })
	},
	kit.Example(graph.Attrs{"value": 0.5}, kit.ExTurned, kit.ExRow, kit.ExMatrix),
	kit.Example(nil, kit.ExInts, kit.ExInts, kit.ExInts))

// Addcdiv is self + value * tensor1 / tensor2.
var Addcdiv = elementwise[valueAttrs]("addcdiv", "Adds value times tensor1 divided by tensor2 to self, all broadcast "+
	"together. Two integer tensors are refused.", tensors12,
	&graph.Pointwise{Config: checked(ternary, addcdivCheck), Body: scaledTernary("addcdiv_cpu_out", false)},
	func(c *graph.Call) kit.ScalarFunc {
		v := kit.Attrs[valueAttrs](c).Value
		return kit.ByKind(nil,
			func(x []float64) float64 { return x[0] + v.Float()*x[1]/x[2] },
			func(x []complex128) complex128 { return x[0] + v.Complex()*x[1]/x[2] })
	},
	kit.Example(graph.Attrs{"value": 0.5}, kit.ExTurned, kit.ExRow, kit.ExMatrix))

func addcdivCheck(c *graph.Call) error {
	if c.Type(1).DType.IsIntegral(true) && c.Type(2).DType.IsIntegral(true) {
		return errors.New("Integer division with addcdiv is no longer supported, and in a future  release addcdiv will " +
			"perform a true division of tensor1 and tensor2. " +
			"The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / " +
			"tensor2)).to(input.dtype) for integer inputs and as " +
			"(input + value * tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter " +
			"implementation: (input + value * tensor1 / tensor2), for all dtypes.")
	}
	return nil
}

// scaledTernary makes the loop of addcmul, or else of addcdiv.
func scaledTernary(label string, product bool) func(*graph.Call, *iter.Rule) (iter.Kernel, error) {
	return func(c *graph.Call, it *iter.Rule) (iter.Kernel, error) {
		v := kit.Attrs[valueAttrs](c).Value
		if err := kit.NumberFits(v, it.CommonDType()); err != nil {
			return iter.Kernel{}, err
		}
		switch d := it.DType(1); {
		case d == tensor.Float32:
			return scaledSlices(float32(v.Float()), product), nil
		case d == tensor.Float64:
			return scaledSlices(v.Float(), product), nil
		case d == tensor.Complex64:
			return scaledSlices(complex64(v.Complex()), product), nil
		case d == tensor.Complex128:
			return scaledSlices(v.Complex(), product), nil
		case d.IsIntegral(false) && product:
			return scaledInts(d, v.Int()), nil
		}
		return iter.Kernel{}, kit.NotImplementedBy(label, it.CommonDType())
	}
}

func scaledSlices[T number](v T, product bool) iter.Kernel {
	if product {
		return iter.Slice3(addcmulSlice(v))
	}
	return iter.Slice3(addcdivSlice(v))
}

func scaledInts(d tensor.DType, v int64) iter.Kernel {
	switch d {
	case tensor.Uint8:
		return iter.Slice3(addcmulSlice(uint8(v)))
	case tensor.Int8:
		return iter.Slice3(addcmulSlice(int8(v)))
	case tensor.Int16:
		return iter.Slice3(addcmulSlice(int16(v)))
	case tensor.Int32:
		return iter.Slice3(addcmulSlice(int32(v)))
	case tensor.Int64:
		return iter.Slice3(addcmulSlice(v))
	case tensor.Uint16:
		return iter.Slice3(addcmulSlice(uint16(v)))
	case tensor.Uint32:
		return iter.Slice3(addcmulSlice(uint32(v)))
	}
	return iter.Slice3(addcmulSlice(uint64(v)))
}

func addcmulSlice[T number](v T) func(dst, a, b, c []T) {
	return func(dst, a, b, c []T) {
		a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
		for i := range dst {
			dst[i] = a[i] + v*b[i]*c[i]
		}
	}
}

func addcdivSlice[T number](v T) func(dst, a, b, c []T) {
	return func(dst, a, b, c []T) {
		a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
		for i := range dst {
			dst[i] = a[i] + v*b[i]/c[i]
		}
	}
}
