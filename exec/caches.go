package exec

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file checks the caches of a run: inputs that a step extends in their memory ([graph.Graph.StoreCaches]). The
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
