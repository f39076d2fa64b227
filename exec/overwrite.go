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
	step := &p.steps[i]
	outCount := len(step.node.Out)
	for _, pair := range step.kernel.InPlace {
		out, in := step.addresses[pair.Out], step.addresses[outCount+pair.In]
		if out.storage < 0 || in.storage < 0 || p.omittedValues != nil {
			continue
		}
		input, output := &p.storages[in.storage], &p.storages[out.storage]
		if input.kind != inInput || output.kind != inNewMemory {
			continue
		}
		isOverwritten := slices.Contains(m.overwrites, 1+input.input)
		isReadLater := input.lastStep != i || p.viewsInput(in.storage)
		// The operand and the result are the whole input and the whole output, in the same layout.
		isWhole := output.root == step.node.Out[pair.Out] && sameLayout(input.root.Meta, output.root.Meta) &&
			sameLayout(input.root.Meta, step.node.In[pair.In].Meta())
		if isOverwritten || isReadLater || !isWhole || !m.readsSameElements(i, pair.In) {
			continue
		}
		m.overwrites[out.storage] = 1 + input.input
		for k := range p.steps[:i] {
			if slices.ContainsFunc(p.steps[k].addresses, func(r storageAddress) bool { return r.storage == in.storage }) {
				m.addWait(i, int32(k))
			}
		}
	}
}

// viewsInput reports whether an output is a view of the input with the given storage.
func (p *Program) viewsInput(storage int) bool {
	return slices.ContainsFunc(p.outputs, func(o graph.Output) bool { return p.storageOf(o.Value) == storage })
}

// sameLayout reports whether two metas have the same elements at the same addresses of a storage.
func sameLayout(a, b tensor.Meta) bool {
	return a.DType == b.DType && a.Offset == b.Offset && slices.Equal(a.Shape, b.Shape) && a.SameAddresses(b)
}

// overlappedInputs returns the indices of the inputs whose memory overlaps t, the caller's tensor for an output.
// permitted is true if each of these inputs has the layout and storage of t, and no output is a view of such an input.
func (p *Program) overlappedInputs(t *tensor.Tensor, in []*tensor.Tensor) (list []int, permitted bool) {
	permitted = true
	for k, input := range in {
		if mayRead(input, t, p.readsStorage) {
			list = append(list, k)
			permitted = permitted && input.Storage() == t.Storage() && sameLayout(input.Meta, t.Meta) &&
				!p.viewsInput(p.storageOf(p.inputs[k]))
		}
	}
	return list, permitted
}

// mayOverwrite reports whether a step may write output i directly to a tensor that overlaps the given inputs.
func (p *Program) mayOverwrite(i int, inputs []int) bool {
	if len(inputs) == 0 {
		return true
	}
	return len(inputs) == 1 && p.overwrites[p.storageOf(p.outputs[i].Value)] == 1+inputs[0]
}
