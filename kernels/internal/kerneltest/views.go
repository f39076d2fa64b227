package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// CopyInLayout returns a tensor with the values of t, in the layout and at the offset of m. Bytes of its storage that
// belong to no element are 1.
func CopyInLayout(t *tensor.Tensor, m tensor.Meta) *tensor.Tensor {
	out := tensor.Empty(m)
	b := out.Storage().Bytes()
	for i := range b {
		b[i] = 1
	}
	tensor.CopyElements(out, t)
	return out
}

// RandomElements returns a tensor of the layout m with random values. If elements share memory, the element that was
// written last determines the value.
func RandomElements(rng *rand.Rand, m tensor.Meta) *tensor.Tensor {
	t := tensor.Zeros(m.DType, m.Shape...)
	for i := range t.Numel() {
		switch {
		case m.DType == tensor.Bool:
			t.SetFlat(i, tensor.BoolScalar(rng.IntN(2) == 1))
		case m.DType.IsComplex():
			t.SetFlat(i, tensor.ComplexScalar(complex(float64(rng.IntN(200)-100)/8, float64(rng.IntN(200)-100)/8)))
		case m.DType.IsFloat():
			t.SetFlat(i, tensor.FloatScalar(float64(rng.IntN(200)-100)/8))
		case m.DType.IsSigned():
			t.SetFlat(i, tensor.IntScalar(int64(rng.IntN(200)-100)))
		default:
			t.SetFlat(i, tensor.IntScalar(int64(rng.IntN(200))))
		}
	}
	return CopyInLayout(t, m)
}

// RunViewNode computes the results of a node: a view by its meta, another result by the node's kernel. The chunks of
// the kernel run in descending order.
func RunViewNode(t *testing.T, n *graph.Node, in []*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	out := make([]*tensor.Tensor, len(n.Out))
	for i, v := range n.Out {
		if v.Alias != nil {
			out[i] = tensor.Must(in[0].View(v.Meta))
		} else {
			out[i] = tensor.Empty(v.Meta)
		}
	}
	if n.Out[0].Alias != nil {
		return out
	}
	c := n.Call()
	k, err := CompileAny(n.Op, c)
	if err != nil {
		t.Fatalf("%s: %v", n.Op.Name, err)
	}
	RunViewKernel(t, k, out, in)
	return out
}

// RunViewKernel runs a kernel. Outputs and scratch memory are first filled with patterns.
func RunViewKernel(t *testing.T, k *graph.Kernel, out, in []*tensor.Tensor) {
	t.Helper()
	m := &graph.Mem{Scratch: PatternBytes(k.Scratch), Worker: PatternBytes(k.Worker)}
	for _, o := range out {
		b := o.Storage().Bytes()
		for i := range b {
			b[i] = 0xA5
		}
		m.Ptrs = append(m.Ptrs, o.Pointer())
	}
	for i, o := range in {
		var p unsafe.Pointer
		if k.Bound != nil && k.Bound[i] != nil {
			o = k.Bound[i]
		}
		if o != nil {
			p = o.Pointer()
		}
		m.Ptrs = append(m.Ptrs, p)
	}
	for _, p := range k.Phases {
		for i := p.Chunks - 1; i >= 0; i-- {
			if err := p.Run(m, i); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// PatternBytes returns memory filled with a pattern.
func PatternBytes(n int) []byte {
	b := tensor.NewStorage(n).Bytes()
	for i := range b {
		b[i] = 0x5A
	}
	return b
}

// FirstRelativeDifference describes the first difference of two tensors that exceeds a relative tolerance. The result
// is empty if no difference exceeds it.
func FirstRelativeDifference(got, want *tensor.Tensor, tolerance float64) string {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Sprintf("%v, want %v", got.Meta, want.Meta)
	}
	diff := ""
	kit.EachIndex(got.Shape, func(index []int) {
		a, b := got.At(index...).Complex(), want.At(index...).Complex()
		same := a == b || real(a) != real(a) && real(b) != real(b)
		off := math.Abs(real(a)-real(b)) + math.Abs(imag(a)-imag(b))
		if !same && !(off <= tolerance*(math.Abs(real(b))+math.Abs(imag(b)))) && diff == "" {
			diff = fmt.Sprintf("at %v: %v, want %v", index, a, b)
		}
	})
	return diff
}

// RandomStrides returns a random layout of a shape. The dimensions are stored in random order. Some layouts have gaps
// or an offset and, if zeros is set, strides of 0.
func RandomStrides(rng *rand.Rand, d tensor.DType, shape []int, zeros bool) tensor.Meta {
	m := tensor.Meta{DType: d, Shape: slices.Clone(shape), Strides: make([]int, len(shape))}
	step, gaps := 1, rng.IntN(3) == 0
	for _, k := range rng.Perm(len(shape)) {
		if gaps {
			step *= 1 + rng.IntN(2)
		}
		m.Strides[k] = step
		step *= max(1, shape[k])
		if zeros && rng.IntN(5) == 0 {
			m.Strides[k] = 0
		}
	}
	if rng.IntN(3) == 0 {
		m.Offset = rng.IntN(5)
	}
	return m
}

// RandomViewShape draws a small shape. A size may be 0.
func RandomViewShape(rng *rand.Rand, rank int) []int {
	shape := make([]int, rank)
	for d := range shape {
		shape[d] = []int{0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 17}[rng.IntN(11)]
		if shape[d] == 0 && rng.IntN(4) > 0 {
			shape[d] = 6
		}
	}
	return shape
}

// CheckAgainstRef applies the named op to random operands with the given metas and compares the results of its kernel
// with the reference. The kernel writes the inferred layout and then a random layout. CheckAgainstRef returns false if
// inference rejects the call.
func CheckAgainstRef(t *testing.T, rng *rand.Rand, op string, a graph.Attrs, metas ...tensor.Meta) bool {
	t.Helper()
	g := graph.New("", kernels.Lookup)
	var in []*tensor.Tensor
	var args []any
	for i, m := range metas {
		in = append(in, RandomElements(rng, m))
		args = append(args, g.InputMeta(fmt.Sprint("x", i), m))
	}
	vals := g.Apply(op, a, args...)
	if g.Err() != nil {
		return false
	}
	n := vals[0].Node
	want, err := n.Op.Ref(n.Call(), in)
	if err != nil {
		t.Fatalf("%s %v %v: reference: %v", op, metas, a, err)
	}
	got := RunViewNode(t, n, in)
	for i := range got {
		if diff := FirstRelativeDifference(got[i], want[i], 0); diff != "" {
			t.Fatalf("%s %v %v -> %v: %s", op, metas, a, vals[i].Meta, diff)
		}
	}
	// A planner may request results in another layout than the inferred layout.
	c := n.Call()
	out := make([]*tensor.Tensor, len(c.Out))
	for i := range c.Out {
		c.Out[i] = RandomStrides(rng, c.Out[i].DType, c.Out[i].Shape, false)
		out[i] = tensor.Empty(c.Out[i])
	}
	k, err := CompileAny(n.Op, c)
	if err != nil {
		t.Fatalf("%s %v %v to %v: %v", op, metas, a, c.Out, err)
	}
	RunViewKernel(t, k, out, in)
	for i := range out {
		if diff := FirstRelativeDifference(out[i], want[i], 0); diff != "" {
			t.Fatalf("%s %v %v to %v: %s", op, metas, a, c.Out[i], diff)
		}
	}
	return true
}

// RandomDType draws a dtype.
func RandomDType(rng *rand.Rand) tensor.DType {
	d := tensor.DTypes()
	return d[rng.IntN(len(d))]
}
