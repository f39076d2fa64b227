package depthwise

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
	arm64 "github.com/graphrun/graphrun/internal/jit/target/arm64/writer"
	"github.com/graphrun/graphrun/internal/machine"
)

// byteGen generates the code of a [ByteSpec]. The first registers hold the sums, four registers for each result.
type byteGen struct {
	target.Writer
	s       *ByteSpec
	width   int // bytes of a vector
	vectors byteVectors
}

// byteVectors writes the vector instructions of a byteGen for a processor.
type byteVectors interface {
	target.Writer
	// Begin loads constants. point is the address of the zero point.
	Begin(point target.Addr)
	// Interleave loads the pixels of a column in rows and interleaves their bytes by channel. The list omits rows that
	// pad a group of window rows. Each of the four registers has a quarter of the channels.
	Interleave(rows []target.Addr) [4]target.VReg
	// Multiply adds the products of x and the weights to a sum.
	Multiply(weights target.Addr, x, sum target.VReg)
	// LoadScales loads four vectors of scales, for StoreResult.
	LoadScales(at target.Addr)
	// StoreResult writes a result: the sums, or bytes after scaling, rounding and saturation.
	StoreResult(sums [4]target.VReg, at target.Addr)
}

// scaleReg has the address of the scales.
const scaleReg = rowsLeft

func newByteGen(s *ByteSpec, cpu machine.Features, withListing bool) *byteGen {
	g := &byteGen{s: s, width: ByteChannels(cpu)}
	w := target.ByteWindows{Flip: s.FlipSigns, SignedIn: s.SignedIn, Signed: s.Signed, Sums: s.Sums, Words: s.Words,
		Channels: s.Channels, ChannelMask: stepOf(Channels), Spill: spillWord(0), Temporary: scratch}
	if cpu.Has(machine.NEON) {
		g.vectors = arm64.NewByteWindows(w, withListing)
	} else {
		g.vectors = amd64.NewByteWindows(w, cpu, withListing)
	}
	g.Writer = g.vectors
	return g
}

func (g *byteGen) sum(result, quarter int) target.VReg { return target.VReg(4*result + quarter) }

// emit generates the whole function: a loop over rows, with an inner loop over tiles.
func (g *byteGen) emit() {
	s := g.s
	operand(g, In, inTile)
	operand(g, Out, outTile)
	operand(g, Weights, weights)
	operand(g, Bias, bias)
	if !s.Sums {
		operand(g, Scales, scaleReg)
		operand(g, ZeroPoint, scratch)
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
	g.Add(target.Imm(s.Tile*s.Stride[1]*s.In[1]), in)
	g.Add(target.Imm(s.Tile*s.Out[1]), out)
	g.CountDown(vectors, target.EQ, rowDone)
	g.CompareJump(vectors, target.Imm(1), target.NE, tile)
	g.Sub(target.Imm(s.Overlap*s.Stride[1]*s.In[1]), in)
	g.Sub(target.Imm(s.Overlap*s.Out[1]), out)
	g.Jump(tile)
	g.Bind(rowDone)
	g.Add(target.Imm(s.Stride[0]*s.In[0]), inTile)
	g.Add(target.Imm(s.Out[0]), outTile)
	g.CountDown(tiles, target.NE, row)
	g.Return()
}

// windows adds up the products of all windows of a tile, column by column of the input.
func (g *byteGen) windows() {
	s := g.s
	for q := range 4 {
		g.Copy(target.Addr{Base: bias, Disp: g.width * q}, g.sum(0, q))
		for t := 1; t < s.Tile; t++ {
			g.Copy(g.sum(0, q), g.sum(t, q))
		}
	}
	groups := s.Groups()
	for col := range (s.Tile-1)*s.Stride[1] + (s.Window[1]-1)*s.Dilation[1] + 1 {
		for k := range groups {
			var pixels []target.VReg
			for t := range s.Tile {
				offset := col - t*s.Stride[1]
				if offset < 0 || offset%s.Dilation[1] != 0 || offset/s.Dilation[1] >= s.Window[1] {
					continue
				}
				if pixels == nil {
					quarters := g.vectors.Interleave(g.rows(col, k))
					pixels = quarters[:]
				}
				for q, x := range pixels {
					at := target.Addr{Base: weights, Disp: ((offset/s.Dilation[1]*groups+k)*4 + q) * g.width}
					g.vectors.Multiply(at, x, g.sum(t, q))
				}
			}
		}
	}
}

// rows returns the addresses of a column's pixels in a group of window rows.
func (g *byteGen) rows(col, group int) (list []target.Addr) {
	s := g.s
	for row := group * s.Rows(); row < min((group+1)*s.Rows(), s.Window[0]); row++ {
		list = append(list, target.Addr{Base: in, Disp: row*s.Dilation[0]*s.In[0] + col*s.In[1]})
	}
	return list
}

// storeResults writes the results of a tile.
func (g *byteGen) storeResults() {
	if !g.s.Sums {
		g.vectors.LoadScales(target.Addr{Base: scaleReg})
	}
	for t := range g.s.Tile {
		sums := [4]target.VReg{g.sum(t, 0), g.sum(t, 1), g.sum(t, 2), g.sum(t, 3)}
		g.vectors.StoreResult(sums, target.Addr{Base: out, Disp: t * g.s.Out[1]})
	}
}
