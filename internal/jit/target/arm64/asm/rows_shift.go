package asm

// shiftRows are shifts by a constant.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
//
// For example, shl v0.4s, v1.4s, #3 is 4F235420: the opcode 0F005400, bit 30 (Q) for 128 bits, 32+3 in immh:immb, and
// the registers 1 (Rn) and 0 (Rd).
var shiftRows = []row{
	{"shl", encodeShiftLeft, 0x0F005400, bhsd},
	{"sli", encodeShiftLeft, 0x2F005400, bhsd},
	{"sqshl", encodeShiftLeft, 0x0F007400, bhsd},
	{"uqshl", encodeShiftLeft, 0x2F007400, bhsd},
	{"sshr", encodeShiftRight, 0x0F000400, bhsd},
	{"ushr", encodeShiftRight, 0x2F000400, bhsd},
	{"ssra", encodeShiftRight, 0x0F001400, bhsd},
	{"usra", encodeShiftRight, 0x2F001400, bhsd},
	{"srshr", encodeShiftRight, 0x0F002400, bhsd},
	{"urshr", encodeShiftRight, 0x2F002400, bhsd},
	{"sri", encodeShiftRight, 0x2F004400, bhsd},
	{"sshll", encodeShiftLong, 0x0F00A400, bhs}, {"sshll2", encodeShiftLong, 0x4F00A400, bhs},
	{"ushll", encodeShiftLong, 0x2F00A400, bhs}, {"ushll2", encodeShiftLong, 0x6F00A400, bhs},
	{"shrn", encodeShiftNarrow, 0x0F008400, bhs}, {"shrn2", encodeShiftNarrow, 0x4F008400, bhs},
	{"rshrn", encodeShiftNarrow, 0x0F008C00, bhs}, {"rshrn2", encodeShiftNarrow, 0x4F008C00, bhs},
	{"sqshrn", encodeShiftNarrow, 0x0F009400, bhs}, {"sqshrn2", encodeShiftNarrow, 0x4F009400, bhs},
	{"uqshrn", encodeShiftNarrow, 0x2F009400, bhs}, {"uqshrn2", encodeShiftNarrow, 0x6F009400, bhs},
	{"sqshrun", encodeShiftNarrow, 0x2F008400, bhs}, {"sqshrun2", encodeShiftNarrow, 0x6F008400, bhs},
}

// vectorShiftOperands returns the two vectors of a shift, v[0] and v[1], and the distance.
func vectorShiftOperands(args []Arg) (v [3]Vec, distance int, ok bool) {
	if len(args) != 3 {
		return v, 0, false
	}
	v, ok = vectors(args[:2], 2)
	imm, isImm := args[2].(Imm)
	return v, int(imm), ok && isImm && v[0].Elem <= D
}

// encodeShiftLeft encodes 0 Q U 011110 immh:immb opcode 1 Rn Rd. The immediate is the width plus the distance.
func encodeShiftLeft(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, distance, ok := vectorShiftOperands(args)
	width := 8 << v[0].Elem
	return r.code | v[0].qBit() | uint32(width+distance)<<16 | v[1].rn() | v[0].rd(),
		ok && v[0].valid() && v[0].Elem == v[1].Elem && v[0].Half == v[1].Half && distance >= 0 && distance < width
}

// encodeShiftRight encodes shifts to the right. The immediate is twice the width minus the distance.
func encodeShiftRight(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, distance, ok := vectorShiftOperands(args)
	width := 8 << v[0].Elem
	return r.code | v[0].qBit() | uint32(2*width-distance)<<16 | v[1].rn() | v[0].rd(),
		ok && v[0].valid() && v[0].Elem == v[1].Elem && v[0].Half == v[1].Half && distance > 0 && distance <= width
}

// encodeShiftLong encodes shifts to the left into elements of twice the width. takesHalf(narrow, wide) checks the
// widths and, for mnemonics that end in 2, that narrow is a full register.
func encodeShiftLong(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, distance, ok := vectorShiftOperands(args)
	width := 8 << v[1].Elem
	return r.code | uint32(width+distance)<<16 | v[1].rn() | v[0].rd(),
		ok && r.takesHalf(v[1], v[0]) && distance >= 0 && distance < width
}

// encodeShiftNarrow encodes shifts to the right into elements of half the width.
func encodeShiftNarrow(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, distance, ok := vectorShiftOperands(args)
	width := 8 << v[0].Elem
	return r.code | uint32(2*width-distance)<<16 | v[1].rn() | v[0].rd(),
		ok && r.takesHalf(v[0], v[1]) && distance > 0 && distance <= width
}
