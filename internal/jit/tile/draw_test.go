//go:build linux || darwin

package tile_test

import (
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// random draws a call.
func random[T number](rng *rand.Rand, isa machine.ISA) *call[T] {
	size := int(unsafe.Sizeof(T(0)))
	c := &call[T]{lanes: 32 / size, tiles: 1 + rng.IntN(3), step: map[tile.Slot]int{}}
	regs := 16
	if isa == machine.AVX512 {
		c.lanes, regs = 64/size, 32
	}
	s := &tile.Spec{Size: size, Vectors: 1 + rng.IntN(4), Start: tile.Start(rng.IntN(4)), Touch: rng.IntN(3) == 0}
	c.spec = s
	s.Bytes, s.Words = integers[T]()
	s.Rows = 1 + rng.IntN(max(1, (regs-3-s.Vectors)/s.Vectors))
	c.drawLanes(rng)
	c.drawRows(rng)
	c.drawRuns(rng)
	c.drawLevels(rng)
	if !s.Bytes && !s.Words {
		c.drawBlocks(rng)
		c.drawTail(rng)
	}
	if rng.IntN(3) == 0 {
		s.Near = rng.IntN(10000)
	}
	s.Ahead = max(0, rng.IntN(8)-5)
	c.drawBesides(rng)
	return c
}

// drawBesides has what is read kept, or something else asked for, where a spec can have that.
func (c *call[T]) drawBesides(rng *rand.Rand) {
	s := c.spec
	if len(s.Runs) > 1 || len(s.Loops) > 0 {
		return
	}
	if rng.IntN(2) == 0 {
		c.tiles, s.Keep = 1, int(unsafe.Sizeof(T(0)))*(s.Vectors*c.lanes+rng.IntN(9))
	}
	if s.Runs[0].Terms == tile.Dynamic && s.Unroll == 0 {
		for range rng.IntN(3 - min(1, s.Ahead)) {
			s.Fetch = append(s.Fetch, tile.Fetch{Lines: 1 + rng.IntN(4), Every: tile.FewTerms << rng.IntN(4)})
		}
	}
}

// eachKept visits the terms of which the vector operand is kept: where they are in it, and where in what is kept.
func (c *call[T]) eachKept(visit func(vec, kept int)) {
	if c.spec.Keep == 0 {
		return
	}
	r := &c.spec.Runs[0]
	n := r.Terms
	if n == tile.Dynamic {
		n = c.terms
	}
	for k := range n {
		visit(int(r.Vec)+k*c.told(r.VecStep, tile.VecTerm), k*int(c.spec.Keep))
	}
}

// or makes one in three numbers one that the call tells.
func (c *call[T]) or(rng *rand.Rand, v int, slot tile.Slot) int {
	if rng.IntN(3) > 0 {
		return v
	}
	c.step[slot] = v
	return tile.Dynamic
}

func (c *call[T]) drawLanes(rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		c.spec.Lanes = int(c.or(rng, 1+rng.IntN(c.lanes), tile.LastLanes))
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
	if rng.IntN(3) == 0 && s.Rows <= tile.DynamicRows {
		s.In = nil
	}
	if rng.IntN(3) == 0 {
		s.Out = nil
	}
	s.Tiles = tile.Loop{In: c.or(rng, size*rng.IntN(99), tile.InTile), Vec: c.or(rng, size*rng.IntN(99), tile.VecTile),
		Out: c.or(rng, outTile, tile.OutTile)}
}

func (c *call[T]) drawRuns(rng *rand.Rand) {
	s, size := c.spec, int(unsafe.Sizeof(T(0)))
	if rng.IntN(3) == 0 {
		c.terms = rng.IntN(30)
		s.Runs = []tile.Run{{In: size * rng.IntN(9), Vec: size * rng.IntN(9), Terms: tile.Dynamic,
			InStep:  c.or(rng, size*(1+rng.IntN(20)), tile.InTerm),
			VecStep: c.or(rng, size*(s.Vectors*c.lanes+rng.IntN(9)), tile.VecTerm)}}
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
		s.Loops = append(s.Loops, tile.Loop{In: size * rng.IntN(99), Vec: size * (rng.IntN(999) - 500),
			Turns: int(c.or(rng, 1+rng.IntN(3), tile.LoopTurns+i))})
		if s.Loops[i].Turns == tile.Dynamic && rng.IntN(4) == 0 {
			c.step[tile.LoopTurns+i] = 0
		}
	}
}

// drawBlocks cuts terms into blocks, by turns and by terms.
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

func (c *call[T]) drawTail(rng *rand.Rand) {
	for range rng.IntN(4) {
		t := tile.Tail{Op: tile.TailOp(rng.IntN(int(tile.Scale) + 1)), Lo: rng.NormFloat64(), Hi: rng.NormFloat64()}
		switch t.Op {
		case tile.AddTile, tile.MulTile:
			t.Operand = rng.IntN(2)
		case tile.AddLanes, tile.MulLanes:
			t.Operand = 2
		case tile.AddRows, tile.MulRows:
			t.Operand = 3
		}
		c.spec.Tail = append(c.spec.Tail, t)
	}
}

// operands are how many a call has: of tails two that lie as the result does, one by lanes and one by rows.
const operands = tile.Tails + 4
