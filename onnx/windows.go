package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// geometry describes the windows of a convolution or a pool, with one number for each spatial dimension.
type geometry struct {
	stride, dilation    []int
	kernel              []sym.Int // sizes of a window
	padBefore, padAfter []sym.Int // padding before and after each dimension
	roundsUp            bool      // whether the number of windows is rounded up
}

// geometryOf reads the attributes of windows. inputSizes are the spatial sizes of the operand, kernel the sizes of a
// window.
func (n *node) geometryOf(inputSizes, kernel []sym.Int) geometry {
	rank := len(inputSizes)
	windows := geometry{kernel: kernel, stride: n.perDim("strides", rank, 1),
		dilation:  n.perDim("dilations", rank, 1),
		padBefore: make([]sym.Int, rank), padAfter: make([]sym.Int, rank), roundsUp: n.flag("ceil_mode", false)}
	if len(kernel) != rank {
		n.failf("a window of %d dimensions does not suit %d spatial dimensions", len(kernel), rank)
	}
	n.checkSteps(kernel, windows.stride, windows.dilation)
	switch auto := n.text("auto_pad", "NOTSET"); auto {
	case "NOTSET", "":
		pads := sym.Ints(n.checkedPads(rank)...)
		windows.padBefore, windows.padAfter = pads[:rank], pads[rank:]
	case "VALID":
	case "SAME_UPPER", "SAME_LOWER":
		for i := range kernel {
			step := sym.Of(windows.stride[i])
			out := inputSizes[i].Add(step).Sub(sym.Of(1)).Div(step)
			total := out.Sub(sym.Of(1)).Mul(step).Add(windows.windowExtent(i)).Sub(inputSizes[i]).Max(sym.Int{})
			half := total.Div(sym.Of(2))
			windows.padBefore[i], windows.padAfter[i] = half, total.Sub(half)
			if auto == "SAME_LOWER" {
				windows.padBefore[i], windows.padAfter[i] = windows.padAfter[i], windows.padBefore[i]
			}
		}
	default:
		n.failf("auto_pad %q is not supported", auto)
	}
	return windows
}

// checkSteps rejects windows whose size, stride or dilation is so large that their extent could overflow.
func (n *node) checkSteps(kernel []sym.Int, stride, dilation []int) {
	for i, size := range kernel {
		k, known := size.Known()
		if known && (k < 1 || k > 1<<30) || stride[i] < 1 || dilation[i] < 1 || dilation[i] > 1<<30 || stride[i] > 1<<30 {
			n.failf("window of size %v, stride %d and dilation %d is not supported", size, stride[i], dilation[i])
		}
	}
}

// maxPadding bounds padding, so that sums of a size and several paddings do not overflow.
const maxPadding = min(1<<40, math.MaxInt/8)

// checkedPads returns the attribute pads: the padding before all dimensions, then the padding after all dimensions.
func (n *node) checkedPads(rank int) []int {
	pads := n.perDim("pads", 2*rank, 0)
	for _, p := range pads {
		if p > maxPadding || p < -maxPadding {
			n.failf("padding %d is not supported", p)
		}
	}
	return pads
}

// windowExtent returns the extent of a window in dimension i: the number of elements from its first to its last
// element.
func (g geometry) windowExtent(i int) sym.Int {
	return g.kernel[i].Sub(sym.Of(1)).Mul(sym.Of(g.dilation[i])).Add(sym.Of(1))
}

// perDim reads a list attribute that must have the given length. If the attribute is omitted, all elements are def.
func (n *node) perDim(name string, length, def int) []int {
	list, ok := n.ints(name)
	if !ok {
		list = make([]int, length)
		for i := range list {
			list[i] = def
		}
	}
	if len(list) != length {
		n.failf("attribute %q has %d numbers, want %d", name, len(list), length)
	}
	return list
}

// isSymmetric reports whether the padding before and after each dimension is equal and not negative.
func (g geometry) isSymmetric() bool {
	for i := range g.padBefore {
		if !g.padBefore[i].Same(g.padAfter[i]) || !notNegative(g.padBefore[i]) {
			return false
		}
	}
	return true
}

// padSpatial pads the spatial dimensions of x with a value, for padding that an op does not support.
func (n *node) padSpatial(x *val, before, after []sym.Int, value any) *val {
	noPadding := make([]sym.Int, 2)
	return n.padded(x, slices.Concat(noPadding, before), slices.Concat(noPadding, after), value)
}

// spatialSizes returns the spatial sizes of images [N, C, ...].
func (n *node) spatialSizes(x *val) []sym.Int {
	sizes := n.symShape(x)
	if len(sizes) < 3 || len(sizes) > 5 {
		n.failf("want 1 to 3 spatial dimensions, the operand has %d dimensions", len(sizes))
	}
	return sizes[2:]
}

func conv(n *node) []*val {
	return one(n.convolve(n.operand(0), n.operand(1), n.operandOrNil(2)))
}

// weightSizes returns the spatial sizes of a weight. rank is the number of spatial dimensions.
func (n *node) weightSizes(weight *val, rank int) []sym.Int {
	if n.rank(weight) != rank+2 {
		n.failf("weight has %d dimensions, want %d", n.rank(weight), rank+2)
	}
	return n.symShape(weight)[2:]
}

// convolve adds a convolution with the attributes of the node.
func (n *node) convolve(x, weight, bias *val) *val {
	g, attrs, hasPadding := n.convAttrs(x, weight)
	if !hasPadding {
		x = n.padSpatial(x, g.padBefore, g.padAfter, 0)
	}
	return n.op(fmt.Sprintf("conv%dd", len(g.padBefore)), attrs, x, weight, bias)
}

// convAttrs returns the geometry and the attributes of a convolution. If hasPadding is false, some padding is negative,
// and the attributes have no padding: the caller must first pad and crop x.
func (n *node) convAttrs(x, weight *val) (g geometry, attrs graph.Attrs, hasPadding bool) {
	inputSizes := n.spatialSizes(x)
	g = n.geometryOf(inputSizes, n.weightSizes(weight, len(inputSizes)))
	attrs = graph.Attrs{"stride": g.stride, "dilation": g.dilation, "groups": n.int("group", 1)}
	pads := slices.Concat(g.padBefore, g.padAfter)
	switch {
	case g.isSymmetric():
		attrs["padding"] = n.sizeAttr(g.padBefore...)
	case !slices.ContainsFunc(pads, func(s sym.Int) bool { return !notNegative(s) }):
		attrs["padding"] = n.sizeAttr(pads...)
	default:
		return g, attrs, false
	}
	return g, attrs, true
}

// convTranspose converts ConvTranspose. If the op does not support the padding, it computes the result without padding,
// and then crops or extends the result.
func convTranspose(n *node) []*val {
	x, weight, bias := n.operand(0), n.operand(1), n.operandOrNil(2)
	inputSizes := n.spatialSizes(x)
	rank := len(inputSizes)
	windows := geometry{kernel: n.weightSizes(weight, rank), stride: n.perDim("strides", rank, 1),
		dilation: n.perDim("dilations", rank, 1)}
	auto := n.text("auto_pad", "NOTSET")
	output, hasOutputShape := n.ints("output_shape")
	if len(output) == rank+2 {
		output = output[2:]
	}
	if hasOutputShape && len(output) != rank {
		n.failf("output_shape has %d numbers, want %d", len(output), rank)
	}
	extra := n.perDim("output_padding", rank, 0)
	n.checkSteps(windows.kernel, windows.stride, windows.dilation)
	pads := sym.Ints(n.checkedPads(rank)...)
	windows.padBefore, windows.padAfter = pads[:rank], pads[rank:]
	for i := range inputSizes {
		step := sym.Of(windows.stride[i])
		want := inputSizes[i].Mul(step)
		if hasOutputShape {
			want = sym.Of(output[i])
		} else if auto != "SAME_UPPER" && auto != "SAME_LOWER" {
			break
		}
		total := step.Mul(inputSizes[i].Sub(sym.Of(1))).Add(sym.Of(extra[i])).Add(windows.windowExtent(i)).Sub(want)
		// A negative total padding extends the result. Half of it is also rounded down.
		half := total.Div(sym.Of(2))
		windows.padBefore[i], windows.padAfter[i] = total.Sub(half), half
		if auto == "SAME_UPPER" {
			windows.padBefore[i], windows.padAfter[i] = half, total.Sub(half)
		}
	}
	attrs := graph.Attrs{"stride": windows.stride, "dilation": windows.dilation, "groups": n.int("group", 1)}
	return one(n.convTransposed(x, weight, bias, windows, extra, attrs))
}

// convTransposed adds a transposed convolution. extra is the output padding.
func (n *node) convTransposed(x, weight, bias *val, windows geometry, extra []int, attrs graph.Attrs) *val {
	rank := len(extra)
	op := fmt.Sprintf("conv_transpose%dd", rank)
	padding, isSupported := numbersOf(windows.padBefore)
	isSupported = isSupported && windows.isSymmetric()
	for i, e := range extra {
		if e < 0 || e > 1<<30 {
			n.failf("output padding %d is not supported", e)
		}
		isSupported = isSupported && (e == 0 || e < max(windows.stride[i], windows.dilation[i]))
	}
	if isSupported {
		attrs["padding"], attrs["output_padding"] = padding, extra
		return n.op(op, attrs, x, weight, bias)
	}
	result := n.op(op, attrs, x, weight)
	before, after := make([]sym.Int, rank), make([]sym.Int, rank)
	for i := range extra {
		before[i], after[i] = windows.padBefore[i].Neg(), sym.Of(extra[i]).Sub(windows.padAfter[i])
	}
	result = n.padSpatial(result, before, after, 0)
	if bias == nil {
		return result
	}
	return n.op("add", nil, result, n.alignedAt(bias, 1, rank+2))
}

func deformConv(n *node) []*val {
	x, weight := n.operand(0), n.operand(1)
	inputSizes := n.spatialSizes(x)
	g := n.geometryOf(inputSizes, n.weightSizes(weight, len(inputSizes)))
	if len(inputSizes) != 2 || !g.isSymmetric() {
		n.failf("only two spatial dimensions, padded alike on both sides, are supported")
	}
	attrs := graph.Attrs{"stride": g.stride, "padding": n.numbers("the padding", g.padBefore), "dilation": g.dilation,
		"groups": n.int("group", 1), "offset_groups": n.int("offset_group", 1)}
	return one(n.op("deform_conv2d", attrs, x, weight, n.operand(2), n.operandOrNil(4), n.operandOrNil(3)))
}

// col2Im converts Col2Im, which sums blocks at their positions in an image.
func col2Im(n *node) []*val {
	x, image, block := n.operand(0), n.list(1), n.list(2)
	rank := len(image)
	sizes := n.symShape(x)
	if len(block) != rank || len(sizes) != 3 || rank == 0 || rank > maxRank {
		n.failf("want [N, C, L] and as many block sizes as image sizes")
	}
	for _, size := range image {
		if size < 1 || size > math.MaxInt32 {
			n.failf("an image of size %d is not supported", size)
		}
	}
	grid := n.blockGrid(image, block)
	count, windows := tensor.Numel(block), tensor.Numel(grid.counts)
	if count > 1<<24 || windows > math.MaxInt32 {
		n.failf("%d blocks of %d elements are not supported", windows, count)
	}
	width, widthKnown := sizes[1].Known()
	if l, known := sizes[2].Known(); widthKnown && width%count != 0 || known && windows != l ||
		count > 1<<24/max(windows, 1) {
		n.failf("operand 0 of shape %s does not hold %d blocks of %d elements", tensor.Sizes(sizes), windows, count)
	}
	index := grid.imageIndices()
	channels := sizes[1].Div(sym.Of(count))
	flat := n.reshapeFor(x, sizes[0], channels, sym.Of(count*windows))
	positions := n.op("expand", graph.Attrs{"size": n.sizeAttr(sizes[0], channels, sym.Of(len(index)))},
		constValue(intTensor(index...)))
	paddedShape := n.sizeAttr(sizes[0], channels, sym.Of(tensor.Numel(grid.padded)))
	zeros := n.op("full", graph.Attrs{"size": paddedShape, "fill_value": 0, "dtype": x.dtype()})
	sums := n.op("scatter_reduce", graph.Attrs{"dim": 2, "reduce": "sum"}, zeros, positions, flat)
	before, after := make([]sym.Int, rank), make([]sym.Int, rank)
	for i := range image {
		before[i], after[i] = grid.padBefore[i].Neg(), grid.padAfter[i].Neg()
	}
	sums = n.reshapeFor(sums, append([]sym.Int{sizes[0], channels}, sym.Ints(grid.padded...)...)...)
	return one(n.padSpatial(sums, before, after, 0))
}

// blockGrid describes the positions of blocks in an image of known size.
type blockGrid struct {
	geometry
	block  []int // sizes of a block
	padded []int // sizes of the padded image
	counts []int // number of blocks along each dimension
}

// blockGrid returns the positions of blocks, from the attributes of Col2Im.
func (n *node) blockGrid(image, block []int) blockGrid {
	grid := blockGrid{geometry: n.geometryOf(sym.Ints(image...), sym.Ints(block...)), block: block}
	for i, size := range image {
		numbers := n.numbers("the padding", []sym.Int{grid.padBefore[i].Add(grid.padAfter[i]), grid.windowExtent(i)})
		size += numbers[0]
		room := size - numbers[1]
		if room < 0 {
			room = -grid.stride[i]
		}
		grid.padded, grid.counts = append(grid.padded, size), append(grid.counts, room/grid.stride[i]+1)
	}
	return grid
}

// imageIndices returns the index in the padded image of each element of each block. The first elements of all blocks
// come first, then the second elements of all blocks, and so on.
func (b blockGrid) imageIndices() []int {
	index := []int{0}
	extend := func(counts, steps []int) {
		unit := tensor.Numel(b.padded)
		for i, c := range counts {
			unit /= max(1, b.padded[i])
			next := make([]int, 0, len(index)*c)
			for _, offset := range index {
				for k := range c {
					next = append(next, offset+k*steps[i]*unit)
				}
			}
			index = next
		}
	}
	extend(b.block, b.dilation)
	extend(b.counts, b.stride)
	return index
}
