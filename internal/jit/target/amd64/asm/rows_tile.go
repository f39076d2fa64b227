package asm

// tileRows are the instructions of the matrix unit, which configure, load, store and multiply tiles. The operands of a
// product are the second factor, the first factor, and the sums. For a memory operand without an index, the distance
// between the rows of a tile is 0.
//
// The columns are mnemonic, operands, opcode, VEX form, EVEX form and displacement unit. An operand has two letters.
// The first is the field of the encoding (r, m, v, b, i, ...). The second is the kind (v is a vector, x has 128 bits, g
// is a general register, ...). A form is a set of vector lengths and flags; 0 stands for a form that does not exist.
// [row] explains all of them.
var tileRows = []row{
	{"LDTILECFG", "Mv", m0F38 | 0x49, len128, 0, fullVector},
	{"TILERELEASE", "", m0F38 | 0x49 | noOperandRM, len128, 0, fullVector},
	{"TILEZERO", "rt", pF2 | m0F38 | 0x49 | noOperandRM, len128, 0, fullVector},
	{"TILELOADD", "Bv rt", pF2 | m0F38 | 0x4B, len128, 0, fullVector},
	{"TILESTORED", "rt Bv", pF3 | m0F38 | 0x4B, len128, 0, fullVector},
	{"TDPBUSD", "vt bt rt", p66 | m0F38 | 0x5E, len128, 0, fullVector},
}
