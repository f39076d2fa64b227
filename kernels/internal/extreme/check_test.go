//go:build (linux || darwin) && !386 && !arm

package extreme_test

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// outcome is the last stage that a call reached.
type outcome int

// Stages. A priced call is accepted but has a result too large to be computed.
const (
	refused outcome = iota
	priced
	computed
)

// reaches returns the stage that a call reaches by its inference. Faults of inference are found later.
func (c *call) reaches() (r reach) {
	defer func() { _ = recover() }()
	now.begin(c, "infer")
	defer now.end()
	_, n, err := c.graph(nil, nil, "")
	switch {
	case err != nil:
		return isRefused
	case !c.extreme:
		return isAccepted
	case !c.runs(n):
		return isExtremeAccepted
	}
	return isExtremeRun
}

// mostResults bounds the results of a call that is run.
const mostResults = 64

// graph makes a graph of the call, whose operands are inputs, or constants where constant says so. An op that is named
// follows and takes the first result.
func (c *call) graph(in []*tensor.Tensor, constant []bool, behind string) (*graph.Graph, *graph.Node, error) {
	g := graph.New("extreme", kernels.Lookup)
	operands := make([]any, len(c.in))
	for i, m := range c.in {
		name := fmt.Sprint("x", i)
		switch {
		case c.numbers[i] != nil:
			operands[i] = c.numbers[i]
		case m.DType == tensor.Invalid:
		case constant != nil && constant[i]:
			operands[i] = g.Constant(name, in[i])
		default:
			operands[i] = g.InputMeta(name, m)
		}
	}
	out := g.Apply(c.op.Name, c.attrs, operands...)
	if err := g.Err(); err != nil {
		return nil, nil, err
	}
	if len(out) == 0 {
		return nil, nil, errors.New("it makes no value")
	}
	n := out[0].Node
	switch out = slices.Clone(out); behind {
	case "neg":
		out[0] = g.Apply(behind, nil, out[0])[0]
	case "cat":
		out[0] = g.Apply(behind, nil, out[0], out[0])[0]
	}
	for k, v := range out[:min(len(out), mostResults)] {
		g.Output(fmt.Sprint("y", k), v)
	}
	return g, n, g.Err()
}

// checkedBytes bounds the allocations of inference and pricing of a call, besides those for each result.
const checkedBytes = 4 << 20

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// check runs a call by every implementation and compares the results with the reference's.
func (r *rooms) check(t testing.TB, c *call) (o outcome, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer now.end()
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("%s: panic: %v\n%s", now.stage(), x, debug.Stack())
		}
	}()
	before := allocated()
	now.begin(c, "infer")
	g, n, err := c.graph(nil, nil, "")
	if err != nil {
		if strings.Contains(err.Error(), "internal error") && !strings.Contains(err.Error(), "output_size.size()") {
			return refused, err
		}
		return refused, nil
	}
	runs := c.runs(n)
	if err := c.price(n); err != nil {
		return priced, err
	}
	if bytes := allocated() - before; bytes > checkedBytes+uint64(2048*len(n.Out)) {
		return priced, fmt.Errorf("inference and pricing allocate %d bytes", bytes)
	}
	if !runs {
		return priced, c.plan(g)
	}
	in := r.operands(t, c, n)
	ran, err := r.kernels(t, c, n, in)
	if err != nil {
		return priced, err
	}
	now.begin(c, "reference")
	want, refErr := c.reference(n, in)
	for _, m := range ran {
		if (m.err != nil) != (refErr != nil) && !c.special {
			return priced, fmt.Errorf("%s: error %v, the reference's %v", m.name, m.err, refErr)
		}
		if err := agree(m.out, want, m.inexact); refErr == nil && err != nil && !c.special {
			return computed, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if err := c.whole(in, want, refErr); err != nil {
		return computed, err
	}
	if refErr != nil {
		return refused, nil
	}
	return computed, nil
}

// runs reports whether the operands and results of a call are small enough to be computed.
func (c *call) runs(n *graph.Node) bool {
	small := len(n.Out) <= mostResults
	wide := func(m tensor.Meta) bool { // the reference computes in the widest dtype
		m.DType = tensor.Complex128
		return m.Check() == nil
	}
	for _, m := range c.in {
		small = small && m.Numel() <= mostElements && (m.DType == tensor.Invalid || wide(m))
	}
	for _, v := range n.Out {
		m := v.Meta
		small = small && (v.Dynamic || wide(m)) && (v.Dynamic || m.Numel() <= mostElements && m.Extent()*m.DType.Size() <= farBytes)
	}
	return small
}

// price calls the pricing functions of each implementation as the planner does.
func (c *call) price(n *graph.Node) error {
	if n.Out[0].Dynamic || n.IsView() {
		return nil
	}
	now.begin(c, "price")
	for i := range c.op.Impls {
		impl, call := &c.op.Impls[i], n.Call()
		for _, w := range impl.Walks(call, orders(call.Out[0].Rank())) {
			if bad := improper(impl.Work(call, w)); bad != "" {
				return fmt.Errorf("price: the work of %s is %s", impl.Name, bad)
			}
			for k, a := range n.In {
				if a.Kind == graph.TensorArg {
					impl.Read(call, w, k, a.Meta())
				}
			}
		}
	}
	return nil
}

// improper describes the first amount of a work that is negative, infinite or NaN; it is empty if there is none.
func improper(w pricing.Work) string {
	for _, n := range w.Bytes {
		if n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
			return fmt.Sprintf("%v bytes", n)
		}
	}
	if w.Flops < 0 || math.IsNaN(w.Flops) {
		return fmt.Sprintf("%v operations", w.Flops)
	}
	for _, p := range w.Parts {
		if p.Units < 0 || math.IsNaN(p.Units) {
			return fmt.Sprintf("%v of %s", p.Units, p.Kernel)
		}
	}
	return ""
}

// orders are the orders that strategies want for images, and row-major.
func orders(rank int) []tensor.Order {
	list := []tensor.Order{tensor.RowMajorOrder(rank)}
	if rank > 2 {
		last := []int{0}
		for d := 2; d < rank; d++ {
			last = append(last, d)
		}
		if o, err := tensor.NewOrder(append(last, 1)...); err == nil {
			list = append(list, o)
		}
	}
	return list
}

// reference computes the call by its definition.
func (c *call) reference(n *graph.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	full := make([]*tensor.Tensor, len(n.In))
	for i, a := range n.In {
		full[i] = nil
		if a.Kind == graph.NumberArg {
			full[i] = a.Number.Tensor(a.Number.DType())
		} else if a.Kind == graph.TensorArg {
			full[i] = in[i]
		}
	}
	out, err := c.op.Ref(n.Call(), full)
	if err == nil && len(out) != len(n.Out) {
		return nil, fmt.Errorf("the reference makes %d values, not %d", len(out), len(n.Out))
	}
	return out, err
}

// agree compares results with the reference's. Inexact ones are rounded otherwise.
func agree(got, want []*tensor.Tensor, inexact bool) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d results, the reference gives %d", len(got), len(want))
	}
	for k := range got {
		err := kerneltest.CompareTensors(got[k], want[k])
		if err == nil || alike(got[k], want[k], inexact) {
			continue
		}
		return fmt.Errorf("result %d: %w", k, err)
	}
	return nil
}

// alike allows for roundings that are relative to the greatest element: those of sums of sums, and of other formulas.
func alike(got, want *tensor.Tensor, inexact bool) bool {
	if got.DType != want.DType || !got.DType.IsFloat() && !got.DType.IsComplex() ||
		tensor.ListString(got.Shape) != tensor.ListString(want.Shape) {
		return false
	}
	most, apart := 1.0, 0.0
	kit.EachIndex(got.Shape, func(at []int) {
		x, y := got.At(at...).Complex(), want.At(at...).Complex()
		most, apart = max(most, cmplx.Abs(y)), max(apart, cmplx.Abs(x-y))
	})
	if inexact {
		return apart <= most*math.Sqrt(epsilon[got.DType])
	}
	return apart <= most*1024*epsilon[got.DType] && got.DType.Size() >= 4
}

var epsilon = map[tensor.DType]float64{tensor.Float16: 1e-3, tensor.BFloat16: 8e-3, tensor.Float32: 1.2e-7,
	tensor.Float64: 2.2e-16, tensor.Complex64: 1.2e-7, tensor.Complex128: 2.2e-16}
