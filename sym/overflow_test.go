//go:build !386 && !arm

package sym

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestExpressionsThatLeaveAnInt reads expressions of numbers and of symbols. They wrapped around.
func TestExpressionsThatLeaveAnInt(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("the numbers are those of 64 bits")
	}
	numbers := func(string) (Int, bool) { return Of(65536), true }
	for text, want := range map[string]string{
		"N*N*N*N + 5":                               `column 6: 281474976710656 * 65536 does not fit 64 bits`,
		"N**5":                                      `65536**5 does not fit 64 bits`,
		"9223372036854775807 + N":                   `does not fit 64 bits`,
		"-9223372036854775807 - N":                  `does not fit 64 bits`,
		"-(-9223372036854775808)":                   `does not fit 64 bits`,
		"-9223372036854775808 // -1":                `does not fit 64 bits`,
		"Max(1, N * 9223372036854775807)":           `does not fit 64 bits`,
		"Where(Eq(N, 3), N, N*N*N*N*N)":             `does not fit 64 bits`,
		"9223372036854775807 * 2 % 9":               `does not fit 64 bits`,
		"N*4611686018427387904*4611686018427387904": `does not fit 64 bits`,
	} {
		_, err := Parse(text, numbers)
		assert.ErrorContains(t, err, want, text)
	}
	v := NewEnv()
	n, err := v.Symbol("N", 0, math.MaxInt, 3)
	require.NoError(t, err)
	open := func(string) (Int, bool) { return n, true }
	for _, text := range []string{"N*4611686018427387904*4", "4611686018427387904*N + 4611686018427387904*N",
		"(N + 4611686018427387904)**2"} {
		_, err := Parse(text, open)
		assert.ErrorContains(t, err, "does not fit 64 bits", text)
	}
	e, err := Parse("N*N*N*N + 5", open)
	require.NoError(t, err)
	_, err = e.At(Binding{"N": 65536})
	assert.EqualError(t, err, "sym: N**4 + 5: 18446744073709551621 does not fit 64 bits")
	back, err := Parse("(N*N*N*N + 5)//(N*N)", open)
	require.NoError(t, err)
	got, err := back.At(Binding{"N": 1 << 20})
	require.NoError(t, err)
	assert.Equal(t, 1<<40, got)
	for _, text := range []string{"(a+b+c+d+f+g)**30", "(a+b+c+d+f+g)**4 * (a+b+c+d+f+g)**4"} {
		_, err = Parse(text, func(name string) (Int, bool) {
			s, _ := v.Symbol(name, 0, 9, 1)
			return s, true
		})
		assert.ErrorContains(t, err, "expands to more than 4096 terms", text)
	}
}

// TestNumbersThatLeaveAnInt computes with numbers: a result that no int holds is an error with the expression, and
// all others are right. They wrapped around.
func TestNumbersThatLeaveAnInt(t *testing.T) {
	numbers := []int{0, 1, -1, 2, 3, -7, math.MaxInt, math.MinInt, math.MaxInt / 2, math.MinInt / 2, 1 << mulBits,
		1<<mulBits - 1, 1 << addBits, 1<<addBits - 1, -1 << mulBits}
	for _, op := range []struct {
		sign  string
		ours  func(a, b Int) Int
		exact func(z, a, b *big.Int) *big.Int
	}{{"+", Int.Add, (*big.Int).Add}, {"-", Int.Sub, (*big.Int).Sub}, {"*", Int.Mul, (*big.Int).Mul},
		{"//", Int.Div, func(_, a, b *big.Int) *big.Int { return bigFloorDiv(false, a, b) }},
		{"%", Int.Mod, func(_, a, b *big.Int) *big.Int { return bigFloorDiv(true, a, b) }}} {
		for _, a := range numbers {
			for _, b := range numbers {
				if b == 0 && (op.sign == "//" || op.sign == "%") {
					continue
				}
				want := op.exact(new(big.Int), big.NewInt(int64(a)), big.NewInt(int64(b)))
				got, err := func() (n Int, err error) {
					defer Catch(&err)
					return op.ours(Of(a), Of(b)), nil
				}()
				if want.IsInt64() && int64(int(want.Int64())) == want.Int64() {
					require.NoError(t, err, "%d %s %d", a, op.sign, b)
					require.Equal(t, want.String(), got.String(), "%d %s %d", a, op.sign, b)
				} else {
					require.EqualError(t, err, fmt.Sprintf("%d %s %d does not fit %d bits", a, op.sign, b, strconv.IntSize))
				}
			}
		}
	}
	require.PanicsWithError(t, fmt.Sprintf("sym: %d * 2 does not fit %d bits", math.MaxInt, strconv.IntSize),
		func() { Of(math.MaxInt).Mul(Of(2)) })
	require.PanicsWithValue(t, "other", func() {
		var err error
		defer Catch(&err)
		panic("other")
	})
}

// TestCasesThatLeaveAnInt is of a computation whose numbers leave an int in one of its cases.
func TestCasesThatLeaveAnInt(t *testing.T) {
	v := NewEnv()
	n, err := v.Symbol("N", 0, math.MaxInt, 3)
	require.NoError(t, err)
	cases, err := Fork(v, 8, func() (Int, error) {
		if n.Gt(Of(5)).Holds() {
			return Of(math.MaxInt).Add(Of(1)), nil
		}
		return n, nil
	})
	require.NoError(t, err)
	require.Len(t, cases, 2)
	require.NoError(t, cases[0].Err)
	require.ErrorContains(t, cases[1].Err, "does not fit")
}

// bigAt evaluates the text of an expression in integers of any size while it is parsed, independently of the package.
type bigAt struct {
	at map[string]int64
}

func (b bigAt) draw(rng *rand.Rand, depth int, v *Env) (Int, *big.Int) {
	names := []string{"a", "b", "c"}
	if depth == 0 || rng.IntN(4) == 0 {
		if rng.IntN(3) == 0 {
			n := int64(rng.IntN(9) - 4)
			return Of(int(n)), big.NewInt(n)
		}
		name := names[rng.IntN(3)]
		return v.symbols[name], big.NewInt(b.at[name])
	}
	x, p := b.draw(rng, depth-1, v)
	y, q := b.draw(rng, depth-1, v)
	switch rng.IntN(7) {
	case 0, 1:
		return x.Add(y), new(big.Int).Add(p, q)
	case 2:
		return x.Sub(y), new(big.Int).Sub(p, q)
	case 3, 4:
		return x.Mul(y), new(big.Int).Mul(p, q)
	case 5:
		if p.Cmp(q) < 0 {
			p = q
		}
		return x.Max(y), p
	default:
		d := int64(rng.IntN(5) + 2)
		return quotientOf2(x, d), bigFloorDiv(false, p, big.NewInt(d))
	}
}

func quotientOf2(x Int, d int64) Int {
	if _, number := x.Known(); number {
		return x.Div(Of(int(d)))
	}
	return quotientOf(x, Of(int(d)))
}

// TestValuesAreExact draws expressions and values of symbols up to the greatest int: values that fit are returned, and
// are right. An Evaluator agrees.
func TestValuesAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for range 3000 {
		v := NewEnv()
		b := bigAt{map[string]int64{}}
		at := Binding{}
		for _, name := range []string{"a", "b", "c"} {
			_, err := v.Symbol(name, math.MinInt, math.MaxInt, 1)
			require.NoError(t, err)
			n := rng.Int64N(1<<62) >> rng.IntN(62)
			b.at[name], at[name] = n, int(n)
		}
		x, want := b.draw(rng, 4, v)
		got, err := x.At(at)
		if want.IsInt64() && int64(int(want.Int64())) == want.Int64() {
			require.NoError(t, err, "%v at %v is %v", x, at, want)
			require.Equal(t, int(want.Int64()), got, "%v at %v", x, at)
		} else {
			refused++
			require.ErrorContains(t, err, want.String(), "%v at %v", x, at)
		}
		values := []int{at["a"], at["b"], at["c"]}
		conds := []Bool{x.Gt(Of(2)), x.Eq(Of(got))}
		e, bad := NewEvaluator([]string{"a", "b", "c"}, []Int{x}, conds)
		require.NoError(t, bad)
		sizes, bad := e.Sizes(nil, values)
		require.Equal(t, err == nil, bad == nil)
		if err == nil {
			require.Equal(t, []int{got}, sizes)
		}
		truths := e.Truths(nil, values)
		if len(truths) == 2 {
			require.Equal(t, want.Cmp(big.NewInt(2)) > 0, truths[0], "%v at %v", conds[0], at)
		}
	}
	assert.Greater(t, refused, 100)
}

// TestCatchDivision: a division by zero becomes an error.
func TestCatchDivision(t *testing.T) {
	for _, divide := range []func(a, b Int) Int{Int.Div, Int.Mod} {
		err := func() (err error) {
			defer Catch(&err)
			divide(Of(1), Int{})
			return nil
		}()
		require.EqualError(t, err, "division by zero")
	}
}
