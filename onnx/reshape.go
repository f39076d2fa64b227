package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// reshape converts Reshape. Unless allowzero is set, a 0 in the shape means the operand's size.
func reshape(n *node) []*val {
	x := n.operand(0)
	keepZero := n.flag("allowzero", false)
	if n.opset < 5 {
		list, _ := n.ints("shape")
		return one(n.reshapeTo(x, constValue(intTensor(list...)), keepZero))
	}
	return one(n.reshapeTo(x, n.operand(1), keepZero))
}

// reshapeTo reshapes x to a shape. If keepZero is true, a 0 in the shape is the size 0; otherwise it means the
// operand's size. This decision is made during the import. If a symbolic size of the shape is 0 in a run, it is the
// size 0, and the reshape fails if the operand has elements. In the standard, such a 0 means the operand's size.
func (n *node) reshapeTo(x, shape *val, keepZero bool) *val {
	if list := n.integers(shape); list != nil {
		if !keepZero {
			n.keepZeros(x, list)
		}
		if normalized := n.asGroupNorm(x, list); normalized != nil {
			return normalized
		}
		if attr := n.reshapeAttr(list); attr != nil {
			return n.reshapeBy(x, attr)
		}
	}
	length, sizes := n.lengthOf(shape), n.knownSizes(shape)
	if !keepZero {
		xShape := n.resizeVector(n.shapeVector(x), n.rank(x), length, true, 0)
		shape = n.op("where", nil, n.op("eq", nil, shape, 0), xShape, shape)
	}
	normalized := n.op("reshape", graph.Attrs{"shape": n.vectorAttr(shape)}, x).withRank(length)
	if sizes != nil {
		normalized.outline.Sizes = sizes
	}
	return normalized
}

// keepZeros replaces zeros of a shape by the operand's sizes.
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

// reshapeAttr returns a shape as an attribute of reshape. A size that depends on data becomes -1. If several sizes
// depend on data, or if a -1 would be ambiguous because another size may be 0, the result is nil.
func (n *node) reshapeAttr(list []sym.Int) []any {
	attr, unknownCount := make([]any, len(list)), 0
	for i, size := range list {
		var ok bool
		if attr[i], ok = n.intAttr(size); !ok {
			attr[i] = -1
		}
		if attr[i] == -1 {
			unknownCount++
		}
	}
	for i, size := range list {
		if unknownCount > 1 || unknownCount == 1 && attr[i] != -1 && !positive(size) &&
			!slices.ContainsFunc(list, isMinusOne) {
			return nil
		}
	}
	return attr
}

// isMinusOne reports whether a size in a shape is -1, which reshape computes from the other sizes.
func isMinusOne(s sym.Int) bool { return s.Same(sym.Of(-1)) }

// integers returns the elements of an integer tensor as expressions. It returns nil if an element has no expression.
func (n *node) integers(x *val) []sym.Int {
	elements := n.elementsOf(x, false)
	if elements == nil || !elements.dtype.IsIntegral(false) {
		return nil
	}
	list := make([]sym.Int, len(elements.list))
	for i := range list {
		list[i] = elements.list[i].numerator
	}
	return list
}

// knownSizes returns the elements of a computed shape that are known numbers, and -1 for other elements and for 0,
// which may stand for the operand's size. The result is nil if the rank is unknown.
func (n *node) knownSizes(shape *val) []int {
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

// expand converts Expand, which broadcasts the operand and the shape with each other.
func expand(n *node) []*val {
	x, shape := n.operand(0), n.operand(1)
	if size := n.broadcastTo(x, shape); size != nil {
		return one(n.op("expand", graph.Attrs{"size": size}, x).withRank(len(size)))
	}
	length, rank := n.lengthOf(shape), n.rank(x)
	if length < 0 {
		return one(n.expandComputed(x, shape))
	}
	full := max(length, rank)
	want := n.resizeVector(shape, length, full, false, 1)
	xShape := n.resizeVector(n.shapeVector(x), rank, full, false, 1)
	want = n.op("where", nil, n.op("eq", nil, want, 1), xShape, want)
	y := n.op("expand", graph.Attrs{"size": n.vectorAttr(want)}, x).withRank(full)
	for i, s := range n.knownSizes(shape) {
		if s > 1 {
			y.outline.Sizes[full-length+i] = s
		}
	}
	return one(y)
}

// expandComputed is [expand] for a shape of unknown length.
func (n *node) expandComputed(x, shape *val) *val {
	if n.rank(shape) != 1 {
		n.failf("the shape must be a vector")
	}
	missing := n.op("sub", nil, n.rank(x), n.element(n.shapeVector(shape), 0))
	prependOnes := func(v, count *val) *val {
		count = n.op("clamp", graph.Attrs{"min": 0}, count)
		pad := n.op("cat", nil, n.reshape(count, 1), constValue(intTensor(0)))
		return n.op("constant_pad_nd", graph.Attrs{"pad": n.vectorAttr(pad), "value": 1}, v).withType(tensor.Int64, 1)
	}
	want, xShape := prependOnes(shape, missing), prependOnes(n.shapeVector(x), n.op("neg", nil, missing))
	want = n.op("where", nil, n.op("eq", nil, want, 1), xShape, want)
	return n.op("expand", graph.Attrs{"size": n.vectorAttr(want)}, x)
}

// broadcastTo returns the common shape of x and a shape, as an attribute of expand. It returns nil if the common shape
// depends on data.
func (n *node) broadcastTo(x, shape *val) []any {
	list := n.integers(shape)
	if list == nil || n.rank(x) > maxRank {
		return nil
	}
	xShape := n.shapeOf(x)
	size := make([]any, max(len(xShape), len(list)))
	for i := range size {
		xDim, listDim := i-(len(size)-len(xShape)), i-(len(size)-len(list))
		if xDim < 0 {
			xDim = -1
		}
		want, ok := sym.Of(1), true
		if listDim >= 0 {
			want = list[listDim]
		}
		switch {
		case xDim >= 0 && (want.Same(sym.Of(1)) || want.Same(xShape[xDim])):
			size[i] = -1 // the operand's own size
			continue
		case xDim >= 0 && !xShape[xDim].Same(sym.Of(1)):
			want = broadcast(n, want, xShape[xDim])
		}
		if size[i], ok = n.intAttr(want); !ok {
			return nil
		}
	}
	return size
}

// broadcast returns the size that results from broadcasting sizes a and b.
func broadcast(n *node, a, b sym.Int) sym.Int {
	i, known := a.Known()
	k, too := b.Known()
	if known && too && i != k && k != 1 {
		n.failf("sizes %d and %d cannot be broadcast together", i, k)
	}
	return sym.Where(a.Eq(sym.Of(1)), b, a)
}
