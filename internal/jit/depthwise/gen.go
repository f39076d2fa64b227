package depthwise

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// General-purpose registers.
const (
	tiles     = asm.R8  // number of remaining tiles
	inTile    = asm.R10 // input at the tile
	outTile   = asm.R11
	vectors   = asm.R9  // number of remaining vectors of channels
	channel   = asm.R12 // offset of the current channels in bytes
	overlap   = asm.R13
	in        = asm.SI // input at the tile and the current channels
	out       = asm.DX
	weights   = asm.BX
	bias      = asm.R15
	inRow     = asm.AX // input at a row of the window
	weightRow = asm.CX
	rowsLeft  = asm.R14
	scratch   = asm.AX // free outside the windows
)

// channelsLeft is the operand slot, after the operands of the epilogue, that counts the remaining channels of a group.
const channelsLeft = jit.MaxOperands - EpilogueOperands

// fewInputs is the number of registers for input elements if all weights are in registers. Several registers let loads
// overlap with multiplications.
const fewInputs = 4

// gen generates the code of a [Spec].
type gen struct {
	asm.Assembler
	s *Spec

	sumRegs    int // number of registers with sums, which start at register 0
	weightRegs int // number of registers with weights, after the sums: all weights, those of a window row, or none
	inputRegs  int // number of registers with inputs, after the weights; the permutation of grouped convolutions follows
	nextInput  int // next input register
}

func newGen(s *Spec, cpu machine.Features, list bool) *gen {
	g := &gen{Assembler: asm.Assembler{NoEVEX: !cpu.Has(machine.Vector512), List: list}, s: s,
		sumRegs: s.Tile[0] * s.Tile[1]}
	n := s.registers(cpu) - s.permutationRegs()
	switch all := s.Window[0] * s.Window[1]; {
	case !s.RowsFromCall && g.sumRegs+all+fewInputs <= n:
		g.weightRegs = all
	case g.sumRegs+s.Window[1]+1 <= n:
		g.weightRegs = s.Window[1]
	}
	g.inputRegs = n - g.sumRegs - g.weightRegs
	return g
}

func (g *gen) register(n int) asm.Vec {
	switch g.s.Bytes {
	case 64:
		return asm.Z(n)
	case 32:
		return asm.Y(n)
	}
	return asm.X(n)
}

func (g *gen) sum(row, col int) asm.Vec { return g.register(row*g.s.Tile[1] + col) }

// op returns a mnemonic with the suffix for the element size.
func (g *gen) op(name string) string {
	if g.s.Size == 8 {
		return name + "D"
	}
	return name + "S"
}

func stepOf(k int) asm.Mem    { return asm.Mem{Base: asm.DI, Disp: jit.OffsetStep + int32(8*k)} }
func spillWord(k int) asm.Mem { return asm.Mem{Base: asm.DI, Disp: jit.OffsetSpill + int32(8*k)} }

func (g *gen) operand(k int, to asm.Reg) {
	g.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: jit.OffsetPtr + int32(8*k)}, to)
	g.Emit("ADDQ", asm.Mem{Base: asm.DI, Disp: jit.OffsetRow + int32(8*k)}, to)
}

// emit generates the whole function: a loop over tiles, with an inner loop over vectors of channels.
func (g *gen) emit() {
	g.begin()
	eachTile, eachVector, tileDone := g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Align(32)
	g.Bind(eachTile)
	g.Emit("MOVQ", inTile, in)
	g.Emit("MOVQ", outTile, out)
	g.operand(Weights, weights)
	g.Emit("XORL", channel, channel)
	g.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: jit.OffsetN}, vectors)
	g.Align(32)
	g.Bind(eachVector)
	g.initSums()
	if g.s.PrefetchResult {
		g.eachResult(out, func(_ asm.Vec, at asm.Mem) { g.Emit("PREFETCHT0", at) })
	}
	g.groupLoop()
	g.finish()
	g.Emit("ADDQ", asm.Imm(g.s.Bytes), in)
	g.Emit("ADDQ", asm.Imm(g.s.Bytes), out)
	g.Emit("ADDQ", asm.Imm(g.s.Bytes), channel)
	g.Emit("DECQ", vectors)
	g.Emit("JEQ", tileDone)
	g.Emit("CMPQ", vectors, asm.Imm(1))
	g.Emit("JNE", eachVector)
	for _, r := range []asm.Reg{in, out, channel} {
		g.Emit("SUBQ", overlap, r)
	}
	g.Emit("JMP", eachVector)
	g.Bind(tileDone)
	g.Emit("ADDQ", asm.Imm(g.s.NextIn), inTile)
	g.Emit("ADDQ", asm.Imm(g.s.NextOut), outTile)
	g.Emit("DECQ", tiles)
	g.Emit("JNE", eachTile)
	g.Emit("VZEROUPPER")
	g.Emit("RET")
}

// begin emits the loads of registers whose values do not change during the call. An epilogue operand with the layout of
// the result is stored as its distance from the result, and any other epilogue operand as its address.
func (g *gen) begin() {
	g.operand(In, inTile)
	g.operand(Out, outTile)
	if g.s.Bias {
		g.operand(Bias, bias)
	}
	g.Emit("MOVQ", stepOf(Overlap), overlap)
	g.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: jit.OffsetRows}, tiles)
	for _, t := range g.s.Epilogue {
		switch t.Op {
		case tile.AddTile, tile.MulTile:
			g.operand(EpilogueOperands+t.Operand, scratch)
			g.Emit("SUBQ", outTile, scratch)
			g.Emit("MOVQ", scratch, spillWord(t.Operand))
		case tile.AddLanes, tile.MulLanes:
			g.operand(EpilogueOperands+t.Operand, scratch)
			g.Emit("MOVQ", scratch, spillWord(t.Operand))
		}
	}
}

// initSums initializes the sums.
func (g *gen) initSums() {
	first := g.register(0)
	if g.s.Bias {
		g.Emit("VMOVUPS", asm.Mem{Base: bias, Index: channel, Scale: 1}, first)
	} else {
		g.Emit("VXORPS", first.X(), first.X(), first.X())
	}
	for i := 1; i < g.sumRegs; i++ {
		g.Emit("VMOVAPS", first, g.register(i))
	}
}

// groupLoop adds up the windows of all channels of a group. Their weights are consecutive.
func (g *gen) groupLoop() {
	s := g.s
	next := func() { g.Emit("ADDQ", asm.Imm(s.Window[0]*s.Window[1]*s.Bytes), weights) }
	if s.Group == 1 {
		g.windows()
		next()
		return
	}
	top := g.NewLabel()
	g.Emit("VMOVUPS", g.Constant(g.permutationData()), g.permutation())
	g.Emit("MOVL", asm.Imm(s.Group), rowsLeft)
	g.Align(16)
	g.Bind(top)
	g.Emit("MOVQ", rowsLeft, spillWord(channelsLeft))
	g.windows()
	next()
	one := binary.LittleEndian.AppendUint32(nil, uint32(s.Size/4))
	g.Emit("VPADDD", g.Constant(bytes.Repeat(one, s.Bytes/4)), g.permutation(), g.permutation())
	g.Emit("MOVQ", spillWord(channelsLeft), rowsLeft)
	g.Emit("DECQ", rowsLeft)
	g.Emit("JNE", top)
}

// permutation returns the register with the permutation: for each 32-bit word the index of the current channel of its
// group.
func (g *gen) permutation() asm.Vec { return g.register(g.sumRegs + g.weightRegs + g.inputRegs) }

// permutationData returns the permutation for the first channel of the groups.
func (g *gen) permutationData() (b []byte) {
	words := g.s.Size / 4
	for i := range g.s.Bytes / 4 {
		first := i / words / g.s.Group * g.s.Group
		b = binary.LittleEndian.AppendUint32(b, uint32(first*words+i%words))
	}
	return b
}

// load loads an element of the input; in a grouped convolution it broadcasts one channel to all lanes of its group.
func (g *gen) load(x asm.Mem, to asm.Vec) {
	switch {
	case g.s.Group > 1 && g.s.Bytes > 16:
		g.Emit("VPERMPS", x, g.permutation(), to)
		return
	case g.s.Group > 1:
		g.Emit("VMOVUPS", x, to)
		g.Emit("VPERMILPS", g.permutation(), to, to)
		return
	}
	g.Emit("VMOVUPS", x, to)
}

// windows adds up the existing parts of the windows. If registers hold all weights, each element of the input is loaded
// once. Otherwise it is loaded once for each row of the window.
func (g *gen) windows() {
	s := g.s
	if g.weightRegs == s.Window[0]*s.Window[1] && !s.RowsFromCall {
		g.inputRows()
		return
	}
	if !s.RowsFromCall {
		for k := range s.Window[0] {
			g.windowRow(k, in, weights, s.First[0], s.End[0])
		}
		return
	}
	top, end := g.NewLabel(), g.NewLabel()
	g.Emit("MOVQ", stepOf(WindowRows), rowsLeft)
	g.Emit("TESTQ", rowsLeft, rowsLeft)
	g.Emit("JLE", end)
	g.Emit("MOVQ", in, inRow)
	g.Emit("MOVQ", weights, weightRow)
	g.Align(16)
	g.Bind(top)
	g.windowRow(0, inRow, weightRow, 0, math.MaxInt32)
	g.Emit("ADDQ", asm.Imm(s.In[0]*s.Dilation[0]), inRow)
	g.Emit("ADDQ", asm.Imm(s.Window[1]*s.Bytes), weightRow)
	g.Emit("DECQ", rowsLeft)
	g.Emit("JNE", top)
	g.Bind(end)
}

// inputRows processes the input row by row, and adds each element to all results whose windows contain it. Each result
// still adds its window's rows in order.
func (g *gen) inputRows() {
	s := g.s
	for i := range g.weightRegs {
		g.Emit("VMOVUPS", asm.Mem{Base: weights, Disp: int32(i * s.Bytes)}, g.register(g.sumRegs+i))
	}
	for at := s.First[0]; at < s.End[0]; at++ {
		for col := s.First[1]; col < s.End[1]; col++ {
			var uses []use
			for row := range s.Tile[0] {
				if d := at - row*s.Stride[0]; d >= 0 && d%s.Dilation[0] == 0 && d/s.Dilation[0] < s.Window[0] {
					uses = g.usesOfColumn(uses, row, col, d/s.Dilation[0]*s.Window[1])
				}
			}
			g.useElement(uses, asm.Mem{Base: in, Disp: int32((at-s.First[0])*s.In[0] + (col-s.First[1])*s.In[1])}, nil)
		}
	}
}

// windowRow adds row k of the windows, for the rows of results from first to end: the window row exists in the input
// for these rows.
func (g *gen) windowRow(k int, in, weights asm.Reg, first, end int) {
	s := g.s
	loaded := false
	weight := func(col int) asm.Mem {
		return asm.Mem{Base: weights, Disp: int32((k*s.Window[1] + col) * s.Bytes)}
	}
	for row := range s.Tile[0] {
		at := row*s.Stride[0] + k*s.Dilation[0]
		if at < first || at >= end {
			continue
		}
		if !loaded {
			for col := range g.weightRegs {
				g.Emit("VMOVUPS", weight(col), g.register(g.sumRegs+col))
			}
			loaded = true
		}
		for col := s.First[1]; col < s.End[1]; col++ {
			x := asm.Mem{Base: in, Disp: int32((at-first)*s.In[0] + (col-s.First[1])*s.In[1])}
			g.useElement(g.usesOfColumn(nil, row, col, 0), x, weight)
		}
	}
}

// use is the use of an input element in a window. weight is the index of the weight among the weights in registers or
// in the row.
type use struct {
	sum    asm.Vec
	weight int
}

// usesOfColumn appends the uses of column col in the windows of a row of results. first is the index of the first
// weight of the window's row.
func (g *gen) usesOfColumn(uses []use, row, col, first int) []use {
	s := g.s
	for r := range s.Tile[1] {
		if d := col - r*s.Stride[1]; d >= 0 && d%s.Dilation[1] == 0 && d/s.Dilation[1] < s.Window[1] {
			uses = append(uses, use{g.sum(row, r), first + d/s.Dilation[1]})
		}
	}
	return uses
}

// useElement adds an element of the input to all results whose windows contain it.
func (g *gen) useElement(uses []use, x asm.Mem, weight func(col int) asm.Mem) {
	fma := g.op("VFMADD231P")
	if len(uses) == 1 && g.weightRegs > 0 && g.s.Group == 1 {
		g.Emit(fma, x, g.register(g.sumRegs+uses[0].weight), uses[0].sum)
		return
	}
	if len(uses) == 0 {
		return
	}
	loaded := g.register(g.sumRegs + g.weightRegs + g.nextInput%g.inputRegs)
	g.nextInput++
	g.load(x, loaded)
	for _, u := range uses {
		if g.weightRegs > 0 {
			g.Emit(fma, loaded, g.register(g.sumRegs+u.weight), u.sum)
		} else {
			g.Emit(fma, weight(u.weight), loaded, u.sum)
		}
	}
}

// finish applies the epilogue and writes the results.
func (g *gen) finish() {
	for _, t := range g.s.Epilogue {
		g.epilogueStep(t, g.register(g.sumRegs))
	}
	g.eachResult(out, func(sum asm.Vec, at asm.Mem) { g.Emit("VMOVUPS", sum, at) })
}

// eachResult calls visit with each sum and its address, for memory with the layout of the result.
func (g *gen) eachResult(base asm.Reg, visit func(sum asm.Vec, at asm.Mem)) {
	for row := range g.s.Tile[0] {
		for col := range g.s.Tile[1] {
			visit(g.sum(row, col), asm.Mem{Base: base, Disp: int32(row*g.s.Out[0] + col*g.s.Out[1])})
		}
	}
}

// epilogueStep applies an operation to all sums; x is a free register.
func (g *gen) epilogueStep(t tile.EpilogueStep, x asm.Vec) {
	name := g.op(t.Op.Instruction())
	switch t.Op {
	case tile.AddResult:
		g.eachResult(out, func(sum asm.Vec, at asm.Mem) { g.Emit(name, at, sum, sum) })
	case tile.AddTile, tile.MulTile:
		g.Emit("MOVQ", spillWord(t.Operand), scratch)
		g.Emit("ADDQ", out, scratch)
		g.eachResult(scratch, func(sum asm.Vec, at asm.Mem) { g.Emit(name, at, sum, sum) })
	case tile.AddLanes, tile.MulLanes:
		g.Emit("MOVQ", spillWord(t.Operand), scratch)
		g.Emit("VMOVUPS", asm.Mem{Base: scratch, Index: channel, Scale: 1}, x)
		for i := range g.sumRegs {
			g.Emit(name, x, g.register(i), g.register(i))
		}
	default:
		g.broadcast(t.Number(), x)
		for i := range g.sumRegs { // the sum is the second source, which the instruction returns if a source is NaN
			g.Emit(name, g.register(i), x, g.register(i))
		}
	}
}

// broadcast loads a number into all lanes.
func (g *gen) broadcast(v float64, to asm.Vec) {
	b := binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
	if g.s.Size == 4 {
		b = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v)))
	}
	g.Emit("VMOVUPS", g.Constant(bytes.Repeat(b, g.s.Bytes/g.s.Size)), to)
}
