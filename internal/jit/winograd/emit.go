package winograd

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// The pointers of a call: what is written, what is read, and the bias of results. For the first two Step is the bytes
// from a column to the next (of pixels, or of points) and Row those from a row to the next; the entries at tileOf are
// the bytes from tile to tile. Pixels are told by the first of the tile that is there.
const (
	target = 0
	source = 1
	biasAt = 2
	tileOf = 2
)

// Tails is the first operand of a tail among the pointers of a call, which the caller sets, with Row the bytes from
// there to what belongs to the first element of the call.
const Tails = 4

// The general registers of the code. What is read has its columns one after another, in a column its rows; what is
// written has its rows one after another.
const (
	regArgs    = asm.DI
	regBias    = asm.SI // of results; of points it is free
	regChannel = asm.BX // bytes of the channels that are done
	regTail    = asm.AX // of results: where an operand of the tail is; of points the bytes from row to row
)

// plane is where the elements of a tile lie, by a major and a minor of its two coordinates.
type plane struct {
	byRows bool // rows are major
	base   asm.Reg
	cursor asm.Reg    // the address at the major coordinate
	minor  [3]asm.Reg // 1, 3 and 5 times the bytes from a minor coordinate to the next
	major  asm.Arg    // the bytes from a major coordinate to the next
	at     int        // the major coordinate of the cursor, or -1
}

// mem is the memory of an element. It may move the cursor.
func (p *plane) mem(c *code, row, col int) asm.Mem {
	major, minor := col, row
	if p.byRows {
		major, minor = row, col
	}
	if p.at < 0 || major < p.at {
		c.Emit("LEAQ", asm.Mem{Base: p.base, Index: regChannel, Scale: 1}, p.cursor)
		p.at = 0
	}
	for ; p.at < major; p.at++ {
		c.Emit("ADDQ", p.major, p.cursor)
	}
	m := asm.Mem{Base: p.cursor, Index: p.minor[0], Scale: uint8(minor)}
	switch minor {
	case 0:
		m = asm.Mem{Base: p.cursor}
	case 3:
		m.Index, m.Scale = p.minor[1], 1
	case 5:
		m.Index, m.Scale = p.minor[2], 1
	}
	return m
}

// code is a transform that is being written.
type code struct {
	asm.Assembler
	isa            machine.ISA
	registers      int
	source, target plane
	part           int  // lanes of the last vector; 0 where all are whole
	results        bool // they are pixels, which have no room for whole vectors; points have
}

func newCode(isa machine.ISA, part int, results, list bool) (*code, error) {
	c := &code{isa: isa, registers: 32, part: part, results: results}
	c.Assembler = asm.Assembler{NoEVEX: isa != machine.AVX512, List: list}
	switch isa {
	case machine.AVX2:
		c.registers = 16
	case machine.Portable:
		return nil, fmt.Errorf("winograd: no code for %v", isa)
	}
	c.source = plane{base: asm.R8, cursor: asm.CX, minor: [3]asm.Reg{asm.R10, asm.R11, asm.R12}, major: asm.R13}
	c.target = plane{byRows: true, base: asm.R9, cursor: asm.DX, minor: [3]asm.Reg{asm.R14, asm.R15, regBias},
		major: regTail}
	if results {
		c.target.major = asm.Mem{Base: regArgs, Disp: jit.OffsetRow + 8*target}
	}
	return c, nil
}

// Lanes is the number of channels of a vector.
func Lanes(isa machine.ISA) int {
	if isa == machine.AVX512 {
		return 16
	}
	return 8
}

func (c *code) vec(r int) asm.Vec {
	if c.isa == machine.AVX512 {
		return asm.Z(r)
	}
	return asm.Y(r)
}

// constantMem is a number for all lanes, as an operand.
func (c *code) constantMem(f float32) asm.Mem {
	one := binary.LittleEndian.AppendUint32(nil, math.Float32bits(f))
	if c.isa == machine.AVX512 {
		m := c.Constant(one)
		m.Broadcast = true
		return m
	}
	var all []byte
	for range Lanes(c.isa) {
		all = append(all, one...)
	}
	return c.Constant(all)
}

func (c *code) constant(f float32, r int) {
	m := c.constantMem(f)
	m.Broadcast = false
	if c.isa == machine.AVX512 {
		c.Emit("VBROADCASTSS", m, c.vec(r))
		return
	}
	c.Emit("VMOVUPS", m, c.vec(r))
}

// spilled is a place of the spill area. It is aligned where Args is aligned to a line, as large objects of the heap
// are.
func (c *code) spilled(slot int) asm.Mem {
	start := (jit.OffsetSpill + 63) &^ 63
	return asm.Mem{Base: regArgs, Disp: min(start, jit.OffsetSpill+56) + int32(4*slot*Lanes(c.isa))}
}

// maskMem is the mask of the part of a vector, for AVX2.
func (c *code) maskMem() asm.Mem {
	mask := make([]byte, 4*Lanes(c.isa))
	for i := range 4 * c.part {
		mask[i] = 0xFF
	}
	return c.Constant(mask)
}

// maskRegister is kept from values where a vector is a part, for AVX2.
const maskRegister = 15

// loadPart loads the part of a vector that there is; the rest is 0.
func (c *code) loadPart(from asm.Mem, to asm.Vec) {
	if c.isa == machine.AVX512 {
		c.Emit("VMOVUPS", from, asm.K1.Zero(), to)
		return
	}
	c.Emit("VMASKMOVPS", from, asm.Y(maskRegister), to)
}

// store stores a vector, of pixels only the part that there is.
func (c *code) store(v asm.Vec, to asm.Mem, part bool) {
	switch {
	case !part || !c.results:
		c.Emit("VMOVUPS", v, to)
	case c.isa == machine.AVX512:
		c.Emit("VMOVUPS", v, asm.K1, to)
	default:
		c.Emit("VMASKMOVPS", v, asm.Y(maskRegister), to)
	}
}

// tailTile is where an operand of the tail that lies as the result does has what belongs to an element: as far from
// that as the first ones are from one another.
func (c *code) tailTile(operand, row, col int) asm.Mem {
	m := c.target.mem(c, row, col)
	c.Emit("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetStep + 8*int32(Tails+operand)}, regTail)
	c.Emit("ADDQ", m.Base, regTail)
	m.Base = regTail
	return m
}

// tailLanes is where an operand of the tail has the channels at hand.
func (c *code) tailLanes(operand int) asm.Mem {
	c.Emit("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetPtr + 8*int32(Tails+operand)}, regTail)
	c.Emit("ADDQ", asm.Mem{Base: regArgs, Disp: jit.OffsetRow + 8*int32(Tails+operand)}, regTail)
	return asm.Mem{Base: regTail, Index: regChannel, Scale: 1}
}

// begin loads what the loops need.
func (c *code) begin() {
	load := func(off int32, i int, r asm.Reg) {
		c.Emit("MOVQ", asm.Mem{Base: regArgs, Disp: off + 8*int32(i)}, r)
	}
	load(jit.OffsetPtr, source, c.source.base)
	load(jit.OffsetPtr, target, c.target.base)
	load(jit.OffsetStep, source, asm.R13)
	load(jit.OffsetRow, source, c.source.minor[0])
	load(jit.OffsetStep, target, c.target.minor[0])
	times := func(m [3]asm.Reg, i int, n uint8) {
		c.Emit("LEAQ", asm.Mem{Base: m[0], Index: m[0], Scale: n - 1}, m[i])
	}
	times(c.source.minor, 1, 3)
	times(c.source.minor, 2, 5)
	times(c.target.minor, 1, 3)
	if c.results {
		load(jit.OffsetPtr, biasAt, regBias)
	} else {
		times(c.target.minor, 2, 5)
		load(jit.OffsetRow, target, regTail)
	}
}

// loops writes the loops over tiles and channels around a block.
func (c *code) loops(b *block) {
	c.begin()
	tiles, vectors, rest := c.NewLabel(), c.NewLabel(), c.NewLabel()
	limit := asm.Mem{Base: regArgs, Disp: jit.OffsetN}
	if c.part > 0 && c.isa == machine.AVX512 {
		c.Emit("MOVL", asm.Imm(1<<c.part-1), asm.CX)
		c.Emit("KMOVW", asm.CX, asm.K1)
	}
	c.Align(16)
	c.Bind(tiles)
	c.Emit("XORL", regChannel, regChannel)
	c.Emit("CMPQ", regChannel, limit)
	c.Emit("JGE", rest)
	c.Align(32)
	c.Bind(vectors)
	c.write(b, false)
	c.Emit("ADDQ", asm.Imm(4*Lanes(c.isa)), regChannel)
	c.Emit("CMPQ", regChannel, limit)
	c.Emit("JLT", vectors)
	c.Bind(rest)
	if c.part > 0 {
		if c.isa != machine.AVX512 {
			c.registers = maskRegister
			c.Emit("VMOVUPS", c.maskMem(), asm.Y(maskRegister))
		}
		c.write(b, true)
	}
	step := func(i int) asm.Mem { return asm.Mem{Base: regArgs, Disp: jit.OffsetStep + 8*int32(tileOf+i)} }
	c.Emit("ADDQ", step(source), c.source.base)
	c.Emit("ADDQ", step(target), c.target.base)
	c.Emit("SUBQ", asm.Imm(1), asm.Mem{Base: regArgs, Disp: jit.OffsetRows})
	c.Emit("JNE", tiles)
	c.Emit("VZEROUPPER")
	c.Emit("RET")
}
