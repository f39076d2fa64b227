package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// float lists the element types with machine code.
type float interface{ float32 | float64 }

// bytesOf is the memory of elements.
func bytesOf[T number](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*(*T)(nil))))
}

// view is a strided matrix over its own buffer, for building test operands.
type view[T number] struct {
	buf    []T
	off    int
	m, n   int
	rs, cs int
}

func (x view[T]) ptr() unsafe.Pointer {
	if len(x.buf) == 0 {
		return nil
	}
	return unsafe.Pointer(&x.buf[x.off])
}

func (x view[T]) at(i, j int) T { return x.buf[x.off+i*x.rs+j*x.cs] }

// layouts of a matrix; broadcasts only suit inputs.
const (
	rowMajor = iota
	colMajor
	rowPadded
	scattered
	reversed
	broadcastRows
	broadcastCols
	layouts
)

func newMatrix[T float](r *rand.Rand, m, n, layout int) view[T] {
	x := view[T]{m: m, n: n}
	switch layout {
	case rowMajor:
		x.rs, x.cs = n, 1
	case colMajor:
		x.rs, x.cs = 1, m
	case rowPadded:
		x.rs, x.cs = n+3, 1
	case scattered:
		x.rs, x.cs = 3*n+1, 3
	case reversed:
		x.rs, x.cs = -n, 1
		x.off = max(0, (m-1)*n)
	case broadcastRows:
		x.cs = 1
	case broadcastCols:
		x.rs = 1
	}
	if m > 0 && n > 0 {
		span := max(0, (m-1)*x.rs) + max(0, (n-1)*x.cs)
		x.buf = make([]T, x.off+span+1)
	}
	for i := range x.buf {
		x.buf[i] = T(r.Float64()*2 - 1)
	}
	return x
}

// problem is one multiplication with its operands.
type problem[T float] struct {
	spec    Spec
	a, b, c view[T]
	bias    []T
}

func newProblem[T float](r *rand.Rand, m, n, k, la, lb, lc int) *problem[T] {
	p := &problem[T]{
		a: newMatrix[T](r, m, k, la), b: newMatrix[T](r, k, n, lb), c: newMatrix[T](r, m, n, lc),
	}
	p.spec = Spec{DType: tensor.DTypeOf[T](), M: m, N: n, K: k,
		A:          Operand{RowStride: p.a.rs, ColStride: p.a.cs},
		B:          Operand{RowStride: p.b.rs, ColStride: p.b.cs},
		CRowStride: p.c.rs, CColStride: p.c.cs, BiasStride: 2,
	}
	p.bias = make([]T, 2*max(m, n)+1)
	for i := range p.bias {
		p.bias[i] = T(r.Float64()*2 - 1)
	}
	return p
}

// want returns the expected C in float64 with the scale of rounding errors.
func (p *problem[T]) want() (sum, scale []float64) {
	s := p.spec
	sum, scale = make([]float64, s.M*s.N), make([]float64, s.M*s.N)
	rows, columns := make([]float64, s.M*s.K), make([]float64, s.N*s.K)
	for k := range s.K {
		for i := range s.M {
			rows[i*s.K+k] = float64(p.a.at(i, k))
		}
		for j := range s.N {
			columns[j*s.K+k] = float64(p.b.at(k, j))
		}
	}
	for i := range s.M {
		for j := range s.N {
			v, mag := 0.0, 0.0
			add := func(x float64) { v += x; mag += math.Abs(x) }
			column := columns[j*s.K:][:s.K]
			for k, a := range rows[i*s.K:][:s.K] {
				x := a * column[k]
				v += x
				mag += math.Abs(x)
			}
			switch s.Bias {
			case BiasRows:
				add(float64(p.bias[i*s.BiasStride]))
			case BiasCols:
				add(float64(p.bias[j*s.BiasStride]))
			}
			if s.Accumulate {
				add(float64(p.c.at(i, j)))
			}
			sum[i*s.N+j], scale[i*s.N+j] = v, mag
		}
	}
	return sum, scale
}

func eps[T float]() float64 {
	if unsafe.Sizeof(T(0)) == 4 {
		return 0x1p-24
	}
	return 0x1p-53
}

// args builds the arguments, packing operands the spec wants packed.
func (p *problem[T]) args(pl *Plan) *Args {
	s := p.spec
	x := &Args{A: p.a.ptr(), B: p.b.ptr(), C: p.c.ptr(), Bias: unsafe.Pointer(&p.bias[0]),
		Shared: make([]byte, pl.SharedBytes())}
	packA := func(dst []byte, k0, k1, l0, l1 int) {
		packPanels(pl.kernels.elemBytes, dst, pl.PackRows(), p.a.ptr(), p.a.rs, p.a.cs, k0, k1, l0, l1)
	}
	packB := func(dst []byte, k0, k1, l0, l1 int) {
		packPanels(pl.kernels.elemBytes, dst, pl.PackCols(), p.b.ptr(), p.b.cs, p.b.rs, k0, k1, l0, l1)
	}
	switch s.A.Source {
	case Prepacked:
		buf := make([]T, roundUp(s.M, pl.PackRows())*s.K+1)
		packA(bytesOf(buf[:len(buf)-1]), 0, s.K, 0, s.M)
		x.A = unsafe.Pointer(&buf[0])
	case Custom:
		x.A, x.PackA = nil, packA
	}
	switch s.B.Source {
	case Prepacked:
		width := pl.PackCols()
		if s.B.Panel > 0 {
			width = s.B.Panel
		}
		buf := make([]T, roundUp(s.N, width)*s.K+1)
		PackPanels(s.DType, bytesOf(buf), width, p.b.ptr(), s.K, s.N, p.b.rs, p.b.cs)
		x.B = unsafe.Pointer(&buf[0])
	case Custom:
		x.B, x.PackB = nil, packB
	}
	return x
}

// run executes the plan with tiles of each phase in order or reversed, on
// scratch poisoned with NaN: all bits set are one in each float type.
func run(pl *Plan, args *Args, backwards bool) {
	for i := range args.Shared {
		args.Shared[i] = 0xff
	}
	worker := make([]byte, pl.WorkerBytes())
	for ph := range pl.Phases() {
		n := pl.Tiles(ph)
		for t := range n {
			for i := range worker {
				worker[i] = 0xff
			}
			if backwards {
				t = n - 1 - t
			}
			pl.Run(ph, t, args, worker)
		}
	}
}

// check runs the problem forwards and backwards, and compares C with the
// reference, the two runs bit by bit, and the gaps of C with their old values.
func (p *problem[T]) check(t *testing.T, set *kernelSet, maxShared int) {
	t.Helper()
	pl, err := newPlan(set, p.spec, maxShared)
	if err != nil {
		t.Fatal(err)
	}
	s := p.spec
	want, scale := p.want()
	before := append([]T(nil), p.c.buf...)
	args := p.args(pl)
	calls := make([]int, s.M*s.N)
	args.Epilogue = func(i0, i1, j0, j1 int) {
		for i := i0; i < i1; i++ {
			for j := j0; j < j1; j++ {
				calls[i*s.N+j]++
			}
		}
	}
	run(pl, args, false)
	forward := append([]T(nil), p.c.buf...)
	copy(p.c.buf, before)
	run(pl, args, true)
	where := fmt.Sprintf("%s %+v path %d", set.name, s, pl.path)
	touched := make([]bool, len(before))
	for i := range s.M {
		for j := range s.N {
			got := float64(p.c.at(i, j))
			bound := float64(s.K+4) * eps[T]() * scale[i*s.N+j]
			if !(math.Abs(got-want[i*s.N+j]) <= bound) {
				t.Fatalf("%s: C[%d,%d] = %g, want %g ± %g", where, i, j, got, want[i*s.N+j], bound)
			}
			if calls[i*s.N+j] != 2 {
				t.Fatalf("%s: epilogue covered [%d,%d] %d times, want 2", where, i, j, calls[i*s.N+j])
			}
			touched[p.c.off+i*p.c.rs+j*p.c.cs] = true
		}
	}
	for i, v := range p.c.buf {
		if v != forward[i] {
			t.Fatalf("%s: element %d depends on tile order: %g != %g", where, i, v, forward[i])
		}
		if !touched[i] && v != before[i] {
			t.Fatalf("%s: wrote element %d outside C", where, i)
		}
	}
}

func eachKernel[T float](t *testing.T, f func(t *testing.T, set *kernelSet)) {
	for _, set := range candidateSets(tensor.DTypeOf[T]()) {
		t.Run(fmt.Sprintf("%T/%s", *new(T), set.name), func(t *testing.T) { f(t, set) })
	}
}

func testRandom[T float](t *testing.T, set *kernelSet) {
	r := rand.New(rand.NewPCG(1, uint64(set.mr)))
	dims := []int{0, 1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 31, 32, 33, 49, 64, 65, 97, 130}
	depths := []int{0, 1, 2, 3, 5, 8, 16, 31, 64, 100, 257, 300, 600}
	for range 400 {
		m, n, k := dims[r.IntN(len(dims))], dims[r.IntN(len(dims))], depths[r.IntN(len(depths))]
		p := newProblem[T](r, m, n, k, r.IntN(layouts), r.IntN(layouts), r.IntN(broadcastRows))
		p.spec.Accumulate = r.IntN(2) == 0
		p.spec.Bias = Bias(r.IntN(3))
		p.spec.BiasStride = r.IntN(3)
		p.spec.BInCache = r.IntN(2) == 0
		p.spec.A.Source = Source(r.IntN(3))
		p.spec.B.Source = Source(r.IntN(3))
		if r.IntN(2) == 0 {
			p.spec.A.Source, p.spec.B.Source = Strided, Strided
		}
		if w := Algorithm(r.IntN(4)); Supports(p.spec, w) {
			p.spec.Algorithm = w
		}
		p.check(t, set, sharedElems)
	}
}

func TestRandom(t *testing.T) {
	eachKernel[float32](t, testRandom[float32])
	eachKernel[float64](t, testRandom[float64])
}

// TestEdges covers every count of live rows and columns of a register tile.
func TestEdges(t *testing.T) {
	eachKernel[float32](t, testEdges[float32])
	eachKernel[float64](t, testEdges[float64])
}

func testEdges[T float](t *testing.T, set *kernelSet) {
	r := rand.New(rand.NewPCG(2, 2))
	for m := 1; m <= set.mr+1; m++ {
		for n := 1; n <= set.nr+1; n++ {
			p := newProblem[T](r, m, n, 9, rowMajor, rowMajor, rowPadded)
			p.spec.A.Source, p.spec.B.Source = Prepacked, Prepacked
			p.spec.Bias = Bias(m % 3)
			p.check(t, set, sharedElems)
		}
	}
}

// TestFewRows covers the unpacked paths for matrix-vector shapes.
func TestFewRows(t *testing.T) {
	eachKernel[float32](t, testFewRows[float32])
	eachKernel[float64](t, testFewRows[float64])
}

func testFewRows[T float](t *testing.T, set *kernelSet) {
	r := rand.New(rand.NewPCG(3, 3))
	for m := 1; m <= directRows; m++ {
		for _, n := range []int{1, 5, 16, 100, 700} {
			for _, k := range []int{1, 6, 63, 64, 65, 150} {
				for lb := rowMajor; lb <= colMajor; lb++ {
					p := newProblem[T](r, m, n, k, r.IntN(layouts), lb, r.IntN(broadcastRows))
					p.spec.Bias, p.spec.Accumulate = Bias(r.IntN(3)), k%2 == 0
					p.check(t, set, sharedElems)
					p = newProblem[T](r, n, m, k, lb, r.IntN(layouts), r.IntN(broadcastRows))
					p.spec.Bias, p.spec.Accumulate = Bias(r.IntN(3)), k%2 == 0
					p.check(t, set, sharedElems)
				}
			}
		}
	}
}
