package multiply

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Requantized converts a sum of products of bytes to the byte dtype d. It multiplies by the scale in float32, rounds
// ties to even, adds the zero point and clamps. NaN gives 0.
func Requantized(d tensor.DType, sum int32, scale float32, zeroPoint float64) int64 {
	v := math.RoundToEven(float64(float32(sum)*scale)) + zeroPoint
	least, most := byteBounds(d)
	if v != v {
		return 0
	}
	return int64(min(max(v, least), most))
}

// byteBounds returns the least and the greatest value of a byte dtype.
func byteBounds(d tensor.DType) (least, most float64) {
	if d == tensor.Int8 {
		return math.MinInt8, math.MaxInt8
	}
	return 0, math.MaxUint8
}

// SumConversion describes the loop that converts int32 sums of products of bytes to results. The operands of the loop
// are the sums, two int32 factors if Rows is set, two int32 factors if Columns is set, and the scale and the zero point
// if Scaled is set.
type SumConversion struct {
	// Rows adds a product of two factors to a sum: a factor of the sum's row and a factor of the sum's column. Columns
	// subtracts such a product. The factor of the row is the first of the two operands.
	Rows, Columns bool
	// Scaled multiplies sums by a scale and rounds them to D, as [Requantized] does. Each column has its own scale. If
	// OneScale is set, all columns have the same scale. Without Scaled, results are int32.
	Scaled, OneScale bool
	D                tensor.DType // int8 or uint8
}

// Loop compiles the loop.
func (f SumConversion) Loop() (*loops.Loop, error) {
	const i32 = tensor.Int32
	text, out := "s = sum", i32
	names, types, scalar := []string{"sum"}, []tensor.DType{i32}, []bool{false}
	operand := func(name string, d tensor.DType, forRow bool) {
		names, types, scalar = append(names, name), append(types, d), append(scalar, forRow)
	}
	if f.Rows {
		text += " + row * column"
		operand("row", i32, true)
		operand("column", i32, false)
	}
	if f.Columns {
		text += " - point * total"
		operand("point", i32, true)
		operand("total", i32, false)
	}
	if f.Scaled {
		least, most := byteBounds(f.D)
		out = f.D
		text += fmt.Sprintf("; v = rint(float32(s) * scale) + float32(zero); "+
			"%v(where(v == v, minimum(maximum(v, %v), %v), 0))", f.D, least, most)
		operand("scale", tensor.Float32, f.OneScale)
		operand("zero", f.D, true)
	} else {
		text += "; s"
	}
	return kit.FormulaLoop(text, names, types, scalar, out)
}
