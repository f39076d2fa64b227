package passes

import (
	"iter"

	"github.com/graphrun/graphrun/graph"
)

// uses holds the readers of each value.
type uses struct {
	readers  graph.ByValue[[]*graph.Node] // a node that reads the value as several operands is listed several times
	isOutput map[*graph.Value]bool
}

// usesOf finds the readers of all values of a graph.
func usesOf(g *graph.Graph) *uses {
	result := &uses{graph.NewByValue[[]*graph.Node](g), make(map[*graph.Value]bool, len(g.Outputs))}
	readerCounts, total := graph.NewByValue[int](g), 0
	for arg := range tensorArgs(g) {
		readerCounts.Set(arg.Value, readerCounts.At(arg.Value)+1)
		total++
	}
	freeSlots := make([]*graph.Node, total) // one allocation for all lists of readers
	for arg, n := range tensorArgs(g) {
		if readerCount := readerCounts.At(arg.Value); readerCount > 0 { // the first operand with this value: reserve its list
			readerCounts.Set(arg.Value, 0)
			result.readers.Set(arg.Value, freeSlots[:0:readerCount])
			freeSlots = freeSlots[readerCount:]
		}
		result.add(arg.Value, n)
	}
	for _, output := range g.Outputs {
		result.isOutput[output.Value] = true
	}
	return result
}

// tensorArgs iterates over all operands that are values. Each operand comes with the node that reads it.
func tensorArgs(g *graph.Graph) iter.Seq2[*graph.Arg, *graph.Node] {
	return func(yield func(*graph.Arg, *graph.Node) bool) {
		for _, n := range g.Nodes {
			for i := range n.In {
				if arg := &n.In[i]; arg.Kind == graph.TensorArg && !yield(arg, n) {
					return
				}
			}
		}
	}
}

// add records that node n reads v.
func (u *uses) add(v *graph.Value, n *graph.Node) { u.readers.Set(v, append(u.readers.At(v), n)) }

// redirect makes all readers of `from`, outputs included, read `replacement`.
func (u *uses) redirect(g *graph.Graph, from, replacement *graph.Value) {
	for _, n := range u.readers.At(from) {
		for i := range n.In {
			if n.In[i].Value == from {
				n.In[i].Value = replacement
			}
		}
		for _, v := range n.Out {
			if v.Alias == from {
				v.Alias = replacement
			}
		}
		u.add(replacement, n)
	}
	u.readers.Set(from, nil)
	if u.isOutput[from] {
		for i := range g.Outputs {
			if g.Outputs[i].Value == from {
				g.Outputs[i].Value = replacement
			}
		}
		u.isOutput[replacement] = true
	}
}
