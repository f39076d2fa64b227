package operators

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts Reshape and Expand, whose shapes are constants, symbolic sizes, or results of the graph.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols. WithRank and WithType record the rank and the dtype of a result whose shape depends on data.

// reshape converts Reshape. Unless the attribute allowzero is set, a 0 in the shape means the operand's size in the
// same dimension.
func reshape(n *node) []*value {
	x := n.Operand(0)
	allowZero := n.Flag("allowzero", false)
	if n.Opset < 5 {
		list, _ := n.Ints("shape")
		return single(reshapeTo(n, x, convert.IntVector(list...), allowZero))
	}
	return single(reshapeTo(n, x, n.Operand(1), allowZero))
}

// reshapeTo reshapes x to a shape, whose elements are known integers or symbolic sizes, or are computed by the graph.
// If allowZero is true, a 0 in the shape is the size 0; otherwise it means the operand's size: the shape [0, 0, -1]
// reshapes [2, 3, 4, 5] to [2, 3, 20].
//
// Only a 0 that is known during the import means the operand's size. A symbolic size that is 0 in a run is the size 0,
// and the reshape fails if the operand has elements. This differs from the standard, in which such a 0 also means the
// operand's size.
func reshapeTo(n *node, x, shape *value, allowZero bool) *value {
	if list := n.Integers(shape); list != nil {
		if !allowZero {
			replaceZeros(n, x, list)
		}
		// The reshape may be the end of a group normalization, which is one op.
		if normalized := asGroupNorm(n, x, list); normalized != nil {
			return normalized
		}
		if attr := n.ShapeAttr(list); attr != nil { // nil if several sizes depend on data
			return n.ReshapeBy(x, attr)
		}
	}
	sizes := knownSizes(n, shape)
	if !allowZero {
		shape = n.Op("where", nil, n.Op("eq", nil, shape, 0), sizesLike(n, x, shape), shape)
	}
	reshaped := n.Op("reshape", graph.Attrs{"shape": n.IntsAttr(shape)}, x)
	if sizes != nil {
		reshaped.WithRank(len(sizes)).SetSizes(sizes)
	}
	return reshaped
}

// sizesLike returns the sizes of x as a vector of the length of a computed shape: zeros extend the end, or the end is
// cut off.
func sizesLike(n *node, x, shape *value) *value {
	if length := n.LengthOf(shape); length >= 0 {
		const atEnd, fillSize = true, 0
		return resizeVector(n, n.ShapeVector(x), n.Rank(x), length, atEnd, fillSize)
	}
	missing := n.Op("sub", nil, n.Element(n.ShapeVector(shape), 0), n.Rank(x))
	widths := n.Op("cat", nil, convert.IntVector(0), n.Reshape(missing, 1)) // before and after
	return n.Op("constant_pad_nd", graph.Attrs{"pad": n.IntsAttr(widths), "value": 0},
		n.ShapeVector(x)).WithType(tensor.Int64, 1)
}

// replaceZeros replaces zeros of a shape by the sizes of x in the same dimensions.
func replaceZeros(n *node, x *value, list []sym.Int) {
	for i, s := range list {
		if !s.Same(sym.Int{}) {
			continue
		}
		if i >= n.Rank(x) {
			n.Failf("element %d of the shape is 0, which stands for a size of the operand, but it has %d dimensions", i,
				n.Rank(x))
		}
		list[i] = n.TrySymShape(x)[i]
	}
}

// knownSizes returns the elements of a computed shape. An element is -1 if it is not a known number, or if it is 0,
// which may stand for the operand's size. The result is nil if the rank is unknown.
func knownSizes(n *node, shape *value) []int {
	length := n.LengthOf(shape)
	if length < 0 {
		return nil
	}
	sizes := slices.Repeat([]int{-1}, length)
	for i, s := range n.Integers(shape) {
		if number, known := s.Known(); known && number > 0 {
			sizes[i] = number
		}
	}
	return sizes
}

// expand converts Expand, which broadcasts the operand and the shape with each other.
func expand(n *node) []*value {
	x, shape := n.Operand(0), n.Operand(1)
	if size := broadcastTo(n, x, shape); size != nil {
		return single(n.Op("expand", graph.Attrs{"size": size}, x).WithRank(len(size)))
	}
	length, rank := n.LengthOf(shape), n.Rank(x)
	if length < 0 {
		return single(expandComputed(n, x, shape))
	}
	// Both shapes are extended by leading ones to the same length. The result has x's size where the shape has 1.
	const atEnd, fillSize = false, 1
	resultRank := max(length, rank)
	wantedShape := resizeVector(n, shape, length, resultRank, atEnd, fillSize)
	xShape := resizeVector(n, n.ShapeVector(x), rank, resultRank, atEnd, fillSize)
	wantedShape = n.Op("where", nil, n.Op("eq", nil, wantedShape, 1), xShape, wantedShape)
	y := n.Op("expand", graph.Attrs{"size": n.IntsAttr(wantedShape)}, x).WithRank(resultRank)
	for i, s := range knownSizes(n, shape) {
		if s > 1 {
			y.SetSize(resultRank-length+i, s)
		}
	}
	return single(y)
}

// expandComputed is [expand] for a shape of unknown length.
func expandComputed(n *node, x, shape *value) *value {
	if shape.HasRank() && n.Rank(shape) != 1 {
		n.Failf("the shape has %d dimensions, want 1", n.Rank(shape))
	}
	shape = shape.WithRank(1)
	// The shorter one of the two shapes gets leading ones. missing is rank(x) minus the length of shape. It is negative if
	// x has the shorter shape: prependOnes then prepends no ones to the other shape.
	missing := n.Op("sub", nil, n.Rank(x), n.Element(n.ShapeVector(shape), 0))
	prependOnes := func(vector, count *value) *value {
		count = n.Op("clamp", graph.Attrs{"min": 0}, count)
		widths := n.Op("cat", nil, n.Reshape(count, 1), convert.IntVector(0)) // before and after
		attrs := graph.Attrs{"pad": n.IntsAttr(widths), "value": 1}
		return n.Op("constant_pad_nd", attrs, vector).WithType(tensor.Int64, 1)
	}
	wantedShape, xShape := prependOnes(shape, missing), prependOnes(n.ShapeVector(x), n.Op("neg", nil, missing))
	wantedShape = n.Op("where", nil, n.Op("eq", nil, wantedShape, 1), xShape, wantedShape)
	return n.Op("expand", graph.Attrs{"size": n.IntsAttr(wantedShape)}, x)
}

// broadcastTo returns the common shape of x and a shape, as an attribute of expand, in which -1 stands for x's own
// size. It returns nil if the common shape depends on data.
func broadcastTo(n *node, x, shape *value) []any {
	list := n.Integers(shape)
	if list == nil || n.Rank(x) > modelfile.MaxRank {
		return nil
	}
	xShape := n.TrySymShape(x)
	size := make([]any, max(len(xShape), len(list)))
	for i := range size {
		// Shapes are aligned at their last dimension. A negative index means that there is no dimension.
		xDim, listDim := i-(len(size)-len(xShape)), i-(len(size)-len(list))
		wantedSize, ok := sym.Of(1), true
		if listDim >= 0 {
			wantedSize = list[listDim]
		}
		switch {
		case xDim >= 0 && (wantedSize.Same(sym.Of(1)) || wantedSize.Same(xShape[xDim])):
			size[i] = -1 // the operand's own size
			continue
		case xDim >= 0 && !xShape[xDim].Same(sym.Of(1)):
			wantedSize = broadcast(n, wantedSize, xShape[xDim])
		}
		if size[i], ok = n.TrySizeAttr(wantedSize); !ok {
			return nil
		}
	}
	return size
}

// broadcast returns the size that results from broadcasting sizes a and b. Neither is known to be 1. Two known sizes
// must be equal.
func broadcast(n *node, a, b sym.Int) sym.Int {
	sizeA, knowsA := a.Known()
	sizeB, knowsB := b.Known()
	if knowsA && knowsB && sizeA != sizeB {
		n.Failf("sizes %d and %d cannot be broadcast together", sizeA, sizeB)
	}
	return sym.Where(a.Eq(sym.Of(1)), b, a)
}
