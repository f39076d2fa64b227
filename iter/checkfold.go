package iter

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/tensor"
)

var errNilFold = errors.New("iter: the Fold is nil")

// checkFold returns an error for an iteration that the Fold cannot reduce. The iteration must be a reduction with one
// input, whose elements widen to the dtype of the Fold, and one output for each result of the Fold. A Fold of float64
// with a float32 result, for example, accepts an input of float32, and outputs of float32 or float64.
func (it *Iterator) checkFold(f *Fold) error {
	inputs := len(it.operands) - it.outCount
	switch {
	case f == nil:
		return errNilFold
	case f.err != nil:
		return f.err
	case !it.IsReduction():
		return fmt.Errorf("iter: the iteration is not marked as a reduction")
	case inputs != 1:
		return fmt.Errorf("iter: a reduction takes one input, but the iteration has %d", inputs)
	case len(f.outDTypes) == 0:
		return fmt.Errorf("iter: the fold yields no result")
	case len(f.outDTypes) != it.outCount:
		return fmt.Errorf("iter: the fold has %d results, but the iteration has %d outputs", len(f.outDTypes), it.outCount)
	case it.outCount > axes.MaxOutputs:
		return fmt.Errorf("iter: the reduction has %d outputs; the limit is %d", it.outCount, axes.MaxOutputs)
	}
	input := &it.operands[it.outCount]
	if !widens(input.TargetDType, f.inDType) {
		return fmt.Errorf("iter: the fold takes %v, but the iteration reads input 0 (%v) as %v", f.inDType, input.Meta,
			input.TargetDType)
	}
	for i, dtype := range f.outDTypes {
		if err := it.checkFoldOutput(i, dtype); err != nil {
			return err
		}
	}
	// If the iteration is a later part of a split reduction, each result resumes: it continues from the value in its
	// output. f.resume has a function for each result that can.
	if it.hasEarlierPart && len(f.resume) != len(f.outDTypes) {
		return fmt.Errorf("iter: the iteration resumes from all its outputs, but the fold can resume from only %d of "+
			"its %d results", len(f.resume), len(f.outDTypes))
	}
	return nil
}

// checkFoldOutput returns an error if output i cannot store results of a dtype, or has other reduced dimensions than
// output 0.
func (it *Iterator) checkFoldOutput(i int, dtype tensor.DType) error {
	output := &it.operands[i]
	if output.RuleChoosesLayout() {
		return fmt.Errorf("iter: output %d of the reduction is undefined, or its shape is not the shape of the result; "+
			"pass a tensor of that shape and set ResizeOutputs(false)", i)
	}
	if output.Meta.DType != dtype && !canStore(dtype, output.Meta.DType) {
		return fmt.Errorf("result type %s can't be cast to the desired output type %s (output %d, %v)", dtype.TorchName(),
			output.Meta.DType.TorchName(), i, output.Meta)
	}
	for dim := range it.shape {
		if it.reduces(i, dim) != it.reduces(0, dim) {
			return fmt.Errorf("iter: dimension %d of shape %s is reduced in one output and kept in another: output 0, %v, "+
				"and output %d, %v",
				dim, tensor.ListString(it.shape), it.operands[0].Meta, i, output.Meta)
		}
	}
	return nil
}

// widens reports whether a fold of dtype `to` may take elements of dtype `from`: the dtypes are equal, or have the same
// kind and `to` has more bytes. Integers may also have the same size, and their signs are not compared: ops fold all
// integers in int64, where sums and products of uint64 have the same bits.
func widens(from, to tensor.DType) bool {
	switch {
	case from == to:
		return true
	case from.IsIntegral(true):
		return to.IsIntegral(false) && to.Size() >= from.Size()
	case from.IsFloat():
		return to.IsFloat() && to.Size() > from.Size()
	}
	return from.IsComplex() && to.IsComplex() && to.Size() > from.Size()
}

// canStore reports whether results of dtype `from` may be written to an output of dtype `to`. It accepts more than
// [tensor.CanCast]: integers may be narrowed, and may become bool.
func canStore(from, to tensor.DType) bool {
	return tensor.CanCast(from, to) || from.IsIntegral(true) && to.IsIntegral(true)
}
