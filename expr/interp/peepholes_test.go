package interp

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/exprtest"
	"github.com/graphrun/graphrun/tensor"
)

// TestPeepholes compares the loops of peepholes with their formulas, element by element: special values, random bits
// and plain numbers.
func TestPeepholes(t *testing.T) {
	for k, x := range templates() {
		if len(findPeepholes(x.Code, perElementAll)) == 0 {
			t.Errorf("idiom %d is not found in its own code", k)
		}
		rng := rand.New(rand.NewPCG(uint64(k), 7))
		for range 40 {
			if !againstEval(t, rng, x.Code, []int{1, 33, 1100}[rng.IntN(3)], 1+rng.IntN(2)) {
				t.Fatalf("%v", x.Code)
			}
		}
	}
}

func perElementAll(int) bool { return true }

// TestPeepholesWithin has peepholes amid other instructions, some of which use an inner value of a peephole, or one
// part.
func TestPeepholesWithin(t *testing.T) {
	for _, text := range []string{"real(x * y)", "imag(x / y) + 1", "x * y + x / y", "(x * y) / (y * x)", "exp(x * y) - 1",
		"real(x) * real(y) + imag(x * y)", "abs(x * y)", "x * 2.5 - y * y", "where(real(x) > 0, x * y, x / y)",
		"conj(x) * x", "x + y", "-x", "complex(imag(x), real(x))", "complex(real(x), -real(x))"} {
		f, err := expr.Parse(text, "x", "y")
		if err != nil {
			t.Fatal(err)
		}
		for k, d := range complexes {
			c, err := f.Code([]tensor.DType{d, d}, expr.Typing{})
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(uint64(k), 8))
			for range 20 {
				if !againstEval(t, rng, c, []int{1, 33, 1100}[rng.IntN(3)], 1+rng.IntN(2)) {
					t.Fatalf("%s\n%v", text, c)
				}
			}
		}
	}
}

// TestPeepholesShared checks that a peephole does not match if its quotient has other users.
func TestPeepholesShared(t *testing.T) {
	d := tensor.Int32
	for text, want := range map[string]int{"x // y": 1, "(x // y) * trunc_divide(x, y)": 0,
		"fmod(x, y) + trunc_divide(x, y)": 0, "fmod(x, y)": 1,
		"fmod(x, y) * fmod(y, x)": 2, "fmod(x, y) ** 2": 1} {
		f, err := expr.Parse(text, "x", "y")
		if err != nil {
			t.Fatal(err)
		}
		c, err := f.Code([]tensor.DType{d, d}, expr.Typing{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(findPeepholes(c, perElementAll)); got != want {
			t.Errorf("%s has %d idioms, want %d", text, got, want)
		}
	}
}

// TestPeepholesOfDifferences has a difference with one user, and one with two.
func TestPeepholesOfDifferences(t *testing.T) {
	for text, want := range map[string]int{"x + 0.25 * (y - x)": 1, "(x + 0.25 * (y - x)) * (y - x)": 0} {
		f, err := expr.Parse(text, "x", "y")
		if err != nil {
			t.Fatal(err)
		}
		c, err := f.Code([]tensor.DType{tensor.Float32, tensor.Float32}, expr.Typing{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(findPeepholes(c, perElementAll)); got != want {
			t.Errorf("%s has %d idioms, want %d", text, got, want)
		}
	}
}

// TestPeepholesOfParts has peepholes of real numbers that are parts of complex ones, and of values that are constant
// within a row.
func TestPeepholesOfParts(t *testing.T) {
	for _, text := range []string{"relu(real(x))", "real(x) != 0 and imag(y) != 0", "real(x) != 0 or real(y) != 0",
		"(imag(x) != 0) != (imag(y) != 0)", "hardswish(real(x))", "hardsigmoid(imag(y))", "leaky_relu(real(x), 0.3)",
		"real(x) + 0.7 * imag(x) * real(y)", "imag(x) + 0.7 * imag(y) / real(y)", "lerp(real(x), real(y), 0.25)",
		"real(x) + 3 * imag(y)", "real(x) - imag(y) * 3", "3 * real(y) - imag(x)", "where(real(x) > imag(x), 1, 2)"} {
		f, err := expr.Parse(text, "x", "y")
		if err != nil {
			t.Fatal(err)
		}
		for k, d := range complexes {
			c, err := f.Code([]tensor.DType{d, d}, expr.Typing{})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			rng := rand.New(rand.NewPCG(uint64(k), 9))
			for range 20 {
				if !againstEval(t, rng, c, []int{1, 33, 1100}[rng.IntN(3)], 1+rng.IntN(4)) {
					t.Fatalf("%s\n%v", text, c)
				}
			}
		}
	}
}

// TestPredicatedBlocks has masks that are all true or all false in some blocks, and mixed in others.
func TestPredicatedBlocks(t *testing.T) {
	f, err := expr.Parse("where(x > 0, where(x > 8, exp(y) + log(x), tanh(y) ** 2), "+
		"where(y < 0, sin(y) * cos(x), y * y / 3 - y * x / 7 + x * x * y))", "x", "y")
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Code([]tensor.DType{tensor.Float32, tensor.Float32}, expr.Typing{})
	if err != nil {
		t.Fatal(err)
	}
	uses := make([][]expr.Value, len(c.Insts))
	for v, i := range c.Insts {
		uses[v] = i.Uses()
	}
	if _, _, arms := predicateBlocks(c, uses, nil); len(arms) != 6 {
		t.Errorf("%d arms, want 6: %v", len(arms), arms)
	}
	p, err := New(&expr.Loop{Code: c, Scalar: []bool{false, false}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 8192
	x, y, got := make([]float32, n), make([]float32, n), make([]float32, n)
	rng := rand.New(rand.NewPCG(1, 9))
	for i := range x {
		y[i] = float32(rng.NormFloat64())
		switch i / 1024 % 5 {
		case 0:
			x[i] = 1
		case 1:
			x[i] = -1
		case 2:
			x[i] = 9
		case 3:
			x[i] = float32(i % 2)
		default:
			x[i] = float32(rng.NormFloat64() * 9)
		}
	}
	at := []unsafe.Pointer{unsafe.Pointer(&got[0]), unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0])}
	p.Run(nil, at, []int{0, 0, 0}, nil, n, 1)
	for i := range got {
		var in [2]expr.Number
		in[0].Re, in[1].Re = uint64(*(*uint32)(unsafe.Pointer(&x[i]))), uint64(*(*uint32)(unsafe.Pointer(&y[i])))
		if want := c.Eval(in[:]...)[0].Re; !exprtest.SameBits(tensor.Float32, uint64(*(*uint32)(unsafe.Pointer(&got[i]))),
			want) {
			t.Fatalf("%d: x %v, y %v: got %v", i, x[i], y[i], got[i])
		}
	}
}

// TestWholeQuotients compares quotients and remainders with those of Go: where float64 begins to round, at the limits
// of dtypes, and for divisors of 0.
func TestWholeQuotients(t *testing.T) {
	wholeQuotients[int8](t)
	wholeQuotients[uint16](t)
	wholeQuotients[int32](t)
	wholeQuotients[uint32](t)
	wholeQuotients[int64](t)
	wholeQuotients[uint64](t)
}

func wholeQuotients[W integer](t *testing.T) {
	t.Helper()
	var list []W
	for shift := range 64 {
		for near := -3; near <= 3; near++ {
			x := W(uint64(1)<<shift + uint64(near))
			list = append(list, x, -x, x/3, x/7*5)
		}
	}
	for _, x := range list {
		for _, y := range list {
			r, m, q, f := x, x, W(0), W(0)
			if y != 0 {
				r, m, q, f = x%y, x%y, x/y, x/y
			}
			if m != 0 && m^y < 0 {
				m += y
				f--
			} else if y == 0 && x < 0 {
				f--
			}
			if got := remOf(x, y); got != r {
				t.Fatalf("%T: fmod(%d, %d) = %d, want %d", x, x, y, got, r)
			}
			if got := modOf(x, y); got != m && y != 0 {
				t.Fatalf("%T: %d %% %d = %d, want %d", x, x, y, got, m)
			}
			if got := quotientOf(x, y); got != q {
				t.Fatalf("%T: %d / %d = %d, want %d", x, x, y, got, q)
			}
			if got := floorOf(x, y); got != f {
				t.Fatalf("%T: %d // %d = %d, want %d", x, x, y, got, f)
			}
		}
	}
}
