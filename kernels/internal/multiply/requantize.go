package multiply

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Requantize converts a sum of products of bytes to a byte dtype. It multiplies by the scale in float32, rounds
// ties to even, adds the zero point and clamps. NaN gives 0.
func Requantize(dtype tensor.DType, sum int32, scale float32, zeroPoint float64) int64 {
	scaled := math.RoundToEven(float64(float32(sum)*scale)) + zeroPoint
	lowest, highest := byteBounds(dtype)
	if scaled != scaled {
		return 0
	}
	return int64(min(max(scaled, lowest), highest))
}

// byteBounds returns the lowest and the greatest value of a byte dtype.
func byteBounds(dtype tensor.DType) (lowest, highest float64) {
	if dtype == tensor.Int8 {
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
	// SubtractsProduct: the loop subtracts a second product of the same kind, point * total.
	SubtractsProduct bool
	// IsScaled: the loop scales the sums and rounds them to DType, as [Requantize] does. The operands are the scale, with
	// one element or one for each column, and the zero point. Without IsScaled, results are int32.
	IsScaled    bool
	HasOneScale bool         // whether all columns have the same scale
	DType       tensor.DType // int8 or uint8; used if IsScaled is set
}

// Loop compiles the loop. It runs along the columns of a row.
func (conversion SumConversion) Loop() (*loops.Loop, error) {
	const i32, onePerRow, onePerColumn = tensor.Int32, true, false
	formula, out := "s = sum", i32
	names, types, isOnePerRow := []string{"sum"}, []tensor.DType{i32}, []bool{onePerColumn}
	addOperand := func(name string, d tensor.DType, isPerRow bool) {
		names, types, isOnePerRow = append(names, name), append(types, d), append(isOnePerRow, isPerRow)
	}
	if conversion.AddsProduct {
		formula += " + row * column"
		addOperand("row", i32, onePerRow)
		addOperand("column", i32, onePerColumn)
	}
	if conversion.SubtractsProduct { // of a zero point and the totals of the columns
		formula += " - point * total"
		addOperand("point", i32, onePerRow)
		addOperand("total", i32, onePerColumn)
	}
	if conversion.IsScaled {
		lowest, highest := byteBounds(conversion.DType)
		out = conversion.DType
		formula += fmt.Sprintf("; v = rint(float32(s) * scale) + float32(zero); "+
			"%v(where(v == v, minimum(maximum(v, %v), %v), 0))", conversion.DType, lowest, highest)
		addOperand("scale", tensor.Float32, conversion.HasOneScale)
		addOperand("zero", conversion.DType, onePerRow)
	} else {
		formula += "; s"
	}
	return kit.FormulaLoop(formula, names, types, isOnePerRow, out)
}
