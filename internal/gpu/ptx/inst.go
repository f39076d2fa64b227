package ptx

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/tensor"
)

// emitInst adds the PTX of the instruction with the given value.
func (p *printer) emitInst(value ir.Value, inst *ir.Inst) error {
	var args []string
	for _, operand := range inst.Operands() {
		args = append(args, p.registerOf[operand])
	}
	result := ""
	if inst.Op.HasResult() && inst.Op != ir.Extract {
		result = p.register(ir.Register(inst.DType))
	}
	p.registerOf = append(p.registerOf, result)
	if inst.Op.IsLaneOp() {
		return p.emitLaneOp(inst, result, args)
	}
	switch inst.Op {
	case ir.Param:
		p.emit("ld.param.u64", result, fmt.Sprintf("[p%d]", inst.Imm))
		p.emit("cvta.to.global.u64", result, result)
	case ir.Thread:
		p.emit("mov.u32", result, "%tid.x")
	case ir.Group: // y*(number of groups in x) + x
		groupX, groupY := p.register(tensor.Uint32), p.register(tensor.Uint32)
		p.emit("mov.u32", groupX, "%ctaid.x")
		p.emit("mov.u32", groupY, "%ctaid.y")
		p.emit("mov.u32", result, "%nctaid.x")
		p.emit("mad.lo.u32", result, groupY, result, groupX)
	case ir.MulHigh:
		p.emit("mul.hi.u32", result, args[0], args[1])
	case ir.Load:
		p.emitLoad(value, inst, args[0])
	case ir.Extract: // emitLoad has already assigned a register to each word
		p.registerOf[value] = p.loadedWords[inst.Args[0]][inst.Imm]
	case ir.Store:
		suffix, words := access(inst.DType, args[1:])
		p.emit("st.global"+suffix, "["+args[0]+"]", words)
	case ir.Var, ir.ReadVar:
		p.emit("mov."+bitsSuffix(inst.DType), result, args[0])
	case ir.WriteVar:
		p.emit("mov."+bitsSuffix(p.Type(inst.Args[1])), args[0], args[1])
	case ir.Barrier:
		p.emit("bar.sync", "0")
	case ir.LoadShared, ir.StoreShared:
		dtype := p.Shared[inst.Imm].DType
		if dtype == tensor.Bool {
			return fmt.Errorf("PTX has no instruction for an array of bools")
		}
		address := p.register(tensor.Uint64)
		p.emitElementAddress(address, fmt.Sprintf("s%d", inst.Imm), args[0], dtype.Size())
		if inst.Op == ir.LoadShared {
			p.emit("ld.shared."+bitsSuffix(dtype), result, "["+address+"]")
		} else {
			p.emit("st.shared."+bitsSuffix(dtype), "["+address+"]", args[1])
		}
	default:
		p.emitControl(int(value), inst.Op, args)
	}
	return nil
}

// access returns two parts of a load or store: the suffix of the opcode for words of a dtype, and the operand that
// lists the registers of the words.
func access(dtype tensor.DType, words []string) (suffix, operand string) {
	if len(words) == 1 {
		return "." + typeSuffix(dtype), words[0]
	}
	return fmt.Sprintf(".v%d.%s", len(words), typeSuffix(dtype)), "{" + strings.Join(words, ", ") + "}"
}

// emitLoad adds a Load of inst.Imm words, and assigns a register to each word.
func (p *printer) emitLoad(value ir.Value, inst *ir.Inst, address string) {
	words := []string{p.registerOf[value]}
	for range inst.Imm - 1 {
		words = append(words, p.register(ir.Register(inst.DType)))
	}
	p.loadedWords[value] = words
	suffix, operand := access(inst.DType, words)
	p.emit("ld.global"+suffix, operand, "["+address+"]")
}

// emitControl adds the branches and labels of a Loop, Break, If, Else or End. The labels of a block have the index of
// the instruction that began the block. The label else is the target if the condition of an If is false. For example, a
// loop becomes
//
//	$loop5:                v5 = Loop
//		@%p0 bra $end5;    v7 = Break v6
//		bra $loop5;        v9 = End
//	$end5:
func (p *printer) emitControl(index int, op ir.Op, args []string) {
	label := func(name string, number int) { fmt.Fprintf(&p.body, "$%s%d:\n", name, number) }
	last := len(p.open) - 1
	switch op {
	case ir.Loop:
		p.open = append(p.open, block{number: index, isLoop: true})
		label("loop", index)
	case ir.Break:
		p.emit("@"+args[0]+" bra", fmt.Sprintf("$end%d", p.open[last].number))
	case ir.If:
		p.open = append(p.open, block{number: index})
		p.emit("@!"+args[0]+" bra", fmt.Sprintf("$else%d", index))
	case ir.Else:
		p.open[last].hasElse = true
		p.emit("bra", fmt.Sprintf("$end%d", p.open[last].number))
		label("else", p.open[last].number)
	case ir.End:
		closed := p.open[last]
		p.open = p.open[:last]
		if closed.isLoop {
			p.emit("bra", fmt.Sprintf("$loop%d", closed.number))
		} else if !closed.hasElse {
			label("else", closed.number)
		}
		label("end", closed.number)
	}
}
