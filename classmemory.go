package graphrun

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
)

// MemoryFormulas are the sizes of the buffers of a class as expressions over symbols. Where a buffer is in the arena is
// settled when sizes are bound, which takes a hundredth of binding and packs it for these sizes.
type MemoryFormulas struct {
	Outputs string `json:"outputs_bytes" doc:"The bytes of outputs that steps make, as an expression over symbols."`
	AtOnce  string `json:"at_once_bytes" doc:"The bytes of the intermediate values that are there at once, at the most, as an expression, where steps run one after the other; a step that writes over an operand needs less, and one worker keeps more where it runs steps by turns."`
}

// mostMoments bounds the sums of which the greatest is stated as an expression, and mostTimed the nodes of a graph
// whose values are followed.
const (
	mostMoments = 24
	mostTimed   = 1 << 14
)

// memory is what values of a class take, as expressions.
type memory struct{ outputs, atOnce sym.Int }

// memoryOfValues sums up the values of a planned graph whose sizes are not known; false where it would be a long
// expression.
func memoryOfValues(g *graph.Graph) (m memory, ok bool) {
	if len(g.Nodes) > mostTimed {
		return m, false
	}
	output := map[*graph.Value]bool{}
	for _, o := range g.Outputs {
		output[o.Value.Root()] = true
	}
	last := map[*graph.Value]int{}
	for i, n := range g.Nodes {
		for _, a := range n.In {
			if a.Kind == graph.TensorArg {
				last[a.Value.Root()] = i
			}
		}
	}
	var live sym.Int
	ends := make([]sym.Int, len(g.Nodes))
	var moments []sym.Int
	for i, n := range g.Nodes {
		for _, v := range n.Out {
			if v.Alias != nil {
				continue
			}
			bytes := elements(v).Mul(sym.Of(v.Type.DType.Size()))
			if output[v] {
				m.outputs = m.outputs.Add(bytes)
				continue
			}
			live = live.Add(bytes)
			end := max(last[v], i)
			ends[end] = ends[end].Add(bytes)
		}
		if !n.IsView() {
			moments = addMoment(moments, live)
		}
		if len(moments) > mostMoments {
			return m, false
		}
		live = live.Sub(ends[i])
	}
	for i, at := range moments {
		if i == 0 {
			m.atOnce = at
		}
		m.atOnce = m.atOnce.Max(at)
	}
	return m, true
}

// elements are those that the memory of a value has room for: what steps write is dense, whatever sizes are.
func elements(v *graph.Value) sym.Int {
	if v.Meta.IsNonOverlappingAndDense() {
		return v.Type.Numel().Simplify()
	}
	return v.Type.Extent().Simplify()
}

// addMoment adds a sum to those of which the greatest is wanted, unless one of them is never less; what it is never
// less than goes.
func addMoment(list []sym.Int, sum sym.Int) []sym.Int {
	never := func(a, b sym.Int) bool { holds, known := a.Ge(b).Known(); return known && holds }
	kept := list[:0]
	for i, other := range list {
		if never(other, sum) {
			return append(kept, list[i:]...)
		}
		if !never(sum, other) {
			kept = append(kept, other)
		}
	}
	return append(kept, sum)
}
