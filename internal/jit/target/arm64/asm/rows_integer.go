package asm

// integerRows are arithmetic, logic and comparisons of integers, element by element.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row]. Of several rows with a mnemonic, the first
// one that accepts the operands is used. 0x0E... and 0x2E... differ in the bit U, which selects between two operations,
// often signed (0) and unsigned (1).
//
// For example, add v0.4s, v1.4s, v2.4s is 4EA28420: the opcode 0E208400, bit 30 (Q) for 128 bits, 2 in the field size,
// and the registers 2 (Rm), 1 (Rn) and 0 (Rd).
var integerRows = []row{
	{"add", encodeSameArrangement, 0x0E208400, bhsd},
	{"sub", encodeSameArrangement, 0x2E208400, bhsd},
	{"mul", encodeSameArrangement, 0x0E209C00, bhs},
	{"mla", encodeSameArrangement, 0x0E209400, bhs},
	{"mls", encodeSameArrangement, 0x2E209400, bhs},
	{"addp", encodeSameArrangement, 0x0E20BC00, bhsd},
	{"cmeq", encodeSameArrangement, 0x2E208C00, bhsd},
	{"cmge", encodeSameArrangement, 0x0E203C00, bhsd},
	{"cmgt", encodeSameArrangement, 0x0E203400, bhsd},
	{"cmhi", encodeSameArrangement, 0x2E203400, bhsd},
	{"cmhs", encodeSameArrangement, 0x2E203C00, bhsd},
	{"cmtst", encodeSameArrangement, 0x0E208C00, bhsd},
	{"smax", encodeSameArrangement, 0x0E206400, bhs},
	{"smin", encodeSameArrangement, 0x0E206C00, bhs},
	{"umax", encodeSameArrangement, 0x2E206400, bhs},
	{"umin", encodeSameArrangement, 0x2E206C00, bhs},
	{"smaxp", encodeSameArrangement, 0x0E20A400, bhs},
	{"sminp", encodeSameArrangement, 0x0E20AC00, bhs},
	{"umaxp", encodeSameArrangement, 0x2E20A400, bhs},
	{"uminp", encodeSameArrangement, 0x2E20AC00, bhs},
	{"sshl", encodeSameArrangement, 0x0E204400, bhsd},
	{"ushl", encodeSameArrangement, 0x2E204400, bhsd},
	{"sqadd", encodeSameArrangement, 0x0E200C00, bhsd},
	{"uqadd", encodeSameArrangement, 0x2E200C00, bhsd},
	{"sqsub", encodeSameArrangement, 0x0E202C00, bhsd},
	{"uqsub", encodeSameArrangement, 0x2E202C00, bhsd},
	{"shadd", encodeSameArrangement, 0x0E200400, bhs},
	{"uhadd", encodeSameArrangement, 0x2E200400, bhs},
	{"urhadd", encodeSameArrangement, 0x2E201400, bhs},
	{"sabd", encodeSameArrangement, 0x0E207400, bhs},
	{"uabd", encodeSameArrangement, 0x2E207400, bhs},
	{"sqdmulh", encodeSameArrangement, 0x0E20B400, hs},
	{"sqrdmulh", encodeSameArrangement, 0x2E20B400, hs},
	{"and", encodeSameArrangement, 0x0E201C00, onlyB},
	{"bic", encodeSameArrangement, 0x0E601C00, onlyB},
	{"orr", encodeSameArrangement, 0x0EA01C00, onlyB},
	{"orn", encodeSameArrangement, 0x0EE01C00, onlyB},
	{"eor", encodeSameArrangement, 0x2E201C00, onlyB},
	{"bsl", encodeSameArrangement, 0x2E601C00, onlyB},
	{"bit", encodeSameArrangement, 0x2EA01C00, onlyB},
	{"bif", encodeSameArrangement, 0x2EE01C00, onlyB},
	{"abs", encodeUnary, 0x0E20B800, bhsd},
	{"neg", encodeUnary, 0x2E20B800, bhsd},
	{"not", encodeUnary, 0x2E205800, onlyB},
	{"rbit", encodeUnary, 0x2E605800, onlyB},
	{"cnt", encodeUnary, 0x0E205800, onlyB},
	{"cls", encodeUnary, 0x0E204800, bhs},
	{"clz", encodeUnary, 0x2E204800, bhs},
	{"rev64", encodeUnary, 0x0E200800, bhs},
	{"rev32", encodeUnary, 0x2E200800, onlyB | onlyH},
	{"rev16", encodeUnary, 0x0E201800, onlyB},
	{"cmeq", encodeCompareZero, 0x0E209800, bhsd},
	{"cmge", encodeCompareZero, 0x2E208800, bhsd},
	{"cmgt", encodeCompareZero, 0x0E208800, bhsd},
	{"cmle", encodeCompareZero, 0x2E209800, bhsd},
	{"cmlt", encodeCompareZero, 0x0E20A800, bhsd},
}

// encodeSameArrangement encodes "three registers of the same type": 0 Q U 01110 size 1 Rm opcode 1 Rn Rd. In bitwise
// operations, whose elements are bytes (B is 0), the field for the size is part of the opcode.
func encodeSameArrangement(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 3)
	if !ok || !v[0].sameArrangement(v[1]) || !v[0].sameArrangement(v[2]) {
		return 0, false
	}
	return r.code | v[0].qBit() | uint32(v[0].Elem)<<22 | v[2].rm() | v[1].rn() | v[0].rd(),
		v[0].valid() && r.elems.has(v[0].Elem)
}

// sameArrangement reports whether two vectors have the same kind and number of elements.
func (v Vec) sameArrangement(other Vec) bool { return v.Elem == other.Elem && v.Half == other.Half }

// encodeUnary encodes "two-register miscellaneous": 0 Q U 01110 size 10000 opcode 10 Rn Rd.
func encodeUnary(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 2)
	if !ok || !v[0].sameArrangement(v[1]) {
		return 0, false
	}
	return r.code | v[0].qBit() | uint32(v[0].Elem)<<22 | v[1].rn() | v[0].rd(), v[0].valid() && r.elems.has(v[0].Elem)
}

// encodeCompareZero encodes comparisons of the second operand with the third, which is zero.
func encodeCompareZero(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 || args[2] != Imm(0) {
		return 0, false
	}
	return encodeUnary(a, r, args[:2])
}
