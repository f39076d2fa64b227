package onnx

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// dft takes its axis as an attribute before operator set 20.
func dft(n *node) []*val {
	x := n.x(0)
	rank := n.rank(x)
	axis := n.int("axis", 1)
	if n.ver >= 20 {
		axis = -2
		if n.has(2) {
			axis = int(n.number(n.x(2)).Int())
		}
	}
	attrs := graph.Attrs{"dim": n.axis(axis, rank), "inverse": n.flag("inverse", false), "onesided": n.flag("onesided", false)}
	if l := n.opt(1); l != nil {
		attrs["dft_length"] = n.refOne(l)
	}
	return one(n.op("dft", attrs, x))
}

// stft transforms frames of a signal, each multiplied by a window.
func stft(n *node) []*val {
	x, win := n.x(0), n.opt(2)
	step := int(n.number(n.x(1)).Int())
	rank := n.rank(x)
	length := 0
	switch {
	case n.has(3):
		length = int(n.number(n.x(3)).Int())
	case win != nil:
		length = n.shape(win)[0]
	default:
		n.failf("it has neither a window nor a frame length")
	}
	if rank == 2 {
		x, rank = n.op("unsqueeze", graph.Attrs{"dim": 2}, x), 3
	}
	frames := n.op("unfold", graph.Attrs{"dimension": 1, "size": length, "step": step}, x) // [batch, frames, parts, length]
	frames = n.op("transpose", graph.Attrs{"dim0": 2, "dim1": 3}, frames)
	if win != nil {
		frames = n.op("mul", nil, frames, n.reshape(n.like(win, x), length, 1))
	}
	return one(n.op("dft", graph.Attrs{"dim": 2, "onesided": n.flag("onesided", true)}, frames).ofRank(rank + 1))
}

// melWeightMatrix makes triangles over the bins of a spectrum.
func melWeightMatrix(n *node) []*val {
	d := n.dtypeAttr("output_datatype")
	if d == tensor.Invalid {
		d = tensor.Float32
	}
	at := func(i int) float64 { return n.number(n.x(i)).Float() }
	bands, length, rate, lower, upper := int(at(0)), int(at(1)), at(2), at(3), at(4)
	bins := length/2 + 1
	if bands < 0 || length < 0 || bands > 1<<20 || bins > 1<<24/(bands+1) {
		n.failf("%d bands of %d bins are not served", bands, bins)
	}
	mel := func(f float64) float64 { return 2595 * math.Log10(1+f/700) }
	low := mel(lower)
	step := (mel(upper) - low) / float64(bands+2)
	edges := make([]int, bands+2)
	for i := range edges {
		f := 700 * (math.Pow(10, (float64(i)*step+low)/2595) - 1)
		edges[i] = int(math.Floor(float64(length+1) * f / rate))
	}
	out := tensor.Zeros(tensor.Float64, bins, bands)
	set := func(bin, band int, v float64) {
		if bin >= 0 && bin < bins {
			out.Set(tensor.FloatScalar(v), bin, band)
		}
	}
	for i := range bands {
		left, centre, right := edges[i], edges[i+1], edges[i+2]
		if centre == left {
			set(centre, i, 1)
		}
		for j := max(left, 0); j <= min(centre, bins) && centre > left; j++ {
			set(j, i, float64(j-left)/float64(centre-left))
		}
		for j := max(centre, 0); j < min(right, bins) && right > centre; j++ {
			set(j, i, float64(right-j)/float64(right-centre))
		}
	}
	return one(known(out.CopyTo(tensor.New(d, bins, bands))))
}

// seed turns the seed of an operator, a float, into one of ours; without one each node has
// its own.
func (n *node) seed() int {
	if n.attrs["seed"] != nil {
		return int(math.Float32bits(float32(n.float("seed", 0))))
	}
	return n.count
}

// random draws numbers of a given shape.
func random(op string) converter {
	return func(n *node) []*val {
		d := n.dtypeAttr("dtype")
		if d == tensor.Invalid {
			d = tensor.Float32
		}
		shape, _ := n.ints("shape")
		return one(n.moved(op, n.emit(op, graph.Attrs{"size": shape, "dtype": d, "seed": n.seed()})[0]))
	}
}

// randomLike draws numbers in the shape of the operand.
func randomLike(op string) converter {
	return func(n *node) []*val {
		x := n.x(0)
		d := n.dtypeAttr("dtype")
		if d == tensor.Invalid {
			d = x.dtype()
		}
		return one(n.moved(op, n.emit(op+"_like", graph.Attrs{"dtype": d, "seed": n.seed()}, x)[0]))
	}
}

// moved scales and shifts standard numbers.
func (n *node) moved(op string, x *val) *val {
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
	x := n.x(0)
	d := n.dtypeAttr("dtype")
	if d == tensor.Invalid {
		d = x.dtype()
	}
	draw := n.emit("rand_like", graph.Attrs{"dtype": x.dtype(), "seed": n.seed()}, x)[0]
	return one(n.cast(n.op("lt", nil, draw, x), d))
}

// multinomial draws from unnormalised log-probabilities: where a uniform number falls among
// the running sums.
func multinomial(n *node) []*val {
	x := n.x(0)
	d := n.dtypeAttr("dtype")
	if d == tensor.Invalid {
		d = tensor.Int32
	}
	s := n.shape(x)
	count := n.int("sample_size", 1)
	if len(s) != 2 || s[1] < 1 || count < 0 {
		n.failf("want [batch, classes] and a number of samples, got %s and %d", tensor.ListString(s), count)
	}
	sums := n.op("cumsum", graph.Attrs{"dim": 1}, n.op("softmax", graph.Attrs{"dim": 1}, x))
	draw := n.emit("rand", graph.Attrs{"size": []int{s[0], count, 1}, "dtype": x.dtype(), "seed": n.seed()})[0]
	below := n.op("le", nil, n.op("unsqueeze", graph.Attrs{"dim": 1}, sums), draw)
	at := n.op("sum", graph.Attrs{"dim": []int{2}}, below)
	return one(n.cast(n.op("clamp", graph.Attrs{"max": s[1] - 1}, at), d))
}
