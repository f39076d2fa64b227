package conv_test

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// randomConv returns a random convolution over dims dimensions whose window fits the input.
func randomConv(r *rand.Rand, d tensor.DType, dims, channels int) (graph.Attrs, []*tensor.Tensor, int) {
	g, cg, og := 1, 1+r.IntN(channels), 1+r.IntN(channels)
	switch r.IntN(4) {
	case 0:
		g = 1 + r.IntN(4)
	case 1:
		g, cg, og = 2+r.IntN(2*channels), 1, 1+r.IntN(5)/3
	}
	x, w := []int{r.IntN(4), g * cg}, []int{g * og, cg}
	if r.IntN(8) > 0 {
		x[0] = 1 + r.IntN(3)
	}
	var stride, padding, dilation []int
	for range dims {
		k, p, dl := 1+r.IntN(4), r.IntN(3), 1+r.IntN(3)/2
		if r.IntN(3) == 0 {
			k, p, dl = 1, 0, 1
		}
		if d.IsIntegral(true) {
			dl = 1
		}
		size := max(1, dl*(k-1)+1-2*p) + r.IntN(12)
		x, w = append(x, size), append(w, k)
		stride, padding, dilation = append(stride, 1+r.IntN(5)/3), append(padding, p), append(dilation, dl)
	}
	if r.IntN(8) == 0 {
		x = x[1:]
	}
	in := []*tensor.Tensor{kerneltest.RandomOperand(r, d, x...), kerneltest.RandomOperand(r, d, w...), nil}
	if r.IntN(2) == 0 {
		in[2] = kerneltest.RandomOperand(r, d, g*og)
	}
	return graph.Attrs{"stride": stride, "padding": padding, "dilation": dilation, "groups": g}, in, tensor.Numel(w[1:])
}

func TestConvRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for i := range 350 {
		d := kerneltest.ProductDTypes[r.IntN(len(kerneltest.ProductDTypes))]
		dims, channels := 2, 5
		if i%4 == 0 {
			dims = 1
		}
		if i%16 == 0 {
			channels = 40
		}
		at, in, k := randomConv(r, d, dims, channels)
		name := []string{"conv1d", "conv2d"}[dims-1]
		p, err := kerneltest.NewProductCall(name, at, in, kerneltest.RandomConstants(r, in)...)
		if err != nil {
			t.Fatalf("%v: %v", at, err)
		}
		p.Check(t, k)
		if dims == 1 || in[0].Rank() != 4 || in[0].Shape[0] == 0 {
			continue
		}
		checkConvImpls(t, p, at, in[0], k, kerneltest.RandomConstants(r, in)...)
	}
}

// checkConvImpls runs every implementation that supports the call, with the layouts that passes would choose.
func checkConvImpls(t *testing.T, p *kerneltest.ProductCall, at graph.Attrs, x *tensor.Tensor, k int, consts ...int) {
	if ran := runConvImpls(t, p, at, x, k, consts...); ran < 2 {
		t.Errorf("%v: %d implementations support the call", at, ran)
	}
}

func runConvImpls(t *testing.T, p *kerneltest.ProductCall, at graph.Attrs, x *tensor.Tensor, k int,
	consts ...int) (ran int) {
	for i := range p.Op.Impls {
		m := &p.Op.Impls[i]
		for _, w := range m.Walks(p.Call, nil) {
			y := x
			if w.LoopOrder != "" {
				y = x.CopyTo(x.Meta.WithStrides(w.LoopOrder.Strides(x.Shape)))
			}
			q := p.WithInput(t, at, y, consts...)
			q.Call.Impl, q.Call.Walk, q.Call.Out[0] = m, w, w.ResultLayout(0, q.Call.Out[0])
			if !m.Reads(q.Call, w) {
				t.Errorf("%s does not read %v", m.Name, y.Meta)
			}
			q.Check(t, k)
			ran++
		}
	}
	return ran
}

// TestConvLarge covers several tiles, images and packing phases.
func TestConvLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, s := range []struct{ n, c, h, w, o, k, stride, pad, groups int }{
		{2, 3, 40, 44, 20, 7, 2, 3, 1},
		{3, 32, 28, 28, 40, 3, 1, 1, 1},
		{2, 64, 9, 7, 96, 3, 1, 1, 2},
		{4, 96, 12, 12, 80, 1, 1, 0, 1},
		{2, 48, 33, 31, 48, 3, 2, 1, 48},
		{2, 48, 15, 19, 96, 5, 1, 2, 48},
		{20, 16, 8, 8, 16, 3, 1, 1, 1},
	} {
		for _, f := range []tensor.MemoryFormat{tensor.Contiguous, tensor.ChannelsLast} {
			m, err := tensor.NewFormat(tensor.Float32, []int{s.n, s.c, s.h, s.w}, f)
			if err != nil {
				t.Fatal(err)
			}
			x := tensor.Empty(m)
			kerneltest.FillRandom(r, x)
			in := []*tensor.Tensor{x, kerneltest.RandomOperand(r, tensor.Float32, s.o, s.c/s.groups, s.k, s.k),
				kerneltest.RandomOperand(r, tensor.Float32, s.o)}
			at := graph.Attrs{"stride": s.stride, "padding": s.pad, "groups": s.groups}
			naive := func(v [][]float64) []float64 {
				return naiveConv(v, s.n, s.c, s.h, s.w, s.o, s.k, s.stride, s.pad, s.groups)
			}
			kerneltest.CheckLarge(t, r, "conv2d", at, s.k*s.k*s.c/s.groups, naive, in...)
		}
	}
}

func naiveConv(v [][]float64, n, c, h, w, o, k, stride, pad, groups int) []float64 {
	x, wt, bias := v[0], v[1], v[2]
	var out []float64
	for e := range n * o {
		img, ch := e/o, e%o
		for row := -pad; row+k <= h+pad; row += stride {
			for col := -pad; col+k <= w+pad; col += stride {
				sum := bias[ch]
				for ci := range c / groups {
					plane := x[(img*c+ch/(o/groups)*(c/groups)+ci)*h*w:][:h*w]
					window := wt[(ch*(c/groups)+ci)*k*k:][:k*k]
					for i := max(0, -row); i < min(k, h-row); i++ {
						for j := max(0, -col); j < min(k, w-col); j++ {
							sum += plane[(row+i)*w+col+j] * window[i*k+j]
						}
					}
				}
				out = append(out, sum)
			}
		}
	}
	return out
}
