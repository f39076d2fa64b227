//go:build linux || darwin

package tile_test

import (
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit/tile"
)

// drawQuantized draws the dtype of the result, if the spec supports quantized results.
func (c *call[T]) drawQuantized(rng *rand.Rand) {
	s := c.spec
	if !s.Int8 && !s.Int16 || s.Out == nil || s.InitialSum == tile.FromResult {
		return
	}
	s.Quantized = tile.Quantized(rng.IntN(int(tile.Signed) + 1))
}

// fillScales draws scales and a zero point. Some scales lead to saturation or NaN.
func (c *call[T]) fillScales(rng *rand.Rand, mem [][]byte, lanes int) {
	odd := []float32{float32(math.NaN()), float32(math.Inf(-1)), 1e30, 0, 0.5}
	for lane := range lanes {
		v := float32(math.Exp(rng.NormFloat64()*4 - 9))
		if rng.IntN(8) == 0 {
			v = odd[rng.IntN(len(odd))]
		}
		*(*float32)(unsafe.Pointer(c.elem(mem, tile.Scales, 4*lane))) = v
	}
	point := rng.Int32N(256)
	if c.spec.Quantized == tile.Signed {
		point -= 128
	}
	*(*int32)(unsafe.Pointer(c.elem(mem, tile.ZeroPoint, 0))) = point
}

// quantize returns the quantized sum of a lane.
func (c *call[T]) quantize(mem [][]byte, sum int32, lane int) uint8 {
	v := float64(float32(sum) * *(*float32)(unsafe.Pointer(c.elem(mem, tile.Scales, 4*lane))))
	v = math.RoundToEven(v) + float64(*(*int32)(unsafe.Pointer(c.elem(mem, tile.ZeroPoint, 0))))
	least := 0.0
	if c.spec.Quantized == tile.Signed {
		least = -128
	}
	if v != v {
		return 0
	}
	return uint8(int(min(max(v, least), least+255)))
}
