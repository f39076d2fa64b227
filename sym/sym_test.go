package sym_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/sym"
)

// bound is the range of a symbol in property tests.
type bound struct {
	name   string
	lo, hi int
}

var ranges = []bound{{"x", 0, 9}, {"y", 1, 64}, {"z", -7, 7}, {"n", 2, 3}}

// pair is an expression and its value for one choice of sizes, computed in plain integers.
type pair struct {
	e sym.Int
	n int
}

func draw(t *rapid.T, leaves []pair, depth int) pair {
	if depth == 0 {
		if rapid.Bool().Draw(t, "number") {
			n := rapid.IntRange(-4, 12).Draw(t, "n")
			return pair{sym.Of(n), n}
		}
		return rapid.SampledFrom(leaves).Draw(t, "symbol")
	}
	a, b := draw(t, leaves, depth-1), draw(t, leaves, depth-1)
	switch rapid.SampledFrom([]string{"+", "-", "*", "//", "%", "max", "min", "neg", "where"}).Draw(t, "op") {
	case "where":
		c := drawRelation(t, leaves)
		p := pair{sym.Where(c.b, a.e, b.e), b.n}
		if c.want {
			p.n = a.n
		}
		return p
	case "+":
		return pair{a.e.Add(b.e), a.n + b.n}
	case "-":
		return pair{a.e.Sub(b.e), a.n - b.n}
	case "*":
		return pair{a.e.Mul(b.e), a.n * b.n}
	case "max":
		return pair{a.e.Max(b.e), max(a.n, b.n)}
	case "min":
		return pair{a.e.Min(b.e), min(a.n, b.n)}
	case "neg":
		return pair{a.e.Neg(), -a.n}
	case "//":
		// A divisor that is not 0 for any size needs no guard.
		d, n := b.e.Max(sym.Of(1)), max(b.n, 1)
		return pair{a.e.Div(d), floor(a.n, n)}
	}
	d, n := b.e.Max(sym.Of(3)), max(b.n, 3)
	return pair{a.e.Mod(d), a.n - n*floor(a.n, n)}
}

func floor(a, b int) int { return int(math.Floor(float64(a) / float64(b))) }

// setting draws sizes, and symbols with independently drawn hints.
func setting(t *rapid.T) (*sym.Env, []pair, sym.Binding) {
	env, at := sym.NewEnv(), sym.Binding{}
	var leaves []pair
	for _, r := range ranges {
		s, err := env.Symbol(r.name, r.lo, r.hi, rapid.IntRange(r.lo, r.hi).Draw(t, "hint "+r.name))
		require.NoError(t, err)
		at[r.name] = rapid.IntRange(r.lo, r.hi).Draw(t, r.name)
		leaves = append(leaves, pair{s, at[r.name]})
	}
	return env, leaves, at
}

// The value of an expression is that of the arithmetic that built it, in every form, and is within its
// bounds.
func TestExpressionsMeanWhatTheyWereMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		env, leaves, at := setting(t)
		p := draw(t, leaves, 3)
		got, err := p.e.At(at)
		require.NoError(t, err)
		require.Equal(t, p.n, got, "%v at %v", p.e, at)
		lo, hi := p.e.Bounds()
		require.True(t, lo <= got && got <= hi, "%v is %d, outside %d to %d", p.e, got, lo, hi)
		require.Empty(t, env.Guards())
	})
}

// claim is a condition and whether it holds for one choice of sizes.
type claim struct {
	b    sym.Bool
	want bool
}

func drawRelation(t *rapid.T, leaves []pair) claim {
	depth := rapid.IntRange(0, 1).Draw(t, "depth")
	a, b := draw(t, leaves, depth), draw(t, leaves, depth)
	switch rapid.SampledFrom([]string{"eq", "ne", "lt", "le", "gt", "ge"}).Draw(t, "relation") {
	case "eq":
		return claim{a.e.Eq(b.e), a.n == b.n}
	case "ne":
		return claim{a.e.Ne(b.e), a.n != b.n}
	case "lt":
		return claim{a.e.Lt(b.e), a.n < b.n}
	case "le":
		return claim{a.e.Le(b.e), a.n <= b.n}
	case "gt":
		return claim{a.e.Gt(b.e), a.n > b.n}
	}
	return claim{a.e.Ge(b.e), a.n >= b.n}
}

func drawTruth(t *rapid.T, leaves []pair) claim {
	c := drawRelation(t, leaves)
	for range rapid.IntRange(0, 4).Draw(t, "joined") {
		d := drawRelation(t, leaves)
		switch rapid.SampledFrom([]string{"and", "or", "not"}).Draw(t, "junction") {
		case "and":
			c = claim{c.b.And(d.b), c.want && d.want}
		case "or":
			c = claim{c.b.Or(d.b), c.want || d.want}
		default:
			c = claim{c.b.Not(), !c.want}
		}
	}
	return c
}

func TestConditionsMeanWhatTheyWereMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		env, leaves, at := setting(t)
		c := drawTruth(t, leaves)
		b, want := c.b, c.want
		got, err := b.At(at)
		require.NoError(t, err)
		require.Equal(t, want, got, "%v at %v", b, at)
		if v, ok := b.Known(); ok {
			require.Equal(t, want, v, "%v", b)
		}
		require.True(t, b.Not().Not().Same(b), "%v, twice negated %v", b, b.Not().Not())

		// A decision is known afterwards, and is the guard.
		taken := b.Holds()
		v, ok := b.Known()
		require.True(t, ok)
		require.Equal(t, taken, v)
		holds := true
		for _, g := range env.Guards() {
			h, err := g.At(at)
			require.NoError(t, err)
			require.True(t, g.Hint(), "a guard must hold for the hints")
			holds = holds && h
		}
		if holds {
			require.Equal(t, want, taken, "%v at %v under %v", b, at, env.Guards())
		}
	})
}

func TestForms(t *testing.T) {
	env := sym.NewEnv()
	x, y := at(t, env, "x", 0, math.MaxInt, 4), at(t, env, "y", 1, 64, 8)
	n := at(t, env, "n", 2, 100, 10)
	k := sym.Of
	for _, c := range []struct {
		got  interface{ String() string }
		want string
	}{
		{x.Add(y).Sub(x), "y"},
		{x.Add(k(1)).Mul(x.Sub(k(1))), "x**2 - 1"},
		{x.Mul(y).Add(y.Mul(x)), "2*x*y"},
		{x.Mul(k(6)).Add(k(7)).Div(k(3)), "2*x + 2"},
		{x.Mul(k(5)).Add(k(7)).Div(k(3)), "x + (2*x + 1)//3 + 2"},
		{x.Mul(k(2)).Add(k(5)).Div(k(4)), "x//2 + 1"},
		{x.Div(k(2)).Div(k(3)), "x//6"},
		{x.Div(k(2)).Mul(k(3)), "3*(x//2)"},
		{x.Mul(y).Mul(n).Div(y), "x*n"},
		{x.Mul(y.Add(k(1))).Div(y.Add(k(1))), "x"},
		{x.Mul(y).Div(n.Mul(y)), "x//n"},
		{y.Div(k(65)), "0"},
		{y.Mod(k(65)), "y"},
		{x.Mul(k(8)).Mod(k(4)), "0"},
		{x.Mul(k(9)).Add(k(6)).Mod(k(4)), "(x + 2) % 4"},
		{x.Mul(y).Mod(k(16)), "x*y % 16"},
		{y.Max(k(1)), "y"},
		{x.Max(k(1)), "Max(1, x)"},
		{x.Max(y).Max(k(1)), "Max(x, y)"},
		{y.Min(k(100)), "y"},
		{x.Neg().Sub(k(3)), "-x - 3"},
		{x.Sub(x), "0"},
		{x.Eq(x), "True"},
		{y.Eq(k(0)), "False"},
		{x.Mul(k(2)).Eq(k(5)), "False"},
		{x.Mul(k(4)).Eq(y.Mul(k(2))), "Eq(2*x, y)"},
		{x.Mul(y).Eq(k(0)), "Eq(x, 0)"},
		{k(1).Eq(x), "Eq(x, 1)"},
		{x.Lt(k(3)).Not(), "Le(3, x)"},
		{x.Ge(k(0)), "True"},
		{n.Gt(k(1)), "True"},
		{x.Eq(k(1)).And(x.Ne(k(1))), "False"},
		{x.Eq(k(1)).Or(x.Eq(k(1)).And(y.Eq(k(1)))), "Eq(x, 1)"},
		{x.Eq(k(1)).Or(y.Eq(k(2))).Not(), "Ne(x, 1) & Ne(y, 2)"},
	} {
		// Sums and products are sorted by degree, then in the order in which symbols were made.
		assert.Equal(t, c.want, c.got.String())
	}
	assert.Empty(t, env.Guards())
}

func at(t *testing.T, env *sym.Env, name string, lo, hi, hint int) sym.Int {
	t.Helper()
	s, err := env.Symbol(name, lo, hi, hint)
	require.NoError(t, err)
	return s
}

func TestKnownSideIsAskedFirst(t *testing.T) {
	env := sym.NewEnv()
	x := at(t, env, "x", 2, 9, 4)
	assert.True(t, x.Eq(sym.Of(7)).Or(x.Gt(sym.Of(1))).Holds())
	assert.Empty(t, env.Guards())
	assert.True(t, x.Ne(sym.Of(7)).Holds())
	assert.True(t, x.Ne(sym.Of(7)).Or(x.Eq(sym.Of(3))).Holds())
	assert.Len(t, env.Guards(), 1)
}

func TestDivisionByZero(t *testing.T) {
	env := sym.NewEnv()
	x := at(t, env, "x", 0, 9, 4)
	assert.PanicsWithValue(t, "sym: division by zero", func() { sym.Of(1).Div(sym.Of(0)) })
	assert.PanicsWithValue(t, "sym: division by zero", func() { x.Div(sym.Of(0)) })
	q := sym.Of(12).Div(x)
	require.Len(t, env.Guards(), 1)
	assert.Equal(t, "Ne(x, 0)", env.Guards()[0].String())
	_, err := q.At(sym.Binding{"x": 0})
	assert.EqualError(t, err, "sym: 12//x: division by zero")
	_, err = q.At(nil)
	assert.EqualError(t, err, "sym: 12//x: symbol x has no value")
}

func TestSpecialize(t *testing.T) {
	env := sym.NewEnv()
	x := at(t, env, "x", 0, 9, 4)
	assert.Equal(t, 8, x.Mul(sym.Of(2)).Specialize())
	assert.Equal(t, "[Eq(x, 4)]", sprint(env.Guards()))
	assert.Equal(t, 3, sym.Of(3).Specialize())
}

func sprint(guards []sym.Bool) string {
	s := "["
	for i, g := range guards {
		if i > 0 {
			s += " "
		}
		s += g.String()
	}
	return s + "]"
}

func TestSymbolsAreChecked(t *testing.T) {
	env := sym.NewEnv()
	_, err := env.Symbol("a b", 0, 1, 0)
	assert.EqualError(t, err, `sym: "a b" is not a valid symbol name`)
	_, err = env.Symbol("Max", 0, 1, 0)
	assert.Error(t, err)
	_, err = env.Symbol("a", 2, 1, 1)
	assert.EqualError(t, err, "sym: the bounds of symbol a are invalid: 2 to 1")
	_, err = env.Symbol("a", 0, 1, 2)
	assert.Error(t, err)
	one := at(t, env, "one", 1, 1, 1)
	n, ok := one.Known()
	assert.True(t, ok)
	assert.Equal(t, 1, n)
	a := at(t, env, "a", 0, 5, 2)
	assert.True(t, a.Same(at(t, env, "a", 0, 5, 2)))
	_, err = env.Symbol("a", 0, 6, 2)
	assert.EqualError(t, err, "sym: symbol a has bounds 0 to 5 and hint 2, not 0 to 6 and 2")
	other := at(t, sym.NewEnv(), "a", 0, 5, 2)
	assert.Panics(t, func() { a.Add(other) })
}

func BenchmarkExactSizes(b *testing.B) {
	h, k, p, s := sym.Of(224), sym.Of(7), sym.Of(3), sym.Of(2)
	for range b.N {
		out := h.Add(p).Add(p).Sub(k).Div(s).Add(sym.Of(1))
		if out.Lt(sym.Of(1)).Holds() {
			b.Fatal(out)
		}
	}
}

// BenchmarkUnknownSizes is the size arithmetic of a convolution with unknown sizes, whose expressions all
// exist already.
func BenchmarkUnknownSizes(b *testing.B) {
	env := sym.NewEnv()
	h, err := env.Symbol("H", 1, math.MaxInt, 224)
	if err != nil {
		b.Fatal(err)
	}
	k, p, s := sym.Of(7), sym.Of(3), sym.Of(2)
	for range b.N {
		out := h.Add(p).Add(p).Sub(k).Div(s).Add(sym.Of(1))
		if out.Lt(sym.Of(1)).Holds() {
			b.Fatal(out)
		}
	}
}

// TestProofsOfLargeNumbers checks that overflowing sums prove nothing.
func TestProofsOfLargeNumbers(t *testing.T) {
	env := sym.NewEnv()
	s, err := env.Symbol("S", 0, math.MaxInt, 32)
	require.NoError(t, err)
	d := s.Div(sym.Of(4))
	for _, large := range []int{math.MaxInt, math.MaxInt - 1, math.MaxInt / 2, min(1<<61, math.MaxInt)} {
		for _, x := range []sym.Int{d.Min(sym.Of(large)), d.Max(sym.Int{}).Mul(sym.Of(3)).Min(sym.Of(large)).Div(sym.Of(3))} {
			n, err := x.At(sym.Binding{"S": 32})
			require.NoError(t, err)
			require.Equal(t, 8, n, "%v", x)
		}
		less, known := d.Ge(sym.Of(large)).Known()
		require.False(t, known && less, "%v >= %d", d, large)
	}
}

// TestGuardsOfPyTorch compares with the guards that PyTorch 1.13's symbolic shapes
// (fx.experimental.symbolic_shapes) record for the notebook's compute_contiguous_branchy, with its sizes and
// strides. They specialize 0 and 1, and take all other sizes to be 2 or more.
func TestGuardsOfPyTorch(t *testing.T) {
	for _, c := range []struct {
		sizes, strides []int
		contiguous     bool
		guards         string
	}{
		{[]int{3, 1, 5}, []int{5, 99999, 1}, true, "[Eq(y1, x3)]"},
		{[]int{3, 0, 5}, []int{5, 5, 1}, true, "[]"},
		{[]int{3, 2, 5}, []int{5, 15, 1}, false, "[Ne(y2, x3)]"},
		{[]int{3, 4, 5}, []int{20, 5, 1}, true, "[Eq(y2, x3) Eq(y1, x2*x3)]"},
	} {
		env := sym.NewEnv()
		symbols := func(letter string, numbers []int) []sym.Int {
			out := make([]sym.Int, len(numbers))
			for i, n := range numbers {
				if out[i] = sym.Of(n); n > 1 {
					var err error
					out[i], err = env.Symbol(fmt.Sprint(letter, i+1), 2, math.MaxInt, n)
					require.NoError(t, err)
				}
			}
			return out
		}
		require.Equal(t, c.contiguous, branching(symbols("x", c.sizes), symbols("y", c.strides)), c.guards)
		require.Equal(t, c.guards, fmt.Sprint(env.Guards()))
	}
}
