package view

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the attributes of pad and the padding modes reflect, replicate and circular. For each index of the
// result, it computes the index of the operand's element that is copied there. borderShape checks the calls. For
// example, two elements before and after the dimension a b c give
//
//	reflect     c b a b c b a
//	replicate   a a a b c c c
//	circular    b c a b c a b
//
// [BorderTable] lists the operand's index for each index of the result. [BorderSpans] describes the same indices as
// ranges with a constant step, which kernels copy.

type padAttrs struct {
	Pad   []sym.Int     `attr:"pad" doc:"numbers of elements to add: before and after the last dimension, before and after the dimension in front of it, and so on; negative numbers remove elements"`
	Mode  string        `attr:"mode" default:"constant" doc:"constant, reflect, replicate or circular"`
	Value tensor.Scalar `attr:"value" default:"none" doc:"fill value for mode constant; default: 0"`
}

// value returns the fill value.
func (attrs *padAttrs) value() tensor.Scalar {
	if attrs.Value.IsSet() {
		return attrs.Value
	}
	return tensor.IntScalar(0)
}

// padCounts returns the number of elements that pad adds at the beginning of dimension d, and at its end. Negative
// numbers remove elements. rank is the rank of the value.
func padCounts[S int | sym.Int](pad []S, rank, d int) (before, after S) {
	if i := 2 * (rank - 1 - d); i < len(pad) { // pad lists the last dimension first
		return pad[i], pad[i+1]
	}
	return before, after
}

// borderTables returns a table for each dimension. The table of a padded dimension has the operand's index for each
// index of the output. The table of another dimension is nil.
func borderTables(attrs *padAttrs, shape []int) [][]int {
	tables := make([][]int, len(shape))
	for d := len(shape) - len(attrs.Pad)/2; d < len(shape); d++ {
		before, after := padCounts(kit.KnownSizes(attrs.Pad), len(shape), d)
		tables[d] = BorderTable(attrs.Mode, shape[d], before, after)
	}
	return tables
}

// BorderTable returns, for each index of a padded dimension, the index of the operand that is copied to it. n is the
// size of the dimension in the operand.
func BorderTable(mode string, n, before, after int) []int {
	table := make([]int, n+before+after)
	for i := range table {
		source := i - before
		switch {
		case mode == "circular":
			source = (source%n + n) % n
		case mode == "replicate":
			source = min(max(source, 0), n-1)
		case mode == "reflect" && source < 0:
			source = -source
		case mode == "reflect" && source >= n:
			source = 2*(n-1) - source
		}
		table[i] = source
	}
	if mode != "circular" || len(table) == 0 {
		return table
	}
	// In mode circular, PyTorch copies the padding from the result itself. If padding is negative on one side, the
	// operand is cropped there, and the padding on the other side repeats the cropped operand: a b c d padded by 2 and
	// -1 gives b c a b c. If the cropped operand is shorter than the padding, PyTorch copies uninitialized memory; this
	// implementation repeats the cropped operand again.
	first, end := max(before, 0), len(table)-max(after, 0) // the result without the padding
	for i := range first {
		table[i] = table[end-before+i]
	}
	for i := end; i < len(table); i++ {
		table[i] = table[first+i-end]
	}
	return table
}

// BorderSpans returns the spans ([copies.Span]) that fill a padded dimension. They read the same indices as the table
// of [BorderTable]. The operand has n elements along this dimension. In modes replicate and reflect, there are at most
// three spans: one before the operand's elements, one for these elements, and one after them.
func BorderSpans(mode string, n, before, after int) (list []copies.Span) {
	if mode == "circular" {
		return circularSpans(n, before, after)
	}
	add := func(outStart, outEnd, inStart, inStep int) { // outEnd is exclusive
		if outStart < outEnd {
			list = append(list, copies.Span{OutStart: outStart, Count: outEnd - outStart, InStart: inStart, InStep: inStep})
		}
	}
	size := n + before + after
	// The operand's elements are at the output indices first to end-1.
	first := min(max(before, 0), size)
	end := min(max(before+n, first), size)
	if mode == "replicate" { // a step of 0 repeats the first or the last element
		add(0, first, 0, 0)
		add(first, end, first-before, 1)
		add(end, size, n-1, 0)
		return list
	}
	// Output index o reads index o-before of the operand. Index -k is mirrored to k, and index n-1+k to n-1-k.
	add(0, first, before, -1)
	add(first, end, first-before, 1)
	add(end, size, 2*(n-1)-(end-before), -1)
	return list
}

// circularSpans is BorderSpans for mode circular. [BorderTable] describes the rule.
func circularSpans(n, before, after int) (list []copies.Span) {
	// addSpans copies consecutive indices of the operand modulo n, from inStart on.
	addSpans := func(outStart, count, inStart int) {
		for count > 0 {
			inStart = (inStart%n + n) % n
			span := copies.Span{OutStart: outStart, Count: min(count, n-inStart), InStart: inStart, InStep: 1}
			list = append(list, span)
			outStart, count, inStart = outStart+span.Count, count-span.Count, inStart+span.Count
		}
	}
	// The indices partStart to partEnd-1 of the operand remain after negative padding. This part is copied to the
	// output indices first to end-1.
	partStart, partEnd := max(-before, 0), n+min(after, 0)
	first, end := max(before, 0), partEnd+before
	partSize := end - first
	addSpans(0, first, partEnd-before) // the end of the part
	addSpans(first, partSize, partStart)
	if partSize == 0 {
		addSpans(end, max(after, 0), partEnd)
		return list
	}
	for padded := 0; padded < after; padded += partSize { // repeat the part
		addSpans(end+padded, min(partSize, after-padded), partStart)
	}
	return list
}

// borderShape returns the shape of the result, or PyTorch's error for the mode and the number of dimensions
// (reflection_pad, replication_pad, _pad_circular).
func borderShape(attrs *padAttrs, self tensor.Type) ([]sym.Int, error) {
	padDims, rank := len(attrs.Pad)/2, self.Rank()
	shape := slices.Clone(self.Shape)
	for d := rank - padDims; d < rank; d++ {
		before, after := padCounts(attrs.Pad, rank, d)
		shape[d] = clampedSize(shape[d].Add(before)).Add(clampedSize(after))
	}
	if attrs.Mode == "circular" {
		return shape, checkCircular(attrs.Pad, self.Shape, shape)
	}
	if err := checkBatch(attrs.Mode, self, padDims); err != nil {
		return nil, err
	}
	if attrs.Mode == "reflect" {
		if err := checkReflect(attrs.Pad, self.Shape); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(shape[rank-padDims:], func(size sym.Int) bool { return kit.SizeAtLeast(size, 1) }) {
		return nil, fmt.Errorf("input (%s) is too small. Calculated output %s", sizesByName(self.Shape[rank-padDims:]),
			sizesByName(shape[rank-padDims:]))
	}
	if !self.DType.IsFloat() && !self.DType.IsComplex() {
		return nil, fmt.Errorf("\"%s\" not implemented for '%s'", borderKernel(attrs.Mode, padDims), self.DType.TorchName())
	}
	return shape, nil
}

// clampedSize clamps a known number to the range from -tensor.MaxBytes to tensor.MaxBytes, so that sums do not wrap.
// Larger numbers are no valid sizes in any case.
func clampedSize(size sym.Int) sym.Int {
	if known, isKnown := size.Known(); isKnown {
		return sym.Of(min(max(known, -tensor.MaxBytes), tensor.MaxBytes))
	}
	return size
}

// checkCircular returns PyTorch's error if pad cannot pad shape in to shape out in mode circular, else nil. PyTorch
// pads all dimensions but the first two.
func checkCircular(pad, in, out []sym.Int) error {
	if expected := 2 * (len(in) - 2); len(pad) != expected {
		return fmt.Errorf("Invalid padding size, expected %d but got %d", expected, len(pad))
	}
	for d := 2; d < len(in); d++ {
		before, after := padCounts(pad, len(in), d)
		if before.Gt(in[d]).Or(after.Gt(in[d])).Holds() {
			return errors.New("Padding value causes wrapping around more than once.")
		}
		// Neither the result nor the part of the operand that remains after negative padding may have a negative size.
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

// checkReflect returns PyTorch's error if padding has as many elements as the dimension, or more.
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
		// 4+2*i is the number of the argument `before` in PyTorch: the pairs follow three other arguments.
		return fmt.Errorf("Argument #%d: Padding size should be less than the corresponding input dimension, but "+
			"got: padding (%v, %v) at dimension %d of input %s", 4+2*i, before, after, d, input)
	}
	return nil
}

// sizesByName formats at most three sizes as "D: 1 H: 2 W: 3". Two sizes are H and W, and one is W.
func sizesByName(size []sym.Int) string {
	text := ""
	for i, n := range size {
		text += fmt.Sprintf(" %c: %v", "DHW"[3-len(size)+i], n)
	}
	return text[1:] // without the leading space
}

// borderKernel returns the name, in PyTorch's messages, of the kernel that pads padDims dimensions in a mode.
func borderKernel(mode string, padDims int) string {
	switch {
	case mode == "replicate":
		return fmt.Sprintf("replication_pad%dd_cpu", padDims)
	case padDims == 3:
		return "reflection_pad3d_cpu"
	}
	return fmt.Sprintf("reflection_pad%dd", padDims)
}
