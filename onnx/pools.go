package onnx

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// poolOf reads the window of a pool.
func (n *node) poolOf(x *val) (in []int, rank int, g geometry) {
	in, rank = n.images(x)
	kernel := n.perDim("kernel_shape", rank, 0)
	return in, rank, n.geometryOf(in, rank, kernel)
}

// fits reports whether our pools take the padding: alike on both sides, and at most half
// of the window.
func (g geometry) fits() bool {
	for i, k := range g.kernel {
		if g.before[i] > k/2 {
			return false
		}
	}
	return g.even()
}

// windows returns the number of windows along each dimension, and the padding behind that
// the last one asks for where sizes are rounded up. A window that starts behind the
// operand and its front padding is none.
func (g geometry) windows(in []int) (out, after []int) {
	for i, s := range in {
		span := s + g.before[i] + g.after[i] - g.reach(i)
		count := span/g.stride[i] + 1
		if span < 0 {
			count = 0
		}
		if g.ceil && span%g.stride[i] > 0 && count*g.stride[i] < s+g.before[i] {
			count++
		}
		out = append(out, count)
		after = append(after, max(g.after[i], (count-1)*g.stride[i]+g.reach(i)-s-g.before[i]))
	}
	return out, after
}

func (g geometry) attrs() graph.Attrs {
	return graph.Attrs{"kernel_size": g.kernel, "stride": g.stride, "padding": g.before, "ceil_mode": g.ceil}
}

func maxPool(n *node) []*val {
	x := n.x(0)
	d := x.dtype()
	in, rank, g := n.poolOf(x)
	if !d.IsFloat() {
		x = n.cast(x, tensor.Float32) // ONNX has 8-bit integers here, which it holds exactly
	}
	padded := false
	if !g.fits() {
		if in == nil {
			n.failf("this padding needs sizes that are known before the graph runs")
		}
		_, after := g.windows(in)
		lowest := extreme(tensor.Float32, false)
		x = n.spatial(x, g.before, after, lowest)
		padded = true
	}
	attrs := g.attrs()
	attrs["dilation"] = g.dilation
	if padded {
		attrs["padding"], attrs["ceil_mode"] = make([]int, rank), false
	}
	op := fmt.Sprintf("max_pool%dd", rank)
	if !n.wants(1) {
		return one(n.cast(n.op(op, attrs, x), d))
	}
	out := n.ops(op+"_with_indices", attrs, x)
	size := n.shape(x)[2:]
	if padded {
		out[1] = n.unpadded(out[1], size, in, g)
	}
	out[1] = n.wholeIndex(out[1], in)
	return []*val{n.cast(out[0], d), out[1]}
}

// unpadded maps an index in a padded plane to one in the plane itself.
func (n *node) unpadded(index *val, padded, in []int, g geometry) *val {
	unit, step := tensor.Numel(padded), tensor.Numel(in)
	if unit == 0 || step == 0 {
		return index
	}
	var sum *val
	for i := range in {
		unit /= padded[i]
		step /= in[i]
		at := n.op("div", graph.Attrs{"rounding_mode": "floor"}, index, unit)
		at = n.op("sub", nil, n.op("remainder", nil, at, padded[i]), g.before[i])
		at = n.op("mul", nil, at, step)
		if sum == nil {
			sum = at
		} else {
			sum = n.op("add", nil, sum, at)
		}
	}
	return sum
}

// wholeIndex turns an index within a plane into one within the whole value, in row-major
// or, if storage_order asks for it, column-major order of the plane.
func (n *node) wholeIndex(index *val, in []int) *val {
	if in == nil {
		n.failf("indices need sizes that are known before the graph runs")
	}
	s := n.shape(index)
	plane := tensor.Numel(in)
	if n.flag("storage_order", false) && len(in) > 1 && plane > 0 {
		unit, step := plane, 1
		var sum *val
		for _, size := range in {
			unit /= size
			at := n.op("div", graph.Attrs{"rounding_mode": "floor"}, index, unit)
			at = n.op("mul", nil, n.op("remainder", nil, at, size), step)
			if sum == nil {
				sum = at
			} else {
				sum = n.op("add", nil, sum, at)
			}
			step *= size
		}
		index = sum
	}
	planes := n.op("mul", nil, n.op("arange", graph.Attrs{"end": s[0] * s[1], "dtype": tensor.Int64}), plane)
	shape := slices.Clone(s)
	for i := range shape[2:] {
		shape[2+i] = 1
	}
	return n.op("add", nil, index, n.reshape(planes, shape...))
}

func averagePool(n *node) []*val {
	x := n.x(0)
	in, rank, g := n.poolOf(x)
	include := n.flag("count_include_pad", false)
	dilated := slices.ContainsFunc(g.dilation, func(d int) bool { return d != 1 })
	if g.fits() && !dilated {
		attrs := g.attrs()
		attrs["count_include_pad"] = include
		return one(n.op(fmt.Sprintf("avg_pool%dd", rank), attrs, x))
	}
	if in == nil {
		n.failf("this padding needs sizes that are known before the graph runs")
	}
	sum, count := n.windowSums(x, in, g, include)
	return one(n.op("div", nil, sum, count))
}

// windowSums adds up the elements of each window, by a convolution with ones, and counts
// the elements that are no padding, or with include none that is behind it.
func (n *node) windowSums(x *val, in []int, g geometry, include bool) (sum, count *val) {
	rank := len(in)
	_, after := g.windows(in)
	channels := n.known1(x, 1)
	d := x.dtype()
	ones := n.op("full", graph.Attrs{"size": append([]int{channels, 1}, g.kernel...), "fill_value": 1, "dtype": d})
	attrs := graph.Attrs{"stride": g.stride, "dilation": g.dilation, "groups": channels}
	op := fmt.Sprintf("conv%dd", rank)
	sum = n.op(op, attrs, n.spatial(x, g.before, after, 0), ones)
	inside := append([]int{1, 1}, in...)
	before, rest := slices.Clone(g.before), slices.Clone(after)
	if include {
		for i := range in {
			inside[2+i] += g.before[i] + g.after[i]
			before[i], rest[i] = 0, after[i]-g.after[i]
		}
	}
	mask := n.op("full", graph.Attrs{"size": inside, "fill_value": 1, "dtype": d})
	single := n.op("full", graph.Attrs{"size": append([]int{1, 1}, g.kernel...), "fill_value": 1, "dtype": d})
	count = n.op(op, graph.Attrs{"stride": g.stride, "dilation": g.dilation}, n.spatial(mask, before, rest, 0), single)
	return sum, count
}

// lpPool takes the p-norm of each window.
func lpPool(n *node) []*val {
	x := n.x(0)
	in, _, g := n.poolOf(x)
	if in == nil {
		n.failf("it needs sizes that are known before the graph runs")
	}
	p := float64(n.int("p", 2))
	if n.ver < 2 {
		p = n.float("p", 2)
	}
	powers := n.op("pow", nil, n.op("abs", nil, x), p)
	sum, _ := n.windowSums(powers, in, g, true)
	return one(n.op("pow", nil, sum, 1/p))
}

// maxUnpool puts elements at the places that indices into the whole result tell. With an
// output_shape the indices still count in the result that the window gives.
func maxUnpool(n *node) []*val {
	x, index := n.x(0), n.x(1)
	_, rank := n.images(x)
	g := n.geometryOf(nil, rank, n.perDim("kernel_shape", rank, 1))
	s := slices.Clone(n.shape(x))
	for i := range rank {
		s[2+i] = (s[2+i]-1)*g.stride[i] - g.before[i] - g.after[i] + g.kernel[i]
	}
	for _, size := range s {
		if size < 0 {
			n.failf("the result would have the shape %s", tensor.ListString(s))
		}
	}
	var want []int
	if o := n.opt(2); o != nil {
		if o.data == nil {
			return one(n.unpoolInto(x, index, s, o))
		}
		want = n.list(2)
		if len(want) != len(s) {
			n.failf("output_shape has %d numbers, want %d", len(want), len(s))
		}
	}
	y := n.reshape(n.unpooled(x, index, known(intTensor(tensor.Numel(s)))), s...)
	if want != nil {
		before, after := make([]int, len(s)), make([]int, len(s))
		for i := range s {
			after[i] = want[i] - s[i]
		}
		y = n.padded(y, before, after, 0)
	}
	return one(y)
}

func (n *node) unpooled(x, index, total *val) *val {
	zeros := n.op("full", graph.Attrs{"size": n.ref(total), "fill_value": 0, "dtype": x.dtype()}).as(x.dtype(), 1)
	return n.op("scatter", graph.Attrs{"dim": 0}, zeros, n.reshape(index, -1), n.reshape(x, -1))
}

// unpoolInto is maxUnpool for an output_shape that is computed.
func (n *node) unpoolInto(x, index *val, s []int, want *val) *val {
	y := n.reshape(n.unpooled(x, index, known(intTensor(tensor.Numel(s)))), s...)
	more := n.op("sub", nil, want, known(intTensor(s...)))
	none := known(intTensor(make([]int, len(s))...))
	pairs := n.op("stack", graph.Attrs{"dim": 1}, none, n.op("flip", graph.Attrs{"dims": []int{0}}, more))
	widths := n.reshape(pairs, 2*len(s))
	return n.op("constant_pad_nd", graph.Attrs{"pad": n.ref(widths), "value": 0}, y).as(x.dtype(), len(s))
}

// spatialDims lists the dimensions from the third on.
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
		x := n.x(0)
		return one(n.op(op, graph.Attrs{"dim": n.spatialDims(x), "keepdim": true}, x))
	}
}

func globalLpPool(n *node) []*val {
	x := n.x(0)
	p := float64(n.int("p", 2))
	return one(n.op("linalg_vector_norm", graph.Attrs{"ord": p, "dim": n.spatialDims(x), "keepdim": true}, x))
}

// maxRoiPool takes the maximum over cells of regions whose corners are known.
func maxRoiPool(n *node) []*val {
	x, rois := n.x(0), n.x(1)
	size, _ := n.ints("pooled_shape")
	s := n.shape(x)
	if rois.data == nil || len(size) != 2 || len(s) != 4 || rois.data.Rank() != 2 || rois.data.Shape[1] != 5 {
		n.failf("only regions that are known before the graph runs are supported")
	}
	scale := n.float("spatial_scale", 1)
	var list []any
	for r := range rois.data.Shape[0] {
		at := func(i int) int { return roundHalf(rois.data.At(r, i).Float() * scale) }
		batch := int(rois.data.At(r, 0).Int())
		if batch < 0 || batch >= s[0] {
			n.failf("region %d is of image %d, there are %d", r, batch, s[0])
		}
		list = append(list, n.roiCells(n.op("slice", graph.Attrs{"dim": 0, "start": batch, "end": batch + 1}, x),
			[2]int{at(2), at(1)}, [2]int{at(4), at(3)}, size, s[2:]))
	}
	if len(list) == 0 {
		return one(n.op("full", graph.Attrs{"size": []int{0, s[1], size[0], size[1]}, "fill_value": 0, "dtype": x.dtype()}))
	}
	return one(n.op("cat", nil, list...))
}

func roundHalf(f float64) int { return int(f + 0.5) }

// roiCells returns the maxima [1, C, h, w] of one region.
func (n *node) roiCells(x *val, from, to [2]int, size, in []int) *val {
	if size[0] < 1 || size[1] < 1 || size[0]*size[1] > 1<<12 {
		n.failf("pooled_shape %s is not supported", tensor.ListString(size))
	}
	bounds := func(d, cell int) (lo, hi int) {
		span := max(to[d]-from[d]+1, 1)
		lo = from[d] + cell*span/size[d]
		hi = from[d] + ((cell+1)*span+size[d]-1)/size[d]
		return min(max(lo, 0), in[d]), min(max(hi, 0), in[d])
	}
	var cells []any
	for i := range size[0] {
		top, bottom := bounds(0, i)
		for j := range size[1] {
			left, right := bounds(1, j)
			if top >= bottom || left >= right {
				cells = append(cells, n.op("full", graph.Attrs{"size": []int{1, n.shape(x)[1]}, "fill_value": 0,
					"dtype": x.dtype()}))
				continue
			}
			part := n.op("slice", graph.Attrs{"dim": 2, "start": top, "end": bottom}, x)
			part = n.op("slice", graph.Attrs{"dim": 3, "start": left, "end": right}, part)
			cells = append(cells, n.op("amax", graph.Attrs{"dim": []int{2, 3}}, part))
		}
	}
	return n.reshape(n.op("stack", graph.Attrs{"dim": 2}, cells...), 1, n.shape(x)[1], size[0], size[1])
}
