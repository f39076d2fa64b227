package asm

import "math/bits"

// generalRows are instructions for general registers, and branches.
//
// The columns are mnemonic, encoder, opcode and element sizes (0, as there are no vectors): see [row]. The rows of a
// mnemonic are tried in this order, until an encoder accepts the operands. Comments on encoders quote the layout of the
// instruction in Arm's manual.
//
// For example, add x0, x1, #16 is 91004020: the opcode 11000000, bit 31 (sf) for 64 bits, 16 in imm12, and the
// registers 1 (Rn) and 0 (Rd). The function registers returns sf (widthBit) and the numbers of the registers (regs).
var generalRows = []row{
	{"add", encodeAddImmediate, 0x11000000, 0}, {"sub", encodeAddImmediate, 0x51000000, 0},
	{"adds", encodeAddImmediate, 0x31000000, 0}, {"subs", encodeAddImmediate, 0x71000000, 0},
	{"cmp", encodeCompareImmediate, 0x7100001F, 0}, {"cmn", encodeCompareImmediate, 0x3100001F, 0},
	{"add", encodeRegisters3, 0x0B000000, 0}, {"sub", encodeRegisters3, 0x4B000000, 0},
	{"adds", encodeRegisters3, 0x2B000000, 0}, {"subs", encodeRegisters3, 0x6B000000, 0},
	{"and", encodeRegisters3, 0x0A000000, 0}, {"bic", encodeRegisters3, 0x0A200000, 0},
	{"orr", encodeRegisters3, 0x2A000000, 0}, {"orn", encodeRegisters3, 0x2A200000, 0},
	{"eor", encodeRegisters3, 0x4A000000, 0}, {"ands", encodeRegisters3, 0x6A000000, 0},
	{"cmp", encodeRegisters2, 0x6B00001F, 0}, {"tst", encodeRegisters2, 0x6A00001F, 0},
	{"and", encodeMaskImmediate, 0x12000000, 0}, {"orr", encodeMaskImmediate, 0x32000000, 0},
	{"eor", encodeMaskImmediate, 0x52000000, 0},
	{"tst", encodeTestImmediate, 0x7200001F, 0},
	{"mov", encodeMoveRegister, 0x2A0003E0, 0},
	{"mvn", encodeMoveRegister, 0x2A2003E0, 0},
	{"neg", encodeMoveRegister, 0x4B0003E0, 0},
	{"movz", encodeMoveImmediate, 0x52800000, 0},
	{"movk", encodeMoveImmediate, 0x72800000, 0},
	{"movn", encodeMoveImmediate, 0x12800000, 0},
	{"mul", encodeRegisters3Plain, 0x1B007C00, 0}, {"udiv", encodeRegisters3Plain, 0x1AC00800, 0},
	{"sdiv", encodeRegisters3Plain, 0x1AC00C00, 0},
	{"lsl", encodeRegisters3Plain, 0x1AC02000, 0}, {"lsr", encodeRegisters3Plain, 0x1AC02400, 0},
	{"asr", encodeRegisters3Plain, 0x1AC02800, 0},
	{"umulh", encodeHighProduct, 0x9BC07C00, 0}, {"smulh", encodeHighProduct, 0x9B407C00, 0},
	{"madd", encodeProduct4, 0x1B000000, 0}, {"msub", encodeProduct4, 0x1B008000, 0},
	{"lsl", encodeShiftImmediateLeft, 0x53000000, 0},
	{"lsr", encodeShiftImmediateRight, 0x53000000, 0},
	{"asr", encodeShiftImmediateRight, 0x13000000, 0},
	{"csel", encodeConditional, 0x1A800000, 0}, {"csinc", encodeConditional, 0x1A800400, 0},
	{"adr", encodeAddressOf, 0x10000000, 0},
	{"b", encodeJump, 0x14000000, 0},
	{"b.eq", encodeJump, 0x54000000, 0}, {"b.ne", encodeJump, 0x54000001, 0}, {"b.hs", encodeJump, 0x54000002, 0},
	{"b.lo", encodeJump, 0x54000003, 0}, {"b.mi", encodeJump, 0x54000004, 0}, {"b.pl", encodeJump, 0x54000005, 0},
	{"b.hi", encodeJump, 0x54000008, 0}, {"b.ls", encodeJump, 0x54000009, 0}, {"b.ge", encodeJump, 0x5400000A, 0},
	{"b.lt", encodeJump, 0x5400000B, 0}, {"b.gt", encodeJump, 0x5400000C, 0}, {"b.le", encodeJump, 0x5400000D, 0},
	{"cbz", encodeJumpZero, 0x34000000, 0}, {"cbnz", encodeJumpZero, 0x35000000, 0},
	{"tbz", encodeJumpBit, 0x36000000, 0}, {"tbnz", encodeJumpBit, 0x37000000, 0},
	{"ret", encodePlain, 0xD65F03C0, 0}, {"nop", encodePlain, 0xD503201F, 0},
}

// bitsOf returns the width of the registers with the given field sf: 32, or 64 if widthBit, bit 31, is set.
func bitsOf(widthBit uint32) int { return 32 << (widthBit >> 31) }

// encodePlain encodes instructions without operands.
func encodePlain(_ *Assembler, r *row, args []Arg) (uint32, bool) { return r.code, len(args) == 0 }

// immediate12Field returns the fields of an unsigned constant: a number of 12 bits, or a number of 12 bits times 4096.
func immediate12Field(arg Arg) (uint32, bool) {
	imm, ok := arg.(Imm)
	switch {
	case !ok || imm < 0:
		return 0, false
	case imm < 1<<12:
		return uint32(imm) << 10, true
	case imm&0xFFF == 0 && imm < 1<<24:
		return uint32(imm>>12)<<10 | 1<<22, true
	}
	return 0, false
}

// encodeAddImmediate encodes sf op S 100010 sh imm12 Rn Rd. Register number 31 is SP, except as Rd of an instruction
// that sets flags (adds, subs), where it is the zero register.
func encodeAddImmediate(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	regs, widthBit, ok := registers(args[:2], 2)
	field, okImm := immediate12Field(args[2])
	return r.code | widthBit | field | regs[1]<<5 | regs[0], ok && okImm
}

// encodeCompareImmediate encodes a subtraction or an addition that sets the flags and discards its result.
func encodeCompareImmediate(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	regs, widthBit, ok := registers(args[:1], 1)
	field, okImm := immediate12Field(args[1])
	return r.code | widthBit | field | regs[0]<<5, ok && okImm
}

// encodeRegisters3 encodes sf op 01011 shift 0 Rm imm6 Rn Rd. A fourth operand shifts the third.
func encodeRegisters3(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	shift := Shift(0)
	if len(args) == 4 {
		given, ok := args[3].(Shift)
		if !ok {
			return 0, false
		}
		shift, args = given, args[:3]
	}
	regs, widthBit, ok := registers(args, 3)
	return r.code | widthBit | regs[2]<<16 | uint32(shift)<<10 | regs[1]<<5 | regs[0],
		ok && shift >= 0 && int(shift) < bitsOf(widthBit)
}

// encodeRegisters2 encodes comparisons of registers.
func encodeRegisters2(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	regs, widthBit, ok := registers(args, 2)
	return r.code | widthBit | regs[1]<<16 | regs[0]<<5, ok
}

// maskField returns the fields N, immr and imms of a mask for registers of `width` bits. A mask repeats an element of
// 2, 4, ..., 64 bits; the element is a run of ones, rotated to the right by immr bits. For example, 0x00FF00FF00FF00FF
// repeats an element of 16 bits, a run of 8 ones.
func maskField(pattern uint64, width int) (uint32, bool) {
	if width == 32 {
		if pattern>>32 != 0 {
			return 0, false
		}
		pattern |= pattern << 32
	}
	if pattern == 0 || pattern == 1<<64-1 {
		return 0, false
	}
	size := 64 // of the element: the smallest one that the pattern repeats
	for size > 2 && pattern == bits.RotateLeft64(pattern, size/2) {
		size /= 2
	}
	mask := ^uint64(0) >> (64 - size)
	for rotation := range size {
		element := pattern & mask
		element = (element<<rotation | element>>(size-rotation)) & mask // rotated left: undoes immr
		if ones := bits.TrailingZeros64(^element); element == 1<<ones-1 && ones > 0 && ones < size {
			// The low bits of imms are ones-1. The bits above encode the size. In binary, imms is 0..... for 32 and 64
			// (where N is 1), 10.... for 16, 110... for 8, 1110.. for 4, and 11110. for 2. In the example above, the
			// rotation is 0, and imms is 100111.
			imms := uint32(ones-1) | uint32(^(2*size-1))&0x3F
			field := uint32(rotation)<<16 | imms<<10
			if size == 64 {
				field |= 1 << 22 // N
			}
			return field, true
		}
	}
	return 0, false
}

// encodeMaskImmediate encodes bitwise operations with a mask: sf opc 100100 N immr imms Rn Rd.
func encodeMaskImmediate(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	regs, widthBit, ok := registers(args[:2], 2)
	pattern, isImm := args[2].(Imm)
	field, okMask := maskField(uint64(pattern), bitsOf(widthBit))
	return r.code | widthBit | field | regs[1]<<5 | regs[0], ok && isImm && okMask
}

// encodeTestImmediate encodes the comparison of a register's bits with zero.
func encodeTestImmediate(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	regs, widthBit, ok := registers(args[:1], 1)
	pattern, isImm := args[1].(Imm)
	field, okMask := maskField(uint64(pattern), bitsOf(widthBit))
	return r.code | widthBit | field | regs[0]<<5, ok && isImm && okMask
}

// encodeMoveRegister encodes operations with the zero register as first operand.
func encodeMoveRegister(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	regs, widthBit, ok := registers(args, 2)
	return r.code | widthBit | regs[1]<<16 | regs[0], ok
}

// encodeMoveImmediate encodes sf opc 100101 hw imm16 Rd. The shift is a multiple of 16.
func encodeMoveImmediate(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	shift := Shift(0)
	if len(args) == 3 {
		given, ok := args[2].(Shift)
		if !ok {
			return 0, false
		}
		shift, args = given, args[:2]
	}
	if len(args) != 2 {
		return 0, false
	}
	regs, widthBit, ok := registers(args[:1], 1)
	constant, isImm := args[1].(Imm)
	return r.code | widthBit | uint32(shift/16)<<21 | uint32(constant)<<5 | regs[0],
		ok && isImm && constant == Imm(uint16(constant)) && shift >= 0 && shift%16 == 0 && int(shift) < bitsOf(widthBit)
}

// encodeRegisters3Plain encodes operations on three registers without a shift.
func encodeRegisters3Plain(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	regs, widthBit, ok := registers(args, 3)
	return r.code | widthBit | regs[2]<<16 | regs[1]<<5 | regs[0], ok
}

// encodeHighProduct encodes the upper 64 bits of products of 64-bit registers.
func encodeHighProduct(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	regs, widthBit, ok := registers(args, 3)
	return r.code | regs[2]<<16 | regs[1]<<5 | regs[0], ok && widthBit != 0
}

// encodeProduct4 encodes sums and differences of the last operand and a product.
func encodeProduct4(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	regs, widthBit, ok := registers(args, 4)
	return r.code | widthBit | regs[2]<<16 | regs[3]<<10 | regs[1]<<5 | regs[0], ok
}

// shiftOperands returns the fields of a shift by a constant, its distance and the width of the registers.
func shiftOperands(args []Arg) (field uint32, distance, width int, ok bool) {
	if len(args) != 3 {
		return 0, 0, 0, false
	}
	regs, widthBit, ok := registers(args[:2], 2)
	count, isImm := args[2].(Imm)
	width = bitsOf(widthBit)
	// widthBit (sf) >> 9 is the field N, which equals sf.
	field = widthBit | widthBit>>9 | regs[1]<<5 | regs[0]
	return field, int(count), width, ok && isImm && count >= 0 && int(count) < width
}

// encodeShiftImmediateLeft encodes a bit-field move: sf 10 100110 N immr imms Rn Rd. immr is the negated
// distance modulo the width, and imms is the width minus 1 minus the distance.
func encodeShiftImmediateLeft(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	field, distance, width, ok := shiftOperands(args)
	return r.code | field | uint32(-distance&(width-1))<<16 | uint32(width-1-distance)<<10, ok
}

// encodeShiftImmediateRight encodes a bit-field move that ends at the highest bit: immr is the distance, and imms is
// the width minus 1.
func encodeShiftImmediateRight(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	field, distance, width, ok := shiftOperands(args)
	return r.code | field | uint32(distance)<<16 | uint32(width-1)<<10, ok
}

// encodeConditional encodes selections between two registers: sf 0011010100 Rm cond op Rn Rd.
func encodeConditional(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 4 {
		return 0, false
	}
	regs, widthBit, ok := registers(args[:3], 3)
	c, isCond := args[3].(Cond)
	return r.code | widthBit | regs[2]<<16 | uint32(c)<<12 | regs[1]<<5 | regs[0], ok && isCond
}

// encodeAddressOf encodes the address of a constant of the code. Finish fills in the distance.
func encodeAddressOf(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	regs, widthBit, ok := registers(args[:1], 1)
	constant, isConstant := args[1].(ConstantAddr)
	if !ok || !isConstant || widthBit == 0 {
		return 0, false
	}
	a.constantRefs = append(a.constantRefs, constantRef{len(a.code), constant.offset})
	return r.code | regs[0], true
}

// recordBranch records that the current instruction branches to a label. Finish fills in the distance.
func (a *Assembler) recordBranch(arg Arg) bool {
	label, ok := arg.(Label)
	if !ok || label < 0 || int(label) >= len(a.labels) {
		return false
	}
	a.branches = append(a.branches, branch{len(a.code), label})
	return true
}

// encodeJump encodes 000101 imm26, and with a condition 01010100 imm19 0 cond.
func encodeJump(a *Assembler, r *row, args []Arg) (uint32, bool) {
	return r.code, len(args) == 1 && a.recordBranch(args[0])
}

// encodeJumpZero encodes sf 011010 op imm19 Rt.
func encodeJumpZero(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	regs, widthBit, ok := registers(args[:1], 1)
	return r.code | widthBit | regs[0], ok && a.recordBranch(args[1])
}

// encodeJumpBit encodes b5 011011 op b40 imm14 Rt. The second operand is the number of the bit.
func encodeJumpBit(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	regs, widthBit, ok := registers(args[:1], 1)
	bitNumber, isImm := args[1].(Imm)
	if !ok || !isImm || bitNumber < 0 || int(bitNumber) >= bitsOf(widthBit) {
		return 0, false
	}
	return r.code | uint32(bitNumber>>5)<<31 | uint32(bitNumber&31)<<19 | regs[0], a.recordBranch(args[2])
}
