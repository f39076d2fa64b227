package onnx

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// poolOf returns the spatial sizes, the kernel and the geometry of a pool.
func (n *node) poolOf(x *val) (inputSizes []sym.Int, kernel []int, g geometry) {
	inputSizes = n.spatialSizes(x)
	kernel = n.perDim("kernel_shape", len(inputSizes), 0)
	return inputSizes, kernel, n.geometryOf(inputSizes, sym.Ints(kernel...))
}

// poolAttrs returns the attributes of a pool op, or nil if the op does not support the padding. An op supports padding
// that is known, symmetric, and at most half of the window.
func (g geometry) poolAttrs(kernel []int) graph.Attrs {
	padding, known := numbersOf(g.padBefore)
	if !known || !g.isSymmetric() {
		return nil
	}
	for i, k := range kernel {
		if padding[i] > k/2 {
			return nil
		}
	}
	return graph.Attrs{"kernel_size": kernel, "stride": g.stride, "padding": padding, "ceil_mode": g.roundsUp}
}

// paddingAfter returns the padding after each dimension of an operand with the spatial sizes inputSizes. If the number
// of windows is rounded up, the padding includes the missing elements of the last window. There is no window that
// starts after the operand.
func (g geometry) paddingAfter(inputSizes []sym.Int) (after []sym.Int) {
	for i, s := range inputSizes {
		step, front := sym.Of(g.stride[i]), s.Add(g.padBefore[i])
		room := front.Add(g.padAfter[i]).Sub(g.windowExtent(i))
		count := room.Div(step).Add(sym.Of(1)).Max(sym.Int{})
		if g.roundsUp {
			addsWindow := room.Ge(sym.Int{}).And(room.Mod(step).Gt(sym.Int{})).And(count.Mul(step).Lt(front))
			count = sym.Where(addsWindow, count.Add(sym.Of(1)), count)
		}
		end := count.Sub(sym.Of(1)).Mul(step).Add(g.windowExtent(i))
		after = append(after, g.padAfter[i].Max(end.Sub(front)))
	}
	return after
}

func maxPool(n *node) []*val {
	x := n.operand(0)
	dtype := x.dtype()
	inputSizes, kernel, windows := n.poolOf(x)
	if !dtype.IsFloat() {
		x = n.cast(x, tensor.Float32) // ONNX allows 8-bit integers, which float32 represents exactly
	}
	attrs, padded := windows.poolAttrs(kernel), inputSizes
	if attrs == nil {
		after := windows.paddingAfter(inputSizes)
		x = n.padSpatial(x, windows.padBefore, after, extremeNumber(tensor.Float32, false))
		attrs = graph.Attrs{"kernel_size": kernel, "stride": windows.stride}
		padded = make([]sym.Int, len(inputSizes))
		for i := range inputSizes {
			padded[i] = inputSizes[i].Add(windows.padBefore[i]).Add(after[i])
		}
	}
	attrs["dilation"] = windows.dilation
	op := fmt.Sprintf("max_pool%dd", len(inputSizes))
	if !n.isOutputUsed(1) {
		return one(n.cast(n.op(op, attrs, x), dtype))
	}
	out := n.ops(op+"_with_indices", attrs, x)
	if attrs["padding"] == nil {
		out[1] = n.unpaddedPositions(out[1], padded, inputSizes, windows)
	}
	out[1] = n.tensorPositions(out[1], inputSizes)
	return []*val{n.cast(out[0], dtype), out[1]}
}

// coordinate returns the i-th coordinate of each element of index. The elements are row-major positions in a plane.
func (n *node) coordinate(index *val, plane []sym.Int, i int) *val {
	quotient := n.op("div", graph.Attrs{"rounding_mode": "floor"}, index, n.integer(productOf(plane[i+1:]).Max(sym.Of(1))))
	return n.op("remainder", nil, quotient, n.integer(plane[i].Max(sym.Of(1))))
}

// unpaddedPositions converts positions in a padded plane to positions in the plane without padding.
func (n *node) unpaddedPositions(index *val, padded, inputSizes []sym.Int, g geometry) *val {
	var sum *val
	for i := range inputSizes {
		term := n.op("sub", nil, n.coordinate(index, padded, i), n.integer(g.padBefore[i]))
		term = n.op("mul", nil, term, n.integer(productOf(inputSizes[i+1:])))
		if sum == nil {
			sum = term
		} else {
			sum = n.op("add", nil, sum, term)
		}
	}
	return sum
}

// tensorPositions converts positions in a plane to positions in the whole tensor. If the attribute storage_order is
// set, positions within a plane are column-major.
func (n *node) tensorPositions(index *val, inputSizes []sym.Int) *val {
	if n.flag("storage_order", false) && len(inputSizes) > 1 {
		var sum *val
		for i := range inputSizes {
			term := n.op("mul", nil, n.coordinate(index, inputSizes, i), n.integer(productOf(inputSizes[:i])))
			if sum == nil {
				sum = term
			} else {
				sum = n.op("add", nil, sum, term)
			}
		}
		index = sum
	}
	sizes := n.symShape(index)
	planes := n.op("arange", graph.Attrs{"end": n.sizeAttrOf(sizes[0].Mul(sizes[1])), "dtype": tensor.Int64})
	planes = n.op("mul", nil, planes, n.integer(productOf(inputSizes)))
	ones := slices.Repeat([]sym.Int{sym.Of(1)}, len(inputSizes))
	return n.op("add", nil, index, n.reshapeFor(planes, append([]sym.Int{sizes[0], sizes[1]}, ones...)...))
}

func averagePool(n *node) []*val { return one(averagePoolOf(n, n.operand(0))) }

func averagePoolOf(n *node, x *val) *val {
	inputSizes, kernel, windows := n.poolOf(x)
	include := n.flag("count_include_pad", false)
	dilated := slices.ContainsFunc(windows.dilation, func(d int) bool { return d != 1 })
	if attrs := windows.poolAttrs(kernel); attrs != nil && !dilated {
		attrs["count_include_pad"] = include
		return n.op(fmt.Sprintf("avg_pool%dd", len(inputSizes)), attrs, x)
	}
	sum, count := n.windowSums(x, inputSizes, windows, include)
	return n.op("div", nil, sum, count)
}

// windowSums returns the sum of each window and the number of its elements. It computes both by a convolution with
// ones. If include is true, the number includes explicit padding, but not the padding that rounding up adds. Otherwise
// it excludes all padding.
func (n *node) windowSums(x *val, inputSizes []sym.Int, windows geometry, include bool) (sum, count *val) {
	after, shape, dtype := windows.paddingAfter(inputSizes), n.symShape(x), x.dtype()
	channels, known := shape[1].Known()
	if !known { // each channel becomes an image with one channel
		channels, x = 1, n.reshapeFor(x, append([]sym.Int{shape[0].Mul(shape[1]), sym.Of(1)}, inputSizes...)...)
	}
	full := func(a, b sym.Int, sizes []sym.Int) *val {
		size := n.sizeAttr(append([]sym.Int{a, b}, sizes...)...)
		return n.op("full", graph.Attrs{"size": size, "fill_value": 1, "dtype": dtype})
	}
	one := sym.Of(1)
	attrs := graph.Attrs{"stride": windows.stride, "dilation": windows.dilation, "groups": channels}
	op := fmt.Sprintf("conv%dd", len(inputSizes))
	sum = n.op(op, attrs, n.padSpatial(x, windows.padBefore, after, 0), full(sym.Of(channels), one, windows.kernel))
	if !known {
		sum = n.reshapeFor(sum, append([]sym.Int{shape[0], shape[1]}, n.symShape(sum)[2:]...)...)
	}
	inside, before, rest := slices.Clone(inputSizes), slices.Clone(windows.padBefore), slices.Clone(after)
	if include {
		for i := range inputSizes {
			inside[i] = inputSizes[i].Add(windows.padBefore[i]).Add(windows.padAfter[i])
			before[i], rest[i] = sym.Int{}, after[i].Sub(windows.padAfter[i])
		}
	}
	count = n.op(op, graph.Attrs{"stride": windows.stride, "dilation": windows.dilation},
		n.padSpatial(full(one, one, inside), before, rest, 0), full(one, one, windows.kernel))
	return sum, count
}

// lpPool takes the p-norm of each window.
func lpPool(n *node) []*val {
	x := n.operand(0)
	inputSizes, _, windows := n.poolOf(x)
	power := float64(n.int("p", 2))
	if n.opset < 2 {
		power = n.float("p", 2)
	}
	powers := n.op("pow", nil, n.op("abs", nil, x), power)
	sum, _ := n.windowSums(powers, inputSizes, windows, true)
	return one(n.op("pow", nil, sum, 1/power))
}

// maxUnpool converts MaxUnpool, which writes elements to given positions. Positions refer to a result whose size
// follows from the windows. An output_shape extends this result afterwards.
func maxUnpool(n *node) []*val {
	x, index := n.operand(0), n.operand(1)
	inputSizes := n.spatialSizes(x)
	g := n.geometryOf(inputSizes, sym.Ints(n.perDim("kernel_shape", len(inputSizes), 1)...))
	sizes := slices.Clone(n.symShape(x))
	for i := range inputSizes {
		lastStart := inputSizes[i].Sub(sym.Of(1)).Mul(sym.Of(g.stride[i]))
		sizes[2+i] = lastStart.Sub(g.padBefore[i]).Sub(g.padAfter[i]).Add(g.kernel[i])
		if size, known := sizes[2+i].Known(); known && size < 0 {
			n.failf("the result would have the shape %s", tensor.Sizes(sizes))
		}
	}
	unpooled := n.reshapeFor(n.unpooled(x, index, sizes), sizes...)
	outputShape := n.operandOrNil(2)
	if outputShape == nil {
		return one(unpooled)
	}
	if want := n.integers(outputShape); len(want) == len(sizes) {
		for i := range sizes {
			want[i] = want[i].Sub(sizes[i])
		}
		return one(n.padded(unpooled, make([]sym.Int, len(sizes)), want, 0))
	} else if want != nil {
		n.failf("output_shape has %d numbers, want %d", len(want), len(sizes))
	}
	return one(n.unpoolInto(unpooled, outputShape))
}

// unpooled returns the elements of a tensor of the given sizes as a vector: the elements of x at the positions in
// index, and 0 elsewhere.
func (n *node) unpooled(x, index *val, sizes []sym.Int) *val {
	zeros := n.op("full", graph.Attrs{"size": n.sizeAttr(productOf(sizes)), "fill_value": 0, "dtype": x.dtype()})
	return n.op("scatter", graph.Attrs{"dim": 0}, zeros, n.reshape(index, -1), n.reshape(x, -1))
}

// unpoolInto extends the result of maxUnpool to a computed output_shape.
func (n *node) unpoolInto(y, wantedShape *val) *val {
	rank := n.rank(y)
	zeros := constValue(intTensor(make([]int, rank)...))
	growth := n.op("sub", nil, wantedShape, n.shapeVector(y))
	pairs := n.op("stack", graph.Attrs{"dim": 1}, zeros, n.op("flip", graph.Attrs{"dims": []int{0}}, growth))
	widths := n.reshape(pairs, 2*rank)
	return n.op("constant_pad_nd", graph.Attrs{"pad": n.vectorAttr(widths), "value": 0}, y).withType(y.dtype(), rank)
}

// spatialDims returns the dimensions from the third on.
func (n *node) spatialDims(x *val) []int {
	var dims []int
	for i := 2; i < n.rank(x); i++ {
		dims = append(dims, i)
	}
	if dims == nil {
		n.failf("the operand has no spatial dimensions")
	}
	return dims
}

func globalPool(op string) converter {
	return func(n *node) []*val {
		x := n.operand(0)
		return one(n.op(op, graph.Attrs{"dim": n.spatialDims(x), "keepdim": true}, x))
	}
}

func globalLpPool(n *node) []*val {
	x := n.operand(0)
	p := float64(n.int("p", 2))
	return one(n.op("linalg_vector_norm", graph.Attrs{"ord": p, "dim": n.spatialDims(x), "keepdim": true}, x))
}

// maxRoiPool converts MaxRoiPool with constant regions: it takes the maximum over each cell of a region.
func maxRoiPool(n *node) []*val {
	x, rois := n.operand(0), n.operand(1)
	size, _ := n.ints("pooled_shape")
	sizes := n.symShape(x)
	if rois.data == nil || len(size) != 2 || len(sizes) != 4 || rois.data.Rank() != 2 || rois.data.Shape[1] != 5 {
		n.failf("only regions that are known before the graph runs are supported")
	}
	scale := n.float("spatial_scale", 1)
	var list []any
	for r := range rois.data.Shape[0] {
		corner := func(i int) int { return roundHalf(rois.data.At(r, i).Float() * scale) }
		batch := int(rois.data.At(r, 0).Int())
		if images, known := sizes[0].Known(); batch < 0 || known && batch >= images {
			n.failf("region %d belongs to image %d, but there are %v images", r, batch, sizes[0])
		}
		list = append(list, n.roiCells(n.op("slice", graph.Attrs{"dim": 0, "start": batch, "end": batch + 1}, x),
			[2]int{corner(2), corner(1)}, [2]int{corner(4), corner(3)}, size, n.numbers("the sizes of images", sizes[2:])))
	}
	if len(list) == 0 {
		return one(n.op("full", graph.Attrs{"size": n.sizeAttr(sym.Int{}, sizes[1], sym.Of(size[0]), sym.Of(size[1])),
			"fill_value": 0, "dtype": x.dtype()}))
	}
	return one(n.op("cat", nil, list...))
}

func roundHalf(f float64) int { return int(float64(f) + 0.5) }

// roiCells divides the region of image x between the corners `from` and `end` into h by w cells. It returns the
// maximum of each cell and channel, [1, C, h, w]. size is [h, w], imageSize is [height, width].
func (n *node) roiCells(x *val, from, end [2]int, size, imageSize []int) *val {
	if size[0] < 1 || size[1] < 1 || size[0]*size[1] > 1<<12 {
		n.failf("pooled_shape %s is not supported", tensor.ListString(size))
	}
	bounds := func(d, cell int) (lo, hi int) {
		span := max(end[d]-from[d]+1, 1)
		lo = from[d] + cell*span/size[d]
		hi = from[d] + ((cell+1)*span+size[d]-1)/size[d]
		return min(max(lo, 0), imageSize[d]), min(max(hi, 0), imageSize[d])
	}
	var cells []any
	for i := range size[0] {
		top, bottom := bounds(0, i)
		for j := range size[1] {
			left, right := bounds(1, j)
			if top >= bottom || left >= right {
				cells = append(cells, n.op("full", graph.Attrs{"size": n.sizeAttr(sym.Of(1), n.symShape(x)[1]),
					"fill_value": 0, "dtype": x.dtype()}))
				continue
			}
			part := n.op("slice", graph.Attrs{"dim": 2, "start": top, "end": bottom}, x)
			part = n.op("slice", graph.Attrs{"dim": 3, "start": left, "end": right}, part)
			cells = append(cells, n.op("amax", graph.Attrs{"dim": []int{2, 3}}, part))
		}
	}
	all := n.op("stack", graph.Attrs{"dim": 2}, cells...)
	return n.reshapeFor(all, sym.Of(1), n.symShape(x)[1], sym.Of(size[0]), sym.Of(size[1]))
}
