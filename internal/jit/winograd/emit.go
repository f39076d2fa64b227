package winograd

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
	arm64 "github.com/graphrun/graphrun/internal/jit/target/arm64/writer"
	"github.com/graphrun/graphrun/internal/machine"
)

// These are the indices of the pointers of a call: the output, the input, and the bias of results. For the output and
// the input, Step is the distance in bytes between columns (of pixels or points), and Row is the distance in bytes
// between rows. Step at tileStep+outputIndex and tileStep+inputIndex is the distance in bytes between tiles. A pointer
// to pixels points to the first pixel inside the image part of the tile.
const (
	outputIndex = 0
	inputIndex  = 1
	biasIndex   = 2
	tileStep    = 2
)

// EpilogueOperands is the index of the first epilogue operand among the pointers of a call. The caller sets Ptr to the
// operand, and Row to the offset in bytes of the operand's value for the first element of the call.
const EpilogueOperands = 4

// General registers.
const (
	regEpilogue target.GReg = iota // results: address of an epilogue operand; points: distance between rows
	regChannel                     // offset of the current channels in bytes
	inputCursor                    // see tileAddresser
	outputCursor
	regBias // results: address of the bias; points: 5 times the distance between columns
	inputBase
	outputBase
	inputMinor
	inputMinor3
	inputMinor5
	inputMajor
	outputMinor
	outputMinor3
)

// tileAddresser computes the addresses of a tile's elements. One coordinate of an element (the major one) moves a
// cursor register; the other (the minor one) selects an index register.
type tileAddresser struct {
	byRows  bool // rows are the major coordinate
	base    target.GReg
	cursor  target.GReg    // the address for the current major coordinate
	minor   [3]target.GReg // 1, 3 and 5 times the distance between minor coordinates
	major   target.Int     // the distance between major coordinates
	current int            // the current major coordinate, or -1
}

// addr returns the address of an element. It may emit code that moves the cursor.
func (p *tileAddresser) addr(c *code, row, col int) target.Addr {
	major, minor := col, row
	if p.byRows {
		major, minor = row, col
	}
	if p.current < 0 || major < p.current {
		c.Lea(target.Addr{Base: p.base, Index: regChannel, Scale: 1}, p.cursor)
		p.current = 0
	}
	for ; p.current < major; p.current++ {
		c.Add(p.major, p.cursor)
	}
	at := target.Addr{Base: p.cursor, Index: p.minor[0], Scale: uint8(minor)}
	switch minor {
	case 0:
		at = target.Addr{Base: p.cursor}
	case 3:
		at.Index, at.Scale = p.minor[1], 1
	case 5:
		at.Index, at.Scale = p.minor[2], 1
	}
	return at
}

// code generates the code of one transform.
type code struct {
	target.Writer
	cpu           machine.Features
	fmaForms      func(negate bool) []alloc.Form // forms of multiply-adds of the sources k, x and y
	registers     int                            // number of vector registers for values
	input, output tileAddresser
	partChannels  int  // channels in the last, partial vector; 0 if all vectors are whole
	toPixels      bool // the output is pixels, which are not padded to whole vectors, as points are
}

func newCode(cpu machine.Features, partChannels int, toPixels, withListing bool) (*code, error) {
	c := &code{cpu: cpu, partChannels: partChannels, toPixels: toPixels}
	switch {
	case cpu.Has(machine.NEON):
		c.Writer, c.fmaForms = arm64.New(4, withListing), arm64.FMAForms
	case cpu.Has(machine.AVX2):
		c.Writer, c.fmaForms = amd64.New(cpu, 4, withListing), amd64.FMAForms
	default:
		return nil, fmt.Errorf("winograd: no code for %v", cpu)
	}
	c.registers, _ = target.Vectors(cpu)
	c.input = tileAddresser{base: inputBase, cursor: inputCursor,
		minor: [3]target.GReg{inputMinor, inputMinor3, inputMinor5},
		major: inputMajor}
	c.output = tileAddresser{byRows: true, base: outputBase, cursor: outputCursor,
		minor: [3]target.GReg{outputMinor, outputMinor3, regBias},
		major: regEpilogue}
	if toPixels {
		c.output.major = rowOf(outputIndex)
	}
	return c, nil
}

// Lanes is the number of channels in a vector.
func Lanes(cpu machine.Features) int {
	_, bytes := target.Vectors(cpu)
	return bytes / 4
}

func ptrOf(k int) target.Word  { return target.Word(jit.OffsetPtr + 8*int32(k)) }
func rowOf(k int) target.Word  { return target.Word(jit.OffsetRow + 8*int32(k)) }
func stepOf(k int) target.Word { return target.Word(jit.OffsetStep + 8*int32(k)) }

// spilled returns the address of a spill slot. The slot is aligned to a cache line if the address of Args is, which is
// the case for large heap objects.
func (c *code) spilled(slot int) target.Addr {
	start := (jit.OffsetSpill + 63) &^ 63
	return target.Addr{Base: target.Args, Disp: int(min(start, jit.OffsetSpill+56)) + 4*slot*Lanes(c.cpu)}
}

// tileOperand returns the address of an element of an epilogue operand that has the layout of the result. The distance
// from the result's element to the operand's element is the same for all elements.
func (c *code) tileOperand(operand, row, col int) target.Addr {
	at := c.output.addr(c, row, col)
	c.Move(stepOf(EpilogueOperands+operand), regEpilogue)
	c.Add(at.Base, regEpilogue)
	at.Base = regEpilogue
	return at
}

// lanesOperand returns the address of an epilogue operand's current channels.
func (c *code) lanesOperand(operand int) target.Addr {
	c.Move(ptrOf(EpilogueOperands+operand), regEpilogue)
	c.Add(rowOf(EpilogueOperands+operand), regEpilogue)
	return target.Addr{Base: regEpilogue, Index: regChannel, Scale: 1}
}

// begin emits the loads that precede the loops.
func (c *code) begin() {
	c.Move(ptrOf(inputIndex), c.input.base)
	c.Move(ptrOf(outputIndex), c.output.base)
	c.Move(stepOf(inputIndex), inputMajor)
	c.Move(rowOf(inputIndex), c.input.minor[0])
	c.Move(stepOf(outputIndex), c.output.minor[0])
	setMultiple := func(m [3]target.GReg, i int, n uint8) { // sets m[i] to n times m[0]
		c.Lea(target.Addr{Base: m[0], Index: m[0], Scale: n - 1}, m[i])
	}
	setMultiple(c.input.minor, 1, 3)
	setMultiple(c.input.minor, 2, 5)
	setMultiple(c.output.minor, 1, 3)
	if c.toPixels {
		c.Move(ptrOf(biasIndex), regBias)
	} else {
		setMultiple(c.output.minor, 2, 5)
		c.Move(rowOf(outputIndex), regEpilogue)
	}
}

// loops emits the loops over tiles and channels around a block.
func (c *code) loops(b *block) error {
	c.begin()
	tiles, vectors, partial := c.NewLabel(), c.NewLabel(), c.NewLabel()
	limit := target.Word(jit.OffsetN)
	if c.partChannels > 0 && !target.MasksInVectors(c.cpu) {
		c.setLanes()
	}
	c.Align(16)
	c.Bind(tiles)
	c.Move(target.Imm(0), regChannel)
	c.CompareJump(regChannel, limit, target.GE, partial)
	c.Align(32)
	c.Bind(vectors)
	if _, err := c.write(b, false); err != nil {
		return err
	}
	c.Add(target.Imm(4*Lanes(c.cpu)), regChannel)
	c.CompareJump(regChannel, limit, target.LT, vectors)
	c.Bind(partial)
	if c.partChannels > 0 {
		if target.MasksInVectors(c.cpu) {
			c.registers--
			c.setLanes()
		}
		if _, err := c.write(b, true); err != nil {
			return err
		}
	}
	c.Add(stepOf(tileStep+inputIndex), c.input.base)
	c.Add(stepOf(tileStep+outputIndex), c.output.base)
	c.AddJump(-1, target.Word(jit.OffsetRows), target.NE, tiles)
	c.Return()
	return nil
}

// setLanes sets the mask of the partial vector, in the register after those of values.
func (c *code) setLanes() {
	c.SetLanes(target.Imm(c.partChannels), target.VReg(c.registers), [2]target.GReg{inputCursor})
}
