package tile

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit/target"
)

// Levels describes a vector operand of quantized elements. An element is an integer, its level, and stands for the
// number (level - zero point) * scale. The innermost loop has one iteration for each block of terms. In a block, each
// lane of the tile has a scale and a zero point. The code multiplies the broadcast operand by level - zero point in
// float32, and multiplies the sum of a block by the scale.
type Levels struct {
	Bits int // bits of a level: 4 or 8; 0 if the operand has floats
	// Zeros selects zero points from the operand LevelZeros. Otherwise they are 0.
	Zeros bool
}

// Operands of a tile with Levels: indices into Ptr and Row. LevelScales has a float32, and LevelZeros an int8, for
// each lane of each block. Both are read from the start for each tile of a call.
//
// Levels of 8 bits are int8. Of 4 bits, byte i of a term has the level of lane i in its low bits, and in its high bits
// the level of the lane that is half of the tile's lanes further. These levels are signed, too.
const (
	LevelScales = Packed
	LevelZeros  = Scratch
)

// Registers of the addresses of scales and zero points. The tile has no dynamic steps.
const (
	levelScales = vecStepReg
	levelZeros  = inStepReg
)

// hasLevels reports whether the vector operand has quantized elements.
func (s *Spec) hasLevels() bool { return s.Levels.Bits != 0 }

// checkLevels checks the requirements of Spec.Levels.
func (s *Spec) checkLevels() error {
	switch {
	case !s.hasLevels() && !s.Levels.Zeros:
		return nil
	case s.Levels.Bits != 8 && (s.Levels.Bits != 4 || s.Vectors%2 != 0):
		return fmt.Errorf("tile: levels of %d bits in %d vectors: want 8 bits, or 4 bits in an even number of vectors",
			s.Levels.Bits, s.Vectors)
	case s.Size != 4 || s.hasIntSums() || s.Masked || s.PackStep != 0 || len(s.Loops) != 1 || s.Loops[0].Block != 1 ||
		len(s.Runs) != 1 || s.Runs[0].Terms == Dynamic || s.Runs[0].InStep == Dynamic ||
		s.Runs[0].VecStep == Dynamic ||
		s.Runs[0].Block != 0 || s.Runs[0].Rows != 0:
		return fmt.Errorf("tile: levels require float32, one loop whose iterations are blocks, one constant run with all " +
			"rows, and neither Masked nor PackStep")
	}
	return nil
}

// zeroVectors returns the number of registers for zero points.
func (s *Spec) zeroVectors() int {
	if s.Levels.Zeros {
		return s.Vectors
	}
	return 0
}

// zeroReg returns the register with the zero points of vector v.
func (g *gen) zeroReg(v int) target.VReg { return target.VReg(g.sumCount + g.spec.termVectors() + v) }

// beginLevels sets the addresses of the scales and zero points of the first block.
func (g *gen) beginLevels() {
	if g.spec.hasLevels() {
		g.loadAddress(LevelScales, levelScales)
	}
	if g.spec.Levels.Zeros {
		g.loadAddress(LevelZeros, levelZeros)
	}
}

// loadZeros loads the zero points of a block, and advances to those of the next block.
func (g *gen) loadZeros() {
	if !g.spec.Levels.Zeros {
		return
	}
	lanes := g.vectorBytes / g.spec.Size
	for v := range g.spec.Vectors {
		g.LoadBytes(target.Addr{Base: levelZeros, Disp: v * lanes}, g.zeroReg(v))
		g.ToFloats(g.zeroReg(v))
	}
	g.advance(levelZeros, g.spec.Vectors*lanes)
}

// loadLevels loads the vectors of a term: levels minus zero points.
func (g *gen) loadLevels(offset int) {
	lanes, half := g.vectorBytes/g.spec.Size, g.spec.Vectors/2
	if g.spec.Levels.Bits == 8 {
		for v := range g.spec.Vectors {
			g.LoadBytes(target.Addr{Base: vecReg, Disp: offset + v*lanes}, g.vectorReg(v))
		}
	} else {
		for v := range half {
			low, high := g.vectorReg(v), g.vectorReg(half+v)
			g.LoadBytes(target.Addr{Base: vecReg, Disp: offset + v*lanes}, high)
			g.ShiftLeft(28, high, low)
			g.ShiftRight(28, low, low)
			g.ShiftRight(4, high, high)
		}
	}
	for v := range g.spec.Vectors {
		g.ToFloats(g.vectorReg(v))
		if g.spec.Levels.Zeros {
			g.Op(target.Sub, g.zeroReg(v), g.vectorReg(v), g.vectorReg(v))
		}
	}
}

// endLevels adds the accumulators, multiplied by the scales of the block, to the sums of the previous blocks. It
// resets the accumulators to 0, and advances to the scales of the next block.
func (g *gen) endLevels() {
	for v := range g.spec.Vectors {
		scale := g.vectorReg(v)
		g.Load(target.Addr{Base: levelScales, Disp: v * g.vectorBytes}, scale, false)
		for i := range g.spec.Rows {
			sum, total := g.sumReg(i, v), g.nextElement()
			g.Copy(g.blockSum(int(sum)), total)
			g.MulAdd(scale, sum, total)
			g.Copy(total, g.blockSum(int(sum)))
			g.Clear(sum)
		}
	}
	g.advance(levelScales, g.spec.Vectors*g.vectorBytes)
}
