package graph_test

import (
	"math"
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

type levelAttrs struct {
	Level float64 `attr:"level" doc:"a number"`
	Note  string  `attr:"note" doc:"a text, so that each struct is allocated by itself"`
}

// leveled is an op of a number alone.
func leveled() *graph.Op {
	return &graph.Op{Semantics: graph.Semantics{
		Name: "leveled", Schema: graph.SchemaOf[levelAttrs](),
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			return c.NewResult(tensor.New(tensor.Float64, 1).Type()), nil
		},
	}}
}

// leveledNode is a call of op.
func leveledNode(op *graph.Op, attrs *levelAttrs) *graph.Node {
	return &graph.Node{Op: op, Attrs: attrs, Out: []*graph.Value{{Meta: tensor.New(tensor.Float64, 1)}}}
}

func TestFoldTellsAttributesByTheirBits(t *testing.T) {
	g := graph.New("g", nil)
	op := leveled()
	computed := 0
	fold := func(level float64) float64 {
		out, err := g.Fold(leveledNode(op, &levelAttrs{Level: level}), func() ([]*tensor.Tensor, error) {
			computed++
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
	assert.Equal(t, 4, computed, "a NaN is found again")
}

func TestSameAttrs(t *testing.T) {
	same := func(first, second float64) bool {
		op := leveled()
		return graph.SameAttrs(leveledNode(op, &levelAttrs{Level: first}), leveledNode(op, &levelAttrs{Level: second}))
	}
	assert.True(t, same(1, 1))
	assert.True(t, same(math.NaN(), math.NaN()))
	assert.False(t, same(1, 2))
	assert.False(t, same(0, math.Copysign(0, -1)))
}

func TestFoldForgetsWhatIsGone(t *testing.T) {
	g := graph.New("g", nil)
	op := leveled()
	var all []weak.Pointer[levelAttrs]
	for i := range 5000 {
		attrs := &levelAttrs{Level: float64(i)}
		all = append(all, weak.Make(attrs))
		_, err := g.Fold(leveledNode(op, attrs), func() ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{tensor.Empty(tensor.New(tensor.Float64, 1))}, nil
		})
		require.NoError(t, err)
		if i%200 == 0 {
			runtime.GC()
		}
	}
	runtime.GC()
	kept := 0
	for _, p := range all {
		if p.Value() != nil {
			kept++
		}
	}
	runtime.KeepAlive(g)
	assert.Less(t, kept, 2500, "no result was folded before")
	assert.Positive(t, kept)
}
