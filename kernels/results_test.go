//go:build linux || darwin

package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestResults compares the results of all ops with digests that were computed on amd64. Machine code gives the same
// bits for all instruction sets and processors. So does Go code, but some of its functions differ from machine code.
// An emulator computes all ops, with a third of the dtypes each.
//
// The digests leave out sums of products of complex128, which Go fuses in spite of conversions (golang/go#36971), and
// complex128 of composite ops, whose parts may be such sums. Normally distributed numbers are rounded to float32,
// because the last bits of package math's functions differ between processors.
func TestResults(t *testing.T) {
	path := "code"
	if !loops.CodeAvailable() {
		path = "portable"
	}
	d := jittest.NewDigests(t, "testdata/results/"+path+".sum")
	for _, op := range kernels.All() {
		some, others := dtypesOf(op.Name)
		if text := resultsOf(t, op, true, some); text != "" {
			d.AddText(op.Name, text)
		}
		if name := op.Name + ", other dtypes"; testsize.Short(true, false) {
			d.Skip(name)
		} else if text := resultsOf(t, op, false, others); text != "" {
			d.AddText(name, text)
		}
	}
	d.Compare()
}

// dtypesOf returns a third of all dtypes, with which an emulator also computes an op, and the other dtypes. The name of
// the op selects the third, so that each dtype is in those of many ops.
func dtypesOf(op string) (some, others []tensor.DType) {
	third := 0
	for _, c := range op {
		third = (third + int(c)) % 3
	}
	for i, d := range tensor.DTypes() {
		if i%3 == third {
			some = append(some, d)
		} else {
			others = append(others, d)
		}
	}
	return some, others
}

// resultsOf returns the results of the first example of an op with dtypes as text, and those of all examples with their
// own dtypes if examples is set.
func resultsOf(t *testing.T, op *graph.Op, examples bool, dtypes []tensor.DType) string {
	var results strings.Builder
	for i, ex := range op.Examples {
		var calls [][]tensor.Meta
		if examples {
			calls = append(calls, slices.Clone(ex.In))
		}
		for _, d := range dtypes {
			if i == 0 && len(ex.In) > 0 && (d != tensor.Complex128 || op.Flops == nil && op.Decompose == nil) {
				calls = append(calls, withDTypes(ex.In, d)[0])
			}
		}
		for _, metas := range calls {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			in := make([]*tensor.Tensor, len(metas))
			for k, m := range metas {
				if m.DType != tensor.Invalid {
					in[k] = randomOperand(rng, op, m)
				}
				if m.Rank() > 0 && op.Kind == graph.FollowsOperands {
					metas[k] = in[k].Meta
				}
			}
			c, err := kerneltest.CallOf(op, ex.Attrs, metas)
			if err != nil {
				t.Fatalf("%s, example %d: %v", op.Name, i, err)
			}
			if _, err := kerneltest.Infer(op, c); err != nil {
				continue // the dtype is not supported
			}
			outs, err := kerneltest.RunCall(op, c, in)
			fmt.Fprintln(&results, "example", i, err) // an error is a division by 0
			for _, out := range outs {
				if strings.HasPrefix(op.Name, "randn") {
					out = roundedTo32Bits(out)
				}
				printElements(&results, out)
			}
		}
	}
	return results.String()
}

// randomOperand returns an operand of a call of an op. Half of the elements of an op that follows layouts are special,
// and few of other ops, so that not all sums are NaN.
func randomOperand(rng *rand.Rand, op *graph.Op, m tensor.Meta) *tensor.Tensor {
	if op.Kind == graph.FollowsOperands {
		if m.Rank() > 0 {
			m = tensor.New(m.DType, resultElements)
		}
		return tensor.Must(tensor.FromStorage(m, tensor.StorageOf(jittest.RandomElements(rng, m.DType, m.Numel()))))
	}
	return kerneltest.Filled(m, kerneltest.IndexValues(rng))
}

// resultElements is the number of elements of an operand of a pointwise op; it is not a multiple of a vector's lanes.
const resultElements = 151

// roundedTo32Bits returns a float64 or complex128 tensor as float32 or complex64, and other tensors as they are.
func roundedTo32Bits(t *tensor.Tensor) *tensor.Tensor {
	switch t.DType {
	case tensor.Float64:
		return t.CopyTo(t.Meta.WithDType(tensor.Float32))
	case tensor.Complex128:
		return t.CopyTo(t.Meta.WithDType(tensor.Complex64))
	}
	return t
}

// printElements prints the bits of the elements in row-major order, those of complex elements in two numbers. All NaN
// are alike, because processors and operations make different ones.
func printElements(to *strings.Builder, t *tensor.Tensor) {
	t = t.CopyTo(tensor.New(t.DType, t.Shape...))
	part := t.DType
	if part.IsComplex() {
		part = part.ToReal()
	}
	nan := make([]byte, part.Size())
	if part.IsFloat() {
		x := math.NaN()
		tensor.Converter(part, tensor.Float64)(unsafe.Pointer(&nan[0]), unsafe.Pointer(&x), 0, 0, 1)
	}
	fmt.Fprintln(to, t.Meta)
	for element := range slices.Chunk(t.Storage().Bytes()[:t.Numel()*t.DType.Size()], part.Size()) {
		if part.IsFloat() && jittest.Same(part, element, nan) {
			element = nan
		}
		fmt.Fprintf(to, "%x\n", element)
	}
}
