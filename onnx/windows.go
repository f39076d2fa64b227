package onnx

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// geometry is where the windows of a convolution or a pool lie: one number for each spatial
// dimension.
type geometry struct {
	kernel, stride, dilation, before, after []int
	ceil                                    bool
}

// geometryOf reads a window's attributes. in are the spatial sizes of the operand, nil if
// they are not known.
func (n *node) geometryOf(in []int, rank int, kernel []int) geometry {
	g := geometry{kernel: kernel, stride: n.perDim("strides", rank, 1), dilation: n.perDim("dilations", rank, 1),
		before: make([]int, rank), after: make([]int, rank), ceil: n.flag("ceil_mode", false)}
	n.checkSteps(kernel, g.stride, g.dilation)
	switch auto := n.text("auto_pad", "NOTSET"); auto {
	case "NOTSET", "":
		pads := n.checkedPads(rank)
		g.before, g.after = pads[:rank], pads[rank:]
	case "VALID":
	case "SAME_UPPER", "SAME_LOWER":
		if in == nil {
			n.failf("auto_pad %s needs sizes that are known before the graph runs", auto)
		}
		for i := range kernel {
			out := (in[i] + g.stride[i] - 1) / g.stride[i]
			total := max(0, (out-1)*g.stride[i]+g.reach(i)-in[i])
			g.before[i] = total / 2
			if auto == "SAME_LOWER" {
				g.before[i] = total - total/2
			}
			g.after[i] = total - g.before[i]
		}
	default:
		n.failf("auto_pad %q is not supported", auto)
	}
	return g
}

// checkSteps refuses windows whose reach could overflow.
func (n *node) checkSteps(kernel, stride, dilation []int) {
	for i, k := range kernel {
		if k < 1 || stride[i] < 1 || dilation[i] < 1 || k > 1<<30 || dilation[i] > 1<<30 || stride[i] > 1<<30 {
			n.failf("window of size %d, stride %d and dilation %d is not supported", k, stride[i], dilation[i])
		}
	}
}

func (n *node) checkedPads(rank int) []int {
	pads := n.perDim("pads", 2*rank, 0)
	for _, p := range pads {
		if p > 1<<40 || p < -1<<40 {
			n.failf("padding %d is not supported", p)
		}
	}
	return pads
}

// reach is the number of elements from a window's first to its last.
func (g geometry) reach(i int) int { return (g.kernel[i]-1)*g.dilation[i] + 1 }

// perDim reads a list of a length, or fills one.
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

// even reports whether a dimension is padded alike on both sides.
func (g geometry) even() bool {
	for i := range g.before {
		if g.before[i] != g.after[i] || g.before[i] < 0 {
			return false
		}
	}
	return true
}

// spatial pads x by hand where ops cannot: value goes in front of and behind its spatial
// dimensions.
func (n *node) spatial(x *val, before, after []int, value any) *val {
	rank := len(before)
	b, a := make([]int, rank+2), make([]int, rank+2)
	copy(b[2:], before)
	copy(a[2:], after)
	return n.padded(x, b, a, value)
}

// images returns the operand of a window op and its spatial rank, and the sizes if they
// are known.
func (n *node) images(x *val) (in []int, rank int) {
	rank = n.rank(x) - 2
	if rank < 1 || rank > 3 {
		n.failf("want 1 to 3 spatial dimensions, the operand has %d dimensions", rank+2)
	}
	if in = n.sizes(x)[2:]; slices.Contains(in, -1) {
		in = nil
	}
	return in, rank
}

func conv(n *node) []*val {
	return one(n.convolve(n.x(0), n.x(1), n.opt(2)))
}

func (n *node) convolve(x, w, bias *val) *val {
	in, rank := n.images(x)
	if n.rank(w) != rank+2 {
		n.failf("weight has %d dimensions, want %d", n.rank(w), rank+2)
	}
	g := n.geometryOf(in, rank, n.shape(w)[2:])
	attrs := graph.Attrs{"stride": g.stride, "dilation": g.dilation, "groups": n.int("group", 1)}
	switch {
	case g.even():
		attrs["padding"] = g.before
	case slices.Min(g.before) >= 0 && slices.Min(g.after) >= 0:
		attrs["padding"] = slices.Concat(g.before, g.after)
	default: // it is cut
		x = n.spatial(x, g.before, g.after, 0)
	}
	return n.op(fmt.Sprintf("conv%dd", rank), attrs, x, w, bias)
}

// convTranspose computes the whole result and cuts or extends it where padding differs by
// side.
func convTranspose(n *node) []*val {
	x, w, bias := n.x(0), n.x(1), n.opt(2)
	in, rank := n.images(x)
	if n.rank(w) != rank+2 {
		n.failf("weight has %d dimensions, want %d", n.rank(w), rank+2)
	}
	auto := n.text("auto_pad", "NOTSET")
	output, sized := n.ints("output_shape")
	if len(output) == rank+2 {
		output = output[2:]
	}
	kernel := n.shape(w)[2:]
	extra := n.perDim("output_padding", rank, 0)
	stride, dilation := n.perDim("strides", rank, 1), n.perDim("dilations", rank, 1)
	n.checkSteps(kernel, stride, dilation)
	pads := n.checkedPads(rank)
	before, after := pads[:rank], pads[rank:]
	same := auto == "SAME_UPPER" || auto == "SAME_LOWER"
	if sized || same {
		if in == nil {
			n.failf("output_shape and auto_pad need sizes that are known before the graph runs")
		}
		if sized && len(output) != rank {
			n.failf("output_shape has %d numbers, want %d", len(output), rank)
		}
		for i := range kernel {
			want := in[i] * stride[i]
			if sized {
				want = output[i]
			}
			total := stride[i]*(in[i]-1) + extra[i] + (kernel[i]-1)*dilation[i] + 1 - want
			// A negative total extends the result, and halves are rounded down then too.
			before[i] = total - total>>1
			if auto == "SAME_UPPER" {
				before[i] = total >> 1
			}
			after[i] = total - before[i]
		}
	}
	g := geometry{kernel: kernel, stride: stride, dilation: dilation, before: before, after: after}
	attrs := graph.Attrs{"stride": stride, "dilation": dilation, "groups": n.int("group", 1)}
	return one(n.transposed(x, w, bias, g, extra, attrs))
}

func (n *node) transposed(x, w, bias *val, g geometry, extra []int, attrs graph.Attrs) *val {
	rank := len(extra)
	op := fmt.Sprintf("conv_transpose%dd", rank)
	direct := g.even()
	for i, e := range extra {
		if e < 0 || e > 1<<30 {
			n.failf("output padding %d is not supported", e)
		}
		direct = direct && (e == 0 || e < max(g.stride[i], g.dilation[i]))
	}
	if direct {
		attrs["padding"], attrs["output_padding"] = g.before, extra
		return n.op(op, attrs, x, w, bias)
	}
	y := n.op(op, attrs, x, w)
	before, after := make([]int, rank), make([]int, rank)
	for i := range extra {
		before[i], after[i] = -g.before[i], extra[i]-g.after[i]
	}
	y = n.spatial(y, before, after, 0)
	if bias == nil {
		return y
	}
	return n.op("add", nil, y, n.alignedAt(bias, 1, rank+2))
}

func deformConv(n *node) []*val {
	x, w := n.x(0), n.x(1)
	in, rank := n.images(x)
	g := n.geometryOf(in, rank, n.shape(w)[2:])
	if rank != 2 || !g.even() {
		n.failf("only two spatial dimensions, padded alike on both sides, are supported")
	}
	attrs := graph.Attrs{"stride": g.stride, "padding": g.before, "dilation": g.dilation, "groups": n.int("group", 1),
		"offset_groups": n.int("offset_group", 1)}
	return one(n.op("deform_conv2d", attrs, x, w, n.x(2), n.opt(4), n.opt(3)))
}

// col2Im adds up blocks at their places in an image.
func col2Im(n *node) []*val {
	x, image, block := n.x(0), n.list(1), n.list(2)
	rank := len(image)
	s := n.shape(x)
	if len(block) != rank || len(s) != 3 || rank == 0 || rank > maxRank {
		n.failf("want [N, C, L] and as many block sizes as image sizes")
	}
	for _, size := range image {
		if size < 1 || size > 1<<31 {
			n.failf("an image of size %d is not supported", size)
		}
	}
	g := n.geometryOf(image, rank, block)
	count, windows := 1, 1
	for i, c := range g.counts(image) {
		count, windows = count*block[i], windows*c
		if count > 1<<24 || windows > 1<<31 {
			n.failf("%d blocks of %d elements are not supported", windows, count)
		}
	}
	if s[1]%count != 0 || windows != s[2] || count > 1<<24/max(windows, 1) {
		n.failf("operand %s does not hold %d blocks of %d elements", tensor.ListString(s), windows, count)
	}
	index, total := g.places(image)
	c := s[1] / count
	flat := n.reshape(x, s[0], c, count*s[2])
	places := n.op("expand", graph.Attrs{"size": []int{s[0], c, len(index)}}, known(intTensor(index...)))
	zeros := n.op("full", graph.Attrs{"size": []int{s[0], c, total}, "fill_value": 0, "dtype": x.dtype()})
	y := n.op("scatter_reduce", graph.Attrs{"dim": 2, "reduce": "sum"}, zeros, places, flat)
	padded := []int{s[0], c}
	before, after := make([]int, rank), make([]int, rank)
	for i := range image {
		padded = append(padded, image[i]+g.before[i]+g.after[i])
		before[i], after[i] = -g.before[i], -g.after[i]
	}
	return one(n.spatial(n.reshape(y, padded...), before, after, 0))
}

// counts returns the number of windows along each dimension of an image.
func (g geometry) counts(image []int) []int {
	var out []int
	for i := range image {
		span := image[i] + g.before[i] + g.after[i] - g.reach(i)
		if span < 0 {
			span = -g.stride[i]
		}
		out = append(out, span/g.stride[i]+1)
	}
	return out
}

// places returns, for every element of a window and every window, its index in the padded
// image, and the number of elements of that.
func (g geometry) places(image []int) (index []int, total int) {
	index, total = []int{0}, 1
	for i := range image {
		total *= image[i] + g.before[i] + g.after[i]
	}
	extend := func(counts, steps []int) {
		unit := total
		for i, c := range counts {
			unit /= max(1, image[i]+g.before[i]+g.after[i])
			next := make([]int, 0, len(index)*c)
			for _, at := range index {
				for k := range c {
					next = append(next, at+k*steps[i]*unit)
				}
			}
			index = next
		}
	}
	extend(g.kernel, g.dilation)
	extend(g.counts(image), g.stride)
	return index, total
}
