package operators

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts MaxPool, whose second output is the positions of the maxima, and MaxUnpool, which writes elements
// to such positions. The operand is a tensor [N, C, ...] of N images with C channels, and its other sizes are spatial.
// A plane is one channel of one image. A position is the row-major index of an element. For example, let x have the
// shape [1, 3, 2, 5]. The element x[0, 2, 1, 4] has position 9 in its plane of 2x5 elements, and position 29 in x.
//
// A [geometry] describes the windows. For each spatial dimension, padBefore and padAfter are the padding before and
// after the operand. A sym.Int is a size: a number, or an expression over symbols. A value is a tensor of the model,
// and node.Op adds an op to the graph.

// maxPool converts MaxPool. If the op does not support the padding, the operand is first padded with the least number.
// The second output, the positions of the maxima, is then converted to positions in the unpadded operand.
func maxPool(n *node) []*value {
	x := n.Operand(0)
	dtype := x.DType()
	inputSizes, kernel, windows := poolOf(n, x)
	if !dtype.IsFloat() {
		x = n.Cast(x, tensor.Float32) // ONNX allows 8-bit integers, which float32 represents exactly
	}
	attrs := windows.poolAttrs(n, x, kernel) // nil if the op does not support the padding
	isPadded := attrs == nil
	var paddedSizes []sym.Int
	if isPadded {
		after := windows.paddingAfter(inputSizes)
		const greatest = false // the least number
		x = padSpatial(n, x, windows.padBefore, after, extremeNumber(tensor.Float32, greatest))
		attrs = graph.Attrs{"kernel_size": kernel, "stride": windows.stride}
		if mayBeEmpty(n.SymShape(x)[1:]...) {
			attrs["padding"] = make([]int, 2*len(inputSizes)) // in ONNX's form: see poolAttrs
		}
		for i := range inputSizes {
			paddedSizes = append(paddedSizes, inputSizes[i].Add(windows.padBefore[i]).Add(after[i]))
		}
	}
	attrs["dilation"] = windows.dilation
	op := fmt.Sprintf("max_pool%dd", len(inputSizes))
	if !n.IsOutputUsed(1) {
		return single(n.Cast(n.Op(op, attrs, x), dtype))
	}
	results := n.Ops(op+"_with_indices", attrs, x)
	maxima, positions := results[0], results[1]
	if isPadded {
		positions = unpaddedPositions(n, positions, paddedSizes, inputSizes, windows.padBefore)
	}
	positions = tensorPositions(n, positions, inputSizes)
	return []*value{n.Cast(maxima, dtype), positions}
}

// coordinate returns coordinate i of each position in a plane of the given sizes. It is
// position / (plane[i+1] * plane[i+2] ...) mod plane[i].
func coordinate(n *node, positions *value, plane []sym.Int, i int) *value {
	// Planes may be empty: Max avoids a division by 0.
	divisor := n.SizeOperand(symbolic.Product(plane[i+1:]).Max(sym.Of(1)))
	quotient := n.Op("div", graph.Attrs{"rounding_mode": "floor"}, positions, divisor)
	return n.Op("remainder", nil, quotient, n.SizeOperand(plane[i].Max(sym.Of(1))))
}

// unpaddedPositions converts positions in a padded plane to positions in the plane without padding: the sum of
// (coordinate i - padBefore[i]) * unpadded[i+1] * unpadded[i+2] ... over all i. padded and unpadded are the sizes of
// the planes.
func unpaddedPositions(n *node, positions *value, padded, unpadded, padBefore []sym.Int) *value {
	var sum *value
	for i := range unpadded {
		term := n.Op("sub", nil, coordinate(n, positions, padded, i), n.SizeOperand(padBefore[i]))
		sum = addTerm(n, sum, n.Op("mul", nil, term, n.SizeOperand(symbolic.Product(unpadded[i+1:]))))
	}
	return sum
}

// addTerm returns sum + term. sum is nil before the first term.
func addTerm(n *node, sum, term *value) *value {
	if sum == nil {
		return term
	}
	return n.Op("add", nil, sum, term)
}

// tensorPositions converts positions in a plane to positions in the whole tensor [N, C, ...]. If the attribute
// storage_order is set, positions within a plane become column-major.
func tensorPositions(n *node, positions *value, plane []sym.Int) *value {
	if n.Flag("storage_order", false) && len(plane) > 1 {
		var sum *value
		for i := range plane {
			stride := n.SizeOperand(symbolic.Product(plane[:i]))
			sum = addTerm(n, sum, n.Op("mul", nil, coordinate(n, positions, plane, i), stride))
		}
		positions = sum
	}
	// The plane of channel c of image b starts at (b*C + c) * (number of elements of a plane).
	sizes := n.SymShape(positions)
	starts := n.Op("arange", graph.Attrs{"end": n.SizeAttr(sizes[0].Mul(sizes[1])), "dtype": tensor.Int64})
	starts = n.Op("mul", nil, starts, n.SizeOperand(symbolic.Product(plane)))
	ones := slices.Repeat([]sym.Int{sym.Of(1)}, len(plane))
	return n.Op("add", nil, positions, n.ReshapeSym(starts, append([]sym.Int{sizes[0], sizes[1]}, ones...)...))
}

// maxUnpool converts MaxUnpool, which writes the elements of operand 0 to the positions in operand 1, and 0 elsewhere.
// The positions are positions in a result with the spatial sizes (inputSize-1)*stride - padBefore - padAfter + kernel.
// Operand 2 (output_shape) then extends or crops this result.
func maxUnpool(n *node) []*value {
	x, positions := n.Operand(0), n.Operand(1)
	inputSizes := spatialSizes(n, x)
	windows := geometryOf(n, inputSizes, sym.Ints(n.PerDim("kernel_shape", len(inputSizes), 1)...))
	sizes := slices.Clone(n.SymShape(x))
	for i := range inputSizes {
		lastStart := inputSizes[i].Sub(sym.Of(1)).Mul(sym.Of(windows.stride[i]))
		sizes[2+i] = lastStart.Sub(windows.padBefore[i]).Sub(windows.padAfter[i]).Add(windows.kernel[i])
		if size, known := sizes[2+i].Known(); known && size < 0 {
			n.Failf("the result would have the shape %s", tensor.Sizes(sizes))
		}
	}
	unpooled := n.ReshapeSym(unpooledVector(n, x, positions, sizes), sizes...)
	outputShape := n.OperandOrNil(2)
	if outputShape == nil {
		return single(unpooled)
	}
	wanted := n.Integers(outputShape) // nil if the graph computes them
	if wanted == nil {
		return single(extendedToShape(n, unpooled, outputShape))
	}
	if len(wanted) != len(sizes) {
		n.Failf("output_shape has %d numbers, want %d", len(wanted), len(sizes))
	}
	growth := make([]sym.Int, len(sizes))
	for i := range sizes {
		growth[i] = wanted[i].Sub(sizes[i])
	}
	return single(padded(n, unpooled, make([]sym.Int, len(sizes)), growth, 0))
}

// unpooledVector returns, as a vector, a tensor of the given sizes. It has the elements of x at the given positions,
// and 0 elsewhere.
func unpooledVector(n *node, x, positions *value, sizes []sym.Int) *value {
	zeros := n.Op("full", graph.Attrs{"size": n.SizesAttr(symbolic.Product(sizes)), "fill_value": 0, "dtype": x.DType()})
	return n.Op("scatter", graph.Attrs{"dim": 0}, zeros, n.Reshape(positions, -1), n.Reshape(x, -1))
}

// extendedToShape extends or crops the result of maxUnpool to an output_shape that the graph computes. The op
// constant_pad_nd takes a pair of widths for each dimension, the last dimension first. Here a pair is 0 and the growth
// of the dimension.
func extendedToShape(n *node, unpooled, wantedShape *value) *value {
	rank := n.Rank(unpooled)
	zeros := convert.IntVector(make([]int, rank)...)
	growth := n.Op("sub", nil, wantedShape, n.ShapeVector(unpooled))
	pairs := n.Op("stack", graph.Attrs{"dim": 1}, zeros, n.Op("flip", graph.Attrs{"dims": []int{0}}, growth))
	widths := n.Reshape(pairs, 2*rank)
	attrs := graph.Attrs{"pad": n.IntsAttr(widths), "value": 0}
	return n.Op("constant_pad_nd", attrs, unpooled).WithType(unpooled.DType(), rank)
}
