package reduce

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/tensor"
)

// compileRows returns the kernel of what a call computes as an expression over rows; nil where it must be made
// otherwise.
func compileRows(c *graph.Call, rows func(c *graph.Call) (*graph.Rows, error)) (*graph.Kernel, error) {
	if c.Meta(0).Numel() == 0 {
		return nil, nil
	}
	r, err := rows(c)
	if r == nil || err != nil {
		return nil, err
	}
	return r.Compile(c)
}

// compileSuitedRows is compileRows of rows that suit: others would leave the cache between sweeps, or leave workers
// without one, and the kernel in phases cuts them.
func compileSuitedRows(c *graph.Call, rows func(c *graph.Call) (*graph.Rows, error)) (*graph.Kernel, error) {
	return compileRows(c, func(c *graph.Call) (*graph.Rows, error) {
		r, err := rows(c)
		if r == nil || err != nil || r.Unsuited(c.Meta(0).Shape) != "" {
			return nil, err
		}
		return r, nil
	})
}

// wholeRows is an expression with one result, of the operand's shape and dtype d.
func wholeRows(b *expr.Builder, mask []bool, in []int, y expr.Value, d tensor.DType) (*graph.Rows, error) {
	code, err := b.Build(folds.Result(b, folds.Real(y), d))
	if err != nil {
		return nil, err
	}
	return &graph.Rows{Mask: mask, In: in, Code: code}, nil
}

// maxFloat32Sum is the number of exponentials that are summed in float32, in [expr.Lanes] sums of at most 256: the
// error is that of a few roundings, and the loop goes over twice as many elements at a time.
const maxFloat32Sum = 256 * expr.Lanes

// softmaxRows is softmax of a line, converted to d first. Exponentials are of the dtype that computes; the sum of many
// is float64.
func softmaxRows(c *graph.Call, dim int, d tensor.DType, logs bool) (*graph.Rows, error) {
	b := expr.NewBuilder(c.Meta(0).DType)
	x := folds.Operand(b, 0, d).Re
	most := b.Reduce(expr.Max, x)
	e := b.Do(expr.Exp, b.Do(expr.Sub, x, most))
	mask := lineMask(c.Meta(0).Rank(), dim)
	few := folds.Count(c.Meta(0).Shape, mask) <= maxFloat32Sum
	if few && !logs { // a quotient of float32 that is rounded from float64's has the same bits
		f := b.Do(expr.Div, b.Const(b.DType(e), 1), b.Reduce(expr.Add, e))
		return wholeRows(b, mask, []int{0}, b.Do(expr.Mul, e, f), d)
	}
	var sum expr.Value
	if few {
		sum = folds.InFloat64(b, b.Reduce(expr.Add, e))
	} else {
		sum = b.Reduce(expr.Add, folds.InFloat64(b, e))
	}
	if logs {
		shift := b.Do(expr.Add, folds.InFloat64(b, most), b.Do(expr.Log, sum))
		return wholeRows(b, mask, []int{0}, b.Do(expr.Sub, folds.InFloat64(b, x), shift), d)
	}
	f := b.Convert(b.DType(x), b.Do(expr.Div, b.Const(tensor.Float64, 1), sum))
	return wholeRows(b, mask, []int{0}, b.Do(expr.Mul, e, f), d)
}

// normOperands loads the operand and the parameters that are given, and marks the last dims dimensions.
func normOperands(c *graph.Call, dims, params int) (b *expr.Builder, v [3]expr.Value, in []int, mask []bool) {
	var types []tensor.DType
	for i := range 1 + params {
		if c.Has(i) {
			types, in = append(types, c.Meta(i).DType), append(in, i)
		}
	}
	b = expr.NewBuilder(types...)
	loops := c.Meta(0).DType.OpMath()
	v = [3]expr.Value{expr.None, expr.None, expr.None}
	for k, i := range in {
		v[i] = b.Convert(loops, folds.Operand(b, k, types[k]).Re)
	}
	mask = make([]bool, c.Meta(0).Rank())
	for d := max(0, len(mask)-dims); d < len(mask); d++ {
		mask[d] = true
	}
	return b, v, in, mask
}

// rootOf returns 1/sqrt(v + eps) of a float64 in another dtype.
func rootOf(b *expr.Builder, v expr.Value, eps float64, d tensor.DType) expr.Value {
	const f64 = tensor.Float64
	return b.Convert(d, b.Do(expr.Div, b.Const(f64, 1), b.Do(expr.Sqrt, b.Do(expr.Add, v, b.Const(f64, eps)))))
}

// varRow returns the variance of a row of n and its mean, in float64.
func varRow(b *expr.Builder, x expr.Value, n, divisor float64) (v, mean expr.Value) {
	x = folds.InFloat64(b, x)
	mean = b.Do(expr.Div, folds.Total(b, x), b.Const(tensor.Float64, n))
	d := b.Do(expr.Sub, x, mean)
	return b.Do(expr.Div, folds.Total(b, b.Do(expr.Mul, d, d)), b.Const(tensor.Float64, divisor)), mean
}

// mostSquares is the longest row of float32 whose variance is taken from the mean of squares. Each addition may lose
// 2^-53 of what was added up before: rows of a million whose deviation is 1e-7 of their mean came out 100 times too
// small. Elements of 16 bits have no deviation that is so small beside their mean.
const mostSquares = 4096

// squaresRow is varRow of floats of up to 32 bits in one sweep, by the mean of squares. These are exact, so that the
// variance of a row of up to mostSquares is off by some 2^-53 of the squared mean. What is normalised by it is off by
// about as much because the mean is rounded to float32, as PyTorch's is, whose variance, too, is added up in float32. A
// variance of 0 may come out as a little more, which rows of one number do not show: they are 0 without their mean.
func squaresRow(b *expr.Builder, x expr.Value, n float64) (v, mean expr.Value) {
	x = folds.InFloat64(b, x)
	count := b.Const(tensor.Float64, n)
	mean = b.Do(expr.Div, folds.Total(b, x), count)
	square := b.Do(expr.Div, folds.Total(b, b.Do(expr.Mul, x, x)), count)
	return b.Do(expr.Max, b.Do(expr.Sub, square, b.Do(expr.Mul, mean, mean)), b.Const(tensor.Float64, 0)), mean
}

// normedRow is v[0], of operand 0, of a row of n less its mean, divided by its deviation, times v[1] and plus v[2], if
// given.
func normedRow(b *expr.Builder, v [3]expr.Value, n, eps float64) expr.Value {
	x := v[0]
	moments := func() (v, mean expr.Value) { return varRow(b, x, n, n) }
	few := n <= mostSquares || b.Operand(0).Size() == 2
	if b.DType(x) == tensor.Float32 && eps > 0 && few {
		moments = func() (v, mean expr.Value) { return squaresRow(b, x, n) }
	}
	square, mean := moments()
	y := b.Do(expr.Mul, b.Do(expr.Sub, x, b.Convert(b.DType(x), mean)), rootOf(b, square, eps, b.DType(x)))
	if v[1] != expr.None {
		y = b.Do(expr.Mul, y, v[1])
	}
	if v[2] != expr.None {
		y = b.Do(expr.Add, y, v[2])
	}
	return y
}
