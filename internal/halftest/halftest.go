// Package halftest compares results in 16-bit floats with results in float32 and float64. Tests import it.
package halftest

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Format is a 16-bit format.
type Format struct {
	DType            tensor.DType
	digits, exponent int     // of the significand, of the least normal number
	Large            float64 // near the greatest
	Greatest         float64
}

// Formats has the 16-bit formats.
var Formats = []Format{
	{tensor.Float16, 11, -14, 30000, 65504},
	{tensor.BFloat16, 8, -126, 0x1p126, 0x1.fep127},
}

// Unit returns the distance of adjacent numbers of the format at x.
func (f Format) Unit(x float64) float64 {
	_, exponent := math.Frexp(x)
	return math.Ldexp(1, max(exponent-1, f.exponent)-f.digits+1)
}

// Tiny returns the least normal number.
func (f Format) Tiny() float64 { return math.Ldexp(1, f.exponent) }

// Round returns the number of the format that is nearest to x.
func (f Format) Round(x float64) tensor.Scalar {
	t := tensor.Zeros(f.DType)
	t.Set(tensor.FloatScalar(x))
	return t.At()
}

// Compare compares a result with that of float32 and of float64. It may differ by a number of units of the format, and
// by the error of float32, which the differences of these two measure: sums may have another order in 16 bits.
func (f Format) Compare(got, single, double *tensor.Tensor, units float64) error {
	if !slices.Equal(got.Shape, single.Shape) {
		return fmt.Errorf("shape %v, in float32 %v", got.Shape, single.Shape)
	}
	gots, singles, doubles := Float64s(got), Float64s(single), Float64s(double)
	worst := 0.0
	for i := range singles {
		if diff := math.Abs(singles[i] - doubles[i]); diff-diff == 0 {
			worst = max(worst, diff)
		}
	}
	for i, g := range gots {
		s, w := singles[i], doubles[i]
		sumBound := 16*math.Abs(s-w) + 4*worst
		var bound float64
		switch {
		case g == w || g == s || s != s || w != w:
			continue
		case got.DType == f.DType:
			if bound = units*f.Unit(w) + sumBound; math.IsInf(g, 0) && math.Abs(w)+bound > f.Greatest {
				bound = math.Inf(1)
			}
		case got.DType.IsFloat(): // a statistic in float32
			bound = 0x1p-20*math.Abs(w) + 0x1p-140 + sumBound
		case s != w:
			continue
		}
		lost := !(math.Abs(s-w) <= math.Abs(w)/64) // as sums overflow, or cancel
		if !lost && !(math.Abs(g-w) <= bound) {
			return fmt.Errorf("element %d is %v, want %v, in float32 %v", i, g, w, s)
		}
	}
	return nil
}

// Float64s returns the elements of a real tensor.
func Float64s(x *tensor.Tensor) []float64 {
	list, _ := tensor.ToSlice[float64](x.CopyTo(tensor.New(tensor.Float64, x.Shape...))) // the dtype is right
	return list
}
