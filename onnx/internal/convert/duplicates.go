package convert

import (
	"bytes"
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// matrixType is the dtype and the sizes of a weight, the lesser one first.
type matrixType struct {
	dtype    tensor.DType
	min, max int
}

// matrix is a large matrix among the initializers. isMultiplied is as the function isMultiplied.
type matrix struct {
	*Value
	isMultiplied func() bool
}

// shareDuplicate makes an initializer a view of an earlier one with the same large matrix, or of one with its transpose
// if only products read the view. Exporters write the table of tied embeddings twice: as it is gathered, and as it is
// multiplied.
func (im *importer) shareDuplicate(m matrix) {
	data := m.data
	if data == nil || data.Rank() != 2 || data.Numel() <= FoldLimit || !data.IsContiguous() {
		return
	}
	rows, cols := data.Shape[0], data.Shape[1]
	key := matrixType{data.DType, min(rows, cols), max(rows, cols)}
	for i, earlier := range im.matrices[key] {
		if slices.Equal(earlier.data.Shape, data.Shape) && im.haveSameBits(data, earlier.data) {
			m.data = earlier.data
			return
		}
		if transposed := transposeOf(earlier.data); slices.Equal(transposed.Shape, data.Shape) &&
			im.haveSameBits(data, transposed) {
			switch {
			case m.isMultiplied():
				m.data = transposed
				return
			case earlier.graphValue == nil && earlier.isMultiplied():
				earlier.data, im.matrices[key][i] = transposeOf(data), m
				return
			}
		}
	}
	if im.matrices == nil {
		im.matrices = map[matrixType][]matrix{}
	}
	im.matrices[key] = append(im.matrices[key], m)
}

// transposeOf returns the transpose of a matrix as a view.
func transposeOf(t *tensor.Tensor) *tensor.Tensor {
	return tensor.Must(t.View(tensor.Meta{DType: t.DType, Shape: []int{t.Shape[1], t.Shape[0]},
		Strides: []int{t.Strides[1], t.Strides[0]}, Offset: t.Offset}))
}

// isMultiplied reports whether all readers of an initializer are matrix products. Their results do not have the strides
// of this operand: the strides of values must not depend on the numbers in weights.
func isMultiplied(g *pb.GraphProto, name string) bool {
	for _, n := range g.Node {
		if slices.Contains(n.Input, name) && n.OpType != "MatMul" && n.OpType != "Gemm" {
			return false
		}
		if len(n.Graphs()) > 0 { // a body may read it
			return false
		}
	}
	isOutput := func(v *pb.ValueInfoProto) bool { return v.Name == name }
	return !slices.ContainsFunc(g.Output, isOutput)
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
