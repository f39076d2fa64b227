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
	padding, end     []sym.Int // begin and end of each dimension
	groups           int
	word             string // padding given as a word: "same" or "valid"
}

// newConvParams repeats single numbers for all dimensions. A padding of 2*dims numbers lists all begins and then all
// ends; ONNX needs this form, PyTorch has no equivalent.
func newConvParams(c *graph.Call, dims int, stride []int, padding graph.IntsOrWord, dilation []int,
	groups int) convParams {
	p := convParams{stride: perDim(stride, dims), groups: groups, word: padding.Word}
	if p.dilation = p.stride; !slices.Equal(dilation, stride) { // neither is modified
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
		p.end = p.padding // neither is modified
	}
	return p
}

// convolution describes a convolution op over dims spatial dimensions.
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

// tapPair is an index of the input and the tap of the window that multiplies it, along one dimension.
type tapPair struct{ at, tap int }

// addProducts adds the products of one element of the result to s. pairs lists, by dimension and index of the result,
// the input elements and taps to multiply; padding and gaps of dilated windows are absent from it. ix and iw are the
// indices of input and weight; addProducts sets their last len(pairs) entries.
func addProducts(s *kit.Accumulator, x, w *tensor.Tensor, ix, iw []int, pairs [][][]tapPair, result []int) {
	n := len(pairs)
	if n == 0 {
		s.Mul(x.At(ix...), w.At(iw...))
		return
	}
	for _, m := range pairs[0][result[0]] {
		ix[len(ix)-n], iw[len(iw)-n] = m.at, m.tap
		addProducts(s, x, w, ix, iw, pairs[1:], result[1:])
	}
}

// ref is the reference implementation: a sum for each index of the result.
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
	pairs := make([][][]tapPair, v.dims)
	for d := range pairs {
		pairs[d] = make([][]tapPair, m.Shape[lead+1+d])
		for o := range pairs[d] {
			begin := o*p.stride[d] - padding[d]
			first, end := validRange(begin, p.dilation[d], x.Shape[lead+1+d], w.Shape[2+d])
			for k := first; k < end; k++ {
				pairs[d][o] = append(pairs[d][o], tapPair{begin + k*p.dilation[d], k})
			}
		}
	}
	kit.EachIndex(m.Shape, func(index []int) {
		s := kit.Accumulator{D: m.DType}
		o := index[lead]
		ix, iw := slices.Clone(index), make([]int, w.Rank())
		for c := range w.Shape[1] {
			ix[lead], iw[0], iw[1] = o/per*w.Shape[1]+c, o, c
			addProducts(&s, x, w, ix, iw, pairs, index[lead+1:])
		}
		if len(in) > 2 && in[2] != nil {
			s.Add(in[2].At(o))
		}
		out.Set(s.Value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// maxProductBytes bounds the memory of the products, or the sampled columns, that are computed before they are reduced.
const maxProductBytes = 32 << 20
