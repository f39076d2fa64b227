package onnx

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

func shapeOp(n *node) []*val {
	x := n.operand(0)
	sizes := n.shapeVector(x)
	start, end := n.int("start", 0), any(nil)
	if n.attrs["end"] != nil {
		end = n.int("end", 0)
	}
	if start == 0 && end == nil {
		return one(sizes)
	}
	return one(n.op("slice", graph.Attrs{"dim": 0, "start": start, "end": end}, sizes).withRank(1))
}

func size(n *node) []*val {
	return one(n.op("prod", nil, n.shapeVector(n.operand(0))).withRank(0))
}

// lengthOf returns the number of elements of x, or -1 if the number is unknown.
func (n *node) lengthOf(x *val) int {
	s := n.outlineOf(x).Sizes
	if s == nil || slices.Contains(s, -1) {
		return -1
	}
	return tensor.Numel(s)
}

// resizeVector extends or truncates a vector of sizes from length to wantedLength elements. It changes the end of the
// vector if atEnd is true, otherwise the start. Each new element is `fill`.
func (n *node) resizeVector(sizes *val, length, wantedLength int, atEnd bool, fill int) *val {
	switch {
	case wantedLength < 0:
		n.failf("the number of dimensions must be known before the graph runs")
	case wantedLength < length && atEnd:
		return n.op("slice", graph.Attrs{"dim": 0, "start": 0, "end": wantedLength}, sizes)
	case wantedLength < length:
		n.failf("%d dimensions do not fit into %d", length, wantedLength)
	case wantedLength > length && atEnd:
		return n.op("constant_pad_nd", graph.Attrs{"pad": []int{0, wantedLength - length}, "value": fill}, sizes)
	case wantedLength > length:
		return n.op("constant_pad_nd", graph.Attrs{"pad": []int{wantedLength - length, 0}, "value": fill}, sizes)
	}
	return sizes
}

func flatten(n *node) []*val { return one(n.matrix(n.operand(0), n.int("axis", 1))) }

func squeeze(n *node) []*val {
	x := n.operand(0)
	list, hasAxes := n.ints("axes")
	if n.opset >= 13 && n.hasOperand(1) {
		if axes := n.operand(1); axes.data == nil {
			return one(n.squeezeComputed(x, axes))
		}
		list, hasAxes = n.list(1), true
	}
	if !hasAxes {
		return one(n.op("squeeze", nil, x))
	}
	rank := n.rank(x)
	list = n.axes(list, rank)
	if !x.isDynamic() {
		for _, axes := range list {
			if s := n.sizes(x)[axes]; s != 1 && s >= 0 {
				n.failf("dimension %d has size %d, not 1", axes, s)
			}
		}
	}
	return one(n.op("squeeze", graph.Attrs{"dim": list}, x).withRank(rank - len(list)))
}

func unsqueeze(n *node) []*val {
	x := n.operand(0)
	list, _ := n.ints("axes")
	if n.opset >= 13 {
		if axes := n.operand(1); axes.data == nil {
			return one(n.unsqueezeComputed(x, axes))
		}
		list = n.list(1)
	}
	rank := n.rank(x) + len(list)
	if rank > maxRank {
		n.failf("%d dimensions are not supported", rank)
	}
	list = n.axes(list, rank)
	sorted.Ints(list)
	for i, axes := range list {
		x = n.op("unsqueeze", graph.Attrs{"dim": axes}, x).withRank(rank - len(list) + i + 1)
	}
	return one(x)
}

func transpose(n *node) []*val {
	x := n.operand(0)
	perm, ok := n.ints("perm")
	if !ok {
		for i := n.rank(x) - 1; i >= 0; i-- {
			perm = append(perm, i)
		}
	}
	return one(n.op("permute", graph.Attrs{"dims": perm}, x).withRank(len(perm)))
}

func tile(n *node) []*val {
	x := n.operand(0)
	if n.opset < 6 {
		repeats := make([]int, n.rank(x))
		for i := range repeats {
			repeats[i] = 1
		}
		repeats[n.axis(n.list(2)[0], n.rank(x))] = n.list(1)[0]
		return one(n.op("tile", graph.Attrs{"dims": repeats}, x))
	}
	return one(n.op("tile", graph.Attrs{"dims": n.vectorAttr(n.operand(1))}, x))
}

func concat(n *node) []*val {
	if len(n.in) == 0 {
		n.failf("operands are missing")
	}
	axis := n.int("axis", 1)
	if n.opset >= 4 && n.attrs["axis"] == nil {
		n.failf("attribute \"axis\" is missing")
	}
	list := make([]any, len(n.in))
	for i := range n.in {
		list[i] = n.operand(i)
	}
	return one(n.op("cat", graph.Attrs{"dim": axis}, list...))
}

// split converts Split: it splits x into parts of given sizes, or into equal parts, one for each output.
func split(n *node) []*val {
	x := n.operand(0)
	axis := n.int("axis", 0)
	sizes, hasSizes := n.ints("split")
	if n.opset >= 13 && n.hasOperand(1) {
		if p := n.operand(1); p.data == nil {
			if list := n.expressions(p); len(list) == len(n.proto.Output) {
				return n.ops("split_with_sizes", graph.Attrs{"split_sizes": list, "dim": axis}, x)
			}
			return n.splitComputed(x, p, axis, len(n.proto.Output))
		}
		sizes, hasSizes = n.list(1), true
	}
	if !hasSizes {
		parts := n.int("num_outputs", len(n.proto.Output))
		if parts < 1 || parts > len(n.proto.Output) {
			n.failf("%d parts do not suit %d outputs", parts, len(n.proto.Output))
		}
		return n.splitEvenly(x, n.axis(axis, n.rank(x)), parts)
	}
	if len(sizes) != len(n.proto.Output) {
		n.failf("%d sizes do not suit %d outputs", len(sizes), len(n.proto.Output))
	}
	return n.ops("split_with_sizes", graph.Attrs{"split_sizes": sizes, "dim": axis}, x)
}

// splitEvenly splits x along an axis into parts of equal size. The last part may be smaller.
func (n *node) splitEvenly(x *val, axis, parts int) []*val {
	remaining := n.shapeOf(x)[axis]
	each := remaining.Add(sym.Of(parts - 1)).Div(sym.Of(parts))
	sizes := make([]any, parts)
	for i := range sizes {
		size, ok := each.Min(remaining), false
		remaining = remaining.Sub(size)
		if sizes[i], ok = n.intAttr(size); !ok {
			return n.splitComputed(x, n.evenSizes(n.element(n.shapeVector(x), axis), parts), axis, parts)
		}
	}
	return n.ops("split_with_sizes", graph.Attrs{"split_sizes": sizes, "dim": axis}, x)
}

// evenSizes returns the sizes of parts as in [node.splitEvenly], as a vector. It is for an axis of a computed size.
func (n *node) evenSizes(size *val, parts int) *val {
	each := n.op("div", graph.Attrs{"rounding_mode": "floor"}, n.op("add", nil, size, parts-1), parts)
	index := make([]int, parts)
	for i := range index {
		index[i] = i
	}
	starts := n.op("mul", nil, constValue(intTensor(index...)), each)
	partSizes := n.op("minimum", nil, n.op("sub", nil, size, starts), each)
	return n.op("clamp", graph.Attrs{"min": 0}, partSizes).withType(tensor.Int64, 1)
}

// slice converts Slice. Starts, ends and axes are attributes before operator set 10, and operands from set 10 on.
func slice(n *node) []*val {
	x := n.operand(0)
	var starts, ends, axes, steps *val
	if n.opset < 10 {
		read := func(name string) *val {
			list, ok := n.ints(name)
			if !ok {
				return nil
			}
			return constValue(intTensor(list...))
		}
		starts, ends, axes = read("starts"), read("ends"), read("axes")
	} else {
		starts, ends, axes, steps = n.operand(1), n.operand(2), n.operandOrNil(3), n.operandOrNil(4)
	}
	if starts == nil || ends == nil {
		n.failf("starts or ends are missing")
	}
	count := -1
	for _, p := range []*val{starts, ends, axes, steps} {
		if p == nil {
			continue
		}
		length := n.lengthOf(p)
		if length >= 0 && count >= 0 && length != count {
			n.failf("starts, ends, axes and steps differ in length")
		}
		count = max(count, length)
	}
	if count < 0 {
		n.failf("the number of axes must be known before the graph runs")
	}
	if axes == nil {
		list := make([]int, count)
		for i := range list {
			list[i] = i
		}
		axes = constValue(intTensor(list...))
	}
	if steps == nil {
		steps = constValue(intTensor(slices.Repeat([]int{1}, count)...))
	}
	for i := range count {
		x = n.sliceAxis(x, n.element(axes, i), n.element(steps, i), n.element(starts, i), n.element(ends, i))
	}
	return one(x)
}

// element returns one element of a vector as a 0-dim value.
func (n *node) element(x *val, i int) *val {
	if n.isStatic(x) && x.meta().Rank() == 0 {
		return x
	}
	return n.op("select", graph.Attrs{"dim": 0, "index": i}, x).withRank(0)
}

// sliceAxis slices x along one axis. For a negative step, it slices in ascending order and flips the result.
func (n *node) sliceAxis(x, axisOperand, stepOperand, start, end *val) *val {
	if stepOperand.data != nil && n.number(stepOperand).Int() > 0 {
		return n.op("slice", graph.Attrs{"dim": n.scalarAttr(axisOperand), "start": n.scalarAttr(start),
			"end": n.scalarAttr(end), "step": n.scalarAttr(stepOperand)}, x)
	}
	if stepOperand.data == nil || axisOperand.data == nil || start.data == nil || end.data == nil || !n.isStatic(x) {
		return n.sliceComputed(x, axisOperand, start, end, stepOperand)
	}
	axis, step := int(n.number(axisOperand).Int()), int(n.number(stepOperand).Int())
	if step == 0 || step < math.MinInt/2 {
		n.failf("step %d is not supported", step)
	}
	axis = n.axis(axis, n.rank(x))
	size := n.shape(x)[axis]
	startIndex, endIndex := int(n.number(start).Int()), int(n.number(end).Int())
	clampTo := func(i int) int {
		if i < 0 {
			i += size
		}
		return min(max(i, -1), size-1)
	}
	first, last := clampTo(startIndex), clampTo(endIndex)
	count := max(0, (first-last-step-1)/-step)
	if startIndex < -size {
		count = 0
	}
	lowest := max(0, first+(count-1)*step)
	sliced := n.op("slice", graph.Attrs{"dim": axis, "start": lowest,
		"end": lowest + max(0, (count-1)*-step+1), "step": -step},
		x)
	if count == 0 {
		sliced = n.op("slice", graph.Attrs{"dim": axis, "start": 0, "end": 0}, x)
	}
	return n.op("flip", graph.Attrs{"dims": []int{axis}}, sliced)
}

// gather selects slices by an index of any shape.
func gather(n *node) []*val {
	x, index := n.operand(0), n.operand(1)
	axis := n.int("axis", 0)
	rank, irank := n.rank(x), n.rank(index)
	axis = n.axis(axis, rank)
	index = n.cast(index, tensor.Int64)
	if irank == 0 && index.data != nil {
		return one(n.op("select", graph.Attrs{"dim": axis, "index": n.scalarAttr(index)}, x).withRank(rank - 1))
	}
	if irank == 1 {
		return one(n.op("index_select", graph.Attrs{"dim": axis}, x, index).withRank(rank))
	}
	operands := []any{x}
	for range axis {
		operands = append(operands, nil)
	}
	return one(n.op("index", nil, append(operands, index)...).withRank(rank + irank - 1))
}

func gatherElements(n *node) []*val {
	index := n.cast(n.operand(1), tensor.Int64)
	return one(n.op("gather", graph.Attrs{"dim": n.int("axis", 0)}, n.operand(0), index))
}

func gatherND(n *node) []*val {
	x, index := n.operand(0), n.cast(n.operand(1), tensor.Int64)
	batch := n.int("batch_dims", 0)
	return one(n.op("gather_nd", graph.Attrs{"batch_dims": batch}, x, index))
}

func scatterElements(n *node) []*val {
	x, index, src := n.operand(0), n.cast(n.operand(1), tensor.Int64), n.operand(2)
	attrs := graph.Attrs{"dim": n.int("axis", 0)}
	reduceOp, ok := map[string]string{"none": "", "add": "sum", "mul": "prod", "max": "amax",
		"min": "amin"}[n.text("reduction", "none")]
	if !ok {
		n.failf("reduction %q is not supported", n.text("reduction", ""))
	}
	if reduceOp == "" {
		return one(n.op("scatter", attrs, x, index, src))
	}
	attrs["reduce"] = reduceOp
	return one(n.op("scatter_reduce", attrs, x, index, src))
}

func scatterND(n *node) []*val {
	reduceOp, ok := map[string]string{"none": "none", "add": "add", "mul": "mul", "max": "amax",
		"min": "amin"}[n.text("reduction", "none")]
	if !ok {
		n.failf("reduction %q is not supported", n.text("reduction", ""))
	}
	return one(n.op("scatter_nd", graph.Attrs{"reduce": reduceOp}, n.operand(0), n.cast(n.operand(1), tensor.Int64),
		n.operand(2)))
}

func compress(n *node) []*val {
	x := n.operand(0)
	attrs, sizes := graph.Attrs{}, []int{-1}
	if n.attrs["axis"] != nil {
		axis := n.axis(n.int("axis", 0), n.rank(x))
		sizes = n.sizes(x)
		attrs["dim"], sizes[axis] = axis, -1
	}
	return one(n.op("compress", attrs, x, n.operand(1)).withSizes(x.dtype(), sizes...))
}

func nonZero(n *node) []*val {
	x := n.operand(0)
	rank := -1
	if o := n.outlineOf(x); o.Sizes != nil {
		rank = len(o.Sizes)
	}
	y := n.op("nonzero", nil, x).withSizes(tensor.Int64, -1, rank)
	return one(n.op("transpose", graph.Attrs{"dim0": 0, "dim1": 1}, y))
}

// unique converts Unique. Unlike the op unique_dim, Unique also returns the position of the first occurrence of each
// value. With sorted=0, values are in the order of their first occurrence.
func unique(n *node) []*val {
	x := n.operand(0)
	dim := 0
	if n.attrs["axis"] != nil {
		dim = n.axis(n.int("axis", 0), n.rank(x))
	} else {
		x = n.reshape(x, -1)
	}
	sizes := n.sizes(x)
	sizes[dim] = -1
	out := n.ops("unique_dim", graph.Attrs{"dim": dim, "sorted": true, "return_inverse": true, "return_counts": true}, x)
	values, inverse, counts := out[0].withSizes(x.dtype(), sizes...), out[1].withType(tensor.Int64, 1),
		out[2].withType(tensor.Int64, 1)
	// The first occurrence of a value is the least position with the same inverse index.
	length := n.op("select", graph.Attrs{"dim": 0, "index": dim}, n.shapeVector(x)).withRank(0)
	positions := n.op("arange", graph.Attrs{"end": n.scalarAttr(length), "dtype": tensor.Int64}).withType(tensor.Int64, 1)
	beyond := n.op("add", nil, n.op("zeros_like", nil, counts), length)
	first := n.op("scatter_reduce", graph.Attrs{"dim": 0, "reduce": "amin"}, beyond, inverse,
		positions).withType(tensor.Int64, 1)
	if n.flag("sorted", true) {
		return []*val{values, first, inverse, counts}
	}
	order := n.op("argsort", graph.Attrs{"dim": 0}, first).withType(tensor.Int64, 1)
	inverseOrder := n.op("argsort", graph.Attrs{"dim": 0}, order).withType(tensor.Int64, 1)
	reordered := func(x, permutation *val, dim int) *val {
		return n.op("index_select", graph.Attrs{"dim": dim}, x, permutation).withType(x.dtype(), n.rank(x))
	}
	return []*val{reordered(values, order, dim), reordered(first, order, 0), reordered(inverseOrder, inverse, 0),
		reordered(counts, order, 0)}
}

func oneHot(n *node) []*val {
	index, depth, values := n.operand(0), n.operand(1), n.operand(2)
	rank := n.rank(index) + 1
	axis := n.axis(n.int("axis", -1), rank)
	if depth.data != nil && depth.dtype() != tensor.Int64 {
		depth = n.cast(depth, tensor.Int64)
	}
	if depth.meta().Rank() == 1 && !depth.isDynamic() {
		depth = n.reshape(depth)
	}
	index = n.cast(n.op("remainder", nil, n.cast(index, tensor.Int64), n.cast(depth, tensor.Int64)), tensor.Int64)
	index = n.op("unsqueeze", graph.Attrs{"dim": axis}, index).withRank(rank)
	positions := n.op("arange", graph.Attrs{"end": n.scalarAttr(depth), "dtype": tensor.Int64}).withType(tensor.Int64, 1)
	shape := make([]int, rank-axis)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = -1
	positions = n.reshape(positions, shape...)
	hot := n.op("eq", nil, index, positions)
	return one(n.widened("where", nil, hot, n.element(values, 1), n.element(values, 0)))
}
