package asm

// laneRows move elements within and between vectors, and combine the elements of one vector.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
var laneRows = []row{
	{"zip1", encodeSameArrangement, 0x0E003800, bhsd},
	{"zip2", encodeSameArrangement, 0x0E007800, bhsd},
	{"uzp1", encodeSameArrangement, 0x0E001800, bhsd},
	{"uzp2", encodeSameArrangement, 0x0E005800, bhsd},
	{"trn1", encodeSameArrangement, 0x0E002800, bhsd},
	{"trn2", encodeSameArrangement, 0x0E006800, bhsd},
	{"ext", encodeExtract, 0x2E000000, onlyB},
	{"tbl", encodeLookup, 0x0E000000, onlyB},
	{"tbx", encodeLookup, 0x0E001000, onlyB},
	{"dup", encodeDupLane, 0x0E000400, bhsd},
	{"dup", encodeDupRegister, 0x0E000C00, bhsd},
	{"mov", encodeInsertLane, 0x6E000400, bhsd},
	{"mov", encodeInsertRegister, 0x4E001C00, bhsd},
	{"mov", encodeScalarLane, 0x5E000400, bhsd},
	{"umov", encodeToRegister, 0x0E003C00, bhsd},
	{"smov", encodeToRegister, 0x0E002C00, bhs},
	{"addv", encodeAcross, 0x0E31B800, bhs},
	{"smaxv", encodeAcross, 0x0E30A800, bhs},
	{"sminv", encodeAcross, 0x0E31A800, bhs},
	{"umaxv", encodeAcross, 0x2E30A800, bhs},
	{"uminv", encodeAcross, 0x2E31A800, bhs},
	{"saddlv", encodeAcross, 0x0E303800, bhs},
	{"uaddlv", encodeAcross, 0x2E303800, bhs},
	{"fmaxv", encodeAcrossFloat, 0x6E30F800, onlyS},
	{"fminv", encodeAcrossFloat, 0x6EB0F800, onlyS},
	{"fmaxnmv", encodeAcrossFloat, 0x6E30C800, onlyS},
	{"fminnmv", encodeAcrossFloat, 0x6EB0C800, onlyS},
	{"faddp", encodePairFloat, 0x7E30D800, sd},
	{"fmaxp", encodePairFloat, 0x7E30F800, sd},
	{"fminp", encodePairFloat, 0x7EB0F800, sd},
	{"fmaxnmp", encodePairFloat, 0x7E30C800, sd},
	{"fminnmp", encodePairFloat, 0x7EB0C800, sd},
	{"addp", encodePairInteger, 0x5EF1B800, onlyD},
}

// encodeExtract encodes 0 Q 101110000 Rm 0 imm4 0 Rn Rd: the result is 16 bytes (8 with Q=0) of the concatenation of Rn
// and Rm, from byte imm4 on.
func encodeExtract(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 4 {
		return 0, false
	}
	position, isImm := args[3].(Imm)
	word, ok := encodeSameArrangement(nil, &row{code: r.code, elems: onlyB}, args[:3])
	if !ok || !isImm || position < 0 || position >= 16 || args[0].(Vec).Half && position >= 8 {
		return 0, false
	}
	return word | uint32(position)<<11, true
}

// encodeLookup encodes 0 Q 001110000 Rm 0 len op 00 Rn Rd: bytes of a table of one to four registers.
func encodeLookup(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	d, ok0 := args[0].(Vec)
	table, ok1 := args[1].(List)
	index, ok2 := args[2].(Vec)
	if !ok0 || !ok1 || !ok2 || d.Elem != B || index.Elem != B || d.Half != index.Half || table.Lane >= 0 ||
		table.First.Elem != B || table.First.Half || table.Count < 1 || table.Count > 4 {
		return 0, false
	}
	return r.code | d.qBit() | index.rm() | uint32(table.Count-1)<<13 | table.First.rn() | d.rd(), true
}

// imm5Field returns the field imm5, which encodes the element size and the lane. The position of the lowest set bit is
// log2 of the size in bytes; the bits above it are the number of the lane.
func imm5Field(e Elem, index int) (uint32, bool) {
	return uint32(index<<(e+1)|1<<e) << 16, e <= D && index >= 0 && index < 16/e.Bytes()
}

// encodeDupLane encodes 0 Q 001110000 imm5 000001 Rn Rd.
func encodeDupLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Vec)
	l, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || d.Elem != l.Elem || !d.valid() || l.Num < 0 || l.Num > 31 {
		return 0, false
	}
	imm, ok := imm5Field(l.Elem, l.Index)
	return r.code | d.qBit() | imm | uint32(l.Num)<<5 | d.rd(), ok
}

// encodeDupRegister encodes 0 Q 001110000 imm5 000011 Rn Rd.
func encodeDupRegister(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Vec)
	g, ok1 := args[1].(Reg)
	if !ok0 || !ok1 || !d.valid() || g.is64() != (d.Elem == D) {
		return 0, false
	}
	imm, ok := imm5Field(d.Elem, 0)
	return r.code | d.qBit() | imm | g.num()<<5 | d.rd(), ok
}

// encodeInsertLane encodes 01101110000 imm5 0 imm4 1 Rn Rd. imm4 is the lane of the source times the size in bytes.
func encodeInsertLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Lane)
	n, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || d.Elem != n.Elem || !isVectorNumber(d.Num) || !isVectorNumber(n.Num) {
		return 0, false
	}
	imm, ok := imm5Field(d.Elem, d.Index)
	_, okSource := imm5Field(n.Elem, n.Index)
	return r.code | imm | uint32(n.Index)<<(11+n.Elem) | uint32(n.Num)<<5 | uint32(d.Num), ok && okSource
}

// encodeInsertRegister encodes 01001110000 imm5 000111 Rn Rd.
func encodeInsertRegister(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Lane)
	g, ok1 := args[1].(Reg)
	if !ok0 || !ok1 || g.is64() != (d.Elem == D) || !isVectorNumber(d.Num) {
		return 0, false
	}
	imm, ok := imm5Field(d.Elem, d.Index)
	return r.code | imm | g.num()<<5 | uint32(d.Num), ok
}

// encodeScalarLane encodes 01011110000 imm5 000001 Rn Rd: the element becomes the lowest one, and the rest is zero.
func encodeScalarLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Scalar)
	l, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || d.Elem != l.Elem || !isVectorNumber(l.Num) || !isVectorNumber(d.Num) {
		return 0, false
	}
	imm, ok := imm5Field(l.Elem, l.Index)
	return r.code | imm | uint32(l.Num)<<5 | uint32(d.Num), ok
}

// encodeToRegister encodes 0 Q 001110000 imm5 001x11 Rn Rd: moves an element to a general register, zero-extended or
// sign-extended. Q selects a register of 64 bits.
func encodeToRegister(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	g, ok0 := args[0].(Reg)
	l, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || !isVectorNumber(l.Num) || !r.elems.has(l.Elem) {
		return 0, false
	}
	signed := r.elems == bhs
	// smov extends 32 bits only to 64 bits. umov moves 64 bits to 64 bits, and fewer to 32 bits.
	if signed && l.Elem == S && !g.is64() || !signed && g.is64() != (l.Elem == D) {
		return 0, false
	}
	imm, ok := imm5Field(l.Elem, l.Index)
	code := r.code | imm | uint32(l.Num)<<5 | g.num()
	if g.is64() {
		code |= 1 << 30
	}
	return code, ok
}

// encodeAcross encodes 0 Q U 01110 size 11000 opcode 10 Rn Rd. The result of saddlv and uaddlv has twice the width.
func encodeAcross(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Scalar)
	v, ok1 := args[1].(Vec)
	width := v.Elem
	if r.code&0x1F000 == 0x3000 { // the opcode of saddlv and uaddlv
		width++
	}
	if !ok0 || !ok1 || d.Elem != width || v.Elem == S && v.Half || !isVectorNumber(v.Num) || !isVectorNumber(d.Num) {
		return 0, false
	}
	return r.code | v.qBit() | uint32(v.Elem)<<22 | v.rn() | uint32(d.Num), r.elems.has(v.Elem)
}

// encodeAcrossFloat encodes reductions of four single-precision numbers.
func encodeAcrossFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Scalar)
	v, ok1 := args[1].(Vec)
	return r.code | v.rn() | uint32(d.Num),
		ok0 && ok1 && d.Elem == S && v.Elem == S && !v.Half && isVectorNumber(d.Num) && isVectorNumber(v.Num)
}

// encodePairFloat encodes reductions of a vector of two elements to a scalar.
func encodePairFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Scalar)
	v, ok1 := args[1].(Vec)
	if !ok0 || !ok1 || d.Elem != v.Elem || !r.elems.has(v.Elem) || v.Half != (v.Elem == S) || !isVectorNumber(v.Num) {
		return 0, false
	}
	return r.code | uint32(v.Elem-S)<<22 | v.rn() | uint32(d.Num), isVectorNumber(d.Num)
}

// encodePairInteger encodes the sum of the two elements of 64 bits.
func encodePairInteger(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Scalar)
	v, ok1 := args[1].(Vec)
	return r.code | v.rn() | uint32(d.Num),
		ok0 && ok1 && d.Elem == D && v.Elem == D && !v.Half && isVectorNumber(d.Num) && isVectorNumber(v.Num)
}
