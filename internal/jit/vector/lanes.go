package vector

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// storedMaskBytes is the number of bytes of a lane in masks that are stored, or folded into an accumulator.
const storedMaskBytes = 1

// lowerLoop translates a loop of primitive operations to the intermediate representation of package lane. These
// operations have the same numbers in packages expr and lane. The pointers are the outputs, the operands and the
// accumulators, as in [Loop.Run]. A bool becomes a mask. A comparison of float32 gives a mask with lanes of 4 bytes.
// Before a mask is stored or folded, Remask converts it to lanes of storedMaskBytes. Remask leaves numbers unchanged.
func lowerLoop(loop *expr.Loop) (*lane.Loop, error) {
	result := &lane.Loop{CombinesLanes: loop.CombinesLanes}
	result.Ptrs = pointersOf(loop)
	lowering := loopLowering{code: loop.Code, block: &result.Block, values: make([]lane.Value, len(loop.Code.Insts)),
		tables: map[uint64]*[32]float32{}}
	order := evaluationOrder(loop)
	result.Grow(len(order) + len(loop.Code.Out))
	for _, v := range order {
		lowering.values[v] = lowering.add(loop.Code.Insts[v])
	}
	for k, fold := range loop.Folds {
		value := result.Remask(lowering.values[fold.Value], storedMaskBytes)
		result.Folds = append(result.Folds, lane.Fold{Op: lane.Op(fold.Op), Value: value, Ptr: len(result.Ptrs)})
		result.Ptrs = append(result.Ptrs, lane.Ptr{DType: loop.DType(k), Kind: lane.Accumulator})
	}
	lowering.addStores()
	return result, result.Check()
}

// pointersOf describes the pointers to the outputs and operands of a loop.
func pointersOf(loop *expr.Loop) (ptrs []lane.Ptr) {
	for _, output := range loop.Code.Out {
		ptrs = append(ptrs, lane.Ptr{DType: output.DType, Kind: lane.Output})
	}
	for k, dtype := range loop.Code.In {
		ptr := lane.Ptr{DType: dtype, Kind: lane.Operand}
		if loop.Uniform[k] { // one element for each row
			ptr.Kind = lane.RowOperand
		}
		ptrs = append(ptrs, ptr)
	}
	return ptrs
}

// loopLowering translates the instructions of an [expr.Code] and adds them to a block.
type loopLowering struct {
	code   *expr.Code
	block  *lane.Block
	values []lane.Value            // by expr.Value: its translation
	tables map[uint64]*[32]float32 // by expr.Inst.Imm; equal tables must have the same address (lane.Block.Lookup)
}

// add adds an instruction whose operands are already in the block, and returns its value.
func (b *loopLowering) add(inst expr.Inst) lane.Value {
	switch inst.Op {
	case expr.Const:
		return b.block.Const(inst.DType, inst.Imm)
	case expr.Load:
		operand, part := int(inst.A), int(inst.Imm) // part 1 is the imaginary part of a complex element
		return b.block.Load(len(b.code.Out)+operand, part)
	case expr.Lookup:
		table := b.tables[inst.Imm]
		if table == nil {
			contents := inst.Table()
			table = &contents
			b.tables[inst.Imm] = table
		}
		return b.block.Lookup(table, b.values[inst.A])
	case expr.Convert, expr.Bits:
		operandDType := b.code.Insts[inst.A].DType
		if operandDType == inst.DType {
			return b.values[inst.A]
		}
		if operandDType == tensor.Bool { // a bool is the byte 0 or 1, so Bits and Convert have the same result
			inst.Op = expr.Convert
		}
	}
	args := make([]lane.Value, 0, 3)
	for _, operand := range inst.Operands() {
		args = append(args, b.values[operand])
	}
	return b.block.Emit(lane.Op(inst.Op), inst.DType, args...)
}

// addStores adds the stores of the outputs. Stores must be last in the block, so the first loop converts all masks. In
// the second loop, Remask then returns these conversions and adds no instruction.
func (b *loopLowering) addStores() {
	for _, output := range b.code.Out {
		b.block.Remask(b.values[output.Re], storedMaskBytes)
	}
	for k, output := range b.code.Out {
		im := lane.None
		if output.Im != expr.None {
			im = b.values[output.Im]
		}
		if output.DType != tensor.Invalid { // an output of dtype Invalid is computed and not stored
			b.block.Store(k, b.block.Remask(b.values[output.Re], storedMaskBytes), im)
		}
	}
}
