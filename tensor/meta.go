package tensor

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Meta describes a strided value without its data (a meta tensor). Strides and Offset count elements. Shape and Strides
// have the same length. Other metas may share these slices, so callers must not write into them.
//
// The element at index (i, j) of a matrix is at position Offset + i*Strides[0] + j*Strides[1] of the storage. A
// row-major matrix of shape (2,3) has the strides (3,1). Its transpose is a view of shape (3,2) with the strides (1,3).
// The last column of the matrix is a view of shape (2) with the strides (3) and offset 2.
//
// Methods that return an error reject a meta that fails [Meta.Check]. Other methods require a meta that passes it, and
// panic with a message that begins with "tensor:" if shape and strides differ in length.
type Meta struct {
	DType   DType
	Shape   []int
	Strides []int
	Offset  int
}

// New returns a row-major meta at offset 0. The meta uses the slice shape itself.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func New(d DType, shape ...int) Meta {
	return Meta{DType: d, Shape: shape, Strides: ContiguousStrides(shape)}
}

// NewFormat returns a dense meta in the given format. The meta uses the slice shape itself. NewFormat fails where
// [MemoryFormat.Strides] fails.
func NewFormat(d DType, shape []int, f MemoryFormat) (Meta, error) {
	strides, err := f.Strides(shape)
	return Meta{DType: d, Shape: shape, Strides: strides}, err
}

// Rank returns the number of dimensions.
func (m Meta) Rank() int { return len(m.Shape) }

// Numel returns the number of elements. It is 1 for a 0-dim value.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (m Meta) Numel() int { return Numel(m.Shape) }

// Bytes returns the number of elements times the element size: the size of a dense copy.
func (m Meta) Bytes() int { return saturatingMul(m.Numel(), m.DType.Size()) }

// Extent returns the number of elements of storage that the value needs, its offset included: the largest index of an
// element plus 1, or 0 for a value without elements.
func (m Meta) Extent() int {
	m.mustMatchRanks()
	end := m.Offset + 1
	for i, s := range m.Shape {
		if s == 0 {
			return 0
		}
		end += (s - 1) * m.Strides[i]
	}
	return end
}

// WithDType returns m with another dtype.
func (m Meta) WithDType(d DType) Meta { m.DType = d; return m }

// WithStrides returns m at offset 0 with other strides. The result uses the slice strides itself.
func (m Meta) WithStrides(strides []int) Meta { m.Strides, m.Offset = strides, 0; return m }

// SameLayout reports whether shapes and strides are equal, the strides of dimensions of size 1 included.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (m Meta) SameLayout(other Meta) bool {
	return slices.Equal(m.Shape, other.Shape) && slices.Equal(m.Strides, other.Strides)
}

// SameAddresses reports whether both metas place every element at the same distance from their offsets. Unlike
// [Meta.SameLayout] it ignores strides of dimensions of size 1, and all strides of a value without elements.
func (m Meta) SameAddresses(other Meta) bool {
	if !slices.Equal(m.Shape, other.Shape) {
		return false
	}
	if m.Numel() == 0 {
		return true
	}
	m.mustMatchRanks()
	other.mustMatchRanks()
	for i, s := range m.Shape {
		if s != 1 && m.Strides[i] != other.Strides[i] {
			return false
		}
	}
	return true
}

// String prints dtype, shape and strides: "float32[2,3]@(3,1)", with "+4" for an offset.
func (m Meta) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s[%s]@(%s)", m.DType, join(m.Shape), join(m.Strides))
	if m.Offset != 0 {
		fmt.Fprintf(&text, "+%d", m.Offset)
	}
	return text.String()
}

// ListString prints sizes as PyTorch's messages do: "[2, 3]".
func ListString(v []int) string {
	text := []byte{'['}
	for i, n := range v {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = strconv.AppendInt(text, int64(n), 10)
	}
	return string(append(text, ']'))
}

// join lists numbers without spaces: "2,3".
func join(v []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]")
}

// Numel returns the product of sizes. It saturates at math.MaxInt, because a product that wraps would make a huge value
// look small or empty.
func Numel(shape []int) int {
	product, excess := uint64(1), uint64(0)
	for _, s := range shape {
		hi, lo := bits.Mul64(product, uint64(s))
		excess |= hi | lo>>63 // not 0 if the product exceeds an int, or if s is negative
		product = lo
	}
	if excess != 0 {
		return saturatingNumel(shape)
	}
	return int(product)
}

// saturatingNumel is Numel for a shape with a negative size, or whose product overflows an int. At a negative size, it
// returns -1.
func saturatingNumel(shape []int) int {
	product := 1
	for i, size := range shape {
		switch {
		case size == 0:
			return 0
		case size < 0:
			return -1
		case product > math.MaxInt/size:
			if slices.Contains(shape[i:], 0) {
				return 0
			}
			return math.MaxInt
		}
		product *= size
	}
	return product
}

// mustMatchRanks panics if shape and strides differ in length. Callers may set these fields to any slices, and a method
// without an error result cannot report a mismatch in another way.
func (m *Meta) mustMatchRanks() {
	if len(m.Shape) != len(m.Strides) {
		m.panicMismatch()
	}
}

func (m *Meta) panicMismatch() {
	panic(fmt.Sprintf("tensor: a meta has %d sizes and %d strides", len(m.Shape), len(m.Strides)))
}

// ContiguousStrides returns row-major strides in a new slice. A size 0 counts as 1, so that no stride is 0
// (c10::contiguous_strides).
func ContiguousStrides(shape []int) []int {
	strides := make([]int, len(shape))
	denseStride := 1
	for d := len(shape) - 1; d >= 0; d-- {
		strides[d] = denseStride
		denseStride = saturatingMul(denseStride, max(shape[d], 1))
	}
	return strides
}

// Check returns an error for an inconsistent meta: an invalid dtype, shape and strides of different lengths,
// more dimensions than an [Order] can have, a negative size, stride or offset, or a span above [MaxBytes].
func (m Meta) Check() error {
	if m.isSmall() {
		return nil
	}
	if m.DType == Invalid {
		return errors.New("it has no dtype")
	}
	if !m.DType.Valid() {
		return fmt.Errorf("invalid dtype %v", m.DType)
	}
	if len(m.Shape) != len(m.Strides) {
		return fmt.Errorf("mismatch in length of strides and shape: %d strides for %d dimensions", len(m.Strides),
			len(m.Shape))
	}
	if err := checkRank(len(m.Shape)); err != nil {
		return err
	}
	if m.Offset < 0 {
		return fmt.Errorf("negative offset %d", m.Offset)
	}
	if err := m.checkNumel(); err != nil {
		return err
	}
	return m.checkSpan()
}

// checkNumel returns an error for a negative size, or for a shape with too many elements.
func (m Meta) checkNumel() error {
	limit, numel := uint64(MaxBytes/m.DType.Size()), uint64(1)
	for dim, size := range m.Shape {
		if size < 0 {
			return fmt.Errorf("negative size %d of dimension %d", size, dim)
		}
		high, low := bits.Mul64(numel, uint64(max(size, 1)))
		if high != 0 || low > limit {
			return tooManyElements(m)
		}
		numel = low
	}
	return nil
}

// checkSpan returns an error for a negative stride, or for a value that spans too many bytes.
func (m Meta) checkSpan() error {
	limit, span := uint64(MaxBytes/m.DType.Size()), uint64(m.Offset)
	for dim, size := range m.Shape {
		if m.Strides[dim] < 0 {
			return fmt.Errorf("negative stride %d of dimension %d", m.Strides[dim], dim)
		}
		high, low := bits.Mul64(uint64(max(size-1, 0)), uint64(m.Strides[dim]))
		if high != 0 || low > limit || span+low > limit || uint64(m.Strides[dim]) > limit {
			return fmt.Errorf("shape %s with strides %s and offset %d spans more than %s", ListString(m.Shape),
				ListString(m.Strides), m.Offset, limitText)
		}
		span += low
	}
	if span > limit {
		return fmt.Errorf("offset %d spans more than %s", m.Offset, limitText)
	}
	return nil
}

// isSmall reports whether m is consistent and small: a fast path of Check for common metas.
func (m *Meta) isSmall() bool {
	if uint(m.Offset) > smallElements || len(m.Shape) > smallRank || len(m.Shape) != len(m.Strides) || !m.DType.Valid() {
		return false
	}
	numel, span := 1, m.Offset
	for d, n := range m.Shape {
		if !addSmallDim(n, m.Strides[d], &numel, &span) {
			return false
		}
	}
	return true
}

// smallElements is the maximum number of elements that a value may have, or span in storage, for the fast path of
// Check. For every dtype, this number of elements takes far fewer bytes than [MaxBytes]. The square of smallElements
// does not overflow an int.
const smallElements = 1 << (bits.UintSize/2 - 1)

// addSmallDim multiplies numel by size, and adds to span the distance in elements from the first to the last index of
// the dimension. It returns false if a number is negative or exceeds smallElements.
func addSmallDim(size, stride int, numel, span *int) bool {
	if uint(size) > smallElements || uint(stride) > smallElements { // true for a negative number, too
		return false
	}
	*numel *= max(size, 1)
	*span += max(size-1, 0) * stride
	return *numel <= smallElements && uint(*span) <= smallElements
}

// MaxBytes bounds the bytes that one value may span: 2^47 on 64-bit systems, the size of an address space, and 2^29 on
// 32-bit systems. Larger values are rejected before anything is computed from their shapes.
const MaxBytes = min(1<<47, math.MaxInt/4+1)

// limitText is MaxBytes in messages, such as "2^47 bytes".
var limitText = fmt.Sprintf("2^%d bytes", bits.TrailingZeros64(MaxBytes))

// tooManyElements returns the error for a shape with more elements than MaxBytes bytes hold. The check ignores strides.
func tooManyElements(m Meta) error {
	return fmt.Errorf("shape %s has too many elements: at most %d of dtype %v fit into %s", ListString(m.Shape),
		MaxBytes/m.DType.Size(), m.DType, limitText)
}
