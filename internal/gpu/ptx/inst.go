package ptx

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/tensor"
)

// inst adds the PTX of instruction v.
func (p *printer) inst(v ir.Value, inst *ir.Inst) error {
	var args []string
	for _, u := range inst.Uses() {
		args = append(args, p.registerOf[u])
	}
	result := ""
	if inst.Op.HasResult() && inst.Op != ir.Part {
		result = p.register(ir.Register(inst.DType))
	}
	p.registerOf = append(p.registerOf, result)
	if inst.Op.IsLaneOp() {
		return p.scalar(inst, result, args)
	}
	switch inst.Op {
	case ir.Param:
		p.emit("ld.param.u64", result, fmt.Sprintf("[p%d]", inst.Imm))
		p.emit("cvta.to.global.u64", result, result)
	case ir.Thread:
		p.emit("mov.u32", result, "%tid.x")
	case ir.Group:
		x, y := p.register(tensor.Uint32), p.register(tensor.Uint32)
		p.emit("mov.u32", x, "%ctaid.x")
		p.emit("mov.u32", y, "%ctaid.y")
		p.emit("mov.u32", result, "%nctaid.x")
		p.emit("mad.lo.u32", result, y, result, x)
	case ir.MulHigh:
		p.emit("mul.hi.u32", result, args[0], args[1])
	case ir.Load:
		p.load(v, inst, args[0])
	case ir.Part: // load has already assigned a register to each word
		p.registerOf[v] = p.loadedWords[inst.Args[0]][inst.Imm]
	case ir.Store:
		suffix, words := access(inst.DType, args[1:])
		p.emit("st.global"+suffix, "["+args[0]+"]", words)
	case ir.Var, ir.Get:
		p.emit("mov."+typeSuffix(inst.DType, true), result, args[0])
	case ir.Set:
		p.emit("mov."+typeSuffix(p.Type(inst.Args[1]), true), args[0], args[1])
	case ir.Barrier:
		p.emit("bar.sync", "0")
	case ir.LoadShared, ir.StoreShared:
		d := p.Shared[inst.Imm].DType
		if d == tensor.Bool {
			return fmt.Errorf("PTX has no instruction for an array of bools")
		}
		at := p.register(tensor.Uint64)
		p.element(at, fmt.Sprintf("s%d", inst.Imm), args[0], d.Size())
		if inst.Op == ir.LoadShared {
			p.emit("ld.shared."+typeSuffix(d, true), result, "["+at+"]")
		} else {
			p.emit("st.shared."+typeSuffix(d, true), "["+at+"]", args[1])
		}
	default:
		p.control(int(v), inst.Op, args)
	}
	return nil
}

// access returns the suffix of the opcode of a load or store of words, and the operand that lists their registers.
func access(d tensor.DType, words []string) (suffix, operand string) {
	if len(words) == 1 {
		return "." + typeSuffix(d, false), words[0]
	}
	return fmt.Sprintf(".v%d.%s", len(words), typeSuffix(d, false)), "{" + strings.Join(words, ", ") + "}"
}

// load adds a Load, and assigns a register to each of its words.
func (p *printer) load(v ir.Value, inst *ir.Inst, address string) {
	words := []string{p.registerOf[v]}
	for range inst.Imm - 1 {
		words = append(words, p.register(ir.Register(inst.DType)))
	}
	p.loadedWords[v] = words
	suffix, operand := access(inst.DType, words)
	p.emit("ld.global"+suffix, operand, "["+address+"]")
}

// control adds the branches and labels of a Loop, Break, If, Else or End.
func (p *printer) control(v int, op ir.Op, args []string) {
	label := func(name string, number int) { fmt.Fprintf(&p.body, "$%s%d:\n", name, number) }
	last := len(p.open) - 1
	switch op {
	case ir.Loop:
		p.open = append(p.open, block{number: v, isLoop: true})
		label("loop", v)
	case ir.Break:
		p.emit("@"+args[0]+" bra", fmt.Sprintf("$end%d", p.open[last].number))
	case ir.If:
		p.open = append(p.open, block{number: v})
		p.emit("@!"+args[0]+" bra", fmt.Sprintf("$else%d", v))
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
