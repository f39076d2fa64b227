package kerneltest

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Units has, by dtype, the greatest relative error of a rounding: half a unit in the last place of 1.
var Units = map[tensor.DType]float64{tensor.Float16: 0x1p-11, tensor.BFloat16: 0x1p-8, tensor.Float32: 0x1p-24,
	tensor.Float64: 0x1p-53, tensor.Complex64: 0x1p-24, tensor.Complex128: 0x1p-53}

// leasts has the least positive number of each dtype: no error below it can be seen.
var leasts = map[tensor.DType]float64{tensor.Float16: 0x1p-24, tensor.BFloat16: 0x1p-133, tensor.Float32: 0x1p-149,
	tensor.Float64: 0x1p-1074, tensor.Complex64: 0x1p-149, tensor.Complex128: 0x1p-1074}

// allowed is the permitted error by dtype, relative to the magnitude of the reference's element, in Units. References
// compute in float64, so that those of float64 have errors of their own: kernels.TestAccuracy bounds pointwise ops
// more closely.
var allowed = map[tensor.DType]float64{tensor.Float16: 3, tensor.BFloat16: 3, tensor.Float32: 32, tensor.Float64: 1e5,
	tensor.Complex64: 64, tensor.Complex128: 1e6}

// CompareTensors returns an error for the first element in which got differs from want. The permitted error is
// relative to want's element, however small it is: a sum whose terms cancel needs [CompareResults].
func CompareTensors(got, want *tensor.Tensor) error {
	return compareScaled(got, want, func([]int) float64 { return 0 })
}

// CompareResults compares the results of a call with those of its reference. Errors of an op whose results are sums
// may also be a few roundings of its terms: of the change that relative changes of the operands by 1 cause, to first
// order. A transform's errors spread: its results have the terms of the greatest. So have windows, which have no
// operands.
func CompareResults(op *graph.Op, call *graph.Call, in, got, want []*tensor.Tensor) error {
	for i := range got {
		terms := func([]int) float64 { return 0 }
		switch conditions := conditionsOf(op, call, in, i); {
		case op.Kind == graph.FollowsOperands && !cancels[op.Name]:
		case len(in) == 0:
			terms = greatest(want[i].Shape, func(index []int) float64 { return cmplx.Abs(want[i].At(index...).Complex()) })
		case op.Name == "log_softmax": // log(1 + x), where the sum of 1 and x is rounded, as in PyTorch
			terms = func(index []int) float64 { return 1 + conditions(index) }
		case spreads(op.Name):
			terms = greatest(want[i].Shape, func(index []int) float64 { // integers have no conditions
				return max(conditions(index), cmplx.Abs(want[i].At(index...).Complex()))
			})
		default:
			terms = conditions
		}
		factor := termsFactor * math.Sqrt(termsOf(op, call, got[i]))
		err := compareScaled(got[i], want[i], func(index []int) float64 { return factor * terms(index) })
		if err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	return nil
}

// cancels has the pointwise ops whose results are sums of terms that may cancel, in PyTorch too. The user's
// expressions of op pointwise may be such sums.
var cancels = map[string]bool{"logaddexp": true, "logaddexp2": true, "pointwise": true}

// spreads reports whether each result of an op depends on all operands, so that errors are relative to the greatest.
func spreads(op string) bool {
	return strings.HasPrefix(op, "fft_") || op == "dft" || op == "stft" || op == "istft"
}

// greatest returns a function that returns the greatest of all elements' numbers, which it computes when needed.
func greatest(shape []int, of func(index []int) float64) func([]int) float64 {
	number := sync.OnceValue(func() (number float64) {
		kit.EachIndex(shape, func(index []int) { number = max(number, of(index)) })
		return number
	})
	return func([]int) float64 { return number() }
}

// termsFactor is the permitted error of a sum of n terms, in Units of the terms' root mean square times n.
const termsFactor = 4

// termsOf returns about how many terms an element of a result is the sum of.
func termsOf(op *graph.Op, call *graph.Call, result *tensor.Tensor) float64 {
	elements := float64(max(result.Numel(), 1))
	terms := 1.0
	if op.Flops != nil {
		terms = op.Flops(call) / elements / 2
	}
	for i, arg := range call.In {
		if arg.Kind == graph.TensorArg {
			terms = max(terms, float64(call.Meta(i).Numel())/elements)
			for _, size := range call.Meta(i).Shape {
				terms = max(terms, float64(size)) // a scan has as many results as terms
			}
		}
	}
	return terms
}

// conditionsOf returns a function that returns, for an element of result i of a call, the change that random relative
// changes of the operands cause, divided by these changes. The function evaluates the reference when it is first
// called, because few calls have elements that need it.
func conditionsOf(op *graph.Op, call *graph.Call, in []*tensor.Tensor, i int) func(index []int) float64 {
	evaluated := sync.OnceValues(func() ([]*tensor.Tensor, float64) {
		if results := changedResults(op, call, in, i, widest, 0x1p-26); results != nil {
			return results, 0x1p-26
		}
		same := func(dtype tensor.DType) tensor.DType { return dtype }
		return changedResults(op, call, in, i, same, 0x1p-10), 0x1p-10 // some ops support only float32
	})
	return func(index []int) float64 {
		results, change := evaluated()
		condition := 0.0
		for _, changed := range results[min(1, len(results)):] {
			distance := cmplx.Abs(changed.At(index...).Complex() - results[0].At(index...).Complex())
			if !math.IsInf(distance, 0) {
				condition = max(condition, distance/change) // ignores NaN
			}
		}
		return condition
	}
}

// changedResults returns result i of the reference for operands of the given dtypes, and for random relative changes
// of them. It returns nil if the op does not support these dtypes.
func changedResults(op *graph.Op, call *graph.Call, in []*tensor.Tensor, i int,
	dtypeOf func(tensor.DType) tensor.DType, change float64) (results []*tensor.Tensor) {
	const trials = 6
	wide := graph.Call{In: slices.Clone(call.In), Attrs: call.Attrs}
	for k, operand := range in {
		if operand != nil && call.In[k].Kind == graph.TensorArg {
			wide.In[k] = graph.ArgOf(&graph.Value{Meta: tensor.New(dtypeOf(operand.DType), operand.Shape...)})
		}
	}
	if _, err := Infer(op, &wide); err != nil {
		return nil
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for trial := range 1 + trials {
		changed := make([]*tensor.Tensor, len(in))
		for k, operand := range in {
			if operand == nil {
				continue
			}
			changed[k] = operand.CopyTo(tensor.New(dtypeOf(operand.DType), operand.Shape...))
			if trial == 0 || operand.DType.IsIntegral(true) {
				continue
			}
			kit.EachIndex(operand.Shape, func(index []int) {
				factor := complex(1+change*(4*rng.Float64()-2), 0) // about 1 in the root mean square
				changed[k].Set(tensor.ComplexScalar(operand.At(index...).Complex()*factor), index...)
			})
		}
		result, err := op.Ref(&wide, changed)
		if err != nil || len(result) <= i {
			return nil
		}
		results = append(results, result[i])
	}
	return results
}

// widest returns the widest dtype of the same kind if a dtype is a float or complex.
func widest(dtype tensor.DType) tensor.DType {
	switch {
	case dtype.IsComplex():
		return tensor.Complex128
	case dtype.IsFloat():
		return tensor.Float64
	}
	return dtype
}

// torchErrors has the ops whose results in PyTorch 1.13 have errors relative to 1, and the reason.
var torchErrors = map[string]string{
	"gelu": "1 + erf(x) and 1 + tanh(x) cancel below 0; steps of bfloat16 are rounded",
	"sinc": "pi * x is rounded to float32", "special_ndtr": "1 + erf(x) cancels below 0",
	"upsample_bilinear2d": "rounded positions", "upsample_bicubic2d": "rounded positions",
	"grid_sampler": "rounded positions",
	"batch_norm":   "a rounded shift of mean and scale", "layer_norm": "a rounded shift of mean and scale",
	"group_norm": "a rounded shift of mean and scale", "instance_norm": "a rounded shift of mean and scale",
	"special_chebyshev_polynomial_u":         "a recurrence of rounded steps",
	"special_shifted_chebyshev_polynomial_v": "a recurrence of rounded steps",
}

// CompareTorch is [CompareResults] for results of PyTorch.
func CompareTorch(op *graph.Op, call *graph.Call, in, got, want []*tensor.Tensor) error {
	err := CompareResults(op, call, in, got, want)
	if err == nil || torchErrors[op.Name] == "" {
		return err
	}
	for i := range got {
		one := func([]int) float64 { return 4 * allowed[got[i].DType] }
		if err := compareScaled(got[i], want[i], one); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	return nil
}

// compareScaled returns an error for the first element in which got differs from want by more than the permitted
// error. terms returns an additional permitted error of an element, in Units.
func compareScaled(got, want *tensor.Tensor, terms func(index []int) float64) error {
	if got.DType != want.DType || tensor.ListString(got.Shape) != tensor.ListString(want.Shape) {
		return fmt.Errorf("got %v, want %v", got.Meta, want.Meta)
	}
	var err error
	kit.EachIndex(got.Shape, func(index []int) {
		if err != nil {
			return
		}
		gotElement, wantElement := got.At(index...), want.At(index...)
		if !got.DType.IsFloat() && !got.DType.IsComplex() {
			if gotElement.Int() != wantElement.Int() {
				err = fmt.Errorf("at %v: got %v, want %v", index, gotElement, wantElement)
			}
			return
		}
		distance := distanceOf(got.DType.IsComplex(), gotElement.Complex(), wantElement.Complex())
		unit := Units[got.DType]
		bound := allowed[got.DType]*unit*cmplx.Abs(wantElement.Complex()) + 2*leasts[got.DType]
		if distance == 0 || distance <= bound && !math.IsInf(distance, 0) {
			return
		}
		if math.IsInf(distance, 0) || !(distance <= bound+unit*terms(index)) {
			err = fmt.Errorf("at %v: got %v, want %v (the error is %.3g, the bound %.3g)", index, gotElement, wantElement,
				distance, bound+unit*terms(index))
		}
	})
	return err
}

// distanceOf returns the distance of two numbers. It is 0 for equal infinities, for two NaN, and for complex numbers
// that are not finite, whose parts C and PyTorch do not fix.
func distanceOf(isComplex bool, got, want complex128) float64 {
	switch {
	case got == want, cmplx.IsNaN(got) && cmplx.IsNaN(want):
		return 0
	case isComplex && (cmplx.IsNaN(want) || cmplx.IsInf(want)) && (cmplx.IsNaN(got) || cmplx.IsInf(got)):
		return 0
	}
	return cmplx.Abs(got - want)
}
