package exec

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// This file decides which memory the outputs of a run have. An output that is a view of an input shares the input's
// storage, as in PyTorch. Any other output is in memory that the caller owns, and that contains nothing but outputs:
//
//   - If the outputs that are views of a computed value occupy all of its memory, the value is computed in new memory,
//     and the outputs share it.
//   - Otherwise they are copied at the end of the run. So are outputs that are views of a constant, or of an input from
//     which passes have removed a copy ([graph.Output.Base]). Copies share memory only where the outputs have bytes in
//     common.
//
// For example, for e = exp(x) with 1000 rows and the outputs e[0:3] and e[2:5], a run returns memory of 5 rows.

// byteSpan is a range of bytes of a value's memory.
type byteSpan struct {
	start, end int
	align      int // start of a copy is a multiple of align: the largest element size of the outputs in it
}

// bytes returns the number of bytes.
func (s byteSpan) bytes() int { return s.end - s.start }

// spanOf returns the bytes from the first to the last element of a layout.
func spanOf(meta tensor.Meta) byteSpan {
	size := meta.DType.Size()
	start := meta.Offset * size
	return byteSpan{start: start, end: max(start, meta.Extent()*size), align: size}
}

// joinSpans joins spans that have bytes in common, and returns for each span the index of the span that contains it.
func joinSpans(spans []byteSpan) (joined []byteSpan, indices []int) {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(spans[a].start, spans[b].start) })
	indices = make([]int, len(spans))
	for _, i := range order {
		last := len(joined) - 1
		if last < 0 || spans[i].start >= joined[last].end {
			joined, last = append(joined, spans[i]), last+1
		}
		joined[last].end = max(joined[last].end, spans[i].end)
		joined[last].align = max(joined[last].align, spans[i].align) // element sizes are powers of 2
		indices[i] = last
	}
	for i := range joined {
		joined[i].start -= joined[i].start % joined[i].align
	}
	return joined, indices
}

// covers reports whether spans contain all bytes from 0 to size.
func covers(spans []byteSpan, size int) bool {
	end := 0
	for _, span := range slices.SortedFunc(slices.Values(spans), func(a, b byteSpan) int {
		return cmp.Compare(a.start, b.start)
	}) {
		if span.start > end {
			return false
		}
		end = max(end, span.end)
	}
	return end >= size
}

// outputPlan says which memory the outputs of a program have.
type outputPlan struct {
	owned  map[*graph.Value]bool // the values whose memory their outputs share
	copies []byteSpan            // the copies of outputs
	copyOf []int                 // by output: 1 + index of the copy that contains it, or 0 for an output without a copy
}

// planOutputs plans the memory of outputs. The values in omitted are not computed.
func planOutputs(outputs []graph.Output, omitted map[*graph.Value]bool) outputPlan {
	plan := outputPlan{owned: map[*graph.Value]bool{}, copyOf: make([]int, len(outputs))}
	// Outputs may share memory if they share it in the graph as given, and after the passes.
	type sharedMemory struct {
		owner    *graph.Value
		constant *tensor.Storage // in place of owner: folded views of a constant share its storage
		base     string
	}
	var order []sharedMemory
	sharers := map[sharedMemory][]int{} // indices of outputs
	for i, output := range outputs {
		owner := output.Value.BufferOwner()
		isInput := owner.Node == nil && owner.Const == nil
		isStored := output.Value.Root().ContainedIn == owner // in a cache
		if omitted[output.Value] || isInput && (isStored || output.Base == "" || output.Base == owner.Name) {
			continue
		}
		shared := sharedMemory{owner: owner, base: output.Base}
		if owner.Const != nil {
			shared = sharedMemory{constant: owner.Const.Storage(), base: output.Base}
		}
		if sharers[shared] == nil {
			order = append(order, shared)
		}
		sharers[shared] = append(sharers[shared], i)
	}
	for _, shared := range order {
		spans := make([]byteSpan, len(sharers[shared]))
		for k, i := range sharers[shared] {
			if spans[k] = spanOf(outputs[i].Value.Meta); outputs[i].WholeBase {
				spans[k].start, spans[k].end = 0, storageBytes(outputs[i].Value.BufferOwner())
			}
		}
		if shared.owner != nil && shared.owner.Node != nil && !plan.owned[shared.owner] && covers(spans, storageBytes(shared.owner)) {
			plan.owned[shared.owner] = true
			continue
		}
		copies, indices := joinSpans(spans)
		for k, i := range sharers[shared] {
			plan.copyOf[i] = 1 + len(plan.copies) + indices[k]
		}
		plan.copies = append(plan.copies, copies...)
	}
	return plan
}

// copyBytes returns the size of all copies.
func (plan outputPlan) copyBytes() int {
	total := 0
	for _, span := range plan.copies {
		total = sum(total, span.bytes())
	}
	return total
}

// copyOutput returns a copy of an output in memory that the caller will own. source is the output in the program's
// memory, and meta its layout there. Outputs with the same copy share memory.
func (s *Session) copyOutput(ctx context.Context, index int, source *tensor.Tensor, meta tensor.Meta) (*tensor.Tensor,
	error) {
	storage, span := &s.outputCopies[index], s.program.outputPlan.copies[index]
	isFirst := *storage == nil
	copied, err := copySpan(ctx, s.program.pool, storage, span, source, meta, s.program.threads)
	if isFirst {
		s.copies = append(s.copies, *storage)
	}
	return copied, err
}

// copySpan copies an output with layout meta to the copy of a span. The first output allocates its storage.
func copySpan(ctx context.Context, pool *tensor.Pool, storage **tensor.Storage, span byteSpan, source *tensor.Tensor,
	meta tensor.Meta, workers int) (*tensor.Tensor, error) {
	meta.Offset -= span.start / meta.DType.Size()
	if *storage == nil {
		isFull := coversStorage(meta) && meta.Bytes() == span.bytes()
		*storage = pool.Take(span.bytes(), !isFull)
	}
	copied, err := tensor.FromStorage(meta, *storage)
	if err != nil {
		return nil, err
	}
	return copied, iter.CopyElements(ctx, onceEach(copied), onceEach(source), workers)
}

// OwnOutputs replaces the outputs of a run in segments that do not occupy all of their storage by copies, as a program
// does. Outputs in the storage of an input remain views of it.
func OwnOutputs(ctx context.Context, pool *tensor.Pool, outputs, inputs []*tensor.Tensor, workers int) error {
	if pool == nil || slices.Contains(inputs, nil) {
		return errors.New("the pool or an input is nil")
	}
	sharers := map[*tensor.Storage][]int{} // indices of outputs
	for i, output := range outputs {
		isView := func(input *tensor.Tensor) bool { return input.Storage() == output.Storage() }
		if output != nil && !slices.ContainsFunc(inputs, isView) {
			sharers[output.Storage()] = append(sharers[output.Storage()], i)
		}
	}
	for storage, sharing := range sharers {
		spans := make([]byteSpan, len(sharing))
		for k, i := range sharing {
			spans[k] = spanOf(outputs[i].Meta)
		}
		if covers(spans, storage.Len()) {
			continue
		}
		joined, indices := joinSpans(spans)
		copies := make([]*tensor.Storage, len(joined))
		for k, i := range sharing {
			var err error
			span := joined[indices[k]]
			if outputs[i], err = copySpan(ctx, pool, &copies[indices[k]], span, outputs[i], outputs[i].Meta,
				workers); err != nil {
				return err
			}
		}
		if storage.Releasable() {
			_ = storage.Release()
		}
	}
	return nil
}

// onceEach returns a view of t without the repetitions of elements along dimensions of stride 0.
func onceEach(t *tensor.Tensor) *tensor.Tensor {
	meta := t.Meta
	meta.Shape = slices.Clone(meta.Shape)
	for i, stride := range meta.Strides {
		if stride == 0 {
			meta.Shape[i] = min(meta.Shape[i], 1)
		}
	}
	return tensor.Must(t.View(meta))
}
