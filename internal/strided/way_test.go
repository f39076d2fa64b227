package strided_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/strided"
)

// TestTurning checks the counts that determine the price of a transposing copy: tiles, rows that are copied element by
// element, and cache lines that are evicted before the next tile writes to them.
func TestTurning(t *testing.T) {
	for _, x := range []struct {
		name string
		axes []strided.Axis
		want strided.Transposition
	}{
		{"a matrix", []strided.Axis{{256, 4, 1024}, {256, 1024, 4}}, strided.Transposition{Tiles: 8}},
		{"small matrices", []strided.Axis{{8, 4, 32}, {8, 32, 4}, {784, 256, 256}}, strided.Transposition{Tiles: 784}},
		{"two rows each", []strided.Axis{{2, 4, 96}, {24, 8, 4}, {784, 192, 192}},
			strided.Transposition{Method: strided.ByElement, Tiles: 784}},
		{"two rows far apart", []strided.Axis{{2, 4, 24 * 3136}, {784, 192, 4}, {24, 8, 3136}},
			strided.Transposition{Method: strided.ByElement, Tiles: 24, LineRewrites: 784 * 24}},
		{"two rows of few lines", []strided.Axis{{2, 4, 48 * 784}, {196, 384, 4}, {48, 8, 784}},
			strided.Transposition{Method: strided.ByElement, Tiles: 48}},
	} {
		p := strided.New(strided.MoverOf(4), x.axes)
		way, _ := p.Pattern()
		require.Equal(t, strided.Transposed, way, x.name)
		require.Equal(t, x.want, p.Transposition(), x.name)
	}
}

// Look returns the properties of the copy that New plans.
func TestLook(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	seen := map[strided.Pattern]int{}
	for range 2000 {
		size := []int{1, 2, 4, 8, 16}[r.IntN(5)]
		axes := make([]strided.Axis, r.IntN(5))
		dst, src := size, size
		for i := range axes {
			axes[i] = strided.Axis{N: 1 + r.IntN(60), Dst: dst}
			dst *= axes[i].N
		}
		for _, i := range r.Perm(len(axes)) {
			axes[i].Src = src
			src *= axes[i].N + r.IntN(2)
		}
		p := strided.New(strided.MoverOf(size), axes)
		q := strided.Analyze(strided.MoverOf(size), axes)
		way, length := p.Pattern()
		gotWay, gotLength := q.Pattern()
		require.Equal(t, way, gotWay)
		require.Equal(t, length, gotLength)
		require.Equal(t, p.Transposition(), q.Transposition())
		require.Equal(t, p.Tiles(), q.Tiles())
		seen[way]++
	}
	require.Len(t, seen, 3, "ways: %v", seen)
}
