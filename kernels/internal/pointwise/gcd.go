package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The greatest common divisor and the least common multiple. They are loops in Go, because expressions have no loops.
var (
	Gcd = divisorOp("gcd", "Returns the greatest common divisor of self and `other`. Supports integers.", gcdRef,
		kernelTable{
			tensor.Int8: mapPairs(gcd[int8]), tensor.Int16: mapPairs(gcd[int16]), tensor.Int32: mapPairs(gcd[int32]),
			tensor.Int64: mapPairs(gcd[int64]), tensor.Uint8: mapPairs(gcd[uint8]),
		})
	Lcm = divisorOp("lcm", "Returns the least common multiple of self and `other`, 0 if one of them is 0. Supports "+
		"integers.", lcmRef,
		kernelTable{
			tensor.Int8: mapPairs(lcm[int8, int32]), tensor.Int16: mapPairs(lcm[int16, int32]),
			tensor.Int32: mapPairs(lcm[int32, int32]), tensor.Int64: mapPairs(lcm[int64, int64]),
			tensor.Uint8: mapPairs(lcm[uint8, int32]),
		})
)

// divisorOp defines an op on pairs of integers by its kernels and its reference function. Overflow wraps.
func divisorOp(name, doc string, reference func(dtype tensor.DType, a, b int64) int64, kernels kernelTable) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, binaryParams,
		&graph.Pointwise{Grain: machine.FunctionGrain, Config: binary, Body: bodyByDType(name, kernels)},
		kit.IgnoringCall(func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
			return tensor.IntScalar(reference(dtype, x[0].Int(), x[1].Int()))
		}), kit.IntegersExample)
}

// mapPairs returns the kernel that computes f for each pair of elements.
func mapPairs[T integer](f func(a, b T) T) rule.Kernel {
	return iter.Slice2(func(dst, a, b []T) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = f(a[i], b[i])
		}
	})
}

// gcd is calc_gcd of PyTorch. The result may be negative, because the magnitude of the most negative integer wraps to
// that integer.
func gcd[T integer](a, b T) T {
	a, b = absolute(a), absolute(b)
	for a != 0 {
		a, b = b%a, a
	}
	return b
}

// lcm returns |a / gcd(a, b) * b|, computed in the type P: C++ promotes small integers to int32.
func lcm[T, P integer](a, b T) T {
	divisor := gcd(a, b)
	if divisor == 0 {
		return 0
	}
	return T(absolute(P(a) / P(divisor) * P(b)))
}

func absolute[T integer](a T) T {
	if a < 0 {
		return -a
	}
	return a
}

// gcdRef is the reference of gcd for integers of the given dtype. It computes in int64, but the magnitude of the
// dtype's most negative integer wraps as in gcd.
func gcdRef(dtype tensor.DType, a, b int64) int64 {
	a, b = absolute(a), absolute(b)
	if dtype != tensor.Uint8 {
		overflow := int64(1) << (8*dtype.Size() - 1) // the magnitude that the dtype cannot represent
		if a == overflow {
			a = -a
		}
		if b == overflow {
			b = -b
		}
	}
	if a == 0 {
		return b
	}
	for b%a != 0 {
		a, b = b%a, a
	}
	return a
}

// lcmRef is the reference of lcm.
func lcmRef(dtype tensor.DType, a, b int64) int64 {
	divisor := gcdRef(dtype, a, b)
	if divisor == 0 {
		return 0
	}
	multiple := a / divisor * b
	if dtype == tensor.Int32 {
		multiple = int64(int32(multiple))
	}
	return absolute(multiple)
}
