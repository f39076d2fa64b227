package rule

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Operand is an output or input of an iteration. It has a type and, if known, a storage. Memory overlap is checked only
// among operands with a storage.
type Operand struct {
	Type    tensor.Type
	Defined bool          // false for an output whose layout the rule chooses
	Number  tensor.Scalar // set for a plain number; only its category (bool, integer, float, complex) affects promotion
	Storage *tensor.Storage
	source  *tensor.Tensor // the argument of OperandOfTensor, else nil
	meta    *tensor.Meta   // Type with numbers as sizes, for an operand made by OperandOfMeta or OperandOfTensor; else nil
	extra   *operandExtra  // nil for an operand without names and without a mistake
}

// operandExtra has the rarely used fields of an Operand. They are separate to keep Operand small, because inference
// creates millions of operands.
type operandExtra struct {
	names   []string // names of the dimensions, or nil
	mistake string   // the end of an error message ("is a nil tensor"), which Rule returns; "" for none
}

// invalidOperand returns an operand that Rule rejects.
func invalidOperand(why string) Operand { return Operand{extra: &operandExtra{mistake: why}} }

// mistake returns the end of the error message for an invalid operand, or "".
func (o *Operand) mistake() string {
	if o.extra == nil {
		return ""
	}
	return o.extra.mistake
}

// names returns the names of the dimensions, or nil.
func (o *Operand) names() []string {
	if o.extra == nil {
		return nil
	}
	return o.extra.names
}

// OperandOfType returns an operand whose sizes may be symbolic, for [Config.Rule]. [Config.Resolve] requires numbers.
func OperandOfType(t tensor.Type) Operand { return Operand{Type: t, Defined: true} }

// OperandOfMeta returns an operand without data: only its meta is known, as for a borrowed operand of PyTorch. The
// caller supplies its address when the iteration runs.
func OperandOfMeta(m tensor.Meta) Operand { return Operand{Type: m.Type(), meta: &m, Defined: true} }

// OperandOfTensor returns an operand with storage, like an owned operand of PyTorch. The iteration can check overlap,
// and run over the tensor's data. If an output and an input are the same *Tensor, the output is read-write (an in-place
// operation). [Config.Rule] rejects a nil tensor, and a tensor without storage.
func OperandOfTensor(x *tensor.Tensor) Operand {
	if x == nil || x.Storage() == nil {
		return invalidOperand("is a nil tensor, or one without storage")
	}
	meta := x.Meta
	return Operand{Type: meta.Type(), meta: &meta, Defined: true, Storage: x.Storage(), source: x}
}

// Tensor returns the tensor of an operand made by [OperandOfTensor], else nil.
func (o Operand) Tensor() *tensor.Tensor { return o.source }

// UndefinedOutput returns an output of the common or static dtype, whose layout the rule chooses.
func UndefinedOutput() Operand { return Operand{} }

// UndefinedOutputOf returns an output of dtype d, whose layout the rule chooses.
func UndefinedOutputOf(d tensor.DType) Operand { return Operand{Type: tensor.Type{DType: d}} }

// NumberOperand returns a plain number as an operand. It is a 0-dim value, and affects promotion only if all tensors
// have a lower kind (bool, integer, float, complex). It can only be an input.
func NumberOperand(number tensor.Scalar) Operand {
	dtype := number.DType()
	switch dtype { // a plain number has PyTorch's default dtype of its category
	case tensor.Invalid:
		return invalidOperand("is an unset number")
	case tensor.Float64:
		dtype = tensor.Float32
	case tensor.Complex128:
		dtype = tensor.Complex64
	}
	return Operand{Type: tensor.Type{DType: dtype}, Defined: true, Number: number}
}

// Config describes an iteration. Every method returns a modified copy, so that one Config can be the base of several
// others. The methods have the meanings and defaults of at::TensorIteratorConfig.
//
// If the dtype of an operand differs from the loop's dtype, the operand is converted block by block. PyTorch on the
// CPU instead converts the operand to a temporary, whose layout affects the permutation. The rule uses the layout
// that this temporary would have, so that results have PyTorch's layouts. There is one device, so devices are not
// checked and AllowCPUScalars has no effect. This package also detects the overlap of operands that are not dense,
// and the partial overlap of two outputs; PyTorch does not.
type Config struct {
	operands   []Operand // outputs, then inputs
	outCount   int
	flags      flags
	shape      []sym.Int    // set by StaticShape
	dtype      tensor.DType // set by StaticDType; else Invalid
	inputDType tensor.DType // set by CastInputs; else Invalid
	mistake    error        // the error of a wrong call of a method, which Rule returns
}

// flags are the options of a Config. Their zero values are the defaults, so some are negations.
type flags struct {
	noOverlapCheck   bool // CheckMemOverlap(false)
	isReduction      bool // IsReduction
	keepOutputs      bool // ResizeOutputs(false)
	anyDTypes        bool // CheckAllSameDType(false)
	requiresSafeCast bool // EnforceSafeCastingToOutput
	linearIteration  bool // EnforceLinearIteration
	promoteInputs    bool // PromoteInputsToCommonDType
	intToFloat       bool // PromoteIntegerInputsToFloat
	castOutputs      bool // CastCommonDTypeToOutputs
	cpuScalars       bool // AllowCPUScalars
	hasStaticShape   bool // StaticShape was called
	noFastSetup      bool // FastSetup(false)
	opMath           bool // OpMath
}

// New returns the default configuration: memory overlap is checked, outputs may be resized, and all dtypes must be
// equal.
func New() Config { return Config{} }

// Output adds an output. All outputs must be added before the first input. Otherwise Rule returns an error.
//
// A defined output of the right shape keeps its strides, which have priority in the permutation. A defined output of
// a wrong shape is resized with a warning ([Rule.Resized], [Rule.Warnings]) or, if [Config.ResizeOutputs] is false,
// rejected. If the dtype of an output differs from the loop's dtype, results are converted on write.
// [Config.EnforceSafeCastingToOutput] rejects the output if this conversion is not safe.
func (c Config) Output(operand Operand) Config {
	if len(c.operands) > c.outCount {
		c.mistake = fmt.Errorf("iter: output %d was added after %d inputs: outputs must be added first", c.outCount,
			len(c.operands)-c.outCount)
		return c
	}
	c.operands = append(slices.Clip(c.operands), operand)
	c.outCount++
	return c
}

// Input adds an input.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (c Config) Input(o Operand) Config {
	c.operands = append(slices.Clip(c.operands), o)
	return c
}

// Inputs adds several inputs.
func (c Config) Inputs(o ...Operand) Config {
	c.operands = append(slices.Clip(c.operands), o...)
	return c
}

// CheckMemOverlap rejects outputs that overlap themselves or, partially, an input. Default true.
func (c Config) CheckMemOverlap(v bool) Config { c.flags.noOverlapCheck = !v; return c }

// AllowCPUScalars allows a 0-dim CPU operand together with operands on another device. It has no effect, because there
// is one device. It exists so that PyTorch's configurations can be copied unchanged. Default false.
func (c Config) AllowCPUScalars(v bool) Config { c.flags.cpuScalars = v; return c }

// IsReduction sets that the dimensions in which an output has stride 0 are reduced. Default false.
func (c Config) IsReduction(v bool) Config { c.flags.isReduction = v; return c }

// ResizeOutputs sets whether a defined output of the wrong shape is resized. Default true.
func (c Config) ResizeOutputs(v bool) Config { c.flags.keepOutputs = !v; return c }

// CheckAllSameDType rejects operands of different dtypes. Default true.
func (c Config) CheckAllSameDType(v bool) Config { c.flags.anyDTypes = !v; return c }

// EnforceSafeCastingToOutput rejects a defined output if the common dtype cannot be cast to the output's dtype
// ([tensor.CanCast]). Default false.
func (c Config) EnforceSafeCastingToOutput(v bool) Config { c.flags.requiresSafeCast = v; return c }

// EnforceLinearIteration keeps the dimensions in row-major order. Default false.
func (c Config) EnforceLinearIteration(v bool) Config { c.flags.linearIteration = v; return c }

// PromoteInputsToCommonDType computes the common dtype by promotion. Inputs are converted to it before the loop reads
// them. Default false.
func (c Config) PromoteInputsToCommonDType(v bool) Config {
	c.flags.promoteInputs = v
	if v {
		c.flags.anyDTypes = true
	}
	return c
}

// PromoteIntegerInputsToFloat replaces a common dtype of bool or integers by float32. It requires promotion of inputs.
// Default false.
func (c Config) PromoteIntegerInputsToFloat(v bool) Config { c.flags.intToFloat = v; return c }

// CastCommonDTypeToOutputs sets that loops compute in the common dtype even if a defined output has another dtype.
// Results are then converted on write. Default false.
func (c Config) CastCommonDTypeToOutputs(v bool) Config {
	c.flags.castOutputs = v
	if v {
		c.flags.anyDTypes = true
	}
	return c
}

// CastInputs sets that every input is converted to dtype d before the loop reads it, as in sum(dtype=...). It overrides
// promotion. In PyTorch there is no such method, because callers convert the inputs to temporaries. Default none.
func (c Config) CastInputs(d tensor.DType) Config {
	if c.inputDType = d; d != tensor.Invalid {
		c.flags.anyDTypes = true
	}
	return c
}

// OpMath sets that loops compute on float16 and bfloat16 operands in float32, as PyTorch's CPU kernels do. Results are
// rounded on write. Layouts do not change. Default false.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (c Config) OpMath(v bool) Config { c.flags.opMath = v; return c }

// StaticShape sets the shape, which is otherwise inferred from the operands. Operands may be larger; the loop then
// covers the elements with the lowest indices.
func (c Config) StaticShape(shape ...int) Config {
	c.shape, c.flags.hasStaticShape = sym.Ints(shape...), true
	return c
}

// StaticDType sets the dtype of undefined outputs.
func (c Config) StaticDType(d tensor.DType) Config { c.dtype = d; return c }

// FastSetup sets whether fast set-up ([FastSetup]) is used where possible: if the operands have equal shapes and a
// common layout, the outputs get it. Without fast set-up, the permutation rule decides all layouts: it sorts the
// dimensions by the operands' strides. PyTorch has no such switch; it is for studies of the rule. Default true.
func (c Config) FastSetup(v bool) Config { c.flags.noFastSetup = !v; return c }

// defaultConfig returns the default configuration with one output, the first of ops. The other ops are inputs.
func defaultConfig(ops ...Operand) Config { return Config{operands: ops, outCount: 1} }

// Unary is a unary op whose operand and result have the same dtype.
func Unary(out, a Operand) Config { return defaultConfig(out, a) }

// UnaryFloat is a unary op computed in floating point: integers become float32.
func UnaryFloat(out, a Operand) Config {
	return defaultConfig(out, a).PromoteInputsToCommonDType(true).
		PromoteIntegerInputsToFloat(true).CastCommonDTypeToOutputs(true).EnforceSafeCastingToOutput(true)
}

// Binary is a binary op in the promoted dtype.
func Binary(out, a, b Operand) Config {
	return defaultConfig(out, a, b).AllowCPUScalars(true).PromoteInputsToCommonDType(true).
		CastCommonDTypeToOutputs(true).EnforceSafeCastingToOutput(true)
}

// BinaryFloat is a binary op in floating point, such as true division.
func BinaryFloat(out, a, b Operand) Config {
	return Binary(out, a, b).PromoteIntegerInputsToFloat(true)
}

// Comparison is a comparison in the promoted dtype with a result of bool, which is converted if out has another dtype.
func Comparison(out, a, b Operand) Config {
	config := defaultConfig(out, a, b).AllowCPUScalars(true).PromoteInputsToCommonDType(true)
	if !out.Defined {
		return config.StaticDType(tensor.Bool)
	}
	if out.Type.DType != tensor.Bool {
		return config.CastCommonDTypeToOutputs(true)
	}
	return config
}

// Nullary fills an output.
func Nullary(out Operand) Config {
	return New().Output(out).CheckAllSameDType(false).ResizeOutputs(false)
}

// Reduction is a reduction of a into out, which must be defined and have size 1 or stride 0 in the reduced dimensions.
// [ReduceOutput] makes such an output.
func Reduction(out, a Operand) Config {
	return New().Output(out).Input(a).CheckMemOverlap(false).ResizeOutputs(false).
		IsReduction(true).PromoteInputsToCommonDType(true)
}

// Copy is a copy of a into out, like copy_. The dtypes may differ. If out is defined, it keeps its layout and a is
// broadcast to its shape.
func Copy(out, a Operand) Config {
	return New().Output(out).Input(a).CheckAllSameDType(false).ResizeOutputs(!out.Defined)
}
