package operators

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts Pad. ONNX lists the widths before all dimensions and then the widths after all dimensions; the op
// constant_pad_nd takes pairs, the last dimension first. For example, a matrix padded by one row at the top and two
// columns at the right has the ONNX widths [1, 0, 0, 2] and the pairs [0, 2, 1, 0].
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols.

// Operands of Pad from operator set 11 on.
const padWidths, padFill, padAxes = 1, 2, 3

// pad converts Pad. The widths of the padding and its value are attributes before operator set 11, and operands from
// set 11 on.
func pad(n *node) []*value {
	x := n.Operand(0)
	mode, value := n.Text("mode", "constant"), padValue(n)
	var widths []int
	switch {
	case n.Opset < 2:
		widths, _ = n.Ints("paddings")
	case n.Opset < 11:
		widths, _ = n.Ints("pads")
	case n.Operand(padWidths).Data() == nil || n.HasOperand(padAxes) && n.Operand(padAxes).Data() == nil:
		// The widths or the axes are known only when the graph runs.
		return single(padByComputed(n, x, n.Operand(padWidths), mode, value))
	default:
		widths = n.ConstantInts(padWidths)
	}
	before, after := widthsByDim(n, widths, n.Rank(x))
	if mode == "constant" {
		return single(padded(n, x, sym.Ints(before...), sym.Ints(after...), value))
	}
	return single(padMirrored(n, x, mode, before, after))
}

// padValue returns the value of the padding.
func padValue(n *node) any {
	attribute := n.Float("value", 0)
	if n.Opset < 11 {
		return attribute
	}
	if operand := n.OperandOrNil(padFill); operand != nil {
		return n.NumberAttr(operand)
	}
	return 0
}

// widthsByDim returns the widths before and after each dimension. With the operand padAxes, ONNX lists only the widths
// of these axes.
func widthsByDim(n *node, widths []int, rank int) (before, after []int) {
	axes := make([]int, rank)
	for i := range axes {
		axes[i] = i
	}
	if n.HasOperand(padAxes) {
		axes = n.Axes(n.ConstantInts(padAxes), rank)
	}
	if len(widths) != 2*len(axes) {
		n.Failf("got %d widths for %d axes, want two for each", len(widths), len(axes))
	}
	before, after = make([]int, rank), make([]int, rank)
	for i, axis := range axes {
		before[axis], after[axis] = widths[i], widths[len(axes)+i]
	}
	return before, after
}

// padded adds before[i] elements at the start of dimension i, and after[i] elements at its end. All have the given
// value. Negative widths crop. It returns x if all widths are 0.
func padded(n *node, x *value, before, after []sym.Int, value any) *value {
	rank := len(before)
	pairs := make([]sym.Int, 2*rank) // before and after for each dimension, the last dimension first
	isUnchanged := true
	for i := range before {
		pairs[2*(rank-1-i)], pairs[2*(rank-1-i)+1] = before[i], after[i]
		isUnchanged = isUnchanged && before[i].Same(sym.Int{}) && after[i].Same(sym.Int{})
	}
	if isUnchanged {
		return x
	}
	return n.Op("constant_pad_nd", graph.Attrs{"pad": n.SizesAttr(pairs...), "value": value}, x).WithRank(rank)
}

// padByComputed pads by widths, or along axes, that are computed when the graph runs.
func padByComputed(n *node, x, widths *value, mode string, value any) *value {
	rank := n.Rank(x)
	count := n.LengthOf(widths)
	if n.HasOperand(padAxes) {
		axes := axesVector(n, n.Operand(padAxes), rank)
		// A negative length is unknown.
		if axisCount := n.LengthOf(axes); axisCount >= 0 && count >= 0 && count != 2*axisCount {
			n.Failf("%d widths do not suit %d axes", count, axisCount)
		}
		// Scatter the widths to positions axis and rank+axis of a vector of 2*rank zeros.
		positions := n.Op("cat", nil, axes, n.Op("add", nil, axes, rank))
		widths = scattered(n, repeatedInt(0, 2*rank), positions, widths)
	} else if count != 2*rank && count >= 0 {
		n.Failf("%d widths do not suit %d dimensions", count, rank)
	}
	if mode != "constant" {
		return padMirroredAtRuntime(n, x, n.Cast(widths, tensor.Int64), mode)
	}
	return padConstantBy(n, x, widths, value)
}

// padConstantBy pads by computed widths: first the width before each dimension, then the width after each dimension.
func padConstantBy(n *node, x, widths *value, value any) *value {
	rank := n.Rank(x)
	var order []int // pairs of widths, the last dimension first
	for dim := rank - 1; dim >= 0; dim-- {
		order = append(order, dim, rank+dim)
	}
	pairs := n.Op("index_select", graph.Attrs{"dim": 0}, n.Cast(widths, tensor.Int64),
		convert.IntVector(order...)).WithSizes(tensor.Int64, 2*rank)
	return n.Op("constant_pad_nd", graph.Attrs{"pad": n.IntsAttr(pairs), "value": value}, x).WithRank(rank)
}

// padMirrored pads x with its own elements. It uses the op pad if the op supports the mode, the dtype and the padded
// dimensions. Otherwise it selects elements by an index, for one dimension after another. If a size is not known, or
// the index is too long for a constant, the index is computed when the graph runs ([padMirroredAtRuntime]).
func padMirrored(n *node, x *value, mode string, before, after []int) *value {
	opMode := convert.Choice(n, "mode", mode, map[string]string{"constant": "constant", "reflect": "reflect",
		"edge": "replicate", "wrap": "circular"})
	shape := n.Sizes(x)
	rank := len(shape)
	exceeds := func(dim int) bool { // a reflection is then reflected again
		return shape[dim] >= 0 && max(before[dim], after[dim]) >= shape[dim]
	}
	if opMode != "circular" && x.DType().IsFloat() && padsOnlySpatial(before, after) &&
		!(opMode == "reflect" && slices.ContainsFunc(dimsFrom(0, rank), exceeds)) {
		var pairs []int
		for i := rank - 1; i >= 2; i-- {
			pairs = append(pairs, before[i], after[i])
		}
		attrs := graph.Attrs{"pad": pairs, "mode": opMode}
		// By PyTorch's rules, sizes may not be 0, and a reflection not longer than the operand.
		if mayBeEmpty(n.SymShape(x)[1:]...) || opMode == "reflect" && slices.Contains(shape[2:], -1) {
			attrs["any_size"] = true
		}
		return n.Op("pad", attrs, x)
	}
	for dim := range shape {
		if before[dim] == 0 && after[dim] == 0 {
			continue
		}
		size := shape[dim] // negative if it is not known
		paddedSize, isKnown := before[dim]+size+after[dim], size >= 0
		overflows := before[dim] < -maxPadding || before[dim] > maxPadding || after[dim] > maxPadding
		if isKnown && (size == 0 || paddedSize < 0 || overflows) {
			n.Failf("dimension %d of size %d cannot be padded by %d and %d", dim, size, before[dim], after[dim])
		}
		if !isKnown || paddedSize > convert.FoldLimit {
			widths := make([]int, 2*rank)
			widths[dim], widths[rank+dim] = before[dim], after[dim]
			x = padMirroredAtRuntime(n, x, convert.IntVector(widths...), mode)
			continue
		}
		index := make([]int, paddedSize)
		for i := range index {
			index[i] = mirror(i-before[dim], size, mode)
		}
		x = n.Op("index_select", graph.Attrs{"dim": dim}, x, convert.IntVector(index...))
	}
	return x
}

// padsOnlySpatial reports whether an operand has three to five dimensions, only those from the third on are padded, and
// none is cropped.
func padsOnlySpatial(before, after []int) bool {
	if rank := len(before); rank < 3 || rank > 5 {
		return false
	}
	for i := range before {
		if before[i] < 0 || after[i] < 0 || i < 2 && (before[i] != 0 || after[i] != 0) {
			return false
		}
	}
	return true
}

// mirror maps an index i of a padded dimension, counted from the first unpadded element, to an index of the unpadded
// dimension. If i < 0 or i >= size, it is in the padding. Other indices are mapped to themselves. Any mode other than
// edge and wrap is reflect. Reflect does not repeat the first and the last element, so its period is 2*(size-1).
func mirror(i, size int, mode string) int {
	switch {
	case mode == "edge":
		return min(max(i, 0), size-1)
	case mode == "wrap":
		return ((i % size) + size) % size
	case size == 1:
		return 0
	}
	period := 2 * (size - 1)
	i = ((i % period) + period) % period
	return min(i, period-i)
}
