package kernels

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

type quantConvAttrs struct {
	Stride   []int `attr:"stride" default:"1" doc:"steps of the window"`
	Padding  []int `attr:"padding" default:"0" doc:"zero points around the input: one number for each dimension, or all begins and then all ends"`
	Dilation []int `attr:"dilation" default:"1" doc:"distance between the elements of the window"`
	Groups   int   `attr:"groups" default:"1" doc:"channels are parted into groups that do not see one another"`
}

// quantConv holds the places of the operands of a quantised convolution; -1: there is none.
type quantConv struct {
	name         string
	w            int
	xZero, wZero int
	scaled       bool
}

// ConvInteger and QLinearConv are ONNX's operators, over one to three dimensions.
var (
	ConvInteger = quantConvOp("conv_integer", "Convolves bytes after subtracting zero points, into int32: x [n, c, ...] and w [o, c/groups, ...]. x_zero_point has one element, w_zero_point one or one for each output channel.",
		quantConv{"conv_integer", 1, 2, 3, false}, "x", "w", "?x_zero_point", "?w_zero_point")
	QLinearConv = quantConvOp("qlinear_conv", "Convolves quantised values and quantises the result: x [n, c, ...] and w [o, c/groups, ...]. Scales and zero points of w have one element or one for each output channel; bias is int32 [o].",
		quantConv{"qlinear_conv", 3, 2, 5, true}, "x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", "?bias")
)

func quantConvOp(name, doc string, q quantConv, operands ...string) *graph.Op {
	u8, f32 := func(shape ...int) tensor.Meta { return tensor.New(tensor.Uint8, shape...) }, tensor.New(tensor.Float32)
	ex := graph.Example{In: []tensor.Meta{u8(1, 2, 5, 4), tensor.New(tensor.Int8, 3, 2, 3, 3), u8(), tensor.New(tensor.Int8, 3)}, Attrs: graph.Attrs{"padding": []int{1, 0, 1, 1}}}
	if q.scaled {
		ex = graph.Example{In: []tensor.Meta{u8(1, 2, 5), f32, u8(), u8(4, 1, 3), tensor.New(tensor.Float32, 4), u8(4), f32, u8(), tensor.New(tensor.Int32, 4)}, Attrs: graph.Attrs{"groups": 2}}
	}
	return define[quantConvAttrs](graph.Op{
		Name: name, Doc: doc, Params: quantParams(operands),
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			m, err := q.result(c)
			return graph.New1(m.Type()), err
		},
		Compile:  q.compile,
		Ref:      q.ref,
		Examples: []graph.Example{ex},
	})
}

// inner is the convolution of floats with the same attributes.
func (q *quantConv) inner(c *graph.Call) (op *graph.Op, at graph.Attrs, err error) {
	a, rank := attrs[quantConvAttrs](c), c.Meta(0).Rank()
	if rank < 3 || rank > 5 {
		return nil, nil, fmt.Errorf("%s: expected x to have 3 to 5 dimensions, but got %d", q.name, rank)
	}
	op = []*graph.Op{Conv1d, Conv2d, Conv3d}[rank-3]
	return op, graph.Attrs{"stride": a.Stride, "padding": a.Padding, "dilation": a.Dilation, "groups": a.Groups}, nil
}

// floatCall is the call of the inner convolution in dtype d.
func (q *quantConv) floatCall(c *graph.Call, d tensor.DType) (*graph.Op, *graph.Call, error) {
	op, at, err := q.inner(c)
	if err != nil {
		return nil, nil, err
	}
	in := &graph.Call{}
	if in.Attrs, err = op.Schema.Decode(at, nil); err != nil {
		return nil, nil, err
	}
	for _, i := range []int{0, q.w} {
		in.In = append(in.In, graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: tensor.New(d, c.Meta(i).Shape...)}})
	}
	return op, in, nil
}

func (q *quantConv) result(c *graph.Call) (tensor.Meta, error) {
	if err := byteDType(q.name, c, 0, q.w, q.xZero, q.wZero); err != nil {
		return tensor.Meta{}, err
	}
	op, in, err := q.floatCall(c, tensor.Float32)
	if err != nil {
		return tensor.Meta{}, err
	}
	res, err := op.Infer(in)
	if err != nil {
		return tensor.Meta{}, err
	}
	m := tensor.New(tensor.Int32, res[0].Meta().Shape...)
	if _, err := q.places(c, m); err != nil {
		return m, err
	}
	if z := c.Meta(q.xZero); c.Has(q.xZero) && z.Numel() != 1 {
		return m, fmt.Errorf("%s: expected x_zero_point to have 1 element, but got shape %s", q.name, tensor.ListString(z.Shape))
	}
	if q.scaled {
		if err := byteDType(q.name, c, 7); err != nil {
			return m, err
		}
		if c.Meta(1).Numel() != 1 || c.Meta(6).Numel() != 1 || c.Meta(7).Numel() != 1 {
			return m, fmt.Errorf("%s: expected one x_scale, y_scale and y_zero_point", q.name)
		}
		if b := c.Meta(8); c.Has(8) && (b.DType != tensor.Int32 || b.Rank() != 1 || b.Shape[0] != m.Shape[1]) {
			return m, fmt.Errorf("%s: expected bias to be int32 [%d], but got %v %s", q.name, m.Shape[1], b.DType, tensor.ListString(b.Shape))
		}
		m.DType = c.Meta(7).DType
	}
	return m, nil
}

// places tells where the zero points of the weight lie in it, and its scales in the result.
func (q *quantConv) places(c *graph.Call, out tensor.Meta) (p quantPlaces, err error) {
	w := c.Meta(q.w)
	if p.b, err = perIndex(q.name, "w_zero_point", c.Meta(q.wZero), tensor.Numel(w.Shape[1:]), w.Shape[0]); err != nil {
		return p, err
	}
	scale := tensor.Meta{}
	if q.scaled {
		scale = c.Meta(4)
	}
	p.a, _ = perIndex(q.name, "", tensor.Meta{}, 0, 0)
	if _, err = perIndex(q.name, "w_scale", scale, 1, w.Shape[0]); err != nil {
		return p, err
	}
	// The result's channels index the bias even where the weight has one scale.
	p.cols = quantIndex{inner: max(1, tensor.Numel(out.Shape[2:])), n: max(1, out.Shape[1])}
	return p, nil
}

func (q *quantConv) compile(c *graph.Call) (*graph.Kernel, error) {
	out := c.Out[0]
	p, err := q.places(c, out)
	if err != nil || out.Numel() == 0 {
		return &graph.Kernel{}, err
	}
	op, at, err := q.inner(c)
	if err != nil {
		return nil, err
	}
	w := c.Meta(q.w)
	d := exactDType(tensor.Numel(w.Shape[1:]), c.Meta(0).DType, w.DType)
	x := newCompound(c)
	xs, ws := x.zeroed(x.in(0), x.in(q.xZero), d, p.a), x.zeroed(x.in(q.w), x.in(q.wZero), d, p.b)
	sums := x.temp(d, out.Shape...)
	x.call(op, at, []spot{sums}, xs, ws)
	if !q.scaled {
		x.wholeNumbers(sums)
		return x.kernel()
	}
	scale := x.dense(x.in(4), tensor.Float32)
	if o := w.Shape[0]; scale.meta.Numel() != o {
		// One scale serves every channel.
		all := x.temp(tensor.Float32, o)
		m := tensor.Meta{DType: tensor.Float32, Shape: []int{o}, Strides: []int{0}}
		if scale.place < 0 && scale.data != nil {
			t := tensor.Zeros(tensor.Float32, o)
			for i := range o {
				t.Set(tensor.FloatScalar(scale.data.At(unravel(0, scale.meta.Shape)...).Float()), i)
			}
			all = spot{meta: t.Meta, place: -1, data: t}
		} else {
			x.copies(copyJob{dst: all.side(), src: scale.show(m).side()})
		}
		scale = all
	}
	x.requantized(sums, x.in(1), scale, x.in(6), x.in(7), x.in(8), p.a, p.cols)
	return x.kernel()
}

// ref defines the convolution by that of float64 operands less their zero points.
func (q *quantConv) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	m, err := q.result(c)
	if err != nil {
		return nil, err
	}
	for len(in) < 9 {
		in = append(in, nil)
	}
	op, call, err := q.floatCall(c, tensor.Float64)
	if err != nil {
		return nil, err
	}
	less := func(v, zero *tensor.Tensor) *tensor.Tensor {
		t := tensor.Zeros(tensor.Float64, v.Shape...)
		eachIndex(t.Shape, func(index []int) {
			z := 0.0
			if zero != nil {
				z = oneOf(zero, index, 0)
			}
			t.Set(tensor.FloatScalar(v.At(index...).Float()-z), index...)
		})
		return t
	}
	sums, err := op.Ref(call, []*tensor.Tensor{less(in[0], in[q.xZero]), less(in[q.w], in[q.wZero])})
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(m.DType, m.Shape...)
	eachIndex(m.Shape, func(index []int) {
		v := sums[0].At(index...).Float()
		if q.scaled {
			if in[8] != nil {
				v += in[8].At(index[1]).Float()
			}
			s := float32(oneOf(in[1], index, 0)) * float32(oneOf(in[4], index, 1)) / float32(oneOf(in[6], index, 0))
			v = float64(saturated(m.DType, math.RoundToEven(float64(float32(v)*s))+oneOf(in[7], index, 0)))
		}
		out.Set(tensor.IntScalar(int64(v)), index...)
	})
	return []*tensor.Tensor{out}, nil
}
