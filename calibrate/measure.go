package calibrate

import (
	"context"
	"errors"
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

// measure runs the call for a while, and takes the median of all times so far: the least are those of a processor that
// had rested, which no network finds.
func (p *probe) measure(ctx context.Context, each time.Duration) error {
	r, err := p.prepare()
	if err != nil {
		return err
	}
	p.works = nil
	for _, n := range r.graph.Nodes {
		if r.watch.times(n) {
			p.works = append(p.works, n.Works()...)
		}
	}
	if err := r.run(ctx, each); err != nil {
		return err
	}
	p.took = append(p.took, r.watch.took...)
	if p.ns = median(p.took); p.ns == 0 {
		return errors.New("none of its steps is timed")
	}
	return nil
}

// median is that of a list, which it sorts; 0 of none.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// runnable is a graph with all that a run of it takes, so that nothing is allocated while it is timed.
type runnable struct {
	graph   *graph.Graph
	session *exec.Session
	in, out []*tensor.Tensor
	watch   *watch
}

// prepare makes a graph of the call, as it would be planned within a larger one: its operands were made by the step
// before, as far as a step can make them as they lie. Where rates are measured, the caches have been flooded before
// that, so that constants and code are as far as in a network; the memory of results is near.
func (p *probe) prepare() (*runnable, error) {
	b := begin(p.call.Make != nil)
	switch {
	case p.rate != "":
		b.flood("relu", floodBytes)
		for _, v := range begin(b.fuses).results(p.call) {
			b.warm(v.Meta)
		}
	case p.kept() > 0: // and computes meanwhile about as long as networks do that have as much in constants: what a
		// step finds in the shared caches is what others on the machine have left of it
		b.flood("lgamma", p.kept())
	}
	values := b.results(p.call)
	for range p.chained {
		values = b.apply(p.call, values[0])
	}
	if err := b.graph.Err(); err != nil {
		return nil, err
	}
	for i, v := range values {
		if p.rate != "" && !v.Node.Op.Identity { // somebody reads it; of a copy that could be the original
			v = b.own(b.other(v))
		}
		b.graph.Output(fmt.Sprint("y", i), v)
	}
	return b.runnable()
}

// builder makes the graph of a probe.
type builder struct {
	graph *graph.Graph
	in    []*tensor.Tensor
	watch *watch
	rng   *rand.Rand
	fuses bool // steps may be several nodes
}

func begin(fuses bool) *builder {
	return &builder{graph: graph.New("calibrate", kernels.Lookup), rng: rand.New(rand.NewPCG(1, 2)), fuses: fuses,
		watch: &watch{own: map[string]bool{}, clock: clockNS()}}
}

// input adds an input of the graph.
func (b *builder) input(m tensor.Meta, below int) *graph.Value {
	b.in = append(b.in, filled(m, b.rng, below))
	return b.graph.InputMeta(fmt.Sprint("x", len(b.in)), m)
}

// own marks the step that makes a value as none that is timed.
func (b *builder) own(values []*graph.Value) *graph.Value {
	if len(values) == 0 {
		return nil
	}
	b.watch.own[values[0].Node.Name] = true
	return values[0]
}

// other adds a step that reads a value, and makes another that lies as it does.
func (b *builder) other(v *graph.Value) []*graph.Value {
	switch d := v.Meta.DType; {
	case b.fuses: // by no loop that others could join
		return b.graph.Apply("flip", graph.Attrs{"dims": []int{0}}, v)
	case d.IsFloat() || d == tensor.Int64 || d == tensor.Int32 || d == tensor.Uint8:
		return b.graph.Apply("relu", nil, v)
	}
	return b.graph.Apply("eq", nil, v, v)
}

// What is gone over before a call whose rate is measured: several times what a core's own caches hold. Its constants
// then lie where those of a network of nearBytes do.
const (
	floodBytes = 8 << 20
	nearBytes  = 2 << 20
)

// flood adds a step that goes over so many bytes.
func (b *builder) flood(op string, bytes float64) {
	m := tensor.New(tensor.Float32, max(1, int(bytes)/8))
	b.graph.Output("flood", b.own(b.graph.Apply(op, nil, b.input(m, 1))))
}

// warm adds a step that writes as much memory as a value takes, which is then free for one.
func (b *builder) warm(m tensor.Meta) {
	v := b.own(b.graph.Apply("relu", nil, b.input(tensor.New(tensor.Float32, max(1, m.Bytes()/4)), 1)))
	last := b.own(b.graph.Apply("amax", graph.Attrs{"dim": []int{0}}, v))
	b.graph.Output(fmt.Sprint("warm", len(b.in)), last)
}

// results adds a call, with its operands.
func (b *builder) results(c graph.RateCall) []*graph.Value {
	var list []any
	for i, m := range c.In {
		if !m.DType.Valid() {
			list = append(list, (*graph.Value)(nil))
			continue
		}
		if slices.Contains(c.Constant, i) {
			list = append(list, b.graph.Constant(fmt.Sprint("c", i), filled(m, b.rng, bound(c))))
			continue
		}
		v := b.input(m, bound(c))
		if m.DType.IsFloat() || m.DType == tensor.Int64 {
			near := b.own(b.other(v))
			if _, dense := tensor.OrderOf(m); dense {
				v = near
			} else { // what lies otherwise is read, at least
				b.graph.Output(fmt.Sprint("near", i), near)
			}
		}
		list = append(list, v)
	}
	return b.apply(c, list...)
}

// apply adds a call that is timed.
func (b *builder) apply(c graph.RateCall, operands ...any) []*graph.Value {
	if c.Make != nil {
		return c.Make(b.graph, operands)
	}
	values := b.graph.Apply(c.Op, c.Attrs, operands...)
	if c.Impl != "" && len(values) > 0 {
		if err := b.graph.Pin(values[0].Node.Name, graph.Pin{Impl: c.Impl}); err != nil {
			panic("calibrate: " + err.Error())
		}
	}
	return values
}

// runnable plans and compiles the graph for one worker: with a step for each node, unless nodes may be fused.
func (b *builder) runnable() (*runnable, error) {
	list := slices.DeleteFunc(passes.Passes(), func(p passes.Pass) bool { return !b.fuses && p.Name == "group" })
	plan, err := passes.Run(b.graph, passes.Options{Passes: list})
	if err != nil {
		return nil, err
	}
	program, err := exec.Compile(plan.Graph, exec.Options{Threads: 1, Tracer: b.watch})
	if err != nil {
		return nil, err
	}
	r := &runnable{graph: plan.Graph, session: program.NewSession(), in: b.in, watch: b.watch}
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

// run runs the graph for a while.
func (r *runnable) run(ctx context.Context, each time.Duration) error {
	start := time.Now()
	for n := 0; n < leastRuns || time.Since(start) < each; n++ {
		if err := r.session.RunInto(ctx, r.in, r.out); err != nil {
			return err
		}
		if n == 0 { // that touched memory for the first time
			r.watch.took = r.watch.took[:0]
		}
	}
	return nil
}

// leastRuns is how often a probe is run at least.
const leastRuns = 4

// stepNS is what a step takes that has next to nothing to do, in nanoseconds: the mean of several, each with code of
// its own, when the caches have been flooded or when they have not.
func stepNS(ctx context.Context, each time.Duration, flooded bool) (float64, error) {
	b := begin(false)
	if flooded {
		b.flood("relu", floodBytes)
	}
	v := b.own(b.graph.Apply("relu", nil, b.input(tensor.New(tensor.Float32, 32), 1)))
	ops := []string{"neg", "abs", "square", "sqrt", "ceil", "exp", "reciprocal", "floor"}
	for _, op := range ops {
		v = b.apply(graph.RateCall{Op: op}, v)[0]
	}
	b.graph.Output("y", v)
	if err := b.graph.Err(); err != nil {
		return 0, err
	}
	r, err := b.runnable()
	if err != nil {
		return 0, err
	}
	err = r.run(ctx, each)
	return median(r.watch.took) / float64(len(ops)), err
}
