package spirv

import (
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/tensor"
)

// inst adds an instruction.
func (p *printer) inst(v ir.Value, i *ir.Inst) error {
	var args []uint32
	for _, u := range i.Uses() {
		args = append(args, p.ids[u])
	}
	if i.Op.IsLaneOp() {
		return p.scalar(v, i, args)
	}
	u32 := p.typ(tensor.Uint32)
	switch i.Op {
	case ir.Param:
		u64 := p.typ(tensor.Uint64)
		pointer := p.declare(opTypePointer, classPush, u64)
		p.ids[v] = p.do(opLoad, u64, p.do(opAccessChain, pointer, p.push, p.number(tensor.Uint32, i.Imm)))
	case ir.Thread:
		p.ids[v] = p.thread
	case ir.Group:
		p.ids[v] = p.group
	case ir.MulHigh:
		both := p.do(opUMulExtended, p.declare(opTypeStruct, u32, u32), args...)
		p.ids[v] = p.do(opCompositeExtract, u32, both, 1)
	case ir.Load:
		p.load(v, i, args[0])
	case ir.Part:
		p.ids[v] = p.do(opCompositeExtract, p.typ(i.D), p.vectors[i.Args[0]], uint32(i.Imm))
	case ir.Store:
		p.store(i.D, args[0], args[1:])
	case ir.Var:
		p.ids[v] = p.id()
		emit(&p.variables, opVariable, p.declare(opTypePointer, classFunction, p.typ(i.D)), p.ids[v], classFunction)
		emit(&p.body, opStore, p.ids[v], args[0])
	case ir.Get:
		p.ids[v] = p.do(opLoad, p.typ(i.D), args[0])
	case ir.Set:
		emit(&p.body, opStore, args[0], args[1])
	case ir.LoadShared:
		p.ids[v] = p.do(opLoad, p.typ(i.D), p.sharedElement(i, args[0]))
	case ir.StoreShared:
		emit(&p.body, opStore, p.sharedElement(i, args[0]), args[1])
	case ir.Barrier: // of the workgroup, which acquires and releases its memory
		scope := p.number(tensor.Uint32, 2)
		emit(&p.body, opControlBarrier, scope, scope, p.number(tensor.Uint32, 0x108))
	default:
		p.control(i.Op, args)
	}
	return nil
}

func (p *printer) sharedElement(i *ir.Inst, index uint32) uint32 {
	pointer := p.declare(opTypePointer, classWorkgroup, p.typ(p.Shared[i.Imm].D))
	return p.do(opAccessChain, pointer, p.shared[i.Imm], index)
}

// words returns the type of n words of memory.
func (p *printer) words(d tensor.DType, n int) uint32 {
	if n == 1 {
		return p.typ(d)
	}
	return p.declare(opTypeVector, p.typ(d), uint32(n))
}

// pointer converts an address. The second result are the memory operands of the access: its alignment.
func (p *printer) pointer(typ, address uint32, bytes int) (pointer uint32, access []uint32) {
	const aligned = 2
	return p.do(opConvertUToPtr, p.declare(opTypePointer, classPhysical, typ), address), []uint32{aligned, uint32(bytes)}
}

func (p *printer) load(v ir.Value, i *ir.Inst, address uint32) {
	n := int(i.Imm)
	typ := p.words(i.D, n)
	pointer, access := p.pointer(typ, address, n*i.D.Size())
	word := p.do(opLoad, typ, append([]uint32{pointer}, access...)...)
	switch {
	case n > 1:
		p.vectors[v] = word
		word = p.do(opCompositeExtract, p.typ(i.D), word, 0)
	case i.D.Size() < 4:
		word = p.do(opUConvert, p.typ(tensor.Uint32), word)
	}
	p.ids[v] = word
}

func (p *printer) store(d tensor.DType, address uint32, words []uint32) {
	typ, word := p.words(d, len(words)), words[0]
	switch {
	case len(words) > 1:
		word = p.do(opCompositeConstruct, typ, words...)
	case d.Size() < 4:
		word = p.do(opUConvert, typ, word)
	}
	pointer, access := p.pointer(typ, address, len(words)*d.Size())
	emit(&p.body, opStore, append([]uint32{pointer, word}, access...)...)
}

// control adds an instruction of control flow.
func (p *printer) control(op ir.Op, args []uint32) {
	branch := func(label uint32) { emit(&p.body, opBranch, label) }
	label := func(l uint32) { emit(&p.body, opLabel, l) }
	last := len(p.open) - 1
	switch op {
	case ir.Loop:
		b := block{isLoop: true, header: p.id(), continues: p.id(), next: p.id()}
		p.open = append(p.open, b)
		first := p.id()
		branch(b.header)
		label(b.header)
		emit(&p.body, opLoopMerge, b.next, b.continues, 0)
		branch(first)
		label(first)
	case ir.Break:
		rest := p.id()
		emit(&p.body, opBranchConditional, args[0], p.open[last].next, rest)
		label(rest)
	case ir.If:
		b := block{header: p.id(), continues: p.id(), next: p.id()}
		p.open = append(p.open, b)
		emit(&p.body, opSelectionMerge, b.next, 0)
		emit(&p.body, opBranchConditional, args[0], b.header, b.continues)
		label(b.header)
	case ir.Else:
		p.open[last].hasElse = true
		branch(p.open[last].next)
		label(p.open[last].continues)
	case ir.End:
		b := p.open[last]
		p.open = p.open[:last]
		if b.isLoop {
			branch(b.continues)
			label(b.continues)
			branch(b.header)
		} else {
			branch(b.next)
			if !b.hasElse {
				label(b.continues)
				branch(b.next)
			}
		}
		label(b.next)
	}
}
