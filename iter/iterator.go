package iter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Iterator is an iteration over operands: a [Rule] whose sizes are numbers, and the walk, which is the loop nest over
// the coalesced dimensions. It is immutable and safe for concurrent use. The state of a walk is in a [Cursor].
type Iterator struct {
	Rule
	operands []rule.Resolved // outputs, then inputs
	outCount int             // number of outputs
	perm     []int           // the dimensions, fastest first
	shape    []int           // the broadcast shape
	numel    int             // number of elements of shape

	walkShape   []int // sizes of the coalesced dimensions, fastest first
	walkStrides []int // strides in bytes, at index dim*len(operands)+operand; padded with 0 to at least two dimensions

	// The following fields describe a part of an iteration ([Iterator.Narrow], [Iterator.Split32]).

	offsets        []int // byte offset of each operand's first element; nil if the Iterator is not a part
	starts         []int // first index of the part in each dimension of the walk
	wholeWalkShape []int // the walk shape of the whole iteration
	hasEarlierPart bool  // this is a part of a reduction, and an earlier part has written to the same outputs
	hasLaterPart   bool  // this is a part of a reduction, and a later part adds to the same outputs
}

// Build sets up the iteration in the order of TensorIteratorBase::build: overlap checks, the decisions of
// [Config.Rule], then the walk, the loop nest over coalesced dimensions. All sizes must be numbers. Errors are
// PyTorch's, with the operand added. Build also fails for a nil tensor, a negative stride, or a layout that exceeds the
// tensor's storage.
func (c Config) Build() (*Iterator, error) { return Build(c.Config) }

// Build is [Config.Build] for a configuration of package rule.
func Build(c rule.Config) (*Iterator, error) {
	it := &Iterator{}
	if err := c.Resolve(&it.Rule); err != nil {
		return nil, err
	}
	it.operands, it.outCount, it.perm = it.Operands(), it.NumOutputs(), it.Perm()
	sizes := it.Sizes()
	it.shape = make([]int, len(sizes))
	for d, s := range sizes {
		it.shape[d], _ = s.Known()
	}
	it.numel = tensor.Numel(it.shape)
	it.coalesce()
	return it, nil
}

// byteStride returns the stride in bytes of operand i along a dimension of the walk.
func (it *Iterator) byteStride(dim, i int) int { return it.walkStrides[dim*len(it.operands)+i] }

var errNilIterator = errors.New("iter: the Iterator is nil")

// Numel returns the number of elements: the product of the broadcast shape.
func (it *Iterator) Numel() int { return it.numel }

// Shape returns the broadcast shape in the operands' order of dimensions.
func (it *Iterator) Shape() []int { return slices.Clone(it.shape) }

// Meta returns the meta of operand i. For an output that the caller did not give, it is the meta of the tensor to
// allocate.
func (it *Iterator) Meta(i int) tensor.Meta { return *it.Operand(i).Meta }

// Output returns the meta of the first output; it panics if there is none.
func (it *Iterator) Output() tensor.Meta {
	if it.outCount == 0 {
		panic("iter: the iteration has no output")
	}
	return *it.operands[0].Meta
}

// WalkShape returns the coalesced shape, fastest dimension first. It is empty for an iteration without dimensions.
func (it *Iterator) WalkShape() []int { return slices.Clone(it.walkShape) }

// WalkStrides returns the strides, in bytes, of operand i over [Iterator.WalkShape].
func (it *Iterator) WalkStrides(i int) []int {
	it.Operand(i) // panics if i is out of range
	strides := make([]int, len(it.walkShape))
	for d := range strides {
		strides[d] = it.byteStride(d, i)
	}
	return strides
}

// Offset returns the number of bytes from operand i's first element to the first element of the part. It is 0 for a
// whole iteration.
func (it *Iterator) Offset(i int) int {
	it.Operand(i) // panics if i is out of range
	if it.offsets == nil {
		return 0
	}
	return it.offsets[i]
}

// IsContiguous reports whether every operand is one contiguous run of elements and no operand is converted to another
// dtype.
func (it *Iterator) IsContiguous() bool {
	if len(it.walkShape) > 1 || it.Converts() {
		return false
	}
	for i := range it.operands { // walkStrides[i] is the stride of operand i along the fastest dimension
		if it.numel > 1 && it.walkStrides[i] != it.operands[i].Meta.DType.Size() {
			return false
		}
	}
	return true
}

// HasContiguousFirstDim reports whether every operand is contiguous along the fastest dimension of the walk
// (has_contiguous_first_dim). It is true if the walk has no dimensions.
func (it *Iterator) HasContiguousFirstDim() bool {
	if len(it.walkShape) == 0 {
		return true
	}
	for i := range it.operands {
		if it.walkStrides[i] != it.operands[i].Meta.DType.Size() {
			return false
		}
	}
	return true
}

// String describes the iteration: permutation, coalesced shape, and each operand's byte strides.
func (it *Iterator) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "shape %s perm %v fast set-up %s walk %v", tensor.ListString(it.shape), it.perm, it.FastSetup(),
		it.walkShape)
	for i := range it.operands {
		kind := "in"
		if i < it.outCount {
			kind = "out"
		}
		fmt.Fprintf(&b, "\n  %s %v strides %v", kind, *it.operands[i].Meta, it.WalkStrides(i))
		if t := it.operands[i].TargetDType; t != it.operands[i].Meta.DType {
			fmt.Fprintf(&b, " seen as %v", t)
		}
	}
	return b.String()
}
