package program

import (
	"runtime/debug"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// release frees the data of weights if runs read only their packed copies. The binding's graph then lacks this data;
// [Binding.WithAllConstants] unpacks it on request. The caller's graph is not changed. release is called only if the
// program makes no further plans, because a plan needs the data.
func (b *Binding) release() {
	if b.Plan == nil || b.RunnableGraph != b.Graph || b.Segmented() {
		return
	}
	packed, keptStorages := b.packedWeights()
	g, freedBytes := b.Graph.Clone(), 0
	b.packedConstants = map[string]*graph.Value{}
	for _, v := range g.Constants {
		packedConstant, storage := packed[v.Name], v.Const.Storage()
		if packedConstant == nil || v.Packed != nil || keptStorages[storage] {
			continue
		}
		if !sameAddresses(packedConstant.Packed.Meta, v.Const.Meta) {
			continue
		}
		freedBytes += storage.Len()
		b.packedConstants[v.Name], v.Const = packedConstant, &tensor.Tensor{Meta: v.Const.Meta}
	}
	b.Graph, b.RunnableGraph = g, g
	if freedBytes >= minReturnedBytes {
		debug.FreeOSMemory()
	}
}

// packedWeights returns the packed constants of the plan by the name of the weight, and the storages that the plan
// needs.
func (b *Binding) packedWeights() (packed map[string]*graph.Value, keptStorages map[*tensor.Storage]bool) {
	packed, keptStorages = map[string]*graph.Value{}, map[*tensor.Storage]bool{}
	for _, v := range b.Plan.Graph.Constants {
		keptStorages[v.Const.Storage()] = true
		switch original := v.Packed.Kept(); {
		case original != nil: // it cannot be restored from the packed data
			keptStorages[original.Storage()] = true
		case v.Packed != nil:
			packed[v.Packed.Of] = v
		}
	}
	return packed, keptStorages
}

// sameAddresses reports whether two metas have each element at the same address in a storage.
func sameAddresses(a, b tensor.Meta) bool {
	return a.DType == b.DType && a.Offset == b.Offset && a.SameLayout(b)
}

// minReturnedBytes is a minimum: if at least this many bytes were freed, memory is returned to the system immediately.
// This takes some milliseconds, less than reading the weights. Otherwise the process would keep the memory for minutes,
// because the garbage collector rarely runs in a process that hardly allocates.
const minReturnedBytes = 16 << 20

// WithAllConstants returns the graph with the data of all constants.
func (b *Binding) WithAllConstants() *graph.Graph {
	if len(b.packedConstants) == 0 {
		return b.Graph
	}
	g := b.Graph.Clone()
	for _, v := range g.Constants {
		if packed := b.packedConstants[v.Name]; packed != nil {
			v.Const = packed.Data()
		}
	}
	return g
}
