package tensor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/sym"
)

// Type describes a value whose sizes may be symbolic, for inference and views. If all sizes are numbers, [Type.Meta]
// returns the equivalent [Meta]. Strides and Offset count elements. Shape and Strides have the same length. Other types
// may share these slices, so callers must not write into them. For example, the transpose of a row-major matrix of
// shape (N,3) is the type float32[3,N]@(1,3).
type Type struct {
	DType   DType
	Shape   []sym.Int
	Strides []sym.Int
	Offset  sym.Int
}

// NewType returns a row-major type at offset 0. The type uses the slice shape itself.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func NewType(d DType, shape ...sym.Int) Type {
	return Type{DType: d, Shape: shape, Strides: RowMajor(shape)}
}

// Type returns the meta as a Type.
func (m Meta) Type() Type {
	rank := len(m.Shape)
	both := make([]sym.Int, rank+len(m.Strides))
	for i, s := range m.Shape {
		both[i] = sym.Of(s)
	}
	for i, s := range m.Strides {
		both[rank+i] = sym.Of(s)
	}
	return Type{DType: m.DType, Shape: both[:rank:rank], Strides: both[rank:], Offset: sym.Of(m.Offset)}
}

// Meta returns the type with numbers in place of expressions, and whether all sizes, strides and the offset are
// numbers. Expressions are evaluated at the hints (typical values) of their symbols.
func (t Type) Meta() (Meta, bool) {
	t.mustMatchRanks()
	rank := len(t.Shape)
	both := make([]int, 2*rank)
	meta := Meta{DType: t.DType, Shape: both[:rank:rank], Strides: both[rank:]}
	offset, known := t.Offset.Known()
	meta.Offset = offset
	for i := range t.Shape {
		size, sizeKnown := t.Shape[i].Known()
		stride, strideKnown := t.Strides[i].Known()
		meta.Shape[i], meta.Strides[i], known = size, stride, known && sizeKnown && strideKnown
	}
	return meta, known
}

// AtHints returns the type in numbers at the hints of its symbols, for display and cost estimates.
func (t Type) AtHints() Meta {
	m, _ := t.Meta() // symbolic numbers are evaluated at their hints
	return m
}

// Specialize returns the type in numbers at the hints. It records guards: conditions, here that sizes, strides and
// offset have these values, under which later results are valid.
func (t Type) Specialize() Meta {
	t.mustMatchRanks()
	for i := range t.Shape {
		t.Shape[i].Specialize()
		t.Strides[i].Specialize()
	}
	t.Offset.Specialize()
	return t.AtHints()
}

// SameForm reports whether two types have identical expressions, and hence are equal for all values of their symbols.
func (t Type) SameForm(other Type) bool {
	same := func(a, b sym.Int) bool { return a.Same(b) }
	return t.DType == other.DType && t.Offset.Same(other.Offset) && slices.EqualFunc(t.Shape, other.Shape, same) &&
		slices.EqualFunc(t.Strides, other.Strides, same)
}

// Simplify returns t with sizes, strides and offset simplified by [sym.Int.Simplify].
func (t Type) Simplify() Type {
	simplifiedList := func(list []sym.Int) []sym.Int {
		out := make([]sym.Int, len(list))
		for i, s := range list {
			out[i] = s.Simplify()
		}
		return out
	}
	return Type{DType: t.DType, Shape: simplifiedList(t.Shape), Strides: simplifiedList(t.Strides),
		Offset: t.Offset.Simplify()}
}

// IsMeta reports whether t equals m: dtype, sizes, strides and offset are numbers, the same as in m.
func (t Type) IsMeta(m Meta) bool {
	if t.DType != m.DType || len(t.Shape) != len(m.Shape) || len(t.Strides) != len(m.Strides) {
		return false
	}
	isNumber := func(s sym.Int, n int) bool { k, known := s.Known(); return known && k == n }
	return isNumber(t.Offset, m.Offset) && slices.EqualFunc(t.Shape, m.Shape, isNumber) &&
		slices.EqualFunc(t.Strides, m.Strides, isNumber)
}

// At returns the meta for the given values of symbols. The error names a symbol without a value.
func (t Type) At(b sym.Binding) (Meta, error) {
	meta, known := t.Meta()
	if known {
		return meta, nil
	}
	var err error
	for i := 0; err == nil && i < len(t.Shape); i++ {
		if meta.Shape[i], err = t.Shape[i].At(b); err == nil {
			meta.Strides[i], err = t.Strides[i].At(b)
		}
	}
	if err == nil {
		meta.Offset, err = t.Offset.At(b)
	}
	return meta, err
}

// Rank returns the number of dimensions.
func (t Type) Rank() int { return len(t.Shape) }

// Numel returns the number of elements. It is 1 for a 0-dim value.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (t Type) Numel() sym.Int { return Product(t.Shape) }

// Extent returns the number of elements of storage that the value needs, its offset included. This is the largest index
// of an element plus 1, or 0 for a value without elements. It panics if the number overflows an int, which is possible
// only if t fails [Type.Check].
func (t Type) Extent() sym.Int {
	t.mustMatchRanks()
	if equals(t.Numel(), 0) {
		return sym.Int{}
	}
	end := t.Offset.Add(sym.Of(1))
	for i, s := range t.Shape {
		end = end.Add(s.Sub(sym.Of(1)).Mul(t.Strides[i]))
	}
	return end
}

// RowMajor returns t with row-major strides and offset 0. The result shares t's strides if they are row-major.
func (t Type) RowMajor() Type {
	if t.Offset = (sym.Int{}); !t.IsRowMajor() {
		t.Strides = RowMajor(t.Shape)
	}
	return t
}

// WithDType returns t with another dtype.
func (t Type) WithDType(d DType) Type { t.DType = d; return t }

// WithStrides returns t at offset 0 with other strides. The result uses the slice strides itself.
func (t Type) WithStrides(strides []sym.Int) Type {
	t.Strides, t.Offset = strides, sym.Int{}
	return t
}

// mustMatchRanks panics if shape and strides differ in length. Callers may set these fields to any slices, and a method
// without an error result cannot report a mismatch in another way.
func (t *Type) mustMatchRanks() {
	if len(t.Shape) != len(t.Strides) {
		panic(fmt.Sprintf("tensor: a type has %d sizes and %d strides", len(t.Shape), len(t.Strides)))
	}
}

// Check returns an error for an inconsistent type, as [Meta.Check] does. A symbolic size, stride or offset is
// rejected if no value within its bounds is valid.
func (t Type) Check() error {
	if t.isSmall() {
		return nil
	}
	var buf [2 * smallRank]int
	if len(t.Shape) != len(t.Strides) || !t.DType.Valid() { // Meta.Check returns the error
		return Meta{DType: t.DType, Shape: make([]int, len(t.Shape)), Strides: make([]int, len(t.Strides))}.Check()
	}
	if err := checkRank(len(t.Shape)); err != nil {
		return err
	}
	if offset, known := t.Offset.Known(); known {
		if m, allKnown := t.metaInBuffer(&buf); allKnown {
			m.Offset = offset
			return m.Check()
		}
	}
	if _, hi := t.Offset.Bounds(); hi < 0 {
		return fmt.Errorf("negative offset %v", t.Offset)
	}
	for dim, size := range t.Shape {
		if _, hi := size.Bounds(); hi < 0 {
			return fmt.Errorf("negative size %v of dimension %d", size, dim)
		}
		if _, hi := t.Strides[dim].Bounds(); hi < 0 {
			return fmt.Errorf("negative stride %v of dimension %d", t.Strides[dim], dim)
		}
	}
	return nil
}

// CheckSizes checks the dtype and the sizes of a type whose strides are not known yet, as [Type.Check] does.
func CheckSizes(d DType, shape []sym.Int) error {
	n := len(shape)
	strides := zeros[:min(n, smallRank)]
	if n > smallRank {
		strides = make([]sym.Int, n)
	}
	return Type{DType: d, Shape: shape, Strides: strides}.Check()
}

// zeros are the strides that CheckSizes gives a shape of small rank.
var zeros [smallRank]sym.Int

// fastCheck is Check. It avoids the copy of t if the type is common.
func (t *Type) fastCheck() error {
	if t.isSmall() {
		return nil
	}
	return t.Check()
}

// checked returns t if it passes fastCheck, a fast [Type.Check]. Views with sizes or steps from a user end with
// checked.
func (t Type) checked() (Type, error) {
	if err := t.fastCheck(); err != nil {
		return Type{}, err
	}
	return t, nil
}

// isSmall reports whether all sizes are numbers, consistent and small. It is a fast path of Check, which every
// inference calls several times.
func (t *Type) isSmall() bool {
	offset, known := t.Offset.Known()
	if !known || offset < 0 || offset > smallElements ||
		len(t.Shape) > smallRank || len(t.Shape) != len(t.Strides) || !t.DType.Valid() {
		return false
	}
	numel, span := 1, offset
	for d, size := range t.Shape {
		n, sizeKnown := size.Known()
		stride, strideKnown := t.Strides[d].Known()
		if !sizeKnown || !strideKnown || !addSmallDim(n, stride, &numel, &span) {
			return false
		}
	}
	return true
}

// cloneWithRoom returns t with new slices that have capacity for one more dimension.
func (t Type) cloneWithRoom() Type {
	n := len(t.Shape)
	shape, strides := newShapeAndStrides(n + 1)
	copy(shape, t.Shape)
	copy(strides, t.Strides)
	t.Shape, t.Strides = shape[:n], strides[:n]
	return t
}

// String prints dtype, shape and strides: "float32[2,N]@(N,1)", with "+4" for an offset.
func (t Type) String() string {
	list := func(v []sym.Int) string {
		parts := make([]string, len(v))
		for i, s := range v {
			parts[i] = s.String()
		}
		return strings.Join(parts, ",")
	}
	text := fmt.Sprintf("%s[%s]@(%s)", t.DType, list(t.Shape), list(t.Strides))
	if n, known := t.Offset.Known(); !known || n != 0 {
		text += "+" + t.Offset.String()
	}
	return text
}
