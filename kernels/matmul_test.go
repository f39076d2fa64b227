package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// productSize favours small sizes, those at the edges of panels, and nothing at all.
func productSize(r *rand.Rand) int {
	switch r.IntN(12) {
	case 0:
		return 0
	case 1:
		return 1
	case 2, 3:
		return 30 + r.IntN(40)
	}
	return 1 + r.IntN(14)
}

// someConstants picks operands whose data is known at compile time.
func someConstants(r *rand.Rand, in []*tensor.Tensor) (list []int) {
	for i, t := range in {
		if t != nil && r.IntN(3) == 0 {
			list = append(list, i)
		}
	}
	return list
}

func checkProduct(t *testing.T, r *rand.Rand, op string, at graph.Attrs, k int, in ...*tensor.Tensor) {
	t.Helper()
	p, err := newProductCall(op, at, in, someConstants(r, in)...)
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	p.check(t, k)
}

func TestMatmulRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1200 {
		d := productDTypes[r.IntN(len(productDTypes))]
		m, n, k := productSize(r), productSize(r), productSize(r)
		batch := []int{1 + r.IntN(3), r.IntN(5), 1 + r.IntN(3)}
		side := func(rank int, core ...int) []int {
			if rank == 1 {
				return []int{k}
			}
			lead := append([]int{}, batch[3-(rank-2):]...)
			for i := range lead {
				if r.IntN(3) == 0 {
					lead[i] = 1
				}
			}
			return append(lead, core...)
		}
		a := randomOperand(r, d, side(1+r.IntN(4), m, k)...)
		b := randomOperand(r, d, side(1+r.IntN(4), k, n)...)
		checkProduct(t, r, "matmul", nil, k, a, b)
	}
}

func TestAddmmRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 600 {
		d := productDTypes[r.IntN(len(productDTypes))]
		m, n, k, b := productSize(r), productSize(r), productSize(r), r.IntN(4)
		at := graph.Attrs{}
		if r.IntN(2) == 0 {
			at["beta"] = r.IntN(3)
		}
		if r.IntN(2) == 0 {
			at["alpha"] = r.IntN(4) - 1
		}
		shapes := [][]int{{n}, {m, n}, {m, 1}, {1}, {}}
		s := randomOperand(r, d, shapes[r.IntN(len(shapes))]...)
		if r.IntN(2) == 0 {
			checkProduct(t, r, "addmm", at, k, s, randomOperand(r, d, m, k), randomOperand(r, d, k, n))
			continue
		}
		if r.IntN(4) == 0 {
			s = randomOperand(r, tensor.Float32, b, m, n)
		}
		if d.IsComplex() || s.DType != d && d.IsIntegral(true) {
			s = randomOperand(r, d, b, 1, n)
		}
		checkProduct(t, r, "baddbmm", at, k, s, randomOperand(r, d, b, m, k), randomOperand(r, d, b, k, n))
	}
}

func TestLinearRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 600 {
		d := productDTypes[r.IntN(len(productDTypes))]
		n, k := productSize(r), productSize(r)
		var shape []int
		for range r.IntN(4) {
			shape = append(shape, r.IntN(5))
		}
		x := randomOperand(r, d, append(shape, k)...)
		if r.IntN(3) == 0 {
			x = x.Contiguous()
		}
		var bias *tensor.Tensor
		if r.IntN(3) > 0 {
			bias = randomOperand(r, d, n)
			if len(shape) == 2 && x.IsContiguous() && r.IntN(2) == 0 {
				bias = randomOperand(r, d, shape[0]*shape[1], n)
			}
		}
		checkProduct(t, r, "linear", nil, k, x, randomOperand(r, d, n, k), bias)
	}
}

// checkLarge compares with sums over row-major float64 copies: the definition itself is
// too slow for large shapes.
func checkLarge(t *testing.T, r *rand.Rand, op string, at graph.Attrs, terms int, want func(v [][]float64) []float64, in ...*tensor.Tensor) {
	t.Helper()
	p, err := newProductCall(op, at, in, someConstants(r, in)...)
	if err != nil {
		t.Fatal(err)
	}
	k := p.compile(t)
	k.poison(0x7f)
	k.run(t, true)
	var v [][]float64
	for _, x := range append(in, k.out) {
		f, err := tensor.ToSlice[float64](x.CopyTo(tensor.New(tensor.Float64, x.Shape...)))
		if err != nil {
			t.Fatal(err)
		}
		v = append(v, f)
	}
	got := v[len(v)-1]
	tol := productTolerance(k.out.DType, terms)
	for i, w := range want(v) {
		if math.Abs(got[i]-w) > tol*(1+math.Abs(w)) {
			t.Fatalf("%s %s: element %d is %v, want %v", op, p.describe(), i, got[i], w)
		}
	}
}

// TestMatmulLarge takes the paths of large products: several tiles, packing phases, waves.
func TestMatmulLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, s := range [][4]int{{1, 300, 200, 300}, {3, 200, 300, 130}, {20, 64, 64, 64}, {40, 5, 7, 9}, {2, 3, 500, 700}, {2, 700, 3, 300}} {
		b, m, n, k := s[0], s[1], s[2], s[3]
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.BFloat16, tensor.Int32} {
			x, y := tensor.Empty(tensor.New(d, b, m, k)), randomOperand(r, d, b, k, n)
			fillProduct(r, x)
			product := func(v [][]float64) []float64 { return naiveProducts(v[0], v[1], b, m, n, k) }
			checkLarge(t, r, "bmm", nil, k, product, x, y)
		}
	}
}

func naiveProducts(x, y []float64, b, m, n, k int) []float64 {
	out := make([]float64, b*m*n)
	for e := range b {
		for i := range m {
			row := out[(e*m+i)*n:][:n]
			for q := range k {
				a := x[(e*m+i)*k+q]
				for j, v := range y[(e*k+q)*n:][:n] {
					row[j] += a * v
				}
			}
		}
	}
	return out
}

// TestMatmulNaN: no product is skipped, and a beta of 0 leaves self unread.
func TestMatmulNaN(t *testing.T) {
	inf := tensor.Must(tensor.FromSlice([]float32{0, float32(1), 2, 3}, 2, 2))
	nan := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, float32(nanValue())}, 2, 2))
	p, err := newProductCall("addmm", graph.Attrs{"beta": 0}, []*tensor.Tensor{nan, inf, inf})
	if err != nil {
		t.Fatal(err)
	}
	p.check(t, 2)
}

func nanValue() float64 { z := 0.0; return z / z }

func TestProductAllocs(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		in := []*tensor.Tensor{randomOperand(r, d, 4, 60, 50), randomOperand(r, d, 50, 70), randomOperand(r, d, 2, 16, 20, 20),
			randomOperand(r, d, 8, 16, 3, 3), randomOperand(r, d, 16, 1, 3, 3)}
		for _, c := range []struct {
			op string
			at graph.Attrs
			in []*tensor.Tensor
		}{{"matmul", nil, in[:2]}, {"conv2d", nil, in[2:4]}, {"conv2d", graph.Attrs{"groups": 16}, []*tensor.Tensor{in[2], in[4]}}} {
			p, err := newProductCall(c.op, c.at, c.in)
			if err != nil {
				t.Fatal(err)
			}
			k := p.compile(t)
			k.run(t, false)
			if n := testing.AllocsPerRun(20, func() { k.run(t, false) }); n >= 1 {
				t.Errorf("%s %v: %v allocations in a run", c.op, d, n)
			}
		}
	}
}
