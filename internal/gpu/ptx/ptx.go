// Package ptx prints kernels as PTX, the virtual instruction set of NVIDIA's GPUs.
//
// The entry point is main. Its parameters are the addresses of the kernel. A launch has a grid of two dimensions: the
// index of a group is y*(number of groups in x) + x, and indices that exceed the number of groups of the kernel must
// have no effect, as in kernels of package lower. All operations on floats round to nearest even and keep subnormal
// numbers.
package ptx

import (
	"fmt"
	"math"
	"strings"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Module returns the module of a kernel for a target, such as sm_80.
func Module(k *ir.Kernel, target string) (string, error) {
	if err := k.Check(); err != nil {
		return "", err
	}
	p := &printer{Kernel: k, tables: map[[32]float32]string{}, words: map[ir.Value][]string{}}
	for v := range k.Insts {
		if err := p.inst(ir.Value(v), &k.Insts[v]); err != nil {
			return "", fmt.Errorf("ptx: v%d: %w", v, err)
		}
	}
	var s strings.Builder
	fmt.Fprintf(&s, ".version 7.0\n.target %s\n.address_size 64\n\n%s.visible .entry main(", target, &p.constants)
	for n := range k.Params {
		if n > 0 {
			s.WriteString(", ")
		}
		fmt.Fprintf(&s, ".param .u64 p%d", n)
	}
	fmt.Fprintf(&s, ")\n.maxntid %d, 1, 1\n{\n", k.GroupSize)
	for c, name := range []string{"pred", "b32", "b64", "f32", "f64"} {
		if n := p.registers[c]; n > 0 {
			fmt.Fprintf(&s, "\t.reg .%s %%%s<%d>;\n", name, prefixes[c], n)
		}
	}
	for n, a := range k.Shared {
		fmt.Fprintf(&s, "\t.shared .align 8 .b8 s%d[%d];\n", n, a.N*a.D.Size())
	}
	return s.String() + p.body.String() + "\tret;\n}\n", nil
}

// Classes of registers.
const (
	predicates = iota
	words32
	words64
	floats32
	floats64
)

var prefixes = [...]string{"p", "r", "rd", "f", "fd"}

type printer struct {
	*ir.Kernel
	constants, body strings.Builder
	registers       [5]int                // by class: the number of registers
	names           []string              // by value
	words           map[ir.Value][]string // by Load
	tables          map[[32]float32]string
	open            []block
}

// block is an open Loop or If.
type block struct {
	number          int
	isLoop, hasElse bool
}

func classOf(d tensor.DType) int {
	switch {
	case d == tensor.Bool:
		return predicates
	case d == tensor.Float32:
		return floats32
	case d == tensor.Float64:
		return floats64
	case d.Size() == 8:
		return words64
	}
	return words32
}

// register returns a new register for a dtype.
func (p *printer) register(d tensor.DType) string {
	c := classOf(d)
	p.registers[c]++
	return fmt.Sprintf("%%%s%d", prefixes[c], p.registers[c]-1)
}

// do adds an instruction.
func (p *printer) do(opcode string, operands ...string) {
	fmt.Fprintf(&p.body, "\t%s %s;\n", opcode, strings.Join(operands, ", "))
}

// kind returns the type suffix of a dtype: b for bits, or s, u and f for numbers.
func kind(d tensor.DType, bits bool) string {
	switch {
	case d == tensor.Bool:
		return "pred"
	case d.IsFloat():
		return fmt.Sprintf("f%d", 8*d.Size())
	case bits:
		return fmt.Sprintf("b%d", 8*d.Size())
	case d.IsSigned():
		return fmt.Sprintf("s%d", 8*d.Size())
	}
	return fmt.Sprintf("u%d", 8*d.Size())
}

// forms are the opcodes of operations on integers, floats and bools, without their type suffix.
var forms = map[lane.Op][3]string{
	lane.Add: {"add", "add.rn"}, lane.Sub: {"sub", "sub.rn"}, lane.Mul: {"mul.lo", "mul.rn"},
	lane.Div: {"div", "div.rn"}, lane.FMA: {1: "fma.rn"}, lane.Sqrt: {1: "sqrt.rn"},
	lane.Floor: {1: "cvt.rmi"}, lane.Ceil: {1: "cvt.rpi"}, lane.Trunc: {1: "cvt.rzi"}, lane.Rint: {1: "cvt.rni"},
	lane.And: {"and", "", "and"}, lane.Or: {"or", "", "or"}, lane.Xor: {"xor", "", "xor"}, lane.Not: {"not", "", "not"},
	lane.Shl: {"shl"}, lane.Shr: {"shr"}, lane.Eq: {"setp.eq", "setp.eq"}, lane.Ne: {"setp.ne", "setp.neu"},
	lane.Lt: {"setp.lt", "setp.lt"}, lane.Le: {"setp.le", "setp.le"}, lane.Select: {"selp", "selp"},
}

// scalar adds an operation of package lane.
func (p *printer) scalar(i *ir.Inst, to string, args []string) error {
	op, from := lane.Op(i.Op), i.D
	if uses := i.Uses(); len(uses) > 0 {
		from = p.Type(uses[len(uses)-1])
	}
	switch op {
	case lane.Const:
		p.do("mov."+kind(i.D, true), to, constant(i.D, i.Imm))
		return nil
	case lane.Bits:
		p.do(fmt.Sprintf("mov.b%d", 8*i.D.Size()), to, args[0])
		return nil
	case lane.Convert:
		p.do(conversion(i.D, from), to, args[0])
		return nil
	case lane.Lookup:
		p.lookup(i.Table, to, args[0])
		return nil
	}
	n := 0
	if from.IsFloat() {
		n = 1
	} else if from == tensor.Bool {
		n = 2
	}
	opcode := forms[op][n]
	if opcode == "" {
		return fmt.Errorf("%v of %v has no instruction", op, from)
	}
	suffix := "." + kind(from, op != lane.Shr && (op == lane.Shl || op == lane.Select || lane.And <= op && op <= lane.Not))
	switch {
	case op.Rounds():
		suffix += suffix
	case op == lane.Select:
		args = []string{args[1], args[2], args[0]}
	case op == lane.Shl, op == lane.Shr: // by a number of 32 bits
		if from.Size() == 8 {
			count := p.register(tensor.Uint32)
			p.do("cvt.u32.u64", count, args[1])
			args[1] = count
		}
	}
	p.do(opcode+suffix, append([]string{to}, args...)...)
	return nil
}

func constant(d tensor.DType, bits uint64) string {
	switch d {
	case tensor.Float32:
		return fmt.Sprintf("0f%08X", bits)
	case tensor.Float64:
		return fmt.Sprintf("0d%016X", bits)
	case tensor.Bool:
		return fmt.Sprint(bits)
	}
	return fmt.Sprintf("%#x", bits)
}

func conversion(to, from tensor.DType) string {
	rounding := ""
	switch {
	case from.IsFloat() && !to.IsFloat():
		rounding = ".rzi"
	case to == tensor.Float32 || to.IsFloat() && !from.IsFloat():
		rounding = ".rn"
	}
	return fmt.Sprintf("cvt%s.%s.%s", rounding, kind(to, false), kind(from, false))
}

// lookup reads an entry of a table in constant memory.
func (p *printer) lookup(table *[32]float32, to, x string) {
	name, ok := p.tables[*table]
	if !ok {
		name = fmt.Sprintf("t%d", len(p.tables))
		p.tables[*table] = name
		var entries []string
		for _, e := range table {
			entries = append(entries, fmt.Sprintf("%#x", math.Float32bits(e)))
		}
		fmt.Fprintf(&p.constants, ".const .align 4 .b32 %s[32] = {%s};\n\n", name, strings.Join(entries, ", "))
	}
	index, offset := p.register(tensor.Uint32), p.register(tensor.Uint64)
	p.do("mov.b32", index, x)
	p.do("and.b32", index, index, "31")
	p.element(offset, name, index, 4)
	p.do("ld.const.f32", to, "["+offset+"]")
}

// element sets offset to the address of an element of an array.
func (p *printer) element(offset, array, index string, size int) {
	base := p.register(tensor.Uint64)
	p.do("mov.u64", base, array)
	p.do("mul.wide.u32", offset, index, fmt.Sprint(size))
	p.do("add.s64", offset, offset, base)
}
