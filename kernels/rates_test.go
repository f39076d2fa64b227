package kernels_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// TestRates checks that the list of rates, the profile and the prices of all examples agree: every rate that a price
// uses is listed and has a value, and every listed rate is used by the calls that measure it.
func TestRates(t *testing.T) {
	testsize.Long(t)
	listed, profile := map[string]bool{}, pricing.DefaultProfile()
	for _, r := range kernels.Rates() {
		if listed[r.Name] || r.Unit == "" {
			t.Errorf("%s is listed twice, or has no unit", r.Name)
		}
		listed[r.Name] = true
		if _, priced := profile.Kernels[r.Name]; !priced {
			t.Errorf("%s has no value", r.Name)
		}
		for _, call := range r.Calls {
			if op := kernels.Lookup(call.Op); op == nil || call.Impl != "" && !hasImpl(op, call.Impl) {
				t.Errorf("%s is measured by %s of %s", r.Name, call.Op, call.Impl)
			}
		}
	}
	for name := range profile.Kernels {
		if !listed[name] {
			t.Errorf("%s has a value, but is not listed", name)
		}
	}
	eachCall(t, func(op *graph.Op, c *graph.Call) {
		for i := range op.Impls {
			for _, w := range op.Impls[i].Walks(c, nil) {
				for _, part := range op.Impls[i].Work(c, w).Parts {
					if part.Kernel != "" && !listed[part.Kernel] {
						t.Errorf("%s by %s uses %q, which is not listed", op.Name, op.Impls[i].Name, part.Kernel)
					}
				}
			}
		}
	})
}

func hasImpl(op *graph.Op, impl string) bool {
	return slices.ContainsFunc(op.Impls, func(m graph.Impl) bool { return m.Name == impl })
}

// eachCall calls f with the examples of all ops that have implementations and results.
func eachCall(t *testing.T, f func(op *graph.Op, c *graph.Call)) {
	t.Helper()
	calls := 0
	for _, op := range kernels.All() {
		for _, ex := range slices.Concat(op.Examples, moreExamples(op.Name)) {
			c, err := kerneltest.CallOf(op, ex.Attrs, ex.In)
			if err != nil {
				continue
			}
			if res, err := kerneltest.Infer(op, c); err != nil || len(res) == 0 || res[0].Alias != graph.NoAlias ||
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

// TestWorksAreIndependent checks that prices are additive: walks, work, and the cost of reading an operand must not
// depend on the layouts of other operands, nor on buffer aliasing of others.
func TestWorksAreIndependent(t *testing.T) {
	testsize.Long(t)
	r := rand.New(rand.NewPCG(2026, 22))
	eachCall(t, func(op *graph.Op, c *graph.Call) {
		for range 8 {
			checkIndependent(t, op, c, r)
		}
	})
}

// checkIndependent compares walks and prices of a call with those for other layouts of its operands.
func checkIndependent(t *testing.T, op *graph.Op, c *graph.Call, r *rand.Rand) {
	call, other := *c, *c
	call.In, other.In, other.InPlace = slices.Clone(c.In), slices.Clone(c.In), make([]bool, len(c.In))
	for i, a := range c.In {
		if a.Kind == graph.TensorArg {
			v, m := *a.Value, randomLayout(r, a.Meta())
			if r.IntN(3) == 0 && v.Const == nil {
				v.Const = tensor.Zeros(m.DType, m.Shape...)
			}
			call.In[i] = graph.ArgOf(&v)
			w := v
			w.Meta, w.Type, other.InPlace[i] = m, m.Type(), op.ConcatDim != nil && r.IntN(2) == 0
			other.In[i] = graph.ArgOf(&w)
		}
	}
	candidates := []tensor.Order{randomOrder(r, call.Out[0].Rank())}
	for i := range op.Impls {
		impl := &op.Impls[i]
		walks := impl.Walks(&call, candidates)
		if again := impl.Walks(&other, candidates); !reflect.DeepEqual(walks, again) {
			t.Errorf("%s by %s has walks %v, but %v with other operand layouts", op.Name, impl.Name, walks, again)
		}
		for _, w := range walks {
			if is, was := impl.Work(&other, w), impl.Work(&call, w); is != was {
				t.Errorf("%s by %s has work %+v, but %+v with other operand layouts", op.Name, impl.Name, was, is)
			}
			for k, a := range call.In {
				if a.Kind != graph.TensorArg {
					continue
				}
				m := randomLayout(r, a.Meta())
				call.InPlace = make([]bool, len(c.In))
				call.InPlace[k] = other.InPlace[k]
				was, does := impl.Read(&call, w, k, m)
				if is, still := impl.Read(&other, w, k, m); is != was || still != does {
					t.Errorf("%s by %s reads operand %d, %v, for %+v, %t, but for %+v, %t with other layouts of others", op.Name,
						impl.Name, k, m, was, does, is, still)
				}
			}
		}
	}
}

// randomLayout returns a layout in a random order: dense, a slice of a larger value, or with a stride of 0.
func randomLayout(r *rand.Rand, m tensor.Meta) tensor.Meta {
	o, shape := randomOrder(r, m.Rank()), slices.Clone(m.Shape)
	if len(shape) == 0 {
		return m
	}
	d := r.IntN(len(shape))
	switch r.IntN(4) {
	case 0:
		shape[d] += 1 + r.IntN(3)
	case 1:
		strides := o.Strides(shape)
		strides[d] = 0
		return m.WithStrides(strides)
	}
	return m.WithStrides(o.Strides(shape))
}

func randomOrder(r *rand.Rand, rank int) tensor.Order {
	o, err := tensor.NewOrder(r.Perm(rank)...)
	if err != nil {
		panic(err)
	}
	return o
}
