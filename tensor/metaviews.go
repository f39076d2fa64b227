package tensor

import "github.com/graphrun/graphrun/sym"

// This file repeats the view functions of [Type] as methods of [Meta]. Kernels use them, because the sizes in kernels
// are numbers.

// metaOf converts the result of a view function of a Type whose sizes are all numbers to a Meta.
func metaOf(t Type, err error) (Meta, error) {
	if err != nil {
		return Meta{}, err
	}
	m, _ := t.Meta()
	return m, nil
}

// metasOf is metaOf for functions that return several views.
func metasOf(types []Type, err error) ([]Meta, error) {
	if err != nil {
		return nil, err
	}
	out := make([]Meta, len(types))
	for i, t := range types {
		out[i], _ = t.Meta()
	}
	return out, nil
}

// Permute is [Type.Permute].
func (m Meta) Permute(dims []int) (Meta, error) { return metaOf(m.Type().Permute(dims)) }

// Transpose is [Type.Transpose].
func (m Meta) Transpose(dim0, dim1 int) (Meta, error) { return metaOf(m.Type().Transpose(dim0, dim1)) }

// MoveDim is [Type.MoveDim].
func (m Meta) MoveDim(source, destination []int) (Meta, error) {
	return metaOf(m.Type().MoveDim(source, destination))
}

// Select is [Type.Select].
func (m Meta) Select(dim, index int) (Meta, error) {
	return metaOf(m.Type().Select(dim, sym.Of(index)))
}

// Slice is [Type.Slice].
func (m Meta) Slice(dim int, start, end *int, step int) (Meta, error) {
	return metaOf(m.Type().Slice(dim, symPointer(start), symPointer(end), sym.Of(step)))
}

// symPointer converts an optional number; nil remains nil.
func symPointer(n *int) *sym.Int {
	if n == nil {
		return nil
	}
	s := sym.Of(*n)
	return &s
}

// Narrow is [Type.Narrow].
func (m Meta) Narrow(dim, start, length int) (Meta, error) {
	return metaOf(m.Type().Narrow(dim, sym.Of(start), sym.Of(length)))
}

// Squeeze is [Type.Squeeze].
func (m Meta) Squeeze(dims ...int) (Meta, error) { return metaOf(m.Type().Squeeze(dims...)) }

// Unsqueeze is [Type.Unsqueeze].
func (m Meta) Unsqueeze(dim int) (Meta, error) { return metaOf(m.Type().Unsqueeze(dim)) }

// Diagonal is [Type.Diagonal].
func (m Meta) Diagonal(offset, dim1, dim2 int) (Meta, error) {
	return metaOf(m.Type().Diagonal(offset, dim1, dim2))
}

// Split is [Type.Split].
func (m Meta) Split(size, dim int) ([]Meta, error) {
	return metasOf(m.Type().Split(sym.Of(size), dim))
}

// SplitSizes is [Type.SplitSizes].
func (m Meta) SplitSizes(sizes []int, dim int) ([]Meta, error) {
	return metasOf(m.Type().SplitSizes(sym.Ints(sizes...), dim))
}

// Chunk is [Type.Chunk].
func (m Meta) Chunk(chunks, dim int) ([]Meta, error) { return metasOf(m.Type().Chunk(chunks, dim)) }

// View is [Type.View].
func (m Meta) View(size []int) (Meta, error) { return metaOf(m.Type().View(sym.Ints(size...))) }

// Expand is [Type.Expand].
func (m Meta) Expand(size []int) (Meta, error) { return metaOf(m.Type().Expand(sym.Ints(size...))) }

// AsStrided is [Type.AsStrided].
func (m Meta) AsStrided(size, stride []int, offset, storageElems int) (Meta, error) {
	return metaOf(m.Type().AsStrided(sym.Ints(size...), sym.Ints(stride...), sym.Of(offset), sym.Of(storageElems)))
}

// Unfold is [Type.Unfold].
func (m Meta) Unfold(dimension, size, step int) (Meta, error) {
	return metaOf(m.Type().Unfold(dimension, sym.Of(size), sym.Of(step)))
}

// Flatten is [Type.Flatten].
func (m Meta) Flatten(start, end int) ([]int, error) {
	return intsOf(m.Type().Flatten(start, end))
}

// intsOf converts sizes that are numbers.
func intsOf(sizes []sym.Int, err error) ([]int, error) {
	if err != nil {
		return nil, err
	}
	out := make([]int, len(sizes))
	for i, s := range sizes {
		out[i], _ = s.Known()
	}
	return out, nil
}

// Broadcast returns the common shape of two operands in a new slice: sizes are matched from the last dimension, and a
// size 1 is broadcast (at::infer_size).
func Broadcast(a, b []int) ([]int, error) {
	return intsOf(BroadcastSizes(sym.Ints(a...), sym.Ints(b...)))
}
