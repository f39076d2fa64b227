package depthwise

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/machine"
)

// maxDistance bounds the product of a number of rows (or columns) and the bytes from one row (or column) to the next.
// The sum of two such products, one for rows and one for columns, then fits into a displacement of 32 bits.
const maxDistance = 1<<30 - 1<<16

// checkDistances checks that all distances fit into the displacements and immediates of the code.
func (s *Spec) checkDistances() error {
	rows, cols := s.windowsExtent(0), s.windowsExtent(1)
	// Only the rows and columns that exist, First to End-1, are accessed. With RowsFromCall the number of rows is unknown.
	if !s.RowsFromCall {
		rows = min(rows, max(0, s.End[0]-s.First[0]))
	}
	cols = min(cols, max(0, s.End[1]-s.First[1]))
	weightRowBytes := min(s.Window[1], maxDistance) * s.VectorBytes
	return checkFit([]spacing{
		{rows, s.InStride[0]},          // the input rows of a tile
		{s.Dilation[0], s.InStride[0]}, // the input from one window row to the next
		{cols, s.InStride[1]},          // the input columns of a tile
		{s.Tile[0], s.OutStride[0]},    // the results of a tile
		{s.Tile[1], s.OutStride[1]},
		{1, s.InTileStep}, // from one tile to the next
		{1, s.OutTileStep},
		{s.Window[0], weightRowBytes}, // the weights
	})
}

// checkDistances is [Spec.checkDistances] for a [ByteSpec].
func (s *ByteSpec) checkDistances() error {
	window := Spec{Tile: [2]int{1, s.Tile}, Window: s.Window, Stride: s.Stride, Dilation: s.Dilation}
	// For each row group and each column of the window, the weights are 4 vectors of ByteChannels bytes. AVX-512 has the
	// longest vectors.
	const weightVectors = 4
	weightRowBytes := min(s.Window[1], maxDistance) * weightVectors * ByteChannels(machine.AVX512)
	return checkFit([]spacing{
		{window.windowsExtent(0), s.InStride[0]},                // the input rows of a tile
		{s.Stride[0], s.InStride[0]},                            // the input from one row of results to the next
		{window.windowsExtent(1), s.InStride[1]},                // the input columns of a tile
		{s.Tile * min(s.Stride[1], maxDistance), s.InStride[1]}, // the input from one tile to the next
		{1, s.OutStride[0]},                                     // from one row of results to the next
		{s.Tile, s.OutStride[1]},                                // the results of a tile
		{s.RowGroups(), weightRowBytes},                         // the weights
	})
}

// windowsExtent returns the number of input rows (axis 0) or columns (axis 1) between the ends of a tile's windows:
// from the first row of the first window to the last row of the last window. For example, 4 windows of 3 rows with a
// stride of 2 span (4-1)*2 + (3-1)*1 + 1 = 9 rows.
func (s *Spec) windowsExtent(axis int) int {
	const limit = maxDistance // limits each factor, so that products do not overflow 64 bits
	return (s.Tile[axis]-1)*min(s.Stride[axis], limit) + (min(s.Window[axis], limit)-1)*min(s.Dilation[axis], limit) + 1
}

// spacing is a number of rows or columns, and the number of bytes from the start of one to the start of the next.
type spacing struct{ count, bytes int }

// checkFit returns an error if bytes is negative, or if count, bytes or their product exceeds maxDistance.
func checkFit(list []spacing) error {
	for _, s := range list {
		if s.count > maxDistance || s.bytes > maxDistance || s.bytes < 0 || s.count*s.bytes > maxDistance {
			return fmt.Errorf("depthwise: the rows or columns (%d, %d bytes apart) must span 0 to %d bytes", s.count,
				s.bytes, maxDistance)
		}
	}
	return nil
}
