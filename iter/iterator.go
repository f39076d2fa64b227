package iter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// FastSetup is one of the shortcuts by which TensorIterator lays out an iteration.
type FastSetup uint8

// The kinds of fast set-up, in the order of precedence.
const (
	FastNone FastSetup = iota
	FastContiguous
	FastChannelsLast
	FastNonOverlappingDense
)

// String returns the name of the kind.
func (f FastSetup) String() string {
	if f > FastNonOverlappingDense {
		return fmt.Sprintf("FastSetup(%d)", uint8(f))
	}
	return [...]string{"none", "contiguous", "channels_last", "non_overlapping_and_dense"}[f]
}

// Rule is the part of TensorIterator's set-up that needs no walk: broadcast shape, dtypes, permutation and layouts of
// outputs. Sizes may be unknown. It is immutable and safe for concurrent use.
type Rule struct {
	ops      []operand
	noutputs int
	sizes    []sym.Int // broadcast, in the operands' order of dimensions
	perm     []int     // fastest dimension first; nil if it follows from dense
	dense    []sym.Int // strides of a fast set-up
	fast     FastSetup
	common   tensor.DType
	flags    flags
	warnings []string
	names    []string // of dimensions; nil if there are none
	staged   bool     // some operand is converted in the loop
}

// Iterator is an iteration over operands: a [Rule] whose sizes are numbers, and the resulting walk. It is immutable and
// safe for concurrent use; the state of a walk is in a [Cursor].
type Iterator struct {
	Rule
	shape []int // sizes as numbers
	numel int

	walkShape   []int // coalesced, fastest first
	walkStrides []int // bytes; [dim*len(ops)+op], padded to two dimensions

	offsets             []int // byte offsets of a part's operands; nil for the whole
	starts, whole       []int // of a part of a reduction: start, and the shape of the whole walk
	accumulate, partial bool  // of a part of a reduction
}

// operand is an Operand during set-up. held is the dtype in memory; laid is the type of an output that was laid out;
// meta has the operand's numbers, once there is a walk; rule has the strides that take part in the permutation, those
// of PyTorch's temporary if the operand is converted.
type operand struct {
	*Operand
	isOutput   bool
	readWrite  bool
	willResize bool
	ruleSet    bool
	held       tensor.DType
	cast       tensor.DType // a 16-bit float to which it is rounded during conversion; Invalid: none
	target     tensor.DType // the dtype that loops see
	laid       *tensor.Type
	rule       *tensor.Type
	meta       *tensor.Meta
}

// as returns the type of the operand in memory.
func (o *operand) as() tensor.Type {
	if o.laid != nil {
		return *o.laid
	}
	return o.Type.WithDType(o.held)
}

// Len returns the number of operands, outputs included.
func (r *Rule) Len() int { return len(r.ops) }

// NumOutputs returns the number of outputs, which are first.
func (r *Rule) NumOutputs() int { return r.noutputs }

// Numel returns the number of elements walked: the product of the broadcast shape.
func (it *Iterator) Numel() int { return it.numel }

// Shape returns the broadcast shape in the operands' order of dimensions.
func (it *Iterator) Shape() []int { return slices.Clone(it.shape) }

// Perm returns the order of the dimensions in memory, fastest first.
func (r *Rule) Perm() []int {
	if r.perm == nil {
		return orderOf(r.dense, r.sizes)
	}
	return slices.Clone(r.perm)
}

// FastSetup returns the shortcut taken.
func (r *Rule) FastSetup() FastSetup { return r.fast }

// CommonDType returns the dtype to which inputs are promoted, or tensor.Invalid if operands keep theirs.
func (r *Rule) CommonDType() tensor.DType { return r.common }

// op returns operand i. It panics if there is none.
func (r *Rule) op(i int) *operand {
	if uint(i) >= uint(len(r.ops)) {
		r.noOperand(i)
	}
	return &r.ops[i]
}

func (r *Rule) noOperand(i int) {
	panic(fmt.Sprintf("iter: no operand %d: the iteration has %d", i, len(r.ops)))
}

// DType returns the dtype in which loops see operand i. Like Meta and the other accessors that take an operand, it
// panics for an index out of range.
func (r *Rule) DType(i int) tensor.DType { return r.op(i).target }

// Sizes returns the broadcast shape in the operands' order of dimensions.
func (r *Rule) Sizes() []sym.Int { return slices.Clone(r.sizes) }

// Type returns the type of operand i: inputs as given, outputs as laid out. It shares its slices with the rule.
func (r *Rule) Type(i int) tensor.Type { return r.op(i).as() }

// Cast returns the intermediate dtype through which operand i is converted between memory and loops, or tensor.Invalid:
// PyTorch promotes to a 16-bit float, whose rounding matters, while loops compute in float32.
func (r *Rule) Cast(i int) tensor.DType { return r.op(i).cast }

// Meta returns operand i: inputs as given, outputs as laid out. The caller must allocate outputs that the rule laid
// out.
func (it *Iterator) Meta(i int) tensor.Meta { return *it.op(i).meta }

// Output returns the meta of the first output; it panics if there is none.
func (it *Iterator) Output() tensor.Meta {
	if it.noutputs == 0 {
		panic("iter: the iteration has no output")
	}
	return *it.ops[0].meta
}

// Resized reports whether output i was given with another shape and must be resized to Meta.
func (r *Rule) Resized(i int) bool { return r.op(i).Defined && r.ops[i].willResize }

// Warnings returns PyTorch's warnings at set-up, such as for a resized output.
func (r *Rule) Warnings() []string { return slices.Clone(r.warnings) }

// WalkShape returns the coalesced shape of the walk, fastest dimension first. It is empty for a single element without
// dimensions.
func (it *Iterator) WalkShape() []int { return slices.Clone(it.walkShape) }

// WalkStrides returns the strides, in bytes, of operand i over [Iterator.WalkShape].
func (it *Iterator) WalkStrides(i int) []int {
	it.op(i)
	st := make([]int, len(it.walkShape))
	for d := range st {
		st[d] = it.walkStrides[d*len(it.ops)+i]
	}
	return st
}

// IsContiguous reports whether every operand is one contiguous run of elements, without conversion.
func (it *Iterator) IsContiguous() bool {
	if len(it.walkShape) > 1 || it.staged {
		return false
	}
	for i := range it.ops {
		if it.numel > 1 && it.walkStrides[i] != it.ops[i].meta.DType.Size() {
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
	for i := range it.ops {
		if it.walkStrides[i] != it.ops[i].meta.DType.Size() {
			return false
		}
	}
	return true
}

// String describes the iteration: permutation, coalesced shape, and each operand's byte strides.
func (it *Iterator) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "shape %s perm %v fast set-up %s walk %v", tensor.ListString(it.shape), it.perm, it.fast, it.walkShape)
	for i := range it.ops {
		kind := "in"
		if i < it.noutputs {
			kind = "out"
		}
		fmt.Fprintf(&b, "\n  %s %v strides %v", kind, *it.ops[i].meta, it.WalkStrides(i))
		if t := it.ops[i].target; t != it.ops[i].meta.DType {
			fmt.Fprintf(&b, " seen as %v", t)
		}
	}
	return b.String()
}
