package iter

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Operand is one output or input of an iteration: a type, and, where it is known, the
// identity of the storage behind it, which the overlap checks need.
type Operand struct {
	Type    tensor.Type
	Defined bool          // false: an output that the iterator lays out
	Number  tensor.Scalar // set for a plain number, which promotes by its category only
	Storage *tensor.Storage
	object  *tensor.Tensor
	meta    *tensor.Meta // the numbers of Type, where the operand was given by them
	more    *remark
}

// remark is what few operands have: inference makes operands by the million.
type remark struct {
	names []string
	wrong string // a mistake, which Build reports
}

// wrongOperand returns an operand that Build refuses.
func wrongOperand(why string) Operand { return Operand{more: &remark{wrong: why}} }

// names returns the names of the dimensions; nil: none.
func (o *Operand) names() []string {
	if o.more == nil {
		return nil
	}
	return o.more.names
}

// OfType returns an operand whose sizes may be unknown: [Config.Rule] takes it, and [Config.Build]
// where its sizes are numbers.
func OfType(t tensor.Type) Operand { return Operand{Type: t, Defined: true} }

// Of returns an operand known by its meta alone: PyTorch's borrowed operand. Addresses come
// from the caller when the iteration is walked.
func Of(m tensor.Meta) Operand { return Operand{Type: m.Type(), meta: &m, Defined: true} }

// OfTensor returns an operand whose storage is known, PyTorch's owned operand: the
// iteration can check overlap, and run over the tensor's own data. The same *Tensor given
// as an output and as an input makes the output read-write (an in-place operation). A nil
// tensor, or one without storage, is refused by [Config.Build].
func OfTensor(t *tensor.Tensor) Operand {
	if t == nil || t.Storage() == nil {
		return wrongOperand("is a nil tensor, or one without storage")
	}
	m := t.Meta
	return Operand{Type: m.Type(), meta: &m, Defined: true, Storage: t.Storage(), object: t}
}

// Undefined returns an output to be laid out, of the common or static dtype.
func Undefined() Operand { return Operand{} }

// UndefinedOf returns an output to be laid out with the dtype d.
func UndefinedOf(d tensor.DType) Operand { return Operand{Type: tensor.Type{DType: d}} }

// Number returns a plain number as an operand: a 0-dim value whose dtype gives way to
// that of any tensor of the same kind or a higher one. It can be an input only.
func Number(s tensor.Scalar) Operand {
	d := s.DType()
	switch d {
	case tensor.Invalid:
		return wrongOperand("is a number that was never set")
	case tensor.Float64:
		d = tensor.Float32
	case tensor.Complex128:
		d = tensor.Complex64
	}
	return Operand{Type: tensor.Type{DType: d}, Defined: true, Number: s}
}

// Config says what an iteration runs over. It is a value: every method returns a changed
// copy, so a Config can be kept and extended in several ways. The methods have the
// meaning and the defaults of at::TensorIteratorConfig.
//
// An operand of another dtype than loops see is converted block by block, and yet layouts come
// out as PyTorch's on the CPU, where it is a temporary whose own layout takes part in the
// permutation rule. There is one device, so nothing is checked of devices and AllowCPUScalars
// changes nothing. Overlap is looked at exactly where PyTorch gives up: in operands that are not
// dense, and in two outputs that share a part of their memory.
type Config struct {
	ops      []Operand
	noutputs int
	flags    flags
	shape    []sym.Int
	dtype    tensor.DType
	inputs   tensor.DType
	wrong    error // the first mistake of a method, which Build reports
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

// New returns the default configuration: memory overlap is checked, outputs may be
// resized, all dtypes must be the same.
func New() Config { return Config{} }

// Output adds an output. All outputs must be added before the first input; Build refuses
// one that comes later.
//
// A given output of the right shape keeps its strides and leads the permutation; one of a
// wrong shape is laid out anew with a warning ([Rule.Resized], [Rule.Warnings]) or refused;
// one of another dtype is converted on write, or refused where that is not safe.
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

// CheckMemOverlap asks that outputs overlap neither themselves nor, in part, an input.
// Default true.
func (c Config) CheckMemOverlap(v bool) Config { c.flags.noOverlapCheck = !v; return c }

// AllowCPUScalars lets one 0-dim CPU operand join operands of another device. There is
// one device here, so it changes nothing; it is kept so that PyTorch's configurations
// can be stated whole. Default false.
func (c Config) AllowCPUScalars(v bool) Config { c.flags.cpuScalars = v; return c }

// IsReduction marks dimensions in which an output has stride 0 as reduced. Default false.
func (c Config) IsReduction(v bool) Config { c.flags.reduction = v; return c }

// ResizeOutputs lets a given output of the wrong shape be laid out anew. Default true.
func (c Config) ResizeOutputs(v bool) Config { c.flags.keepOutputs = !v; return c }

// CheckAllSameDType refuses operands of different dtypes. Default true.
func (c Config) CheckAllSameDType(v bool) Config { c.flags.anyDTypes = !v; return c }

// EnforceSafeCastingToOutput refuses a given output whose dtype cannot hold the common
// dtype. Default false.
func (c Config) EnforceSafeCastingToOutput(v bool) Config { c.flags.safeCast = v; return c }

// EnforceLinearIteration keeps the dimensions in row-major order. Default false.
func (c Config) EnforceLinearIteration(v bool) Config { c.flags.linear = v; return c }

// PromoteInputsToCommonDType computes the common dtype by promotion; loops see inputs
// of another dtype converted. Default false.
func (c Config) PromoteInputsToCommonDType(v bool) Config {
	c.flags.promote = v
	if v {
		c.flags.anyDTypes = true
	}
	return c
}

// PromoteIntegerInputsToFloat makes a common dtype of bool or integers float32. It
// implies nothing without promotion of inputs. Default false.
func (c Config) PromoteIntegerInputsToFloat(v bool) Config { c.flags.intToFloat = v; return c }

// CastCommonDTypeToOutputs lets loops compute in the common dtype when a given output
// has another; the result is converted on write. Default false.
func (c Config) CastCommonDTypeToOutputs(v bool) Config {
	c.flags.castOutputs = v
	if v {
		c.flags.anyDTypes = true
	}
	return c
}

// CastInputs lets loops see every input as d, as if it had been converted before: what
// sum(dtype=...) does, without the whole temporary. Another dtype than d given by promotion
// gives way. PyTorch has no such method; its callers convert. Default none.
func (c Config) CastInputs(d tensor.DType) Config {
	if c.inputs = d; d != tensor.Invalid {
		c.flags.anyDTypes = true
	}
	return c
}

// OpMath lets loops see float16 and bfloat16 as float32, as PyTorch's CPU kernels compute
// on them; results are rounded on write. Layouts do not change. Default false.
func (c Config) OpMath(v bool) Config { c.flags.opMath = v; return c }

// StaticShape declares the shape instead of inferring it from the operands, which may be
// larger: the walk covers their beginning.
func (c Config) StaticShape(shape ...int) Config {
	c.shape, c.flags.staticShape = sym.Ints(shape...), true
	return c
}

// StaticDType declares the dtype of undefined outputs.
func (c Config) StaticDType(d tensor.DType) Config { c.dtype = d; return c }

// FastSetup may switch the fast set-up off, so that the permutation rule alone decides.
// PyTorch has no such switch; it is for studying the rule. Default true.
func (c Config) FastSetup(v bool) Config { c.flags.noFastSetup = !v; return c }

// over is New with operands, of which the first is the output.
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

// Comparison compares in the promoted dtype and yields bool; a given output of another
// dtype is cast to.
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

// Reduction reduces a into out, which must be defined and whose reduced dimensions are of
// size 1 or have stride 0: see [ReduceOutput]. [Iterator.RunReduce] and the like run it.
func Reduction(out, a Operand) Config {
	return New().Output(out).Input(a).CheckMemOverlap(false).ResizeOutputs(false).
		IsReduction(true).PromoteInputsToCommonDType(true)
}

// Copy copies a into out, of any dtypes, as copy_ does: out, where given, keeps its
// layout and a is broadcast to it.
func Copy(out, a Operand) Config {
	return New().Output(out).Input(a).CheckAllSameDType(false).ResizeOutputs(!out.Defined)
}
