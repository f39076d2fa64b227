package kernels_test

import (
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// rejection fills the operands of an example: operand i with n if it holds integers, others with zeros. It returns the
// error of the reference.
func rejection(t *testing.T, o *graph.Op, ex graph.Example, i int, n int64) error {
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

// TestIndexBounds checks the declared bounds of integer operands: an op that rejects large integers must declare a
// bound, accept the greatest integer below it, and reject the bound itself.
func TestIndexBounds(t *testing.T) {
	testsize.Long(t)
	const large = 1000
	bounds, rejected := 0, 0
	for _, o := range kernels.All() {
		for x, ex := range o.Examples {
			for i, m := range ex.In {
				// Pointwise ops compute with integers.
				if o.Ref == nil || o.Pointwise != nil || i >= len(o.Params) || o.Params[i].Variadic {
					continue
				}
				if !m.DType.IsIntegral(false) || rejection(t, o, ex, i, 0) != nil {
					continue
				}
				bound := o.Params[i].IndexBound
				err := rejection(t, o, ex, i, large)
				if err != nil {
					rejected++
					if bound == nil {
						t.Errorf("%s, example %d: %s rejects %d, but has no bound: %v", o.Name, x, o.Params[i].Name, large, err)
					}
				}
				if bound == nil {
					continue
				}
				n := bound(exampleCallOf(t, o, ex))
				if n < 0 {
					continue
				}
				bounds++
				if err := rejection(t, o, ex, i, int64(n-1)); err != nil {
					t.Errorf("%s, example %d: %s rejects %d below %d: %v", o.Name, x, o.Params[i].Name, n-1, n, err)
				}
				if err != nil && rejection(t, o, ex, i, int64(n)) == nil {
					t.Errorf("%s, example %d: %s accepts its bound %d", o.Name, x, o.Params[i].Name, n)
				}
			}
		}
	}
	if bounds < 20 || rejected < 15 {
		t.Errorf("only %d bounds and %d rejections: the examples lack indices", bounds, rejected)
	}
	t.Logf("%d bounds, %d rejections", bounds, rejected)
}
