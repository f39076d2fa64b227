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

// TestTextsOfOtherGraph: an input whose codes are those of another graph is encoded anew, so that models can be chained.
func TestTextsOfOtherGraph(t *testing.T) {
	programOf := func(list ...string) (*Program, graph.Labels) {
		g := graph.New("g", kernels.Lookup)
		x, k := g.Input("x", tensor.Int64, 2), tensor.Must(tensor.FromSlice([]int64{0}))
		g.Output("y", g.Apply("string_concat", nil, x, g.Constant("k", k))[0])
		g.Output("same", op.Eq(x, g.Constant("l", k)))
		g.Texts = tensor.NewTexts(list)
		text := graph.Labels{Texts: g.Texts}
		g.Labels = map[string]graph.Labels{"x": text, "y": text}
		p, err := Compile(t.Context(), g, Options{})
		require.NoError(t, err)
		return p, text
	}
	first, texts := programOf("-t")
	second, otherTexts := programOf("!", "other")
	in, err := texts.Encode([]string{"-t", "!"}, 2)
	require.NoError(t, err)
	out, err := second.Run(t.Context(), map[string]*tensor.Tensor{"x": in})
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, tensor.Data[bool](out["same"]))
	list, err := otherTexts.Decode(out["y"])
	require.NoError(t, err)
	require.Equal(t, []string{"-t!", "!!"}, list)
	y := map[string]*tensor.Tensor{"y": tensor.Zeros(tensor.Int64, 2)}
	require.NoError(t, first.RunInto(t.Context(), map[string]*tensor.Tensor{"x": out["y"]}, y))
	list, err = texts.Decode(y["y"])
	require.NoError(t, err)
	require.Equal(t, []string{"-t!-t", "!!-t"}, list)
	in.SetTexts(otherTexts.Texts)
	for i, code := range []int64{0, 7} {
		tensor.Data[int64](in)[i] = code
	}
	_, err = first.Run(t.Context(), map[string]*tensor.Tensor{"x": in})
	require.ErrorContains(t, err, `input "x": element 1 is 7, which stands for no string`)
}
