package depthwise

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
	arm64 "github.com/graphrun/graphrun/internal/jit/target/arm64/writer"
	"github.com/graphrun/graphrun/internal/machine"
)

// byteGen generates the code of a [ByteSpec]. The first registers hold the sums: for each result four registers, one
// for each quarter of the channels.
type byteGen struct {
	target.Writer
	spec    *ByteSpec
	width   int // bytes of a vector
	vectors byteVectors
}

// byteVectors writes the vector instructions of a byteGen for a processor.
type byteVectors interface {
	target.Writer
	// Begin loads constants. zeroPoint is the address of the zero point.
	Begin(zeroPoint target.Addr)
	// Interleave loads the pixels of an input column in a group of window rows, and interleaves their bytes by
	// channel. Missing rows of the last group are zero. Each of the four registers has a quarter of the channels.
	Interleave(rows []target.Addr) [4]target.VReg
	// Multiply adds the products of x and the weights to a sum.
	Multiply(weights target.Addr, x, sum target.VReg)
	// LoadScales loads four vectors of scales, for StoreResult.
	LoadScales(at target.Addr)
	// StoreResult writes a result: the sums, or bytes after scaling, rounding and saturation.
	StoreResult(sums [4]target.VReg, at target.Addr)
}

// scaleReg is the register with the address of the scales.
const scaleReg = rowsLeft

func newByteGen(spec *ByteSpec, cpu machine.Features, withListing bool) *byteGen {
	g := &byteGen{spec: spec, width: ByteChannels(cpu)}
	windows := target.ByteDepthwise{Flip: spec.FlipSigns, SignedIn: spec.SignedIn, Signed: spec.Signed, Sums: spec.Sums,
		Words: spec.Words, Channels: spec.Channels, ChannelMask: stepOf(Channels), Spill: spillWord(0), Temporary: scratch}
	if cpu.Has(machine.NEON) {
		g.vectors = arm64.NewByteDepthwise(windows, withListing)
	} else {
		g.vectors = amd64.NewByteDepthwise(windows, cpu, withListing)
	}
	g.Writer = g.vectors
	return g
}

// sum returns the register of a quarter of the channels of a result.
func (g *byteGen) sum(result, quarter int) target.VReg { return target.VReg(4*result + quarter) }

// emit generates the whole function: a loop over rows, with an inner loop over tiles.
func (g *byteGen) emit() {
	spec := g.spec
	loadAddress(g, In, inTile)
	loadAddress(g, Out, outTile)
	loadAddress(g, Weights, weights)
	loadAddress(g, Bias, bias)
	if !spec.Sums {
		loadAddress(g, Scales, scaleReg)
		loadAddress(g, ZeroPoint, scratch)
	}
	g.vectors.Begin(target.Addr{Base: scratch})
	g.Move(target.Word(jit.OffsetRows), tiles)
	row, tile, rowDone := g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Align(32)
	g.Bind(row)
	g.Move(inTile, in)
	g.Move(outTile, out)
	g.Move(target.Word(jit.OffsetN), vectors)
	g.Align(32)
	g.Bind(tile)
	g.windows()
	g.storeResults()
	g.Add(target.Imm(spec.Tile*spec.Stride[1]*spec.In[1]), in)
	g.Add(target.Imm(spec.Tile*spec.Out[1]), out)
	// The last tile starts spec.Overlap results earlier, so that it ends at the last result.
	g.CountDown(vectors, target.EQ, rowDone)
	g.CompareJump(vectors, target.Imm(1), target.NE, tile)
	g.Sub(target.Imm(spec.Overlap*spec.Stride[1]*spec.In[1]), in)
	g.Sub(target.Imm(spec.Overlap*spec.Out[1]), out)
	g.Jump(tile)
	g.Bind(rowDone)
	g.Add(target.Imm(spec.Stride[0]*spec.In[0]), inTile)
	g.Add(target.Imm(spec.Out[0]), outTile)
	g.CountDown(tiles, target.NE, row)
	g.Return()
}

// windows adds up the products of all windows of a tile, column by column of the input.
func (g *byteGen) windows() {
	spec := g.spec
	for quarter := range 4 {
		g.Copy(target.Addr{Base: bias, Disp: g.width * quarter}, g.sum(0, quarter))
		for result := 1; result < spec.Tile; result++ {
			g.Copy(g.sum(0, quarter), g.sum(result, quarter))
		}
	}
	groups := spec.Groups()
	for col := range (spec.Tile-1)*spec.Stride[1] + (spec.Window[1]-1)*spec.Dilation[1] + 1 {
		for group := range groups {
			var pixels []target.VReg
			for result := range spec.Tile {
				offset := col - result*spec.Stride[1]
				if offset < 0 || offset%spec.Dilation[1] != 0 || offset/spec.Dilation[1] >= spec.Window[1] {
					continue
				}
				if pixels == nil {
					quarters := g.vectors.Interleave(g.rows(col, group))
					pixels = quarters[:]
				}
				for quarter, reg := range pixels {
					at := target.Addr{Base: weights, Disp: ((offset/spec.Dilation[1]*groups+group)*4 + quarter) * g.width}
					g.vectors.Multiply(at, reg, g.sum(result, quarter))
				}
			}
		}
	}
}

// rows returns the addresses of a column's pixels in a group of window rows.
func (g *byteGen) rows(col, group int) (list []target.Addr) {
	spec := g.spec
	for row := group * spec.Rows(); row < min((group+1)*spec.Rows(), spec.Window[0]); row++ {
		list = append(list, target.Addr{Base: in, Disp: row*spec.Dilation[0]*spec.In[0] + col*spec.In[1]})
	}
	return list
}

// storeResults writes the results of a tile.
func (g *byteGen) storeResults() {
	if !g.spec.Sums {
		g.vectors.LoadScales(target.Addr{Base: scaleReg})
	}
	for result := range g.spec.Tile {
		sums := [4]target.VReg{g.sum(result, 0), g.sum(result, 1), g.sum(result, 2), g.sum(result, 3)}
		g.vectors.StoreResult(sums, target.Addr{Base: out, Disp: result * g.spec.Out[1]})
	}
}
