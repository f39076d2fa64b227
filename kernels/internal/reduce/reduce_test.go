package reduce_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

func TestReductionsAgainstReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ops := []string{"sum", "mean", "amax", "amin", "any", "all", "var", "std", "var_mean", "std_mean", "norm",
		"linalg_vector_norm", "logsumexp"}
	for i := range 900 {
		name := ops[i%len(ops)]
		d := kerneltest.ReduceDTypes(name)[r.IntN(len(kerneltest.ReduceDTypes(name)))]
		shape := kerneltest.RandomShape(r, r.IntN(5))
		a := graph.Attrs{"keepdim": r.IntN(2) == 0, "dim": kerneltest.RandomDims(r, len(shape))}
		switch name {
		case "norm", "linalg_vector_norm":
			key := map[string]string{"norm": "p", "linalg_vector_norm": "ord"}[name]
			a[key] = []any{0, 1, 2, 3, -1, 0.5, math.Inf(1), math.Inf(-1)}[r.IntN(8)]
		case "var", "std", "var_mean", "std_mean":
			a["correction"] = r.IntN(3)
		}
		kerneltest.CheckReduce(t, name, a, kerneltest.RandomTensor(r, kerneltest.RandomLayout(r, d, shape)))
	}
}

// TestReductionsOfNothing: the result of a row without elements is the initial value of the fold.
func TestReductionsOfNothing(t *testing.T) {
	for _, name := range []string{"sum", "mean", "any", "all", "norm", "logsumexp", "var"} {
		for _, shape := range [][]int{{0}, {3, 0}, {0, 3}} {
			a := graph.Attrs{"keepdim": true, "dim": []int{slices.Index(shape, 0)}}
			kerneltest.CheckReduce(t, name, a, tensor.Zeros(tensor.Float32, shape...))
		}
	}
}

// TestExtremesOfNothing reduces no elements of each dtype, as ONNX does: the result is the least number or -inf, or the
// greatest number or inf.
func TestExtremesOfNothing(t *testing.T) {
	inf := math.Inf(1)
	bounds := map[tensor.DType][2]float64{tensor.Float32: {-inf, inf}, tensor.Float64: {-inf, inf},
		tensor.Float16: {-inf, inf}, tensor.BFloat16: {-inf, inf}, tensor.Bool: {0, 1}, tensor.Uint8: {0, 255},
		tensor.Int8: {-128, 127}, tensor.Int16: {-1 << 15, 1<<15 - 1}, tensor.Int32: {-1 << 31, 1<<31 - 1},
		tensor.Int64: {math.MinInt64, math.MaxInt64}}
	for dtype, want := range bounds {
		for i, name := range []string{"amax", "amin"} {
			for _, shape := range [][]int{{0}, {3, 0}, {0, 3}, {2, 0, 5}} {
				x, attrs := tensor.Zeros(dtype, shape...), graph.Attrs{"accept_empty": true, "dim": []int{slices.Index(shape, 0)}}
				kerneltest.CheckReduce(t, name, attrs, x) // the kernel and the reference agree
				op, call, err := kerneltest.NewReduceCall(name, attrs, []*tensor.Tensor{x})
				if err != nil {
					t.Fatal(err)
				}
				results, err := op.Ref(call, []*tensor.Tensor{x})
				if err != nil {
					t.Fatal(err)
				}
				elements, _ := tensor.ToSlice[float64](results[0].CopyTo(tensor.New(tensor.Float64, results[0].Shape...)))
				for _, element := range elements {
					if element != want[i] {
						t.Errorf("%s of no %v is %v, want %v", name, dtype, element, want[i])
					}
				}
			}
		}
	}
}

func TestReductionsAlongOneDim(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	ops := []string{"argmax", "argmin", "max", "min", "softmax", "log_softmax", "cumsum", "cumprod", "prod"}
	for i := range 700 {
		name := ops[i%len(ops)]
		d := kerneltest.ReduceDTypes(name)[r.IntN(len(kerneltest.ReduceDTypes(name)))]
		rank := r.IntN(5)
		shape := kerneltest.RandomShape(r, rank)
		a := graph.Attrs{}
		if along := name == "softmax" || name == "log_softmax" || name == "cumsum" || name == "cumprod"; along ||
			r.IntN(4) > 0 {
			a["dim"] = r.IntN(max(rank, 1)) - r.IntN(2)*max(rank, 1)
			if !along {
				a["keepdim"] = r.IntN(2) == 0
			}
		}
		kerneltest.CheckReduce(t, name, a, kerneltest.RandomTensor(r, kerneltest.RandomLayout(r, d, shape)))
	}
}

// TestLargeReductions crosses the cuts of units, chunks and the reduced range.
func TestLargeReductions(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i, m := range []tensor.Meta{
		tensor.New(tensor.Float32, 140_001),
		tensor.New(tensor.Float64, 2, 70_001),
		tensor.New(tensor.Float32, 1050, 129),
		tensor.New(tensor.Float16, 2, 17_000, 2),
		tensor.New(tensor.Float32, 70, 1100).WithStrides([]int{1, 70}),
		tensor.New(tensor.BFloat16, 2, 3, 14, 700).WithStrides([]int{29400, 1, 2100, 3}),
	} {
		x := kerneltest.RandomTensor(r, m)
		for j, name := range []string{"sum", "amax", "var_mean", "logsumexp", "argmin"} {
			if (i+2*j)%testsize.Of(3, 1) != 0 {
				continue
			}
			if (i+j)%2 == 0 || m.Rank() == 1 {
				kerneltest.CheckReduce(t, name, allDims(name, m), x)
			} else {
				kerneltest.CheckReduce(t, name, graph.Attrs{"dim": (i + j) % m.Rank()}, x)
			}
		}
	}
	for _, m := range []tensor.Meta{
		tensor.New(tensor.Float32, 3, 10, 300), tensor.New(tensor.Float64, 40, 30, 20).WithStrides([]int{1, 40, 1200}),
		tensor.New(tensor.BFloat16, 1, 3000), tensor.New(tensor.Float32, 2, 1100, 2),
	} {
		x := kerneltest.RandomTensor(r, m)
		for d := range m.Rank() {
			kerneltest.CheckReduce(t, "softmax", graph.Attrs{"dim": d}, x)
			kerneltest.CheckReduce(t, "log_softmax", graph.Attrs{"dim": d}, x)
		}
	}
}

func TestLongScans(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, m := range []tensor.Meta{tensor.New(tensor.Float32, 1100),
		tensor.New(tensor.Float64, 70, 300).WithStrides([]int{1, 70})} {
		for d := range m.Rank() {
			kerneltest.CheckReduce(t, "cumsum", graph.Attrs{"dim": d}, kerneltest.RandomTensor(r, m))
		}
	}
}

func allDims(name string, m tensor.Meta) graph.Attrs {
	if name == "argmin" {
		return nil
	}
	dims := make([]int, m.Rank())
	for d := range dims {
		dims[d] = d
	}
	return graph.Attrs{"dim": dims}
}

// TestSumErrorBound holds sums to the bounds that Sum states, against a sum in 2x float64.
func TestSumErrorBound(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, shape := range [][]int{{1 << 18}, {1 << 12, 32}, {32, 1 << 12}} {
		for _, d := range []tensor.DType{tensor.Float16, tensor.Float32, tensor.Float64} {
			x := kerneltest.RandomTensor(r, tensor.New(d, shape...))
			v, _ := tensor.ToSlice[float64](x.CopyTo(tensor.New(tensor.Float64, shape...)))
			dims := [][]int{{0}}
			if len(shape) > 1 {
				dims = append(dims, []int{1}, []int{0, 1})
			}
			for _, dim := range dims {
				checkSumBound(t, x, v, dim)
			}
		}
	}
}

func checkSumBound(t *testing.T, x *tensor.Tensor, v []float64, dim []int) {
	op, c, err := kerneltest.NewReduceCall("sum", graph.Attrs{"dim": dim, "keepdim": true}, []*tensor.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	out, err := kerneltest.RunReduce(op, c, []*tensor.Tensor{x}, false)
	if err != nil {
		t.Fatal(err)
	}
	sums, lost, sizes := map[int]float64{}, map[int]float64{}, map[int]float64{}
	i := 0
	kit.EachIndex(x.Shape, func(index []int) {
		at := 0
		for d, k := range index {
			if out[0].Shape[d] > 1 {
				at = at*out[0].Shape[d] + k
			}
		}
		s := sums[at] + v[i]
		e := s - sums[at]
		lost[at] += (sums[at] - (s - e)) + (v[i] - e)
		sums[at] = s
		sizes[at] += math.Abs(v[i])
		i++
	})
	n := float64(len(v) / len(sums))
	eps := map[tensor.DType]float64{tensor.Float16: 0x1p-11, tensor.Float32: 0x1p-24, tensor.Float64: 0x1p-53}[x.DType]
	for at := range sums {
		want := sums[at] + lost[at]
		got := out[0].At(kit.Unravel(at, out[0].Shape)...).Float()
		bound := (n/1024+512)*0x1p-53*sizes[at] + eps*(1+0x1p-10)*math.Abs(want)
		if math.Abs(got-want) > bound {
			t.Fatalf("sum of %v over %v: off by %g, bound %g", x.Meta, dim, got-want, bound)
		}
	}
}

func TestReduceNaNAndInfinity(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, v := range [][]float32{{1, nan, 3, nan}, {nan, 1, 2, 3}, {-inf, -inf, -inf, -inf}, {inf, 1, inf, 2},
		{-inf, inf, 0, 1}, {1, 2, 2, 1}} {
		long := slices.Repeat(v, 30)
		x := tensor.Must(tensor.FromSlice(long, 4, 30))
		for _, name := range []string{"amax", "amin", "argmax", "argmin", "max", "min", "logsumexp"} {
			for _, dim := range []int{0, 1} {
				kerneltest.CheckReduce(t, name, graph.Attrs{"dim": dim}, x)
			}
		}
	}
}

func TestEmptyReductions(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 0, 3)
	for _, name := range []string{"sum", "mean", "any", "all", "var", "std_mean", "logsumexp", "prod"} {
		kerneltest.CheckReduce(t, name, graph.Attrs{"dim": 0}, x)
		kerneltest.CheckReduce(t, name, graph.Attrs{"dim": 1}, x)
	}
	for _, name := range []string{"softmax", "cumsum", "cumprod"} {
		kerneltest.CheckReduce(t, name, graph.Attrs{"dim": 0}, x)
	}
	for name, want := range map[string]string{
		"amax":   "amax(): Expected reduction dim 0 to have non-zero size.",
		"argmin": "argmin(): Expected reduction dim 0 to have non-zero size.",
	} {
		if _, _, err := kerneltest.NewReduceCall(name, graph.Attrs{"dim": 0}, []*tensor.Tensor{x}); err == nil ||
			err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReduceExamples(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, name := range kerneltest.ReduceFamily {
		for _, e := range kernels.Lookup(name).Examples {
			var in []*tensor.Tensor
			for _, m := range e.In {
				in = append(in, positive(kerneltest.RandomTensor(r, m)))
			}
			kerneltest.CheckReduce(t, name, e.Attrs, in...)
		}
	}
}

// positive adds 3 to every element: variances must not be negative.
func positive(t *tensor.Tensor) *tensor.Tensor {
	if !t.DType.IsFloat() {
		return t
	}
	kit.EachIndex(t.Shape, func(index []int) { t.Set(tensor.FloatScalar(t.At(index...).Float()+3), index...) })
	return t
}

// TestReduceSteadyState: runs of a compiled kernel do not allocate.
func TestReduceSteadyState(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 9))
	for _, name := range kerneltest.ReduceFamily {
		if kernels.Lookup(name).Decompose != nil {
			continue // its parts have kernels
		}
		e := kernels.Lookup(name).Examples[0]
		var in []*tensor.Tensor
		for _, m := range e.In {
			in = append(in, kerneltest.RandomTensor(r, m))
		}
		op, c, err := kerneltest.NewReduceCall(name, e.Attrs, in)
		if err != nil {
			t.Fatal(err)
		}
		k, err := op.Compile(c)
		if err != nil {
			t.Fatal(err)
		}
		var ptrs []unsafe.Pointer
		for _, m := range c.Out {
			ptrs = append(ptrs, tensor.Empty(m).Pointer())
		}
		for _, x := range in {
			ptrs = append(ptrs, x.Pointer())
		}
		m := &graph.Mem{Ptrs: ptrs, Scratch: tensor.NewStorage(k.Scratch).Bytes(),
			WorkerScratch: tensor.NewStorage(k.WorkerScratch).Bytes()}
		if n := testing.AllocsPerRun(10, func() {
			for _, p := range k.Phases {
				for i := range p.Chunks {
					if err := p.Run(m, i); err != nil {
						t.Fatal(err)
					}
				}
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations in a run", name, n)
		}
	}
}
