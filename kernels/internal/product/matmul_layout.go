package product

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes the result types of matrix products. As in PyTorch's at::matmul, a product is one of the ops dot,
// mv, mm and bmm on views of the operands. The results of these four ops are row-major. The result of the product may
// be a view of such a result with other strides. For example:
//
//	[4] @ [4]              dot
//	[3, 4] @ [4]           mv
//	[4] @ [4, 5]           mm of [1, 4] and [4, 5]
//	[2, 3, 4] @ [4, 5]     mm of [6, 4] and [4, 5], or mv for a vector (foldedType)
//	[2, 3, 4] @ [2, 4, 5]  bmm (batchedType)

// matmulType infers at::matmul.
func matmulType(a, b tensor.Type) (tensor.Type, error) {
	rankA, rankB := a.Rank(), b.Rank()
	switch {
	case rankA == 0 || rankB == 0:
		return tensor.Type{}, fmt.Errorf("both arguments to matmul need to be at least 1D, but they are %dD and %dD", rankA,
			rankB)
	case rankA == 1 && rankB == 1:
		return dotType(a, b)
	case rankA == 2 && rankB == 1:
		return mvType(a, b)
	case rankA == 1 && rankB == 2:
		row, err := a.Unsqueeze(0)
		if err != nil {
			return tensor.Type{}, err
		}
		product, err := mmType(row, b)
		if err != nil {
			return tensor.Type{}, err
		}
		return product.Squeeze(0)
	case rankA == 2 && rankB == 2:
		return mmType(a, b)
	case foldsBatch(a, rankB) || foldsBatch(b, rankA):
		return foldedType(a, b)
	}
	return batchedType(a, b)
}

// foldsBatch mirrors PyTorch's should_fold. It is for the product of batch, a batch of matrices, and an operand of rank
// otherRank. It reports whether PyTorch computes this as one matrix product: the rows of all matrices of the batch
// become the rows of one matrix. PyTorch does not fold a batch of transposed matrices, because bmm reads such matrices
// without a copy.
func foldsBatch(batch tensor.Type, otherRank int) bool {
	if batch.Rank() < 3 || otherRank != 1 && otherRank != 2 {
		return false
	}
	if batch.Rank() > 3 || otherRank == 1 {
		return true
	}
	isTransposed := batch.Strides[2].Ne(sym.Of(1)).Holds() &&
		batch.Strides[0].Eq(batch.Shape[1].Mul(batch.Shape[2])).Holds()
	return !isTransposed
}

// foldedType returns the type of a product that is computed as one matrix product. The operand of higher rank is a
// batch, which is folded. If b is this operand, the result is the transpose of bᵀ @ aᵀ.
func foldedType(a, b tensor.Type) (tensor.Type, error) {
	if b.Rank() <= a.Rank() {
		return foldedRowsType(a, b)
	}
	transposedB, err := b.Transpose(-2, -1)
	if err == nil && a.Rank() == 2 {
		a, err = a.Transpose(0, 1)
	}
	if err != nil {
		return tensor.Type{}, err
	}
	out, err := foldedRowsType(transposedB, a)
	if err != nil || a.Rank() == 1 {
		return out, err
	}
	if out, err = out.Transpose(-2, -1); err != nil || out.IsContiguous() {
		return out, err
	}
	return out.RowMajor(), nil // PyTorch copies the transpose
}

// foldedRowsType returns the type of the product of left, a batch of matrices, and right, a matrix or vector. The rows
// of all matrices of the batch become the rows of one matrix: [2, 3, 4] @ [4, 5] is computed as [6, 4] @ [4, 5].
func foldedRowsType(left, right tensor.Type) (tensor.Type, error) {
	batchRank := left.Rank() - 1
	foldedShape := [2]sym.Int{tensor.Product(left.Shape[:batchRank]), left.Shape[batchRank]}
	folded := tensor.Type{DType: left.DType, Shape: foldedShape[:], Strides: foldedShape[:]} // strides are not used
	shape := append(make([]sym.Int, 0, left.Rank()), left.Shape[:batchRank]...)
	if right.Rank() == 1 {
		if err := checkMv(folded, right); err != nil {
			return tensor.Type{}, err
		}
		return kit.FreshType(right.DType, shape)
	}
	if err := checkMm(folded, right); err != nil {
		return tensor.Type{}, err
	}
	return kit.FreshType(left.DType, append(shape, right.Shape[1]))
}

// batchedType returns the type of a product whose batches are expanded and multiplied matrix by matrix.
func batchedType(a, b tensor.Type) (tensor.Type, error) {
	rows, cols := sym.Of(1), sym.Of(1) // a vector a is one row, and a vector b one column
	depthA, depthB := a.Shape[a.Rank()-1], b.Shape[0]
	if a.Rank() > 1 {
		rows = a.Shape[a.Rank()-2]
	}
	if b.Rank() > 1 {
		depthB, cols = b.Shape[b.Rank()-2], b.Shape[b.Rank()-1]
	}
	batch, err := tensor.BroadcastSizes(a.Shape[:max(a.Rank()-2, 0)], b.Shape[:max(b.Rank()-2, 0)])
	if err != nil {
		return tensor.Type{}, err
	}
	entries := tensor.Product(batch)
	shapeA, shapeB := [3]sym.Int{entries, rows, depthA}, [3]sym.Int{entries, depthB, cols}
	expandedA := tensor.Type{DType: a.DType, Shape: shapeA[:], Strides: shapeA[:]} // strides are not used
	expandedB := tensor.Type{DType: b.DType, Shape: shapeB[:], Strides: shapeB[:]}
	if err := checkBmm("bmm", expandedA, expandedB); err != nil {
		return tensor.Type{}, err
	}
	shape := batch
	if a.Rank() > 1 {
		shape = append(shape, rows)
	}
	if b.Rank() > 1 {
		shape = append(shape, cols)
	}
	return kit.FreshType(b.DType, shape)
}

// dotType checks the operands of dot and returns the type of the result.
func dotType(a, b tensor.Type) (tensor.Type, error) {
	if a.Rank() != 1 || b.Rank() != 1 {
		return tensor.Type{}, fmt.Errorf("1D tensors expected, but got %dD and %dD tensors", a.Rank(), b.Rank())
	}
	if a.DType != b.DType {
		return tensor.Type{}, fmt.Errorf("dot : expected both vectors to have same dtype, but found %s and %s",
			a.DType.TorchName(), b.DType.TorchName())
	}
	if sizeA, sizeB := a.Shape[0], b.Shape[0]; sizeA.Ne(sizeB).Holds() {
		return tensor.Type{}, fmt.Errorf("inconsistent tensor size, expected tensor [%v] and src [%v] to have the same "+
			"number of elements, but got %v and %v elements respectively", sizeA, sizeB, sizeA, sizeB)
	}
	return tensor.NewType(a.DType), checkProductDTypes("dot", a.DType, b.DType)
}

// mvType checks the operands of mv and returns the type of the result.
func mvType(a, vector tensor.Type) (tensor.Type, error) {
	if err := checkMv(a, vector); err != nil {
		return tensor.Type{}, err
	}
	return tensor.NewType(vector.DType, a.Shape[0]), nil
}

// checkMv checks the operands of mv.
func checkMv(a, vector tensor.Type) error {
	if a.Rank() != 2 || vector.Rank() != 1 {
		return fmt.Errorf("vector + matrix @ vector expected, got 1, %d, %d", a.Rank(), vector.Rank())
	}
	rows, depth := a.Shape[0], a.Shape[1]
	if depth.Ne(vector.Shape[0]).Holds() {
		return fmt.Errorf("size mismatch, got %v, %vx%v,%v", rows, rows, depth, vector.Shape[0])
	}
	return checkProductDTypes("addmv_impl_cpu", a.DType, vector.DType, rows, depth)
}

// mmType checks the operands of mm and returns the type of the result.
func mmType(a, b tensor.Type) (tensor.Type, error) {
	if err := checkMm(a, b); err != nil {
		return tensor.Type{}, err
	}
	return tensor.NewType(a.DType, a.Shape[0], b.Shape[1]), nil
}

// checkMm checks the operands of mm.
func checkMm(a, b tensor.Type) error {
	switch {
	case a.Rank() != 2:
		return errors.New("self must be a matrix")
	case b.Rank() != 2:
		return errors.New("mat2 must be a matrix")
	}
	if err := checkMatrixSizes(a, b); err != nil {
		return err
	}
	return checkProductDTypes("addmm_impl_cpu_", a.DType, b.DType, a.Shape[0], a.Shape[1], b.Shape[1])
}

// checkMatrixSizes checks the sizes of two matrices.
func checkMatrixSizes(a, b tensor.Type) error {
	if a.Shape[1].Ne(b.Shape[0]).Holds() {
		return fmt.Errorf("mat1 and mat2 shapes cannot be multiplied (%vx%v and %vx%v)", a.Shape[0], a.Shape[1], b.Shape[0],
			b.Shape[1])
	}
	return nil
}

// bmmType checks the operands of bmm and returns the type of the result. kernel is PyTorch's name of the kernel.
func bmmType(kernel string, a, b tensor.Type) (tensor.Type, error) {
	if err := checkBmm(kernel, a, b); err != nil {
		return tensor.Type{}, err
	}
	return tensor.NewType(b.DType, a.Shape[0], a.Shape[1], b.Shape[2]), nil
}

// checkBmm checks the operands of bmm, and of other ops that PyTorch computes as bmm.
func checkBmm(kernel string, a, b tensor.Type) error {
	switch {
	case a.Rank() != 3:
		return errors.New("batch1 must be a 3D tensor")
	case b.Rank() != 3:
		return errors.New("batch2 must be a 3D tensor")
	case a.Shape[0].Ne(b.Shape[0]).Or(a.Shape[2].Ne(b.Shape[1])).Holds():
		return fmt.Errorf("Expected size for first two dimensions of batch2 tensor to be: [%v, %v] but "+
			"got: [%v, %v].", a.Shape[0], a.Shape[2], b.Shape[0], b.Shape[1])
	}
	return checkProductDTypes(kernel, a.DType, b.DType, a.Shape[0], a.Shape[1], b.Shape[2], a.Shape[2])
}

// addmmType checks the operands of addmm and returns the type of the result.
func addmmType(self, a, b tensor.Type) (tensor.Type, error) {
	if err := checkAddmm(self, a, b); err != nil {
		return tensor.Type{}, err
	}
	return tensor.NewType(a.DType, a.Shape[0], b.Shape[1]), nil
}

// checkAddmm checks the operands of addmm.
func checkAddmm(self, a, b tensor.Type) error {
	switch {
	case self.DType != b.DType:
		return errors.New("self and mat2 must have the same dtype")
	case a.DType != b.DType:
		return errors.New("mat1 and mat2 must have the same dtype")
	case a.Rank() != 2:
		return fmt.Errorf("mat1 must be a matrix, got %d-D tensor", a.Rank())
	case b.Rank() != 2:
		return fmt.Errorf("mat2 must be a matrix, got %d-D tensor", b.Rank())
	}
	if err := checkMatrixSizes(a, b); err != nil {
		return err
	}
	rows, depth, cols := a.Shape[0], a.Shape[1], b.Shape[1]
	if self.Rank() != 1 || !self.Shape[0].Same(cols) { // usually, self is a bias vector
		if _, err := self.Expand([]sym.Int{rows, cols}); err != nil {
			return err
		}
	}
	return checkProductDTypes("addmm_impl_cpu_", a.DType, b.DType, rows, depth, cols)
}

// checkProductDTypes rejects dtypes that PyTorch's kernel does not support, and operands of different dtypes. kernel is
// PyTorch's name of the kernel. If one of the sizes is 0, it rejects nothing, because PyTorch then computes nothing.
func checkProductDTypes(kernel string, a, b tensor.DType, sizes ...sym.Int) error {
	isUnsupported := a == tensor.Bool || a.IsBareUnsigned()
	switch {
	case !isUnsupported && a == b, tensor.Product(sizes).Eq(sym.Int{}).Holds():
		return nil
	case isUnsupported:
		return fmt.Errorf("\"%s\" not implemented for '%s'", kernel, a.TorchName())
	case a != b:
		return fmt.Errorf("expected scalar type %s but found %s", a.TorchName(), b.TorchName())
	}
	return nil
}
