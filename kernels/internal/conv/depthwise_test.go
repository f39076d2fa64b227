package conv_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

var depthwiseDTypes = []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16}

// TestDepthwise compares random windows, steps, paddings, dilations and layouts with the definition. They include
// windows of one loop and of several, more padding than window, and several planes per tile.
func TestDepthwise(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for i := range 240 {
		d := depthwiseDTypes[r.IntN(len(depthwiseDTypes))]
		g, og := 2+r.IntN(40), 1+r.IntN(6)/4
		x, w := []int{1 + r.IntN(3), g}, []int{g * og, 1}
		at := graph.Attrs{"groups": g}
		var stride, padding, dilation []int
		for range 2 {
			k, s, dl := 1+r.IntN(7), 1+r.IntN(4), 1+r.IntN(4)/2
			if r.IntN(2) == 0 {
				k, s, dl = []int{3, 5}[r.IntN(2)], 1+r.IntN(2), 1
			}
			p := r.IntN(k + 2)
			size := max(1, dl*(k-1)+1-2*p) + r.IntN(20)
			x, w = append(x, size), append(w, k)
			stride, padding, dilation = append(stride, s), append(padding, p), append(dilation, dl)
		}
		at["stride"], at["dilation"], at["padding"] = stride, dilation, padding
		if i%4 == 0 { // asymmetric padding
			at["padding"] = append(padding, r.IntN(3), r.IntN(4))
			x[2], x[3] = x[2]+padding[0], x[3]+padding[1]
		}
		in := []*tensor.Tensor{kerneltest.RandomOperand(r, d, x...), kerneltest.RandomOperand(r, d, w...), nil}
		if r.IntN(2) == 0 {
			in[2] = kerneltest.RandomOperand(r, d, g*og)
		}
		checkDepthwise(t, "conv2d", at, in, w[2]*w[3], kerneltest.RandomConstants(r, in)...)
	}
}

func checkDepthwise(t *testing.T, name string, at graph.Attrs, in []*tensor.Tensor, terms int, consts ...int) {
	t.Helper()
	p, err := kerneltest.NewProductCall(name, at, in, consts...)
	if err != nil {
		t.Fatalf("%v: %v", at, err)
	}
	p.Check(t, terms)
	if name == "conv2d" {
		checkConvImpls(t, p, at, in[0], terms, consts...)
	}
}

// TestDepthwiseTiles covers planes that are split by rows, by columns and by both, and large windows.
func TestDepthwiseTiles(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for _, s := range []struct{ c, h, w, kh, kw, stride, pad, dilation int }{
		{2, 130, 70, 3, 3, 1, 1, 1},
		{2, 91, 120, 3, 5, 2, 2, 1},
		{2, 7, 4100, 3, 3, 1, 1, 1},
		{2, 5, 5001, 2, 3, 2, 1, 1},
		{2, 3, 2000, 3, 3, 1, 2, 2},
		{3, 24, 24, 11, 12, 1, 5, 1},
		{3, 20, 20, 3, 3, 3, 1, 1},
	} {
		for _, f := range []tensor.MemoryFormat{tensor.Contiguous, tensor.ChannelsLast} {
			m, err := tensor.NewFormat(tensor.Float32, []int{1, s.c, s.h, s.w}, f)
			if err != nil {
				t.Fatal(err)
			}
			x := tensor.Empty(m)
			kerneltest.FillRandom(r, x)
			in := []*tensor.Tensor{x, kerneltest.RandomOperand(r, tensor.Float32, s.c, 1, s.kh, s.kw),
				kerneltest.RandomOperand(r, tensor.Float32, s.c)}
			checkDepthwise(t, "conv2d", graph.Attrs{"stride": s.stride, "padding": s.pad, "dilation": s.dilation,
				"groups": s.c}, in, s.kh*s.kw)
		}
	}
	line := kerneltest.RandomOperand(r, tensor.Float64, 1, 2, 30000)
	checkDepthwise(t, "conv1d", graph.Attrs{"groups": 2, "padding": 3},
		[]*tensor.Tensor{line, kerneltest.RandomOperand(r, tensor.Float64, 4, 1, 7), nil}, 7)
}

// TestDepthwiseCompiles checks that depthwise convolutions of floats are compiled where machine code is available. Then
// kernels by planes use worker memory, and kernels by pixels list their code.
func TestDepthwiseCompiles(t *testing.T) {
	if !loops.CodeAvailable() {
		t.Skip("no machine code here")
	}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64} {
		for _, f := range []tensor.MemoryFormat{tensor.Contiguous, tensor.ChannelsLast} {
			for _, k := range []int{1, 3, 5, 7} {
				m, err := tensor.NewFormat(d, []int{1, 8, 9, 9}, f)
				if err != nil {
					t.Fatal(err)
				}
				in := []*tensor.Tensor{tensor.Empty(m), tensor.Zeros(d, 8, 1, k, k), tensor.Zeros(d, 8)}
				p, err := kerneltest.NewProductCall("conv2d", graph.Attrs{"groups": 8, "padding": k / 2}, in, 1)
				if err != nil {
					t.Fatal(err)
				}
				kernel, err := kerneltest.CompileAnyLayouts(p.Op, p.Call)
				if err != nil {
					t.Fatal(err)
				}
				if kernel.WorkerScratch == 0 && kernel.Code == nil {
					t.Errorf("%v %v, a window of %d: no machine code", d, f, k)
				}
			}
		}
	}
}

// TestDepthwiseBits compares the bits of machine code by pixels with digests, which are the same for all instruction
// sets.
func TestDepthwiseBits(t *testing.T) {
	if !loops.CodeAvailable() {
		t.Skip("no machine code here")
	}
	for d, want := range map[tensor.DType]string{
		tensor.Float32: "07a10c19fe050072442efeca5a7577de621bf2540f03131ce81f3d1f9297db76",
		tensor.Float64: "9fb120d29d4e6647f98b8fc5ee3255ac84fb1b565ab6bfc164adca5ee6276ac6",
	} {
		r, hash := rand.New(rand.NewPCG(25, 30)), sha256.New()
		for _, s := range []struct{ c, size, k, stride, pad, dilation int }{
			{4, 9, 3, 1, 1, 1}, {23, 14, 3, 1, 1, 1}, {24, 15, 3, 2, 1, 1}, {58, 7, 5, 1, 2, 1}, {33, 12, 8, 1, 3, 1},
			{16, 20, 3, 1, 2, 2}, {19, 6, 1, 1, 0, 1},
		} {
			m, err := tensor.NewFormat(d, []int{2, s.c, s.size, s.size}, tensor.ChannelsLast)
			if err != nil {
				t.Fatal(err)
			}
			x := tensor.Empty(m)
			kerneltest.FillRandom(r, x)
			p, err := kerneltest.NewProductCall("conv2d", graph.Attrs{"stride": s.stride, "padding": s.pad,
				"dilation": s.dilation, "groups": s.c}, []*tensor.Tensor{x, kerneltest.RandomOperand(r, d, s.c, 1, s.k, s.k),
				kerneltest.RandomOperand(r, d, s.c)}, 1)
			if err != nil {
				t.Fatal(err)
			}
			k := slices.IndexFunc(p.Op.Impls, func(m graph.Impl) bool { return m.Name == "depthwise_nhwc" })
			p.Call.Impl = &p.Op.Impls[k]
			p.Call.Walk = p.Call.Impl.Walks(p.Call, nil)[0]
			p.Call.Out[0] = p.Call.Walk.ResultLayout(0, p.Call.Out[0])
			hash.Write(p.Result(t, true).Storage().Bytes())
		}
		if got := fmt.Sprintf("%x", hash.Sum(nil)); got != want {
			t.Errorf("%v: digest %s, want %s", d, got, want)
		}
	}
}
