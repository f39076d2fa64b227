package text_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// runtime is a run with strings.
type runtime struct {
	graph.Reference
	texts *tensor.Texts
}

func (r runtime) Context() context.Context { return context.Background() }

func (r runtime) Texts() *tensor.Texts { return r.texts }

// run runs an op on a vector of strings.
func run(name string, attrs graph.Attrs, list ...string) ([]*tensor.Tensor, *tensor.Texts, error) {
	op, texts := kernels.Lookup(name), tensor.NewTexts([]string{"listed"})
	codes := make([]int64, len(list))
	for i, s := range list {
		codes[i] = texts.Code(s)
	}
	x := tensor.Must(tensor.FromSlice(codes, len(codes)))
	decoded, err := op.Schema.Decode(attrs, nil)
	if err != nil {
		return nil, nil, err
	}
	call := &graph.Call{Attrs: decoded,
		In: []graph.Arg{{Kind: graph.TensorArg, Value: &graph.Value{Name: "x", Meta: x.Meta}}}}
	if _, err := op.Infer(call); err != nil {
		return nil, nil, err
	}
	out, err := op.RunDynamic(runtime{texts: texts}, call, []*tensor.Tensor{x})
	return out, texts, err
}

// TestMistakes: a string that is no number of the dtype, a code without a string, a pattern that is none, and operands
// that are no codes are errors that name them.
func TestMistakes(t *testing.T) {
	for want, number := range map[string]struct {
		text  string
		dtype tensor.DType
	}{
		`the string "1x" is not a number`:                     {"1x", tensor.Float32},
		`the string "" is not a number`:                       {"", tensor.Int64},
		`the string "0x10" is not a number`:                   {"0x10", tensor.Float64},
		`the string "1_0" is not a number`:                    {"1_0", tensor.Int32},
		`the string "128" is out of the range of int8`:        {"128", tensor.Int8},
		`the string "-1" is out of the range of uint64`:       {"-1", tensor.Uint64},
		`the string "nan" is out of the range of int32`:       {"nan", tensor.Int32},
		`the string "2e19" is out of the range of uint64`:     {"2e19", tensor.Uint64},
		`string_to_number: complex numbers are not supported`: {"1", tensor.Complex64},
	} {
		_, _, err := run("string_to_number", graph.Attrs{"dtype": number.dtype}, "5", number.text)
		require.ErrorContains(t, err, want)
	}
	_, _, err := run("string_full_match", graph.Attrs{"pattern": "(a"}, "a")
	require.ErrorContains(t, err, "missing closing )")
	_, _, err = run("string_full_match", graph.Attrs{"pattern": "a)|(?:b"}, "a")
	require.ErrorContains(t, err, "unexpected )")

	op := kernels.Lookup("string_split")
	attrs, err := op.Schema.Decode(nil, nil)
	require.NoError(t, err)
	for want, x := range map[string]*tensor.Tensor{
		"element 1 is 7, which stands for no string":           tensor.Must(tensor.FromSlice([]int64{0, 7}, 2)),
		"element 0 is -5, which stands for no string":          tensor.Must(tensor.FromSlice([]int64{-5}, 1)),
		"operand 0 has dtype float32: strings are int64 codes": tensor.Zeros(tensor.Float32, 2),
	} {
		call := &graph.Call{Attrs: attrs,
			In: []graph.Arg{{Kind: graph.TensorArg, Value: &graph.Value{Name: "x", Meta: x.Meta}}}}
		_, err := op.Infer(call)
		if err == nil {
			_, err = op.RunDynamic(runtime{texts: tensor.NewTexts([]string{"listed"})}, call, []*tensor.Tensor{x})
		}
		require.ErrorContains(t, err, want)
	}
}

// TestIntegers: truncated decimals and the ends of the ranges.
func TestIntegers(t *testing.T) {
	out, _, err := run("string_to_number", graph.Attrs{"dtype": tensor.Int64}, "100.5", "-2.9", "9223372036854775807",
		"-9223372036854775808", " 1e3\n")
	require.NoError(t, err)
	require.Equal(t, []int64{100, -2, 1<<63 - 1, -1 << 63, 1000}, tensor.Data[int64](out[0]))
	out, _, err = run("string_to_number", graph.Attrs{"dtype": tensor.Uint64}, "18446744073709551615", "1e19")
	require.NoError(t, err)
	require.Equal(t, []uint64{1<<64 - 1, 1e19}, tensor.Data[uint64](out[0]))
}

// TestLetters: Turkish has letters of its own, and case_change_action none keeps all.
func TestLetters(t *testing.T) {
	for locale, want := range map[string]string{"en_US": "TITLE", "tr_TR": "TİTLE", "": "TITLE"} {
		out, texts, err := run("string_normalize", graph.Attrs{"case": "upper", "locale": locale}, "title")
		require.NoError(t, err)
		text, _ := texts.Text(tensor.Data[int64](out[0])[0])
		require.Equal(t, want, text)
	}
	out, _, err := run("string_normalize", nil)
	require.NoError(t, err)
	require.Equal(t, []int{0}, out[0].Shape)
	_, _, err = run("string_normalize", graph.Attrs{"case": "title"}, "a")
	require.ErrorContains(t, err, "none")
}

// TestSpace: with and without a limit, a string is divided at the same white space.
func TestSpace(t *testing.T) {
	for _, attrs := range []graph.Attrs{nil, {"maxsplit": 9}} {
		out, texts, err := run("string_split", attrs, " a\u00a0b\tc\u3000 ")
		require.NoError(t, err)
		var pieces []string
		for _, code := range tensor.Data[int64](out[0]) {
			piece, _ := texts.Text(code)
			pieces = append(pieces, piece)
		}
		require.Equal(t, []string{"a", "b", "c"}, pieces)
	}
}

// TestFloats: a decimal slightly above the middle of two float32 is rounded up, although the float64 next to it is the
// middle.
func TestFloats(t *testing.T) {
	out, _, err := run("string_to_number", graph.Attrs{"dtype": tensor.Float32}, "1.00000005960464477539062500001")
	require.NoError(t, err)
	require.Equal(t, []float32{1 + 0x1p-23}, tensor.Data[float32](out[0]))
}
