package depthwise

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
)

// byteGen generates the code of a [Bytes]. The first registers have the sums, in four registers for each result.
type byteGen struct {
	target.Writer
	s       *Bytes
	width   int // bytes of a vector
	vectors byteVectors
}

// byteVectors writes the vector instructions of a byteGen for a processor.
type byteVectors interface {
	// begin loads constants. The address of the zero point is in register scratch.
	begin()
	// interleave loads the pixels of a column in a group of rows and interleaves their bytes by channel. Each of the four
	// registers has a quarter of the channels.
	interleave(col, group int) [4]target.V
	// multiply adds the products of x and the weights to a sum.
	multiply(weights target.Addr, x, sum target.V)
	// finish writes the results of a tile: the sums, or bytes after scaling, rounding and saturation.
	finish()
}

// scaleReg has the address of the scales.
const scaleReg = rowsLeft

func newByteGen(s *Bytes, cpu machine.Features, list bool) *byteGen {
	g := &byteGen{s: s, width: ByteChannels(cpu)}
	if cpu.Has(machine.NEON) {
		g.vectors = newByteNEON(g, list)
	} else {
		g.vectors = newByteAVX(g, cpu, list)
	}
	return g
}

func (g *byteGen) sum(result, quarter int) target.V { return target.V(4*result + quarter) }

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
	g.vectors.begin()
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
	g.vectors.finish()
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
			var pixels []target.V
			for t := range s.Tile {
				d := col - t*s.Stride[1]
				if d < 0 || d%s.Dilation[1] != 0 || d/s.Dilation[1] >= s.Window[1] {
					continue
				}
				if pixels == nil {
					quarters := g.vectors.interleave(col, k)
					pixels = quarters[:]
				}
				for q, x := range pixels {
					at := target.Addr{Base: weights, Disp: ((d/s.Dilation[1]*groups+k)*4 + q) * g.width}
					g.vectors.multiply(at, x, g.sum(t, q))
				}
			}
		}
	}
}
