package interp

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// TestTables compares lookups of values that depend on bytes with computed values, amid other instructions, as parts of
// complex numbers, and as sides of selections.
func TestTables(t *testing.T) {
	for text, tables := range map[string]int{"sin(x)": 1, "sin(x) + y": 1, "sin(x) * exp(y)": 1, "x + 1": 0,
		"complex(sin(x), cos(x))": 2, "exp(complex(float32(x), float32(x)))": 2, "where(x > 3, exp(y), tanh(x))": 1,
		"where(sin(x) > 0, exp(y), y)": 1, "hypot(float32(x), float32(x))": 1, "sin(x) + sin(x) * y": 1, "y * 2": 0} {
		f, err := expr.Parse(text, "x", "y")
		if err != nil {
			t.Fatal(err)
		}
		for k, d := range []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Bool} {
			c, err := f.Code([]tensor.DType{d, tensor.Float32}, expr.Typing{})
			if err != nil {
				t.Fatal(err)
			}
			list := map[expr.Value]peepholeMatch{}
			tabulate(&expr.Loop{Code: c, Scalar: []bool{false, false}}, c, list)
			if len(list) != tables {
				t.Errorf("%s of %v has %d tables, want %d", text, d, len(list), tables)
			}
			if tabulate(&expr.Loop{Code: c, Scalar: []bool{true, false}}, c, list); len(list) != tables {
				t.Errorf("%s of a %v for all has %d tables more, want none", text, d, len(list)-tables)
			}
			rng := rand.New(rand.NewPCG(uint64(k), 9))
			for range 20 {
				if !againstEval(t, rng, c, []int{1, 33, 1100}[rng.IntN(3)], 1+rng.IntN(2)) {
					t.Fatalf("%s\n%v", text, c)
				}
			}
		}
	}
}

// TestTablesOfPairs looks up values that depend on two bools, in either order, but not on three.
func TestTablesOfPairs(t *testing.T) {
	b := tensor.Bool
	for text, want := range map[string]source{"atan2(float32(x), float32(y))": {0, 1},
		"atan2(float32(y), float32(x))": {0, 1}, "atan2(float32(x), float32(x))": {0, expr.None},
		"atan2(float32(y), float32(z)) + float32(y)":       {1, 2},
		"hypot(atan2(float32(x), float32(y)), float32(z))": otherSources} {
		f, err := expr.Parse(text, "x", "y", "z")
		if err != nil {
			t.Fatal(err)
		}
		c, err := f.Code([]tensor.DType{b, b, b}, expr.Typing{})
		if err != nil {
			t.Fatal(err)
		}
		if from := sourcesOf(&expr.Loop{Code: c, Scalar: make([]bool, 3)}, c)[c.Out[0].Re]; from != want {
			t.Errorf("%s comes from %v, want %v", text, from, want)
		}
		rng := rand.New(rand.NewPCG(2, 9))
		for range 20 {
			if !againstEval(t, rng, c, []int{1, 33, 1100}[rng.IntN(3)], 1+rng.IntN(2)) {
				t.Fatalf("%s\n%v", text, c)
			}
		}
	}
	mixed, err := expr.Parse("atan2(float32(x), float32(y))", "x", "y")
	if err != nil {
		t.Fatal(err)
	}
	c, err := mixed.Code([]tensor.DType{b, tensor.Uint8}, expr.Typing{})
	if err != nil {
		t.Fatal(err)
	}
	if from := sourcesOf(&expr.Loop{Code: c, Scalar: make([]bool, 2)}, c)[c.Out[0].Re]; from != otherSources {
		t.Errorf("of a bool and a byte it comes from %v, want others", from)
	}
}
