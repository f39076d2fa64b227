package expr_test

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/exprtest"
	"github.com/graphrun/graphrun/tensor"
)

// TestSimplifyKeepsBits simplifies codes that are full of what can be simplified.
func TestSimplifyKeepsBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	fewer := 0
	for range 20000 {
		c := exprtest.RandomCode(t, rng)
		s, err := c.Simplify()
		if err != nil {
			t.Fatal(err)
		}
		if s.Count() > c.Count() {
			t.Fatalf("more instructions:\n%v\n%v", c, s)
		}
		if s.Count() < c.Count() {
			fewer++
		}
		for range 4 {
			var in []expr.Number
			for _, d := range c.In {
				n := expr.Number{Re: exprtest.RandomBits(rng, part(d))}
				if d.IsComplex() {
					n.Im = exprtest.RandomBits(rng, part(d))
				}
				in = append(in, n)
			}
			want, got := c.Eval(in...), s.Eval(in...)
			for k, o := range c.Out {
				if d := part(o.DType); !exprtest.SameBits(d, got[k].Re, want[k].Re) || !exprtest.SameBits(d, got[k].Im,
					want[k].Im) {
					t.Fatalf("of %v:\n%v= %v\n%v= %v", in, c, want, s, got)
				}
			}
		}
	}
	if fewer < 1000 {
		t.Errorf("%d codes became shorter", fewer)
	}
}

func part(d tensor.DType) tensor.DType {
	if d.IsComplex() {
		return d.ToReal()
	}
	return d
}

// TestSimplify counts what is left.
func TestSimplify(t *testing.T) {
	f := tensor.Float32
	for name, tc := range map[string]struct {
		make func(b *expr.Builder, x expr.Value) expr.Value
		left int
	}{
		"x*1": {func(b *expr.Builder, x expr.Value) expr.Value { return b.Emit(expr.Mul, b.Const(f, 1), x) }, 0},
		"x+0": {func(b *expr.Builder, x expr.Value) expr.Value { return b.Emit(expr.Add, x, b.Const(f, 0)) }, 1},
		"x-0": {func(b *expr.Builder, x expr.Value) expr.Value { return b.Emit(expr.Sub, x, b.Const(f, 0)) }, 0},
		"2*3": {func(b *expr.Builder, x expr.Value) expr.Value { return b.Emit(expr.Mul, b.Const(f, 2), b.Const(f, 3)) },
			0},
		"--x":    {func(b *expr.Builder, x expr.Value) expr.Value { return b.Emit(expr.Neg, b.Emit(expr.Neg, x)) }, 0},
		"double": {func(b *expr.Builder, x expr.Value) expr.Value { return b.Convert(f, b.Convert(tensor.Float64, x)) }, 0},
		"half":   {func(b *expr.Builder, x expr.Value) expr.Value { return b.Convert(f, b.Convert(tensor.Float16, x)) }, 2},
		"x*y+y*x": {func(b *expr.Builder, x expr.Value) expr.Value {
			y := b.Emit(expr.Abs, x)
			return b.Emit(expr.Add, b.Emit(expr.Mul, x, y), b.Emit(expr.Mul, y, x))
		}, 3},
		"fma(x, x, -0)": {func(b *expr.Builder, x expr.Value) expr.Value {
			return b.Emit(expr.FMA, x, x, b.Const(f, exprtest.NegZero))
		}, 1},
	} {
		b := expr.NewBuilder(f)
		c, err := b.Build(b.Real(tc.make(b, b.Load(0))))
		if err == nil {
			c, err = c.Simplify()
		}
		if err != nil {
			t.Fatal(name, err)
		}
		if c.Count() != tc.left {
			t.Errorf("%s: %d instructions are left, not %d:\n%v", name, c.Count(), tc.left, c)
		}
	}
}

// TestSimplifyIntegers has comparisons and extremes of integers that need no element.
func TestSimplifyIntegers(t *testing.T) {
	for text, want := range map[string]int{"x == x": 0, "x != x": 0, "x < x": 0, "x <= x": 0, "x < 0": 0,
		"maximum(x, 0)": 0, "x < 1": 1, "x <= 0": 1, "minimum(x, 1)": 1} {
		f, err := expr.Parse(text, "x")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []tensor.DType{tensor.Uint8, tensor.Uint64} {
			c, err := f.Code([]tensor.DType{d}, expr.Typing{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Simplify()
			if err != nil {
				t.Fatal(err)
			}
			if s.Count() != want {
				t.Errorf("%s of %v has %d instructions, want %d:\n%v", text, d, s.Count(), want, s)
			}
			for _, x := range []uint64{0, 1, 7, 255} {
				if got, want := s.Eval(expr.Number{Re: x})[0], c.Eval(expr.Number{Re: x})[0]; got != want {
					t.Errorf("%s of %d: got %v, want %v", text, x, got, want)
				}
			}
		}
	}
}
