package expr

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

// TestSimplifyKeepsBits simplifies codes that are full of what can be simplified.
func TestSimplifyKeepsBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	fewer := 0
	for range 20000 {
		c := randomCode(t, rng)
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
			var in []Number
			for _, d := range c.In {
				n := Number{Re: randomBits(rng, part(d))}
				if d.IsComplex() {
					n.Im = randomBits(rng, part(d))
				}
				in = append(in, n)
			}
			want, got := c.Eval(in...), s.Eval(in...)
			for k, o := range c.Out {
				if d := part(o.DType); !sameBits(d, got[k].Re, want[k].Re) || !sameBits(d, got[k].Im, want[k].Im) {
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
		make func(b *Builder, x Value) Value
		left int
	}{
		"x*1":    {func(b *Builder, x Value) Value { return b.Do(Mul, b.Const(f, 1), x) }, 0},
		"x+0":    {func(b *Builder, x Value) Value { return b.Do(Add, x, b.Const(f, 0)) }, 1},
		"x-0":    {func(b *Builder, x Value) Value { return b.Do(Sub, x, b.Const(f, 0)) }, 0},
		"2*3":    {func(b *Builder, x Value) Value { return b.Do(Mul, b.Const(f, 2), b.Const(f, 3)) }, 0},
		"--x":    {func(b *Builder, x Value) Value { return b.Do(Neg, b.Do(Neg, x)) }, 0},
		"double": {func(b *Builder, x Value) Value { return b.Convert(f, b.Convert(tensor.Float64, x)) }, 0},
		"half":   {func(b *Builder, x Value) Value { return b.Convert(f, b.Convert(tensor.Float16, x)) }, 2},
		"x*y+y*x": {func(b *Builder, x Value) Value {
			y := b.Do(Abs, x)
			return b.Do(Add, b.Do(Mul, x, y), b.Do(Mul, y, x))
		}, 3},
		"fma(x, x, -0)": {func(b *Builder, x Value) Value { return b.Do(FMA, x, x, b.Const(f, neg0)) }, 1},
	} {
		b := NewBuilder(f)
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
		f, err := Parse(text, "x")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []tensor.DType{tensor.Uint8, tensor.Uint64} {
			c, err := f.Code([]tensor.DType{d}, Typing{})
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
				if got, want := s.Eval(Number{Re: x})[0], c.Eval(Number{Re: x})[0]; got != want {
					t.Errorf("%s of %d: got %v, want %v", text, x, got, want)
				}
			}
		}
	}
}

// TestWithoutOnes drops 1 where it is one of three factors, and leaves it where two are multiplied.
func TestWithoutOnes(t *testing.T) {
	for text, products := range map[string]int{"x + 1 * y * z": 1, "x + y * 1 * z": 1, "x + 2 * y * z": 2,
		"x + 1 * y": 1} {
		f, err := Parse(text, "x", "y", "z")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []tensor.DType{tensor.Int64, tensor.Float32, tensor.Float64} {
			c, err := f.Code([]tensor.DType{d, d, d}, Typing{})
			if err != nil {
				t.Fatal(err)
			}
			plain, err := c.withoutOnes()
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, i := range plain.Insts {
				if i.Op == Mul {
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
