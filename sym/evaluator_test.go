package sym_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/sym"
)

// An Evaluator agrees with evaluating expressions and conditions one by one, divisions by zero included.
func TestEvaluator(t *testing.T) {
	texts := []string{"True", "Eq(x, 1)", "Ne(x*y, 6)", "Le(x % y, 1) & Lt(z, x//n)", "Eq(x // w, 2) | Eq(y, 3)",
		"Eq(y, 3) | Eq(x // w, 2)", "Le(Max(x, y, z), Min(n, w) + 3)", "Eq(Where(Eq(w, 0), x, y // w), 1)",
		"Eq(Where(Eq(x % w, 0), x, y), 1)", "Eq(((n + 1)//2 + 1)//2, w) & Ne(z, 0)"}
	env, names := sym.NewEnv(), []string{"n", "w", "x", "y", "z"}
	var conds []sym.Bool
	var sizes []sym.Int
	for _, text := range texts {
		conds = append(conds, condition(t, env, text))
	}
	for _, text := range []string{"3*x*y - z", "x // w + 1", "7", "Max(x, 3) % n"} {
		e, err := sym.Parse(text, lookupIn(t, env))
		require.NoError(t, err)
		sizes = append(sizes, e)
	}
	e, err := sym.NewEvaluator(names, sizes, conds)
	require.NoError(t, err)
	rapid.Check(t, func(r *rapid.T) {
		values, at := make([]int, len(names)), sym.Binding{}
		for i, name := range names {
			values[i] = rapid.IntRange(0, 9).Draw(r, name)
			at[name] = values[i]
		}
		all := true
		for i, truth := range e.Truths(nil, values) {
			want, err := conds[i].At(at)
			require.Equal(r, want && err == nil, truth, "%v at %v", conds[i], at)
			all = all && truth
		}
		require.Equal(r, all, e.Hold(values))
		var want []int
		for _, s := range sizes {
			n, err := s.At(at)
			if err != nil {
				_, err = e.Sizes(nil, values)
				require.Error(r, err)
				return
			}
			want = append(want, n)
		}
		got, err := e.Sizes(nil, values)
		require.NoError(r, err)
		require.Equal(r, want, got)
	})
}

// Constants, sizes without symbols, and a wrong number of values.
func TestEvaluatorEdges(t *testing.T) {
	always, err := sym.NewEvaluator(nil, nil, []sym.Bool{sym.BoolOf(true)})
	require.NoError(t, err)
	assert.True(t, always.Hold(nil))
	never, err := sym.NewEvaluator([]string{"x"}, nil, []sym.Bool{sym.BoolOf(false)})
	require.NoError(t, err)
	assert.False(t, never.Hold([]int{1}))
	assert.False(t, always.Hold([]int{1}))
	assert.False(t, (*sym.Evaluator)(nil).Hold(nil))
	_, err = always.Sizes(nil, []int{1})
	assert.ErrorContains(t, err, "1 values")
	x := condition(t, sym.NewEnv(), "Eq(x, y)")
	_, err = sym.NewEvaluator([]string{"x"}, nil, []sym.Bool{x})
	assert.ErrorContains(t, err, "symbol y")
}

// An evaluation does not allocate.
func TestEvaluatorAllocates(t *testing.T) {
	e, err := sym.NewEvaluator([]string{"x"}, nil, []sym.Bool{condition(t, sym.NewEnv(), "Ne(((x + 1)//2 + 1)//2, 1)")})
	require.NoError(t, err)
	values := []int{9}
	assert.Zero(t, testing.AllocsPerRun(100, func() { e.Hold(values) }))
}

// Which sizes a plan is for, asked of many sizes.
func ExampleEvaluator() {
	env := sym.NewEnv()
	n, _ := env.Symbol("N", 0, 1024, 8)
	half := n.Add(sym.Of(1)).Div(sym.Of(2))
	e, err := sym.NewEvaluator([]string{"N"}, []sym.Int{half.Mul(sym.Of(4))}, []sym.Bool{half.Ne(sym.Of(1))})
	if err != nil {
		panic(err)
	}
	for _, n := range []int{1, 2, 3, 64} {
		bytes, _ := e.Sizes(nil, []int{n})
		fmt.Println(n, e.Hold([]int{n}), bytes)
	}
	// Output:
	// 1 false [4]
	// 2 false [4]
	// 3 true [8]
	// 64 true [128]
}
