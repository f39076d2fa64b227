package sorted

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKeys(t *testing.T) {
	assert.Equal(t, []string{"", "a", "b", "c"}, Keys(map[string]int{"c": 1, "a": 3, "": 0, "b": 2}))
	assert.Equal(t, []string{}, Keys[int](nil))
}

func TestStrings(t *testing.T) {
	list := []string{"x", "b", "a", "b"}
	Strings(list)
	assert.Equal(t, []string{"a", "b", "b", "x"}, list)
	Strings(nil)
}

func TestNumbers(t *testing.T) {
	ints := []int{3, -1, 2}
	Ints(ints)
	assert.Equal(t, []int{-1, 2, 3}, ints)
	floats := []float64{1, math.Inf(-1), 0.5}
	Floats(floats)
	assert.Equal(t, []float64{math.Inf(-1), 0.5, 1}, floats)
}

func TestFunc(t *testing.T) {
	type pair struct{ key, position int }
	list := make([]pair, 1000)
	for i := range list {
		list[i] = pair{i * 7 % 10, i}
	}
	want := slices.Clone(list)
	slices.SortStableFunc(want, func(a, b pair) int { return a.key - b.key })
	Func(list, func(a, b pair) int { return a.key - b.key })
	assert.Equal(t, want, list)
}
