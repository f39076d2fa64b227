package tensor

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/sym"
)

// This file has the views that reorder, drop, add or cut dimensions. They reject a type that fails [Type.Check]
// (fastCheck), and their results pass it (checked). A result may share the operand's slices of shape and strides. A
// condition on symbolic sizes is decided by [sym.Bool.Holds], which may record a guard: the sizes for which the
// decision is valid. [sym.Catch] returns an integer overflow as an error.
//
// Examples for t of shape (2,3,4) with the strides (12,4,1) and offset 0:
//
//	                      shape      strides      offset
//	Permute(2, 0, 1)      (4,2,3)    (1,12,4)     0
//	Select(1, 2)          (2,4)      (12,1)       8
//	Slice(2, 1, 4, 2)     (2,3,2)    (12,4,2)     1
//	Unsqueeze(1)          (2,1,3,4)  (12,12,4,1)  0
//	Diagonal(1, 1, 2)     (2,3)      (12,5)       1

// WrapDim returns the dimension that d names in a value of the given rank. A negative d counts from the end. For a
// 0-dim value, 0 and -1 give 0 (c10::maybe_wrap_dim with wrap_scalar).
func WrapDim(d, rank int) (int, error) {
	size := max(rank, 1)
	if d < -size || d >= size {
		return 0, &DimError{Dim: d, Rank: size}
	}
	if d < 0 {
		d += size
	}
	return d, nil
}

// DimError is the error of a dimension that is out of range for a rank. Rank is 1 for a 0-dim value.
type DimError struct{ Dim, Rank int }

// Error returns PyTorch's message.
func (e *DimError) Error() string {
	return fmt.Sprintf("Dimension out of range (expected to be in range of [%d, %d], but got %d)",
		-e.Rank, e.Rank-1, e.Dim)
}

// Permute returns a view of t whose dimension i is dimension dims[i] of t (Tensor.permute).
func (t Type) Permute(dims []int) (Type, error) {
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	rank := len(t.Shape)
	if len(dims) != rank {
		return Type{}, fmt.Errorf("permute(sparse_coo): number of dimensions in the tensor input does not match the length "+
			"of the desired ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d",
			rank, len(dims))
	}
	shape, strides := newShapeAndStrides(rank)
	out := Type{DType: t.DType, Shape: shape, Strides: strides, Offset: t.Offset}
	isUsed := make([]bool, rank)
	for i, dim := range dims {
		dim, err := WrapDim(dim, rank)
		if err != nil {
			return Type{}, err
		}
		if isUsed[dim] {
			return Type{}, errors.New("permute(): duplicate dims are not allowed.")
		}
		isUsed[dim] = true
		out.Shape[i], out.Strides[i] = t.Shape[dim], t.Strides[dim]
	}
	return out, nil
}

// Transpose swaps two dimensions (Tensor.transpose). For a 0-dim value, dim0 and dim1 are 0 or -1.
func (t Type) Transpose(dim0, dim1 int) (Type, error) {
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	dim0, err := WrapDim(dim0, len(t.Shape))
	if err != nil {
		return Type{}, err
	}
	if dim1, err = WrapDim(dim1, len(t.Shape)); err != nil {
		return Type{}, err
	}
	shape, strides := newShapeAndStrides(len(t.Shape))
	for d := range shape {
		shape[d], strides[d] = t.Shape[d], t.Strides[d]
	}
	if len(shape) > 0 {
		shape[dim0], shape[dim1] = t.Shape[dim1], t.Shape[dim0]
		strides[dim0], strides[dim1] = t.Strides[dim1], t.Strides[dim0]
	}
	return Type{DType: t.DType, Shape: shape, Strides: strides, Offset: t.Offset}, nil
}

// MoveDim moves dimension source[i] to position destination[i], and keeps the order of the other dimensions
// (torch.movedim).
func (t Type) MoveDim(source, destination []int) (Type, error) {
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	rank := len(t.Shape)
	if len(source) != len(destination) {
		return Type{}, fmt.Errorf("movedim: Invalid source or destination dims: source (%s dims) should contain the same "+
			"number of dims as destination (%s dims)",
			ListString(source), ListString(destination))
	}
	src, err := wrapDims(source, rank)
	if err != nil {
		return Type{}, err
	}
	dst, err := wrapDims(destination, rank)
	if err != nil {
		return Type{}, err
	}
	if hasDuplicates(src) {
		return Type{}, fmt.Errorf("movedim: repeated dim in `source` (%s)", ListString(source))
	}
	if hasDuplicates(dst) {
		return Type{}, fmt.Errorf("movedim: repeated dim in `destination` (%s)", ListString(destination))
	}
	if rank == 0 {
		return t.cloneWithRoom(), nil
	}
	// order[i] is the dimension of t that becomes dimension i. Positions without a destination (-1) get the other
	// dimensions in ascending order.
	order := make([]int, rank)
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
	return t.Permute(order)
}

// wrapDims is [WrapDim] for each dimension of a list.
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

// hasDuplicates reports whether a dimension occurs twice.
func hasDuplicates(dims []int) bool {
	for i, d := range dims {
		if slices.Contains(dims[:i], d) {
			return true
		}
	}
	return false
}

// Select returns the slice of t at one index of a dimension. The view lacks that dimension. A negative index counts
// from the end (Tensor.select).
func (t Type) Select(dim int, index sym.Int) (_ Type, err error) {
	defer sym.Catch(&err)
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	if len(t.Shape) == 0 {
		return Type{}, errors.New("select() cannot be applied to a 0-dim tensor.")
	}
	dim, err = WrapDim(dim, len(t.Shape))
	if err != nil {
		return Type{}, err
	}
	size := t.Shape[dim]
	if index.Lt(size.Neg()).Or(index.Ge(size)).Holds() {
		return Type{}, fmt.Errorf("select(): index %v out of range for tensor of size %s at dimension %d", index,
			Sizes(t.Shape), dim)
	}
	if index.Lt(sym.Int{}).Holds() {
		index = index.Add(size)
	}
	shape, strides := newShapeAndStrides(len(t.Shape) - 1)
	for d := range shape {
		oldDim := d
		if d >= dim {
			oldDim++
		}
		shape[d], strides[d] = t.Shape[oldDim], t.Strides[oldDim]
	}
	// A value without elements may have strides of any size, so the product may overflow.
	offset := t.Offset.Add(mulSizes(index, t.Strides[dim]))
	return Type{DType: t.DType, Shape: shape, Strides: strides, Offset: offset}.checked()
}

// Slice takes the indices start, start+step, ... below end of a dimension (aten::slice.Tensor). A nil start or end is
// Python's None. Negative bounds count from the end, and bounds outside the dimension are clamped. step must be
// positive.
func (t Type) Slice(dim int, start, end *sym.Int, step sym.Int) (_ Type, err error) {
	defer sym.Catch(&err)
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	if len(t.Shape) == 0 {
		return Type{}, errors.New("slice() cannot be applied to a 0-dim tensor.")
	}
	dim, err = WrapDim(dim, len(t.Shape))
	if err != nil {
		return Type{}, err
	}
	if step.Le(sym.Int{}).Holds() {
		return Type{}, errors.New("slice step must be positive")
	}
	size := t.Shape[dim]
	from, stop := sym.Int{}, size
	if start != nil {
		from = clampIndex(*start, size)
	}
	if end != nil {
		stop = clampIndex(*end, size).Max(from)
	}
	// The length is floor((stop - from - 1)/step) + 1, which is 0 if stop equals from.
	length := stop.Sub(from)
	strides := t.Strides
	if n, known := step.Known(); !known || n != 1 {
		length = length.Sub(sym.Of(1)).Div(step).Add(sym.Of(1))
		strides = withSize(strides, dim, mulSizes(strides[dim], step))
	}
	offset := t.Offset.Add(mulSizes(from, t.Strides[dim]))
	return Type{DType: t.DType, Shape: withSize(t.Shape, dim, length), Strides: strides, Offset: offset}.checked()
}

// clampIndex clamps an index to [0, size]. A negative index counts from the end.
func clampIndex(i, size sym.Int) sym.Int {
	if n, known := i.Known(); known && n < 0 || !known && i.Lt(sym.Int{}).Holds() {
		i = i.Add(size)
	}
	if n, known := i.Known(); known && n == math.MaxInt {
		return size // exporters write the largest int for "to the end"
	}
	return i.Max(sym.Int{}).Min(size)
}

// Narrow takes `length` consecutive indices of a dimension, beginning at start (Tensor.narrow). A negative start counts
// from the end.
func (t Type) Narrow(dim int, start, length sym.Int) (_ Type, err error) {
	defer sym.Catch(&err)
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	if len(t.Shape) == 0 {
		return Type{}, errors.New("narrow() cannot be applied to a 0-dim tensor.")
	}
	dim, err = WrapDim(dim, len(t.Shape))
	if err != nil {
		return Type{}, err
	}
	size := t.Shape[dim]
	if !start.Eq(size).Holds() { // a start at the end is valid for an empty result, although it is no index
		if start, err = wrapIndex(start, size); err != nil {
			return Type{}, err
		}
	}
	if length.Lt(sym.Int{}).Or(start.Gt(size.Sub(length))).Holds() {
		return Type{}, fmt.Errorf("start (%v) + length (%v) exceeds dimension size (%v).", start, length, size)
	}
	end := start.Add(length)
	return t.Slice(dim, &start, &end, sym.Of(1))
}

// wrapIndex is [WrapDim] for an index of a dimension.
func wrapIndex(i, size sym.Int) (sym.Int, error) {
	number, known := i.Known()
	if sizeNumber, sizeKnown := size.Known(); known && sizeKnown {
		wrapped, err := WrapDim(number, sizeNumber)
		return sym.Of(wrapped), err
	}
	limit := size.Max(sym.Of(1)) // as in WrapDim, a size 0 counts as 1
	if i.Lt(limit.Neg()).Or(i.Ge(limit)).Holds() {
		return i, fmt.Errorf("Dimension out of range (expected to be in range of [%v, %v], but got %v)", limit.Neg(),
			limit.Sub(sym.Of(1)), i)
	}
	if i.Lt(sym.Int{}).Holds() {
		i = i.Add(limit)
	}
	return i, nil
}

// Squeeze drops the given dimensions whose size is 1. Without arguments it drops every dimension of size 1
// (Tensor.squeeze). There is no equivalent of PyTorch's squeeze(dim=()), which drops no dimension.
func (t Type) Squeeze(dims ...int) (Type, error) {
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	wrapped, err := wrapDims(dims, len(t.Shape))
	if err != nil {
		return Type{}, err
	}
	for i, dim := range wrapped {
		if slices.Contains(wrapped[:i], dim) {
			return Type{}, fmt.Errorf("dim %d appears multiple times in the list of dims", dim)
		}
	}
	shape, strides := newShapeAndStrides(len(t.Shape))
	out := Type{DType: t.DType, Shape: shape[:0], Strides: strides[:0], Offset: t.Offset}
	for dim, s := range t.Shape {
		if (len(dims) == 0 || slices.Contains(wrapped, dim)) && equals(s, 1) {
			continue
		}
		out.Shape, out.Strides = append(out.Shape, s), append(out.Strides, t.Strides[dim])
	}
	return out, nil
}

// Unsqueeze adds a dimension of size 1 before dimension dim, or at the end if dim is the rank or -1 (Tensor.unsqueeze).
func (t Type) Unsqueeze(dim int) (Type, error) {
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	rank := len(t.Shape)
	dim, err := WrapDim(dim, rank+1)
	if err != nil {
		return Type{}, err
	}
	stride := sym.Of(1)
	if dim < rank {
		stride = mulSizes(t.Shape[dim], t.Strides[dim])
	}
	shape, strides := newShapeAndStrides(rank + 1)
	for d := range t.Shape {
		newDim := d
		if d >= dim {
			newDim++
		}
		shape[newDim], strides[newDim] = t.Shape[d], t.Strides[d]
	}
	shape[dim], strides[dim] = sym.Of(1), stride
	return Type{DType: t.DType, Shape: shape, Strides: strides, Offset: t.Offset}.checked()
}

// Diagonal returns the elements whose index in dim2 minus the index in dim1 is offset. These elements are a new last
// dimension, and dim1 and dim2 are dropped (Tensor.diagonal).
func (t Type) Diagonal(offset, dim1, dim2 int) (_ Type, err error) {
	defer sym.Catch(&err)
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	first, err := WrapDim(dim1, len(t.Shape))
	if err != nil {
		return Type{}, err
	}
	second, err := WrapDim(dim2, len(t.Shape))
	if err != nil {
		return Type{}, err
	}
	if first == second {
		return Type{}, fmt.Errorf("diagonal dimensions cannot be identical %d, %d", dim1, dim2)
	}
	// The diagonal begins `skip` columns to the right of the first element, or `skip` rows below it.
	offset = max(offset, -math.MaxInt) // so that -offset does not overflow
	rows, columns, skip, skipDim := t.Shape[first], t.Shape[second], sym.Of(offset), second
	if offset < 0 {
		skip, skipDim = sym.Of(-offset), first
		rows = rows.Sub(skip)
	} else {
		columns = columns.Sub(skip)
	}
	size := rows.Min(columns).Max(sym.Int{})
	out := t.cloneWithRoom()
	if !equals(size, 0) {
		out.Offset = out.Offset.Add(mulSizes(skip, t.Strides[skipDim]))
	}
	for _, d := range []int{max(first, second), min(first, second)} {
		out.Shape = slices.Delete(out.Shape, d, d+1)
		out.Strides = slices.Delete(out.Strides, d, d+1)
	}
	out.Shape = append(out.Shape, size)
	out.Strides = append(out.Strides, t.Strides[first].Add(t.Strides[second]))
	return out.checked()
}
