package sym_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/sym"
)

// condition parses a condition whose symbols x, y, z and n are unknown sizes: z may be negative, y and n are
// positive.
func condition(t *testing.T, env *sym.Env, text string) sym.Bool {
	t.Helper()
	b, err := sym.ParseBool(text, lookupIn(t, env))
	require.NoError(t, err, text)
	return b
}

func lookupIn(t *testing.T, env *sym.Env) func(string) (sym.Int, bool) {
	return func(name string) (sym.Int, bool) {
		lo, ok := map[string]int{"x": 0, "y": 1, "n": 1, "z": math.MinInt, "w": 0}[name]
		if !ok {
			return sym.Int{}, false
		}
		return at(t, env, name, lo, math.MaxInt, 8), true
	}
}

// TestFactsDecide checks that facts decide their consequences.
func TestFactsDecide(t *testing.T) {
	for _, c := range []struct{ known, asked, want string }{
		// Bounds.
		{"Ne(n, 1)", "Le(2, n)", "True"},
		{"Ne(x, 0) & Ne(x, 1) & Ne(x, 2)", "Lt(2, x)", "True"},
		{"True", "Le(Max(x, w), x)", "Le(w, x)"},
		{"True", "Lt(x, Max(x, w))", "Lt(x, w)"},
		{"True", "Le(x + n, Min(x, w) + n)", "Le(x, w)"},
		{"True", "Lt(Max(x, w), x + n)", "Lt(w, x + n)"},
		{"Lt(x, 5)", "Lt(x, 7)", "True"},
		{"Lt(x, 5)", "Eq(x, 5)", "False"},
		{"Lt(x, 5)", "Lt(x, 4)", "Lt(x, 4)"},
		{"Le(2*x + 3, 20)", "Le(x, 8)", "True"},
		{"Le(x + y, 5)", "Le(x, 4)", "True"},
		{"Ne(x*y*w, 0)", "Le(1, x) & Le(1, w)", "True"},
		{"Eq(x*y, 1)", "Eq(x, 1) & Eq(y, 1)", "True"},
		{"Eq(x*y, 0)", "Eq(x, 0)", "True"},
		{"Le(x*y, 10)", "Le(x, 10)", "True"},
		{"Le(Max(x, n), 4)", "Le(x, 4)", "True"},
		{"Eq(x//2, 3)", "Le(6, x) & Le(x, 7)", "True"},
		{"Le(1, x)", "Eq(Max(1, x)*5, x*5)", "True"},
		{"Eq(Max(1, x), 7)", "Eq(x, 7)", "True"},
		{"Eq(Where(Eq(y, 1), 2, 3), 2)", "Eq(y, 1)", "True"},
		// Remainders.
		{"Eq(n % 8, 0)", "Eq(n % 4, 0)", "True"},
		{"Eq(n % 8, 0)", "Le(8, n)", "True"},
		{"Eq(n % 8, 5)", "Eq(n % 4, 1) & Ne(n % 2, 0)", "True"},
		{"Eq(n % 8, 0)", "Eq(n//8*8, n)", "True"},
		{"Eq(n % 8, 0)", "Eq(n*x % 8, 0)", "True"},
		{"Eq(n % 4, 0) & Eq(n % 6, 0)", "Eq(n % 12, 0)", "True"},
		{"Eq(n % 4, 0)", "Eq(n % 8, 0)", "Eq(n % 8, 0)"},
		// Equalities.
		{"Eq(x, y)", "Eq(x*w, y*w)", "True"},
		{"Eq(x, 2*y)", "Eq(x % 2, 0)", "True"},
		{"Eq(x, y) & Eq(y, w)", "Eq(x, w)", "True"},
		{"Eq(x, y) & Le(w, x)", "Le(w, y)", "True"},
		{"Le(w, x) & Eq(x, y)", "Le(w, y)", "True"},
		// Sums and products.
		{"Lt(x, y) & Lt(y, w)", "Lt(x, w)", "True"},
		{"Lt(x, y)", "Lt(x*n, y*n)", "True"},
		{"True", "Le(x, x*y)", "True"},
		{"True", "Lt(x, x*y*n + 1)", "True"},
		{"True", "Le(n//2, n)", "True"},
		{"True", "Le((x + 2)//3, x + y)", "True"},
		{"True", "Le(x, Max(x, w)*n)", "True"},
		{"True", "Le(Min(x, w), x*y)", "True"},
		{"True", "Le(1, Max(1, x)*Max(1, w))", "True"},
		{"True", "Eq(Max(1, x)*Max(1, w), x*Max(1, w))", "Le(1, x)"},
		{"Le(1, z)", "Le(z, z*y)", "True"},
		{"True", "Le(z, z*y)", "Le(z, z*y)"},
		// Disjunctions, and what remains of them.
		{"Ne(x, 3)", "Eq(x, 3) | Eq(y, 2)", "Eq(y, 2)"},
		{"Lt(3, x)", "Lt(2, x) & Eq(y, 2)", "Eq(y, 2)"},
		{"Eq(x, 3) | Eq(y, 2)", "Eq(y, 2) | Eq(x, 3) | Eq(w, 1)", "True"},
		{"(Eq(x, 3) | Eq(y, 2)) & Ne(x, 3)", "Eq(y, 2)", "True"},
		{"True", "Eq(x, 0) | Eq(Max(1, x), x)", "True"},
		{"True", "Eq(x, 3) & Lt(x, 2)", "False"},
		{"True", "Lt(x, 3) | Lt(1, x)", "True"},
		{"True", "Eq(x*y*w, 0) | (Eq(y, 1) | Eq(w*Max(1, x), w*x))", "True"},
	} {
		env := sym.NewEnv()
		require.NoError(t, env.Assume(condition(t, env, c.known)), c.known)
		asked := condition(t, env, c.asked)
		got := asked.Decide()
		assert.Equal(t, c.want, got.String(), "%s under %s", c.asked, c.known)
		v, ok := asked.Known()
		w, also := got.Known()
		assert.Equal(t, []bool{ok, v}, []bool{also, w})
		assert.Empty(t, env.Guards())
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	for _, c := range []string{
		"Eq(x, 3) & Eq(x + y, 3) & Lt(1, y)", "Eq(n % 8, 3) & Eq(n % 4, 0)", "Lt(x, y) & Lt(y, x)",
	} {
		env := sym.NewEnv()
		assert.ErrorContains(t, env.Assume(condition(t, env, c)), "contradicts the known facts", c)
		assert.Equal(t, "Eq(x, 3)", condition(t, env, "Eq(x, 3)").Decide().String(), "it was not taken back")
	}
	assert.EqualError(t, sym.NewEnv().Assume(sym.BoolOf(false)), "sym: False contradicts the known facts")
}

func TestSimplify(t *testing.T) {
	for _, c := range []struct{ known, e, want string }{
		{"Le(1, x)", "5*Max(1, x)", "5*x"},
		{"Eq(y, 1)", "Where(Eq(y, 1), x, w)", "x"},
		{"Ne(y, 1)", "Where(Eq(y, 1), x, w)", "w"},
		{"Eq(n % 8, 0)", "8*(n//8) + n % 4", "n"},
		{"Eq(x, 3)", "x*y + x//2", "3*y + 1"},
		{"Eq(x % y, 0)", "x//y*y", "x"},
		{"True", "Max(1, x)", "Max(1, x)"},
	} {
		env := sym.NewEnv()
		require.NoError(t, env.Assume(condition(t, env, c.known)))
		e, err := sym.Parse(c.e, lookupIn(t, env))
		require.NoError(t, err)
		assert.Equal(t, c.want, e.Simplify().String(), "%s under %s", c.e, c.known)
	}
}

// TestFactsAreTrue assumes random conditions that hold for some sizes: later decisions, simplifications and
// bounds must be true for these sizes.
func TestFactsAreTrue(t *testing.T) {
	settledBy := 0
	rapid.Check(t, func(t *rapid.T) {
		env, leaves, at := setting(t)
		for range rapid.IntRange(1, 3).Draw(t, "facts") {
			if c := drawTruth(t, leaves); c.want {
				require.NoError(t, env.Assume(c.b), "%v at %v", c.b, at)
			} else {
				require.NoError(t, env.Assume(c.b.Not()), "%v at %v", c.b.Not(), at)
			}
		}
		p := draw(t, leaves, 2)
		lo, hi := p.e.Bounds()
		require.True(t, lo <= p.n && p.n <= hi, "%v is %d, outside %d to %d", p.e, p.n, lo, hi)
		simple, err := p.e.Simplify().At(at)
		require.NoError(t, err)
		require.Equal(t, p.n, simple, "%v simplified to %v at %v", p.e, p.e.Simplify(), at)
		for range 3 {
			c := drawTruth(t, leaves)
			_, before := c.b.Known()
			left := c.b.Decide()
			got, err := left.At(at)
			require.NoError(t, err)
			require.Equal(t, c.want, got, "%v decided as %v at %v", c.b, left, at)
			if before {
				settledBy++
			}
		}
	})
	require.Positive(t, settledBy)
}

// TestForkCoversAllSizes checks that exactly one case holds for any sizes, and that its result is that of the
// computation there.
func TestForkCoversAllSizes(t *testing.T) {
	forked := 0
	rapid.Check(t, func(t *rapid.T) {
		env, leaves, at := setting(t)
		var claims []claim
		for range rapid.IntRange(1, 4).Draw(t, "branches") {
			claims = append(claims, drawTruth(t, leaves))
		}
		cases, err := sym.Fork(env, 1000, func() (int, error) {
			out := 0
			for i, c := range claims {
				if c.b.Holds() {
					out |= 1 << i
				}
			}
			return out, nil
		})
		require.NoError(t, err)
		require.Empty(t, env.Guards())
		want := 0
		for i, c := range claims {
			if c.want {
				want |= 1 << i
			}
		}
		merged := sym.Of(cases[len(cases)-1].Value)
		for i := len(cases) - 1; i >= 0; i-- {
			merged = sym.Where(cases[i].If, sym.Of(cases[i].Value), merged)
		}
		got, err := merged.At(at)
		require.NoError(t, err)
		require.Equal(t, want, got, "%v at %v", merged, at)
		held := 0
		for _, c := range cases {
			holds, err := c.If.At(at)
			require.NoError(t, err)
			if holds {
				held++
				require.Equal(t, want, c.Value)
			}
		}
		require.Equal(t, 1, held, "cases that hold at %v: %v", at, cases)
		if len(cases) > 1 {
			forked++
		}
	})
	require.Positive(t, forked)
}

func TestForkLimits(t *testing.T) {
	env := sym.NewEnv()
	x := at(t, env, "x", 0, math.MaxInt, 4)
	count := func() (int, error) {
		n := 0
		for x.Gt(sym.Of(n)).Holds() {
			n++
		}
		return n, nil
	}
	cases, err := sym.Fork(env, 4, count)
	assert.ErrorContains(t, err, "too many cases: more than")
	assert.LessOrEqual(t, len(cases), 4)
	require.NoError(t, env.Assume(x.Le(sym.Of(2))))
	cases, err = sym.Fork(env, 4, count)
	require.NoError(t, err)
	assert.Len(t, cases, 3)

	// Divisions by zero and errors are results of their own.
	refused := errors.New("refused")
	cases, err = sym.Fork(env, 4, func() (int, error) {
		if x.Eq(sym.Of(1)).Holds() {
			return 0, refused
		}
		_ = sym.Of(6).Div(x)
		return 1, nil
	})
	require.NoError(t, err)
	var told []string
	for _, c := range cases {
		told = append(told, c.If.String()+": "+map[bool]string{true: "fine", false: ""}[c.Err == nil])
		if c.Err != nil {
			told[len(told)-1] += c.Err.Error()
		}
	}
	assert.ElementsMatch(t, told, []string{
		"Ne(x, 0) & Ne(x, 1): fine", "Eq(x, 0) & Ne(x, 1): division by zero", "Eq(x, 1): refused",
	})
	assert.Empty(t, env.Guards())
	assert.Panics(t, func() { _, _ = sym.Fork(env, 4, func() (int, error) { panic("mine") }) })
}

func TestWhere(t *testing.T) {
	env := sym.NewEnv()
	x, y := at(t, env, "x", 0, 9, 4), at(t, env, "y", 3, 9, 4)
	one, two := sym.Of(1), sym.Of(2)
	c := x.Eq(y)
	for want, got := range map[string]sym.Int{
		"1":                                sym.Where(sym.BoolOf(true), one, two),
		"2":                                sym.Where(sym.BoolOf(false), one, two),
		"x":                                sym.Where(c, x, x),
		"Where(Eq(x, y), 1, 2)":            sym.Where(c, one, two),
		"Where(Eq(x, y), 2, 1)":            sym.Where(c.Not(), one, two),
		"Where(Eq(x, y) | Lt(x, 2), x, y)": sym.Where(c, x, sym.Where(x.Lt(two), x, y)),
		"Max(x, y)":                        sym.Where(y.Le(x), x, x.Max(y)),
		"Max(y, 2*x)":                      sym.Where(y.Le(x.Mul(two)), x.Mul(two), x.Mul(two).Max(y)),
		"Min(x, y)":                        sym.Where(y.Lt(x), x.Min(y), x),
	} {
		assert.Equal(t, want, got.String())
	}
	w := sym.Where(c, sym.Of(-3), y.Mul(two))
	lo, hi := w.Bounds()
	assert.Equal(t, []int{-3, 18, -3}, []int{lo, hi, w.Hint()})
	safe, err := sym.Parse("Where(Ne(x, 0), 12//x, 7)", lookupOf(map[string]sym.Int{"x": x}))
	require.NoError(t, err)
	n, err := safe.At(sym.Binding{"x": 0})
	require.NoError(t, err)
	assert.Equal(t, 7, n)
	assert.Empty(t, env.Guards())
}

func lookupOf(m map[string]sym.Int) func(string) (sym.Int, bool) {
	return func(name string) (sym.Int, bool) { v, ok := m[name]; return v, ok }
}

// Comparisons drop positive factors, and no others.
func TestOrdersWithoutFactors(t *testing.T) {
	env := sym.NewEnv()
	assert.Equal(t, "Le(0, w - 2)", condition(t, env, "Lt(Max(1, w), Max(1, w)**2)").String())
	assert.Equal(t, "Lt(0, x)", condition(t, env, "Lt(0, x*y)").String())
	texts := []string{"Lt(y, x*y)", "Le(x*y, w*y)", "Gt(x*y, w*y)", "Ge(1, x*y)", "Lt(x*y, 1)", "Lt(x*w, 1)",
		"Lt(x*y*w, 0)", "Gt(x*y*w, 0)", "Le(n*y, x*y*n)", "Lt(z*y, x*y)", "Le(z*w, x*w)", "Gt(0, z*y)"}
	for _, text := range texts {
		cond := condition(t, env, text)
		for n := range 1024 {
			at := map[string]int{"x": n % 4, "y": 1 + n/4%4, "n": 1 + n/16%4, "z": n/64%4 - 2, "w": n / 256}
			want, err := sym.ParseBool(text, func(name string) (sym.Int, bool) { return sym.Of(at[name]), true })
			require.NoError(t, err)
			got, err := cond.At(at)
			require.NoError(t, err)
			require.Equal(t, want.Hint(), got, "%s, as %v, at %v", text, cond, at)
		}
	}
}

// Differing drops a case whose value follows from the first under its condition.
func TestDiffering(t *testing.T) {
	env := sym.NewEnv()
	x, y := at(t, env, "x", 0, math.MaxInt, 8), at(t, env, "y", 0, math.MaxInt, 8)
	cases, err := sym.Fork(env, 8, func() (sym.Int, error) {
		switch {
		case x.Eq(sym.Int{}).Holds():
			return y, nil
		case y.Eq(sym.Int{}).Holds():
			return sym.Of(7), nil
		}
		return x.Add(y), nil
	})
	require.NoError(t, err)
	require.Len(t, cases, 3)
	cases = sym.Differing(cases, func(a, b sym.Int) bool { same, known := a.Eq(b).Known(); return same && known })
	require.Len(t, cases, 2)
	assert.Equal(t, "x + y", cases[0].Value.String())
	assert.Equal(t, "7", cases[1].Value.String())
	assert.Empty(t, env.Guards())
}

// Join records only the branches that affect the result.
func TestJoin(t *testing.T) {
	alike := func(a, b sym.Int, _ sym.Bool) bool { same, known := a.Eq(b).Known(); return same && known }
	join := func(env *sym.Env, run func(x, y sym.Int) (sym.Int, error)) (sym.Int, error) {
		x, y := at(t, env, "x", 0, math.MaxInt, 8), at(t, env, "y", 1, math.MaxInt, 8)
		return sym.Join(env, 4, func() (sym.Int, error) { return run(x, y) }, alike)
	}
	env := sym.NewEnv()
	got, err := join(env, func(x, y sym.Int) (sym.Int, error) {
		if x.Eq(sym.Of(1)).Holds() { // then the results are equal
			return y, nil
		}
		return y.Mul(x), nil
	})
	require.NoError(t, err)
	assert.Equal(t, "x*y", got.String())
	assert.Empty(t, env.Guards())

	env = sym.NewEnv()
	got, err = join(env, func(x, y sym.Int) (sym.Int, error) {
		switch {
		case x.Eq(sym.Int{}).Holds():
			return x, errors.New("refused")
		case y.Eq(sym.Of(1)).Holds():
			return x.Mul(y), nil
		case y.Eq(sym.Of(2)).Holds():
			return sym.Of(5), nil
		}
		return x, nil
	})
	require.NoError(t, err)
	assert.Equal(t, "x", got.String())
	assert.Equal(t, []string{"Ne(x, 0)", "Ne(y, 2)"}, textsOf(env.Guards()))

	env = sym.NewEnv()
	_, err = join(env, func(x, _ sym.Int) (sym.Int, error) {
		for n := range 9 {
			if x.Eq(sym.Of(n)).Holds() {
				return sym.Of(n), nil
			}
		}
		return x, nil
	})
	require.NoError(t, err)
	assert.Len(t, env.Guards(), 9, "too many ways: each branch leaves its guard")
}

func textsOf(guards []sym.Bool) (list []string) {
	for _, g := range guards {
		list = append(list, g.String())
	}
	return list
}
