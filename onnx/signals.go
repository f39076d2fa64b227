package onnx

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// dft converts DFT. The axis is an attribute before operator set 20, and an operand from set 20 on.
func dft(n *node) []*val {
	x := n.operand(0)
	rank := n.rank(x)
	axis := n.int("axis", 1)
	if n.opset >= 20 {
		axis = -2
		if n.hasOperand(2) {
			axis = int(n.number(n.operand(2)).Int())
		}
	}
	attrs := graph.Attrs{"dim": n.axis(axis, rank), "inverse": n.flag("inverse", false),
		"onesided": n.flag("onesided", false)}
	if l := n.operandOrNil(1); l != nil {
		attrs["dft_length"] = n.scalarAttr(l)
	}
	return one(n.op("dft", attrs, x))
}

// stft converts STFT, which transforms frames of a signal, each multiplied by a window.
func stft(n *node) []*val {
	x, win := n.operand(0), n.operandOrNil(2)
	rank := n.rank(x)
	var length any
	switch {
	case n.hasOperand(3):
		length = n.scalarAttr(n.operand(3))
	case win != nil:
		length = n.sizeAttrOf(n.symShape(win)[0])
	default:
		n.failf("it has neither a window nor a frame length")
	}
	if rank == 2 {
		x, rank = n.op("unsqueeze", graph.Attrs{"dim": 2}, x), 3
	}
	// [batch, frames, parts, length]
	frames := n.op("unfold", graph.Attrs{"dimension": 1, "size": length, "step": n.scalarAttr(n.operand(1))},
		x).withRank(rank + 1)
	frames = n.op("transpose", graph.Attrs{"dim0": 2, "dim1": 3}, frames)
	if win != nil {
		frames = n.op("mul", nil, frames, n.reshape(n.convertLike(win, x), -1, 1)).withRank(rank + 1)
	}
	return one(n.op("dft", graph.Attrs{"dim": 2, "onesided": n.flag("onesided", true)}, frames).withRank(rank + 1))
}

// melWeightMatrix converts MelWeightMatrix. Each mel band is a triangle over the bins of a spectrum: the weight rises
// from the left edge to the centre, and falls to the right edge.
func melWeightMatrix(n *node) []*val {
	dtype := n.dtypeAttr("output_datatype")
	if dtype == tensor.Invalid {
		dtype = tensor.Float32
	}
	param := func(i int) *val {
		x := n.operand(i)
		if n.rank(x) > 0 {
			x = n.reshape(x)
		}
		return n.cast(x, tensor.Float64)
	}
	apply := func(op string, x, y any) *val { return n.op(op, nil, x, y).withType(tensor.Float64, 1) }
	bands, length, rate := n.operand(0), n.operand(1), param(2)
	mel := func(f *val) *val {
		return apply("mul", n.op("log10", nil, apply("add", apply("div", f, 700.0), 1.0)), 2595.0)
	}
	low := mel(param(3))
	step := apply("div", apply("sub", mel(param(4)), low), apply("add", param(0), 2.0))
	edges := n.op("arange", graph.Attrs{"end": n.scalarAttr(n.op("add", nil, bands, 2)),
		"dtype": tensor.Float64}).withType(tensor.Float64, 1)
	edges = apply("div", apply("add", apply("mul", edges, step), low), 2595.0)
	hertz := apply("mul", apply("sub", n.op("pow", nil, 10.0, edges).withType(tensor.Float64, 1), 1.0), 700.0)
	edges = n.op("floor", nil, apply("div", apply("mul", hertz, apply("add", param(1), 1.0)), rate))
	side := func(start int, end any) *val {
		return n.op("slice", graph.Attrs{"dim": 0, "start": start, "end": end}, edges).withType(tensor.Float64, 1)
	}
	left, centre, right := side(0, -2), side(1, -1), side(2, nil)
	half := n.op("div", graph.Attrs{"rounding_mode": "floor"}, length, 2)
	bins := n.op("arange", graph.Attrs{"end": n.scalarAttr(n.op("add", nil, half, 1)), "dtype": tensor.Float64}).withType(
		tensor.Float64, 1)
	bin := n.reshape(bins, -1, 1)
	and := func(a, b *val) *val { return n.op("logical_and", nil, a, b) }
	rising := apply("div", apply("sub", bin, left), apply("sub", centre, left))
	falling := apply("div", apply("sub", right, bin), apply("sub", right, centre))
	zero := n.op("zeros_like", nil, rising)
	y := n.op("where", nil, and(n.op("ge", nil, bin, left), n.op("lt", nil, bin, centre)), rising, zero)
	y = n.op("where", nil, n.op("eq", nil, bin, centre), n.op("ones_like", nil, rising), y)
	y = n.op("where", nil, and(n.op("gt", nil, bin, centre), n.op("lt", nil, bin, right)), falling, y)
	return one(n.cast(y.withType(tensor.Float64, 2), dtype))
}

// seed returns the attribute seed, a float or an integer, as an integer. Without the attribute, each node has a
// different seed.
func (n *node) seed() int {
	switch a := n.attrs["seed"]; {
	case a == nil:
		return n.nodeCount
	case a.Type == pb.AttributeInt:
		return n.int("seed", 0)
	}
	return int(math.Float32bits(float32(n.float("seed", 0))))
}

// random draws numbers of a given shape.
func random(op string) converter {
	return func(n *node) []*val {
		dtype := n.dtypeAttr("dtype")
		if dtype == tensor.Invalid {
			dtype = tensor.Float32
		}
		shape, _ := n.ints("shape")
		return one(n.rescaled(op, n.emit(op, graph.Attrs{"size": shape, "dtype": dtype, "seed": n.seed()})[0]))
	}
}

// randomLike draws numbers in the shape of the operand.
func randomLike(op string) converter {
	return func(n *node) []*val {
		x := n.operand(0)
		dtype := n.dtypeAttr("dtype")
		if dtype == tensor.Invalid {
			dtype = x.dtype()
		}
		return one(n.rescaled(op, n.emit(op+"_like", graph.Attrs{"dtype": dtype, "seed": n.seed()}, x)[0]))
	}
}

// rescaled scales and shifts standard random numbers x by the attributes of the node.
func (n *node) rescaled(op string, x *val) *val {
	scale, shift := n.float("scale", 1), n.float("mean", 0)
	if op == "rand" {
		shift = n.float("low", 0)
		scale = n.float("high", 1) - shift
	}
	if scale != 1 {
		x = n.op("mul", nil, x, scale)
	}
	if shift != 0 {
		x = n.op("add", nil, x, shift)
	}
	return x
}

func bernoulli(n *node) []*val {
	x := n.operand(0)
	dtype := n.dtypeAttr("dtype")
	if dtype == tensor.Invalid {
		dtype = x.dtype()
	}
	draw := n.emit("rand_like", graph.Attrs{"dtype": x.dtype(), "seed": n.seed()}, x)[0]
	return one(n.cast(n.op("lt", nil, draw, x), dtype))
}

// multinomial converts Multinomial, which samples classes from unnormalized log-probabilities. It compares uniform
// random numbers with the cumulative sums of the probabilities.
func multinomial(n *node) []*val {
	x := n.operand(0)
	dtype := n.dtypeAttr("dtype")
	if dtype == tensor.Invalid {
		dtype = tensor.Int32
	}
	sizes := n.symShape(x)
	count := n.int("sample_size", 1)
	if len(sizes) != 2 || sizes[1].Same(sym.Int{}) || count < 0 {
		n.failf("want [batch, classes] and a number of samples, got %s and %d", tensor.Sizes(sizes), count)
	}
	sums := n.op("cumsum", graph.Attrs{"dim": 1}, n.op("softmax", graph.Attrs{"dim": 1}, x))
	draw := n.emit("rand", graph.Attrs{"size": n.sizeAttr(sizes[0], sym.Of(count), sym.Of(1)), "dtype": x.dtype(),
		"seed": n.seed()})[0]
	below := n.op("le", nil, n.op("unsqueeze", graph.Attrs{"dim": 1}, sums), draw)
	class := n.op("sum", graph.Attrs{"dim": []int{2}}, below)
	return one(n.cast(n.atMost(class, sizes[1].Sub(sym.Of(1))), dtype))
}
