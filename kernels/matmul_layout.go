package kernels

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// This file infers the results of matrix products as PyTorch's at::matmul composes them of
// dot, mv, mm and bmm, whose results are row-major: odd strides come from the views between
// the parts.

// productServes refuses dtypes without a kernel, named as PyTorch names it, and operands of
// different dtypes. PyTorch finds both when it computes: a product without terms is never
// refused.
func productServes(kernel string, a, b tensor.DType, terms int) error {
	switch {
	case terms == 0:
		return nil
	case a == tensor.Bool || a.IsBareUnsigned():
		return fmt.Errorf("\"%s\" not implemented for '%s'", kernel, a.TorchName())
	case a != b:
		return fmt.Errorf("expected scalar type %s but found %s", a.TorchName(), b.TorchName())
	}
	return nil
}

func dotMeta(a, b tensor.Meta) (tensor.Meta, error) {
	if a.Rank() != 1 || b.Rank() != 1 {
		return tensor.Meta{}, fmt.Errorf("1D tensors expected, but got %dD and %dD tensors", a.Rank(), b.Rank())
	}
	if a.DType != b.DType {
		return tensor.Meta{}, fmt.Errorf("dot : expected both vectors to have same dtype, but found %s and %s", a.DType.TorchName(), b.DType.TorchName())
	}
	if n, m := a.Shape[0], b.Shape[0]; n != m {
		return tensor.Meta{}, fmt.Errorf("inconsistent tensor size, expected tensor [%d] and src [%d] to have the same number of elements, but got %d and %d elements respectively", n, m, n, m)
	}
	return tensor.New(a.DType), productServes("dot", a.DType, b.DType, 1)
}

func mvMeta(a, v tensor.Meta) (tensor.Meta, error) {
	if a.Rank() != 2 || v.Rank() != 1 {
		return tensor.Meta{}, fmt.Errorf("vector + matrix @ vector expected, got 1, %d, %d", a.Rank(), v.Rank())
	}
	m, k := a.Shape[0], a.Shape[1]
	if k != v.Shape[0] {
		return tensor.Meta{}, fmt.Errorf("size mismatch, got %d, %dx%d,%d", m, m, k, v.Shape[0])
	}
	return tensor.New(v.DType, m), productServes("addmv_impl_cpu", a.DType, v.DType, m*k)
}

func mmMeta(a, b tensor.Meta) (tensor.Meta, error) {
	switch {
	case a.Rank() != 2:
		return tensor.Meta{}, errors.New("self must be a matrix")
	case b.Rank() != 2:
		return tensor.Meta{}, errors.New("mat2 must be a matrix")
	}
	if err := multipliable(a, b); err != nil {
		return tensor.Meta{}, err
	}
	m, k, n := a.Shape[0], a.Shape[1], b.Shape[1]
	return tensor.New(a.DType, m, n), productServes("addmm_impl_cpu_", a.DType, b.DType, m*k*n)
}

// multipliable checks the sizes of two matrices.
func multipliable(a, b tensor.Meta) error {
	if a.Shape[1] != b.Shape[0] {
		return fmt.Errorf("mat1 and mat2 shapes cannot be multiplied (%dx%d and %dx%d)", a.Shape[0], a.Shape[1], b.Shape[0], b.Shape[1])
	}
	return nil
}

func bmmMeta(kernel string, a, b tensor.Meta) (tensor.Meta, error) {
	switch {
	case a.Rank() != 3:
		return tensor.Meta{}, errors.New("batch1 must be a 3D tensor")
	case b.Rank() != 3:
		return tensor.Meta{}, errors.New("batch2 must be a 3D tensor")
	case a.Shape[0] != b.Shape[0] || a.Shape[2] != b.Shape[1]:
		return tensor.Meta{}, fmt.Errorf("Expected size for first two dimensions of batch2 tensor to be: [%d, %d] but got: [%d, %d].", a.Shape[0], a.Shape[2], b.Shape[0], b.Shape[1])
	}
	out := tensor.New(b.DType, a.Shape[0], a.Shape[1], b.Shape[2])
	return out, productServes(kernel, a.DType, b.DType, out.Numel()*a.Shape[2])
}

// matmulMeta is at::matmul on metas.
func matmulMeta(a, b tensor.Meta) (tensor.Meta, error) {
	da, db := a.Rank(), b.Rank()
	switch {
	case da == 0 || db == 0:
		return tensor.Meta{}, fmt.Errorf("both arguments to matmul need to be at least 1D, but they are %dD and %dD", da, db)
	case da == 1 && db == 1:
		return dotMeta(a, b)
	case da == 2 && db == 1:
		return mvMeta(a, b)
	case da == 1 && db == 2:
		row, err := a.Unsqueeze(0)
		if err != nil {
			return tensor.Meta{}, err
		}
		m, err := mmMeta(row, b)
		if err != nil {
			return tensor.Meta{}, err
		}
		return m.Squeeze(0)
	case da == 2 && db == 2:
		return mmMeta(a, b)
	case foldsBatch(a, db) || foldsBatch(b, da):
		return foldedMeta(a, b)
	}
	return batchedMeta(a, b)
}

// foldsBatch is should_fold: a product of a batch with one matrix or vector is one
// product, unless the batch's matrices lie transposed, which bmm takes without a copy.
func foldsBatch(a tensor.Meta, rank int) bool {
	if a.Rank() < 3 || rank != 1 && rank != 2 {
		return false
	}
	return !(a.Rank() == 3 && rank == 2 && a.Strides[2] != 1 && a.Strides[0] == a.Shape[1]*a.Shape[2])
}

// foldedMeta folds the batch of the larger operand into the rows of a matrix.
func foldedMeta(a, b tensor.Meta) (tensor.Meta, error) {
	transpose := b.Rank() > a.Rank()
	t1, t2 := a, b
	var err error
	if transpose {
		t2 = a
		if t1, err = b.Transpose(-2, -1); err != nil {
			return tensor.Meta{}, err
		}
		if a.Rank() == 2 {
			if t2, err = a.Transpose(0, 1); err != nil {
				return tensor.Meta{}, err
			}
		}
	}
	last := t1.Rank() - 1
	shape := slices.Clone(t1.Shape[:last])
	folded := tensor.New(t1.DType, tensor.Numel(shape), t1.Shape[last])
	if t2.Rank() == 1 {
		out, err := mvMeta(folded, t2)
		if err != nil {
			return tensor.Meta{}, err
		}
		return viewOf(out, shape)
	}
	out, err := mmMeta(folded, t2)
	if err != nil {
		return tensor.Meta{}, err
	}
	if out, err = viewOf(out, append(shape, t2.Shape[1])); err != nil || !transpose {
		return out, err
	}
	if out, err = out.Transpose(-2, -1); err != nil || out.IsContiguous() {
		return out, err
	}
	return tensor.New(out.DType, out.Shape...), nil
}

// batchedMeta expands the batches and multiplies matrix by matrix.
func batchedMeta(a, b tensor.Meta) (tensor.Meta, error) {
	n, p := 1, 1
	k1, k2 := a.Shape[a.Rank()-1], b.Shape[0]
	if a.Rank() > 1 {
		n = a.Shape[a.Rank()-2]
	}
	if b.Rank() > 1 {
		k2, p = b.Shape[b.Rank()-2], b.Shape[b.Rank()-1]
	}
	batch, err := tensor.Broadcast(a.Shape[:max(a.Rank()-2, 0)], b.Shape[:max(b.Rank()-2, 0)])
	if err != nil {
		return tensor.Meta{}, err
	}
	entries := tensor.Numel(batch)
	out, err := bmmMeta("bmm", tensor.New(a.DType, entries, n, k1), tensor.New(b.DType, entries, k2, p))
	if err != nil {
		return tensor.Meta{}, err
	}
	shape := slices.Clone(batch)
	if a.Rank() > 1 {
		shape = append(shape, n)
	}
	if b.Rank() > 1 {
		shape = append(shape, p)
	} else if out, err = out.Squeeze(-1); err != nil {
		return tensor.Meta{}, err
	}
	return viewOf(out, shape)
}

// viewOf is _unsafe_view of a fresh value.
func viewOf(m tensor.Meta, shape []int) (tensor.Meta, error) {
	return m.WithStrides(m.Strides).View(shape)
}
