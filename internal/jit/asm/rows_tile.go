package asm

// tileRows are the matrix unit's: tiles are configured, loaded, stored and multiplied. Of a product the operands are
// the second factor, the first, and the sums. Without an index the lines of memory have no distance from one another.
var tileRows = []row{
	{"LDTILECFG", "Mv", m0F38 | 0x49, lx, 0, full},
	{"TILERELEASE", "", m0F38 | 0x49 | fixed, lx, 0, full},
	{"TILEZERO", "rt", pF2 | m0F38 | 0x49 | fixed, lx, 0, full},
	{"TILELOADD", "Bv rt", pF2 | m0F38 | 0x4B, lx, 0, full},
	{"TILESTORED", "rt Bv", pF3 | m0F38 | 0x4B, lx, 0, full},
	{"TDPBUSD", "vt bt rt", p66 | m0F38 | 0x5E, lx, 0, full},
}
