package kerneltest

import (
	"bytes"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// RandomConstants draws the indices of operands that a test declares as constants.
func RandomConstants(r *rand.Rand, in []*tensor.Tensor) (list []int) {
	for i, t := range in {
		if t != nil && r.IntN(3) == 0 {
			list = append(list, i)
		}
	}
	return list
}

// CheckLarge runs the op and compares the result with want. want computes the result from row-major float64 copies of
// the operands and of the result. CheckLarge is for large shapes, for which the reference of the op is too slow. The
// tolerance depends on summands, the number of products in a sum.
func CheckLarge(t *testing.T, r *rand.Rand, op string, attrs graph.Attrs, summands int,
	want func(v [][]float64) []float64, in ...*tensor.Tensor) {
	t.Helper()
	call, err := NewProductCall(op, attrs, in, RandomConstants(r, in)...)
	if err != nil {
		t.Fatal(err)
	}
	k := call.Compile(t)
	k.poison(0x7f)
	k.Run(t, true)
	var v [][]float64
	for _, x := range append(in, k.Out) {
		f, err := tensor.ToSlice[float64](x.CopyTo(tensor.New(tensor.Float64, x.Shape...)))
		if err != nil {
			t.Fatal(err)
		}
		v = append(v, f)
	}
	got := v[len(v)-1]
	tol := productTolerance(k.Out.DType, summands)
	for i, w := range want(v) {
		if math.Abs(got[i]-w) > tol*(1+math.Abs(w)) {
			t.Fatalf("%s %s: element %d is %v, want %v", op, call.describe(), i, got[i], w)
		}
	}
}

// BenchProduct measures the rate of runs of a product in GFLOP/s.
func BenchProduct(b *testing.B, op string, attrs graph.Attrs, in []*tensor.Tensor, constants ...int) {
	p, err := NewProductCall(op, attrs, in, constants...)
	if err != nil {
		b.Fatal(err)
	}
	r := p.Compile(b)
	for b.Loop() {
		r.Run(b, false)
	}
	b.ReportMetric(p.Op.Flops(p.Call)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// uncachedBytes is a number of bytes that exceeds the size of a core's L2 cache.
const uncachedBytes = 96 << 20

// BenchImpl measures the named implementation of the call with the implementation's preferred walk. If uncached is set,
// each run uses another copy of operand 1, a constant, so that the operand is not in the L1 and L2 caches, as in a
// network.
func (p *ProductCall) BenchImpl(b *testing.B, name string, uncached bool) {
	i := slices.IndexFunc(p.Op.Impls, func(m graph.Impl) bool { return m.Name == name })
	if i < 0 {
		b.Fatalf("%s has no %s", p.Op.Name, name)
	}
	m := &p.Op.Impls[i]
	walks := m.Walks(p.Call, nil)
	if len(walks) == 0 {
		b.Skip("the implementation does not support the call here")
	}
	p.Call.Impl, p.Call.Walk, p.Call.Out[0] = m, walks[0], walks[0].ResultLayout(0, p.Call.Out[0])
	r := p.Compile(b)
	copies := []unsafe.Pointer{r.mem.Ptrs[2]}
	if bytes := p.Call.In[1].Value.Const.Storage().Bytes(); uncached {
		for range uncachedBytes / len(bytes) {
			s := tensor.NewStorage(len(bytes))
			copy(s.Bytes(), bytes)
			copies = append(copies, unsafe.Pointer(unsafe.SliceData(s.Bytes())))
		}
	}
	var times []time.Duration
	for b.Loop() {
		r.mem.Ptrs[2] = copies[len(times)%len(copies)]
		from := time.Now()
		r.Run(b, false)
		times = append(times, time.Since(from))
	}
	slices.Sort(times) // report a fast run, because other programs make some runs slower
	b.ReportMetric(p.Op.Flops(p.Call)/float64(times[len(times)/10]), "GFLOP/s")
}

// Result runs the call twice, with its chunks in ascending and in descending order. It checks that the results are
// equal and returns the result. If packed is set, constants are packed.
func (p *ProductCall) Result(t testing.TB, packed bool) *tensor.Tensor {
	t.Helper()
	q := *p
	call := *p.Call
	call.In = slices.Clone(call.In)
	q.Call = &call
	var r *productRun
	if packed {
		r = q.Compile(t)
	} else {
		k, err := call.Impl.Lower(&call)
		if err != nil {
			t.Fatal(err)
		}
		r = q.memory(k)
	}
	r.poison(0x7f)
	r.Run(t, false)
	first := bytes.Clone(r.Out.Storage().Bytes())
	r.poison(0x7f)
	r.Run(t, true)
	if !bytes.Equal(first, r.Out.Storage().Bytes()) {
		t.Fatalf("%s %v: the order of chunks changes the result", p.Op.Name, p.describe())
	}
	return r.Out
}

// BenchTensor returns a tensor of random numbers between -0.5 and 0.5.
func BenchTensor(m tensor.Meta) *tensor.Tensor {
	t := tensor.Empty(m)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range m.Extent() {
		t.SetFlat(i, tensor.FloatScalar(r.Float64()-0.5))
	}
	return t
}

// ProductCall is a call of a matrix product or a convolution, with the tensors of its operands.
type ProductCall struct {
	Op   *graph.Op
	in   []*tensor.Tensor // nil for an omitted operand
	Call *graph.Call
	want *tensor.Tensor // the result of the reference, computed once
}

// NewProductCall returns a call of the named op, whose results are inferred. constants are the indices of the operands
// that are constants of the graph.
func NewProductCall(name string, attrs graph.Attrs, in []*tensor.Tensor, constants ...int) (*ProductCall, error) {
	call := &ProductCall{Op: kernels.Lookup(name), in: in}
	a, err := call.Op.Schema.Decode(attrs, nil)
	if err != nil {
		return nil, err
	}
	call.Call = &graph.Call{Attrs: a}
	for i, t := range in {
		if t == nil {
			call.Call.In = append(call.Call.In, graph.Arg{})
			continue
		}
		v := &graph.Value{Meta: t.Meta}
		if slices.Contains(constants, i) {
			v.Const = t
		}
		call.Call.In = append(call.Call.In, graph.Arg{Kind: graph.TensorArg, Value: v})
	}
	res, err := call.Op.Infer(call.Call)
	if err != nil {
		return nil, err
	}
	call.Call.Out = []tensor.Meta{res[0].Meta()}
	return call, nil
}

// productRun is a compiled call with its memory.
type productRun struct {
	k   *graph.Kernel
	mem graph.Mem
	Out *tensor.Tensor
}

// Compile compiles the call and allocates its memory.
func (p *ProductCall) Compile(t testing.TB) *productRun {
	k, err := CompileAny(p.Op, p.Call)
	if err != nil {
		t.Fatalf("%s %v: %v", p.Op.Name, p.Call.Out, err)
	}
	return p.memory(k)
}

// memory allocates the memory of a run of kernel k.
func (p *ProductCall) memory(k *graph.Kernel) *productRun {
	r := &productRun{k: k, Out: tensor.Empty(p.Call.Out[0])}
	r.mem = graph.Mem{Ptrs: []unsafe.Pointer{r.Out.Pointer()},
		Scratch: tensor.NewStorage(k.Scratch).Bytes(), WorkerScratch: tensor.NewStorage(k.WorkerScratch).Bytes()}
	for i := range p.in {
		r.mem.Ptrs = append(r.mem.Ptrs, DataOf(p.Call, i, p.in))
	}
	return r
}

// Run executes the kernel, optionally with its chunks in reverse order.
func (r *productRun) Run(t testing.TB, reverse bool) {
	for _, ph := range r.k.Phases {
		for i := range ph.Chunks {
			if reverse {
				i = ph.Chunks - 1 - i
			}
			if err := ph.Run(&r.mem, i); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// poison fills the output and the scratch memory with byte b. A kernel must not rely on their contents.
func (r *productRun) poison(b byte) {
	for _, m := range [][]byte{r.mem.Scratch, r.mem.WorkerScratch, r.Out.Storage().Bytes()} {
		for i := range m {
			m[i] = b
		}
	}
}

// Check runs the call twice, with its chunks in ascending and in descending order. It checks that the results are
// equal, and compares them with the reference. summands is the number of products in a sum.
func (p *ProductCall) Check(t testing.TB, summands int) {
	t.Helper()
	r := p.Compile(t)
	r.poison(0x7f)
	r.Run(t, false)
	first := bytes.Clone(r.Out.Storage().Bytes())
	r.poison(0x55)
	r.Run(t, true)
	r.checkDeclaredProgress(t, p.in[0])
	got := r.Out.CopyTo(tensor.New(r.Out.DType, r.Out.Shape...))
	again := tensor.Must(tensor.FromStorage(r.Out.Meta, tensor.StorageOf(first))).CopyTo(got.Meta)
	if !bytes.Equal(got.Storage().Bytes(), again.Storage().Bytes()) {
		t.Fatalf("%s %v: the order of chunks changes the result", p.Op.Name, p.describe())
	}
	want := p.reference(t)
	if want.DType != got.DType || !slices.Equal(want.Shape, got.Shape) {
		t.Fatalf("%s: reference gives %v, inference %v", p.Op.Name, want.Meta, got.Meta)
	}
	tol := productTolerance(got.DType, summands)
	kit.EachIndex(got.Shape, func(i []int) {
		a, b := got.At(i...), want.At(i...)
		if d := cmplx.Abs(a.Complex() - b.Complex()); !(d <= tol*(1+cmplx.Abs(b.Complex()))) {
			t.Fatalf("%s %v: at %v got %v, want %v", p.Op.Name, p.describe(), i, a, b)
		}
	})
}

// reference returns the result of the op's reference.
func (p *ProductCall) reference(t testing.TB) *tensor.Tensor {
	if p.want == nil {
		want, err := p.Op.Ref(p.Call, p.in)
		if err != nil {
			t.Fatal(err)
		}
		p.want = want[0]
	}
	return p.want
}

// WithInput returns the call with x as operand 0, and with other attributes and constants. The result must be the same:
// x must have the elements of operand 0, in any layout.
func (p *ProductCall) WithInput(t testing.TB, attrs graph.Attrs, x *tensor.Tensor, constants ...int) *ProductCall {
	q, err := NewProductCall(p.Op.Name, attrs, append([]*tensor.Tensor{x}, p.in[1:]...), constants...)
	if err != nil {
		t.Fatal(err)
	}
	q.want = p.reference(t)
	return q
}

// describe returns the attributes and the metas of the call for messages.
func (p *ProductCall) describe() string {
	s := fmt.Sprintf("%+v ->%v:", p.Call.Attrs, p.Call.Out)
	for i := range p.Call.In {
		s += fmt.Sprintf(" %v(const %v)", p.Call.Meta(i), p.Call.Const(i) != nil)
	}
	return s
}

// productTolerance returns the permitted error of a sum of products. It is relative to 1 plus the magnitude of the sum.
func productTolerance(d tensor.DType, summands int) float64 {
	eps := map[tensor.DType]float64{tensor.Float16: 1e-3, tensor.BFloat16: 8e-3, tensor.Float32: 2e-7,
		tensor.Float64: 4e-16, tensor.Complex64: 4e-7, tensor.Complex128: 1e-15}[d]
	if d.IsReducedFloat() {
		return eps // one rounding
	}
	return eps * math.Sqrt(float64(summands)+1) * 4
}

// RandomOperand returns a random tensor in a random layout. The dimensions are stored in random order. Some layouts
// have gaps, an offset or strides of 0.
func RandomOperand(rng *rand.Rand, dtype tensor.DType, shape ...int) *tensor.Tensor {
	perm := rng.Perm(len(shape))
	if rng.IntN(2) == 0 {
		slices.Sort(perm)
	} else if len(shape) == 4 && rng.IntN(2) == 0 {
		perm = []int{0, 2, 3, 1}
	}
	strides := make([]int, len(shape))
	step := 1 + rng.IntN(5)/4
	for i := len(perm) - 1; i >= 0; i-- {
		dim := perm[i]
		strides[dim] = step
		step *= max(shape[dim], 1)
		if rng.IntN(12) == 0 {
			strides[dim], step = 0, max(strides[dim], 1)
		}
		if rng.IntN(8) == 0 {
			step += rng.IntN(4)
		}
	}
	t := tensor.Empty(tensor.Meta{DType: dtype, Shape: shape, Strides: strides, Offset: rng.IntN(3)})
	FillProduct(rng, t)
	return t
}

// FillProduct fills a tensor with random numbers. Floats are between -1 and 1. Magnitudes of integers are at most 8.
func FillProduct(r *rand.Rand, t *tensor.Tensor) {
	kit.EachIndex(t.Shape, func(i []int) {
		v := tensor.FloatScalar(float64(r.Float64()*2) - 1)
		if t.DType.IsIntegral(false) {
			v = tensor.IntScalar(int64(r.IntN(9)))
			if t.DType.IsSigned() {
				v = tensor.IntScalar(int64(r.IntN(17) - 8))
			}
		} else if t.DType.IsComplex() {
			v = tensor.ComplexScalar(complex(float64(r.Float64()*2)-1, float64(r.Float64()*2)-1))
		}
		t.Set(v, i...)
	})
}

// ProductDTypes are the dtypes of products. Repeated dtypes are drawn more often.
var ProductDTypes = []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float32, tensor.Float64, tensor.Float16,
	tensor.BFloat16, tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Complex64,
	tensor.Complex128}
