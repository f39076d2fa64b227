package conv_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/depthwise"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// byteOperand returns a random operand with span distinct values, around 0 for signed dtypes.
func byteOperand(r *rand.Rand, d tensor.DType, span int64, shape ...int) *tensor.Tensor {
	t := tensor.Zeros(d, shape...)
	kit.EachIndex(shape, func(at []int) {
		v := r.Int64N(span)
		if d.IsSigned() {
			v -= span / 2
		}
		t.Set(tensor.IntScalar(v), at...)
	})
	return t
}

// TestConvBytes compares all implementations with the definition, exactly, for random windows, strides, padding and
// groups, with and without packed weights.
func TestConvBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 3))
	compiled, calls := 0, testsize.Short(40, 120)
	for i := range calls {
		channels := []int{1, 3, 4, 8, 20}[r.IntN(5)]
		groups := 1
		if i%4 == 0 {
			groups = 2 + r.IntN(2)
		}
		k, out := 1+r.IntN(4), groups*(1+r.IntN(40))
		size := k + r.IntN(14)
		at := graph.Attrs{"stride": 1 + r.IntN(2), "groups": groups,
			"padding": []int{r.IntN(3), r.IntN(3), r.IntN(3), r.IntN(3)}}
		if i%3 == 0 {
			k, at["padding"] = 1, 0
		}
		if size > 2*k {
			at["dilation"] = 1 + r.IntN(2)
		}
		scale, d := byteScales(r, out, channels*k*k), []tensor.DType{tensor.Uint8, tensor.Int8}[i%2]
		in := []*tensor.Tensor{byteOperand(r, d, 256, 1+r.IntN(2), groups*channels, size, size+r.IntN(3)),
			byteOperand(r, tensor.Int8, 256, out, channels, k, k), byteOperand(r, tensor.Int32, 1<<12, out), scale,
			byteOperand(r, d, 256), byteOperand(r, []tensor.DType{tensor.Uint8, tensor.Int8}[r.IntN(2)], 256)}
		if i%5 == 0 {
			in = sumsOf(in)
		}
		compiled += compareBytes(t, at, in)
	}
	if jit.Available() == nil && tile.SupportsIntegers(machine.HostFeatures()) && compiled < calls*3/4 {
		t.Errorf("only %d calls used machine code", compiled)
	}
}

// TestConvBytesDepthwise does the same for depthwise convolutions: various numbers of channels, padding, windows of
// several groups of rows, tiles that overlap, and scales that are NaN or saturate all results.
func TestConvBytesDepthwise(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 5))
	compiled, calls := 0, testsize.Short(40, 120)
	for i := range calls {
		channels, kh, kw := []int{2, 7, 16, 31, 32, 63, 64, 65, 96, 130}[r.IntN(10)], 1+r.IntN(6), 1+r.IntN(6)
		at := graph.Attrs{"stride": []int{1 + r.IntN(3), 1 + r.IntN(3)}, "groups": channels,
			"padding": []int{r.IntN(4), r.IntN(4), r.IntN(4), r.IntN(4)}}
		h, w := kh+r.IntN(12), kw+r.IntN(30)
		if i%4 == 0 {
			at["padding"] = 0
		}
		if h > 2*kh && w > 2*kw {
			at["dilation"] = []int{1 + r.IntN(2), 1 + r.IntN(2)}
		}
		scale, d := byteScales(r, channels, kh*kw), []tensor.DType{tensor.Uint8, tensor.Int8}[i%2]
		if i%5 == 0 {
			for k, v := range []float64{math.NaN(), math.Inf(1), -1e9, 1e9} {
				scale.Set(tensor.FloatScalar(v), k%channels)
			}
		}
		in := []*tensor.Tensor{byteOperand(r, d, 256, 1+r.IntN(2), channels, h, w),
			byteOperand(r, tensor.Int8, 256, channels, 1, kh, kw), byteOperand(r, tensor.Int32, 1<<12, channels), scale,
			byteOperand(r, d, 256), byteOperand(r, []tensor.DType{tensor.Uint8, tensor.Int8}[r.IntN(2)], 256)}
		if i%7 == 0 {
			in = sumsOf(in)
		}
		compiled += compareBytes(t, at, in)
	}
	if jit.Available() == nil && depthwise.SupportsBytes(machine.HostFeatures()) && compiled < calls {
		t.Errorf("only %d calls used machine code", compiled)
	}
}

// sumsOf returns the operands without scale and zero point, for int32 results.
func sumsOf(in []*tensor.Tensor) []*tensor.Tensor {
	return []*tensor.Tensor{in[0], in[1], in[2], nil, in[4]}
}

// byteScales returns scales for sums of the given number of products.
func byteScales(r *rand.Rand, n, terms int) *tensor.Tensor {
	scale := tensor.Zeros(tensor.Float32, n)
	kit.EachIndex(scale.Shape, func(at []int) { scale.Set(tensor.FloatScalar(r.Float64()/float64(20*terms)), at...) })
	return scale
}

// TestConvBytesOfSmallImages covers images of few pixels with several strips and blocks of channels.
func TestConvBytesOfSmallImages(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 4))
	for _, s := range [][4]int{{14, 2, 1, 96}, {7, 1, 1, 130}, {7, 2, 0, 64}} {
		at := graph.Attrs{"stride": s[1], "padding": s[2]}
		compareBytes(t, at, []*tensor.Tensor{byteOperand(r, tensor.Uint8, 256, 1, 64, s[0], s[0]),
			byteOperand(r, tensor.Int8, 256, s[3], 64, 3, 3), byteOperand(r, tensor.Int32, 1<<12, s[3]),
			byteScales(r, s[3], 64*9), byteOperand(r, tensor.Uint8, 256), byteOperand(r, tensor.Uint8, 256)})
	}
}

// compareBytes compares all implementations of a call with the definition, and returns how many are machine code.
func compareBytes(t *testing.T, at graph.Attrs, in []*tensor.Tensor) (compiled int) {
	t.Helper()
	p, err := kerneltest.NewProductCall("conv2d_bytes", at, in, 1, 2, 3, 4, 5)
	if err != nil {
		t.Fatalf("%v: %v", at, err)
	}
	want, err := p.Op.Ref(p.Call, in)
	if err != nil {
		t.Fatal(err)
	}
	for k := range p.Op.Impls {
		m := &p.Op.Impls[k]
		for _, w := range m.Walks(p.Call, nil) {
			given := append([]*tensor.Tensor(nil), in...)
			if w.LoopOrder != "" {
				given[0] = in[0].CopyTo(in[0].Meta.WithStrides(w.LoopOrder.Strides(in[0].Shape)))
				compiled++
			}
			q, err := kerneltest.NewProductCall("conv2d_bytes", at, given, 1, 2, 3, 4, 5)
			if err != nil {
				t.Fatal(err)
			}
			q.Call.Impl, q.Call.Walk, q.Call.Out[0] = m, w, w.ResultLayout(0, q.Call.Out[0])
			for _, packed := range []bool{false, true} {
				if err := kerneltest.CompareTensors(q.Result(t, packed), want[0]); err != nil {
					t.Fatalf("%s, packed %v, %v of %v by %v: %v", m.Name, packed, at, in[0].Meta, in[1].Meta, err)
				}
			}
		}
	}
	return compiled
}
