package product

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// LinalgDet and Det compute the determinant.
var (
	LinalgDet = detOp("linalg_det")
	Det       = detOp("det")
)

// detOp defines an op that returns determinants.
func detOp(name string) *graph.Op {
	return kit.Define[*kit.EmptyAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: "Returns the determinants of square matrices, the last two dimensions.",
			Params: []graph.Param{kit.Self},
			Infer:  inferDet,
			Ref:    refDet,
			Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 3, 3).WithStrides([]int{9, 1, 3})}},
				{In: []tensor.Meta{tensor.New(tensor.Complex128, 4, 4)}}, {In: []tensor.Meta{kit.F32(0, 0)}}},
		},
		Facts:     graph.Facts{Parallel: kit.LoopsOverLeadingDims},
		Lowerings: graph.Lowerings{Compile: compileDet},
	})
}

// inferDet checks a call and infers the result, a number for each matrix.
func inferDet(call *graph.Call) ([]graph.Result, error) {
	self := call.Type(0)
	rank := self.Rank()
	switch {
	case rank < 2:
		return nil, fmt.Errorf("linalg.det: The input tensor A must have at least 2 dimensions.")
	case self.Shape[rank-1].Ne(self.Shape[rank-2]).Holds():
		return nil, fmt.Errorf("linalg.det: A must be batches of square matrices, but they are %v by %v matrices",
			self.Shape[rank-2], self.Shape[rank-1])
	case self.DType.IsIntegral(true):
		return nil, fmt.Errorf("linalg.det: Expected a floating point or complex tensor as input. Got %s",
			self.DType.TorchName())
	case self.DType.IsReducedFloat():
		return nil, fmt.Errorf("linalg.det: Low precision dtypes not supported. Got %s", self.DType.TorchName())
	}
	return call.NewResult(tensor.NewType(self.DType, self.Shape[:rank-2]...)), nil
}

// compileDet returns a kernel that copies each matrix to worker memory, as complex128, and computes its determinant.
func compileDet(c *graph.Call) (*graph.Kernel, error) {
	self, out := c.Meta(0), c.Out[0]
	if out.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	batchRank := self.Rank() - 2
	n, rowStride, colStride := self.Shape[batchRank], kit.ByteStride(self, batchRank), kit.ByteStride(self, batchRank+1)
	batch := tensor.Meta{DType: self.DType, Shape: self.Shape[:batchRank], Strides: self.Strides[:batchRank]}
	// Each matrix of the batch is a line of one element. Offset 0 of a line locates the result, and offset 1 locates
	// the matrix.
	lines := kit.NewLineSet(append(append([]int{}, self.Shape[:batchRank]...), 1), batchRank)
	lines.Strides = [][]int{kit.ByteStrides(out), kit.ByteStrides(batch)}
	load, store := tensor.Converter(tensor.Complex128, self.DType), tensor.Converter(self.DType, tensor.Complex128)
	const complexBytes = 16
	matrixCost := n * n * n // in copied elements; an elimination takes n^3/3 multiply-adds
	phase := lines.Phase(matrixCost, func(mem *graph.Mem, offsets [4]int) error {
		matrix := unsafe.Slice((*complex128)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), n*n)
		for i := range n {
			mem.CheckContext()
			load(unsafe.Pointer(&matrix[i*n]), unsafe.Add(mem.Ptrs[1], offsets[1]+i*rowStride), complexBytes, colStride, n)
		}
		det := determinant(mem.Context, matrix, n)
		const unusedStep, count = 0, 1
		store(unsafe.Add(mem.Ptrs[0], offsets[0]), unsafe.Pointer(&det), unusedStep, unusedStep, count)
		return nil
	})
	return &graph.Kernel{WorkerScratch: complexBytes * n * n, Phases: []graph.Phase{phase}}, nil
}

// determinant returns the determinant of an n x n matrix by Gaussian elimination, which overwrites the matrix. The
// pivot of a column is the element of greatest magnitude, or NaN.
func determinant(ctx context.Context, matrix []complex128, n int) complex128 {
	det := complex(1, 0)
	for k := range n {
		pivotRow := k
		for i := k + 1; i < n; i++ {
			if size := kit.AbsComplex(matrix[i*n+k]); size > kit.AbsComplex(matrix[pivotRow*n+k]) || size != size {
				pivotRow = i
			}
		}
		pivot := matrix[pivotRow*n+k]
		det = kit.MulComplex(det, pivot)
		if pivot == 0 { // the determinant is 0 unless the rest of the diagonal has an infinity or NaN
			continue
		}
		if pivotRow != k {
			det = -det
			for j := k; j < n; j++ {
				matrix[pivotRow*n+j], matrix[k*n+j] = matrix[k*n+j], matrix[pivotRow*n+j]
			}
		}
		for i := k + 1; i < n; i++ {
			if i*n%kit.CheckEvery < n { // about once for each CheckEvery elements
				interrupt.Check(ctx)
			}
			factor := kit.DivComplex(matrix[i*n+k], pivot)
			for j := k + 1; j < n; j++ {
				matrix[i*n+j] -= kit.MulComplex(factor, matrix[k*n+j])
			}
		}
	}
	return det
}

// maxExpandedRows is the greatest number of rows of a matrix that refDet expands.
const maxExpandedRows = 8

// refDet is the reference implementation. It expands a determinant along the first row (Laplace). For a matrix with
// more than maxExpandedRows rows it uses elimination, because an expansion takes n! products.
func refDet(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	batchRank := in[0].Rank() - 2
	out := tensor.Zeros(in[0].DType, in[0].Shape[:batchRank]...)
	n := in[0].Shape[batchRank]
	kit.EachIndex(out.Shape, func(batch []int) {
		if n > maxExpandedRows {
			matrix := make([]complex128, 0, n*n)
			kit.EachIndex([]int{n, n}, func(i []int) { matrix = append(matrix, in[0].At(slices.Concat(batch, i)...).Complex()) })
			out.Set(tensor.ComplexScalar(determinant(context.Background(), matrix, n)), batch...)
			return
		}
		const firstRow, noColumns = 0, 0
		out.Set(tensor.ComplexScalar(expandDeterminant(in[0], batch, firstRow, noColumns)), batch...)
	})
	return []*tensor.Tensor{out}, nil
}

// expandDeterminant returns the determinant of a part of one matrix: the rows from row on, without the columns in the
// bit set usedColumns. batch is the index of the matrix.
func expandDeterminant(matrices *tensor.Tensor, batch []int, row int, usedColumns uint) complex128 {
	n := matrices.Shape[len(batch)]
	if row == n {
		return 1
	}
	sum, sign := complex(0, 0), complex(1, 0)
	for j := range n {
		if usedColumns>>j&1 != 0 {
			continue
		}
		element := matrices.At(append(append([]int{}, batch...), row, j)...).Complex()
		minor := expandDeterminant(matrices, batch, row+1, usedColumns|1<<j)
		if matrices.DType.IsComplex() {
			sum += kit.MulComplex(kit.MulComplex(sign, element), minor)
		} else { // without imaginary parts, which would be NaN for an infinity
			sum += complex(float64(real(sign)*real(element)*real(minor)), 0)
		}
		sign = -sign
	}
	return sum
}
