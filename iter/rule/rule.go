package rule

import (
	"fmt"
	"slices"

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

// Rule is the decisions of TensorIterator's set-up: broadcast shape, dtypes, permutation and layouts of outputs. Sizes
// may be unknown. It is immutable and safe for concurrent use.
type Rule struct {
	ops      []Resolved
	noutputs int
	sizes    []sym.Int // broadcast, in the operands' order of dimensions
	perm     []int     // fastest dimension first; nil if it follows from dense
	dense    []sym.Int // strides of a fast set-up
	fast     FastSetup
	common   tensor.DType
	flags    flags
	warnings []string
	names    []string // of dimensions; nil if there are none
	converts bool     // some operand is converted in the loop
}

// Resolved is an operand and the decisions of a rule about it.
type Resolved struct {
	*Operand
	Held   tensor.DType // the dtype in memory
	Cast   tensor.DType // a 16-bit float to which it is rounded during conversion; Invalid: none
	Target tensor.DType // the dtype that loops see
	Meta   *tensor.Meta // in numbers, as given or as laid out; nil before [Config.Measure]

	ReadWrite bool // an output that is an input, too

	isOutput   bool
	willResize bool
	temporary  bool         // PyTorch converts it: rule is the type of that temporary
	laid       *tensor.Type // of an output that was laid out
	rule       *tensor.Type // has the strides that take part in the permutation
}

// IsLaidOut reports whether the rule chooses the operand's layout.
func (o *Resolved) IsLaidOut() bool { return !o.Defined || o.willResize }

// Converted reports whether loops see the operand in another form than memory has it.
func (o *Resolved) Converted() bool { return o.Target != o.Held || o.Cast != tensor.Invalid }

// as returns the type of the operand in memory.
func (o *Resolved) as() tensor.Type {
	if o.laid != nil {
		return *o.laid
	}
	return o.Type.WithDType(o.Held)
}

// Operands returns the operands, outputs first. The slice is the rule's own and must not be changed.
func (r *Rule) Operands() []Resolved { return r.ops }

// Without returns the rule without operand i, with the same decisions about the others. Like other methods that take
// an operand, it panics for an index out of range.
func (r *Rule) Without(i int) Rule {
	r.Operand(i) // panics if there is none
	out := *r
	out.ops = slices.Delete(slices.Clone(r.ops), i, i+1)
	if i < r.noutputs {
		out.noutputs--
	}
	out.converts = slices.ContainsFunc(out.ops, func(o Resolved) bool { return o.Converted() })
	return out
}

// Len returns the number of operands, outputs included.
func (r *Rule) Len() int { return len(r.ops) }

// NumOutputs returns the number of outputs, which are first.
func (r *Rule) NumOutputs() int { return r.noutputs }

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

// Operand returns operand i, outputs first. It panics if there is none.
func (r *Rule) Operand(i int) *Resolved {
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
func (r *Rule) DType(i int) tensor.DType { return r.Operand(i).Target }

// Sizes returns the broadcast shape in the operands' order of dimensions.
func (r *Rule) Sizes() []sym.Int { return slices.Clone(r.sizes) }

// Type returns the type of operand i: inputs as given, outputs as laid out. It shares its slices with the rule.
func (r *Rule) Type(i int) tensor.Type { return r.Operand(i).as() }

// Cast returns the intermediate dtype through which operand i is converted between memory and loops, or tensor.Invalid:
// PyTorch promotes to a 16-bit float, whose rounding matters, while loops compute in float32.
func (r *Rule) Cast(i int) tensor.DType { return r.Operand(i).Cast }

// IsReduction reports whether dimensions in which an output has stride 0 are reduced.
func (r *Rule) IsReduction() bool { return r.flags.reduction }

// ChecksOverlap reports whether outputs that overlap in memory are rejected.
func (r *Rule) ChecksOverlap() bool { return !r.flags.noOverlapCheck }

// Converts reports whether some operand is converted in the loop.
func (r *Rule) Converts() bool { return r.converts }

// Resized reports whether output i was given with another shape and must be resized to Meta.
func (r *Rule) Resized(i int) bool { return r.Operand(i).Defined && r.ops[i].willResize }

// Warnings returns PyTorch's warnings at set-up, such as for a resized output.
func (r *Rule) Warnings() []string { return slices.Clone(r.warnings) }
