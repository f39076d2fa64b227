package fourier

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// TestLongLines compares the transform of long lines in phases with the transform in one chunk: lengths with small and
// with large prime factors, all forms of operands and results, several lines, and lines that are cut or extended.
func TestLongLines(t *testing.T) {
	for _, x := range []struct {
		op   *graph.Op
		in   tensor.Meta
		with graph.Attrs
	}{
		{FftFft, tensor.New(tensor.Complex128, 2, 1<<17), nil},
		{FftIfft, tensor.New(tensor.Complex128, 65537, 2), graph.Attrs{"dim": 0, "norm": "ortho"}},
		{FftFft, tensor.New(tensor.Complex128, 70000), graph.Attrs{"n": 66000}},
		{FftRfft, tensor.New(tensor.Float64, 90000), graph.Attrs{"n": 2 * 67 * 1000}},
		{FftIrfft, tensor.New(tensor.Complex128, 65539), nil},
		{FftIrfft, tensor.New(tensor.Complex128, 100), graph.Attrs{"n": 3 * 41 * 601}},
		{Dft, tensor.New(tensor.Float64, 2, 65600, 1), graph.Attrs{"onesided": true}},
		{Dft, tensor.New(tensor.Float64, 1, 65543, 2), graph.Attrs{"inverse": true, "onesided": true}},
	} {
		attrs, err := x.op.Schema.Decode(x.with, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &graph.Call{Attrs: attrs, In: []graph.Arg{{Kind: graph.TensorArg, Value: &graph.Value{Meta: x.in}}}}
		res, err := x.op.Infer(c)
		if err != nil {
			t.Fatal(x.op.Name, err)
		}
		c.Out = []tensor.Meta{res[0].Meta()}
		k, err := x.op.Compile(c)
		if err != nil || len(k.Phases) < 2 {
			t.Fatal(x.op.Name, "is not cut into phases", err)
		}
		in := tensor.Empty(x.in)
		data := kit.SliceOf[float64](in.Storage().Bytes(), 0, x.in.Bytes()/8)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range data {
			data[i] = r.Float64() - 0.5
		}
		out := tensor.Empty(c.Out[0])
		runKernel(t, k, out, in)
		s := specOf(t, x.op, c)
		want := tensor.Empty(c.Out[0])
		transformLines(s, c, want, in)
		got, right := out.Storage().Bytes(), want.Storage().Bytes()
		n, worst := c.Out[0].Bytes()/8, 0.0
		a, b := kit.SliceOf[float64](got, 0, n), kit.SliceOf[float64](right, 0, n)
		most := 0.0
		for i := range a {
			worst, most = max(worst, math.Abs(a[i]-b[i])), max(most, math.Abs(b[i]))
		}
		if !(worst <= 1e-12*most) || most == 0 {
			t.Errorf("%s of %v with %v: differs by %g of %g", x.op.Name, x.in.Shape, x.with, worst, most)
		}
	}
}

func specOf(t *testing.T, op *graph.Op, c *graph.Call) *fourierSpec {
	t.Helper()
	if op == Dft {
		s, _, err := newDft(c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := map[*graph.Op]fourierSpec{FftFft: {}, FftIfft: {isInverse: true}, FftRfft: {isOnesided: true, isFromReal: true},
		FftIrfft: {isInverse: true, isToReal: true}}[op]
	if _, err := s.setFromAten(op.Name, kit.Attrs[*fftAttrs](c), c.Type(0)); err != nil {
		t.Fatal(err)
	}
	return &s
}

// transformLines transforms the lines one by one, without phases.
func transformLines(s *fourierSpec, c *graph.Call, out, in *tensor.Tensor) {
	l, get, put := s.access(c)
	f := newFourier(s.points)
	x, room := make([]complex128, s.points), make([]complex128, f.workLen())
	for i := range l.Count {
		off := l.Offsets(i)
		s.load(x, 0, 1, func(x []complex128, first, step int) { get(unsafe.Add(in.Pointer(), off[0]), x, first, step) })
		s.transform(f.forward, x, room)
		put(unsafe.Add(out.Pointer(), off[1]), x[:s.outLen], 0, 1)
	}
}

func runKernel(t *testing.T, k *graph.Kernel, tensors ...*tensor.Tensor) {
	t.Helper()
	m := k.NewMem()
	for _, x := range tensors {
		m.Ptrs = append(m.Ptrs, x.Pointer())
	}
	for _, ph := range k.Phases {
		for c := range ph.Chunks {
			if err := ph.Run(m, c); err != nil {
				t.Fatal(err)
			}
		}
	}
}
