package layout

import (
	"math"

	"github.com/graphrun/graphrun/graph"
)

// LiveBytes returns a lower bound, for every plan, on the peak memory of live values in a run, in bytes. Inputs,
// constants and scratch memory do not count. A value counts with the bytes of its smallest form, and a copy in another
// form does not count. With a device, LiveBytes returns 0.
//
// Operands and results of concatenations do not count, because they may share memory. Results of copies do not count,
// because a plan may omit the copy. A value is live from its node to the last node that reads the value itself, not a
// view of it. For example:
//
//	node            live before the node
//	a = conv(x)
//	b = conv(a)     a
//	c = add(a, b)   a and b
//	d = relu(c)     c
//
// A result that is larger than every operand of its node, so that it cannot reuse their memory, counts at the node,
// too.
func (m *Model) LiveBytes() int64 {
	if m == nil || m.Problem == nil || m.Problem.Device != nil {
		return 0
	}
	live := &liveValues{model: m, ownBytes: graph.NewByValue[int64](m.Problem.Graph),
		inConcatenation:  graph.NewByValue[bool](m.Problem.Graph),
		variesWithInputs: graph.NewByValue[bool](m.Problem.Graph)}
	live.findOwnBytes()
	nodes := m.Problem.Graph.Nodes
	changes := make([]int64, len(nodes)+1) // by node: the change of the bytes that are live before it
	for i, n := range nodes {
		for _, v := range n.Out {
			if last := live.lastReader(v); last > i {
				changes[i+1] += live.ownBytes.At(v)
				if last < len(nodes) {
					changes[last+1] -= live.ownBytes.At(v)
				}
			}
		}
	}
	peak, liveBytes := int64(0), int64(0) // liveBytes: of the values that are live before node i
	for i, n := range nodes {
		liveBytes += changes[i]
		peak = max(peak, liveBytes+live.newBytes(n))
	}
	return max(peak, liveBytes+changes[len(nodes)])
}

// liveValues finds the values whose memory counts, and the size of this memory. Of the model it uses:
//
//   - variables: the variable of each value, with the forms (possible layouts) of the value and the outputs that are
//     this value;
//   - viewNodes and computedNodes: by index of a node. A view has an entry in viewNodes only, and any other node in
//     computedNodes only. A copy that may become a view counts as a view;
//   - readers: by value, its uses as an operand.
type liveValues struct {
	model            *Model
	ownBytes         graph.ByValue[int64] // the bytes of each value that has its own memory in every plan; else 0
	inConcatenation  graph.ByValue[bool]  // whether a value may be within the result of a concatenation
	variesWithInputs graph.ByValue[bool]  // whether a value depends on an input; others may become constants
}

// findOwnBytes sets ownBytes for the values that have their own memory.
func (live *liveValues) findOwnBytes() {
	m := live.model
	for _, v := range m.Problem.Graph.Inputs {
		live.variesWithInputs.Set(v, true)
	}
	for i, n := range m.Problem.Graph.Nodes {
		varies, concatenates := false, n.Op.ConcatDim != nil
		for _, a := range n.In {
			if a.Kind != graph.TensorArg {
				continue
			}
			varies = varies || live.variesWithInputs.At(a.Value)
			if concatenates {
				live.disown(a.Value)
			}
		}
		for _, v := range n.Out {
			live.variesWithInputs.Set(v, varies)
			isComputed := m.computedNodes[i] != nil && !n.Op.Identity && v.Alias == nil
			// A concatenation may be written into the result of a larger concatenation.
			if varies && isComputed && !concatenates {
				live.ownBytes.Set(v, live.smallestBytes(v))
			}
		}
	}
}

// disown removes a value, and the values that it is a view of, from the values that have their own memory.
func (live *liveValues) disown(v *graph.Value) {
	for ; v != nil; v = live.viewedValue(v) {
		live.ownBytes.Set(v, 0)
		live.inConcatenation.Set(v, true)
	}
}

// viewedValue returns the operand that v is a view of, or nil if v is no view.
func (live *liveValues) viewedValue(v *graph.Value) *graph.Value {
	if v.Node == nil {
		return nil
	}
	if view := live.model.viewNodes[live.model.nodeIndex[v.Node.Number()]]; view != nil {
		return v.Node.In[view.operand].Value
	}
	return nil
}

// smallestBytes returns the size of the smallest form (layout) of a value, in bytes.
func (live *liveValues) smallestBytes(v *graph.Value) int64 {
	variable, least := live.model.variables.At(v), int64(math.MaxInt64)
	if variable == nil {
		return 0
	}
	for _, f := range variable.forms {
		least = min(least, int64(f.meta.Extent()*f.meta.DType.Size()))
	}
	return least
}

// lastReader returns the index of the last node that reads v and is not a view, or the number of nodes if v is an
// output. It returns -1 if there is no reader.
func (live *liveValues) lastReader(v *graph.Value) int {
	if variable := live.model.variables.At(v); variable != nil && len(variable.outputs) > 0 {
		return len(live.model.computedNodes)
	}
	last := -1
	for _, reader := range live.model.readers.At(v) {
		if live.model.computedNodes[reader.node] != nil {
			last = max(last, reader.node)
		}
	}
	return last
}

// newBytes returns the total bytes of a node's results that are larger than every operand, and thus cannot reuse the
// memory of an operand. It returns 0 if an operand may be within the result of a concatenation, because the node could
// then reuse the memory of that larger result.
func (live *liveValues) newBytes(n *graph.Node) (sum int64) {
	largest := int64(0)
	for _, a := range n.In {
		if a.Kind != graph.TensorArg || a.Value.Const != nil {
			continue
		}
		for v := a.Value; v != nil; v = live.viewedValue(v) {
			if live.inConcatenation.At(v) {
				return 0
			}
			for _, f := range live.model.variables.At(v).forms {
				largest = max(largest, int64(f.meta.Extent()*f.meta.DType.Size()))
			}
		}
	}
	for _, v := range n.Out {
		if bytes := live.ownBytes.At(v); bytes > largest && live.lastReader(v) >= 0 {
			sum += bytes
		}
	}
	return sum
}
