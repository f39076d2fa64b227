package iter

import (
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Config describes an iteration. It is a [rule.Config] with the additional method [Config.Build]; rule.Config documents
// the other methods. Every method returns a changed copy, so that one Config can be extended in several ways. A method
// with a parameter v switches the described behavior on (true) or off.
type Config struct{ rule.Config }

// New returns the default configuration: memory overlap is checked, outputs may be resized, and all dtypes must be
// equal.
func New() Config { return Config{rule.New()} }

// Unary is a unary op whose operand and result have the same dtype.
func Unary(out, a Operand) Config { return Config{rule.Unary(out, a)} }

// UnaryFloat is a unary op in floating point: integers are converted to float32.
func UnaryFloat(out, a Operand) Config { return Config{rule.UnaryFloat(out, a)} }

// Binary is a binary op in the promoted dtype.
func Binary(out, a, b Operand) Config { return Config{rule.Binary(out, a, b)} }

// BinaryFloat is a binary op in floating point, such as true division.
func BinaryFloat(out, a, b Operand) Config { return Config{rule.BinaryFloat(out, a, b)} }

// Comparison is a comparison in the promoted dtype with a result of bool, which is converted if out has another dtype.
func Comparison(out, a, b Operand) Config { return Config{rule.Comparison(out, a, b)} }

// Nullary fills an output.
func Nullary(out Operand) Config { return Config{rule.Nullary(out)} }

// Reduction is a reduction of a into out, which must be defined and have size 1 or stride 0 in the reduced dimensions.
// [ReduceOutput] makes such an output.
func Reduction(out, a Operand) Config { return Config{rule.Reduction(out, a)} }

// Copy is a copy of a into out, like copy_. The dtypes may differ. If out is defined, it keeps its layout and a is
// broadcast to its shape.
func Copy(out, a Operand) Config { return Config{rule.Copy(out, a)} }

// Output adds an output.
func (c Config) Output(o Operand) Config { return Config{c.Config.Output(o)} }

// Input adds an input.
func (c Config) Input(o Operand) Config { return Config{c.Config.Input(o)} }

// Inputs adds several inputs.
func (c Config) Inputs(o ...Operand) Config { return Config{c.Config.Inputs(o...)} }

// CheckMemOverlap rejects outputs that overlap themselves or, partially, an input.
func (c Config) CheckMemOverlap(v bool) Config { return Config{c.Config.CheckMemOverlap(v)} }

// AllowCPUScalars has no effect, because there is one device.
func (c Config) AllowCPUScalars(v bool) Config { return Config{c.Config.AllowCPUScalars(v)} }

// IsReduction sets that the dimensions in which an output has stride 0 are reduced.
func (c Config) IsReduction(v bool) Config { return Config{c.Config.IsReduction(v)} }

// ResizeOutputs sets whether a defined output of the wrong shape is resized.
func (c Config) ResizeOutputs(v bool) Config { return Config{c.Config.ResizeOutputs(v)} }

// CheckAllSameDType rejects operands of different dtypes.
func (c Config) CheckAllSameDType(v bool) Config { return Config{c.Config.CheckAllSameDType(v)} }

// EnforceSafeCastingToOutput rejects a defined output if the common dtype cannot be cast to the output's dtype.
func (c Config) EnforceSafeCastingToOutput(v bool) Config {
	return Config{c.Config.EnforceSafeCastingToOutput(v)}
}

// EnforceLinearIteration keeps the dimensions in row-major order.
func (c Config) EnforceLinearIteration(v bool) Config {
	return Config{c.Config.EnforceLinearIteration(v)}
}

// PromoteInputsToCommonDType computes the common dtype by promotion. Inputs are converted to it before the loop reads
// them.
func (c Config) PromoteInputsToCommonDType(v bool) Config {
	return Config{c.Config.PromoteInputsToCommonDType(v)}
}

// PromoteIntegerInputsToFloat replaces a common dtype of bool or integers by float32.
func (c Config) PromoteIntegerInputsToFloat(v bool) Config {
	return Config{c.Config.PromoteIntegerInputsToFloat(v)}
}

// CastCommonDTypeToOutputs sets that loops compute in the common dtype even if a defined output has another dtype.
// Results are then converted on write.
func (c Config) CastCommonDTypeToOutputs(v bool) Config {
	return Config{c.Config.CastCommonDTypeToOutputs(v)}
}

// CastInputs sets that every input is converted to dtype d before the loop reads it, as in sum(dtype=...).
func (c Config) CastInputs(d tensor.DType) Config { return Config{c.Config.CastInputs(d)} }

// OpMath sets that loops compute on float16 and bfloat16 operands in float32, as PyTorch's CPU kernels do. Results are
// rounded on write.
func (c Config) OpMath(v bool) Config { return Config{c.Config.OpMath(v)} }

// StaticShape sets the shape, which is otherwise inferred from the operands. Operands may be larger; the loop then
// processes the elements with the lowest indices.
func (c Config) StaticShape(shape ...int) Config { return Config{c.Config.StaticShape(shape...)} }

// StaticDType sets the dtype of undefined outputs.
func (c Config) StaticDType(d tensor.DType) Config { return Config{c.Config.StaticDType(d)} }

// FastSetup sets whether fast set-up is used where possible: outputs get the layout of the operands if all operands
// have the same dense layout. Without fast set-up, the permutation rule decides all layouts: it sorts the dimensions by
// the operands' strides.
func (c Config) FastSetup(v bool) Config { return Config{c.Config.FastSetup(v)} }
