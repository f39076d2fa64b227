package asm

import "math/bits"

// generalRows are instructions for general registers, and branches.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
var generalRows = []row{
	{"add", addImmediate, 0x11000000, 0}, {"sub", addImmediate, 0x51000000, 0},
	{"adds", addImmediate, 0x31000000, 0}, {"subs", addImmediate, 0x71000000, 0},
	{"cmp", compareImmediate, 0x7100001F, 0}, {"cmn", compareImmediate, 0x3100001F, 0},
	{"add", registers3, 0x0B000000, 0}, {"sub", registers3, 0x4B000000, 0},
	{"adds", registers3, 0x2B000000, 0}, {"subs", registers3, 0x6B000000, 0},
	{"and", registers3, 0x0A000000, 0}, {"bic", registers3, 0x0A200000, 0},
	{"orr", registers3, 0x2A000000, 0}, {"orn", registers3, 0x2A200000, 0},
	{"eor", registers3, 0x4A000000, 0}, {"ands", registers3, 0x6A000000, 0},
	{"cmp", registers2, 0x6B00001F, 0}, {"tst", registers2, 0x6A00001F, 0},
	{"and", maskImmediate, 0x12000000, 0}, {"orr", maskImmediate, 0x32000000, 0},
	{"eor", maskImmediate, 0x52000000, 0},
	{"tst", testImmediate, 0x7200001F, 0},
	{"mov", moveRegister, 0x2A0003E0, 0},
	{"mvn", moveRegister, 0x2A2003E0, 0},
	{"neg", moveRegister, 0x4B0003E0, 0},
	{"movz", moveImmediate, 0x52800000, 0},
	{"movk", moveImmediate, 0x72800000, 0},
	{"movn", moveImmediate, 0x12800000, 0},
	{"mul", registers3Plain, 0x1B007C00, 0}, {"udiv", registers3Plain, 0x1AC00800, 0},
	{"sdiv", registers3Plain, 0x1AC00C00, 0},
	{"lsl", registers3Plain, 0x1AC02000, 0}, {"lsr", registers3Plain, 0x1AC02400, 0},
	{"asr", registers3Plain, 0x1AC02800, 0},
	{"umulh", highProduct, 0x9BC07C00, 0}, {"smulh", highProduct, 0x9B407C00, 0},
	{"madd", product4, 0x1B000000, 0}, {"msub", product4, 0x1B008000, 0},
	{"lsl", shiftImmediateLeft, 0x53000000, 0},
	{"lsr", shiftImmediateRight, 0x53000000, 0},
	{"asr", shiftImmediateRight, 0x13000000, 0},
	{"csel", choose, 0x1A800000, 0}, {"csinc", choose, 0x1A800400, 0},
	{"adr", addressOf, 0x10000000, 0},
	{"b", jump, 0x14000000, 0},
	{"b.eq", jump, 0x54000000, 0}, {"b.ne", jump, 0x54000001, 0}, {"b.hs", jump, 0x54000002, 0},
	{"b.lo", jump, 0x54000003, 0}, {"b.mi", jump, 0x54000004, 0}, {"b.pl", jump, 0x54000005, 0},
	{"b.hi", jump, 0x54000008, 0}, {"b.ls", jump, 0x54000009, 0}, {"b.ge", jump, 0x5400000A, 0},
	{"b.lt", jump, 0x5400000B, 0}, {"b.gt", jump, 0x5400000C, 0}, {"b.le", jump, 0x5400000D, 0},
	{"cbz", jumpZero, 0x34000000, 0}, {"cbnz", jumpZero, 0x35000000, 0},
	{"tbz", jumpBit, 0x36000000, 0}, {"tbnz", jumpBit, 0x37000000, 0},
	{"ret", plain, 0xD65F03C0, 0}, {"nop", plain, 0xD503201F, 0},
}

// plain encodes instructions without operands.
func plain(_ *Assembler, r *row, args []Arg) (uint32, bool) { return r.code, len(args) == 0 }

// immediate12 returns the fields of an unsigned constant of 12 bits, or of such a constant times 4096.
func immediate12(arg Arg) (uint32, bool) {
	n, ok := arg.(Imm)
	switch {
	case !ok || n < 0:
		return 0, false
	case n < 1<<12:
		return uint32(n) << 10, true
	case n&0xFFF == 0 && n < 1<<24:
		return uint32(n>>12)<<10 | 1<<22, true
	}
	return 0, false
}

// addImmediate encodes sf op S 100010 sh imm12 Rn Rd. Register number 31 is SP; as the result of an instruction that
// sets flags it is the zero register.
func addImmediate(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	g, sf, ok := registers(args[:2], 2)
	n, okImm := immediate12(args[2])
	return r.code | sf | n | g[1]<<5 | g[0], ok && okImm
}

// compareImmediate encodes a subtraction or an addition that sets the flags and discards its result.
func compareImmediate(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	g, sf, ok := registers(args[:1], 1)
	n, okImm := immediate12(args[1])
	return r.code | sf | n | g[0]<<5, ok && okImm
}

// registers3 encodes sf op 01011 shift 0 Rm imm6 Rn Rd. A fourth operand shifts the third.
func registers3(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	shift := Shift(0)
	if len(args) == 4 {
		s, ok := args[3].(Shift)
		if !ok {
			return 0, false
		}
		shift, args = s, args[:3]
	}
	g, sf, ok := registers(args, 3)
	return r.code | sf | g[2]<<16 | uint32(shift)<<10 | g[1]<<5 | g[0], ok && shift >= 0 && shift < 32<<(sf>>31)
}

// registers2 encodes comparisons of registers.
func registers2(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	g, sf, ok := registers(args, 2)
	return r.code | sf | g[1]<<16 | g[0]<<5, ok
}

// maskField returns the fields N, immr and imms of a mask. A mask repeats an element of 2, 4, ..., 64 bits; the
// element is a run of ones, rotated.
func maskField(n uint64, width int) (uint32, bool) {
	if width == 32 {
		if n>>32 != 0 {
			return 0, false
		}
		n |= n << 32
	}
	if n == 0 || n == 1<<64-1 {
		return 0, false
	}
	size := 64
	for size > 2 && n == bits.RotateLeft64(n, size/2) {
		size /= 2
	}
	mask := ^uint64(0) >> (64 - size)
	for rotation := range size {
		e := n & mask
		e = (e<<rotation | e>>(size-rotation)) & mask // rotated left
		if ones := bits.TrailingZeros64(^e); e == 1<<ones-1 && ones > 0 && ones < size {
			imms := uint32(ones-1) | uint32(^(2*size-1))&0x3F
			field := uint32(rotation)<<16 | imms<<10
			if size == 64 {
				field |= 1 << 22
			}
			return field, true
		}
	}
	return 0, false
}

// maskImmediate encodes bitwise operations with a mask: sf opc 100100 N immr imms Rn Rd.
func maskImmediate(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	g, sf, ok := registers(args[:2], 2)
	n, isImm := args[2].(Imm)
	field, okMask := maskField(uint64(n), 32<<(sf>>31))
	return r.code | sf | field | g[1]<<5 | g[0], ok && isImm && okMask
}

// testImmediate encodes the comparison of a register's bits with zero.
func testImmediate(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	g, sf, ok := registers(args[:1], 1)
	n, isImm := args[1].(Imm)
	field, okMask := maskField(uint64(n), 32<<(sf>>31))
	return r.code | sf | field | g[0]<<5, ok && isImm && okMask
}

// moveRegister encodes operations with the zero register as first operand.
func moveRegister(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	g, sf, ok := registers(args, 2)
	return r.code | sf | g[1]<<16 | g[0], ok
}

// moveImmediate encodes sf opc 100101 hw imm16 Rd. The shift is a multiple of 16.
func moveImmediate(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	shift := Shift(0)
	if len(args) == 3 {
		s, ok := args[2].(Shift)
		if !ok {
			return 0, false
		}
		shift, args = s, args[:2]
	}
	if len(args) != 2 {
		return 0, false
	}
	g, sf, ok := registers(args[:1], 1)
	n, isImm := args[1].(Imm)
	return r.code | sf | uint32(shift/16)<<21 | uint32(n)<<5 | g[0],
		ok && isImm && n == Imm(uint16(n)) && shift >= 0 && shift%16 == 0 && shift < 32<<(sf>>31)
}

// registers3Plain encodes operations on three registers without a shift.
func registers3Plain(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	g, sf, ok := registers(args, 3)
	return r.code | sf | g[2]<<16 | g[1]<<5 | g[0], ok
}

// highProduct encodes the upper 64 bits of products.
func highProduct(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	g, sf, ok := registers(args, 3)
	return r.code | g[2]<<16 | g[1]<<5 | g[0], ok && sf != 0
}

// product4 encodes sums and differences of the last operand and a product.
func product4(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	g, sf, ok := registers(args, 4)
	return r.code | sf | g[2]<<16 | g[3]<<10 | g[1]<<5 | g[0], ok
}

// shiftOperands returns the fields of a shift by a constant, its distance and the width of the registers.
func shiftOperands(args []Arg) (field uint32, distance, width int, ok bool) {
	if len(args) != 3 {
		return 0, 0, 0, false
	}
	g, sf, ok := registers(args[:2], 2)
	n, isImm := args[2].(Imm)
	width = 32 << (sf >> 31)
	return sf | sf>>9 | g[1]<<5 | g[0], int(n), width, ok && isImm && n >= 0 && int(n) < width
}

// shiftImmediateLeft encodes a bit-field move: sf 10 100110 N immr imms Rn Rd.
func shiftImmediateLeft(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	field, n, width, ok := shiftOperands(args)
	return r.code | field | uint32(-n&(width-1))<<16 | uint32(width-1-n)<<10, ok
}

// shiftImmediateRight encodes a bit-field move that ends at the highest bit.
func shiftImmediateRight(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	field, n, width, ok := shiftOperands(args)
	return r.code | field | uint32(n)<<16 | uint32(width-1)<<10, ok
}

// choose encodes sf 0011010100 Rm cond op Rn Rd.
func choose(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 4 {
		return 0, false
	}
	g, sf, ok := registers(args[:3], 3)
	c, isCond := args[3].(Cond)
	return r.code | sf | g[2]<<16 | uint32(c)<<12 | g[1]<<5 | g[0], ok && isCond
}

// addressOf encodes the address of a constant of the code.
func addressOf(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	g, sf, ok := registers(args[:1], 1)
	p, isPool := args[1].(Pool)
	if !ok || !isPool || sf == 0 {
		return 0, false
	}
	a.constantRefs = append(a.constantRefs, constantRef{len(a.code), p.offset})
	return r.code | g[0], true
}

// recordBranch records a branch to a label.
func (a *Assembler) recordBranch(arg Arg) bool {
	l, ok := arg.(Label)
	if !ok || l < 0 || int(l) >= len(a.labels) {
		return false
	}
	a.branches = append(a.branches, branch{len(a.code), l})
	return true
}

// jump encodes 000101 imm26, and with a condition 01010100 imm19 0 cond.
func jump(a *Assembler, r *row, args []Arg) (uint32, bool) {
	return r.code, len(args) == 1 && a.recordBranch(args[0])
}

// jumpZero encodes sf 011010 op imm19 Rt.
func jumpZero(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	g, sf, ok := registers(args[:1], 1)
	return r.code | sf | g[0], ok && a.recordBranch(args[1])
}

// jumpBit encodes b5 011011 op b40 imm14 Rt. The second operand is the number of the bit.
func jumpBit(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	g, sf, ok := registers(args[:1], 1)
	n, isImm := args[1].(Imm)
	if !ok || !isImm || n < 0 || int(n) >= 32<<(sf>>31) {
		return 0, false
	}
	return r.code | uint32(n>>5)<<31 | uint32(n&31)<<19 | g[0], a.recordBranch(args[2])
}
