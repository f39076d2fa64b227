package rowprog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/tensor"
)

// Loops run along rows if operands do, unless all full outputs are contiguous across rows: then tiles are transposed,
// as long as they fit the caches.
func TestWayOfTransposedOutputs(t *testing.T) {
	b := expr.NewBuilder(f32)
	y := b.Emit(expr.Sub, b.Load(0), b.Reduce(expr.Max, b.Load(0)))
	c, err := b.Build(b.Real(y))
	require.NoError(t, err)
	across := func(rows, n int) tensor.Meta { return tensor.New(f32, rows, n).WithStrides([]int{1, rows}) }
	for _, x := range []struct {
		out, in tensor.Meta
		columns bool
	}{
		{tensor.New(f32, 128, 256), tensor.New(f32, 128, 256), false},
		{across(128, 256), tensor.New(f32, 128, 256), true},
		{across(128, 256), across(128, 256), true},
		{tensor.New(f32, 128, 256), across(128, 256), true},
		{across(4, 256), tensor.New(f32, 4, 256), false},
		{across(256, 4096), tensor.New(f32, 256, 4096), false},
	} {
		p, err := rowprog.New(c, []tensor.Meta{x.out}, []tensor.Meta{x.in}, []bool{false, true}, rowprog.AnyDirection)
		require.NoError(t, err)
		require.Equal(t, x.columns, p.ByColumns(), "%v of %v", x.out, x.in)
		require.LessOrEqual(t, p.WorkerScratch(), 1<<22, "%v of %v", x.out, x.in)
	}
}
