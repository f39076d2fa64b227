package tensor

import (
	"github.com/graphrun/graphrun/internal/contiguity"
	"github.com/graphrun/graphrun/sym"
)

// This file has the predicates of format.go for [Type]. If all sizes are numbers, the Meta decides. Otherwise the
// answer is a condition on the sizes. A function that must decide the condition evaluates it for typical sizes, and
// records the answer as a guard: see [sym.Bool.Holds]. For example, strides [4, 1] are contiguous for shape [N, 4] with
// any N, but for shape [2, N] only if N is 4 or 0.

// IsContiguous is [Meta.IsContiguous].
func (t Type) IsContiguous() bool {
	var buf [2 * smallRank]int
	if m, known := t.metaInBuffer(&buf); known {
		return m.IsContiguous()
	}
	return t.IsRowMajor() || t.Holds(IsContiguous)
}

// IsChannelsLast is [Meta.IsChannelsLast].
func (t Type) IsChannelsLast() bool { return t.isDenseIn(IsChannelsLast, contiguity.Order2d) }

// IsChannelsLast3d is [Meta.IsChannelsLast3d].
func (t Type) IsChannelsLast3d() bool { return t.isDenseIn(IsChannelsLast3d, contiguity.Order3d) }

// isDenseIn decides a predicate: whether the value is dense in an order of the dimensions, fastest first.
func (t Type) isDenseIn(predicate Predicate, order []int) bool {
	if len(t.Shape) != len(order) {
		return false
	}
	var buf [2 * smallRank]int
	if m, known := t.metaInBuffer(&buf); known {
		return m.isDenseIn(order)
	}
	return t.Holds(predicate)
}

// Is is [Meta.Is].
func (t Type) Is(format MemoryFormat) bool {
	switch format {
	case Contiguous:
		return t.IsContiguous()
	case ChannelsLast:
		return t.IsChannelsLast()
	case ChannelsLast3d:
		return t.IsChannelsLast3d()
	}
	return format.Valid()
}

// IsNonOverlappingAndDense is [Meta.IsNonOverlappingAndDense].
func (t Type) IsNonOverlappingAndDense() bool {
	var buf [2 * smallRank]int
	if m, known := t.metaInBuffer(&buf); known {
		return m.IsNonOverlappingAndDense()
	}
	return t.IsRowMajor() || t.Holds(IsNonOverlappingAndDense)
}

// metaInBuffer returns the type in numbers, with slices in buf if they fit. known is false if a size or stride is
// symbolic. The meta is returned by value, because storing it through a pointer would move it and buf to the heap.
func (t *Type) metaInBuffer(buf *[2 * smallRank]int) (m Meta, known bool) {
	t.mustMatchRanks()
	rank := len(t.Shape)
	all := buf[:]
	if rank > smallRank {
		all = make([]int, 2*rank)
	}
	shape, strides := all[:rank:rank], all[rank:2*rank]
	for i := range t.Shape {
		size, sizeKnown := t.Shape[i].Known()
		stride, strideKnown := t.Strides[i].Known()
		if !sizeKnown || !strideKnown {
			return m, false
		}
		shape[i], strides[i] = size, stride
	}
	return Meta{DType: t.DType, Shape: shape, Strides: strides}, true
}

// smallRank is the largest rank for which the numbers of a type fit into a buffer on the stack.
const smallRank = 8

// StridesLikeChannelsLast is [Meta.StridesLikeChannelsLast].
func (t Type) StridesLikeChannelsLast() bool {
	return t.stridesLikeOrder(StridesLikeChannelsLast, contiguity.Order2d)
}

// StridesLikeChannelsLast3d is [Meta.StridesLikeChannelsLast3d].
func (t Type) StridesLikeChannelsLast3d() bool {
	return t.stridesLikeOrder(StridesLikeChannelsLast3d, contiguity.Order3d)
}

// stridesLikeOrder decides a predicate: whether the strides ascend in an order of the dimensions, fastest first.
func (t *Type) stridesLikeOrder(predicate Predicate, order []int) bool {
	if len(t.Shape) != len(order) {
		return false
	}
	if like, known := t.stridesLikeOrderKnown(order); known {
		return like
	}
	// This records a single guard. PyTorch's branches would add a guard on the last size, which does not affect the
	// answer.
	return t.Condition(predicate).Holds()
}

// stridesLikeOrderKnown is [Meta.stridesLikeOrder] for types. known is false if the sizes and strides that are numbers
// do not decide the answer.
func (t *Type) stridesLikeOrderKnown(order []int) (like, known bool) {
	t.mustMatchRanks()
	channelStride, known := t.Strides[1].Known()
	if !known || channelStride == 0 {
		return false, known
	}
	minStride := 0
	for _, dim := range order {
		size, sizeKnown := t.Shape[dim].Known()
		stride, strideKnown := t.Strides[dim].Known()
		if !sizeKnown || !strideKnown {
			return false, false
		}
		if size == 0 || stride < minStride || dim == 0 && minStride == channelStride {
			return false, true
		}
		minStride = stride * max(size, 1)
	}
	return true, true
}

// SuggestMemoryFormat is [Meta.SuggestMemoryFormat].
func (t Type) SuggestMemoryFormat(exactMatch bool) MemoryFormat {
	format := Contiguous
	switch {
	case t.StridesLikeChannelsLast():
		format = ChannelsLast
	case t.StridesLikeChannelsLast3d():
		format = ChannelsLast3d
	default:
		return Contiguous
	}
	if exactMatch {
		if formatStrides, _ := format.SymbolicStrides(t.Shape); !SameSizes(formatStrides, t.Strides) {
			return Contiguous
		}
	}
	return format
}

// SameLayout is [Meta.SameLayout].
func (t Type) SameLayout(other Type) bool {
	return SameSizes(t.Shape, other.Shape) && SameSizes(t.Strides, other.Strides)
}

// NewTypeFormat is [NewFormat] for sizes that may be symbolic.
func NewTypeFormat(d DType, shape []sym.Int, f MemoryFormat) (Type, error) {
	strides, err := f.SymbolicStrides(shape)
	return Type{DType: d, Shape: shape, Strides: strides}, err
}

// SymbolicStrides is [MemoryFormat.Strides] for sizes that may be symbolic.
func (f MemoryFormat) SymbolicStrides(shape []sym.Int) ([]sym.Int, error) {
	order, err := f.order(len(shape))
	if err != nil {
		return nil, err
	}
	if f == Contiguous {
		return RowMajor(shape), nil
	}
	strides := make([]sym.Int, len(shape))
	denseStride := sym.Of(1)
	for _, d := range order {
		strides[d] = denseStride
		denseStride = mulSizes(denseStride, shape[d])
	}
	return strides, nil
}

// DenseStridesOf is [DenseStrides] for sizes that may be symbolic.
func DenseStridesOf(shape, strides []sym.Int) []sym.Int {
	(&Type{Shape: shape, Strides: strides}).mustMatchRanks()
	perm := make([]int, len(shape))
	for i := range perm {
		perm[i] = len(perm) - 1 - i
	}
	// Decide simplifies a condition by bounds and earlier guards, and records no guard.
	SortDimsIf(perm, func(a, b int) (swap, stay sym.Bool) {
		strideA, strideB := strides[a], strides[b]
		unambiguous := strideA.Ne(sym.Int{}).And(strideB.Ne(sym.Int{})).Decide()
		larger := shape[a].Gt(shape[b])
		if strideA.Same(strideB) { // only the sizes can cause a swap; stay is false
			return unambiguous.And(larger).Decide(), stay
		}
		less, greater := strideA.Lt(strideB).Decide(), strideA.Gt(strideB).Decide()
		return unambiguous.And(greater.Or(less.Not().And(larger))).Decide(), unambiguous.And(less)
	})
	out := make([]sym.Int, len(shape))
	denseStride := sym.Of(1)
	for _, d := range perm {
		out[d] = denseStride
		denseStride = mulSizes(denseStride, shape[d].Max(sym.Of(1)))
	}
	return out
}
