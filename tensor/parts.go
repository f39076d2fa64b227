package tensor

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/sym"
)

// This file has the views that split a dimension. For a dimension of size 10, Split(4) and Chunk(3) give parts of sizes
// 4, 4 and 2. SplitSizes({3, 7}) gives parts of sizes 3 and 7. Part k of a split has the strides of the operand and the
// offset of its first index.

// Split cuts a dimension into parts of the given size; the last part may be smaller (Tensor.split). A dimension of size
// 0 gives one part. If sizes are symbolic, the number of parts is fixed by a guard (a recorded condition on symbols).
func (t Type) Split(size sym.Int, dim int) (_ []Type, err error) {
	defer sym.Catch(&err)
	if err := t.Check(); err != nil {
		return nil, err
	}
	if len(t.Shape) == 0 {
		return nil, errors.New("split expects at least a 1-dimensional tensor")
	}
	if size.Lt(sym.Int{}).Holds() {
		return nil, fmt.Errorf("split expects split_size be non-negative, but got split_size=%v", size)
	}
	dim, err = WrapDim(dim, len(t.Shape))
	if err != nil {
		return nil, err
	}
	total := t.Shape[dim]
	switch {
	case equals(total, 0):
		return []Type{t}, nil
	case equals(size, 0):
		return nil, fmt.Errorf("split_size can only be 0 if dimension size is 0, but got dimension size of %v", total)
	}
	partCount := ceilDiv(total, size).Specialize()
	if partCount > maxParts {
		return nil, fmt.Errorf("split into %d parts: at most %d can be made", partCount, maxParts)
	}
	out := make([]Type, partCount)
	for i := range out {
		start := mulSizes(sym.Of(i), size)
		part := &out[i]
		*part = Type{DType: t.DType, Strides: t.Strides, Offset: t.Offset.Add(mulSizes(start, t.Strides[dim]))}
		partSize := size
		if i == partCount-1 {
			partSize = total.Sub(start)
		}
		if i > 0 && partSize.Same(size) {
			part.Shape = out[0].Shape
		} else {
			part.Shape = withSize(t.Shape, dim, partSize)
		}
		if err := part.fastCheck(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// maxParts bounds the number of views that one call returns. A dimension of stride 0 may have any size, so the
// operand's bytes do not bound this number.
const maxParts = 1 << 20

// ceilDiv returns a/b, rounded up, for positive a and b.
func ceilDiv(a, b sym.Int) sym.Int {
	one := sym.Of(1)
	return a.Sub(one).Div(b).Add(one)
}

// Chunk cuts a dimension into at most `chunks` parts of equal size; the last part may be smaller (Tensor.chunk). A
// dimension of size 0 gives exactly `chunks` parts.
func (t Type) Chunk(chunks, dim int) ([]Type, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if len(t.Shape) == 0 {
		return nil, errors.New("chunk expects at least a 1-dimensional tensor")
	}
	if chunks <= 0 {
		return nil, fmt.Errorf("chunk expects `chunks` to be greater than 0, got: %d", chunks)
	}
	splitDim, err := WrapDim(dim, len(t.Shape))
	if err != nil {
		return nil, err
	}
	if total := t.Shape[splitDim]; !equals(total, 0) {
		return t.Split(ceilDiv(total, sym.Of(chunks)), splitDim)
	}
	if chunks > maxParts {
		return nil, fmt.Errorf("split into %d parts: at most %d can be made", chunks, maxParts)
	}
	return t.SplitSizes(make([]sym.Int, chunks), splitDim)
}

// SplitSizes cuts a dimension into parts of the given sizes, whose sum must be the size of the dimension
// (torch.split_with_sizes).
func (t Type) SplitSizes(sizes []sym.Int, dim int) (_ []Type, err error) {
	defer sym.Catch(&err)
	if err := t.Check(); err != nil {
		return nil, err
	}
	if len(t.Shape) == 0 {
		return nil, errors.New("split expects at least a 1-dimensional tensor")
	}
	splitDim, err := WrapDim(dim, len(t.Shape))
	if err != nil {
		return nil, err
	}
	total := t.Shape[splitDim]
	remaining := total
	for _, size := range sizes {
		if size.Lt(sym.Int{}).Holds() {
			return nil, fmt.Errorf("split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=%s",
				Sizes(sizes))
		}
		// If remaining is negative, it is not reduced further, because it could overflow. The check below fails in any
		// case.
		if n, known := remaining.Known(); !known || n >= 0 {
			remaining = remaining.Sub(size)
		}
	}
	if !equals(remaining, 0) {
		return nil, fmt.Errorf("split_with_sizes expects split_sizes to sum exactly to %v (input tensor's size at "+
			"dimension %d), but got split_sizes=%s", total, dim, Sizes(sizes))
	}
	out := make([]Type, len(sizes))
	start := sym.Int{}
	for i, size := range sizes {
		end := start.Add(size)
		if out[i], err = t.Slice(splitDim, &start, &end, sym.Of(1)); err != nil {
			return nil, err
		}
		start = end
	}
	return out, nil
}
