package asm

import "math"

// moveRows set vectors to constants, move and convert between vector and general registers, and compute with scalars.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
//
// For example, fadd s0, s1, s2 is 1E222820: the opcode 1E202800, and the registers 2 (Rm), 1 (Rn) and 0 (Rd).
var moveRows = []row{
	{"movi", encodeImmediateBytes, 0x0F00E400, onlyB},
	{"movi", encodeImmediateShifted, 0x0F000400, hs},
	{"mvni", encodeImmediateShifted, 0x2F000400, hs},
	{"movi", encodeImmediateMask, 0x6F00E400, onlyD},
	{"fmov", encodeImmediateFloat, 0x0F00F400, hsd},
	{"fmov", encodeMoveBits, 0x1E260000, hsd},
	{"fcvt", encodePrecision, 0x1E224000, hsd},
	{"fmov", encodeScalarFloat1, 0x1E204000, hsd},
	{"fabs", encodeScalarFloat1, 0x1E20C000, hsd},
	{"fneg", encodeScalarFloat1, 0x1E214000, hsd},
	{"fsqrt", encodeScalarFloat1, 0x1E21C000, hsd},
	{"fadd", encodeScalarFloat2, 0x1E202800, hsd},
	{"fsub", encodeScalarFloat2, 0x1E203800, hsd},
	{"fmul", encodeScalarFloat2, 0x1E200800, hsd},
	{"fdiv", encodeScalarFloat2, 0x1E201800, hsd},
	{"scvtf", encodeFromInteger, 0x1E220000, hsd},
	{"ucvtf", encodeFromInteger, 0x1E230000, hsd},
	{"fcvtzs", encodeToInteger, 0x1E380000, hsd},
	{"fcvtzu", encodeToInteger, 0x1E390000, hsd},
}

// immediateByte puts a byte abcdefgh into two fields: abc in bits 18 to 16, and defgh in bits 9 to 5.
func immediateByte(b uint8) uint32 { return uint32(b>>5)<<16 | uint32(b&31)<<5 }

// constantOf returns the first two operands, and reports whether they are a vector and an integer constant.
func constantOf(args []Arg) (Vec, Imm, bool) {
	if len(args) < 2 {
		return Vec{}, 0, false
	}
	vec, isVec := args[0].(Vec)
	imm, isImm := args[1].(Imm)
	return vec, imm, isVec && isImm && isVectorNumber(vec.Num) && vec.valid()
}

// encodeImmediateBytes encodes 0 Q 00111100000 abc 111001 defgh Rd.
func encodeImmediateBytes(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	vec, imm, ok := constantOf(args)
	return r.code | vec.qBit() | immediateByte(uint8(imm)) | vec.rd(),
		ok && len(args) == 2 && vec.Elem == B && imm == Imm(uint8(imm))
}

// encodeImmediateShifted encodes 0 Q op 0111100000 abc cmode 01 defgh Rd. cmode (bits 15 to 12) has the element size
// and the shift in bytes.
func encodeImmediateShifted(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	vec, imm, ok := constantOf(args)
	shift := Shift(0)
	if len(args) == 3 {
		given, isShift := args[2].(Shift)
		shift, ok = given, ok && isShift
	}
	if !ok || len(args) > 3 || imm != Imm(uint8(imm)) || !r.elems.has(vec.Elem) || shift%8 != 0 || shift < 0 ||
		int(shift) >= 8*vec.Elem.Bytes() {
		return 0, false
	}
	code := r.code | vec.qBit() | immediateByte(uint8(imm)) | vec.rd() | uint32(shift/8)<<13
	if vec.Elem == H {
		code |= 1 << 15 // elements of 16 bits
	}
	return code, true
}

// encodeImmediateMask encodes a constant of 64 bits whose bytes are 0 or 255: 0110111100000 abc 111001 defgh Rd.
func encodeImmediateMask(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	vec, imm, ok := constantOf(args)
	var field uint8
	for i := range 8 {
		switch uint8(imm >> (8 * i)) {
		case 0xFF:
			field |= 1 << i
		case 0:
		default:
			return 0, false
		}
	}
	return r.code | immediateByte(field) | vec.rd(), ok && len(args) == 2 && vec.Elem == D && !vec.Half
}

// encodeImmediateFloat encodes 0 Q op 0111100000 abc 1111 o2 1 defgh Rd. The byte has the sign, three bits of the
// exponent and four bits of the fraction.
func encodeImmediateFloat(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	vec, isVec := args[0].(Vec)
	number, isFloat := args[1].(Float)
	// The magnitude is significand/32 * 2^exponent, with a significand from 16 to 31. The byte has three bits with
	// (exponent-2) modulo 8, and four bits with significand-16.
	fraction, exponent := math.Frexp(math.Abs(float64(number)))
	significand := math.Ldexp(fraction, 5)
	isEncodable := significand == math.Trunc(significand) && significand >= 16 && exponent >= -2 && exponent <= 5
	if !isVec || !isFloat || !isEncodable || !vec.valid() || !isVectorNumber(vec.Num) {
		return 0, false
	}
	field := uint8(significand-16) | (uint8(exponent-2)&7)<<4
	if number < 0 {
		field |= 0x80
	}
	code := r.code | vec.qBit() | immediateByte(field) | vec.rd()
	switch vec.Elem {
	case H: // S has neither bit
		code |= 1 << 11 // o2
	case D:
		code |= 1 << 29 // op
	}
	return code, r.elems.has(vec.Elem)
}

// typeField returns the field ftype: 32, 64 and 16 bits are 0, 1 and 3.
func typeField(e Elem) uint32 { return [...]uint32{H: 3, S: 0, D: 1}[e] << 22 }

// isFloat reports whether a scalar is a floating-point register.
func (s Scalar) isFloat() bool { return s.Elem >= H && s.Elem <= D && isVectorNumber(s.Num) }

// encodeMoveBits encodes moves of bits between a general register and the lowest element of a vector.
func encodeMoveBits(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	if scalar, ok := args[1].(Scalar); ok {
		reg, isReg := args[0].(Reg)
		return r.code | widthFields(reg, scalar) | uint32(scalar.Num)<<5 | reg.num(),
			isReg && scalar.isFloat() && reg.is64() == (scalar.Elem == D)
	}
	scalar, ok := args[0].(Scalar)
	reg, isReg := args[1].(Reg)
	if !ok || !isReg || !scalar.isFloat() {
		return 0, false
	}
	const toVector = 1 << 16
	return r.code | toVector | widthFields(reg, scalar) | reg.num()<<5 | uint32(scalar.Num),
		reg.is64() == (scalar.Elem == D)
}

// widthFields returns the fields sf and ftype, for the widths of two registers. It returns 0 if the scalar is not a
// floating-point register.
func widthFields(reg Reg, scalar Scalar) uint32 {
	if !scalar.isFloat() {
		return 0
	}
	if reg.is64() {
		return 1<<31 | typeField(scalar.Elem)
	}
	return typeField(scalar.Elem)
}

// scalars returns n operands that are floating-point registers. It returns false if there are fewer or other operands.
func scalars(args []Arg, n int) (list [3]Scalar, ok bool) {
	if len(args) != n {
		return list, false
	}
	for i, arg := range args {
		if list[i], ok = arg.(Scalar); !ok || !list[i].isFloat() {
			return list, false
		}
	}
	return list, true
}

// encodePrecision encodes conversions between floating-point types of different widths. Bits 16:15 have the type of the
// result.
func encodePrecision(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	regs, ok := scalars(args, 2)
	if !ok || regs[0].Elem == regs[1].Elem {
		return 0, false
	}
	code := r.code | typeField(regs[1].Elem) | typeField(regs[0].Elem)>>22<<15
	return code | uint32(regs[1].Num)<<5 | uint32(regs[0].Num), true
}

// encodeScalarFloat1 encodes functions of one scalar.
func encodeScalarFloat1(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	regs, ok := scalars(args, 2)
	if !ok || regs[0].Elem != regs[1].Elem {
		return 0, false
	}
	return r.code | typeField(regs[0].Elem) | uint32(regs[1].Num)<<5 | uint32(regs[0].Num), true
}

// encodeScalarFloat2 encodes functions of two scalars.
func encodeScalarFloat2(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	regs, ok := scalars(args, 3)
	if !ok || regs[0].Elem != regs[1].Elem || regs[0].Elem != regs[2].Elem {
		return 0, false
	}
	return r.code | typeField(regs[0].Elem) | uint32(regs[2].Num)<<16 | uint32(regs[1].Num)<<5 | uint32(regs[0].Num), true
}

// encodeFromInteger encodes conversions of a general register to a scalar.
func encodeFromInteger(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	scalar, isScalar := args[0].(Scalar)
	reg, isReg := args[1].(Reg)
	return r.code | widthFields(reg, scalar) | reg.num()<<5 | uint32(scalar.Num), isScalar && isReg && scalar.isFloat()
}

// encodeToInteger encodes conversions of a scalar to a general register.
func encodeToInteger(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	reg, isReg := args[0].(Reg)
	scalar, isScalar := args[1].(Scalar)
	return r.code | widthFields(reg, scalar) | uint32(scalar.Num)<<5 | reg.num(), isReg && isScalar && scalar.isFloat()
}
