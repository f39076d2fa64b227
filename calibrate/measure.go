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

// This file measures probes. A probe is a measured call of an op. It measures either an inner kernel (the innermost
// loop of an op, such as the multiply-add loop of a matrix product), or a kind of memory access. A builder makes a
// graph with the call, and with steps that put the caches into the state that they have in a network. The compiled
// graph is a runnable. Its stopWatch sums the times of the timed steps of each run.

// measure runs the call repeatedly for the given time, and appends the lower quartile of the times to roundNS. Other
// processes can only lengthen a time. The minimum would be the time at the highest clock frequency, and networks run at
// lower frequencies.
func (p *probe) measure(ctx context.Context, minTime time.Duration) error {
	prepared, err := p.prepare()
	if err != nil {
		return err
	}
	p.stepWorks = nil
	for _, n := range prepared.graph.Nodes {
		if prepared.watch.isTimed(n) {
			p.stepWorks = append(p.stepWorks, n.WorkParts()...)
		}
	}
	if err := prepared.runRepeatedly(ctx, minTime); err != nil {
		return err
	}
	ns := quartile(prepared.watch.runTimes)
	if ns == 0 {
		return errors.New("no step was timed")
	}
	p.roundNS = append(p.roundNS, ns)
	return nil
}

// quartile sorts the list and returns its lower quartile, or 0 if it is empty.
func quartile(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted.Floats(list)
	return list[len(list)/4]
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

// prepare creates a graph in which the call runs under the conditions of a network. Steps before the call write or read
// its operands. For a probe of an inner kernel, an earlier step evicts the data in the caches. Constants and code are
// then as cold as in a network. Further steps then bring the memory of the results back into the caches.
func (p *probe) prepare() (*runnable, error) {
	mayFuse := p.call.Make != nil // Make adds several nodes, which share a loop if possible
	build := newBuilder(mayFuse)
	switch {
	case p.innerKernel != "": // a probe of an inner kernel
		build.evictCaches("relu", evictionBytes)
		results := newBuilder(mayFuse).addCall(p.call) // in a separate graph, which gives the metas of the results
		for _, result := range results {
			build.addWarmup(result.Meta)
		}
	case p.bytesBetweenCalls() > 0:
		// The op lgamma is slow: with this many bytes, it takes about as long as a run of a network that has
		// constants of this size. Other processes therefore have as much time to evict data from shared caches.
		build.evictCaches("lgamma", p.bytesBetweenCalls())
	}
	values := build.addCall(p.call)
	for range p.chainedCalls {
		values = build.addCallOn(p.call, values[0])
	}
	if err := build.graph.Err(); err != nil {
		return nil, err
	}
	for i, value := range values {
		// A further step reads the result of an inner kernel, as in a network. The result of a copy (Op.Identity) has
		// no reader: passes would remove the copy, because the reader can read the original.
		if p.innerKernel != "" && !value.Node.Op.Identity {
			value = build.excludeFromTiming(build.addReader(value))
		}
		build.graph.Output(fmt.Sprint("y", i), value)
	}
	return build.compile()
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

// noIntegers is passed as the limit of integers for a tensor of floats, which has no integers.
const noIntegers = 1

// input adds an input of the graph with random elements. Integers are in [0, limit).
func (b *builder) input(meta tensor.Meta, limit int) *graph.Value {
	b.in = append(b.in, randomTensor(meta, b.rng, limit))
	return b.graph.InputMeta(fmt.Sprint("x", len(b.in)), meta)
}

// excludeFromTiming marks the step that computes the values as not timed, and returns the first value.
func (b *builder) excludeFromTiming(values []*graph.Value) *graph.Value {
	if len(values) == 0 {
		return nil
	}
	b.watch.untimed[values[0].Node.Name] = true
	return values[0]
}

// addReader adds a step that reads a value, and writes a value with the same layout.
func (b *builder) addReader(v *graph.Value) []*graph.Value {
	switch dtype := v.Meta.DType; {
	case b.mayFuse: // use flip, which is never fused with the timed call
		return b.graph.Apply("flip", graph.Attrs{"dims": []int{0}}, v)
	case dtype.IsFloat() || dtype == tensor.Int64 || dtype == tensor.Int32 || dtype == tensor.Uint8:
		return b.graph.Apply("relu", nil, v)
	}
	return b.graph.Apply("eq", nil, v, v)
}

// evictionBytes is the number of bytes that a step accesses before a call that measures an inner kernel. It is several
// times the size of a core's private caches.
const evictionBytes = 8 << 20

// evictCaches adds a step that accesses the given number of bytes.
func (b *builder) evictCaches(op string, bytes float64) {
	operand := tensor.New(tensor.Float32, max(1, int(bytes)/8)) // the op reads and writes 4 bytes per element
	b.graph.Output("evicting", b.excludeFromTiming(b.graph.Apply(op, nil, b.input(operand, noIntegers))))
}

// addWarmup adds steps that write and read a value of the size of meta, which brings its memory into the caches. A
// later value of this size then gets the same memory.
func (b *builder) addWarmup(meta tensor.Meta) {
	sameBytes := tensor.New(tensor.Float32, max(1, meta.Bytes()/4))
	written := b.excludeFromTiming(b.graph.Apply("relu", nil, b.input(sameBytes, noIntegers)))
	last := b.excludeFromTiming(b.graph.Apply("amax", graph.Attrs{"dim": []int{0}}, written))
	b.graph.Output(fmt.Sprint("warm", len(b.in)), last)
}

// addCall adds the operands of a call, and then the call. It returns the results of the call.
func (b *builder) addCall(call graph.RateCall) []*graph.Value {
	var list []any
	for i, meta := range call.In {
		if !meta.DType.Valid() {
			list = append(list, (*graph.Value)(nil))
			continue
		}
		if slices.Contains(call.Constant, i) {
			list = append(list, b.graph.Constant(fmt.Sprint("c", i), randomTensor(meta, b.rng, indexBound(call))))
			continue
		}
		value := b.input(meta, indexBound(call))
		if meta.DType.IsFloat() || meta.DType == tensor.Int64 {
			copied := b.excludeFromTiming(b.addReader(value))
			if _, dense := tensor.OrderOf(meta); dense {
				value = copied
			} else { // no step can write this layout: the call reads the input, which addReader has cached
				b.graph.Output(fmt.Sprint("cached", i), copied)
			}
		}
		list = append(list, value)
	}
	return b.addCallOn(call, list...)
}

// addCallOn adds a call of the given operands.
func (b *builder) addCallOn(call graph.RateCall, operands ...any) []*graph.Value {
	if call.Make != nil {
		return call.Make(b.graph, operands)
	}
	values := b.graph.Apply(call.Op, call.Attrs, operands...)
	if call.Impl != "" && len(values) > 0 {
		if err := b.graph.Pin(values[0].Node.Name, graph.Pin{Impl: call.Impl}); err != nil {
			panic("calibrate: " + err.Error())
		}
	}
	return values
}

// compile plans and compiles the graph for one worker. Unless mayFuse is set, each node is a step.
func (b *builder) compile() (*runnable, error) {
	list := slices.DeleteFunc(passes.Passes(), func(p passes.Pass) bool { return !b.mayFuse && p.Name == "group" })
	plan, err := passes.Run(b.graph, passes.Options{Passes: list})
	if err != nil {
		return nil, err
	}
	program, err := exec.Compile(plan.Graph, exec.Options{Threads: 1, Tracer: b.watch})
	if err != nil {
		return nil, err
	}
	result := &runnable{graph: plan.Graph, session: program.NewSession(), in: b.in, watch: b.watch}
	for _, output := range plan.Graph.Outputs {
		result.out = append(result.out, tensor.Empty(output.Value.Meta))
	}
	return result, nil
}

// indexBound returns an upper bound for the elements of integer operands, which may be indices of rows.
func indexBound(c graph.RateCall) int {
	largest := 0
	for _, meta := range c.In {
		if meta.DType.IsFloat() && meta.Rank() > 0 {
			largest = max(largest, meta.Shape[0])
		}
	}
	return max(1, largest)
}

// randomTensor returns a tensor of random numbers of moderate size. Integers are in [0, limit).
func randomTensor(meta tensor.Meta, rng *rand.Rand, limit int) *tensor.Tensor {
	if meta.DType.IsIntegral(true) { // bool, too
		whole := make([]int64, meta.Numel())
		for i := range whole {
			whole[i] = rng.Int64N(int64(limit))
		}
		return tensor.Must(tensor.FromSlice(whole, meta.Shape...)).CopyTo(meta)
	}
	numbers := make([]float32, meta.Numel())
	drawn := min(len(numbers), maxDrawnFloats)
	for i := range drawn {
		numbers[i] = 0.25 + float32(rng.Float32())
	}
	for drawn < len(numbers) {
		drawn += copy(numbers[drawn:], numbers[:drawn])
	}
	return tensor.Must(tensor.FromSlice(numbers, meta.Shape...)).CopyTo(meta)
}

// maxDrawnFloats is the maximum number of floats of a tensor that are drawn; further elements repeat them, since
// copying is faster. Integers are all drawn: repeated indices would access the same elements, which are then in caches.
const maxDrawnFloats = 1 << 16

// runRepeatedly runs the graph repeatedly for the given time.
func (r *runnable) runRepeatedly(ctx context.Context, minTime time.Duration) error {
	start := time.Now()
	for runs := 0; runs < minRuns || time.Since(start) < minTime; runs++ {
		if err := r.session.RunInto(ctx, r.in, r.out); err != nil {
			return err
		}
		if runs == 0 { // the first run includes page faults, so its time is discarded
			r.watch.runTimes = r.watch.runTimes[:0]
		}
	}
	return nil
}

// minRuns is the minimum number of runs of a probe in a round. The first is discarded.
const minRuns = 2

// stepNS returns the time of a step with almost no work, in nanoseconds, with cold or warm caches. It is the mean over
// several steps with different code.
func stepNS(ctx context.Context, minTime time.Duration, coldCaches bool) (float64, error) {
	const mayFuse = false
	build := newBuilder(mayFuse)
	if coldCaches {
		build.evictCaches("relu", evictionBytes)
	}
	first := build.input(tensor.New(tensor.Float32, 32), noIntegers)
	value := build.excludeFromTiming(build.graph.Apply("relu", nil, first))
	ops := []string{"neg", "abs", "square", "sqrt", "ceil", "exp", "reciprocal", "floor"}
	for _, op := range ops {
		value = build.addCallOn(graph.RateCall{Op: op}, value)[0]
	}
	build.graph.Output("y", value)
	if err := build.graph.Err(); err != nil {
		return 0, err
	}
	prepared, err := build.compile()
	if err != nil {
		return 0, err
	}
	err = prepared.runRepeatedly(ctx, minTime)
	return quartile(prepared.watch.runTimes) / float64(len(ops)), err
}
