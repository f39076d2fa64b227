package view

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file checks calls of pad in the modes reflect, replicate and circular ([borderShape]), with PyTorch's errors.

// borderShape returns the shape of the result, or PyTorch's error for the mode and the number of dimensions
// (reflection_pad, replication_pad, _pad_circular).
func borderShape(attrs *padAttrs, self tensor.Type) ([]sym.Int, error) {
	mode, pad := attrs.Mode, attrs.Pad
	padDims, rank := len(pad)/2, self.Rank()
	shape := slices.Clone(self.Shape)
	for d := rank - padDims; d < rank; d++ {
		before, after := padCounts(pad, rank, d)
		shape[d] = clampedSize(shape[d].Add(before)).Add(clampedSize(after))
	}
	if mode == "circular" {
		return shape, checkCircular(pad, self.Shape, shape)
	}
	if attrs.AnySize {
		for d := rank - padDims; d < rank; d++ {
			if err := checkAnySize(pad, self.Shape, d); err != nil {
				return nil, err
			}
		}
	} else if err := checkBatch(mode, self, padDims); err != nil {
		return nil, err
	}
	if mode == "reflect" && !attrs.AnySize {
		if err := checkReflect(pad, self.Shape); err != nil {
			return nil, err
		}
	}
	// PyTorch requires that at least one padded dimension of the result is not empty.
	isPositive := func(size sym.Int) bool { return kit.SizeAtLeast(size, 1) }
	if !attrs.AnySize && !slices.ContainsFunc(shape[rank-padDims:], isPositive) {
		return nil, fmt.Errorf("input (%s) is too small. Calculated output %s", sizesByName(self.Shape[rank-padDims:]),
			sizesByName(shape[rank-padDims:]))
	}
	if !self.DType.IsFloat() && !self.DType.IsComplex() {
		return nil, fmt.Errorf("\"%s\" not implemented for '%s'", borderKernel(mode, padDims), self.DType.TorchName())
	}
	return shape, nil
}

// clampedSize clamps a known number to the range from -tensor.MaxBytes to tensor.MaxBytes, so that sums do not wrap.
// Numbers outside this range are never valid sizes.
func clampedSize(size sym.Int) sym.Int {
	if known, isKnown := size.Known(); isKnown {
		return sym.Of(min(max(known, -tensor.MaxBytes), tensor.MaxBytes))
	}
	return size
}

// checkCircular returns PyTorch's error if mode circular cannot pad a value of shape `in` to shape `out`. PyTorch pads
// all dimensions after the first two.
func checkCircular(pad, in, out []sym.Int) error {
	if expected := 2 * (len(in) - 2); len(pad) != expected {
		return fmt.Errorf("Invalid padding size, expected %d but got %d", expected, len(pad))
	}
	for d := 2; d < len(in); d++ {
		before, after := padCounts(pad, len(in), d)
		if before.Gt(in[d]).Or(after.Gt(in[d])).Holds() {
			return errors.New("Padding value causes wrapping around more than once.")
		}
		// The size of the result must not be negative. If it is positive, the part of the operand that remains after
		// negative padding must not have a negative size either.
		if kit.IsNegative(out[d]) || kit.SizeAtLeast(out[d], 1) &&
			kit.IsNegative(in[d].Add(before.Min(sym.Int{})).Add(after.Min(sym.Int{}))) {
			return errors.New("Negative padding value is resulting in an empty dimension")
		}
	}
	return nil
}

// checkBatch returns PyTorch's error if a dimension other than the batch is empty. padDims is the number of padded
// dimensions. There is a batch, dimension 0, if the value has padDims+2 dimensions. Mode reflect ignores dimension 0
// even if there is no batch.
func checkBatch(mode string, self tensor.Type, padDims int) error {
	checked := self.Shape
	if hasBatch := self.Rank() == padDims+2; hasBatch || mode == "reflect" {
		checked = checked[1:]
	}
	if !slices.ContainsFunc(checked, func(size sym.Int) bool { return kit.SizeIs(size, 0) }) {
		return nil
	}
	if mode == "reflect" && padDims < 3 {
		return fmt.Errorf("%dD or %dD (batch mode) tensor expected for input, but got: [ torch.%sTensor{%s} ]",
			padDims+1, padDims+2, self.DType.TorchName(), sizesText(self.Shape))
	}
	return fmt.Errorf("Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "+
		"for input, but got: %s", padDims+1, padDims+2, tensor.Sizes(self.Shape))
}

// maxReflections bounds the number of spans of a padded dimension.
const maxReflections = 1 << 20

// checkAnySize checks the padding of dimension d for the attribute any_size.
func checkAnySize(pad, shape []sym.Int, d int) error {
	before, after := padCounts(pad, len(shape), d)
	most, size := before.Max(after), shape[d]
	switch {
	case kit.SizeIs(size, 0) && kit.SizeAtLeast(most, 1):
		return fmt.Errorf("dimension %d has no elements, and cannot be padded with them", d)
	case most.Gt(size.Mul(sym.Of(maxReflections))).Holds():
		return fmt.Errorf("dimension %d of size %v is padded by more than %d times its size", d, size, maxReflections)
	}
	return nil
}

// sizesText formats sizes separated by commas.
func sizesText(shape []sym.Int) string {
	text := ""
	for i, size := range shape {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprint(size)
	}
	return text
}

// checkReflect returns PyTorch's error if the padding of a dimension is not less than the size of the dimension.
func checkReflect(pad, shape []sym.Int) error {
	padDims, rank := len(pad)/2, len(shape)
	for i := range padDims { // from the last dimension, as in pad
		d := rank - 1 - i
		before, after := pad[2*i], pad[2*i+1]
		if !before.Ge(shape[d]).Holds() && !after.Ge(shape[d]).Holds() {
			continue
		}
		input := tensor.Sizes(shape)
		if padDims == 2 { // reflection_pad2d prints the rank instead of the sizes
			input = fmt.Sprint(rank)
		}
		// 4+2*i is the number of the argument `before` in PyTorch, where the pairs of padding follow three other
		// arguments.
		return fmt.Errorf("Argument #%d: Padding size should be less than the corresponding input dimension, but "+
			"got: padding (%v, %v) at dimension %d of input %s", 4+2*i, before, after, d, input)
	}
	return nil
}

// sizesByName formats at most three sizes as "D: 1 H: 2 W: 3". Two sizes are named H and W, and a single size is named
// W.
func sizesByName(size []sym.Int) string {
	text := ""
	for i, n := range size {
		text += fmt.Sprintf(" %c: %v", "DHW"[3-len(size)+i], n)
	}
	return text[1:] // without the leading space
}

// borderKernel returns PyTorch's name of the kernel that pads padDims dimensions in a mode, for messages.
func borderKernel(mode string, padDims int) string {
	switch {
	case mode == "replicate":
		return fmt.Sprintf("replication_pad%dd_cpu", padDims)
	case padDims == 3:
		return "reflection_pad3d_cpu"
	}
	return fmt.Sprintf("reflection_pad%dd", padDims)
}
