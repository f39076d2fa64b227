package asm

// This file decides whether a row of the instruction table accepts operands, and whether the prefix is VEX or EVEX. The
// row of VADDPD has the args "mv vv rv": a spec of two letters for each operand, separated by spaces. The first letter
// is the field of the encoding: m is ModRM.rm, v is VEX.vvvv, and r is ModRM.reg. The second letter is the class of the
// operand: v is a vector of the instruction's length. The type row explains all letters.

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
// operands. A mask before the last operand has no spec in the row. If there is a mask, match copies the other operands
// to withoutMask. If noEVEX is set, only VEX and older encodings are allowed.
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
	return 0 // x: 128 bits
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
	return true // q: 64 bits
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

// repeatsRegister reports whether a gather uses one register twice: as destination, indices or (with VEX) mask. The
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
