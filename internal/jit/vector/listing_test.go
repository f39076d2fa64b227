package vector

import (
	"errors"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// one returns a loop with one operation on two operands.
func one(t *testing.T, o expr.Op, d tensor.DType) *expr.Loop {
	b := expr.NewBuilder(d, d)
	c, err := b.Build(b.Real(b.Emit(o, b.Load(0), b.Load(1))))
	if err != nil {
		t.Fatal(err)
	}
	return &expr.Loop{Code: c, Uniform: []bool{false, false}}
}

// TestListing checks the additions in the code of a loop: four in the unrolled body and one in the tail, all with a
// memory operand.
func TestListing(t *testing.T) {
	for cpu, want := range map[machine.Features]string{
		machine.AVX512: "VADDPS\t64(R10)(CX*4), Z", machine.AVX2: "VADDPS\t32(R10)(CX*4), Y",
	} {
		c, err := Compile(one(t, expr.Add, tensor.Float32), cpu, Options{})
		if err != nil {
			t.Fatal(err)
		}
		text := c.Listing()
		if n := strings.Count(text, "VADDPS\t"); n != 5 || !strings.Contains(text, want) {
			t.Errorf("%v: %d additions, and not %q:\n%s", cpu, n, want, text)
		}
	}
}

// TestListingNEON checks the code of an addition for arm64: a pass of four registers, a pass of one register, and
// pieces of two elements and of one. An iteration has two loads and a store for each addition, and updates three
// pointers and a counter.
func TestListingNEON(t *testing.T) {
	c, err := Compile(one(t, expr.Add, tensor.Float32), machine.NEON, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := c.Listing()
	for part, want := range map[string]int{"\tfadd\tv": 4 + 1 + 2, "\tldr\tq": 8 + 2, "\tldr\td": 2, "\tldr\ts": 2,
		"\tstr\tq": 4 + 1, "\tstr\td": 1, "\tstr\ts": 1} {
		if n := strings.Count(text, part); n != want {
			t.Errorf("%d times %q, want %d:\n%s", n, part, want, text)
		}
	}
	if w := c.Work(); w.Iteration != 4*4+3+2 || w.IterationElements != 16 || w.TailElements != 4 {
		t.Errorf("work %+v", w)
	}
}

// TestUnsupported checks the errors for loops without machine code.
func TestUnsupported(t *testing.T) {
	calls := func() *expr.Loop {
		b := expr.NewBuilder(tensor.Float64)
		code, err := b.Build(b.Real(b.Call(&expr.Func{Name: "f", ArgCount: 1,
			F: func(a, _, _ float64) float64 { return a }}, tensor.Float64, b.Load(0))))
		if err != nil {
			t.Fatal(err)
		}
		return &expr.Loop{Code: code, Uniform: []bool{false}}
	}
	for what, c := range map[string]func() (*Loop, error){
		"the expression has a function without machine code": func() (*Loop, error) {
			return Compile(calls(), machine.AVX2, Options{})
		},
		"machine code needs AVX2 or NEON; the processor has portable": func() (*Loop, error) {
			return Compile(one(t, expr.Add, tensor.Float32), machine.Portable, Options{})
		},
		"the loop has 26 pointers: want at most 24": func() (*Loop, error) {
			d := make([]tensor.DType, 25)
			for k := range d {
				d[k] = tensor.Int8
			}
			b := expr.NewBuilder(d...)
			code, err := b.Build(b.Real(b.Load(24)))
			if err != nil {
				t.Fatal(err)
			}
			return Compile(&expr.Loop{Code: code, Uniform: make([]bool, 25)}, machine.AVX2, Options{})
		},
	} {
		if _, err := c(); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, not %v", what, err)
		}
	}
	_, err := Compile(&expr.Loop{Code: calls().Code}, machine.AVX2, Options{})
	if err == nil || errors.Is(err, ErrUnsupported) {
		t.Errorf("a loop that is wrong is no loop without code: %v", err)
	}
}
