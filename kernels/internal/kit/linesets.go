package kit

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// ByteStride returns the stride of a dimension in bytes. It returns 0 for a 0-dim value.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func ByteStride(m tensor.Meta, dim int) int {
	if m.Rank() == 0 {
		return 0
	}
	return m.Strides[dim] * m.DType.Size()
}

// LineSet enumerates the lines along one dimension of several values. A line has the elements at one index of the other
// dimensions. The shapes of the values are equal except in the dimension of the lines.
type LineSet struct {
	shape   []int   // the shape of the values without the dimension of the lines
	Strides [][]int // for each value, its stride in bytes in each dimension of shape
	Count   int     // the number of lines
}

// NewLineSet enumerates the lines along dim of at most four values with the given metas. The shapes of the values equal
// shape except in dim.
func NewLineSet(shape []int, dim int, metas ...tensor.Meta) *LineSet {
	lines := &LineSet{Count: 1}
	for d, n := range shape {
		if d != dim {
			lines.shape = append(lines.shape, n)
			lines.Count *= n
		}
	}
	for _, m := range metas {
		strides := ByteStrides(m)
		if len(strides) > 0 { // a 0-dim value has one line of one element
			strides = slices.Delete(strides, dim, dim+1)
		}
		lines.Strides = append(lines.Strides, strides)
	}
	return lines
}

// Offsets returns, for each value, the distance in bytes from its first element to the first element of line i.
func (l *LineSet) Offsets(i int) (offsets [4]int) {
	for d := len(l.shape) - 1; d >= 0; d-- {
		k := i % l.shape[d]
		i /= l.shape[d]
		for v := range l.Strides {
			offsets[v] += k * l.Strides[v][d]
		}
	}
	return offsets
}

// Phase returns a phase that calls f for every line, with the line's offsets. cost is the cost of a line, in copied
// elements.
func (l *LineSet) Phase(cost int, f func(m *graph.Mem, offsets [4]int) error) graph.Phase {
	linesPerChunk := max(1, machine.GatherGrain/max(1, cost))
	return graph.Phase{Chunks: DivUp(l.Count, linesPerChunk), Run: func(m *graph.Mem, chunk int) error {
		for i := chunk * linesPerChunk; i < min(l.Count, (chunk+1)*linesPerChunk); i++ {
			if err := f(m, l.Offsets(i)); err != nil {
				return err
			}
		}
		return nil
	}}
}
