package iter

import (
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Config describes an iteration. It is a [rule.Config], which documents the methods, with the additional method
// [Config.Build]. Every method returns a changed copy, so that a Config can be extended in several ways.
type Config struct{ rule.Config }

// New returns the default configuration: memory overlap is checked, outputs may be resized, all dtypes must be equal.
func New() Config { return Config{rule.New()} }

// Unary is TensorIterator's unary op: one dtype throughout.
func Unary(out, a Operand) Config { return Config{rule.Unary(out, a)} }

// UnaryFloat is a unary op computed in floating point: integers become float32.
func UnaryFloat(out, a Operand) Config { return Config{rule.UnaryFloat(out, a)} }

// Binary is a binary op in the promoted dtype.
func Binary(out, a, b Operand) Config { return Config{rule.Binary(out, a, b)} }

// BinaryFloat is a binary op in floating point, such as true division.
func BinaryFloat(out, a, b Operand) Config { return Config{rule.BinaryFloat(out, a, b)} }

// Comparison compares in the promoted dtype and yields bool. If a given output has another dtype, the result is
// converted.
func Comparison(out, a, b Operand) Config { return Config{rule.Comparison(out, a, b)} }

// Nullary fills an output.
func Nullary(out Operand) Config { return Config{rule.Nullary(out)} }

// Reduction reduces a into out, which must be defined and have size 1 or stride 0 in the reduced dimensions: see
// [ReduceOutput].
func Reduction(out, a Operand) Config { return Config{rule.Reduction(out, a)} }

// Copy copies a into out, like copy_. The dtypes may differ. A given out keeps its layout, and a is broadcast to the
// shape of out.
func Copy(out, a Operand) Config { return Config{rule.Copy(out, a)} }

// Output adds an output.
func (c Config) Output(o Operand) Config { return Config{c.Config.Output(o)} }

// Input adds an input.
func (c Config) Input(o Operand) Config { return Config{c.Config.Input(o)} }

// Inputs adds several inputs.
func (c Config) Inputs(o ...Operand) Config { return Config{c.Config.Inputs(o...)} }

// CheckMemOverlap rejects outputs that overlap themselves or, partially, an input.
func (c Config) CheckMemOverlap(v bool) Config { return Config{c.Config.CheckMemOverlap(v)} }

// AllowCPUScalars lets a 0-dim CPU operand join operands of another device.
func (c Config) AllowCPUScalars(v bool) Config { return Config{c.Config.AllowCPUScalars(v)} }

// IsReduction marks dimensions in which an output has stride 0 as reduced.
func (c Config) IsReduction(v bool) Config { return Config{c.Config.IsReduction(v)} }

// ResizeOutputs lets the iterator resize a given output of the wrong shape.
func (c Config) ResizeOutputs(v bool) Config { return Config{c.Config.ResizeOutputs(v)} }

// CheckAllSameDType rejects operands of different dtypes.
func (c Config) CheckAllSameDType(v bool) Config { return Config{c.Config.CheckAllSameDType(v)} }

// EnforceSafeCastingToOutput rejects a given output whose dtype cannot hold the common dtype.
func (c Config) EnforceSafeCastingToOutput(v bool) Config {
	return Config{c.Config.EnforceSafeCastingToOutput(v)}
}

// EnforceLinearIteration keeps the dimensions in row-major order.
func (c Config) EnforceLinearIteration(v bool) Config {
	return Config{c.Config.EnforceLinearIteration(v)}
}

// PromoteInputsToCommonDType computes the common dtype by promotion; loops see inputs converted to it.
func (c Config) PromoteInputsToCommonDType(v bool) Config {
	return Config{c.Config.PromoteInputsToCommonDType(v)}
}

// PromoteIntegerInputsToFloat replaces a common dtype of bool or integers by float32.
func (c Config) PromoteIntegerInputsToFloat(v bool) Config {
	return Config{c.Config.PromoteIntegerInputsToFloat(v)}
}

// CastCommonDTypeToOutputs lets loops compute in the common dtype if a given output has another; the result is
// converted on write.
func (c Config) CastCommonDTypeToOutputs(v bool) Config {
	return Config{c.Config.CastCommonDTypeToOutputs(v)}
}

// CastInputs converts every input to d for loops, like sum(dtype=...) but without a temporary tensor.
func (c Config) CastInputs(d tensor.DType) Config { return Config{c.Config.CastInputs(d)} }

// OpMath converts float16 and bfloat16 to float32 for loops, as PyTorch's CPU kernels do. Results are rounded on write.
func (c Config) OpMath(v bool) Config { return Config{c.Config.OpMath(v)} }

// StaticShape sets the shape of the iteration, instead of inferring it from the operands. Operands may be larger; then
// the walk covers only their first elements.
func (c Config) StaticShape(shape ...int) Config { return Config{c.Config.StaticShape(shape...)} }

// StaticDType sets the dtype of undefined outputs.
func (c Config) StaticDType(d tensor.DType) Config { return Config{c.Config.StaticDType(d)} }

// FastSetup enables or disables the fast set-up. Without it the layouts always follow from the permutation rule.
func (c Config) FastSetup(v bool) Config { return Config{c.Config.FastSetup(v)} }
