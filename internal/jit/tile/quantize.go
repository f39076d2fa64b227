package tile

import (
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
)

// Quantized is the dtype of the results of a tile of bytes or words.
type Quantized uint8

// Dtypes. Unsigned and Signed are quantized bytes: a sum is multiplied by the scale of its lane, rounded, and added to
// the zero point with saturation, as in package requantize.
const (
	NotQuantized Quantized = iota // int32 sums, or float32 after an epilogue
	Unsigned
	Signed
)

// Operands of quantized results: indices into Ptr and Row. Scales has a float32 for each lane. ZeroPoint is one int32.
const (
	Scales = EpilogueOperands + iota
	ZeroPoint
)

const (
	packedVectors     = 4  // vectors of sums whose bytes fill one vector
	bytesPerSumVector = 16 // bytes of one vector of sums
	quantizedRegs     = 3  // registers needed besides the sums and the mask

	zeroPointWord = spillWords // of the spill area: the zero point in all lanes
)

// lastVectors returns the number of vectors of sums that fill the last vector of bytes of a row.
func (s *Spec) lastVectors() int { return (s.Vectors-1)%packedVectors + 1 }

// beginQuantized computes the mask of the last bytes of a row.
func (g *gen) beginQuantized() {
	if g.s.Quantized == NotQuantized || g.amd64 == nil {
		return
	}
	n, wholeBytes := target.Int(target.Imm(g.s.Lanes)), int64(bytesPerSumVector*(g.s.lastVectors()-1))
	switch g.s.Lanes {
	case Dynamic:
		n = stepOf(LastLanes)
	case 0:
		n = target.Imm(bytesPerSumVector)
	}
	g.quantizer().SetLastBytes(n, wholeBytes, [2]target.GReg{inReg, countReg})
}

// quantizer returns the writer of the conversion to bytes on amd64. With AVX-512, register Temp is free after the
// conversion.
func (g *gen) quantizer() *amd64.Quantizer {
	q := &amd64.Quantizer{Writer: g.amd64, Signed: g.s.Quantized == Signed, MaxLevel: g.freeRegister(1),
		ZeroPoint: g.freeRegister(2), NotNaN: 3, ZeroPointWord: spillWord(zeroPointWord), Temp: g.freeRegister(1)}
	if g.s.mayBePartial(g.cpu) && g.mask == q.Temp {
		q.Temp = g.freeRegister(2)
	}
	return q
}

// storeQuantized converts the sums and stores them. It packs up to four vectors, of one row or of several rows.
func (g *gen) storeQuantized() {
	if g.neon != nil {
		g.storeQuantizedNEON()
		return
	}
	x := g.loadEpilogueMask()
	q := g.quantizer()
	g.operand(ZeroPoint, inReg)
	q.Begin(target.Addr{Base: inReg})
	g.eachLanes(Scales, g.freeRegister(0), func(i, v int) {
		g.ToFloats(g.sum(i, v))
		q.ToLevels(g.sum(i, v), x)
	})
	order := q.Temp
	q.LoadOrder(order)
	last := target.Int(target.Imm(g.s.Lanes))
	if g.s.Lanes == Dynamic {
		last = countReg
		if target.MasksInVectors(g.cpu) {
			g.Move(stepOf(LastLanes), countReg)
		}
	}
	for v := 0; v < g.s.Vectors; v += packedVectors {
		n, end := min(packedVectors, g.s.Vectors-v), target.Int(nil)
		if g.isPartial(v + n - 1) {
			end = last
		}
		for i, rows := 0, packedVectors/n; i < g.s.Rows; i += rows {
			part := [packedVectors]target.VReg{x, x, x, x}
			for k := range min(rows, g.s.Rows-i) * n {
				part[k] = g.sum(i+k/n, v+k%n)
			}
			q.Pack(part)
			q.Arrange(part[0], order)
			for row := range min(rows, g.s.Rows-i) {
				at := target.Addr{Base: outTileReg, Disp: g.s.Out[i+row] + v*g.bytes/packedVectors}
				q.StoreParts(part[0], x, row*n, n, at, end, [2]target.GReg{inReg, vecReg})
			}
		}
	}
}
