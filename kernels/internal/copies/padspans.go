package copies

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Span maps consecutive indices of an output dimension to indices of the operand. For i from 0 to Count-1, index
// OutStart + i of the output reads index InStart + i*InStep. InStep is 1, -1 or 0. For example, Span{1, 3, 5, -1}
// copies in[5], in[4] and in[3] to out[1], out[2] and out[3].
type Span struct{ OutStart, Count, InStart, InStep int }

// SpanKernel returns a kernel that copies src to dst by spans. spans[dim] covers dimension dim of dst without overlap.
// Each combination of one span per dimension is a job.
func SpanKernel(dst, src kit.Buffer, spans [][]Span) (*graph.Kernel, error) {
	jobs := []Job{{Dst: dst, Src: src}}
	for dim := range spans {
		var next []Job
		for _, job := range jobs {
			for _, span := range spans[dim] {
				dstMeta, err := job.Dst.Meta.Narrow(dim, span.OutStart, span.Count)
				if err != nil {
					return nil, err
				}
				part := job
				part.Dst = job.Dst.View(dstMeta)
				if part.Src, err = spanView(job.Src, dim, span); err != nil {
					return nil, err
				}
				if span.InStep < 0 {
					part = part.Reversed(dim)
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
	for dim, size := range shape {
		out[dim] = []Span{{Count: size, InStep: 1}}
	}
	return out
}

// SpanRef is the reference implementation of [SpanKernel]. tables[dim][i] is the index of the operand that index i of
// the result reads, along dimension dim. A nil table is the identity.
func SpanRef(in *tensor.Tensor, tables [][]int, shape []int) *tensor.Tensor {
	out := tensor.Zeros(in.DType, shape...)
	kit.EachIndex(shape, func(index []int) {
		source := slices.Clone(index)
		for dim, table := range tables {
			if table != nil {
				source[dim] = table[index[dim]]
			}
		}
		out.Set(in.At(source...), index...)
	})
	return out
}

// spanView returns a view of the part of a buffer that a span reads along dimension dim. The view has ascending indices
// even if InStep is -1; if InStep is 0, its stride is 0.
func spanView(buffer kit.Buffer, dim int, span Span) (kit.Buffer, error) {
	lowest, count := span.InStart, span.Count
	switch span.InStep {
	case -1:
		lowest = span.InStart - (count - 1)
	case 0:
		count = 1
	}
	view, err := buffer.Meta.Narrow(dim, lowest, count)
	if err == nil && span.InStep == 0 {
		view.Shape[dim], view.Strides[dim] = span.Count, 0
	}
	return buffer.View(view), err
}
