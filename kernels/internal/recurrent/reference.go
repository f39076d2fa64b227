package recurrent

import (
	"context"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// cellReference computes a layer step by step, by its definition. The operands and results are row-major and in the
// widest dtype of their kind. An omitted operand is nil. Weights, biases and peepholes have one slice for each
// direction.
type cellReference[T kit.WidestNumber] struct {
	*recurrentLayer
	x, y, h0, c0, hn, cn                     []T
	w, r, inBias, stateBias, peepholeWeights [2][]T
	sequenceLengths                          []int32
	functions                                [3]func(T) T    // the activation functions f, g and h of the direction
	direction, sequence                      int             // indices of the current direction and sequence
	ctx                                      context.Context // the context that long loops check, or nil
	productsSinceCheck                       int             // number of products since the last check of the context
}

// run runs all sequences through all steps of all directions.
func (c *cellReference[T]) run() {
	for dir := range c.dirs {
		for b := range c.batch {
			c.runSequence(dir, b)
		}
	}
}

// runSequence runs a sequence through all steps of a direction.
func (c *cellReference[T]) runSequence(dir, sequence int) {
	for i, a := range c.activations[dir] {
		if c.functions[i] = nil; a.name != "" {
			c.functions[i] = cellScalar[T](c.recurrentLayer, a)
		}
	}
	c.direction, c.sequence = dir, sequence
	h, cell := make([]T, c.hidden), make([]T, c.hidden)
	stateOffset := dir*c.stateDirStride + sequence*c.stateBatchStride
	if c.h0 != nil {
		copy(h, c.h0[stateOffset:])
	}
	if c.c0 != nil {
		copy(cell, c.c0[stateOffset:])
	}
	n := c.steps
	if c.sequenceLengths != nil {
		n = min(max(int(c.sequenceLengths[sequence]), 0), n)
	}
	for i := range n {
		step := i
		if c.backward[dir] {
			step = n - 1 - i
		}
		h, cell = c.step(step, h, cell)
		copy(c.y[step*c.yTimeStride+sequence*c.yBatchStride+dir*c.yDirStride:], h)
	}
	copy(c.hn[stateOffset:], h)
	if c.cn != nil {
		copy(c.cn[stateOffset:], cell)
	}
}

// gateParts returns the two parts of the argument of a gate, for element k of the state in step t. `in` is the product
// of the weights and the input, and `state` is the product of the recurrent weights and the state h. Both include their
// biases.
// The conversions to T keep Go from fusing a product and a sum, which would round once instead of twice.
func (c *cellReference[T]) gateParts(gate, k, t int, h []T) (in, state T) {
	row := c.order[gate]*c.hidden + k
	w, x := c.w[c.direction][row*c.inputs:], c.x[(t*c.xTimeStride+c.sequence*c.xBatchStride)*c.inputs:]
	kit.ForEachBlock(c.ctx, c.inputs, func(begin, end int) {
		for i := begin; i < end; i++ {
			in += T(w[i] * x[i])
		}
	})
	r := c.r[c.direction][row*c.hidden:]
	kit.ForEachBlock(c.ctx, len(h), func(begin, end int) {
		for i := begin; i < end; i++ {
			state += T(r[i] * h[i])
		}
	})
	// Blocks checks the context within long vectors only. For short vectors, the products of many calls are counted.
	if c.productsSinceCheck += c.inputs + len(h); c.productsSinceCheck >= kit.CheckEvery {
		c.productsSinceCheck = 0
		interrupt.Check(c.ctx)
	}
	if bias := c.inBias[c.direction]; bias != nil {
		in += bias[row]
		state += c.stateBias[c.direction][row]
	}
	return in, state
}

// activate clips a sum to the layer's bound, and applies the activation function with the given index to it. Only
// ONNX's ops have a bound, and their reference computes in float64.
func (c *cellReference[T]) activate(function int, sum T) T {
	if v, ok := any(&sum).(*float64); ok && c.clip > 0 {
		*v = min(max(*v, -c.clip), c.clip)
	}
	return c.functions[function](sum)
}

// gate returns element k of a gate in step t: the activation function of the gate's argument plus the peephole term. h
// is the state before the step.
func (c *cellReference[T]) gate(function, gate, k, t int, h []T, peepholeTerm T) T {
	in, state := c.gateParts(gate, k, t, h)
	return c.activate(function, in+state+peepholeTerm)
}

// step returns the state and the cell after step t.
func (c *cellReference[T]) step(t int, h, cell []T) (newH, newC []T) {
	newH, newC = make([]T, len(h)), make([]T, len(h))
	switch c.kind {
	case cellRNN:
		for k := range h {
			newH[k] = c.gate(functionF, rnnState, k, t, h, 0)
		}
	case cellGRU:
		reset := make([]T, len(h))
		for k := range h {
			reset[k] = c.gate(functionF, gruReset, k, t, h, 0)
		}
		resetState := make([]T, len(h))
		for k, v := range h {
			resetState[k] = reset[k] * v
		}
		for k := range h {
			update := c.gate(functionF, gruUpdate, k, t, h, 0)
			in, state := c.gateParts(gruCandidate, k, t, resetState)
			if c.resetAfter {
				in, state = c.gateParts(gruCandidate, k, t, h)
				state *= reset[k]
			}
			newH[k] = T((1-update)*c.activate(functionG, in+state)) + T(update*h[k])
		}
	default:
		for k := range h {
			peephole := func(gate int) T {
				if c.peepholeWeights[c.direction] == nil {
					return 0
				}
				return c.peepholeWeights[c.direction][gate*len(h)+k]
			}
			in := c.gate(functionF, lstmInput, k, t, h, peephole(lstmInput)*cell[k])
			forget := c.gate(functionF, lstmForget, k, t, h, peephole(lstmForget)*cell[k])
			if c.coupledGates {
				forget = 1 - in
			}
			newC[k] = T(forget*cell[k]) + T(in*c.gate(functionG, lstmCandidate, k, t, h, 0))
			newH[k] = c.gate(functionF, lstmOutput, k, t, h, peephole(lstmOutput)*newC[k]) * c.functions[functionH](newC[k])
		}
	}
	return newH, newC
}

// widestElements returns the elements of a tensor in row-major order, converted to T. It returns nil for a nil tensor.
func widestElements[T kit.WidestNumber](t *tensor.Tensor) []T {
	if t == nil {
		return nil
	}
	t = t.CopyTo(tensor.New(tensor.DTypeOf[T](), t.Shape...))
	return kit.ElementsOf[T](t.Pointer(), t.Numel())
}

// equalPart divides a slice into n equal parts and returns part i. A part of a nil slice is nil.
func equalPart[T any](list []T, i, n int) []T {
	size := len(list) / n
	return list[i*size : (i+1)*size : (i+1)*size]
}

// resultTensor returns the tensor of a result. It has the elements of the list, converted to the dtype of the result.
func resultTensor[T kit.WidestNumber](list []T, result graph.Result) *tensor.Tensor {
	m := result.Meta()
	return tensor.Must(tensor.FromSlice(list, m.Shape...)).CopyTo(tensor.New(m.DType, m.Shape...))
}

// ref computes the results of ONNX's recurrent ops by their definition.
func (cell onnxCell) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	inferred, err := cell.infer(c)
	if err != nil {
		return nil, err
	}
	layer := cell.shape(c)
	if err := cell.setActivations(kit.Attrs[onnxCellAttrs](c), layer); err != nil {
		return nil, err
	}
	var operands [onnxOperandCount][]float64
	for i, t := range in {
		operands[i] = widestElements[float64](t)
	}
	ref := &cellReference[float64]{recurrentLayer: layer, x: operands[onnxX], h0: operands[onnxH0],
		c0: operands[onnxC0]}
	if len(in) > onnxLengths && in[onnxLengths] != nil {
		lengths := in[onnxLengths].CopyTo(tensor.New(tensor.Int32, layer.batch))
		ref.sequenceLengths = kit.ElementsOf[int32](lengths.Pointer(), layer.batch)
	}
	for dir := range layer.dirs {
		ref.w[dir], ref.r[dir] = equalPart(operands[onnxW], dir, layer.dirs), equalPart(operands[onnxR], dir, layer.dirs)
		ref.peepholeWeights[dir] = equalPart(operands[onnxPeepholes], dir, layer.dirs)
		// B has the input bias and the state bias of each direction.
		ref.inBias[dir] = equalPart(operands[onnxB], 2*dir, 2*layer.dirs)
		ref.stateBias[dir] = equalPart(operands[onnxB], 2*dir+1, 2*layer.dirs)
	}
	results := make([]*tensor.Tensor, len(inferred))
	for i, list := range []*[]float64{&ref.y, &ref.hn, &ref.cn}[:len(inferred)] {
		*list = make([]float64, tensor.Numel(inferred[i].Meta().Shape))
	}
	ref.run()
	for i, list := range [][]float64{ref.y, ref.hn, ref.cn}[:len(inferred)] {
		results[i] = resultTensor(list, inferred[i])
	}
	return results, nil
}
