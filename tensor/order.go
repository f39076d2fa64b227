package tensor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
)

// Order is a dense layout: the dimensions of a value from the slowest to the fastest, as in "0,2,3,1" for channels-last
// images. Byte i of the string is the dimension at position i. Orders are strings, so that they can be compared and be
// map keys. A 0-dim value has the empty Order. For the shape (2,3,4,5), for example, the order 0,2,3,1 has the strides
// (60,1,15,3): dimension 1 is the fastest, with stride 1, then come dimension 3 with stride 3 and dimension 2 with
// stride 3*5.
type Order string

// maxOrderRank is the maximum number of dimensions of an order, because each dimension is one byte.
const maxOrderRank = 256

// NewOrder returns the order with the given dimensions, slowest first. They must be a permutation of 0, 1, 2, ...
func NewOrder(dims ...int) (Order, error) {
	if err := checkRank(len(dims)); err != nil {
		return "", err
	}
	isListed := make([]bool, len(dims))
	order := make([]byte, len(dims))
	for i, d := range dims {
		if d < 0 || d >= len(dims) || isListed[d] {
			return "", fmt.Errorf("order %s is no permutation of the dimensions 0 to %d", joinDims(dims), len(dims)-1)
		}
		isListed[d], order[i] = true, byte(d)
	}
	return Order(order), nil
}

// ParseOrder returns the order written as "0,2,3,1".
func ParseOrder(text string) (Order, error) {
	if strings.TrimSpace(text) == "" {
		return "", nil
	}
	var dims []int
	for _, part := range strings.Split(text, ",") {
		d, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return "", fmt.Errorf("order %q: want dimensions from the slowest to the fastest, such as 0,2,3,1", text)
		}
		dims = append(dims, d)
	}
	return NewOrder(dims...)
}

// checkRank rejects more dimensions than an [Order] can have.
func checkRank(rank int) error {
	if rank > maxOrderRank {
		return fmt.Errorf("%d dimensions: at most %d are supported", rank, maxOrderRank)
	}
	return nil
}

// RowMajorOrder returns 0, 1, 2, ... It panics if rank is negative or above 256.
func RowMajorOrder(rank int) Order {
	if rank < 0 || rank > maxOrderRank {
		panic(fmt.Sprintf("tensor: an order cannot have %d dimensions", rank))
	}
	order := make([]byte, rank)
	for i := range order {
		order[i] = byte(i)
	}
	return Order(order)
}

// Order returns the order of a memory format for a rank. It fails where [MemoryFormat.Strides] fails.
func (f MemoryFormat) Order(rank int) (Order, error) {
	fastestFirst, err := f.order(rank)
	if rank < 0 || rank > maxOrderRank {
		return "", fmt.Errorf("an order cannot have %d dimensions", rank)
	}
	if err != nil || f == Contiguous {
		return RowMajorOrder(rank), err
	}
	dims := make([]byte, rank)
	for i, d := range fastestFirst {
		dims[rank-1-i] = byte(d)
	}
	return Order(dims), nil
}

// Rank returns the number of dimensions.
func (o Order) Rank() int { return len(o) }

// Dims returns the dimensions, slowest first.
func (o Order) Dims() []int {
	dims := make([]int, len(o))
	for i := range dims {
		dims[i] = int(o[i])
	}
	return dims
}

// IsRowMajor reports whether the dimensions are in ascending order.
func (o Order) IsRowMajor() bool {
	for i := range len(o) {
		if int(o[i]) != i {
			return false
		}
	}
	return true
}

// orderedFormats lists the memory formats that have an order, as opposed to Preserve.
var orderedFormats = [...]MemoryFormat{Contiguous, ChannelsLast, ChannelsLast3d}

// Format returns the memory format with this order, or NoFormat.
func (o Order) Format() MemoryFormat {
	for _, f := range orderedFormats {
		if named, err := f.Order(len(o)); err == nil && named == o {
			return f
		}
	}
	return NoFormat
}

// String returns the name of the order's memory format, or its dimensions: "0,2,1".
func (o Order) String() string {
	if f := o.Format(); f != NoFormat {
		return f.String()
	}
	return joinDims(o.Dims())
}

// joinDims returns the dimensions with commas, as [ParseOrder] reads them.
func joinDims(dims []int) string {
	parts := make([]string, len(dims))
	for i, d := range dims {
		parts[i] = strconv.Itoa(d)
	}
	return strings.Join(parts, ",")
}

// Strides returns the strides of a dense value of the shape, in a new slice. It panics if the rank of the shape differs
// from o's rank. As in PyTorch, a size 0 counts as 1 in row-major order, and as 0 in all other orders.
func (o Order) Strides(shape []int) []int {
	o.mustHaveRank(len(shape))
	if o.IsRowMajor() {
		return ContiguousStrides(shape)
	}
	strides := make([]int, len(shape))
	denseStride := 1
	for i := len(o) - 1; i >= 0; i-- {
		strides[o[i]] = denseStride
		denseStride *= shape[o[i]]
	}
	return strides
}

// mustHaveRank panics if the rank of the order differs from rank.
func (o Order) mustHaveRank(rank int) {
	if len(o) != rank {
		panic(fmt.Sprintf("tensor: order %s has %d dimensions, but the value has %d", joinDims(o.Dims()), len(o), rank))
	}
}

// SymbolicStrides is [Order.Strides] for sizes that may be symbolic.
func (o Order) SymbolicStrides(shape []sym.Int) []sym.Int {
	o.mustHaveRank(len(shape))
	if o.IsRowMajor() {
		return RowMajor(shape)
	}
	strides := make([]sym.Int, len(shape))
	denseStride := sym.Of(1)
	for i := len(o) - 1; i >= 0; i-- {
		strides[o[i]] = denseStride
		denseStride = mulSizes(denseStride, shape[o[i]])
	}
	return strides
}

// Matches reports whether a value is dense in the order; strides of dimensions of size 1 are ignored. It agrees with
// [Meta.Is] for the orders of memory formats.
func (o Order) Matches(m Meta) bool {
	m.mustMatchRanks()
	if len(o) != len(m.Shape) {
		return false
	}
	if o.IsRowMajor() {
		return m.IsContiguous()
	}
	denseStride := 1
	for i := len(o) - 1; i >= 0; i-- {
		if size := m.Shape[o[i]]; size != 1 {
			if m.Strides[o[i]] != denseStride {
				return false
			}
			denseStride *= size
		}
	}
	return true
}

// HoldsSymbolic is [Order.Matches] for sizes that may be symbolic. Conditions that the expressions and the
// bounds of their symbols do not decide are evaluated at the hints (typical sizes), and the outcomes are recorded as
// guards. The answer is valid only for sizes with the same outcomes.
func (o Order) HoldsSymbolic(t Type) bool {
	t.mustMatchRanks()
	if len(o) != len(t.Shape) {
		return false
	}
	var buf [2 * smallRank]int // for the slices of m, which then are not allocated
	if m, known := t.metaInBuffer(&buf); known {
		return o.Matches(m)
	}
	if o.IsRowMajor() {
		return t.IsRowMajor() || t.IsContiguous()
	}
	isDense, denseStride := sym.BoolOf(true), sym.Of(1)
	for _, d := range slices.Backward(o.Dims()) {
		isDense = isDense.And(t.Shape[d].Eq(sym.Of(1)).Or(t.Strides[d].Eq(denseStride)))
		denseStride = mulSizes(denseStride, t.Shape[d])
	}
	return isDense.Holds()
}

// OrderOf returns the order of a value's dimensions in memory, and whether the value is dense. A dense value fills a
// block of storage without gaps or overlap. If several orders describe the value, OrderOf prefers the order of a memory
// format, and otherwise the order of the strides.
func OrderOf(m Meta) (Order, bool) {
	for _, format := range orderedFormats {
		if order, err := format.Order(m.Rank()); err == nil && m.Is(format) {
			return order, true
		}
	}
	dims := RowMajorOrder(m.Rank()).Dims()
	sorted.Func(dims, func(a, b int) int {
		if c := m.Strides[b] - m.Strides[a]; c != 0 {
			return c
		}
		return m.Shape[b] - m.Shape[a]
	})
	order, _ := NewOrder(dims...)
	return order, m.IsNonOverlappingAndDense()
}

// Same reports whether the elements of a value of the shape have the same addresses in both orders. The positions of
// dimensions of size 1 do not matter. For a shape without elements all orders are the same.
func (o Order) Same(other Order, shape []int) bool {
	o.mustHaveRank(len(shape))
	return o == other || o.Canonical(shape) == other.Canonical(shape)
}

// Canonical returns o with the dimensions of size 1 moved to the front, in ascending order. For a shape without
// elements it returns the row-major order. Two orders for which [Order.Same] holds have the same canonical order.
func (o Order) Canonical(shape []int) Order {
	o.mustHaveRank(len(shape))
	if slices.Contains(shape, 0) {
		return RowMajorOrder(len(o))
	}
	canonical := make([]byte, 0, len(o))
	for d, size := range shape {
		if size == 1 {
			canonical = append(canonical, byte(d))
		}
	}
	for i := range len(o) {
		if shape[o[i]] != 1 {
			canonical = append(canonical, o[i])
		}
	}
	return Order(canonical)
}

// Permute returns the order of a view of a value in order o. Dimension i of the view is dimension dims[i] of the value.
// For example, the view of a value in channels-last order 0,2,3,1 with dims 0, 2, 3, 1 is row-major. Permute panics if
// dims is not a permutation.
func (o Order) Permute(dims []int) Order {
	o.mustHaveRank(len(dims))
	if _, err := NewOrder(dims...); err != nil {
		panic("tensor: " + err.Error())
	}
	viewDim := make([]byte, len(dims))
	for i, d := range dims {
		viewDim[d] = byte(i)
	}
	permuted := make([]byte, len(o))
	for i := range permuted {
		permuted[i] = viewDim[o[i]]
	}
	return Order(permuted)
}
