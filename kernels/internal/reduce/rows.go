package reduce

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/tensor"
)

// This file builds expressions over rows. A builder collects the operations of an expression. The functions of package
// folds add folds (reductions of a row) and other common operations. For example, folds.Total is the sum of a row.

// rowsFunc returns the expression of a call over its rows, or nil if there is none. Rows are the elements along the
// reduced dimensions.
type rowsFunc func(c *graph.Call) (*graph.Rows, error)

// compileRows returns the machine code of the expression of a call. It returns nil if there is no expression or no
// machine code.
func compileRows(c *graph.Call, rows rowsFunc) (*graph.Kernel, error) {
	if c.Meta(0).Numel() == 0 {
		return nil, nil
	}
	expression, err := rows(c)
	if expression == nil || err != nil {
		return nil, err
	}
	return fusion.CompileRows(expression, c)
}

// compileSuitedRows is compileRows for suitable rows. It returns nil if rows do not stay in the cache between passes,
// or if there are too few rows for all workers. The op then needs another kernel, which divides rows.
func compileSuitedRows(c *graph.Call, rows rowsFunc) (*graph.Kernel, error) {
	return compileRows(c, suitedExpressions(rows))
}

// compileOrInterpretSuitedRows is like compileSuitedRows. Without machine code, its kernel interprets the expression.
// It is for ops that have no other kernel for suitable rows.
func compileOrInterpretSuitedRows(c *graph.Call, rows rowsFunc) (*graph.Kernel, error) {
	expression, err := suitedExpressions(rows)(c)
	if expression == nil || err != nil {
		return nil, err
	}
	return fusion.LowerRows(expression, c)
}

// suitedExpressions returns a function that calls rows, but returns nil for calls with unsuitable rows.
func suitedExpressions(rows rowsFunc) rowsFunc {
	return func(c *graph.Call) (*graph.Rows, error) {
		expression, err := rows(c)
		if expression == nil || err != nil || expression.UnsuitedReason(c.Meta(0).Shape) != "" {
			return nil, err
		}
		return expression, nil
	}
}

// singleResultRows returns an expression with a single result, which has the given dtype and the shape of operand 0.
// mask marks the reduced dimensions. operands has the indices of the operands that the builder loads.
func singleResultRows(builder *expr.Builder, mask []bool, operands []int, result expr.Value,
	dtype tensor.DType) (*graph.Rows, error) {
	code, err := builder.Build(folds.Result(builder, folds.Real(result), dtype))
	if err != nil {
		return nil, err
	}
	return &graph.Rows{Mask: mask, In: operands, Code: code}, nil
}

// softmaxRows returns the expression of softmax along dimension dim, or of log_softmax if isLog is set. The input is
// first converted to dtype. The sum of exponentials is a float64 if a line has many elements.
func softmaxRows(c *graph.Call, dim int, dtype tensor.DType, isLog bool) (*graph.Rows, error) {
	builder := expr.NewBuilder(c.Meta(0).DType)
	x := folds.Operand(builder, 0, dtype).Re
	mask := lineMask(c.Meta(0).Rank(), dim)
	n := folds.Count(c.Meta(0).Shape, mask)
	if !isLog {
		y, _ := folds.Softmax(builder, x, n)
		return singleResultRows(builder, mask, []int{0}, y, dtype) // []int{0}: it loads operand 0
	}
	// log(exp(x-max)/sum) = x - (max + log(sum))
	_, sum, maximum := folds.Exponentials(builder, x, n)
	shift := builder.Emit(expr.Add, folds.InFloat64(builder, maximum),
		builder.Emit(expr.Log, folds.InFloat64(builder, sum)))
	return singleResultRows(builder, mask, []int{0}, builder.Emit(expr.Sub, folds.InFloat64(builder, x), shift), dtype)
}

// normOperands starts the expression of a normalization over the last dims dimensions. It loads the input, operand 0,
// and the operands 1 to params if they are given: weight and bias. loaded[i] is the value of operand i, or None.
// operands has the indices of the loaded operands, and mask marks the last dims dimensions.
func normOperands(call *graph.Call, dims, params int) (builder *expr.Builder, loaded [3]expr.Value, operands []int,
	mask []bool) {
	var types []tensor.DType
	for i := range 1 + params {
		if call.HasOperand(i) {
			types, operands = append(types, call.Meta(i).DType), append(operands, i)
		}
	}
	builder = expr.NewBuilder(types...)
	loopDType := call.Meta(0).DType.OpMath()
	loaded = [3]expr.Value{expr.None, expr.None, expr.None}
	for position, i := range operands {
		loaded[i] = builder.Convert(loopDType, folds.Operand(builder, position, types[position]).Re)
	}
	mask = make([]bool, call.Meta(0).Rank())
	for d := max(0, len(mask)-dims); d < len(mask); d++ {
		mask[d] = true
	}
	return builder, loaded, operands, mask
}

// inverseRoot returns 1/sqrt(variance + eps), converted to dtype. variance is a float64.
func inverseRoot(builder *expr.Builder, variance expr.Value, eps float64, dtype tensor.DType) expr.Value {
	const f64 = tensor.Float64
	one := builder.Const(f64, 1)
	root := builder.Emit(expr.Sqrt, builder.Emit(expr.Add, variance, builder.Const(f64, eps)))
	return builder.Convert(dtype, builder.Emit(expr.Div, one, root))
}

// varianceAndMean returns the variance and the mean of a row of n elements, in float64: mean = sum(x)/n and
// variance = sum((x-mean)^2)/divisor.
func varianceAndMean(builder *expr.Builder, x expr.Value, n, divisor float64) (variance, mean expr.Value) {
	x = folds.InFloat64(builder, x)
	mean = builder.Emit(expr.Div, folds.Total(builder, x), builder.Const(tensor.Float64, n))
	deviation := builder.Emit(expr.Sub, x, mean)
	squares := folds.Total(builder, builder.Emit(expr.Mul, deviation, deviation))
	return builder.Emit(expr.Div, squares, builder.Const(tensor.Float64, divisor)), mean
}

const (
	// maxFloat32Squares is the maximum number of elements of a row whose squared deviations are summed in float32, as
	// PyTorch does. Such a row is read twice. This takes 3% to 7% more time than one pass (Zen 5).
	maxFloat32Squares = 1024
	// maxOnePass is the maximum number of elements of a longer row that is read once. The variance of such a row is
	// computed as the mean of squares minus the squared mean. The subtraction has an error of 2^-53 times the squared
	// mean. This matters only if the squared mean is at least 2^30 times the variance. A second pass would take 20%
	// more time (Zen 5, rows of 4,096 elements in the cache).
	maxOnePass = 4096
)

// centeredRow is a row of float32 and its mean.
type centeredRow struct {
	x           expr.Value // elements
	mean        expr.Value // float64
	roundedMean expr.Value // the mean rounded to float32
	deviations  expr.Value // x - roundedMean
}

// variance returns the variance of a row of n elements, as a float64. eps is the number that the caller adds to the
// variance.
func (row centeredRow) variance(builder *expr.Builder, n, eps float64) expr.Value {
	const f64 = tensor.Float64
	meanSquareOf := func(value expr.Value) expr.Value {
		sum := folds.InFloat64(builder, folds.Total(builder, builder.Emit(expr.Mul, value, value)))
		return builder.Emit(expr.Div, sum, builder.Const(f64, n))
	}
	// For any number a, the variance is the mean of (x-a)^2, minus offset^2 with offset = mean - a.
	var meanSquare, offset expr.Value
	sumsInFloat32 := n <= maxFloat32Squares
	if !sumsInFloat32 && n <= maxOnePass && eps > 0 { // a is 0. If eps is 0, the error matters for variances near 0
		meanSquare, offset = meanSquareOf(folds.InFloat64(builder, row.x)), row.mean
	} else { // a is roundedMean
		deviations := row.deviations
		if !sumsInFloat32 {
			deviations = folds.InFloat64(builder, deviations)
		}
		meanSquare = meanSquareOf(deviations)
		offset = builder.Emit(expr.Sub, row.mean, folds.InFloat64(builder, row.roundedMean))
	}
	difference := builder.Emit(expr.Sub, meanSquare, builder.Emit(expr.Mul, offset, offset))
	return builder.Emit(expr.Max, difference, builder.Const(f64, 0))
}

// standardizedRow returns (x - mean) / standard deviation for a row x of n elements. In float32, a term corrects the
// rounding error of the mean. Without this term, results of rows far from 0 would be inexact.
func standardizedRow(builder *expr.Builder, x expr.Value, n, eps float64) expr.Value {
	const f64 = tensor.Float64
	dtype := builder.DType(x)
	if dtype == f64 {
		variance, mean := varianceAndMean(builder, x, n, n)
		return builder.Emit(expr.Mul, builder.Emit(expr.Sub, x, mean), inverseRoot(builder, variance, eps, dtype))
	}
	// (x-mean)*scale = (x-roundedMean)*scale + (roundedMean-mean)*scale
	mean := builder.Emit(expr.Div, folds.Total(builder, folds.InFloat64(builder, x)), builder.Const(f64, n))
	roundedMean := builder.Convert(dtype, mean)
	deviations := builder.Emit(expr.Sub, x, roundedMean)
	row := centeredRow{x: x, mean: mean, roundedMean: roundedMean, deviations: deviations}
	scale := inverseRoot(builder, row.variance(builder, n, eps), eps, f64)
	correction := builder.Emit(expr.Mul, builder.Emit(expr.Sub, folds.InFloat64(builder, roundedMean), mean), scale)
	return builder.Emit(expr.FMA, deviations, builder.Convert(dtype, scale), builder.Convert(dtype, correction))
}

// affineNormRow returns y*weight + bias, where y is the standardizedRow of the input. A row has n elements. loaded has
// the input, the weight and the bias, as normOperands returns them. A weight or bias that is None is omitted.
func affineNormRow(builder *expr.Builder, loaded [3]expr.Value, n, eps float64) expr.Value {
	input, weight, bias := loaded[0], loaded[1], loaded[2]
	y := standardizedRow(builder, input, n, eps)
	switch {
	case weight != expr.None && bias != expr.None:
		return builder.Emit(expr.FMA, y, weight, bias)
	case weight != expr.None:
		return builder.Emit(expr.Mul, y, weight)
	case bias != expr.None:
		return builder.Emit(expr.Add, y, bias)
	}
	return y
}

// sampleNormRows returns the normalization of an operand [n, c, ...] as an expression. A row has c/groups channels of a
// sample, at all positions. If groups is 0, a row has one channel.
func sampleNormRows(c *graph.Call, groups int, eps float64) (*graph.Rows, error) {
	const params = 2 // weight and bias
	builder, loaded, operands, mask := normOperands(c, c.Meta(0).Rank()-2, params)
	shape, channelsPerRow := c.Meta(0).Shape, 1
	if groups != 0 {
		// The mask is for [n, groups, c/groups, ...]: the channels of a group are part of the row.
		mask = slices.Insert(mask, 2, true)
		channelsPerRow = shape[1] / groups
	}
	y := affineNormRow(builder, loaded, float64(channelsPerRow*tensor.Numel(shape[2:])), eps)
	rows, err := singleResultRows(builder, mask, operands, y, c.Meta(0).DType)
	if err != nil {
		return nil, err
	}
	rows.ChannelGroups = groups
	rows.Channels = make([]bool, len(operands)) // by operand: whether it has one element for each channel
	for i, operand := range operands {
		rows.Channels[i] = operand > 0 // weight and bias
	}
	return rows, nil
}
