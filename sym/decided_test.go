//go:build !386 && !arm

package sym

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drawn is an expression with its exact value; ok is false if the value divides by zero.
type drawn struct {
	x  Int
	at func(values []int) (n *big.Int, ok bool)
}

// drawnTruth is a condition with its truth.
type drawnTruth struct {
	b  Bool
	at func(values []int) (truth, ok bool)
}

// drawing draws expressions over symbols whose bounds and coefficients are small or near the ends of an int.
type drawing struct {
	rng     *rand.Rand
	v       *Env
	symbols []Int
	lo, hi  []int
}

func newDrawing(t *testing.T, seed uint64) *drawing {
	d := &drawing{rng: rand.New(rand.NewPCG(seed, 5)), v: NewEnv()}
	for i := range 3 {
		lo := d.number()
		hi := lo + 1 + d.rng.IntN(1<<62)>>d.rng.IntN(63)
		if hi <= lo {
			lo, hi = math.MaxInt-2, math.MaxInt
		}
		s, err := d.v.Symbol(fmt.Sprintf("s%d", i), lo, hi, []int{lo, hi}[d.rng.IntN(2)])
		require.NoError(t, err)
		d.symbols, d.lo, d.hi = append(d.symbols, s), append(d.lo, lo), append(d.hi, hi)
	}
	return d
}

// number is small, a large power of 2, or near a limit of an int.
func (d *drawing) number() int {
	near := d.rng.IntN(7) - 3
	switch d.rng.IntN(8) {
	case 0:
		return math.MaxInt - max(near, 0)
	case 1:
		return math.MinInt + max(near, 0)
	case 2, 3:
		return near + (1-2*d.rng.IntN(2))<<(30+d.rng.IntN(33))
	}
	return near
}

// points combines the values at and next to the bounds of each symbol.
func (d *drawing) points() [][]int {
	points := [][]int{nil}
	for i := range d.symbols {
		var longer [][]int
		for _, p := range points {
			values := []int{d.lo[i], d.lo[i] + 1, d.hi[i] - 1, d.hi[i]}
			slices.Sort(values)
			for _, n := range slices.Compact(values) {
				longer = append(longer, append(p[:i:i], n))
			}
		}
		points = longer
	}
	return points
}

func (d *drawing) leaf() drawn {
	if d.rng.IntN(3) == 0 {
		n := d.number()
		return drawn{Of(n), func([]int) (*big.Int, bool) { return big.NewInt(int64(n)), true }}
	}
	i := d.rng.IntN(len(d.symbols))
	return drawn{d.symbols[i], func(values []int) (*big.Int, bool) { return big.NewInt(int64(values[i])), true }}
}

// linear draws a sum with small coefficients.
func (d *drawing) linear() drawn {
	c := d.number()
	out := drawn{x: Of(c)}
	var k []int
	for _, s := range d.symbols {
		k = append(k, d.rng.IntN(9)-4)
		out.x = out.x.Add(s.Mul(Of(k[len(k)-1])))
	}
	out.at = func(values []int) (*big.Int, bool) {
		n := big.NewInt(int64(c))
		for i, x := range values {
			n.Add(n, new(big.Int).Mul(big.NewInt(int64(k[i])), big.NewInt(int64(x))))
		}
		return n, true
	}
	return out
}

func (d *drawing) expr(depth int) drawn {
	if depth == 0 || d.rng.IntN(5) == 0 {
		return d.leaf()
	}
	if d.rng.IntN(4) == 0 {
		return d.linear()
	}
	if d.rng.IntN(10) == 0 {
		c, x, y := d.truth(0), d.expr(depth-1), d.expr(depth-1)
		return drawn{Where(c.b, x.x, y.x), func(values []int) (*big.Int, bool) {
			if holds, ok := c.at(values); !ok || holds {
				n, fine := x.at(values)
				return n, fine && ok
			}
			return y.at(values)
		}}
	}
	x, y := d.expr(depth-1), d.expr(depth-1)
	op := d.rng.IntN(10)
	if _, number := x.x.Known(); number {
		if _, number := y.x.Known(); number || op >= 8 {
			return y // arithmetic on numbers is not tested here
		}
	}
	out := drawn{at: func(values []int) (*big.Int, bool) {
		a, ok := x.at(values)
		b, fine := y.at(values)
		if !ok || !fine || op >= 8 && b.Sign() == 0 {
			return nil, false
		}
		switch n := new(big.Int); {
		case op < 3:
			return n.Add(a, b), true
		case op < 4:
			return n.Sub(a, b), true
		case op < 6:
			return n.Mul(a, b), true
		case op < 8:
			if (a.Cmp(b) > 0) == (op == 6) {
				return a, true
			}
			return b, true
		}
		return bigFloorDiv(op == 9, a, b), true
	}}
	out.x = [](func(a, b Int) Int){Int.Add, Int.Add, Int.Add, Int.Sub, Int.Mul, Int.Mul, Int.Max, Int.Min, quotientOf,
		remainderOf}[op](x.x, y.x)
	return out
}

// truth draws a relation, or a conjunction or disjunction of two.
func (d *drawing) truth(depth int) drawnTruth {
	if depth > 1 && d.rng.IntN(4) == 0 {
		x, y, some := d.truth(depth-1), d.truth(depth-1), d.rng.IntN(2) == 0
		b := x.b.And(y.b)
		if some {
			b = x.b.Or(y.b)
		}
		return drawnTruth{b, func(values []int) (truth, ok bool) {
			p, ok := x.at(values)
			q, fine := y.at(values)
			return p && q || some && (p || q), ok && fine
		}}
	}
	x, y, op := d.expr(depth), d.expr(depth), d.rng.IntN(4)
	b := [](func(a, b Int) Bool){Int.Eq, Int.Ne, Int.Lt, Int.Le}[op](x.x, y.x)
	return drawnTruth{b, func(values []int) (truth, ok bool) {
		n, ok := x.at(values)
		m, fine := y.at(values)
		if !ok || !fine {
			return false, false
		}
		c := n.Cmp(m)
		return []bool{c == 0, c != 0, c < 0, c <= 0}[op], true
	}}
}

// enter assumes or decides conditions, and returns the points for which they hold.
func (d *drawing) enter(t *testing.T, points [][]int) [][]int {
	for range d.rng.IntN(4) {
		c := d.truth(2)
		truth := true
		if d.rng.IntN(2) == 0 {
			truth = c.b.Holds()
		} else if d.v.Assume(c.b) != nil {
			truth = false
		}
		var kept [][]int
		for _, p := range points {
			if is, ok := c.at(p); ok && is == truth {
				kept = append(kept, p)
			}
		}
		points = kept
	}
	return points
}

// TestDecisionsAreTrue compares decisions about random expressions under random facts with their values at and next to
// the bounds of the symbols. Lower bounds that no int holds counted as infinite, and coefficients wrapped around.
func TestDecisionsAreTrue(t *testing.T) {
	known, bounded := 0, 0
	for seed := range uint64(800) {
		d := newDrawing(t, seed)
		points := d.enter(t, d.points())
		for range 4 {
			c, e := d.truth(2), d.expr(3)
			truth, ok := c.b.Known()
			rest := c.b.Decide()
			lo, hi := e.x.Bounds()
			plain := e.x.Simplify()
			for _, p := range points {
				at := Binding{"s0": p[0], "s1": p[1], "s2": p[2]}
				if is, defined := c.at(p); defined {
					require.True(t, !ok || is == truth, "seed %d: %v is %v at %v; guards %v", seed, c.b, is, at, d.v.Guards())
					left, err := rest.At(at)
					require.True(t, err != nil || left == is, "seed %d: %v is %v at %v", seed, rest, left, at)
					known += map[bool]int{true: 1}[ok]
				}
				n, defined := e.at(p)
				if !defined {
					continue
				}
				require.True(t, lo == math.MinInt || n.Cmp(big.NewInt(int64(lo))) >= 0, "seed %d: %v is %v at %v, not %d or more",
					seed, e.x, n, at, lo)
				require.True(t, hi == math.MaxInt || n.Cmp(big.NewInt(int64(hi))) <= 0, "seed %d: %v is %v at %v, not %d or less",
					seed, e.x, n, at, hi)
				if lo > math.MinInt || hi < math.MaxInt {
					bounded++
				}
				for _, x := range []Int{e.x, plain} {
					if got, err := x.At(at); n.IsInt64() {
						require.NoError(t, err, "seed %d: %v at %v", seed, x, at)
						require.Equal(t, n.Int64(), int64(got), "seed %d: %v at %v", seed, x, at)
					} else {
						require.Error(t, err, "seed %d: %v at %v is %v", seed, x, at, n)
					}
				}
			}
		}
	}
	assert.Greater(t, known, 5000)
	assert.Greater(t, bounded, 10000)
}

// ends has symbols with large bounds: x, y from 0, v, w from 2^62, and z of both signs.
func ends(t testing.TB) (v *Env, lookup func(name string) (Int, bool)) {
	v = NewEnv()
	for _, s := range []struct {
		name   string
		lo, hi int
	}{{"v", 1 << 62, math.MaxInt}, {"w", 1 << 62, math.MaxInt}, {"x", 0, math.MaxInt}, {"y", 0, math.MaxInt},
		{"z", math.MinInt + 1, 100}} {
		_, err := v.Symbol(s.name, s.lo, s.hi, s.hi)
		require.NoError(t, err)
	}
	return v, func(name string) (Int, bool) { s, ok := v.symbols[name]; return s, ok }
}

// TestDecisionsNearTheEnds has facts and questions with bounds that exceed an int, and sizes for which the facts hold.
// The answers were wrong, or the facts a contradiction.
func TestDecisionsNearTheEnds(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("the numbers are those of 64 bits")
	}
	const large = 1 << 62
	for _, c := range []struct {
		fact, question string
		at             Binding
	}{
		{"True", "Le(x + y, 9223372036854775807)", Binding{"x": math.MaxInt, "y": 1}},
		{"True", "Ge(v + w - 4611686018427387904, 2*x)", Binding{"v": large, "w": large, "x": math.MaxInt}},
		{"Ge(x + y, 9223372036854775807)", "Ge(x, 9223372036854775806)", Binding{"x": large, "y": large}},
		{"Le(v + w - x + y, 10)", "Eq(y, 5)", Binding{"v": large, "w": large, "x": math.MaxInt, "y": 1}},
		{"True", "Gt(9223372036854775807, x + y)", Binding{"x": math.MaxInt, "y": math.MaxInt}},
		{"Eq(z % 5, 3)", "Gt(z, -9223372036854775805)", Binding{"z": math.MinInt + 1}},
		{"Ne(z, -9223372036854775807)", "Gt(z, 0)", Binding{"z": -1}},
		{"Eq(Max(9223372036854775807, x*y), x*y)", "Eq(x*y, 9223372036854775807)", Binding{"x": large, "y": 2}},
	} {
		v, lookup := ends(t)
		fact, err := ParseBool(c.fact, lookup)
		require.NoError(t, err)
		holds, err := fact.At(c.at)
		require.True(t, holds && err == nil, "%v at %v: %v", fact, c.at, err)
		require.NoError(t, v.Assume(fact))
		question, err := ParseBool(c.question, lookup)
		require.NoError(t, err)
		want, err := question.At(c.at)
		require.NoError(t, err)
		truth, known := question.Known()
		assert.True(t, !known || truth == want, "%s under %s is %v at %v", c.question, c.fact, want, c.at)
	}
}

// TestResiduesCombine assumes two residues of a symbol, of moduli up to the greatest that facts keep.
func TestResiduesCombine(t *testing.T) {
	check := func(m, r, n, s, all, rest int) {
		v := NewEnv()
		x, err := v.Symbol("x", 0, math.MaxInt, 0)
		require.NoError(t, err)
		require.NoError(t, v.Assume(x.Mod(Of(m)).Eq(Of(r))))
		if err = v.Assume(x.Mod(Of(n)).Eq(Of(s))); rest < 0 {
			require.Error(t, err, "%d modulo %d, %d modulo %d", r, m, s, n)
			return
		}
		require.NoError(t, err)
		truth, known := x.Mod(Of(all)).Eq(Of(rest)).Known()
		require.True(t, truth && known, "%d modulo %d, %d modulo %d", r, m, s, n)
	}
	for m := 2; m < 9; m++ {
		for n := 2; n < 9; n++ {
			for r := range m {
				for s := range n {
					all, rest := m/gcd(m, n)*n, -1
					for k := range all {
						if k%m == r && k%n == s {
							rest = k
						}
					}
					check(m, r, n, s, all, rest)
				}
			}
		}
	}
	check(536870909, 7, 2, 1, 1073741818, 7)
	check(2, 0, 536870909, 7, 1073741818, 536870916)
}

// FuzzDecisions reads a fact and a question, and compares the answer with the truth at values of the symbols.
func FuzzDecisions(f *testing.F) {
	f.Add("Ge(x + y, 9223372036854775807)", "Ge(x, 9223372036854775806)", 1<<62, 1<<62, 0)
	f.Add("Eq(z % 8, 3)", "Lt(x//3*y, Max(2, w) - v)", 1, 2, 3)
	f.Add("Lt(x, y) | Eq(Min(x, 7)*v, w + 2)", "~Eq(Where(Le(x, 1), y, z), 1)", 5, math.MaxInt, math.MinInt+1)
	f.Fuzz(func(t *testing.T, fact, question string, a, b, c int) {
		if len(fact)+len(question) > 400 {
			return
		}
		v, lookup := ends(t)
		assumed, err := ParseBool(fact, lookup)
		if err != nil {
			return
		}
		asked, err := ParseBool(question, lookup)
		if err != nil || len(v.Guards()) > 0 { // a divisor may be 0
			return
		}
		at := Binding{"x": max(a, 0), "y": max(b, 0), "z": min(max(c, math.MinInt+1), 100), "v": max(a, 1<<62),
			"w": max(b, 1<<62)}
		holds, err := assumed.At(at)
		if err != nil || !holds {
			return
		}
		require.NoError(t, v.Assume(assumed), "%s at %v", fact, at)
		want, err := asked.At(at)
		if truth, known := asked.Known(); known && err == nil {
			require.Equal(t, want, truth, "%s at %v", question, at)
		}
	})
}
