package kerneltest

import (
	"bytes"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// ProductCall is a call of a matrix product or a convolution, with the tensors of its operands. A test makes a call of
// random operands ([RandomOperand], [NewProductCall]) and compares its results with the reference
// ([ProductCall.Check]).
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
	decoded, err := call.Op.Schema.Decode(attrs, nil)
	if err != nil {
		return nil, err
	}
	call.Call = &graph.Call{Attrs: decoded}
	for i, operand := range in {
		if operand == nil {
			call.Call.In = append(call.Call.In, graph.Arg{})
			continue
		}
		value := &graph.Value{Meta: operand.Meta}
		if slices.Contains(constants, i) {
			value.Const = operand
		}
		call.Call.In = append(call.Call.In, graph.Arg{Kind: graph.TensorArg, Value: value})
	}
	results, err := call.Op.Infer(call.Call)
	if err != nil {
		return nil, err
	}
	call.Call.Out = []tensor.Meta{results[0].Meta()}
	return call, nil
}

// Check runs the call twice, with its chunks in ascending and in descending order. It checks that the results are
// equal, and compares them with the reference. summands is the number of products in a sum.
func (p *ProductCall) Check(t testing.TB, summands int) {
	t.Helper()
	run := p.Compile(t)
	run.poison(0x7f)
	run.Run(t, ascending)
	first := bytes.Clone(run.Out.Storage().Bytes())
	run.poison(0x55) // another byte: a result that depends on it differs
	run.Run(t, descending)
	// Run the phases with a graph.Flow again, in ascending order. Each chunk gets only the part of operand 0 that it
	// declares as needed.
	run.checkDeclaredProgress(t, p.in[0])
	got := run.Out.CopyTo(tensor.New(run.Out.DType, run.Out.Shape...))
	again := tensor.Must(tensor.FromStorage(run.Out.Meta, tensor.StorageOf(first))).CopyTo(got.Meta)
	if !bytes.Equal(got.Storage().Bytes(), again.Storage().Bytes()) {
		t.Fatalf("%s %v: the order of chunks changes the result", p.Op.Name, p.describe())
	}
	p.checkElements(t, got, summands)
}

// checkElements compares the elements of a result with the reference.
func (p *ProductCall) checkElements(t testing.TB, got *tensor.Tensor, summands int) {
	t.Helper()
	want := p.reference(t)
	if want.DType != got.DType || !slices.Equal(want.Shape, got.Shape) {
		t.Fatalf("%s: reference gives %v, inference %v", p.Op.Name, want.Meta, got.Meta)
	}
	terms := p.sumOfMagnitudes(t)
	kit.EachIndex(got.Shape, func(index []int) {
		gotElement, wantElement := got.At(index...), want.At(index...)
		difference := cmplx.Abs(gotElement.Complex() - wantElement.Complex())
		bound := productError(got.DType, summands, cmplx.Abs(wantElement.Complex()), terms.At(index...).Float())
		if !(difference <= bound) {
			t.Fatalf("%s %v: at %v got %v, want %v (the bound is %.3g)", p.Op.Name, p.describe(), index, gotElement,
				wantElement, bound)
		}
	})
}

// sumOfMagnitudes returns the sums of the magnitudes of the terms: the reference for operands and factors without
// signs.
func (p *ProductCall) sumOfMagnitudes(t testing.TB) *tensor.Tensor {
	t.Helper()
	magnitudes, call := make([]*tensor.Tensor, len(p.in)), *p.Call
	call.In = slices.Clone(p.Call.In)
	for i, operand := range p.in {
		if operand == nil {
			continue
		}
		if p.Op.Name == "deform_conv2d" && i == 2 { // positions
			magnitudes[i] = operand.CopyTo(tensor.New(tensor.Float64, operand.Shape...))
			call.In[i] = graph.ArgOf(&graph.Value{Meta: magnitudes[i].Meta})
			continue
		}
		magnitudes[i] = tensor.Zeros(tensor.Float64, operand.Shape...)
		kit.EachIndex(operand.Shape, func(index []int) {
			magnitudes[i].Set(tensor.FloatScalar(cmplx.Abs(operand.At(index...).Complex())), index...)
		})
		call.In[i] = graph.ArgOf(&graph.Value{Meta: magnitudes[i].Meta})
	}
	attrs := reflect.New(reflect.TypeOf(call.Attrs).Elem())
	attrs.Elem().Set(reflect.ValueOf(call.Attrs).Elem())
	for i := range attrs.Elem().NumField() {
		if factor, ok := attrs.Elem().Field(i).Interface().(tensor.Scalar); ok && factor.IsSet() {
			attrs.Elem().Field(i).Set(reflect.ValueOf(tensor.FloatScalar(cmplx.Abs(factor.Complex()))))
		}
	}
	call.Attrs = attrs.Interface()
	sums, err := p.Op.Ref(&call, magnitudes)
	if err != nil {
		t.Fatal(err)
	}
	return sums[0]
}

// productRun is a compiled call with its memory.
type productRun struct {
	kernel *graph.Kernel
	mem    graph.Mem
	Out    *tensor.Tensor
}

// Compile compiles the call and allocates its memory.
func (p *ProductCall) Compile(t testing.TB) *productRun {
	kernel, err := CompileAnyLayouts(p.Op, p.Call)
	if err != nil {
		t.Fatalf("%s %v: %v", p.Op.Name, p.Call.Out, err)
	}
	return p.newRun(kernel)
}

// newRun allocates the memory of a run of a kernel.
func (p *ProductCall) newRun(kernel *graph.Kernel) *productRun {
	run := &productRun{kernel: kernel, Out: tensor.Empty(p.Call.Out[0])}
	run.mem = graph.Mem{Ptrs: []unsafe.Pointer{run.Out.Pointer()},
		Scratch: tensor.NewStorage(kernel.Scratch).Bytes(), WorkerScratch: tensor.NewStorage(kernel.WorkerScratch).Bytes()}
	for i := range p.in {
		run.mem.Ptrs = append(run.mem.Ptrs, DataOf(p.Call, i, p.in))
	}
	return run
}

// Run executes the kernel, optionally with its chunks in reverse order. Callers pass the constant ascending (false) or
// descending (true).
func (r *productRun) Run(t testing.TB, isReversed bool) {
	for _, phase := range r.kernel.Phases {
		for chunk := range phase.Chunks {
			if isReversed {
				chunk = phase.Chunks - 1 - chunk
			}
			if err := phase.Run(&r.mem, chunk); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// poison fills the output and the scratch memory with one byte. A kernel must not rely on their contents.
func (r *productRun) poison(filler byte) {
	for _, region := range [][]byte{r.mem.Scratch, r.mem.WorkerScratch, r.Out.Storage().Bytes()} {
		for i := range region {
			region[i] = filler
		}
	}
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

// Result runs the call twice, with its chunks in ascending and in descending order. It checks that the results are
// equal and returns the result. If isPacked is set, [ProductCall.Compile] replaces constants by packed copies.
// Otherwise the implementation gets the constants as they are; the test must then have set Call.Impl.
func (p *ProductCall) Result(t testing.TB, isPacked bool) *tensor.Tensor {
	t.Helper()
	copied, call := *p, *p.Call // compiling changes the operands of the call
	call.In = slices.Clone(call.In)
	copied.Call = &call
	var run *productRun
	if isPacked {
		run = copied.Compile(t)
	} else {
		kernel, err := call.Impl.Lower(&call)
		if err != nil {
			t.Fatal(err)
		}
		run = copied.newRun(kernel)
	}
	run.poison(0x7f)
	run.Run(t, ascending)
	first := bytes.Clone(run.Out.Storage().Bytes())
	run.poison(0x7f)
	run.Run(t, descending)
	if !bytes.Equal(first, run.Out.Storage().Bytes()) {
		t.Fatalf("%s %v: the order of chunks changes the result", p.Op.Name, p.describe())
	}
	return run.Out
}

// WithInput returns the call with x as operand 0, and with the given attributes and constants. The result must equal
// the result of p, because the new call is compared with the reference of p.
func (p *ProductCall) WithInput(t testing.TB, attrs graph.Attrs, x *tensor.Tensor, constants ...int) *ProductCall {
	changed, err := NewProductCall(p.Op.Name, attrs, append([]*tensor.Tensor{x}, p.in[1:]...), constants...)
	if err != nil {
		t.Fatal(err)
	}
	changed.want = p.reference(t)
	return changed
}

// describe returns the attributes and the metas of the call for messages.
func (p *ProductCall) describe() string {
	text := fmt.Sprintf("%+v ->%v:", p.Call.Attrs, p.Call.Out)
	for i := range p.Call.In {
		text += fmt.Sprintf(" %v(const %v)", p.Call.Meta(i), p.Call.Const(i) != nil)
	}
	return text
}

// productError returns the permitted error of a sum of products: a rounding of each result, and for each summand a
// few of the roundings of the computation, whose errors add up like random numbers. sum is the sum of the products'
// magnitudes. Sums of 16-bit floats are computed in float32.
func productError(dtype tensor.DType, summands int, want, sum float64) float64 {
	const margin = 4
	rounding := Units[dtype]
	if dtype.IsReducedFloat() {
		rounding = Units[tensor.Float32]
	}
	return 2*Units[dtype]*want + leasts[dtype] + margin*rounding*math.Sqrt(float64(summands)+1)*sum
}

// CheckLarge runs the op and compares its result with the result of want. It is for large shapes, for which the op's
// reference is too slow. want gets row-major float64 copies of the operands. summands is the number of products in a
// sum.
func CheckLarge(t *testing.T, rng *rand.Rand, op string, attrs graph.Attrs, summands int,
	want func(operands [][]float64) []float64, in ...*tensor.Tensor) {
	t.Helper()
	call, err := NewProductCall(op, attrs, in, RandomConstants(rng, in)...)
	if err != nil {
		t.Fatal(err)
	}
	run := call.Compile(t)
	run.poison(0x7f)
	run.Run(t, descending)
	var values [][]float64
	for _, operand := range append(in, run.Out) {
		elements, err := tensor.ToSlice[float64](operand.CopyTo(tensor.New(tensor.Float64, operand.Shape...)))
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, elements)
	}
	operands, got := values[:len(in)], values[len(in)]
	wanted := want(operands)
	for _, elements := range operands {
		for i := range elements {
			elements[i] = math.Abs(elements[i])
		}
	}
	for i, sum := range want(operands) {
		if bound := productError(run.Out.DType, summands, math.Abs(wanted[i]), sum); !(math.Abs(got[i]-wanted[i]) <= bound) {
			t.Fatalf("%s %s: element %d is %v, want %v (the bound is %.3g)", op, call.describe(), i, got[i], wanted[i], bound)
		}
	}
}

// BenchProduct measures the rate of runs of a product in GFLOP/s.
func BenchProduct(b *testing.B, op string, attrs graph.Attrs, in []*tensor.Tensor, constants ...int) {
	call, err := NewProductCall(op, attrs, in, constants...)
	if err != nil {
		b.Fatal(err)
	}
	run := call.Compile(b)
	for b.Loop() {
		run.Run(b, ascending)
	}
	b.ReportMetric(call.Op.Flops(call.Call)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// BenchImpl measures the named implementation of the call with the loop order that the implementation prefers. If
// isUncached is set, each run uses another copy of operand 1, a constant. The operand is then not in the L1 and L2
// caches, as in a network.
func (p *ProductCall) BenchImpl(b *testing.B, name string, isUncached bool) {
	i := slices.IndexFunc(p.Op.Impls, func(candidate graph.Impl) bool { return candidate.Name == name })
	if i < 0 {
		b.Fatalf("%s has no %s", p.Op.Name, name)
	}
	impl := &p.Op.Impls[i]
	walks := impl.Walks(p.Call, nil)
	if len(walks) == 0 {
		b.Skip("the implementation does not support the call here")
	}
	p.Call.Impl, p.Call.Walk, p.Call.Out[0] = impl, walks[0], walks[0].ResultLayout(0, p.Call.Out[0])
	run := p.Compile(b)
	const operand1 = 2 // its index in Ptrs, which has the result first
	copies := []unsafe.Pointer{run.mem.Ptrs[operand1]}
	if isUncached {
		copies = append(copies, uncachedCopies(p.Call.In[1].Value.Const)...)
	}
	var times []time.Duration
	for b.Loop() {
		run.mem.Ptrs[operand1] = copies[len(times)%len(copies)]
		start := time.Now()
		run.Run(b, ascending)
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	fastTime := times[len(times)/10] // not the median, because other programs make some runs slower
	b.ReportMetric(p.Op.Flops(p.Call)/float64(fastTime), "GFLOP/s")
}

// uncachedBytes exceeds the size of a core's L2 cache.
const uncachedBytes = 96 << 20

// uncachedCopies returns the addresses of copies of a constant. Together the copies have at most uncachedBytes.
func uncachedCopies(constant *tensor.Tensor) (copies []unsafe.Pointer) {
	original := constant.Storage().Bytes()
	for range uncachedBytes / len(original) {
		storage := tensor.NewStorage(len(original))
		copy(storage.Bytes(), original)
		copies = append(copies, unsafe.Pointer(unsafe.SliceData(storage.Bytes())))
	}
	return copies
}

// BenchTensor returns a tensor of random numbers between -0.5 and 0.5.
func BenchTensor(meta tensor.Meta) *tensor.Tensor {
	filled := tensor.Empty(meta)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range meta.Extent() {
		filled.SetFlat(i, tensor.FloatScalar(rng.Float64()-0.5))
	}
	return filled
}

// RandomConstants draws the indices of operands that a test declares as constants.
func RandomConstants(rng *rand.Rand, in []*tensor.Tensor) (list []int) {
	for i, operand := range in {
		if operand != nil && rng.IntN(3) == 0 {
			list = append(list, i)
		}
	}
	return list
}

// RandomOperand returns a random tensor in a random layout. The dimensions are stored in random order. Some layouts
// have gaps, an offset or strides of 0.
func RandomOperand(rng *rand.Rand, dtype tensor.DType, shape ...int) *tensor.Tensor {
	order := rng.Perm(len(shape))
	if rng.IntN(2) == 0 {
		slices.Sort(order)
	} else if len(shape) == 4 && rng.IntN(2) == 0 {
		order = []int{0, 2, 3, 1} // NHWC
	}
	strides := make([]int, len(shape))
	stride := 1 + rng.IntN(5)/4 // 1, or rarely 2, which leaves gaps between all elements
	for i := len(order) - 1; i >= 0; i-- {
		dim := order[i]
		strides[dim] = stride
		stride *= max(shape[dim], 1)
		if rng.IntN(12) == 0 { // a dimension with stride 0 takes no memory
			stride = max(strides[dim], 1)
			strides[dim] = 0
		}
		if rng.IntN(8) == 0 { // a gap
			stride += rng.IntN(4)
		}
	}
	filled := tensor.Empty(tensor.Meta{DType: dtype, Shape: shape, Strides: strides, Offset: rng.IntN(3)})
	FillRandom(rng, filled)
	return filled
}

// FillRandom fills a tensor with random numbers. Floats, and both parts of complex numbers, are between -1 and 1.
// Magnitudes of integers are at most 8.
func FillRandom(rng *rand.Rand, t *tensor.Tensor) {
	kit.EachIndex(t.Shape, func(index []int) {
		element := tensor.FloatScalar(float64(rng.Float64()*2) - 1)
		if t.DType.IsIntegral(false) {
			element = tensor.IntScalar(int64(rng.IntN(9)))
			if t.DType.IsSigned() {
				element = tensor.IntScalar(int64(rng.IntN(17) - 8))
			}
		} else if t.DType.IsComplex() {
			element = tensor.ComplexScalar(complex(float64(rng.Float64()*2)-1, float64(rng.Float64()*2)-1))
		}
		t.Set(element, index...)
	})
}

// ProductDTypes are the dtypes of products. Repeated dtypes are drawn more often.
var ProductDTypes = []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float32, tensor.Float64, tensor.Float16,
	tensor.BFloat16, tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Complex64,
	tensor.Complex128}
