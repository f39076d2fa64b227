package operators

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts convolutions and Col2Im, and reads the attributes that convolutions share with pools.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols.

// geometry describes the windows of a convolution or a pool, with one number for each spatial dimension. A window has
// the extent (kernel-1)*dilation + 1. A dimension of size `in` has (padBefore + in + padAfter - extent)/stride + 1
// windows, rounded down or up. For example, a kernel of 3 elements with dilation 2 has the extent 5. A row of 9
// elements then has 3 windows with stride 2 and no padding. They start at elements 0, 2 and 4.
type geometry struct {
	stride, dilation    []int
	kernel              []sym.Int // sizes of a window
	padBefore, padAfter []sym.Int // padding before and after each dimension
	roundsUp            bool      // whether the number of windows is rounded up
}

// geometryOf reads the attributes of windows. inputSizes are the spatial sizes of the operand, kernel the sizes of a
// window.
func geometryOf(n *node, inputSizes, kernel []sym.Int) geometry {
	rank := len(inputSizes)
	windows := geometry{kernel: kernel, stride: n.PerDim("strides", rank, 1),
		dilation:  n.PerDim("dilations", rank, 1),
		padBefore: make([]sym.Int, rank), padAfter: make([]sym.Int, rank), roundsUp: n.Flag("ceil_mode", false)}
	if len(kernel) != rank {
		n.Failf("a window of %d dimensions does not suit %d spatial dimensions", len(kernel), rank)
	}
	checkSteps(n, kernel, windows.stride, windows.dilation)
	switch autoPad := n.Text("auto_pad", "NOTSET"); autoPad {
	case "NOTSET", "":
		pads := sym.Ints(checkedPads(n, rank)...)
		windows.padBefore, windows.padAfter = pads[:rank], pads[rank:]
	case "VALID": // no padding
	case "SAME_UPPER", "SAME_LOWER":
		for i, size := range inputSizes {
			windows.padBefore[i], windows.padAfter[i] = windows.samePadding(i, size)
			if autoPad == "SAME_LOWER" {
				windows.padBefore[i], windows.padAfter[i] = windows.padAfter[i], windows.padBefore[i]
			}
		}
	default:
		n.Failf("auto_pad %q is not supported", autoPad)
	}
	return windows
}

// samePadding returns the padding of dimension i that gives ceil(size/stride) windows, if geometry rounds the number of
// windows down. An odd element of padding is added after the dimension.
func (g geometry) samePadding(i int, size sym.Int) (before, after sym.Int) {
	// total padding = max(0, (windows-1)*stride + extent - size)
	stride := sym.Of(g.stride[i])
	windows := size.Add(stride).Sub(sym.Of(1)).Div(stride)
	total := windows.Sub(sym.Of(1)).Mul(stride).Add(g.windowExtent(i)).Sub(size).Max(sym.Int{})
	before = total.Div(sym.Of(2))
	return before, total.Sub(before)
}

// checkSteps rejects sizes, strides and dilations of windows outside [1, 2^30], so that the extent of a window does not
// overflow. Symbolic sizes are not checked.
func checkSteps(n *node, kernel []sym.Int, stride, dilation []int) {
	for i, size := range kernel {
		isInRange := func(number int) bool { return number >= 1 && number <= 1<<30 }
		kernelSize, known := size.Known()
		if known && !isInRange(kernelSize) || !isInRange(stride[i]) || !isInRange(dilation[i]) {
			n.Failf("a window of size %v, stride %d and dilation %d is not supported: want 1 to 2^30", size, stride[i],
				dilation[i])
		}
	}
}

// maxPadding bounds padding, so that sums of a size and several paddings do not overflow.
const maxPadding = min(1<<40, math.MaxInt/8)

// checkedPads returns the attribute pads: the padding before all dimensions, then the padding after all dimensions.
func checkedPads(n *node, rank int) []int {
	pads := n.PerDim("pads", 2*rank, 0)
	for _, padding := range pads {
		if padding > maxPadding || padding < -maxPadding {
			n.Failf("padding %d is not supported: want at most %d in absolute value", padding, maxPadding)
		}
	}
	return pads
}

// windowExtent returns the extent of a window in dimension i: the number of elements from its first to its last
// element.
func (g geometry) windowExtent(i int) sym.Int {
	return g.kernel[i].Sub(sym.Of(1)).Mul(sym.Of(g.dilation[i])).Add(sym.Of(1))
}

// isSymmetric reports whether the padding before and after each dimension is equal and not negative.
func (g geometry) isSymmetric() bool {
	for i := range g.padBefore {
		if !g.padBefore[i].Same(g.padAfter[i]) || !symbolic.NotNegative(g.padBefore[i]) {
			return false
		}
	}
	return true
}

// padSpatial pads the spatial dimensions of x with a value, for padding that an op does not support. Negative padding
// crops.
func padSpatial(n *node, x *value, before, after []sym.Int, value any) *value {
	noPadding := make([]sym.Int, 2) // of the batch and the channels
	return padded(n, x, slices.Concat(noPadding, before), slices.Concat(noPadding, after), value)
}

// spatialSizes returns the spatial sizes of images [N, C, ...].
func spatialSizes(n *node, x *value) []sym.Int {
	sizes := n.SymShape(x)
	if len(sizes) < 3 || len(sizes) > 5 {
		n.Failf("want 1 to 3 spatial dimensions, the operand has %d dimensions", len(sizes))
	}
	return sizes[2:]
}

// conv converts Conv.
func conv(n *node) []*value {
	return single(convolve(n, n.Operand(0), n.Operand(1), n.OperandOrNil(2)))
}

// weightSizes returns the spatial sizes of a weight: the sizes of its dimensions from the third on. rank is the number
// of spatial dimensions.
func weightSizes(n *node, weight *value, rank int) []sym.Int {
	if n.Rank(weight) != rank+2 {
		n.Failf("weight has %d dimensions, want %d", n.Rank(weight), rank+2)
	}
	return n.SymShape(weight)[2:]
}

// convolve adds a convolution with the attributes of the node. bias may be nil.
func convolve(n *node, x, weight, bias *value) *value {
	windows, _, _ := convAttrs(n, x, weight)
	shape := []sym.Int{n.SymShape(x)[0], n.SymShape(weight)[0]} // of the result
	for i, size := range spatialSizes(n, x) {
		lastStart := size.Add(windows.padBefore[i]).Add(windows.padAfter[i]).Sub(windows.windowExtent(i))
		shape = append(shape, lastStart.Div(sym.Of(windows.stride[i])).Add(sym.Of(1)))
	}
	return ifChannels(n, []*value{x, weight, bias}, func(n *node, in []*value) *value {
		x, weight := in[0], in[1]
		_, attrs, supportsPadding := convAttrs(n, x, weight)
		if !supportsPadding {
			if !windows.fits(spatialSizes(n, x)) {
				attrs["padding"] = make([]int, 2*len(windows.padBefore)) // accepts sizes of 0
			}
			x = padSpatial(n, x, windows.padBefore, windows.padAfter, 0)
		}
		return n.Op(fmt.Sprintf("conv%dd", len(windows.padBefore)), attrs, x, weight, in[2]).WithRank(len(shape))
	}, shape)
}

// ifChannels applies a convolution to an image, a weight and an optional bias. If the weight has no channels of images
// or results, which the op rejects, the result of the given shape is the bias.
func ifChannels(n *node, operands []*value, convolve func(*node, []*value) *value, shape []sym.Int) *value {
	x, weight := operands[0], n.SymShape(operands[1])
	hasBias := operands[2] != nil
	if !hasBias {
		operands = operands[:2]
	}
	positive := func(n *node, in []*value) []*value {
		if !hasBias {
			in = append(slices.Clone(in), nil)
		}
		return single(convolve(n, in))
	}
	empty := func(n *node, in []*value) []*value {
		y := n.Op("full", graph.Attrs{"size": n.SizesAttr(shape...), "fill_value": 0, "dtype": x.DType()})
		if hasBias {
			y = n.Op("add", nil, y, alignedToAxis(n, in[2], 1, len(shape)))
		}
		return single(y)
	}
	return n.IfPositive(weight[0].Mul(weight[1]), operands, positive, empty)[0]
}

// convAttrs returns the geometry and the attributes of a convolution. supportsPadding reports whether the op supports
// the padding, which is then among the attributes. If some padding is or may be negative, the op does not support it,
// and the caller must pad and crop x before the convolution.
func convAttrs(n *node, x, weight *value) (windows geometry, attrs graph.Attrs, supportsPadding bool) {
	inputSizes := spatialSizes(n, x)
	windows = geometryOf(n, inputSizes, weightSizes(n, weight, len(inputSizes)))
	attrs = graph.Attrs{"stride": windows.stride, "dilation": windows.dilation, "groups": n.Int("group", 1)}
	pads := slices.Concat(windows.padBefore, windows.padAfter)
	mayBeNegative := func(padding sym.Int) bool { return !symbolic.NotNegative(padding) }
	switch {
	case windows.isSymmetric() && windows.fits(inputSizes): // one number for each dimension, for both sides
		attrs["padding"] = n.SizesAttr(windows.padBefore...)
	case !slices.ContainsFunc(pads, mayBeNegative): // two numbers for each dimension
		attrs["padding"] = n.SizesAttr(pads...)
	default:
		return windows, attrs, false
	}
	return windows, attrs, true
}

// fits reports whether all sizes are known, and hold elements and a window. Otherwise the op needs the padding before
// and after each dimension: it then accepts sizes of 0 and no windows.
func (g geometry) fits(inputSizes []sym.Int) bool {
	for i, size := range inputSizes {
		rest, known := size.Add(g.padBefore[i]).Add(g.padAfter[i]).Sub(g.windowExtent(i)).Known()
		if mayBeEmpty(size) || !known || rest < 0 {
			return false
		}
	}
	return true
}

// convTranspose converts ConvTranspose. If the op does not support the padding, it computes the result without padding,
// and then crops or extends the result.
func convTranspose(n *node) []*value {
	x, weight, bias := n.Operand(0), n.Operand(1), n.OperandOrNil(2)
	inputSizes := spatialSizes(n, x)
	rank := len(inputSizes)
	windows := geometry{kernel: weightSizes(n, weight, rank), stride: n.PerDim("strides", rank, 1),
		dilation: n.PerDim("dilations", rank, 1)}
	outputPadding := n.PerDim("output_padding", rank, 0)
	checkSteps(n, windows.kernel, windows.stride, windows.dilation)
	pads := sym.Ints(checkedPads(n, rank)...)
	windows.padBefore, windows.padAfter = pads[:rank], pads[rank:]
	for i, out := range transposedSizes(n, inputSizes, windows.stride) {
		// total padding = (in-1)*stride + output_padding + extent - out. A negative total extends the result; Div rounds
		// half of it down in this case too.
		spread := sym.Of(windows.stride[i]).Mul(inputSizes[i].Sub(sym.Of(1)))
		total := spread.Add(sym.Of(outputPadding[i])).Add(windows.windowExtent(i)).Sub(out)
		half := total.Div(sym.Of(2))
		windows.padBefore[i], windows.padAfter[i] = total.Sub(half), half
		if n.Text("auto_pad", "NOTSET") == "SAME_UPPER" {
			windows.padBefore[i], windows.padAfter[i] = half, total.Sub(half)
		}
	}
	groups := n.Int("group", 1)
	shape := []sym.Int{n.SymShape(x)[0], n.SymShape(weight)[1].Mul(sym.Of(groups))} // of the result
	for i, size := range inputSizes {
		spread := sym.Of(windows.stride[i]).Mul(size.Sub(sym.Of(1))).Add(windows.windowExtent(i))
		shape = append(shape, spread.Add(sym.Of(outputPadding[i])).Sub(windows.padBefore[i]).Sub(windows.padAfter[i]))
	}
	return single(ifChannels(n, []*value{x, weight, bias}, func(n *node, in []*value) *value {
		attrs := graph.Attrs{"stride": windows.stride, "dilation": windows.dilation, "groups": groups}
		return addConvTranspose(n, in[0], in[1], in[2], windows, outputPadding, attrs).WithRank(len(shape))
	}, shape))
}

// transposedSizes returns the spatial sizes of the result that the attributes of ConvTranspose give. It returns nil if
// the attribute pads determines the sizes.
func transposedSizes(n *node, inputSizes []sym.Int, stride []int) []sym.Int {
	rank := len(inputSizes)
	sizes, hasOutputShape := n.Ints("output_shape")
	if len(sizes) == rank+2 {
		sizes = sizes[2:] // the batch and the channels may be given too
	}
	if hasOutputShape {
		if len(sizes) != rank {
			n.Failf("output_shape has %d numbers, want %d", len(sizes), rank)
		}
		return sym.Ints(sizes...)
	}
	if autoPad := n.Text("auto_pad", "NOTSET"); autoPad != "SAME_UPPER" && autoPad != "SAME_LOWER" {
		return nil
	}
	out := make([]sym.Int, rank)
	for i, size := range inputSizes {
		out[i] = size.Mul(sym.Of(stride[i]))
	}
	return out
}

// addConvTranspose adds a transposed convolution, which crops the padding from its result and adds outputPadding
// elements after each dimension. bias may be nil.
func addConvTranspose(n *node, x, weight, bias *value, windows geometry, outputPadding []int,
	attrs graph.Attrs) *value {
	rank := len(outputPadding)
	op := fmt.Sprintf("conv_transpose%dd", rank)
	padding, isSupported := symbolic.Known(windows.padBefore)
	isSupported = isSupported && windows.isSymmetric()
	for i, size := range outputPadding {
		if size < 0 || size > 1<<30 {
			n.Failf("output padding %d is not supported: want 0 to 2^30", size)
		}
		// The op requires an output padding below the stride or below the dilation.
		isSupported = isSupported && (size == 0 || size < max(windows.stride[i], windows.dilation[i]))
	}
	if isSupported {
		attrs["padding"], attrs["output_padding"] = padding, outputPadding
		return n.Op(op, attrs, x, weight, bias)
	}
	result := n.Op(op, attrs, x, weight) // without the bias, which must also be added where the result is extended
	before, after := make([]sym.Int, rank), make([]sym.Int, rank)
	for i := range outputPadding {
		before[i], after[i] = windows.padBefore[i].Neg(), sym.Of(outputPadding[i]).Sub(windows.padAfter[i])
	}
	result = padSpatial(n, result, before, after, 0)
	if bias == nil {
		return result
	}
	return n.Op("add", nil, result, alignedToAxis(n, bias, 1, rank+2))
}

// deformConv converts DeformConv: operands x, weight, offset, and optional bias and mask. The op takes the mask before
// the bias.
func deformConv(n *node) []*value {
	x, weight := n.Operand(0), n.Operand(1)
	inputSizes := spatialSizes(n, x)
	windows := geometryOf(n, inputSizes, weightSizes(n, weight, len(inputSizes)))
	if len(inputSizes) != 2 || !windows.isSymmetric() {
		n.Failf("want two spatial dimensions with equal padding, not negative, on both sides")
	}
	attrs := graph.Attrs{"stride": windows.stride, "dilation": windows.dilation,
		"padding": n.KnownNumbers("the padding", windows.padBefore),
		"groups":  n.Int("group", 1), "offset_groups": n.Int("offset_group", 1)}
	return single(n.Op("deform_conv2d", attrs, x, weight, n.Operand(2), n.OperandOrNil(4), n.OperandOrNil(3)))
}

// col2Im converts Col2Im, which sums blocks at their positions in an image. The operand is
// [N, C*blockElements, blockCount]: each column has the elements of one block of C channels. The blocks are added to a
// padded image of zeros, from which the padding is then cropped. The sizes of the image and of a block may depend on
// data: all indices are computed from values.
func col2Im(n *node) []*value {
	x, image, block := n.Operand(0), n.Cast(n.Operand(1), tensor.Int64), n.Cast(n.Operand(2), tensor.Int64)
	rank := max(n.LengthOf(image), n.LengthOf(block))
	for _, name := range []string{"dilations", "pads", "strides"} {
		if list, ok := n.Ints(name); ok && rank < 0 {
			if rank = len(list); name == "pads" {
				rank /= 2
			}
		}
	}
	if n.Rank(x) != 3 || rank < 1 || rank > modelfile.MaxRank {
		n.Failf("want an operand [N, C, L] and the number of dimensions of the image")
	}
	strides, dilations, pads := n.PerDim("strides", rank, 1), n.PerDim("dilations", rank, 1), checkedPads(n, rank)
	checkSteps(n, sym.Ints(slices.Repeat([]int{1}, rank)...), strides, dilations)
	cropBefore, cropAfter := make([]sym.Int, 2+rank), make([]sym.Int, 2+rank)
	paddedSizes := make([]any, rank) // vectors of one element
	for i := range rank {
		cropBefore[2+i], cropAfter[2+i] = sym.Of(-pads[i]), sym.Of(-pads[rank+i])
		size := n.Op("add", nil, n.Element(image, i), pads[i]+pads[rank+i])
		paddedSizes[i] = n.Reshape(size, 1)
	}
	paddedImage := n.Op("cat", nil, paddedSizes...).WithSizes(tensor.Int64, rank)
	indices := blockIndices(n, paddedImage, block, strides, dilations)
	sizes := n.ShapeVector(x)
	channels := n.Op("div", graph.Attrs{"rounding_mode": "floor"}, n.Element(sizes, 1), product(n, block))
	shapeOf := func(last *value) any { // [N, C, last]
		lead := n.Op("cat", nil, n.Reshape(n.Element(sizes, 0), 1), n.Reshape(channels, 1))
		return n.IntsAttr(n.Op("cat", nil, lead, last).WithSizes(tensor.Int64, 2+n.LengthOf(last)))
	}
	elementCount := n.ShapeVector(indices)
	elements := n.Op("reshape", graph.Attrs{"shape": shapeOf(elementCount)}, x).WithRank(3)
	positions := n.Op("expand", graph.Attrs{"size": shapeOf(elementCount)}, indices).WithRank(3)
	zeros := n.Op("full", graph.Attrs{"size": shapeOf(n.Reshape(product(n, paddedImage), 1)), "fill_value": 0,
		"dtype": x.DType()}).WithType(x.DType(), 3)
	sums := n.Op("scatter_reduce", graph.Attrs{"dim": 2, "reduce": "sum"}, zeros, positions,
		elements).WithType(x.DType(), 3)
	summed := n.Op("reshape", graph.Attrs{"shape": shapeOf(paddedImage)}, sums).WithRank(2 + rank)
	return single(padded(n, summed, cropBefore, cropAfter, 0))
}

// product returns the product of the elements of a vector as a 0-dim value.
func product(n *node, vector *value) *value { return n.Op("prod", nil, vector).WithRank(0) }

// blockIndices returns, as a vector, the index in the padded image of each element of each block. The first elements of
// all blocks come first, then the second elements of all blocks, and so on. The index of element k of block b is the
// sum of (k_i*dilation_i + b_i*stride_i) * (the product of the sizes after dimension i).
func blockIndices(n *node, image, block *value, strides, dilations []int) *value {
	rank := len(strides)
	var sum *value
	for i := range rank {
		size, taps := n.Element(image, i), n.Element(block, i)
		// The last block starts at size - ((taps-1)*dilation + 1).
		lastStart := n.Op("sub", nil, size, n.Op("add", nil, n.Op("mul", nil, n.Op("sub", nil, taps, 1), dilations[i]), 1))
		count := n.Op("add", nil, n.Op("div", graph.Attrs{"rounding_mode": "floor"}, lastStart, strides[i]), 1)
		count = n.Op("clamp", graph.Attrs{"min": 0}, count)
		rest := n.Op("slice", graph.Attrs{"dim": 0, "start": i + 1}, image).WithSizes(tensor.Int64, rank-1-i)
		stride := product(n, rest)
		addOffsets := func(dim int, count *value, step int) { // multiples of the step, along a dimension of the sum
			shape := slices.Repeat([]int{1}, 2*rank)
			shape[dim] = -1
			offsets := n.Op("mul", nil, n.Op("mul", nil, countTo(n, count), step), stride)
			sum = addTerm(n, sum, n.Reshape(offsets, shape...))
		}
		addOffsets(i, taps, dilations[i])
		addOffsets(rank+i, count, strides[i])
	}
	return n.Reshape(sum, -1)
}

// countTo returns the vector 0, 1 ... end-1.
func countTo(n *node, end *value) *value {
	return n.Op("arange", graph.Attrs{"end": n.IntAttr(end), "dtype": tensor.Int64}).WithType(tensor.Int64, 1)
}
