package conv

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// convParams are the attributes of a convolution.
type convParams struct {
	stride, dilation []int
	padding, end     []sym.Int // before the input and behind it
	groups           int
	word             string // that stood for the padding
}

// newConvParams spreads single numbers over the dimensions. A padding of twice as many
// numbers lists all begins and then all ends, which PyTorch has not and ONNX needs.
func newConvParams(c *graph.Call, dims int, stride []int, padding graph.IntsOrWord, dilation []int,
	groups int) convParams {
	p := convParams{stride: perDim(stride, dims), groups: groups, word: padding.Word}
	if p.dilation = p.stride; !slices.Equal(dilation, stride) { // neither is written
		p.dilation = perDim(dilation, dims)
	}
	pad := padding.Ints
	if p.word != "" {
		pad = wordPadding(p.word, c.Type(1), p.dilation, dims)
	}
	if len(pad) == 2*dims {
		p.padding, p.end = pad[:dims], pad[dims:]
	} else {
		p.padding = perDim(pad, dims)
		p.end = p.padding // neither is written
	}
	return p
}

// convolution is what convolutions over any number of dimensions share.
type convolution struct {
	name   string
	dims   int
	params func(c *graph.Call) convParams
}

// perDim repeats a single number, as PyTorch does for int[2].
func perDim[T any](v []T, n int) []T {
	if len(v) != 1 {
		return v
	}
	out := make([]T, n)
	for i := range out {
		out[i] = v[0]
	}
	return out
}

// meeting is where an element of the input and one of the window are multiplied, along a dimension.
type meeting struct{ at, tap int }

// addMeetings adds the products of all meetings of an element of the result, which are listed by dimension and place in
// the result. So a reference does no work on padding, or between the elements of a window. ix and iw are the indices of
// the input and the weight, whose last entries it sets.
func addMeetings(s *kit.Accumulator, x, w *tensor.Tensor, ix, iw []int, meet [][][]meeting, place []int) {
	n := len(meet)
	if n == 0 {
		s.Mul(x.At(ix...), w.At(iw...))
		return
	}
	for _, m := range meet[0][place[0]] {
		ix[len(ix)-n], iw[len(iw)-n] = m.at, m.tap
		addMeetings(s, x, w, ix, iw, meet[1:], place[1:])
	}
}

// ref defines convolution, index by index.
func (v convolution) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	p := v.params(c)
	t, err := v.result(c)
	if err != nil {
		return nil, err
	}
	m, padding := kit.OfNumbers(t), kit.NumbersOf(p.padding)
	x, w := in[0], in[1]
	out := tensor.Zeros(m.DType, m.Shape...)
	if out.Numel() == 0 { // other dimensions may be of any size
		return []*tensor.Tensor{out}, nil
	}
	per := w.Shape[0] / p.groups
	lead := x.Rank() - v.dims - 1 // 1 with a batch
	meet := make([][][]meeting, v.dims)
	for d := range meet {
		meet[d] = make([][]meeting, m.Shape[lead+1+d])
		for o := range meet[d] {
			begin := o*p.stride[d] - padding[d]
			first, end := validRange(begin, p.dilation[d], x.Shape[lead+1+d], w.Shape[2+d])
			for k := first; k < end; k++ {
				meet[d][o] = append(meet[d][o], meeting{begin + k*p.dilation[d], k})
			}
		}
	}
	kit.EachIndex(m.Shape, func(index []int) {
		s := kit.Accumulator{D: m.DType}
		o := index[lead]
		ix, iw := slices.Clone(index), make([]int, w.Rank())
		for c := range w.Shape[1] {
			ix[lead], iw[0], iw[1] = o/per*w.Shape[1]+c, o, c
			addMeetings(&s, x, w, ix, iw, meet, index[lead+1:])
		}
		if len(in) > 2 && in[2] != nil {
			s.Add(in[2].At(o))
		}
		out.Set(s.Value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// spreadBytes bounds the products that wait to be added up.
const spreadBytes = 32 << 20

func product3(v [3]int) int { return v[0] * v[1] * v[2] }
