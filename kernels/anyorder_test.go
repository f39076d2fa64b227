package kernels_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// ordersOf returns all orders of up to four dimensions, and some orders of more.
func ordersOf(rank int) (list []tensor.Order) {
	dims := tensor.RowMajorOrder(rank).Dims()
	var permute func(k int)
	permute = func(k int) {
		if k == rank {
			if o, err := tensor.NewOrder(dims...); err == nil && len(list) < 48 {
				list = append(list, o)
			}
			return
		}
		for i := k; i < rank; i++ {
			dims[k], dims[i] = dims[i], dims[k]
			permute(k + 1)
			dims[k], dims[i] = dims[i], dims[k]
		}
	}
	permute(0)
	return list
}

// written counts the results that have an order, and those that were compared in other orders than the inferred one.
type written struct{ all, permuted int }

// compareOrders runs the implementations of an op on a call, with results in all orders that they support; with few,
// only in some orders.
func compareOrders(op *graph.Op, ex graph.Example, seed uint64, few bool) (n written, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("panic: %v\n%s", x, debug.Stack())
		}
	}()
	draw := kerneltest.IndexValues(rand.New(rand.NewPCG(1, seed)))
	if op.Kind == graph.FollowsOperands {
		draw = kerneltest.NonzeroValues(rand.New(rand.NewPCG(1, seed)))
	}
	c, err := kerneltest.CallOf(op, ex.Attrs, ex.In)
	if err != nil {
		return n, err
	}
	in := make([]*tensor.Tensor, len(ex.In))
	for k, m := range ex.In {
		if m.DType != tensor.Invalid {
			in[k] = kerneltest.Filled(m, draw)
		}
	}
	res, err := kerneltest.Infer(op, c)
	if err != nil {
		return n, errRejected
	}
	shared := func(r graph.Result) bool { return r.Alias >= 0 || r.Dynamic }
	if len(res) == 0 || c.Out[0].Rank() < 2 || slices.ContainsFunc(res, shared) {
		return n, nil
	}
	inferred := slices.Clone(c.Out)
	var want []*tensor.Tensor
	for k := range op.Impls {
		for i, o := range ordersOf(c.Out[0].Rank()) {
			if few && i%5 != 1 {
				continue
			}
			copy(c.Out, inferred)
			w, ok := walkTo(&op.Impls[k], c, o)
			if n.all++; !ok {
				continue
			}
			if want == nil {
				if want, err = op.Ref(c, in); err != nil {
					return n, fmt.Errorf("reference: %w", err)
				}
			}
			if err := checkLowered(op, &op.Impls[k], c, w, in, want); err != nil {
				return n, fmt.Errorf("%s in order %v: %w", op.Impls[k].Name, o, err)
			}
			if !o.Matches(inferred[0]) {
				n.permuted++
			}
		}
	}
	return n, nil
}

// errRejected is the error of a call that inference rejects.
var errRejected = errors.New("rejected by inference")

// walkTo returns a walk of an implementation that writes results in the given order.
func walkTo(m *graph.Impl, c *graph.Call, o tensor.Order) (graph.Walk, bool) {
	for _, w := range m.Walks(c, []tensor.Order{o}) {
		if len(w.ResultOrders) > 0 && w.ResultOrders[0] == o {
			return w, true
		}
	}
	return graph.Walk{}, false
}

// checkLowered runs an implementation on operands in layouts that it reads, and compares the results with the
// reference's.
func checkLowered(op *graph.Op, m *graph.Impl, c *graph.Call, w graph.Walk, in, want []*tensor.Tensor) error {
	call, read := *c, slices.Clone(in)
	call.In, call.Out = slices.Clone(c.In), slices.Clone(c.Out)
	for k, a := range call.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		if _, ok := m.Read(c, w, k, a.Meta()); ok {
			continue
		}
		read[k] = in[k].CopyTo(a.Meta().WithStrides(w.LoopOrder.Strides(a.Meta().Shape)))
		v := *a.Value
		v.SetMeta(read[k].Meta)
		call.In[k].Value = &v
	}
	call.Impl, call.Walk = m, w
	outs := make([]*tensor.Tensor, len(call.Out))
	for i, o := range call.Out {
		call.Out[i] = w.ResultLayout(i, o)
		outs[i] = tensor.Empty(call.Out[i])
		for k := range outs[i].Storage().Bytes() { // the memory of a run is not cleared
			outs[i].Storage().Bytes()[k] = 0x55
		}
	}
	k, err := m.Lower(&call)
	if err != nil {
		return err
	}
	if err := kerneltest.RunKernel(k, &call, read, outs); err != nil {
		return err
	}
	return kerneltest.CompareResults(op, &call, read, outs, want)
}

// moreExamples returns calls with larger ranks and sizes than an op's own examples.
func moreExamples(name string) []graph.Example {
	cube := kit.F32(3, 4, 5, 6)
	switch name {
	case "matmul":
		return []graph.Example{{In: []tensor.Meta{kit.F32(2, 3, 33, 17), kit.F32(17, 41)}},
			{In: []tensor.Meta{kit.F32(2, 3, 5, 7), kit.F32(2, 1, 7, 9)}}}
	case "mm":
		return []graph.Example{{In: []tensor.Meta{kit.F32(70, 300), kit.F32(300, 50)}}}
	case "bmm":
		return []graph.Example{{In: []tensor.Meta{kit.F32(3, 20, 40), kit.F32(3, 40, 33)}}}
	case "linear":
		return []graph.Example{{In: []tensor.Meta{kit.F32(2, 3, 11, 20), kit.F32(30, 20), kit.F32(30)}}}
	case "sum", "mean", "amax", "amin", "std", "var", "var_mean", "std_mean", "logsumexp", "norm", "linalg_vector_norm",
		"all", "any":
		list := []graph.Example{{In: []tensor.Meta{cube}, Attrs: graph.Attrs{"dim": []int{1}}},
			{In: []tensor.Meta{cube}, Attrs: graph.Attrs{"dim": []int{0, 3}, "keepdim": true}}}
		if name == "norm" {
			list[0].Attrs["p"], list[1].Attrs["p"] = 2, 2
		}
		return list
	case "prod", "argmax", "argmin", "max", "min":
		return []graph.Example{{In: []tensor.Meta{cube}, Attrs: graph.Attrs{"dim": 1}},
			{In: []tensor.Meta{cube}, Attrs: graph.Attrs{"dim": 2, "keepdim": true}}}
	case "softmax", "log_softmax", "cumsum":
		return []graph.Example{{In: []tensor.Meta{cube}, Attrs: graph.Attrs{"dim": 2}},
			{In: []tensor.Meta{kit.NHWC(2, 6, 5, 4)}, Attrs: graph.Attrs{"dim": 1}}}
	case "cat":
		return []graph.Example{{In: []tensor.Meta{cube, kit.F32(3, 2, 5, 6), kit.NHWC(3, 3, 5, 6)},
			Attrs: graph.Attrs{"dim": 1}}}
	case "layer_norm", "rms_norm":
		return []graph.Example{{In: []tensor.Meta{cube, kit.F32(5, 6)}, Attrs: graph.Attrs{"normalized_shape": []int{5, 6}}},
			{In: []tensor.Meta{kit.NHWC(2, 6, 5, 4)}, Attrs: graph.Attrs{"normalized_shape": []int{4}}}}
	case "conv2d":
		return []graph.Example{{In: []tensor.Meta{kit.F32(3, 4, 9, 8), kit.F32(20, 4, 3, 3), kit.F32(20)},
			Attrs: graph.Attrs{"padding": 1}},
			{In: []tensor.Meta{kit.NHWC(3, 4, 9, 8), kit.F32(20, 2, 1, 1), kit.F32(20)}, Attrs: graph.Attrs{"groups": 2}},
			{In: []tensor.Meta{kit.NHWC(5, 4, 3, 3), kit.F32(6, 4, 3, 3)}}}
	case "max_pool3d", "avg_pool3d":
		return []graph.Example{{In: []tensor.Meta{kit.F32(2, 300, 4, 3, 5)},
			Attrs: graph.Attrs{"kernel_size": []int{2, 3, 2}}}}
	case "scatter_reduce":
		return []graph.Example{{In: []tensor.Meta{cube, kit.I64(3, 4, 5, 6), cube},
			Attrs: graph.Attrs{"dim": 1, "reduce": "mean"}}}
	}
	return nil
}

// TestAnyOrder checks that every implementation writes correct results in all orders that it declares, for all dtypes.
// An op that writes only the inferred order must give a FixedLayoutReason.
func TestAnyOrder(t *testing.T) {
	testsize.Long(t)
	anyOrder := 0
	for _, op := range kernels.All() {
		if op.Compile == nil || op.RunDynamic != nil {
			continue
		}
		var sum written
		for i, ex := range append(slices.Clone(op.Examples), moreExamples(op.Name)...) {
			for k, d := range append([]tensor.DType{tensor.Invalid}, tensor.DTypes()...) {
				if step := testsize.Of(3, 1); k > 0 && k%step != i%step {
					continue
				}
				as, changed := withDType(ex, d)
				if d != tensor.Invalid && !changed {
					continue
				}
				n, err := compareOrders(op, as, uint64(i), changed)
				if errors.Is(err, errRejected) && changed {
					continue
				}
				if err != nil {
					t.Errorf("%s, example %d of %v: %v", op.Name, i, d, err)
					break
				}
				sum.all, sum.permuted = sum.all+n.all, sum.permuted+n.permuted
			}
		}
		switch {
		case sum.permuted > 0:
			anyOrder++
		case op.WritesAnyDenseLayout && sum.all > 0:
			t.Errorf("%s: no result in another order was compared", op.Name)
		}
		// Some ops write other orders only by machine code.
		missing := sum.permuted == 0 && op.FixedLayoutReason == "" && loops.CodeAvailable()
		if sum.all > 0 && (missing || sum.permuted > 0 && op.FixedLayoutReason != "") {
			t.Errorf("%s: %d results in other orders, and FixedLayoutReason is %q", op.Name, sum.permuted, op.FixedLayoutReason)
		}
	}
	if anyOrder < 150 {
		t.Errorf("only %d ops write other orders than the inferred one", anyOrder)
	}
}

// withDType changes the dtype of the operands that have the first one's dtype, if that is a float.
func withDType(ex graph.Example, d tensor.DType) (as graph.Example, changed bool) {
	if d == tensor.Invalid || len(ex.In) == 0 || !ex.In[0].DType.IsFloat() || ex.In[0].DType == d {
		return ex, false
	}
	as = graph.Example{Attrs: ex.Attrs, In: slices.Clone(ex.In)}
	for i, m := range as.In {
		if m.DType == ex.In[0].DType {
			as.In[i].DType = d
		}
	}
	return as, true
}
