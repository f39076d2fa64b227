package asm

// laneRows move elements within and between vectors, and combine the elements of one vector.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row]. The comments of encoders show the 32 bits of
// an instruction with the names of fields that the Arm Architecture Reference Manual uses.
//
// For example, zip1 v0.4s, v1.4s, v2.4s is 4E823820: the opcode 0E003800, bit 30 (Q) for 128 bits, 2 in the field size,
// and the registers 2 (Rm), 1 (Rn) and 0 (Rd).
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

// encodeExtract encodes 0 Q 101110000 Rm 0 imm4 0 Rn Rd. The result is 16 bytes (8 with Q=0) of the concatenation of Rn
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
	dst, ok0 := args[0].(Vec)
	table, ok1 := args[1].(List)
	index, ok2 := args[2].(Vec)
	if !ok0 || !ok1 || !ok2 || dst.Elem != B || index.Elem != B || dst.Half != index.Half || table.Lane >= 0 ||
		table.First.Elem != B || table.First.Half || table.Count < 1 || table.Count > 4 {
		return 0, false
	}
	return r.code | dst.qBit() | index.rm() | uint32(table.Count-1)<<13 | table.First.rn() | dst.rd(), true
}

// imm5Field returns the field imm5, which encodes the element size and the lane. The position of the lowest set bit is
// log2 of the size in bytes; the bits above it are the number of the lane. For example, lane 3 of 4-byte elements is
// 11100.
func imm5Field(elem Elem, index int) (uint32, bool) {
	return uint32(index<<(elem+1)|1<<elem) << 16, elem <= D && index >= 0 && index < 16/elem.Bytes()
}

// encodeDupLane encodes 0 Q 001110000 imm5 000001 Rn Rd.
func encodeDupLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	dst, ok0 := args[0].(Vec)
	lane, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || dst.Elem != lane.Elem || !dst.valid() || lane.Num < 0 || lane.Num > 31 {
		return 0, false
	}
	imm, ok := imm5Field(lane.Elem, lane.Index)
	return r.code | dst.qBit() | imm | uint32(lane.Num)<<5 | dst.rd(), ok
}

// encodeDupRegister encodes 0 Q 001110000 imm5 000011 Rn Rd.
func encodeDupRegister(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	dst, ok0 := args[0].(Vec)
	reg, ok1 := args[1].(Reg)
	if !ok0 || !ok1 || !dst.valid() || reg.is64() != (dst.Elem == D) {
		return 0, false
	}
	imm, ok := imm5Field(dst.Elem, 0)
	return r.code | dst.qBit() | imm | reg.num()<<5 | dst.rd(), ok
}

// encodeInsertLane encodes 01101110000 imm5 0 imm4 1 Rn Rd. imm4 is the lane of the source times the size in bytes.
func encodeInsertLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	dst, ok0 := args[0].(Lane)
	src, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || dst.Elem != src.Elem || !isVectorNumber(dst.Num) || !isVectorNumber(src.Num) {
		return 0, false
	}
	imm, ok := imm5Field(dst.Elem, dst.Index)
	_, okSrc := imm5Field(src.Elem, src.Index)
	return r.code | imm | uint32(src.Index)<<(11+src.Elem) | uint32(src.Num)<<5 | uint32(dst.Num), ok && okSrc
}

// encodeInsertRegister encodes 01001110000 imm5 000111 Rn Rd.
func encodeInsertRegister(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	dst, ok0 := args[0].(Lane)
	reg, ok1 := args[1].(Reg)
	if !ok0 || !ok1 || reg.is64() != (dst.Elem == D) || !isVectorNumber(dst.Num) {
		return 0, false
	}
	imm, ok := imm5Field(dst.Elem, dst.Index)
	return r.code | imm | reg.num()<<5 | uint32(dst.Num), ok
}

// encodeScalarLane encodes 01011110000 imm5 000001 Rn Rd: the element becomes the lowest one, and the rest is zero.
func encodeScalarLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	dst, ok0 := args[0].(Scalar)
	lane, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || dst.Elem != lane.Elem || !isVectorNumber(lane.Num) || !isVectorNumber(dst.Num) {
		return 0, false
	}
	imm, ok := imm5Field(lane.Elem, lane.Index)
	return r.code | imm | uint32(lane.Num)<<5 | uint32(dst.Num), ok
}

// encodeToRegister encodes 0 Q 001110000 imm5 001x11 Rn Rd: moves an element to a general register, zero-extended or
// sign-extended. Q selects a register of 64 bits.
func encodeToRegister(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	reg, ok0 := args[0].(Reg)
	lane, ok1 := args[1].(Lane)
	if !ok0 || !ok1 || !isVectorNumber(lane.Num) || !r.elems.has(lane.Elem) {
		return 0, false
	}
	signed := r.elems == bhs // smov; umov also moves elements of 64 bits
	// The destination of smov has 64 bits for elements of 32 bits, otherwise 32 or 64 bits. The destination of umov has
	// 64 bits for elements of 64 bits, otherwise 32 bits.
	if signed && lane.Elem == S && !reg.is64() || !signed && reg.is64() != (lane.Elem == D) {
		return 0, false
	}
	imm, ok := imm5Field(lane.Elem, lane.Index)
	code := r.code | imm | uint32(lane.Num)<<5 | reg.num()
	if reg.is64() {
		code |= 1 << 30
	}
	return code, ok
}

// encodeAcross encodes 0 Q U 01110 size 11000 opcode 10 Rn Rd. The result of saddlv and uaddlv has twice the width.
func encodeAcross(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	dst, ok0 := args[0].(Scalar)
	src, ok1 := args[1].(Vec)
	width := src.Elem
	if r.code&0x1F000 == 0x3000 { // the opcode of saddlv and uaddlv
		width++
	}
	is2S := src.Elem == S && src.Half // not allowed
	if !ok0 || !ok1 || dst.Elem != width || is2S ||
		!isVectorNumber(src.Num) || !isVectorNumber(dst.Num) {
		return 0, false
	}
	return r.code | src.qBit() | uint32(src.Elem)<<22 | src.rn() | uint32(dst.Num), r.elems.has(src.Elem)
}

// encodeAcrossFloat encodes 01101110 o1 0 11000 opcode 10 Rn Rd: reductions of four single-precision numbers.
func encodeAcrossFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	dst, ok0 := args[0].(Scalar)
	src, ok1 := args[1].(Vec)
	return r.code | src.rn() | uint32(dst.Num),
		ok0 && ok1 && dst.Elem == S && src.Elem == S && !src.Half && isVectorNumber(dst.Num) && isVectorNumber(src.Num)
}

// encodePairFloat encodes 01111110 o1 sz 11000 opcode 10 Rn Rd: reductions of a vector of two elements, 2s or 2d, to a
// scalar.
func encodePairFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	dst, ok0 := args[0].(Scalar)
	src, ok1 := args[1].(Vec)
	if !ok0 || !ok1 || dst.Elem != src.Elem || !r.elems.has(src.Elem) || src.Half != (src.Elem == S) ||
		!isVectorNumber(src.Num) { // only 2s has 8 bytes
		return 0, false
	}
	return r.code | uint32(src.Elem-S)<<22 | src.rn() | uint32(dst.Num), isVectorNumber(dst.Num)
}

// encodePairInteger encodes 0101111011110001101110 Rn Rd: the sum of the two elements of 64 bits.
func encodePairInteger(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	dst, ok0 := args[0].(Scalar)
	src, ok1 := args[1].(Vec)
	return r.code | src.rn() | uint32(dst.Num),
		ok0 && ok1 && dst.Elem == D && src.Elem == D && !src.Half && isVectorNumber(dst.Num) && isVectorNumber(src.Num)
}
