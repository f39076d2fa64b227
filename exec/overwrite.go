package exec

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file permits a caller to give the same tensor for an input and an output. The run then overwrites the input.
// For example, a decoder updates its cache of keys and values without a copy: the step that writes row 7 of the cache
// has the cache as its operand and as its result, in the same memory. At compilation, overwriteInputs finds such pairs
// of an input and an output. In a run, mayOverwrite checks that the caller's tensors are such a pair.

// overwriteInputs finds the inputs that an output of step i may overwrite while the step runs. The kernel must permit
// it, the output must have the layout of the input, and no later step and no other output may read the input. Step i
// then waits for all earlier steps that read the input. With [Options.KeepGoing] no input is overwritten. An input is
// overwritten by at most one output.
func (m *memoryPlanner) overwriteInputs(i int) {
	p := m.program
	if p.keepsGoing() {
		return
	}
	step := &p.steps[i]
	outCount := len(step.node.Out)
	for _, pair := range step.kernel.InPlace {
		result, operand := step.addresses[pair.Out].storage, step.addresses[outCount+pair.In].storage
		if result < 0 || operand < 0 {
			continue
		}
		input, output := &p.storages[operand], &p.storages[result]
		if input.kind != inInput || output.kind != inNewMemory {
			continue
		}
		isOverwritten := slices.Contains(m.overwrites, 1+input.inputIndex)
		isReadLater := input.lastStep != i || p.viewsInput(operand)
		if isOverwritten || isReadLater || !m.isWholeInput(i, pair) || !m.readsSameElements(i, pair.In) {
			continue
		}
		m.overwrites[result] = 1 + input.inputIndex
		readsInput := func(address storageAddress) bool { return address.storage == operand }
		for k := range p.steps[:i] {
			if slices.ContainsFunc(p.steps[k].addresses, readsInput) {
				m.addWait(i, int32(k))
			}
		}
	}
}

// isWholeInput reports whether an operand and a result of step i are a whole input and a whole output, in the same
// layout.
func (m *memoryPlanner) isWholeInput(i int, pair graph.InPlace) bool {
	step := &m.program.steps[i]
	result, operand := step.addresses[pair.Out].storage, step.addresses[len(step.node.Out)+pair.In].storage
	if result < 0 || operand < 0 {
		return false
	}
	input, output := &m.program.storages[operand], &m.program.storages[result]
	return input.kind == inInput && output.kind == inNewMemory && output.root == step.node.Out[pair.Out] &&
		sameLayout(input.root.Meta, output.root.Meta) && sameLayout(input.root.Meta, step.node.In[pair.In].Meta())
}

// viewsInput reports whether an output is a view of the input with the given storage.
func (p *Program) viewsInput(storage int) bool {
	return slices.ContainsFunc(p.outputs, func(output graph.Output) bool { return p.storageOf(output.Value) == storage })
}

// sameLayout reports whether two metas have the same dtype and shape, and the same address of each element.
func sameLayout(a, b tensor.Meta) bool {
	return a.DType == b.DType && a.Offset == b.Offset && slices.Equal(a.Shape, b.Shape) && a.SameAddresses(b)
}

// overlappedInputs returns the indices of the inputs whose memory overlaps t, the caller's tensor for an output.
// permitted is true if each of these inputs has the layout and storage of t, and no output is a view of such an input.
func (p *Program) overlappedInputs(t *tensor.Tensor, inputs []*tensor.Tensor) (overlapped []int, permitted bool) {
	permitted = true
	for k, input := range inputs {
		if !mayRead(input, t, p.readsStorage) {
			continue
		}
		overlapped = append(overlapped, k)
		isSameMemory := input.Storage() == t.Storage() && sameLayout(input.Meta, t.Meta)
		permitted = permitted && isSameMemory && !p.viewsInput(p.storageOf(p.inputs[k]))
	}
	return overlapped, permitted
}

// mayOverwrite reports whether a step may write output i directly to a tensor that overlaps inputs, given by index.
func (p *Program) mayOverwrite(i int, overlapped []int) bool {
	if len(overlapped) == 0 {
		return true
	}
	return len(overlapped) == 1 && p.overwrites[p.storageOf(p.outputs[i].Value)] == 1+overlapped[0]
}
