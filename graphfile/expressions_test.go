package graphfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// expressions is a graph whose sizes, strides, offset and attributes are expressions.
const expressions = `{
  "version": 1,
  "symbols": {
    "N": {"min": 1, "max": 64},
    "W": {},
    "a-b": {}
  },
  "inputs": [
    {"name": "x", "dtype": "float32", "shape": ["N*2", "Max(1, W//2 + 1)", "a-b"], "offset": "N % 3"},
    {"name": "s", "dtype": "float32", "shape": [2, "N"], "strides": ["N + W", 1]},
    {"name": "l", "dtype": "float32", "shape": ["N", 3, "W - 1", 2], "memory_format": "channels_last"}
  ],
  "nodes": [
    {"name": "e", "op": "expand", "inputs": ["s"], "attrs": {"size": ["N*W", 2, "N"]}}
  ],
  "outputs": [
    "e"
  ]
}
`

func TestExpressionsAreBound(t *testing.T) {
	g := mustLoad(t, expressions)
	for _, c := range []struct {
		sizes map[string]int
		want  string
	}{
		{map[string]int{"N": 4, "W": 5, "a-b": 3},
			"float32[8,3,3]@(9,3,1)+1 float32[2,4]@(9,1) float32[4,3,4,2]@(24,1,6,3) float32[20,2,4]@(0,9,1)"},
		{map[string]int{"N": 1, "W": 1},
			"float32[2,1,2]@(2,2,1)+1 float32[2,1]@(2,1) float32[1,3,0,2]@(0,1,6,3) float32[1,2,1]@(4,2,1)"},
		{map[string]int{"W": 0}, `g.json:11:5: input "l": negative size -1 of dimension 2`},
	} {
		err := g.Bind(c.sizes)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(g.Value("x").Meta, g.Value("s").Meta, g.Value("l").Meta, g.Value("e").Meta)
		}
		assert.Equal(t, c.want, got)
	}
}

func TestExpressionsAreSaved(t *testing.T) {
	g := mustLoad(t, expressions)
	require.Equal(t, expressions, save(t, g))
	require.NoError(t, g.Bind(map[string]int{"N": 4, "W": 5}))
	require.Equal(t, expressions, save(t, g), "bound")
	s, err := g.Symbolic(map[string]int{"N": 3, "W": 9})
	require.NoError(t, err)
	require.Equal(t, expressions, save(t, s.Graph), "symbolic")
}

func TestExpressionsStaySymbolic(t *testing.T) {
	s, err := mustLoad(t, expressions).Symbolic(map[string]int{"W": 9})
	require.NoError(t, err)
	assert.Equal(t, "float32[2*N,W//2 + 1,a_b]@((W//2)*Max(1, a_b) + Max(1, a_b),Max(1, a_b),1)+N % 3",
		s.Graph.Value("x").Type.String())
	// The size of this expand is a list of numbers.
	assert.Equal(t, "float32[18,2,2]@(0,11,1)", s.Graph.Value("e").Type.String())
	var guards []string
	for _, g := range s.Guards {
		guards = append(guards, fmt.Sprint(g.Cond, g.Binds))
	}
	assert.Equal(t, []string{"Le(0, W - 1) []", "Eq(N*W, 18) []", "Eq(N, 2) [N W]"}, guards)
	assert.True(t, s.Holds(map[string]int{"N": 2, "W": 9, "a-b": 0}))
	assert.False(t, s.Holds(map[string]int{"N": 3, "W": 9, "a-b": 0}))
}

func TestBadExpressions(t *testing.T) {
	for wrong, want := range map[string]string{
		`"N*"`:           `2:56: input "x": shape: expression "N*", column 3: the text ends where a number, a symbol or "(" is expected`,
		`"N + (M"`:       `2:56: input "x": shape: expression "N + (M", column 7: ")" is missing at the end`,
		`"Max(N, )"`:     `2:56: input "x": shape: expression "Max(N, )", column 8: ")" is unexpected; want integers, symbols`,
		`"N / 2"`:        `2:56: input "x": shape: expression "N / 2", column 3: "/" is unexpected`,
		`"N // (3 - 3)"`: `2:56: input "x": shape: expression "N // (3 - 3)", column 3: division by zero`,
		`"65536*65536*65536*65536 + N"`: `2:56: input "x": shape: expression "65536*65536*65536*65536 + N", column 18: ` +
			`281474976710656 * 65536 does not fit 64 bits`,
		`"N*999999999999999"`: `2:12: input "x": expression "N*999999999999999" is 1999999999999998`,
	} {
		text := strings.Replace(sizes(`[SIZE, 3]`), "SIZE", wrong, 1)
		text = strings.Replace(text, `"version": 1,`, `"version": 1, "symbols": {"N": {}},`, 1)
		_, err := load(text)
		assert.ErrorContains(t, err, want)
	}
}
