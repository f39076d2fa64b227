package asm

import (
	"fmt"
	"strconv"
)

// An Arg is an operand of an instruction: a [Reg], a [Vec], a [Mask], a [Tile], a [Mem], a [VMem], an
// [Imm] or a [Label].
type Arg interface{ operand() operand }

// Reg is a general register, in the order of the hardware's numbers. Mnemonics tell whether 32 or 64 bits of it are
// meant.
type Reg uint8

// The general registers by their names in Go's assembler.
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

// Vec is a vector register, 0 to 31, at one of its widths of 128, 256 and 512 bits. It is made by [X], [Y] and [Z].
type Vec uint8

// X returns the register of 128 bits of a number below 32.
func X(n int) Vec { return Vec(n & 31) }

// Y returns the register of 256 bits of a number below 32.
func Y(n int) Vec { return Vec(n&31 | 32) }

// Z returns the register of 512 bits of a number below 32.
func Z(n int) Vec { return Vec(n&31 | 64) }

// Num returns the register's number, whatever its width.
func (v Vec) Num() int { return int(v & 31) }

// Bytes returns the width in bytes: 16, 32 or 64.
func (v Vec) Bytes() int { return 16 << (v >> 5) }

// X returns the low 128 bits of a register.
func (v Vec) X() Vec { return X(v.Num()) }

// Y returns the low 256 bits of a register.
func (v Vec) Y() Vec { return Y(v.Num()) }

// Z returns all 512 bits of a register.
func (v Vec) Z() Vec { return Z(v.Num()) }

// Mask is a mask register. As the last operand but one of an instruction on vectors it says which elements are written;
// K0 cannot be used so. [Mask.Zero] makes the others zero instead of leaving them as they were.
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

	zeroing Mask = 8
)

// Zero returns the mask with elements that are not written set to zero.
func (k Mask) Zero() Mask { return k | zeroing }

// Tile is a register of the matrix unit, 0 to 7.
type Tile uint8

// Imm is a constant within an instruction.
type Imm int64

// Mem is memory at Base + Index*Scale + Disp. Without an index Scale is 0. SP cannot be an index.
type Mem struct {
	Base, Index Reg
	Scale       uint8 // 1, 2, 4 or 8, or 0 where there is no index
	Disp        int32 // bytes

	// Broadcast reads one element and uses it for all lanes (AVX-512 arithmetic).
	Broadcast bool

	constant bool // Disp counts from the constants behind the code
}

// VMem is as many addresses as a vector has elements: Base + Index[i]*Scale + Disp. Gathers and scatters take it.
type VMem struct {
	Base  Reg
	Index Vec
	Scale uint8 // 1, 2, 4 or 8
	Disp  int32 // bytes
}

// Label is a place in the code that jumps go to: [Assembler.NewLabel] makes it, [Assembler.Bind] puts it.
type Label int

type kind uint8

const (
	isReg kind = iota
	isVec
	isMask
	isTile
	isMem
	isVMem
	isImm
	isLabel
)

// operand is an Arg of any kind in one form.
type operand struct {
	kind  kind
	num   uint8 // of a register, or base of memory
	width uint8 // of a vector or of a vector of indices: 0, 1, 2 for 128, 256, 512 bits
	index uint8 // of memory with a scale
	scale uint8
	zero  bool // mask: others become zero
	bcast bool
	pool  bool
	sib   bool // memory that is written with a SIB byte whether it has an index or not
	disp  int32
	imm   int64 // or number of the label
}

func (r Reg) operand() operand { return operand{kind: isReg, num: uint8(r)} }

func (v Vec) operand() operand {
	return operand{kind: isVec, num: uint8(v.Num()), width: uint8(v >> 5)}
}

func (k Mask) operand() operand {
	return operand{kind: isMask, num: uint8(k &^ zeroing), zero: k&zeroing != 0}
}

func (t Tile) operand() operand { return operand{kind: isTile, num: uint8(t)} }

func (i Imm) operand() operand { return operand{kind: isImm, imm: int64(i)} }

func (l Label) operand() operand { return operand{kind: isLabel, imm: int64(l)} }

func (m Mem) operand() operand {
	return operand{kind: isMem, num: uint8(m.Base), index: uint8(m.Index), scale: m.Scale, disp: m.Disp,
		bcast: m.Broadcast, pool: m.constant}
}

func (m VMem) operand() operand {
	return operand{kind: isVMem, num: uint8(m.Base), index: uint8(m.Index.Num()), width: uint8(m.Index >> 5),
		scale: m.Scale, disp: m.Disp}
}

// wrong says what no instruction can have, or nothing.
func (o *operand) wrong() string {
	switch o.kind {
	case isReg:
		if o.num > 15 {
			return "there is no such register"
		}
	case isMask:
		if o.num > 7 {
			return "there is no such mask"
		}
	case isTile:
		if o.num > 7 {
			return "there is no such tile"
		}
	case isVec, isVMem:
		if o.width > 2 {
			return "there is no such vector"
		}
		if o.kind == isVMem && o.scale == 0 {
			return "the indices have no scale"
		}
	case isMem:
		if o.scale > 0 && o.index == uint8(SP) {
			return "SP cannot be an index"
		}
	}
	memory := o.kind == isMem || o.kind == isVMem
	if memory && (o.num > 15 || o.scale&(o.scale-1) != 0 || o.scale > 8) || o.kind == isMem && o.index > 15 {
		return "the address cannot be encoded"
	}
	return ""
}

var regNames = [16]string{
	"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15",
}

// String returns the register's name in Go's assembler.
func (r Reg) String() string { return regNames[r&15] }

// String returns the register's name in Go's assembler.
func (v Vec) String() string { return "XYZ?"[v>>5&3:][:1] + strconv.Itoa(v.Num()) }

// String returns the register's name in Go's assembler.
func (k Mask) String() string { return "K" + strconv.Itoa(int(k&7)) }

// String returns the register's name in Intel's manual: Go's assembler has none for it.
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

func offset(d int32) string {
	if d == 0 {
		return ""
	}
	return strconv.Itoa(int(d))
}
