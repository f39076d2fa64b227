package tile

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit/target"
)

// VecQuantization describes a vector operand of quantized elements: the weight of a matrix product, whose columns are
// the lanes of the tile. An element is stored as an integer, its level, which stands for the number (level - zero
// point) * scale. A term is one index of the summed dimension, and the innermost loop has one iteration for each block
// of consecutive terms. In a block, each lane of the tile has a scale and a zero point. The code multiplies the
// broadcast operand by level - zero point in float32, and multiplies the sum of a block by the scale:
//
//	result[i, lane] = sum over blocks of scale[block, lane] *
//	                  sum over terms k of the block of in[i, k] * (level[k, lane] - zero[block, lane])
type VecQuantization struct {
	Bits int // bits of a level: 4 or 8; 0 if the operand has floats
	// HasZeroPoints is set if the zero points are in the operand LevelZeros. Otherwise all zero points are 0.
	HasZeroPoints bool
}

// Operands of a tile with VecQuantization: indices into Ptr and Row of [jit.Args]. Their indices are also the indices
// of two operands that only other tiles have. LevelScales has a float32, and LevelZeros an int8, for each lane of each
// block. All tiles of a call start at the first block: the addresses of both operands do not advance from one tile to
// the next.
//
// Levels of 8 bits are int8. Levels of 4 bits are signed, too, and share bytes. If a tile has 2n lanes, the low bits of
// byte i of a term are the level of lane i, and the high bits are the level of lane n+i.
const (
	LevelScales = Packed
	LevelZeros  = Scratch
)

// Registers of the addresses of scales and zero points. vecStepReg and broadcastStepReg are free, because they hold
// dynamic steps, and the steps of a tile with VecQuantization are constant.
const (
	levelScalesReg = vecStepReg
	levelZerosReg  = broadcastStepReg
)

// hasLevels reports whether the vector operand has levels, the integers of quantized elements (see [VecQuantization]).
func (s *Spec) hasLevels() bool { return s.VecQuantization.Bits != 0 }

// checkLevels checks the requirements of Spec.VecQuantization.
func (s *Spec) checkLevels() error {
	levelBits := s.VecQuantization.Bits
	switch {
	case !s.hasLevels() && !s.VecQuantization.HasZeroPoints:
		return nil
	case levelBits != 8 && (levelBits != 4 || s.Vectors%2 != 0):
		return fmt.Errorf("tile: VecQuantization.Bits is %d and Vectors is %d: want 8 bits, or 4 bits and an even number of "+
			"vectors", levelBits, s.Vectors)
	case s.ElemBytes != 4 || s.hasIntSums() || s.Masked || s.PackedStep != 0 || !s.hasLoopOverBlocks():
		return fmt.Errorf("tile: VecQuantization requires ElemBytes 4 with float sums, a single loop with Block 1, a " +
			"single run without Dynamic fields and with Block 0 and Rows 0, and neither Masked nor PackedStep")
	}
	return nil
}

// hasLoopOverBlocks reports whether a tile has a single loop, with one iteration for each block, and a single run,
// whose fields are constant. A run is a sequence of terms with constant steps between them, and a loop repeats the runs
// (see spec.go).
func (s *Spec) hasLoopOverBlocks() bool {
	if len(s.Loops) != 1 || s.Loops[0].Block != 1 || len(s.Runs) != 1 {
		return false
	}
	run := &s.Runs[0]
	isDynamic := run.Terms == Dynamic || run.InStep == Dynamic || run.VecStep == Dynamic
	return !isDynamic && run.Block == 0 && run.Rows == 0
}

// zeroPointVectors returns the number of registers that hold the zero points of a block.
func (s *Spec) zeroPointVectors() int {
	if s.VecQuantization.HasZeroPoints {
		return s.Vectors
	}
	return 0
}

// zeroPointReg returns the register with the zero points of a vector.
func (g *gen) zeroPointReg(vector int) target.VReg {
	return target.VReg(g.sumCount + g.spec.vectorsPerTerm() + vector)
}

// loadLevelAddresses loads the addresses of the scales and zero points of the first block.
func (g *gen) loadLevelAddresses() {
	if g.spec.hasLevels() {
		g.loadAddress(LevelScales, levelScalesReg)
	}
	if g.spec.VecQuantization.HasZeroPoints {
		g.loadAddress(LevelZeros, levelZerosReg)
	}
}

// loadZeroPoints loads the zero points of a block, and advances their address to the next block.
func (g *gen) loadZeroPoints() {
	if !g.spec.VecQuantization.HasZeroPoints {
		return
	}
	lanes := g.vectorBytes / g.spec.ElemBytes
	for vector := range g.spec.Vectors {
		g.LoadBytes(target.Addr{Base: levelZerosReg, Disp: vector * lanes}, g.zeroPointReg(vector))
		g.ToFloats(g.zeroPointReg(vector))
	}
	g.advance(levelZerosReg, g.spec.Vectors*lanes)
}

// loadLevels loads the levels of a term and converts them to factors for the multiply-adds: level minus zero point, as
// float32.
func (g *gen) loadLevels(offset int) {
	lanes := g.vectorBytes / g.spec.ElemBytes // a vector of levels of 8 bits has one byte for each lane
	if g.spec.VecQuantization.Bits == 8 {
		for vector := range g.spec.Vectors {
			g.LoadBytes(target.Addr{Base: vecReg, Disp: offset + vector*lanes}, g.vectorReg(vector))
		}
	} else {
		// A byte is loaded into a lane of 32 bits, with its sign. Shifts by 28, left and then right, extend the sign of
		// the low level (bits 0 to 3). A shift by 4 to the right leaves the high level (bits 4 to 7), with its sign.
		half := g.spec.Vectors / 2
		for vector := range half {
			low, high := g.vectorReg(vector), g.vectorReg(half+vector)
			g.LoadBytes(target.Addr{Base: vecReg, Disp: offset + vector*lanes}, high)
			g.ShiftLeft(28, high, low)
			g.ShiftRight(28, low, low)
			g.ShiftRight(4, high, high)
		}
	}
	for vector := range g.spec.Vectors {
		g.ToFloats(g.vectorReg(vector))
		if g.spec.VecQuantization.HasZeroPoints {
			g.Op(target.Sub, g.zeroPointReg(vector), g.vectorReg(vector), g.vectorReg(vector))
		}
	}
}

// endLevels ends a block. It multiplies the accumulators by the scales of the block, and adds the products to the
// totals of the previous blocks, which are in memory (blockTotal). It resets the accumulators to 0, and advances the
// address of the scales to the next block.
func (g *gen) endLevels() {
	for vector := range g.spec.Vectors {
		scale := g.vectorReg(vector) // free: the last term of the block has read its levels
		g.Load(target.Addr{Base: levelScalesReg, Disp: vector * g.vectorBytes}, scale, wholeVector)
		for i := range g.spec.Rows {
			sum, total := g.sumReg(i, vector), g.nextElementRegister() // total += scale*sum
			g.Copy(g.blockTotal(int(sum)), total)
			g.FMA(scale, sum, total)
			g.Copy(total, g.blockTotal(int(sum)))
			g.Clear(sum)
		}
	}
	g.advance(levelScalesReg, g.spec.Vectors*g.vectorBytes)
}
