package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// rowChain builds folds of rows without keepdim, with ops before and after them.
type rowChain struct {
	name  string
	build func(g *graph.Graph, x, row *graph.Value) *graph.Value
	steps int
}

// withoutKeepdim returns the attributes of a fold over dimensions, without keepdim.
func withoutKeepdim(dims ...int) graph.Attrs { return graph.Attrs{"dim": dims} }

var rowChains = []rowChain{
	{"before", func(g *graph.Graph, x, _ *graph.Value) *graph.Value {
		return apply(g, "sum", withoutKeepdim(2), apply(g, "mul", nil, x, x))
	}, 1},
	{"before and after", func(g *graph.Graph, x, row *graph.Value) *graph.Value {
		square := apply(g, "square", nil, apply(g, "sub", nil, x, row))
		return apply(g, "sqrt", nil, apply(g, "add", nil, apply(g, "mean", withoutKeepdim(0, 2), square), 1e-3))
	}, 1},
	{"two folds of the same rows", func(g *graph.Graph, x, _ *graph.Value) *graph.Value {
		a := apply(g, "tanh", nil, x)
		return apply(g, "add", nil, apply(g, "amax", withoutKeepdim(1), a), apply(g, "var", withoutKeepdim(1), a))
	}, 1},
	{"kept and left", func(g *graph.Graph, x, _ *graph.Value) *graph.Value {
		mean := apply(g, "mean", graph.Attrs{"dim": []int{2}, "keepdim": true}, x)
		return apply(g, "sum", withoutKeepdim(2), apply(g, "square", nil, apply(g, "sub", nil, x, mean)))
	}, 1},
	{"rows as columns", func(g *graph.Graph, x, _ *graph.Value) *graph.Value {
		return apply(g, "sub", nil, x, apply(g, "neg", nil, apply(g, "sum", withoutKeepdim(2), apply(g, "exp", nil, x))))
	}, 2},
	{"columns as rows", func(g *graph.Graph, x, _ *graph.Value) *graph.Value {
		mean := apply(g, "mean", withoutKeepdim(0), apply(g, "neg", nil, x))
		return apply(g, "sum", withoutKeepdim(1), apply(g, "sub", nil, x, mean))
	}, 2},
	{"more than is left", func(g *graph.Graph, x, row *graph.Value) *graph.Value {
		return apply(g, "mul", nil, apply(g, "sum", withoutKeepdim(2), apply(g, "abs", nil, x)), row)
	}, 2},
	{"one element more", func(g *graph.Graph, x, _ *graph.Value) *graph.Value {
		return apply(g, "mul", nil, apply(g, "sum", withoutKeepdim(2), x), g.Input("scale", x.Meta.DType))
	}, 1},
	{"all of it, and back", func(g *graph.Graph, x, _ *graph.Value) *graph.Value {
		return apply(g, "sub", nil, x, apply(g, "mean", nil, apply(g, "abs", nil, x)))
	}, 1},
}

// TestRowsLeftOut compares folds without keepdim, with ops before and after them in the same step or in others, with
// the definition. The operands are cubes, so that the sizes do not distinguish rows from columns.
func TestRowsLeftOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	cube := tensor.New(f32, 4, 4, 4)
	for _, c := range rowChains {
		for i, m := range []tensor.Meta{cube, cube.WithStrides([]int{1, 4, 16}), cube.WithStrides([]int{0, 5, 1}),
			tensor.New(f32, 1, 4, 4), tensor.New(tensor.BFloat16, 4, 4, 4)} {
			t.Run(fmt.Sprint(c.name, i), func(t *testing.T) { c.check(t, rng, m) })
		}
	}
}

// TestLongRowsOnce compares folds of rows that are cut into pieces, with ops before them, with the definition. An op
// that needs a result of a fold for all elements has a step of its own.
func TestLongRowsOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 2))
	for _, c := range []rowChain{
		{"a loss", func(g *graph.Graph, x, row *graph.Value) *graph.Value {
			square := apply(g, "square", nil, apply(g, "sub", nil, x, row))
			return apply(g, "sqrt", nil, apply(g, "mean", nil, square))
		}, 1},
		{"two folds", func(g *graph.Graph, x, _ *graph.Value) *graph.Value {
			a := apply(g, "tanh", nil, x)
			return apply(g, "add", nil, apply(g, "amax", withoutKeepdim(0), a), apply(g, "mean", withoutKeepdim(0), a))
		}, 1},
		{"over what is left", func(g *graph.Graph, x, _ *graph.Value) *graph.Value {
			mean := apply(g, "mean", graph.Attrs{"dim": []int{0}, "keepdim": true}, apply(g, "exp", nil, x))
			return apply(g, "sum", withoutKeepdim(0), apply(g, "div", nil, x, apply(g, "sqrt", nil, mean)))
		}, 2},
		{"all of it, and back", func(g *graph.Graph, x, _ *graph.Value) *graph.Value {
			a := apply(g, "abs", nil, x)
			return apply(g, "sub", nil, a, apply(g, "mean", nil, a))
		}, 2},
	} {
		for i, m := range []tensor.Meta{tensor.New(f32, 5000, 3), tensor.New(f32, 5000, 3).WithStrides([]int{1, 5100})} {
			t.Run(fmt.Sprint(c.name, i), func(t *testing.T) { c.check(t, rng, m) })
		}
	}
}

func (c rowChain) check(t *testing.T, rng *rand.Rand, m tensor.Meta) {
	g, steps := graph.New("g", kernels.Lookup), c.steps
	if slices.Contains(m.Shape, 1) {
		steps = 0
	}
	checkChain(t, rng, c.build(g, g.InputMeta("x", m), g.Input("row", m.DType, m.Shape[m.Rank()-1])), steps)
}
