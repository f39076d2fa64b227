package graph

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/tensor"
)

type levelAttrs struct {
	Level float64 `attr:"level" doc:"a number"`
}

// leveled is an op of a number alone.
func leveled() *Op {
	return &Op{Semantics: Semantics{
		Name: "leveled", Schema: SchemaOf[levelAttrs](),
		Infer: func(c *Call) ([]Result, error) { return c.One(tensor.New(tensor.Float64, 1).Type()), nil },
	}}
}

func TestFoldTellsAttributesByTheirBits(t *testing.T) {
	g := New("g", nil)
	op := leveled()
	fold := func(level float64) float64 {
		n := &Node{Op: op, Attrs: &levelAttrs{level}, Out: []*Value{{Meta: tensor.New(tensor.Float64, 1)}}}
		out, err := g.Fold(n, func() ([]*tensor.Tensor, error) {
			v, err := tensor.FromSlice([]float64{level}, 1)
			return []*tensor.Tensor{v}, err
		})
		require.NoError(t, err)
		t.Cleanup(func() { runtime.KeepAlive(out) })
		return out[0].At(0).Float()
	}
	for _, v := range []float64{0, math.Copysign(0, -1), math.NaN(), 1, 0, math.NaN()} {
		assert.Equal(t, math.Float64bits(v), math.Float64bits(fold(v)), "%v", v)
	}
	assert.Equal(t, 4, g.folded.callCount, "a NaN is found again")
}

func TestFoldForgetsWhatIsGone(t *testing.T) {
	g := New("g", nil)
	op := leveled()
	for i := range 5000 {
		n := &Node{Op: op, Attrs: &levelAttrs{float64(i)}, Out: []*Value{{Meta: tensor.New(tensor.Float64, 1)}}}
		_, err := g.Fold(n, func() ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{tensor.Empty(tensor.New(tensor.Float64, 1))}, nil
		})
		require.NoError(t, err)
		if i%200 == 0 {
			runtime.GC()
		}
	}
	assert.Less(t, g.folded.callCount, 2500, "no result was folded before")
}
