package tensor

import (
	"errors"
	"fmt"
	"slices"
)

// This file holds the views that give a value other sizes: view, expand, as_strided and
// unfold, and the rules of broadcasting.

// InferSize returns shape with its -1, if it has one, replaced such that the sizes
// multiply to numel (at::infer_size). The slice is fresh. The errors are PyTorch's.
func InferSize(shape []int, numel int) ([]int, error) {
	out := slices.Clone(shape)
	product, inferred, zero := 1, -1, false
	for d, s := range shape {
		switch {
		case s == -1 && inferred >= 0:
			return nil, errors.New("only one dimension can be inferred")
		case s == -1:
			inferred = d
		case s < 0:
			return nil, fmt.Errorf("invalid shape dimension %d", s)
		default:
			zero = zero || s == 0
			product = satMul(product, max(s, 1))
		}
	}
	if zero {
		product = 0
	}
	switch {
	case numel < 0:
		return nil, fmt.Errorf("a value cannot have %d elements", numel)
	case inferred < 0 && product == numel:
		return out, nil
	case inferred >= 0 && product > 0 && numel%product == 0:
		out[inferred] = numel / product
		return out, nil
	case inferred >= 0 && product == 0 && numel == 0:
		return nil, fmt.Errorf("cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 can be any value and is ambiguous", ListString(shape))
	}
	return nil, fmt.Errorf("shape '%s' is invalid for input of size %d", ListString(shape), numel)
}

// ReshapeStrides returns the strides that show m in another shape without a copy, and
// whether there are any (at::detail::computeStride). shape must have as many elements as
// m and no -1: see [InferSize]. Without elements the strides of an equal shape are kept,
// and others are row-major.
func ReshapeStrides(m Meta, shape []int) ([]int, bool) {
	m.fits()
	out := make([]int, len(shape))
	if len(m.Shape) == 0 {
		for d := range out {
			out[d] = 1
		}
		return out, true
	}
	if m.Numel() == 0 {
		if slices.Equal(m.Shape, shape) {
			return slices.Clone(m.Strides), true
		}
		step := 1
		for d := len(shape) - 1; d >= 0; d-- {
			out[d] = step
			step = satMul(step, max(shape[d], 1))
		}
		return out, true
	}
	// Runs of dimensions that are contiguous among themselves are taken from the end;
	// the new dimensions must fill every run exactly.
	d := len(shape) - 1
	base := m.Strides[len(m.Strides)-1]
	have, want := 1, 1
	for t := len(m.Shape) - 1; t >= 0; t-- {
		want *= m.Shape[t]
		if t > 0 && (m.Shape[t-1] == 1 || m.Strides[t-1] == want*base) {
			continue
		}
		for d >= 0 && (have < want || shape[d] == 1) {
			out[d] = have * base
			have *= shape[d]
			d--
		}
		if have != want {
			return nil, false
		}
		if t > 0 {
			base = m.Strides[t-1]
			have, want = 1, 1
		}
	}
	return out, d < 0
}

// View shows m in another shape with the same number of elements, one of whose sizes may
// be -1 (Tensor.view). It fails where the elements would have to be copied.
func (m Meta) View(size []int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	shape, err := InferSize(size, m.Numel())
	if err != nil {
		return Meta{}, err
	}
	st, ok := ReshapeStrides(m, shape)
	if !ok {
		return Meta{}, errors.New("view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.")
	}
	return Meta{DType: m.DType, Shape: shape, Strides: st, Offset: m.Offset}.checked()
}

// Flatten returns the shape that the dimensions from start to end, both included, make
// when they become one: what torch.flatten reshapes to. A 0-dim value becomes [1].
func (m Meta) Flatten(start, end int) ([]int, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	start, err := WrapDim(start, len(m.Shape))
	if err != nil {
		return nil, err
	}
	if end, err = WrapDim(end, len(m.Shape)); err != nil {
		return nil, err
	}
	if start > end {
		return nil, errors.New("flatten() has invalid args: start_dim cannot come after end_dim")
	}
	if len(m.Shape) == 0 {
		return []int{1}, nil
	}
	out := append(make([]int, 0, len(m.Shape)), m.Shape[:start]...)
	out = append(out, Numel(m.Shape[start:end+1]))
	return append(out, m.Shape[end+1:]...), nil
}

// Expand repeats dimensions of size 1 by a stride of 0 and adds dimensions at the front;
// -1 keeps a size (Tensor.expand, inferExpandGeometry).
func (m Meta) Expand(size []int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	n, rank := len(size), len(m.Shape)
	if n < rank {
		return Meta{}, fmt.Errorf("expand(%s{%s}, size=%s): the number of sizes provided (%d) must be greater or equal to the number of dimensions in the tensor (%d)",
			m.DType.legacyType(), ListString(m.Shape), ListString(size), n, rank)
	}
	out := Meta{DType: m.DType, Shape: slices.Clone(size), Strides: make([]int, n), Offset: m.Offset}
	if out.Shape == nil {
		out.Shape = []int{}
	}
	for i := n - 1; i >= 0; i-- {
		d := i - (n - rank)
		have, stride := 1, 0
		if d >= 0 {
			have, stride = m.Shape[d], m.Strides[d]
		} else if rank > 0 {
			stride = satMul(out.Shape[i+1], out.Strides[i+1])
		}
		if size[i] == -1 {
			if d < 0 && rank > 0 {
				return Meta{}, fmt.Errorf("The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension %d", i)
			}
			if d >= 0 {
				out.Shape[i] = have
			}
		}
		if have != out.Shape[i] {
			if have != 1 {
				return Meta{}, fmt.Errorf("The expanded size of the tensor (%d) must match the existing size (%d) at non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
					size[i], have, i, ListString(size), ListString(m.Shape))
			}
			stride = 0
		}
		if out.Shape[i] < 0 {
			return Meta{}, errors.New("numel: integer multiplication overflow")
		}
		out.Strides[i] = stride
	}
	return out.checked()
}

// legacyType returns the type name that PyTorch's older messages have: "torch.FloatTensor",
// and "CPUBoolType" for the dtypes that Python's translation of messages leaves out.
func (d DType) legacyType() string {
	switch d {
	case Uint8, Int8, Int16, Int32, Int64, Float16, Float32, Float64:
		return "torch." + d.TorchName() + "Tensor"
	}
	return "CPU" + d.TorchName() + "Type"
}

// AsStrided returns a value with the given shape and strides at an offset of the storage
// that m lies in; of m itself only the dtype counts (Tensor.as_strided). storageElems is
// the size of that storage in elements, which the result must not pass; a negative one
// is unknown and leaves this to [Over].
func (m Meta) AsStrided(size, stride []int, offset, storageElems int) (Meta, error) {
	if len(size) != len(stride) {
		return Meta{}, errors.New("mismatch in length of strides and shape")
	}
	if slices.ContainsFunc(stride, isNegative) {
		return Meta{}, fmt.Errorf("as_strided: Negative strides are not supported at the moment, got strides: %s", ListString(stride))
	}
	if offset < 0 {
		return Meta{}, fmt.Errorf("Tensor: invalid storage offset %d", offset)
	}
	out := Meta{DType: m.DType, Shape: slices.Clone(size), Strides: slices.Clone(stride), Offset: offset}
	if slices.ContainsFunc(size, isNegative) || out.Check() != nil {
		return Meta{}, fmt.Errorf("Storage size calculation overflowed with sizes=%s and strides=%s", ListString(size), ListString(stride))
	}
	if need := out.Extent(); storageElems >= 0 && need > storageElems {
		item := m.DType.Size()
		return Meta{}, fmt.Errorf("setStorage: sizes %s, strides %s, storage offset %d, and itemsize %d requiring a storage size of %d are out of bounds for storage of size %d",
			ListString(size), ListString(stride), offset, item, need*item, storageElems*item)
	}
	return out, nil
}

func isNegative(v int) bool { return v < 0 }

// Unfold turns a dimension into windows of the given size, step apart, and puts the
// elements of a window in a new last dimension (Tensor.unfold). A 0-dim value counts as
// one of shape [1].
func (m Meta) Unfold(dimension, size, step int) (Meta, error) {
	if err := m.Check(); err != nil {
		return Meta{}, err
	}
	d, err := WrapDim(dimension, len(m.Shape))
	if err != nil {
		return Meta{}, err
	}
	most, stride := 1, 1
	if len(m.Shape) > 0 {
		most, stride = m.Shape[d], m.Strides[d]
	}
	if size > most {
		return Meta{}, fmt.Errorf("maximum size for tensor at dimension %d is %d but size is %d", d, most, size)
	}
	if size < 0 {
		return Meta{}, fmt.Errorf("size is %d but must be >= 0", size)
	}
	if step <= 0 {
		return Meta{}, fmt.Errorf("step is %d but must be > 0", step)
	}
	out := m.own()
	if len(m.Shape) > 0 {
		out.Shape[d] = (most-size)/step + 1
		out.Strides[d] = satMul(stride, step)
	}
	out.Shape, out.Strides = append(out.Shape, size), append(out.Strides, stride)
	return out.checked()
}

// Broadcast returns the shape that two operands have in common: sizes are matched from
// the last, and a size 1 gives way (at::infer_size). The slice is fresh.
func Broadcast(a, b []int) ([]int, error) {
	n := max(len(a), len(b))
	out := make([]int, n)
	numel := 1
	for i := n - 1; i >= 0; i-- {
		sa, sb := 1, 1
		if d := i - (n - len(a)); d >= 0 {
			sa = a[d]
		}
		if d := i - (n - len(b)); d >= 0 {
			sb = b[d]
		}
		if sa < 0 || sb < 0 {
			return nil, fmt.Errorf("shapes %s and %s have a negative size", ListString(a), ListString(b))
		}
		if sa != sb && sa != 1 && sb != 1 {
			return nil, fmt.Errorf("The size of tensor a (%d) must match the size of tensor b (%d) at non-singleton dimension %d", sa, sb, i)
		}
		out[i] = sa
		if sa == 1 {
			out[i] = sb
		}
		if numel = satMul(numel, max(out[i], 1)); numel > MaxBytes {
			return nil, fmt.Errorf("shapes %s and %s broadcast to more than 2^47 elements", ListString(a), ListString(b))
		}
	}
	return out, nil
}
