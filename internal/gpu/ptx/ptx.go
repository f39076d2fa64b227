// Package ptx translates kernels (package internal/gpu/ir) to PTX, the virtual instruction set of NVIDIA's GPUs.
//
// The entry point is main. Its parameters are the parameters of the kernel, which are addresses. A launch has a grid of
// two dimensions. The index of a group (a thread block) is y*(number of groups in x) + x. The grid may have more groups
// than the kernel needs. The code must have no effect in the surplus groups. Kernels of package lower satisfy this
// condition. Arithmetic on floats rounds to nearest even and keeps subnormal numbers. A conversion to an integer rounds
// towards 0.
//
// Each value of a kernel has a register. For example, the float32 sum v2 = Add v0, v1 becomes
//
//	add.rn.f32 %f2, %f0, %f1;
package ptx

import (
	"fmt"
	"math"
	"strings"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Module returns the PTX text of a kernel for a target, such as sm_80.
func Module(kernel *ir.Kernel, target string) (string, error) {
	if err := kernel.Check(); err != nil {
		return "", err
	}
	p := &printer{Kernel: kernel, tables: map[[32]float32]string{}, loadedWords: map[ir.Value][]string{}}
	for index := range kernel.Insts {
		if err := p.emitInst(ir.Value(index), &kernel.Insts[index]); err != nil {
			return "", fmt.Errorf("ptx: v%d: %w", index, err)
		}
	}
	return p.header(target) + p.declarations() + p.body.String() + "\tret;\n}\n", nil
}

// header returns the text up to the start of the body of main: the target, the tables, and the parameters of main.
func (p *printer) header(target string) string {
	var text strings.Builder
	fmt.Fprintf(&text, ".version 7.0\n.target %s\n.address_size 64\n\n%s.visible .entry main(", target,
		&p.constants)
	for param := range p.Params {
		if param > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, ".param .u64 p%d", param)
	}
	fmt.Fprintf(&text, ")\n.maxntid %d, 1, 1\n{\n", p.GroupSize)
	return text.String()
}

// declarations returns the declarations of the registers and of the memory of a group.
func (p *printer) declarations() string {
	var text strings.Builder
	for class, name := range []string{"pred", "b32", "b64", "f32", "f64"} {
		if count := p.registers[class]; count > 0 {
			fmt.Fprintf(&text, "\t.reg .%s %%%s<%d>;\n", name, registerPrefixes[class], count)
		}
	}
	for index, array := range p.Shared {
		fmt.Fprintf(&text, "\t.shared .align 8 .b8 s%d[%d];\n", index, array.Length*array.DType.Size())
	}
	return text.String()
}

// These are the classes of registers, by their types in PTX.
const (
	predicates = iota
	words32
	words64
	floats32
	floats64
)

// registerPrefixes has the letters before the number in a register's name, indexed by class.
var registerPrefixes = [...]string{"p", "r", "rd", "f", "fd"}

// printer prints one kernel.
type printer struct {
	*ir.Kernel
	constants, body strings.Builder        // text: the declarations of tables, and the instructions of main
	registers       [5]int                 // indexed by class: the number of registers so far
	registerOf      []string               // indexed by value: the register that holds the value
	loadedWords     map[ir.Value][]string  // for each Load: the registers of its words
	tables          map[[32]float32]string // the name of each table
	open            []block                // the open blocks, the outermost first
}

// block is an open Loop or If.
type block struct {
	number          int  // the index of the instruction that began the block, for the names of labels
	isLoop, hasElse bool // hasElse is set once the Else of an If has been printed
}

// classOf returns the class of the registers for a dtype.
func classOf(dtype tensor.DType) int {
	switch {
	case dtype == tensor.Bool:
		return predicates
	case dtype == tensor.Float32:
		return floats32
	case dtype == tensor.Float64:
		return floats64
	case dtype.Size() == 8:
		return words64
	}
	return words32
}

// register returns the name of a new register for a dtype.
func (p *printer) register(dtype tensor.DType) string {
	class := classOf(dtype)
	p.registers[class]++
	return fmt.Sprintf("%%%s%d", registerPrefixes[class], p.registers[class]-1)
}

// emit adds an instruction.
func (p *printer) emit(opcode string, operands ...string) {
	fmt.Fprintf(&p.body, "\t%s %s;\n", opcode, strings.Join(operands, ", "))
}

// typeSuffix returns the suffix of an opcode for a dtype: pred for bool, otherwise f (float), s (signed) or u
// (unsigned), followed by the number of bits.
func typeSuffix(dtype tensor.DType) string {
	letter := "u"
	switch {
	case dtype == tensor.Bool:
		return "pred"
	case dtype.IsFloat():
		letter = "f"
	case dtype.IsSigned():
		letter = "s"
	}
	return fmt.Sprint(letter, 8*dtype.Size())
}

// bitsSuffix returns the suffix of an opcode that ignores the sign of integers, such as mov. It is b and the number of
// bits for integers, and typeSuffix for other dtypes.
func bitsSuffix(dtype tensor.DType) string {
	if dtype == tensor.Bool || dtype.IsFloat() {
		return typeSuffix(dtype)
	}
	return fmt.Sprint("b", 8*dtype.Size())
}

// opcodes has the opcodes of each operation without their type suffix: on integers (column 0), floats (1) and
// bools (2). "" means that there is no instruction.
var opcodes = map[lane.Op][3]string{
	lane.Add: {"add", "add.rn"}, lane.Sub: {"sub", "sub.rn"}, lane.Mul: {"mul.lo", "mul.rn"},
	lane.Div: {"div", "div.rn"}, lane.FMA: {1: "fma.rn"}, lane.Sqrt: {1: "sqrt.rn"},
	lane.Floor: {1: "cvt.rmi"}, lane.Ceil: {1: "cvt.rpi"}, lane.Trunc: {1: "cvt.rzi"}, lane.Rint: {1: "cvt.rni"},
	lane.And: {"and", "", "and"}, lane.Or: {"or", "", "or"}, lane.Xor: {"xor", "", "xor"},
	lane.Not: {"not", "", "not"},
	lane.Shl: {"shl"}, lane.Shr: {"shr"}, lane.Eq: {"setp.eq", "setp.eq"}, lane.Ne: {"setp.ne", "setp.neu"},
	lane.Lt: {"setp.lt", "setp.lt"}, lane.Le: {"setp.le", "setp.le"}, lane.Select: {"selp", "selp"},
}

// emitLaneOp adds an operation of package lane. result and args are registers.
func (p *printer) emitLaneOp(inst *ir.Inst, result string, args []string) error {
	// operandDType is the dtype of the last operand. It is the type of the operation, because a comparison has a bool
	// result, and a Select has a bool as first operand.
	op, operandDType := lane.Op(inst.Op), inst.DType
	if uses := inst.Operands(); len(uses) > 0 {
		operandDType = p.Type(uses[len(uses)-1])
	}
	switch op {
	case lane.Const:
		p.emit("mov."+bitsSuffix(inst.DType), result, constant(inst.DType, inst.Imm))
		return nil
	case lane.Bits:
		p.emit(fmt.Sprintf("mov.b%d", 8*inst.DType.Size()), result, args[0])
		return nil
	case lane.Convert:
		p.emit(conversion(inst.DType, operandDType), result, args[0])
		return nil
	case lane.Lookup:
		p.emitLookup(inst.Table, result, args[0])
		return nil
	}
	opcode := opcodes[op][opcodeColumn(operandDType)]
	if opcode == "" {
		return fmt.Errorf("%v of %v has no instruction", op, operandDType)
	}
	suffix := "." + typeSuffix(operandDType)
	isBitwise := lane.And <= op && op <= lane.Not // And, Or, Xor and Not
	if isBitwise || op == lane.Shl || op == lane.Select {
		suffix = "." + bitsSuffix(operandDType)
	}
	switch {
	case op.Rounds(): // the conversion cvt, which names both types
		suffix += suffix
	case op == lane.Select:
		args = []string{args[1], args[2], args[0]}
	case op == lane.Shl, op == lane.Shr: // in PTX, the count has 32 bits
		if operandDType.Size() == 8 {
			count := p.register(tensor.Uint32)
			p.emit("cvt.u32.u64", count, args[1])
			args[1] = count
		}
	}
	p.emit(opcode+suffix, append([]string{result}, args...)...)
	return nil
}

// opcodeColumn returns the column of opcodes for a dtype.
func opcodeColumn(dtype tensor.DType) int {
	switch {
	case dtype.IsFloat():
		return 1
	case dtype == tensor.Bool:
		return 2
	}
	return 0
}

// constant returns the literal of a constant with the given bits.
func constant(dtype tensor.DType, bits uint64) string {
	switch dtype {
	case tensor.Float32:
		return fmt.Sprintf("0f%08X", bits)
	case tensor.Float64:
		return fmt.Sprintf("0d%016X", bits)
	case tensor.Bool:
		return fmt.Sprint(bits)
	}
	return fmt.Sprintf("%#x", bits)
}

// conversion returns the opcode of a conversion, with its rounding.
func conversion(to, from tensor.DType) string {
	rounding := ""
	switch {
	case from.IsFloat() && !to.IsFloat():
		rounding = ".rzi"
	case to == tensor.Float32 || to.IsFloat() && !from.IsFloat():
		rounding = ".rn"
	}
	return fmt.Sprintf("cvt%s.%s.%s", rounding, typeSuffix(to), typeSuffix(from))
}

// emitLookup adds the load of an entry of a table in constant memory into register result. The low 5 bits of register
// operand are the index. The first lookup in a table declares the table.
func (p *printer) emitLookup(table *[32]float32, result, operand string) {
	name, ok := p.tables[*table]
	if !ok {
		name = fmt.Sprintf("t%d", len(p.tables))
		p.tables[*table] = name
		var entries []string
		for _, value := range table {
			entries = append(entries, fmt.Sprintf("%#x", math.Float32bits(value)))
		}
		fmt.Fprintf(&p.constants, ".const .align 4 .b32 %s[32] = {%s};\n\n", name, strings.Join(entries, ", "))
	}
	index, address := p.register(tensor.Uint32), p.register(tensor.Uint64)
	p.emit("mov.b32", index, operand)
	p.emit("and.b32", index, index, "31")
	const entryBytes = 4
	p.emitElementAddress(address, name, index, entryBytes)
	p.emit("ld.const.f32", result, "["+address+"]")
}

// emitElementAddress adds instructions that compute array + index*size into register address. array is the name of an
// array, index is a register, and size is the number of bytes of an element.
func (p *printer) emitElementAddress(address, array, index string, size int) {
	base := p.register(tensor.Uint64)
	p.emit("mov.u64", base, array)
	p.emit("mul.wide.u32", address, index, fmt.Sprint(size))
	p.emit("add.s64", address, address, base)
}
