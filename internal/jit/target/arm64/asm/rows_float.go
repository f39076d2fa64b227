package asm

// floatRows are arithmetic, comparisons and conversions of floating-point numbers, element by element.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
//
// For example, fadd v0.4s, v1.4s, v2.4s is 4E22D420: the opcode 0E20D400, bit 30 (Q) for 128 bits, and the registers 2
// (Rm), 1 (Rn) and 0 (Rd).
var floatRows = []row{
	{"fadd", encodeSameFloat, 0x0E20D400, hsd},
	{"fsub", encodeSameFloat, 0x0EA0D400, hsd},
	{"fmul", encodeSameFloat, 0x2E20DC00, hsd},
	{"fdiv", encodeSameFloat, 0x2E20FC00, hsd},
	{"fmax", encodeSameFloat, 0x0E20F400, hsd},
	{"fmin", encodeSameFloat, 0x0EA0F400, hsd},
	{"fmaxnm", encodeSameFloat, 0x0E20C400, hsd},
	{"fminnm", encodeSameFloat, 0x0EA0C400, hsd},
	{"fmla", encodeSameFloat, 0x0E20CC00, hsd},
	{"fmls", encodeSameFloat, 0x0EA0CC00, hsd},
	{"fabd", encodeSameFloat, 0x2EA0D400, hsd},
	{"fmulx", encodeSameFloat, 0x0E20DC00, hsd},
	{"frecps", encodeSameFloat, 0x0E20FC00, hsd},
	{"frsqrts", encodeSameFloat, 0x0EA0FC00, hsd},
	{"fcmeq", encodeSameFloat, 0x0E20E400, hsd},
	{"fcmge", encodeSameFloat, 0x2E20E400, hsd},
	{"fcmgt", encodeSameFloat, 0x2EA0E400, hsd},
	{"facge", encodeSameFloat, 0x2E20EC00, hsd},
	{"facgt", encodeSameFloat, 0x2EA0EC00, hsd},
	{"faddp", encodeSameFloat, 0x2E20D400, hsd},
	{"fmaxp", encodeSameFloat, 0x2E20F400, hsd},
	{"fminp", encodeSameFloat, 0x2EA0F400, hsd},
	{"fmaxnmp", encodeSameFloat, 0x2E20C400, hsd},
	{"fminnmp", encodeSameFloat, 0x2EA0C400, hsd},
	{"fabs", encodeUnaryFloat, 0x0EA0F800, hsd},
	{"fneg", encodeUnaryFloat, 0x2EA0F800, hsd},
	{"fsqrt", encodeUnaryFloat, 0x2EA1F800, hsd},
	{"frintn", encodeUnaryFloat, 0x0E218800, hsd},
	{"frintm", encodeUnaryFloat, 0x0E219800, hsd},
	{"frintp", encodeUnaryFloat, 0x0EA18800, hsd},
	{"frintz", encodeUnaryFloat, 0x0EA19800, hsd},
	{"frinta", encodeUnaryFloat, 0x2E218800, hsd},
	{"frintx", encodeUnaryFloat, 0x2E219800, hsd},
	{"frinti", encodeUnaryFloat, 0x2EA19800, hsd},
	{"frecpe", encodeUnaryFloat, 0x0EA1D800, hsd},
	{"frsqrte", encodeUnaryFloat, 0x2EA1D800, hsd},
	{"fcvtzs", encodeUnaryFloat, 0x0EA1B800, hsd},
	{"fcvtzu", encodeUnaryFloat, 0x2EA1B800, hsd},
	{"fcvtns", encodeUnaryFloat, 0x0E21A800, hsd},
	{"fcvtms", encodeUnaryFloat, 0x0E21B800, hsd},
	{"fcvtps", encodeUnaryFloat, 0x0EA1A800, hsd},
	{"fcvtas", encodeUnaryFloat, 0x0E21C800, hsd},
	{"scvtf", encodeUnaryFloat, 0x0E21D800, hsd},
	{"ucvtf", encodeUnaryFloat, 0x2E21D800, hsd},
	{"fcmeq", encodeCompareZeroFloat, 0x0EA0D800, hsd},
	{"fcmge", encodeCompareZeroFloat, 0x2EA0C800, hsd},
	{"fcmgt", encodeCompareZeroFloat, 0x0EA0C800, hsd},
	{"fcmle", encodeCompareZeroFloat, 0x2EA0D800, hsd},
	{"fcmlt", encodeCompareZeroFloat, 0x0EA0E800, hsd},
	{"fmul", encodeByLane, 0x0F809000, hsd},
	{"fmla", encodeByLane, 0x0F801000, hsd},
	{"fmls", encodeByLane, 0x0F805000, hsd},
}

// encodeSameFloat encodes "three registers of the same type" with floating-point elements. U and x belong to the
// opcode, and sz is bit 22:
//
//	float32, float64   0 Q U 01110 x sz 1 Rm 11 opcode 1 Rn Rd
//	half precision     0 Q U 01110 x 1  0 Rm 00 opcode 1 Rn Rd
//
// The field Half of a vector selects the low 64 bits of the register, not half precision.
func encodeSameFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	vecs, ok := vectors(args, 3)
	if !ok || vecs[0].Elem != vecs[1].Elem || vecs[0].Elem != vecs[2].Elem ||
		vecs[0].Half != vecs[1].Half || vecs[0].Half != vecs[2].Half {
		return 0, false
	}
	code := r.code | vecs[0].qBit() | vecs[2].rm() | vecs[1].rn() | vecs[0].rd()
	switch vecs[0].Elem {
	case H:
		code = code&^(1<<21|1<<15|1<<14) | 1<<22 // "sz 1 Rm 11" becomes "10 Rm 00"
	case D:
		code |= 1 << 22
	}
	return code, vecs[0].valid() && r.elems.has(vecs[0].Elem)
}

// encodeUnaryFloat encodes "two-register miscellaneous" with floating-point elements:
//
//	float32, float64   0 Q U 01110 x sz 10000 opcode 10 Rn Rd
//	half precision     0 Q U 01110 x 1  11100 opcode 10 Rn Rd
func encodeUnaryFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	vecs, ok := vectors(args, 2)
	if !ok || vecs[0].Elem != vecs[1].Elem || vecs[0].Half != vecs[1].Half {
		return 0, false
	}
	code := r.code | vecs[0].qBit() | vecs[1].rn() | vecs[0].rd()
	switch vecs[0].Elem {
	case H:
		code |= 1<<22 | 1<<20 | 1<<19 // "sz 10000" becomes "111100"
	case D:
		code |= 1 << 22
	}
	return code, vecs[0].valid() && r.elems.has(vecs[0].Elem)
}

// encodeCompareZeroFloat encodes comparisons whose third operand is the constant 0.
func encodeCompareZeroFloat(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 || args[2] != Float(0) {
		return 0, false
	}
	return encodeUnaryFloat(a, r, args[:2])
}

// encodeByLane encodes "vector by element": 0 Q U 01111 size L M Rm opcode H 0 Rn Rd. size is 0 for elements of 16
// bits, 2 for 32 bits (as in the rows), and 3 for 64 bits. The index of the lane is in H:L:M for elements of 16 bits,
// in H:L for 32 bits, and in H for 64 bits. Rm has four bits for elements of 16 bits. The lane must be a single element
// (Group 0).
func encodeByLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	vecs, ok := vectors(args[:2], 2)
	lane, isLane := args[2].(Lane)
	if !ok || !isLane || vecs[0].Elem != vecs[1].Elem || vecs[0].Elem != lane.Elem ||
		vecs[0].Half != vecs[1].Half || lane.Group != 0 {
		return 0, false
	}
	field, ok := laneField(lane)
	code := r.code | vecs[0].qBit() | field | vecs[1].rn() | vecs[0].rd()
	switch lane.Elem {
	case H:
		code &^= 1 << 23
	case D:
		code |= 1 << 22
	}
	return code, ok && vecs[0].valid() && r.elems.has(lane.Elem)
}

// laneField returns the fields H (bit 11), L (bit 21), M (bit 20) and Rm (bits 16 to 20). M is the high bit of Rm if
// elements have more than 16 bits.
func laneField(lane Lane) (uint32, bool) {
	index, rm := uint32(lane.Index), uint32(lane.Num)
	if lane.Index < 0 || lane.Index >= 16/lane.Elem.Bytes() || lane.Num < 0 || lane.Num > 31 {
		return 0, false
	}
	switch lane.Elem {
	case H:
		return index>>2<<11 | index>>1&1<<21 | index&1<<20 | rm<<16, rm < 16
	case S:
		return index>>1<<11 | index&1<<21 | rm<<16, true
	case D:
		return index<<11 | rm<<16, true
	}
	return 0, false
}
