package spirv

import (
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/tensor"
)

// emitInst adds the SPIR-V of the instruction with the given value.
func (p *printer) emitInst(value ir.Value, inst *ir.Inst) error {
	var args []uint32 // the ids of the operands
	for _, operand := range inst.Operands() {
		args = append(args, p.resultIDs[operand])
	}
	if inst.Op.IsLaneOp() {
		return p.emitLaneOp(value, inst, args)
	}
	u32 := p.typeOf(tensor.Uint32)
	switch inst.Op {
	case ir.Param:
		u64 := p.typeOf(tensor.Uint64)
		pointer := p.declare(opTypePointer, classPush, u64)
		element := p.emitResult(opAccessChain, pointer, p.pushConstants, p.number(tensor.Uint32, inst.Imm))
		p.resultIDs[value] = p.emitResult(opLoad, u64, element)
	case ir.Thread:
		p.resultIDs[value] = p.thread
	case ir.Group:
		p.resultIDs[value] = p.group
	case ir.MulHigh: // member 0 is the low half of the product, and member 1 the high half
		product := p.emitResult(opUMulExtended, p.declare(opTypeStruct, u32, u32), args...)
		p.resultIDs[value] = p.emitResult(opCompositeExtract, u32, product, 1)
	case ir.Load:
		p.emitLoad(value, inst, args[0])
	case ir.Extract:
		p.resultIDs[value] = p.emitResult(opCompositeExtract, p.typeOf(inst.DType), p.vectors[inst.Args[0]], uint32(inst.Imm))
	case ir.Store:
		p.emitStore(inst.DType, args[0], args[1:])
	case ir.Var: // the id is the id of a pointer to a variable of the function
		p.resultIDs[value] = p.id()
		pointer := p.declare(opTypePointer, classFunction, p.typeOf(inst.DType))
		emit(&p.variables, opVariable, pointer, p.resultIDs[value], classFunction)
		emit(&p.body, opStore, p.resultIDs[value], args[0])
	case ir.ReadVar:
		p.resultIDs[value] = p.emitResult(opLoad, p.typeOf(inst.DType), args[0])
	case ir.WriteVar:
		emit(&p.body, opStore, args[0], args[1])
	case ir.LoadShared:
		p.resultIDs[value] = p.emitResult(opLoad, p.typeOf(inst.DType), p.sharedElement(inst, args[0]))
	case ir.StoreShared:
		emit(&p.body, opStore, p.sharedElement(inst, args[0]), args[1])
	case ir.Barrier: // the barrier makes writes to the memory of the group visible to the threads of the group
		const workgroup, acquireRelease, workgroupMemory = 2, 8, 0x100
		scope := p.number(tensor.Uint32, workgroup)
		emit(&p.body, opControlBarrier, scope, scope, p.number(tensor.Uint32, acquireRelease|workgroupMemory))
	default:
		p.emitControl(inst.Op, args)
	}
	return nil
}

// sharedElement returns a pointer to an element of an array in the memory of the group.
func (p *printer) sharedElement(inst *ir.Inst, index uint32) uint32 {
	pointer := p.declare(opTypePointer, classWorkgroup, p.typeOf(p.Shared[inst.Imm].DType))
	return p.emitResult(opAccessChain, pointer, p.shared[inst.Imm], index)
}

// wordsType returns the id of the type of count words of memory: a scalar or a vector.
func (p *printer) wordsType(dtype tensor.DType, count int) uint32 {
	if count == 1 {
		return p.typeOf(dtype)
	}
	return p.declare(opTypeVector, p.typeOf(dtype), uint32(count))
}

// pointer converts an address to a pointer to the type typeID. access has the last operands of a load or store through
// the pointer. They state the alignment of the pointer, which is the number of accessed bytes.
func (p *printer) pointer(typeID, address uint32, bytes int) (pointer uint32, access []uint32) {
	const aligned = 2 // a bit of the memory operands: the alignment follows
	pointer = p.emitResult(opConvertUToPtr, p.declare(opTypePointer, classPhysical, typeID), address)
	return pointer, []uint32{aligned, uint32(bytes)}
}

// emitLoad adds a Load. Its value has the id of the first word. If there are several words, p.vectors has the id of
// their vector, for Extract.
func (p *printer) emitLoad(value ir.Value, inst *ir.Inst, address uint32) {
	count := int(inst.Imm)
	typeID := p.wordsType(inst.DType, count)
	pointer, access := p.pointer(typeID, address, count*inst.DType.Size())
	word := p.emitResult(opLoad, typeID, append([]uint32{pointer}, access...)...)
	switch {
	case count > 1:
		p.vectors[value] = word
		word = p.emitResult(opCompositeExtract, p.typeOf(inst.DType), word, 0)
	case inst.DType.Size() < 4:
		word = p.emitResult(opUConvert, p.typeOf(tensor.Uint32), word)
	}
	p.resultIDs[value] = word
}

// emitStore adds a Store. dtype is the dtype of a word in memory.
func (p *printer) emitStore(dtype tensor.DType, address uint32, words []uint32) {
	typeID, stored := p.wordsType(dtype, len(words)), words[0]
	switch {
	case len(words) > 1:
		stored = p.emitResult(opCompositeConstruct, typeID, words...)
	case dtype.Size() < 4:
		stored = p.emitResult(opUConvert, typeID, stored)
	}
	pointer, access := p.pointer(typeID, address, len(words)*dtype.Size())
	emit(&p.body, opStore, append([]uint32{pointer, stored}, access...)...)
}

// emitControl adds the branches and labels of a Loop, Break, If, Else or End. SPIR-V requires structured control flow.
// The header of a Loop or If names its merge block. The header of a Loop also names the continue block, which branches
// back. continueOrElseLabel is the label of the continue block or, for an If, of the Else. The blocks of a Loop are
//
//	beginLabel             the header: OpLoopMerge, and a branch to the body
//	(a new label)          the body; a Break branches to mergeLabel
//	continueOrElseLabel    the continue block: a branch to beginLabel
//	mergeLabel             the instructions after the loop
func (p *printer) emitControl(op ir.Op, args []uint32) {
	branch := func(label uint32) { emit(&p.body, opBranch, label) }
	label := func(id uint32) { emit(&p.body, opLabel, id) }
	last := len(p.open) - 1
	switch op {
	case ir.Loop:
		opened := block{isLoop: true, beginLabel: p.id(), continueOrElseLabel: p.id(), mergeLabel: p.id()}
		p.open = append(p.open, opened)
		bodyLabel := p.id()
		branch(opened.beginLabel)
		label(opened.beginLabel)
		const noLoopControl = 0
		emit(&p.body, opLoopMerge, opened.mergeLabel, opened.continueOrElseLabel, noLoopControl)
		branch(bodyLabel)
		label(bodyLabel)
	case ir.Break:
		afterBreak := p.id()
		emit(&p.body, opBranchConditional, args[0], p.open[last].mergeLabel, afterBreak)
		label(afterBreak)
	case ir.If:
		opened := block{beginLabel: p.id(), continueOrElseLabel: p.id(), mergeLabel: p.id()}
		p.open = append(p.open, opened)
		const noSelectionControl = 0
		emit(&p.body, opSelectionMerge, opened.mergeLabel, noSelectionControl)
		emit(&p.body, opBranchConditional, args[0], opened.beginLabel, opened.continueOrElseLabel)
		label(opened.beginLabel)
	case ir.Else:
		p.open[last].hasElse = true
		branch(p.open[last].mergeLabel)
		label(p.open[last].continueOrElseLabel)
	case ir.End:
		opened := p.open[last]
		p.open = p.open[:last]
		if opened.isLoop {
			branch(opened.continueOrElseLabel)
			label(opened.continueOrElseLabel)
			branch(opened.beginLabel)
		} else {
			branch(opened.mergeLabel)
			if !opened.hasElse {
				label(opened.continueOrElseLabel)
				branch(opened.mergeLabel)
			}
		}
		label(opened.mergeLabel)
	}
}
