package slide

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/machine"
)

// maxDistance bounds a product of a number of rows or columns and the bytes from one to the next: the sum of two fits a
// displacement, which has 32 bits.
const maxDistance = 1<<30 - 1<<16

// checkDistances refuses distances that do not fit the displacements and immediates of the code.
func (s *Spec) checkDistances() error {
	rows, cols := s.span(0), s.span(1)
	if !s.Told {
		rows = min(rows, max(0, s.End[0]-s.First[0]))
	}
	cols = min(cols, max(0, s.End[1]-s.First[1]))
	return checkFit([][2]int{{rows, s.In[0]}, {s.Apart[0], s.In[0]}, {cols, s.In[1]}, {s.Tile[0], s.Out[0]},
		{s.Tile[1], s.Out[1]}, {1, s.NextIn}, {1, s.NextOut}, {s.Window[0], min(s.Window[1], maxDistance) * s.Bytes}})
}

// checkDistances is [Spec.checkDistances] for code that computes bytes.
func (s *Bytes) checkDistances() error {
	rows := Spec{Tile: [2]int{1, s.Tile}, Window: s.Window, Step: s.Step, Apart: s.Apart}
	return checkFit([][2]int{{rows.span(0), s.In[0]}, {s.Step[0], s.In[0]}, {rows.span(1), s.In[1]},
		{s.Tile * min(s.Step[1], maxDistance), s.In[1]}, {1, s.Out[0]}, {s.Tile, s.Out[1]},
		{s.Groups(), min(s.Window[1], maxDistance) * 4 * ByteChannels(machine.AVX512)}})
}

// span returns the number of input rows or columns that a tile reads.
func (s *Spec) span(d int) int {
	const most = maxDistance // of each factor, so that no product leaves 64 bits
	return (s.Tile[d]-1)*min(s.Step[d], most) + (min(s.Window[d], most)-1)*min(s.Apart[d], most) + 1
}

// checkFit checks numbers of rows or columns, times the bytes from one to the next.
func checkFit(list [][2]int) error {
	for _, d := range list {
		if d[0] > maxDistance || d[1] > maxDistance || d[1] < 0 || d[0]*d[1] > maxDistance {
			return fmt.Errorf("slide: %d distances of %d bytes do not fit the code", d[0], d[1])
		}
	}
	return nil
}
