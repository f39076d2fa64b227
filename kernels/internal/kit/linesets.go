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
func ByteStride(meta tensor.Meta, dim int) int {
	if meta.Rank() == 0 {
		return 0
	}
	return meta.Strides[dim] * meta.DType.Size()
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
	for i, size := range shape {
		if i != dim {
			lines.shape = append(lines.shape, size)
			lines.Count *= size
		}
	}
	for _, meta := range metas {
		strides := ByteStrides(meta)
		if len(strides) > 0 { // a 0-dim value has one line of one element
			strides = slices.Delete(strides, dim, dim+1)
		}
		lines.Strides = append(lines.Strides, strides)
	}
	return lines
}

// Offsets returns, for each value, the distance in bytes from its first element to the first element of line i.
func (lines *LineSet) Offsets(i int) (offsets [4]int) {
	for dim := len(lines.shape) - 1; dim >= 0; dim-- {
		coordinate := i % lines.shape[dim]
		i /= lines.shape[dim]
		for value := range lines.Strides {
			offsets[value] += coordinate * lines.Strides[value][dim]
		}
	}
	return offsets
}

// Phase returns a phase that calls run for every line, with the line's offsets. cost is the cost of a line, in copied
// elements.
func (lines *LineSet) Phase(cost int, run func(m *graph.Mem, offsets [4]int) error) graph.Phase {
	linesPerChunk := max(1, machine.GatherGrain/max(1, cost))
	return graph.Phase{Chunks: DivUp(lines.Count, linesPerChunk), Run: func(mem *graph.Mem, chunk int) error {
		for i := chunk * linesPerChunk; i < min(lines.Count, (chunk+1)*linesPerChunk); i++ {
			if err := run(mem, lines.Offsets(i)); err != nil {
				return err
			}
		}
		return nil
	}}
}
