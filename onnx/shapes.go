package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

func shapeOp(n *node) []*val {
	x := n.x(0)
	d := n.dims(x)
	start, end := n.int("start", 0), any(nil)
	if n.attrs["end"] != nil {
		end = n.int("end", 0)
	}
	if start == 0 && end == nil {
		return one(d)
	}
	return one(n.op("slice", graph.Attrs{"dim": 0, "start": start, "end": end}, d).ofRank(1))
}

func size(n *node) []*val {
	return one(n.op("prod", nil, n.dims(n.x(0))).ofRank(0))
}

// reshape: a 0 in the shape keeps the operand's size, unless allowzero is set.
func reshape(n *node) []*val {
	x := n.x(0)
	keepZero := n.flag("allowzero", false)
	if n.ver < 5 {
		list, _ := n.ints("shape")
		return one(n.reshapeTo(x, known(intTensor(list...)), keepZero))
	}
	return one(n.reshapeTo(x, n.x(1), keepZero))
}

// A 0 that is computed from sizes stands for itself: ONNX has it keep the operand's size, too, but where that is
// another one the result would have elements that the operand, which is empty, has not.
func (n *node) reshapeTo(x, shape *val, keepZero bool) *val {
	if list := n.integers(shape); list != nil {
		if !keepZero {
			n.keepZeros(x, list)
		}
		if attr := n.sizesWritten(list); attr != nil {
			return n.reshapeBy(x, attr)
		}
	}
	length, sizes := n.lengthOf(shape), n.sizesKnown(shape)
	if !keepZero {
		shape = n.op("where", nil, n.op("eq", nil, shape, 0), n.fitted(n.dims(x), n.rank(x), length, true, 0), shape)
	}
	y := n.op("reshape", graph.Attrs{"shape": n.ref(shape)}, x).ofRank(length)
	if sizes != nil {
		y.outline.Sizes = sizes
	}
	return y
}

// keepZeros replaces the zeros of a shape by the operand's sizes.
func (n *node) keepZeros(x *val, list []sym.Int) {
	for i, s := range list {
		if !s.Same(sym.Int{}) {
			continue
		}
		if i >= n.rank(x) {
			n.failf("the shape keeps size %d of an operand that has %d dimensions", i, n.rank(x))
		}
		list[i] = n.shapeOf(x)[i]
	}
}

// sizesWritten returns a shape as an attribute has it. One size that data decide follows from the others; nil
// where that does not do.
func (n *node) sizesWritten(list []sym.Int) []any {
	attr, open := make([]any, len(list)), 0
	for i, s := range list {
		var ok bool
		if attr[i], ok = n.written(s); !ok {
			attr[i] = -1
		}
		if attr[i] == -1 {
			open++
		}
	}
	for i, s := range list {
		if open > 1 || open == 1 && attr[i] != -1 && !positive(s) && !slices.ContainsFunc(list, isRest) {
			return nil
		}
	}
	return attr
}

func isRest(s sym.Int) bool { return s.Same(sym.Of(-1)) }

// integers returns integers that are known or expressions; nil where neither is so.
func (n *node) integers(x *val) []sym.Int {
	e := n.elementsOf(x, false)
	if e == nil || !e.dtype.IsIntegral(false) {
		return nil
	}
	list := make([]sym.Int, len(e.list))
	for i := range list {
		list[i] = e.list[i].n
	}
	return list
}

// sizesKnown returns the sizes of a value of a shape that is computed, -1 for those not known; nil if not even
// their number is. A size 0 may stand for another.
func (n *node) sizesKnown(shape *val) []int {
	length := n.lengthOf(shape)
	if length < 0 {
		return nil
	}
	sizes := slices.Repeat([]int{-1}, length)
	for i, s := range n.integers(shape) {
		if k, known := s.Known(); known && k > 0 {
			sizes[i] = k
		}
	}
	return sizes
}

// lengthOf returns the number of elements of a vector; -1 if that is not known.
func (n *node) lengthOf(x *val) int {
	s := n.outlineOf(x).Sizes
	if s == nil || slices.Contains(s, -1) {
		return -1
	}
	return tensor.Numel(s)
}

// fitted makes a vector of sizes of a known length one of another, at its end or its
// front.
func (n *node) fitted(sizes *val, length, want int, atEnd bool, fill int) *val {
	switch {
	case want < 0:
		n.failf("the number of dimensions must be known before the graph runs")
	case want < length && atEnd:
		return n.op("slice", graph.Attrs{"dim": 0, "start": 0, "end": want}, sizes)
	case want < length:
		n.failf("%d dimensions do not fit into %d", length, want)
	case want > length && atEnd:
		return n.op("constant_pad_nd", graph.Attrs{"pad": []int{0, want - length}, "value": fill}, sizes)
	case want > length:
		return n.op("constant_pad_nd", graph.Attrs{"pad": []int{want - length, 0}, "value": fill}, sizes)
	}
	return sizes
}

func flatten(n *node) []*val { return one(n.matrix(n.x(0), n.int("axis", 1))) }

func squeeze(n *node) []*val {
	x := n.x(0)
	list, given := n.ints("axes")
	if n.ver >= 13 && n.has(1) {
		if a := n.x(1); a.data == nil {
			return one(n.squeezeComputed(x, a))
		}
		list, given = n.list(1), true
	}
	if !given {
		return one(n.op("squeeze", nil, x))
	}
	rank := n.rank(x)
	list = n.axes(list, rank)
	if !x.dynamic() {
		for _, a := range list {
			if s := n.sizes(x)[a]; s != 1 && s >= 0 {
				n.failf("dimension %d has size %d, not 1", a, s)
			}
		}
	}
	return one(n.op("squeeze", graph.Attrs{"dim": list}, x).ofRank(rank - len(list)))
}

func unsqueeze(n *node) []*val {
	x := n.x(0)
	list, _ := n.ints("axes")
	if n.ver >= 13 {
		if a := n.x(1); a.data == nil {
			return one(n.unsqueezeComputed(x, a))
		}
		list = n.list(1)
	}
	rank := n.rank(x) + len(list)
	list = n.axes(list, rank)
	slices.Sort(list)
	for i, a := range list {
		x = n.op("unsqueeze", graph.Attrs{"dim": a}, x).ofRank(rank - len(list) + i + 1)
	}
	return one(x)
}

func transpose(n *node) []*val {
	x := n.x(0)
	perm, ok := n.ints("perm")
	if !ok {
		for i := n.rank(x) - 1; i >= 0; i-- {
			perm = append(perm, i)
		}
	}
	return one(n.op("permute", graph.Attrs{"dims": perm}, x).ofRank(len(perm)))
}

// expand broadcasts both ways: a size 1 in the shape keeps the operand's.
func expand(n *node) []*val {
	x, shape := n.x(0), n.x(1)
	if size := n.broadcastTo(x, shape); size != nil {
		return one(n.op("expand", graph.Attrs{"size": size}, x).ofRank(len(size)))
	}
	length, rank := n.lengthOf(shape), n.rank(x)
	if length < 0 {
		// As long as the operand at least; the executor checks the rest.
		return one(n.op("expand", graph.Attrs{"size": n.ref(shape)}, x))
	}
	full := max(length, rank)
	want := n.fitted(shape, length, full, false, 1)
	own := n.fitted(n.dims(x), rank, full, false, 1)
	want = n.op("where", nil, n.op("eq", nil, want, 1), own, want)
	y := n.op("expand", graph.Attrs{"size": n.ref(want)}, x).ofRank(full)
	for i, s := range n.sizesKnown(shape) {
		if s > 1 {
			y.outline.Sizes[full-length+i] = s
		}
	}
	return one(y)
}

// broadcastTo returns the sizes, as an attribute, to which x and a shape are broadcast together; nil where data
// decide them.
func (n *node) broadcastTo(x, shape *val) []any {
	list := n.integers(shape)
	if list == nil || n.rank(x) > maxRank {
		return nil
	}
	own := n.shapeOf(x)
	size := make([]any, max(len(own), len(list)))
	for i := range size {
		at, to := i-(len(size)-len(own)), i-(len(size)-len(list))
		if at < 0 {
			at = -1
		}
		want, ok := sym.Of(1), true
		if to >= 0 {
			want = list[to]
		}
		switch {
		case at >= 0 && (want.Same(sym.Of(1)) || want.Same(own[at])):
			size[i] = -1 // the operand's own
			continue
		case at >= 0 && !own[at].Same(sym.Of(1)):
			want = broadcast(n, want, own[at])
		}
		if size[i], ok = n.written(want); !ok {
			return nil
		}
	}
	return size
}

// broadcast returns the size that two sizes are broadcast to.
func broadcast(n *node, a, b sym.Int) sym.Int {
	i, known := a.Known()
	k, too := b.Known()
	if known && too && i != k && k != 1 {
		n.failf("sizes %d and %d cannot be broadcast together", i, k)
	}
	return sym.Where(a.Eq(sym.Of(1)), b, a)
}

func tile(n *node) []*val {
	x := n.x(0)
	if n.ver < 6 {
		repeats := make([]int, n.rank(x))
		for i := range repeats {
			repeats[i] = 1
		}
		repeats[n.axis(n.list(2)[0], n.rank(x))] = n.list(1)[0]
		return one(n.op("tile", graph.Attrs{"dims": repeats}, x))
	}
	return one(n.op("tile", graph.Attrs{"dims": n.ref(n.x(1))}, x))
}

func concat(n *node) []*val {
	if len(n.in) == 0 {
		n.failf("it has no operands")
	}
	axis := n.int("axis", 1)
	if n.ver >= 4 && n.attrs["axis"] == nil {
		n.failf("attribute \"axis\" is missing")
	}
	list := make([]any, len(n.in))
	for i := range n.in {
		list[i] = n.x(i)
	}
	return one(n.op("cat", graph.Attrs{"dim": axis}, list...))
}

// split cuts into given sizes, or into equal parts as many as there are outputs.
func split(n *node) []*val {
	x := n.x(0)
	axis := n.int("axis", 0)
	sizes, given := n.ints("split")
	if n.ver >= 13 && n.has(1) {
		if p := n.x(1); p.data == nil {
			if list := n.expressions(p); len(list) == len(n.proto.Output) {
				return n.ops("split_with_sizes", graph.Attrs{"split_sizes": list, "dim": axis}, x)
			}
			return n.splitComputed(x, p, axis, len(n.proto.Output))
		}
		sizes, given = n.list(1), true
	}
	if !given {
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

// splitEvenly cuts into parts of one size, the last of which may be less.
func (n *node) splitEvenly(x *val, axis, parts int) []*val {
	rest := n.shapeOf(x)[axis]
	each := rest.Add(sym.Of(parts - 1)).Div(sym.Of(parts))
	sizes := make([]any, parts)
	for i := range sizes {
		size, ok := each.Min(rest), false
		rest = rest.Sub(size)
		if sizes[i], ok = n.written(size); !ok {
			n.failf("size %d of %q must be known before the graph runs", axis, x.name)
		}
	}
	return n.ops("split_with_sizes", graph.Attrs{"split_sizes": sizes, "dim": axis}, x)
}

// slice takes starts, ends, axes and steps as attributes before operator set 10.
func slice(n *node) []*val {
	x := n.x(0)
	var starts, ends, axes, steps *val
	if n.ver < 10 {
		read := func(name string) *val {
			list, ok := n.ints(name)
			if !ok {
				return nil
			}
			return known(intTensor(list...))
		}
		starts, ends, axes = read("starts"), read("ends"), read("axes")
	} else {
		starts, ends, axes, steps = n.x(1), n.x(2), n.opt(3), n.opt(4)
	}
	if starts == nil || ends == nil {
		n.failf("starts or ends are missing")
	}
	count := -1
	for _, p := range []*val{starts, ends, axes, steps} {
		if p == nil {
			continue
		}
		l := n.lengthOf(p)
		if l >= 0 && count >= 0 && l != count {
			n.failf("starts, ends, axes and steps differ in length")
		}
		count = max(count, l)
	}
	if count < 0 {
		n.failf("the number of axes must be known before the graph runs")
	}
	if axes == nil {
		list := make([]int, count)
		for i := range list {
			list[i] = i
		}
		axes = known(intTensor(list...))
	}
	if steps == nil {
		steps = known(intTensor(slices.Repeat([]int{1}, count)...))
	}
	for i := range count {
		x = n.sliceAxis(x, n.element(axes, i), n.element(steps, i), n.element(starts, i), n.element(ends, i))
	}
	return one(x)
}

// element returns one element of a vector as a 0-dim value.
func (n *node) element(x *val, i int) *val {
	if n.static(x) && x.meta().Rank() == 0 {
		return x
	}
	return n.op("select", graph.Attrs{"dim": 0, "index": i}, x).ofRank(0)
}

func (n *node) sliceAxis(x, along, by, start, end *val) *val {
	if by.data != nil && n.number(by).Int() > 0 {
		return n.op("slice", graph.Attrs{"dim": n.refOne(along), "start": n.refOne(start), "end": n.refOne(end),
			"step": n.refOne(by)}, x)
	}
	if by.data == nil || along.data == nil || start.data == nil || end.data == nil || !n.static(x) {
		return n.sliceComputed(x, along, start, end, by)
	}
	axis, step := int(n.number(along).Int()), int(n.number(by).Int())
	if step == 0 || step < -1<<62 {
		n.failf("step %d is not supported", step)
	}
	axis = n.axis(axis, n.rank(x))
	size := n.shape(x)[axis]
	from, to := int(n.number(start).Int()), int(n.number(end).Int())
	clampTo := func(i int) int {
		if i < 0 {
			i += size
		}
		return min(max(i, -1), size-1)
	}
	first, last := clampTo(from), clampTo(to)
	count := max(0, (first-last-step-1)/-step)
	if from < -size {
		count = 0
	}
	lowest := max(0, first+(count-1)*step)
	y := n.op("slice", graph.Attrs{"dim": axis, "start": lowest, "end": lowest + max(0, (count-1)*-step+1), "step": -step},
		x)
	if count == 0 {
		y = n.op("slice", graph.Attrs{"dim": axis, "start": 0, "end": 0}, x)
	}
	return n.op("flip", graph.Attrs{"dims": []int{axis}}, y)
}

// gather takes slices by an index of any shape.
func gather(n *node) []*val {
	x, index := n.x(0), n.x(1)
	axis := n.int("axis", 0)
	rank, irank := n.rank(x), n.rank(index)
	axis = n.axis(axis, rank)
	index = n.cast(index, tensor.Int64)
	if irank == 0 && index.data != nil {
		return one(n.op("select", graph.Attrs{"dim": axis, "index": n.refOne(index)}, x).ofRank(rank - 1))
	}
	if irank == 1 {
		return one(n.op("index_select", graph.Attrs{"dim": axis}, x, index).ofRank(rank))
	}
	operands := []any{x}
	for range axis {
		operands = append(operands, nil)
	}
	return one(n.op("index", nil, append(operands, index)...).ofRank(rank + irank - 1))
}

func gatherElements(n *node) []*val {
	index := n.cast(n.x(1), tensor.Int64)
	return one(n.op("gather", graph.Attrs{"dim": n.int("axis", 0)}, n.x(0), index))
}

func gatherND(n *node) []*val {
	x, index := n.x(0), n.cast(n.x(1), tensor.Int64)
	batch := n.int("batch_dims", 0)
	return one(n.op("gather_nd", graph.Attrs{"batch_dims": batch}, x, index))
}

func scatterElements(n *node) []*val {
	x, index, src := n.x(0), n.cast(n.x(1), tensor.Int64), n.x(2)
	attrs := graph.Attrs{"dim": n.int("axis", 0)}
	how, ok := map[string]string{"none": "", "add": "sum", "mul": "prod", "max": "amax",
		"min": "amin"}[n.text("reduction", "none")]
	if !ok {
		n.failf("reduction %q is not supported", n.text("reduction", ""))
	}
	if how == "" {
		return one(n.op("scatter", attrs, x, index, src))
	}
	attrs["reduce"] = how
	return one(n.op("scatter_reduce", attrs, x, index, src))
}

func scatterND(n *node) []*val {
	how, ok := map[string]string{"none": "none", "add": "add", "mul": "mul", "max": "amax",
		"min": "amin"}[n.text("reduction", "none")]
	if !ok {
		n.failf("reduction %q is not supported", n.text("reduction", ""))
	}
	return one(n.op("scatter_nd", graph.Attrs{"reduce": how}, n.x(0), n.cast(n.x(1), tensor.Int64), n.x(2)))
}

func compress(n *node) []*val {
	x := n.x(0)
	attrs, sizes := graph.Attrs{}, []int{-1}
	if n.attrs["axis"] != nil {
		axis := n.axis(n.int("axis", 0), n.rank(x))
		sizes = n.sizes(x)
		attrs["dim"], sizes[axis] = axis, -1
	}
	return one(n.op("compress", attrs, x, n.x(1)).sized(x.dtype(), sizes...))
}

func nonZero(n *node) []*val {
	x := n.x(0)
	rank := -1
	if o := n.outlineOf(x); o.Sizes != nil {
		rank = len(o.Sizes)
	}
	y := n.op("nonzero", nil, x).sized(tensor.Int64, -1, rank)
	return one(n.op("transpose", graph.Attrs{"dim0": 0, "dim1": 1}, y))
}

// unique gives, besides ours, the first place of each value, and may keep the order in
// which values first stand.
func unique(n *node) []*val {
	x := n.x(0)
	dim := 0
	if n.attrs["axis"] != nil {
		dim = n.axis(n.int("axis", 0), n.rank(x))
	} else {
		x = n.reshape(x, -1)
	}
	sizes := n.sizes(x)
	sizes[dim] = -1
	out := n.ops("unique_dim", graph.Attrs{"dim": dim, "sorted": true, "return_inverse": true, "return_counts": true}, x)
	values, inverse, counts := out[0].sized(x.dtype(), sizes...), out[1].as(tensor.Int64, 1), out[2].as(tensor.Int64, 1)
	// The least place among those that an inverse index is at is the first.
	length := n.op("select", graph.Attrs{"dim": 0, "index": dim}, n.dims(x)).ofRank(0)
	places := n.op("arange", graph.Attrs{"end": n.refOne(length), "dtype": tensor.Int64}).as(tensor.Int64, 1)
	far := n.op("add", nil, n.op("zeros_like", nil, counts), length)
	first := n.op("scatter_reduce", graph.Attrs{"dim": 0, "reduce": "amin"}, far, inverse, places).as(tensor.Int64, 1)
	if n.flag("sorted", true) {
		return []*val{values, first, inverse, counts}
	}
	order := n.op("argsort", graph.Attrs{"dim": 0}, first).as(tensor.Int64, 1)
	back := n.op("argsort", graph.Attrs{"dim": 0}, order).as(tensor.Int64, 1)
	pick := func(x, by *val, dim int) *val {
		return n.op("index_select", graph.Attrs{"dim": dim}, x, by).as(x.dtype(), n.rank(x))
	}
	return []*val{pick(values, order, dim), pick(first, order, 0), pick(back, inverse, 0), pick(counts, order, 0)}
}

func oneHot(n *node) []*val {
	index, depth, values := n.x(0), n.x(1), n.x(2)
	rank := n.rank(index) + 1
	axis := n.axis(n.int("axis", -1), rank)
	if depth.data != nil && depth.dtype() != tensor.Int64 {
		depth = n.cast(depth, tensor.Int64)
	}
	if depth.meta().Rank() == 1 && !depth.dynamic() {
		depth = n.reshape(depth)
	}
	index = n.cast(n.op("remainder", nil, n.cast(index, tensor.Int64), n.cast(depth, tensor.Int64)), tensor.Int64)
	index = n.op("unsqueeze", graph.Attrs{"dim": axis}, index).ofRank(rank)
	places := n.op("arange", graph.Attrs{"end": n.refOne(depth), "dtype": tensor.Int64}).as(tensor.Int64, 1)
	shape := make([]int, rank-axis)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = -1
	places = n.reshape(places, shape...)
	hot := n.op("eq", nil, index, places)
	return one(n.wide("where", nil, hot, n.element(values, 1), n.element(values, 0)))
}
