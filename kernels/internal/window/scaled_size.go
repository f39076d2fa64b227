package window

import (
	"math"
	"math/big"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// ScaledSize returns the integer part of the float64 product size*factor, as PyTorch does, but at most tensor.MaxBytes.
// For a symbolic size, ScaledSize returns size*p/q rounded down, with integers p and q. For example, it returns N*3/5
// for a size N and the factor 0.6. It then records a guard, the condition that the size is in a range in which both
// formulas agree. If there are no such integers p and q, or if the hint of the size (a typical value) is outside the
// range, it fixes the symbolic size to the hint.
func ScaledSize(size sym.Int, factor float64) sym.Int { return binary64.scaledSize(size, factor) }

// ScaledSize32 is ScaledSize with the product in float32, as in ONNX. The factor must be a float32.
func ScaledSize32(size sym.Int, factor float64) sym.Int { return binary32.scaledSize(size, factor) }

// format is a format of floating-point numbers: the number of bits of the significand.
type format int

const (
	binary32 format = 24
	binary64 format = 53
)

// round rounds a number to the format. A float64 quotient or product of numbers of 24 bits rounds to float32 as the
// exact one does.
func (f format) round(number float64) float64 {
	if f == binary32 {
		return float64(float32(number))
	}
	return number
}

func (f format) scaledSize(size sym.Int, factor float64) sym.Int {
	if factor == 1 { // the size is kept, even if the format cannot hold it
		return size
	}
	if _, isKnown := size.Known(); isKnown {
		return sym.Of(f.scaledNumber(size.Hint(), factor))
	}
	if p, q, ok := f.ratio(factor); ok {
		least, greatest := f.agreeingSizes(size.Hint(), p, q, factor)
		isWithin := sym.BoolOf(true)
		if least > 0 {
			isWithin = size.Ge(sym.Of(least))
		}
		if greatest < tensor.MaxBytes { // greater sizes cannot occur
			isWithin = isWithin.And(size.Le(sym.Of(greatest)))
		}
		if isWithin.Holds() {
			return size.Mul(sym.Of(p)).Div(sym.Of(q))
		}
	}
	return sym.Of(f.scaledNumber(size.Specialize(), factor))
}

// scaledNumber implements scaledSize for a known size.
func (f format) scaledNumber(size int, factor float64) int {
	return int(min(f.round(f.round(float64(size))*factor), tensor.MaxBytes))
}

// ratio returns the first convergent p/q of the continued fraction of factor that rounds to factor in the format. For
// example, it returns 3/5 for 0.6. ok is false if p or q would exceed 2^36. Within this limit, products with usual
// sizes do not overflow.
func (f format) ratio(factor float64) (p, q int, ok bool) {
	remainder := new(big.Rat).SetFloat64(factor) // nil for infinities and NaN
	if remainder == nil || factor <= 0 {
		return 0, 0, false
	}
	const limit = min(1<<36, math.MaxInt/4)
	// The next p is quotient times the last p, plus the p before the last. The same formula gives the next q.
	p, q = 1, 0
	for previousP, previousQ := 0, 1; ; {
		whole := new(big.Int).Quo(remainder.Num(), remainder.Denom())
		if !whole.IsInt64() || whole.Int64() > limit {
			return 0, 0, false
		}
		quotient := int(whole.Int64())
		if p > 0 && quotient > limit/p || q > 0 && quotient > limit/q {
			return 0, 0, false
		}
		previousP, previousQ, p, q = p, q, quotient*p+previousP, quotient*q+previousQ
		if f.round(float64(p)/float64(q)) == factor {
			return p, q, p <= limit
		}
		remainder.Sub(remainder, new(big.Rat).SetInt(whole))
		if remainder.Sign() == 0 {
			return 0, 0, false
		}
		remainder.Inv(remainder)
	}
}

// agreeingSizes returns a range, least to greatest, of sizes around the given size in which two formulas agree: for
// each s in the range, s*p/q and the product s*factor in the format have the same integer part. If the formulas differ
// for the given size, the range does not contain it. factor is p/q rounded to the format, which has b bits.
//
// The relative difference of s*factor and s*p/q is less than 2/2^b. Therefore the absolute difference is less than 1/q
// for sizes less than 2^(b-1)/p. Hence the integer parts differ only if two conditions hold. First, s*p/q is an
// integer, so s is a multiple of q. Second, s*factor is less than this integer. The second condition requires factor <
// (p/q)*(1 - 1/2^(b+1)), because s*factor otherwise rounds to the integer.
func (f format) agreeingSizes(size, p, q int, factor float64) (least, greatest int) {
	greatest = int(min(1<<(f-1)/int64(p), math.MaxInt))
	exact := big.NewRat(int64(p), int64(q))
	shortfall := new(big.Rat).Sub(exact, new(big.Rat).SetFloat64(factor))
	if shortfall.Cmp(new(big.Rat).Mul(exact, big.NewRat(1, 1<<(f+1)))) <= 0 {
		return 0, greatest
	}
	const limit = 1 << 12 // multiples of q to test on each side
	// Below and above size, the range ends before the first multiple of q at which the formulas differ.
	agrees := func(multiple int) bool { return f.scaledNumber(multiple, factor) == multiple/q*p }
	for multiple, i := size/q*q, 0; multiple > 0; multiple, i = multiple-q, i+1 {
		if !agrees(multiple) || i == limit {
			least = multiple + 1
			break
		}
	}
	for multiple, i := (size/q+1)*q, 0; multiple <= greatest; multiple, i = multiple+q, i+1 {
		if !agrees(multiple) || i == limit {
			greatest = multiple - 1
			break
		}
	}
	return least, greatest
}
