package sym_test

import (
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

// What is printed is read back as the same expression.
func TestParseWhatIsPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, leaves, at := setting(t)
		p := draw(t, leaves, 3)
		got, err := sym.Parse(pythonPowers(p.e.String()), names(leaves))
		require.NoError(t, err, "%v", p.e)
		n, err := got.At(at)
		require.NoError(t, err)
		require.Equal(t, p.n, n, "%v read as %v", p.e, got)
	})
}

// pythonPowers writes x**3 as x*x*x: powers are no part of the syntax of graph files.
func pythonPowers(s string) string {
	out := ""
	for i := 0; i < len(s); i++ {
		if i+2 < len(s) && s[i:i+2] == "**" {
			begin := i
			if s[i-1] == ')' {
				for depth := 0; ; {
					begin--
					if s[begin] == ')' {
						depth++
					} else if s[begin] == '(' {
						if depth--; depth == 0 {
							break
						}
					}
				}
			}
			for begin > 0 && s[begin-1] >= 'A' && s[begin-1] <= 'z' {
				begin--
			}
			for range s[i+2] - '1' {
				out += "*" + s[begin:i]
			}
			i += 2
			continue
		}
		out += s[i : i+1]
	}
	return out
}

func TestParse(t *testing.T) {
	env := sym.NewEnv()
	n, err := env.Symbol("N", 1, 64, 8)
	require.NoError(t, err)
	lookup := func(name string) (sym.Int, bool) { return n, name == "N" }
	for text, want := range map[string]string{
		"3": "3", "N*2+1": "2*N + 1", " ( N + 1 ) // 2 ": "(N + 1)//2", "-N": "-N", "N - -1": "N + 1",
		"Max(N, 1, 3)": "Max(3, N)", "Min(N, 100)": "N", "7 // 2 * 2": "6", "-7 % 4": "1", "8 - 2 - 1": "5",
	} {
		got, err := sym.Parse(text, lookup)
		require.NoError(t, err, text)
		assert.Equal(t, want, got.String(), text)
	}
	for text, want := range map[string]string{
		"":                     `expression "", column 1: it ends where a number, a symbol or ( should stand`,
		"N+":                   `expression "N+", column 3: it ends where a number, a symbol or ( should stand`,
		"N M":                  `expression "N M", column 3: "M" is unexpected`,
		"N/2":                  `expression "N/2", column 2: "/" is unexpected`,
		"2*M":                  `expression "2*M", column 3: there is no symbol "M"`,
		"(N":                   `expression "(N", column 3: ")" is missing at the end`,
		"Max(N":                `expression "Max(N", column 6: ")" is missing at the end`,
		"Max N":                `expression "Max N", column 5: "N" is unexpected; want "("`,
		"N // 0":               `expression "N // 0", column 3: division by zero`,
		"N % (3-3)":            `expression "N % (3-3)", column 3: division by zero`,
		"2x":                   `expression "2x", column 1: 2x is no integer that fits 64 bits`,
		"99999999999999999999": `expression "99999999999999999999", column 1: 99999999999999999999 is no integer that fits 64 bits`,
		"$":                    `expression "$", column 1: "$" is unexpected; want integers, symbols, + - * // %, Max(a, b) and Min(a, b)`,
	} {
		_, err := sym.Parse(text, lookup)
		assert.EqualError(t, err, want)
	}
	deep := ""
	for range 100000 {
		deep += "("
	}
	_, err = sym.Parse(deep, lookup)
	assert.ErrorContains(t, err, "more than 200 nested parts")
}

func FuzzParse(f *testing.F) {
	f.Add("Max(1, x)*5 - y//2 % 3")
	f.Fuzz(func(t *testing.T, text string) {
		env := sym.NewEnv()
		x, err := env.Symbol("x", 0, 100, 3)
		require.NoError(t, err)
		_, _ = sym.Parse(text, func(name string) (sym.Int, bool) { return x, name == "x" })
	})
}
