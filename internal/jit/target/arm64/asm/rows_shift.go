package asm

// shiftRows are shifts by a constant.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
var shiftRows = []row{
	{"shl", shiftLeft, 0x0F005400, bhsd},
	{"sli", shiftLeft, 0x2F005400, bhsd},
	{"sqshl", shiftLeft, 0x0F007400, bhsd},
	{"uqshl", shiftLeft, 0x2F007400, bhsd},
	{"sshr", shiftRight, 0x0F000400, bhsd},
	{"ushr", shiftRight, 0x2F000400, bhsd},
	{"ssra", shiftRight, 0x0F001400, bhsd},
	{"usra", shiftRight, 0x2F001400, bhsd},
	{"srshr", shiftRight, 0x0F002400, bhsd},
	{"urshr", shiftRight, 0x2F002400, bhsd},
	{"sri", shiftRight, 0x2F004400, bhsd},
	{"sshll", shiftLong, 0x0F00A400, bhs}, {"sshll2", shiftLong, 0x4F00A400, bhs},
	{"ushll", shiftLong, 0x2F00A400, bhs}, {"ushll2", shiftLong, 0x6F00A400, bhs},
	{"shrn", shiftNarrow, 0x0F008400, bhs}, {"shrn2", shiftNarrow, 0x4F008400, bhs},
	{"rshrn", shiftNarrow, 0x0F008C00, bhs}, {"rshrn2", shiftNarrow, 0x4F008C00, bhs},
	{"sqshrn", shiftNarrow, 0x0F009400, bhs}, {"sqshrn2", shiftNarrow, 0x4F009400, bhs},
	{"uqshrn", shiftNarrow, 0x2F009400, bhs}, {"uqshrn2", shiftNarrow, 0x6F009400, bhs},
	{"sqshrun", shiftNarrow, 0x2F008400, bhs}, {"sqshrun2", shiftNarrow, 0x6F008400, bhs},
}

// shifted returns the two vectors and the distance of a shift.
func shifted(args []Arg) (v [3]Vec, distance int, ok bool) {
	if len(args) != 3 {
		return v, 0, false
	}
	v, ok = vectors(args[:2], 2)
	n, isImm := args[2].(Imm)
	return v, int(n), ok && isImm && v[0].Elem <= D
}

// shiftLeft encodes 0 Q U 011110 immh:immb opcode 1 Rn Rd. The immediate is the width plus the distance.
func shiftLeft(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, n, ok := shifted(args)
	width := 8 << v[0].Elem
	return r.code | v[0].q() | uint32(width+n)<<16 | v[1].rn() | v[0].rd(), ok && v[0].valid() &&
		v[0].Elem == v[1].Elem && v[0].Half == v[1].Half && n >= 0 && n < width
}

// shiftRight encodes shifts to the right. The immediate is twice the width minus the distance.
func shiftRight(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, n, ok := shifted(args)
	width := 8 << v[0].Elem
	return r.code | v[0].q() | uint32(2*width-n)<<16 | v[1].rn() | v[0].rd(), ok && v[0].valid() &&
		v[0].Elem == v[1].Elem && v[0].Half == v[1].Half && n > 0 && n <= width
}

// shiftLong encodes shifts to the left into elements of twice the width.
func shiftLong(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, n, ok := shifted(args)
	width := 8 << v[1].Elem
	return r.code | uint32(width+n)<<16 | v[1].rn() | v[0].rd(), ok && r.halfOf(v[1], v[0]) && n >= 0 && n < width
}

// shiftNarrow encodes shifts to the right into elements of half the width.
func shiftNarrow(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, n, ok := shifted(args)
	width := 8 << v[0].Elem
	return r.code | uint32(2*width-n)<<16 | v[1].rn() | v[0].rd(), ok && r.halfOf(v[0], v[1]) && n > 0 && n <= width
}
