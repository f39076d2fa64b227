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

// Tril and Triu are torch.tril and torch.triu. With diagonal 1, they keep these elements of a matrix [3, 4]:
//
//	tril     triu
//	x x 0 0  0 x x x
//	x x x 0  0 0 x x
//	x x x x  0 0 0 x
//
// clampedColumn returns the column of the diagonal in a row (onDiagonal), or the next column (afterDiagonal). The
// column is clamped to [0, cols].
var (
	Tril = triangleOp(graph.SchemaOf[*trilAttrs](), "tril",
		"Keeps the lower triangle of matrices, the last two dimensions, and sets "+
			"the rest to 0.",
		func(c *graph.Call, row, cols int) (from, to int) {
			return 0, clampedColumn(row, kit.Attrs[*trilAttrs](c).Diagonal, afterDiagonal, cols)
		})
	Triu = triangleOp(graph.SchemaOf[*triuAttrs](), "triu",
		"Keeps the upper triangle of matrices, the last two dimensions, and sets "+
			"the rest to 0.",
		func(c *graph.Call, row, cols int) (from, to int) {
			return clampedColumn(row, kit.Attrs[*triuAttrs](c).Diagonal, onDiagonal, cols), cols
		})
)

// columnRange returns the range [from, to) of the columns that are kept in a row of a matrix. cols is the number of
// columns.
type columnRange func(c *graph.Call, row, cols int) (from, to int)

// triangleOp defines an op on matrices that keeps some columns of each row and sets the other columns to 0.
func triangleOp(attrs *graph.Schema, name, doc string, keptColumns columnRange) *graph.Op {
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
					row, col := index[rank-2], index[rank-1]
					if from, to := keptColumns(c, row, out.Shape[rank-1]); col >= from && col < to {
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
func compileTriangle(call *graph.Call, keptColumns columnRange) *graph.Kernel {
	src, dst := call.Meta(0), call.Out[0]
	if dst.Numel() == 0 {
		return &graph.Kernel{}
	}
	rank, elementBytes := dst.Rank(), dst.DType.Size()
	cols, rowsPerMatrix := dst.Shape[rank-1], dst.Shape[rank-2]
	rows := dst.Numel() / cols // of all matrices
	rowsPerChunk := max(1, machine.MoveGrain/cols)
	moveBlock := kit.RowConverter(dst.DType, src.DType)
	dstStep, srcStep := dst.Strides[rank-1]*elementBytes, src.Strides[rank-1]*elementBytes // in bytes
	// copyColumns copies columns [first, end) of a row. step is the distance between the columns of source, in bytes.
	copyColumns := func(mem *graph.Mem, dstRow, source unsafe.Pointer, step, first, end int) {
		kit.ForEachBlock(mem.Context, end-first, func(blockFirst, blockEnd int) {
			col := first + blockFirst
			moveBlock(unsafe.Add(dstRow, col*dstStep), unsafe.Add(source, col*step), dstStep, step, blockEnd-blockFirst)
		})
	}
	zero := tensor.Zeros(dst.DType).Pointer()
	const zeroStep = 0 // all elements are read from the same zero
	return &graph.Kernel{
		Phases: []graph.Phase{{Chunks: (rows + rowsPerChunk - 1) / rowsPerChunk, Run: func(mem *graph.Mem, chunk int) error {
			for row := chunk * rowsPerChunk; row < min(rows, (chunk+1)*rowsPerChunk); row++ {
				dstRow := unsafe.Add(mem.Ptrs[0], rowOffset(&dst, row)*elementBytes)
				srcRow := unsafe.Add(mem.Ptrs[1], rowOffset(&src, row)*elementBytes)
				first, end := keptColumns(call, row%rowsPerMatrix, cols)
				copyColumns(mem, dstRow, zero, zeroStep, 0, first)
				copyColumns(mem, dstRow, srcRow, srcStep, first, end)
				copyColumns(mem, dstRow, zero, zeroStep, end, cols)
			}
			return nil
		}}},
	}
}

// rowOffset returns the offset, in elements, of a row (along the last dimension). row is a row-major index over all
// other dimensions.
func rowOffset(meta *tensor.Meta, row int) int {
	offset := 0
	for d := meta.Rank() - 2; d >= 0; d-- {
		offset += row % meta.Shape[d] * meta.Strides[d]
		row /= meta.Shape[d]
	}
	return offset
}
