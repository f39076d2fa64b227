package compose

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Steps applies the sequence of ops that defines a composite op (see [Define]). The same function is called for
// inference, reference and decomposition; Steps then infers, evaluates or adds nodes. After the first error, it applies
// no more ops.
type Steps struct {
	Call  *graph.Call
	apply func(op *graph.Op, a graph.Attrs, in []graph.Arg) ([]graph.Arg, error)
	err   error
}

// Define defines an op by the sequence of ops that computes its results. No result may alias an operand.
func Define[A any](op graph.Op, results func(s *Steps) []graph.Arg) *graph.Op {
	op.Infer = func(c *graph.Call) ([]graph.Result, error) {
		s := &Steps{Call: c, apply: inferStep}
		out := results(s)
		types := make([]tensor.Type, len(out))
		for i, a := range out {
			types[i] = a.Type()
		}
		return c.All(types...), s.err
	}
	op.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		data := map[*graph.Value]*tensor.Tensor{}
		for i, a := range c.In {
			if a.Kind == graph.TensorArg {
				data[a.Value] = in[i]
			}
		}
		s := &Steps{Call: c, apply: func(op *graph.Op, a graph.Attrs, in []graph.Arg) ([]graph.Arg, error) {
			return evaluateStep(data, op, a, in)
		}}
		out := results(s)
		tensors := make([]*tensor.Tensor, len(out))
		for i, a := range out {
			tensors[i] = data[a.Value]
		}
		return tensors, s.err
	}
	op.Decompose = func(into *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
		p := NewBuilder(into, c)
		s := &Steps{Call: c, apply: func(op *graph.Op, a graph.Attrs, in []graph.Arg) ([]graph.Arg, error) {
			made, err := into.Add(op, a, in...)
			out := make([]graph.Arg, len(made))
			for i, v := range made {
				out[i] = graph.Of(v)
			}
			return out, err
		}}
		out := results(s)
		if s.err != nil {
			return nil, s.err
		}
		return p.Result(out...)
	}
	return kit.Define[A](op)
}

// stepCall returns the call of a step.
func stepCall(op *graph.Op, a graph.Attrs, in []graph.Arg) (*graph.Call, []graph.Result, error) {
	attrs, err := op.Schema.Decode(a, nil)
	if err != nil {
		return nil, nil, err
	}
	c := &graph.Call{In: in, Attrs: attrs}
	res, err := op.Infer(c)
	return c, res, err
}

func inferStep(op *graph.Op, a graph.Attrs, in []graph.Arg) ([]graph.Arg, error) {
	_, res, err := stepCall(op, a, in)
	out := make([]graph.Arg, len(res))
	for i, r := range res {
		out[i] = graph.Of(&graph.Value{Name: op.Name, Type: r.Type, Meta: r.Meta()})
	}
	return out, err
}

// evaluateStep adds the results of the reference of a step to data.
func evaluateStep(data map[*graph.Value]*tensor.Tensor, op *graph.Op, a graph.Attrs,
	in []graph.Arg) ([]graph.Arg, error) {
	c, res, err := stepCall(op, a, in)
	if err != nil {
		return nil, err
	}
	tensors := make([]*tensor.Tensor, len(in))
	for i, x := range in {
		switch x.Kind {
		case graph.TensorArg:
			tensors[i] = data[x.Value]
		case graph.NumberArg:
			tensors[i] = tensor.Zeros(x.Number.DType())
			tensors[i].Set(x.Number)
		}
	}
	for _, r := range res {
		c.Out = append(c.Out, r.Meta())
	}
	made := make([]*tensor.Tensor, len(res))
	if res[0].Alias < 0 {
		if made, err = op.Ref(c, tensors); err != nil {
			return nil, err
		}
	}
	out := make([]graph.Arg, len(res))
	for i, r := range res {
		if r.Alias >= 0 {
			if made[i], err = tensors[r.Alias].View(r.Meta()); err != nil {
				return nil, err
			}
		} else if !made[i].Meta.SameLayout(r.Meta()) {
			made[i] = made[i].CopyTo(r.Meta())
		}
		v := &graph.Value{Name: op.Name, Type: r.Type, Meta: made[i].Meta}
		data[v], out[i] = made[i], graph.Of(v)
	}
	return out, nil
}

// Apply applies an op with one result.
func (s *Steps) Apply(op *graph.Op, a graph.Attrs, in ...graph.Arg) graph.Arg {
	if s.err != nil {
		return graph.Arg{}
	}
	out, err := s.apply(op, a, in)
	if err != nil || len(out) != 1 {
		s.Check(err)
		return graph.Arg{}
	}
	return out[0]
}

// WithLayout gives x the strides of t, which must have the shape of x. It serves ops for which PyTorch allocates the
// result in advance.
func (s *Steps) WithLayout(x graph.Arg, t tensor.Type) graph.Arg {
	if s.err != nil || tensor.SameSizes(x.Type().Strides, t.Strides) {
		return x
	}
	if m, known := t.Meta(); known {
		return s.Apply(castWithStrides, graph.Attrs{"dtype": x.Type().DType, "strides": m.Strides}, x)
	}
	t.DType = x.Type().DType
	return graph.Of(&graph.Value{Name: castWithStrides.Name, Type: t}) // unknown sizes occur only in inference
}

// Check records the error of a check of the operands or attributes, which may be nil. It reports whether there is no
// error so far.
func (s *Steps) Check(err error) bool {
	if s.err == nil {
		s.err = err
	}
	return s.err == nil
}

// Reject records an error with PyTorch's message if the condition holds. It reports whether there is no error so far.
func (s *Steps) Reject(condition bool, format string, args ...any) bool {
	if s.err == nil && condition {
		s.err = fmt.Errorf(format, args...)
	}
	return s.err == nil
}
