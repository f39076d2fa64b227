package asm

import "sync"

// row is one form of an instruction. Rows of a mnemonic are in the order in which they are tried, which is that of
// Go's assembler. The rows of VEX and EVEX were taken from its table (cmd/internal/obj/x86/avx_optabs.go, made from
// Intel's manual), those of VCVTNEPS2BF16, of tiles and of general registers from the manual itself.
//
// args is a list of operands in the order of Go's assembler, two letters each. The first says where it goes:
//
//	r  ModRM.reg                m  ModRM.rm, register or memory     b  ModRM.rm, register only
//	v  VEX.vvvv                 M  ModRM.rm, memory only            S  ModRM.rm, memory by a vector of indices
//	h  high half of the last byte     B  ModRM.rm, memory by SIB    o  low bits of the opcode
//	i  immediate                                                    j  target of a jump
//
// the second what it is:
//
//	v  vector of the instruction's length    h  of half its length, at least 128 bits
//	x  vector of 128 bits                    g  general register, or memory
//	k  mask                                  1  byte of a general register
//	t  tile
//
// and of immediates, how they are written: 1 is the number 1 and not written, b eight bits with sign, u eight bits
// without, d 32 bits with sign, w 32 bits without, q 64 bits.
type row struct {
	name  string
	args  string
	code  uint32 // opcode, prefix, map, digit of ModRM.reg
	vex   uint8  // lengths and W in the VEX form; of others W alone
	evex  uint8  // lengths and W in the EVEX form, whether it broadcasts and takes masks
	tuple uint8  // what a short displacement of the EVEX form counts in
}

// Of row.code.
const (
	p66 = 1 << 8 // prefixes, as VEX numbers them
	pF3 = 2 << 8
	pF2 = 3 << 8

	m0F   = 1 << 10 // maps, as VEX numbers them
	m0F38 = 2 << 10
	m0F3A = 3 << 10

	d1 = 1 << 12 // digits of ModRM.reg
	d2 = 2 << 12
	d3 = 3 << 12
	d4 = 4 << 12
	d5 = 5 << 12
	d6 = 6 << 12
	d7 = 7 << 12

	gp    = 1 << 15 // neither VEX nor EVEX
	fixed = 1 << 16 // ModRM is there without an operand
)

func (r *row) opcode() byte  { return byte(r.code) }
func (r *row) prefix() uint8 { return uint8(r.code >> 8 & 3) }
func (r *row) space() uint8  { return uint8(r.code >> 10 & 3) }
func (r *row) digit() uint8  { return uint8(r.code >> 12 & 7) }
func (r *row) count() int    { return (len(r.args) + 1) / 3 }

// Of row.vex and row.evex.
const (
	lx  = 1 // 128 bits
	ly  = 2 // 256 bits
	lz  = 4 // 512 bits
	xy  = lx | ly
	xyz = lx | ly | lz
	yz  = ly | lz
	w1  = 8
	bc  = 16 // memory may be one element of 4 bytes, of 8 with w1, for all lanes
	nk  = 32 // takes no mask
)

// Of row.tuple. n1 and those that follow are a number of bytes whatever the length.
const (
	full    = iota // as many bytes as a vector has
	half           // half as many
	quarter        // a fourth
	eighth         // an eighth
	n1
	n2
	n4
	n8
	n16
	n32
)

// unit returns the bytes that a short displacement of the EVEX form counts in.
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

// tables are all rows, by subject.
var tables = [][]row{generalRows, moveRows, floatRows, fmaRows, integerRows, conversionRows, shuffleRows, maskRows,
	tileRows}

// rowsOf finds the rows of a mnemonic. It is made when the first instruction is assembled.
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
