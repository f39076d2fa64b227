// Package lower makes kernels for devices: of expressions over iterations ([Pointwise]), of expressions with folds over
// rows ([Rows]), of gathers ([Gather]), and of products and convolutions ([Contraction]).
//
// A kernel is made for one call: sizes and strides are constants in its code, and the addresses of operands are
// its parameters. Indices have 32 bits. Indices of dimensions are quotients by constants, which are computed as
// products. A thread computes several consecutive elements if operands are contiguous, with loads and stores of up to
// 16 bytes.
//
// Operations that devices do not have, or that they do not define for all operands, are computed by operations that all
// devices have, so that a kernel gives the bits of expr.Code.Eval: conversions, minimum and maximum, integers of less
// than 32 bits, 16-bit floats, fmod, scaling by powers of 2. Elementary functions are expanded into primitive
// operations (package expr/expand).
package lower

import (
	"errors"
	"fmt"
)

// ErrUnsupported is wrapped by the error for a computation that a device cannot do exactly.
var ErrUnsupported = errors.New("not supported by the device")

// Target states what a device promises.
type Target struct {
	// Float64 is set if the device computes with float64.
	Float64 bool
	// These operations round once and correctly, in float32 and in float64.
	FMA32, Div32, Sqrt32 bool
	FMA64, Div64, Sqrt64 bool
	// ConstantZeros is set if sums, products, quotients and selections of floats with the constant 0 are computed. Mesa
	// replaces some of them by operations that differ for NaN and in the sign of 0.
	ConstantZeros bool
	// MaxParams is the maximum number of addresses of a kernel.
	MaxParams int
}

// IEEE is a device that computes with float32 and float64 as IEEE 754 requires.
var IEEE = Target{Float64: true, FMA32: true, Div32: true, Sqrt32: true, FMA64: true, Div64: true, Sqrt64: true,
	ConstantZeros: true, MaxParams: 32}

func (s *scalars) unsupported(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("gpu: %s is %w", fmt.Sprintf(format, args...), ErrUnsupported)
	}
}
