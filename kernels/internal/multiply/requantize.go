package multiply

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Requantize converts a sum of products of bytes to the byte dtype d. It multiplies by the scale in float32, rounds
// ties to even, adds the zero point and clamps. NaN gives 0.
func Requantize(d tensor.DType, sum int32, scale float32, zeroPoint float64) int64 {
	v := math.RoundToEven(float64(float32(sum)*scale)) + zeroPoint
	lowest, highest := byteBounds(d)
	if v != v {
		return 0
	}
	return int64(min(max(v, lowest), highest))
}

// byteBounds returns the lowest and the greatest value of a byte dtype.
func byteBounds(d tensor.DType) (lowest, highest float64) {
	if d == tensor.Int8 {
		return math.MinInt8, math.MaxInt8
	}
	return 0, math.MaxUint8
}

// SumConversion describes the loop that converts int32 sums of products of bytes to results, in three optional steps.
// The operands of the loop are the sums, followed by the operands of each step.
type SumConversion struct {
	// AddsProduct: the loop adds row * column to each sum. Both operands are int32: a factor for each row and a factor
	// for each column.
	AddsProduct bool
	// SubtractsProduct: the loop subtracts a second product of the same kind.
	SubtractsProduct bool
	// Scaled: the loop scales the sums and rounds them to DType, as [Requantize] does. The operands are the scale, with
	// one element or one for each column, and the zero point. Without Scaled, results are int32.
	Scaled   bool
	OneScale bool         // whether all columns have the same scale
	DType    tensor.DType // int8 or uint8; used if Scaled is set
}

// Loop compiles the loop.
func (f SumConversion) Loop() (*loops.Loop, error) {
	const i32 = tensor.Int32
	formula, out := "s = sum", i32
	names, types, scalar := []string{"sum"}, []tensor.DType{i32}, []bool{false}
	operand := func(name string, d tensor.DType, perRow bool) { // perRow: the operand has one element for each row
		names, types, scalar = append(names, name), append(types, d), append(scalar, perRow)
	}
	if f.AddsProduct {
		formula += " + row * column"
		operand("row", i32, true)
		operand("column", i32, false)
	}
	if f.SubtractsProduct {
		formula += " - point * total"
		operand("point", i32, true)
		operand("total", i32, false)
	}
	if f.Scaled {
		lowest, highest := byteBounds(f.DType)
		out = f.DType
		formula += fmt.Sprintf("; v = rint(float32(s) * scale) + float32(zero); "+
			"%v(where(v == v, minimum(maximum(v, %v), %v), 0))", f.DType, lowest, highest)
		operand("scale", tensor.Float32, f.OneScale)
		operand("zero", f.DType, true)
	} else {
		formula += "; s"
	}
	return kit.FormulaLoop(formula, names, types, scalar, out)
}
