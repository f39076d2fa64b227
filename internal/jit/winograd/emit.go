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

// This file emits the loops of a transform over tiles and channels, and computes addresses. The input transform reads a
// tile of pixels and writes its points, the elements of the transformed tile. The output transform reads points and
// writes pixels. select.go emits the transform of one tile (emitBlock).

// Indices of the pointers of a call ([jit.Args].Ptr): the output, the input, and the bias of results. For the output
// and the input, Step and Row are the distances in bytes between columns (of pixels or points) and between rows. Step
// at tileStep+outputIndex and tileStep+inputIndex is the distance in bytes between tiles. A pointer to pixels points to
// the first pixel of the tile that is inside the image.
const (
	outputIndex = 0
	inputIndex  = 1
	biasIndex   = 2
	tileStep    = 2
)

// FirstEpilogueOperand is the index of the first epilogue operand among the pointers of a call. The caller sets Ptr to
// the operand. Row is the offset in bytes of the operand's element that corresponds to the first element of the result.
// Step is set by [Transform.Run] (see tileOperand). The index is 4, because Step has other entries up to
// tileStep+inputIndex.
const FirstEpilogueOperand = 4

// General registers. The registers named input and output have the fields of a tileAddresser. Minor3 and Minor5 are 3
// and 5 times Minor.
const (
	epilogueReg target.GReg = iota // address of an epilogue operand
	channelReg                     // offset of the current channels in bytes
	inputCursorReg
	outputCursorReg
	biasReg // address of the bias
	inputBaseReg
	outputBaseReg
	inputMinorReg
	inputMinor3Reg
	inputMinor5Reg
	inputMajorReg
	outputMinorReg
	outputMinor3Reg
)

// Registers of the transforms to points. These transforms have neither an epilogue nor a bias, so both registers are
// free.
const (
	outputMajorReg  = epilogueReg
	outputMinor5Reg = biasReg
)

// tileAddresser computes the addresses of a tile's elements with few instructions. One coordinate of an element (major)
// advances a cursor register. The other coordinate (minor, 0 to 5) selects an index register and its scale. The input
// is read column by column, so its major coordinate is the column; the output is written row by row. For example, the
// output element (2, 4) has the address cursor + 4*minor[0], with the cursor at row 2.
type tileAddresser struct {
	byRows      bool           // the major coordinate is the row, otherwise the column
	base        target.GReg    // the address of the tile's first element in the first channel
	cursor      target.GReg    // the address for the current major coordinate and channels
	minor       [3]target.GReg // 1, 3 and 5 times the distance between minor coordinates
	major       target.Int     // the distance between major coordinates
	cursorMajor int            // the major coordinate of the cursor; -1 if the cursor is not set
}

// addr returns the address of an element. It may emit code that sets or advances the cursor.
func (a *tileAddresser) addr(c *codeGen, row, col int) target.Addr {
	major, minor := col, row
	if a.byRows {
		major, minor = row, col
	}
	if a.cursorMajor < 0 || major < a.cursorMajor {
		c.Lea(target.Addr{Base: a.base, Index: channelReg, Scale: 1}, a.cursor)
		a.cursorMajor = 0
	}
	for ; a.cursorMajor < major; a.cursorMajor++ {
		c.Add(a.major, a.cursor)
	}
	addr := target.Addr{Base: a.cursor, Index: a.minor[0], Scale: uint8(minor)} // for minor 1, 2 and 4
	switch minor {
	case 0:
		addr = target.Addr{Base: a.cursor}
	case 3:
		addr.Index, addr.Scale = a.minor[1], 1
	case 5:
		addr.Index, addr.Scale = a.minor[2], 1
	}
	return addr
}

// reset states that the cursor register has no address, as at the start of a block.
func (a *tileAddresser) reset() { a.cursorMajor = -1 }

// codeGen generates the code of one transform.
type codeGen struct {
	target.Writer
	cpu           machine.Features
	fmaForms      func(negate bool) []alloc.Form // encodings of y + k*x, or of y - k*x; the sources are k, x, y
	registerCount int                            // number of vector registers for values
	input, output tileAddresser
	tailChannels  int  // number of channels in the last, partial vector; 0 if all vectors are whole
	writesPixels  bool // the output has pixels, whose channels are not padded to whole vectors; points are padded
}

// newCodeGen chooses the writer and the registers of addresses.
func newCodeGen(cpu machine.Features, tailChannels int, writesPixels, withListing bool) (*codeGen, error) {
	gen := &codeGen{cpu: cpu, tailChannels: tailChannels, writesPixels: writesPixels}
	switch {
	case cpu.Has(machine.NEON):
		gen.Writer, gen.fmaForms = arm64.New(4, withListing), arm64.FMAForms
	case cpu.Has(machine.AVX2):
		gen.Writer, gen.fmaForms = amd64.New(cpu, 4, withListing), amd64.FMAForms
	default:
		return nil, fmt.Errorf("winograd: there is no code for %v: want AVX2 or NEON", cpu)
	}
	gen.registerCount, _ = target.VectorRegisters(cpu)
	gen.input = tileAddresser{base: inputBaseReg, cursor: inputCursorReg,
		minor: [3]target.GReg{inputMinorReg, inputMinor3Reg, inputMinor5Reg},
		major: inputMajorReg}
	gen.output = tileAddresser{byRows: true, base: outputBaseReg, cursor: outputCursorReg,
		minor: [3]target.GReg{outputMinorReg, outputMinor3Reg, outputMinor5Reg},
		major: outputMajorReg}
	if writesPixels { // a tile of pixels has at most 4 columns, so outputMinor5Reg is not used
		gen.output.major = target.ArgsRow(outputIndex)
	}
	return gen, nil
}

// Lanes returns the number of channels in a vector.
func Lanes(cpu machine.Features) int {
	_, bytes := target.VectorRegisters(cpu)
	return bytes / 4
}

// spilled returns the address of a spill slot, a vector in Args.Spill. The slot is aligned to a cache line if the
// address of Args is, which is the case for large heap objects.
func (c *codeGen) spilled(slot int) target.Addr {
	start := (jit.OffsetSpill + 63) &^ 63 // the next multiple of 64 bytes; min below keeps the slots within Spill
	const padding = 56                    // Spill is 56 bytes longer than its slots
	return target.Addr{Base: target.Args, Disp: int(min(start, jit.OffsetSpill+padding)) + 4*slot*Lanes(c.cpu)}
}

// tileOperand returns the address of an element of an epilogue operand that has the layout of the result. The distance
// from the result's element to the operand's element is the same for all elements.
func (c *codeGen) tileOperand(operand, row, col int) target.Addr {
	addr := c.output.addr(c, row, col)
	c.Move(target.ArgsStep(FirstEpilogueOperand+operand), epilogueReg)
	c.Add(addr.Base, epilogueReg)
	addr.Base = epilogueReg
	return addr
}

// channelOperand returns the address of an epilogue operand's current channels.
func (c *codeGen) channelOperand(operand int) target.Addr {
	target.LoadAddress(c, FirstEpilogueOperand+operand, epilogueReg)
	return target.Addr{Base: epilogueReg, Index: channelReg, Scale: 1}
}

// begin emits the loads of addresses and distances before the loops.
func (c *codeGen) begin() {
	c.Move(target.ArgsPtr(inputIndex), c.input.base)
	c.Move(target.ArgsPtr(outputIndex), c.output.base)
	c.Move(target.ArgsStep(inputIndex), inputMajorReg)
	c.Move(target.ArgsRow(inputIndex), c.input.minor[0])
	c.Move(target.ArgsStep(outputIndex), c.output.minor[0])
	// setMultiple sets registers[index] to factor times registers[0]: registers[0] + (factor-1)*registers[0].
	setMultiple := func(registers [3]target.GReg, index int, factor uint8) {
		c.Lea(target.Addr{Base: registers[0], Index: registers[0], Scale: factor - 1}, registers[index])
	}
	setMultiple(c.input.minor, 1, 3)
	setMultiple(c.input.minor, 2, 5)
	setMultiple(c.output.minor, 1, 3)
	if c.writesPixels {
		c.Move(target.ArgsPtr(biasIndex), biasReg)
	} else {
		setMultiple(c.output.minor, 2, 5)
		c.Move(target.ArgsRow(outputIndex), outputMajorReg)
	}
}

// loops emits the loops over tiles and channels around a block.
func (c *codeGen) loops(b *block) error {
	c.begin()
	tiles, vectors, partial := c.NewLabel(), c.NewLabel(), c.NewLabel()
	limit := target.ArgsWord(jit.OffsetInnerCount) // bytes of the channels in whole vectors
	if c.tailChannels > 0 && !target.UsesVectorMasks(c.cpu) {
		c.setLanes()
	}
	c.Align(16)
	c.Bind(tiles)
	c.Move(target.Imm(0), channelReg)
	c.CompareJump(channelReg, limit, target.GE, partial) // there is no whole vector
	c.Align(32)
	c.Bind(vectors)
	const whole, tail = false, true // values of isTail
	if _, err := c.emitBlock(b, whole); err != nil {
		return err
	}
	c.Add(target.Imm(4*Lanes(c.cpu)), channelReg)
	c.CompareJump(channelReg, limit, target.LT, vectors)
	c.Bind(partial)
	if c.tailChannels > 0 {
		if target.UsesVectorMasks(c.cpu) { // AVX2: the mask takes one of the registers of values
			c.registerCount--
			c.setLanes()
		}
		if _, err := c.emitBlock(b, tail); err != nil {
			return err
		}
	}
	c.Add(target.ArgsStep(tileStep+inputIndex), c.input.base)
	c.Add(target.ArgsStep(tileStep+outputIndex), c.output.base)
	c.AddJump(-1, target.ArgsWord(jit.OffsetRows), target.NE, tiles) // Rows is the number of remaining tiles
	c.Return()
	return nil
}

// setLanes sets the length of the partial vector. If masks are in vector registers (AVX2), the mask is in the register
// after the registers of values. The number of lanes is a constant, so SetLanes uses only the first temporary register.
func (c *codeGen) setLanes() {
	c.SetLanes(target.Imm(c.tailChannels), target.VReg(c.registerCount), [2]target.GReg{inputCursorReg})
}
