package pointwise_test

import (
	"testing"

	"github.com/graphrun/graphrun/kernels/internal/pointwise"
)

// TestHasZero has a zero at every place among numbers whose bits are next to those of zero, and none.
func TestHasZero(t *testing.T) {
	zeroFound(t, []int8{1, -1, -128, 127})
	zeroFound(t, []uint8{1, 255, 128, 127})
	zeroFound(t, []int16{1, -1, 256, -32768})
	zeroFound(t, []uint16{1, 65535, 256, 128})
	zeroFound(t, []int32{1, -1, 1 << 16, -1 << 31})
	zeroFound(t, []uint32{1, 1 << 31, 256, 1 << 24})
	zeroFound(t, []int64{1, -1, 1 << 32, -1 << 63})
	zeroFound(t, []uint64{1, 1 << 63, 1 << 32, 1 << 8})
}

func zeroFound[T int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64](t *testing.T, others []T) {
	for n := range 20 {
		v := make([]T, n)
		for _, x := range others {
			for i := range v {
				v[i] = x
			}
			if pointwise.HasZero(v) {
				t.Errorf("%d elements %T(%d): reported a zero", n, x, x)
			}
			for i := range v {
				v[i] = 0
				if !pointwise.HasZero(v) {
					t.Errorf("a zero at %d of %d among %T(%d) was not found", i, n, x, x)
				}
				v[i] = x
			}
		}
	}
}
