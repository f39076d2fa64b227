package pool

import (
	"encoding/binary"
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

const (
	// maxLoopTaps is the maximum number of taps of a window that a single loop folds. Each tap is an operand, and a loop
	// has at most expr.MaxOperands operands.
	maxLoopTaps = 20
	// tapsPerPartialLoop is the number of taps that each loop folds if a window has more than maxLoopTaps taps. A loop
	// then also has the partial result of earlier loops as an operand.
	tapsPerPartialLoop = 16
)

// tapLoops folds (reduces) windows by compiled loops. A tap is an element of a window. Taps are folded in row-major
// order, whether one loop or several loops fold them. A neutral element (0 for sums, the lowest value for maxima)
// replaces each tap outside the operand. It also fills the unused taps of the last loop. The embedded sizedPooling
// describes the call, and its foldSpec the reduction. For example, these are the loops for averages:
//
//	9 taps:   firstLoop: (tap 0 + ... + tap 8) / divisor
//	25 taps:  firstLoop: tap 0 + ... + tap 15
//	          nextLoop: partial sum + tap 16 + ... + tap 24 + 7 zeros
//	          divideLoop: sum / divisor
type tapLoops struct {
	*sizedPooling
	dtype, sumDType tensor.DType // dtypes of elements and sums
	tapsPerLoop     int          // number of taps that each of firstLoop and nextLoop folds
	hasSingleLoop   bool         // whether firstLoop folds all taps
	firstLoop       *loops.Loop  // folds the first taps of windows
	nextLoop        *loops.Loop  // folds more taps
	divideLoop      *loops.Loop  // divides sums
}

// newTapLoops compiles the loops of a pooling. It returns nil for norms, for indices of maxima over more than
// maxLoopTaps taps, and where there is no machine code.
func newTapLoops(p *sizedPooling) (*tapLoops, error) {
	dtype := p.meta.DType
	compiled := &tapLoops{sizedPooling: p, dtype: dtype, sumDType: dtype.OpMath(), tapsPerLoop: p.taps,
		hasSingleLoop: p.taps <= maxLoopTaps}
	if !loops.CodeAvailable() || p.kind == reduceNorm || p.returnsIndices && !compiled.hasSingleLoop {
		return nil, nil
	}
	if !compiled.hasSingleLoop {
		compiled.tapsPerLoop = tapsPerPartialLoop
		if dtype.IsFloat() && p.kind == reduceAvg { // maxima need no more bits
			compiled.sumDType = tensor.Float64
		}
	}
	for _, spec := range []struct {
		loop             **loops.Loop // the field to set
		taps             int
		isFirst, divides bool // as in buildLoop
		isNeeded         bool
	}{
		{loop: &compiled.firstLoop, taps: compiled.tapsPerLoop, isFirst: true,
			divides: compiled.hasSingleLoop && p.kind == reduceAvg, isNeeded: true},
		{loop: &compiled.nextLoop, taps: compiled.tapsPerLoop, isNeeded: !compiled.hasSingleLoop},
		{loop: &compiled.divideLoop, divides: true, isNeeded: !compiled.hasSingleLoop && p.kind == reduceAvg},
	} {
		if !spec.isNeeded {
			continue
		}
		code, err := compiled.buildLoop(spec.taps, spec.isFirst, spec.divides)
		if err != nil {
			return nil, err
		}
		if *spec.loop, err = loops.New(code, loops.Options{}); err != nil || !(*spec.loop).Compiled() {
			return nil, err
		}
	}
	return compiled, nil
}

// buildLoop returns the loop that folds the given number of taps. isFirst means that no loop precedes this loop.
// divides means that the loop divides the sums. The operands are the partial result of earlier loops (if there are
// any), the taps, and at most one scalar. This scalar is the divisor if divides is set, or the index of the first tap
// for maxima with indices.
func (t *tapLoops) buildLoop(taps int, isFirst, divides bool) (*expr.Loop, error) {
	var in []tensor.DType
	var isScalarOperand []bool
	const asScalar, asRow = true, false // a row has an element for each result
	add := func(dtype tensor.DType, isScalar bool) int {
		in, isScalarOperand = append(in, dtype), append(isScalarOperand, isScalar)
		return len(in) - 1
	}
	if !isFirst {
		add(t.partialDType(), asRow)
	}
	firstTap := len(in)
	for range taps {
		add(t.dtype, asRow)
	}
	scalarOperand := -1 // there is none
	switch {
	case t.returnsIndices:
		scalarOperand = add(tensor.Int64, asScalar)
	case divides:
		scalarOperand = add(t.sumDType, asScalar)
	}
	builder := expr.NewBuilder(in...)
	tap := func(k int) expr.Value { return builder.Convert(t.sumDType, builder.Load(firstTap+k)) }
	var out []expr.Output
	switch {
	case t.returnsIndices:
		out = t.maximumIndex(builder, tap, builder.Load(scalarOperand))
	case t.kind == reduceMax:
		out = t.maximum(builder, tap, taps, isFirst)
	default:
		result := t.sum(builder, tap, taps, isFirst)
		if divides {
			result = builder.Convert(t.dtype, builder.Emit(t.averageOp(), result, builder.Load(scalarOperand)))
		}
		out = []expr.Output{builder.Real(result)} // Real: an output that is not complex
	}
	code, err := builder.Build(out...)
	return &expr.Loop{Code: code, Uniform: isScalarOperand}, err
}

// partialDType returns the dtype of the partial results between loops. Partial maxima have the dtype of the result,
// where they are stored.
func (t *tapLoops) partialDType() tensor.DType {
	if t.kind == reduceMax {
		return t.dtype
	}
	return t.sumDType
}

// sum returns the sum of the taps and the partial result.
func (t *tapLoops) sum(builder *expr.Builder, tap func(int) expr.Value, taps int, isFirst bool) expr.Value {
	var sum expr.Value
	if isFirst {
		sum = builder.Const(t.sumDType, 0)
	} else {
		sum = builder.Load(0)
	}
	for k := range taps {
		sum = builder.Emit(expr.Add, sum, tap(k))
	}
	return sum
}

// maximum returns the maximum of the taps and the partial result. NaN propagates.
func (t *tapLoops) maximum(builder *expr.Builder, tap func(int) expr.Value, taps int, isFirst bool) []expr.Output {
	best, k := expr.Value(0), 0
	if isFirst {
		best, k = tap(0), 1
	} else {
		best = builder.Convert(t.sumDType, builder.Load(0))
	}
	for ; k < taps; k++ {
		best = builder.Emit(expr.Max, tap(k), best)
	}
	return []expr.Output{builder.Real(builder.Convert(t.dtype, best))}
}

// maximumIndex returns the maximum of all taps and its index in the plane. firstIndex is the index of the first tap. Of
// several equal maxima, the first counts. NaN is greater than all numbers, and of several NaNs the last counts.
func (t *tapLoops) maximumIndex(builder *expr.Builder, tap func(int) expr.Value, firstIndex expr.Value) []expr.Output {
	best, index := tap(0), builder.Int(tensor.Int32, 0)
	for k := 1; k < t.tapsPerLoop; k++ {
		element := tap(k)
		isBetter := builder.Emit(expr.Lt, best, element)
		if t.dtype.IsFloat() {
			isBetter = builder.Emit(expr.Or, isBetter, builder.Emit(expr.Ne, element, element)) // x != x for NaN
		}
		best = builder.Emit(expr.Select, isBetter, element, best)
		index = builder.Emit(expr.Select, isBetter, builder.Int(tensor.Int32, int64(t.tapIndex(k))), index)
	}
	return []expr.Output{builder.Real(builder.Convert(t.dtype, best)),
		builder.Real(builder.Emit(expr.Add, builder.Convert(tensor.Int64, index), firstIndex))}
}

// averageOp returns the operation that computes an average from a sum and the number that putDivisor writes.
func (t *tapLoops) averageOp() expr.Op {
	if multipliesByInverse(t.dtype, t.sumDType) {
		return expr.Mul
	}
	return expr.Div
}

// multipliesByInverse reports whether averages are computed by multiplying sums by the inverse of the divisor. dtype
// and sumDType are the dtypes of averages and sums. Sums must have more bits than averages, because the rounding of the
// inverse would change averages otherwise.
func multipliesByInverse(dtype, sumDType tensor.DType) bool {
	return dtype.IsFloat() && dtype.Size() < sumDType.Size()
}

// putDivisor writes the divisor of a window of the given area, or its inverse (see multipliesByInverse). dtype and
// sumDType are the dtypes of averages and sums.
func (f *foldSpec) putDivisor(dst []byte, dtype, sumDType tensor.DType, area float64) {
	if sumDType == tensor.Int64 {
		binary.LittleEndian.PutUint64(dst, uint64(divisorOf[int64](f, area)))
		return
	}
	divisor := divisorOf[float64](f, area)
	if multipliesByInverse(dtype, sumDType) {
		divisor = 1 / divisor
	}
	if sumDType == tensor.Float32 {
		binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(divisor)))
		return
	}
	binary.LittleEndian.PutUint64(dst, math.Float64bits(divisor))
}

// fillNeutral sets memory to elements of a dtype that do not affect the reduction: 0 for sums, the lowest value for
// maxima.
func (f *foldSpec) fillNeutral(dtype tensor.DType, mem []byte) {
	if f.kind != reduceMax {
		clear(mem)
		return
	}
	bits := expr.Neutral(expr.Max, dtype)
	switch dtype { // expr.Neutral returns 0 for 16-bit floats, which have no arithmetic
	case tensor.Float16:
		bits = 0xfc00 // -Inf
	case tensor.BFloat16:
		bits = 0xff80 // -Inf
	}
	var element [8]byte
	binary.LittleEndian.PutUint64(element[:], bits)
	for filled := copy(mem, element[:dtype.Size()]); filled < len(mem); {
		filled += copy(mem[filled:], mem[:filled])
	}
}

// listings returns the machine code of the loops.
func (t *tapLoops) listings() []expr.Listing {
	var list []expr.Listing
	for _, entry := range []struct {
		name string
		loop *loops.Loop
	}{{"the first elements of windows", t.firstLoop}, {"more elements of windows", t.nextLoop},
		{"averages of sums", t.divideLoop}} {
		if entry.loop != nil {
			list = append(list, entry.loop.Listing(entry.name))
		}
	}
	return list
}
