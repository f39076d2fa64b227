package spirv

import (
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/tensor"
)

// inst adds the SPIR-V of instruction v.
func (p *printer) inst(v ir.Value, inst *ir.Inst) error {
	var args []uint32
	for _, u := range inst.Uses() {
		args = append(args, p.resultIDs[u])
	}
	if inst.Op.IsLaneOp() {
		return p.scalar(v, inst, args)
	}
	u32 := p.typeOf(tensor.Uint32)
	switch inst.Op {
	case ir.Param:
		u64 := p.typeOf(tensor.Uint64)
		pointer := p.declare(opTypePointer, classPush, u64)
		element := p.emitResult(opAccessChain, pointer, p.pushConstants, p.number(tensor.Uint32, inst.Imm))
		p.resultIDs[v] = p.emitResult(opLoad, u64, element)
	case ir.Thread:
		p.resultIDs[v] = p.thread
	case ir.Group:
		p.resultIDs[v] = p.group
	case ir.MulHigh: // member 0 is the low half of the product, and member 1 the high half
		both := p.emitResult(opUMulExtended, p.declare(opTypeStruct, u32, u32), args...)
		p.resultIDs[v] = p.emitResult(opCompositeExtract, u32, both, 1)
	case ir.Load:
		p.load(v, inst, args[0])
	case ir.Part:
		p.resultIDs[v] = p.emitResult(opCompositeExtract, p.typeOf(inst.DType), p.vectors[inst.Args[0]], uint32(inst.Imm))
	case ir.Store:
		p.store(inst.DType, args[0], args[1:])
	case ir.Var:
		p.resultIDs[v] = p.id()
		pointer := p.declare(opTypePointer, classFunction, p.typeOf(inst.DType))
		emit(&p.variables, opVariable, pointer, p.resultIDs[v], classFunction)
		emit(&p.body, opStore, p.resultIDs[v], args[0])
	case ir.Get:
		p.resultIDs[v] = p.emitResult(opLoad, p.typeOf(inst.DType), args[0])
	case ir.Set:
		emit(&p.body, opStore, args[0], args[1])
	case ir.LoadShared:
		p.resultIDs[v] = p.emitResult(opLoad, p.typeOf(inst.DType), p.sharedElement(inst, args[0]))
	case ir.StoreShared:
		emit(&p.body, opStore, p.sharedElement(inst, args[0]), args[1])
	case ir.Barrier: // scope 2 is the workgroup; 0x108 acquires and releases the memory of the workgroup
		scope := p.number(tensor.Uint32, 2)
		emit(&p.body, opControlBarrier, scope, scope, p.number(tensor.Uint32, 0x108))
	default:
		p.control(inst.Op, args)
	}
	return nil
}

// sharedElement returns a pointer to an element of an array in the memory of the group.
func (p *printer) sharedElement(inst *ir.Inst, index uint32) uint32 {
	pointer := p.declare(opTypePointer, classWorkgroup, p.typeOf(p.Shared[inst.Imm].DType))
	return p.emitResult(opAccessChain, pointer, p.shared[inst.Imm], index)
}

// words returns the id of the type of n words of memory: a scalar or a vector.
func (p *printer) words(d tensor.DType, n int) uint32 {
	if n == 1 {
		return p.typeOf(d)
	}
	return p.declare(opTypeVector, p.typeOf(d), uint32(n))
}

// pointer converts an address to a pointer to the type typeID. access has the operands of a load or store through the
// pointer that state its alignment, which is the number of accessed bytes.
func (p *printer) pointer(typeID, address uint32, bytes int) (pointer uint32, access []uint32) {
	const aligned = 2
	pointer = p.emitResult(opConvertUToPtr, p.declare(opTypePointer, classPhysical, typeID), address)
	return pointer, []uint32{aligned, uint32(bytes)}
}

// load adds a Load. The words of a vector remain in p.vectors for Part.
func (p *printer) load(v ir.Value, inst *ir.Inst, address uint32) {
	n := int(inst.Imm)
	typeID := p.words(inst.DType, n)
	pointer, access := p.pointer(typeID, address, n*inst.DType.Size())
	word := p.emitResult(opLoad, typeID, append([]uint32{pointer}, access...)...)
	switch {
	case n > 1:
		p.vectors[v] = word
		word = p.emitResult(opCompositeExtract, p.typeOf(inst.DType), word, 0)
	case inst.DType.Size() < 4:
		word = p.emitResult(opUConvert, p.typeOf(tensor.Uint32), word)
	}
	p.resultIDs[v] = word
}

// store adds a Store.
func (p *printer) store(d tensor.DType, address uint32, words []uint32) {
	typeID, word := p.words(d, len(words)), words[0]
	switch {
	case len(words) > 1:
		word = p.emitResult(opCompositeConstruct, typeID, words...)
	case d.Size() < 4:
		word = p.emitResult(opUConvert, typeID, word)
	}
	pointer, access := p.pointer(typeID, address, len(words)*d.Size())
	emit(&p.body, opStore, append([]uint32{pointer, word}, access...)...)
}

// control adds the branches and labels of a Loop, Break, If, Else or End.
func (p *printer) control(op ir.Op, args []uint32) {
	branch := func(label uint32) { emit(&p.body, opBranch, label) }
	label := func(l uint32) { emit(&p.body, opLabel, l) }
	last := len(p.open) - 1
	switch op {
	case ir.Loop:
		opened := block{isLoop: true, headerLabel: p.id(), continueLabel: p.id(), mergeLabel: p.id()}
		p.open = append(p.open, opened)
		first := p.id()
		branch(opened.headerLabel)
		label(opened.headerLabel)
		emit(&p.body, opLoopMerge, opened.mergeLabel, opened.continueLabel, 0)
		branch(first)
		label(first)
	case ir.Break:
		rest := p.id()
		emit(&p.body, opBranchConditional, args[0], p.open[last].mergeLabel, rest)
		label(rest)
	case ir.If:
		opened := block{headerLabel: p.id(), continueLabel: p.id(), mergeLabel: p.id()}
		p.open = append(p.open, opened)
		emit(&p.body, opSelectionMerge, opened.mergeLabel, 0)
		emit(&p.body, opBranchConditional, args[0], opened.headerLabel, opened.continueLabel)
		label(opened.headerLabel)
	case ir.Else:
		p.open[last].hasElse = true
		branch(p.open[last].mergeLabel)
		label(p.open[last].continueLabel)
	case ir.End:
		opened := p.open[last]
		p.open = p.open[:last]
		if opened.isLoop {
			branch(opened.continueLabel)
			label(opened.continueLabel)
			branch(opened.headerLabel)
		} else {
			branch(opened.mergeLabel)
			if !opened.hasElse {
				label(opened.continueLabel)
				branch(opened.mergeLabel)
			}
		}
		label(opened.mergeLabel)
	}
}
