package copies_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// TestCopies converts and lays out anew: every dtype to every dtype, from and to any layout.
func TestCopies(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	formats := []string{"contiguous", "preserve", "channels_last"}
	for _, src := range tensor.DTypes() {
		for _, dst := range tensor.DTypes() {
			for range 4 {
				m := kerneltest.RandomStrides(rng, src, kerneltest.RandomSmallShape(rng, rng.IntN(5)), true)
				kerneltest.CheckAgainstRef(t, rng, "to", graph.Attrs{"dtype": dst, "copy": true}, m)
				kerneltest.CheckAgainstRef(t, rng, "clone", graph.Attrs{"memory_format": formats[rng.IntN(3)]}, m)
				kerneltest.CheckAgainstRef(t, rng, "contiguous", graph.Attrs{"memory_format": formats[2*rng.IntN(2)]}, m)
			}
		}
	}
}

// TestLargeCopies takes shapes over several tiles and chunks, with odd remainders.
func TestLargeCopies(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, shape := range [][]int{{301, 259}, {2, 3, 130, 133}, {4, 70, 9, 131}, {1, 2, 40000}, {40000, 3},
		{5, 7, 11, 13, 17}} {
		for range testsize.Of(2, 4) {
			for _, d := range []tensor.DType{tensor.Uint8, tensor.Int16, tensor.Float32, tensor.Float64, tensor.Complex128} {
				dst, src := kerneltest.RandomStrides(rng, d, shape, false), kerneltest.RandomStrides(rng, d, shape, true)
				in, out := kerneltest.RandomElements(rng, src), tensor.Empty(dst)
				k := copies.Kernel(copies.Job{Dst: kit.PtrBuffer(0, dst), Src: kit.PtrBuffer(1, src)})
				kerneltest.RunKernelReversed(t, k, []*tensor.Tensor{out}, []*tensor.Tensor{in})
				want := in.CopyTo(tensor.New(d, shape...))
				if diff := kerneltest.FirstRelativeDifference(out, want, 0); diff != "" {
					t.Fatalf("%v to %v: %s", src, dst, diff)
				}
			}
		}
	}
}

// TestCopyOrdered copies between shapes of which neither can be viewed in the other.
func TestCopyOrdered(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	phases := map[int]bool{}
	for range 300 {
		src, dst := kerneltest.RandomStrides(rng, tensor.Int32, []int{2, 3, 4, 5}, true),
			kerneltest.RandomStrides(rng, tensor.Int32, []int{6, 2, 10}, false)
		k := copies.RowMajorKernel(kit.PtrBuffer(0, dst), kit.PtrBuffer(1, src))
		phases[len(k.Phases)] = true
		in, out := kerneltest.RandomElements(rng, src), tensor.Empty(dst)
		kerneltest.RunKernelReversed(t, k, []*tensor.Tensor{out}, []*tensor.Tensor{in})
		want := tensor.Must(in.CopyTo(tensor.New(src.DType, src.Shape...)).View(tensor.New(tensor.Int32, dst.Shape...)))
		if diff := kerneltest.FirstRelativeDifference(out, want, 0); diff != "" {
			t.Fatalf("%v to %v: %s", src, dst, diff)
		}
	}
	if !phases[1] || !phases[2] {
		t.Errorf("both ways were not taken: %v", phases)
	}
}

// TestCopyAllocatesNothing holds the kernel to its promise.
func TestCopyAllocatesNothing(t *testing.T) {
	src := tensor.Meta{DType: tensor.Float32, Shape: []int{300, 300}, Strides: []int{1, 300}}
	dst := tensor.New(tensor.Float32, 300, 300)
	k := copies.Kernel(copies.Job{Dst: kit.PtrBuffer(0, dst), Src: kit.PtrBuffer(1, src)})
	m := &graph.Mem{Ptrs: []unsafe.Pointer{tensor.Empty(dst).Pointer(), tensor.Empty(src).Pointer()},
		WorkerScratch: kerneltest.PatternBytes(k.WorkerScratch)}
	if n := testing.AllocsPerRun(5, func() {
		for i := range k.Phases[0].Chunks {
			if err := k.Phases[0].Run(m, i); err != nil {
				t.Fatal(err)
			}
		}
	}); n > 0 {
		t.Errorf("%v allocations a run", n)
	}
}
