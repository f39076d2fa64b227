package copies

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Span maps consecutive indices of an output dimension to indices of the operand. For i from 0 to Count-1, index
// OutStart + i of the output reads index InStart + i*InStep. InStep is 1, -1 or 0.
type Span struct{ OutStart, Count, InStart, InStep int }

// SpanKernel returns a kernel that copies src to dst by spans. spans[d] covers dimension d of dst without overlap. Each
// combination of one span per dimension is a job.
func SpanKernel(dst, src kit.Buffer, spans [][]Span) (*graph.Kernel, error) {
	jobs := []Job{{Dst: dst, Src: src}}
	for d := range spans {
		var next []Job
		for _, j := range jobs {
			for _, s := range spans[d] {
				dstMeta, err := j.Dst.Meta.Narrow(d, s.OutStart, s.Count)
				if err != nil {
					return nil, err
				}
				part := j
				part.Dst = j.Dst.View(dstMeta)
				if part.Src, err = spanView(j.Src, d, s); err != nil {
					return nil, err
				}
				if s.InStep < 0 {
					part = part.Reversed(d)
				}
				next = append(next, part)
			}
		}
		jobs = next
	}
	return Kernel(jobs...), nil
}

// IdentitySpans returns spans that map each index of the output to the same index of the operand.
func IdentitySpans(shape []int) [][]Span {
	out := make([][]Span, len(shape))
	for d, n := range shape {
		out[d] = []Span{{Count: n, InStep: 1}}
	}
	return out
}

// SpanRef is the reference implementation of [SpanKernel]. tables[d][i] is the index of the operand that index i of the
// result reads, along dimension d. A nil table is the identity.
func SpanRef(in *tensor.Tensor, tables [][]int, shape []int) *tensor.Tensor {
	out := tensor.Zeros(in.DType, shape...)
	kit.EachIndex(shape, func(index []int) {
		source := slices.Clone(index)
		for d, t := range tables {
			if t != nil {
				source[d] = t[index[d]]
			}
		}
		out.Set(in.At(source...), index...)
	})
	return out
}

// spanView returns a view of the part of a buffer that a span reads along dimension d. The view has ascending indices
// even if InStep is -1; if InStep is 0, its stride is 0.
func spanView(s kit.Buffer, d int, span Span) (kit.Buffer, error) {
	lowest, n := span.InStart, span.Count
	switch span.InStep {
	case -1:
		lowest = span.InStart - (n - 1)
	case 0:
		n = 1
	}
	m, err := s.Meta.Narrow(d, lowest, n)
	if err == nil && span.InStep == 0 {
		m.Shape[d], m.Strides[d] = span.Count, 0
	}
	return s.View(m), err
}
