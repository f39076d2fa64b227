package interp

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// TestWithoutOnes removes 1 from three factors and keeps it in a product of two.
func TestWithoutOnes(t *testing.T) {
	for text, products := range map[string]int{"x + 1 * y * z": 1, "x + y * 1 * z": 1, "x + 2 * y * z": 2,
		"x + 1 * y": 1} {
		f, err := expr.Parse(text, "x", "y", "z")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []tensor.DType{tensor.Int64, tensor.Float32, tensor.Float64} {
			c, err := f.Code([]tensor.DType{d, d, d}, expr.Typing{})
			if err != nil {
				t.Fatal(err)
			}
			plain, err := removeUnitFactors(c)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, i := range plain.Insts {
				if i.Op == expr.Mul {
					found++
				}
			}
			if found != products {
				t.Errorf("%s of %v has %d products, want %d", text, d, found, products)
			}
			rng := rand.New(rand.NewPCG(3, 9))
			if !againstEval(t, rng, c, 33, 1) {
				t.Fatalf("%s\n%v", text, c)
			}
		}
	}
}
