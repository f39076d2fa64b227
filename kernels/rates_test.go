package kernels_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestRates holds the list of inner kernels, the profile and the works of all examples to one another: what a work
// names is listed and has a price, and what is listed is named by the calls that it is measured by.
func TestRates(t *testing.T) {
	listed, profile := map[string]bool{}, machine.DefaultProfile()
	for _, r := range kernels.Rates() {
		if listed[r.Name] || r.Unit == "" {
			t.Errorf("%s is listed twice, or has no unit", r.Name)
		}
		listed[r.Name] = true
		if _, priced := profile.Kernels[r.Name]; !priced {
			t.Errorf("%s has no price", r.Name)
		}
		for _, call := range r.Calls {
			if op := kernels.Lookup(call.Op); op == nil || call.Impl != "" && !has(op, call.Impl) {
				t.Errorf("%s is measured by %s of %s", r.Name, call.Op, call.Impl)
			}
		}
	}
	for name := range profile.Kernels {
		if !listed[name] {
			t.Errorf("%s has a price, and nobody lists it", name)
		}
	}
	eachCall(t, func(op *graph.Op, c *graph.Call) {
		for i := range op.Impls {
			for _, w := range op.Impls[i].Walks(c, nil) {
				for _, part := range op.Impls[i].Work(c, w).Parts {
					if part.Kernel != "" && !listed[part.Kernel] {
						t.Errorf("%s by %s names %q, which nobody lists", op.Name, op.Impls[i].Name, part.Kernel)
					}
				}
			}
		}
	})
}

func has(op *graph.Op, impl string) bool {
	return slices.ContainsFunc(op.Impls, func(m graph.Impl) bool { return m.Name == impl })
}

// eachCall calls f with the examples of all ops that have implementations and are inferred to something.
func eachCall(t *testing.T, f func(op *graph.Op, c *graph.Call)) {
	t.Helper()
	calls := 0
	for _, op := range kernels.All() {
		for _, ex := range op.Examples {
			c, err := kerneltest.CallOf(op, ex.Attrs, ex.In)
			if err != nil {
				continue
			}
			if res, err := kerneltest.Infer(op, c); err != nil || len(res) == 0 || res[0].Alias != graph.Fresh ||
				res[0].Dynamic || len(op.Impls) == 0 {
				continue
			}
			calls++
			f(op, c)
		}
	}
	if calls < 100 {
		t.Errorf("%d calls", calls)
	}
}

// TestWorksAreApart holds implementations to what makes prices add up: walks, work and what it takes to read an
// operand depend on no other operand's layout.
func TestWorksAreApart(t *testing.T) {
	eachCall(t, func(op *graph.Op, c *graph.Call) {
		other := *c
		other.In = slices.Clone(c.In)
		for i, a := range c.In {
			if a.Kind == graph.TensorArg {
				m := a.Meta()
				m = m.WithStrides(backwards(m.Rank()).Strides(m.Shape))
				other.In[i] = graph.Of(&graph.Value{Name: a.Value.Name, Meta: m, Type: m.Type(), Const: a.Value.Const})
			}
		}
		for i := range op.Impls {
			impl := &op.Impls[i]
			walks := impl.Walks(c, nil)
			if again := impl.Walks(&other, nil); !reflect.DeepEqual(walks, again) {
				t.Errorf("%s by %s has walks %v, and %v where operands lie otherwise", op.Name, impl.Name, walks, again)
			}
			for _, w := range walks {
				if is, was := impl.Work(&other, w), impl.Work(c, w); is != was {
					t.Errorf("%s by %s has work %+v, and %+v where operands lie otherwise", op.Name, impl.Name, was, is)
				}
				for k, a := range c.In {
					if a.Kind != graph.TensorArg {
						continue
					}
					was, _ := impl.Read(c, w, k, a.Meta())
					if is, _ := impl.Read(&other, w, k, a.Meta()); is != was {
						t.Errorf("%s by %s reads operand %d for %+v, and for %+v where others lie otherwise", op.Name,
							impl.Name, k, was, is)
					}
				}
			}
		}
	})
}

// backwards is the order with the first dimension fastest.
func backwards(rank int) tensor.Order {
	dims := make([]int, rank)
	for d := range dims {
		dims[d] = rank - 1 - d
	}
	o, err := tensor.NewOrder(dims...)
	if err != nil {
		panic(err)
	}
	return o
}
