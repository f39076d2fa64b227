package rule

import (
	"fmt"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file makes the decisions of TensorIteratorBase::build, in its order: shape, dtypes, permutation of the
// dimensions, and layouts of outputs. For example, if inputs are promoted, inputs of 8x1 (float32) and 3 (int64) with
// an undefined output have the shape 8x3 and the common dtype float32. The output is float32 and row-major.

// Rule decides the shape, the dtypes, the permutation and the layouts of outputs. It does not check memory overlap.
// Sizes may be symbolic. If the bounds of the symbols do not determine a decision, it is made for the hints of the
// symbols. A guard then records the condition under which the decision is valid.
func (c Config) Rule() (*Rule, error) {
	r := &Rule{}
	const checksOverlap = false
	if err := r.decide(c, checksOverlap); err != nil {
		return nil, err
	}
	return r, nil
}

// Resolve makes the decisions of [Config.Rule] in r, checks memory overlap, and sets [Resolved.Meta]. All sizes must be
// numbers. The checks have the order of TensorIteratorBase::build.
func (c Config) Resolve(r *Rule) error {
	if r == nil {
		return errNilRule
	}
	const checksOverlap = true
	if err := r.decide(c, checksOverlap); err != nil {
		return err
	}
	metas := make([]tensor.Meta, len(r.operands))
	for i := range r.operands {
		if operand := &r.operands[i]; !operand.setMeta(&metas[i]) {
			return fmt.Errorf("iter: %s, %v, has a symbolic size: all sizes must be numbers in an iteration that runs",
				r.Place(i), operand.memoryType())
		}
	}
	return nil
}

// decide makes all decisions in r. It checks memory overlap if checksOverlap is set.
func (r *Rule) decide(c Config, checksOverlap bool) error {
	if c.mistake != nil {
		return c.mistake
	}
	r.outCount, r.flags, r.operands = c.outCount, c.flags, make([]Resolved, len(c.operands))
	for i := range c.operands {
		dtype := c.operands[i].Type.DType
		r.operands[i] = Resolved{Operand: &c.operands[i], isOutput: i < c.outCount, MemoryDType: dtype, TargetDType: dtype}
	}
	if err := r.checkOperands(c); err != nil {
		return err
	}
	r.markReadWrite()
	if checksOverlap {
		if err := r.checkOverlap(); err != nil {
			return err
		}
	}
	if err := r.computeNames(); err != nil {
		return err
	}
	if err := r.computeShape(c); err != nil {
		return err
	}
	if err := r.checkSize(); err != nil {
		return err
	}
	if err := r.markResize(); err != nil {
		return err
	}
	if err := r.computeTypes(c); err != nil {
		return err
	}
	r.chooseLayout()
	return r.checkChosenTypes()
}

// checkOperands rejects inconsistent operands.
func (r *Rule) checkOperands(c Config) error {
	for i := range r.operands {
		if err := r.checkOperand(i); err != nil {
			return err
		}
	}
	for _, dtype := range [...]tensor.DType{c.dtype, c.inputDType} {
		if dtype != tensor.Invalid && !dtype.Valid() {
			return fmt.Errorf("iter: StaticDType or CastInputs was called with the invalid dtype %v", dtype)
		}
	}
	return nil
}

// checkOperand rejects an inconsistent operand.
func (r *Rule) checkOperand(i int) error {
	operand := &r.operands[i]
	switch {
	case operand.mistake() != "":
		return fmt.Errorf("iter: %s %s", r.Place(i), operand.mistake())
	case !operand.Defined && i >= r.outCount:
		return fmt.Errorf("iter: %s is undefined; only outputs may be", r.Place(i))
	case !operand.Defined && operand.Type.DType != tensor.Invalid && !operand.Type.DType.Valid():
		return fmt.Errorf("iter: %s: invalid dtype %v", r.Place(i), operand.Type.DType)
	case !operand.Defined:
		return nil
	case operand.Number.IsSet() && i < r.outCount:
		return fmt.Errorf("iter: %s is a plain number, which cannot be written", r.Place(i))
	}
	if err := operand.Type.Check(); err != nil {
		return fmt.Errorf("iter: %s: %w", r.Place(i), err)
	}
	if operand.source == nil {
		return nil
	}
	if need := operand.source.Extent() * operand.source.DType.Size(); need > operand.Storage.Len() {
		return fmt.Errorf("iter: %s needs %d bytes of storage and has %d", r.Describe(i), need, operand.Storage.Len())
	}
	return nil
}

// markReadWrite marks the outputs that are the same tensor as an input.
func (r *Rule) markReadWrite() {
	for i := range r.outCount {
		out := &r.operands[i]
		for j := r.outCount; j < len(r.operands); j++ {
			if out.source != nil && r.operands[j].source == out.source {
				out.ReadWrite = true
			}
		}
	}
}

// computeShape broadcasts the operands that determine the shape (TensorIteratorBase::compute_shape).
func (r *Rule) computeShape(c Config) error {
	if c.flags.hasStaticShape {
		r.sizes = c.shape
		return r.checkStaticShape()
	}
	for i := range r.operands {
		if !r.determinesShape(i) {
			continue
		}
		switch operandShape := r.operands[i].Type.Shape; {
		case len(r.sizes) == 0:
			r.sizes = operandShape
		case !tensor.EqualSizes(operandShape, r.sizes).Same(sym.BoolOf(true)): // not known to be equal for all sizes
			shape, err := tensor.BroadcastSizes(r.sizes, operandShape)
			if err != nil && len(r.operands)-r.outCount > 2 {
				// PyTorch's message calls the two shapes a and b, which is ambiguous for more than two operands.
				err = fmt.Errorf("%w (b is %s; a is the shape %s of the operands before it)", err, r.Describe(i),
					tensor.Sizes(r.sizes))
			}
			if err != nil {
				return err
			}
			r.sizes = shape
		}
	}
	return nil
}

// determinesShape reports whether operand i takes part in broadcasting: it is an input, or a defined output if outputs
// keep their shapes.
func (r *Rule) determinesShape(i int) bool {
	operand := &r.operands[i]
	return operand.Defined && (!operand.isOutput || r.flags.keepOutputs)
}

// checkStaticShape rejects operands that are smaller than the static shape.
func (r *Rule) checkStaticShape() error {
	for i := range r.operands {
		operand := &r.operands[i]
		if !operand.Defined {
			continue
		}
		leadingDims := len(r.sizes) - len(operand.Type.Shape)
		isTooSmall := leadingDims < 0
		for d := 0; !isTooSmall && d < len(operand.Type.Shape); d++ {
			size := operand.Type.Shape[d]
			isTooSmall = size.Lt(r.sizes[leadingDims+d]).And(size.Ne(sym.Of(1))).Holds()
		}
		if isTooSmall {
			return fmt.Errorf("operand with shape %s does not cover the declared shape %s (%s)",
				tensor.Sizes(operand.Type.Shape), tensor.Sizes(r.sizes), r.Describe(i))
		}
	}
	return nil
}

// checkSize rejects a broadcast shape with too many elements. Small operands can broadcast to a huge shape.
func (r *Rule) checkSize() error {
	numel := 1
	for d, size := range r.sizes {
		number, known := size.Known()
		switch {
		case !known:
			continue
		case number < 0:
			return fmt.Errorf("iter: negative size %d of dimension %d of shape %s", number, d, tensor.Sizes(r.sizes))
		case number > 0 && numel > tensor.MaxBytes/number:
			return fmt.Errorf("iter: shape %s has more than 2^47 elements", tensor.Sizes(r.sizes))
		}
		numel *= max(number, 1)
	}
	return nil
}

// markResize marks defined outputs of the wrong shape (mark_resize_outputs).
func (r *Rule) markResize() error {
	if r.flags.hasStaticShape { // defined outputs keep their shape: checkStaticShape has checked it
		for i := range r.outCount {
			r.operands[i].willResize = !r.operands[i].Defined
		}
		return nil
	}
	for i := range r.outCount {
		operand := &r.operands[i]
		switch {
		case !operand.Defined:
			operand.willResize = true
		case tensor.SameSizes(operand.Type.Shape, r.sizes): // the output keeps its layout
		case !r.flags.keepOutputs && !operand.ReadWrite:
			operand.willResize = true
			if operand.Type.Numel().Ne(sym.Int{}).Holds() {
				r.warnings = append(r.warnings, fmt.Sprintf("An output with one or more elements was resized since it had shape "+
					"%s, which does not match the required output shape %s",
					tensor.Sizes(operand.Type.Shape), tensor.Sizes(r.sizes)))
			}
		case !r.flags.isReduction: // the outputs of a reduction have size 1 in reduced dimensions
			return fmt.Errorf("output with shape %s doesn't match the broadcast shape %s (%s)", tensor.Sizes(operand.Type.Shape),
				tensor.Sizes(r.sizes), r.Describe(i))
		}
	}
	return nil
}

// checkChosenTypes rejects invalid types of outputs whose layout the rule chooses.
func (r *Rule) checkChosenTypes() error {
	for i := range r.outCount {
		if r.operands[i].RuleChoosesLayout() {
			if err := r.operands[i].chosenType.Check(); err != nil {
				return fmt.Errorf("%s: %w", r.outputName(i), err)
			}
		}
	}
	return nil
}

// setMeta sets *meta to the operand's type in memory, and o.Meta to meta. It reports whether all sizes are numbers.
func (o *Resolved) setMeta(meta *tensor.Meta) bool {
	known := true
	if o.Operand.meta != nil && o.chosenType == nil { // the caller gave the sizes as numbers
		*meta = o.Operand.meta.WithDType(o.MemoryDType)
	} else {
		*meta, known = o.memoryType().Meta()
	}
	o.Meta = meta
	return known
}

// sameShapes returns the condition that the operands that determine the shape have equal shapes. Fast set-up requires
// it. The shape of a 0-dim operand differs from the shape of an operand with dimensions.
func (r *Rule) sameShapes() sym.Bool {
	same := sym.BoolOf(!r.flags.hasStaticShape)
	for i := range r.operands {
		if !r.determinesShape(i) {
			continue
		}
		if same = same.And(tensor.EqualSizes(r.operands[i].Type.Shape, r.sizes)); same.Same(sym.BoolOf(false)) {
			break
		}
	}
	return same.Decide()
}

// Place returns a name of operand i for messages: "output 0", "input 1".
func (r *Rule) Place(i int) string {
	if i < r.outCount {
		return fmt.Sprintf("output %d", i)
	}
	return fmt.Sprintf("input %d", i-r.outCount)
}

// Describe returns [Rule.Place] and the declared type of the operand, or "undefined" in place of the type.
func (r *Rule) Describe(i int) string {
	if i < 0 || i >= len(r.operands) || !r.operands[i].Defined {
		return r.Place(i) + ", undefined"
	}
	return fmt.Sprintf("%s, %v", r.Place(i), r.operands[i].Type)
}

// outputName is Place for an output whose layout the rule chooses. If the dtype is unknown, the name says why.
func (r *Rule) outputName(i int) string {
	if !r.operands[i].MemoryDType.Valid() {
		return r.Place(i) + ", whose dtype is given neither by an input nor by UndefinedOutputOf or StaticDType"
	}
	return r.Place(i)
}
