package recurrent

import (
	"context"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// cellReference computes a layer by its definition. run calls runSequence for each direction and sequence, and
// runSequence calls step for each step. The embedded recurrentLayer has the sizes of the layer and the strides of x, y
// and the states. The operands and results are row-major. They have the widest dtype of their kind. An omitted operand
// is nil. Weights, biases and peepholes have one slice for each direction.
//
// An element of a gate is f(inputPart + statePart), with an activation function f and
//
//	inputPart = w·x + inBias, with the input x of the step
//	statePart = r·h + stateBias, with the state h before the step
//
// stepLSTM adds peepholes to the sum, and stepGRU applies the reset gate to the state part of the candidate.
type cellReference[T kit.WidestNumber] struct {
	*recurrentLayer
	x, y                               []T    // input and output of all steps
	h0, c0, hn, cn                     []T    // h0, hn: initial and last states; c0, cn: initial and last cells
	w, r                               [2][]T // weights of the input, and recurrent weights of the state
	inBias, stateBias, peepholeWeights [2][]T
	sequenceLengths                    []int32
	ctx                                context.Context // the context that long loops check, or nil
	productsSinceCheck                 int             // number of products since the last check of the context

	// runSequence sets these fields for the methods that it calls.

	direction, sequence int          // indices of the current direction and sequence
	functions           [3]func(T) T // the activation functions f, g and h of the direction
}

// run runs all sequences through all steps of all directions.
func (c *cellReference[T]) run() {
	for direction := range c.dirs {
		for sequence := range c.batch {
			c.runSequence(direction, sequence)
		}
	}
}

// runSequence runs a sequence through all steps of a direction.
func (c *cellReference[T]) runSequence(direction, sequence int) {
	for i, activation := range c.activations[direction] {
		c.functions[i] = nil
		if activation.name != "" {
			c.functions[i] = cellScalar[T](c.recurrentLayer, activation)
		}
	}
	c.direction, c.sequence = direction, sequence
	stateOffset := direction*c.stateDirStride + sequence*c.stateBatchStride
	h, cell := make([]T, c.hidden), make([]T, c.hidden)
	if c.h0 != nil {
		copy(h, c.h0[stateOffset:])
	}
	if c.c0 != nil {
		copy(cell, c.c0[stateOffset:])
	}
	length := c.steps
	if c.sequenceLengths != nil {
		length = min(max(int(c.sequenceLengths[sequence]), 0), length)
	}
	for i := range length {
		step := i
		if c.backward[direction] {
			step = length - 1 - i
		}
		h, cell = c.step(step, h, cell)
		copy(c.y[step*c.yTimeStride+sequence*c.yBatchStride+direction*c.yDirStride:], h)
	}
	copy(c.hn[stateOffset:], h)
	if c.cn != nil {
		copy(c.cn[stateOffset:], cell)
	}
}

// step returns the state and the cell after the given step. h and cell are the state and the cell before it.
func (c *cellReference[T]) step(step int, h, cell []T) (newH, newCell []T) {
	newH, newCell = make([]T, len(h)), make([]T, len(h))
	switch c.kind {
	case cellRNN:
		for k := range h {
			newH[k] = c.gate(functionF, rnnState, k, step, h, noPeephole)
		}
	case cellGRU:
		c.stepGRU(step, h, newH)
	default:
		c.stepLSTM(step, h, cell, newH, newCell)
	}
	return newH, newCell
}

// stepGRU computes the state of a GRU after a step, from the state h before it:
//
//	reset = f(sum_r(h))
//	update = f(sum_z(h))
//	candidate = g(sum_n(reset*h)), or with resetAfter: g(inputPart_n(h) + reset*statePart_n(h))
//	newH = (1 - update)*candidate + update*h
//
// sum_x(s) is the sum of both gateParts of gate x for the state s.
func (c *cellReference[T]) stepGRU(step int, h, newH []T) {
	reset := make([]T, len(h))
	for k := range h {
		reset[k] = c.gate(functionF, gruReset, k, step, h, noPeephole)
	}
	resetState := make([]T, len(h))
	for k, element := range h {
		resetState[k] = reset[k] * element
	}
	for k := range h {
		update := c.gate(functionF, gruUpdate, k, step, h, noPeephole)
		inputPart, statePart := c.gateParts(gruCandidate, k, step, resetState)
		if c.resetAfter {
			inputPart, statePart = c.gateParts(gruCandidate, k, step, h)
			statePart *= reset[k]
		}
		newH[k] = T((1-update)*c.activate(functionG, inputPart+statePart)) + T(update*h[k])
	}
}

// stepLSTM computes the state and the cell of an LSTM after a step, from the state h and the cell before it. The
// peepholes p multiply the cell in the gates:
//
//	input = f(sum_i + p_i*cell)
//	forget = f(sum_f + p_f*cell), or 1 - input with coupled gates
//	newCell = forget*cell + input*g(sum_c)
//	newH = f(sum_o + p_o*newCell) * functionH(newCell)
//
// sum_x is the sum of both gateParts of gate x for the state h.
func (c *cellReference[T]) stepLSTM(step int, h, cell, newH, newCell []T) {
	for k := range h {
		peephole := func(gate int) T {
			if c.peepholeWeights[c.direction] == nil {
				return 0
			}
			return c.peepholeWeights[c.direction][gate*len(h)+k]
		}
		input := c.gate(functionF, lstmInput, k, step, h, peephole(lstmInput)*cell[k])
		forget := c.gate(functionF, lstmForget, k, step, h, peephole(lstmForget)*cell[k])
		if c.coupledGates {
			forget = 1 - input
		}
		newCell[k] = T(forget*cell[k]) + T(input*c.gate(functionG, lstmCandidate, k, step, h, noPeephole))
		newH[k] = c.gate(functionF, lstmOutput, k, step, h,
			peephole(lstmOutput)*newCell[k]) * c.functions[functionH](newCell[k])
	}
}

// noPeephole is the peephole term of a gate without peephole weights.
const noPeephole = 0

// gate returns element k of a gate: the activation function with the given index (functionF, ...), applied to the
// gate's argument plus the peephole term. h is the state before the step.
func (c *cellReference[T]) gate(function, gate, k, step int, h []T, peepholeTerm T) T {
	inputPart, statePart := c.gateParts(gate, k, step, h)
	return c.activate(function, inputPart+statePart+peepholeTerm)
}

// gateParts returns the two parts of a gate's argument (see cellReference), for element k of the state. The conversions
// to T prevent fused multiply-adds, which would round once instead of twice.
func (c *cellReference[T]) gateParts(gate, k, step int, h []T) (inputPart, statePart T) {
	row := c.gatePosition[gate]*c.hidden + k // row in the weights; a gate has `hidden` rows, one for each element
	w := c.w[c.direction][row*c.inputSize:]
	x := c.x[(step*c.xTimeStride+c.sequence*c.xBatchStride)*c.inputSize:]
	kit.ForEachBlock(c.ctx, c.inputSize, func(begin, end int) {
		for i := begin; i < end; i++ {
			inputPart += T(w[i] * x[i])
		}
	})
	r := c.r[c.direction][row*c.hidden:]
	kit.ForEachBlock(c.ctx, len(h), func(begin, end int) {
		for i := begin; i < end; i++ {
			statePart += T(r[i] * h[i])
		}
	})
	// ForEachBlock checks the context only within long vectors. For short vectors, the products of several calls are
	// counted until a check is due.
	c.productsSinceCheck += c.inputSize + len(h)
	if c.productsSinceCheck >= kit.CheckEvery {
		c.productsSinceCheck = 0
		interrupt.Check(c.ctx)
	}
	if bias := c.inBias[c.direction]; bias != nil {
		inputPart += bias[row]
		statePart += c.stateBias[c.direction][row]
	}
	return inputPart, statePart
}

// activate clips a sum to the layer's bound, and then applies the activation function with the given index. Only ONNX's
// ops have a bound, and their references compute in float64.
func (c *cellReference[T]) activate(function int, sum T) T {
	if sum64, ok := any(&sum).(*float64); ok && c.clip > 0 {
		*sum64 = min(max(*sum64, -c.clip), c.clip)
	}
	return c.functions[function](sum)
}

// widestElements returns the elements of a tensor in row-major order, converted to T. It returns nil for a nil tensor.
func widestElements[T kit.WidestNumber](t *tensor.Tensor) []T {
	if t == nil {
		return nil
	}
	t = t.CopyTo(tensor.New(tensor.DTypeOf[T](), t.Shape...))
	return kit.ElementsOf[T](t.Pointer(), t.Numel())
}

// equalPart divides a slice into the given number of equal parts and returns part i. A part of a nil slice is nil.
func equalPart[T any](list []T, i, parts int) []T {
	size := len(list) / parts
	return list[i*size : (i+1)*size : (i+1)*size]
}

// resultTensor returns the tensor of a result, with the given elements converted to the dtype of the result.
func resultTensor[T kit.WidestNumber](elements []T, result graph.Result) *tensor.Tensor {
	meta := result.Meta()
	return tensor.Must(tensor.FromSlice(elements, meta.Shape...)).CopyTo(tensor.New(meta.DType, meta.Shape...))
}
