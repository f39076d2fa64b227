package product_test

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// wholeNumbers returns an operand with span distinct integers, around 0 for signed dtypes. One in three operands has
// only the extremes, for which intermediate saturation would give wrong sums.
func wholeNumbers(r *rand.Rand, d tensor.DType, span int64, shape ...int) *tensor.Tensor {
	t := kerneltest.RandomOperand(r, d, shape...)
	extremes := r.IntN(3) == 0
	kit.EachIndex(shape, func(at []int) {
		v := r.Int64N(span)
		if extremes {
			v = (span - 1) * r.Int64N(2)
		}
		if d.IsSigned() {
			v -= span / 2
		}
		t.Set(tensor.IntScalar(v), at...)
	})
	return t
}

// bytesOperands draws a product of bytes.
func bytesOperands(r *rand.Rand) []*tensor.Tensor {
	var d [3]tensor.DType
	for i := range d {
		d[i] = []tensor.DType{tensor.Uint8, tensor.Int8}[r.IntN(2)]
	}
	m, n, k := 1+r.IntN(40), 1+r.IntN(70), 1+r.IntN(30)
	if r.IntN(3) == 0 {
		k *= 4
	}
	a, b := []int{m, k}, []int{k, n}
	switch r.IntN(6) {
	case 0:
		a = []int{k}
		m = 1
	case 1:
		b = []int{k}
		n = 1
	case 2:
		a = []int{1 + r.IntN(3), m, k}
	case 3:
		a, b = []int{2, 1, m, k}, []int{3, k, n}
	}
	one := func(n int) []int { return [][]int{nil, {1}, {n}}[r.IntN(3)] }
	in := []*tensor.Tensor{wholeNumbers(r, d[0], 256, a...), wholeNumbers(r, d[1], 256, b...),
		wholeNumbers(r, d[0], 256, one(m)...), wholeNumbers(r, d[1], 256, one(n)...), wholeNumbers(r, tensor.Int32, 1<<12, n),
		nil, nil}
	for i := 2; i < 5; i++ {
		if r.IntN(3) == 0 {
			in[i] = nil
		}
	}
	if in[3] != nil && d[1] == tensor.Uint8 && r.IntN(2) == 0 {
		kit.EachIndex(in[3].Shape, func(at []int) { in[3].Set(tensor.IntScalar(128), at...) })
	}
	if r.IntN(2) == 0 {
		in[5], in[6] = tensor.Zeros(tensor.Float32, one(n)...), wholeNumbers(r, d[2], 256)
		kit.EachIndex(in[5].Shape, func(at []int) { in[5].Set(tensor.FloatScalar(r.Float64()/float64(40*k)), at...) })
	}
	return in
}

// TestMatmulBytes requires that all implementations equal the reference: for matrices in any layout, batches, vectors,
// all kinds of zero points, and constant operands.
func TestMatmulBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 4))
	tiled := 0
	for i := range 150 {
		tiled += checkBytes(t, r, i, bytesOperands(r))
	}
	if tile.SupportsIntegers(machine.HostFeatures()) && jit.Available() == nil && tiled < 150 {
		t.Errorf("only %d calls were machine code", tiled)
	}
}

// TestMatmulBytesDeep multiplies rows that need several calls of a tile and whose sums exceed int32.
func TestMatmulBytesDeep(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 5))
	for i, k := range []int{16385, 40000} {
		a, b := tensor.Zeros(tensor.Uint8, 3, k), tensor.Zeros(tensor.Uint8, k, 5)
		for _, v := range []*tensor.Tensor{a, b} {
			kit.EachIndex(v.Shape, func(at []int) { v.Set(tensor.IntScalar(255), at...) })
		}
		checkBytes(t, r, i, []*tensor.Tensor{a, b, nil, nil, nil, nil, nil})
	}
}

// checkBytes runs a call by all implementations, and returns the number of those with machine code.
func checkBytes(t *testing.T, r *rand.Rand, i int, in []*tensor.Tensor) (tiled int) {
	t.Helper()
	p, err := kerneltest.NewProductCall("matmul_bytes", nil, in, append(kerneltest.RandomConstants(r, in), 1)...)
	if err != nil {
		t.Fatalf("%d: %v", i, err)
	}
	want, err := p.Op.Ref(p.Call, in)
	if err != nil {
		t.Fatal(err)
	}
	for k := range p.Op.Impls {
		m := &p.Op.Impls[k]
		for _, w := range m.Walks(p.Call, nil) {
			if m.Name == "tiled" {
				tiled++
			}
			p.Call.Impl, p.Call.Walk = m, w
			for _, packed := range []bool{false, true} {
				if err := kerneltest.CompareTensors(p.Result(t, packed), want[0]); err != nil {
					t.Fatalf("%d: %s, packed %v, %v by %v, %v: %v", i, m.Name, packed, in[0].Meta, in[1].Meta, in[2:], err)
				}
			}
		}
	}
	return tiled
}
