package asm

// integerRows are arithmetic, logic and comparisons of integers, element by element.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
var integerRows = []row{
	{"add", sameArrangement, 0x0E208400, bhsd},
	{"sub", sameArrangement, 0x2E208400, bhsd},
	{"mul", sameArrangement, 0x0E209C00, bhs},
	{"mla", sameArrangement, 0x0E209400, bhs},
	{"mls", sameArrangement, 0x2E209400, bhs},
	{"addp", sameArrangement, 0x0E20BC00, bhsd},
	{"cmeq", sameArrangement, 0x2E208C00, bhsd},
	{"cmge", sameArrangement, 0x0E203C00, bhsd},
	{"cmgt", sameArrangement, 0x0E203400, bhsd},
	{"cmhi", sameArrangement, 0x2E203400, bhsd},
	{"cmhs", sameArrangement, 0x2E203C00, bhsd},
	{"cmtst", sameArrangement, 0x0E208C00, bhsd},
	{"smax", sameArrangement, 0x0E206400, bhs},
	{"smin", sameArrangement, 0x0E206C00, bhs},
	{"umax", sameArrangement, 0x2E206400, bhs},
	{"umin", sameArrangement, 0x2E206C00, bhs},
	{"smaxp", sameArrangement, 0x0E20A400, bhs},
	{"sminp", sameArrangement, 0x0E20AC00, bhs},
	{"umaxp", sameArrangement, 0x2E20A400, bhs},
	{"uminp", sameArrangement, 0x2E20AC00, bhs},
	{"sshl", sameArrangement, 0x0E204400, bhsd},
	{"ushl", sameArrangement, 0x2E204400, bhsd},
	{"sqadd", sameArrangement, 0x0E200C00, bhsd},
	{"uqadd", sameArrangement, 0x2E200C00, bhsd},
	{"sqsub", sameArrangement, 0x0E202C00, bhsd},
	{"uqsub", sameArrangement, 0x2E202C00, bhsd},
	{"shadd", sameArrangement, 0x0E200400, bhs},
	{"uhadd", sameArrangement, 0x2E200400, bhs},
	{"urhadd", sameArrangement, 0x2E201400, bhs},
	{"sabd", sameArrangement, 0x0E207400, bhs},
	{"uabd", sameArrangement, 0x2E207400, bhs},
	{"sqdmulh", sameArrangement, 0x0E20B400, hs},
	{"sqrdmulh", sameArrangement, 0x2E20B400, hs},
	{"and", sameArrangement, 0x0E201C00, onlyB},
	{"bic", sameArrangement, 0x0E601C00, onlyB},
	{"orr", sameArrangement, 0x0EA01C00, onlyB},
	{"orn", sameArrangement, 0x0EE01C00, onlyB},
	{"eor", sameArrangement, 0x2E201C00, onlyB},
	{"bsl", sameArrangement, 0x2E601C00, onlyB},
	{"bit", sameArrangement, 0x2EA01C00, onlyB},
	{"bif", sameArrangement, 0x2EE01C00, onlyB},
	{"abs", unary, 0x0E20B800, bhsd},
	{"neg", unary, 0x2E20B800, bhsd},
	{"not", unary, 0x2E205800, onlyB},
	{"rbit", unary, 0x2E605800, onlyB},
	{"cnt", unary, 0x0E205800, onlyB},
	{"cls", unary, 0x0E204800, bhs},
	{"clz", unary, 0x2E204800, bhs},
	{"rev64", unary, 0x0E200800, bhs},
	{"rev32", unary, 0x2E200800, onlyB | onlyH},
	{"rev16", unary, 0x0E201800, onlyB},
	{"cmeq", versusZero, 0x0E209800, bhsd},
	{"cmge", versusZero, 0x2E208800, bhsd},
	{"cmgt", versusZero, 0x0E208800, bhsd},
	{"cmle", versusZero, 0x2E209800, bhsd},
	{"cmlt", versusZero, 0x0E20A800, bhsd},
}

// sameArrangement encodes "three registers of the same type": 0 Q U 01110 size 1 Rm opcode 1 Rn Rd. In bitwise
// operations, whose elements are bytes, the field for the size is part of the opcode.
func sameArrangement(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 3)
	if !ok || v[0].Elem != v[1].Elem || v[0].Elem != v[2].Elem || v[0].Half != v[1].Half || v[0].Half != v[2].Half {
		return 0, false
	}
	return r.code | v[0].q() | uint32(v[0].Elem)<<22 | v[2].rm() | v[1].rn() | v[0].rd(),
		v[0].valid() && r.elems.has(v[0].Elem)
}

// unary encodes "two-register miscellaneous": 0 Q U 01110 size 10000 opcode 10 Rn Rd.
func unary(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	v, ok := vectors(args, 2)
	if !ok || v[0].Elem != v[1].Elem || v[0].Half != v[1].Half {
		return 0, false
	}
	return r.code | v[0].q() | uint32(v[0].Elem)<<22 | v[1].rn() | v[0].rd(), v[0].valid() && r.elems.has(v[0].Elem)
}

// versusZero encodes comparisons of the second operand with the third, which is zero.
func versusZero(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 || args[2] != Imm(0) {
		return 0, false
	}
	return unary(a, r, args[:2])
}
