package asm

// laneRows move elements within and between vectors, and combine the elements of one vector.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
var laneRows = []row{
	{"zip1", sameArrangement, 0x0E003800, bhsd},
	{"zip2", sameArrangement, 0x0E007800, bhsd},
	{"uzp1", sameArrangement, 0x0E001800, bhsd},
	{"uzp2", sameArrangement, 0x0E005800, bhsd},
	{"trn1", sameArrangement, 0x0E002800, bhsd},
	{"trn2", sameArrangement, 0x0E006800, bhsd},
	{"ext", extract, 0x2E000000, onlyB},
	{"tbl", lookup, 0x0E000000, onlyB},
	{"tbx", lookup, 0x0E001000, onlyB},
	{"dup", dupLane, 0x0E000400, bhsd},
	{"dup", dupRegister, 0x0E000C00, bhsd},
	{"mov", insertLane, 0x6E000400, bhsd},
	{"mov", insertRegister, 0x4E001C00, bhsd},
	{"mov", scalarLane, 0x5E000400, bhsd},
	{"umov", toRegister, 0x0E003C00, bhsd},
	{"smov", toRegister, 0x0E002C00, bhs},
	{"addv", across, 0x0E31B800, bhs},
	{"smaxv", across, 0x0E30A800, bhs},
	{"sminv", across, 0x0E31A800, bhs},
	{"umaxv", across, 0x2E30A800, bhs},
	{"uminv", across, 0x2E31A800, bhs},
	{"saddlv", across, 0x0E303800, bhs},
	{"uaddlv", across, 0x2E303800, bhs},
	{"fmaxv", acrossFloat, 0x6E30F800, onlyS},
	{"fminv", acrossFloat, 0x6EB0F800, onlyS},
	{"fmaxnmv", acrossFloat, 0x6E30C800, onlyS},
	{"fminnmv", acrossFloat, 0x6EB0C800, onlyS},
	{"faddp", pairFloat, 0x7E30D800, sd},
	{"fmaxp", pairFloat, 0x7E30F800, sd},
	{"fminp", pairFloat, 0x7EB0F800, sd},
	{"fmaxnmp", pairFloat, 0x7E30C800, sd},
	{"fminnmp", pairFloat, 0x7EB0C800, sd},
	{"addp", pairInteger, 0x5EF1B800, onlyD},
}

// extract encodes 0 Q 101110000 Rm 0 imm4 0 Rn Rd: the result is 16 bytes (8 with Q=0) of the concatenation of Rn and
// Rm, from byte imm4 on.
func extract(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 4 {
		return 0, false
	}
	position, isImm := args[3].(Imm)
	word, ok := sameArrangement(nil, &row{code: r.code, elems: onlyB}, args[:3])
	if !ok || !isImm || position < 0 || position >= 16 || args[0].(Vec).Half && position >= 8 {
		return 0, false
	}
	return word | uint32(position)<<11, true
}

// lookup encodes 0 Q 001110000 Rm 0 len op 00 Rn Rd: bytes of a table of one to four registers.
func lookup(_ *Assembler, r *row, args []Arg) (uint32, bool) {
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
	return r.code | d.q() | index.rm() | uint32(table.Count-1)<<13 | table.First.rn() | d.rd(), true
}

// imm5Field returns the field imm5, which encodes the element size and the lane. The position of the lowest set bit is
// log2 of the size in bytes; the bits above it are the number of the lane.
func imm5Field(e Elem, index int) (uint32, bool) {
	return uint32(index<<(e+1)|1<<e) << 16, e <= D && index >= 0 && index < 16/e.Bytes()
}

// dupLane encodes 0 Q 001110000 imm5 000001 Rn Rd.
func dupLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Vec)
	l, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || d.Elem != l.Elem || !d.valid() || l.Num < 0 || l.Num > 31 {
		return 0, false
	}
	imm, ok := imm5Field(l.Elem, l.Index)
	return r.code | d.q() | imm | uint32(l.Num)<<5 | d.rd(), ok
}

// dupRegister encodes 0 Q 001110000 imm5 000011 Rn Rd.
func dupRegister(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Vec)
	g, ok1 := args[1].(Reg)
	if !ok0 || !ok1 || !d.valid() || g.is64() != (d.Elem == D) {
		return 0, false
	}
	imm, ok := imm5Field(d.Elem, 0)
	return r.code | d.q() | imm | g.num()<<5 | d.rd(), ok
}

// insertLane encodes 01101110000 imm5 0 imm4 1 Rn Rd. imm4 is the lane of the source.
func insertLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Lane)
	n, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || d.Elem != n.Elem || d.Num&^31 != 0 || n.Num&^31 != 0 {
		return 0, false
	}
	imm, ok := imm5Field(d.Elem, d.Index)
	_, okSource := imm5Field(n.Elem, n.Index)
	return r.code | imm | uint32(n.Index)<<(11+n.Elem) | uint32(n.Num)<<5 | uint32(d.Num), ok && okSource
}

// insertRegister encodes 01001110000 imm5 000111 Rn Rd.
func insertRegister(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Lane)
	g, ok1 := args[1].(Reg)
	if !ok0 || !ok1 || g.is64() != (d.Elem == D) || d.Num&^31 != 0 {
		return 0, false
	}
	imm, ok := imm5Field(d.Elem, d.Index)
	return r.code | imm | g.num()<<5 | uint32(d.Num), ok
}

// scalarLane encodes 01011110000 imm5 000001 Rn Rd: the element becomes the lowest one, and the rest is zero.
func scalarLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Scalar)
	l, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || d.Elem != l.Elem || l.Num&^31 != 0 || d.Num&^31 != 0 {
		return 0, false
	}
	imm, ok := imm5Field(l.Elem, l.Index)
	return r.code | imm | uint32(l.Num)<<5 | uint32(d.Num), ok
}

// toRegister encodes 0 Q 001110000 imm5 001x11 Rn Rd: moves an element to a general register, zero-extended or
// sign-extended. Q selects a register of 64 bits.
func toRegister(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	g, ok0 := args[0].(Reg)
	l, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || l.Num&^31 != 0 || !r.elems.has(l.Elem) {
		return 0, false
	}
	signed := r.elems == bhs
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

// across encodes 0 Q U 01110 size 11000 opcode 10 Rn Rd. The result of saddlv and uaddlv has twice the width.
func across(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Scalar)
	v, ok1 := args[1].(Vec)
	width := v.Elem
	if r.code&0x1F000 == 0x3000 { // the opcode of saddlv and uaddlv
		width++
	}
	if !ok0 || !ok1 || d.Elem != width || v.Elem == S && v.Half || v.Num&^31 != 0 || d.Num&^31 != 0 {
		return 0, false
	}
	return r.code | v.q() | uint32(v.Elem)<<22 | v.rn() | uint32(d.Num), r.elems.has(v.Elem)
}

// acrossFloat encodes reductions of four single-precision numbers.
func acrossFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Scalar)
	v, ok1 := args[1].(Vec)
	return r.code | v.rn() | uint32(d.Num),
		ok0 && ok1 && d.Elem == S && v.Elem == S && !v.Half && d.Num&^31 == 0 && v.Num&^31 == 0
}

// pairFloat encodes reductions of a vector of two elements to a scalar.
func pairFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Scalar)
	v, ok1 := args[1].(Vec)
	if !ok0 || !ok1 || d.Elem != v.Elem || !r.elems.has(v.Elem) || v.Half != (v.Elem == S) || v.Num&^31 != 0 {
		return 0, false
	}
	return r.code | uint32(v.Elem-S)<<22 | v.rn() | uint32(d.Num), d.Num&^31 == 0
}

// pairInteger encodes the sum of the two elements of 64 bits.
func pairInteger(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	d, ok0 := args[0].(Scalar)
	v, ok1 := args[1].(Vec)
	return r.code | v.rn() | uint32(d.Num),
		ok0 && ok1 && d.Elem == D && v.Elem == D && !v.Half && d.Num&^31 == 0 && v.Num&^31 == 0
}
