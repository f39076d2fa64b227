package kernels

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// productCall is a call of a matrix product or a convolution with data.
type productCall struct {
	op   *graph.Op
	in   []*tensor.Tensor // nil for an operand left out
	call *graph.Call
}

// newProductCall infers the call; operands in constants are known at compile time.
func newProductCall(name string, at graph.Attrs, in []*tensor.Tensor, constants ...int) (*productCall, error) {
	p := &productCall{op: Lookup(name), in: in}
	a, err := p.op.Schema.Decode(at, nil)
	if err != nil {
		return nil, err
	}
	p.call = &graph.Call{Attrs: a}
	for i, t := range in {
		if t == nil {
			p.call.In = append(p.call.In, graph.Arg{})
			continue
		}
		v := &graph.Value{Meta: t.Meta}
		if slices.Contains(constants, i) {
			v.Const = t
		}
		p.call.In = append(p.call.In, graph.Arg{Kind: graph.TensorArg, Value: v})
	}
	res, err := p.op.Infer(p.call)
	if err != nil {
		return nil, err
	}
	p.call.Out = []tensor.Meta{res[0].Meta()}
	return p, nil
}

// productRun is a compiled call with its memory.
type productRun struct {
	k   *graph.Kernel
	mem graph.Mem
	out *tensor.Tensor
}

func (p *productCall) compile(t testing.TB) *productRun {
	k, err := compileAny(p.op, p.call)
	if err != nil {
		t.Fatalf("%s %v: %v", p.op.Name, p.call.Out, err)
	}
	r := &productRun{k: k, out: tensor.Empty(p.call.Out[0])}
	r.mem = graph.Mem{Ptrs: []unsafe.Pointer{r.out.Pointer()}, Cursor: &iter.Cursor{},
		Scratch: tensor.NewStorage(k.Scratch).Bytes(), Worker: tensor.NewStorage(k.Worker).Bytes()}
	for i := range p.in {
		r.mem.Ptrs = append(r.mem.Ptrs, dataOf(p.call, i, p.in))
	}
	return r
}

// run executes the kernel, in reverse order of chunks if asked for.
func (r *productRun) run(t testing.TB, reverse bool) {
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

// poison fills memory that a kernel must not rely on.
func (r *productRun) poison(b byte) {
	for _, m := range [][]byte{r.mem.Scratch, r.mem.Worker, r.out.Storage().Bytes()} {
		for i := range m {
			m[i] = b
		}
	}
}

// check runs the call forward and backward and compares with the definition.
func (p *productCall) check(t testing.TB, terms int) {
	t.Helper()
	r := p.compile(t)
	r.poison(0x7f)
	r.run(t, false)
	first := bytes.Clone(r.out.Storage().Bytes())
	r.poison(0x55)
	r.run(t, true)
	got := r.out.CopyTo(tensor.New(r.out.DType, r.out.Shape...))
	again := tensor.Must(tensor.Over(r.out.Meta, tensor.StorageOf(first))).CopyTo(got.Meta)
	if !bytes.Equal(got.Storage().Bytes(), again.Storage().Bytes()) {
		t.Fatalf("%s %v: the order of chunks changes the result", p.op.Name, p.describe())
	}
	want, err := p.op.Ref(p.call, p.in)
	if err != nil {
		t.Fatal(err)
	}
	if want[0].DType != got.DType || !slices.Equal(want[0].Shape, got.Shape) {
		t.Fatalf("%s: reference gives %v, inference %v", p.op.Name, want[0].Meta, got.Meta)
	}
	tol := productTolerance(got.DType, terms)
	eachIndex(got.Shape, func(i []int) {
		a, b := got.At(i...), want[0].At(i...)
		if d := cmplx.Abs(a.Complex() - b.Complex()); !(d <= tol*(1+cmplx.Abs(b.Complex()))) {
			t.Fatalf("%s %v: at %v got %v, want %v", p.op.Name, p.describe(), i, a, b)
		}
	})
}

func (p *productCall) describe() string {
	s := fmt.Sprintf("%+v ->%v:", p.call.Attrs, p.call.Out)
	for i := range p.call.In {
		s += fmt.Sprintf(" %v(const %v)", p.call.Meta(i), p.call.Const(i) != nil)
	}
	return s
}

func productTolerance(d tensor.DType, terms int) float64 {
	eps := map[tensor.DType]float64{tensor.Float16: 1e-3, tensor.BFloat16: 8e-3, tensor.Float32: 2e-7,
		tensor.Float64: 4e-16, tensor.Complex64: 4e-7, tensor.Complex128: 1e-15}[d]
	if d.IsReducedFloat() {
		return eps // one rounding
	}
	return eps * math.Sqrt(float64(terms)+1) * 4
}

// randomOperand makes a tensor with dimensions in random order, sometimes spaced out,
// shifted, or broadcast.
func randomOperand(r *rand.Rand, d tensor.DType, shape ...int) *tensor.Tensor {
	perm := r.Perm(len(shape))
	if r.IntN(2) == 0 {
		slices.Sort(perm)
	} else if len(shape) == 4 && r.IntN(2) == 0 {
		perm = []int{0, 2, 3, 1}
	}
	st := make([]int, len(shape))
	step := 1 + r.IntN(5)/4
	for i := len(perm) - 1; i >= 0; i-- {
		dim := perm[i]
		st[dim] = step
		step *= max(shape[dim], 1)
		if r.IntN(12) == 0 {
			st[dim], step = 0, max(st[dim], 1)
		}
		if r.IntN(8) == 0 {
			step += r.IntN(4)
		}
	}
	t := tensor.Empty(tensor.Meta{DType: d, Shape: shape, Strides: st, Offset: r.IntN(3)})
	fillProduct(r, t)
	return t
}

func fillProduct(r *rand.Rand, t *tensor.Tensor) {
	eachIndex(t.Shape, func(i []int) {
		v := tensor.FloatScalar(r.Float64()*2 - 1)
		if t.DType.IsIntegral(false) {
			v = tensor.IntScalar(int64(r.IntN(9)))
			if t.DType.IsSigned() {
				v = tensor.IntScalar(int64(r.IntN(17) - 8))
			}
		} else if t.DType.IsComplex() {
			v = tensor.ComplexScalar(complex(r.Float64()*2-1, r.Float64()*2-1))
		}
		t.Set(v, i...)
	})
}

var productDTypes = []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float32, tensor.Float64, tensor.Float16,
	tensor.BFloat16, tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Complex64, tensor.Complex128}

// TestProductVectors compares layouts and refusals with what PyTorch 1.13 answered.
func TestProductVectors(t *testing.T) {
	files := []string{"testdata/products.json"}
	if f := os.Getenv("PRODUCT_VECTORS"); f != "" {
		files = append(files, f)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var cases []struct {
			Op    string
			In    [][]any
			Attrs graph.Attrs
			Out   []any
			Error string
		}
		if err := json.Unmarshal(data, &cases); err != nil {
			t.Fatal(err)
		}
		bad := 0
		for i, c := range cases {
			in := make([]*tensor.Tensor, len(c.In))
			for k, m := range c.In {
				if m != nil {
					in[k] = tensor.Empty(vectorMeta(t, m))
				}
			}
			p, err := newProductCall(c.Op, c.Attrs, in)
			switch {
			case err != nil && c.Error == "":
				t.Errorf("%s:%d: %s refused: %v; want %v", f, i+2, c.Op, err, c.Out)
			case err == nil && c.Error != "":
				t.Errorf("%s:%d: %s gave %v, want error %s", f, i+2, c.Op, p.call.Out[0], c.Error)
			case err != nil && err.Error() != c.Error:
				t.Errorf("%s:%d: %s error %q, want %q", f, i+2, c.Op, err, c.Error)
			case err == nil && !sameMeta(p.call.Out[0], vectorMeta(t, c.Out)):
				t.Errorf("%s:%d: %s gave %v, want %v", f, i+2, c.Op, p.call.Out[0], c.Out)
			default:
				continue
			}
			if bad++; bad > 40 {
				t.FailNow()
			}
		}
	}
}

func sameMeta(a, b tensor.Meta) bool { return a.DType == b.DType && a.SameLayout(b) }

func vectorMeta(t *testing.T, v []any) tensor.Meta {
	d, err := tensor.ParseDType(v[0].(string))
	if err != nil {
		t.Fatal(err)
	}
	ints := func(x any) []int {
		out := []int{}
		for _, n := range x.([]any) {
			out = append(out, int(n.(float64)))
		}
		return out
	}
	return tensor.Meta{DType: d, Shape: ints(v[1]), Strides: ints(v[2])}
}

// TestEinsumRepeated sums over dimensions of which an operand repeats one: a stride of 0 is
// no sign that nothing has been joined yet.
func TestEinsumRepeated(t *testing.T) {
	for equation, metas := range map[string][]tensor.Meta{
		"ij->":      {f32(4, 3).WithStrides([]int{1, 0})},
		"ij,ij->":   {f32(2, 4), f32(2, 4).WithStrides([]int{1, 0})},
		"ijk,k->ij": {f32(4, 2, 4).WithStrides([]int{1, 0, 0}), f32(4)},
	} {
		c, err := callOf(Einsum, graph.Attrs{"equation": equation}, metas)
		if err != nil {
			t.Fatal(err)
		}
		var in []*tensor.Tensor
		for i, m := range metas {
			x := tensor.Empty(m)
			eachIndex(m.Shape, func(at []int) {
				v := i + 1
				for d, k := range at {
					v += k * m.Strides[d]
				}
				x.Set(tensor.IntScalar(int64(v)), at...)
			})
			in = append(in, x)
		}
		if err := checkCall(Einsum, c, in); err != nil {
			t.Errorf("%s: %v", equation, err)
		}
	}
}
