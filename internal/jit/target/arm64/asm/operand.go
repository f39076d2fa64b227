package asm

import (
	"fmt"
	"strconv"
	"strings"
)

// Arg is an operand of an instruction: [Reg], [Scalar], [Vec], [Lane], [List], [HalfPrecision], [Mem], [ConstantAddr],
// [Imm], [Shift], [Float], [Cond] or [Label]. For example, "fmla v0.4s, v1.4s, v2.s[1]" has the operands V(0, S),
// V(1, S) and V(2, S).Lane(1), and "ldr q0, [x1, #16]" has V(0, Q).Scalar() and Mem{Base: X(1), Offset: 16}.
type Arg interface{ String() string }

// Reg is a general register of 64 bits, X0 to X30. Number 31 is SP in addresses, and in additions and subtractions of
// immediates; elsewhere it is the register whose value is zero. W selects the low 32 bits.
type Reg uint8

// SP is the stack pointer, and ZR the register with value zero. They have the same number.
const (
	SP Reg = 31
	ZR Reg = 31
)

// low32Bits is the flag in a Reg that selects the low 32 bits of the register.
const low32Bits = 1 << 7

// X returns general register n.
func X(n int) Reg { return Reg(n) }

// W returns the low 32 bits of general register n.
func W(n int) Reg { return Reg(n) | low32Bits }

// W returns the low 32 bits of the register.
func (r Reg) W() Reg { return r | low32Bits }

func (r Reg) num() uint32 { return uint32(r &^ low32Bits) }
func (r Reg) is64() bool  { return r&low32Bits == 0 }

// String returns the register's name, and xzr for number 31. Addresses print number 31 as sp.
func (r Reg) String() string {
	letter := "x"
	if !r.is64() {
		letter = "w"
	}
	if r.num() == 31 {
		return letter + "zr"
	}
	return fmt.Sprint(letter, r.num())
}

// Elem is the kind of the elements of a vector, by its size.
type Elem uint8

// Elements of 8, 16, 32, 64 and 128 bits. The last is a whole register in loads and stores.
const (
	B Elem = iota
	H
	S
	D
	Q
)

// Bytes returns the size of an element.
func (e Elem) Bytes() int { return 1 << e }

// String returns the letter of the element.
func (e Elem) String() string { return "bhsdq"[e : e+1] }

// Scalar is the lowest element of a vector register.
type Scalar struct {
	Num  int
	Elem Elem
}

// String returns the name in Arm's syntax, such as s3.
func (s Scalar) String() string { return fmt.Sprintf("%v%d", s.Elem, s.Num) }

// Vec is a vector register with its arrangement: elements of a kind, in all 128 bits or in the low 64.
type Vec struct {
	Num  int
	Elem Elem
	Half bool // the low 64 bits
}

// V returns vector register n; elements of kind e fill its 128 bits.
func V(n int, e Elem) Vec { return Vec{Num: n, Elem: e} }

// Low returns the low 64 bits of the vector.
func (v Vec) Low() Vec { return Vec{Num: v.Num, Elem: v.Elem, Half: true} }

// Lane returns element i.
func (v Vec) Lane(i int) Lane { return Lane{Num: v.Num, Elem: v.Elem, Index: i} }

// Scalar returns the lowest element.
func (v Vec) Scalar() Scalar { return Scalar{v.Num, v.Elem} }

// As returns the register with elements of another kind.
func (v Vec) As(e Elem) Vec { return Vec{Num: v.Num, Elem: e, Half: v.Half} }

// qBit returns the bit of the encoding that selects 128 bits.
func (v Vec) qBit() uint32 {
	if v.Half {
		return 0
	}
	return 1 << 30
}

// String returns the name in Arm's syntax, such as v3.4s.
func (v Vec) String() string {
	bytes := 16
	if v.Half {
		bytes = 8
	}
	return fmt.Sprintf("v%d.%d%v", v.Num, bytes/v.Elem.Bytes(), v.Elem)
}

// Lane is one element of a vector register or, in dot products by lane, a group of adjacent elements.
type Lane struct {
	Num   int
	Elem  Elem
	Index int
	Group int // number of elements in the group, 2 or 4; 0 for one element
}

// String returns the name in Arm's syntax, such as v3.s[1].
func (l Lane) String() string {
	if l.Group > 0 {
		return fmt.Sprintf("v%d.%d%v[%d]", l.Num, l.Group, l.Elem, l.Index)
	}
	return fmt.Sprintf("v%d.%v[%d]", l.Num, l.Elem, l.Index)
}

// List is one to four consecutive vector registers, for loads, stores and table lookups. Register 31 is followed by
// register 0.
type List struct {
	First Vec
	Count int
	Lane  int // -1: whole registers; otherwise the element of each register
}

// Regs returns a list of n whole registers that begins with v.
func Regs(v Vec, n int) List { return List{First: v, Count: n, Lane: -1} }

// String returns the list in Arm's syntax.
func (l List) String() string {
	var names []string
	for i := range l.Count {
		v := l.First
		v.Num = (v.Num + i) & 31
		if l.Lane >= 0 {
			names = append(names, fmt.Sprintf("v%d.%v", v.Num, v.Elem))
			continue
		}
		names = append(names, v.String())
	}
	s := "{ " + strings.Join(names, ", ") + " }"
	if l.Lane >= 0 {
		s += fmt.Sprintf("[%d]", l.Lane)
	}
	return s
}

// Mode says whether an access to memory changes the base register of the address, and when.
type Mode uint8

// Modes of addresses.
const (
	Offset    Mode = iota // the base keeps its value
	PreIndex              // the offset is added to the base, and the result is the address
	PostIndex             // the base is the address, and the offset is added to the base afterwards
)

// Mem is an address in memory: a base plus an offset in bytes, or plus an index.
type Mem struct {
	Base   Reg // number 31 is SP
	Offset int
	Index  Reg // used if HasIndex is true
	Mode   Mode

	HasIndex bool
	Shift    int // the index is multiplied by 2^Shift, which is 1 or the size of the access in bytes
}

// Indexed returns the address base + index bytes.
func Indexed(base, index Reg) Mem { return Mem{Base: base, Index: index, HasIndex: true} }

// String returns the address in Arm's syntax.
func (m Mem) String() string {
	base := m.Base.String()
	if m.Base == SP {
		base = "sp"
	}
	switch {
	case m.HasIndex && m.Mode == PostIndex:
		return fmt.Sprintf("[%s], %v", base, m.Index)
	case m.HasIndex && m.Shift > 0:
		return fmt.Sprintf("[%s, %v, lsl #%d]", base, m.Index, m.Shift)
	case m.HasIndex:
		return fmt.Sprintf("[%s, %v]", base, m.Index)
	case m.Mode == PreIndex:
		return fmt.Sprintf("[%s, #%d]!", base, m.Offset)
	case m.Mode == PostIndex:
		return fmt.Sprintf("[%s], #%d", base, m.Offset)
	case m.Offset != 0:
		return fmt.Sprintf("[%s, #%d]", base, m.Offset)
	}
	return "[" + base + "]"
}

// ConstantAddr is the address of a constant that is stored after the code: see [Assembler.Constant].
type ConstantAddr struct{ offset int }

// String returns the address in listings.
func (c ConstantAddr) String() string { return fmt.Sprintf("constants+%d", c.offset) }

// Imm is an integer constant.
type Imm int64

// String returns the constant in Arm's syntax.
func (i Imm) String() string { return fmt.Sprintf("#%d", int64(i)) }

// Shift is a shift of the preceding operand to the left, in bits.
type Shift int

// String returns the shift in Arm's syntax.
func (s Shift) String() string { return fmt.Sprintf("lsl #%d", int(s)) }

// Float is a floating-point constant of fmov: ±n/16 * 2^r with n from 16 to 31 and r from -3 to 4.
type Float float64

// String returns the constant in Arm's syntax.
func (f Float) String() string {
	s := strconv.FormatFloat(float64(f), 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return "#" + s
}

// Cond is a condition of a branch or a conditional selection.
type Cond uint8

// Conditions with Arm's numbers.
const (
	EQ Cond = iota
	NE
	HS // unsigned >=
	LO // unsigned <
	MI // negative
	PL // not negative
	VS // overflow; after fcmp: unordered
	VC // no overflow; after fcmp: ordered
	HI // unsigned >
	LS // unsigned <=
	GE
	LT
	GT
	LE
)

var condNames = [...]string{"eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"}

// String returns the condition's name.
func (c Cond) String() string { return condNames[c] }

// Label is a position in the code, made by [Assembler.NewLabel].
type Label int

// String returns the label's name in listings.
func (l Label) String() string { return fmt.Sprintf("L%d", int(l)) }

// HalfPrecision is a vector register as an operand of fmlal. It has the low four half-precision numbers, or the low two
// if LowTwo is set. LowTwo must be equal to the field Half of the result, a [Vec]: Half selects the low 64 bits.
type HalfPrecision struct {
	Num    int
	LowTwo bool
}

// String returns the name in Arm's syntax.
func (h HalfPrecision) String() string {
	if h.LowTwo {
		return fmt.Sprintf("v%d.2h", h.Num)
	}
	return fmt.Sprintf("v%d.4h", h.Num)
}
