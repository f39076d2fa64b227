package view

import (
	"errors"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type trilAttrs struct {
	Diagonal int `attr:"diagonal" default:"0" range:"int64" doc:"last diagonal to keep: 0 is the main one, positive ones are above it"`
}

type triuAttrs struct {
	Diagonal int `attr:"diagonal" default:"0" range:"int64" doc:"first diagonal to keep: 0 is the main one, positive ones are above it"`
}

// Tril and Triu are torch.tril and torch.triu.
var (
	Tril = triangleOp(graph.SchemaOf[*trilAttrs](), "tril",
		"Keeps the lower triangle of matrices, the last two dimensions, and sets "+
			"the rest to 0.",
		func(c *graph.Call, row, cols int) (int, int) {
			return 0, clampedColumn(row, kit.Attrs[*trilAttrs](c).Diagonal, 1, cols)
		})
	Triu = triangleOp(graph.SchemaOf[*triuAttrs](), "triu",
		"Keeps the upper triangle of matrices, the last two dimensions, and sets "+
			"the rest to 0.",
		func(c *graph.Call, row, cols int) (int, int) {
			return clampedColumn(row, kit.Attrs[*triuAttrs](c).Diagonal, 0, cols), cols
		})
)

// triangleOp defines an op on matrices that keeps some columns of each row and sets the other columns to 0. keptColumns
// returns the range [from, to) of the columns that a row keeps. cols is the number of columns.
func triangleOp(attrs *graph.Schema, name, doc string, keptColumns func(c *graph.Call, row, cols int) (from,
	to int)) *graph.Op {
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name:   name,
			Doc:    doc,
			Params: []graph.Param{kit.Self},
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				self := c.Type(0)
				if self.Rank() == 0 {
					return nil, errors.New("Dimension specified as -2 but tensor has no dimensions")
				}
				if _, err := tensor.WrapDim(-2, self.Rank()); err != nil {
					return nil, err
				}
				return c.NewResult(self.RowMajor()), nil
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				out := tensor.Zeros(in[0].DType, in[0].Shape...)
				rank := out.Rank()
				kit.EachIndex(out.Shape, func(index []int) {
					if from, to := keptColumns(c, index[rank-2], out.Shape[rank-1]); index[rank-1] >= from && index[rank-1] < to {
						out.Set(in[0].At(index...), index...)
					}
				})
				return []*tensor.Tensor{out}, nil
			},
			Examples: kit.OneExample(kit.F32(3, 4), graph.Attrs{"diagonal": 1}),
		},
		Facts: graph.Facts{Parallel: kit.LoopsExceptDims(-1, -2), WritesAnyDenseLayout: true},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) { return compileTriangle(c, keptColumns), nil },
		},
	})
}

// compileTriangle returns a kernel that writes each row: zeros, then the kept columns, then zeros.
func compileTriangle(call *graph.Call, keptColumns func(c *graph.Call, row, cols int) (from, to int)) *graph.Kernel {
	src, dst := call.Meta(0), call.Out[0]
	if dst.Numel() == 0 {
		return &graph.Kernel{}
	}
	rank, elementBytes := dst.Rank(), dst.DType.Size()
	cols := dst.Shape[rank-1] // the rows are the elements of all other dimensions
	rows := dst.Numel() / cols
	rowsPerChunk := max(1, machine.MoveGrain/cols)
	moveBlock := kit.RowConverter(dst.DType, src.DType)
	// move copies `count` elements. Steps are distances between elements in bytes.
	move := func(mem *graph.Mem, target, source unsafe.Pointer, dstStep, srcStep, count int) {
		kit.ForEachBlock(mem.Context, count, func(begin, end int) {
			moveBlock(unsafe.Add(target, begin*dstStep), unsafe.Add(source, begin*srcStep), dstStep, srcStep, end-begin)
		})
	}
	dstStep, srcStep := dst.Strides[rank-1]*elementBytes, src.Strides[rank-1]*elementBytes
	zero := tensor.Zeros(dst.DType).Pointer()
	return &graph.Kernel{
		Phases: []graph.Phase{{Chunks: (rows + rowsPerChunk - 1) / rowsPerChunk, Run: func(mem *graph.Mem, chunk int) error {
			for flatRow := chunk * rowsPerChunk; flatRow < min(rows, (chunk+1)*rowsPerChunk); flatRow++ {
				row := flatRow % dst.Shape[rank-2]                                       // in the matrix
				dstOffset, srcOffset := row*dst.Strides[rank-2], row*src.Strides[rank-2] // in elements
				remaining := flatRow / dst.Shape[rank-2]
				for d := rank - 3; d >= 0; d-- {
					i := remaining % dst.Shape[d]
					remaining /= dst.Shape[d]
					dstOffset, srcOffset = dstOffset+i*dst.Strides[d], srcOffset+i*src.Strides[d]
				}
				dstRow, srcRow := unsafe.Add(mem.Ptrs[0], dstOffset*elementBytes), unsafe.Add(mem.Ptrs[1], srcOffset*elementBytes)
				first, end := keptColumns(call, row, cols)
				if first > 0 { // step 0 reads the same zero again
					move(mem, dstRow, zero, dstStep, 0, first)
				}
				if end > first {
					move(mem, unsafe.Add(dstRow, first*dstStep), unsafe.Add(srcRow, first*srcStep), dstStep, srcStep, end-first)
				}
				if end < cols {
					move(mem, unsafe.Add(dstRow, end*dstStep), zero, dstStep, 0, cols-end)
				}
			}
			return nil
		}}},
	}
}
