package convert

import (
	"bytes"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

// matrixType is the dtype and the sizes of a weight, the lesser one first.
type matrixType struct {
	dtype    tensor.DType
	min, max int
}

// withoutDuplicate returns a view of an earlier weight if data is the same large matrix or its transpose. Otherwise it
// returns data. Exporters write the table of tied embeddings twice: as it is gathered, and as it is multiplied.
func (im *importer) withoutDuplicate(data *tensor.Tensor) *tensor.Tensor {
	if data.Rank() != 2 || data.Numel() <= FoldLimit || !data.IsContiguous() {
		return data
	}
	rows, cols := data.Shape[0], data.Shape[1]
	key := matrixType{data.DType, min(rows, cols), max(rows, cols)}
	for _, earlier := range im.matrices[key] {
		for _, strides := range [][]int{{cols, 1}, {1, rows}} {
			if strides[0] == cols && earlier.Shape[0] != rows || strides[0] == 1 && earlier.Shape[0] != cols {
				continue
			}
			view := tensor.Must(earlier.View(tensor.Meta{DType: data.DType, Shape: data.Shape, Strides: strides,
				Offset: earlier.Offset}))
			if im.haveSameBits(data, view) {
				return view
			}
		}
	}
	if im.matrices == nil {
		im.matrices = map[matrixType][]*tensor.Tensor{}
	}
	im.matrices[key] = append(im.matrices[key], data)
	return data
}

// haveSameBits compares matrices tile by tile. a is row-major, and b row-major or column-major. Tiles on the diagonal
// come first, because most matrices differ there.
func (im *importer) haveSameBits(a, b *tensor.Tensor) bool {
	const tile = 64
	size, rows, cols := a.DType.Size(), a.Shape[0], a.Shape[1]
	aBytes, bBytes := a.Storage().Bytes()[a.Offset*size:], b.Storage().Bytes()[b.Offset*size:]
	isSameTile := func(row, col int) bool {
		for i := row; i < min(row+tile, rows); i++ {
			for j := col; j < min(col+tile, cols); j++ {
				x, y := (i*cols+j)*size, (i*b.Strides[0]+j*b.Strides[1])*size
				if !bytes.Equal(aBytes[x:x+size], bBytes[y:y+size]) {
					return false
				}
			}
		}
		return true
	}
	for i := 0; i < min(rows, cols); i += tile {
		if !isSameTile(i, i) {
			return false
		}
	}
	for row := 0; row < rows; row += tile {
		interrupt.Check(im.opts.Context)
		for col := 0; col < cols; col += tile {
			if !isSameTile(row, col) {
				return false
			}
		}
	}
	return true
}
