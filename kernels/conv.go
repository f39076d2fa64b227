package kernels

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

type conv2dAttrs struct {
	Stride   []int            `attr:"stride" default:"1" doc:"steps of the window: [height, width]"`
	Padding  graph.IntsOrWord `attr:"padding" default:"0" words:"same|valid" doc:"zeros around the image: [height, width], or [top, left, bottom, right]; valid: none, same: as many as give the result the size of the input"`
	Dilation []int            `attr:"dilation" default:"1" doc:"distance between the elements of the window: [height, width]"`
	Groups   int              `attr:"groups" default:"1" doc:"channels are parted into groups that do not see one another"`
}

type conv1dAttrs struct {
	Stride   []int            `attr:"stride" default:"1" doc:"step of the window"`
	Padding  graph.IntsOrWord `attr:"padding" default:"0" words:"same|valid" doc:"zeros at both ends, or at the begin and at the end; valid: none, same: as many as give the result the size of the input"`
	Dilation []int            `attr:"dilation" default:"1" doc:"distance between the elements of the window"`
	Groups   int              `attr:"groups" default:"1" doc:"channels are parted into groups that do not see one another"`
}

// Conv2d is the cross-correlation of images with a window.
var Conv2d = define[conv2dAttrs](graph.Op{
	Images: graph.ImageOp,
	Name:   "conv2d",
	Doc: "Convolves images: input [n, c, h, w] or [c, h, w], weight [o, c/groups, kh, kw] and bias [o] give " +
		"[n, o, oh, ow] with oh = (h + 2*padding - dilation*(kh-1) - 1)/stride + 1. As in PyTorch the window is not flipped.",
	Params: []graph.Param{input, weight, optBias},
	Kind:   graph.Requires,
	Infer:  conv2d.infer,
	Impls:  conv2d.impls(),
	Flops:  conv2d.flops,
	Ref:    conv2d.ref,
	Examples: []graph.Example{
		{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 6, 7), tensor.New(tensor.Float32, 4, 3, 3, 3), tensor.New(tensor.Float32, 4)},
			Attrs: graph.Attrs{"padding": 1, "stride": []int{2, 1}}},
		{In: []tensor.Meta{nhwc(2, 4, 5, 5), tensor.New(tensor.Float32, 6, 2, 3, 3)}, Attrs: graph.Attrs{"groups": 2}},
		{In: []tensor.Meta{nhwc(1, 4, 5, 5), tensor.New(tensor.Float32, 4, 1, 3, 3)}, Attrs: graph.Attrs{"groups": 4, "dilation": 2}},
		{In: []tensor.Meta{tensor.New(tensor.Float32, 1, 2, 5, 6), tensor.New(tensor.Float32, 3, 2, 2, 3)}, Attrs: graph.Attrs{"padding": "same"}},
	},
})

// Conv1d is the cross-correlation of sequences with a window.
var Conv1d = define[conv1dAttrs](graph.Op{
	Name: "conv1d",
	Doc: "Convolves sequences: input [n, c, l] or [c, l], weight [o, c/groups, k] and bias [o] give [n, o, ol] with " +
		"ol = (l + 2*padding - dilation*(k-1) - 1)/stride + 1.",
	Params: []graph.Param{input, weight, optBias},
	Infer:  conv1d.infer,
	Impls:  conv1d.impls(),
	Flops:  conv1d.flops,
	Ref:    conv1d.ref,
	Examples: []graph.Example{
		{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 9), tensor.New(tensor.Float32, 4, 3, 3), tensor.New(tensor.Float32, 4)}},
		{In: []tensor.Meta{tensor.New(tensor.Float64, 3, 9), tensor.New(tensor.Float64, 3, 1, 2)}, Attrs: graph.Attrs{"groups": 3, "stride": 2}},
	},
})

// convParams are the attributes of a convolution.
type convParams struct {
	stride, padding, dilation []int
	end                       []int // padding behind the input; padding is that before it
	groups                    int
	word                      string // that stood for the padding
}

// newConvParams spreads single numbers over the dimensions. A padding of twice as many
// numbers lists all begins and then all ends, which PyTorch has not and ONNX needs.
func newConvParams(c *graph.Call, dims int, stride []int, padding graph.IntsOrWord, dilation []int, groups int) convParams {
	p := convParams{stride: perDim(stride, dims), dilation: perDim(dilation, dims), groups: groups, word: padding.Word}
	pad := padding.Ints
	if p.word != "" {
		pad = wordPadding(p.word, c.Type(1), p.dilation, dims)
	}
	if p.padding, p.end = perDim(pad, dims), perDim(pad, dims); len(pad) == 2*dims {
		p.padding, p.end = pad[:dims], pad[dims:]
	}
	return p
}

// convolution is what convolutions over any number of dimensions share.
type convolution struct {
	name   string
	dims   int
	params func(c *graph.Call) convParams
}

var (
	conv2d = convolution{"conv2d", 2, func(c *graph.Call) convParams {
		a := attrs[conv2dAttrs](c)
		return newConvParams(c, 2, a.Stride, a.Padding, a.Dilation, a.Groups)
	}}
	conv1d = convolution{"conv1d", 1, func(c *graph.Call) convParams {
		a := attrs[conv1dAttrs](c)
		return newConvParams(c, 1, a.Stride, a.Padding, a.Dilation, a.Groups)
	}}
)

// perDim repeats a single number, as PyTorch does for int[2].
func perDim(v []int, n int) []int {
	if len(v) != 1 {
		return v
	}
	out := make([]int, n)
	for i := range out {
		out[i] = v[0]
	}
	return out
}

// ref defines convolution, index by index.
func (v convolution) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	p := v.params(c)
	t, err := v.result(c)
	if err != nil {
		return nil, err
	}
	m := ofNumbers(t)
	x, w := in[0], in[1]
	out := tensor.Zeros(m.DType, m.Shape...)
	per := 0
	if out.Numel() > 0 {
		per = w.Shape[0] / p.groups
	}
	lead := x.Rank() - v.dims - 1 // 1 with a batch
	eachIndex(m.Shape, func(index []int) {
		s := sumKind{d: m.DType}
		o := index[lead]
		ix := append([]int{}, index...)
		eachIndex(w.Shape[1:], func(k []int) {
			ix[lead] = o/per*w.Shape[1] + k[0]
			for d := range v.dims {
				at := index[lead+1+d]*p.stride[d] - p.padding[d] + k[1+d]*p.dilation[d]
				if at < 0 || at >= x.Shape[lead+1+d] {
					return
				}
				ix[lead+1+d] = at
			}
			s.mul(x.At(ix...), w.At(append([]int{o}, k...)...))
		})
		if len(in) > 2 && in[2] != nil {
			s.add(in[2].At(o))
		}
		out.Set(s.value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}
