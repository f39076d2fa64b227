package depthwise

import (
	"strings"

	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/writer"
)

// byteNEON implements [byteVectors] for NEON with dot products of bytes.
type byteNEON struct {
	*writer.Writer
	gen        *byteGen
	s          *Bytes
	nextWeight int
}

// Vector registers, after those of the sums.
const (
	firstTemp   = target.V(4 * maxTileNEON) // six, for pixels or four scales
	firstWeight = firstTemp + 6             // weightRegs
	zeroRow     = firstWeight + weightRegs
	signBits    = zeroRow + 1
	zeroPoint   = zeroRow + 2

	maxTileNEON = 4
	weightRegs  = 4 // several registers let loads overlap with multiplications
)

func newByteNEON(of *byteGen, list bool) *byteNEON {
	g := &byteNEON{Writer: writer.New(4, list), gen: of, s: of.s}
	of.Writer = g.Writer
	return g
}

func byteVec(v target.V) asm.Vec { return asm.V(int(v), asm.B) }

func (g *byteNEON) begin() {
	if !g.s.Sums {
		g.Broadcast(target.Addr{Base: scratch}, zeroPoint)
	}
	g.Clear(zeroRow)
	if g.s.Flip {
		g.Copy(target.Constant(strings.Repeat("\x80", 16)), signBits)
	}
}

// load loads a column's pixel in a row. Rows that pad the last group of window rows are zero.
func (g *byteNEON) load(col, row int, to target.V) asm.Vec {
	s := g.s
	if row >= s.Window[0] {
		return byteVec(zeroRow)
	}
	g.Load(target.Addr{Base: in, Disp: row*s.Dilation[0]*s.In[0] + col*s.In[1]}, to, false)
	if s.Flip {
		g.Emit("eor", byteVec(to), byteVec(to), byteVec(signBits))
	}
	return byteVec(to)
}

func (g *byteNEON) interleave(col, group int) (quarters [4]target.V) {
	temp := func(i int) target.V { return firstTemp + target.V(i) }
	var rows [4]asm.Vec
	for i := range rows {
		rows[i] = g.load(col, 4*group+i, temp(i))
	}
	zip := func(a, b asm.Vec, low, high target.V) { // high may be the register of a
		g.Emit("zip1", byteVec(low).As(a.Elem), a, b)
		g.Emit("zip2", byteVec(high).As(a.Elem), a, b)
	}
	zip(rows[0], rows[1], temp(4), temp(0))
	zip(rows[2], rows[3], temp(5), temp(2))
	words := func(i int) asm.Vec { return byteVec(temp(i)).As(asm.H) }
	zip(words(4), words(5), temp(1), temp(3))
	zip(words(0), words(2), temp(4), temp(5))
	return [4]target.V{temp(1), temp(3), temp(4), temp(5)}
}

func (g *byteNEON) multiply(weights target.Addr, x, sum target.V) {
	w := firstWeight + target.V(g.nextWeight%weightRegs)
	g.nextWeight++
	g.Load(weights, w, false)
	name := "usdot"
	if g.s.SignedIn {
		name = "sdot"
	}
	g.Emit(name, asm.V(int(sum), asm.S), byteVec(x), byteVec(w))
}

func (g *byteNEON) finish() {
	s, channels := g.s, g.gen.width
	if s.Channels > 0 {
		channels = s.Channels
	}
	for q := 0; q < 4 && !s.Sums; q++ {
		g.Load(target.Addr{Base: scaleReg, Disp: 16 * q}, firstTemp+target.V(q), false)
	}
	for t := range s.Tile {
		at := target.Addr{Base: out, Disp: t * s.Out[1]}
		var sums []target.V
		for q := range 4 {
			v := g.gen.sum(t, q)
			if s.Sums {
				g.StoreBytes(v, at, min(max(channels-4*q, 0), 4)*4)
				at.Disp += 16
				continue
			}
			g.Quantize(v, firstTemp+target.V(q), zeroPoint)
			sums = append(sums, v)
		}
		if !s.Sums {
			g.PackBytes(sums, s.Signed)
			g.StoreBytes(sums[0], at, channels)
		}
	}
}
