package asm

import "math/bits"

// This file encodes one instruction, a row of the table together with operands (match.go). The row has a spec of two
// letters for each operand: the field of the encoding and the class of the operand (type row). encodingFields assigns
// the operands to the fields. encode appends the bytes:
//
//	prefixes   opcode   ModRM   SIB   displacement   immediate
//	C5 F5      58       10                                       VADDPD (AX), Y1, Y2
//
// A register number of more than three bits is divided: its low bits are in the opcode, ModRM or SIB, and its high bits
// in the prefixes.

// fields has the operands of an instruction by the field of the encoding that holds them: ModRM.reg, VEX.vvvv, ModRM.rm
// and the immediate.
type fields struct {
	reg, vvvv uint8    // numbers of registers; reg may instead be an extension of the opcode
	rm        *operand // nil if the instruction has no such operand
	imm       int64
	immBytes  int  // number of bytes of imm; 0 without an immediate
	needsREX  bool // byte access to SP, BP, SI or DI, which requires a REX prefix

	// The bits X and B of the prefixes, which extend the number of the register in ModRM.rm (bits 4 and 3), or of the
	// index and of the base of memory (bit 3).
	extX, extB uint8
}

// encodingFields assigns the operands to the fields of the encoding.
func (in *instruction) encodingFields() fields {
	encoded := fields{reg: in.row.opcodeExtension()}
	for i := range in.args {
		arg, spec := &in.args[i], in.row.spec(i)
		field, class := spec[0], spec[1]
		switch field {
		case 'r':
			encoded.reg = arg.num
		case 'v':
			encoded.vvvv = arg.num
		case 'h': // the fourth register of an instruction is in the high bits of an immediate
			encoded.imm, encoded.immBytes = int64(arg.num)<<4, 1
		case 'i':
			encoded.imm, encoded.immBytes = arg.imm, immBytes(class)
		default: // ModRM.rm or, for the field o, the low bits of the opcode
			encoded.rm = arg
			arg.needsSIB = field == 'B'
		}
		if class == '1' && arg.kind == regKind && arg.num > 3 { // '1' of a register: the register's lowest byte
			encoded.needsREX = true
		}
	}
	if rm := encoded.rm; rm != nil {
		switch {
		case rm.kind == vecKind:
			encoded.extX = bit(rm.num, 4)
		case rm.scale > 0:
			encoded.extX = bit(rm.index, 3)
		}
		if !rm.isConstant { // the address of a constant has no base
			encoded.extB = bit(rm.num, 3)
		}
	}
	return encoded
}

// immBytes returns the number of bytes that encode an immediate of the given class.
func immBytes(class byte) int {
	switch class {
	case '1': // '1' of an immediate: always the number 1, which is not encoded
		return 0
	case 'd', 'w': // 32 bits, signed or unsigned
		return 4
	case 'q': // 64 bits
		return 8
	}
	return 1 // 8 bits, signed (b) or unsigned (u)
}

// map0F is row.opcodeMap of the opcode map 0F. In row.code, the map is at bit 10.
const map0F = m0F >> 10

// encode appends an instruction.
func (a *Assembler) encode(in *instruction) {
	encoded, row := in.encodingFields(), in.row
	dispUnit := int32(1) // bytes; see appendModRM
	switch {
	case row.code&legacy != 0:
		a.appendLegacy(in, &encoded)
	case in.evex:
		a.appendEVEX(in, &encoded)
		dispUnit = row.dispUnitBytes(in.length, encoded.rm != nil && encoded.rm.broadcast)
	default:
		a.appendVEX(in, &encoded)
	}
	switch {
	case row.code&noOperandRM != 0: // a ModRM byte without an operand in ModRM.rm
		a.code = append(a.code, modRegister|encoded.reg<<3)
	case encoded.rm != nil && !hasOpcodeRegister(row):
		a.appendModRM(encoded.reg, encoded.rm, dispUnit, encoded.immBytes)
	}
	for i := range encoded.immBytes {
		a.code = append(a.code, byte(encoded.imm>>(8*i)))
	}
}

// bit returns bit n of x, 0 or 1.
func bit(x uint8, n int) uint8 { return x >> n & 1 }

// hasOpcodeRegister reports whether a register, always operand 1, is encoded in the low bits of the opcode.
func hasOpcodeRegister(r *row) bool { return r.operandCount() >= 2 && r.spec(1)[0] == 'o' }

// appendLegacy appends the prefixes and the opcode of an instruction without VEX and EVEX. The REX prefix has the bits
// 0100WRXB, where R, X and B extend ModRM.reg, the index and ModRM.rm.
func (a *Assembler) appendLegacy(in *instruction, encoded *fields) {
	row := in.row
	if prefix := row.prefix(); prefix > 0 {
		a.code = append(a.code, [4]byte{0, 0x66, 0xF3, 0xF2}[prefix])
	}
	opcode := row.opcode()
	if hasOpcodeRegister(row) {
		opcode |= encoded.rm.num & 7
	}
	w := row.vex & w1 // W is bit 3 in both row.vex and the REX prefix
	rex := w | bit(encoded.reg, 3)<<2 | encoded.extX<<1 | encoded.extB
	if rex != 0 || encoded.needsREX {
		a.code = append(a.code, 0x40|rex)
	}
	if row.opcodeMap() == map0F {
		a.code = append(a.code, 0x0F)
	}
	a.code = append(a.code, opcode)
}

// appendVEX appends a VEX prefix and the opcode. The bytes after C4 are RXBmmmmm and WvvvvLpp. The short form has
// RvvvvLpp after C5; its X, B and W are 0, and its opcode map is 0F. R, X, B and vvvv are inverted.
func (a *Assembler) appendVEX(in *instruction, encoded *fields) {
	row := in.row
	w, notR := row.vex&w1/w1, bit(encoded.reg, 3)^1 // w1 is a bit mask, so w is 0 or 1
	lastByte := (^encoded.vvvv&15)<<3 | bit(in.length, 0)<<2 | row.prefix()
	if encoded.extX|encoded.extB|w == 0 && row.opcodeMap() == map0F {
		a.code = append(a.code, 0xC5, notR<<7|lastByte, row.opcode())
		return
	}
	firstByte := notR<<7 | (encoded.extX^1)<<6 | (encoded.extB^1)<<5 | row.opcodeMap()
	a.code = append(a.code, 0xC4, firstByte, w<<7|lastByte, row.opcode())
}

// appendEVEX appends an EVEX prefix and the opcode. The bytes after 62 are RXBr0mmm, Wvvvv1pp and zLLbVaaa. R and r are
// bits 3 and 4 of ModRM.reg. V is bit 4 of vvvv or of a vector of indices. z is zeroing, b is broadcast, and aaa the
// mask. R, X, B, r, vvvv and V are inverted.
func (a *Assembler) appendEVEX(in *instruction, encoded *fields) {
	row := in.row
	w := row.evex & w1 / w1
	notR, notHighR := bit(encoded.reg, 3)^1, bit(encoded.reg, 4)^1
	byte0 := notR<<7 | (encoded.extX^1)<<6 | (encoded.extB^1)<<5 | notHighR<<4 | row.opcodeMap()
	byte1 := w<<7 | (^encoded.vvvv&15)<<3 | 1<<2 | row.prefix()
	notHighV := bit(encoded.vvvv, 4) ^ 1
	if encoded.rm != nil && encoded.rm.kind == vmemKind {
		notHighV = bit(encoded.rm.index, 4) ^ 1
	}
	byte2 := in.length<<5 | notHighV<<3 | in.mask.num
	if in.mask.zeroing {
		byte2 |= 1 << 7
	}
	if encoded.rm != nil && encoded.rm.broadcast {
		byte2 |= 1 << 4
	}
	a.code = append(a.code, 0x62, byte0, byte1, byte2, row.opcode())
}

// Fields of the ModRM byte, which has mod (2 bits), reg and rm (3 bits each), and of the SIB byte, which has scale
// (2 bits), index and base (3 bits each).
const (
	modNoDisp   = 0 << 6 // mod: memory without a displacement
	modDisp8    = 1 << 6 // memory with a displacement of one byte
	modDisp32   = 2 << 6 // memory with a displacement of four bytes
	modRegister = 3 << 6
	rmSIB       = 4 // rm: a SIB byte follows
	rmRelative  = 5 // with modNoDisp: four bytes follow, relative to the end of the instruction
	sibNoIndex  = 4 << 3
)

// appendModRM appends the ModRM byte. For memory, it also appends the SIB byte and the displacement, each if necessary.
// A one-byte displacement counts in units of dispUnit bytes. bytesAfter is the number of bytes of the instruction after
// the displacement, because addresses of constants are relative to the end of the instruction.
func (a *Assembler) appendModRM(reg uint8, arg *operand, dispUnit int32, bytesAfter int) {
	reg = (reg & 7) << 3
	if arg.kind != memKind && arg.kind != vmemKind {
		a.code = append(a.code, modRegister|reg|arg.num&7)
		return
	}
	if arg.isConstant {
		a.code = append(a.code, modNoDisp|reg|rmRelative)
		a.constantRefs = append(a.constantRefs, constantRef{offset: len(a.code), end: len(a.code) + 4 + bytesAfter})
		a.code = appendInt32(a.code, arg.disp)
		return
	}
	mod, scaledDisp := byte(modNoDisp), arg.disp/dispUnit
	switch {
	case arg.disp == 0 && arg.num&7 != uint8(BP): // without a displacement, BP and R13 have another meaning
	case arg.disp%dispUnit == 0 && scaledDisp == int32(int8(scaledDisp)):
		mod = modDisp8
	default:
		mod = modDisp32
	}
	switch {
	case arg.scale > 0:
		scaleBits := byte(bits.TrailingZeros8(arg.scale))
		a.code = append(a.code, mod|reg|rmSIB, scaleBits<<6|(arg.index&7)<<3|arg.num&7)
	case arg.needsSIB || arg.num&7 == uint8(SP): // SP and R12 as base require a SIB byte, here without an index
		a.code = append(a.code, mod|reg|rmSIB, sibNoIndex|arg.num&7)
	default:
		a.code = append(a.code, mod|reg|arg.num&7)
	}
	switch mod {
	case modDisp8:
		a.code = append(a.code, byte(scaledDisp))
	case modDisp32:
		a.code = appendInt32(a.code, arg.disp)
	}
}
