// Package kerneltest has functions for the tests of several packages of ops. They call ops on random operands, and
// compare the results of kernels with references. [CheckAgainstRef] checks an op by name, for the inferred layout of
// the result and for a random layout. These functions take an op and its operands:
//
//	CheckCall          runs a call by RunCall, and compares the results with the reference
//	RunCall            infers, compiles and runs a call; changes call.Out
//	RunParts           runs the nodes into which an op decomposes, each by RunCall
//	CompileAnyLayouts  compiles an inferred call and packs constants; changes call.In
package kerneltest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// CheckCall runs a call by [RunCall] and compares the results with the op's reference, if it has one.
func CheckCall(op *graph.Op, call *graph.Call, in []*tensor.Tensor, layouts ...tensor.Meta) error {
	got, err := RunCall(op, call, in, layouts...)
	if err != nil || op.Ref == nil {
		return err
	}
	want, err := op.Ref(call, in)
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	if len(want) != len(got) {
		return fmt.Errorf("%d results, the reference gives %d", len(got), len(want))
	}
	return CompareResults(op, call, in, got, want)
}

// CallOf returns a call of an op with operands of the given metas. The zero Meta stands for an omitted operand.
func CallOf(op *graph.Op, attrs graph.Attrs, in []tensor.Meta) (*graph.Call, error) {
	decoded, err := op.Schema.Decode(attrs, nil)
	if err != nil {
		return nil, err
	}
	call := &graph.Call{Attrs: decoded}
	for i, meta := range in {
		if meta.DType == tensor.Invalid {
			call.In = append(call.In, graph.Arg{})
			continue
		}
		call.In = append(call.In, graph.Arg{Kind: graph.TensorArg,
			Value: &graph.Value{Name: fmt.Sprint("x", i), Meta: meta}})
	}
	return call, nil
}

// Infer infers the results of a call and sets call.Out to their metas.
func Infer(op *graph.Op, call *graph.Call) ([]graph.Result, error) {
	results, err := op.Infer(call)
	call.Out = nil
	for _, result := range results {
		call.Out = append(call.Out, result.Meta())
	}
	return results, err
}

// RunCall infers and runs a call, sets call.Out, and returns the results. Chunks run in the order of RunKernel. in has
// nil for an operand that is a plain number. layouts overrides the inferred layouts of the first outputs.
func RunCall(op *graph.Op, call *graph.Call, in []*tensor.Tensor, layouts ...tensor.Meta) ([]*tensor.Tensor, error) {
	results, err := Infer(op, call)
	if err != nil {
		return nil, err
	}
	if len(results) > 0 && results[0].Dynamic {
		return op.RunDynamic(nil, call, in)
	}
	if op.Decompose != nil {
		return runParts(op, encodeAttrs(call.Attrs), call.In, in)
	}
	outputs, hasNewOutput, err := makeOutputs(call, results, in, layouts)
	if err != nil || !hasNewOutput {
		return outputs, err
	}
	kernel, err := op.Compile(call)
	if err != nil {
		return nil, err
	}
	return outputs, RunKernel(kernel, call, in, outputs)
}

// makeOutputs returns the memory of the results: views of operands, or new tensors. It sets call.Out to the layouts of
// the new tensors. hasNew reports whether there are new tensors.
func makeOutputs(call *graph.Call, results []graph.Result, in []*tensor.Tensor, layouts []tensor.Meta) (
	outputs []*tensor.Tensor, hasNew bool, err error) {
	outputs = make([]*tensor.Tensor, len(results))
	for i, result := range results {
		if result.Alias >= 0 {
			if outputs[i], err = in[result.Alias].View(result.Meta()); err != nil {
				return nil, false, err
			}
			continue
		}
		hasNew = true
		if i < len(layouts) {
			call.Out[i] = layouts[i]
		}
		outputs[i] = tensor.Empty(call.Out[i])
		const garbage = 0x55 // a kernel must not rely on cleared memory
		for byteIndex := range outputs[i].Storage().Bytes() {
			outputs[i].Storage().Bytes()[byteIndex] = garbage
		}
	}
	return outputs, hasNew, nil
}

// encodeAttrs converts decoded attributes (a pointer to a struct) to attributes by name, the form in which a caller
// gives them. A zero number or false is encoded, because a caller may have given it. Any other zero field is an unset
// attribute.
func encodeAttrs(attrs any) graph.Attrs {
	encoded, fields := graph.Attrs{}, reflect.ValueOf(attrs).Elem()
	for i := range fields.NumField() {
		name, field := fields.Type().Field(i).Tag.Get("attr"), fields.Field(i)
		isNumber := field.CanInt() || field.CanFloat() || field.Type() == reflect.TypeFor[sym.Int]()
		isUnset := field.IsZero() && field.Kind() != reflect.Bool && !isNumber
		if name == "" || isUnset {
			continue
		}
		if field.Kind() == reflect.Pointer {
			field = field.Elem()
		}
		encoded[name] = field.Interface()
		switch value := encoded[name].(type) {
		case graph.IntsOrWord:
			if encoded[name] = value.Ints; value.Word != "" {
				encoded[name] = value.Word
			}
		case graph.NumberOrWord:
			if encoded[name] = value.Number; value.Word != "" {
				encoded[name] = value.Word
			}
		}
	}
	return encoded
}

// RunParts runs the nodes into which a composite op decomposes, and returns the results. in has nil for an omitted
// operand.
func RunParts(op *graph.Op, attrs graph.Attrs, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return runParts(op, attrs, make([]graph.Arg, len(in)), in)
}

// runParts is RunParts for operands that may be plain numbers.
func runParts(op *graph.Op, attrs graph.Attrs, args []graph.Arg, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	parts := graph.New("parts", kernels.Lookup)
	tensors := map[*graph.Value]*tensor.Tensor{} // the operands, and the results of the nodes that have run
	applyArgs := make([]any, len(in))
	for i, operand := range in {
		if args[i].Kind == graph.NumberArg {
			applyArgs[i] = args[i].Number
		} else if operand != nil {
			value := parts.Constant(fmt.Sprint("x", i), operand)
			applyArgs[i], tensors[value] = value, operand
		}
	}
	results := parts.Apply(op.Name, attrs, applyArgs...)
	if parts.Err() != nil {
		return nil, parts.Err()
	}
	nodes, err := parts.Decompose(results[0].Node)
	if err != nil {
		return nil, err
	}
	for _, node := range nodes {
		var operands []*tensor.Tensor
		for _, arg := range node.In {
			operands = append(operands, tensors[arg.Value])
		}
		outputs, err := runPart(node, operands)
		if err != nil {
			return nil, err
		}
		for i, value := range node.Out {
			tensors[value] = outputs[i]
		}
	}
	var resultTensors []*tensor.Tensor
	for _, value := range results {
		resultTensors = append(resultTensors, tensors[value])
	}
	return resultTensors, nil
}

// runPart runs one of the nodes into which an op decomposes. If no implementation supports the layouts of the operands,
// it uses row-major copies, as plans do, and replaces the operands by the copies.
func runPart(node *graph.Node, operands []*tensor.Tensor) ([]*tensor.Tensor, error) {
	outputs, err := RunCall(node.Op, &graph.Call{In: node.In, Attrs: node.Attrs}, operands)
	if errors.Is(err, graph.ErrNoImpl) {
		copiesCall := &graph.Call{In: makeRowMajor(operands), Attrs: node.Attrs}
		if outputs, err = RunCall(node.Op, copiesCall, operands); err == nil {
			outputs[0] = outputs[0].CopyTo(node.Out[0].Meta)
		}
	}
	return outputs, err
}

// makeRowMajor replaces the tensors of the list by row-major copies, and returns operands with the layouts of the
// copies.
func makeRowMajor(list []*tensor.Tensor) []graph.Arg {
	args := make([]graph.Arg, len(list))
	for i, t := range list {
		if t != nil {
			list[i] = t.CopyTo(tensor.New(t.DType, t.Shape...))
			args[i] = graph.ArgOf(&graph.Value{Meta: list[i].Meta})
		}
	}
	return args
}

// CompileAnyLayouts compiles an inferred call whose operands may have any layouts. It uses the implementation of
// [graph.Op.Fitting] or, if there is none, the last exact implementation that supports the call. In call.In, each
// constant that the implementation packs becomes its packed copy. An op with a single implementation that packs
// nothing is compiled by [graph.Op.Compile].
func CompileAnyLayouts(op *graph.Op, call *graph.Call) (*graph.Kernel, error) {
	packs := slices.ContainsFunc(op.Impls, func(candidate graph.Impl) bool { return candidate.Pack != nil })
	if !packs && len(op.Impls) < 2 {
		return op.Compile(call)
	}
	impl := op.Fitting(call)
	for i := len(op.Impls) - 1; i >= 0 && impl == nil; i-- {
		if candidate := &op.Impls[i]; !candidate.Inexact && len(candidate.Walks(call, nil)) > 0 {
			impl = candidate
		}
	}
	if impl == nil {
		return nil, graph.ErrNoImpl
	}
	for i, arg := range call.In {
		if impl.Pack == nil || call.Const(i) == nil {
			continue
		}
		if packing, ok := impl.Pack(call, i); ok {
			packed, err := graph.PackConstant(arg.Value, packing)
			if err != nil {
				return nil, err
			}
			call.In[i].Value = packed
		}
	}
	return impl.Lower(call)
}

// DataOf returns the address of operand i of a call.
func DataOf(call *graph.Call, i int, in []*tensor.Tensor) unsafe.Pointer {
	switch {
	case call.Packed(i) != nil:
		return call.In[i].Value.Const.Pointer()
	case in[i] != nil:
		return in[i].Pointer()
	}
	return nil
}

// MemOf returns the memory of a run of a kernel on the given operands and outputs.
func MemOf(kernel *graph.Kernel, call *graph.Call, in, outputs []*tensor.Tensor) *graph.Mem {
	mem := &graph.Mem{Scratch: tensor.NewStorage(kernel.Scratch).Bytes(),
		WorkerScratch: tensor.NewStorage(kernel.WorkerScratch).Bytes()}
	for _, output := range outputs {
		mem.Ptrs = append(mem.Ptrs, output.Pointer())
	}
	for i := range call.In {
		pointer := DataOf(call, i, in)
		if kernel.EmbeddedOperands != nil && kernel.EmbeddedOperands[i] != nil {
			pointer = kernel.EmbeddedOperands[i].Pointer()
		}
		mem.Ptrs = append(mem.Ptrs, pointer)
	}
	return mem
}

// RunKernel runs the phases of a kernel one after another. The chunks of a phase run in descending order: a kernel must
// not rely on their order.
func RunKernel(kernel *graph.Kernel, call *graph.Call, in, outputs []*tensor.Tensor) error {
	mem := MemOf(kernel, call, in, outputs)
	for _, phase := range kernel.Phases {
		for chunk := phase.Chunks - 1; chunk >= 0; chunk-- {
			if err := phase.Run(mem, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// Filled returns a tensor with the given meta. draw returns the value of an element.
func Filled(meta tensor.Meta, draw func(dtype tensor.DType) tensor.Scalar) *tensor.Tensor {
	filled := tensor.Empty(meta)
	kit.EachIndex(meta.Shape, func(index []int) { filled.Set(draw(meta.DType), index...) })
	return filled
}

// NonzeroValues returns a function that draws numbers of a dtype: positive ones and, if the dtype is signed, negative
// ones. It does not draw 0, because integer divisions by 0 fail. Bools are true or false.
func NonzeroValues(rng *rand.Rand) func(dtype tensor.DType) tensor.Scalar {
	sign := func() float64 { return float64(1 - 2*rng.IntN(2)) }
	// The magnitude is 0.25 to 2. float64(...) prevents a fused multiply-add.
	float := func() float64 { return sign() * (0.25 + float64(1.75*rng.Float64())) }
	return func(dtype tensor.DType) tensor.Scalar {
		switch {
		case dtype == tensor.Bool:
			return tensor.BoolScalar(rng.IntN(2) == 0)
		case dtype.IsComplex():
			re := float()
			return tensor.ComplexScalar(complex(re, float()))
		case dtype.IsFloat():
			return tensor.FloatScalar(float())
		case dtype.IsSigned():
			return tensor.IntScalar(int64(sign()) * (1 + rng.Int64N(8)))
		}
		return tensor.IntScalar(1 + rng.Int64N(8))
	}
}

// IndexValues is NonzeroValues, except that integers are 0 or 1: valid indices along a dimension of size 2 or more.
func IndexValues(rng *rand.Rand) func(dtype tensor.DType) tensor.Scalar {
	nonzero := NonzeroValues(rng)
	return func(dtype tensor.DType) tensor.Scalar {
		if dtype.IsIntegral(false) {
			return tensor.IntScalar(rng.Int64N(2))
		}
		return nonzero(dtype)
	}
}
