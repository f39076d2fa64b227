//go:build linux || darwin

package tile_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
)

// levelsCall is a call of a tile with quantized elements in the vector operand. Its blocks are adjacent in memory.
type levelsCall struct {
	call[float32]
	blocks int
}

func randomLevels(rng *rand.Rand, cpu machine.Features) *levelsCall {
	regs, bytes := target.VectorRegisters(cpu)
	c := &levelsCall{call: call[float32]{lanes: bytes / 4, tiles: 1 + rng.IntN(2), step: map[tile.Slot]int{}},
		blocks: 1 + rng.IntN(4)}
	s := &tile.Spec{ElemBytes: 4, Vectors: 2 + 2*rng.IntN(2),
		VecQuantization: tile.VecQuantization{Bits: 4 + 4*rng.IntN(2), HasZeroPoints: rng.IntN(2) == 0}}
	s.InitialSum = tile.InitialSum(rng.IntN(4))
	c.spec = s
	vectors := s.Vectors
	if s.VecQuantization.HasZeroPoints {
		vectors *= 2
	}
	s.Rows = 1 + rng.IntN(min(4, (regs-1-vectors)/s.Vectors))
	terms := 1 + rng.IntN(40)
	step := s.Vectors * c.lanes * s.VecQuantization.Bits / 8
	s.Runs = []tile.Run{{InStep: 4, VecStep: step, Terms: terms}}
	s.Loops = []tile.Loop{{InStep: 4 * terms, VecStep: step * terms, Block: 1,
		Trips: c.maybeDynamic(rng, c.blocks, tile.LoopTrips)}}
	for i := range s.Rows {
		s.In = append(s.In, i*4*terms*c.blocks)
	}
	wide := s.Vectors * c.lanes * 4
	c.step[tile.OutRow] = wide + 4*rng.IntN(3)
	s.Tiles = tile.Loop{InStep: 4 * rng.IntN(9), OutStep: s.Rows * c.step[tile.OutRow]}
	return c
}

// Place fills memory with the operands.
func (c *levelsCall) Place(rng *rand.Rand, mem [][]byte, atStart bool) []int {
	s := c.spec
	n, wide := c.blocks*s.Runs[0].Terms, s.Vectors*c.lanes
	extents := map[tile.Slot]int{tile.In: 4*(s.Rows*n) + (c.tiles-1)*s.Tiles.InStep, tile.Vec: n * s.Runs[0].VecStep,
		tile.Out:  (c.tiles-1)*s.Tiles.OutStep + (s.Rows-1)*c.step[tile.OutRow] + 4*wide,
		tile.Bias: 4 * wide, tile.LevelScales: c.blocks * wide * 4, tile.LevelZeros: c.blocks * wide}
	c.mem, c.at = mem, make([]int, operands)
	for k := range c.at {
		extent := extents[k]
		if extent > len(mem[k]) {
			return nil
		}
		if !atStart {
			c.at[k] = len(mem[k]) - extent
		}
		for i := 0; i < extent; i += 4 {
			if k == tile.Vec || k == tile.LevelZeros {
				for j := range min(4, extent-i) {
					mem[k][c.at[k]+i+j] = byte(rng.Uint32())
				}
			} else {
				*c.elem(mem, k, i) = float32(rng.NormFloat64())
			}
		}
	}
	return c.at
}

// number returns level - zero point of a term in a lane.
func (c *levelsCall) number(mem [][]byte, term, lane int) float32 {
	s := c.spec
	wide := s.Vectors * c.lanes
	at := c.at[tile.Vec] + term*s.Runs[0].VecStep
	var level int8
	switch {
	case s.VecQuantization.Bits == 8:
		level = int8(mem[tile.Vec][at+lane])
	case lane < wide/2:
		level = int8(mem[tile.Vec][at+lane]<<4) >> 4
	default:
		level = int8(mem[tile.Vec][at+lane-wide/2]) >> 4
	}
	if !s.VecQuantization.HasZeroPoints {
		return float32(level)
	}
	return float32(level) - float32(int8(mem[tile.LevelZeros][c.at[tile.LevelZeros]+term/s.Runs[0].Terms*wide+lane]))
}

// Reference computes the tiles in Go.
func (c *levelsCall) Reference(mem [][]byte) {
	s := c.spec
	wide, terms := s.Vectors*c.lanes, s.Runs[0].Terms
	for t := range c.tiles {
		for row := range s.Rows {
			for lane := range wide {
				out := t*s.Tiles.OutStep + row*c.step[tile.OutRow] + 4*lane
				var total float32
				switch s.InitialSum {
				case tile.FromLanes:
					total = *c.elem(mem, tile.Bias, 4*lane)
				case tile.FromRows:
					total = *c.elem(mem, tile.Bias, 4*row)
				case tile.FromResult:
					total = *c.elem(mem, tile.Out, out)
				}
				for b := range c.blocks {
					var sum float32
					for k := b * terms; k < (b+1)*terms; k++ {
						sum = term(*c.elem(mem, tile.In, t*s.Tiles.InStep+s.In[row]+4*k), c.number(mem, k, lane), sum,
							false)
					}
					scale := *c.elem(mem, tile.LevelScales, 4*(b*wide+lane))
					total = float32(math.FMA(float64(scale), float64(sum), float64(total)))
				}
				*c.elem(mem, tile.Out, out) = total
			}
		}
	}
}

// Fill sets the arguments except for the addresses of the operands.
func (c *levelsCall) Fill(a *jit.Args) {
	a.Rows = c.tiles
	for k, v := range c.step {
		a.Step[k] = v
	}
}

// Format prints the call.
func (c *levelsCall) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%+v\n%d tiles, %d blocks", *c.spec, c.tiles, c.blocks)
}

// TestLevels compares tiles with quantized elements with Go.
func TestLevels(t *testing.T) {
	jittest.CheckCalls(t, operands, 4, 800, func(rng *rand.Rand, cpu machine.Features) jittest.Call {
		return randomLevels(rng, cpu)
	})
}

// TestLevelsForms compares the instructions of tiles with quantized elements with Go's assembler.
func TestLevelsForms(t *testing.T) {
	testsize.Long(t)
	jittest.CheckListings(t, 100, 100, func(seed uint64, cpu machine.Features) (string, error) {
		c, err := tile.Compile(randomLevels(rand.New(rand.NewPCG(seed, 5)), cpu).spec, cpu)
		if err != nil {
			return "", err
		}
		return c.Listing(), nil
	})
}

// TestLevelsRequirements breaks each requirement of tiles with quantized elements.
func TestLevelsRequirements(t *testing.T) {
	for i, change := range []func(s *tile.Spec){
		func(s *tile.Spec) { s.VecQuantization.Bits = 3 },
		func(s *tile.Spec) { s.VecQuantization = tile.VecQuantization{Bits: 4}; s.Vectors = 1 },
		func(s *tile.Spec) { s.VecQuantization = tile.VecQuantization{HasZeroPoints: true} },
		func(s *tile.Spec) { s.ElemBytes = 8 },
		func(s *tile.Spec) { s.Loops = nil },
		func(s *tile.Spec) { s.Loops[0].Block = 2 },
		func(s *tile.Spec) { s.Runs[0].Terms = tile.Dynamic },
		func(s *tile.Spec) { s.Runs[0].VecStep = tile.Dynamic },
		func(s *tile.Spec) { s.Runs[0].Block = 1 },
		func(s *tile.Spec) { s.In = nil },
		func(s *tile.Spec) { s.Masked = true },
	} {
		for _, cpu := range []machine.Features{machine.AVX2, machine.AVX512, machine.NEON} {
			spec := randomLevels(rand.New(rand.NewPCG(1, 1)), cpu).spec
			_, err := tile.Compile(spec, cpu)
			require.NoError(t, err)
			change(spec)
			_, err = tile.Compile(spec, cpu)
			assert.Error(t, err, "change %d for %v", i, cpu)
		}
	}
}
