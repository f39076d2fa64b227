package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// tapSum computes rows of a depthwise convolution by compiled loops. A tap is an element of the window. A result is
// bias + x0*w0 + x1*w1 + ..., summed by fused multiply-adds in the order of the taps. If there are more taps than a
// loop has operands, several loops run one after another, and each loop adds to the result of the previous loop. The
// order of additions does not depend on the division of rows into tiles.
type tapSum struct {
	parts   []tapPart
	hasBias bool
}

// tapPart is the loop that adds taps [first, end).
type tapPart struct {
	loop       *loops.Loop
	first, end int
}

// newTapSum compiles the loops of a sum of the given number of taps. It returns nil if there is no machine code. If
// isUniform is set, all elements of a row have the same bias and the same weights. Otherwise each element has its own
// bias and weights.
func newTapSum(dtype tensor.DType, taps int, hasBias, isUniform bool) (*tapSum, error) {
	if !hasTapCode(dtype) {
		return nil, nil
	}
	sum := &tapSum{hasBias: hasBias}
	count := kit.DivUp(taps, maxTaps) // number of loops
	for k := range count {
		part := tapPart{first: k * taps / count, end: (k + 1) * taps / count}
		// The first loop starts from the bias, and each later loop from the result of the previous loop.
		hasStart, startIsUniform := hasBias || k > 0, isUniform && k == 0
		loop, err := tapLoop(dtype, part.end-part.first, hasStart, isUniform, startIsUniform)
		if err != nil {
			return nil, err
		}
		if part.loop, err = loops.New(loop, loops.Options{}); err != nil || !part.loop.Compiled() {
			return nil, err // nil, nil without machine code
		}
		sum.parts = append(sum.parts, part)
	}
	return sum, nil
}

// maxTaps is the maximum number of taps of one loop. Each tap has two operands, its input and its weight. The result
// and the initial value are two more operands.
const maxTaps = (expr.MaxOperands - 2) / 2

// hasTapCode reports whether sums of a dtype are compiled to machine code.
func hasTapCode(dtype tensor.DType) bool {
	return loops.CodeAvailable() && (dtype == tensor.Float32 || dtype == tensor.Float64)
}

// tapLoop returns the loop over a row. Its operands are the initial value of the sum (if hasStart is set), the input
// elements of all taps, and the weights of all taps. isUniform is set if the weights are the same for all elements of a
// row, and startIsUniform if the initial value is the same.
func tapLoop(dtype tensor.DType, taps int, hasStart, isUniform, startIsUniform bool) (*expr.Loop, error) {
	var in []tensor.DType
	var uniform []bool
	addOperands := func(n int, areUniform bool) {
		for range n {
			in, uniform = append(in, dtype), append(uniform, areUniform)
		}
	}
	firstTap := 0
	if hasStart {
		addOperands(1, startIsUniform)
		firstTap = 1
	}
	addOperands(taps, false) // the inputs differ from element to element
	addOperands(taps, isUniform)
	builder := expr.NewBuilder(in...)
	var sum expr.Value
	for tap := range taps {
		x, w := builder.Load(firstTap+tap), builder.Load(firstTap+taps+tap)
		switch {
		case tap > 0:
			sum = builder.Emit(expr.FMA, x, w, sum)
		case hasStart:
			sum = builder.Emit(expr.FMA, x, w, builder.Load(0))
		default:
			sum = builder.Emit(expr.Mul, x, w)
		}
	}
	code, err := builder.Build(builder.Real(sum))
	return &expr.Loop{Code: code, Uniform: uniform}, err
}

// run computes `rows` rows of rowLen elements. It reads the streams worker.inputs and worker.weights.
func (t *tapSum) run(worker *tapRun, out, bias rowStream, rowLen, rows int) {
	start := bias
	for i, part := range t.parts {
		worker.operandCount = 0
		worker.addOperand(out)
		if t.hasBias || i > 0 {
			worker.addOperand(start)
		}
		for _, input := range worker.inputs[part.first:part.end] {
			worker.addOperand(input)
		}
		for _, weight := range worker.weights[part.first:part.end] {
			worker.addOperand(weight)
		}
		part.loop.Run(&worker.State, worker.ptrs[:worker.operandCount], worker.strides[:worker.operandCount], rowLen, rows)
		start = out // the next loop reads its initial value from here, and overwrites it
	}
}

// rowStream is an operand of a loop: a sequence of rows with a constant stride, in bytes.
type rowStream struct {
	ptr       unsafe.Pointer // address of the first row
	rowStride int
}

// tapRun is the state of a worker that runs a tapSum. It is released at the end of each chunk.
type tapRun struct {
	loops.State
	inputs, weights []rowStream // inputs and weights by tap
	ptrs            [expr.MaxOperands]unsafe.Pointer
	strides         [expr.MaxOperands]int
	operandCount    int // number of operands in ptrs and strides
}

// addOperand adds an operand of the loop.
func (r *tapRun) addOperand(s rowStream) {
	r.ptrs[r.operandCount], r.strides[r.operandCount] = s.ptr, s.rowStride
	r.operandCount++
}

// reserve sets the length of inputs and weights to the number of taps.
func (r *tapRun) reserve(taps int) {
	if cap(r.inputs) < taps {
		r.inputs, r.weights = make([]rowStream, taps), make([]rowStream, taps)
	}
	r.inputs, r.weights = r.inputs[:taps], r.weights[:taps]
}

// release removes the addresses of a chunk, so that the worker does not keep its memory alive.
func (r *tapRun) release() {
	clear(r.inputs)
	clear(r.weights)
	clear(r.ptrs[:])
	r.State.Release()
}
