package rule

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Operand is an output or input of an iteration: a type and, if known, the identity of its storage, which overlap
// checks need.
type Operand struct {
	Type    tensor.Type
	Defined bool          // false: an output whose layout the iterator chooses
	Number  tensor.Scalar // set for a plain number, which promotes by its category only
	Storage *tensor.Storage
	object  *tensor.Tensor
	meta    *tensor.Meta // Type as numbers, if the operand was given by a meta
	more    *operandExtra
}

// operandExtra holds rarely used fields, to keep Operand small: inference creates millions of operands.
type operandExtra struct {
	names []string
	wrong string // a mistake, which Rule reports
}

// wrongOperand returns an operand that Rule rejects.
func wrongOperand(why string) Operand { return Operand{more: &operandExtra{wrong: why}} }

// names returns the names of the dimensions, or nil.
func (o *Operand) names() []string {
	if o.more == nil {
		return nil
	}
	return o.more.names
}

// OfType returns an operand whose sizes may be unknown, for [Config.Rule]; [Config.Measure] requires numbers.
func OfType(t tensor.Type) Operand { return Operand{Type: t, Defined: true} }

// Of returns an operand known by its meta alone: PyTorch's borrowed operand. The caller supplies addresses for the
// walk.
func Of(m tensor.Meta) Operand { return Operand{Type: m.Type(), meta: &m, Defined: true} }

// OfTensor returns an operand with storage, PyTorch's owned operand: the iteration can check overlap, and run over the
// tensor's data. The same *Tensor as an output and as an input makes the output read-write (an in-place operation).
// A nil tensor, or one without storage, is a mistake that [Config.Rule] reports.
func OfTensor(t *tensor.Tensor) Operand {
	if t == nil || t.Storage() == nil {
		return wrongOperand("is a nil tensor, or one without storage")
	}
	m := t.Meta
	return Operand{Type: m.Type(), meta: &m, Defined: true, Storage: t.Storage(), object: t}
}

// Tensor returns the tensor that the operand was given as; nil for one that was given by its meta or type.
func (o Operand) Tensor() *tensor.Tensor { return o.object }

// Undefined returns an output whose layout the iterator chooses, of the common or static dtype.
func Undefined() Operand { return Operand{} }

// UndefinedOf returns an output of dtype d whose layout the iterator chooses.
func UndefinedOf(d tensor.DType) Operand { return Operand{Type: tensor.Type{DType: d}} }

// Number returns a plain number as an operand: a 0-dim value that yields to the dtype of any tensor of the same or a
// higher kind. It can only be an input.
func Number(s tensor.Scalar) Operand {
	d := s.DType()
	switch d {
	case tensor.Invalid:
		return wrongOperand("is an unset number")
	case tensor.Float64:
		d = tensor.Float32
	case tensor.Complex128:
		d = tensor.Complex64
	}
	return Operand{Type: tensor.Type{DType: d}, Defined: true, Number: s}
}

// Config describes an iteration. It is a value: every method returns a changed copy, so that a Config can be extended
// in several ways. The methods have the meanings and defaults of at::TensorIteratorConfig.
//
// An operand of another dtype than the loop's is converted block by block, but layouts are those of PyTorch on the CPU,
// where it is a temporary whose layout takes part in the permutation. There is one device, so devices are not checked
// and AllowCPUScalars has no effect. Overlap is decided exactly where PyTorch gives up: for operands that are not
// dense, and for two outputs that overlap partially.
type Config struct {
	ops      []Operand
	noutputs int
	flags    flags
	shape    []sym.Int
	dtype    tensor.DType
	inputs   tensor.DType
	wrong    error // the first mistake of a method, which Rule reports
}

type flags struct {
	noOverlapCheck bool
	reduction      bool
	keepOutputs    bool
	anyDTypes      bool
	safeCast       bool
	linear         bool
	promote        bool
	intToFloat     bool
	castOutputs    bool
	cpuScalars     bool
	staticShape    bool
	noFastSetup    bool
	opMath         bool
}

// New returns the default configuration: memory overlap is checked, outputs may be resized, all dtypes must be equal.
func New() Config { return Config{} }

// Output adds an output. All outputs must be added before the first input; Rule rejects later ones.
//
// A given output of the right shape keeps its strides and comes first in the permutation; one of a wrong shape is
// resized with a warning ([Rule.Resized], [Rule.Warnings]) or rejected; one of another dtype is converted on write, or
// rejected if that is not safe.
func (c Config) Output(o Operand) Config {
	if len(c.ops) > c.noutputs {
		c.wrong = fmt.Errorf("iter: output %d was added after %d inputs: outputs must be added first", c.noutputs,
			len(c.ops)-c.noutputs)
		return c
	}
	c.ops = append(slices.Clip(c.ops), o)
	c.noutputs++
	return c
}

// Input adds an input.
func (c Config) Input(o Operand) Config {
	c.ops = append(slices.Clip(c.ops), o)
	return c
}

// Inputs adds several inputs.
func (c Config) Inputs(o ...Operand) Config {
	c.ops = append(slices.Clip(c.ops), o...)
	return c
}

// CheckMemOverlap rejects outputs that overlap themselves or, partially, an input. Default true.
func (c Config) CheckMemOverlap(v bool) Config { c.flags.noOverlapCheck = !v; return c }

// AllowCPUScalars lets a 0-dim CPU operand join operands of another device. It has no effect here, with one device, and
// exists so that PyTorch's configurations can be written in full. Default false.
func (c Config) AllowCPUScalars(v bool) Config { c.flags.cpuScalars = v; return c }

// IsReduction marks dimensions in which an output has stride 0 as reduced. Default false.
func (c Config) IsReduction(v bool) Config { c.flags.reduction = v; return c }

// ResizeOutputs lets the iterator resize a given output of the wrong shape. Default true.
func (c Config) ResizeOutputs(v bool) Config { c.flags.keepOutputs = !v; return c }

// CheckAllSameDType rejects operands of different dtypes. Default true.
func (c Config) CheckAllSameDType(v bool) Config { c.flags.anyDTypes = !v; return c }

// EnforceSafeCastingToOutput rejects a given output whose dtype cannot hold the common dtype. Default false.
func (c Config) EnforceSafeCastingToOutput(v bool) Config { c.flags.safeCast = v; return c }

// EnforceLinearIteration keeps the dimensions in row-major order. Default false.
func (c Config) EnforceLinearIteration(v bool) Config { c.flags.linear = v; return c }

// PromoteInputsToCommonDType computes the common dtype by promotion; loops see inputs converted to it. Default false.
func (c Config) PromoteInputsToCommonDType(v bool) Config {
	c.flags.promote = v
	if v {
		c.flags.anyDTypes = true
	}
	return c
}

// PromoteIntegerInputsToFloat replaces a common dtype of bool or integers by float32. It requires promotion of inputs.
// Default false.
func (c Config) PromoteIntegerInputsToFloat(v bool) Config { c.flags.intToFloat = v; return c }

// CastCommonDTypeToOutputs lets loops compute in the common dtype if a given output has another; the result is
// converted on write. Default false.
func (c Config) CastCommonDTypeToOutputs(v bool) Config {
	c.flags.castOutputs = v
	if v {
		c.flags.anyDTypes = true
	}
	return c
}

// CastInputs lets loops see every input as d, as if it had been converted before, like sum(dtype=...) but without the
// temporary. It overrides promotion. PyTorch has no such method; its callers convert. Default none.
func (c Config) CastInputs(d tensor.DType) Config {
	if c.inputs = d; d != tensor.Invalid {
		c.flags.anyDTypes = true
	}
	return c
}

// OpMath lets loops see float16 and bfloat16 as float32, in which PyTorch's CPU kernels compute; results are rounded on
// write. Layouts do not change. Default false.
func (c Config) OpMath(v bool) Config { c.flags.opMath = v; return c }

// StaticShape sets the shape instead of inferring it from the operands, which may be larger: the walk covers their
// first elements.
func (c Config) StaticShape(shape ...int) Config {
	c.shape, c.flags.staticShape = sym.Ints(shape...), true
	return c
}

// StaticDType sets the dtype of undefined outputs.
func (c Config) StaticDType(d tensor.DType) Config { c.dtype = d; return c }

// FastSetup can disable the fast set-up, so that the permutation rule alone decides. PyTorch has no such switch; it is
// for studying the rule. Default true.
func (c Config) FastSetup(v bool) Config { c.flags.noFastSetup = !v; return c }

// over is New with operands, the first of which is the output.
func over(ops ...Operand) Config { return Config{ops: ops, noutputs: 1} }

// Unary is TensorIterator's unary op: one dtype throughout.
func Unary(out, a Operand) Config { return over(out, a) }

// UnaryFloat is a unary op computed in floating point: integers become float32.
func UnaryFloat(out, a Operand) Config {
	return over(out, a).PromoteInputsToCommonDType(true).
		PromoteIntegerInputsToFloat(true).CastCommonDTypeToOutputs(true).EnforceSafeCastingToOutput(true)
}

// Binary is a binary op in the promoted dtype.
func Binary(out, a, b Operand) Config {
	return over(out, a, b).AllowCPUScalars(true).PromoteInputsToCommonDType(true).
		CastCommonDTypeToOutputs(true).EnforceSafeCastingToOutput(true)
}

// BinaryFloat is a binary op in floating point, such as true division.
func BinaryFloat(out, a, b Operand) Config {
	return Binary(out, a, b).PromoteIntegerInputsToFloat(true)
}

// Comparison compares in the promoted dtype and yields bool; a given output of another dtype is converted to.
func Comparison(out, a, b Operand) Config {
	c := over(out, a, b).AllowCPUScalars(true).PromoteInputsToCommonDType(true)
	if !out.Defined {
		return c.StaticDType(tensor.Bool)
	}
	if out.Type.DType != tensor.Bool {
		return c.CastCommonDTypeToOutputs(true)
	}
	return c
}

// Nullary fills an output.
func Nullary(out Operand) Config {
	return New().Output(out).CheckAllSameDType(false).ResizeOutputs(false)
}

// Reduction reduces a into out, which must be defined and have size 1 or stride 0 in the reduced dimensions: see
// [ReduceOutput].
func Reduction(out, a Operand) Config {
	return New().Output(out).Input(a).CheckMemOverlap(false).ResizeOutputs(false).
		IsReduction(true).PromoteInputsToCommonDType(true)
}

// Copy copies a into out, of any dtypes, like copy_: out, if given, keeps its layout and a is broadcast to it.
func Copy(out, a Operand) Config {
	return New().Output(out).Input(a).CheckAllSameDType(false).ResizeOutputs(!out.Defined)
}
