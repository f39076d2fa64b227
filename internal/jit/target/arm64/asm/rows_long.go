package asm

// longRows are instructions with elements of two widths: products and sums that widen, conversions that widen or
// narrow, and sums of pairs. The mnemonic ends in 2 if the wide elements belong to the upper half of the narrow vector.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
var longRows = []row{
	{"smull", long, 0x0E20C000, bhs}, {"smull2", long, 0x4E20C000, bhs},
	{"umull", long, 0x2E20C000, bhs}, {"umull2", long, 0x6E20C000, bhs},
	{"smlal", long, 0x0E208000, bhs}, {"smlal2", long, 0x4E208000, bhs},
	{"umlal", long, 0x2E208000, bhs}, {"umlal2", long, 0x6E208000, bhs},
	{"smlsl", long, 0x0E20A000, bhs}, {"smlsl2", long, 0x4E20A000, bhs},
	{"umlsl", long, 0x2E20A000, bhs}, {"umlsl2", long, 0x6E20A000, bhs},
	{"saddl", long, 0x0E200000, bhs}, {"saddl2", long, 0x4E200000, bhs},
	{"uaddl", long, 0x2E200000, bhs}, {"uaddl2", long, 0x6E200000, bhs},
	{"ssubl", long, 0x0E202000, bhs}, {"ssubl2", long, 0x4E202000, bhs},
	{"usubl", long, 0x2E202000, bhs}, {"usubl2", long, 0x6E202000, bhs},
	{"saddw", wide, 0x0E201000, bhs}, {"saddw2", wide, 0x4E201000, bhs},
	{"uaddw", wide, 0x2E201000, bhs}, {"uaddw2", wide, 0x6E201000, bhs},
	{"ssubw", wide, 0x0E203000, bhs}, {"ssubw2", wide, 0x4E203000, bhs},
	{"usubw", wide, 0x2E203000, bhs}, {"usubw2", wide, 0x6E203000, bhs},
	{"xtn", narrow, 0x0E212800, bhs}, {"xtn2", narrow, 0x4E212800, bhs},
	{"sqxtn", narrow, 0x0E214800, bhs}, {"sqxtn2", narrow, 0x4E214800, bhs},
	{"uqxtn", narrow, 0x2E214800, bhs}, {"uqxtn2", narrow, 0x6E214800, bhs},
	{"sqxtun", narrow, 0x2E212800, bhs}, {"sqxtun2", narrow, 0x6E212800, bhs},
	{"fcvtn", narrowFloat, 0x0E216800, hs}, {"fcvtn2", narrowFloat, 0x4E216800, hs},
	{"fcvtxn", narrowFloat, 0x2E216800, onlyS}, {"fcvtxn2", narrowFloat, 0x6E216800, onlyS},
	{"bfcvtn", narrowFloat, 0x0EA16800, onlyH}, {"bfcvtn2", narrowFloat, 0x4EA16800, onlyH},
	{"fcvtl", widenFloat, 0x0E217800, hs}, {"fcvtl2", widenFloat, 0x4E217800, hs},
	{"saddlp", pairs, 0x0E202800, bhs}, {"uaddlp", pairs, 0x2E202800, bhs},
	{"sadalp", pairs, 0x0E206800, bhs}, {"uadalp", pairs, 0x2E206800, bhs},
}

// upper is the bit Q of the mnemonics that end in 2.
const upper = 1 << 30

// halfOf reports whether narrow is the half of the wide vector's elements that the row uses: the lower half, or all of
// a register for mnemonics that end in 2.
func (r *row) halfOf(narrow, wide Vec) bool {
	return !wide.Half && wide.Elem == narrow.Elem+1 && narrow.Half == (r.code&upper == 0) && r.elems.has(narrow.Elem)
}

// long encodes "three different" with a wide result: 0 Q U 01110 size 1 Rm opcode 00 Rn Rd. The size is that of the
// narrow elements.
func long(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 3)
	return r.code | uint32(v[1].Elem)<<22 | v[2].rm() | v[1].rn() | v[0].rd(),
		ok && r.halfOf(v[1], v[0]) && v[1].Elem == v[2].Elem && v[1].Half == v[2].Half
}

// wide encodes "three different" with a wide result and first operand.
func wide(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 3)
	return r.code | uint32(v[2].Elem)<<22 | v[2].rm() | v[1].rn() | v[0].rd(),
		ok && r.halfOf(v[2], v[0]) && v[0].Elem == v[1].Elem && !v[1].Half
}

// narrow encodes "two-register miscellaneous" with a narrow result.
func narrow(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 2)
	return r.code | uint32(v[0].Elem)<<22 | v[1].rn() | v[0].rd(), ok && r.halfOf(v[0], v[1])
}

// narrowFloat encodes conversions to a floating-point type of half the width. Bit 22 selects 64 to 32 bits.
func narrowFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 2)
	return r.code | uint32(v[0].Elem-H)<<22 | v[1].rn() | v[0].rd(), ok && r.halfOf(v[0], v[1])
}

// widenFloat encodes conversions to a floating-point type of twice the width.
func widenFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 2)
	return r.code | uint32(v[1].Elem-H)<<22 | v[1].rn() | v[0].rd(), ok && r.halfOf(v[1], v[0])
}

// pairs encodes sums of adjacent elements, of twice the width.
func pairs(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 2)
	return r.code | v[1].q() | uint32(v[1].Elem)<<22 | v[1].rn() | v[0].rd(),
		ok && v[0].Elem == v[1].Elem+1 && v[0].Half == v[1].Half && r.elems.has(v[1].Elem)
}
