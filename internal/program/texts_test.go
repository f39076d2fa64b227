package program

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// TestTextsOfResults: results have the strings of their elements, also two results in the same memory, but not those of
// earlier runs, whose results were inputs. A result in the memory of an input keeps the strings of the input.
func TestTextsOfResults(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Int64, 2)
	y := g.Apply("string_concat", nil, x, x)[0]
	g.Output("y", y)
	g.Output("first", op.Narrow(y, 0, 0, 1))
	g.Output("last", op.Narrow(x, 0, 1, 1))
	g.Texts = tensor.NewTexts(nil)
	text := graph.Labels{Texts: g.Texts}
	g.Labels = map[string]graph.Labels{"x": text, "y": text, "first": text, "last": text}
	p, err := Compile(t.Context(), g, Options{})
	require.NoError(t, err)
	in, err := text.Encode([]string{"a", "b"}, 2)
	require.NoError(t, err)
	out, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": in})
	require.NoError(t, err)
	again, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": out["y"]})
	require.NoError(t, err)
	for want, result := range map[string]*tensor.Tensor{"aa": out["first"], "b": out["last"], "aaaa": again["first"],
		"bb": again["last"]} {
		list, err := text.Decode(result)
		require.NoError(t, err)
		require.Equal(t, []string{want}, list)
	}
	for whole, want := range map[*tensor.Tensor][]string{in: {"a", "b"}, out["y"]: {"aa", "bb"},
		again["y"]: {"aaaa", "bbbb"}} {
		list, err := text.Decode(whole)
		require.NoError(t, err)
		require.Equal(t, want, list)
	}
	_, known := again["y"].Texts().Text(text.Texts.With().Code("a"))
	require.False(t, known)
}
