package asm

// fmaRows are fused multiply-adds and multiply-subtracts.
//
// The columns are mnemonic, operands, opcode, VEX form, EVEX form and displacement unit. An operand has two letters.
// The first is the field of the encoding (r, m, v, b, i, ...). The second is the kind (v is a vector, x has 128 bits, g
// is a general register, ...). A form is a set of vector lengths and flags; 0 stands for a form that does not exist.
// [row] explains all of them.
//
// For example, VFMADD231PS (AX), Y1, Y2 is C4 E2 75 B8 10. Its operands are ModRM.rm (mv), VEX.vvvv (vv) and, for the
// result, ModRM.reg (rv). The prefix is 66, the map 0F38 and the opcode B8.
var fmaRows = []row{
	{"VFMADD132PS", "mv vv rv", p66 | m0F38 | 0x98, to256, to512 | bcst, fullVector},
	{"VFMADD132PD", "mv vv rv", p66 | m0F38 | 0x98, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFMADD132SS", "mx vx rx", p66 | m0F38 | 0x99, len128, len128, bytes4},
	{"VFMADD132SD", "mx vx rx", p66 | m0F38 | 0x99, len128 | w1, len128 | w1, bytes8},
	{"VFMADD213PS", "mv vv rv", p66 | m0F38 | 0xA8, to256, to512 | bcst, fullVector},
	{"VFMADD213PD", "mv vv rv", p66 | m0F38 | 0xA8, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFMADD213SS", "mx vx rx", p66 | m0F38 | 0xA9, len128, len128, bytes4},
	{"VFMADD213SD", "mx vx rx", p66 | m0F38 | 0xA9, len128 | w1, len128 | w1, bytes8},
	{"VFMADD231PS", "mv vv rv", p66 | m0F38 | 0xB8, to256, to512 | bcst, fullVector},
	{"VFMADD231PD", "mv vv rv", p66 | m0F38 | 0xB8, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFMADD231SS", "mx vx rx", p66 | m0F38 | 0xB9, len128, len128, bytes4},
	{"VFMADD231SD", "mx vx rx", p66 | m0F38 | 0xB9, len128 | w1, len128 | w1, bytes8},
	{"VFMSUB132PS", "mv vv rv", p66 | m0F38 | 0x9A, to256, to512 | bcst, fullVector},
	{"VFMSUB132PD", "mv vv rv", p66 | m0F38 | 0x9A, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFMSUB132SS", "mx vx rx", p66 | m0F38 | 0x9B, len128, len128, bytes4},
	{"VFMSUB132SD", "mx vx rx", p66 | m0F38 | 0x9B, len128 | w1, len128 | w1, bytes8},
	{"VFMSUB213PS", "mv vv rv", p66 | m0F38 | 0xAA, to256, to512 | bcst, fullVector},
	{"VFMSUB213PD", "mv vv rv", p66 | m0F38 | 0xAA, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFMSUB213SS", "mx vx rx", p66 | m0F38 | 0xAB, len128, len128, bytes4},
	{"VFMSUB213SD", "mx vx rx", p66 | m0F38 | 0xAB, len128 | w1, len128 | w1, bytes8},
	{"VFMSUB231PS", "mv vv rv", p66 | m0F38 | 0xBA, to256, to512 | bcst, fullVector},
	{"VFMSUB231PD", "mv vv rv", p66 | m0F38 | 0xBA, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFMSUB231SS", "mx vx rx", p66 | m0F38 | 0xBB, len128, len128, bytes4},
	{"VFMSUB231SD", "mx vx rx", p66 | m0F38 | 0xBB, len128 | w1, len128 | w1, bytes8},
	{"VFNMADD132PS", "mv vv rv", p66 | m0F38 | 0x9C, to256, to512 | bcst, fullVector},
	{"VFNMADD132PD", "mv vv rv", p66 | m0F38 | 0x9C, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFNMADD132SS", "mx vx rx", p66 | m0F38 | 0x9D, len128, len128, bytes4},
	{"VFNMADD132SD", "mx vx rx", p66 | m0F38 | 0x9D, len128 | w1, len128 | w1, bytes8},
	{"VFNMADD213PS", "mv vv rv", p66 | m0F38 | 0xAC, to256, to512 | bcst, fullVector},
	{"VFNMADD213PD", "mv vv rv", p66 | m0F38 | 0xAC, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFNMADD213SS", "mx vx rx", p66 | m0F38 | 0xAD, len128, len128, bytes4},
	{"VFNMADD213SD", "mx vx rx", p66 | m0F38 | 0xAD, len128 | w1, len128 | w1, bytes8},
	{"VFNMADD231PS", "mv vv rv", p66 | m0F38 | 0xBC, to256, to512 | bcst, fullVector},
	{"VFNMADD231PD", "mv vv rv", p66 | m0F38 | 0xBC, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFNMADD231SS", "mx vx rx", p66 | m0F38 | 0xBD, len128, len128, bytes4},
	{"VFNMADD231SD", "mx vx rx", p66 | m0F38 | 0xBD, len128 | w1, len128 | w1, bytes8},
	{"VFNMSUB132PS", "mv vv rv", p66 | m0F38 | 0x9E, to256, to512 | bcst, fullVector},
	{"VFNMSUB132PD", "mv vv rv", p66 | m0F38 | 0x9E, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFNMSUB132SS", "mx vx rx", p66 | m0F38 | 0x9F, len128, len128, bytes4},
	{"VFNMSUB132SD", "mx vx rx", p66 | m0F38 | 0x9F, len128 | w1, len128 | w1, bytes8},
	{"VFNMSUB213PS", "mv vv rv", p66 | m0F38 | 0xAE, to256, to512 | bcst, fullVector},
	{"VFNMSUB213PD", "mv vv rv", p66 | m0F38 | 0xAE, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFNMSUB213SS", "mx vx rx", p66 | m0F38 | 0xAF, len128, len128, bytes4},
	{"VFNMSUB213SD", "mx vx rx", p66 | m0F38 | 0xAF, len128 | w1, len128 | w1, bytes8},
	{"VFNMSUB231PS", "mv vv rv", p66 | m0F38 | 0xBE, to256, to512 | bcst, fullVector},
	{"VFNMSUB231PD", "mv vv rv", p66 | m0F38 | 0xBE, to256 | w1, to512 | w1 | bcst, fullVector},
	{"VFNMSUB231SS", "mx vx rx", p66 | m0F38 | 0xBF, len128, len128, bytes4},
	{"VFNMSUB231SD", "mx vx rx", p66 | m0F38 | 0xBF, len128 | w1, len128 | w1, bytes8},
}
