package numerals

import (
	"math"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

func TestNumbersInWords(t *testing.T) {
	for text, want := range map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)} {
		if x, ok := Special(text); !ok || x != want && !math.IsNaN(want) || SpecialText(x) != text {
			t.Errorf("%s is %v, %v", text, x, ok)
		}
	}
	for text, meant := range map[string]string{"-inf": "-Infinity", "+Infinity": "Infinity", "np.inf": "Infinity",
		"nan": "NaN", "float('-inf')": "", "Infinity": "", "1": "", "": "", "info": ""} {
		if got := IntendedLiteral(text); got != meant {
			t.Errorf("%q means %q, want %q", text, got, meant)
		}
	}
	for _, text := range []string{"-inf", "nan", "Inf", "-Infinity"} {
		if _, ok := AnySpecial(text); !ok {
			t.Errorf("%s is no number", text)
		}
	}
	if _, ok := AnySpecial("1e5"); ok {
		t.Error("1e5 is special")
	}
}

func TestScalars(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{int64(2), "2"}, {2.5, "2.5"}, {true, "true"}, {"-inf", "-Inf"}, {"1+2j", "(1+2i)"}, {"(2j)", "(0+2i)"},
		{[]any{int64(1), "NaN"}, "(1+NaNi)"}, {[]any{int64(1)}, ""}, {"2", ""}, {"(1+2j", ""}, {"i", ""}, {nil, ""},
		{map[string]any{}, ""},
	} {
		s, ok := Scalar(c.v)
		if ok != (c.want != "") || ok && s.String() != c.want {
			t.Errorf("%v is %v, %v, want %s", c.v, s, ok, c.want)
		}
	}
	if s, _ := Scalar("nan"); s.DType() != tensor.Float64 {
		t.Errorf("nan is %v", s.DType())
	}
}

func TestExpressions(t *testing.T) {
	for text, want := range map[string]bool{"N*2": true, "Max(1, N)": true, "a - b": true, "a-b": false,
		"batch_size": false} {
		if IsExpression(text) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}
