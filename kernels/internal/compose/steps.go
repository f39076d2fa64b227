package compose

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Define defines an op by the sequence of ops that computes its results. body applies these ops and returns the
// results. A result that is a view of an operand shares the operand's storage. A result must not be an operand itself.
// For example, this function defines x - tanh(x):
//
//	func(s *Applier) []*graph.Arg {
//		x := s.Operands()[0]
//		return []*graph.Arg{s.Apply(pointwise.Sub, nil, x, s.Apply(pointwise.Tanh, nil, x))}
//	}
//
// A is the struct of the op's attributes.
func Define[A any](op graph.Op, body func(s *Applier) []*graph.Arg) *graph.Op {
	op.Infer, op.Ref, op.Decompose = sequence(body).infer, sequence(body).reference, sequence(body).decompose
	return kit.Define[A](op)
}

// sequence is a function that applies the ops of a composite op and returns the results.
type sequence func(s *Applier) []*graph.Arg

// Applier applies the ops of the sequence that defines a composite op. For inference, apply infers each op. For the
// reference, it evaluates each op's reference. For the decomposition, it adds a node for each op. The first error ends
// the sequence.
type Applier struct {
	Call  *graph.Call
	apply func(op *graph.Op, attrs graph.Attrs, in []graph.Arg) ([]graph.Arg, error)
}

// stepError is the panic that ends a sequence.
type stepError struct{ error }

// run returns the results of the sequence, or its first error.
func (s *Applier) run(body sequence) (out []*graph.Arg, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			stepFailure, ok := recovered.(stepError)
			if !ok {
				panic(recovered)
			}
			err = stepFailure.error
		}
	}()
	return body(s), nil
}

// infer is [graph.Semantics.Infer] of the composite op.
func (body sequence) infer(c *graph.Call) ([]graph.Result, error) {
	shared := sharing{}
	for i, arg := range c.In {
		if arg.Kind == graph.TensorArg {
			shared[arg.Value] = i
		}
	}
	s := &Applier{Call: c, apply: shared.infer}
	out, err := s.run(body) // after an error, out is empty
	types := make([]tensor.Type, len(out))
	for i, arg := range out {
		types[i] = arg.Type()
	}
	inferred := c.NewResults(types...)
	for i, arg := range out {
		if operand, ok := shared[arg.Value]; ok {
			inferred[i].Alias = operand
		}
	}
	return inferred, err
}

// sharing maps a value to the index of the composite op's operand whose storage it shares.
type sharing map[*graph.Value]int

// infer infers the results of an op, and records which of them share storage with an operand of the composite op.
func (shared sharing) infer(op *graph.Op, attrs graph.Attrs, in []graph.Arg) ([]graph.Arg, error) {
	_, inferred, err := stepCall(op, attrs, in)
	out := make([]graph.Arg, len(inferred))
	for i, result := range inferred {
		value := &graph.Value{Name: op.Name, Type: result.Type, Meta: result.Meta()}
		out[i] = graph.ArgOf(value)
		if result.Alias >= 0 {
			if operand, ok := shared[in[result.Alias].Value]; ok {
				shared[value] = operand
			}
		}
	}
	return out, err
}

// reference is [graph.Semantics.Ref] of the composite op.
func (body sequence) reference(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	data := map[*graph.Value]*tensor.Tensor{} // the elements of operands and intermediate values
	for i, arg := range c.In {
		if arg.Kind == graph.TensorArg {
			data[arg.Value] = in[i]
		}
	}
	s := &Applier{Call: c, apply: func(op *graph.Op, attrs graph.Attrs, in []graph.Arg) ([]graph.Arg, error) {
		return evaluateStep(data, op, attrs, in)
	}}
	out, err := s.run(body) // after an error, out is empty
	tensors := make([]*tensor.Tensor, len(out))
	for i, arg := range out {
		tensors[i] = data[arg.Value]
	}
	return tensors, err
}

// evaluateStep runs the reference of a step and stores its results in data.
func evaluateStep(data map[*graph.Value]*tensor.Tensor, op *graph.Op, attrs graph.Attrs,
	in []graph.Arg) ([]graph.Arg, error) {
	call, inferred, err := stepCall(op, attrs, in)
	if err != nil {
		return nil, err
	}
	tensors := operandTensors(data, in)
	for _, result := range inferred {
		call.Out = append(call.Out, result.Meta())
	}
	results := make([]*tensor.Tensor, len(inferred))
	isView := inferred[0].Alias >= 0 // all results of a view op are views, which the loop below makes
	if !isView {
		if results, err = op.Ref(call, tensors); err != nil {
			return nil, err
		}
	}
	out := make([]graph.Arg, len(inferred))
	for i, result := range inferred {
		if result.Alias >= 0 {
			if results[i], err = tensors[result.Alias].View(result.Meta()); err != nil {
				return nil, err
			}
		} else if !results[i].Meta.SameLayout(result.Meta()) {
			results[i] = results[i].CopyTo(result.Meta())
		}
		value := &graph.Value{Name: op.Name, Type: result.Type, Meta: results[i].Meta}
		data[value], out[i] = results[i], graph.ArgOf(value)
	}
	return out, nil
}

// operandTensors returns the operands of a step as tensors; nil for an omitted operand.
func operandTensors(data map[*graph.Value]*tensor.Tensor, in []graph.Arg) []*tensor.Tensor {
	tensors := make([]*tensor.Tensor, len(in))
	for i, arg := range in {
		switch arg.Kind {
		case graph.TensorArg:
			tensors[i] = data[arg.Value]
		case graph.NumberArg:
			tensors[i] = tensor.Zeros(arg.Number.DType())
			tensors[i].Set(arg.Number)
		}
	}
	return tensors
}

// decompose is [graph.Lowerings.Decompose] of the composite op.
func (body sequence) decompose(parts *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
	s := &Applier{Call: c, apply: func(op *graph.Op, attrs graph.Attrs, in []graph.Arg) ([]graph.Arg, error) {
		values, err := parts.Add(op, attrs, in...)
		out := make([]graph.Arg, len(values))
		for i, value := range values {
			out[i] = graph.ArgOf(value)
		}
		return out, err
	}}
	out, err := s.run(body)
	if err != nil {
		return nil, err
	}
	return NewBuilder(parts, c).Result(argsAt(out)...) // with the dtype and the layout of the call's results
}

// stepCall returns the call of an op with the given attributes and operands, and its inferred results.
func stepCall(op *graph.Op, attrs graph.Attrs, in []graph.Arg) (*graph.Call, []graph.Result, error) {
	decoded, err := op.Schema.Decode(attrs, nil)
	if err != nil {
		return nil, nil, err
	}
	call := &graph.Call{In: in, Attrs: decoded}
	inferred, err := op.Infer(call)
	return call, inferred, err
}

// Operands returns the operands of the call. Steps exchange pointers to operands, because a call passes a pointer in
// fewer instructions than a [graph.Arg].
func (s *Applier) Operands() []*graph.Arg { return pointersTo(s.Call.In) }

// Apply applies an op and returns its first result. It is not inlined, because this would make the build, with its 700
// calls, one second longer.
//
//go:noinline
func (s *Applier) Apply(op *graph.Op, attrs graph.Attrs, in ...*graph.Arg) *graph.Arg {
	return s.ApplyMany(op, attrs, in...)[0]
}

// ApplyMany applies an op and returns all its results.
func (s *Applier) ApplyMany(op *graph.Op, attrs graph.Attrs, in ...*graph.Arg) []*graph.Arg {
	out, err := s.apply(op, attrs, argsAt(in))
	s.Check(err)
	return pointersTo(out)
}

// TypeOf returns the type that the first result of an op would have, without applying it.
func (s *Applier) TypeOf(op *graph.Op, attrs graph.Attrs, in ...*graph.Arg) tensor.Type {
	_, inferred, err := stepCall(op, attrs, argsAt(in))
	s.Check(err)
	return inferred[0].Type
}

// WithLayout gives x the strides of layout, which must have the shape of x. It serves ops for which PyTorch allocates
// the result in advance.
func (s *Applier) WithLayout(x *graph.Arg, layout tensor.Type) *graph.Arg {
	if tensor.SameSizes(x.Type().Strides, layout.Strides) {
		return x
	}
	if meta, known := layout.Meta(); known {
		return s.Apply(castWithStrides, graph.Attrs{"dtype": x.Type().DType, "strides": meta.Strides}, x)
	}
	// Unknown sizes occur only in inference, which needs the type and no node.
	layout.DType = x.Type().DType
	return &graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: castWithStrides.Name, Type: layout}}
}

// Check ends the sequence with err, unless err is nil.
func (s *Applier) Check(err error) {
	if err != nil {
		panic(stepError{err})
	}
}

// Reject ends the sequence with an error if the condition holds. The message should be PyTorch's.
func (s *Applier) Reject(condition bool, format string, args ...any) {
	if condition {
		panic(stepError{fmt.Errorf(format, args...)})
	}
}

// argsAt returns the operands at pointers.
func argsAt(pointers []*graph.Arg) []graph.Arg {
	args := make([]graph.Arg, len(pointers))
	for i, pointer := range pointers {
		args[i] = *pointer
	}
	return args
}

// pointersTo returns pointers to operands.
func pointersTo(args []graph.Arg) []*graph.Arg {
	pointers := make([]*graph.Arg, len(args))
	for i := range args {
		pointers[i] = &args[i]
	}
	return pointers
}
