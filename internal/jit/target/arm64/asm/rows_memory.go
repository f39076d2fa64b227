package asm

// memoryRows are loads, stores and prefetches. In single loads and stores, bits 31:30 and 23:22 have the width and the
// direction.
//
// The columns are mnemonic, encoder, opcode and element sizes: see [row].
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

// baseField returns the field with the number of the base register, and reports whether the register is valid.
func (m Mem) baseField() (uint32, bool) {
	return m.Base.num() << 5, m.Base.is64() && m.Base.num() <= 31
}

// overwrites reports whether the access updates its base register and the base register is r. The architecture does not
// define the result of a load or store of r by such an access.
func (m Mem) overwrites(r Reg) bool {
	return m.Mode != Offset && m.Base.num() == r.num() && r.num() != 31
}

// addressFields returns code with the fields of the address of an access to one element of kind e: an offset counted in
// elements, an offset in bytes of nine bits with or without update of the base, or an index. Bit 24, which is set in
// code, selects the first kind.
func (m Mem) addressFields(code uint32, e Elem) (uint32, bool) {
	base, ok := m.baseField()
	size := e.Bytes()
	switch {
	case !ok:
		return 0, false
	case m.HasIndex:
		if m.Mode != Offset || m.Offset != 0 || !m.Index.is64() || m.Index.num() > 31 ||
			m.Shift != 0 && m.Shift != int(e) {
			return 0, false
		}
		const indexed = 1<<21 | 0b011<<13 | 0b10<<10 // an index that is shifted to the left
		code = code&^(1<<24) | indexed | m.Index.num()<<16
		if m.Shift > 0 {
			code |= 1 << 12
		}
		return code | base, true
	case m.Mode == Offset && m.Offset >= 0 && m.Offset%size == 0 && m.Offset/size < 1<<12:
		return code | uint32(m.Offset/size)<<10 | base, true
	case m.Offset >= -256 && m.Offset < 256:
		mode := [...]uint32{Offset: 0, PostIndex: 1, PreIndex: 3}[m.Mode]
		return code&^(1<<24) | uint32(m.Offset)&0x1FF<<12 | mode<<10 | base, true
	}
	return 0, false
}

// memoryOperand returns the address of an access, which is its second operand.
func memoryOperand(args []Arg) (m Mem, ok bool) {
	if len(args) != 2 {
		return m, false
	}
	m, ok = args[1].(Mem)
	return m, ok
}

// encodeAccess encodes loads and stores of general registers and scalars.
func encodeAccess(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	m, ok := memoryOperand(args)
	if !ok {
		return 0, false
	}
	switch x := args[0].(type) {
	case Reg:
		code, e := r.code, D
		if !x.is64() {
			code, e = code&^(1<<30), S
		}
		word, ok := m.addressFields(code, e)
		return word | x.num(), ok && x.num() <= 31 && !m.overwrites(x)
	case Scalar:
		if !isVectorNumber(x.Num) || x.Elem > Q {
			return 0, false
		}
		code := r.code&^(3<<30) | 1<<26 | uint32(x.Elem&3)<<30 // bit 26 selects vector registers
		if x.Elem == Q {                                       // encoded as B with bit 23
			code |= 1 << 23
		}
		word, ok := m.addressFields(code, x.Elem)
		return word | uint32(x.Num), ok
	}
	return 0, false
}

// encodeNarrowAccess encodes loads and stores of the low bits of a general register.
func encodeNarrowAccess(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	m, ok := memoryOperand(args)
	if !ok {
		return 0, false
	}
	g, isReg := args[0].(Reg)
	e := B
	if r.elems.has(H) {
		e = H
	}
	word, ok := m.addressFields(r.code, e)
	return word | g.num(), ok && isReg && !g.is64() && !m.overwrites(g)
}

// encodeSignedAccess encodes loads that extend the sign to 64 bits.
func encodeSignedAccess(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	m, ok := memoryOperand(args)
	if !ok {
		return 0, false
	}
	g, isReg := args[0].(Reg)
	e := B
	for !r.elems.has(e) {
		e++
	}
	word, ok := m.addressFields(r.code, e)
	return word | g.num(), ok && isReg && g.is64() && !m.overwrites(g)
}

// encodeLiteral encodes loads of a constant of the code: opc 011 V 00 imm19 Rt.
func encodeLiteral(a *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 2 {
		return 0, false
	}
	p, ok := args[1].(ConstantAddr)
	if !ok {
		return 0, false
	}
	code := r.code
	switch x := args[0].(type) {
	case Scalar:
		if !isVectorNumber(x.Num) || x.Elem < S || x.Elem > Q {
			return 0, false
		}
		code |= 1<<26 | uint32(x.Elem-S)<<30 | uint32(x.Num)
	case Reg:
		code |= x.num()
		if x.is64() {
			code |= 1 << 30
		}
	default:
		return 0, false
	}
	a.constantRefs = append(a.constantRefs, constantRef{len(a.code), p.offset})
	return code, true
}

// encodeAccessPair encodes loads and stores of two registers: opc 101 V mode L imm7 Rt2 Rn Rt.
func encodeAccessPair(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	if len(args) != 3 {
		return 0, false
	}
	m, ok := args[2].(Mem)
	base, okBase := m.baseField()
	if !ok || !okBase || m.HasIndex {
		return 0, false
	}
	code, size := r.code, 0
	if x, isScalar := args[0].(Scalar); isScalar {
		y, ok := args[1].(Scalar)
		if !ok || x.Elem != y.Elem || x.Elem < S || x.Elem > Q || !isVectorNumber(x.Num) || !isVectorNumber(y.Num) {
			return 0, false
		}
		if load := code>>22&1 == 1; load && x.Num == y.Num {
			return 0, false
		}
		code |= 1<<26 | uint32(x.Elem-S)<<30 | uint32(y.Num)<<10 | uint32(x.Num)
		size = x.Elem.Bytes()
	} else {
		g, sf, ok := registers(args[:2], 2)
		if !ok {
			return 0, false
		}
		if load := code>>22&1 == 1; load && g[0] == g[1] || m.overwrites(Reg(g[0])) || m.overwrites(Reg(g[1])) {
			return 0, false
		}
		code |= sf | g[1]<<10 | g[0]
		size = 4
		if sf != 0 {
			size = 8
		}
	}
	n := m.Offset / size
	mode := [...]uint32{Offset: 2, PostIndex: 1, PreIndex: 3}[m.Mode]
	return code | mode<<23 | uint32(n)&0x7F<<15 | base, m.Offset%size == 0 && n >= -64 && n < 64
}

// listAccess returns the list and the fields of the address of an access to several registers. After the access, the
// base may be advanced by a general register or by the number of bytes.
func listAccess(args []Arg, bytes int) (l List, field uint32, ok bool) {
	m, ok := memoryOperand(args)
	if !ok {
		return l, 0, false
	}
	l, isList := args[0].(List)
	base, okBase := m.baseField()
	field = base
	switch {
	case m.Mode == PreIndex || m.Mode == Offset && (m.HasIndex || m.Offset != 0):
		return l, 0, false
	case m.Mode == PostIndex && m.HasIndex:
		field |= 1<<23 | m.Index.num()<<16
		okBase = okBase && m.Index.is64() && m.Index.num() < 31
	case m.Mode == PostIndex: // register number 31 stands for the number of bytes
		field |= 1<<23 | 31<<16
		okBase = okBase && m.Offset == bytes
	}
	return l, field, isList && okBase && isVectorNumber(l.First.Num) && l.First.Elem <= D && l.Count >= 1 && l.Count <= 4
}

// listBytes returns the number of bytes that the first operand holds.
func listBytes(args []Arg) int {
	if len(args) == 0 {
		return 0
	}
	l, _ := args[0].(List)
	switch {
	case l.Lane >= 0:
		return l.Count * l.First.Elem.Bytes()
	case l.First.Half:
		return 8 * l.Count
	}
	return 16 * l.Count
}

// encodeAccessList encodes accesses to whole registers, one after another in memory: 0 Q 001100 x L x Rm opcode size Rn
// Rt.
func encodeAccessList(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	l, field, ok := listAccess(args, listBytes(args))
	if !ok || l.Lane >= 0 {
		return 0, false
	}
	opcode := [...]uint32{1: 0b0111, 2: 0b1010, 3: 0b0110, 4: 0b0010}[l.Count] // by the number of registers
	return r.code&^0xF000 | opcode<<12 | l.First.qBit() | uint32(l.First.Elem)<<10 | field | l.First.rd(), true
}

// encodeInterleaved encodes accesses to structures of two to four elements.
func encodeInterleaved(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	l, field, ok := listAccess(args, listBytes(args))
	count := [...]int{8: 2, 4: 3, 0: 4}[r.code>>12&0xF] // by the opcodes of ld2, ld3 and ld4
	return r.code | l.First.qBit() | uint32(l.First.Elem)<<10 | field | l.First.rd(),
		ok && l.Lane < 0 && l.Count == count && l.First.valid()
}

// encodeAccessLane encodes accesses to one element of a register: 0 Q 001101 x L x Rm opcode S size Rn Rt. Q, S and
// size have the number of the element.
func encodeAccessLane(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	l, field, ok := listAccess(args, listBytes(args))
	e := l.First.Elem
	if !ok || l.Lane < 0 || l.Count != 1 || l.Lane >= 16/e.Bytes() {
		return 0, false
	}
	position := uint32(l.Lane << e) // in bytes: Q, S, size
	word := r.code | field | l.First.rd() | position>>3<<30 | position&7<<10
	switch e { // the element size, in bits 15:14 and 10
	case H:
		word |= 0x4000
	case S:
		word |= 0x8000
	case D:
		word |= 0x8400
	}
	return word, true
}

// encodeBroadcast encodes the load of an element into all elements of a register.
func encodeBroadcast(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	bytes := 0
	if len(args) > 0 {
		l, _ := args[0].(List)
		bytes = l.First.Elem.Bytes()
	}
	l, field, ok := listAccess(args, bytes)
	return r.code | l.First.qBit() | uint32(l.First.Elem)<<10 | field | l.First.rd(), ok && l.Lane < 0 && l.Count == 1
}

// encodePrefetch encodes prefetches. The first operand is the kind: 0 keeps the line in the first cache, 1 streams it;
// 16 and 17 likewise for stores.
func encodePrefetch(_ *Assembler, r *row, args []Arg) (uint32, bool) {
	m, ok := memoryOperand(args)
	if !ok || m.Mode != Offset {
		return 0, false
	}
	kind, isImm := args[0].(Imm)
	word, ok := m.addressFields(r.code, D)
	isCounted := word>>24&1 == 1 // prfm has only offsets that are counted in units of 8 bytes
	return word | uint32(kind), ok && isImm && kind >= 0 && kind < 32 && isCounted
}
