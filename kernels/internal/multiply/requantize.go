package multiply

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// Requantized scales and rounds a sum of products of bytes: sum times scale, rounded to even, plus the zero point,
// clamped to a byte dtype.
func Requantized(d tensor.DType, sum int32, scale float32, zero float64) int64 {
	v := math.RoundToEven(float64(float32(sum)*scale)) + zero
	least, most := byteBounds(d)
	if v != v {
		return 0
	}
	return int64(min(max(v, least), most))
}

// byteBounds returns the least and the greatest number of a byte dtype.
func byteBounds(d tensor.DType) (least, most float64) {
	if d == tensor.Int8 {
		return math.MinInt8, math.MaxInt8
	}
	return 0, math.MaxUint8
}

// Finish is the loop that converts sums of products of bytes, its first operand, to results. The other operands follow
// in this order: for corrections, the factor of a row and those of columns; for byte results, the scale and the zero
// point. Operands other than those of columns are constant within a row.
type Finish struct {
	// Rows adds the product of an int32 of the row and an int32 of the column; Columns subtracts such a product.
	Rows, Columns bool
	// Scaled: sums are scaled and rounded to D, with one scale per column unless OneScale is set.
	Scaled, OneScale bool
	D                tensor.DType
}

// Loop prepares the loop.
func (f Finish) Loop() (*loops.Loop, error) {
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
	p, err := expr.Parse(text, names...)
	if err != nil {
		return nil, err
	}
	code, err := p.Code(types, expr.Typing{Out: []tensor.DType{out}})
	if err != nil {
		return nil, err
	}
	return loops.New(&expr.Loop{Code: code, Scalar: scalar}, loops.Options{})
}
