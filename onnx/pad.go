package onnx

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// pad converts Pad. Widths and value are attributes before operator set 11, and operands from set 11 on.
func pad(n *node) []*val {
	x := n.operand(0)
	mode := n.text("mode", "constant")
	rank := n.rank(x)
	var value any = n.float("value", 0)
	if n.opset >= 11 {
		value = 0
		if v := n.operandOrNil(2); v != nil {
			value = n.numberAttr(v)
		}
	}
	var widths []int
	switch {
	case n.opset < 2:
		widths, _ = n.ints("paddings")
	case n.opset < 11:
		widths, _ = n.ints("pads")
	case n.operand(1).data == nil || n.hasOperand(3) && n.operand(3).data == nil:
		return one(n.padBy(x, n.operand(1), mode, value))
	default:
		widths = n.list(1)
	}
	axes := make([]int, rank)
	for i := range axes {
		axes[i] = i
	}
	if n.hasOperand(3) {
		axes = n.axes(n.list(3), rank)
	}
	if len(widths) != 2*len(axes) {
		n.failf("got %d widths for %d axes, want two for each", len(widths), len(axes))
	}
	before, after := make([]int, rank), make([]int, rank)
	for i, a := range axes {
		before[a], after[a] = widths[i], widths[len(axes)+i]
	}
	if mode == "constant" {
		return one(n.padded(x, sym.Ints(before...), sym.Ints(after...), value))
	}
	return one(n.padMirrored(x, mode, before, after))
}

// padded adds before[i] and after[i] elements with a value at the ends of dimension i. Negative widths crop.
func (n *node) padded(x *val, before, after []sym.Int, value any) *val {
	rank := len(before)
	list := make([]sym.Int, 2*rank)
	pads := false
	for i := range before {
		list[2*(rank-1-i)], list[2*(rank-1-i)+1] = before[i], after[i]
		pads = pads || !before[i].Same(sym.Int{}) || !after[i].Same(sym.Int{})
	}
	if !pads {
		return x
	}
	return n.op("constant_pad_nd", graph.Attrs{"pad": n.sizeAttr(list...), "value": value}, x)
}

// padBy pads by computed widths. ONNX lists the widths before all dimensions, then the widths after all dimensions. The
// op constant_pad_nd takes pairs, the last dimension first.
func (n *node) padBy(x, widths *val, mode string, value any) *val {
	rank := n.rank(x)
	count := n.lengthOf(widths)
	if n.hasOperand(3) {
		axes := n.cast(n.operand(3), tensor.Int64)
		if c := n.lengthOf(axes); c >= 0 && count >= 0 && count != 2*c {
			n.failf("%d widths do not suit %d axes", count, c)
		}
		axes = n.op("where", nil, n.op("lt", nil, axes, 0), n.op("add", nil, axes, rank), axes)
		positions := n.op("cat", nil, axes, n.op("add", nil, axes, rank))
		all := constValue(intTensor(make([]int, 2*rank)...))
		widths = n.op("scatter", graph.Attrs{"dim": 0}, all, positions,
			n.cast(widths, tensor.Int64)).withType(tensor.Int64, 1)
	} else if count != 2*rank && count >= 0 {
		n.failf("%d widths do not suit %d dimensions", count, rank)
	}
	if mode != "constant" {
		return n.padMirroredComputed(x, n.cast(widths, tensor.Int64), mode)
	}
	pairs := n.op("flip", graph.Attrs{"dims": []int{1}}, n.reshape(n.cast(widths, tensor.Int64), 2, rank))
	pairs = n.reshape(n.op("permute", graph.Attrs{"dims": []int{1, 0}}, pairs), 2*rank)
	return n.op("constant_pad_nd", graph.Attrs{"pad": n.vectorAttr(pairs), "value": value}, x)
}

// padMirrored pads x with its own elements. It uses the op pad for all dimensions except the first two of a value of
// rank 3 to 5. In all other cases it selects elements by an index.
func (n *node) padMirrored(x *val, mode string, before, after []int) *val {
	opMode, ok := map[string]string{"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode]
	if !ok {
		n.failf("mode %q is not supported", mode)
	}
	shape := n.sizes(x)
	rank := len(shape)
	direct := rank >= 3 && rank <= 5 && x.dtype().IsFloat() && before[0] == 0 && after[0] == 0 && before[1] == 0 &&
		after[1] == 0
	for i := range before {
		direct = direct && before[i] >= 0 && after[i] >= 0
	}
	if direct && opMode != "circular" {
		var list []int
		for i := rank - 1; i >= 2; i-- {
			list = append(list, before[i], after[i])
		}
		return n.op("pad", graph.Attrs{"pad": list, "mode": opMode}, x)
	}
	for dim := range shape {
		size := before[dim] + shape[dim] + after[dim]
		if before[dim] == 0 && after[dim] == 0 {
			continue
		}
		if shape[dim] < 0 {
			widths := make([]int, 2*rank)
			widths[dim], widths[rank+dim] = before[dim], after[dim]
			x = n.padMirroredComputed(x, constValue(intTensor(widths...)), mode)
			continue
		}
		if shape[dim] == 0 || size < 0 || before[dim] < -maxPadding || before[dim] > maxPadding ||
			after[dim] > maxPadding {
			n.failf("dimension %d of size %d cannot be padded by %d and %d", dim, shape[dim], before[dim], after[dim])
		}
		if size > foldLimit {
			return n.padMirroredComputed(x, constValue(intTensor(append(before, after...)...)), mode)
		}
		index := make([]int, size)
		for i := range index {
			index[i] = mirror(i-before[dim], shape[dim], mode)
		}
		x = n.op("index_select", graph.Attrs{"dim": dim}, x, constValue(intTensor(index...)))
	}
	return x
}

// mirror maps an index i of a padded dimension to an index of the unpadded dimension. An i below 0, or of at least
// size, is in the padding. Other indices are mapped to themselves.
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
