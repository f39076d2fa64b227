package product_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// productSize returns a random size: often a small size, a size near the width of a panel, or 0.
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

func checkProduct(t *testing.T, r *rand.Rand, op string, at graph.Attrs, k int, in ...*tensor.Tensor) {
	t.Helper()
	p, err := kerneltest.NewProductCall(op, at, in, kerneltest.RandomConstants(r, in)...)
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	p.Check(t, k)
}

func TestMatmulRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1200 {
		d := kerneltest.ProductDTypes[r.IntN(len(kerneltest.ProductDTypes))]
		m, n, k := productSize(r), productSize(r), productSize(r)
		batch := []int{1 + r.IntN(3), r.IntN(5), 1 + r.IntN(3)}
		operandShape := func(rank int, core ...int) []int {
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
		a := kerneltest.RandomOperand(r, d, operandShape(1+r.IntN(4), m, k)...)
		b := kerneltest.RandomOperand(r, d, operandShape(1+r.IntN(4), k, n)...)
		checkProduct(t, r, "matmul", nil, k, a, b)
	}
}

func TestAddmmRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 600 {
		d := kerneltest.ProductDTypes[r.IntN(len(kerneltest.ProductDTypes))]
		m, n, k, b := productSize(r), productSize(r), productSize(r), r.IntN(4)
		at := graph.Attrs{}
		if r.IntN(2) == 0 {
			at["beta"] = r.IntN(3)
		}
		if r.IntN(2) == 0 {
			at["alpha"] = r.IntN(4) - 1
		}
		shapes := [][]int{{n}, {m, n}, {m, 1}, {1}, {}}
		s := kerneltest.RandomOperand(r, d, shapes[r.IntN(len(shapes))]...)
		if r.IntN(2) == 0 {
			checkProduct(t, r, "addmm", at, k, s, kerneltest.RandomOperand(r, d, m, k), kerneltest.RandomOperand(r, d, k, n))
			continue
		}
		if r.IntN(4) == 0 {
			s = kerneltest.RandomOperand(r, tensor.Float32, b, m, n)
		}
		if d.IsComplex() || s.DType != d && d.IsIntegral(true) {
			s = kerneltest.RandomOperand(r, d, b, 1, n)
		}
		checkProduct(t, r, "baddbmm", at, k, s, kerneltest.RandomOperand(r, d, b, m, k),
			kerneltest.RandomOperand(r, d, b, k, n))
	}
}

func TestLinearRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 600 {
		d := kerneltest.ProductDTypes[r.IntN(len(kerneltest.ProductDTypes))]
		n, k := productSize(r), productSize(r)
		var shape []int
		for range r.IntN(4) {
			shape = append(shape, r.IntN(5))
		}
		x := kerneltest.RandomOperand(r, d, append(shape, k)...)
		if r.IntN(3) == 0 {
			x = x.Contiguous()
		}
		var bias *tensor.Tensor
		if r.IntN(3) > 0 {
			bias = kerneltest.RandomOperand(r, d, n)
			if len(shape) == 2 && x.IsContiguous() && r.IntN(2) == 0 {
				bias = kerneltest.RandomOperand(r, d, shape[0]*shape[1], n)
			}
		}
		checkProduct(t, r, "linear", nil, k, x, kerneltest.RandomOperand(r, d, n, k), bias)
	}
}

// TestMatmulLarge multiplies matrices that need several tiles, phases that pack, or several waves.
func TestMatmulLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, s := range [][4]int{{1, 300, 200, 300}, {3, 200, 300, 130}, {20, 64, 64, 64}, {40, 5, 7, 9}, {2, 3, 500, 700},
		{2, 700, 3, 300}} {
		b, m, n, k := s[0], s[1], s[2], s[3]
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.BFloat16, tensor.Int32} {
			x, y := tensor.Empty(tensor.New(d, b, m, k)), kerneltest.RandomOperand(r, d, b, k, n)
			kerneltest.FillRandom(r, x)
			product := func(v [][]float64) []float64 { return naiveProducts(v[0], v[1], b, m, n, k) }
			kerneltest.CheckLarge(t, r, "bmm", nil, k, product, x, y)
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

// TestMatmulNaN checks that self is not read if beta is 0.
func TestMatmulNaN(t *testing.T) {
	x := tensor.Must(tensor.FromSlice([]float32{0, 1, 2, 3}, 2, 2))
	nan := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, float32(math.NaN())}, 2, 2))
	p, err := kerneltest.NewProductCall("addmm", graph.Attrs{"beta": 0}, []*tensor.Tensor{nan, x, x})
	if err != nil {
		t.Fatal(err)
	}
	p.Check(t, 2)
}

func TestProductAllocs(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		in := []*tensor.Tensor{kerneltest.RandomOperand(r, d, 4, 60, 50), kerneltest.RandomOperand(r, d, 50, 70),
			kerneltest.RandomOperand(r, d, 2, 16, 20, 20),
			kerneltest.RandomOperand(r, d, 8, 16, 3, 3), kerneltest.RandomOperand(r, d, 16, 1, 3, 3)}
		for _, c := range []struct {
			op string
			at graph.Attrs
			in []*tensor.Tensor
		}{{"matmul", nil, in[:2]}, {"conv2d", nil, in[2:4]},
			{"conv2d", graph.Attrs{"groups": 16}, []*tensor.Tensor{in[2], in[4]}}} {
			p, err := kerneltest.NewProductCall(c.op, c.at, c.in)
			if err != nil {
				t.Fatal(err)
			}
			k := p.Compile(t)
			k.Run(t, false)
			if n := testing.AllocsPerRun(20, func() { k.Run(t, false) }); n >= 1 {
				t.Errorf("%s %v: %v allocations in a run", c.op, d, n)
			}
		}
	}
}
