package kerneltest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// CheckReduce compares the results of a call's kernel with the reference. It also checks that the order of chunks does
// not change bits of the results.
func CheckReduce(t *testing.T, name string, attrs graph.Attrs, in ...*tensor.Tensor) {
	t.Helper()
	if kernels.Lookup(name).Decompose != nil { // a composite op, which has no kernel of its own
		CheckParts(t, name, attrs, in)
		return
	}
	op, call, err := NewReduceCall(name, attrs, in)
	if err != nil {
		t.Errorf("%s %v %v: %v", name, attrs, MetasOf(in), err)
		return
	}
	got, err := RunReduce(op, call, in, ascending)
	if err != nil {
		t.Fatal(err)
	}
	reversed, _ := RunReduce(op, call, in, descending)
	want, err := op.Ref(call, in)
	if err != nil {
		t.Fatal(err)
	}
	checkReduceInPlace(t, name, op, call, in, got)
	for i := range got {
		if !slices.Equal(got[i].Storage().Bytes(), reversed[i].Storage().Bytes()) {
			t.Errorf("%s %v %v: the order of chunks changes the bits", name, attrs, MetasOf(in))
		}
	}
	if err := CompareResults(op, call, in, got, want); err != nil {
		t.Errorf("%s %v %v: %v", name, attrs, MetasOf(in), err)
	}
}

// NewReduceCall returns a call of the named op on tensors, whose results are inferred. in has nil for an omitted
// operand.
func NewReduceCall(name string, attrs graph.Attrs, in []*tensor.Tensor) (*graph.Op, *graph.Call, error) {
	op := kernels.Lookup(name)
	decoded, err := op.Schema.Decode(attrs, nil)
	if err != nil {
		return nil, nil, err
	}
	call := &graph.Call{Attrs: decoded}
	for _, operand := range in {
		arg := graph.Arg{}
		if operand != nil {
			arg = graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: operand.Meta}}
		}
		call.In = append(call.In, arg)
	}
	results, err := op.Infer(call)
	for _, result := range results {
		call.Out = append(call.Out, result.Meta())
	}
	return op, call, err
}

// RunReduce compiles and runs a call in memory that is filled with a pattern, NaN for floats, because a kernel must not
// rely on cleared memory. The chunks run in ascending order, or in descending order if isReversed is set.
func RunReduce(op *graph.Op, call *graph.Call, in []*tensor.Tensor, isReversed bool) ([]*tensor.Tensor, error) {
	if op.Decompose != nil {
		return RunParts(op, encodeAttrs(call.Attrs), in)
	}
	kernel, err := CompileAnyLayouts(op, call)
	if err != nil {
		return nil, err
	}
	var outputs []*tensor.Tensor
	var ptrs []unsafe.Pointer
	for _, meta := range call.Out {
		output := tensor.Empty(meta)
		for i := range output.Storage().Bytes() {
			output.Storage().Bytes()[i] = 0xff
		}
		outputs = append(outputs, output)
		ptrs = append(ptrs, output.Pointer())
	}
	return outputs, runPhases(kernel, append(ptrs, pointersOf(in)...), isReversed)
}

// pointersOf returns the addresses of operands. The address of an omitted operand is nil.
func pointersOf(in []*tensor.Tensor) []unsafe.Pointer {
	ptrs := make([]unsafe.Pointer, len(in))
	for i, operand := range in {
		if operand != nil {
			ptrs[i] = operand.Pointer()
		}
	}
	return ptrs
}

// runPhases runs the phases of a kernel in scratch memory that is filled with a pattern.
func runPhases(kernel *graph.Kernel, ptrs []unsafe.Pointer, isReversed bool) error {
	mem := &graph.Mem{Ptrs: ptrs, Scratch: tensor.NewStorage(kernel.Scratch).Bytes(),
		WorkerScratch: tensor.NewStorage(kernel.WorkerScratch).Bytes()}
	for _, region := range [][]byte{mem.Scratch, mem.WorkerScratch} {
		for i := range region {
			region[i] = 0xff
		}
	}
	for _, phase := range kernel.Phases {
		for chunk := range phase.Chunks {
			if isReversed {
				chunk = phase.Chunks - 1 - chunk
			}
			if err := phase.Run(mem, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkReduceInPlace checks that a kernel computes the same bits in place. For each pair of an output and an operand
// that may share memory, it runs the kernel with the output in the memory of the operand.
func checkReduceInPlace(t *testing.T, name string, op *graph.Op, call *graph.Call, in, want []*tensor.Tensor) {
	kernel, err := CompileAnyLayouts(op, call)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range kernel.InPlace {
		ptrs := make([]unsafe.Pointer, len(call.Out))
		for i, meta := range call.Out {
			ptrs[i] = tensor.Empty(meta).Pointer()
		}
		ptrs = append(ptrs, pointersOf(in)...)
		sharedMeta := call.Out[pair.Out]
		shared := tensor.Empty(sharedMeta)
		tensor.CopyElements(shared, in[pair.In])
		ptrs[pair.Out], ptrs[len(call.Out)+pair.In] = shared.Pointer(), shared.Pointer()
		if err := runPhases(kernel, ptrs, descending); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(shared.Storage().Bytes(), want[pair.Out].Storage().Bytes()) {
			t.Errorf("%s %v: the result in place has other bits", name, MetasOf(in))
		}
	}
}

// MetasOf returns the metas of tensors as text for messages. An omitted operand is "null".
func MetasOf(in []*tensor.Tensor) (texts []string) {
	for _, operand := range in {
		if operand != nil {
			texts = append(texts, operand.Meta.String())
		} else {
			texts = append(texts, "null")
		}
	}
	return texts
}

// RandomLayout returns a random layout of a shape. The dimensions are stored in random order. Some layouts have gaps,
// an offset or strides of 0.
func RandomLayout(rng *rand.Rand, dtype tensor.DType, shape []int) tensor.Meta {
	layout := tensor.Meta{DType: dtype, Shape: shape, Strides: make([]int, len(shape))}
	stride := 1
	for _, dim := range permutation(rng, len(shape)) {
		if rng.IntN(8) == 0 {
			stride *= 2
		}
		layout.Strides[dim] = stride
		stride *= max(shape[dim], 1)
		if rng.IntN(12) == 0 {
			layout.Strides[dim] = 0
		}
	}
	layout.Offset = rng.IntN(3)
	return layout
}

// permutation returns the dimensions from fastest to slowest. Half of the time the order is row-major, else random.
func permutation(rng *rand.Rand, rank int) []int {
	order := rng.Perm(rank)
	if rng.IntN(2) == 0 {
		for i := range order {
			order[i] = rank - 1 - i
		}
	}
	return order
}

// RandomTensor returns a random tensor. Floats are from -2 to 2, and some of them are equal. Signed integers are from
// -8 to 8, unsigned integers from 0 to 16.
func RandomTensor(rng *rand.Rand, meta tensor.Meta) *tensor.Tensor {
	out := tensor.Empty(meta)
	elements := out.Storage().Len() / meta.DType.Size()
	flat := tensor.Must(tensor.FromStorage(tensor.New(meta.DType, elements), out.Storage()))
	for i := range elements {
		switch {
		case meta.DType == tensor.Bool:
			flat.SetFlat(i, tensor.BoolScalar(rng.IntN(3) > 0))
		case meta.DType.IsIntegral(false):
			number := rng.IntN(17) - 8
			if !meta.DType.IsSigned() {
				number += 8
			}
			flat.SetFlat(i, tensor.IntScalar(int64(number)))
		case meta.DType.IsComplex():
			flat.SetFlat(i, tensor.ComplexScalar(complex(float64(rng.Float64()*4)-2, float64(rng.Float64()*4)-2)))
		case rng.IntN(4) == 0:
			flat.SetFlat(i, tensor.FloatScalar(float64(rng.IntN(5)-2)))
		default:
			flat.SetFlat(i, tensor.FloatScalar(float64(rng.Float64()*4)-2))
		}
	}
	return out
}

// RandomShape draws a shape with at most 6000 elements.
func RandomShape(rng *rand.Rand, rank int) []int {
	shape := make([]int, rank)
	for dim := range shape {
		shape[dim] = []int{1, 2, 3, 5, 9, 20, 40}[rng.IntN(7)]
	}
	for tensor.Numel(shape) > 6000 {
		shape[rng.IntN(rank)] = 1 + rng.IntN(2)
	}
	return shape
}

// RandomDims draws a random subset of `rank` dimensions. A dimension is counted from the front, or from the back as a
// negative number.
func RandomDims(rng *rand.Rand, rank int) []int {
	dims := rng.Perm(rank)[:rng.IntN(rank+1)]
	for i := range dims {
		if rng.IntN(2) == 0 {
			dims[i] -= rank
		}
	}
	return dims
}

// FloatDTypes are the dtypes of floats. float32 is listed twice, because tests draw it more often.
var FloatDTypes = []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float32, tensor.Float64}

// ReduceDTypes returns the dtypes from which random tests of the named op draw.
func ReduceDTypes(name string) []tensor.DType {
	complexes := []tensor.DType{tensor.Complex64, tensor.Complex128}
	switch name {
	case "sum", "any", "all", "cumsum":
		return tensor.DTypes()
	case "mean", "var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm":
		return append(complexes, FloatDTypes...)
	case "amax", "amin", "argmax", "argmin", "max", "min":
		return append([]tensor.DType{tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}, FloatDTypes...)
	}
	return FloatDTypes
}

// ReduceFamily are the names of the ops that reduce, scan or normalize lines, windows or dimensions.
var ReduceFamily = []string{"sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "max", "min", "any", "all",
	"var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm", "logsumexp", "cumsum", "cumprod", "softmax",
	"log_softmax",
	"layer_norm", "group_norm", "batch_norm", "instance_norm", "max_pool2d", "max_pool2d_with_indices", "avg_pool2d",
	"adaptive_avg_pool2d", "adaptive_max_pool2d", "max_pool1d", "avg_pool1d", "adaptive_avg_pool1d"}
