package rule

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// FastSetup is one of TensorIterator's shortcuts for layouts. If all operands have the same kind of dense layout, the
// outputs get this layout.
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

// Rule holds the decisions of TensorIterator's set-up: broadcast shape, dtypes, permutation and layouts of outputs.
// Sizes may be symbolic. A Rule is immutable and safe for concurrent use.
type Rule struct {
	operands    []Resolved // outputs, then inputs
	outCount    int
	sizes       []sym.Int // the broadcast shape, in the operands' order of dimensions
	perm        []int     // the dimensions, fastest first; nil after a fast set-up: see fastStrides
	fastStrides []sym.Int // the strides of all outputs after a fast set-up; else nil
	fast        FastSetup
	common      tensor.DType // the dtype to which inputs are promoted; Invalid for none
	flags       flags
	warnings    []string
	names       []string // the names of the dimensions; nil if no operand has names
	converts    bool     // some operand is converted in the loop
}

// Resolved is an operand with the decisions of a rule about it.
type Resolved struct {
	*Operand
	MemoryDType tensor.DType // the dtype in memory
	Cast        tensor.DType // the dtype to which elements are rounded during conversion ([Rule.Cast]); Invalid for none
	TargetDType tensor.DType // the dtype that loops see
	Meta        *tensor.Meta // the type in memory, with known sizes and strides; nil unless [Config.Resolve] was called

	ReadWrite bool // set for an output that is also an input

	isOutput       bool
	willResize     bool         // the operand is an output without a usable layout: undefined, or of a wrong shape
	needsTemporary bool         // PyTorch would convert the operand to a temporary of type comparedType
	chosenType     *tensor.Type // the type of an output whose layout the rule chose; else nil
	comparedType   *tensor.Type // the type whose strides the permutation rule compares
}

// RuleChoosesLayout reports whether the rule chooses the operand's layout.
func (o *Resolved) RuleChoosesLayout() bool { return !o.Defined || o.willResize }

// Converted reports whether the operand is converted between memory and loops.
func (o *Resolved) Converted() bool {
	return o.TargetDType != o.MemoryDType || o.Cast != tensor.Invalid
}

// memoryType returns the operand's type in memory.
func (o *Resolved) memoryType() tensor.Type {
	if o.chosenType != nil {
		return *o.chosenType
	}
	return o.Type.WithDType(o.MemoryDType)
}

// Operands returns the operands, outputs first. The slice belongs to the rule and must not be changed.
func (r *Rule) Operands() []Resolved { return r.operands }

// Without returns the rule without operand i. Its decisions about all other operands are unchanged. It panics if i is
// out of range.
func (r *Rule) Without(i int) Rule {
	r.Operand(i) // panics if i is out of range
	out := *r
	out.operands = slices.Delete(slices.Clone(r.operands), i, i+1)
	if i < r.outCount {
		out.outCount--
	}
	out.converts = slices.ContainsFunc(out.operands, func(o Resolved) bool { return o.Converted() })
	return out
}

// Len returns the number of operands, outputs included.
func (r *Rule) Len() int { return len(r.operands) }

// NumOutputs returns the number of outputs, which precede the inputs.
func (r *Rule) NumOutputs() int { return r.outCount }

// Perm returns the order of the dimensions in memory, fastest first.
func (r *Rule) Perm() []int {
	if r.perm == nil {
		return denseOrder(r.fastStrides, r.sizes)
	}
	return slices.Clone(r.perm)
}

// FastSetup returns the shortcut that was used.
func (r *Rule) FastSetup() FastSetup { return r.fast }

// CommonDType returns the dtype to which inputs are promoted, or tensor.Invalid if operands keep their dtypes.
func (r *Rule) CommonDType() tensor.DType { return r.common }

// Operand returns operand i, outputs first. It panics if i is out of range.
func (r *Rule) Operand(i int) *Resolved {
	if uint(i) >= uint(len(r.operands)) {
		r.panicNoOperand(i)
	}
	return &r.operands[i]
}

func (r *Rule) panicNoOperand(i int) {
	panic(fmt.Sprintf("iter: operand %d does not exist: the iteration has %d operands", i, len(r.operands)))
}

// DType returns the dtype in which loops see operand i. It panics if i is out of range.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (r *Rule) DType(i int) tensor.DType { return r.Operand(i).TargetDType }

// Sizes returns the broadcast shape in the operands' order of dimensions.
func (r *Rule) Sizes() []sym.Int { return slices.Clone(r.sizes) }

// Type returns the type of operand i in memory. It shares its slices with the rule.
func (r *Rule) Type(i int) tensor.Type { return r.Operand(i).memoryType() }

// Cast returns the dtype to which elements of operand i are rounded when they are converted between memory and loops,
// or tensor.Invalid. Such a rounding is needed if PyTorch promotes to a 16-bit float, but loops compute in float32.
func (r *Rule) Cast(i int) tensor.DType { return r.Operand(i).Cast }

// IsReduction returns the option [Config.IsReduction].
func (r *Rule) IsReduction() bool { return r.flags.isReduction }

// ChecksOverlap returns the option [Config.CheckMemOverlap].
func (r *Rule) ChecksOverlap() bool { return !r.flags.noOverlapCheck }

// Converts reports whether some operand is converted in the loop.
func (r *Rule) Converts() bool { return r.converts }

// Resized reports whether output i is defined with a wrong shape and must be resized to Meta.
func (r *Rule) Resized(i int) bool { return r.Operand(i).Defined && r.operands[i].willResize }

// Warnings returns PyTorch's warnings at set-up, such as for a resized output.
func (r *Rule) Warnings() []string { return slices.Clone(r.warnings) }
