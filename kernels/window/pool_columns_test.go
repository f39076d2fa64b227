package window_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestPoolsByPixels takes windows of few and of many elements over channels that lie together, in one to three
// dimensions, beside the definition and beside Go, with numbers that are none and infinite ones among the elements.
func TestPoolsByPixels(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 1))
	for i := range 400 {
		dims := 1 + r.IntN(3)
		kind := []string{"max_pool%dd", "max_pool%dd_with_indices", "avg_pool%dd", "adaptive_avg_pool%dd", "adaptive_max_pool%dd"}[i%5]
		dtypes := []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int64}
		d := dtypes[r.IntN(len(dtypes)-1)]
		shape := []int{1 + r.IntN(2), 2 + r.IntN(40)}
		var k, pad, stride, out []int
		for range dims {
			size := 1 + r.IntN(6)
			k, stride, out = append(k, size), append(stride, 1+r.IntN(3)), append(out, 1+r.IntN(4))
			pad, shape = append(pad, r.IntN(size/2+1)), append(shape, 2*size+r.IntN(6))
		}
		a := graph.Attrs{"output_size": out}
		if i%5 < 3 {
			a = graph.Attrs{"kernel_size": k, "padding": pad, "stride": stride, "ceil_mode": r.IntN(2) == 0}
			switch {
			case i%5 == 2 && r.IntN(2) == 0:
				d = dtypes[r.IntN(len(dtypes))]
				a["count_include_pad"] = false
			case i%5 < 2:
				a["dilation"] = 1 + r.IntN(2)
			}
			if r.IntN(3) == 0 {
				a["padding"] = append(pad, pad...) // ONNX's form
				if i%5 < 2 {
					d = []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}[r.IntN(5)]
				}
			}
		}
		x := kerneltest.RandomTensor(r, pixelsLast(tensor.New(d, shape...)))
		if d.IsFloat() {
			for range r.IntN(4) {
				at := make([]int, len(shape))
				for j, n := range shape {
					at[j] = r.IntN(n)
				}
				x.Set(tensor.FloatScalar([]float64{math.NaN(), math.Inf(-1), math.Inf(1)}[r.IntN(3)]), at...)
			}
		}
		checkPixels(t, fmt.Sprintf(kind, dims), a, x)
	}
}

// TestLeastPools takes images of nothing but the least number: their indices are those of the first elements.
func TestLeastPools(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 1, 20, 6, 7)
	for i := range x.Numel() {
		x.SetFlat(i, tensor.FloatScalar(math.Inf(-1)))
	}
	x = x.CopyTo(pixelsLast(x.Meta))
	a := graph.Attrs{"kernel_size": 3, "padding": 1, "stride": 2}
	checkPixels(t, "max_pool2d", a, x)
	checkPixels(t, "max_pool2d_with_indices", a, x)
	checkPixels(t, "adaptive_max_pool2d", graph.Attrs{"output_size": []int{2, 3}}, x)
}

// pixelsLast lays channels together.
func pixelsLast(m tensor.Meta) tensor.Meta {
	st, step := make([]int, m.Rank()), m.Shape[1]
	st[1] = 1
	for d := m.Rank() - 1; d > 1; d-- {
		st[d], step = step, step*m.Shape[d]
	}
	st[0] = step
	return m.WithStrides(st)
}

// checkPixels compares what the implementation by pixels makes with the definition, and with what it makes in Go.
func checkPixels(t *testing.T, name string, a graph.Attrs, x *tensor.Tensor) {
	t.Helper()
	op, c, err := kerneltest.NewReduceCall(name, a, []*tensor.Tensor{x})
	if err != nil {
		t.Errorf("%s %v %v: %v", name, a, x.Meta, err)
		return
	}
	for i := range c.Out {
		c.Out[i] = pixelsLast(c.Out[i])
	}
	if x.Shape[1] < 2 || op.Impls[0].Name != "pixels" {
		t.Fatalf("%s has no implementation by pixels", name)
	}
	want, err := op.Ref(c, []*tensor.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	got := runPixels(t, op, c, x)
	compiles := loops.Compiles
	loops.Compiles = func() bool { return false }
	inGo := runPixels(t, op, c, x)
	loops.Compiles = compiles
	for i := range want {
		for _, other := range []*tensor.Tensor{want[i], inGo[i]} {
			if why := kerneltest.DiffersBy(got[i], other, kerneltest.ReduceTolerance(got[i].DType)); why != "" {
				t.Errorf("%s %v %v: output %d: %s", name, a, x.Meta, i, why)
			}
		}
		if name[0] == 'm' && !bytes.Equal(got[i].Storage().Bytes(), inGo[i].Storage().Bytes()) {
			t.Errorf("%s %v %v: output %d has other bits than in Go", name, a, x.Meta, i)
		}
	}
}

func runPixels(t *testing.T, op *graph.Op, c *graph.Call, x *tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	k, err := op.Impls[0].Lower(c)
	if err != nil {
		t.Fatal(err)
	}
	var outs []*tensor.Tensor
	m := k.NewMem()
	for _, o := range c.Out {
		outs = append(outs, tensor.Empty(o))
		m.Ptrs = append(m.Ptrs, outs[len(outs)-1].Pointer())
	}
	m.Ptrs = append(m.Ptrs, []unsafe.Pointer{x.Pointer()}...)
	for _, ph := range k.Phases {
		for i := range ph.Chunks {
			if err := ph.Run(m, ph.Chunks-1-i); err != nil {
				t.Fatal(err)
			}
		}
	}
	return outs
}
