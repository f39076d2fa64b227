package pointwise

import (
	"errors"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// kernelTable has the kernels of an op, indexed by the dtype in which the op computes. The zero Kernel stands for
// an unsupported dtype. Most ops have no kernels for 16-bit floats, because they convert 16-bit floats to float32
// before they compute (rule.Config.OpMath).
type kernelTable [tensor.Complex128 + 1]rule.Kernel

// mergeKernels merges tables. If several tables have a kernel for a dtype, the last of them applies.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func mergeKernels(tables ...kernelTable) (out kernelTable) {
	for _, table := range tables {
		for dtype, kernel := range table {
			if !kernel.IsZero() {
				out[dtype] = kernel
			}
		}
	}
	return out
}

// kernelFor returns the kernel for the dtype in which the iteration computes. If the table has no such kernel, it
// returns PyTorch's error, which names the kernel name + "_cpu".
func (t *kernelTable) kernelFor(name string, iteration *rule.Rule) (rule.Kernel, error) {
	return t.kernelNamed(name+"_cpu", iteration)
}

// kernelNamed is kernelFor with the full name of PyTorch's kernel, torchKernel.
func (t *kernelTable) kernelNamed(torchKernel string, iteration *rule.Rule) (rule.Kernel, error) {
	firstInput := iteration.NumOutputs() // operands are outputs, then inputs
	if kernel := t[iteration.DType(firstInput)]; !kernel.IsZero() {
		return kernel, nil
	}
	return rule.Kernel{}, rule.NotImplemented(torchKernel, iteration)
}

// bodyByDType returns the function [graph.Pointwise.Body] of an op whose kernels do not depend on
// attributes.
func bodyByDType(name string, kernels kernelTable) func(*graph.Call, *rule.Rule) (rule.Kernel, error) {
	return namedBody(name+"_cpu", kernels)
}

// namedBody is bodyByDType with the full name of PyTorch's kernel, torchKernel.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func namedBody(torchKernel string, kernels kernelTable) func(*graph.Call, *rule.Rule) (rule.Kernel, error) {
	return func(_ *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
		return kernels.kernelNamed(torchKernel, iteration)
	}
}

// config is a function that returns the configuration of the iteration over the elements of a call. outs has the
// outputs, which are undefined during inference.
type config = func(c *graph.Call, outs []rule.Operand) (rule.Config, error)

// unary, unaryFloat, binary, binaryFloat, comparison and ternary return PyTorch's predefined configurations for a call.

func unary(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	return rule.Unary(outs[0], c.In[0].Operand()).OpMath(true), nil
}

func unaryFloat(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	return rule.UnaryFloat(outs[0], c.In[0].Operand()).OpMath(true), nil
}

func binary(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	return rule.Binary(outs[0], c.In[0].Operand(), c.In[1].Operand()).OpMath(true), nil
}

func binaryFloat(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	return rule.BinaryFloat(outs[0], c.In[0].Operand(), c.In[1].Operand()).OpMath(true), nil
}

// binaryWithoutWidening is binary without the conversion of 16-bit floats to float32. The formulas compute in the
// 16-bit dtype and round after every step, as PyTorch does.
func binaryWithoutWidening(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	cfg, err := binary(c, outs)
	return cfg.OpMath(false), err
}

func comparison(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	return rule.Comparison(outs[0], c.In[0].Operand(), c.In[1].Operand()).OpMath(true), nil
}

func ternary(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	return rule.Binary(outs[0], c.In[0].Operand(), c.In[1].Operand()).Input(c.In[2].Operand()).OpMath(true), nil
}

// unaryWithResult returns the config of a unary op that computes in its operand's dtype and has a result of the given
// dtype.
func unaryWithResult(dtype tensor.DType) config {
	return func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
		out := outs[0]
		if !out.Defined {
			out = rule.UndefinedOutputOf(dtype)
		}
		return rule.New().CheckAllSameDType(false).Output(out).Input(c.In[0].Operand()).OpMath(true), nil
	}
}

// withCheck returns a config that first rejects calls for which check fails, and then calls base.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func withCheck(base config, check func(c *graph.Call) error) config {
	return func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
		if err := check(c); err != nil {
			return rule.Config{}, err
		}
		return base(c, outs)
	}
}

// rejectComplex returns a config that first rejects complex operands with the given message, and then calls base.
func rejectComplex(base config, message string) config {
	return withCheck(base, func(c *graph.Call) error {
		for i := range c.In {
			if c.Type(i).DType.IsComplex() {
				return errors.New(message)
			}
		}
		return nil
	})
}

// integer is the type constraint of loops over integers.
type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}
