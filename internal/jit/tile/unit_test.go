//go:build linux || darwin

package tile_test

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// randomUnit draws a call of the matrix unit: rows in one or two parts, and terms in chunks of one or two sizes.
func randomUnit(rng *rand.Rand) *call[int32] {
	c := &call[int32]{lanes: 16, tiles: 1 + rng.IntN(3), step: map[tile.Slot]int{}}
	s := &tile.Spec{ElemBytes: 4, Int8: true, MatrixUnit: true, Vectors: 1 + rng.IntN(tile.UnitVectors),
		PrefetchResult: rng.IntN(3) == 0,
		InitialSum:     []tile.InitialSum{tile.Zero, tile.FromLanes, tile.FromResult}[rng.IntN(3)]}
	c.spec = s
	if rng.IntN(2) == 0 {
		s.Lanes = int(c.maybeDynamic(rng, 1+rng.IntN(c.lanes), tile.LastLanes))
	}
	parts, rows := 1+rng.IntN(2), 1+rng.IntN(tile.UnitRows)
	if parts == 1 && rng.IntN(2) == 0 {
		rows += tile.UnitRows
	}
	wide, step, gap := s.Vectors*64, 4*rng.IntN(50), rng.IntN(3)*4
	for p := range parts {
		begin := p * (4000 + 4*rng.IntN(9))
		for i := range rows {
			s.In, s.Out = append(s.In, begin+i*step), append(s.Out, (p*rows+i)*(wide+gap))
		}
	}
	if s.Rows = parts * rows; rng.IntN(4) == 0 {
		s.Out[s.Rows-1] += 4
	}
	s.Tiles = tile.Loop{InStep: c.maybeDynamic(rng, 4*rng.IntN(99), tile.InTile),
		VecStep: c.maybeDynamic(rng, 4*rng.IntN(99), tile.VecTile),
		OutStep: c.maybeDynamic(rng, s.Rows*(wide+8)+8, tile.OutTile)}
	chunk, rest := 1+rng.IntN(40), rng.IntN(2)*rng.IntN(16)
	for range 1 + rng.IntN(3) {
		s.Runs = append(s.Runs, tile.Run{In: 4 * (rng.IntN(99) - 50), Vec: 4 * (rng.IntN(999) - 500),
			Terms: chunk + 16*rng.IntN(2)*min(rest, 1), InStep: 4, VecStep: wide})
	}
	for i := range rng.IntN(tile.MaxLoops) {
		s.Loops = append(s.Loops, tile.Loop{InStep: 4 * rng.IntN(99), VecStep: 4 * (rng.IntN(999) - 500),
			Trips: int(c.maybeDynamic(rng, 1+rng.IntN(3), tile.LoopTrips+i))})
	}
	c.drawQuantized(rng)
	if rng.IntN(3) == 0 {
		s.PrefetchDistance = rng.IntN(10000)
	}
	s.PrefetchedLines = max(0, rng.IntN(8)-5)
	return c
}

// TestUnit compares tiles of the matrix unit with Go.
func TestUnit(t *testing.T) {
	for _, cpu := range jittest.InstructionSets(t, machine.AVX2) {
		if !cpu.Has(machine.Vector512) || !machine.HostWithUnit().Has(machine.MatrixUnit) {
			continue
		}
		jittest.CheckCallsFor(t, cpu, operands, 4, 1200, func(rng *rand.Rand, _ machine.Features) jittest.Call {
			return randomUnit(rng)
		})
	}
}

// TestUnitInvalid compiles specs that the matrix unit does not support.
func TestUnitInvalid(t *testing.T) {
	for name, change := range map[string]func(s *tile.Spec){
		"dynamic offsets of rows":     func(s *tile.Spec) { s.In = nil },
		"a dynamic number of terms":   func(s *tile.Spec) { s.Runs[0].Terms = tile.Dynamic },
		"rows at different distances": func(s *tile.Spec) { s.In[2]++ },
		"three parts":                 func(s *tile.Spec) { s.In[1], s.In[3] = 100, 1 },
		"terms that are not adjacent": func(s *tile.Spec) { s.Runs[0].InStep = 8 },
		"rows without terms":          func(s *tile.Spec) { s.Runs[0].Rows = 1 },
		"floats":                      func(s *tile.Spec) { s.Int8 = false },
		"vectors":                     func(s *tile.Spec) { s.Vectors = 3 },
		"a start by rows":             func(s *tile.Spec) { s.InitialSum = tile.FromRows },
		"a short first segment": func(s *tile.Spec) {
			s.In, s.Out, s.Rows = []int{0, 8}, []int{0, 64}, 2+tile.UnitRows
			for i := range tile.UnitRows {
				s.In, s.Out = append(s.In, 1000+8*i), append(s.Out, 128+64*i)
			}
		},
	} {
		s := &tile.Spec{ElemBytes: 4, Int8: true, MatrixUnit: true, Rows: 4, Vectors: 1, In: []int{0, 8, 16, 24},
			Out: []int{0, 64, 128, 192}, Runs: []tile.Run{{Terms: 3, InStep: 4, VecStep: 64}}}
		if _, err := tile.Compile(s, machine.AVX512); err != nil {
			t.Fatal(err)
		}
		change(s)
		if _, err := tile.Compile(s, machine.AVX512); err == nil {
			t.Errorf("%s: no error for %+v", name, s)
		}
	}
	s := &tile.Spec{ElemBytes: 4, Int8: true, MatrixUnit: true, Rows: 1, Vectors: 1, In: []int{0}, Out: []int{0},
		Runs: []tile.Run{{Terms: 1, InStep: 4, VecStep: 64}}}
	if _, err := tile.Compile(s, machine.AVX2); err == nil {
		t.Error("no error for a matrix unit with AVX2")
	}
}
