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
	per := 0
	if out.Numel() > 0 {
		per = w.Shape[0] / p.groups
	}
	lead := x.Rank() - v.dims - 1 // 1 with a batch
	kit.EachIndex(m.Shape, func(index []int) {
		s := kit.Accumulator{D: m.DType}
		o := index[lead]
		ix := append([]int{}, index...)
		iw := make([]int, w.Rank())
		iw[0] = o
		kit.EachIndex(w.Shape[1:], func(k []int) {
			ix[lead] = o/per*w.Shape[1] + k[0]
			for d := range v.dims {
				at := index[lead+1+d]*p.stride[d] - padding[d] + k[1+d]*p.dilation[d]
				if at < 0 || at >= x.Shape[lead+1+d] {
					return
				}
				ix[lead+1+d] = at
			}
			copy(iw[1:], k)
			s.Mul(x.At(ix...), w.At(iw...))
		})
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
