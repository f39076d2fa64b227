package multiply

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// Requantised scales and rounds a sum of products of bytes: times the scale, rounded to even, with the zero point, in
// the bounds of a dtype of a byte.
func Requantised(d tensor.DType, sum int32, scale float32, zero float64) int64 {
	v := math.RoundToEven(float64(float32(sum)*scale)) + zero
	least, most := byteBounds(d)
	if v != v {
		return 0
	}
	return int64(min(max(v, least), most))
}

// byteBounds are the least and the greatest number of a dtype of a byte.
func byteBounds(d tensor.DType) (least, most float64) {
	if d == tensor.Int8 {
		return math.MinInt8, math.MaxInt8
	}
	return 0, math.MaxUint8
}

// Finish is what a loop makes of sums of products of bytes, which are its first operand. Others follow in this order:
// of corrections, the factor of a row and those of columns; for a result of bytes the scale and the zero point. All but
// those of columns are the same for a row.
type Finish struct {
	// Rows adds the product of a number of the row and one of the column, both int32; Columns takes another such
	// product away.
	Rows, Columns bool
	// Scaled says that sums are scaled and rounded to D, by one scale for each column unless OneScale is set.
	Scaled, OneScale bool
	D                tensor.DType
}

// Loop makes the loop ready.
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
