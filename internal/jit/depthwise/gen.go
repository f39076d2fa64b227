package depthwise

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
	arm64 "github.com/graphrun/graphrun/internal/jit/target/arm64/writer"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// General registers. Unless stated otherwise, they hold addresses.
const (
	inRow     target.GReg = iota // input at a row of the window
	weights                      // weights of the current channels
	weightRow                    // weights of a row of the window
	out                          // result at the tile and the current channels
	in                           // input at the tile and the current channels
	tiles                        // number of remaining tiles
	vectors                      // number of remaining vectors of channels
	inTile                       // input at the tile
	outTile                      // result at the tile
	channel                      // offset of the current channels in bytes
	overlap                      // bytes by which the last vector overlaps the vector before it
	rowsLeft                     // remaining rows of the window, or remaining channels of a group
	bias

	scratch = inRow // free outside the windows
)

// channelsLeft is the word of the spill area with the number of remaining channels of a group. It follows the operands
// of the epilogue.
const channelsLeft = jit.MaxOperands - EpilogueOperands

// minInputRegs is the minimum number of registers for input elements if all weights are in registers. With several
// registers, loads overlap with multiplications.
const minInputRegs = 4

// gen generates the code of a [Spec].
type gen struct {
	target.Writer
	spec *Spec

	sumRegs    int // number of registers with sums, which start at register 0
	weightRegs int // number of registers with weights, after the sums: all weights, those of a window row, or none
	inputRegs  int // number of registers with inputs, after the weights; the permutation of grouped convolutions follows
	nextInput  int // next input register

	clear          func(target.VReg) // sets a register to 0; on amd64, the register must be below 16
	memoryOperands bool              // multiplications can read memory, so that a vector with one use needs no register
}

// newGen divides the vector registers among sums, weights, inputs and the permutation. It prefers to keep all weights
// of a window in registers, with minInputRegs inputs, then those of a row of the window, with one input.
func newGen(spec *Spec, cpu machine.Features, withListing bool) *gen {
	g := &gen{spec: spec, memoryOperands: !cpu.Has(machine.NEON), sumRegs: spec.Tile[0] * spec.Tile[1]}
	if cpu.Has(machine.NEON) {
		g.Writer = arm64.New(spec.Size, withListing)
		g.clear = g.Clear
	} else {
		writer := amd64.New(cpu, spec.Size, withListing)
		writer.SetVectorBytes(spec.VectorBytes)
		g.Writer, g.clear = writer, writer.ClearShort
	}
	registerCount, _ := target.Vectors(cpu)
	registerCount -= spec.permutationRegs()
	switch weightCount := spec.Window[0] * spec.Window[1]; {
	case !spec.RowsFromCall && g.sumRegs+weightCount+minInputRegs <= registerCount:
		g.weightRegs = weightCount
	case g.sumRegs+spec.Window[1]+1 <= registerCount:
		g.weightRegs = spec.Window[1]
	}
	g.inputRegs = registerCount - g.sumRegs - g.weightRegs
	return g
}

// declare names the registers for the listing of the code.
func (g *gen) declare() {
	g.Declare("the address of the input", inRow, in, inTile)
	g.Declare("the address of weights or a bias", weights, weightRow, bias)
	g.Declare("the address of the result", out, outTile)
	g.Declare("a count", tiles, vectors, rowsLeft)
	g.Declare("an offset of channels", channel, overlap)
	for i := range g.sumRegs {
		g.Declare("a sum", target.VReg(i))
	}
	for i := range g.weightRegs {
		g.Declare("a weight", g.weight(i))
	}
	for range g.inputRegs {
		g.Declare("an input", g.input())
	}
	if g.spec.Group > 1 {
		g.Declare("the permutation", g.permutation())
	}
}

// weight returns the register of a weight.
func (g *gen) weight(i int) target.VReg { return target.VReg(g.sumRegs + i) }

// input returns the next input register, in rotation.
func (g *gen) input() target.VReg {
	reg := target.VReg(g.sumRegs + g.weightRegs + g.nextInput%g.inputRegs)
	g.nextInput++
	return reg
}

// sum returns the register of a result.
func (g *gen) sum(row, col int) target.VReg { return target.VReg(row*g.spec.Tile[1] + col) }

// stepOf returns a word Step of jit.Args, and spillWord a word of jit.Args.Spill.
func stepOf(k int) target.Word    { return target.Word(jit.OffsetStep + int32(8*k)) }
func spillWord(k int) target.Word { return target.Word(jit.OffsetSpill + int32(8*k)) }

// loadAddress loads the address of an operand.
func loadAddress(writer target.Writer, k int, to target.GReg) {
	writer.Move(target.Word(jit.OffsetPtr+int32(8*k)), to)
	writer.Add(target.Word(jit.OffsetRow+int32(8*k)), to)
}

// emit generates the whole function: a loop over tiles, with an inner loop over vectors of channels.
func (g *gen) emit() {
	g.declare()
	g.begin()
	eachTile, eachVector, tileDone := g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Align(32)
	g.Bind(eachTile)
	g.Move(inTile, in)
	g.Move(outTile, out)
	loadAddress(g, Weights, weights)
	g.Move(target.Imm(0), channel)
	g.Move(target.Word(jit.OffsetN), vectors)
	g.Align(32)
	g.Bind(eachVector)
	g.initSums()
	if g.spec.PrefetchResult {
		g.eachResult(out, func(_ target.VReg, at target.Addr) { g.Prefetch(1, at) })
	}
	g.groupLoop()
	g.storeResults()
	for _, reg := range []target.GReg{in, out, channel} {
		g.Add(target.Imm(g.spec.VectorBytes), reg)
	}
	// The last vector starts overlap bytes earlier, so that it ends at the last channel.
	g.CountDown(vectors, target.EQ, tileDone)
	g.CompareJump(vectors, target.Imm(1), target.NE, eachVector)
	for _, reg := range []target.GReg{in, out, channel} {
		g.Sub(overlap, reg)
	}
	g.Jump(eachVector)
	g.Bind(tileDone)
	g.Add(target.Imm(g.spec.InTileStep), inTile)
	g.Add(target.Imm(g.spec.OutTileStep), outTile)
	g.CountDown(tiles, target.NE, eachTile)
	g.Return()
}

// begin emits the loads of values that do not change during the call. For an epilogue operand with the layout of the
// result, it keeps the distance from the result in a spill word. For any other epilogue operand it keeps the
// address.
func (g *gen) begin() {
	loadAddress(g, In, inTile)
	loadAddress(g, Out, outTile)
	if g.spec.Bias {
		loadAddress(g, Bias, bias)
	}
	g.Move(stepOf(Overlap), overlap)
	g.Move(target.Word(jit.OffsetRows), tiles)
	for _, step := range g.spec.Epilogue {
		switch step.Op {
		case tile.AddTile, tile.MulTile:
			loadAddress(g, EpilogueOperands+step.Operand, scratch)
			g.Sub(outTile, scratch)
			g.Move(scratch, spillWord(step.Operand))
		case tile.AddLanes, tile.MulLanes:
			loadAddress(g, EpilogueOperands+step.Operand, scratch)
			g.Move(scratch, spillWord(step.Operand))
		}
	}
}

// initSums initializes the sums.
func (g *gen) initSums() {
	if g.spec.Bias {
		g.Copy(target.Addr{Base: bias, Index: channel, Scale: 1}, target.VReg(0))
	} else {
		g.clear(0)
	}
	for i := 1; i < g.sumRegs; i++ {
		g.Copy(target.VReg(0), target.VReg(i))
	}
}

// groupLoop adds up the windows of all channels of a group. The weights of these channels are consecutive.
func (g *gen) groupLoop() {
	spec := g.spec
	advanceWeights := func() { g.Add(target.Imm(spec.Window[0]*spec.Window[1]*spec.VectorBytes), weights) }
	if spec.Group == 1 {
		g.windows()
		advanceWeights()
		return
	}
	top := g.NewLabel()
	g.Permutation(g.firstChannels(), g.permutation())
	g.Move(target.Imm(spec.Group), rowsLeft)
	g.Align(16)
	g.Bind(top)
	g.Move(rowsLeft, spillWord(channelsLeft)) // windows uses the register for rows
	g.windows()
	advanceWeights()
	g.AddToIndices(spec.Size/4, g.permutation()) // the next channel, in words of 4 bytes
	g.Move(spillWord(channelsLeft), rowsLeft)
	g.CountDown(rowsLeft, target.NE, top)
}

// permutation returns the register with the permutation of grouped convolutions. Word i of the permutation has the
// index of the word that is broadcast to word i: the current channel of the group that contains word i.
func (g *gen) permutation() target.VReg { return target.VReg(g.sumRegs + g.weightRegs + g.inputRegs) }

// firstChannels returns the permutation for the first channel of the groups.
func (g *gen) firstChannels() (list []int) {
	words := g.spec.Size / 4
	for i := range g.spec.VectorBytes / 4 {
		first := i / words / g.spec.Group * g.spec.Group // first lane of the group that contains word i
		list = append(list, first*words+i%words)
	}
	return list
}

// loadInput loads an element of the input; in a grouped convolution it broadcasts one channel to all lanes of its
// group.
func (g *gen) loadInput(at target.Addr, to target.VReg) {
	if g.spec.Group > 1 {
		g.Permute(at, g.permutation(), to)
	} else {
		g.Copy(at, to)
	}
}

// windows adds up the products of all windows of a tile, without the parts of windows outside the image. If
// registers hold all weights, each element of the input is loaded once. Otherwise it is loaded once for each row of
// the window.
func (g *gen) windows() {
	spec := g.spec
	if g.weightRegs == spec.Window[0]*spec.Window[1] && !spec.RowsFromCall {
		g.inputRows()
		return
	}
	if !spec.RowsFromCall {
		for k := range spec.Window[0] {
			g.windowRow(k, in, weights, spec.First[0], spec.End[0])
		}
		return
	}
	top, end := g.NewLabel(), g.NewLabel()
	g.Move(stepOf(WindowRows), rowsLeft)
	g.AddJump(0, rowsLeft, target.LE, end)
	g.Move(in, inRow)
	g.Move(weights, weightRow)
	g.Align(16)
	g.Bind(top)
	g.windowRow(0, inRow, weightRow, 0, math.MaxInt32) // all rows exist: the call passes only existing rows
	g.Add(target.Imm(spec.In[0]*spec.Dilation[0]), inRow)
	g.Add(target.Imm(spec.Window[1]*spec.VectorBytes), weightRow)
	g.CountDown(rowsLeft, target.NE, top)
	g.Bind(end)
}

// inputRows processes the input row by row. It adds the products of each element to all results whose windows
// contain the element, so each result adds the rows of its window in order.
func (g *gen) inputRows() {
	spec := g.spec
	for i := range g.weightRegs {
		g.Copy(target.Addr{Base: weights, Disp: i * spec.VectorBytes}, g.weight(i))
	}
	for inputRow := spec.First[0]; inputRow < spec.End[0]; inputRow++ {
		for col := spec.First[1]; col < spec.End[1]; col++ {
			var uses []weightUse
			for row := range spec.Tile[0] { // row of the window: (inputRow - row*stride)/dilation, if that exists
				if offset := inputRow - row*spec.Stride[0]; offset >= 0 && offset%spec.Dilation[0] == 0 &&
					offset/spec.Dilation[0] < spec.Window[0] {
					uses = g.usesOfColumn(uses, row, col, offset/spec.Dilation[0]*spec.Window[1])
				}
			}
			disp := (inputRow-spec.First[0])*spec.In[0] + (col-spec.First[1])*spec.In[1]
			g.useElement(uses, target.Addr{Base: in, Disp: disp}, nil)
		}
	}
}

// windowRow adds the products of one row of the windows, to the results for which the corresponding row of the input is
// in [first, end). in and weights have the addresses of the first of these input rows and of the window's weights.
func (g *gen) windowRow(windowRow int, in, weights target.GReg, first, end int) {
	spec := g.spec
	loaded := false
	weight := func(col int) target.Addr {
		return target.Addr{Base: weights, Disp: (windowRow*spec.Window[1] + col) * spec.VectorBytes}
	}
	for row := range spec.Tile[0] {
		inputRow := row*spec.Stride[0] + windowRow*spec.Dilation[0]
		if inputRow < first || inputRow >= end {
			continue
		}
		if !loaded {
			for col := range g.weightRegs {
				g.Copy(weight(col), g.weight(col))
			}
			loaded = true
		}
		for col := spec.First[1]; col < spec.End[1]; col++ {
			at := target.Addr{Base: in, Disp: (inputRow-first)*spec.In[0] + (col-spec.First[1])*spec.In[1]}
			g.useElement(g.usesOfColumn(nil, row, col, 0), at, weight)
		}
	}
}

// weightUse is one use of an input element: its product with a weight is added to a sum.
type weightUse struct {
	sum    target.VReg
	weight int // index among the weights in registers, or among the weights of the window row
}

// usesOfColumn appends the uses of an element in column col of the input, in the windows of a row of results. rowStart
// is the index of the first weight of the window's row.
func (g *gen) usesOfColumn(uses []weightUse, row, col, rowStart int) []weightUse {
	spec := g.spec
	for resultCol := range spec.Tile[1] {
		if offset := col - resultCol*spec.Stride[1]; offset >= 0 && offset%spec.Dilation[1] == 0 &&
			offset/spec.Dilation[1] < spec.Window[1] {
			uses = append(uses, weightUse{g.sum(row, resultCol), rowStart + offset/spec.Dilation[1]})
		}
	}
	return uses
}

// useElement adds the products of the input element at an address to all results whose windows contain the element.
// weight returns the address of a weight; it is not called if the weights are in registers.
func (g *gen) useElement(uses []weightUse, at target.Addr, weight func(col int) target.Addr) {
	if len(uses) == 1 && g.weightRegs > 0 && g.spec.Group == 1 && g.memoryOperands { // needs no register
		g.FMA(at, g.weight(uses[0].weight), uses[0].sum)
		return
	}
	if len(uses) == 0 {
		return
	}
	loaded := g.input()
	g.loadInput(at, loaded)
	for _, use := range uses {
		switch {
		case g.weightRegs > 0:
			g.FMA(loaded, g.weight(use.weight), use.sum)
		case g.memoryOperands:
			g.FMA(weight(use.weight), loaded, use.sum)
		default:
			weightReg := g.input()
			if weightReg == loaded {
				weightReg = g.input()
			}
			g.Copy(weight(use.weight), weightReg)
			g.FMA(weightReg, loaded, use.sum)
		}
	}
}

// storeResults applies the epilogue and stores the results.
func (g *gen) storeResults() {
	for _, step := range g.spec.Epilogue {
		g.epilogueStep(step, target.VReg(g.sumRegs))
	}
	g.eachResult(out, func(sum target.VReg, at target.Addr) { g.Copy(sum, at) })
}

// eachResult calls visit with each sum and its address, for memory at base with the layout of the result.
func (g *gen) eachResult(base target.GReg, visit func(sum target.VReg, at target.Addr)) {
	for row := range g.spec.Tile[0] {
		for col := range g.spec.Tile[1] {
			visit(g.sum(row, col), target.Addr{Base: base, Disp: row*g.spec.Out[0] + col*g.spec.Out[1]})
		}
	}
}

// epilogueStep applies an operation to all sums; scratchReg is a free register.
func (g *gen) epilogueStep(step tile.EpilogueStep, scratchReg target.VReg) {
	op := step.Op.VectorOp()
	fromMemory := func(sum target.VReg, at target.Addr) { g.Op(op, at, sum, sum) }
	switch step.Op {
	case tile.AddResult:
		g.eachResult(out, fromMemory)
	case tile.AddTile, tile.MulTile:
		g.Move(spillWord(step.Operand), scratch)
		g.Add(out, scratch)
		g.eachResult(scratch, fromMemory)
	case tile.AddLanes, tile.MulLanes:
		g.Move(spillWord(step.Operand), scratch)
		g.Copy(target.Addr{Base: scratch, Index: channel, Scale: 1}, scratchReg)
		for i := range g.sumRegs {
			g.Op(op, scratchReg, target.VReg(i), target.VReg(i))
		}
	default:
		g.Copy(g.number(step.Number()), scratchReg)
		for i := range g.sumRegs { // Max and Min propagate a NaN in the sum
			g.Op(op, target.VReg(i), scratchReg, target.VReg(i))
		}
	}
}

// number returns a vector with a number in all lanes.
func (g *gen) number(number float64) target.Constant {
	element := binary.LittleEndian.AppendUint64(nil, math.Float64bits(number))
	if g.spec.Size == 4 {
		element = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(number)))
	}
	return target.Constant(strings.Repeat(string(element), g.spec.VectorBytes/g.spec.Size))
}
