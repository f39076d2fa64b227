package iter

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Build sets the iteration up: overlap checks, broadcast, dtypes, then the fast set-up or
// the permutation rule, output layouts, and the coalesced walk, in the order of
// TensorIteratorBase::build. The errors are PyTorch's, each with the operand that it is
// about; operands that do not hold together (a nil tensor, a negative stride, a layout
// that reaches past its storage) are errors too.
func (c Config) Build() (*Iterator, error) {
	if c.wrong != nil {
		return nil, c.wrong
	}
	it := &Iterator{noutputs: c.noutputs, flags: c.flags, ops: make([]operand, len(c.ops))}
	for i, o := range c.ops {
		it.ops[i] = operand{Operand: o, isOutput: i < c.noutputs, meta: o.Meta, target: o.Meta.DType}
	}
	if err := it.checkOperands(c); err != nil {
		return nil, err
	}
	it.markReadWrite()
	if err := it.checkOverlap(); err != nil {
		return nil, err
	}
	if err := it.computeNames(); err != nil {
		return nil, err
	}
	if err := it.computeShape(c); err != nil {
		return nil, err
	}
	if err := it.checkSize(); err != nil {
		return nil, err
	}
	if err := it.markResize(); err != nil {
		return nil, err
	}
	if err := it.computeTypes(c); err != nil {
		return nil, err
	}
	it.layOut()
	for i := range it.noutputs {
		if it.ops[i].isLaidOut() {
			if err := it.ops[i].meta.Check(); err != nil {
				return nil, fmt.Errorf("%s: %w", it.laidOutName(i), err)
			}
		}
	}
	it.coalesce()
	return it, nil
}

// isLaidOut reports whether the iterator chooses the operand's layout.
func (o *operand) isLaidOut() bool { return !o.Defined || o.willResize }

func (it *Iterator) markReadWrite() {
	for i := range it.noutputs {
		out := &it.ops[i]
		for j := it.noutputs; j < len(it.ops); j++ {
			if out.object != nil && it.ops[j].object == out.object {
				out.readWrite = true
			}
		}
	}
}

// computeShape broadcasts the operands that take part (TensorIteratorBase::compute_shape).
func (it *Iterator) computeShape(c Config) error {
	if c.flags.staticShape {
		it.shape, it.numel = c.shape, tensor.Numel(c.shape)
		return it.coverStatic()
	}
	for i := range it.ops {
		o := &it.ops[i]
		if !o.Defined || o.isOutput && !c.flags.keepOutputs {
			continue
		}
		switch s := o.Meta.Shape; {
		case len(it.shape) == 0:
			it.shape = s
		case !slices.Equal(s, it.shape):
			shape, err := tensor.Broadcast(it.shape, s)
			if err != nil && len(it.ops)-it.noutputs > 2 {
				// PyTorch's a and b say which operands only where there are two.
				err = fmt.Errorf("%w (b is %s; a, of shape %s, is all before it)", err, it.named(i), tensor.ListString(it.shape))
			}
			if err != nil {
				return err
			}
			it.shape = shape
		}
	}
	it.numel = tensor.Numel(it.shape)
	return nil
}

// place tells which operand is number i, for messages.
func (it *Iterator) place(i int) string {
	if i < it.noutputs {
		return fmt.Sprintf("output %d", i)
	}
	return fmt.Sprintf("input %d", i-it.noutputs)
}

// named is place with the meta that the operand was given with.
func (it *Iterator) named(i int) string {
	o := &it.ops[i]
	if !o.Defined {
		return it.place(i) + ", undefined"
	}
	return fmt.Sprintf("%s, %v", it.place(i), o.Meta)
}

// laidOutName is place for an output that the iterator lays out.
func (it *Iterator) laidOutName(i int) string {
	if !it.ops[i].meta.DType.Valid() {
		return it.place(i) + ", whose dtype neither an input, UndefinedOf nor StaticDType tells"
	}
	return it.place(i)
}

// checkOperands refuses operands that do not hold together, before anything is computed
// from them.
func (it *Iterator) checkOperands(c Config) error {
	for i := range it.ops {
		o := &it.ops[i]
		switch {
		case o.wrong != "":
			return fmt.Errorf("iter: %s %s", it.place(i), o.wrong)
		case !o.Defined && i >= it.noutputs:
			return fmt.Errorf("iter: %s is undefined; only outputs may be", it.place(i))
		case !o.Defined && o.Meta.DType != tensor.Invalid && !o.Meta.DType.Valid():
			return fmt.Errorf("iter: %s: invalid dtype %v", it.place(i), o.Meta.DType)
		case !o.Defined:
			continue
		case o.Number.IsSet() && i < it.noutputs:
			return fmt.Errorf("iter: %s is a plain number, which cannot be written", it.place(i))
		}
		if err := o.Meta.Check(); err != nil {
			return fmt.Errorf("iter: %s: %w", it.place(i), err)
		}
		if need := o.Meta.Extent() * o.Meta.DType.Size(); o.object != nil && o.Storage != nil && need > o.Storage.Len() {
			return fmt.Errorf("iter: %s needs %d bytes of storage and has %d", it.named(i), need, o.Storage.Len())
		}
	}
	for _, d := range [...]tensor.DType{c.dtype, c.inputs} {
		if d != tensor.Invalid && !d.Valid() {
			return fmt.Errorf("iter: invalid dtype %v", d)
		}
	}
	return nil
}

// checkSize refuses a shape whose elements nobody can count: operands may be small where
// what they broadcast to is not.
func (it *Iterator) checkSize() error {
	numel := 1
	for d, n := range it.shape {
		if n < 0 {
			return fmt.Errorf("iter: negative size %d of dimension %d of shape %s", n, d, tensor.ListString(it.shape))
		}
		if n > 0 && numel > tensor.MaxBytes/n {
			return fmt.Errorf("iter: shape %s has more than 2^47 elements", tensor.ListString(it.shape))
		}
		numel *= max(n, 1)
	}
	return nil
}

// coverStatic refuses operands that do not reach as far as a declared shape.
func (it *Iterator) coverStatic() error {
	for i := range it.ops {
		o := &it.ops[i]
		if !o.Defined {
			continue
		}
		lead := len(it.shape) - len(o.Meta.Shape)
		short := lead < 0
		for d := 0; !short && d < len(o.Meta.Shape); d++ {
			size := o.Meta.Shape[d]
			short = size < it.shape[lead+d] && size != 1
		}
		if short {
			return fmt.Errorf("operand with shape %s does not cover the declared shape %s (%s)", tensor.ListString(o.Meta.Shape), tensor.ListString(it.shape), it.named(i))
		}
	}
	return nil
}

// sameShapes reports whether fast set-up may be thought of: all operands that take part
// in the shape have the same one; a 0-dim operand beside others does not.
func (it *Iterator) sameShapes() bool {
	if it.flags.staticShape {
		return false
	}
	for i := range it.ops {
		o := &it.ops[i]
		if !o.Defined || o.isOutput && !it.flags.keepOutputs {
			continue
		}
		if !slices.Equal(o.Meta.Shape, it.shape) {
			return false
		}
	}
	return true
}

// markResize finds given outputs of the wrong shape (mark_resize_outputs).
func (it *Iterator) markResize() error {
	if it.flags.staticShape {
		for i := range it.noutputs {
			it.ops[i].willResize = !it.ops[i].Defined
		}
		return nil
	}
	for i := range it.noutputs {
		o := &it.ops[i]
		if !o.Defined {
			o.willResize = true
			continue
		}
		if slices.Equal(o.Meta.Shape, it.shape) {
			continue
		}
		if !it.flags.keepOutputs && !o.readWrite {
			o.willResize = true
			if o.Meta.Numel() != 0 {
				it.warnings = append(it.warnings, fmt.Sprintf("An output with one or more elements was resized since it had shape %s, which does not match the required output shape %s",
					tensor.ListString(o.Meta.Shape), tensor.ListString(it.shape)))
			}
			continue
		}
		if !it.flags.reduction {
			return fmt.Errorf("output with shape %s doesn't match the broadcast shape %s (%s)", tensor.ListString(o.Meta.Shape), tensor.ListString(it.shape), it.named(i))
		}
	}
	return nil
}
