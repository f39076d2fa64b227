package suggest

import (
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"relu", "relu6", "add", "adaptive_avg_pool2d", "padding", "stride", "x", "c", "to"}
	for name, want := range map[string]string{
		"rlu": "relu", "ReLU": "relu", "relu7": "relu", "sad": "", "dad": "add", "paddin": "padding", "padidng": "padding",
		"adaptive_avgpool": "adaptive_avg_pool2d", "cc": "c", "z": "", "qq": "", "strides": "stride", "scaffold": "", "": "",
		"ot": "to", "avg_pool": "adaptive_avg_pool2d", "relu6_out": "relu6", "pad": "padding", "st": "",
	} {
		if got := Nearest(name, slices.Values(names)); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestForUnknown(t *testing.T) {
	names := []string{"relu", "", "add", "relu", "mul"}
	for _, c := range []struct{ name, want string }{{"rlu", "; did you mean relu?"},
		{"nothing", "; ops: relu, add, mul"}} {
		if got := ForUnknown(c.name, "ops", slices.Values(names)); got != c.want {
			t.Errorf("%q: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := ForUnknown("zz", "ops", slices.Values([]string{"a1", "b1", "c1", "d1", "e1", "f1", "g1"})); got !=
		"; ops: a1, b1, c1, d1, e1, ..." {
		t.Error(got)
	}
	if got := ForUnknown("zz", "ops", slices.Values([]string(nil))); got != "" {
		t.Error(got)
	}
}

func TestPartsOfNamesAreSuggested(t *testing.T) {
	names := []string{"/layer1/layer1.0/relu/Relu_output_0", "/relu/Relu_output_0", "/fc/Gemm_output_0", "x"}
	for name, want := range map[string]string{"relu": "/relu/Relu_output_0", "layer1.0": names[0], "fc": "",
		"fc/Gemm": "/fc/Gemm_output_0", "/relu/Relu_output_0:0": "/relu/Relu_output_0"} {
		if got := Nearest(name, slices.Values(names)); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3},
		{"relu", "rlu", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestManyNamesAreNotCompared(t *testing.T) {
	seen := 0
	Nearest("name", func(yield func(string) bool) {
		for yield("other") {
			seen++
		}
	})
	if seen != maxNames {
		t.Errorf("%d names were compared", seen)
	}
}
