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

// CheckAgainstRef applies the named op to random operands with the given metas and compares the results of its kernel
// with the reference. The kernel writes the inferred layout and then a random layout. CheckAgainstRef returns false if
// inference rejects the call.
func CheckAgainstRef(t *testing.T, rng *rand.Rand, op string, attrs graph.Attrs, metas ...tensor.Meta) bool {
	t.Helper()
	g := graph.New("", kernels.Lookup)
	var in []*tensor.Tensor
	var args []any
	for i, meta := range metas {
		in = append(in, RandomElements(rng, meta))
		args = append(args, g.InputMeta(fmt.Sprint("x", i), meta))
	}
	values := g.Apply(op, attrs, args...)
	if g.Err() != nil {
		return false
	}
	node := values[0].Node
	want, err := node.Op.Ref(node.Call(), in)
	if err != nil {
		t.Fatalf("%s %v %v: reference: %v", op, metas, attrs, err)
	}
	compareResults := func(got []*tensor.Tensor) {
		t.Helper()
		for i := range got {
			const tolerance = 0
			if difference := FirstRelativeDifference(got[i], want[i], tolerance); difference != "" {
				t.Fatalf("%s %v %v to %v: %s", op, metas, attrs, got[i].Meta, difference)
			}
		}
	}
	compareResults(RunNode(t, node, in))
	// A planner may request results in a layout that differs from the inferred layout.
	call := node.Call()
	out := make([]*tensor.Tensor, len(call.Out))
	for i := range call.Out {
		const allowsZeros = false // elements of a result must not share memory
		call.Out[i] = RandomStrides(rng, call.Out[i].DType, call.Out[i].Shape, allowsZeros)
		out[i] = tensor.Empty(call.Out[i])
	}
	kernel, err := CompileAnyLayouts(node.Op, call)
	if err != nil {
		t.Fatalf("%s %v %v to %v: %v", op, metas, attrs, call.Out, err)
	}
	RunKernelReversed(t, kernel, out, in)
	compareResults(out)
	return true
}

// RunNode computes the results of a node. If the first result is a view, no kernel runs: views are made from their
// metas. Otherwise the node's kernel runs, as by [RunKernelReversed].
func RunNode(t *testing.T, node *graph.Node, in []*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	out := make([]*tensor.Tensor, len(node.Out))
	for i, value := range node.Out {
		if value.Alias != nil {
			out[i] = tensor.Must(in[0].View(value.Meta))
		} else {
			out[i] = tensor.Empty(value.Meta)
		}
	}
	if node.Out[0].Alias != nil {
		return out
	}
	call := node.Call()
	kernel, err := CompileAnyLayouts(node.Op, call)
	if err != nil {
		t.Fatalf("%s: %v", node.Op.Name, err)
	}
	RunKernelReversed(t, kernel, out, in)
	return out
}

// RunKernelReversed runs the chunks of a kernel in descending order, which exposes a chunk that depends on an earlier
// chunk. Outputs and scratch memory are first filled with patterns, which expose reads of memory that the kernel has
// not written.
func RunKernelReversed(t *testing.T, kernel *graph.Kernel, out, in []*tensor.Tensor) {
	t.Helper()
	mem := &graph.Mem{Scratch: PatternBytes(kernel.Scratch), WorkerScratch: PatternBytes(kernel.WorkerScratch)}
	for _, output := range out {
		bytes := output.Storage().Bytes()
		for i := range bytes {
			bytes[i] = 0xA5
		}
		mem.Ptrs = append(mem.Ptrs, output.Pointer())
	}
	for i, operand := range in {
		var pointer unsafe.Pointer
		if kernel.EmbeddedOperands != nil && kernel.EmbeddedOperands[i] != nil {
			operand = kernel.EmbeddedOperands[i]
		}
		if operand != nil {
			pointer = operand.Pointer()
		}
		mem.Ptrs = append(mem.Ptrs, pointer)
	}
	for _, phase := range kernel.Phases {
		for chunk := phase.Chunks - 1; chunk >= 0; chunk-- {
			if err := phase.Run(mem, chunk); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// PatternBytes returns memory filled with a pattern.
func PatternBytes(size int) []byte {
	bytes := tensor.NewStorage(size).Bytes()
	for i := range bytes {
		bytes[i] = 0x5A
	}
	return bytes
}

// FirstRelativeDifference describes the first difference of two tensors that exceeds a relative tolerance. The result
// is empty if dtypes and shapes are equal and no difference exceeds the tolerance.
func FirstRelativeDifference(got, want *tensor.Tensor, tolerance float64) string {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Sprintf("%v, want %v", got.Meta, want.Meta)
	}
	difference := ""
	kit.EachIndex(got.Shape, func(index []int) {
		gotElement, wantElement := got.At(index...).Complex(), want.At(index...).Complex()
		areNaN := real(gotElement) != real(gotElement) && real(wantElement) != real(wantElement)
		distance := math.Abs(real(gotElement)-real(wantElement)) + math.Abs(imag(gotElement)-imag(wantElement))
		isClose := distance <= tolerance*(math.Abs(real(wantElement))+math.Abs(imag(wantElement)))
		if difference == "" && gotElement != wantElement && !areNaN && !isClose {
			difference = fmt.Sprintf("at %v: %v, want %v", index, gotElement, wantElement)
		}
	})
	return difference
}

// RandomElements returns a tensor of the given layout with random values. If elements share memory, the element that
// was written last determines the value.
func RandomElements(rng *rand.Rand, meta tensor.Meta) *tensor.Tensor {
	out := tensor.Zeros(meta.DType, meta.Shape...)
	for i := range out.Numel() {
		switch {
		case meta.DType == tensor.Bool:
			out.SetFlat(i, tensor.BoolScalar(rng.IntN(2) == 1))
		case meta.DType.IsComplex():
			out.SetFlat(i, tensor.ComplexScalar(complex(float64(rng.IntN(200)-100)/8, float64(rng.IntN(200)-100)/8)))
		case meta.DType.IsFloat():
			out.SetFlat(i, tensor.FloatScalar(float64(rng.IntN(200)-100)/8))
		case meta.DType.IsSigned():
			out.SetFlat(i, tensor.IntScalar(int64(rng.IntN(200)-100)))
		default:
			out.SetFlat(i, tensor.IntScalar(int64(rng.IntN(200))))
		}
	}
	return CopyInLayout(out, meta)
}

// CopyInLayout returns a tensor with the values of t, in the given layout and at its offset. Bytes of its storage that
// belong to no element are 1, which is a valid bool.
func CopyInLayout(t *tensor.Tensor, layout tensor.Meta) *tensor.Tensor {
	out := tensor.Empty(layout)
	bytes := out.Storage().Bytes()
	for i := range bytes {
		bytes[i] = 1
	}
	tensor.CopyElements(out, t)
	return out
}

// RandomStrides returns a random layout of a shape. The dimensions are stored in random order. Some layouts have gaps
// or an offset and, if allowsZeros is set, strides of 0.
func RandomStrides(rng *rand.Rand, dtype tensor.DType, shape []int, allowsZeros bool) tensor.Meta {
	meta := tensor.Meta{DType: dtype, Shape: slices.Clone(shape), Strides: make([]int, len(shape))}
	stride, hasGaps := 1, rng.IntN(3) == 0
	for _, dim := range rng.Perm(len(shape)) {
		if hasGaps {
			stride *= 1 + rng.IntN(2)
		}
		meta.Strides[dim] = stride
		stride *= max(1, shape[dim])
		if allowsZeros && rng.IntN(5) == 0 {
			meta.Strides[dim] = 0
		}
	}
	if rng.IntN(3) == 0 {
		meta.Offset = rng.IntN(5)
	}
	return meta
}

// RandomSmallShape draws a small shape. A size may be 0.
func RandomSmallShape(rng *rand.Rand, rank int) []int {
	shape := make([]int, rank)
	for dim := range shape {
		shape[dim] = []int{0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 17}[rng.IntN(11)]
		if shape[dim] == 0 && rng.IntN(4) > 0 {
			shape[dim] = 6
		}
	}
	return shape
}

// RandomDType draws a dtype.
func RandomDType(rng *rand.Rand) tensor.DType {
	dtypes := tensor.DTypes()
	return dtypes[rng.IntN(len(dtypes))]
}
