package kernels

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// TestCopies converts and lays out anew: every dtype to every dtype, from and to any
// layout.
func TestCopies(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	formats := []string{"contiguous", "preserve", "channels_last"}
	for _, src := range tensor.DTypes() {
		for _, dst := range tensor.DTypes() {
			for range 4 {
				m := strewn(rng, src, someViewShape(rng, rng.IntN(5)), true)
				againstRef(t, rng, "to", graph.Attrs{"dtype": dst, "copy": true}, m)
				againstRef(t, rng, "clone", graph.Attrs{"memory_format": formats[rng.IntN(3)]}, m)
				againstRef(t, rng, "contiguous", graph.Attrs{"memory_format": formats[2*rng.IntN(2)]}, m)
			}
		}
	}
}

// TestLargeCopies takes shapes over several tiles and chunks, with odd remainders.
func TestLargeCopies(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, shape := range [][]int{{301, 259}, {2, 3, 130, 133}, {4, 70, 9, 131}, {1, 2, 40000}, {40000, 3}, {5, 7, 11, 13, 17}} {
		for range 4 {
			for _, d := range []tensor.DType{tensor.Uint8, tensor.Int16, tensor.Float32, tensor.Float64, tensor.Complex128} {
				dst, src := strewn(rng, d, shape, false), strewn(rng, d, shape, true)
				in, out := madeUp(rng, src), tensor.Empty(dst)
				k, err := copyKernel(copyJob{dst: side{at: 0, meta: dst}, src: side{at: 1, meta: src}})
				if err != nil {
					t.Fatal(err)
				}
				runViewKernel(t, k, []*tensor.Tensor{out}, []*tensor.Tensor{in})
				want := in.CopyTo(tensor.New(d, shape...))
				if diff := valuesDiffer(out, want, 0); diff != "" {
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
		src, dst := strewn(rng, tensor.Int32, []int{2, 3, 4, 5}, true), strewn(rng, tensor.Int32, []int{6, 2, 10}, false)
		k, err := copyOrdered(side{at: 0, meta: dst}, side{at: 1, meta: src})
		if err != nil {
			t.Fatal(err)
		}
		phases[len(k.Phases)] = true
		in, out := madeUp(rng, src), tensor.Empty(dst)
		runViewKernel(t, k, []*tensor.Tensor{out}, []*tensor.Tensor{in})
		want := tensor.Must(in.CopyTo(tensor.New(src.DType, src.Shape...)).View(tensor.New(tensor.Int32, dst.Shape...)))
		if diff := valuesDiffer(out, want, 0); diff != "" {
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
	k, err := copyKernel(copyJob{dst: side{at: 0, meta: dst}, src: side{at: 1, meta: src}})
	if err != nil {
		t.Fatal(err)
	}
	m := &graph.Mem{Ptrs: []unsafe.Pointer{tensor.Empty(dst).Pointer(), tensor.Empty(src).Pointer()}, Worker: dirtyBytes(k.Worker), Cursor: new(iter.Cursor)}
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

// TestFills checks ops that make values of numbers.
func TestFills(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, d := range tensor.DTypes() {
		m := strewn(rng, d, []int{3, 4, 5}, true)
		for op, a := range map[string]graph.Attrs{
			"full_like": {"fill_value": 3}, "zeros_like": nil, "ones_like": {"dtype": "float64"},
		} {
			if !againstRef(t, rng, op, a, m) {
				t.Errorf("%s of %v is refused", op, d)
			}
		}
		for op, a := range map[string]graph.Attrs{
			"full": {"size": []int{3, 200}, "fill_value": 2}, "zeros": {"size": []int{2, 3}}, "ones": {"size": []int{0, 3}}, "eye": {"n": 5, "m": 3},
			"arange": {"end": 20, "step": 3}, "linspace": {"start": 0, "end": 10, "steps": 7},
		} {
			a["dtype"] = d
			served := op != "arange" && op != "linspace" || d != tensor.Bool && (op == "linspace" || !d.IsComplex())
			if againstRef(t, rng, op, a) != served {
				t.Errorf("%s of %v: served is not %v", op, d, served)
			}
		}
	}
}

// TestRefusedNumbers checks numbers that do not fit, by PyTorch's words.
func TestRefusedNumbers(t *testing.T) {
	for _, tc := range []struct {
		v    any
		d    tensor.DType
		want string
	}{
		{300, tensor.Uint8, "value cannot be converted to type uint8_t without overflow"},
		{-1, tensor.Uint8, ""},
		{-1.0, tensor.Uint8, "value cannot be converted to type uint8_t without overflow"},
		{2.7, tensor.Int32, ""},
		{2i, tensor.Float32, "value cannot be converted to type float without overflow"},
		{1e9, tensor.Float16, "value cannot be converted to type at::Half without overflow"},
		{1e9, tensor.Bool, ""},
	} {
		g := graph.New("", Lookup)
		g.Apply("full", graph.Attrs{"size": []int{2}, "fill_value": tc.v, "dtype": tc.d})
		got := ""
		if err := g.Err(); err != nil {
			got = err.(interface{ Unwrap() []error }).Unwrap()[0].(*graph.Error).Err.Error()
		}
		if got != tc.want {
			t.Errorf("full of %v %v: %q, want %q", tc.d, tc.v, got, tc.want)
		}
	}
}
