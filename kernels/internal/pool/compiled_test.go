package pool_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestPoolLoops compares compiled loops with the definition and with Go, for small and large windows, by pixels and by
// planes, in one to three dimensions, with NaN and infinite elements.
func TestPoolLoops(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 1))
	compiled := map[string]int{}
	for i := range testsize.Of(60, 240) {
		dims := 1 + r.IntN(3)
		kind := []string{"max_pool%dd", "max_pool%dd_with_indices", "avg_pool%dd", "adaptive_avg_pool%dd",
			"adaptive_max_pool%dd"}[i%5]
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
		m, impl := channelsLastOrder(tensor.New(d, shape...)), "pixels"
		if r.IntN(2) == 0 {
			if shape[len(shape)-1] += r.IntN(40); r.IntN(8) == 0 {
				shape[len(shape)-1] += 200 // several blocks of rows
			}
			m, impl = tensor.New(d, shape...), "planes"
		}
		x := kerneltest.RandomTensor(r, m)
		if d.IsFloat() {
			for range r.IntN(4) {
				at := make([]int, len(shape))
				for j, n := range shape {
					at[j] = r.IntN(n)
				}
				x.Set(tensor.FloatScalar([]float64{math.NaN(), math.Inf(-1), math.Inf(1)}[r.IntN(3)]), at...)
			}
		}
		compiled[impl] += checkPool(t, fmt.Sprintf(kind, dims), impl, a, x)
	}
	if loops.CodeAvailable() && (compiled["pixels"] < testsize.Of(20, 70) || compiled["planes"] < testsize.Of(4, 15)) {
		t.Errorf("machine code was made for %v only", compiled)
	}
}

// TestLeastPools pools images of the least number only: their indices are those of the first elements.
func TestLeastPools(t *testing.T) {
	planes := tensor.Zeros(tensor.Float32, 1, 20, 6, 7)
	for i := range planes.Numel() {
		planes.SetFlat(i, tensor.FloatScalar(math.Inf(-1)))
	}
	pixels := planes.CopyTo(channelsLastOrder(planes.Meta))
	a := graph.Attrs{"kernel_size": 3, "padding": 1, "stride": 2}
	for impl, x := range map[string]*tensor.Tensor{"pixels": pixels, "planes": planes} {
		checkPool(t, "max_pool2d", impl, a, x)
		checkPool(t, "max_pool2d_with_indices", impl, a, x)
		checkPool(t, "adaptive_max_pool2d", impl, graph.Attrs{"output_size": []int{2, 3}}, x)
	}
}

// TestPoolsOfSmallElements runs poolings repeatedly: a write outside the result would corrupt the next object on the
// heap.
func TestPoolsOfSmallElements(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 2))
	a := graph.Attrs{"kernel_size": []int{4, 5, 6}, "padding": []int{1, 1, 0, 1, 1, 0}, "stride": []int{3, 2, 1}}
	for _, d := range []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32} {
		planes := kerneltest.RandomTensor(r, tensor.New(d, 1, 2, 5, 6, 33))
		pixels := planes.CopyTo(channelsLastOrder(planes.Meta))
		compiled := 0
		for range 20 {
			compiled += checkPool(t, "max_pool3d", "planes", a, planes)
			compiled += checkPool(t, "max_pool3d", "pixels", a, pixels)
		}
		if loops.CodeAvailable() && compiled < 40 {
			t.Errorf("%v: machine code was made %d times of 40", d, compiled)
		}
	}
}

// channelsLastOrder makes an operand channels-last.
func channelsLastOrder(m tensor.Meta) tensor.Meta {
	st, step := make([]int, m.Rank()), m.Shape[1]
	st[1] = 1
	for d := m.Rank() - 1; d > 1; d-- {
		st[d], step = step, step*m.Shape[d]
	}
	st[0] = step
	return m.WithStrides(st)
}

// checkPool compares an implementation with the definition, and with its loops in Go. It returns 1 if it is machine
// code.
func checkPool(t *testing.T, name, impl string, a graph.Attrs, x *tensor.Tensor) (compiled int) {
	t.Helper()
	op, c, err := kerneltest.NewReduceCall(name, a, []*tensor.Tensor{x})
	if err != nil {
		t.Errorf("%s %v %v: %v", name, a, x.Meta, err)
		return 0
	}
	at := slices.IndexFunc(op.Impls, func(m graph.Impl) bool { return m.Name == impl })
	for i := range c.Out {
		if impl == "pixels" {
			c.Out[i] = channelsLastOrder(c.Out[i])
		}
	}
	want, err := op.Ref(c, []*tensor.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	got, code := runPool(t, &op.Impls[at], c, x)
	compiles := loops.CodeAvailable
	loops.CodeAvailable = func() bool { return false }
	inGo, _ := runPool(t, &op.Impls[at], c, x)
	loops.CodeAvailable = compiles
	for _, other := range [][]*tensor.Tensor{want, inGo} {
		if err := kerneltest.CompareResults(op, c, []*tensor.Tensor{x}, got, other); err != nil {
			t.Errorf("%s by %s %v %v: %v", name, impl, a, x.Meta, err)
		}
	}
	for i := range want {
		if name[0] == 'm' && !bytes.Equal(got[i].Storage().Bytes(), inGo[i].Storage().Bytes()) {
			t.Errorf("%s by %s %v %v: output %d has different bits in Go", name, impl, a, x.Meta, i)
		}
	}
	if code {
		return 1
	}
	return 0
}

func runPool(t *testing.T, impl *graph.Impl, c *graph.Call, x *tensor.Tensor) (outs []*tensor.Tensor, code bool) {
	t.Helper()
	k, err := impl.Lower(c)
	if err != nil {
		t.Fatal(err)
	}
	m := k.NewMem()
	for _, o := range c.Out {
		outs = append(outs, tensor.Empty(o))
		m.Ptrs = append(m.Ptrs, outs[len(outs)-1].Pointer())
	}
	m.Ptrs = append(m.Ptrs, x.Pointer())
	for i := range m.WorkerScratch {
		m.WorkerScratch[i] = 0xff
	}
	for _, ph := range k.Phases {
		for i := range ph.Chunks {
			if err := ph.Run(m, ph.Chunks-1-i); err != nil {
				t.Fatal(err)
			}
		}
	}
	return outs, k.Code != nil && len(k.Code()) > 0
}
