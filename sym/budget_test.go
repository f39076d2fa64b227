package sym

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// broadcasts returns a chain of broadcast sizes, each of the two before it.
func broadcasts(t *testing.T, v *Env, n int) Int {
	t.Helper()
	a, err := v.Symbol("a", 1, 1<<20, 3)
	require.NoError(t, err)
	b, err := v.Symbol("b", 1, 1<<20, 3)
	require.NoError(t, err)
	for range n {
		a, b = b, Where(a.Eq(Of(1)), b, a)
	}
	return b
}

// TestStepsOfNestedConditions asks about expressions with nested conditions, which took exponential time.
func TestStepsOfNestedConditions(t *testing.T) {
	for _, n := range []int{4, 8, 16, 40} {
		v := NewEnv()
		e := broadcasts(t, v, n)
		for k := range 6 {
			before := v.Steps()
			e.Ne(Of(k)).Holds()
			assert.LessOrEqual(t, v.Steps()-before, 2*questionSteps, "%d broadcasts, question %d", n, k)
		}
		got, err := e.At(Binding{"a": 1, "b": 7})
		require.NoError(t, err)
		assert.Equal(t, 7, got)
	}
}

// TestStepsEnd checks that the answer is "unknown" once no steps are left, and right otherwise.
func TestStepsEnd(t *testing.T) {
	v := NewEnv()
	v.init()
	v.facts.stepsSpent = envSteps
	e := broadcasts(t, v, 12)
	require.NoError(t, v.Assume(e.Gt(Of(2))))
	before := v.Steps()
	truth, known := e.Gt(Of(2)).Known()
	assert.True(t, truth && known)
	assert.LessOrEqual(t, v.Steps()-before, fewSteps)
	for _, c := range []Bool{e.Eq(Of(5)), e.Ne(Of(2)), e.Gt(Of(1))} {
		before = v.Steps()
		truth, known = c.Known()
		assert.LessOrEqual(t, v.Steps()-before, fewSteps)
		for a := 1; a < 8 && known; a++ {
			for b := 1; b < 8; b++ {
				if in, err := e.Gt(Of(2)).At(Binding{"a": a, "b": b}); err == nil && in {
					is, err := c.At(Binding{"a": a, "b": b})
					require.NoError(t, err)
					assert.Equal(t, truth, is, "%v at %d, %d", c, a, b)
				}
			}
		}
	}
}

// TestLargeExpressionsPrint checks that printing and walking an expression with shared parts is bounded.
func TestLargeExpressionsPrint(t *testing.T) {
	v := NewEnv()
	e := broadcasts(t, v, 80)
	assert.Contains(t, e.String(), "an expression of")
	assert.Contains(t, fmt.Sprint(e.Eq(Of(2))), "a condition of")
	assert.Greater(t, e.Size(), maxPrinted)
	sign, ok := e.Trend("a")
	assert.False(t, ok, "%d", sign)
	got, err := e.At(Binding{"a": 1, "b": 1})
	require.NoError(t, err)
	assert.Equal(t, 1, got)
}
