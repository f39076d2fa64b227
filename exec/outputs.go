package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
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
	end, ascending := 0, slices.Clone(spans)
	sorted.Func(ascending, func(a, b byteSpan) int { return cmp.Compare(a.start, b.start) })
	for _, span := range ascending {
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

// planOutputs plans the memory of outputs.
func planOutputs(outputs []graph.Output) outputPlan {
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
		if isInput && (isStored || output.Base == "" || output.Base == owner.Name) {
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

// This part permits a caller to give the same tensor for an input and an output. The run then overwrites the input.
// For example, a decoder updates its cache of keys and values without a copy: the step that writes row 7 of the cache
// has the cache as its operand and as its result, in the same memory. At compilation, overwriteInputs finds such pairs
// of an input and an output. In a run, mayOverwrite checks that the caller's tensors are such a pair.

// overwriteInputs finds the inputs that an output of step i may overwrite while the step runs. The kernel must permit
// it, the output must have the layout of the input, and no later step and no other output may read the input. Step i
// then waits for all earlier steps that read the input. With [Options.KeepGoing] no input is overwritten. An input is
// overwritten by at most one output.
func (m *memoryPlanner) overwriteInputs(i int) {
	p := m.program
	if p.keepsGoing {
		return
	}
	step := &p.steps[i]
	outCount := len(step.node.Out)
	for _, pair := range step.kernel.InPlace {
		result, operand := step.addresses[pair.Out].storage, step.addresses[outCount+pair.In].storage
		if result < 0 || operand < 0 {
			continue
		}
		input, output := &p.storages[operand], &p.storages[result]
		if input.kind != inInput || output.kind != inNewMemory {
			continue
		}
		isOverwritten := slices.Contains(m.overwrites, 1+input.inputIndex)
		isReadLater := input.lastStep != i || p.viewsInput(operand)
		if isOverwritten || isReadLater || !m.isWholeInput(i, pair) || !m.readsSameElements(i, pair.In) {
			continue
		}
		m.overwrites[result] = 1 + input.inputIndex
		readsInput := func(address storageAddress) bool { return address.storage == operand }
		for k := range p.steps[:i] {
			if slices.ContainsFunc(p.steps[k].addresses, readsInput) {
				m.addWait(i, int32(k))
			}
		}
	}
}

// isWholeInput reports whether an operand and a result of step i are a whole input and a whole output, in the same
// layout.
func (m *memoryPlanner) isWholeInput(i int, pair graph.InPlace) bool {
	step := &m.program.steps[i]
	result, operand := step.addresses[pair.Out].storage, step.addresses[len(step.node.Out)+pair.In].storage
	if result < 0 || operand < 0 {
		return false
	}
	input, output := &m.program.storages[operand], &m.program.storages[result]
	return input.kind == inInput && output.kind == inNewMemory && output.root == step.node.Out[pair.Out] &&
		sameLayout(input.root.Meta, output.root.Meta) && sameLayout(input.root.Meta, step.node.In[pair.In].Meta())
}

// viewsInput reports whether an output is a view of the input with the given storage.
func (p *Program) viewsInput(storage int) bool {
	return slices.ContainsFunc(p.outputs, func(output graph.Output) bool { return p.storageOf(output.Value) == storage })
}

// sameLayout reports whether two metas have the same dtype and shape, and the same address of each element.
func sameLayout(a, b tensor.Meta) bool {
	return a.DType == b.DType && a.Offset == b.Offset && slices.Equal(a.Shape, b.Shape) && a.SameAddresses(b)
}

// overlappedInputs returns the number of inputs whose memory overlaps t, the caller's tensor for an output, and the
// index of the first. permitted is true if each of these inputs has the layout and storage of t, and no output is a
// view of such an input.
func (p *Program) overlappedInputs(t *tensor.Tensor, inputs []*tensor.Tensor) (first, count int, permitted bool) {
	permitted = true
	for k, input := range inputs {
		if !mayRead(input, t, p.readsStorage) {
			continue
		}
		if count++; count == 1 {
			first = k
		}
		isSameMemory := input.Storage() == t.Storage() && sameLayout(input.Meta, t.Meta)
		permitted = permitted && isSameMemory && !p.viewsInput(p.storageOf(p.inputs[k]))
	}
	return first, count, permitted
}

// This part checks whether a caller's tensor for an output shares memory with another tensor of the run.

// checkWritable returns an error if the caller's tensor for output i shares memory with another tensor of the run: a
// constant, the caller's tensor for an earlier output, or an input. But the tensor may be the tensor of an input.
// direct reports whether a step may write to the tensor. Otherwise the output is copied to the tensor after all steps.
func (p *Program) checkWritable(i int, in, out []*tensor.Tensor) (direct bool, err error) {
	name, given := p.outputs[i].Name, out[i]
	first, count, permitted := p.overlappedInputs(given, in)
	if !permitted {
		return false, sharedMemoryError(name, "input", p.inputs[first].Name)
	}
	for k, other := range out[:i] {
		if other != nil && tensor.Overlap(given, other) {
			return false, sharedMemoryError(name, "the tensor given for output", p.outputs[k].Name)
		}
	}
	if p.constantOverlaps(rangeOf(given)) {
		return false, fmt.Errorf("the tensor given for output %q shares memory with a constant", name)
	}
	mayOverwrite := count == 1 && p.overwrites[p.storageOf(p.outputs[i].Value)] == 1+first
	return count == 0 || mayOverwrite, nil
}

// CheckTensors returns an error if a run of a graph in segments cannot write one of the tensors that the caller gave
// for outputs. in and out have a tensor for each input and output of the graph; a tensor of out may be nil. A tensor of
// out must not share memory with an input, a constant or another tensor of out. CheckTensors does not check shapes that
// depend on data.
func CheckTensors(g *graph.Graph, in, out []*tensor.Tensor) error {
	if g == nil || len(in) != len(g.Inputs) || len(out) != len(g.Outputs) || slices.Contains(in, nil) {
		return errors.New("the graph is nil, or a tensor of an input or output is missing")
	}
	readsGaps := g.ReadsStorage()
	for i, given := range out {
		if given == nil {
			continue
		}
		output, dtype, shape := g.Outputs[i], given.DType, given.Shape
		if v := output.Value; !v.Dynamic {
			dtype, shape = v.Meta.DType, v.Meta.Shape
		}
		if err := CheckOutput(output.Name, dtype, shape, given); err != nil {
			return err
		}
		for k, other := range in {
			if mayRead(other, given, readsGaps) {
				return sharedMemoryError(output.Name, "input", g.Inputs[k].Name)
			}
		}
		for k, other := range out[:i] {
			if other != nil && tensor.Overlap(given, other) {
				return sharedMemoryError(output.Name, "the tensor given for output", g.Outputs[k].Name)
			}
		}
		for _, c := range g.Constants {
			if c.Const != nil && rangeOf(given).overlaps(rangeOf(c.Const)) {
				return sharedMemoryError(output.Name, "constant", c.Name)
			}
		}
	}
	return nil
}

// sharedMemoryError returns the error for a caller's tensor that shares memory with another tensor. name is the output,
// and otherKind and other describe the other tensor.
func sharedMemoryError(name, otherKind, other string) error {
	return fmt.Errorf("the tensor given for output %q shares memory with %s %q", name, otherKind, other)
}

// addressRange is the address range of a tensor's elements. Ranges are compared instead of storages, because two
// storages may contain the same bytes.
type addressRange struct{ from, to uintptr }

// rangeOf returns the address range of a tensor.
func rangeOf(t *tensor.Tensor) addressRange {
	from, to := t.Span()
	return addressRange{from, to}
}

// overlaps reports whether two ranges have a byte in common.
func (a addressRange) overlaps(b addressRange) bool { return a.from < b.to && b.from < a.to }

// mayRead reports whether a run that reads the input may read an element of t. readsGaps means that the run may also
// read bytes between the elements of the input.
func mayRead(input, t *tensor.Tensor, readsGaps bool) bool {
	return rangeOf(t).overlaps(rangeOf(input)) && (readsGaps || tensor.Overlap(t, input))
}

// constantOverlaps reports whether a constant overlaps a range.
func (p *Program) constantOverlaps(r addressRange) bool {
	constants := p.constants()
	i := sort.Search(len(constants), func(i int) bool { return constants[i].to > r.from })
	return i < len(constants) && constants[i].overlaps(r)
}

// findConstants returns the address ranges of constants, which no run may write. The ranges are sorted, and overlapping
// ranges are merged, because checking every constant would take longer than the run of a small graph.
func (p *Program) findConstants() (merged []addressRange) {
	var constantRanges []addressRange
	for i := range p.storages {
		if storage := &p.storages[i]; storage.kind == inConst {
			if constantRange := rangeOf(storage.data); constantRange.from < constantRange.to {
				constantRanges = append(constantRanges, constantRange)
			}
		}
	}
	sorted.Func(constantRanges, func(a, b addressRange) int { return cmp.Compare(a.from, b.from) })
	for _, constantRange := range constantRanges {
		if n := len(merged); n > 0 && merged[n-1].overlaps(constantRange) {
			merged[n-1].to = max(merged[n-1].to, constantRange.to)
			continue
		}
		merged = append(merged, constantRange)
	}
	return merged
}

// This part checks the caches of a run: inputs that a step extends in their memory ([graph.Graph.StoreCaches]). The
// result of the step is a view of the storage of the input, beyond the elements of the input. For example, the input
// [1, 2, 5, 4] and the output [1, 2, 6, 4] have the strides of [1, 2, 16, 4]; the storage has 128 elements.

// cache is an input that a step extends.
type cache struct {
	input int          // index in Program.inputs
	value *graph.Value // the result of the step
}

// findCaches lists the caches.
func (p *Program) findCaches() {
	for i := range p.steps {
		n := p.steps[i].node
		if n.Op.Stores {
			p.caches = append(p.caches, cache{p.storages[p.storageOf(n.Out[0])].inputIndex, n.Out[0]})
		}
	}
}

// checkCaches returns an error if a tensor given for a cache does not have the strides or the space of the cache, or
// shares the memory that a step writes with another tensor of the run or with a constant.
func (p *Program) checkCaches(inputs, outputs []*tensor.Tensor) error {
	if len(p.caches) == 0 {
		return nil
	}
	ranges, extended := make([]addressRange, len(inputs)), make([]*tensor.Tensor, len(inputs)) // with the new elements
	for k, input := range inputs {
		ranges[k], extended[k] = rangeOf(input), input
	}
	for i := range p.caches {
		c := &p.caches[i]
		var err error
		if extended[c.input], err = c.extend(inputs[c.input]); err != nil {
			return fmt.Errorf("input %q is a cache, but the tensor given for it %w", p.inputs[c.input].Name, err)
		}
		ranges[c.input] = rangeOf(extended[c.input])
	}
	for i := range p.caches {
		c := &p.caches[i]
		written, writtenRange := extended[c.input], ranges[c.input]
		sharedError := func(kind, name string) error {
			return fmt.Errorf("input %q is a cache, but shares memory with %s %q", p.inputs[c.input].Name, kind, name)
		}
		for k, other := range extended {
			if k != c.input && writtenRange.overlaps(ranges[k]) && tensor.Overlap(written, other) {
				return sharedError("input", p.inputs[k].Name)
			}
		}
		for k, other := range outputs {
			switch {
			case other == nil:
			case p.cacheOf(k) == c:
				if other.Storage() != written.Storage() || !sameLayout(other.Meta, written.Meta) {
					return fmt.Errorf("output %q is in the memory of input %q: the tensor given for it must be the view of this memory",
						p.outputs[k].Name, p.inputs[c.input].Name)
				}
			case mayRead(written, other, false):
				return sharedError("the tensor given for output", p.outputs[k].Name)
			}
		}
		if p.constantOverlaps(writtenRange) {
			return fmt.Errorf("input %q is a cache, but shares memory with a constant", p.inputs[c.input].Name)
		}
	}
	return nil
}

// extend returns the result of the step in the memory of the tensor given for the cache. The error completes a sentence
// about the given tensor.
func (c *cache) extend(given *tensor.Tensor) (*tensor.Tensor, error) {
	meta := c.value.Meta
	for dim, size := range meta.Shape {
		if size > 1 && given.Strides[dim] != meta.Strides[dim] {
			return nil, fmt.Errorf("has the strides %s: want %s; Program.CachesOf makes such tensors",
				tensor.ListString(given.Strides), tensor.ListString(meta.Strides))
		}
	}
	if space := given.Storage().Len()/given.DType.Size() - given.Offset; meta.Numel() > 0 && meta.Extent() > space {
		return nil, fmt.Errorf("has space for %d elements in its storage: want %d", max(space, 0), meta.Extent())
	}
	meta.Offset += given.Offset
	extended, err := given.View(meta)
	if err == nil && !isAligned(extended) {
		err = errors.New("is not aligned to its elements")
	}
	return extended, err
}

// cacheOf returns the cache whose extended value is output i, or nil.
func (p *Program) cacheOf(i int) *cache {
	for k := range p.caches {
		if p.caches[k].value == p.outputs[i].Value {
			return &p.caches[k]
		}
	}
	return nil
}
