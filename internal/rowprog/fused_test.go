package rowprog_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/tensor"
)

// planOf plans row-major rows of n elements.
func planOf(t *testing.T, tc testCode, rows, n int) *call {
	t.Helper()
	b := expr.NewBuilder(tc.in...)
	c, err := b.Build(tc.make(b)...)
	if err != nil {
		t.Fatal(err)
	}
	k := &call{}
	var outs, ins []tensor.Meta
	for o, out := range c.Out {
		m := tensor.New(out.DType, rows, n)
		if tc.one[o] {
			m = tensor.New(out.DType, rows, 1)
		}
		outs = append(outs, m)
		k.outs = append(k.outs, tensor.Empty(m))
	}
	for i, d := range tc.in {
		ins = append(ins, []tensor.Meta{tensor.New(d, rows, n), {DType: d, Shape: []int{rows, n}, Strides: []int{0, 1}},
			tensor.New(d, rows, 1)}[i])
	}
	if k.plan, err = rowprog.New(c, outs, ins, []bool{false, true}, rowprog.AnyDirection); err != nil {
		t.Fatal(err)
	}
	return k
}

func isFused(p *rowprog.Plan) bool {
	for _, l := range p.Listings() {
		if strings.HasPrefix(l.Name, "all passes fused") {
			return true
		}
	}
	return false
}

// TestFused compares rows computed by fused passes with rows computed one by one, bit by bit.
func TestFused(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	rng := rand.New(rand.NewPCG(1, 5))
	for _, shape := range [][2]int{{13, 1100}, {40, 4096}, {1000, 300}, {4000, 33}, {4001, 70}, {5000, 1}, {1100, 4097},
		{1100, 4096}} {
		for _, tc := range testCodes {
			if tc.name != "softmax" && tc.name != "norm" && tc.name != "stored rows" || shape[0]*shape[1] > 1<<22 &&
				tc.name != "softmax" {
				continue
			}
			all := planOf(t, tc, shape[0], shape[1])
			if !isFused(all.plan) && shape[0] > 40 && shape[1] > 1 && machine.HostFeatures().Has(machine.Vector512) {
				t.Errorf("%s of %v: passes are not fused", tc.name, shape)
			}
			one := planOf(t, tc, 1, shape[1])
			if isFused(one.plan) {
				t.Fatalf("%s of %v: passes over one row are fused", tc.name, shape)
			}
			checkFused(t, rng, tc, all, one, shape[0], shape[1])
		}
	}
}

func checkFused(t *testing.T, rng *rand.Rand, tc testCode, all, one *call, rows, n int) {
	t.Helper()
	var in []*tensor.Tensor
	for _, o := range all.outs {
		all.ptrs = append(all.ptrs, o.Pointer())
	}
	for i, d := range tc.in {
		x := tensor.Empty([]tensor.Meta{tensor.New(d, rows, n), tensor.New(d, n), tensor.New(d, rows)}[i])
		fill(rng, x)
		in = append(in, x)
		all.ptrs = append(all.ptrs, x.Pointer())
	}
	if d := tc.in[0]; d == f32 {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			in[0].SetFlat(rng.IntN(rows*n), tensor.FloatScalar(v))
		}
	}
	all.run(t, rng)
	for r := 0; r < rows; r += 1 + rng.IntN(1+rows/50) {
		one.ptrs = one.ptrs[:0]
		for _, o := range one.outs {
			one.ptrs = append(one.ptrs, o.Pointer())
		}
		for i, x := range in {
			at := r * x.Numel() / rows * x.DType.Size()
			if i == 1 {
				at = 0
			}
			one.ptrs = append(one.ptrs, unsafe.Add(x.Pointer(), at))
		}
		one.run(t, rng)
		for o := range one.outs {
			b := one.outs[o].Storage().Bytes()
			if at := r * len(b); !bytes.Equal(b, all.outs[o].Storage().Bytes()[at:at+len(b)]) {
				t.Fatalf("%s of %dx%d: output %d of row %d has other bits with fused passes", tc.name, rows,
					n, o, r)
			}
		}
	}
}

// TestPipeline compares rows of a pipeline, with and without groups and with rows left over, with rows computed one by
// one.
func TestPipeline(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	rng := rand.New(rand.NewPCG(3, 5))
	for _, tc := range []struct {
		rows, n int
		stores  int // rows per iteration of the fused loop, each a stored output
	}{{1100, 512, 1}, {1100, 4096, 1}, {601, 8192, 2}, {602, 7000, 2}} {
		code := testCode{name: "normed", in: []tensor.DType{f32, f32}, one: []bool{false},
			make: func(b *expr.Builder) []expr.Output { return normed(b, tc.n) }}
		all := planOf(t, code, tc.rows, tc.n)
		if machine.HostFeatures().Has(machine.Vector512) {
			l := all.plan.Listings()[0]
			stored := 0
			for _, o := range l.Loop.Code.Out {
				if o.DType != tensor.Invalid {
					stored++
				}
			}
			if !isFused(all.plan) || !slices.ContainsFunc(l.Loop.Code.Insts, isSqrt) || stored != tc.stores {
				t.Errorf("%dx%d: the first loop is %s, of %d rows", tc.rows, tc.n, l.Name, stored)
			}
		}
		checkFused(t, rng, code, all, planOf(t, code, 1, tc.n), tc.rows, tc.n)
	}
}

// TestPipelineLines compares rows with gaps after every matrix with the same rows without gaps.
func TestPipelineLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	const matrices, rows, n = 30, 45, 640
	b := expr.NewBuilder(f32, f32)
	c, err := b.Build(normed(b, n)...)
	if err != nil {
		t.Fatal(err)
	}
	wide, x := tensor.Empty(tensor.New(f32, matrices, rows+1, n)), tensor.Empty(tensor.New(f32, matrices, rows, n))
	w := tensor.Empty(tensor.New(f32, n))
	fill(rng, wide)
	fill(rng, w)
	const size = 4 * rows * n
	var got [2][]byte
	for k, in := range []*tensor.Tensor{wide, x} {
		for m := range matrices {
			copy(x.Storage().Bytes()[m*size:], wide.Storage().Bytes()[m*(size+4*n):][:size])
		}
		m := x.Meta
		m.Strides = in.Strides
		scale := tensor.Meta{DType: f32, Shape: []int{matrices, rows, n}, Strides: []int{0, 0, 1}}
		out := tensor.Empty(x.Meta)
		mask := []bool{false, false, true}
		plan, err := rowprog.New(c, []tensor.Meta{out.Meta}, []tensor.Meta{m, scale}, mask, rowprog.AnyDirection)
		if err != nil {
			t.Fatal(err)
		}
		a := &call{plan: plan, ptrs: []unsafe.Pointer{out.Pointer(), in.Pointer(), w.Pointer()}}
		a.run(t, rng)
		got[k] = out.Storage().Bytes()
	}
	if !bytes.Equal(got[0], got[1]) {
		t.Error("rows of separate matrices have other bits than contiguous ones")
	}
}

func isSqrt(i expr.Inst) bool { return i.Op == expr.Sqrt }

// TestEvictsShared checks that passes are separate if they would evict operands that rows share, but not for shorter
// rows or passes that compute much. Results have the bits of rows computed one by one.
func TestEvictsShared(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	rng := rand.New(rand.NewPCG(2, 5))
	for _, tc := range []struct {
		name     string
		rows, n  int
		separate bool
	}{{"norm", 1100, 4096, true}, {"norm", 700, 6007, true}, {"norm", 9000, 512, false}, {"norm", 500, 4096, false},
		{"softmax", 1100, 4096, false}} {
		for _, code := range testCodes {
			if code.name != tc.name {
				continue
			}
			all := planOf(t, code, tc.rows, tc.n)
			if isFused(all.plan) == tc.separate && machine.HostFeatures().Has(machine.Vector512) {
				t.Errorf("%s of %dx%d: fused passes: %v", tc.name, tc.rows, tc.n, !tc.separate)
			}
			checkFused(t, rng, code, all, planOf(t, code, 1, tc.n), tc.rows, tc.n)
		}
	}
}
