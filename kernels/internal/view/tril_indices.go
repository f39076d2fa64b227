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

// TrilIndices and TriuIndices are torch.tril_indices and torch.triu_indices.
var (
	TrilIndices = triangleIndices("tril_indices", "Creates the row indices and the column indices of the elements of "+
		"a lower triangle, row by row, as a matrix of two rows.", true)
	TriuIndices = triangleIndices("triu_indices", "Creates the row indices and the column indices of the elements of "+
		"an upper triangle, row by row, as a matrix of two rows.", false)
)

// triangleIndices defines an op with the indices of a lower or upper triangle.
func triangleIndices(name, doc string, lower bool) *graph.Op {
	infer := func(c *graph.Call) ([]graph.Result, error) {
		a := kit.Attrs[triangleIndicesAttrs](c)
		switch {
		case a.Row < 0:
			return nil, fmt.Errorf("row must be non-negative, got%d", a.Row)
		case a.Col < 0:
			return nil, fmt.Errorf("col must be non-negative, got%d", a.Col)
		case a.DType != tensor.Int16 && a.DType != tensor.Int32 && a.DType != tensor.Int64:
			return nil, kit.NotImplementedBy(name, a.DType)
		}
		if err := tensor.CheckSizes(a.DType, sym.Ints(a.Row, a.Col)); err != nil {
			return nil, err // products of sizes do not overflow
		}
		t, err := kit.FreshType(a.DType, sym.Ints(2, a.countAbove(a.Row, lower)))
		return c.NewResult(t), err
	}
	return kit.Define[triangleIndicesAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Infer: infer,
			Ref: func(c *graph.Call, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
				res, err := infer(c)
				if err != nil {
					return nil, err
				}
				a, n := kit.Attrs[triangleIndicesAttrs](c), 0
				out := tensor.Zeros(a.DType, kit.KnownSizes(res[0].Type.Shape)...)
				firstRow, endRow := 0, min(a.Row, a.Col-a.Offset) // without rows that have no element of the triangle
				if lower {
					firstRow, endRow = max(0, -a.Offset), a.Row
				}
				for i := firstRow; i < endRow; i++ {
					from, to := max(0, i+a.Offset), a.Col
					if lower {
						from, to = 0, min(i+a.Offset+1, a.Col)
					}
					for j := from; j < to; j++ {
						out.Set(tensor.IntScalar(int64(i)), 0, n)
						out.Set(tensor.IntScalar(int64(j)), 1, n)
						n++
					}
				}
				return []*tensor.Tensor{out}, nil
			},
			Examples: []graph.Example{{Attrs: graph.Attrs{"row": 3, "col": 4, "offset": 1}},
				{Attrs: graph.Attrs{"row": 4, "col": 3, "offset": -2, "dtype": "int32"}}},
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true},
		Lowerings: graph.Lowerings{Compile: func(c *graph.Call) (*graph.Kernel, error) {
			return compileTriangleIndices(c, lower), nil
		}},
	})
}

// countAbove returns the number of elements of the triangle in the first rows.
func (a *triangleIndicesAttrs) countAbove(rows int, lower bool) int {
	cols := a.Col
	if !lower { // the elements that the lower triangle of the diagonal below lacks
		below := *a
		below.Offset--
		return rows*cols - below.countAbove(rows, true)
	}
	offset := min(max(a.Offset, -rows), cols)
	first := max(0, -offset)                         // the first row with elements, offset+first+1 of them
	complete := min(max(first, cols-offset-1), rows) // the first row with all elements
	partial := (complete - first) * (first + complete + 2*offset + 1) / 2
	return partial + (rows-complete)*cols
}

// compileTriangleIndices returns a kernel whose chunks write the indices of some rows of the triangle.
func compileTriangleIndices(c *graph.Call, lower bool) *graph.Kernel {
	a, out := kit.Attrs[triangleIndicesAttrs](c), c.Out[0]
	if out.Numel() == 0 {
		return &graph.Kernel{}
	}
	firstRow, endRow := max(0, -a.Offset), a.Row
	if !lower {
		firstRow, endRow = 0, min(a.Row, a.Col-a.Offset)
	}
	rowsPerChunk, size := max(1, machine.CallGrain/a.Col), out.DType.Size()
	return &graph.Kernel{Phases: []graph.Phase{{
		Chunks: kit.DivUp(endRow-firstRow, rowsPerChunk),
		Run: func(mem *graph.Mem, chunk int) error {
			start := firstRow + chunk*rowsPerChunk
			for row := start; row < min(start+rowsPerChunk, endRow); row++ {
				from, to := 0, clampedColumn(row, a.Offset, 1, a.Col)
				if !lower {
					from, to = clampedColumn(row, a.Offset, 0, a.Col), a.Col
				}
				position := a.countAbove(row, lower)
				kit.ForEachBlock(mem.Context, to-from, func(begin, end int) {
					for i := begin; i < end; i++ {
						at := unsafe.Add(mem.Ptrs[0], (position+i)*out.Strides[1]*size)
						tensor.IntScalar(int64(row)).Store(out.DType, at)
						tensor.IntScalar(int64(from+i)).Store(out.DType, unsafe.Add(at, out.Strides[0]*size))
					}
				})
			}
			return nil
		},
	}}}
}
