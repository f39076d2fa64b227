package rule

import (
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// computeTypes determines the common dtype (the dtype to which inputs are promoted), the dtypes of outputs, and the
// operands that are converted in the loop (TensorIteratorBase::compute_types).
//
// An operand has the MemoryDType in memory and the TargetDType in loops. If Cast is valid, the elements are rounded to
// Cast during the conversion between the two. The permutation sorts the dimensions by the strides of the operands, and
// determines the layout of results. comparedType is the type whose strides it compares.
//
// PyTorch on the CPU converts an operand to a temporary. Here nothing is allocated, but comparedType is the type that
// the temporary would have (needsTemporary is set), so that results have PyTorch's layouts.
//
// For example, an int32 and a float16 input have the common dtype float16 if inputs are promoted. The int32 input then
// keeps its MemoryDType int32, and has the TargetDType float16.
func (r *Rule) computeTypes(c Config) error {
	inputs, outputs, lacksDType := r.givenDTypes(c)
	common := inputs.first
	if !c.flags.anyDTypes {
		if err := r.checkSameDTypes(inputs, outputs); err != nil {
			return err
		}
	}
	// Some operand has no dtype, or an option asks for a common dtype.
	computesDType := lacksDType || c.flags.promoteInputs || c.flags.castOutputs || c.flags.requiresSafeCast ||
		c.inputDType != tensor.Invalid
	if !computesDType { // operands keep their dtypes, and have a common dtype only if the inputs agree
		if inputs.differ {
			common = tensor.Invalid
		}
		r.finishTypes(common)
		return nil
	}
	if c.flags.promoteInputs && (inputs.differ || r.hasNumbers()) {
		promoted, err := r.commonDType()
		if err != nil {
			return err
		}
		common = promoted
	}
	if c.flags.intToFloat { // bool and integers become float32, as for sin
		common = tensor.FloatFor(common)
	}
	if c.inputDType != tensor.Invalid {
		common = c.inputDType
	}
	castsInputs := c.flags.promoteInputs || c.inputDType != tensor.Invalid
	return r.castTo(common, castsInputs)
}

// givenDTypes gives operands without a dtype the dtype of the configuration, if it has one. Then it describes the
// dtypes of the defined inputs and outputs. lacksDType reports whether some operand still has no dtype.
func (r *Rule) givenDTypes(c Config) (inputs, outputs dtypeSummary, lacksDType bool) {
	for i := range r.operands {
		operand := &r.operands[i]
		if operand.TargetDType == tensor.Invalid {
			operand.TargetDType = c.dtype
			lacksDType = lacksDType || c.dtype == tensor.Invalid
		}
		switch {
		case !operand.Defined:
		case operand.isOutput:
			outputs.add(operand.TargetDType)
		default:
			inputs.add(operand.TargetDType)
		}
	}
	return inputs, outputs, lacksDType
}

// dtypeSummary describes the dtypes of the defined inputs, or of the defined outputs.
type dtypeSummary struct {
	first  tensor.DType // the first dtype; Invalid for none
	differ bool         // whether another dtype follows
}

// add adds the dtype of an operand.
func (s *dtypeSummary) add(dtype tensor.DType) {
	if s.first == tensor.Invalid {
		s.first = dtype
	} else if s.first != dtype {
		s.differ = true
	}
}

// checkSameDTypes rejects operands of different dtypes. An iteration without inputs has no common dtype, so its outputs
// are compared only with each other.
func (r *Rule) checkSameDTypes(inputs, outputs dtypeSummary) error {
	hasInputs := len(r.operands) > r.outCount
	outputsDiffer := hasInputs && outputs.first != tensor.Invalid && outputs.first != inputs.first
	if !inputs.differ && !outputs.differ && !outputsDiffer {
		return nil
	}
	for i := range r.operands {
		if operand := &r.operands[i]; operand.Defined && operand.TargetDType != inputs.first {
			return fmt.Errorf("Found dtype %s but expected %s (%s)", operand.TargetDType.TorchName(), inputs.first.TorchName(),
				r.Describe(i))
		}
	}
	return nil
}

// hasNumbers reports whether some input is a plain number.
func (r *Rule) hasNumbers() bool {
	for i := r.outCount; i < len(r.operands); i++ {
		if r.operands[i].Number.IsSet() {
			return true
		}
	}
	return false
}

// commonDType returns the dtype to which the inputs are promoted.
func (r *Rule) commonDType() (tensor.DType, error) {
	var promotion tensor.Promotion
	for i := r.outCount; i < len(r.operands); i++ {
		r.operands[i].promote(&promotion)
	}
	dtype, err := promotion.Result()
	if err != nil {
		for i := r.outCount; i < len(r.operands); i++ {
			err = fmt.Errorf("%w (%s)", err, r.Describe(i))
		}
	}
	return dtype, err
}

// castTo sets the dtype in which loops see each operand. Operands without a dtype get the common dtype. A defined
// operand of another dtype changes as follows:
//
//	plain number                              stored in the common dtype, which avoids a second rounding
//	output that keeps its shape, castOutputs  computed in the common dtype and converted on write
//	input, castsInputs                        converted to the common dtype on read
//	other                                     keeps its dtype
//
// For a converted tensor, castTo sets comparedType to the type of the temporary that PyTorch would make, because the
// permutation compares the strides of temporaries. The temporary of an output is contiguous.
func (r *Rule) castTo(common tensor.DType, castsInputs bool) error {
	for i := range r.operands {
		operand := &r.operands[i]
		if operand.TargetDType == tensor.Invalid {
			operand.TargetDType = common
		}
		if !operand.Defined || operand.TargetDType == common || common == tensor.Invalid {
			continue
		}
		if r.flags.requiresSafeCast && operand.isOutput && !tensor.CanCast(common, operand.TargetDType) {
			return fmt.Errorf("result type %s can't be cast to the desired output type %s (%s)", common.TorchName(),
				operand.TargetDType.TorchName(), r.Describe(i))
		}
		switch {
		case operand.Number.IsSet():
			operand.TargetDType, operand.MemoryDType = common, common
		case operand.isOutput && r.flags.castOutputs && !operand.willResize:
			operand.TargetDType, operand.Cast = common, common
			castType := tensor.NewType(common, operand.Type.Shape...)
			operand.comparedType, operand.needsTemporary = &castType, true
		case !operand.isOutput && castsInputs:
			operand.TargetDType, operand.Cast = common, common
			castType := CastType(operand.Type, common)
			operand.comparedType, operand.needsTemporary = &castType, true
		}
	}
	r.finishTypes(common)
	return nil
}

// finishTypes sets the common dtype and the remaining dtypes and types of operands.
func (r *Rule) finishTypes(common tensor.DType) {
	r.common = common
	for i := range r.operands {
		operand := &r.operands[i]
		if operand.TargetDType == tensor.Invalid {
			operand.TargetDType = common
		}
		// A new output is not converted, unless opMath replaces TargetDType below.
		if !operand.Defined && operand.MemoryDType == tensor.Invalid {
			operand.MemoryDType = operand.TargetDType
		}
		if !operand.needsTemporary {
			operand.comparedType = &operand.Type
		}
		if r.flags.opMath { // loops compute in a wider dtype, such as float32 for float16
			operand.TargetDType = operand.TargetDType.OpMath()
		}
		if operand.Cast == operand.TargetDType { // the conversion to TargetDType rounds to it anyway
			operand.Cast = tensor.Invalid
		}
		if operand.Converted() {
			r.converts = true
		}
	}
}

// promote adds the operand to a promotion.
func (o *Operand) promote(promotion *tensor.Promotion) {
	if o.Number.IsSet() {
		promotion.AddNumber(o.Number)
	} else {
		promotion.Add(o.Type.DType, o.Type.Rank())
	}
}

// ResultType returns the dtype to which operands are promoted (at::result_type). Tensors with dimensions have priority
// over 0-dim tensors, and 0-dim tensors over plain numbers. Undefined operands are ignored. [tensor.CanCast] reports
// whether a result can be written as another dtype.
func ResultType(ops ...Operand) (tensor.DType, error) {
	var promotion tensor.Promotion
	anyDefined := false
	for _, operand := range ops {
		if operand.Defined {
			operand.promote(&promotion)
			anyDefined = true
		}
	}
	if !anyDefined {
		return tensor.Invalid, fmt.Errorf("result_type: at least one operand must be defined")
	}
	return promotion.Result()
}

// CastType returns the type of t converted to d in memory format preserve, like Tensor::to(dtype). It keeps the strides
// if t is non-overlapping and dense. Otherwise it has dense strides in the same order. A type with dtype d is returned
// unchanged.
func CastType(t tensor.Type, d tensor.DType) tensor.Type {
	if t.DType == d {
		return t
	}
	return PreserveType(t).WithDType(d)
}

// PreserveType returns the type of a new copy of t in memory format preserve.
func PreserveType(t tensor.Type) tensor.Type {
	if t.IsNonOverlappingAndDense() {
		return t.WithStrides(t.Strides)
	}
	return t.WithStrides(tensor.DenseStridesOf(t.Shape, t.Strides))
}
