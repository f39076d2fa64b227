package pool

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/geometry"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// columns describes equally spaced windows of a row. Window i begins at element first + i*step and has `taps` elements,
// which are dilation elements apart. There are `results` windows. Elements outside the row are padding. For example,
// windows of 3 elements with stride 2 and padding 1 have first -1, step 2, taps 3 and dilation 1.
type columns struct{ first, step, taps, dilation, results int }

// newColumns describes the windows of an axis. It returns false if the windows are not equally spaced, have no
// elements, or have much more padding than elements.
func newColumns(axis *geometry.Axis) (c columns, ok bool) {
	c = columns{step: 1, dilation: 1, results: axis.Results}
	first := axis.WindowAt(0)
	switch {
	case axis.Results == 1: // the taps of the only window that are inside the row
		c.first, c.taps, c.dilation = first.Start, first.Count(), max(1, first.Step)
	case axis.Adaptive: // equal windows without gaps, if the size is a multiple of their number
		if axis.Size%axis.Results != 0 {
			return c, false
		}
		c.taps, c.step = first.Count(), first.Count()
	default: // sliding windows
		c.first, c.taps, c.step, c.dilation = -axis.PadBefore, axis.Taps, axis.Stride, axis.Dilation
	}
	// Copies of rows with their padding must not be much longer than the rows of operand and results.
	isTooLong := kit.BoundedProduct(c.taps-1, c.dilation)+max(-c.first, 0) > 4*(axis.Size+axis.Results)
	return c, c.taps > 0 && !isTooLong
}

// fitOneLoop reports whether one loop can fold the windows of rows of the given dtype. A loop has at most maxLoopTaps
// operands. If step is 2, each window begins at a pair of elements, and an operand has the two taps of a pair. Only
// pairs of floats can be read as complex numbers.
func (c *columns) fitOneLoop(dtype tensor.DType) bool {
	return c.taps <= 2*maxLoopTaps && (c.step == 1 || c.step == 2 && dtype.IsFloat()) &&
		len(c.operands()) <= maxLoopTaps
}

// reach returns the distance from the first element of a window to its last element.
func (c *columns) reach() int { return (c.taps - 1) * c.dilation }

// operands returns the offsets of the operands of columnsLoop, in elements from the first element of a window. If step
// is 1, operand i has tap i of each window. If step is 2, an operand has pairs: two adjacent elements, which are read
// as a complex number. Two taps may share a pair: with dilation 1, three taps give the offsets 0 (taps 0 and 1) and 2
// (tap 2).
func (c *columns) operands() (list []int) {
	for tap := range c.taps {
		offset := tap * c.dilation / c.step * c.step // of the tap or, if step is 2, of its pair
		if len(list) == 0 || list[len(list)-1] != offset {
			list = append(list, offset)
		}
	}
	return list
}

// rowLoops has the loops of a pooling by planes. rowsLoop folds the rows of windows into a folded row, and columnsLoop
// folds the columns of windows in this row.
type rowLoops struct {
	*sizedPooling
	dtype, sumDType       tensor.DType // dtypes of elements and sums
	columns               columns
	rowsLoop, columnsLoop *loops.Loop
}

// newRowLoops compiles the loops of a pooling by planes. It returns nil for norms, and where there is no machine code.
// hasOneDivisor is set if all averages have the same divisor.
func newRowLoops(sized *sizedPooling, sumDType tensor.DType, windowRows int, cols columns,
	hasOneDivisor bool) (*rowLoops, error) {
	compiled := &rowLoops{sizedPooling: sized, dtype: sized.meta.DType, sumDType: sumDType, columns: cols}
	if !loops.CodeAvailable() || sized.kind == reduceNorm {
		return nil, nil
	}
	rowsExpr, err := compiled.newRowsLoop(windowRows)
	if err != nil {
		return nil, err
	}
	columnsExpr, err := compiled.newColumnsLoop(hasOneDivisor)
	if err != nil {
		return nil, err
	}
	if compiled.rowsLoop, err = loops.New(rowsExpr, loops.Options{}); err != nil || !compiled.rowsLoop.Compiled() {
		return nil, err
	}
	compiled.columnsLoop, err = loops.New(columnsExpr, loops.Options{})
	if err != nil || !compiled.columnsLoop.Compiled() {
		return nil, err
	}
	return compiled, nil
}

// newRowsLoop returns a loop that folds the given number of rows.
func (r *rowLoops) newRowsLoop(windowRows int) (*expr.Loop, error) {
	builder := expr.NewBuilder(slices.Repeat([]tensor.DType{r.dtype}, windowRows)...)
	folded := builder.Convert(r.sumDType, builder.Load(0))
	if r.kind == reduceAvg {
		folded = builder.Emit(expr.Add, builder.Const(r.sumDType, 0), folded) // -0 becomes 0, as in a sum that starts at 0
	}
	for row := 1; row < windowRows; row++ {
		folded = r.combine(builder, folded, builder.Convert(r.sumDType, builder.Load(row)))
	}
	code, err := builder.Build(builder.Real(folded))
	return &expr.Loop{Code: code, Uniform: make([]bool, windowRows)}, err
}

// newColumnsLoop returns a loop that folds the columns of windows in folded rows. For averages, the last operand is the
// divisor or its inverse (see multipliesByInverse). It is uniform, a scalar, if hasOneDivisor is set.
func (r *rowLoops) newColumnsLoop(hasOneDivisor bool) (*expr.Loop, error) {
	offsets := r.columns.operands()
	operandDType := r.sumDType
	if r.columns.step == 2 {
		operandDType = r.sumDType.ToComplex() // a pair
	}
	in := slices.Repeat([]tensor.DType{operandDType}, len(offsets))
	isUniform := make([]bool, len(offsets))
	if r.kind == reduceAvg {
		in, isUniform = append(in, r.sumDType), append(isUniform, hasOneDivisor)
	}
	builder := expr.NewBuilder(in...)
	tap := func(tapIndex int) expr.Value {
		column := tapIndex * r.columns.dilation
		operand, _ := slices.BinarySearch(offsets, column/r.columns.step*r.columns.step)
		if r.columns.step == 2 && column%2 == 1 {
			return builder.LoadImag(operand)
		}
		return builder.Load(operand)
	}
	folded := tap(0)
	for tapIndex := 1; tapIndex < r.columns.taps; tapIndex++ {
		folded = r.combine(builder, folded, tap(tapIndex))
	}
	if r.kind == reduceAvg {
		divide := expr.Div
		if multipliesByInverse(r.dtype, r.sumDType) {
			divide = expr.Mul
		}
		folded = builder.Emit(divide, folded, builder.Load(len(offsets))) // the operand after the taps
	}
	code, err := builder.Build(builder.Real(builder.Convert(r.dtype, folded)))
	return &expr.Loop{Code: code, Uniform: isUniform}, err
}

// combine returns the maximum or the sum of two values. Of equal values, such as 0 and -0, x is the maximum.
func (r *rowLoops) combine(builder *expr.Builder, x, y expr.Value) expr.Value {
	if r.kind == reduceMax {
		return builder.Emit(expr.Max, y, x)
	}
	return builder.Emit(expr.Add, x, y)
}

// listings returns the machine code of the loops.
func (r *rowLoops) listings() []expr.Listing {
	return []expr.Listing{r.rowsLoop.Listing("rows of windows"), r.columnsLoop.Listing("columns of windows")}
}
