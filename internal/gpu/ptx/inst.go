package ptx

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/tensor"
)

// inst adds an instruction.
func (p *printer) inst(v ir.Value, i *ir.Inst) error {
	var args []string
	for _, u := range i.Uses() {
		args = append(args, p.names[u])
	}
	to := ""
	if i.Op.HasResult() && i.Op != ir.Part {
		to = p.register(ir.Register(i.D))
	}
	p.names = append(p.names, to)
	if i.Op.IsLaneOp() {
		return p.scalar(i, to, args)
	}
	switch i.Op {
	case ir.Param:
		p.do("ld.param.u64", to, fmt.Sprintf("[p%d]", i.Imm))
		p.do("cvta.to.global.u64", to, to)
	case ir.Thread:
		p.do("mov.u32", to, "%tid.x")
	case ir.Group:
		x, y := p.register(tensor.Uint32), p.register(tensor.Uint32)
		p.do("mov.u32", x, "%ctaid.x")
		p.do("mov.u32", y, "%ctaid.y")
		p.do("mov.u32", to, "%nctaid.x")
		p.do("mad.lo.u32", to, y, to, x)
	case ir.MulHigh:
		p.do("mul.hi.u32", to, args[0], args[1])
	case ir.Load:
		p.load(v, i, args[0])
	case ir.Part: // the Load has named its words
		p.names[v] = p.words[i.Args[0]][i.Imm]
	case ir.Store:
		suffix, words := access(i.D, args[1:])
		p.do("st.global"+suffix, "["+args[0]+"]", words)
	case ir.Var, ir.Get:
		p.do("mov."+kind(i.D, true), to, args[0])
	case ir.Set:
		p.do("mov."+kind(p.Type(i.Args[1]), true), args[0], args[1])
	case ir.Barrier:
		p.do("bar.sync", "0")
	case ir.LoadShared, ir.StoreShared:
		d := p.Shared[i.Imm].D
		if d == tensor.Bool {
			return fmt.Errorf("an array of bools has no instruction")
		}
		at := p.register(tensor.Uint64)
		p.element(at, fmt.Sprintf("s%d", i.Imm), args[0], d.Size())
		if i.Op == ir.LoadShared {
			p.do("ld.shared."+kind(d, true), to, "["+at+"]")
		} else {
			p.do("st.shared."+kind(d, true), "["+at+"]", args[1])
		}
	default:
		p.control(int(v), i.Op, args)
	}
	return nil
}

// access returns the suffix of an access to words, and their operand.
func access(d tensor.DType, words []string) (suffix, operand string) {
	if len(words) == 1 {
		return "." + kind(d, false), words[0]
	}
	return fmt.Sprintf(".v%d.%s", len(words), kind(d, false)), "{" + strings.Join(words, ", ") + "}"
}

func (p *printer) load(v ir.Value, i *ir.Inst, address string) {
	words := []string{p.names[v]}
	for range i.Imm - 1 {
		words = append(words, p.register(ir.Register(i.D)))
	}
	p.words[v] = words
	suffix, operand := access(i.D, words)
	p.do("ld.global"+suffix, operand, "["+address+"]")
}

// control adds an instruction of control flow.
func (p *printer) control(v int, op ir.Op, args []string) {
	label := func(name string, number int) { fmt.Fprintf(&p.body, "$%s%d:\n", name, number) }
	last := len(p.open) - 1
	switch op {
	case ir.Loop:
		p.open = append(p.open, block{number: v, isLoop: true})
		label("loop", v)
	case ir.Break:
		p.do("@"+args[0]+" bra", fmt.Sprintf("$end%d", p.open[last].number))
	case ir.If:
		p.open = append(p.open, block{number: v})
		p.do("@!"+args[0]+" bra", fmt.Sprintf("$else%d", v))
	case ir.Else:
		p.open[last].hasElse = true
		p.do("bra", fmt.Sprintf("$end%d", p.open[last].number))
		label("else", p.open[last].number)
	case ir.End:
		b := p.open[last]
		p.open = p.open[:last]
		if b.isLoop {
			p.do("bra", fmt.Sprintf("$loop%d", b.number))
		} else if !b.hasElse {
			label("else", b.number)
		}
		label("end", b.number)
	}
}
