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

// poolOf returns the spatial sizes, the kernel and the geometry of a pool.
func poolOf(n *node, x *value) (inputSizes []sym.Int, kernel []int, g geometry) {
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

func maxPool(n *node) []*value {
	x := n.Operand(0)
	dtype := x.DType()
	inputSizes, kernel, windows := poolOf(n, x)
	if !dtype.IsFloat() {
		x = n.Cast(x, tensor.Float32) // ONNX allows 8-bit integers, which float32 represents exactly
	}
	attrs, padded := windows.poolAttrs(kernel), inputSizes
	if attrs == nil {
		after := windows.paddingAfter(inputSizes)
		x = padSpatial(n, x, windows.padBefore, after, extremeNumber(tensor.Float32, false))
		attrs = graph.Attrs{"kernel_size": kernel, "stride": windows.stride}
		padded = make([]sym.Int, len(inputSizes))
		for i := range inputSizes {
			padded[i] = inputSizes[i].Add(windows.padBefore[i]).Add(after[i])
		}
	}
	attrs["dilation"] = windows.dilation
	op := fmt.Sprintf("max_pool%dd", len(inputSizes))
	if !n.IsOutputUsed(1) {
		return one(n.Cast(n.Op(op, attrs, x), dtype))
	}
	out := n.Ops(op+"_with_indices", attrs, x)
	if attrs["padding"] == nil {
		out[1] = unpaddedPositions(n, out[1], padded, inputSizes, windows)
	}
	out[1] = tensorPositions(n, out[1], inputSizes)
	return []*value{n.Cast(out[0], dtype), out[1]}
}

// coordinate returns the i-th coordinate of each element of index. The elements are row-major positions in a plane.
func coordinate(n *node, index *value, plane []sym.Int, i int) *value {
	divisor := n.SizeOperand(symbolic.Product(plane[i+1:]).Max(sym.Of(1)))
	quotient := n.Op("div", graph.Attrs{"rounding_mode": "floor"}, index, divisor)
	return n.Op("remainder", nil, quotient, n.SizeOperand(plane[i].Max(sym.Of(1))))
}

// unpaddedPositions converts positions in a padded plane to positions in the plane without padding.
func unpaddedPositions(n *node, index *value, padded, inputSizes []sym.Int, g geometry) *value {
	var sum *value
	for i := range inputSizes {
		term := n.Op("sub", nil, coordinate(n, index, padded, i), n.SizeOperand(g.padBefore[i]))
		term = n.Op("mul", nil, term, n.SizeOperand(symbolic.Product(inputSizes[i+1:])))
		if sum == nil {
			sum = term
		} else {
			sum = n.Op("add", nil, sum, term)
		}
	}
	return sum
}

// tensorPositions converts positions in a plane to positions in the whole tensor. If the attribute storage_order is
// set, positions within a plane are column-major.
func tensorPositions(n *node, index *value, inputSizes []sym.Int) *value {
	if n.Flag("storage_order", false) && len(inputSizes) > 1 {
		var sum *value
		for i := range inputSizes {
			term := n.Op("mul", nil, coordinate(n, index, inputSizes, i), n.SizeOperand(symbolic.Product(inputSizes[:i])))
			if sum == nil {
				sum = term
			} else {
				sum = n.Op("add", nil, sum, term)
			}
		}
		index = sum
	}
	sizes := n.SymShape(index)
	planes := n.Op("arange", graph.Attrs{"end": n.SizeAttr(sizes[0].Mul(sizes[1])), "dtype": tensor.Int64})
	planes = n.Op("mul", nil, planes, n.SizeOperand(symbolic.Product(inputSizes)))
	ones := slices.Repeat([]sym.Int{sym.Of(1)}, len(inputSizes))
	return n.Op("add", nil, index, n.ReshapeSym(planes, append([]sym.Int{sizes[0], sizes[1]}, ones...)...))
}

func averagePool(n *node) []*value { return one(averagePoolOf(n, n.Operand(0))) }

func averagePoolOf(n *node, x *value) *value {
	inputSizes, kernel, windows := poolOf(n, x)
	include := n.Flag("count_include_pad", false)
	dilated := slices.ContainsFunc(windows.dilation, func(d int) bool { return d != 1 })
	if attrs := windows.poolAttrs(kernel); attrs != nil && !dilated {
		attrs["count_include_pad"] = include
		return n.Op(fmt.Sprintf("avg_pool%dd", len(inputSizes)), attrs, x)
	}
	sum, count := windowSums(n, x, inputSizes, windows, include)
	return n.Op("div", nil, sum, count)
}

// windowSums returns the sum of each window and the number of its elements. It computes both by a convolution with
// ones. If include is true, the number includes explicit padding, but not the padding that rounding up adds. Otherwise
// it excludes all padding.
func windowSums(n *node, x *value, inputSizes []sym.Int, windows geometry, include bool) (sum, count *value) {
	after, shape, dtype := windows.paddingAfter(inputSizes), n.SymShape(x), x.DType()
	channels, known := shape[1].Known()
	if !known { // each channel becomes an image with one channel
		channels, x = 1, n.ReshapeSym(x, append([]sym.Int{shape[0].Mul(shape[1]), sym.Of(1)}, inputSizes...)...)
	}
	full := func(a, b sym.Int, sizes []sym.Int) *value {
		size := n.SizesAttr(append([]sym.Int{a, b}, sizes...)...)
		return n.Op("full", graph.Attrs{"size": size, "fill_value": 1, "dtype": dtype})
	}
	one := sym.Of(1)
	attrs := graph.Attrs{"stride": windows.stride, "dilation": windows.dilation, "groups": channels}
	op := fmt.Sprintf("conv%dd", len(inputSizes))
	sum = n.Op(op, attrs, padSpatial(n, x, windows.padBefore, after, 0), full(sym.Of(channels), one, windows.kernel))
	if !known {
		sum = n.ReshapeSym(sum, append([]sym.Int{shape[0], shape[1]}, n.SymShape(sum)[2:]...)...)
	}
	inside, before, rest := slices.Clone(inputSizes), slices.Clone(windows.padBefore), slices.Clone(after)
	if include {
		for i := range inputSizes {
			inside[i] = inputSizes[i].Add(windows.padBefore[i]).Add(windows.padAfter[i])
			before[i], rest[i] = sym.Int{}, after[i].Sub(windows.padAfter[i])
		}
	}
	count = n.Op(op, graph.Attrs{"stride": windows.stride, "dilation": windows.dilation},
		padSpatial(n, full(one, one, inside), before, rest, 0), full(one, one, windows.kernel))
	return sum, count
}

// lpPool takes the p-norm of each window.
func lpPool(n *node) []*value {
	x := n.Operand(0)
	inputSizes, _, windows := poolOf(n, x)
	power := float64(n.Int("p", 2))
	if n.Opset < 2 {
		power = n.Float("p", 2)
	}
	powers := n.Op("pow", nil, n.Op("abs", nil, x), power)
	sum, _ := windowSums(n, powers, inputSizes, windows, true)
	return one(n.Op("pow", nil, sum, 1/power))
}

// maxUnpool converts MaxUnpool, which writes elements to given positions. Positions refer to a result whose size
// follows from the windows. An output_shape extends this result afterwards.
func maxUnpool(n *node) []*value {
	x, index := n.Operand(0), n.Operand(1)
	inputSizes := spatialSizes(n, x)
	g := geometryOf(n, inputSizes, sym.Ints(n.PerDim("kernel_shape", len(inputSizes), 1)...))
	sizes := slices.Clone(n.SymShape(x))
	for i := range inputSizes {
		lastStart := inputSizes[i].Sub(sym.Of(1)).Mul(sym.Of(g.stride[i]))
		sizes[2+i] = lastStart.Sub(g.padBefore[i]).Sub(g.padAfter[i]).Add(g.kernel[i])
		if size, known := sizes[2+i].Known(); known && size < 0 {
			n.Failf("the result would have the shape %s", tensor.Sizes(sizes))
		}
	}
	unpooled := n.ReshapeSym(unpooled(n, x, index, sizes), sizes...)
	outputShape := n.OperandOrNil(2)
	if outputShape == nil {
		return one(unpooled)
	}
	if want := n.Integers(outputShape); len(want) == len(sizes) {
		for i := range sizes {
			want[i] = want[i].Sub(sizes[i])
		}
		return one(padded(n, unpooled, make([]sym.Int, len(sizes)), want, 0))
	} else if want != nil {
		n.Failf("output_shape has %d numbers, want %d", len(want), len(sizes))
	}
	return one(unpoolInto(n, unpooled, outputShape))
}

// unpooled returns the elements of a tensor of the given sizes as a vector: the elements of x at the positions in
// index, and 0 elsewhere.
func unpooled(n *node, x, index *value, sizes []sym.Int) *value {
	zeros := n.Op("full", graph.Attrs{"size": n.SizesAttr(symbolic.Product(sizes)), "fill_value": 0, "dtype": x.DType()})
	return n.Op("scatter", graph.Attrs{"dim": 0}, zeros, n.Reshape(index, -1), n.Reshape(x, -1))
}

// unpoolInto extends the result of maxUnpool to a computed output_shape.
func unpoolInto(n *node, y, wantedShape *value) *value {
	rank := n.Rank(y)
	zeros := convert.IntVector(make([]int, rank)...)
	growth := n.Op("sub", nil, wantedShape, n.ShapeVector(y))
	pairs := n.Op("stack", graph.Attrs{"dim": 1}, zeros, n.Op("flip", graph.Attrs{"dims": []int{0}}, growth))
	widths := n.Reshape(pairs, 2*rank)
	return n.Op("constant_pad_nd", graph.Attrs{"pad": n.VectorAttr(widths), "value": 0}, y).WithType(y.DType(), rank)
}

// spatialDims returns the dimensions from the third on.
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

func globalPool(op string) converter {
	return func(n *node) []*value {
		x := n.Operand(0)
		return one(n.Op(op, graph.Attrs{"dim": spatialDims(n, x), "keepdim": true}, x))
	}
}

func globalLpPool(n *node) []*value {
	x := n.Operand(0)
	p := float64(n.Int("p", 2))
	return one(n.Op("linalg_vector_norm", graph.Attrs{"ord": p, "dim": spatialDims(n, x), "keepdim": true}, x))
}

// maxRoiPool converts MaxRoiPool with constant regions: it takes the maximum over each cell of a region.
func maxRoiPool(n *node) []*value {
	x, rois := n.Operand(0), n.Operand(1)
	size, _ := n.Ints("pooled_shape")
	sizes := n.SymShape(x)
	if rois.Data() == nil || len(size) != 2 || len(sizes) != 4 || rois.Data().Rank() != 2 || rois.Data().Shape[1] != 5 {
		n.Failf("only regions that are known before the graph runs are supported")
	}
	scale := n.Float("spatial_scale", 1)
	var list []any
	for r := range rois.Data().Shape[0] {
		corner := func(i int) int { return roundHalf(rois.Data().At(r, i).Float() * scale) }
		batch := int(rois.Data().At(r, 0).Int())
		if images, known := sizes[0].Known(); batch < 0 || known && batch >= images {
			n.Failf("region %d belongs to image %d, but there are %v images", r, batch, sizes[0])
		}
		list = append(list, roiCells(n, n.Op("slice", graph.Attrs{"dim": 0, "start": batch, "end": batch + 1}, x),
			[2]int{corner(2), corner(1)}, [2]int{corner(4), corner(3)}, size, n.KnownNumbers("the sizes of images", sizes[2:])))
	}
	if len(list) == 0 {
		return one(n.Op("full", graph.Attrs{"size": n.SizesAttr(sym.Int{}, sizes[1], sym.Of(size[0]), sym.Of(size[1])),
			"fill_value": 0, "dtype": x.DType()}))
	}
	return one(n.Op("cat", nil, list...))
}

func roundHalf(f float64) int { return int(float64(f) + 0.5) }

// roiCells divides the region of image x between the corners `from` and `end` into h by w cells. It returns the
// maximum of each cell and channel, [1, C, h, w]. size is [h, w], imageSize is [height, width].
func roiCells(n *node, x *value, from, end [2]int, size, imageSize []int) *value {
	if size[0] < 1 || size[1] < 1 || size[0]*size[1] > 1<<12 {
		n.Failf("pooled_shape %s is not supported", tensor.ListString(size))
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
				cells = append(cells, n.Op("full", graph.Attrs{"size": n.SizesAttr(sym.Of(1), n.SymShape(x)[1]),
					"fill_value": 0, "dtype": x.DType()}))
				continue
			}
			part := n.Op("slice", graph.Attrs{"dim": 2, "start": top, "end": bottom}, x)
			part = n.Op("slice", graph.Attrs{"dim": 3, "start": left, "end": right}, part)
			cells = append(cells, n.Op("amax", graph.Attrs{"dim": []int{2, 3}}, part))
		}
	}
	all := n.Op("stack", graph.Attrs{"dim": 2}, cells...)
	return n.ReshapeSym(all, sym.Of(1), n.SymShape(x)[1], sym.Of(size[0]), sym.Of(size[1]))
}
