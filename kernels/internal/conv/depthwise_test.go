package conv_test

import (
	"math/rand/v2"
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
		checkDepthwise(t, "conv2d", at, in, w[2]*w[3], kerneltest.SomeConstants(r, in)...)
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
		checkConvImpls(t, p, name, at, in, terms, consts...)
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
			kerneltest.FillProduct(r, x)
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
				kernel, err := kerneltest.CompileAny(p.Op, p.Call)
				if err != nil {
					t.Fatal(err)
				}
				if kernel.Worker == 0 && kernel.Code == nil {
					t.Errorf("%v %v, a window of %d: no machine code", d, f, k)
				}
			}
		}
	}
}
