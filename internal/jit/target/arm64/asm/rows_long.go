package asm

// longRows are instructions with elements of two widths: products and sums that widen, conversions that widen or
// narrow, and sums of pairs. The mnemonic ends in 2 if the wide elements belong to the upper half of the narrow vector.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
//
// For example, smull v0.8h, v1.8b, v2.8b is 0E22C020: the opcode 0E20C000, and the registers 2 (Rm), 1 (Rn) and 0 (Rd).
var longRows = []row{
	{"smull", encodeLong, 0x0E20C000, bhs}, {"smull2", encodeLong, 0x4E20C000, bhs},
	{"umull", encodeLong, 0x2E20C000, bhs}, {"umull2", encodeLong, 0x6E20C000, bhs},
	{"smlal", encodeLong, 0x0E208000, bhs}, {"smlal2", encodeLong, 0x4E208000, bhs},
	{"umlal", encodeLong, 0x2E208000, bhs}, {"umlal2", encodeLong, 0x6E208000, bhs},
	{"smlsl", encodeLong, 0x0E20A000, bhs}, {"smlsl2", encodeLong, 0x4E20A000, bhs},
	{"umlsl", encodeLong, 0x2E20A000, bhs}, {"umlsl2", encodeLong, 0x6E20A000, bhs},
	{"saddl", encodeLong, 0x0E200000, bhs}, {"saddl2", encodeLong, 0x4E200000, bhs},
	{"uaddl", encodeLong, 0x2E200000, bhs}, {"uaddl2", encodeLong, 0x6E200000, bhs},
	{"ssubl", encodeLong, 0x0E202000, bhs}, {"ssubl2", encodeLong, 0x4E202000, bhs},
	{"usubl", encodeLong, 0x2E202000, bhs}, {"usubl2", encodeLong, 0x6E202000, bhs},
	{"saddw", encodeWide, 0x0E201000, bhs}, {"saddw2", encodeWide, 0x4E201000, bhs},
	{"uaddw", encodeWide, 0x2E201000, bhs}, {"uaddw2", encodeWide, 0x6E201000, bhs},
	{"ssubw", encodeWide, 0x0E203000, bhs}, {"ssubw2", encodeWide, 0x4E203000, bhs},
	{"usubw", encodeWide, 0x2E203000, bhs}, {"usubw2", encodeWide, 0x6E203000, bhs},
	{"xtn", encodeNarrow, 0x0E212800, bhs}, {"xtn2", encodeNarrow, 0x4E212800, bhs},
	{"sqxtn", encodeNarrow, 0x0E214800, bhs}, {"sqxtn2", encodeNarrow, 0x4E214800, bhs},
	{"uqxtn", encodeNarrow, 0x2E214800, bhs}, {"uqxtn2", encodeNarrow, 0x6E214800, bhs},
	{"sqxtun", encodeNarrow, 0x2E212800, bhs}, {"sqxtun2", encodeNarrow, 0x6E212800, bhs},
	{"fcvtn", encodeNarrowFloat, 0x0E216800, hs}, {"fcvtn2", encodeNarrowFloat, 0x4E216800, hs},
	{"fcvtxn", encodeNarrowFloat, 0x2E216800, onlyS}, {"fcvtxn2", encodeNarrowFloat, 0x6E216800, onlyS},
	{"bfcvtn", encodeNarrowFloat, 0x0EA16800, onlyH}, {"bfcvtn2", encodeNarrowFloat, 0x4EA16800, onlyH},
	{"fcvtl", encodeWidenFloat, 0x0E217800, hs}, {"fcvtl2", encodeWidenFloat, 0x4E217800, hs},
	{"saddlp", encodePairs, 0x0E202800, bhs}, {"uaddlp", encodePairs, 0x2E202800, bhs},
	{"sadalp", encodePairs, 0x0E206800, bhs}, {"uadalp", encodePairs, 0x2E206800, bhs},
}

// upperHalf is the bit Q of the mnemonics that end in 2.
const upperHalf = 1 << 30

// takesHalf reports whether this row accepts narrow as one half of wide. The elements of narrow must have half the
// width. narrow must be written as a 64-bit vector or, for an instruction that ends in 2, as a full register. Such an
// instruction uses the upper half of the register.
func (r *row) takesHalf(narrow, wide Vec) bool {
	return !wide.Half && wide.Elem == narrow.Elem+1 && narrow.Half == (r.code&upperHalf == 0) && r.elems.has(narrow.Elem)
}

// encodeLong encodes "three different" with a wide result: 0 Q U 01110 size 1 Rm opcode 00 Rn Rd. The field size states
// the size of the narrow elements.
func encodeLong(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 3)
	return r.code | uint32(v[1].Elem)<<22 | v[2].rm() | v[1].rn() | v[0].rd(),
		ok && r.takesHalf(v[1], v[0]) && v[1].Elem == v[2].Elem && v[1].Half == v[2].Half
}

// encodeWide encodes "three different" with a wide result and first operand.
func encodeWide(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 3)
	return r.code | uint32(v[2].Elem)<<22 | v[2].rm() | v[1].rn() | v[0].rd(),
		ok && r.takesHalf(v[2], v[0]) && v[0].Elem == v[1].Elem && !v[1].Half
}

// encodeNarrow encodes "two-register miscellaneous" with a narrow result.
func encodeNarrow(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 2)
	return r.code | uint32(v[0].Elem)<<22 | v[1].rn() | v[0].rd(), ok && r.takesHalf(v[0], v[1])
}

// encodeNarrowFloat encodes conversions to a floating-point type of half the width. Bit 22 selects 64 to 32 bits.
func encodeNarrowFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 2)
	return r.code | uint32(v[0].Elem-H)<<22 | v[1].rn() | v[0].rd(), ok && r.takesHalf(v[0], v[1])
}

// encodeWidenFloat encodes conversions to a floating-point type of twice the width.
func encodeWidenFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 2)
	return r.code | uint32(v[1].Elem-H)<<22 | v[1].rn() | v[0].rd(), ok && r.takesHalf(v[1], v[0])
}

// encodePairs encodes sums of adjacent elements. The sums have twice the width of the elements.
func encodePairs(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 2)
	return r.code | v[1].qBit() | uint32(v[1].Elem)<<22 | v[1].rn() | v[0].rd(),
		ok && v[0].Elem == v[1].Elem+1 && v[0].Half == v[1].Half && r.elems.has(v[1].Elem)
}
