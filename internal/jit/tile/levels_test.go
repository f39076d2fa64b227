//go:build linux || darwin

package tile_test

import (
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit/tile"
)

// drawLevels has sums become bytes.
func (c *call[T]) drawLevels(rng *rand.Rand) {
	s := c.spec
	if !s.Bytes && !s.Words || s.Out == nil || s.Start == tile.FromResult {
		return
	}
	s.Levels = tile.Levels(rng.IntN(int(tile.Signed) + 1))
}

// placeLevels draws scales, some of which make numbers that saturate or are none, and a zero point.
func (c *call[T]) placeLevels(rng *rand.Rand, mem [][]byte, lanes int) {
	odd := []float32{float32(math.NaN()), float32(math.Inf(-1)), 1e30, 0, 0.5}
	for lane := range lanes {
		v := float32(math.Exp(rng.NormFloat64()*4 - 9))
		if rng.IntN(8) == 0 {
			v = odd[rng.IntN(len(odd))]
		}
		*(*float32)(unsafe.Pointer(c.elem(mem, tile.Scales, 4*lane))) = v
	}
	point := rng.Int32N(256)
	if c.spec.Levels == tile.Signed {
		point -= 128
	}
	*(*int32)(unsafe.Pointer(c.elem(mem, tile.Point, 0))) = point
}

// level is what a sum of a lane becomes.
func (c *call[T]) level(mem [][]byte, sum int32, lane int) uint8 {
	v := float64(float32(sum) * *(*float32)(unsafe.Pointer(c.elem(mem, tile.Scales, 4*lane))))
	v = math.RoundToEven(v) + float64(*(*int32)(unsafe.Pointer(c.elem(mem, tile.Point, 0))))
	least := 0.0
	if c.spec.Levels == tile.Signed {
		least = -128
	}
	if v != v {
		return 0
	}
	return uint8(int(min(max(v, least), least+255)))
}
