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
	}{{nil, 1}, {[]int{3, 5, 7}, 105}, {[]int{1 << 29, 1 << 30}, kit.Huge}, {[]int{1 << 29, 1<<30 - 1}, kit.Huge - 1<<29},
		{[]int{1 << 32, 1 << 32}, kit.Huge}, {[]int{math.MaxInt, math.MaxInt, math.MaxInt}, kit.Huge},
		{[]int{1 << 62, 1 << 62, 0}, 0}, {[]int{0, math.MaxInt}, 0}} {
		if got := kit.Times(c.list...); got != c.want {
			t.Errorf("%v: got %d, want %d", c.list, got, c.want)
		}
	}
	for _, c := range [][3]int{{-1, 1 << 62, -kit.Huge}, {-3, -5, 15}, {-3, 5, -15}, {1 << 40, 1 << 40, kit.Huge},
		{0, -7, 0}} {
		if got := kit.NumberOf(kit.TimesSizes(sym.Of(c[0]), sym.Of(c[1]))); got != c[2] {
			t.Errorf("%d * %d: got %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
