package asm

import "sync"

// row is one form of an instruction. encode checks the operands and puts them into the fields of the encoding. It
// returns false if the row, which is its argument r, does not accept the operands.
//
// The comments on encoders quote section C4.1 of Arm's manual; x stands for a bit of a field that operands fill. In
// encoders, the variable regs has the numbers of general registers, and ok0, ok1, ... report whether operands 0, 1, ...
// have the right type.
type row struct {
	name   string
	encode func(a *Assembler, r *row, args []Arg) (uint32, bool)
	code   uint32 // the opcode: the instruction with 0 in all fields of operands
	elems  elems  // the element sizes that the form supports
}

// elems is a set of element sizes: bit x is set if it has the size x (B, H, S, D or Q: 1, 2, 4, 8 or 16 bytes).
type elems uint8

// The sets of element sizes are named after their members: onlyB is the set of B, and bhs the set of B, H and S.
const (
	onlyB elems = 1 << B
	onlyH elems = 1 << H
	onlyS elems = 1 << S
	onlyD elems = 1 << D
	onlyQ elems = 1 << Q
	bhs         = onlyB | onlyH | onlyS
	bhsd        = bhs | onlyD
	hs          = onlyH | onlyS
	hsd         = hs | onlyD
	sd          = onlyS | onlyD
	sdq         = sd | onlyQ
)

func (e elems) has(x Elem) bool { return e>>x&1 != 0 }

// tables has the rows of all instructions, by subject.
var tables = [][]row{integerRows, floatRows, longRows, dotRows, laneRows, moveRows, shiftRows, memoryRows, generalRows}

// rowsOf returns the rows by mnemonic. The map is built when the first instruction is assembled.
var rowsOf = sync.OnceValue(func() map[string][]row {
	byName := map[string][]row{}
	for _, table := range tables {
		for _, form := range table {
			byName[form.name] = append(byName[form.name], form)
		}
	}
	return byName
})

// vectors returns the operands as vectors, and reports whether they are n valid vector registers.
func vectors(args []Arg, n int) (vecs [3]Vec, ok bool) {
	if len(args) != n {
		return vecs, false
	}
	for i, arg := range args {
		if vecs[i], ok = arg.(Vec); !ok || !isVectorNumber(vecs[i].Num) {
			return vecs, false
		}
	}
	return vecs, true
}

// isVectorNumber reports whether there is a vector register with the number.
func isVectorNumber(n int) bool { return n >= 0 && n < 32 }

// rd, rn and rm return the register's number in the field of this name.
func (v Vec) rd() uint32 { return uint32(v.Num) }
func (v Vec) rn() uint32 { return uint32(v.Num) << 5 }
func (v Vec) rm() uint32 { return uint32(v.Num) << 16 }

// valid reports whether the arrangement of elements exists. A single 64-bit element is not a vector.
func (v Vec) valid() bool { return v.Elem <= D && !(v.Half && v.Elem == D) }

// registers returns the numbers of general registers, and reports whether the operands are n such registers of one
// width. widthBit is the field sf, which is set for registers of 64 bits.
func registers(args []Arg, n int) (numbers [4]uint32, widthBit uint32, ok bool) {
	if len(args) != n {
		return numbers, 0, false
	}
	for i, arg := range args {
		reg, isReg := arg.(Reg)
		if !isReg || reg.num() > 31 || reg.is64() != args[0].(Reg).is64() {
			return numbers, 0, false
		}
		numbers[i] = reg.num()
		if reg.is64() {
			widthBit = 1 << 31
		}
	}
	return numbers, widthBit, true
}
