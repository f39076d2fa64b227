package tensor

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// This file holds the views that reorder, drop, add or cut dimensions. All of them
// refuse a meta that does not pass [Meta.Check], return one that does, and allocate their
// own shape and strides: the result shares no slice with the operand.

// WrapDim returns dimension d of a value of the given rank, counted from the end if
// negative. A 0-dim value takes 0 and -1, both of which give 0 (c10::maybe_wrap_dim with
// wrap_scalar).
func WrapDim(d, rank int) (int, error) {
	n := max(rank, 1)
	if d < -n || d >= n {
		return 0, &DimError{d, n}
	}
	if d < 0 {
		d += n
	}
	return d, nil
}

// DimError is a dimension that a value of the rank has not; a 0-dim value counts as one of
// rank 1.
type DimError struct{ Dim, Rank int }

// Error has PyTorch's words.
func (e *DimError) Error() string {
	return fmt.Sprintf("Dimension out of range (expected to be in range of [%d, %d], but got %d)",
		-e.Rank, e.Rank-1, e.Dim)
}

// own returns m over fresh slices, with room for one more dimension.
func (m Meta) own() Meta {
	n := len(m.Shape)
	m.Shape = append(make([]int, 0, n+1), m.Shape...)
	m.Strides = append(make([]int, 0, n+1), m.Strides...)
	return m
}

// checked returns m if it passes [Meta.Check]: the last step of every view that takes
// sizes or steps from a user.
func (m Meta) checked() (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	return m, nil
}

// satMul multiplies what is not negative. A product that no meta may hold becomes one
// that [Meta.Check] refuses instead of wrapping around.
func satMul(a, b int) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt {
		return MaxBytes + 1
	}
	return int(lo)
}

// Permute returns dimension dims[i] of m as dimension i (Tensor.permute).
func (m Meta) Permute(dims []int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	n := len(m.Shape)
	if len(dims) != n {
		return Meta{}, fmt.Errorf("permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d", n, len(dims))
	}
	out := Meta{DType: m.DType, Shape: make([]int, n), Strides: make([]int, n), Offset: m.Offset}
	seen := make([]bool, n)
	for i, d := range dims {
		d, err := WrapDim(d, n)
		if err != nil {
			return Meta{}, err
		}
		if seen[d] {
			return Meta{}, errors.New("permute(): duplicate dims are not allowed.")
		}
		seen[d] = true
		out.Shape[i], out.Strides[i] = m.Shape[d], m.Strides[d]
	}
	return out, nil
}

// Transpose swaps two dimensions (Tensor.transpose). A 0-dim value takes 0 and -1.
func (m Meta) Transpose(d0, d1 int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	d0, err := WrapDim(d0, len(m.Shape))
	if err != nil {
		return Meta{}, err
	}
	if d1, err = WrapDim(d1, len(m.Shape)); err != nil {
		return Meta{}, err
	}
	out := m.own()
	if len(m.Shape) > 0 {
		out.Shape[d0], out.Shape[d1] = out.Shape[d1], out.Shape[d0]
		out.Strides[d0], out.Strides[d1] = out.Strides[d1], out.Strides[d0]
	}
	return out, nil
}

// MoveDim moves dimension source[i] to destination[i] and keeps the order of the others
// (torch.movedim).
func (m Meta) MoveDim(source, destination []int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	n := len(m.Shape)
	if len(source) != len(destination) {
		return Meta{}, fmt.Errorf("movedim: Invalid source or destination dims: source (%s dims) should contain the same number of dims as destination (%s dims)",
			ListString(source), ListString(destination))
	}
	src, err := wrapDims(source, n)
	if err != nil {
		return Meta{}, err
	}
	dst, err := wrapDims(destination, n)
	if err != nil {
		return Meta{}, err
	}
	if repeats(src) {
		return Meta{}, fmt.Errorf("movedim: repeated dim in `source` (%s)", ListString(source))
	}
	if repeats(dst) {
		return Meta{}, fmt.Errorf("movedim: repeated dim in `destination` (%s)", ListString(destination))
	}
	if n == 0 {
		return m.own(), nil
	}
	order := make([]int, n)
	for i := range order {
		order[i] = -1
	}
	for i, d := range dst {
		order[d] = src[i]
	}
	next := 0
	for i := range order {
		if order[i] >= 0 {
			continue
		}
		for slices.Contains(src, next) {
			next++
		}
		order[i] = next
		next++
	}
	return m.Permute(order)
}

func wrapDims(dims []int, rank int) ([]int, error) {
	out := make([]int, len(dims))
	for i, d := range dims {
		var err error
		if out[i], err = WrapDim(d, rank); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func repeats(dims []int) bool {
	for i, d := range dims {
		if slices.Contains(dims[:i], d) {
			return true
		}
	}
	return false
}

// Select takes one index of a dimension, counted from the end if negative, and drops the
// dimension (Tensor.select).
func (m Meta) Select(dim, index int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	if len(m.Shape) == 0 {
		return Meta{}, errors.New("select() cannot be applied to a 0-dim tensor.")
	}
	dim, err := WrapDim(dim, len(m.Shape))
	if err != nil {
		return Meta{}, err
	}
	size := m.Shape[dim]
	if index < -size || index >= size {
		return Meta{}, fmt.Errorf("select(): index %d out of range for tensor of size %s at dimension %d", index, ListString(m.Shape), dim)
	}
	if index < 0 {
		index += size
	}
	out := m.own()
	// A value without elements may have any strides, so the product is not bounded by
	// what the value spans.
	out.Offset += satMul(index, m.Strides[dim])
	out.Shape = slices.Delete(out.Shape, dim, dim+1)
	out.Strides = slices.Delete(out.Strides, dim, dim+1)
	return out.checked()
}

// Slice takes the indices from start up to end, every step-th, of a dimension
// (aten::slice.Tensor). nil for start or end stands for Python's None; negative bounds
// count from the end and all bounds are clamped. step must be positive.
func (m Meta) Slice(dim int, start, end *int, step int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	if len(m.Shape) == 0 {
		return Meta{}, errors.New("slice() cannot be applied to a 0-dim tensor.")
	}
	dim, err := WrapDim(dim, len(m.Shape))
	if err != nil {
		return Meta{}, err
	}
	if step <= 0 {
		return Meta{}, errors.New("slice step must be positive")
	}
	size := m.Shape[dim]
	from, to := 0, size
	if start != nil {
		from = clampIndex(*start, size)
	}
	if end != nil {
		to = max(clampIndex(*end, size), from)
	}
	out := m.own()
	out.Offset += satMul(from, m.Strides[dim])
	out.Shape[dim] = 0
	if to > from {
		out.Shape[dim] = (to-from-1)/step + 1
	}
	out.Strides[dim] = satMul(m.Strides[dim], step)
	return out.checked()
}

func clampIndex(i, size int) int {
	if i < 0 {
		i += size
	}
	return min(max(i, 0), size)
}

// Narrow takes length indices of a dimension from start on, which counts from the end if
// negative (Tensor.narrow).
func (m Meta) Narrow(dim, start, length int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	if len(m.Shape) == 0 {
		return Meta{}, errors.New("narrow() cannot be applied to a 0-dim tensor.")
	}
	dim, err := WrapDim(dim, len(m.Shape))
	if err != nil {
		return Meta{}, err
	}
	size := m.Shape[dim]
	if start != size {
		if start, err = WrapDim(start, size); err != nil {
			return Meta{}, err
		}
	}
	if length < 0 || start > size-length {
		return Meta{}, fmt.Errorf("start (%d) + length (%d) exceeds dimension size (%d).", start, length, size)
	}
	end := start + length
	return m.Slice(dim, &start, &end, 1)
}

// Squeeze drops those of the named dimensions that have size 1, and without arguments
// every dimension of size 1 (Tensor.squeeze). PyTorch's squeeze(dim=()), which drops
// nothing, has no counterpart here.
func (m Meta) Squeeze(dims ...int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	at, err := wrapDims(dims, len(m.Shape))
	if err != nil {
		return Meta{}, err
	}
	for i, d := range at {
		if slices.Contains(at[:i], d) {
			return Meta{}, fmt.Errorf("dim %d appears multiple times in the list of dims", d)
		}
	}
	out := Meta{DType: m.DType, Shape: make([]int, 0, len(m.Shape)), Strides: make([]int, 0, len(m.Shape)), Offset: m.Offset}
	for d, s := range m.Shape {
		if s == 1 && (len(dims) == 0 || slices.Contains(at, d)) {
			continue
		}
		out.Shape, out.Strides = append(out.Shape, s), append(out.Strides, m.Strides[d])
	}
	return out, nil
}

// Unsqueeze adds a dimension of size 1 before dimension dim; dim may be the rank, which
// adds it at the end, and -1 stands for that (Tensor.unsqueeze).
func (m Meta) Unsqueeze(dim int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	n := len(m.Shape)
	dim, err := WrapDim(dim, n+1)
	if err != nil {
		return Meta{}, err
	}
	stride := 1
	if dim < n {
		stride = satMul(m.Shape[dim], m.Strides[dim])
	}
	out := m.own()
	out.Shape = slices.Insert(out.Shape, dim, 1)
	out.Strides = slices.Insert(out.Strides, dim, stride)
	return out.checked()
}

// Diagonal takes the elements where the indices of two dimensions differ by offset, and
// puts them in a new last dimension (Tensor.diagonal).
func (m Meta) Diagonal(offset, dim1, dim2 int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	d1, err := WrapDim(dim1, len(m.Shape))
	if err != nil {
		return Meta{}, err
	}
	d2, err := WrapDim(dim2, len(m.Shape))
	if err != nil {
		return Meta{}, err
	}
	if d1 == d2 {
		return Meta{}, fmt.Errorf("diagonal dimensions cannot be identical %d, %d", dim1, dim2)
	}
	size := 0
	if offset >= 0 {
		size = max(min(m.Shape[d1], m.Shape[d2]-offset), 0)
	} else {
		size = max(min(m.Shape[d1]+offset, m.Shape[d2]), 0)
	}
	out := m.own()
	if size > 0 && offset >= 0 {
		out.Offset += satMul(offset, m.Strides[d2])
	} else if size > 0 {
		out.Offset += satMul(-offset, m.Strides[d1])
	}
	for _, d := range []int{max(d1, d2), min(d1, d2)} {
		out.Shape = slices.Delete(out.Shape, d, d+1)
		out.Strides = slices.Delete(out.Strides, d, d+1)
	}
	out.Shape = append(out.Shape, size)
	out.Strides = append(out.Strides, m.Strides[d1]+m.Strides[d2])
	return out.checked()
}

// maxParts bounds the number of views that one call returns. A stride of 0 makes a
// dimension of any size out of nothing, so the operand's bytes bound nothing.
const maxParts = 1 << 20

// Split cuts a dimension into parts of the given size, the last of which may be smaller
// (Tensor.split). Without elements in the dimension it returns one part.
func (m Meta) Split(size, dim int) ([]Meta, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if len(m.Shape) == 0 {
		return nil, errors.New("split expects at least a 1-dimensional tensor")
	}
	if size < 0 {
		return nil, fmt.Errorf("split expects split_size be non-negative, but got split_size=%d", size)
	}
	dim, err := WrapDim(dim, len(m.Shape))
	if err != nil {
		return nil, err
	}
	total := m.Shape[dim]
	if size == 0 && total != 0 {
		return nil, fmt.Errorf("split_size can only be 0 if dimension size is 0, but got dimension size of %d", total)
	}
	parts := 1
	if total > 0 {
		parts = (total-1)/size + 1
	}
	if parts > maxParts {
		return nil, fmt.Errorf("split into %d parts: at most %d can be made", parts, maxParts)
	}
	out := make([]Meta, parts)
	for i := range out {
		start := i * size
		if out[i], err = m.Narrow(dim, start, min(size, total-start)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// SplitSizes cuts a dimension into parts of the given sizes, which must add up to it
// (torch.split_with_sizes).
func (m Meta) SplitSizes(sizes []int, dim int) ([]Meta, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if len(m.Shape) == 0 {
		return nil, errors.New("split expects at least a 1-dimensional tensor")
	}
	at, err := WrapDim(dim, len(m.Shape))
	if err != nil {
		return nil, err
	}
	total := m.Shape[at]
	left := total
	for _, s := range sizes {
		if s < 0 {
			return nil, fmt.Errorf("split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=%s", ListString(sizes))
		}
		if left >= 0 { // stop below 0: what is left is no sum to go on with
			left -= s
		}
	}
	if left != 0 {
		return nil, fmt.Errorf("split_with_sizes expects split_sizes to sum exactly to %d (input tensor's size at dimension %d), but got split_sizes=%s", total, dim, ListString(sizes))
	}
	out := make([]Meta, len(sizes))
	start := 0
	for i, s := range sizes {
		end := start + s
		if out[i], err = m.Slice(at, &start, &end, 1); err != nil {
			return nil, err
		}
		start = end
	}
	return out, nil
}

// Chunk cuts a dimension into at most chunks parts of equal size, the last of which may
// be smaller (Tensor.chunk). Only a dimension without elements always gives all chunks.
func (m Meta) Chunk(chunks, dim int) ([]Meta, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if len(m.Shape) == 0 {
		return nil, errors.New("chunk expects at least a 1-dimensional tensor")
	}
	if chunks <= 0 {
		return nil, fmt.Errorf("chunk expects `chunks` to be greater than 0, got: %d", chunks)
	}
	at, err := WrapDim(dim, len(m.Shape))
	if err != nil {
		return nil, err
	}
	total := m.Shape[at]
	if total > 0 {
		return m.Split((total-1)/chunks+1, at)
	}
	if chunks > maxParts {
		return nil, fmt.Errorf("split into %d parts: at most %d can be made", chunks, maxParts)
	}
	return m.SplitSizes(make([]int, chunks), at)
}
