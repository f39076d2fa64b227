package asm

import "sync"

// row is one form of an instruction. The rows of a mnemonic are tried in order, which is the order of Go's assembler.
// The rows with VEX and EVEX were taken from the table of Go's assembler (cmd/internal/obj/x86/avx_optabs.go, generated
// from Intel's manual). The rows of VCVTNEPS2BF16, of tiles and of general-purpose registers were taken from Intel's
// manual directly.
//
// args lists the operands in the order of Go's assembler, two letters each, separated by spaces. The first letter is
// the field of the encoding:
//
//	r  ModRM.reg                m  ModRM.rm, register or memory     b  ModRM.rm, register only
//	v  VEX.vvvv                 M  ModRM.rm, memory only            S  ModRM.rm, memory by a vector of indices
//	h  high 4 bits of the last byte   B  ModRM.rm, memory by SIB    o  low bits of the opcode
//	i  immediate                                                    j  target of a jump
//
// The second letter is the kind of operand:
//
//	v  vector of the instruction's length    h  vector of half this length, at least 128 bits
//	x  vector of 128 bits                    g  general register, or memory
//	k  mask                                  1  byte of a general register
//	t  tile                                  l  label
//
// For immediates, the second letter is the encoding:
//
//	1  only the number 1, which is not encoded    b  8 bits, signed      u  8 bits, unsigned
//	q  64 bits                                    d  32 bits, signed     w  32 bits, unsigned
//
// For example, this row of VADDPS has the opcode 0F 58, a source in a register or memory, a source in VEX.vvvv, and a
// result in ModRM.reg. It has 128 or 256 bits with VEX, and any length with EVEX, which also allows broadcast:
//
//	{"VADDPS", "mv vv rv", m0F | 0x58, to256, to512 | bcst, fullVector}
type row struct {
	name     string
	args     string
	code     uint32 // opcode, prefix, opcode map, ModRM.reg as opcode extension: see p66, m0F, ...
	vex      uint8  // lengths and W of the VEX form: see len128, ...; without a VEX form, only W
	evex     uint8  // lengths and W of the EVEX form, whether it allows broadcast and masks
	dispUnit uint8  // unit of one-byte displacements in the EVEX form (N of disp8*N): see fullVector, ...
}

// Bits of row.code.
const (
	p66 = 1 << 8 // prefixes, with the numbers of VEX
	pF3 = 2 << 8
	pF2 = 3 << 8

	m0F   = 1 << 10 // opcode maps, with the numbers of VEX
	m0F38 = 2 << 10
	m0F3A = 3 << 10

	ext1 = 1 << 12 // ModRM.reg as opcode extension; rows do not state the extension 0
	ext2 = 2 << 12
	ext3 = 3 << 12
	ext4 = 4 << 12
	ext5 = 5 << 12
	ext6 = 6 << 12
	ext7 = 7 << 12

	legacy      = 1 << 15 // an instruction on general registers: encoded without VEX and EVEX
	noOperandRM = 1 << 16 // has a ModRM byte without a memory or register operand in it
)

func (r *row) opcode() byte           { return byte(r.code) }
func (r *row) prefix() uint8          { return uint8(r.code >> 8 & 3) }
func (r *row) opcodeMap() uint8       { return uint8(r.code >> 10 & 3) }
func (r *row) opcodeExtension() uint8 { return uint8(r.code >> 12 & 7) }
func (r *row) operandCount() int      { return (len(r.args) + 1) / 3 } // two letters each, separated by spaces

// Bits of row.vex and row.evex: the vector lengths that the form supports, the bit W of the prefix, and restrictions.
const (
	len128  = 1
	len256  = 2
	len512  = 4
	to256   = len128 | len256          // up to 256 bits
	to512   = len128 | len256 | len512 // all lengths
	from256 = len256 | len512          // at least 256 bits
	w1      = 8                        // the bit W of the prefix is set
	bcst    = 16                       // allows a broadcast element in memory: 4 bytes, or 8 with w1
	noMask  = 32                       // does not allow a mask
)

// Values of row.dispUnit. bytes1, bytes2, ... are fixed numbers of bytes. Instructions without an EVEX form ignore the
// value.
const (
	fullVector    = iota // the length of a vector
	halfVector           // half of the length of a vector
	quarterVector        // a quarter of the length
	eighthVector         // an eighth of the length
	bytes1
	bytes2
	bytes4
	bytes8
	bytes16
	bytes32
)

// dispUnitBytes returns the unit of one-byte displacements in the EVEX form. length is 0, 1, 2 for 128, 256, 512 bits.
func (r *row) dispUnitBytes(length uint8, broadcast bool) int32 {
	switch {
	case broadcast && r.evex&w1 != 0: // the unit is one element
		return 8
	case broadcast:
		return 4
	case r.dispUnit >= bytes1:
		return 1 << (r.dispUnit - bytes1)
	}
	return 16 << length >> r.dispUnit // the vector length is 16<<length bytes
}

// tables has the rows of all instructions, grouped by subject.
var tables = [][]row{generalRows, moveRows, floatRows, fmaRows, integerRows, conversionRows, shuffleRows, maskRows,
	tileRows}

// rowsByName returns the rows of each mnemonic. The map is built when the first instruction is assembled.
var rowsByName = sync.OnceValue(func() map[string][]row {
	byName := map[string][]row{}
	for _, table := range tables {
		for first := 0; first < len(table); {
			end := first + 1
			for end < len(table) && table[end].name == table[first].name {
				end++
			}
			byName[table[first].name] = table[first:end]
			first = end
		}
	}
	return byName
})
