package asm

import (
	"fmt"
	"strconv"
)

// Arg is an operand of an instruction: a [Reg], a [Vec], a [Mask], a [Tile], a [Mem], a [VMem], an [Imm] or a [Label].
type Arg interface{ operand() operand }

// Reg is a general-purpose register, numbered as in the hardware. The mnemonic determines whether an instruction uses
// 32 or 64 bits of it.
type Reg uint8

// The general-purpose registers, named as in Go's assembler.
const (
	AX Reg = iota
	CX
	DX
	BX
	SP
	BP
	SI
	DI
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
)

// Vec is a vector register, 0 to 31, with a width of 128, 256 or 512 bits. [X], [Y] and [Z] return Vecs.
type Vec uint8 // bits 0 to 4: the number; bits 5 and 6: the width, 0, 1 or 2

// X returns the 128-bit register with number n, less than 32.
func X(n int) Vec { return Vec(n & 31) }

// Y returns the 256-bit register with number n, less than 32.
func Y(n int) Vec { return Vec(n&31 | 32) }

// Z returns the 512-bit register with number n, less than 32.
func Z(n int) Vec { return Vec(n&31 | 64) }

// Num returns the register's number, regardless of its width.
func (v Vec) Num() int { return int(v & 31) }

// Bytes returns the width in bytes: 16, 32 or 64.
func (v Vec) Bytes() int { return 16 << (v >> 5) }

// X returns the low 128 bits of the register.
func (v Vec) X() Vec { return X(v.Num()) }

// Y returns the low 256 bits of the register.
func (v Vec) Y() Vec { return Y(v.Num()) }

// Z returns all 512 bits of the register.
func (v Vec) Z() Vec { return Z(v.Num()) }

// Mask is a mask register. As the second to last operand of a vector instruction it selects the elements that are
// written; K0 cannot be used in this position. The other elements keep their values, or become zero with [Mask.Zero].
type Mask uint8

// The mask registers.
const (
	K0 Mask = iota
	K1
	K2
	K3
	K4
	K5
	K6
	K7

	zeroing Mask = 8 // the bit that Mask.Zero sets
)

// Zero returns the mask for use with zeroing: elements that are not selected are set to zero.
func (k Mask) Zero() Mask { return k | zeroing }

// Tile is a tile register of the matrix unit, 0 to 7.
type Tile uint8

// Imm is an immediate: a constant encoded in the instruction.
type Imm int64

// Mem is the memory at Base + Index*Scale + Disp. Without an index, Scale is 0. SP cannot be an index. For example,
// Mem{Base: AX, Index: CX, Scale: 4, Disp: 8} is 8(AX)(CX*4) in Go's assembler.
type Mem struct {
	Base, Index Reg
	Scale       uint8 // 1, 2, 4 or 8; 0 without an index
	Disp        int32 // bytes

	// Broadcast reads one element and uses it in all lanes (arithmetic instructions of AVX-512).
	Broadcast bool

	constant bool // Disp is an offset into the constants that follow the code
}

// VMem is one address for each element of a vector: Base + Index[i]*Scale + Disp. It is an operand of gathers and
// scatters.
type VMem struct {
	Base  Reg
	Index Vec
	Scale uint8 // 1, 2, 4 or 8
	Disp  int32 // bytes
}

// Label is a jump target. [Assembler.NewLabel] creates it, [Assembler.Bind] sets its position.
type Label int

// kind is the kind of an operand.
type kind uint8

const (
	regKind kind = iota
	vecKind
	maskKind
	tileKind
	memKind
	vmemKind
	immKind
	labelKind
)

// operand is the uniform representation of all kinds of Arg.
type operand struct {
	kind    kind
	num     uint8 // register number, or base register of memory
	width   uint8 // of a vector, or of the vector of indices: 0, 1, 2 for 128, 256, 512 bits
	zeroing bool  // of a mask: see Mask.Zero

	// Memory; see Mem and VMem.

	index      uint8 // index register, valid if scale > 0
	scale      uint8
	broadcast  bool
	isConstant bool
	needsSIB   bool // set by the encoder: needs a SIB byte (scale, index, base) even without an index
	disp       int32

	imm int64 // value of an immediate, or number of a label
}

func (r Reg) operand() operand { return operand{kind: regKind, num: uint8(r)} }

func (v Vec) operand() operand {
	return operand{kind: vecKind, num: uint8(v.Num()), width: uint8(v >> 5)}
}

func (k Mask) operand() operand {
	return operand{kind: maskKind, num: uint8(k &^ zeroing), zeroing: k&zeroing != 0}
}

func (t Tile) operand() operand { return operand{kind: tileKind, num: uint8(t)} }

func (i Imm) operand() operand { return operand{kind: immKind, imm: int64(i)} }

func (l Label) operand() operand { return operand{kind: labelKind, imm: int64(l)} }

func (m Mem) operand() operand {
	return operand{kind: memKind, num: uint8(m.Base), index: uint8(m.Index), scale: m.Scale, disp: m.Disp,
		broadcast: m.Broadcast, isConstant: m.constant}
}

func (m VMem) operand() operand {
	return operand{kind: vmemKind, num: uint8(m.Base), index: uint8(m.Index.Num()), width: uint8(m.Index >> 5),
		scale: m.Scale, disp: m.Disp}
}

// invalidReason returns the reason for which no instruction can have this operand, or "" if the operand is valid.
func (o *operand) invalidReason() string {
	switch o.kind {
	case regKind:
		if o.num > 15 {
			return "the general registers are 0 to 15"
		}
	case maskKind:
		if o.num > 7 {
			return "the mask registers are 0 to 7"
		}
	case tileKind:
		if o.num > 7 {
			return "the tile registers are 0 to 7"
		}
	case vecKind:
		if o.width > 2 {
			return invalidWidth
		}
	case memKind:
		switch {
		case o.scale > 0 && o.index == uint8(SP):
			return "SP cannot be an index register"
		case o.num > 15 || o.index > 15 || !o.hasValidScale():
			return invalidAddress
		}
	case vmemKind:
		switch {
		case o.width > 2:
			return invalidWidth
		case o.scale == 0:
			return "the address has indices but no scale"
		case o.num > 15 || !o.hasValidScale():
			return invalidAddress
		}
	}
	return ""
}

// Results of invalidReason.
const (
	invalidWidth   = "a vector register must have 128, 256 or 512 bits"
	invalidAddress = "the address cannot be encoded: registers are 0 to 15, and a scale is 1, 2, 4 or 8"
)

// hasValidScale reports whether the scale is 1, 2, 4 or 8, or 0 if there is no index.
func (o *operand) hasValidScale() bool { return o.scale <= 8 && o.scale&(o.scale-1) == 0 }

var regNames = [16]string{
	"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15",
}

// String returns the register's name in Go's assembler.
func (r Reg) String() string { return regNames[r&15] }

// String returns the register's name in Go's assembler.
func (v Vec) String() string { return "XYZ?"[v>>5&3:][:1] + strconv.Itoa(v.Num()) }

// String returns the register's name in Go's assembler.
func (k Mask) String() string { return "K" + strconv.Itoa(int(k&7)) }

// String returns the register's name in Intel's manual. Go's assembler has no tile registers.
func (t Tile) String() string { return "TMM" + strconv.Itoa(int(t)) }

// String returns the constant as Go's assembler writes it.
func (i Imm) String() string { return "$" + strconv.FormatInt(int64(i), 10) }

// String returns the label's name in listings.
func (l Label) String() string { return "L" + strconv.Itoa(int(l)) }

// String returns the address as Go's assembler writes it.
func (m Mem) String() string {
	if m.constant {
		return fmt.Sprintf("%s+%d(SB)", poolName, m.Disp)
	}
	s := fmt.Sprintf("(%v)", m.Base)
	if m.Scale > 0 {
		s += fmt.Sprintf("(%v*%d)", m.Index, m.Scale)
	}
	return offset(m.Disp) + s
}

// String returns the addresses as Go's assembler writes them.
func (m VMem) String() string {
	return fmt.Sprintf("%s(%v)(%v*%d)", offset(m.Disp), m.Base, m.Index, m.Scale)
}

// offset returns a displacement in the syntax of Go's assembler.
func offset(d int32) string {
	if d == 0 {
		return ""
	}
	return strconv.Itoa(int(d))
}
