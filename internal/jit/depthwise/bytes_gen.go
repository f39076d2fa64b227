package depthwise

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
	arm64 "github.com/graphrun/graphrun/internal/jit/target/arm64/writer"
	"github.com/graphrun/graphrun/internal/machine"
)

// byteGen generates the code of a [ByteSpec]: a loop over rows of results, and in it a loop over the tiles of a row.
// The first vector registers hold the sums: for each result four registers, one for each quarter of the channels. For
// example, a tile of 2 results takes 8 registers for sums.
type byteGen struct {
	target.Writer
	spec        *ByteSpec
	vectorBytes int
	ops         byteOps
}

// byteOps writes the vector instructions of a byteGen for a processor.
type byteOps interface {
	target.Writer
	// Begin loads constants. zeroPoint is the address of the zero point.
	Begin(zeroPoint target.Addr)
	// Interleave loads the pixels of an input column, one from each row of a row group ([ByteSpec.RowGroups]), and
	// interleaves their bytes by channel. Missing rows of the last group are zero. Each of the four registers has a
	// quarter of the channels.
	Interleave(pixels []target.Addr) [4]target.VReg
	// Multiply adds the products of interleaved pixels and weights to a sum.
	Multiply(weights target.Addr, pixels, sum target.VReg)
	// LoadScales loads four vectors of scales, for StoreResult.
	LoadScales(addr target.Addr)
	// StoreResult writes a result: the sums, or bytes after scaling, rounding and saturation.
	StoreResult(sums [4]target.VReg, addr target.Addr)
}

// General registers of a byteGen that have another purpose than in a [gen], the generator of code for floats.
const (
	scalesReg           = rowsRemaining    // address of the scales; window rows are unrolled and not counted
	inRowStartReg       = inTileReg        // address of the first input row and column for a row of results
	outRowReg           = outTileReg       // address of the current row of results
	resultRowsRemaining = tilesRemaining   // number of remaining rows of results
	rowTilesRemaining   = vectorsRemaining // number of remaining tiles of the current row
)

// tileCount is the word Args.InnerCount: the number of tiles in a row of results.
const tileCount = target.ArgsWord(jit.OffsetInnerCount)

// newByteGen returns the generator of a spec for a processor.
func newByteGen(spec *ByteSpec, cpu machine.Features, withListing bool) *byteGen {
	g := &byteGen{spec: spec, vectorBytes: ByteChannels(cpu)}
	config := target.ByteDepthwise{FlipSigns: spec.FlipSigns, SignedIn: spec.SignedIn, Signed: spec.Signed,
		Sums: spec.Sums, WordProducts: spec.WordProducts, Channels: spec.Channels,
		ChannelMask: target.ArgsStep(ChannelMask), Spill: target.ArgsSpill(0), Temporary: scratchReg}
	if cpu.Has(machine.NEON) {
		g.ops = arm64.NewByteDepthwise(config, withListing)
	} else {
		g.ops = amd64.NewByteDepthwise(config, cpu, withListing)
	}
	g.Writer = g.ops
	return g
}

// sumReg returns the register of a quarter of the channels of a result.
func (g *byteGen) sumReg(result, quarter int) target.VReg { return target.VReg(4*result + quarter) }

// emit generates the whole function: a loop over rows, with an inner loop over tiles.
func (g *byteGen) emit() {
	spec := g.spec
	target.LoadAddress(g, In, inRowStartReg)
	target.LoadAddress(g, Out, outRowReg)
	target.LoadAddress(g, Weights, weightsReg)
	target.LoadAddress(g, Bias, biasReg)
	if !spec.Sums {
		target.LoadAddress(g, Scales, scalesReg)
		target.LoadAddress(g, ZeroPoint, scratchReg)
	}
	g.ops.Begin(target.Addr{Base: scratchReg})
	g.Move(target.ArgsWord(jit.OffsetRows), resultRowsRemaining)
	eachRow, eachTile, rowDone := g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Align(32)
	g.Bind(eachRow)
	g.Move(inRowStartReg, inReg)
	g.Move(outRowReg, outReg)
	g.Move(tileCount, rowTilesRemaining)
	g.Align(32)
	g.Bind(eachTile)
	g.sumWindows()
	g.storeResults()
	g.Add(target.Imm(spec.Tile*spec.Stride[1]*spec.InStride[1]), inReg)
	g.Add(target.Imm(spec.Tile*spec.OutStride[1]), outReg)
	// The last tile starts spec.Overlap results earlier, so that it ends at the last result.
	g.CountDown(rowTilesRemaining, target.EQ, rowDone)
	g.CompareJump(rowTilesRemaining, target.Imm(1), target.NE, eachTile)
	g.Sub(target.Imm(spec.Overlap*spec.Stride[1]*spec.InStride[1]), inReg)
	g.Sub(target.Imm(spec.Overlap*spec.OutStride[1]), outReg)
	g.Jump(eachTile)
	g.Bind(rowDone)
	g.Add(target.Imm(spec.Stride[0]*spec.InStride[0]), inRowStartReg)
	g.Add(target.Imm(spec.OutStride[0]), outRowReg)
	g.CountDown(resultRowsRemaining, target.NE, eachRow)
	g.Return()
}

// sumWindows adds up the products of all windows of a tile, column by column of the input. The pixels of a column and
// row group are loaded once for all windows that contain them.
func (g *byteGen) sumWindows() {
	spec := g.spec
	for quarter := range 4 {
		g.Copy(target.Addr{Base: biasReg, Disp: g.vectorBytes * quarter}, g.sumReg(0, quarter))
		for result := 1; result < spec.Tile; result++ {
			g.Copy(g.sumReg(0, quarter), g.sumReg(result, quarter))
		}
	}
	groups := spec.RowGroups()
	columns := (spec.Tile-1)*spec.Stride[1] + (spec.Window[1]-1)*spec.Dilation[1] + 1 // of the input, for the tile
	for col := range columns {
		for group := range groups {
			var pixels []target.VReg // loaded for the first window that contains the column
			for result := range spec.Tile {
				fromStart := col - result*spec.Stride[1] // columns after the start of the result's window
				windowCol := fromStart / spec.Dilation[1]
				if fromStart < 0 || fromStart%spec.Dilation[1] != 0 || windowCol >= spec.Window[1] {
					continue
				}
				if pixels == nil {
					quarters := g.ops.Interleave(g.pixels(col, group))
					pixels = quarters[:]
				}
				firstVector := 4 * (windowCol*groups + group) // weights are ordered by column, row group and quarter
				for quarter, reg := range pixels {
					addr := target.Addr{Base: weightsReg, Disp: (firstVector + quarter) * g.vectorBytes}
					g.ops.Multiply(addr, reg, g.sumReg(result, quarter))
				}
			}
		}
	}
}

// pixels returns the addresses of the pixels of an input column in the rows of a row group.
func (g *byteGen) pixels(col, group int) (list []target.Addr) {
	spec := g.spec
	rows := spec.RowsPerGroup()
	for row := group * rows; row < min((group+1)*rows, spec.Window[0]); row++ {
		list = append(list, target.Addr{Base: inReg, Disp: row*spec.Dilation[0]*spec.InStride[0] + col*spec.InStride[1]})
	}
	return list
}

// storeResults writes the results of a tile.
func (g *byteGen) storeResults() {
	if !g.spec.Sums {
		g.ops.LoadScales(target.Addr{Base: scalesReg})
	}
	for result := range g.spec.Tile {
		sums := [4]target.VReg{g.sumReg(result, 0), g.sumReg(result, 1), g.sumReg(result, 2), g.sumReg(result, 3)}
		g.ops.StoreResult(sums, target.Addr{Base: outReg, Disp: result * g.spec.OutStride[1]})
	}
}
