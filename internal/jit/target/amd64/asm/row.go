package asm

import "sync"

// row is one form of an instruction. The rows of a mnemonic are tried in order, which is the order of Go's assembler.
// The rows with VEX and EVEX were taken from the table of Go's assembler (cmd/internal/obj/x86/avx_optabs.go, generated
// from Intel's manual). The rows of VCVTNEPS2BF16, of tiles and of general-purpose registers were taken from Intel's
// manual directly.
//
// args lists the operands in the order of Go's assembler, two letters each. The first letter is the field of the
// encoding:
//
//	r  ModRM.reg                m  ModRM.rm, register or memory     b  ModRM.rm, register only
//	v  VEX.vvvv                 M  ModRM.rm, memory only            S  ModRM.rm, memory by a vector of indices
//	h  high half of the last byte     B  ModRM.rm, memory by SIB    o  low bits of the opcode
//	i  immediate                                                    j  target of a jump
//
// The second letter is the kind of operand:
//
//	v  vector of the instruction's length    h  vector of half this length, at least 128 bits
//	x  vector of 128 bits                    g  general register, or memory
//	k  mask                                  1  byte of a general register
//	t  tile
//
// For immediates, the second letter is the encoding: 1 is the number 1, which is not encoded; b is eight bits, signed;
// u is eight bits, unsigned; d is 32 bits, signed; w is 32 bits, unsigned; q is 64 bits.
type row struct {
	name  string
	args  string
	code  uint32 // opcode, prefix, opcode map, ModRM.reg as opcode extension
	vex   uint8  // lengths and W of the VEX form; without a VEX form, only W
	evex  uint8  // lengths and W of the EVEX form, whether it allows broadcast and masks
	tuple uint8  // unit of one-byte displacements in the EVEX form
}

// Bits of row.code.
const (
	p66 = 1 << 8 // prefixes, with the numbers of VEX
	pF3 = 2 << 8
	pF2 = 3 << 8

	m0F   = 1 << 10 // opcode maps, with the numbers of VEX
	m0F38 = 2 << 10
	m0F3A = 3 << 10

	d1 = 1 << 12 // ModRM.reg as opcode extension
	d2 = 2 << 12
	d3 = 3 << 12
	d4 = 4 << 12
	d5 = 5 << 12
	d6 = 6 << 12
	d7 = 7 << 12

	gp    = 1 << 15 // general-purpose: encoded without VEX and EVEX
	fixed = 1 << 16 // has a ModRM byte without a memory or register operand in it
)

func (r *row) opcode() byte  { return byte(r.code) }
func (r *row) prefix() uint8 { return uint8(r.code >> 8 & 3) }
func (r *row) space() uint8  { return uint8(r.code >> 10 & 3) }
func (r *row) digit() uint8  { return uint8(r.code >> 12 & 7) }
func (r *row) count() int    { return (len(r.args) + 1) / 3 }

// Bits of row.vex and row.evex.
const (
	lx     = 1 // 128 bits
	ly     = 2 // 256 bits
	lz     = 4 // 512 bits
	xy     = lx | ly
	xyz    = lx | ly | lz
	yz     = ly | lz
	w1     = 8
	bc     = 16 // allows a broadcast element in memory: 4 bytes, or 8 with w1
	noMask = 32 // allows no mask
)

// Values of row.tuple. n1, n2, ... are fixed numbers of bytes. Instructions without an EVEX form ignore the value.
const (
	fullVector    = iota // the length of a vector
	halfVector           // half of the length of a vector
	quarterVector        // a quarter of the length
	eighthVector         // an eighth of the length
	n1
	n2
	n4
	n8
	n16
	n32
)

// unit returns the unit of one-byte displacements in the EVEX form.
func (r *row) unit(length uint8, broadcast bool) int32 {
	switch {
	case broadcast && r.evex&w1 != 0:
		return 8
	case broadcast:
		return 4
	case r.tuple >= n1:
		return 1 << (r.tuple - n1)
	}
	return 16 << length >> r.tuple
}

// tables has the rows of all instructions, grouped by subject.
var tables = [][]row{generalRows, moveRows, floatRows, fmaRows, integerRows, conversionRows, shuffleRows, maskRows,
	tileRows}

// rowsOf returns the rows by mnemonic. The map is built when the first instruction is assembled.
var rowsOf = sync.OnceValue(func() map[string][]row {
	m := map[string][]row{}
	for _, t := range tables {
		for i := 0; i < len(t); {
			end := i + 1
			for end < len(t) && t[end].name == t[i].name {
				end++
			}
			m[t[i].name] = t[i:end]
			i = end
		}
	}
	return m
})
