// Package lower generates device kernels. [Pointwise] compiles an expression over an iteration. [Rows] compiles an
// expression that folds rows. [Gather] compiles a gather. [Contraction] compiles a matrix product or a convolution.
//
// A kernel is made for one call: sizes and strides are constants in its code, and the addresses of operands are its
// parameters. Indices have 32 bits. A thread computes its index in each dimension by divisions by constants, which are
// compiled to multiplications and shifts. A thread computes several consecutive elements if operands are contiguous,
// with loads and stores of up to 16 bytes.
//
// A kernel's results are bit-identical to the results of expr.Code.Eval. Devices lack some operations: 16-bit floats,
// integers of less than 32 bits, fmod, and scaling by powers of 2. Conversions, minimum and maximum are undefined for
// some operands, such as NaN. Kernels replace all such operations by operations that every device defines. Elementary
// functions are expanded into primitive operations (package expr/expand).
package lower

import "errors"

// ErrUnsupported is wrapped by the errors for computations that a device cannot do exactly.
var ErrUnsupported = errors.New("not supported by the device")

// Target lists the operations that a device guarantees. Package conform tests them.
type Target struct {
	// Float64 is set if the device computes with float64.
	Float64 bool
	// These operations round once and correctly, in float32 and in float64.
	FMA32, Div32, Sqrt32 bool
	FMA64, Div64, Sqrt64 bool
	// Round64 is set if floor, ceil, trunc and rint of float64 are exact. In Mesa's lavapipe they are inexact: trunc does
	// not change numbers beyond 2^24, and rint rounds halves towards 0.
	Round64 bool
	// KeepsConstantZeros is set if the driver computes sums, differences, products, fused multiply-adds, quotients and
	// selections of floats with the constant 0 as written. It is not set for Mesa, which simplifies such operations and
	// thus changes NaN and the sign of 0.
	KeepsConstantZeros bool
	// MaxParams is the maximum number of addresses of a kernel.
	MaxParams int
}

// IEEE is a device that computes with float32 and float64 as IEEE 754 requires.
var IEEE = Target{Float64: true, FMA32: true, Div32: true, Sqrt32: true, FMA64: true, Div64: true, Sqrt64: true,
	Round64: true, KeepsConstantZeros: true, MaxParams: 32}
