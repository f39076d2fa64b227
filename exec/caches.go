package exec

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// This file checks the caches of a run: inputs that a step extends in their memory ([graph.Graph.StoreCaches]). The
// result of the step is a view of the storage of the input, beyond the elements of the input. For example, the input
// [1, 2, 5, 4] and the output [1, 2, 6, 4] have the strides of [1, 2, 16, 4]; the storage has 128 elements.

// cache is an input that a step extends.
type cache struct {
	input   int    // index in Program.inputs
	output  string // name of the extended value
	storage int    // index in Program.storages
	meta    tensor.Meta
}

// findCaches lists the caches.
func (p *Program) findCaches() {
	for i := range p.steps {
		n := p.steps[i].node
		if n.Op.Stores {
			s := p.storageOf(n.Out[0])
			p.caches = append(p.caches, cache{input: p.storages[s].inputIndex, output: n.Out[0].Name, storage: s,
				meta: n.Out[0].Meta})
		}
	}
}

// checkCaches returns an error if a tensor given for a cache does not have the strides or the space of the cache, or
// shares the memory that a step writes with another tensor of the run or with a constant.
func (p *Program) checkCaches(inputs, outputs []*tensor.Tensor) error {
	for i := range p.caches {
		c := &p.caches[i]
		name, given := p.inputs[c.input].Name, inputs[c.input]
		for dim, size := range c.meta.Shape {
			if size > 1 && given.Strides[dim] != c.meta.Strides[dim] {
				return fmt.Errorf("input %q is a cache with the strides %s, but the tensor given for it has the strides %s; "+
					"Program.CachesOf makes tensors with these strides", name, tensor.ListString(c.meta.Strides),
					tensor.ListString(given.Strides))
			}
		}
		written := c.writtenRange(given)
		if given.Offset+c.meta.Extent() > given.Storage().Len()/given.DType.Size() {
			return fmt.Errorf("the storage of the tensor given for input %q has %d elements from its offset on, but the cache "+
				"needs %d", name, given.Storage().Len()/given.DType.Size()-given.Offset, c.meta.Extent())
		}
		if written.from == written.to {
			continue
		}
		if !isAlignedAt(written.from, given.DType) {
			return fmt.Errorf("the tensor given for cache %q is not aligned to its elements", name)
		}
		shares := func(other *tensor.Tensor) bool {
			return other != nil && written.overlaps(rangeOf(other)) && tensor.Overlap(c.extended(given), other)
		}
		for k, other := range inputs {
			if k != c.input && shares(other) {
				return fmt.Errorf("input %q is a cache, but shares memory with input %q", name, p.inputs[k].Name)
			}
		}
		for _, other := range p.caches[:i] { // which may be empty before the run
			if extended := other.writtenRange(inputs[other.input]); written.overlaps(extended) &&
				tensor.Overlap(c.extended(given), other.extended(inputs[other.input])) {
				return fmt.Errorf("input %q is a cache, but shares memory with input %q", name, p.inputs[other.input].Name)
			}
		}
		for k, other := range outputs {
			if other != nil && !p.isCacheOutput(k, other, inputs) && shares(other) {
				return fmt.Errorf("input %q is a cache, but shares memory with the tensor given for output %q", name,
					p.outputs[k].Name)
			}
		}
		if p.constantOverlaps(written) {
			return fmt.Errorf("input %q is a cache, but shares memory with a constant", name)
		}
	}
	return nil
}

// writtenRange returns the addresses from the first element of the given tensor to the last element of the result.
func (c *cache) writtenRange(given *tensor.Tensor) addressRange {
	extent := c.meta.Extent() - c.meta.Offset
	if extent <= 0 {
		return addressRange{}
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(given.Storage().Bytes()))) + uintptr(given.Offset*given.DType.Size())
	return addressRange{from, from + uintptr(extent*given.DType.Size())}
}

// extended returns the result of the step in the storage of the tensor given for the cache.
func (c *cache) extended(given *tensor.Tensor) *tensor.Tensor {
	meta := c.meta
	meta.Offset += given.Offset
	return tensor.Must(given.View(meta))
}

// isCacheOutput reports whether output i is a value in a cache, and the tensor given for it is this value.
func (p *Program) isCacheOutput(i int, given *tensor.Tensor, inputs []*tensor.Tensor) bool {
	value := p.outputs[i].Value
	for k := range p.caches {
		c := &p.caches[k]
		if c.storage == p.storageOf(value) && value.Root().ContainedIn != nil {
			input := inputs[c.input]
			return given.Storage() == input.Storage() && given.Offset == input.Offset+value.Meta.Offset &&
				slices.Equal(given.Shape, value.Meta.Shape) && given.SameAddresses(value.Meta)
		}
	}
	return false
}
