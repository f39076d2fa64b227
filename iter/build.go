package iter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Build sets the iteration up: overlap checks, broadcast, dtypes, then the fast set-up or
// the permutation rule, output layouts, and the coalesced walk, in the order of
// TensorIteratorBase::build. The errors are PyTorch's.
func (c Config) Build() (*Iterator, error) {
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
				return nil, err
			}
		}
	}
	it.coalesce()
	return it, nil
}

// checkOperands refuses operands and declarations that are nothing: a broken meta, a tensor
// that is nil, what is no dtype.
func (it *Iterator) checkOperands(c Config) error {
	for i := range it.ops {
		o := &it.ops[i]
		var err error
		switch {
		case o.Defined && o.object != nil:
			err = o.object.Check()
		case o.Defined:
			err = o.Meta.Check()
		case i >= it.noutputs:
			err = errors.New("an input must be defined")
		case o.Meta.DType != tensor.Invalid && !o.Meta.DType.Valid():
			err = fmt.Errorf("invalid dtype %v", o.Meta.DType)
		}
		if err != nil {
			return fmt.Errorf("%w (%s)", err, it.named(i))
		}
	}
	for _, d := range []tensor.DType{c.dtype, c.inputs} {
		if d != tensor.Invalid && !d.Valid() {
			return fmt.Errorf("invalid dtype %v", d)
		}
	}
	if c.flags.staticShape {
		return tensor.New(tensor.Uint8, c.shape...).Check()
	}
	return nil
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

// named tells which operand is number i, for messages.
func (it *Iterator) named(i int) string {
	if i < it.noutputs {
		return fmt.Sprintf("output %d, %v", i, it.ops[i].Meta)
	}
	return fmt.Sprintf("input %d, %v", i-it.noutputs, it.ops[i].Meta)
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
