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

func ExampleInt_Trend() {
	var env sym.Env
	h, _ := env.Symbol("H", 0, math.MaxInt, 8)
	for _, a := range []sym.Int{h.Div(sym.Of(2)).Add(sym.Of(1)), sym.Of(100).Sub(h), h.Mod(sym.Of(3))} {
		sign, ok := a.Trend("H")
		fmt.Println(a, sign, ok)
	}
	// Output:
	// H//2 + 1 1 true
	// -H + 100 -1 true
	// H % 3 0 false
}

func TestTrends(t *testing.T) {
	for text, want := range map[string]int{"x*y": 1, "Max(x, 3)*x": 1, "7 - x//2": -1, "40//(x + 1)": -1, "y": 0, "x*x": 1,
		"Min(x, y) + x//3": 1} {
		env := sym.NewEnv()
		a, err := sym.Parse(text, func(name string) (sym.Int, bool) {
			s, err := env.Symbol(name, 0, 50, 3)
			return s, err == nil
		})
		require.NoError(t, err)
		sign, ok := a.Trend("x")
		assert.True(t, ok, text)
		assert.Equal(t, want, sign, text)
	}
}

// TestTrendsHold checks that no values contradict a known trend.
func TestTrendsHold(t *testing.T) {
	told := 0
	rapid.Check(t, func(t *rapid.T) {
		_, leaves, b := setting(t)
		a := draw(t, leaves, 3).e
		sign, ok := a.Trend("x")
		if !ok {
			return
		}
		told++
		before := 0
		for x := ranges[0].lo; x <= ranges[0].hi; x++ {
			b["x"] = x
			n, err := a.At(b)
			if err != nil {
				return // a division by zero
			}
			switch d := n - before; {
			case x == ranges[0].lo:
			case sign == 0 && d != 0, sign > 0 && d < 0, sign < 0 && d > 0:
				t.Fatalf("%v is said to have the trend %d, and is %d after %d at %v", a, sign, n, before, b)
			}
			before = n
		}
	})
	require.Positive(t, told)
}
