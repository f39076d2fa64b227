package expr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// TestCanonicalText prints formulas, and parses what was printed.
func TestCanonicalText(t *testing.T) {
	for text, want := range map[string]string{
		"x+y*2":                             "x + y * 2",
		"(x+y)*2":                           "(x + y) * 2",
		"x-(y-z)-1":                         "x - (y - z) - 1",
		"-x**2":                             "-x ** 2",
		"(-x)**-y**z":                       "(-x) ** -y ** z",
		"((x**y))**z":                       "(x ** y) ** z",
		"not x<y and y<z or (x or y) and z": "not x < y and y < z or (x or y) and z",
		"(x<y)==(y<z)":                      "(x < y) == (y < z)",
		"~x&y|z^x<<2>>1":                    "~x & y | z ^ x << 2 >> 1",
		"x//y%z/.5":                         "x // y % z / 0.5",
		"t=x*x ; where( t>1,t,x )":          "t = x * x; where(t > 1, t, x)",
		"(x+y, x-y)":                        "(x + y, x - y)",
		"(x,)":                              "(x,)",
		"+x - -y":                           "+x - -y",
		"1e30*x+1e-7+0x1F+2.0+3j":           "1e+30 * x + 1e-07 + 31 + 2.0 + 3j",
		"where(True, inf, nan)":             "where(True, inf, nan)",
		"not (not x)":                       "not not x",
		"-(x+y)":                            "-(x + y)",
	} {
		f, err := expr.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := f.String(); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		again, err := expr.Parse(want)
		if err != nil || again.String() != want {
			t.Errorf("%s: read again: %v, %v", want, again, err)
		}
	}
}

// TestMistakes tells columns and what was meant.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"t = x +\n  sigmod(x); t": `line 2, column 3: unknown function "sigmod"; did you mean sigmoid?`,
		"t = x;\n\n(t + é":        `line 3, column 6: there is no operator 'é'`,
		"x +\n (y":                `line 2, column 4: ")" is missing for the ( of line 2, column 2: the text ends`,
		"x + sigmod(x)":           `column 5: unknown function "sigmod"; did you mean sigmoid?`,
		"x + ":                    "column 5: an operand is missing: the text ends",
		"":                        "column 1: an expression is missing: the text ends",
		"x y":                     `column 3: an operator is missing before "y"`,
		"(x + y":                  `column 7: ")" is missing for the ( of column 1: the text ends`,
		"where(x, y)":             "column 1: where takes 3 operands, not 2",
		"exp(x, y)":               "column 1: exp takes one operand, not 2",
		"softplus(x, 1, 2, 3)":    "column 1: softplus takes 1 to 3 operands, not 4",
		"x < y < z":               "column 7: comparisons do not chain; write a < b and b < c",
		"x § y":                   "column 3: there is no operator '§'",
		"t = x; t = y; t":         "column 8: t is defined already",
		"t = t + x; t":            "column 1: t is defined by itself",
		"x = y; x":                "column 1: x is defined already",
		"u1 = t + x; t = x; u1":   "column 13: t is used before it is defined",
		"t = x":                   `column 6: ";" is missing after the value of t: the text ends`,
		"t = x;":                  "column 7: an expression is missing: the text ends",
		"x + 1.2.3":               "column 5: 1.2.3 is not a number",
		"x + 99999999999999999999": "column 5: 99999999999999999999 does not fit an integer of 64 bits, " +
			"or begins with 0",
		"1e999 * x":               "column 1: 1e999 is outside the range of float64",
		"x + 1 = y; x":            "column 1: the left side of = must be a name",
		"x if y else z":           `column 3: an operator is missing before "if"`,
		"x * * y":                 `column 5: an operand is missing: found "*"`,
		"- not x":                 "column 3: not needs parentheses here",
		strings.Repeat("(", 1000): "column 202: parentheses and operators are nested more than 200 deep",
		strings.Repeat("x + ", 1200) + "x": "column 4003: operators are nested more than 1000 deep; " +
			"give names to parts of the formula: t = ...;",
	} {
		_, err := expr.Parse(text)
		var e *expr.Error
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%.40s: got %v, want %s", text, err, want)
		}
	}
}

// TestTypingMistakes are those that only dtypes and numbers show.
func TestTypingMistakes(t *testing.T) {
	for _, tc := range []struct {
		text, want string
		in         []tensor.DType
	}{
		{"x * alpa", `column 5: unknown name "alpa": it is neither an operand nor a given number; did you mean alpha?`,
			[]tensor.DType{tensor.Float32}},
		{"1 + (x & 2)", "column 8: an operation on bits of float32 is undefined", []tensor.DType{tensor.Float32}},
		{"t = x;\n1 + (t & 2)", "line 2, column 8: an operation on bits of float32 is undefined",
			[]tensor.DType{tensor.Float32}},
		{"x - True", "column 3: subtraction (use ^) of bool is undefined", []tensor.DType{tensor.Bool}},
		{"x < 1", "column 3: an order of complex64 is undefined", []tensor.DType{tensor.Complex64}},
		{"x ** -1", "column 3: an integer cannot be raised to a negative integer power", []tensor.DType{tensor.Int32}},
		{"x + y", "column 3: Promotion for uint16, uint32, uint64 types is not supported, attempted to promote " +
			"UInt16 and Int", []tensor.DType{tensor.Uint16, tensor.Int32}},
		{"2 * gelu(x)", "column 5: gelu of int64 is undefined", []tensor.DType{tensor.Int64}},
		{"x", "column 1: 2 dtypes were given for 1 operands", []tensor.DType{tensor.Int64, tensor.Int8}},
	} {
		f, err := expr.Parse(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Code(tc.in, expr.Typing{Attrs: map[string]tensor.Scalar{"alpha": tensor.FloatScalar(2)}})
		if err == nil || err.Error() != tc.want {
			t.Errorf("%s: got %v, want %s", tc.text, err, tc.want)
		}
	}
}

// TestNames tells operands and numbers apart.
func TestNames(t *testing.T) {
	f, err := expr.Parse("t = x * beta; (t + y, t + alpha * pi)")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(f.Params(), " ") + ", " + strings.Join(f.Attrs(), " ")
	if got != "x y, beta alpha" || f.Results() != 2 {
		t.Errorf("got %s, %d results", got, f.Results())
	}
	f, err = expr.Parse("q * x + e", "q", "e")
	if err != nil || strings.Join(f.Params(), " ") != "q e" || strings.Join(f.Attrs(), " ") != "x" {
		t.Errorf("got %v, %v: %v", f.Params(), f.Attrs(), err)
	}
	if _, err = expr.Parse("x", "x", "x"); err == nil {
		t.Error("two operands have one name")
	}
}

// TestPromotion compares dtypes of results with PyTorch's.
func TestPromotion(t *testing.T) {
	const (
		b1, u1, i1, i4, i8 = tensor.Bool, tensor.Uint8, tensor.Int8, tensor.Int32, tensor.Int64
		f2, bf, f4, f8     = tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64
		c4, c8             = tensor.Complex64, tensor.Complex128
	)
	for _, tc := range []struct {
		text string
		in   []tensor.DType
		want tensor.DType
	}{
		{"x + 1", []tensor.DType{u1}, u1}, {"x + 1.0", []tensor.DType{u1}, f4}, {"x + 1.0", []tensor.DType{f2}, f2},
		{"x + y", []tensor.DType{f2, bf}, f4}, {"x + y", []tensor.DType{i4, f2}, f2}, {"x / 2", []tensor.DType{i8}, f4},
		{"x // 2", []tensor.DType{i8}, i8}, {"exp(x)", []tensor.DType{b1}, f4}, {"exp(x)", []tensor.DType{bf}, bf},
		{"x + 1j", []tensor.DType{f8}, c8}, {"abs(x)", []tensor.DType{c4}, f4}, {"x < y", []tensor.DType{f4, i1}, b1},
		{"x + True", []tensor.DType{b1}, b1}, {"x + 1", []tensor.DType{b1}, i8}, {"x ** 2", []tensor.DType{b1}, i8},
		{"float16(x) * y", []tensor.DType{f8, f4}, f4}, {"x + (1 / 3)", []tensor.DType{i4}, f4}, {"2", nil, i8},
		{"0.5 * 2", nil, f4}, {"where(x > 0, x, 0.5)", []tensor.DType{i4}, f4}, {"not x", []tensor.DType{c8}, b1},
		{"sigmoid(x)", []tensor.DType{i4}, f4}, {"complex(x, 0)", []tensor.DType{f8}, c8}, {"x << 3", []tensor.DType{i1}, i1},
	} {
		f, err := expr.Parse(tc.text, []string{"x", "y"}[:len(tc.in)]...)
		if len(tc.in) == 0 {
			f, err = expr.Parse(tc.text)
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := f.Code(tc.in, expr.Typing{})
		if err != nil {
			t.Errorf("%s of %v: %v", tc.text, tc.in, err)
		} else if got := c.Out[0].DType; got != tc.want || c.Check() != nil {
			t.Errorf("%s of %v: got %v, want %v; %v", tc.text, tc.in, got, tc.want, c.Check())
		}
	}
}

// TestLibrary types every function for every dtype: it is code, or it is refused in words of its own.
func TestLibrary(t *testing.T) {
	calls := 0
	functions := expr.Functions()
	for _, d := range tensor.DTypes() {
		functions = append(functions, expr.Function{Name: d.String(), Params: []string{"x"}})
	}
	for _, function := range functions {
		name := function.Name
		for n := range len(function.Params) + 1 {
			params := []string{"x", "y", "z", "w"}[:n]
			f, err := expr.Parse(name+"("+strings.Join(params, ", ")+")", params...)
			if err != nil {
				if n == len(function.Params) || n > 0 && !strings.Contains(err.Error(), name+" takes") {
					t.Fatal(err)
				}
				continue // an operand is missing
			}
			calls++
			typed, otherCount := 0, n < len(function.Params)
			for d := tensor.Bool; d.Valid(); d++ {
				c, err := f.Code([]tensor.DType{d, d, d, d}[:n], expr.Typing{})
				switch {
				case err == nil && c.Check() == nil:
					typed++
				case err == nil:
					t.Errorf("%s of %v: %v", name, d, c.Check())
				case !strings.Contains(err.Error(), "is undefined") && !strings.Contains(err.Error(), "operands"):
					t.Errorf("%s of %v: %v", name, d, err)
				}
				otherCount = otherCount && err != nil && strings.Contains(err.Error(), "operands")
			}
			if otherCount {
				continue // the function has a form with fewer operands, and one with more
			}
			if typed < 2 && !strings.Contains(name, "complex") {
				t.Errorf("%s of %d operands has %d dtypes", name, n, typed)
			}
		}
	}
	if calls < 100 {
		t.Errorf("only %d calls", calls)
	}
}

// FuzzParse looks for texts that do not end in a formula or an error, and formulas that do not print as themselves.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"x + y * 2", "t = x * x; where(t > 1, t, x)", "(x, -y)", "sigmoid(x) ** 2.5 // 3 % 7",
		"not x and ~y | z << 2", "float16(x) + 1j", "x <= inf", "((((x))))", "a = 1; b = a; b", "x**x**x**x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := expr.Parse(text)
		if err != nil {
			var e *expr.Error
			if !errors.As(err, &e) || e.Column < 1 || e.Column > len(text)+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		once := p.String()
		again, err := expr.Parse(once)
		if err != nil || again.String() != once {
			t.Fatalf("%q prints as %q, which is %v, %v", text, once, again, err)
		}
		attrs := map[string]tensor.Scalar{}
		for _, name := range p.Attrs() {
			attrs[name] = tensor.FloatScalar(0.5)
		}
		for _, d := range []tensor.DType{tensor.Bool, tensor.Int8, tensor.BFloat16, tensor.Float32, tensor.Complex64} {
			in := make([]tensor.DType, len(p.Params()))
			for k := range in {
				in[k] = d
			}
			c, err := p.Code(in, expr.Typing{Attrs: attrs})
			if err == nil {
				err = c.Check()
			} else if e := (*expr.Error)(nil); errors.As(err, &e) {
				err = nil
			}
			if err != nil {
				t.Fatalf("%q of %v: %v", text, d, err)
			}
		}
	})
}

// TestSelectedBits keeps 16-bit floats that are chosen between as they are: nothing is widened, NaNs keep their bits.
func TestSelectedBits(t *testing.T) {
	f, err := expr.Parse("where(c, x, y)", "c", "x", "y")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		c, err := f.Code([]tensor.DType{tensor.Bool, d, d}, expr.Typing{})
		if err != nil {
			t.Fatal(err)
		}
		if out := c.Insts[c.Out[0].Re]; out.Op != expr.Select || out.DType != d {
			t.Errorf("of %v the result is\n%v", d, c)
		}
	}
}
