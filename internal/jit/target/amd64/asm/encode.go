package asm

import "math/bits"

// This file encodes one instruction. match decides whether a row of the table accepts the operands, and whether the
// prefix is VEX or EVEX. encodingFields assigns the operands to the fields of the encoding. encode appends the bytes:
//
//	prefixes   opcode   ModRM   SIB   displacement   immediate
//	C5 F5      58       10                                       VADDPD (AX), Y1, Y2
//
// The row of VADDPD has the args "mv vv rv": a spec of two letters for each operand, separated by spaces. The first
// letter is the field of the encoding: m is ModRM.rm, v is VEX.vvvv, and r is ModRM.reg. The second letter is the class
// of the operand: v is a vector of the instruction's length. The type row explains all letters.

// instruction is a row of the table together with the operands to encode.
type instruction struct {
	row    *row
	args   []operand // without the mask
	mask   operand   // num is 0 without a mask
	length uint8     // of vectors: 0, 1, 2 for 128, 256, 512 bits
	evex   bool
}

// spec returns the two letters of the row for operand i.
func (r *row) spec(i int) string { return r.args[3*i : 3*i+2] }

// match returns the instruction for the given operands, and reports whether the row accepts them. It does not modify
// operands. The row does not count a mask before the last operand. If there is one, match copies the other operands to
// the memory of withoutMask. If noEVEX is set, only VEX and older encodings are allowed.
func (r *row) match(operands, withoutMask []operand, noEVEX bool) (inst instruction, ok bool) {
	inst = instruction{row: r, args: operands}
	count := r.operandCount()
	if len(operands) == count+1 && count > 0 && operands[count-1].kind == maskKind {
		inst.mask = operands[count-1]
		inst.args = append(append(withoutMask[:0], operands[:count-1]...), operands[count])
	}
	if len(inst.args) != count {
		return inst, false
	}
	inst.setLength()
	for i := range inst.args {
		if !r.accepts(r.spec(i), &inst.args[i], inst.length) {
			return inst, false
		}
	}
	if r.code&legacy != 0 {
		return inst, inst.mask.kind != maskKind && !inst.needsEVEX()
	}
	if inst.fitsVEX() {
		return inst, true
	}
	inst.evex = true
	return inst, !noEVEX && inst.fitsEVEX()
}

// setLength sets the vector length of the instruction to the length of its first operand of class v. Without such an
// operand, the length is the smallest that the row of the instruction table allows.
func (in *instruction) setLength() {
	r := in.row
	for i := range in.args {
		arg := &in.args[i]
		if r.spec(i)[1] == 'v' && (arg.kind == vecKind || arg.kind == vmemKind) {
			in.length = arg.width
			return
		}
	}
	lengths := r.vex | r.evex // bits 0 to 2 are the lengths that the row allows
	for in.length = 0; in.length < 2 && lengths>>in.length&1 == 0; {
		in.length++
	}
}

// accepts reports whether an operand matches a spec. length is the vector length of the instruction, as in
// instruction.length.
func (r *row) accepts(spec string, arg *operand, length uint8) bool {
	field, class := spec[0], spec[1]
	switch field {
	case 'i':
		return arg.kind == immKind && fits(arg.imm, class)
	case 'j':
		return arg.kind == labelKind
	case 'M':
		return arg.kind == memKind
	case 'B':
		return arg.kind == memKind && !arg.isConstant
	case 'm': // memory, or a register of the class
		if arg.kind == memKind {
			return true
		}
	case 'S':
		return arg.kind == vmemKind && arg.width == widthOf(class, length)
	}
	switch class { // the field holds a register
	case 'g', '1':
		return arg.kind == regKind
	case 'k':
		return arg.kind == maskKind && !arg.zeroing
	case 't':
		return arg.kind == tileKind
	}
	return arg.kind == vecKind && arg.width == widthOf(class, length)
}

// widthOf returns the width of vectors of the given class in an instruction of the given length: 0, 1, 2 for 128, 256,
// 512 bits.
func widthOf(class byte, length uint8) uint8 {
	switch class {
	case 'v':
		return length
	case 'h': // half the length, at least 128 bits
		return max(length, 1) - 1
	}
	return 0
}

// fits reports whether an immediate can be encoded in the given class.
func fits(value int64, class byte) bool {
	switch class {
	case '1':
		return value == 1
	case 'b':
		return value == int64(int8(value))
	case 'u':
		return value == int64(uint8(value))
	case 'd':
		return value == int64(int32(value))
	case 'w':
		return value == int64(uint32(value))
	}
	return true
}

// needsEVEX reports whether operands require EVEX: vector registers above 15, or a broadcast element.
func (in *instruction) needsEVEX() bool {
	for i := range in.args {
		arg := &in.args[i]
		isHighVector := arg.kind == vecKind && arg.num > 15 || arg.kind == vmemKind && arg.index > 15
		if isHighVector || arg.broadcast {
			return true
		}
	}
	return false
}

// fitsVEX reports whether VEX can encode the instruction.
func (in *instruction) fitsVEX() bool {
	return in.row.vex>>in.length&1 != 0 && in.mask.kind != maskKind && !in.needsEVEX()
}

// fitsEVEX reports whether EVEX can encode the instruction.
func (in *instruction) fitsEVEX() bool {
	r, masked := in.row, in.mask.kind == maskKind
	hasLength := r.evex>>in.length&1 != 0
	acceptsMask := r.evex&noMask == 0 && in.mask.num != 0 // K0 cannot mask an instruction
	if !hasLength || masked && !acceptsMask {
		return false
	}
	if in.mask.zeroing && in.args[len(in.args)-1].kind != vecKind { // memory and masks do not support zeroing
		return false
	}
	for i := range in.args {
		arg := &in.args[i]
		cannotBroadcast := arg.broadcast && r.evex&bcst == 0
		// Gathers and scatters need a mask without zeroing.
		lacksMask := arg.kind == vmemKind && (!masked || in.mask.zeroing)
		if cannotBroadcast || lacksMask {
			return false
		}
	}
	return true
}

// usesTileTwice reports whether a product of tiles uses the same tile twice, which raises an exception.
func (in *instruction) usesTileTwice() bool {
	args := in.args
	return len(args) == 3 && args[0].kind == tileKind &&
		(args[0].num == args[1].num || args[0].num == args[2].num || args[1].num == args[2].num)
}

// repeatsRegister reports whether two of a gather's destination, indices and (with VEX) mask are the same register. The
// processor raises an exception for this. The operands are the mask, only with VEX, then the memory, whose address has
// the indices, and the destination.
func (in *instruction) repeatsRegister() bool {
	args := in.args
	last := &args[len(args)-1]
	if last.kind != vecKind {
		return false
	}
	for i := range args[:len(args)-1] {
		arg := &args[i]
		if arg.kind != vmemKind {
			continue
		}
		hasVEXMask := i > 0 // the mask is args[0]
		return arg.index == last.num || hasVEXMask && (args[0].num == last.num || args[0].num == arg.index)
	}
	return false
}

// fields has the operands of an instruction by the field of the encoding that holds them: ModRM.reg, VEX.vvvv, ModRM.rm
// and the immediate.
type fields struct {
	reg, vvvv uint8    // numbers of registers; reg may instead be an extension of the opcode
	rm        *operand // nil if the instruction has no such operand
	imm       int64
	immBytes  int  // number of bytes of imm; 0 without an immediate
	needsREX  bool // byte access to SP, BP, SI or DI, which requires a REX prefix
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
		default:
			encoded.rm = arg
			arg.needsSIB = field == 'B'
		}
		if class == '1' && arg.kind == regKind && arg.num > 3 {
			encoded.needsREX = true
		}
	}
	return encoded
}

// immBytes returns the number of bytes that encode an immediate of the given class.
func immBytes(class byte) int {
	switch class {
	case '1':
		return 0
	case 'd', 'w':
		return 4
	case 'q':
		return 8
	}
	return 1
}

// encode appends an instruction.
func (a *Assembler) encode(in *instruction) {
	encoded, row := in.encodingFields(), in.row
	extX, extB := encoded.extensionBits()
	dispUnit := int32(1) // bytes; see appendModRM
	switch {
	case row.code&legacy != 0:
		a.appendLegacy(in, &encoded, extX, extB)
	case in.evex:
		a.appendEVEX(in, &encoded, extX, extB)
		dispUnit = row.dispUnitBytes(in.length, encoded.rm != nil && encoded.rm.broadcast)
	default:
		a.appendVEX(in, &encoded, extX, extB)
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

// extensionBits returns the bits X and B of the prefixes. They extend numbers of registers, which have only three bits
// in the other bytes. X and B are bits 4 and 3 of a vector register in ModRM.rm, or bit 3 of the index and of the base.
func (f *fields) extensionBits() (extX, extB uint8) {
	if f.rm == nil {
		return 0, 0
	}
	switch {
	case f.rm.kind == vecKind:
		extX = bit(f.rm.num, 4)
	case f.rm.scale > 0:
		extX = bit(f.rm.index, 3)
	}
	if f.rm.isConstant { // the address has no base
		return extX, 0
	}
	return extX, bit(f.rm.num, 3)
}

// bit returns bit n of x, 0 or 1.
func bit(x uint8, n int) uint8 { return x >> n & 1 }

// hasOpcodeRegister reports whether a register, always operand 1, is encoded in the low bits of the opcode.
func hasOpcodeRegister(r *row) bool { return r.operandCount() >= 2 && r.spec(1)[0] == 'o' }

// appendLegacy appends the prefixes and the opcode of an instruction without VEX and EVEX. The REX prefix has the bits
// 0100WRXB, where R, X and B extend ModRM.reg, the index and ModRM.rm. For extX and extB see extensionBits.
func (a *Assembler) appendLegacy(in *instruction, encoded *fields, extX, extB uint8) {
	row := in.row
	if prefix := row.prefix(); prefix > 0 {
		a.code = append(a.code, [4]byte{0, 0x66, 0xF3, 0xF2}[prefix])
	}
	opcode := row.opcode()
	if hasOpcodeRegister(row) {
		opcode |= encoded.rm.num & 7
	}
	w := row.vex & w1 // W is bit 3 in both row.vex and the REX prefix
	rex := w | bit(encoded.reg, 3)<<2 | extX<<1 | extB
	if rex != 0 || encoded.needsREX {
		a.code = append(a.code, 0x40|rex)
	}
	if row.opcodeMap() == m0F>>10 {
		a.code = append(a.code, 0x0F)
	}
	a.code = append(a.code, opcode)
}

// appendVEX appends a VEX prefix and the opcode. The bytes after C4 are RXBmmmmm and WvvvvLpp. The short form has
// RvvvvLpp after C5; its X, B and W are 0, and its opcode map is 0F. R, X, B and vvvv are inverted. For extX and extB
// see extensionBits.
func (a *Assembler) appendVEX(in *instruction, encoded *fields, extX, extB uint8) {
	row := in.row
	w, notR := row.vex&w1/w1, bit(encoded.reg, 3)^1 // w1 is a bit mask, so w is 0 or 1
	lastByte := (^encoded.vvvv&15)<<3 | bit(in.length, 0)<<2 | row.prefix()
	if extX|extB|w == 0 && row.opcodeMap() == m0F>>10 {
		a.code = append(a.code, 0xC5, notR<<7|lastByte, row.opcode())
		return
	}
	a.code = append(a.code, 0xC4, notR<<7|(extX^1)<<6|(extB^1)<<5|row.opcodeMap(), w<<7|lastByte, row.opcode())
}

// appendEVEX appends an EVEX prefix and the opcode. The bytes after 62 are RXBr0mmm, Wvvvv1pp and zLLbVaaa. R and r are
// bits 3 and 4 of ModRM.reg. V is bit 4 of vvvv or of a vector of indices. z is zeroing, b is broadcast, and aaa the
// mask. R, X, B, r, vvvv and V are inverted. For extX and extB see extensionBits.
func (a *Assembler) appendEVEX(in *instruction, encoded *fields, extX, extB uint8) {
	row := in.row
	w := row.evex & w1 / w1
	notR, notHighR := bit(encoded.reg, 3)^1, bit(encoded.reg, 4)^1
	byte0 := notR<<7 | (extX^1)<<6 | (extB^1)<<5 | notHighR<<4 | row.opcodeMap()
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
