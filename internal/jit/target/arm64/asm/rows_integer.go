package asm

// integerRows are arithmetic, logic and comparisons of integers, element by element.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
var integerRows = []row{
	{"add", same, 0x0E208400, bhsd},
	{"sub", same, 0x2E208400, bhsd},
	{"mul", same, 0x0E209C00, bhs},
	{"mla", same, 0x0E209400, bhs},
	{"mls", same, 0x2E209400, bhs},
	{"addp", same, 0x0E20BC00, bhsd},
	{"cmeq", same, 0x2E208C00, bhsd},
	{"cmge", same, 0x0E203C00, bhsd},
	{"cmgt", same, 0x0E203400, bhsd},
	{"cmhi", same, 0x2E203400, bhsd},
	{"cmhs", same, 0x2E203C00, bhsd},
	{"cmtst", same, 0x0E208C00, bhsd},
	{"smax", same, 0x0E206400, bhs},
	{"smin", same, 0x0E206C00, bhs},
	{"umax", same, 0x2E206400, bhs},
	{"umin", same, 0x2E206C00, bhs},
	{"smaxp", same, 0x0E20A400, bhs},
	{"sminp", same, 0x0E20AC00, bhs},
	{"umaxp", same, 0x2E20A400, bhs},
	{"uminp", same, 0x2E20AC00, bhs},
	{"sshl", same, 0x0E204400, bhsd},
	{"ushl", same, 0x2E204400, bhsd},
	{"sqadd", same, 0x0E200C00, bhsd},
	{"uqadd", same, 0x2E200C00, bhsd},
	{"sqsub", same, 0x0E202C00, bhsd},
	{"uqsub", same, 0x2E202C00, bhsd},
	{"shadd", same, 0x0E200400, bhs},
	{"uhadd", same, 0x2E200400, bhs},
	{"urhadd", same, 0x2E201400, bhs},
	{"sabd", same, 0x0E207400, bhs},
	{"uabd", same, 0x2E207400, bhs},
	{"sqdmulh", same, 0x0E20B400, hs},
	{"sqrdmulh", same, 0x2E20B400, hs},
	{"and", same, 0x0E201C00, eb},
	{"bic", same, 0x0E601C00, eb},
	{"orr", same, 0x0EA01C00, eb},
	{"orn", same, 0x0EE01C00, eb},
	{"eor", same, 0x2E201C00, eb},
	{"bsl", same, 0x2E601C00, eb},
	{"bit", same, 0x2EA01C00, eb},
	{"bif", same, 0x2EE01C00, eb},
	{"abs", unary, 0x0E20B800, bhsd},
	{"neg", unary, 0x2E20B800, bhsd},
	{"not", unary, 0x2E205800, eb},
	{"rbit", unary, 0x2E605800, eb},
	{"cnt", unary, 0x0E205800, eb},
	{"cls", unary, 0x0E204800, bhs},
	{"clz", unary, 0x2E204800, bhs},
	{"rev64", unary, 0x0E200800, bhs},
	{"rev32", unary, 0x2E200800, eb | eh},
	{"rev16", unary, 0x0E201800, eb},
	{"cmeq", versusZero, 0x0E209800, bhsd},
	{"cmge", versusZero, 0x2E208800, bhsd},
	{"cmgt", versusZero, 0x0E208800, bhsd},
	{"cmle", versusZero, 0x2E209800, bhsd},
	{"cmlt", versusZero, 0x0E20A800, bhsd},
}

// same encodes "three registers of the same type": 0 Q U 01110 size 1 Rm opcode 1 Rn Rd. In bitwise operations, whose
// elements are bytes, the field for the size is part of the opcode.
func same(_ *Assembler, r *row, args []Arg) (uint32, bool) {
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

// versusZero encodes comparisons with zero, which the third operand is.
func versusZero(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 || args[2] != Imm(0) {
		return 0, false
	}
	return unary(a, r, args[:2])
}
