package winograd

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// These are the indices of the pointers of a call: the output, the input, and the bias of results. For the output and
// the input, Step is the distance in bytes between columns (of pixels or points), and Row is the distance in bytes
// between rows. Step at tileStep+target and tileStep+source is the distance in bytes between tiles. A pointer to pixels
// points to the first pixel inside the image part of the tile.
const (
	target    = 0
	source    = 1
	biasIndex = 2
	tileStep  = 2
)

// EpilogueOperands is the index of the first epilogue operand among the pointers of a call. The caller sets Ptr to the
// operand, and Row to the offset in bytes of the operand's value for the first element of the call.
const EpilogueOperands = 4

// The general-purpose registers of the code. The input is read column by column, and the output written row by row.
const (
	regArgs     = asm.DI
	regBias     = asm.SI // address of the bias, in transforms to results; otherwise free
	regChannel  = asm.BX // offset of the current channels in bytes
	regEpilogue = asm.AX // results: address of an epilogue operand; points: distance between rows
)

// plane computes the addresses of a tile's elements. The code moves a cursor along the major coordinate of the
// elements. The minor coordinate selects an index register.
type plane struct {
	byRows  bool // rows are the major coordinate
	base    asm.Reg
	cursor  asm.Reg    // the address for the current major coordinate
	minor   [3]asm.Reg // 1, 3 and 5 times the distance between minor coordinates
	major   asm.Arg    // the distance between major coordinates
	current int        // the current major coordinate, or -1
}

// mem returns the address of an element. It may emit code that moves the cursor.
func (p *plane) mem(c *code, row, col int) asm.Mem {
	major, minor := col, row
	if p.byRows {
		major, minor = row, col
	}
	if p.current < 0 || major < p.current {
		c.Emit("LEAQ", asm.Mem{Base: p.base, Index: regChannel, Scale: 1}, p.cursor)
		p.current = 0
	}
	for ; p.current < major; p.current++ {
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

// code generates the code of one transform.
type code struct {
	asm.Assembler
	cpu            machine.Features
	registers      int
	source, target plane
	partChannels   int  // channels in the last, partial vector; 0 if all vectors are whole
	toPixels       bool // the output is pixels; only points are padded to whole vectors
}

func newCode(cpu machine.Features, part int, results, list bool) (*code, error) {
	c := &code{cpu: cpu, registers: 32, partChannels: part, toPixels: results}
	c.Assembler = asm.Assembler{NoEVEX: !cpu.Has(machine.Vector512), List: list}
	if !cpu.Has(machine.AVX2) {
		return nil, fmt.Errorf("winograd: no code for %v", cpu)
	}
	if !cpu.Has(machine.Vector512) {
		c.registers = 16
	}
	c.source = plane{base: asm.R8, cursor: asm.CX, minor: [3]asm.Reg{asm.R10, asm.R11, asm.R12}, major: asm.R13}
	c.target = plane{byRows: true, base: asm.R9, cursor: asm.DX, minor: [3]asm.Reg{asm.R14, asm.R15, regBias},
		major: regEpilogue}
	if results {
		c.target.major = asm.Mem{Base: regArgs, Disp: jit.OffsetRow + 8*target}
	}
	return c, nil
}

// Lanes is the number of channels in a vector.
func Lanes(cpu machine.Features) int {
	if cpu.Has(machine.Vector512) {
		return 16
	}
	return 8
}

func (c *code) vec(r int) asm.Vec {
	if c.cpu.Has(machine.Vector512) {
		return asm.Z(r)
	}
	return asm.Y(r)
}

// spilled returns the address of a spill slot. The slot is aligned to a cache line if the address of Args is, which is
// the case for large heap objects.
func (c *code) spilled(slot int) asm.Mem {
	start := (jit.OffsetSpill + 63) &^ 63
	return asm.Mem{Base: regArgs, Disp: min(start, jit.OffsetSpill+56) + int32(4*slot*Lanes(c.cpu))}
}

// maskMem returns the mask of the partial vector, for AVX2.
func (c *code) maskMem() asm.Mem {
	mask := make([]byte, 4*Lanes(c.cpu))
	for i := range 4 * c.partChannels {
		mask[i] = 0xFF
	}
	return c.Constant(mask)
}

// maskRegister holds the mask of the partial vector, for AVX2. It is not available for values.
const maskRegister = 15

// loadPart loads a partial vector; the other lanes become 0.
func (c *code) loadPart(from asm.Mem, to asm.Vec) {
	if c.cpu.Has(machine.Vector512) {
		c.Emit("VMOVUPS", from, asm.K1.Zero(), to)
		return
	}
	c.Emit("VMASKMOVPS", from, asm.Y(maskRegister), to)
}

// store stores a vector. If part is true and the output is pixels, it stores only the lanes of the partial vector.
func (c *code) store(v asm.Vec, to asm.Mem, part bool) {
	switch {
	case !part || !c.toPixels:
		c.Emit("VMOVUPS", v, to)
	case c.cpu.Has(machine.Vector512):
		c.Emit("VMOVUPS", v, asm.K1, to)
	default:
		c.Emit("VMASKMOVPS", v, asm.Y(maskRegister), to)
	}
}

// tileOperand returns the address of an element of an epilogue operand that has the layout of the result. The distance
// from the result's element to the operand's element is the same for all elements.
func (c *code) tileOperand(operand, row, col int) asm.Mem {
	m := c.target.mem(c, row, col)
	c.Emit("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetStep + 8*int32(EpilogueOperands+operand)}, regEpilogue)
	c.Emit("ADDQ", m.Base, regEpilogue)
	m.Base = regEpilogue
	return m
}

// lanesOperand returns the address of an epilogue operand's current channels.
func (c *code) lanesOperand(operand int) asm.Mem {
	c.Emit("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetPtr + 8*int32(EpilogueOperands+operand)}, regEpilogue)
	c.Emit("ADDQ", asm.Mem{Base: regArgs, Disp: jit.OffsetRow + 8*int32(EpilogueOperands+operand)}, regEpilogue)
	return asm.Mem{Base: regEpilogue, Index: regChannel, Scale: 1}
}

// begin emits the loads that precede the loops.
func (c *code) begin() {
	load := func(off int32, i int, r asm.Reg) {
		c.Emit("MOVQ", asm.Mem{Base: regArgs, Disp: off + 8*int32(i)}, r)
	}
	load(jit.OffsetPtr, source, c.source.base)
	load(jit.OffsetPtr, target, c.target.base)
	load(jit.OffsetStep, source, asm.R13)
	load(jit.OffsetRow, source, c.source.minor[0])
	load(jit.OffsetStep, target, c.target.minor[0])
	times := func(m [3]asm.Reg, i int, n uint8) { // sets m[i] to n times m[0]
		c.Emit("LEAQ", asm.Mem{Base: m[0], Index: m[0], Scale: n - 1}, m[i])
	}
	times(c.source.minor, 1, 3)
	times(c.source.minor, 2, 5)
	times(c.target.minor, 1, 3)
	if c.toPixels {
		load(jit.OffsetPtr, biasIndex, regBias)
	} else {
		times(c.target.minor, 2, 5)
		load(jit.OffsetRow, target, regEpilogue)
	}
}

// loops emits the loops over tiles and channels around a block.
func (c *code) loops(b *block) error {
	c.begin()
	tiles, vectors, rest := c.NewLabel(), c.NewLabel(), c.NewLabel()
	limit := asm.Mem{Base: regArgs, Disp: jit.OffsetN}
	if c.partChannels > 0 && c.cpu.Has(machine.Vector512) {
		c.Emit("MOVL", asm.Imm(1<<c.partChannels-1), asm.CX)
		c.Emit("KMOVW", asm.CX, asm.K1)
	}
	c.Align(16)
	c.Bind(tiles)
	c.Emit("XORL", regChannel, regChannel)
	c.Emit("CMPQ", regChannel, limit)
	c.Emit("JGE", rest)
	c.Align(32)
	c.Bind(vectors)
	if _, err := c.write(b, false); err != nil {
		return err
	}
	c.Emit("ADDQ", asm.Imm(4*Lanes(c.cpu)), regChannel)
	c.Emit("CMPQ", regChannel, limit)
	c.Emit("JLT", vectors)
	c.Bind(rest)
	if c.partChannels > 0 {
		if !c.cpu.Has(machine.Vector512) {
			c.registers = maskRegister
			c.Emit("VMOVUPS", c.maskMem(), asm.Y(maskRegister))
		}
		if _, err := c.write(b, true); err != nil {
			return err
		}
	}
	step := func(i int) asm.Mem { return asm.Mem{Base: regArgs, Disp: jit.OffsetStep + 8*int32(tileStep+i)} }
	c.Emit("ADDQ", step(source), c.source.base)
	c.Emit("ADDQ", step(target), c.target.base)
	c.Emit("SUBQ", asm.Imm(1), asm.Mem{Base: regArgs, Disp: jit.OffsetRows})
	c.Emit("JNE", tiles)
	c.Emit("VZEROUPPER")
	c.Emit("RET")
	return nil
}
