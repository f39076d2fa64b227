package asm

// memoryRows are loads, stores and prefetches. In single loads and stores, bits 31:30 and 23:22 have the width and the
// direction.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row]. An element has 1, 2, 4, 8 or 16 bytes: B, H,
// S, D or Q, which are the numbers 0 to 4 (the logarithm of the bytes). The sets of sizes are named after their
// members, such as bhsd and onlyB. Register number 31 is SP as a base, and elsewhere the register whose value is zero.
// num returns more than 31 for an invalid register.
//
// The comments of the encoders list the fields of an instruction, from the highest bit to the lowest. In them, x is the
// bit that depends on the kind of address: countedOffset or updatesBase.
//
// For example, ldr x0, [x1, #16] is F9400820: the opcode F9400000, an offset of 2 elements of 8 bytes, and the
// registers 1 (Rn) and 0 (Rt).
var memoryRows = []row{
	{"ldr", encodeAccess, 0xF9400000, onlyD}, {"str", encodeAccess, 0xF9000000, onlyD},
	{"ldrb", encodeNarrowAccess, 0x39400000, onlyB}, {"strb", encodeNarrowAccess, 0x39000000, onlyB},
	{"ldrh", encodeNarrowAccess, 0x79400000, onlyH}, {"strh", encodeNarrowAccess, 0x79000000, onlyH},
	{"ldrsb", encodeSignedAccess, 0x39800000, onlyB},
	{"ldrsh", encodeSignedAccess, 0x79800000, onlyH},
	{"ldrsw", encodeSignedAccess, 0xB9800000, onlyS},
	{"ldr", encodeLiteral, 0x18000000, sdq},
	{"ldp", encodeAccessPair, 0x28400000, sdq},
	{"stp", encodeAccessPair, 0x28000000, sdq},
	{"ld1", encodeAccessList, 0x0C407000, bhsd}, {"st1", encodeAccessList, 0x0C007000, bhsd},
	{"ld2", encodeInterleaved, 0x0C408000, bhsd}, {"st2", encodeInterleaved, 0x0C008000, bhsd},
	{"ld3", encodeInterleaved, 0x0C404000, bhsd}, {"st3", encodeInterleaved, 0x0C004000, bhsd},
	{"ld4", encodeInterleaved, 0x0C400000, bhsd}, {"st4", encodeInterleaved, 0x0C000000, bhsd},
	{"ld1", encodeAccessLane, 0x0D400000, bhsd}, {"st1", encodeAccessLane, 0x0D000000, bhsd},
	{"ld1r", encodeBroadcast, 0x0D40C000, bhsd},
	{"prfm", encodePrefetch, 0xF9800000, onlyD},
}

// vectorBit (V) selects vector registers instead of general ones.
const vectorBit = 1 << 26

// baseField returns the field with the number of the base register, and reports whether the register is valid.
func (m Mem) baseField() (uint32, bool) {
	return m.Base.num() << 5, m.Base.is64() && m.Base.num() <= 31
}

// overwrites reports whether the access updates its base register and the base register is r. The architecture does not
// define the result of a load or store of r with such an access.
func (m Mem) overwrites(r Reg) bool {
	const spOrZero = 31 // the base is SP and r is the register whose value is zero: they differ
	return m.Mode != Offset && m.Base.num() == r.num() && r.num() != spOrZero
}

// countedOffset is the bit of an access that selects an offset counted in elements. The opcodes in memoryRows contain
// it if their encoder calls addressFields, which clears it for other kinds of address.
const countedOffset = 1 << 24

// addressFields returns code, an opcode with countedOffset, with the fields of the address of an access to one element.
// It reports whether the address can be encoded. An address is of one of three kinds: an index, an unsigned 12-bit
// offset counted in elements, or a signed 9-bit offset in bytes (with or without update of the base).
func (m Mem) addressFields(code uint32, elem Elem) (uint32, bool) {
	base, ok := m.baseField()
	if !ok {
		return 0, false
	}
	size := elem.Bytes()
	fitsCounted := m.Offset >= 0 && m.Offset%size == 0 && m.Offset/size < 1<<12
	switch {
	case m.HasIndex:
		field, ok := m.indexFields(elem)
		return code&^countedOffset | field | base, ok
	case m.Mode == Offset && fitsCounted:
		return code | uint32(m.Offset/size)<<10 | base, true
	case m.Offset >= -256 && m.Offset < 256:
		mode := [...]uint32{Offset: 0, PostIndex: 1, PreIndex: 3}[m.Mode]
		return code&^countedOffset | uint32(m.Offset)&0x1FF<<12 | mode<<10 | base, true
	}
	return 0, false
}

// indexFields returns the fields of an index, which counts bytes or elements.
func (m Mem) indexFields(elem Elem) (field uint32, ok bool) {
	const indexed = 1<<21 | 0b011<<13 | 0b10<<10 // an index that is shifted to the left
	field = indexed | m.Index.num()<<16
	if m.Shift > 0 {
		field |= 1 << 12 // S: the index counts elements
	}
	isRegister := m.Index.is64() && m.Index.num() <= 31
	canShift := m.Shift == 0 || m.Shift == int(elem)
	return field, m.Mode == Offset && m.Offset == 0 && isRegister && canShift
}

// memoryOperand returns the address of an access, which is its second operand.
func memoryOperand(args []Arg) (mem Mem, ok bool) {
	if len(args) != 2 {
		return mem, false
	}
	mem, ok = args[1].(Mem)
	return mem, ok
}

// encodeAccess encodes loads and stores of general registers and scalars: size 111 V 0 x opc, the address, Rt.
func encodeAccess(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	mem, ok := memoryOperand(args)
	if !ok {
		return 0, false
	}
	switch operand := args[0].(type) {
	case Reg:
		code, elem := r.code, D
		if !operand.is64() { // bit 30 selects 64 bits
			code, elem = code&^(1<<30), S
		}
		word, ok := mem.addressFields(code, elem)
		return word | operand.num(), ok && operand.num() <= 31 && !mem.overwrites(operand)
	case Scalar:
		if !isVectorNumber(operand.Num) || operand.Elem > Q {
			return 0, false
		}
		code := r.code&^(3<<30) | vectorBit | uint32(operand.Elem&3)<<30 // bits 31:30: the size
		if operand.Elem == Q {                                           // encoded as B (the size 0) with bit 23
			code |= 1 << 23
		}
		word, ok := mem.addressFields(code, operand.Elem)
		return word | uint32(operand.Num), ok
	}
	return 0, false
}

// encodeNarrowAccess encodes loads and stores of the low bits of a general register of 32 bits.
func encodeNarrowAccess(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	const is64 = false
	return encodeExtending(r, args, is64)
}

// encodeSignedAccess encodes loads that extend the sign to 64 bits.
func encodeSignedAccess(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	const is64 = true
	return encodeExtending(r, args, is64)
}

// encodeExtending encodes an access to an element of the row's only size, and a general register of 32 or 64 bits.
func encodeExtending(r *row, args []Arg, is64 bool) (uint32, bool) {
	mem, ok := memoryOperand(args)
	if !ok {
		return 0, false
	}
	reg, isReg := args[0].(Reg)
	elem := B
	for !r.elems.has(elem) {
		elem++
	}
	word, ok := mem.addressFields(r.code, elem)
	return word | reg.num(), ok && isReg && reg.num() <= 31 && reg.is64() == is64 && !mem.overwrites(reg)
}

// encodeLiteral encodes loads of a constant from the memory after the code (literal pool): opc 011 V 00 imm19 Rt. The
// distance imm19 is filled in when the address of the constant is known.
func encodeLiteral(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	constant, ok := args[1].(ConstantAddr)
	if !ok {
		return 0, false
	}
	code := r.code
	switch operand := args[0].(type) {
	case Scalar:
		if !isVectorNumber(operand.Num) || operand.Elem < S || operand.Elem > Q {
			return 0, false
		}
		code |= vectorBit | uint32(operand.Elem-S)<<30 | uint32(operand.Num)
	case Reg:
		if operand.num() > 31 {
			return 0, false
		}
		code |= operand.num()
		if operand.is64() {
			code |= 1 << 30
		}
	default:
		return 0, false
	}
	a.constantRefs = append(a.constantRefs, constantRef{len(a.code), constant.offset})
	return code, true
}

// encodeAccessPair encodes loads and stores of two registers: opc 101 V mode L imm7 Rt2 Rn Rt.
func encodeAccessPair(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	mem, ok := args[2].(Mem)
	base, baseIsValid := mem.baseField()
	if !ok || !baseIsValid || mem.HasIndex {
		return 0, false
	}
	pairFields := generalPair
	if _, isScalar := args[0].(Scalar); isScalar {
		pairFields = scalarPair
	}
	isLoad := r.code>>22&1 == 1
	field, size, ok := pairFields(args[:2], mem, isLoad)
	if !ok {
		return 0, false
	}
	scaled := mem.Offset / size
	mode := [...]uint32{Offset: 2, PostIndex: 1, PreIndex: 3}[mem.Mode]
	return r.code | field | mode<<23 | uint32(scaled)&0x7F<<15 | base,
		mem.Offset%size == 0 && scaled >= -64 && scaled < 64
}

// generalPair returns the fields of two general registers, and the size of one in bytes. A load of one register twice
// is invalid.
func generalPair(args []Arg, mem Mem, isLoad bool) (field uint32, size int, ok bool) {
	regs, widthBit, ok := registers(args, 2)
	if !ok || isLoad && regs[0] == regs[1] || mem.overwrites(Reg(regs[0])) || mem.overwrites(Reg(regs[1])) {
		return 0, 0, false
	}
	size = 4
	if widthBit != 0 {
		size = 8
	}
	return widthBit | regs[1]<<10 | regs[0], size, true
}

// scalarPair is generalPair for two scalars in vector registers.
func scalarPair(args []Arg, _ Mem, isLoad bool) (field uint32, size int, ok bool) {
	first, isScalar := args[0].(Scalar)
	second, hasTwo := args[1].(Scalar)
	hasElem := first.Elem == second.Elem && first.Elem >= S && first.Elem <= Q
	if !isScalar || !hasTwo || !hasElem || !isVectorNumber(first.Num) || !isVectorNumber(second.Num) ||
		isLoad && first.Num == second.Num {
		return 0, 0, false
	}
	field = vectorBit | uint32(first.Elem-S)<<30 | uint32(second.Num)<<10 | uint32(first.Num)
	return field, first.Elem.Bytes(), true
}

// listAccess returns the list and the fields of the address of an access to several registers. The address is the base.
// After the access, the base may be advanced by a general register or by the number of bytes of the access.
func listAccess(args []Arg, bytes int) (list List, field uint32, ok bool) {
	mem, ok := memoryOperand(args)
	if !ok {
		return list, 0, false
	}
	list, isList := args[0].(List)
	base, baseIsValid := mem.baseField()
	field = base
	const updatesBase = 1 << 23
	switch {
	case mem.Mode == PreIndex || mem.Mode == Offset && (mem.HasIndex || mem.Offset != 0): // not encodable
		return list, 0, false
	case mem.Mode == PostIndex && mem.HasIndex:
		field |= updatesBase | mem.Index.num()<<16
		baseIsValid = baseIsValid && mem.Index.is64() && mem.Index.num() < 31
	case mem.Mode == PostIndex: // register number 31 stands for the number of bytes
		field |= updatesBase | 31<<16
		baseIsValid = baseIsValid && mem.Offset == bytes
	}
	hasValidCount := list.Count >= 1 && list.Count <= 4
	listIsValid := isList && isVectorNumber(list.First.Num) && list.First.Elem <= D && hasValidCount
	return list, field, baseIsValid && listIsValid
}

// listBytes returns the number of bytes of an access to the list that is the first operand.
func listBytes(args []Arg) int {
	if len(args) == 0 {
		return 0
	}
	list, _ := args[0].(List)
	switch {
	case list.Lane >= 0: // one element of each register
		return list.Count * list.First.Elem.Bytes()
	case list.First.Half:
		return 8 * list.Count
	}
	return 16 * list.Count
}

// encodeAccessList encodes accesses to whole registers, one after another in memory: 0 Q 001100 x L x Rm opcode size Rn
// Rt.
func encodeAccessList(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	list, field, ok := listAccess(args, listBytes(args))
	if !ok || list.Lane >= 0 {
		return 0, false
	}
	opcode := [...]uint32{1: 0b0111, 2: 0b1010, 3: 0b0110, 4: 0b0010}[list.Count] // by the number of registers, 1 to 4
	return r.code&^0xF000 | opcode<<12 | list.First.qBit() | uint32(list.First.Elem)<<10 | field | list.First.rd(), true
}

// encodeInterleaved encodes accesses to structures of two to four elements: 0 Q 001100 x L x Rm opcode size Rn Rt.
func encodeInterleaved(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	list, field, ok := listAccess(args, listBytes(args))
	opcode := r.code >> 12 & 0xF
	count := 4 // ld4 and st4 have the opcode 0
	switch opcode {
	case 8: // ld2 and st2
		count = 2
	case 4: // ld3 and st3
		count = 3
	}
	return r.code | list.First.qBit() | uint32(list.First.Elem)<<10 | field | list.First.rd(),
		ok && list.Lane < 0 && list.Count == count && list.First.valid()
}

// encodeAccessLane encodes accesses to one element of a register: 0 Q 001101 x L x Rm opcode S size Rn Rt. The bits Q,
// S and size have the position of the element.
func encodeAccessLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	list, field, ok := listAccess(args, listBytes(args))
	elem := list.First.Elem
	if !ok || list.Lane < 0 || list.Count != 1 || list.Lane >= 16/elem.Bytes() {
		return 0, false
	}
	position := uint32(list.Lane << elem) // in bytes: bit 3 becomes Q, bit 2 S, bits 1 and 0 size
	word := r.code | field | list.First.rd() | position>>3<<30 | position&7<<10
	switch elem { // the element size, in bits 15:14 and 10
	case H:
		word |= 0x4000
	case S:
		word |= 0x8000
	case D:
		word |= 0x8400
	}
	return word, true
}

// encodeBroadcast encodes the load of an element into all elements of a register: 0 Q 001101 x 1 0 Rm 1100 size Rn Rt.
func encodeBroadcast(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	bytes := 0 // of the access: one element
	if len(args) > 0 {
		list, _ := args[0].(List)
		bytes = list.First.Elem.Bytes()
	}
	list, field, ok := listAccess(args, bytes)
	return r.code | list.First.qBit() | uint32(list.First.Elem)<<10 | field | list.First.rd(),
		ok && list.Lane < 0 && list.Count == 1
}

// encodePrefetch encodes prefetches. The first operand is the kind: 0 keeps the line in the first cache, 1 streams it;
// 16 and 17 are the same kinds for stores.
func encodePrefetch(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	mem, ok := memoryOperand(args)
	if !ok || mem.Mode != Offset {
		return 0, false
	}
	kind, isImm := args[0].(Imm)
	word, ok := mem.addressFields(r.code, D)
	isCounted := word&countedOffset != 0 // prfm has only offsets that are counted in units of 8 bytes
	return word | uint32(kind), ok && isImm && kind >= 0 && kind < 32 && isCounted
}
