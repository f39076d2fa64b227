package view

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type triangleIndicesAttrs struct {
	Row    int          `attr:"row" doc:"number of rows"`
	Col    int          `attr:"col" doc:"number of columns"`
	Offset int          `attr:"offset" default:"0" doc:"diagonal that bounds the triangle: 0 is the main one, positive ones are above it"`
	DType  tensor.DType `attr:"dtype" default:"int64" doc:"dtype of the result: int16, int32 or int64"`
}

// TrilIndices and TriuIndices are torch.tril_indices and torch.triu_indices. For example, the lower triangle of 3 rows
// and 3 columns has six elements:
//
//	0 1 1 2 2 2    rows
//	0 0 1 0 1 2    columns
var (
	TrilIndices = triangleIndicesOp("tril_indices", "Creates the row indices and the column indices of the elements of "+
		"a lower triangle, row by row, as a matrix of two rows.", isLowerTriangle)
	TriuIndices = triangleIndicesOp("triu_indices", "Creates the row indices and the column indices of the elements of "+
		"an upper triangle, row by row, as a matrix of two rows.", isUpperTriangle)
)

// Values of isLower.
const isLowerTriangle, isUpperTriangle = true, false

// triangleIndicesOp defines an op with the indices of a lower triangle if isLower is set, else of an upper triangle.
func triangleIndicesOp(name, doc string, isLower bool) *graph.Op {
	infer := func(c *graph.Call) ([]graph.Result, error) {
		attrs := kit.Attrs[*triangleIndicesAttrs](c)
		switch {
		case attrs.Row < 0: // PyTorch's message, without a space before the number
			return nil, fmt.Errorf("row must be non-negative, got%d", attrs.Row)
		case attrs.Col < 0:
			return nil, fmt.Errorf("col must be non-negative, got%d", attrs.Col)
		case attrs.DType != tensor.Int16 && attrs.DType != tensor.Int32 && attrs.DType != tensor.Int64:
			return nil, kit.NotImplementedBy(name, attrs.DType)
		}
		// After this check, products of sizes do not overflow.
		if err := tensor.CheckSizes(attrs.DType, sym.Ints(attrs.Row, attrs.Col)); err != nil {
			return nil, err
		}
		result, err := kit.FreshType(attrs.DType, sym.Ints(2, attrs.countInRows(attrs.Row, isLower)))
		return c.NewResult(result), err
	}
	return kit.Define[*triangleIndicesAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Infer: infer,
			Ref: func(c *graph.Call, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
				inferred, err := infer(c)
				if err != nil {
					return nil, err
				}
				attrs := kit.Attrs[*triangleIndicesAttrs](c)
				out := tensor.Zeros(attrs.DType, kit.KnownSizes(inferred[0].Type.Shape)...)
				attrs.storeIndices(out, isLower)
				return []*tensor.Tensor{out}, nil
			},
			Examples: []graph.Example{{Attrs: graph.Attrs{"row": 3, "col": 4, "offset": 1}},
				{Attrs: graph.Attrs{"row": 4, "col": 3, "offset": -2, "dtype": "int32"}}},
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true},
		Lowerings: graph.Lowerings{Compile: func(c *graph.Call) (*graph.Kernel, error) {
			return compileTriangleIndices(c, isLower), nil
		}},
	})
}

// storeIndices stores the indices of the triangle in out, one element after another. It is the reference
// implementation.
func (attrs *triangleIndicesAttrs) storeIndices(out *tensor.Tensor, isLower bool) {
	position := 0
	firstRow, endRow := attrs.nonemptyRows(isLower)
	for i := firstRow; i < endRow; i++ {
		firstColumn, endColumn := max(0, i+attrs.Offset), attrs.Col
		if isLower {
			firstColumn, endColumn = 0, min(i+attrs.Offset+1, attrs.Col)
		}
		for j := firstColumn; j < endColumn; j++ {
			out.Set(tensor.IntScalar(int64(i)), 0, position)
			out.Set(tensor.IntScalar(int64(j)), 1, position)
			position++
		}
	}
}

// nonemptyRows returns the range of the rows that have an element of the triangle.
func (attrs *triangleIndicesAttrs) nonemptyRows(isLower bool) (first, end int) {
	if isLower {
		return max(0, -attrs.Offset), attrs.Row
	}
	return 0, min(attrs.Row, attrs.Col-attrs.Offset)
}

// countInRows returns the number of elements of the triangle in the first `rows` rows. For a lower triangle of 3 rows
// and 3 columns with offset 0, firstRow is 0 and firstComplete 2: 1+2 elements in the partial rows, and 3 in row 2.
func (attrs *triangleIndicesAttrs) countInRows(rows int, isLower bool) int {
	cols := attrs.Col
	if !isLower { // all elements except the lower triangle below the diagonal
		below := *attrs
		below.Offset--
		return rows*cols - below.countInRows(rows, isLowerTriangle)
	}
	offset := min(max(attrs.Offset, -rows), cols)
	firstRow := max(0, -offset)                              // the first row with elements, offset+firstRow+1 of them
	firstComplete := min(max(firstRow, cols-offset-1), rows) // the first row with all elements
	// The rows from firstRow to firstComplete-1 have offset+firstRow+1 to offset+firstComplete elements: an arithmetic
	// series.
	partial := (firstComplete - firstRow) * (firstRow + firstComplete + 2*offset + 1) / 2
	return partial + (rows-firstComplete)*cols
}

// compileTriangleIndices returns a kernel whose chunks write the indices of some rows of the triangle.
func compileTriangleIndices(c *graph.Call, isLower bool) *graph.Kernel {
	attrs, out := kit.Attrs[*triangleIndicesAttrs](c), c.Out[0]
	if out.Numel() == 0 {
		return &graph.Kernel{}
	}
	firstRow, endRow := attrs.nonemptyRows(isLower)
	rowsPerChunk, elementBytes := max(1, machine.CallGrain/attrs.Col), out.DType.Size()
	return &graph.Kernel{Phases: []graph.Phase{{
		Chunks: kit.DivUp(endRow-firstRow, rowsPerChunk),
		Run: func(mem *graph.Mem, chunk int) error {
			start := firstRow + chunk*rowsPerChunk
			for row := start; row < min(start+rowsPerChunk, endRow); row++ {
				// clampedColumn is the column of the diagonal in the row, or the next one, clamped to [0, attrs.Col].
				firstColumn, endColumn := 0, clampedColumn(row, attrs.Offset, afterDiagonal, attrs.Col)
				if !isLower {
					firstColumn, endColumn = clampedColumn(row, attrs.Offset, onDiagonal, attrs.Col), attrs.Col
				}
				position := attrs.countInRows(row, isLower) // of the row's first element in the result
				kit.ForEachBlock(mem.Context, endColumn-firstColumn, func(begin, end int) {
					for i := begin; i < end; i++ {
						address := unsafe.Add(mem.Ptrs[0], (position+i)*out.Strides[1]*elementBytes)
						tensor.IntScalar(int64(row)).Store(out.DType, address)
						tensor.IntScalar(int64(firstColumn+i)).Store(out.DType, unsafe.Add(address, out.Strides[0]*elementBytes))
					}
				})
			}
			return nil
		},
	}}}
}
