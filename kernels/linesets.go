package kernels

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// stepAt is the step in bytes of a dimension, 0 for a 0-dim value.
func stepAt(m tensor.Meta, dim int) int {
	if m.Rank() == 0 {
		return 0
	}
	return m.Strides[dim] * m.DType.Size()
}

// lineSet counts the lines of a value along a dimension, and finds their places in values
// beside it.
type lineSet struct {
	shape []int
	sides [][]int // steps in bytes
	count int
}

func newLineSet(shape []int, dim int, metas ...tensor.Meta) *lineSet {
	l := &lineSet{count: 1}
	for d, n := range shape {
		if d != dim {
			l.shape = append(l.shape, n)
			l.count *= n
		}
	}
	for _, m := range metas {
		steps := byteStrides(m)
		if len(steps) > 0 {
			steps = slices.Delete(steps, dim, dim+1)
		}
		l.sides = append(l.sides, steps)
	}
	return l
}

// at returns the offsets in bytes of line i in the values beside it.
func (l *lineSet) at(i int) (off [4]int) {
	for d := len(l.shape) - 1; d >= 0; d-- {
		k := i % l.shape[d]
		i /= l.shape[d]
		for s := range l.sides {
			off[s] += k * l.sides[s][d]
		}
	}
	return off
}

// phase runs f on all lines, each of which costs as much as cost elements of a copy.
func (l *lineSet) phase(cost int, f func(m *graph.Mem, off [4]int) error) graph.Phase {
	per := max(1, indexGrain/max(1, cost))
	return graph.Phase{Chunks: divUp(l.count, per), Run: func(m *graph.Mem, chunk int) error {
		for i := chunk * per; i < min(l.count, (chunk+1)*per); i++ {
			if err := f(m, l.at(i)); err != nil {
				return err
			}
		}
		return nil
	}}
}
