package lane

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// Check returns an error if the block is invalid: an instruction uses a value that is not computed before, dtypes or
// widths of masks do not agree, or an instruction follows a store. For example, if v0 and v1 are float32, v2 = Lt v0,
// v1 must be a bool with a mask of 4 bytes, because lanes of float32 have 4 bytes.
func (b *Block) Check() error {
	hasStore := false
	for v, inst := range b.Insts {
		err := b.checkInst(Value(v), &inst)
		hasStore = hasStore || inst.Op == Store
		if hasStore && inst.Op != Store {
			err = errors.New("the instruction follows a store, and stores must be last")
		}
		if err != nil {
			return fmt.Errorf("lane: v%d (%v): %w", v, inst.Op, err)
		}
	}
	return nil
}

// Check returns an error if the block is invalid, or if the operation, the value and the pointer of a fold do not
// agree.
func (l *Loop) Check() error {
	if err := l.Block.Check(); err != nil {
		return err
	}
	for k, fold := range l.Folds {
		if fold.Value < 0 || int(fold.Value) >= len(l.Insts) || fold.Ptr < 0 || fold.Ptr >= len(l.Ptrs) {
			return fmt.Errorf("lane: fold %d: there is no v%d or no pointer %d", k, fold.Value, fold.Ptr)
		}
		valueType, ptr := l.Type(fold.Value), l.Ptrs[fold.Ptr]
		matchesPtr := ptr.Kind == Accumulator && valueType == memoryType(ptr.DType)
		if !matchesPtr || !fold.Op.Folds(valueType.DType) {
			return fmt.Errorf("lane: fold %d: %v cannot fold values of type %v into pointer %v", k, fold.Op, valueType, ptr)
		}
	}
	return nil
}

// checkInst checks the instruction that computes a value.
func (b *Block) checkInst(value Value, inst *Inst) error {
	if inst.Op == Invalid || inst.Op >= numOps {
		return errors.New("the operation does not exist")
	}
	for _, operand := range inst.Operands() {
		if operand < 0 || operand >= value {
			return fmt.Errorf("the operand v%d is not an earlier value", operand)
		}
		if b.Insts[operand].Op == Store {
			return fmt.Errorf("the operand v%d is a store, which has no value", operand)
		}
	}
	if inst.Op != Store {
		if err := checkType(inst.Type); err != nil {
			return err
		}
	}
	if inst.Op == Load || inst.Op == Store {
		return b.checkAccess(inst)
	}
	return b.checkTypes(inst)
}

// checkType checks that a mask has a width and that other types have none.
func checkType(t Type) error {
	switch {
	case !reals.Has(t.DType):
		return fmt.Errorf("a lane cannot have dtype %v", t.DType)
	case t.DType == tensor.Bool && t.Mask != 1 && t.Mask != 2 && t.Mask != 4 && t.Mask != 8:
		return fmt.Errorf("a bool has a mask of %d bytes: want 1, 2, 4 or 8", t.Mask)
	case t.DType != tensor.Bool && t.Mask != 0:
		return fmt.Errorf("a value of dtype %v has a mask: only bools have one", t.DType)
	}
	return nil
}

// checkAccess checks a load or a store.
func (b *Block) checkAccess(inst *Inst) error {
	if inst.Ptr < 0 || int(inst.Ptr) >= len(b.Ptrs) {
		return fmt.Errorf("there is no pointer %d", inst.Ptr)
	}
	ptr := b.Ptrs[inst.Ptr]
	partType := memoryType(ptr.DType.ToReal())
	if inst.Op == Load {
		isOperand := ptr.Kind == Operand || ptr.Kind == RowOperand
		hasPart := inst.Imm == 0 || inst.Imm == 1 && ptr.DType.IsComplex() // 0 for real parts, 1 for imaginary parts
		if !isOperand || !hasPart || inst.Type != partType {
			return fmt.Errorf("a load of type %v, part %d, does not match pointer %v", inst.Type, inst.Imm, ptr)
		}
		return nil
	}
	hasImaginaryPart := inst.B != None
	if ptr.Kind != Output || inst.Type != memoryType(ptr.DType) || ptr.DType.IsComplex() != hasImaginaryPart {
		return fmt.Errorf("a store of type %v does not match pointer %v", inst.Type, ptr)
	}
	for _, operand := range inst.Operands() {
		if b.Type(operand) != partType {
			return fmt.Errorf("a stored value of type %v does not match pointer %v", b.Type(operand), ptr)
		}
	}
	return nil
}

// checkTypes checks the types of an instruction that accesses no memory.
func (b *Block) checkTypes(inst *Inst) error {
	if inst.Op == Const {
		bits := 8 * inst.Type.DType.Size()
		isTooLarge := bits < 64 && inst.Imm>>bits != 0 || inst.Type.DType == tensor.Bool && inst.Imm > 1
		if isTooLarge {
			return fmt.Errorf("%#x is not a value of %v", inst.Imm, inst.Type.DType)
		}
		return nil
	}
	uses := inst.Operands()
	values := uses // the operands that must have equal types
	if inst.Op == Select {
		values = uses[1:]
	}
	operandType := b.Type(values[0])
	isValid := Ops[inst.Op].OperandDTypes.Has(operandType.DType) && b.fitsResult(inst, operandType)
	for _, value := range values {
		isValid = isValid && b.Type(value) == operandType
	}
	if !isValid {
		return fmt.Errorf("%v of operands of type %v cannot give a result of type %v", inst.Op, operandType, inst.Type)
	}
	return nil
}

// fitsResult reports whether an operation on operands of the given type can have the type of the instruction.
func (b *Block) fitsResult(inst *Inst, operandType Type) bool {
	maskType := Type{DType: tensor.Bool, Mask: uint8(operandType.Size())} // bools as wide as the lanes of the operands
	switch inst.Op {
	case Remask: // from bool to a bool of any width
		return inst.Type.DType == tensor.Bool
	case Bits: // neither dtype is bool
		return Ops[Bits].OperandDTypes.Has(inst.Type.DType) && inst.Type.Size() == operandType.Size()
	case Convert: // from or to bool, lanes keep their width
		withoutBool := operandType.DType != tensor.Bool && inst.Type.DType != tensor.Bool
		return withoutBool || inst.Type.Size() == operandType.Size()
	case Eq, Ne, Lt, Le:
		return inst.Type == maskType
	case Select: // inst.A selects between two operands
		return inst.Type == operandType && b.Type(inst.A) == maskType
	case Lookup:
		return inst.Type == operandType && inst.Table != nil
	}
	return inst.Type == operandType
}
