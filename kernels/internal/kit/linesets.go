package kit

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// StepAt returns the stride of a dimension in bytes. It returns 0 for a 0-dim value.
//
//go:noinline // many callers, none hot: they compile faster
func StepAt(m tensor.Meta, dim int) int {
	if m.Rank() == 0 {
		return 0
	}
	return m.Strides[dim] * m.DType.Size()
}

// LineSet enumerates the lines along one dimension of several values. A line has the elements at one index of the other
// dimensions. The shapes of the values are equal except in the dimension of the lines.
type LineSet struct {
	shape   []int   // the shape of the values without the dimension of the lines
	Strides [][]int // for each value, its strides in bytes in the dimensions of shape
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
		steps := ByteStrides(m)
		if len(steps) > 0 {
			steps = slices.Delete(steps, dim, dim+1)
		}
		lines.Strides = append(lines.Strides, steps)
	}
	return lines
}

// Offsets returns the offset of line i in each value, in bytes.
func (l *LineSet) Offsets(i int) (offsets [4]int) {
	for d := len(l.shape) - 1; d >= 0; d-- {
		k := i % l.shape[d]
		i /= l.shape[d]
		for s := range l.Strides {
			offsets[s] += k * l.Strides[s][d]
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
