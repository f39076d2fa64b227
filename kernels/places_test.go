package kernels_test

import (
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// refusal fills the operands of an example: operand i, if it holds integers, with n, others
// with zeros. It returns the error of the reference.
func refusal(t *testing.T, o *graph.Op, ex graph.Example, i int, n int64) error {
	t.Helper()
	c := exampleCallOf(t, o, ex)
	in := make([]*tensor.Tensor, len(ex.In))
	for k, m := range ex.In {
		if m.DType == tensor.Invalid {
			continue
		}
		in[k] = tensor.Empty(m)
		if k == i {
			kit.EachIndex(m.Shape, func(at []int) { in[k].Set(tensor.IntScalar(n), at...) })
		}
	}
	_, err := o.Ref(c, in)
	return err
}

func exampleCallOf(t *testing.T, o *graph.Op, ex graph.Example) *graph.Call {
	t.Helper()
	c := &graph.Call{}
	for _, m := range ex.In {
		a := graph.Arg{}
		if m.DType != tensor.Invalid {
			a = graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: m}}
		}
		c.In = append(c.In, a)
	}
	var err error
	if c.Attrs, err = o.Schema.Decode(ex.Attrs, nil); err != nil {
		t.Fatalf("%s: %v", o.Name, err)
	}
	res, err := o.Infer(c)
	if err != nil {
		t.Fatalf("%s: %v", o.Name, err)
	}
	for _, r := range res {
		c.Out = append(c.Out, r.Meta())
	}
	return c
}

// TestBelow asks every op that takes integers whether it refuses great ones: it must have
// said so, and where the bound lies. The greatest index below the bound will do, and the
// bound itself will not.
func TestBelow(t *testing.T) {
	const great = 1000
	said, refused := 0, 0
	for _, o := range kernels.All() {
		for x, ex := range o.Examples {
			for i, m := range ex.In {
				// Pointwise ops calculate with integers.
				if o.Ref == nil || o.Pointwise != nil || i >= len(o.Params) || o.Params[i].Variadic {
					continue
				}
				if !m.DType.IsIntegral(false) || refusal(t, o, ex, i, 0) != nil {
					continue
				}
				below := o.Params[i].Below
				err := refusal(t, o, ex, i, great)
				if err != nil {
					refused++
					if below == nil {
						t.Errorf("%s, example %d: %s refuses %d, but has no bound: %v", o.Name, x, o.Params[i].Name, great, err)
					}
				}
				if below == nil {
					continue
				}
				n := below(exampleCallOf(t, o, ex))
				if n < 0 {
					continue
				}
				said++
				if err := refusal(t, o, ex, i, int64(n-1)); err != nil {
					t.Errorf("%s, example %d: %s refuses %d below %d: %v", o.Name, x, o.Params[i].Name, n-1, n, err)
				}
				if err != nil && refusal(t, o, ex, i, int64(n)) == nil {
					t.Errorf("%s, example %d: %s takes %d, which is not below itself", o.Name, x, o.Params[i].Name, n)
				}
			}
		}
	}
	if said < 20 || refused < 15 {
		t.Errorf("%d bounds, %d refusals: the examples have lost their indices", said, refused)
	}
	t.Logf("%d bounds, %d refusals", said, refused)
}
