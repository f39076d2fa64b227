package product_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

func TestAttention(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 1))
	for i := range testsize.Of(150, 3000) {
		d := kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))]
		l, s, e, v, heads := 1+r.IntN(9), 1+r.IntN(9), 1+r.IntN(6), 1+r.IntN(6), 1+r.IntN(3)
		switch i % 10 {
		case 0:
			l, s = 60+r.IntN(80), 40+r.IntN(60)
		case 1: // several entries per block
			l, s, heads = 5+r.IntN(30), 5+r.IntN(12), 1+r.IntN(24)
		}
		batch := []int{1 + r.IntN(2), heads}[r.IntN(3)/2:]
		at := graph.Attrs{}
		kb := slices.Clone(batch)
		if r.IntN(4) == 0 {
			at["enable_gqa"] = true
			batch[len(batch)-1] *= 2
		} else if r.IntN(4) == 0 {
			kb[0] = 1
		}
		in := []*tensor.Tensor{kerneltest.RandomOperand(r, d, append(slices.Clone(batch), l, e)...),
			kerneltest.RandomOperand(r, d, append(slices.Clone(kb), s, e)...),
			kerneltest.RandomOperand(r, d, append(slices.Clone(kb), s, v)...)}
		switch r.IntN(4) {
		case 0:
			at["is_causal"] = true
		case 1, 2:
			mask := []int{l, s}
			if r.IntN(2) == 0 {
				mask = append([]int{1 + r.IntN(2)*(batch[len(batch)-1]-1)}, []int{l, 1}[r.IntN(2)], s)
			}
			in = append(in, kerneltest.RandomOperand(r, d, mask...))
			if r.IntN(2) == 0 {
				b := tensor.Empty(tensor.New(tensor.Bool, mask...))
				kit.EachIndex(mask, func(i []int) { b.Set(tensor.BoolScalar(r.IntN(3) > 0), i...) })
				in[3] = b
			}
		}
		if r.IntN(3) == 0 {
			at["scale"] = 0.5
		}
		kerneltest.CheckKernel(t, "scaled_dot_product_attention", at, in)
	}
}

func TestAttentionOfNothing(t *testing.T) {
	for _, n := range [][4]int{{3, 0, 2, 2}, {3, 4, 0, 2}, {0, 4, 2, 2}, {3, 4, 2, 0}} {
		l, s, e, v := n[0], n[1], n[2], n[3]
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float16} {
			in := []*tensor.Tensor{tensor.Zeros(d, 2, l, e), tensor.Zeros(d, 2, s, e), tensor.Zeros(d, 2, s, v)}
			for _, causal := range []bool{false, true} {
				kerneltest.CheckKernel(t, "scaled_dot_product_attention", graph.Attrs{"scale": 0.5, "is_causal": causal}, in)
			}
		}
	}
}

func TestAttentionDoesNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(72, 1))
	for _, shape := range [][]int{{2, 70, 16}, {24, 8, 7}, {24, 18, 7}} {
		x := func() *tensor.Tensor { return kerneltest.RandomOperand(r, tensor.Float32, shape...) }
		in := []*tensor.Tensor{x(), x(), x()}
		op, c, err := kerneltest.NewCall("scaled_dot_product_attention", nil, in)
		if err != nil {
			t.Fatal(err)
		}
		if n := kerneltest.KernelAllocs(t, op, c, in); n > 0 {
			t.Errorf("%v: a run allocates %v times", shape, n)
		}
	}
}

func TestChannelwise(t *testing.T) {
	r := rand.New(rand.NewPCG(73, 1))
	for i := range 150 {
		d := kerneltest.FloatDTypes[r.IntN(len(kerneltest.FloatDTypes))]
		shape := []int{1 + r.IntN(3), 2 * (1 + r.IntN(3)), 1 + r.IntN(5), 1 + r.IntN(5)}[:3+r.IntN(2)]
		if i%30 == 0 {
			shape = []int{2, 6, 700}
		}
		x := kerneltest.RandomOperand(r, d, shape...)
		dim := r.IntN(len(shape))
		kerneltest.CheckKernel(t, "hardmax", graph.Attrs{"dim": dim}, []*tensor.Tensor{x})
		kerneltest.CheckKernel(t, "glu", graph.Attrs{"dim": 1}, []*tensor.Tensor{x},
			kerneltest.RandomConstants(r, []*tensor.Tensor{x})...)
		kerneltest.CheckKernel(t, "prelu", nil,
			[]*tensor.Tensor{x, kerneltest.RandomOperand(r, d, []int{1, shape[1]}[r.IntN(2)])})
		norm := graph.Attrs{"normalized_shape": shape[dim:]}
		if r.IntN(2) == 0 {
			norm["eps"] = 1e-3
		}
		kerneltest.CheckKernel(t, "rms_norm", norm,
			[]*tensor.Tensor{x, kerneltest.RandomOperand(r, d, shape[dim:]...)}[:1+r.IntN(2)])
		kerneltest.CheckKernel(t, "local_response_norm", graph.Attrs{"size": 1 + r.IntN(5), "alpha": 0.3,
			"beta": []float64{0.75, 0.5, 0.6}[r.IntN(3)], "k": 0.5 + r.Float64()}, []*tensor.Tensor{x})
		target := tensor.Zeros(tensor.Int64, append([]int{shape[0]}, shape[2:]...)...)
		kit.EachIndex(target.Shape, func(i []int) { target.Set(tensor.IntScalar(r.Int64N(int64(shape[1]))), i...) })
		at := graph.Attrs{"reduction": r.IntN(3), "ignore_index": []int{-100, 0}[r.IntN(2)]}
		in := []*tensor.Tensor{x, target, kerneltest.RandomOperand(r, d, shape[1])}[:2+r.IntN(2)]
		if len(in) > 2 && at["reduction"] == 1 {
			// A mean needs weights that do not cancel.
			kit.EachIndex(in[2].Shape, func(i []int) { in[2].Set(tensor.FloatScalar(0.5+r.Float64()), i...) })
		}
		kerneltest.CheckKernel(t, "nll_loss", at, in)
		kerneltest.CheckKernel(t, "cross_entropy_loss", at, in)
	}
	x := kerneltest.RandomOperand(r, tensor.Float32, 3, 4)
	for _, name := range []string{"softshrink", "shrink"} {
		kerneltest.CheckKernel(t, name, graph.Attrs{"lambd": 0.2}, []*tensor.Tensor{x})
	}
	target := tensor.Must(tensor.FromSlice([]int64{0, 1, 4}, 3))
	op, c, err := kerneltest.NewCall("nll_loss", nil, []*tensor.Tensor{x, target})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kerneltest.RunInFilledMemory(op, c, []*tensor.Tensor{x, target}, 0, false); err == nil ||
		err.Error() != "Target 4 is out of bounds." {
		t.Errorf("a target out of bounds: %v", err)
	}
}
