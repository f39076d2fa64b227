package sym_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/sym"
)

// TestTranslate computes expressions by Go's arithmetic and compares with [sym.Int.At].
func TestTranslate(t *testing.T) {
	env := sym.NewEnv()
	x, err := env.Symbol("x", 0, 1<<30, 3)
	require.NoError(t, err)
	y, err := env.Symbol("y", -100, 1<<30, 5)
	require.NoError(t, err)
	two := sym.Of(2)
	expressions := []sym.Int{sym.Of(7), x, x.Add(y).Mul(x).Sub(sym.Of(4)), x.Neg().Div(two).Neg(), y.Mod(sym.Of(3)),
		x.Max(y).Min(sym.Of(9)), sym.Where(x.Lt(y).And(y.Ne(two)), x.Div(two), y.Mul(y)),
		sym.Where(x.Eq(y).Or(x.Ge(sym.Of(6))), two, x)}
	bool2int := map[bool]int{true: 1}
	for _, values := range []sym.Binding{{"x": 0, "y": -7}, {"x": 3, "y": 3}, {"x": 11, "y": 2}, {"x": 5, "y": 40}} {
		arithmetic := sym.Arithmetic[int]{Number: func(n int) int { return n },
			Symbol: func(name string) (int, error) { return values[name], nil },
			Apply: func(function string, o ...int) int {
				switch function {
				case "add":
					return o[0] + o[1]
				case "mul":
					return o[0] * o[1]
				case "floor_div", "mod":
					remainder := (o[0]%o[1] + o[1]) % o[1] // the divisors are positive
					return map[bool]int{false: (o[0] - remainder) / o[1], true: remainder}[function == "mod"]
				case "max":
					return max(o[0], o[1])
				case "min":
					return min(o[0], o[1])
				case "where":
					if o[0] != 0 {
						return o[1]
					}
					return o[2]
				case "eq":
					return bool2int[o[0] == 0]
				case "ne":
					return bool2int[o[0] != 0]
				case "ge":
					return bool2int[o[0] >= 0]
				case "and":
					return o[0] & o[1]
				case "or":
					return o[0] | o[1]
				}
				panic(function)
			}}
		for _, expression := range expressions {
			want, err := expression.At(values)
			require.NoError(t, err)
			got, err := sym.Translate(expression, arithmetic)
			require.NoError(t, err)
			require.Equal(t, want, got, "%v at %v", expression, values)
		}
	}
	unknown := errors.New("unknown")
	_, err = sym.Translate(x.Add(sym.Of(1)), sym.Arithmetic[string]{Number: func(n int) string { return fmt.Sprint(n) },
		Symbol: func(string) (string, error) { return "", unknown },
		Apply:  func(f string, o ...string) string { return f }})
	require.ErrorIs(t, err, unknown)
}
