package reduce

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// normDTypes checks the dtypes of parameters. All parameters must have the dtype of the operand. For a 16-bit operand,
// all parameters may also be float32.
func normDTypes(call *graph.Call, params ...int) error {
	// first is the dtype of the first parameter, or the dtype of the operand if any parameter has it.
	dtype, first := call.Type(0).DType, tensor.Invalid
	for _, i := range params {
		if p := call.Type(i).DType; call.Has(i) && (first == tensor.Invalid || p == dtype) {
			first = p
			if p == dtype {
				break
			}
		}
	}
	want := dtype
	if dtype.IsReducedFloat() && first == tensor.Float32 {
		want = first
	}
	for _, i := range params {
		if call.Has(i) && call.Type(i).DType != want {
			return fmt.Errorf("expected scalar type %s but found %s", dtype.TorchName(), call.Type(i).DType.TorchName())
		}
	}
	return nil
}

// normReference computes y = (x-mean)/sqrt(var+eps)*weight+bias. Elements of x belong to groups, and the elements of a
// group have the same mean and variance. group maps an index of x to a group. param maps an index of x to an index of
// weight and bias, and of mean and variance if they are given. If mean and variance are nil, the statistics of each
// group are computed from x.
func normReference(t *tensor.Tensor, eps float64, group func(index []int) int, param func(index []int) int, weight,
	bias, mean, variance *tensor.Tensor) *tensor.Tensor {
	sum, squares, n := map[int]float64{}, map[int]float64{}, map[int]float64{}
	forEach := func(f func(index []int, g int, x float64)) {
		kit.EachIndex(t.Shape, func(index []int) { f(index, group(index), t.At(index...).Float()) })
	}
	forEach(func(_ []int, g int, x float64) { sum[g] += x; n[g]++ })
	forEach(func(_ []int, g int, x float64) { d := x - sum[g]/n[g]; squares[g] += float64(d * d) })
	out := tensor.Zeros(t.DType, t.Shape...)
	paramAt := func(p *tensor.Tensor, i int, otherwise float64) float64 {
		if p == nil {
			return otherwise
		}
		return p.CopyTo(tensor.New(tensor.Float64, p.Shape...)).At(kit.Unravel(i, p.Shape)...).Float()
	}
	forEach(func(index []int, g int, x float64) {
		mu, v := sum[g]/n[g], squares[g]/n[g]
		if mean != nil {
			mu, v = paramAt(mean, param(index), 0), paramAt(variance, param(index), 0)
		}
		y := (x - mu) / math.Sqrt(v+eps)
		out.Set(tensor.FloatScalar(float64(y*paramAt(weight, param(index), 1))+paramAt(bias, param(index), 0)), index...)
	})
	return out
}

// checkFeatures checks the parameters as _batch_norm_impl_index does.
func checkFeatures(c *graph.Call, features sym.Int, training bool) error {
	for _, p := range []struct {
		operand int
		name    string
	}{{3, "running_mean"}, {4, "running_var"}, {1, "weight"}, {2, "bias"}} {
		switch {
		case c.Has(p.operand):
			t := c.Type(p.operand)
			if n := t.Numel(); n.Ne(features).Holds() {
				return fmt.Errorf("%s should contain %v elements not %v", p.name, features, n)
			}
			if t.Rank() != 1 {
				return fmt.Errorf("%s must have 1 dimension, got %d", p.name, t.Rank())
			}
		case p.operand >= 3 && !training:
			return errors.New(p.name + " must be defined in evaluation mode")
		}
	}
	return nil
}

// batchNormDTypes makes the checks of PyTorch's check_mixed_data_type and of its kernels.
func batchNormDTypes(call *graph.Call) error {
	dtype := call.Type(0).DType
	first := tensor.Invalid // the dtype of the first parameter
	for i := 4; i > 0; i-- {
		if call.Has(i) {
			first = call.Type(i).DType
		}
	}
	if first == tensor.Invalid || first == dtype {
		return normDTypes(call, 1, 2, 3, 4)
	}
	for i := 1; i < 5; i++ {
		if call.Has(i) && call.Type(i).DType != tensor.Float32 {
			return errors.New("mixed dtype (CPU): expect parameter to have scalar type of Float")
		}
	}
	if !dtype.IsReducedFloat() {
		return errors.New("mixed dtype (CPU): expect input to have scalar type of BFloat16")
	}
	return nil
}

// emptyBatchNormType returns the type of the result for an input without elements. PyTorch clones the input, multiplies
// it by the first element of weight, adds the first element of bias, and ignores the other operands.
func emptyBatchNormType(call *graph.Call, input tensor.Type) (tensor.Type, error) {
	input.Offset = sym.Int{}
	if !input.IsNonOverlappingAndDense() {
		input.Strides = tensor.DenseStridesOf(input.Shape, input.Strides)
	}
	for i := 1; i < 3; i++ {
		if !call.Has(i) {
			continue
		}
		p := call.Type(i)
		if p.Rank() == 0 {
			return input, errors.New("select() cannot be applied to a 0-dim tensor.")
		}
		if kit.SizeIs(p.Shape[0], 0) {
			return input, errors.New("select(): index 0 out of range for tensor of size " + tensor.Sizes(p.Shape) +
				" at dimension 0")
		}
		r, err := rule.Binary(rule.Undefined(), rule.OfType(input), rule.OfType(tensor.NewType(p.DType))).Rule()
		if err != nil {
			return input, err
		}
		input = r.Type(0)
	}
	return input, nil
}
