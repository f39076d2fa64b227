package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
)

// chromeTrace records one run for Perfetto and the trace viewer of Chrome. It is an [exec.Tracer] during the run;
// [chromeTrace.write] then writes the file. Each worker has its own track of nested spans, for example
//
//	worker 0:  |------------------- run -------------------|
//	             |---- step 0 -----|   |---- step 1 ----|
//	               |chunk 0|chunk 2|     |   chunk 0  |
//	worker 1:    |---- step 0 ----|
//	               |   chunk 1   |
//
// Nested runs are on the track of worker 0, because worker 0 makes them. A counter shows the memory in use.
type chromeTrace struct {
	start  time.Time // start of the run
	tracks []track   // the track of each worker
}

// track has the spans of a worker.
type track struct {
	openStarts []time.Duration // starts of the spans that have not ended
	spans      []span          // the spans that have ended, in the order of their ends
}

// span is the time of a run, a step, or a chunk (a part of a step that one worker computes). Times are relative to
// chromeTrace.start.
type span struct {
	from, to     time.Duration
	run          *exec.Run
	node         *graph.Node // nil for a run
	step         int         // index of the step
	phase, chunk int         // for a chunk: its phase in the step, and its index in the phase; phase is noPhase for a step
}

// noPhase is span.phase of a step.
const noPhase = -1

// push begins a span.
func (t *track) push(now time.Duration) { t.openStarts = append(t.openStarts, now) }

// pop ends the last span that has begun, and records it as s.
func (t *track) pop(s span, now time.Duration) {
	s.from, s.to = t.openStarts[len(t.openStarts)-1], now
	t.openStarts = t.openStarts[:len(t.openStarts)-1]
	t.spans = append(t.spans, s)
}

// traceRun makes a traced run if --trace or --report is given and the context has not ended.
func (r *runner) traceRun(ctx context.Context) error {
	if r.trace == nil || ctx.Err() != nil {
		return nil
	}
	return r.runTraced(ctx, methodRun, r.trace)
}

// checkTrace returns an error if the file of --trace cannot be written.
func checkTrace(path string) error {
	return outfile.CheckWritable("--trace", path, ".json")
}

// BeginRun creates the tracks of the workers. It returns true, so that steps and chunks are reported.
func (c *chromeTrace) BeginRun(run *exec.Run) bool {
	if run.Parent == nil {
		c.start, c.tracks = time.Now(), nil
	}
	for len(c.tracks) < run.Workers {
		c.tracks = append(c.tracks, track{})
	}
	c.tracks[0].push(time.Since(c.start))
	return true
}

// EndRun records a run.
func (c *chromeTrace) EndRun(run *exec.Run, _ error) {
	c.tracks[0].pop(span{run: run}, time.Since(c.start))
}

// BeginStep records the start of a step on a worker.
func (c *chromeTrace) BeginStep(position exec.Position) {
	c.tracks[position.Worker].push(time.Since(c.start))
}

// EndStep records a worker's part of a step, whether or not the worker finished the step.
func (c *chromeTrace) EndStep(position exec.Position, _ bool) {
	c.endSpan(position, noPhase, 0)
}

// BeginChunk records the start of a chunk.
func (c *chromeTrace) BeginChunk(position exec.Position) {
	c.tracks[position.Worker].push(time.Since(c.start))
}

// EndChunk records a chunk.
func (c *chromeTrace) EndChunk(position exec.Position, _ error) {
	c.endSpan(position, position.Phase, position.Chunk)
}

// endSpan records the span of a worker that ends now.
func (c *chromeTrace) endSpan(p exec.Position, phase, chunk int) {
	c.tracks[p.Worker].pop(span{run: p.Run, node: p.Node, step: p.Step, phase: phase, chunk: chunk}, time.Since(c.start))
}

// write writes the trace, each event on its own line. opOf maps the name of a node to its op.
func (c *chromeTrace) write(w io.Writer, title string, opOf map[string]string) error {
	separator := traceHead // the text before the next event
	writeEvent := func(e traceEvent) error {
		if _, err := io.WriteString(w, separator); err != nil {
			return err
		}
		separator = ",\n"
		return json.MarshalWrite(w, e, jsontext.AllowInvalidUTF8(true))
	}
	descriptions := &stepDescriptions{opOf, map[*graph.Graph][]*stepArgs{}}
	err := writeEvent(traceEvent{Name: "process_name", Type: "M", PID: tracePID, TID: firstTID, Args: nameArgs{title}})
	for worker := 0; worker < len(c.tracks) && err == nil; worker++ {
		err = c.writeTrack(worker, descriptions, writeEvent)
	}
	for _, m := range c.memoryInUse() {
		if err != nil {
			break
		}
		err = writeEvent(traceEvent{Name: "memory", Type: "C", TS: microseconds(m.time), PID: tracePID, TID: firstTID,
			Args: m.memory})
	}
	if err == nil {
		_, err = io.WriteString(w, traceTail)
	}
	return err
}

// Constants of the trace file. The thread ID of a worker is its number plus firstTID. With thread IDs from 0, two
// workers would share a track, because Perfetto merges thread 0 with the thread whose ID is the process ID.
const (
	tracePID = 1
	firstTID = 1
	// traceHead has no key displayTimeUnit, because Perfetto before 2023 interprets displayTimeUnit as the unit of the
	// times.
	traceHead = "{\"traceEvents\": [\n"
	// traceTail has no final newline. Perfetto reads the file in blocks, and rejects a block that begins with the newline
	// after the last brace.
	traceTail = "\n]}"
)

// writeTrack writes the name of a worker's track and its spans.
func (c *chromeTrace) writeTrack(worker int, descriptions *stepDescriptions, writeEvent func(traceEvent) error) error {
	name := traceEvent{Name: "thread_name", Type: "M", PID: tracePID, TID: firstTID + worker,
		Args: nameArgs{fmt.Sprint("worker ", worker)}}
	sortIndex := name
	sortIndex.Name, sortIndex.Args = "thread_sort_index", sortIndexArgs{worker}
	for _, e := range []traceEvent{name, sortIndex} {
		if err := writeEvent(e); err != nil {
			return err
		}
	}
	// A span must precede the spans inside it, even if both begin and end at the same times. Spans were recorded in the
	// order of their ends, the enclosing span last. They are therefore reversed, and then sorted by a stable sort.
	spans := slices.Clone(c.tracks[worker].spans)
	slices.Reverse(spans)
	sorted.Func(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to))
	})
	for _, s := range spans {
		if err := writeEvent(s.event(worker, descriptions)); err != nil {
			return err
		}
	}
	return nil
}

// traceEvent is an event in Chrome's trace event format. Times are microseconds.
type traceEvent struct {
	Name string   `json:"name"`
	Cat  string   `json:"cat,omitempty"`
	Type string   `json:"ph"` // X: complete, with a duration; C: a counter; M: metadata
	TS   *float64 `json:"ts,omitempty"`
	Dur  *float64 `json:"dur,omitempty"`
	PID  int      `json:"pid"`
	TID  int      `json:"tid"`
	Args any      `json:"args"`
}

// stepArgs has the arguments of a step's event. The events of its chunks have the same arguments.
type stepArgs struct {
	Op    string   `json:"op"`
	Step  int      `json:"step"`
	Nodes []string `json:"nodes,omitzero"` // the nodes of a step with several nodes
	Impl  string   `json:"impl,omitzero"`
	DType string   `json:"dtype,omitzero"` // dtype of the first result
	Shape []int    `json:"shape,omitzero"` // shape of the first result
	Bytes int      `json:"bytes,omitzero"` // bytes that all chunks of the step read and write
}

type chunkArgs struct {
	*stepArgs
	Phase int `json:"phase"`
	Chunk int `json:"chunk"`
}

type runArgs struct {
	Steps   int `json:"steps"`
	Workers int `json:"workers"`
}

type memoryArgs struct {
	Arena   int `json:"arena"`
	Outputs int `json:"outputs"`
}

type nameArgs struct {
	Name string `json:"name"`
}

type sortIndexArgs struct {
	Index int `json:"sort_index"`
}

// stepDescriptions is a cache of the arguments of steps.
type stepDescriptions struct {
	opOf  map[string]string            // the op of each node, by the name of the node
	steps map[*graph.Graph][]*stepArgs // the arguments of the steps of each graph
}

// args returns the arguments of the step of a span.
func (d *stepDescriptions) args(s span) *stepArgs {
	stepsArgs := d.steps[s.run.Graph]
	if stepsArgs == nil {
		stepsArgs = make([]*stepArgs, s.run.Steps)
		for i, step := range stepsOf(s.run) {
			stepsArgs[i] = d.describe(step, i)
		}
		d.steps[s.run.Graph] = stepsArgs
	}
	return stepsArgs[s.step]
}

// describe returns the arguments that Perfetto shows for step i.
func (d *stepDescriptions) describe(s exec.Step, i int) *stepArgs {
	args := &stepArgs{Op: opLabel(s, d.opOf), Step: i}
	if len(s.Ops) > 1 { // Ops has the names of the nodes that the step computes
		args.Nodes = s.Ops
	}
	if s.Node.Impl != nil {
		args.Impl = s.Node.Impl.Name
	}
	if len(s.Node.Out) > 0 && !s.Node.Out[0].Dynamic {
		args.DType, args.Shape = s.Node.Out[0].Meta.DType.String(), program.NotNil(s.Node.Out[0].Meta.Shape)
	}
	for _, b := range s.Node.Work().Bytes {
		args.Bytes += int(b)
	}
	return args
}

// microseconds returns a time in microseconds, rounded up. Perfetto multiplies this number by 1000 and truncates the
// product; because of the rounding, it then gets the exact number of nanoseconds. With an error of one nanosecond, a
// span could end after its enclosing span, and Perfetto would drop it.
func microseconds(d time.Duration) *float64 {
	us := float64(d.Nanoseconds()) / 1000
	for int64(us*1000) < d.Nanoseconds() {
		us = math.Nextafter(us, math.Inf(1))
	}
	return &us
}

// event returns the event of a span.
func (s span) event(worker int, descriptions *stepDescriptions) traceEvent {
	e := traceEvent{Type: "X", TS: microseconds(s.from), Dur: microseconds(s.to - s.from),
		PID: tracePID, TID: firstTID + worker}
	switch {
	case s.node == nil:
		e.Name, e.Cat, e.Args = cmp.Or(s.run.Graph.Name, "run"), "run", runArgs{s.run.Steps, s.run.Workers}
	case s.phase == noPhase:
		e.Name, e.Cat, e.Args = s.node.Name, "step", descriptions.args(s)
	default:
		e.Name, e.Cat, e.Args = s.node.Name, "chunk", chunkArgs{descriptions.args(s), s.phase, s.chunk}
	}
	return e
}

// memoryAt is the memory in use at a time, or a change of it (negative for a release).
type memoryAt struct {
	time   time.Duration
	memory memoryArgs
}

// memoryInUse returns the memory of arenas and outputs over time. A value occupies memory from the first to the last
// step that accesses the value. An output occupies memory until the end of its run.
func (c *chromeTrace) memoryInUse() []memoryAt {
	steps, runs := map[*exec.Run][]span{}, []span{}
	for _, t := range c.tracks {
		for _, s := range t.spans {
			switch {
			case s.run.Program == nil: // the lifetimes of values are unknown
			case s.node == nil:
				runs = append(runs, s)
			case s.phase == noPhase:
				steps[s.run] = append(steps[s.run], s)
			default: // a chunk, which is inside its step
			}
		}
	}
	var changes []memoryAt
	for _, r := range runs {
		changes = append(changes, memoryChanges(r, steps[r.run])...)
	}
	// Releases precede allocations at the same time.
	sorted.Func(changes, func(a, b memoryAt) int {
		return cmp.Or(cmp.Compare(a.time, b.time),
			cmp.Compare(a.memory.Arena+a.memory.Outputs, b.memory.Arena+b.memory.Outputs))
	})
	var timeline []memoryAt // the memory in use from each time on
	var inUse memoryArgs
	for i, m := range changes {
		inUse.Arena, inUse.Outputs = inUse.Arena+m.memory.Arena, inUse.Outputs+m.memory.Outputs
		if i+1 == len(changes) || changes[i+1].time > m.time {
			timeline = append(timeline, memoryAt{m.time, inUse})
		}
	}
	return timeline
}

// memoryChanges returns the allocations and releases of a run as changes of the memory in use. run is the span of the
// run, and steps are the spans of its steps.
func memoryChanges(run span, steps []span) []memoryAt {
	// The first start and the last end of each step that was run.
	starts, ends := make([]time.Duration, run.run.Steps), make([]time.Duration, run.run.Steps)
	wasRun := make([]bool, run.run.Steps)
	for _, s := range steps {
		if !wasRun[s.step] || s.from < starts[s.step] {
			starts[s.step] = s.from
		}
		wasRun[s.step] = true
		ends[s.step] = max(ends[s.step], s.to)
	}
	var changes []memoryAt
	for _, lifetime := range run.run.Program.Lifetimes() {
		first, last := time.Duration(-1), run.from
		for _, i := range lifetime.Steps {
			if wasRun[i] && (first < 0 || starts[i] < first) {
				first = starts[i]
			}
			last = max(last, ends[i])
		}
		if first < 0 { // no step that accesses the value was run
			continue
		}
		allocation, release := memoryArgs{Arena: lifetime.Bytes}, memoryArgs{Arena: -lifetime.Bytes}
		if lifetime.Output {
			allocation, release, last = memoryArgs{Outputs: lifetime.Bytes}, memoryArgs{Outputs: -lifetime.Bytes}, run.to
		}
		changes = append(changes, memoryAt{first, allocation}, memoryAt{last, release})
	}
	return changes
}
