package asm

// dotRows are dot products of bytes, half-precision numbers and bfloat16, and matrix products of 2 rows by 2 columns.
// Each adds to elements of 32 bits. sdot and udot belong to the extension DotProd, other instructions on bytes to I8MM,
// bf* to BF16, and fml* to FHM.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
//
// For example, sdot v0.4s, v1.16b, v2.16b is 4E829420: the opcode 0E809400, bit 30 (Q) for 128 bits, and the registers
// 2 (Rm), 1 (Rn) and 0 (Rd).
var dotRows = []row{
	{"sdot", encodeDot, 0x0E809400, onlyB},
	{"udot", encodeDot, 0x2E809400, onlyB},
	{"usdot", encodeDot, 0x0E809C00, onlyB},
	{"bfdot", encodeDot, 0x2E40FC00, onlyH},
	{"sdot", encodeDotLane, 0x0F80E000, onlyB},
	{"udot", encodeDotLane, 0x2F80E000, onlyB},
	{"usdot", encodeDotLane, 0x0F80F000, onlyB},
	{"sudot", encodeDotLane, 0x0F00F000, onlyB},
	{"bfdot", encodeDotLane, 0x0F40F000, onlyH},
	{"smmla", encodeMatrix, 0x4E80A400, onlyB},
	{"ummla", encodeMatrix, 0x6E80A400, onlyB},
	{"usmmla", encodeMatrix, 0x4E80AC00, onlyB},
	{"bfmmla", encodeMatrix, 0x6E40EC00, onlyH},
	{"fmlal", encodeHalves, 0x0E20EC00, onlyH},
	{"fmlal2", encodeHalves, 0x2E20CC00, onlyH},
	{"fmlsl", encodeHalves, 0x0EA0EC00, onlyH},
	{"fmlsl2", encodeHalves, 0x2EA0CC00, onlyH},
}

// encodeDot encodes dot products of 4 bytes or 2 half-words for each element of 32 bits.
func encodeDot(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 3)
	return r.code | v[0].qBit() | v[2].rm() | v[1].rn() | v[0].rd(),
		ok && v[0].Elem == S && v[1] == v[1].asDotOperand(v[0], r) && v[2] == v[2].asDotOperand(v[0], r)
}

// asDotOperand returns v with the arrangement that r requires: the element type of r (B or H), and the length of sum.
// A valid operand equals its asDotOperand.
func (v Vec) asDotOperand(sum Vec, r *row) Vec {
	elem := B
	if r.elems.has(H) {
		elem = H
	}
	return Vec{Num: v.Num, Elem: elem, Half: sum.Half}
}

// encodeDotLane encodes dot products with one group of 32 bits of the last operand.
func encodeDotLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	vecs, ok := vectors(args[:2], 2)
	lane, isLane := args[2].(Lane)
	if !ok || !isLane || vecs[0].Elem != S || vecs[1] != vecs[1].asDotOperand(vecs[0], r) || lane.Elem != vecs[1].Elem ||
		lane.Group != 4/lane.Elem.Bytes() {
		return 0, false
	}
	field, ok := laneField(Lane{Num: lane.Num, Elem: S, Index: lane.Index})
	return r.code | vecs[0].qBit() | field | vecs[1].rn() | vecs[0].rd(), ok
}

// encodeMatrix encodes the product of a matrix and the transpose of a second matrix. Each matrix has 2 rows of 8 bytes,
// or of 4 elements of 16 bits.
func encodeMatrix(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 3)
	return r.code | v[2].rm() | v[1].rn() | v[0].rd(), ok && v[0].Elem == S && !v[0].Half &&
		v[1] == v[1].asDotOperand(v[0], r) && v[2] == v[2].asDotOperand(v[0], r)
}

// encodeHalves encodes products of half-precision numbers that are added to single-precision numbers without rounding
// in between. Operands have half the bytes of the result.
func encodeHalves(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	dst, ok0 := args[0].(Vec)
	left, ok1 := args[1].(HalfPrecision)
	right, ok2 := args[2].(HalfPrecision)
	return r.code | dst.qBit() | uint32(right.Num)<<16 | uint32(left.Num)<<5 | dst.rd(),
		ok0 && ok1 && ok2 && dst.Elem == S && left.LowTwo == dst.Half && right.LowTwo == dst.Half &&
			isVectorNumber(dst.Num) && isVectorNumber(left.Num) && isVectorNumber(right.Num)
}
