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

// This file converts pools: MaxPool, AveragePool, LpPool, MaxUnpool and MaxRoiPool. The pool ops of the catalogue
// support only padding that is equal on both sides and at most half of the window, as in PyTorch. For any other
// padding, the operand is padded first. For example, auto_pad SAME_UPPER with a window of 2 pads a row of 5 elements by
// one element at its end only.

// poolOf returns the spatial sizes of x, the attribute kernel_shape, and the geometry of a pool.
func poolOf(n *node, x *value) (inputSizes []sym.Int, kernel []int, windows geometry) {
	inputSizes = spatialSizes(n, x)
	kernel = n.PerDim("kernel_shape", len(inputSizes), 0)
	return inputSizes, kernel, geometryOf(n, inputSizes, sym.Ints(kernel...))
}

// poolAttrs returns the attributes of a pool op, or nil if the op does not support the padding. An op supports padding
// that is known, symmetric, and at most half of the window.
func (g geometry) poolAttrs(kernel []int) graph.Attrs {
	padding, known := symbolic.Known(g.padBefore)
	if !known || !g.isSymmetric() {
		return nil
	}
	for i, kernelSize := range kernel {
		if padding[i] > kernelSize/2 {
			return nil
		}
	}
	return graph.Attrs{"kernel_size": kernel, "stride": g.stride, "padding": padding, "ceil_mode": g.roundsUp}
}

// paddingAfter returns the padding after each dimension of an operand with the spatial sizes inputSizes. If the number
// of windows is rounded up, the padding includes the missing elements of the last window.
func (g geometry) paddingAfter(inputSizes []sym.Int) (after []sym.Int) {
	for i, size := range inputSizes {
		// Positions count from the start of the padding before the operand.
		stride, operandEnd := sym.Of(g.stride[i]), size.Add(g.padBefore[i])
		lastStart := operandEnd.Add(g.padAfter[i]).Sub(g.windowExtent(i)) // the last start at which a window fits
		count := lastStart.Div(stride).Add(sym.Of(1)).Max(sym.Int{})
		if g.roundsUp {
			// One more window, at count*stride, covers the remaining elements, unless it starts in the padding after the
			// operand.
			hasRemainder := lastStart.Ge(sym.Int{}).And(lastStart.Mod(stride).Gt(sym.Int{}))
			addsWindow := hasRemainder.And(count.Mul(stride).Lt(operandEnd))
			count = sym.Where(addsWindow, count.Add(sym.Of(1)), count)
		}
		lastEnd := count.Sub(sym.Of(1)).Mul(stride).Add(g.windowExtent(i)) // of the last window
		after = append(after, g.padAfter[i].Max(lastEnd.Sub(operandEnd)))
	}
	return after
}

// maxPool converts MaxPool. If the op does not support the padding, the operand is first padded with the least number.
// The second output, the positions of the maxima, is then converted to positions in the unpadded operand.
func maxPool(n *node) []*value {
	x := n.Operand(0)
	dtype := x.DType()
	inputSizes, kernel, windows := poolOf(n, x)
	if !dtype.IsFloat() {
		x = n.Cast(x, tensor.Float32) // ONNX allows 8-bit integers, which float32 represents exactly
	}
	attrs, paddedSizes := windows.poolAttrs(kernel), inputSizes
	if attrs == nil {
		after := windows.paddingAfter(inputSizes)
		x = padSpatial(n, x, windows.padBefore, after, extremeNumber(tensor.Float32, false))
		attrs = graph.Attrs{"kernel_size": kernel, "stride": windows.stride}
		paddedSizes = make([]sym.Int, len(inputSizes))
		for i := range inputSizes {
			paddedSizes[i] = inputSizes[i].Add(windows.padBefore[i]).Add(after[i])
		}
	}
	attrs["dilation"] = windows.dilation
	op := fmt.Sprintf("max_pool%dd", len(inputSizes))
	if !n.IsOutputUsed(1) {
		return single(n.Cast(n.Op(op, attrs, x), dtype))
	}
	results := n.Ops(op+"_with_indices", attrs, x)
	if attrs["padding"] == nil {
		results[1] = unpaddedPositions(n, results[1], paddedSizes, inputSizes, windows)
	}
	results[1] = tensorPositions(n, results[1], inputSizes)
	return []*value{n.Cast(results[0], dtype), results[1]}
}

// coordinate returns the i-th coordinate of each element of index. The elements are row-major positions in a plane of
// the given sizes. The coordinate is index / (plane[i+1] * plane[i+2] ...) mod plane[i].
func coordinate(n *node, index *value, plane []sym.Int, i int) *value {
	// Planes may be empty: Max avoids a division by 0.
	divisor := n.SizeOperand(symbolic.Product(plane[i+1:]).Max(sym.Of(1)))
	quotient := n.Op("div", graph.Attrs{"rounding_mode": "floor"}, index, divisor)
	return n.Op("remainder", nil, quotient, n.SizeOperand(plane[i].Max(sym.Of(1))))
}

// unpaddedPositions converts positions in a padded plane to positions in the plane without padding: the sum of
// (coordinate i - padBefore[i]) * inputSizes[i+1] * inputSizes[i+2] ... over all i.
func unpaddedPositions(n *node, index *value, padded, inputSizes []sym.Int, windows geometry) *value {
	var sum *value
	for i := range inputSizes {
		term := n.Op("sub", nil, coordinate(n, index, padded, i), n.SizeOperand(windows.padBefore[i]))
		sum = addTerm(n, sum, n.Op("mul", nil, term, n.SizeOperand(symbolic.Product(inputSizes[i+1:]))))
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
func tensorPositions(n *node, index *value, inputSizes []sym.Int) *value {
	if n.Flag("storage_order", false) && len(inputSizes) > 1 {
		var sum *value
		for i := range inputSizes {
			stride := n.SizeOperand(symbolic.Product(inputSizes[:i]))
			sum = addTerm(n, sum, n.Op("mul", nil, coordinate(n, index, inputSizes, i), stride))
		}
		index = sum
	}
	// Plane c of image b starts at (b*C + c) * (number of elements of a plane).
	sizes := n.SymShape(index)
	planes := n.Op("arange", graph.Attrs{"end": n.SizeAttr(sizes[0].Mul(sizes[1])), "dtype": tensor.Int64})
	planes = n.Op("mul", nil, planes, n.SizeOperand(symbolic.Product(inputSizes)))
	ones := slices.Repeat([]sym.Int{sym.Of(1)}, len(inputSizes))
	return n.Op("add", nil, index, n.ReshapeSym(planes, append([]sym.Int{sizes[0], sizes[1]}, ones...)...))
}

// averagePool converts AveragePool.
func averagePool(n *node) []*value { return single(averagePoolOf(n, n.Operand(0))) }

// averagePoolOf adds the average pool of x with the attributes of the node. If the op does not support the padding or
// the dilation, the result is the quotient of [windowSums].
func averagePoolOf(n *node, x *value) *value {
	inputSizes, kernel, windows := poolOf(n, x)
	includePadding := n.Flag("count_include_pad", false)
	isDilated := slices.ContainsFunc(windows.dilation, func(dilation int) bool { return dilation != 1 })
	if attrs := windows.poolAttrs(kernel); attrs != nil && !isDilated {
		attrs["count_include_pad"] = includePadding
		return n.Op(fmt.Sprintf("avg_pool%dd", len(inputSizes)), attrs, x)
	}
	sum, count := windowSums(n, x, inputSizes, windows, includePadding)
	return n.Op("div", nil, sum, count)
}

// windowSums returns the sum of each window and the number of its elements. It computes both by a convolution with
// ones. If includePadding is true, the number includes explicit padding, but not the padding that rounding up adds.
// Otherwise it excludes all padding.
func windowSums(n *node, x *value, inputSizes []sym.Int, windows geometry, includePadding bool) (sum, count *value) {
	after, shape, dtype := windows.paddingAfter(inputSizes), n.SymShape(x), x.DType()
	channels, known := shape[1].Known()
	if !known { // each channel becomes an image with one channel
		channels, x = 1, n.ReshapeSym(x, append([]sym.Int{shape[0].Mul(shape[1]), sym.Of(1)}, inputSizes...)...)
	}
	attrs := graph.Attrs{"stride": windows.stride, "dilation": windows.dilation, "groups": channels}
	op := fmt.Sprintf("conv%dd", len(inputSizes))
	sum = n.Op(op, attrs, padSpatial(n, x, windows.padBefore, after, 0), spatialOnes(n, dtype, channels, windows.kernel))
	if !known {
		sum = n.ReshapeSym(sum, append([]sym.Int{shape[0], shape[1]}, n.SymShape(sum)[2:]...)...)
	}
	// Counted elements are ones, padded with zeros. With includePadding, the explicit padding is among the ones.
	counted, beforeCounted, afterCounted := slices.Clone(inputSizes), slices.Clone(windows.padBefore), slices.Clone(after)
	if includePadding {
		for i := range inputSizes {
			counted[i] = inputSizes[i].Add(windows.padBefore[i]).Add(windows.padAfter[i])
			beforeCounted[i], afterCounted[i] = sym.Int{}, after[i].Sub(windows.padAfter[i])
		}
	}
	ones := padSpatial(n, spatialOnes(n, dtype, 1, counted), beforeCounted, afterCounted, 0)
	count = n.Op(op, graph.Attrs{"stride": windows.stride, "dilation": windows.dilation}, ones,
		spatialOnes(n, dtype, 1, windows.kernel))
	return sum, count
}

// spatialOnes returns ones of the shape [batch, 1, spatial sizes].
func spatialOnes(n *node, dtype tensor.DType, batch int, spatial []sym.Int) *value {
	size := n.SizesAttr(append([]sym.Int{sym.Of(batch), sym.Of(1)}, spatial...)...)
	return n.Op("full", graph.Attrs{"size": size, "fill_value": 1, "dtype": dtype})
}

// lpPool converts LpPool, the p-norm of each window. p is an integer from operator set 2 on, and a float before.
func lpPool(n *node) []*value {
	x := n.Operand(0)
	inputSizes, _, windows := poolOf(n, x)
	power := float64(n.Int("p", 2))
	if n.Opset < 2 {
		power = n.Float("p", 2)
	}
	powers := n.Op("pow", nil, n.Op("abs", nil, x), power)
	sum, _ := windowSums(n, powers, inputSizes, windows, true)
	return single(n.Op("pow", nil, sum, 1/power))
}

// maxUnpool converts MaxUnpool, which writes elements to given positions, and 0 elsewhere. Positions refer to a result
// whose size follows from the windows: (inputSize-1)*stride - padBefore - padAfter + kernel. An output_shape then
// extends or crops this result.
func maxUnpool(n *node) []*value {
	x, index := n.Operand(0), n.Operand(1)
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
	unpooled := n.ReshapeSym(unpooledVector(n, x, index, sizes), sizes...)
	outputShape := n.OperandOrNil(2)
	if outputShape == nil {
		return single(unpooled)
	}
	if wanted := n.Integers(outputShape); len(wanted) == len(sizes) {
		growth := make([]sym.Int, len(sizes))
		for i := range sizes {
			growth[i] = wanted[i].Sub(sizes[i])
		}
		return single(padded(n, unpooled, make([]sym.Int, len(sizes)), growth, 0))
	} else if wanted != nil {
		n.Failf("output_shape has %d numbers, want %d", len(wanted), len(sizes))
	}
	return single(extendedToShape(n, unpooled, outputShape))
}

// unpooledVector returns the elements of a tensor of the given sizes as a vector: the elements of x at the positions in
// index, and 0 elsewhere.
func unpooledVector(n *node, x, index *value, sizes []sym.Int) *value {
	zeros := n.Op("full", graph.Attrs{"size": n.SizesAttr(symbolic.Product(sizes)), "fill_value": 0, "dtype": x.DType()})
	return n.Op("scatter", graph.Attrs{"dim": 0}, zeros, n.Reshape(index, -1), n.Reshape(x, -1))
}

// extendedToShape extends the result of maxUnpool to a computed output_shape. The op constant_pad_nd takes a pair of
// widths for each dimension, the last dimension first: 0 before the dimension, and its growth after it.
func extendedToShape(n *node, unpooled, wantedShape *value) *value {
	rank := n.Rank(unpooled)
	zeros := convert.IntVector(make([]int, rank)...)
	growth := n.Op("sub", nil, wantedShape, n.ShapeVector(unpooled))
	pairs := n.Op("stack", graph.Attrs{"dim": 1}, zeros, n.Op("flip", graph.Attrs{"dims": []int{0}}, growth))
	widths := n.Reshape(pairs, 2*rank)
	attrs := graph.Attrs{"pad": n.IntsAttr(widths), "value": 0}
	return n.Op("constant_pad_nd", attrs, unpooled).WithType(unpooled.DType(), rank)
}

// spatialDims returns the indices of the dimensions from the third on: 2, 3 ... rank-1.
func spatialDims(n *node, x *value) []int {
	var dims []int
	for i := 2; i < n.Rank(x); i++ {
		dims = append(dims, i)
	}
	if dims == nil {
		n.Failf("the operand has no spatial dimensions")
	}
	return dims
}

// globalPool returns the converter of GlobalAveragePool (op mean) or GlobalMaxPool (op amax).
func globalPool(op string) converter {
	return func(n *node) []*value {
		x := n.Operand(0)
		return single(n.Op(op, graph.Attrs{"dim": spatialDims(n, x), "keepdim": true}, x))
	}
}

// globalLpPool converts GlobalLpPool, the p-norm of each channel.
func globalLpPool(n *node) []*value {
	x := n.Operand(0)
	power := float64(n.Int("p", 2))
	return single(n.Op("linalg_vector_norm", graph.Attrs{"ord": power, "dim": spatialDims(n, x), "keepdim": true}, x))
}

// maxRoiPool converts MaxRoiPool with constant regions: it takes the maximum over each cell of a region. A region is a
// row [image, x1, y1, x2, y2] of operand 1.
func maxRoiPool(n *node) []*value {
	x, rois := n.Operand(0), n.Operand(1)
	cellCounts, _ := n.Ints("pooled_shape")
	shape := n.SymShape(x)
	if rois.Data() == nil {
		n.Failf("only regions that are known before the graph runs are supported")
	}
	if len(cellCounts) != 2 || len(shape) != 4 || rois.Data().Rank() != 2 || rois.Data().Shape[1] != 5 {
		n.Failf("want two numbers in pooled_shape, an operand of 4 dimensions, and regions of shape [n, 5]")
	}
	scale := n.Float("spatial_scale", 1)
	var regions []any
	for region := range rois.Data().Shape[0] {
		scaled := func(i int) int { return roundHalf(rois.Data().At(region, i).Float() * scale) }
		start, end := [2]int{scaled(2), scaled(1)}, [2]int{scaled(4), scaled(3)} // [y1, x1] and [y2, x2]
		imageIndex := int(rois.Data().At(region, 0).Int())
		if images, known := shape[0].Known(); imageIndex < 0 || known && imageIndex >= images {
			n.Failf("region %d belongs to image %d, but there are %v images", region, imageIndex, shape[0])
		}
		image := n.Op("slice", graph.Attrs{"dim": 0, "start": imageIndex, "end": imageIndex + 1}, x)
		imageSize := n.KnownNumbers("the sizes of images", shape[2:])
		regions = append(regions, roiCells(n, image, start, end, cellCounts, imageSize))
	}
	if len(regions) == 0 {
		size := n.SizesAttr(sym.Int{}, shape[1], sym.Of(cellCounts[0]), sym.Of(cellCounts[1]))
		return single(n.Op("full", graph.Attrs{"size": size, "fill_value": 0, "dtype": x.DType()}))
	}
	return single(n.Op("cat", nil, regions...))
}

// roundHalf returns x + 0.5, truncated toward 0. If x >= -0.5, this is the nearest integer, and halves are rounded up.
func roundHalf(x float64) int { return int(float64(x) + 0.5) }

// roiCells divides the region of an image between the corners start and end (row and column, inclusive) into h by w
// cells, which may overlap. It returns the maximum of each cell and channel, [1, C, h, w], or 0 for a cell outside the
// image. cellCounts is [h, w], imageSize is [height, width].
func roiCells(n *node, image *value, start, end [2]int, cellCounts, imageSize []int) *value {
	h, w := cellCounts[0], cellCounts[1]
	if h < 1 || w < 1 || h*w > 1<<12 {
		n.Failf("pooled_shape %s is not supported: want 1 to 4096 cells", tensor.ListString(cellCounts))
	}
	// bounds returns start + floor(cell*span/count) and start + ceil((cell+1)*span/count), limited to the image.
	bounds := func(dim, cell int) (low, high int) {
		span, count := max(end[dim]-start[dim]+1, 1), cellCounts[dim]
		low = start[dim] + cell*span/count
		high = start[dim] + ((cell+1)*span+count-1)/count
		return min(max(low, 0), imageSize[dim]), min(max(high, 0), imageSize[dim])
	}
	var cells []any
	for row := range h {
		top, bottom := bounds(0, row)
		for column := range w {
			left, right := bounds(1, column)
			if top >= bottom || left >= right {
				cells = append(cells, n.Op("full", graph.Attrs{"size": n.SizesAttr(sym.Of(1), n.SymShape(image)[1]),
					"fill_value": 0, "dtype": image.DType()}))
				continue
			}
			rows := n.Op("slice", graph.Attrs{"dim": 2, "start": top, "end": bottom}, image)
			elements := n.Op("slice", graph.Attrs{"dim": 3, "start": left, "end": right}, rows)
			cells = append(cells, n.Op("amax", graph.Attrs{"dim": []int{2, 3}}, elements))
		}
	}
	stacked := n.Op("stack", graph.Attrs{"dim": 2}, cells...)
	return n.ReshapeSym(stacked, sym.Of(1), n.SymShape(image)[1], sym.Of(h), sym.Of(w))
}
