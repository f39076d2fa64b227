package operators

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts operators of signal processing (windows, Fourier transforms, the mel scale) and of random numbers.
//
// A value is a tensor of the model, and node.Op adds an op to the graph. A sym.Int is a size: a number, or an
// expression over symbols. WithRank and WithType record the rank and the dtype of a result whose shape depends on data.

// cosineWindow returns the converter of a cosine window: a - b cos(x) + c cos(2x), where x = 2π * position / period.
// The period is the size of the window or, with periodic=0, size-1 (at least 1).
func cosineWindow(a, b, c float64) converter {
	return func(n *node) []*value {
		dtype := n.DTypeAttr("output_datatype")
		if dtype == tensor.Invalid {
			dtype = tensor.Float32
		}
		size := n.Operand(0)
		position := floatRange(n, size)
		period := n.Cast(size, tensor.Float64)
		if period.IsDynamic() || period.Meta().Rank() > 0 {
			period = n.Reshape(period)
		}
		if !n.Flag("periodic", true) {
			period = n.Op("clamp", graph.Attrs{"min": 1}, n.Op("sub", nil, period, 1))
		}
		angle := n.Op("div", nil, n.Op("mul", nil, position, tau), period)
		window := n.Op("add", nil, n.Op("mul", nil, n.Op("cos", nil, angle), -b), a)
		if c != 0 {
			window = n.Op("add", nil, window, n.Op("mul", nil, n.Op("cos", nil, n.Op("mul", nil, angle, 2.0)), c))
		}
		return single(n.Cast(window, dtype))
	}
}

const tau = 6.283185307179586476925286766559 // 2π

// dft converts DFT. The axis is an attribute (1 by default) before operator set 20, and an operand (-2 by default) from
// set 20 on.
func dft(n *node) []*value {
	x := n.Operand(0)
	rank := n.Rank(x)
	axis := any(n.Int("axis", 1))
	if n.Opset >= 20 {
		axis = -2
		if n.HasOperand(2) {
			axis = n.IntAttr(n.Operand(2))
		}
	}
	if number, isKnown := axis.(int); isKnown {
		axis = n.Axis(number, rank)
	}
	attrs := graph.Attrs{"dim": axis, "inverse": n.Flag("inverse", false), "onesided": n.Flag("onesided", false)}
	if length := n.OperandOrNil(1); length != nil {
		attrs["dft_length"] = n.IntAttr(length)
	}
	return single(n.Op("dft", attrs, x).WithRank(rank))
}

// stft converts STFT, which transforms frames of a signal. The signal is [batch, length] or [batch, length, 1 or 2].
// Each frame is multiplied by a window (operand 2). Frames start at multiples of operand 1. Operand 3 is the frame
// length, by default the size of the window. For example, frames of 4 elements that start at multiples of 2 divide a
// signal of 8 elements into the elements 0 to 3, 2 to 5 and 4 to 7.
func stft(n *node) []*value {
	x, window := n.Operand(0), n.OperandOrNil(2)
	rank := n.Rank(x)
	var length any
	switch {
	case n.HasOperand(3):
		length = n.IntAttr(n.Operand(3))
	case window != nil && n.Rank(window) != 1:
		n.Failf("the window has %d dimensions, want 1", n.Rank(window))
	case window != nil:
		length = n.SizeAttr(n.SymShape(window)[0])
	default:
		n.Failf("it has neither a window nor a frame length")
	}
	if rank == 2 {
		x, rank = n.Op("unsqueeze", graph.Attrs{"dim": 2}, x), 3
	}
	// unfold returns [batch, frames, 1 or 2, frame length], where dimension 2 has the real and the imaginary part.
	frames := n.Op("unfold", graph.Attrs{"dimension": 1, "size": length, "step": n.IntAttr(n.Operand(1))},
		x).WithRank(rank + 1)
	frames = n.Op("transpose", graph.Attrs{"dim0": 2, "dim1": 3}, frames)
	if window != nil {
		frames = n.Op("mul", nil, frames, n.Reshape(convertLike(n, window, x), -1, 1)).WithRank(rank + 1)
	}
	return single(n.Op("dft", graph.Attrs{"dim": 2, "onesided": n.Flag("onesided", true)}, frames).WithRank(rank + 1))
}

// melWeightMatrix converts MelWeightMatrix. Each mel band is a triangle over the bins of a spectrum: the weight rises
// from 0 at the left edge to 1 at the centre, and falls to 0 at the right edge. The operands are the number of bands,
// the length of the transform, the sample rate, and the lowest and the highest frequency.
func melWeightMatrix(n *node) []*value {
	dtype := n.DTypeAttr("output_datatype")
	if dtype == tensor.Invalid {
		dtype = tensor.Float32
	}
	edges := melEdges(n)
	edgesOf := func(start int, end any) *value {
		return n.Op("slice", graph.Attrs{"dim": 0, "start": start, "end": end}, edges).WithType(tensor.Float64, 1)
	}
	left, centre, right := edgesOf(0, -2), edgesOf(1, -1), edgesOf(2, nil)
	nyquistBin := n.Op("div", graph.Attrs{"rounding_mode": "floor"}, n.Operand(1), 2)
	bins := floatRange(n, n.Op("add", nil, nyquistBin, 1))
	bin := n.Reshape(bins, -1, 1) // broadcasts to [bins, bands]
	and := func(a, b *value) *value { return n.Op("logical_and", nil, a, b) }
	rising := floatOp(n, "div", floatOp(n, "sub", bin, left), floatOp(n, "sub", centre, left))
	falling := floatOp(n, "div", floatOp(n, "sub", right, bin), floatOp(n, "sub", right, centre))
	zero := n.Op("zeros_like", nil, rising)
	weights := n.Op("where", nil, and(n.Op("ge", nil, bin, left), n.Op("lt", nil, bin, centre)), rising, zero)
	weights = n.Op("where", nil, n.Op("eq", nil, bin, centre), n.Op("ones_like", nil, rising), weights)
	weights = n.Op("where", nil, and(n.Op("gt", nil, bin, centre), n.Op("lt", nil, bin, right)), falling, weights)
	return single(n.Cast(weights.WithType(tensor.Float64, 2), dtype))
}

// melEdges returns the edges of the bands of [melWeightMatrix] as numbers of bins: floor(hertz * (length+1) / rate).
// There are bands+2 edges at equal distances on the mel scale, mel = low + i*(high-low)/(bands+2). The frequency is
// hertz = 700 * (10^(mel/2595) - 1). Band i has the edges i, i+1 and i+2.
func melEdges(n *node) *value {
	number := func(i int) *value {
		x := n.Operand(i)
		if n.Rank(x) > 0 {
			x = n.Reshape(x)
		}
		return n.Cast(x, tensor.Float64)
	}
	apply := func(op string, x, y any) *value { return floatOp(n, op, x, y) }
	mel := func(hertz *value) *value { // 2595 * log10(hertz/700 + 1)
		return apply("mul", n.Op("log10", nil, apply("add", apply("div", hertz, 700.0), 1.0)), 2595.0)
	}
	rate := number(2)
	low := mel(number(3))
	step := apply("div", apply("sub", mel(number(4)), low), apply("add", number(0), 2.0))
	mels := apply("add", apply("mul", floatRange(n, n.Op("add", nil, n.Operand(0), 2)), step), low)
	hertz := apply("mul", apply("sub", apply("pow", 10.0, apply("div", mels, 2595.0)), 1.0), 700.0)
	return n.Op("floor", nil, apply("div", apply("mul", hertz, apply("add", number(1), 1.0)), rate))
}

// floatOp applies an op to float64 values. It records rank 1. melWeightMatrix records the rank of its result, a matrix,
// at the end.
func floatOp(n *node, op string, x, y any) *value {
	return n.Op(op, nil, x, y).WithType(tensor.Float64, 1)
}

// floatRange returns the float64 vector 0, 1 ... end-1.
func floatRange(n *node, end *value) *value {
	attrs := graph.Attrs{"end": n.IntAttr(end), "dtype": tensor.Float64}
	return n.Op("arange", attrs).WithType(tensor.Float64, 1)
}

// seed returns the attribute seed, an integer or the bits of a float, as an integer. Without the attribute, each node
// has a different seed.
func seed(n *node) int {
	switch attr := n.RawAttr("seed"); {
	case attr == nil:
		return n.NodeCount()
	case attr.Type == pb.AttributeInt:
		return n.Int("seed", 0)
	}
	return int(math.Float32bits(float32(n.Float("seed", 0))))
}

// random returns the converter of RandomNormal (op randn) or RandomUniform (op rand). It uses Emit, because an op
// without operands would be folded to a constant: the graph would return the same numbers in every run.
func random(op string) converter {
	return func(n *node) []*value {
		dtype := n.DTypeAttr("dtype")
		if dtype == tensor.Invalid {
			dtype = tensor.Float32
		}
		shape, _ := n.Ints("shape")
		return single(rescaled(n, op, n.Emit(op, graph.Attrs{"size": shape, "dtype": dtype, "seed": seed(n)})[0]))
	}
}

// randomLike returns the converter of RandomNormalLike or RandomUniformLike: [random] in the shape of the operand.
func randomLike(op string) converter {
	return func(n *node) []*value {
		x := n.Operand(0)
		dtype := n.DTypeAttr("dtype")
		if dtype == tensor.Invalid {
			dtype = x.DType()
		}
		return single(rescaled(n, op, n.Emit(op+"_like", graph.Attrs{"dtype": dtype, "seed": seed(n)}, x)[0]))
	}
}

// rescaled scales and shifts the standard random numbers x: from [0, 1) to [low, high) if op is rand, and otherwise to
// the attributes mean and scale.
func rescaled(n *node, op string, x *value) *value {
	scale, shift := n.Float("scale", 1), n.Float("mean", 0)
	if op == "rand" {
		shift = n.Float("low", 0)
		scale = n.Float("high", 1) - shift
	}
	if scale != 1 {
		x = n.Op("mul", nil, x, scale)
	}
	if shift != 0 {
		x = n.Op("add", nil, x, shift)
	}
	return x
}

// bernoulli converts Bernoulli: 1 with the probability x, otherwise 0.
func bernoulli(n *node) []*value {
	x := n.Operand(0)
	dtype := n.DTypeAttr("dtype")
	if dtype == tensor.Invalid {
		dtype = x.DType()
	}
	// In float16, a random number would be below 1e-4 with the probability 5e-4.
	uniform := n.Emit("rand_like", graph.Attrs{"dtype": atLeastFloat32(x.DType()), "seed": seed(n)}, x)[0]
	return single(n.Cast(n.Op("lt", nil, uniform, x), dtype))
}

// multinomial converts Multinomial, which samples classes from unnormalized log-probabilities. It compares uniform
// random numbers with the cumulative sums of the probabilities.
func multinomial(n *node) []*value {
	x := n.Operand(0)
	dtype := n.DTypeAttr("dtype")
	if dtype == tensor.Invalid {
		dtype = tensor.Int32
	}
	sizes := n.SymShape(x)
	count := n.Int("sample_size", 1)
	if len(sizes) != 2 || sizes[1].Same(sym.Int{}) || count < 0 {
		n.Failf("want [batch, classes] and a number of samples, got %s and %d", tensor.Sizes(sizes), count)
	}
	cumulative := n.Op("cumsum", graph.Attrs{"dim": 1}, n.Op("softmax", graph.Attrs{"dim": 1}, x))
	uniform := n.Emit("rand", graph.Attrs{"size": n.SizesAttr(sizes[0], sym.Of(count), sym.Of(1)),
		"dtype": atLeastFloat32(x.DType()), "seed": seed(n)})[0]
	// The class is the number of cumulative sums that are at most the random number. It is limited to the last class,
	// because rounding may leave the last sum below 1. The comparison has shape [batch, samples, classes].
	below := n.Op("le", nil, n.Op("unsqueeze", graph.Attrs{"dim": 1}, cumulative), uniform)
	class := n.Op("sum", graph.Attrs{"dim": []int{2}}, below)
	return single(n.Cast(atMost(n, class, sizes[1].Sub(sym.Of(1))), dtype))
}

// atMost returns the minimum of x and an integer.
func atMost(n *node, x *value, limit sym.Int) *value {
	if number, known := limit.Known(); known {
		return n.Op("clamp", graph.Attrs{"max": number}, x)
	}
	return n.Op("minimum", nil, x, n.SizeOperand(limit))
}
