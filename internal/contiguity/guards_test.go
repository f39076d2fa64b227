package contiguity_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/contiguity"
	"github.com/graphrun/graphrun/sym"
)

// guardsOfPyTorch has the guards that the symbolic shapes of PyTorch 1.13 record. scripts/guards.py writes it.
//
//go:embed testdata/guards.json
var guardsOfPyTorch []byte

// witness is a predicate with sizes and strides that are the hints of x1, x2, ... and y1, y2, ...
type witness struct {
	Rule           string
	Sizes, Strides []int
	Holds          bool
	Guards         []string
}

// evaluate runs the branching predicate for symbols whose hints are the sizes and strides. ours has the guards that it
// records, and theirs has PyTorch's.
func (w *witness) evaluate(t *testing.T) (holds bool, ours, theirs []sym.Bool, names []string, hints []int) {
	i := slices.IndexFunc(contiguity.Predicates, func(p contiguity.Predicate) bool { return p.Name == w.Rule })
	require.GreaterOrEqual(t, i, 0, w.Rule)
	env, known := sym.NewEnv(), map[string]sym.Int{}
	symbols := func(letter string, values []int) (list []sym.Int) {
		for k, n := range values {
			name := fmt.Sprint(letter, k+1)
			s, err := env.Symbol(name, 0, 1<<20, n)
			require.NoError(t, err)
			known[name], names, hints = s, append(names, name), append(hints, n)
			list = append(list, s)
		}
		return list
	}
	x, y := symbols("x", w.Sizes), symbols("y", w.Strides)
	holds = contiguity.Predicates[i].Branches(x, y)
	for _, text := range w.Guards {
		g, err := sym.ParseBool(text, func(name string) (sym.Int, bool) { s, is := known[name]; return s, is })
		require.NoError(t, err, text)
		theirs = append(theirs, g)
	}
	return holds, env.Guards(), theirs, names, hints
}

// TestGuardsOfPyTorch compares the guards of branching predicates with PyTorch's. PyTorch substitutes
// equalities into later guards, so single guards may differ: the conjunctions must agree on the same sizes
// and strides.
func TestGuardsOfPyTorch(t *testing.T) {
	var list []witness
	require.NoError(t, json.Unmarshal(guardsOfPyTorch, &list))
	require.Greater(t, len(list), 300)
	alike, breakable, rng := 0, 0, rand.New(rand.NewPCG(1, 13))
	for _, w := range list {
		holds, ours, theirs, names, hints := w.evaluate(t)
		require.Equal(t, w.Holds, holds, "%+v", w)
		text := []string{}
		for _, g := range ours {
			text = append(text, g.String())
		}
		if slices.Equal(text, w.Guards) {
			alike++
		}
		a, err := sym.NewEvaluator(names, nil, ours)
		require.NoError(t, err)
		b, err := sym.NewEvaluator(names, nil, theirs)
		require.NoError(t, err)
		require.True(t, a.Hold(hints), "%+v", w)
		both := 0
		for range 400 {
			at := slices.Clone(hints)
			for range 1 + rng.IntN(3) {
				k := rng.IntN(len(at))
				other := rng.IntN(len(at))
				at[k] = []int{0, 1, 2, at[other], at[k] + 1, 2 * at[k], hints[k] * hints[other]}[rng.IntN(7)]
			}
			require.Equal(t, b.Hold(at), a.Hold(at), "%+v: %v at %v of %v", w, text, at, names)
			if a.Hold(at) {
				both++
			}
		}
		if both < 400 {
			breakable++ // guards that some of the sizes break
		}
	}
	require.Greater(t, alike, len(list)/2)
	require.Greater(t, breakable, len(list)*9/10)
	t.Logf("%d of %d lists of guards are the same in every letter", alike, len(list))
}
