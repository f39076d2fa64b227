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
	inRowReg         target.GReg = iota // input at a row of the window
	weightsReg                          // weights of the current channels
	weightRowReg                        // weights of a row of the window
	outReg                              // result at the tile and the current channels
	inReg                               // input at the tile and the current channels
	tilesRemaining                      // number of remaining tiles
	vectorsRemaining                    // number of remaining vectors of channels
	inTileReg                           // input at the tile
	outTileReg                          // result at the tile
	channelReg                          // offset of the current channels in bytes
	overlapReg                          // bytes by which a tile's last vector of channels overlaps the one before it
	rowsRemaining                       // number of remaining rows of the window
	biasReg                             // bias of the first channel

	scratchReg             = inRowReg      // free outside sumWindows
	groupChannelsRemaining = rowsRemaining // number of remaining channels of a group; free outside sumWindows
)

// channelsRemainingSpill is the spill slot (index in jit.Args.Spill) that holds the number of remaining channels of a
// group. The slots before it are for the operands of the epilogue, the operations after the sum (see loadConstants).
const channelsRemainingSpill = jit.MaxOperands - FirstEpilogueOperand

// minInputRegs is the minimum number of registers for input elements if all weights are in registers. Several registers
// let loads overlap with multiplications.
const minInputRegs = 4

// gen generates the code of a [Spec]:
//
//	for each tile                                  (emit)
//		for each vector of channels
//			sums = bias                              (initSums)
//			for each channel of a group              (sumChannelsOfGroup)
//				sums += windows * weights              (sumWindows)
//			apply the epilogue and store the sums    (storeResults)
//
// All sums of a tile are in registers. For example, with AVX-512, a tile of 1x4 results and a window of 3x3, 4 of the
// 32 vector registers hold sums, 9 hold weights and 19 hold inputs.
type gen struct {
	target.Writer
	spec *Spec // a pair has rows, then columns: [First[0], End[0]) are the rows of the input that exist

	sumRegs    int // number of registers with sums, which start at register 0
	weightRegs int // number of registers with weights, after the sums; see newGen
	inputRegs  int // number of registers with inputs, after the weights; permutationReg follows
	nextInput  int // next input register

	clearRegister    func(target.VReg) // sets a register to 0; on amd64, the register must be below 16
	fmaCanReadMemory bool              // FMA instructions have memory operands: a vector with one use needs no register
}

// newGen divides the vector registers among sums, weights, inputs and permutationReg. Registers hold all weights of
// the window if minInputRegs registers remain for inputs. Otherwise they hold the weights of one row of the window if
// one register remains. Otherwise they hold no weights.
func newGen(spec *Spec, cpu machine.Features, withListing bool) *gen {
	g := &gen{spec: spec, fmaCanReadMemory: !cpu.Has(machine.NEON), sumRegs: spec.Tile[0] * spec.Tile[1]}
	if cpu.Has(machine.NEON) {
		g.Writer = arm64.New(spec.Size, withListing)
		g.clearRegister = g.Clear
	} else {
		writer := amd64.New(cpu, spec.Size, withListing)
		writer.SetVectorBytes(spec.VectorBytes)
		g.Writer, g.clearRegister = writer, writer.ClearBelow16
	}
	registerCount, _ := target.VectorRegisters(cpu)
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

// declare declares the roles of the registers. A register with two roles is an error.
func (g *gen) declare() {
	g.Declare("the address of the input", inRowReg, inReg, inTileReg)
	g.Declare("the address of weights or a bias", weightsReg, weightRowReg, biasReg)
	g.Declare("the address of the result", outReg, outTileReg)
	g.Declare("a count", tilesRemaining, vectorsRemaining, rowsRemaining)
	g.Declare("an offset of channels", channelReg, overlapReg)
	for i := range g.sumRegs {
		g.Declare("a sum", target.VReg(i))
	}
	for i := range g.weightRegs {
		g.Declare("a weight", g.weightReg(i))
	}
	for range g.inputRegs {
		g.Declare("an input", g.takeInputReg())
	}
	if g.spec.Group > 1 {
		g.Declare("the permutation", g.permutationReg())
	}
}

// weightReg returns the register of a weight.
func (g *gen) weightReg(i int) target.VReg { return target.VReg(g.sumRegs + i) }

// takeInputReg returns the next input register, in rotation.
func (g *gen) takeInputReg() target.VReg {
	reg := target.VReg(g.sumRegs + g.weightRegs + g.nextInput%g.inputRegs)
	g.nextInput++
	return reg
}

// sumReg returns the register of a result.
func (g *gen) sumReg(row, col int) target.VReg { return target.VReg(row*g.spec.Tile[1] + col) }

// vectorCount is the word Args.InnerCount: the number of vectors of channels.
const vectorCount = target.ArgsWord(jit.OffsetInnerCount)

// emit generates the whole function: a loop over tiles, with an inner loop over vectors of channels.
func (g *gen) emit() {
	g.declare()
	g.loadConstants()
	eachTile, eachVector, tileDone := g.NewLabel(), g.NewLabel(), g.NewLabel()

	g.Align(32)
	g.Bind(eachTile)
	g.Move(inTileReg, inReg)
	g.Move(outTileReg, outReg)
	target.LoadAddress(g, Weights, weightsReg)
	g.Move(target.Imm(0), channelReg)
	g.Move(vectorCount, vectorsRemaining)

	g.Align(32)
	g.Bind(eachVector)
	g.initSums()
	if g.spec.PrefetchResult {
		g.eachResult(outReg, func(_ target.VReg, addr target.Addr) { g.Prefetch(target.L1, addr) })
	}
	g.sumChannelsOfGroup()
	g.storeResults()
	for _, reg := range []target.GReg{inReg, outReg, channelReg} {
		g.Add(target.Imm(g.spec.VectorBytes), reg)
	}
	// The last vector overlaps the vector before it, so that it ends at the last channel.
	g.CountDown(vectorsRemaining, target.EQ, tileDone)
	g.CompareJump(vectorsRemaining, target.Imm(1), target.NE, eachVector)
	for _, reg := range []target.GReg{inReg, outReg, channelReg} {
		g.Sub(overlapReg, reg)
	}
	g.Jump(eachVector)

	g.Bind(tileDone)
	g.Add(target.Imm(g.spec.InTileStep), inTileReg)
	g.Add(target.Imm(g.spec.OutTileStep), outTileReg)
	g.CountDown(tilesRemaining, target.NE, eachTile)
	g.Return()
}

// loadConstants emits the loads of values that do not change during the call. It stores one word in jit.Args.Spill for
// each operand of the epilogue.
func (g *gen) loadConstants() {
	target.LoadAddress(g, In, inTileReg)
	target.LoadAddress(g, Out, outTileReg)
	if g.spec.Bias {
		target.LoadAddress(g, Bias, biasReg)
	}
	g.Move(target.ArgsStep(Overlap), overlapReg)
	g.Move(target.ArgsWord(jit.OffsetRows), tilesRemaining)
	for _, step := range g.spec.Epilogue {
		switch step.Op {
		case tile.AddTile, tile.MulTile: // has the layout of the result: store its distance from the result in bytes
			target.LoadAddress(g, FirstEpilogueOperand+step.Operand, scratchReg)
			g.Sub(outTileReg, scratchReg)
			g.Move(scratchReg, target.ArgsSpill(step.Operand))
		case tile.AddLanes, tile.MulLanes: // has one element for each channel: store its address
			target.LoadAddress(g, FirstEpilogueOperand+step.Operand, scratchReg)
			g.Move(scratchReg, target.ArgsSpill(step.Operand))
		}
	}
}

// initSums initializes the sums.
func (g *gen) initSums() {
	if g.spec.Bias {
		g.Copy(target.Addr{Base: biasReg, Index: channelReg, Scale: 1}, target.VReg(0))
	} else {
		g.clearRegister(0)
	}
	for i := 1; i < g.sumRegs; i++ {
		g.Copy(target.VReg(0), target.VReg(i))
	}
}

// sumChannelsOfGroup adds up the windows of all channels of a group, one channel after another. A vector of results may
// have several groups. Its weights have the order of the additions: first all weights for the channels 0 of the groups,
// then all weights for the channels 1.
func (g *gen) sumChannelsOfGroup() {
	spec := g.spec
	advanceWeights := func() { g.Add(target.Imm(spec.Window[0]*spec.Window[1]*spec.VectorBytes), weightsReg) }
	if spec.Group == 1 {
		g.sumWindows()
		advanceWeights()
		return
	}
	eachChannel := g.NewLabel()
	g.Permutation(g.firstChannels(), g.permutationReg())
	g.Move(target.Imm(spec.Group), groupChannelsRemaining)
	g.Align(16)
	g.Bind(eachChannel)
	g.Move(groupChannelsRemaining, target.ArgsSpill(channelsRemainingSpill)) // sumWindows uses the register for rows
	g.sumWindows()
	advanceWeights()
	g.AddToIndices(spec.Size/4, g.permutationReg()) // the next channel, in words of 4 bytes
	g.Move(target.ArgsSpill(channelsRemainingSpill), groupChannelsRemaining)
	g.CountDown(groupChannelsRemaining, target.NE, eachChannel)
}

// permutationReg returns the register with the permutation of grouped convolutions. loadInput copies the input word (of
// 32 bits) whose index is in word i of the permutation to word i of its result. This input word belongs to the same
// group as word i, and to the channel that sumChannelsOfGroup currently adds. For example, groups of two float32
// channels have the permutation 0 0 2 2 4 4 6 6 for channel 0, and 1 1 3 3 5 5 7 7 for channel 1.
func (g *gen) permutationReg() target.VReg {
	return target.VReg(g.sumRegs + g.weightRegs + g.inputRegs)
}

// firstChannels returns the permutation that broadcasts the first channel of each group.
func (g *gen) firstChannels() (indices []int) {
	words := g.spec.Size / 4 // of a lane
	for i := range g.spec.VectorBytes / 4 {
		firstLane := i / words / g.spec.Group * g.spec.Group // of the group that contains word i
		indices = append(indices, firstLane*words+i%words)
	}
	return indices
}

// loadInput loads an element of the input; in a grouped convolution it broadcasts one channel to all lanes of its
// group.
func (g *gen) loadInput(addr target.Addr, to target.VReg) {
	if g.spec.Group > 1 {
		g.Permute(addr, g.permutationReg(), to)
	} else {
		g.Copy(addr, to)
	}
}

// sumWindows adds up the products of all windows of a tile, except the parts of windows outside the image. If registers
// hold all weights, each element of the input is loaded once. Otherwise an element is loaded again for each row of the
// window that uses it.
func (g *gen) sumWindows() {
	spec := g.spec
	hasAllWeights := g.weightRegs == spec.Window[0]*spec.Window[1]
	switch {
	case spec.RowsFromCall:
		g.sumRowsFromCall()
	case hasAllWeights:
		g.sumByInputRow()
	default:
		for windowRow := range spec.Window[0] {
			g.sumWindowRow(windowRow, inReg, weightsReg, spec.First[0], spec.End[0])
		}
	}
}

// sumRowsFromCall adds up the products of the window rows that the call passes, in a loop over these rows.
func (g *gen) sumRowsFromCall() {
	spec := g.spec
	eachRow, done := g.NewLabel(), g.NewLabel()
	g.Move(target.ArgsStep(WindowRows), rowsRemaining)
	g.AddJump(0, rowsRemaining, target.LE, done) // adds nothing: only the comparison with 0 matters
	g.Move(inReg, inRowReg)
	g.Move(weightsReg, weightRowReg)
	g.Align(16)
	g.Bind(eachRow)
	g.sumWindowRow(0, inRowReg, weightRowReg, 0, math.MaxInt32) // all rows exist: the call passes only existing rows
	g.Add(target.Imm(spec.InStride[0]*spec.Dilation[0]), inRowReg)
	g.Add(target.Imm(spec.Window[1]*spec.VectorBytes), weightRowReg)
	g.CountDown(rowsRemaining, target.NE, eachRow)
	g.Bind(done)
}

// sumByInputRow adds up the windows with all weights in registers. It processes the input row by row, and adds the
// products of each element to all results whose windows contain the element. Each result therefore adds the rows of
// its window in order.
func (g *gen) sumByInputRow() {
	spec := g.spec
	for i := range g.weightRegs {
		g.Copy(target.Addr{Base: weightsReg, Disp: i * spec.VectorBytes}, g.weightReg(i))
	}
	for inputRow := spec.First[0]; inputRow < spec.End[0]; inputRow++ {
		for col := spec.First[1]; col < spec.End[1]; col++ {
			var uses []elementUse
			for row := range spec.Tile[0] {
				if windowRow, ok := spec.indexInWindow(0, inputRow, row); ok {
					uses = g.usesOfColumn(uses, row, col, windowRow*spec.Window[1])
				}
			}
			disp := (inputRow-spec.First[0])*spec.InStride[0] + (col-spec.First[1])*spec.InStride[1]
			g.useElement(uses, target.Addr{Base: inReg, Disp: disp}, nil) // nil: the weights are in registers
		}
	}
}

// sumWindowRow adds the products of one row of the windows. It skips the rows of results for which the corresponding
// row of the input is not in [firstRow, endRow). inputAddress has the address of input row firstRow, and weightAddress
// the address of the weights of window row 0.
func (g *gen) sumWindowRow(windowRow int, inputAddress, weightAddress target.GReg, firstRow, endRow int) {
	spec := g.spec
	isLoaded := false // the weights of the window row are in registers, or there are no registers for weights
	weightAddr := func(col int) target.Addr {
		return target.Addr{Base: weightAddress, Disp: (windowRow*spec.Window[1] + col) * spec.VectorBytes}
	}
	for row := range spec.Tile[0] {
		inputRow := row*spec.Stride[0] + windowRow*spec.Dilation[0]
		if inputRow < firstRow || inputRow >= endRow {
			continue
		}
		if !isLoaded {
			for col := range g.weightRegs {
				g.Copy(weightAddr(col), g.weightReg(col))
			}
			isLoaded = true
		}
		for col := spec.First[1]; col < spec.End[1]; col++ {
			disp := (inputRow-firstRow)*spec.InStride[0] + (col-spec.First[1])*spec.InStride[1]
			uses := g.usesOfColumn(nil, row, col, 0) // 0: the weights in registers start with this window row
			g.useElement(uses, target.Addr{Base: inputAddress, Disp: disp}, weightAddr)
		}
	}
}

// elementUse is one use of an input element: its product with a weight is added to a sum.
type elementUse struct {
	sum    target.VReg
	weight int // index among the weights in registers, or among the weights of the window row
}

// usesOfColumn appends the uses of an element in column col of the input, for the results in a row of the tile.
// rowStart is the index of the first weight of the window row that contains the element.
func (g *gen) usesOfColumn(uses []elementUse, row, col, rowStart int) []elementUse {
	spec := g.spec
	for resultCol := range spec.Tile[1] {
		if windowCol, ok := spec.indexInWindow(1, col, resultCol); ok {
			uses = append(uses, elementUse{sum: g.sumReg(row, resultCol), weight: rowStart + windowCol})
		}
	}
	return uses
}

// indexInWindow returns the index of an input row (axis 0) or column (axis 1) in the window of a result row or column
// of the tile. It returns false if the window does not contain the input. For example, with stride 2, the window of
// result 1 starts at input 2, so input 3 has the index 1 in this window.
func (s *Spec) indexInWindow(axis, input, result int) (index int, ok bool) {
	fromStart := input - result*s.Stride[axis] // distance from the start of the window
	index = fromStart / s.Dilation[axis]
	return index, fromStart >= 0 && fromStart%s.Dilation[axis] == 0 && index < s.Window[axis]
}

// useElement adds the products of the input element at an address to the sums of its uses. weightAddr returns the
// address of a weight; it is not called if the weights are in registers.
func (g *gen) useElement(uses []elementUse, addr target.Addr, weightAddr func(col int) target.Addr) {
	if len(uses) == 0 {
		return
	}
	hasWeights := g.weightRegs > 0 // the weights of all uses are in registers
	isMemoryOperand := len(uses) == 1 && hasWeights && g.spec.Group == 1 && g.fmaCanReadMemory
	if isMemoryOperand {
		g.FMA(addr, g.weightReg(uses[0].weight), uses[0].sum)
		return
	}
	loaded := g.takeInputReg()
	g.loadInput(addr, loaded)
	for _, use := range uses {
		switch {
		case hasWeights:
			g.FMA(loaded, g.weightReg(use.weight), use.sum)
		case g.fmaCanReadMemory:
			g.FMA(weightAddr(use.weight), loaded, use.sum)
		default: // NEON; the weight takes another input register than the element
			weightReg := g.takeInputReg()
			if weightReg == loaded {
				weightReg = g.takeInputReg()
			}
			g.Copy(weightAddr(use.weight), weightReg)
			g.FMA(weightReg, loaded, use.sum)
		}
	}
}

// storeResults applies the epilogue and stores the results.
func (g *gen) storeResults() {
	for _, step := range g.spec.Epilogue {
		g.applyEpilogueStep(step, target.VReg(g.sumRegs))
	}
	g.eachResult(outReg, func(sum target.VReg, addr target.Addr) { g.Copy(sum, addr) })
}

// applyEpilogueStep applies an operation to all sums. temp is a free vector register.
func (g *gen) applyEpilogueStep(step tile.EpilogueStep, temp target.VReg) {
	op := step.Op.VectorOp()
	fromMemory := func(sum target.VReg, addr target.Addr) { g.Op(op, addr, sum, sum) }
	switch step.Op {
	case tile.AddResult:
		g.eachResult(outReg, fromMemory)
	case tile.AddTile, tile.MulTile:
		g.Move(target.ArgsSpill(step.Operand), scratchReg)
		g.Add(outReg, scratchReg)
		g.eachResult(scratchReg, fromMemory)
	case tile.AddLanes, tile.MulLanes:
		g.Move(target.ArgsSpill(step.Operand), scratchReg)
		g.Copy(target.Addr{Base: scratchReg, Index: channelReg, Scale: 1}, temp)
		for i := range g.sumRegs {
			g.Op(op, temp, target.VReg(i), target.VReg(i))
		}
	default: // AtLeast, AtMost or Scale
		g.Copy(g.broadcastConstant(step.Number()), temp)
		for i := range g.sumRegs { // the sum is the first operand, because Max and Min return this operand if it is a NaN
			g.Op(op, target.VReg(i), temp, target.VReg(i))
		}
	}
}

// broadcastConstant returns a constant vector with a number in all lanes.
func (g *gen) broadcastConstant(number float64) target.Constant {
	element := binary.LittleEndian.AppendUint64(nil, math.Float64bits(number))
	if g.spec.Size == 4 {
		element = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(number)))
	}
	return target.Constant(strings.Repeat(string(element), g.spec.VectorBytes/g.spec.Size))
}

// eachResult calls visit with each sum and the address of the corresponding element, in memory that starts at base and
// has the layout of the result.
func (g *gen) eachResult(base target.GReg, visit func(sum target.VReg, addr target.Addr)) {
	for row := range g.spec.Tile[0] {
		for col := range g.spec.Tile[1] {
			visit(g.sumReg(row, col), target.Addr{Base: base, Disp: row*g.spec.OutStride[0] + col*g.spec.OutStride[1]})
		}
	}
}
