package sym_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/sym"
)

func names(pairs []pair) func(string) (sym.Int, bool) {
	return func(name string) (sym.Int, bool) {
		for i, r := range ranges {
			if r.name == name {
				return pairs[i].e, true
			}
		}
		return sym.Int{}, false
	}
}

// The printed form is parsed to the same expression.
func TestParseWhatIsPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, leaves, at := setting(t)
		p := draw(t, leaves, 3)
		got, err := sym.Parse(p.e.String(), names(leaves))
		require.NoError(t, err, "%v", p.e)
		require.True(t, got.Same(p.e), "%v read as %v", p.e, got)
		n, err := got.At(at)
		require.NoError(t, err)
		require.Equal(t, p.n, n, "%v read as %v", p.e, got)
		b := drawTruth(t, leaves)
		read, err := sym.ParseBool(b.b.String(), names(leaves))
		require.NoError(t, err, "%v", b.b)
		require.True(t, read.Same(b.b), "%v read as %v", b.b, read)
	})
}

func TestParse(t *testing.T) {
	env := sym.NewEnv()
	n, err := env.Symbol("N", 1, 64, 8)
	require.NoError(t, err)
	lookup := func(name string) (sym.Int, bool) { return n, name == "N" }
	for text, want := range map[string]string{
		"3": "3", "N*2+1": "2*N + 1", " ( N + 1 ) // 2 ": "(N + 1)//2", "-N": "-N", "N - -1": "N + 1",
		"Max(N, 1, 3)": "Max(3, N)", "Min(N, 100)": "N", "7 // 2 * 2": "6", "-7 % 4": "1", "8 - 2 - 1": "5",
		"N**64": "N**64", "N**10 * N**57": "N**64*N**3",
		"0 - 9223372036854775808": "-9223372036854775808", "-9223372036854775808 // 3": "-3074457345618258603",
		"9223372036854775807 - 9223372036854775808": "-1", "Max(N, 5 - 9223372036854775808) + 1": "N + 1",
	} {
		got, err := sym.Parse(text, lookup)
		require.NoError(t, err, text)
		assert.Equal(t, want, got.String(), text)
	}
	for text, want := range map[string]string{
		"":                     `expression "", column 1: the text ends where a number, a symbol or "(" is expected`,
		"N+":                   `expression "N+", column 3: the text ends where a number, a symbol or "(" is expected`,
		"N M":                  `expression "N M", column 3: "M" is unexpected`,
		"N/2":                  `expression "N/2", column 2: "/" is unexpected`,
		"2*M":                  `expression "2*M", column 3: there is no symbol "M"`,
		"M+":                   `expression "M+", column 3: the text ends where a number, a symbol or "(" is expected`,
		"(N":                   `expression "(N", column 3: ")" is missing at the end`,
		"Max(N":                `expression "Max(N", column 6: ")" is missing at the end`,
		"Max N":                `expression "Max N", column 5: "N" is unexpected; want "("`,
		"N // 0":               `expression "N // 0", column 3: division by zero`,
		"N % (3-3)":            `expression "N % (3-3)", column 3: division by zero`,
		"2x":                   `expression "2x", column 1: 2x does not fit 64 bits`,
		"99999999999999999999": `expression "99999999999999999999", column 1: 99999999999999999999 does not fit 64 bits`,
		"$":                    `expression "$", column 1: "$" is unexpected; want integers, symbols, + - * // % **, Max(a, b), Min(a, b) and Where(condition, a, b)`,
		"N**65":                `expression "N**65", column 4: want an exponent from 0 to 64, got "65"`,
		"Where(N, 1, 2)":       `expression "Where(N, 1, 2)", column 7: "N" is unexpected; want Eq, Ge, Gt, Le, Lt, Ne of two expressions, True, False, ~ or (`,
		"Where(True, 1":        `expression "Where(True, 1", column 14: "," is missing at the end`,
		"9223372036854775808":  `expression "9223372036854775808", column 1: 9223372036854775808 does not fit 64 bits`,

		"-1 - 9223372036854775808":     `expression "-1 - 9223372036854775808", column 4: -1 + -9223372036854775808 does not fit 64 bits`,
		"N - 9223372036854775808":      `expression "N - 9223372036854775808", column 3: N + -9223372036854775808 does not fit 64 bits`,
		"0 + 9223372036854775808":      `expression "0 + 9223372036854775808", column 5: 9223372036854775808 does not fit 64 bits`,
		"1 - 9223372036854775808 // 3": `expression "1 - 9223372036854775808 // 3", column 5: 9223372036854775808 does not fit 64 bits`,
		"1 - 9223372036854775808**0":   `expression "1 - 9223372036854775808**0", column 5: 9223372036854775808 does not fit 64 bits`,
		"-9223372036854775808**0":      `expression "-9223372036854775808**0", column 2: 9223372036854775808 does not fit 64 bits`,
	} {
		_, err := sym.Parse(text, lookup)
		assert.EqualError(t, err, want)
	}
	_, err = sym.Parse(strings.Repeat("(", 100000), lookup)
	assert.ErrorContains(t, err, "more than 200 nested parts")
}

func TestParseBool(t *testing.T) {
	env := sym.NewEnv()
	n, m := at(t, env, "N", 0, 64, 8), at(t, env, "M", 0, 64, 8)
	lookup := func(name string) (sym.Int, bool) {
		return map[string]sym.Int{"N": n, "M": m}[name], name == "N" || name == "M"
	}
	for text, want := range map[string]string{
		"True": "True", "~True": "False", "Eq(N, 3)": "Eq(N, 3)", "Ge(N, M)": "Le(M, N)", "Gt(N+1, 2*M)": "Lt(2*M, N + 1)",
		"~(Eq(N, 3) | Lt(N, M))":         "Le(M, N) & Ne(N, 3)",
		"Eq(N, 1) & Ne(M, 2) | Lt(N, M)": "Lt(N, M) | (Eq(N, 1) & Ne(M, 2))",
		"(Le(N, 64))":                    "True",
	} {
		got, err := sym.ParseBool(text, lookup)
		require.NoError(t, err, text)
		assert.Equal(t, want, got.String(), text)
	}
	for text, want := range map[string]string{
		"":                  `expression "", column 1: the text ends where a condition is expected`,
		"N":                 `expression "N", column 1: "N" is unexpected; want Eq, Ge, Gt, Le, Lt, Ne of two expressions, True, False, ~ or (`,
		"Eq(N)":             `expression "Eq(N)", column 5: ")" is unexpected; want ","`,
		"Eq N":              `expression "Eq N", column 4: "N" is unexpected; want "("`,
		"Eq(N, 1) Eq(N, 2)": `expression "Eq(N, 1) Eq(N, 2)", column 10: "Eq" is unexpected`,
		"Eq(N, 1) &":        `expression "Eq(N, 1) &", column 11: the text ends where a condition is expected`,
		"Eq(N, K)":          `expression "Eq(N, K)", column 7: there is no symbol "K"`,
		"(True":             `expression "(True", column 6: ")" is missing at the end`,
	} {
		_, err := sym.ParseBool(text, lookup)
		assert.EqualError(t, err, want)
	}
	_, err := sym.ParseBool(strings.Repeat("~", 100000), lookup)
	assert.ErrorContains(t, err, "more than 200 nested parts")
	assert.Empty(t, env.Guards())
}

func fuzzed(t *testing.T) func(name string) (sym.Int, bool) {
	env := sym.NewEnv()
	x, y := at(t, env, "x", 0, 100, 3), at(t, env, "y", math.MinInt, math.MaxInt, -7)
	return func(name string) (sym.Int, bool) {
		return map[string]sym.Int{"x": x, "y": y}[name], name == "x" || name == "y"
	}
}

func FuzzParse(f *testing.F) {
	f.Add("Max(1, x)*5 - y//2 % 3")
	f.Add("Where(Lt(x, y) | Eq(x % 4, 0), x**2, -9223372036854775808)")
	f.Add("x**10*x**57")
	f.Fuzz(func(t *testing.T, text string) {
		names := fuzzed(t)
		v, err := sym.Parse(text, names)
		if err != nil {
			return
		}
		again, err := sym.Parse(v.String(), names)
		require.NoError(t, err, "%q", v)
		require.True(t, again.Same(v), "%q is read as %q", v, again)
	})
}

func FuzzParseBool(f *testing.F) {
	f.Add("Eq(x, 1) & ~Lt(y, Max(x, 3)) | Ne(x*y, 0)")
	f.Fuzz(func(t *testing.T, text string) {
		names := fuzzed(t)
		b, err := sym.ParseBool(text, names)
		if err != nil {
			return
		}
		again, err := sym.ParseBool(b.String(), names)
		require.NoError(t, err, "%q", b)
		require.True(t, again.Same(b), "%q is read as %q", b, again)
	})
}
