// Package golden is for tests of the packages that translate kernels to text (ptx, spirv). It has sample kernels, and
// compares their texts with golden files.
package golden

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/compile"
	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/tensor"
)

// Few returns a few kernels with their names: kernels of pointwise formulas, of calls of ops, and of a product with an
// epilogue. lookup finds ops by name. [Many] returns more kernels. Kernels are generated while the caller iterates.
func Few(t *testing.T, lookup graph.Lookup) iter.Seq2[string, *ir.Kernel] {
	return func(yield func(string, *ir.Kernel) bool) {
		for _, sample := range formulas {
			if !yield(sample.name, kernelOf(t, sample.code(t), sample.walk)) {
				return
			}
		}
		for _, sample := range calls {
			program := programOf(t, lookup(sample.op), sample)
			for index, launch := range program.Launches {
				name := sample.op
				if len(program.Launches) > 1 {
					name = fmt.Sprintf("%s_%d", name, index)
				}
				if !yield(name, launch.Kernel) {
					return
				}
			}
		}
		first := fusedCalls(t, lookup)[0]
		yield(first.Op.Name, compiled(t, first).Launches[0].Kernel)
	}
}

// formula is a pointwise expression of x and y.
type formula struct {
	name, text string
	walk       string          // the name of its iteration: see conform.Walks
	in         [2]tensor.DType // the dtypes of x and y
}

var formulas = []formula{
	{"add", "x * y + 1", "contiguous", [2]tensor.DType{tensor.Float32, tensor.Float32}},
	{"narrow", "x + y", "contiguous", [2]tensor.DType{tensor.BFloat16, tensor.Int8}},
	{"transposed", "where(x < y, x, y)", "transposed", [2]tensor.DType{tensor.Float64, tensor.Int64}},
	{"tile", "x + y", "matrices", [2]tensor.DType{tensor.Float32, tensor.Float32}},
	{"copy", "x", "matrices", [2]tensor.DType{tensor.Uint8, tensor.Uint8}},
	{"complex", "x * y", "strided", [2]tensor.DType{tensor.Complex64, tensor.Complex64}},
	{"fmod", "fmod(x, y)", "broadcast", [2]tensor.DType{tensor.Float32, tensor.Float32}},
	{"exp", "exp(x) * y", "broadcast", [2]tensor.DType{tensor.Float32, tensor.Float32}},
}

// code returns the code of the formula.
func (f formula) code(t *testing.T) conform.Code {
	parsed, err := expr.Parse(f.text, "x", "y")
	if err != nil {
		t.Fatal(err)
	}
	code, err := parsed.Code(f.in[:], expr.Typing{})
	if err != nil {
		t.Fatal(err)
	}
	return conform.Code{Name: f.name, Code: code}
}

// call is a call of an op, with row-major operands.
type call struct {
	op    string
	attrs graph.Attrs
	in    []tensor.Meta
}

func f32(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }

// calls has one call for each kind of kernel, in this order: row program, reduction in two stages, gather, product and
// convolution.
var calls = []call{
	{"softmax", graph.Attrs{"dim": 1}, []tensor.Meta{f32(9, 30)}},
	{"sum", graph.Attrs{"dim": []int{1}}, []tensor.Meta{f32(2, 1<<15)}},
	{"embedding", nil, []tensor.Meta{f32(30, 40), tensor.New(tensor.Int64, 5, 7)}},
	{"matmul", nil, []tensor.Meta{f32(40, 20), f32(20, 30)}},
	{"conv2d", graph.Attrs{"padding": 1}, []tensor.Meta{f32(1, 3, 8, 8), f32(4, 3, 3, 3), f32(4)}},
}

// products has matmuls with larger tiles than the matmul in calls: 64x64 and 128x128.
var products = []call{
	{"matmul", nil, []tensor.Meta{f32(1024, 20), f32(20, 512)}},
	{"matmul", nil, []tensor.Meta{f32(2048, 20), f32(20, 1024)}},
}

// programOf returns the program of a call of op.
func programOf(t *testing.T, op *graph.Op, sample call) *lower.Program {
	concrete, err := conform.NewCall(op, sample.attrs, sample.in, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(sample.op, err)
	}
	return compiled(t, concrete)
}

// compiled returns the program of a call. Its kernels are not compiled for a device.
func compiled(t *testing.T, call *conform.Call) *lower.Program {
	program, err := compile.Call(call.Op, call.Call, nil, lower.IEEE)
	if err != nil {
		t.Fatal(call.Op.Name, err)
	}
	return program
}

// fusedCalls returns calls of products and convolutions with epilogues.
func fusedCalls(t *testing.T, lookup graph.Lookup) []*conform.Call {
	fused, err := conform.Fused(lookup, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	return fused
}

// Many returns the kernels of [Few], and kernels of larger products and of products with epilogues. From a list of
// expressions (the [conform.Primitives], followed by the [conform.Functions]) it takes every step-th expression, and
// returns its kernel.
func Many(t *testing.T, lookup graph.Lookup, step int) iter.Seq2[string, *ir.Kernel] {
	functions := conform.Functions(tensor.Float32, tensor.Float64, tensor.Int64, tensor.Complex64)
	codes := append(conform.Primitives(), functions...)
	return func(yield func(string, *ir.Kernel) bool) {
		for name, kernel := range Few(t, lookup) {
			if !yield(name, kernel) {
				return
			}
		}
		for _, sample := range products {
			product := programOf(t, lookup(sample.op), sample).Launches[0].Kernel
			if !yield(fmt.Sprintf("%s of %v", sample.op, sample.in), product) {
				return
			}
		}
		for _, call := range fusedCalls(t, lookup)[1:] { // Few has the first
			for index, launch := range compiled(t, call).Launches {
				if !yield(fmt.Sprintf("%s, kernel %d", call.Op.Name, index), launch.Kernel) {
					return
				}
			}
		}
		for index := 0; index < len(codes); index += step {
			if !yield(codes[index].Name, kernelOf(t, codes[index], conform.Walks[index/step%len(conform.Walks)])) {
				return
			}
		}
	}
}

// kernelOf returns the kernel of an expression for the iteration with the name walk: see [conform.Walks].
func kernelOf(t *testing.T, code conform.Code, walk string) *ir.Kernel {
	iteration, err := conform.Iterate(code.Code, walk, conform.WalkShape(walk)...)
	if err != nil {
		t.Fatal(code.Name, err)
	}
	alignments := slices.Repeat([]int{16}, len(iteration.Operands())) // in bytes, by operand
	program, err := lower.Pointwise(code.Code, iteration, alignments, lower.IEEE)
	if err != nil {
		t.Fatal(code.Name, err)
	}
	return program.Launches[0].Kernel
}

// CompareFile fails the test if text differs from the contents of a file. If the environment variable GRAPHRUN_UPDATE
// is set, it first writes text to the file.
func CompareFile(t *testing.T, path, text string) {
	t.Helper()
	if os.Getenv("GRAPHRUN_UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("the text differs from %s:\n%s", path, text)
	}
}
