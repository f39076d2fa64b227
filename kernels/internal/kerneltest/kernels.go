package kerneltest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// Values of the parameters that are named isReversed: the order of the chunks of a phase.
const ascending, descending = false, true

// CheckKernel compares the results of a call's kernel with the reference. It also checks that neither the order of
// chunks nor the initial bytes of scratch memory change bits of the results. An op with Decompose has no kernel: see
// [CheckParts]. constants are explained at [NewCall].
func CheckKernel(t *testing.T, name string, attrs graph.Attrs, in []*tensor.Tensor, constants ...int) {
	t.Helper()
	if kernels.Lookup(name).Decompose != nil {
		CheckParts(t, name, attrs, in)
		return
	}
	op, call, err := NewCall(name, attrs, in, constants...)
	if err != nil {
		t.Errorf("%s %v %v: %v", name, attrs, MetasOf(in), err)
		return
	}
	got, err := RunInFilledMemory(op, call, in, 0x7f, ascending)
	if err != nil {
		t.Errorf("%s %v %v: %v", name, attrs, MetasOf(in), err)
		return
	}
	reversed, _ := RunInFilledMemory(op, call, in, 0x55, descending) // in memory filled with another byte
	want, err := op.Ref(call, in)
	if err != nil {
		t.Errorf("%s %v %v: reference: %v", name, attrs, MetasOf(in), err)
		return
	}
	for i := range got {
		if !bytes.Equal(got[i].Contiguous().Storage().Bytes(), reversed[i].Contiguous().Storage().Bytes()) {
			t.Errorf("%s %v %v: output %d depends on the order of chunks or on initial bytes of scratch memory", name,
				attrs, MetasOf(in), i)
		}
	}
	if err := CompareResults(op, call, in, got, want); err != nil {
		t.Errorf("%s %v %v: %v", name, attrs, MetasOf(in), err)
	}
}

// CheckParts compares the decomposition of a composite call with its reference.
func CheckParts(t *testing.T, name string, attrs graph.Attrs, in []*tensor.Tensor) {
	t.Helper()
	op, call, err := NewCall(name, attrs, in)
	if err != nil {
		t.Errorf("%s %v %v: %v", name, attrs, MetasOf(in), err)
		return
	}
	got, err := RunParts(op, attrs, in)
	if err != nil {
		t.Errorf("%s %v %v: %v", name, attrs, MetasOf(in), err)
		return
	}
	want, err := op.Ref(call, in)
	if err != nil {
		t.Errorf("%s %v %v: reference: %v", name, attrs, MetasOf(in), err)
		return
	}
	if err := CompareResults(op, call, in, got, want); err != nil {
		t.Errorf("%s %v %v: %v", name, attrs, MetasOf(in), err)
	}
}

// NewCall returns a call of the named op, with inferred results. in has the operands, and nil for an absent operand.
// constants has the indices of the operands that are constants of the graph.
func NewCall(name string, attrs graph.Attrs, in []*tensor.Tensor, constants ...int) (*graph.Op, *graph.Call, error) {
	op := kernels.Lookup(name)
	decoded, err := op.Schema.Decode(attrs, nil)
	if err != nil {
		return op, nil, err
	}
	call := &graph.Call{Attrs: decoded}
	for i, operand := range in {
		if operand == nil {
			call.In = append(call.In, graph.Arg{})
			continue
		}
		value := &graph.Value{Meta: operand.Meta}
		if slices.Contains(constants, i) {
			value.Const = operand
		}
		call.In = append(call.In, graph.Arg{Kind: graph.TensorArg, Value: value})
	}
	_, err = Infer(op, call)
	return op, call, err
}

// RunInFilledMemory runs the call. Scratch memory is first filled with the byte fill. The chunks run in ascending
// order, or in descending order if isReversed is set. An op with Decompose is run part by part instead; fill and
// isReversed then have no effect.
func RunInFilledMemory(op *graph.Op, call *graph.Call, in []*tensor.Tensor, fill byte,
	isReversed bool) ([]*tensor.Tensor, error) {
	if op.Decompose != nil {
		return RunParts(op, encodeAttrs(call.Attrs), in)
	}
	kernel, err := CompileAnyLayouts(op, call)
	if err != nil {
		return nil, err
	}
	var outputs []*tensor.Tensor
	for _, meta := range call.Out {
		outputs = append(outputs, tensor.Empty(meta))
	}
	mem := MemOf(kernel, call, in, outputs)
	for _, region := range [][]byte{mem.Scratch, mem.WorkerScratch} {
		for i := range region {
			region[i] = fill
		}
	}
	for _, phase := range kernel.Phases {
		for chunk := range phase.Chunks {
			if isReversed {
				chunk = phase.Chunks - 1 - chunk
			}
			if err := phase.Run(mem, chunk); err != nil {
				return outputs, err
			}
		}
	}
	return outputs, nil
}

// KernelAllocs returns the number of allocations during one run of a call.
func KernelAllocs(t *testing.T, op *graph.Op, call *graph.Call, in []*tensor.Tensor) float64 {
	kernel, err := CompileAnyLayouts(op, call)
	if err != nil {
		t.Fatal(err)
	}
	var outputs []*tensor.Tensor
	for _, meta := range call.Out {
		outputs = append(outputs, tensor.Empty(meta))
	}
	mem := MemOf(kernel, call, in, outputs)
	return testing.AllocsPerRun(20, func() {
		for _, phase := range kernel.Phases {
			for chunk := range phase.Chunks {
				if err := phase.Run(mem, chunk); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
