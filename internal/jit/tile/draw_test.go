//go:build linux || darwin

package tile_test

import (
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// random draws a call.
func random[T number](rng *rand.Rand, cpu machine.Features) *call[T] {
	size := int(unsafe.Sizeof(T(0)))
	regs, bytes := target.VectorRegisters(cpu)
	c := &call[T]{lanes: bytes / size, tiles: 1 + rng.IntN(3), step: map[tile.Slot]int{}}
	s := &tile.Spec{ElemBytes: size, Vectors: 1 + rng.IntN(4), InitialSum: tile.InitialSum(rng.IntN(4)),
		PrefetchResult: rng.IntN(3) == 0}
	c.spec = s
	s.Int8, s.Int16 = integers[T]()
	s.Rows = 1 + rng.IntN(max(1, (regs-3-s.Vectors)/s.Vectors))
	c.drawLanes(rng)
	if cpu.Has(machine.NEON) {
		if s.Lanes == tile.Dynamic {
			s.Lanes = c.step[tile.LastLanes]
		}
		s.SignedIn = s.Int8 && tile.ReadsSigned(cpu, s.Rows%2 == 0)
	}
	c.drawRows(rng)
	c.drawRuns(rng)
	c.drawQuantized(rng)
	if !s.Int8 && !s.Int16 {
		c.drawBlocks(rng)
		c.drawEpilogue(rng)
	}
	if rng.IntN(3) == 0 {
		s.PrefetchDistance = rng.IntN(10000)
	}
	s.PrefetchedLines = max(0, rng.IntN(8)-5)
	c.drawPacking(rng)
	return c
}

// randomMatrix draws a call that multiplies byte matrices.
func randomMatrix(rng *rand.Rand, cpu machine.Features) *call[int32] {
	c := random[int32](rng, cpu)
	s := c.spec
	regs, _ := target.VectorRegisters(cpu)
	s.Int8Matrix, s.Masked, s.PackedStep = true, false, 0
	if maxRows := (regs - 1 - 2*s.Vectors) / s.Vectors &^ 1; s.Rows > maxRows {
		s.Rows = maxRows
		s.In, s.Out = s.In[:min(len(s.In), maxRows)], s.Out[:min(len(s.Out), maxRows)]
	}
	for i := range s.Runs {
		s.Runs[i].Rows = 0
	}
	return c
}

// randomHalf draws a call whose vector operand has 16-bit floats.
func randomHalf(rng *rand.Rand, cpu machine.Features) *call[float32] {
	c := random[float32](rng, cpu)
	c.spec.Half, c.spec.Masked = target.Float16+target.Half(rng.IntN(2)), false
	return c
}

// drawPacking draws packing and prefetches, if the spec supports them.
func (c *call[T]) drawPacking(rng *rand.Rand) {
	s := c.spec
	if len(s.Runs) > 1 || len(s.Loops) > 0 {
		return
	}
	if rng.IntN(2) == 0 {
		c.tiles, s.PackedStep = 1, int(unsafe.Sizeof(T(0)))*(s.Vectors*c.lanes+rng.IntN(9))
	}
	if s.Runs[0].Terms == tile.Dynamic && s.Unroll == 0 {
		for range rng.IntN(3 - min(1, s.PrefetchedLines)) {
			s.Prefetch = append(s.Prefetch, tile.Prefetch{Lines: 1 + rng.IntN(4),
				Every: tile.DefaultUnroll << rng.IntN(4)})
		}
	}
}

// eachPacked visits the packed terms: their offsets in the vector operand and in the packed one.
func (c *call[T]) eachPacked(visit func(vec, packed int)) {
	if c.spec.PackedStep == 0 {
		return
	}
	r := &c.spec.Runs[0]
	n := r.Terms
	if n == tile.Dynamic {
		n = c.terms
	}
	for k := range n {
		visit(int(r.Vec)+k*c.value(r.VecStep, tile.VecTerm), k*int(c.spec.PackedStep))
	}
}

// maybeDynamic returns v, or in one of three cases Dynamic. The call then has v as an argument.
func (c *call[T]) maybeDynamic(rng *rand.Rand, v int, slot tile.Slot) int {
	if rng.IntN(3) > 0 {
		return v
	}
	c.step[slot] = v
	return tile.Dynamic
}

func (c *call[T]) drawLanes(rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		c.spec.Lanes = int(c.maybeDynamic(rng, 1+rng.IntN(c.lanes), tile.LastLanes))
		c.spec.Masked = rng.IntN(2) == 0
	}
}

func (c *call[T]) drawRows(rng *rand.Rand) {
	s, size := c.spec, int(unsafe.Sizeof(T(0)))
	wide := s.Vectors * c.lanes * size
	c.step[tile.InRow], c.step[tile.OutRow] = size*rng.IntN(50), wide+size*rng.IntN(50)
	outTile := s.Rows * (wide + 50*size)
	for range s.Rows {
		s.In = append(s.In, size*rng.IntN(300))
		s.Out = append(s.Out, wide*len(s.Out)+size*rng.IntN(1+len(s.Out)%2))
	}
	slices.Sort(s.Out)
	for i := range s.Out {
		s.Out[i] += i * size
	}
	if rng.IntN(3) == 0 && s.Rows <= tile.MaxDynamicRows {
		s.In = nil
	}
	if rng.IntN(3) == 0 {
		s.Out = nil
	}
	s.Tiles = tile.Loop{InStep: c.maybeDynamic(rng, size*rng.IntN(99), tile.InTile),
		VecStep: c.maybeDynamic(rng, size*rng.IntN(99), tile.VecTile), OutStep: c.maybeDynamic(rng, outTile, tile.OutTile)}
}

func (c *call[T]) drawRuns(rng *rand.Rand) {
	s, size := c.spec, int(unsafe.Sizeof(T(0)))
	if rng.IntN(3) == 0 {
		c.terms = rng.IntN(30)
		s.Runs = []tile.Run{{In: size * rng.IntN(9), Vec: size * rng.IntN(9), Terms: tile.Dynamic,
			InStep:  c.maybeDynamic(rng, size*(1+rng.IntN(20)), tile.InTerm),
			VecStep: c.maybeDynamic(rng, size*(s.Vectors*c.lanes+rng.IntN(9)), tile.VecTerm)}}
	} else {
		for range 1 + rng.IntN(4) {
			s.Runs = append(s.Runs, tile.Run{In: size * (rng.IntN(99) - 50), Vec: size * (rng.IntN(999) - 500),
				Terms: 1 + rng.IntN(20), InStep: size * (1 + rng.IntN(3)), VecStep: size * s.Vectors * c.lanes,
				Rows: rng.Uint32() & (1<<s.Rows - 1)})
		}
	}
	if rng.IntN(4) == 0 {
		s.Unroll = 1 + rng.IntN(6)
	}
	for i := range rng.IntN(tile.MaxLoops + 1) {
		s.Loops = append(s.Loops, tile.Loop{InStep: size * rng.IntN(99), VecStep: size * (rng.IntN(999) - 500),
			Trips: int(c.maybeDynamic(rng, 1+rng.IntN(3), tile.LoopTrips+i))})
		if s.Loops[i].Trips == tile.Dynamic && rng.IntN(4) == 0 {
			c.step[tile.LoopTrips+i] = 0
		}
	}
}

// drawBlocks divides terms into blocks, in loops and in runs.
func (c *call[T]) drawBlocks(rng *rand.Rand) {
	if c.spec.In == nil || rng.IntN(2) == 0 {
		return
	}
	for i := range c.spec.Loops {
		c.spec.Loops[i].Block = rng.IntN(4)
	}
	for i := range c.spec.Runs {
		if r := &c.spec.Runs[i]; r.Terms != tile.Dynamic {
			r.Block = max(0, rng.IntN(12)-2)
		}
	}
}

func (c *call[T]) drawEpilogue(rng *rand.Rand) {
	for range rng.IntN(4) {
		op := tile.EpilogueOp(rng.IntN(int(tile.Scale) + 1))
		t := tile.EpilogueStep{Op: op, Lower: rng.NormFloat64(), Upper: rng.NormFloat64()}
		switch t.Op {
		case tile.AddTile, tile.MulTile:
			t.Operand = rng.IntN(2)
		case tile.AddLanes, tile.MulLanes:
			t.Operand = 2
		case tile.AddRows, tile.MulRows:
			t.Operand = 3
		}
		c.spec.Epilogue = append(c.spec.Epilogue, t)
	}
}

// operands is the number of operands of a call. Epilogues have two tile operands, one by lanes and one by rows.
const operands = tile.FirstEpilogueOperand + 4
