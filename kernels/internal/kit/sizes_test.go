//go:build !386 && !arm

package kit_test

import (
	"math"
	"testing"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
)

func TestTimesSaturates(t *testing.T) {
	for _, c := range []struct {
		list []int
		want int
	}{{nil, 1}, {[]int{3, 5, 7}, 105}, {[]int{1 << 29, 1 << 30}, kit.MaxProduct}, {[]int{1 << 29, 1<<30 - 1},
		kit.MaxProduct - 1<<29},
		{[]int{1 << 32, 1 << 32}, kit.MaxProduct}, {[]int{math.MaxInt, math.MaxInt, math.MaxInt}, kit.MaxProduct},
		{[]int{1 << 62, 1 << 62, 0}, 0}, {[]int{0, math.MaxInt}, 0}} {
		if got := kit.BoundedProduct(c.list...); got != c.want {
			t.Errorf("%v: got %d, want %d", c.list, got, c.want)
		}
	}
	for _, c := range [][3]int{{-1, 1 << 62, -kit.MaxProduct}, {-3, -5, 15}, {-3, 5, -15}, {1 << 40, 1 << 40,
		kit.MaxProduct},
		{0, -7, 0}} {
		if got := kit.KnownSize(kit.BoundedSizeProduct(sym.Of(c[0]), sym.Of(c[1]))); got != c[2] {
			t.Errorf("%d * %d: got %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
