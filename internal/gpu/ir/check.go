package ir

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// legalLaneOps has the operations of package lane that kernels may contain. Package lower replaces all other operations
// of package lane by these operations.
var legalLaneOps = [64]bool{lane.Const: true, lane.Convert: true, lane.Bits: true, lane.Add: true, lane.Sub: true,
	lane.Mul: true, lane.Div: true, lane.FMA: true, lane.Sqrt: true, lane.Floor: true, lane.Ceil: true, lane.Trunc: true,
	lane.Rint: true, lane.And: true, lane.Or: true, lane.Xor: true, lane.Not: true, lane.Shl: true, lane.Shr: true,
	lane.Eq: true, lane.Ne: true, lane.Lt: true, lane.Le: true, lane.Select: true, lane.Lookup: true}

// valueDTypes has the dtypes that the value of an instruction may have.
var valueDTypes = map[tensor.DType]bool{tensor.Bool: true, tensor.Int32: true, tensor.Uint32: true, tensor.Int64: true,
	tensor.Uint64: true, tensor.Float32: true, tensor.Float64: true}

// checker checks the instructions of a kernel in order.
type checker struct {
	*Kernel
	open    []Op   // the Loop, If or Else that began each open block; the outermost block first
	begins  []int  // the index of the instruction that began each open block
	visible []bool // indexed by value: whether the block of the value is still open
}

// Check returns an error if the kernel is invalid. A valid kernel has only operations that kernels may contain, with
// the right number and dtypes of operands. A value is used only after its instruction, and only in the block of the
// instruction and in inner blocks. Blocks are nested, and every block ends. For example, v3 below is visible in v4
// only:
//
//	v2 = If v1
//	v3 = Add v0, v0
//	v4 = WriteVar v9, v3
//	v5 = End
func (k *Kernel) Check() error {
	state := &checker{Kernel: k, visible: make([]bool, len(k.Insts))}
	if k.GroupSize < 1 || k.Params < 0 {
		return fmt.Errorf("ir: GroupSize is %d and Params is %d: want at least 1 and at least 0", k.GroupSize, k.Params)
	}
	for index := range k.Insts {
		if err := state.checkInst(index, &k.Insts[index]); err != nil {
			return fmt.Errorf("ir: v%d (%v): %w", index, k.Insts[index].Op, err)
		}
	}
	if len(state.open) > 0 {
		return errors.New("ir: a block has no End")
	}
	return nil
}

// checkInst checks an instruction. value is its index.
func (c *checker) checkInst(value int, inst *Inst) error {
	for _, operand := range inst.Operands() {
		if operand < 0 || int(operand) >= value || !c.visible[operand] || !c.Insts[operand].Op.HasResult() {
			return fmt.Errorf("uses v%d, which is not an earlier value of this block or a block around it", operand)
		}
	}
	if err := c.updateBlocks(value, inst.Op); err != nil {
		return err
	}
	c.visible[value] = true
	if inst.Op.IsLaneOp() {
		return c.checkLaneOp(inst)
	}
	return c.checkDeviceOp(inst)
}

// updateBlocks updates the open blocks if the instruction with the given index begins or ends a block, and checks the
// place of a Break. Values of a block are not visible after its Else or End.
func (c *checker) updateBlocks(index int, op Op) error {
	last := len(c.open) - 1
	switch op {
	case Loop, If:
		c.open, c.begins = append(c.open, op), append(c.begins, index)
	case Break:
		if last < 0 || c.open[last] != Loop {
			return errors.New("the innermost block is not a loop")
		}
	case Else, End:
		if last < 0 || op == Else && c.open[last] != If {
			return errors.New("there is no open block")
		}
		for value := c.begins[last] + 1; value < index; value++ {
			c.visible[value] = false
		}
		c.open[last] = op
		if op == End { // an Else replaces the If as the open block
			c.open, c.begins = c.open[:last], c.begins[:last]
		}
	}
	return nil
}

// checkTypes returns an error if the operands of an instruction do not have the dtypes `want`, in order.
func (c *checker) checkTypes(inst *Inst, want ...tensor.DType) error {
	uses := inst.Operands()
	if len(uses) != len(want) {
		return fmt.Errorf("%d operands instead of %d", len(uses), len(want))
	}
	for position, operand := range uses {
		if c.Type(operand) != want[position] {
			return fmt.Errorf("operand %d is %v instead of %v", position, c.Type(operand), want[position])
		}
	}
	return nil
}

// checkLaneOp checks an operation of package lane.
func (c *checker) checkLaneOp(inst *Inst) error {
	op, uses := lane.Op(inst.Op), inst.Operands()
	switch {
	case !legalLaneOps[inst.Op] || !valueDTypes[inst.DType]:
		return fmt.Errorf("kernels do not support operation %v of %v", op, inst.DType)
	case op == lane.Const:
		return c.checkConst(inst)
	case len(uses) != lane.Ops[op].Args:
		return fmt.Errorf("%d operands instead of %d", len(uses), lane.Ops[op].Args)
	case op == lane.Select:
		return c.checkTypes(inst, tensor.Bool, inst.DType, inst.DType)
	}
	operandDType := c.Type(uses[len(uses)-1]) // the last operand has the dtype of the operation
	isLegal := isLegalResult(inst, operandDType)
	for _, operand := range uses {
		isLegal = isLegal && c.Type(operand) == operandDType
	}
	if !isLegal {
		return fmt.Errorf("%v of %v cannot give %v", op, operandDType, inst.DType)
	}
	return nil
}

// checkConst checks that the constant is a value of its dtype.
func (c *checker) checkConst(inst *Inst) error {
	bits := 8 * inst.DType.Size()
	isTooLarge := bits < 64 && inst.Imm>>bits != 0 || inst.DType == tensor.Bool && inst.Imm > 1
	if isTooLarge {
		return fmt.Errorf("%#x is not a value of %v", inst.Imm, inst.DType)
	}
	return c.checkTypes(inst)
}

// isLegalResult reports whether an operation of package lane accepts operands of a dtype and gives a result with the
// instruction's dtype.
func isLegalResult(inst *Inst, operandDType tensor.DType) bool {
	op := lane.Op(inst.Op)
	switch {
	case !lane.Ops[op].OperandDTypes.Has(operandDType):
		return false
	case op == lane.Convert:
		return isLegalConversion(inst.DType, operandDType)
	case op == lane.Bits:
		return operandDType.Size() == inst.DType.Size() && inst.DType != tensor.Bool
	case op.Compares():
		return inst.DType == tensor.Bool
	}
	return operandDType == inst.DType && (op != lane.Lookup || inst.Table != nil)
}

// isLegalConversion reports whether kernels support a conversion. Floats can be converted to other floats, int32 and
// int64. Integers can be converted to floats, and to integers of another size and the same signedness.
func isLegalConversion(to, from tensor.DType) bool {
	switch {
	case to == tensor.Bool || from == tensor.Bool:
		return false
	case from.IsFloat() && !to.IsFloat():
		return to.IsSigned()
	case to.IsFloat():
		return to != from
	}
	return to.Size() != from.Size() && to.IsSigned() == from.IsSigned()
}

// checkDeviceOp checks an operation that package lane does not have. updateBlocks has already checked the operations
// that end blocks.
func (c *checker) checkDeviceOp(inst *Inst) error {
	uses := inst.Operands()
	switch inst.Op {
	case Param:
		if inst.Imm >= uint64(c.Params) || inst.DType != tensor.Uint64 {
			return fmt.Errorf("there is no address %d", inst.Imm)
		}
	case Load:
		if !isLegalAccess(inst.DType, inst.Imm) {
			return fmt.Errorf("a Load of %d words of %v is not supported", inst.Imm, inst.DType)
		}
		return c.checkTypes(inst, tensor.Uint64)
	case Extract:
		if len(uses) != 1 || !c.isWordOf(uses[0], inst) {
			return errors.New("the operand is not a Load with this word")
		}
	case Store:
		words := len(uses) - 1
		if words < 0 || !isLegalAccess(inst.DType, uint64(words)) {
			return fmt.Errorf("a Store of %d words of %v is not supported", words, inst.DType)
		}
		want := []tensor.DType{tensor.Uint64}
		for range words {
			want = append(want, Register(inst.DType)) // words of 8 and 16 bits are uint32 in registers
		}
		return c.checkTypes(inst, want...)
	case MulHigh:
		return c.checkTypes(inst, tensor.Uint32, tensor.Uint32)
	case Break, If:
		return c.checkTypes(inst, tensor.Bool)
	case Var:
		return c.checkTypes(inst, inst.DType)
	case ReadVar, WriteVar:
		return c.checkVarAccess(inst)
	case LoadShared, StoreShared:
		return c.checkSharedAccess(inst)
	}
	return nil
}

// isLegalAccess reports whether a Load or a Store may access a number of words of a dtype at once. Words are unsigned
// and adjacent in memory. An access has 1, 2 or 4 words of 32 or 64 bits, or one word of 8 or 16 bits.
func isLegalAccess(dtype tensor.DType, words uint64) bool {
	switch dtype {
	case tensor.Uint8, tensor.Uint16:
		return words == 1
	case tensor.Uint32, tensor.Uint64:
		return words == 1 || words == 2 || words == MaxWords
	}
	return false
}

// isWordOf reports whether the given value is a Load that has the word of an Extract.
func (c *checker) isWordOf(value Value, extract *Inst) bool {
	load := &c.Insts[value]
	return load.Op == Load && extract.Imm < load.Imm && extract.DType == c.Type(value)
}

// checkVarAccess checks a ReadVar or a WriteVar.
func (c *checker) checkVarAccess(inst *Inst) error {
	uses := inst.Operands()
	if len(uses) < 1 || c.Insts[uses[0]].Op != Var {
		return errors.New("there is no variable")
	}
	dtype := c.Insts[uses[0]].DType
	if inst.Op == WriteVar {
		return c.checkTypes(inst, dtype, dtype)
	}
	if inst.DType != dtype {
		return fmt.Errorf("the result is %v, but the variable is %v", inst.DType, dtype)
	}
	return c.checkTypes(inst, dtype)
}

// checkSharedAccess checks a LoadShared or a StoreShared.
func (c *checker) checkSharedAccess(inst *Inst) error {
	if inst.Imm >= uint64(len(c.Shared)) {
		return fmt.Errorf("there is no array %d", inst.Imm)
	}
	dtype := c.Shared[inst.Imm].DType
	if inst.Op == StoreShared {
		return c.checkTypes(inst, tensor.Uint32, dtype)
	}
	if inst.DType != dtype {
		return fmt.Errorf("the result is %v, but the array is %v", inst.DType, dtype)
	}
	return c.checkTypes(inst, tensor.Uint32)
}
