package calibrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// measure runs the call for a while, and keeps the least time.
func (p *probe) measure(ctx context.Context, each time.Duration) error {
	r, err := p.prepare()
	if err != nil {
		return err
	}
	p.works = nil
	for _, n := range r.graph.Nodes {
		p.works = append(p.works, n.Works()...)
	}
	ns, err := r.least(ctx, each)
	if p.ns == 0 || ns < p.ns {
		p.ns = ns
	}
	return err
}

// runnable is a graph with all that a run of it takes, so that nothing is allocated while it is timed.
type runnable struct {
	graph   *graph.Graph
	session *exec.Session
	in, out []*tensor.Tensor
}

// prepare makes a graph of the call, as it would be planned within a larger one.
func (p *probe) prepare() (*runnable, error) {
	g := graph.New("calibrate", kernels.Lookup)
	rng := rand.New(rand.NewPCG(1, 2))
	var operands []any
	var in []*tensor.Tensor
	for i, m := range p.call.In {
		if !m.DType.Valid() {
			operands = append(operands, (*graph.Value)(nil))
			continue
		}
		t := filled(m, rng, bound(p.call))
		name := fmt.Sprint("x", i)
		if slices.Contains(p.call.Constant, i) {
			operands = append(operands, g.Constant(name, t))
			continue
		}
		operands = append(operands, g.InputMeta(name, m))
		in = append(in, t)
	}
	values := g.Apply(p.call.Op, p.call.Attrs, operands...)
	for range p.chained {
		values = g.Apply(p.call.Op, p.call.Attrs, values[0])
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	for i, v := range values {
		g.Output(fmt.Sprint("y", i), v)
	}
	if p.call.Impl != "" {
		if err := g.Pin(values[0].Node.Name, graph.Pin{Impl: p.call.Impl}); err != nil {
			return nil, err
		}
	}
	return runnableOf(g, in, p.chained > 0)
}

// runnableOf plans and compiles a graph for one worker; apart: with a step for each node.
func runnableOf(g *graph.Graph, in []*tensor.Tensor, apart bool) (*runnable, error) {
	list := passes.Passes()
	if apart {
		list = slices.DeleteFunc(list, func(p passes.Pass) bool { return p.Name == "group" })
	}
	plan, err := passes.Run(g, passes.Options{Passes: list})
	if err != nil {
		return nil, err
	}
	program, err := exec.Compile(plan.Graph, exec.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	r := &runnable{graph: plan.Graph, session: program.NewSession(), in: in}
	for _, o := range plan.Graph.Outputs {
		r.out = append(r.out, tensor.Empty(o.Value.Meta))
	}
	return r, nil
}

// bound is what indices among the operands of a call stay below.
func bound(c graph.RateCall) int {
	most := 0
	for _, m := range c.In {
		if m.DType.IsFloat() && m.Rank() > 0 {
			most = max(most, m.Shape[0])
		}
	}
	return max(1, most)
}

// filled makes a tensor with numbers of ordinary size; integers may be indices below a bound.
func filled(m tensor.Meta, rng *rand.Rand, below int) *tensor.Tensor {
	if m.DType.IsIntegral(true) {
		whole := make([]int64, m.Numel())
		for i := range whole {
			whole[i] = rng.Int64N(int64(below))
		}
		return tensor.Must(tensor.FromSlice(whole, m.Shape...)).CopyTo(m)
	}
	numbers := make([]float32, m.Numel())
	for i := range numbers {
		numbers[i] = 0.25 + rng.Float32()
	}
	return tensor.Must(tensor.FromSlice(numbers, m.Shape...)).CopyTo(m)
}

// least is the least time of a run, in nanoseconds. Short runs are timed many together.
func (r *runnable) least(ctx context.Context, each time.Duration) (float64, error) {
	run := func(times int) (time.Duration, error) {
		start := time.Now()
		for range times {
			if err := r.session.RunInto(ctx, r.in, r.out); err != nil {
				return 0, err
			}
		}
		return time.Since(start), nil
	}
	times := 1
	if _, err := run(1); err != nil { // touches memory for the first time
		return 0, err
	}
	took, err := run(1)
	if err == nil && took < batch {
		times = int(batch/max(took, time.Nanosecond)) + 1
	}
	least, start := float64(took), time.Now()
	for n := 0; err == nil && (n < leastRuns || time.Since(start) < each); n++ {
		took, err = run(times)
		least = min(least, float64(took)/float64(times))
	}
	return least, err
}

// Runs are timed that take together at least batch, and so often at least.
const (
	batch     = 20 * time.Microsecond
	leastRuns = 3
)

// chain is the steps of the graph by which the cost of one is measured: more than the nearest caches hold, as steps
// are when others have been at work since the last run.
const chain = 20000

// stepNS is what a step takes that has next to nothing to do, in nanoseconds: each reads what the one before has
// made.
func stepNS(ctx context.Context, each time.Duration) (float64, error) {
	g := graph.New("steps", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 4)
	v := x
	for range chain {
		v = g.Apply("relu", nil, v)[0]
	}
	g.Output("y", v)
	if err := g.Err(); err != nil {
		return 0, err
	}
	r, err := runnableOf(g, []*tensor.Tensor{tensor.Zeros(tensor.Float32, 4)}, true)
	if err != nil {
		return 0, err
	}
	ns, err := r.least(ctx, each)
	return ns / chain, err
}
