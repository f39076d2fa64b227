package operators

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators that read shapes, or change shapes and select elements without arithmetic: Shape,
// Squeeze, Transpose, Split, Slice, Gather, Scatter and others. Their axes, sizes and indices are attributes in old
// operator sets, and operands in new ones. An operand that is known during the import becomes an attribute of the op.
// For any other operand, the op gets a reference to the value (IntsAttr), or other ops compute the result.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols. WithRank and WithType record the rank and the dtype of a result whose shape depends on data.

// shapeOp converts Shape. The attributes start and end select a part of the sizes.
func shapeOp(n *node) []*value {
	x := n.Operand(0)
	sizes := n.ShapeVector(x)
	start, end := n.Int("start", 0), any(nil)
	if n.HasAttr("end") {
		end = n.Int("end", 0)
	}
	if start == 0 && end == nil {
		return single(sizes)
	}
	return single(n.Op("slice", graph.Attrs{"dim": 0, "start": start, "end": end}, sizes).WithRank(1))
}

// sizeOp converts Size, the number of elements.
func sizeOp(n *node) []*value {
	return single(n.Op("prod", nil, n.ShapeVector(n.Operand(0))).WithRank(0))
}

// resizeVector changes the length of a vector of sizes from length to wantedLength. It extends the end of the vector if
// atEnd is true, otherwise the start; each new element is fillSize. It truncates only the end.
func resizeVector(n *node, sizes *value, length, wantedLength int, atEnd bool, fillSize int) *value {
	switch {
	case wantedLength < 0:
		n.Failf("the number of dimensions must be known before the graph runs")
	case wantedLength < length && atEnd:
		return n.Op("slice", graph.Attrs{"dim": 0, "start": 0, "end": wantedLength}, sizes)
	case wantedLength < length:
		n.Failf("%d dimensions do not fit into %d", length, wantedLength)
	case wantedLength > length && atEnd:
		return n.Op("constant_pad_nd", graph.Attrs{"pad": []int{0, wantedLength - length}, "value": fillSize}, sizes)
	case wantedLength > length:
		return n.Op("constant_pad_nd", graph.Attrs{"pad": []int{wantedLength - length, 0}, "value": fillSize}, sizes)
	}
	return sizes
}

// flatten converts Flatten to a matrix.
func flatten(n *node) []*value { return single(asMatrix(n, n.Operand(0), n.Int("axis", 1))) }

// squeeze converts Squeeze, which removes dimensions of size 1: the given axes, or all such dimensions. The axes are an
// attribute before operator set 13, and an operand from set 13 on.
func squeeze(n *node) []*value {
	x := n.Operand(0)
	axes, hasAxes := n.Ints("axes")
	if n.Opset >= 13 && n.HasOperand(1) {
		if axesOperand := n.Operand(1); axesOperand.Data() == nil {
			return single(squeezeComputed(n, x, axesOperand))
		}
		axes, hasAxes = n.ConstantInts(1), true
	}
	if !hasAxes {
		return single(n.Op("squeeze", nil, x))
	}
	rank := n.Rank(x)
	if axes = n.AxisSet(axes, rank); len(axes) > rank {
		n.Failf("operand 0 has no dimensions")
	}
	if !x.IsDynamic() {
		for _, axis := range axes {
			if size := n.Sizes(x)[axis]; size != 1 && size >= 0 { // -1 is an unknown size
				n.Failf("dimension %d has size %d, not 1", axis, size)
			}
			n.RequireOne(n.SymShape(x)[axis])
		}
	}
	return single(n.Op("squeeze", graph.Attrs{"dim": axes}, x).WithRank(rank - len(axes)))
}

// unsqueeze converts Unsqueeze, which inserts dimensions of size 1 at the given axes of the result. The axes are an
// attribute before operator set 13, and an operand from set 13 on.
func unsqueeze(n *node) []*value {
	x := n.Operand(0)
	axes, _ := n.Ints("axes")
	if n.Opset >= 13 {
		if axesOperand := n.Operand(1); axesOperand.Data() == nil {
			return single(unsqueezeComputed(n, x, axesOperand))
		}
		axes = n.ConstantInts(1)
	}
	rank := n.Rank(x) + len(axes)
	if rank > modelfile.MaxRank {
		n.Failf("%d dimensions are not supported", rank)
	}
	axes = n.Axes(axes, rank)
	sorted.Ints(axes) // so that each axis is inserted at its index in the result
	for i, axis := range axes {
		x = n.Op("unsqueeze", graph.Attrs{"dim": axis}, x).WithRank(rank - len(axes) + i + 1)
	}
	return single(x)
}

// transpose converts Transpose. Without the attribute perm, it reverses the dimensions.
func transpose(n *node) []*value {
	x := n.Operand(0)
	perm, ok := n.Ints("perm")
	if !ok {
		for i := n.Rank(x) - 1; i >= 0; i-- {
			perm = append(perm, i)
		}
	}
	return single(n.Op("permute", graph.Attrs{"dims": perm}, x).WithRank(len(perm)))
}

// tile converts Tile. Before operator set 6, operand 1 has the number of repetitions along one axis, operand 2.
func tile(n *node) []*value {
	x := n.Operand(0)
	if n.Opset < 6 {
		for i, operand := range n.In[1:min(len(n.In), 3)] {
			if count := n.LengthOf(n.Operand(1 + i)); count >= 0 && count != 1 {
				n.Failf("%q has %d elements, want 1", operand.Name(), count)
			}
		}
		repeats := scattered(n, repeatedInt(1, n.Rank(x)), axesVector(n, n.Operand(2), n.Rank(x)),
			n.Reshape(n.Operand(1), -1))
		return single(n.Op("tile", graph.Attrs{"dims": n.IntsAttr(repeats)}, x).WithRank(n.Rank(x)))
	}
	if count := n.LengthOf(n.Operand(1)); x.HasRank() && count >= 0 && count != n.Rank(x) {
		n.Failf("got %d repetitions for %d dimensions", count, n.Rank(x))
	}
	repeats := n.IntsAttr(n.Operand(1))
	if sizes := expandedSizes(n, x, repeats); sizes != nil {
		return single(n.Op("expand", graph.Attrs{"size": sizes}, x).WithRank(len(sizes)))
	}
	return single(n.Op("tile", graph.Attrs{"dims": repeats}, x))
}

// expandedSizes returns the attribute size of an expand that is equal to a Tile of x: only dimensions of size 1 are
// repeated. It returns nil if there is none. An expand needs no copy, and its rows can be batched.
func expandedSizes(n *node, x *value, repeats any) []any {
	list, _ := repeats.([]any) // numbers and expressions of symbols
	if numbers, ok := repeats.([]int); ok {
		for _, count := range numbers {
			list = append(list, count)
		}
	}
	sizes, ok := n.TrySizes(x)
	if !ok || len(sizes) != len(list) {
		return nil
	}
	const keep = -1 // for expand
	for i, size := range sizes {
		count, isNumber := list[i].(int)
		switch {
		case isNumber && count == 1:
			list[i] = keep
		case size != 1 || isNumber && count < 0:
			return nil
		}
	}
	return list
}

// concat converts Concat. The attribute axis is required from operator set 4 on.
func concat(n *node) []*value {
	if len(n.In) == 0 {
		n.Failf("operands are missing")
	}
	axis := n.Int("axis", 1)
	if n.Opset >= 4 && !n.HasAttr("axis") {
		n.Failf("attribute \"axis\" is missing")
	}
	operands := make([]any, len(n.In))
	for i := range n.In {
		operands[i] = n.Operand(i)
	}
	return single(n.Op("cat", graph.Attrs{"dim": axis}, operands...))
}

// split converts Split: it splits x into parts of given sizes, or into equal parts, one for each output. The sizes are
// an attribute before operator set 13, and an operand from set 13 on.
func split(n *node) []*value {
	x := n.Operand(0)
	axis := n.Int("axis", 0)
	sizes, hasSizes := n.Ints("split")
	if n.Opset >= 13 && n.HasOperand(1) {
		if sizesOperand := n.Operand(1); sizesOperand.Data() == nil {
			if list := n.TryIntsAttr(sizesOperand); len(list) == n.Outputs() { // sizes that follow from symbols
				return n.Ops("split_with_sizes", graph.Attrs{"split_sizes": list, "dim": axis}, x)
			}
			return n.SplitComputed(x, sizesOperand, axis, n.Outputs())
		}
		sizes, hasSizes = n.ConstantInts(1), true
	}
	if !hasSizes {
		parts := n.Int("num_outputs", n.Outputs())
		if parts < 1 || parts > n.Outputs() {
			n.Failf("%d parts do not suit %d outputs", parts, n.Outputs())
		}
		return splitEvenly(n, x, n.Axis(axis, n.Rank(x)), parts)
	}
	if len(sizes) != n.Outputs() {
		n.Failf("%d sizes do not suit %d outputs", len(sizes), n.Outputs())
	}
	return n.Ops("split_with_sizes", graph.Attrs{"split_sizes": sizes, "dim": axis}, x)
}

// splitEvenly splits x along an axis into parts of size ceil(size/parts). Later parts may be smaller or empty.
func splitEvenly(n *node, x *value, axis, parts int) []*value {
	sizes := n.SymShape(x)
	remaining := sizes[axis]
	partSize := remaining.Add(sym.Of(parts - 1)).Div(sym.Of(parts))
	partSizes := make([]any, parts)
	for i := range partSizes {
		// A part has min(partSize, remaining) elements. If an attribute cannot hold this expression, the graph computes it.
		size, ok := partSize.Min(remaining), false
		remaining = remaining.Sub(size)
		if partSizes[i], ok = n.TrySizeAttr(size); !ok {
			return n.SplitComputed(x, evenSizes(n, n.Element(n.ShapeVector(x), axis), parts), axis, parts)
		}
	}
	return n.Ops("split_with_sizes", graph.Attrs{"split_sizes": partSizes, "dim": axis}, x)
}

// evenSizes returns the sizes of parts as in [splitEvenly], as a vector, for an axis of a computed size: part i has
// clamp(size - i*partSize, 0, partSize) elements, where partSize = ceil(size/parts).
func evenSizes(n *node, size *value, parts int) *value {
	partSize := n.Op("div", graph.Attrs{"rounding_mode": "floor"}, n.Op("add", nil, size, parts-1), parts)
	starts := n.Op("mul", nil, convert.IntVector(firstInts(parts)...), partSize)
	partSizes := n.Op("minimum", nil, n.Op("sub", nil, size, starts), partSize)
	return n.Op("clamp", graph.Attrs{"min": 0}, partSizes).WithType(tensor.Int64, 1)
}

// slice converts Slice. Starts, ends and axes are attributes before operator set 10, and operands from set 10 on.
func slice(n *node) []*value {
	x := n.Operand(0)
	var starts, ends, axes, steps *value
	if n.Opset < 10 {
		attributeVector := func(name string) *value {
			list, ok := n.Ints(name)
			if !ok {
				return nil
			}
			return convert.IntVector(list...)
		}
		starts, ends, axes = attributeVector("starts"), attributeVector("ends"), attributeVector("axes")
	} else {
		starts, ends, axes, steps = n.Operand(1), n.Operand(2), n.OperandOrNil(3), n.OperandOrNil(4)
	}
	if starts == nil || ends == nil {
		n.Failf("starts or ends are missing")
	}
	count := slicedAxisCount(n, starts, ends, axes, steps)
	if count < 0 {
		count = n.Rank(x)
		starts, ends, steps = boundsByDim(n, count, starts, ends, axes, steps)
		axes = nil
	}
	if axes == nil {
		axes = convert.IntVector(firstInts(count)...)
	}
	if steps == nil {
		steps = convert.IntVector(slices.Repeat([]int{1}, count)...)
	}
	for i := range count {
		x = sliceAxis(n, x, n.Element(axes, i), n.Element(steps, i), n.Element(starts, i), n.Element(ends, i))
	}
	return single(x)
}

// boundsByDim returns the operands of Slice with one element for each dimension, for an unknown number of axes. The
// bounds of other dimensions include all elements.
func boundsByDim(n *node, rank int, starts, ends, axes, steps *value) (startOf, endOf, stepOf *value) {
	if axes == nil {
		axes = n.Op("arange", graph.Attrs{"end": n.IntAttr(n.Element(n.ShapeVector(starts), 0)),
			"dtype": tensor.Int64}).WithType(tensor.Int64, 1)
	}
	axes = axesVector(n, axes, rank)
	stepOf = repeatedInt(1, rank)
	if steps != nil {
		stepOf = scattered(n, stepOf, axes, steps)
	}
	return scattered(n, repeatedInt(0, rank), axes, starts), scattered(n, repeatedInt(math.MaxInt, rank), axes, ends),
		stepOf
}

// slicedAxisCount returns the common length of the operands of Slice, or -1 if no length is known. Operands may be nil.
func slicedAxisCount(n *node, operands ...*value) int {
	count := -1
	for _, vector := range operands {
		if vector == nil {
			continue
		}
		length := n.LengthOf(vector) // -1 if it is unknown
		if length >= 0 && count >= 0 && length != count {
			n.Failf("starts, ends, axes and steps differ in length")
		}
		count = max(count, length)
	}
	return count
}

// firstInts returns the integers 0 to count-1.
func firstInts(count int) []int {
	list := make([]int, count)
	for i := range list {
		list[i] = i
	}
	return list
}

// sliceAxis slices x along one axis. The op slice has positive steps only. For a negative step, it slices the same
// elements in ascending order and flips the result: for example, 5:1:-2, the elements 5 and 3, is the flip of 3:6:2.
// The graph computes the indices ([sliceComputed]) if the step is unknown. It also computes them if the step is
// negative, and the axis, a bound or the size is unknown.
func sliceAxis(n *node, x, axisOperand, stepOperand, start, end *value) *value {
	if stepOperand.Data() != nil && n.Number(stepOperand).Int() > 0 {
		return n.Op("slice", graph.Attrs{"dim": n.IntAttr(axisOperand), "start": n.IntAttr(start),
			"end": n.IntAttr(end), "step": n.IntAttr(stepOperand)}, x)
	}
	areKnown := stepOperand.Data() != nil && axisOperand.Data() != nil && start.Data() != nil && end.Data() != nil
	if !areKnown || !n.IsStatic(x) {
		return sliceComputed(n, x, axisOperand, start, end, stepOperand)
	}
	intOf := func(x *value) int { return convert.SaturatedInt(n.Number(x).Int()) }
	axis, step := intOf(axisOperand), intOf(stepOperand)
	if step == 0 || step < math.MinInt/2 {
		n.Failf("step %d is not supported", step)
	}
	axis = n.Axis(axis, n.Rank(x))
	size := n.Shape(x)[axis]
	indexOf := func(bound *value) int { // in [-1, size-1]; -1 is before the first element
		i := intOf(bound)
		if i < 0 {
			i += size
		}
		return min(max(i, -1), size-1)
	}
	// For 5:1:-2, first is 5, stop 1, distance 2, count 2, and lowest 3: the slice is 3:6:2.
	first, stop, distance := indexOf(start), indexOf(end), -step
	count := max(0, (first-stop+distance-1)/distance) // ceil((first-stop)/distance)
	lowest := max(0, first-(count-1)*distance)
	sliced := n.Op("slice", graph.Attrs{"dim": axis, "start": lowest,
		"end": lowest + max(0, (count-1)*distance+1), "step": distance}, x)
	if count == 0 {
		sliced = n.Op("slice", graph.Attrs{"dim": axis, "start": 0, "end": 0}, x)
	}
	return n.Op("flip", graph.Attrs{"dims": []int{axis}}, sliced)
}

// gather converts Gather, which selects slices along an axis by an index of any shape. A known number becomes the op
// select, and a vector becomes index_select. Any other index becomes the op index, with an omitted index for each
// dimension before the axis.
func gather(n *node) []*value {
	x, index := n.Operand(0), n.Operand(1)
	axis := n.Int("axis", 0)
	rank, indexRank := n.Rank(x), n.Rank(index)
	axis = n.Axis(axis, rank)
	index = n.Cast(index, tensor.Int64)
	if indexRank == 0 && index.Data() != nil {
		return single(n.Op("select", graph.Attrs{"dim": axis, "index": n.IntAttr(index)}, x).WithRank(rank - 1))
	}
	if indexRank == 1 {
		return single(n.Op("index_select", graph.Attrs{"dim": axis}, x, index).WithRank(rank))
	}
	operands := []any{x}
	for range axis {
		operands = append(operands, nil)
	}
	return single(n.Op("index", nil, append(operands, index)...).WithRank(rank + indexRank - 1))
}

// gatherElements converts GatherElements.
func gatherElements(n *node) []*value {
	index := n.Cast(n.Operand(1), tensor.Int64)
	return single(n.Op("gather", graph.Attrs{"dim": n.Int("axis", 0)}, n.Operand(0), index))
}

// gatherND converts GatherND.
func gatherND(n *node) []*value {
	x, index := n.Operand(0), n.Cast(n.Operand(1), tensor.Int64)
	batchDims := n.Int("batch_dims", 0)
	return single(n.Op("gather_nd", graph.Attrs{"batch_dims": batchDims}, x, index))
}

// scatterElements converts ScatterElements.
func scatterElements(n *node) []*value {
	x, index, src := n.Operand(0), n.Cast(n.Operand(1), tensor.Int64), n.Operand(2)
	attrs := graph.Attrs{"dim": n.Int("axis", 0)}
	reduction := convert.Choice(n, "reduction", n.Text("reduction", "none"), map[string]string{"none": "", "add": "sum",
		"mul": "prod", "max": "amax", "min": "amin"})
	if reduction == "" {
		return single(n.Op("scatter", attrs, x, index, src))
	}
	attrs["reduce"] = reduction
	return inFloat32(func(*node) []*value { return single(n.Op("scatter_reduce", attrs, x, index, src)) })(n)
}

// scatterND converts ScatterND.
func scatterND(n *node) []*value {
	reduction := convert.Choice(n, "reduction", n.Text("reduction", "none"), map[string]string{"none": "none",
		"add": "add", "mul": "mul", "max": "amax", "min": "amin"})
	scatter := func(n *node) []*value {
		return single(n.Op("scatter_nd", graph.Attrs{"reduce": reduction}, n.Operand(0),
			n.Cast(n.Operand(1), tensor.Int64), n.Operand(2)))
	}
	if reduction == "add" || reduction == "mul" {
		scatter = inFloat32(scatter)
	}
	return scatter(n)
}

// compress converts Compress, which keeps the slices along an axis for which operand 1 is true. Without an axis, it
// keeps the elements of x for which operand 1 is true. Their number depends on data.
func compress(n *node) []*value {
	x := n.Operand(0)
	attrs, sizes := graph.Attrs{}, []int{-1}
	if n.HasAttr("axis") {
		axis := n.Axis(n.Int("axis", 0), n.Rank(x))
		sizes = n.Sizes(x)
		attrs["dim"], sizes[axis] = axis, -1
	}
	return single(n.Op("compress", attrs, x, n.Operand(1)).WithSizes(x.DType(), sizes...))
}

// nonZero converts NonZero. The op returns [count, rank], the operator [rank, count].
func nonZero(n *node) []*value {
	x := n.Operand(0)
	rank := -1
	if sizes, ok := n.TrySizes(x); ok {
		rank = len(sizes)
	}
	y := n.Op("nonzero", nil, x).WithSizes(tensor.Int64, -1, rank)
	return single(n.Op("transpose", graph.Attrs{"dim0": 0, "dim1": 1}, y))
}

// unique converts Unique. Output 0 has the distinct values: slices along the axis, or elements. For each value, output
// 1 has the position of its first occurrence, and output 3 has its count. Output 2, the inverse, has the index of the
// value at each position. The op unique_dim has no first occurrences. With sorted=0, values are in the order of their
// first occurrence.
func unique(n *node) []*value {
	x := n.Operand(0)
	dim := 0
	if n.HasAttr("axis") {
		dim = n.Axis(n.Int("axis", 0), n.Rank(x))
	} else {
		x = n.Reshape(x, -1)
	}
	sizes := n.Sizes(x)
	sizes[dim] = -1
	out := n.Ops("unique_dim", graph.Attrs{"dim": dim, "sorted": true, "return_inverse": true, "return_counts": true}, x)
	values, inverse, counts := out[0].WithSizes(x.DType(), sizes...), out[1].WithType(tensor.Int64, 1),
		out[2].WithType(tensor.Int64, 1)
	// The first occurrence of a value is the least position at which inverse has the value's index. For each value,
	// scatter_reduce takes the minimum of these positions and of length. All positions are less than length.
	length := n.Op("select", graph.Attrs{"dim": 0, "index": dim}, n.ShapeVector(x)).WithRank(0)
	positions := n.Op("arange", graph.Attrs{"end": n.IntAttr(length), "dtype": tensor.Int64}).WithType(tensor.Int64, 1)
	lengths := n.Op("add", nil, n.Op("zeros_like", nil, counts), length) // one for each value
	first := n.Op("scatter_reduce", graph.Attrs{"dim": 0, "reduce": "amin"}, lengths, inverse,
		positions).WithType(tensor.Int64, 1)
	if n.Flag("sorted", true) {
		return []*value{values, first, inverse, counts}
	}
	// Value order[i] is the i-th value of the result; inverseOrder maps an old index to the new one.
	order := n.Op("argsort", graph.Attrs{"dim": 0}, first).WithType(tensor.Int64, 1)
	inverseOrder := n.Op("argsort", graph.Attrs{"dim": 0}, order).WithType(tensor.Int64, 1)
	reordered := func(x, permutation *value, dim int) *value {
		return n.Op("index_select", graph.Attrs{"dim": dim}, x, permutation).WithType(x.DType(), n.Rank(x))
	}
	return []*value{reordered(values, order, dim), reordered(first, order, 0), reordered(inverseOrder, inverse, 0),
		reordered(counts, order, 0)}
}

// oneHot converts OneHot: along a new axis of size depth, the element at the index is values[1], and all others are
// values[0]. Indices -depth to -1 count from the end, in operator set 9 as well, as in ONNX Runtime. Other indices
// select no element.
func oneHot(n *node) []*value {
	index, depth, values := n.Operand(0), n.Operand(1), n.Operand(2)
	rank := n.Rank(index) + 1
	axis := n.Axis(n.Int("axis", -1), rank)
	depth = n.Cast(depth, tensor.Int64) // it may be a float
	if depth.Meta().Rank() == 1 && !depth.IsDynamic() {
		depth = n.Reshape(depth)
	}
	index = n.Cast(index, tensor.Int64)
	index = n.Op("where", nil, n.Op("lt", nil, index, 0), n.Op("add", nil, index, depth), index)
	index = n.Op("unsqueeze", graph.Attrs{"dim": axis}, index).WithRank(rank)
	positions := n.Op("arange", graph.Attrs{"end": n.IntAttr(depth), "dtype": tensor.Int64}).WithType(tensor.Int64, 1)
	shape := make([]int, rank-axis)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = -1
	positions = n.Reshape(positions, shape...) // aligned with the new axis
	isIndex := n.Op("eq", nil, index, positions)
	return single(n.Op("where", nil, isIndex, n.Element(values, 1), n.Element(values, 0)))
}
