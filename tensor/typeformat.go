package tensor

import (
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/sym/contiguity"
)

// This file asks of a [Type] what format.go asks of a [Meta]. Where all sizes are numbers the answer is the
// Meta's; else it is a condition on the sizes, which a branch makes a guard.

// fewDims is the rank up to which the numbers of a type need no allocation.
const fewDims = 8

// in returns the type's numbers, whose slices are in buf where they fit; false: not all are numbers. It
// returns the meta, since what is stored by a pointer escapes to the heap, and buf with it.
func (t *Type) in(buf *[2 * fewDims]int) (m Meta, known bool) {
	t.fits()
	n := len(t.Shape)
	all := buf[:]
	if n > fewDims {
		all = make([]int, 2*n)
	}
	shape, strides := all[:n:n], all[n:2*n]
	for i := range t.Shape {
		size, a := t.Shape[i].Known()
		stride, b := t.Strides[i].Known()
		if !a || !b {
			return m, false
		}
		shape[i], strides[i] = size, stride
	}
	return Meta{DType: t.DType, Shape: shape, Strides: strides}, true
}

// StridesOf is [MemoryFormat.Strides] for sizes that may be unknown.
func (f MemoryFormat) StridesOf(shape []sym.Int) ([]sym.Int, error) {
	order, err := f.order(len(shape))
	if err != nil {
		return nil, err
	}
	if f == Contiguous {
		return RowMajor(shape), nil
	}
	st := make([]sym.Int, len(shape))
	step := sym.Of(1)
	for _, d := range order {
		st[d] = step
		step = times(step, shape[d])
	}
	return st, nil
}

// likeNumbers is [Meta.likeOrder] of the numbers; false where they do not decide.
func (t *Type) likeNumbers(order []int) (like, known bool) {
	t.fits()
	channels, known := t.Strides[1].Known()
	if !known || channels == 0 {
		return false, known
	}
	least := 0
	for _, d := range order {
		size, a := t.Shape[d].Known()
		stride, b := t.Strides[d].Known()
		if !a || !b {
			return false, false
		}
		if size == 0 || stride < least || d == 0 && least == channels {
			return false, true
		}
		least = stride * max(size, 1)
	}
	return true, true
}

// NewTypeFormat is [NewFormat] for sizes that may be unknown.
func NewTypeFormat(d DType, shape []sym.Int, f MemoryFormat) (Type, error) {
	st, err := f.StridesOf(shape)
	return Type{DType: d, Shape: shape, Strides: st}, err
}

// IsContiguous is [Meta.IsContiguous].
func (t Type) IsContiguous() bool {
	var buf [2 * fewDims]int
	if m, known := t.in(&buf); known {
		return m.IsContiguous()
	}
	return t.IsRowMajor() || t.Holds(IsContiguous)
}

// IsChannelsLast is [Meta.IsChannelsLast].
func (t Type) IsChannelsLast() bool { return t.denseOrNumbers(IsChannelsLast, contiguity.Order2d) }

// IsChannelsLast3d is [Meta.IsChannelsLast3d].
func (t Type) IsChannelsLast3d() bool { return t.denseOrNumbers(IsChannelsLast3d, contiguity.Order3d) }

func (t Type) denseOrNumbers(p Predicate, order []int) bool {
	if len(t.Shape) != len(order) {
		return false
	}
	var buf [2 * fewDims]int
	if m, known := t.in(&buf); known {
		return m.denseIn(order)
	}
	return t.Holds(p)
}

// Is is [Meta.Is].
func (t Type) Is(f MemoryFormat) bool {
	switch f {
	case Contiguous:
		return t.IsContiguous()
	case ChannelsLast:
		return t.IsChannelsLast()
	case ChannelsLast3d:
		return t.IsChannelsLast3d()
	}
	return f.Valid()
}

// IsNonOverlappingAndDense is [Meta.IsNonOverlappingAndDense].
func (t Type) IsNonOverlappingAndDense() bool {
	var buf [2 * fewDims]int
	if m, known := t.in(&buf); known {
		return m.IsNonOverlappingAndDense()
	}
	return t.IsRowMajor() || t.Holds(IsNonOverlappingAndDense)
}

// StridesLikeChannelsLast is [Meta.StridesLikeChannelsLast].
func (t Type) StridesLikeChannelsLast() bool {
	return t.likeOrder(StridesLikeChannelsLast, contiguity.Order2d)
}

// StridesLikeChannelsLast3d is [Meta.StridesLikeChannelsLast3d].
func (t Type) StridesLikeChannelsLast3d() bool {
	return t.likeOrder(StridesLikeChannelsLast3d, contiguity.Order3d)
}

func (t *Type) likeOrder(p Predicate, order []int) bool {
	if len(t.Shape) != len(order) {
		return false
	}
	if like, known := t.likeNumbers(order); known {
		return like
	}
	return t.If(p).Holds() // one condition: PyTorch's way asks of the last size what nothing depends on
}

// SuggestMemoryFormat is [Meta.SuggestMemoryFormat].
func (t Type) SuggestMemoryFormat(exactMatch bool) MemoryFormat {
	f := Contiguous
	switch {
	case t.StridesLikeChannelsLast():
		f = ChannelsLast
	case t.StridesLikeChannelsLast3d():
		f = ChannelsLast3d
	default:
		return Contiguous
	}
	if exactMatch {
		if st, _ := f.StridesOf(t.Shape); !SameSizes(st, t.Strides) {
			return Contiguous
		}
	}
	return f
}

// SameLayout is [Meta.SameLayout].
func (t Type) SameLayout(o Type) bool {
	return SameSizes(t.Shape, o.Shape) && SameSizes(t.Strides, o.Strides)
}

// DenseStridesOf is [DenseStrides] for sizes that may be unknown.
func DenseStridesOf(shape, strides []sym.Int) []sym.Int {
	(&Type{Shape: shape, Strides: strides}).fits()
	perm := make([]int, len(shape))
	for i := range perm {
		perm[i] = len(perm) - 1 - i
	}
	SortDimsIf(perm, func(a, b int) (swap, stay sym.Bool) {
		sa, sb := strides[a], strides[b]
		told := sa.Ne(sym.Int{}).And(sb.Ne(sym.Int{})).Decide()
		larger := shape[a].Gt(shape[b])
		if sa.Same(sb) {
			return told.And(larger).Decide(), stay
		}
		less, greater := sa.Lt(sb).Decide(), sa.Gt(sb).Decide()
		return told.And(greater.Or(less.Not().And(larger))).Decide(), told.And(less)
	})
	out := make([]sym.Int, len(shape))
	step := sym.Of(1)
	for _, d := range perm {
		out[d] = step
		step = times(step, shape[d].Max(sym.Of(1)))
	}
	return out
}
