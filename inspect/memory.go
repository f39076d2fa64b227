package inspect

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
)

// MemoryFormulas are the sizes of the buffers of a [Specialization] as expressions over symbols. The layout of the
// arena (the memory that intermediate values share) has no expression: it is computed when sizes are bound.
type MemoryFormulas struct {
	Outputs string `json:"outputs_bytes" doc:"The bytes of outputs that steps write, as an expression over symbols."`
	AtOnce  string `json:"at_once_bytes" doc:"The maximum number of bytes of intermediate values that are live at once if steps run in order, as an expression over symbols; steps that overwrite an operand need less, and concurrent steps need more."`
}

const (
	// maxMoments is the maximum number of operands of MemoryFormulas.AtOnce. This expression is a maximum whose
	// operands are the numbers of bytes that are live during single steps.
	maxMoments = 24
	maxNodes   = 1 << 14 // maximum number of nodes of a graph for which AtOnce is computed
)

// memory has two sizes in bytes, as expressions.
type memory struct {
	outputs sym.Int // size of the outputs that steps write
	maxLive sym.Int // maximum size of the live intermediate values
}

// memoryOf computes the memory of a planned graph with symbolic sizes. It returns false if the expressions would be
// long: see maxMoments and maxNodes. For example, let the float32 values a = relu(x), b = exp(a) and y = sum(b) have N,
// N and 1 elements. Then a needs 4*N bytes, and a and b together 8*N bytes. maxLive is 8*N, and outputs is 4.
func memoryOf(g *graph.Graph) (sizes memory, ok bool) {
	if len(g.Nodes) > maxNodes {
		return sizes, false
	}
	isOutput := map[*graph.Value]bool{}
	for _, output := range g.Outputs {
		isOutput[output.Value.Root()] = true
	}
	lastReader := lastReaders(g)
	var live sym.Int
	freedAfter := make([]sym.Int, len(g.Nodes)) // indexed by node: the bytes of the values that are dead after the node
	// moments has the number of bytes that are live during each step. A step is omitted if another step never has fewer
	// bytes.
	var moments []sym.Int
	for i, n := range g.Nodes {
		for _, v := range n.Out {
			if v.Alias != nil || n.Op.Stores { // a view, or in the memory of an input
				continue
			}
			bytes := bufferElements(v).Mul(sym.Of(v.Type.DType.Size()))
			if isOutput[v] {
				sizes.outputs = sizes.outputs.Add(bytes)
				continue
			}
			live = live.Add(bytes)
			end := max(lastReader[v], i)
			freedAfter[end] = freedAfter[end].Add(bytes)
		}
		if !n.IsView() { // a step
			moments = addMoment(moments, live)
		}
		if len(moments) > maxMoments {
			return sizes, false
		}
		live = live.Sub(freedAfter[i])
	}
	for i, bytes := range moments {
		if i == 0 {
			sizes.maxLive = bytes
		}
		sizes.maxLive = sizes.maxLive.Max(bytes)
	}
	return sizes, true
}

// lastReaders returns, for each value that is not a view, the index of the last node that reads the value or a view of
// it. Values without readers are missing.
func lastReaders(g *graph.Graph) map[*graph.Value]int {
	readers := map[*graph.Value]int{}
	for i, n := range g.Nodes {
		for _, a := range n.In {
			if a.Kind == graph.TensorArg {
				readers[a.Value.Root()] = i
			}
		}
	}
	return readers
}

// bufferElements returns the number of elements in the buffer of a value. If a value is not dense, the gaps between
// elements count, too.
func bufferElements(v *graph.Value) sym.Int {
	// v.Meta has example sizes. The answer holds for all sizes: if a step writes a value densely at one size, it does
	// so at all sizes.
	if v.Meta.IsNonOverlappingAndDense() {
		return v.Type.Numel().Simplify()
	}
	return v.Type.Extent().Simplify()
}

// addMoment adds the bytes of a moment to list, the operands of a maximum. It drops operands that never exceed another
// operand. It overwrites list.
func addMoment(list []sym.Int, moment sym.Int) []sym.Int {
	neverLess := func(a, b sym.Int) bool { holds, known := a.Ge(b).Known(); return known && holds }
	remaining := list[:0]
	for i, other := range list {
		if neverLess(other, moment) {
			return append(remaining, list[i:]...)
		}
		if !neverLess(moment, other) {
			remaining = append(remaining, other)
		}
	}
	return append(remaining, moment)
}
