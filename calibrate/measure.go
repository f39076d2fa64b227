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
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// measure runs the call repeatedly for the given time, and sets ns to the median of all times so far. It uses the
// median, because the minimum is the time at the highest clock frequency, at which networks do not run.
func (p *probe) measure(ctx context.Context, callTime time.Duration) error {
	r, err := p.prepare()
	if err != nil {
		return err
	}
	p.works = nil
	for _, n := range r.graph.Nodes {
		if r.watch.isTimed(n) {
			p.works = append(p.works, n.WorkParts()...)
		}
	}
	if err := r.runRepeatedly(ctx, callTime); err != nil {
		return err
	}
	p.runTimes = append(p.runTimes, r.watch.runTimes...)
	if p.ns = median(p.runTimes); p.ns == 0 {
		return errors.New("no step was timed")
	}
	return nil
}

// median sorts the list and returns its median, or 0 if it is empty.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted.Floats(list)
	return list[len(list)/2]
}

// runnable is a compiled graph with its operands and results, so that a timed run allocates nothing.
type runnable struct {
	graph   *graph.Graph
	session *exec.Session
	in, out []*tensor.Tensor
	watch   *stopWatch
}

// prepare creates a graph in which the call runs under the conditions of a network. Steps before the call write its
// operands, if a step can write their layout. For a probe of an inner kernel, an earlier step evicts the data in the
// caches. Constants and code are then as cold as in a network. Further steps then bring the memory of the results back
// into the caches.
func (p *probe) prepare() (*runnable, error) {
	b := newBuilder(p.call.Make != nil)
	switch {
	case p.rate != "":
		b.evictCaches("relu", evictionBytes)
		for _, v := range newBuilder(b.mayFuse).addCall(p.call) { // a separate graph gives the metas of the results
			b.addWarmup(v.Meta)
		}
	case p.interveningBytes() > 0:
		// This step takes about as long as a network with these constants. Other processes then have as much time to
		// evict data from shared caches as during a run of the network.
		b.evictCaches("lgamma", p.interveningBytes())
	}
	values := b.addCall(p.call)
	for range p.chainedCalls {
		values = b.addTimedCall(p.call, values[0])
	}
	if err := b.graph.Err(); err != nil {
		return nil, err
	}
	for i, v := range values {
		if p.rate != "" && !v.Node.Op.Identity { // passes would remove a copy that no node reads
			v = b.excludeFromTiming(b.addReader(v))
		}
		b.graph.Output(fmt.Sprint("y", i), v)
	}
	return b.runnable()
}

// builder builds the graph of a probe.
type builder struct {
	graph   *graph.Graph
	in      []*tensor.Tensor
	watch   *stopWatch
	rng     *rand.Rand
	mayFuse bool // nodes may be fused
}

// newBuilder returns a builder of an empty graph.
func newBuilder(mayFuse bool) *builder {
	return &builder{graph: graph.New("calibrate", kernels.Lookup), rng: rand.New(rand.NewPCG(1, 2)), mayFuse: mayFuse,
		watch: &stopWatch{untimed: map[string]bool{}, clockCostNS: clockCost()}}
}

// input adds an input of the graph with random elements. Integers are in [0, limit).
func (b *builder) input(m tensor.Meta, limit int) *graph.Value {
	b.in = append(b.in, randomTensor(m, b.rng, limit))
	return b.graph.InputMeta(fmt.Sprint("x", len(b.in)), m)
}

// excludeFromTiming excludes the step that computes the values from the timing, and returns the first value.
func (b *builder) excludeFromTiming(values []*graph.Value) *graph.Value {
	if len(values) == 0 {
		return nil
	}
	b.watch.untimed[values[0].Node.Name] = true
	return values[0]
}

// addReader adds a step that reads a value, and writes a value with the same layout.
func (b *builder) addReader(v *graph.Value) []*graph.Value {
	switch d := v.Meta.DType; {
	case b.mayFuse: // use flip, which is never fused with the timed call
		return b.graph.Apply("flip", graph.Attrs{"dims": []int{0}}, v)
	case d.IsFloat() || d == tensor.Int64 || d == tensor.Int32 || d == tensor.Uint8:
		return b.graph.Apply("relu", nil, v)
	}
	return b.graph.Apply("eq", nil, v, v)
}

const (
	// evictionBytes is the number of bytes that a step accesses before a call that measures an inner kernel. It is several
	// times the size of a core's private caches.
	evictionBytes = 8 << 20
	// networkBytes is the size of the constants of a typical network. It determines the cache level from which a call
	// reads its constants.
	networkBytes = 2 << 20
)

// evictCaches adds a step that accesses the given number of bytes.
func (b *builder) evictCaches(op string, bytes float64) {
	m := tensor.New(tensor.Float32, max(1, int(bytes)/8))
	b.graph.Output("evicting", b.excludeFromTiming(b.graph.Apply(op, nil, b.input(m, 1))))
}

// addWarmup adds steps that write and read a value of the layout m. A later value of the same size then gets the
// memory of this value, which is in the caches.
func (b *builder) addWarmup(m tensor.Meta) {
	written := b.excludeFromTiming(b.graph.Apply("relu", nil, b.input(tensor.New(tensor.Float32, max(1, m.Bytes()/4)), 1)))
	last := b.excludeFromTiming(b.graph.Apply("amax", graph.Attrs{"dim": []int{0}}, written))
	b.graph.Output(fmt.Sprint("warm", len(b.in)), last)
}

// addCall adds the operands of a call, and then the call. It returns the results of the call.
func (b *builder) addCall(call graph.RateCall) []*graph.Value {
	var list []any
	for i, m := range call.In {
		if !m.DType.Valid() {
			list = append(list, (*graph.Value)(nil))
			continue
		}
		if slices.Contains(call.Constant, i) {
			list = append(list, b.graph.Constant(fmt.Sprint("c", i), randomTensor(m, b.rng, indexBound(call))))
			continue
		}
		v := b.input(m, indexBound(call))
		if m.DType.IsFloat() || m.DType == tensor.Int64 {
			copied := b.excludeFromTiming(b.addReader(v))
			if _, dense := tensor.OrderOf(m); dense {
				v = copied
			} else { // no step can write this layout, so a step reads the operand, which brings the operand into the caches
				b.graph.Output(fmt.Sprint("cached", i), copied)
			}
		}
		list = append(list, v)
	}
	return b.addTimedCall(call, list...)
}

// addTimedCall adds a call that is timed.
func (b *builder) addTimedCall(c graph.RateCall, operands ...any) []*graph.Value {
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

// runnable plans and compiles the graph for one worker. Unless mayFuse is set, each node is a step.
func (b *builder) runnable() (*runnable, error) {
	list := slices.DeleteFunc(passes.Passes(), func(p passes.Pass) bool { return !b.mayFuse && p.Name == "group" })
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

// indexBound returns an upper bound for the elements of integer operands, which may be indices of rows.
func indexBound(c graph.RateCall) int {
	largest := 0
	for _, m := range c.In {
		if m.DType.IsFloat() && m.Rank() > 0 {
			largest = max(largest, m.Shape[0])
		}
	}
	return max(1, largest)
}

// randomTensor returns a tensor of random numbers of moderate size. Integers are in [0, limit).
func randomTensor(m tensor.Meta, rng *rand.Rand, limit int) *tensor.Tensor {
	if m.DType.IsIntegral(true) {
		whole := make([]int64, m.Numel())
		for i := range whole {
			whole[i] = rng.Int64N(int64(limit))
		}
		return tensor.Must(tensor.FromSlice(whole, m.Shape...)).CopyTo(m)
	}
	numbers := make([]float32, m.Numel())
	for i := range numbers {
		numbers[i] = 0.25 + float32(rng.Float32())
	}
	return tensor.Must(tensor.FromSlice(numbers, m.Shape...)).CopyTo(m)
}

// runRepeatedly runs the graph repeatedly for the given time.
func (r *runnable) runRepeatedly(ctx context.Context, callTime time.Duration) error {
	start := time.Now()
	for n := 0; n < minRuns || time.Since(start) < callTime; n++ {
		if err := r.session.RunInto(ctx, r.in, r.out); err != nil {
			return err
		}
		if n == 0 { // the first run includes page faults, so its time is discarded
			r.watch.runTimes = r.watch.runTimes[:0]
		}
	}
	return nil
}

// minRuns is the minimum number of runs of a probe.
const minRuns = 4

// stepNS returns the time of a step with almost no work, in nanoseconds, with cold or warm caches. It is the mean over
// several steps with different code.
func stepNS(ctx context.Context, callTime time.Duration, coldCaches bool) (float64, error) {
	b := newBuilder(false)
	if coldCaches {
		b.evictCaches("relu", evictionBytes)
	}
	v := b.excludeFromTiming(b.graph.Apply("relu", nil, b.input(tensor.New(tensor.Float32, 32), 1)))
	ops := []string{"neg", "abs", "square", "sqrt", "ceil", "exp", "reciprocal", "floor"}
	for _, op := range ops {
		v = b.addTimedCall(graph.RateCall{Op: op}, v)[0]
	}
	b.graph.Output("y", v)
	if err := b.graph.Err(); err != nil {
		return 0, err
	}
	r, err := b.runnable()
	if err != nil {
		return 0, err
	}
	err = r.runRepeatedly(ctx, callTime)
	return median(r.watch.runTimes) / float64(len(ops)), err
}
