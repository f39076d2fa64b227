package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
)

// chromeTrace notes what each worker does in one run, for Chrome's trace viewer and Perfetto. It
// looks away from runs before it is started. Each worker writes to a track of its own; runs
// within the run are on the track of worker 0, who makes them.
type chromeTrace struct {
	start  time.Time // of the run that is looked at; zero before
	tracks []track   // by worker
}

// track is what one worker does.
type track struct {
	open  []time.Duration // when what is not over yet began
	spans []span
}

// span is a run, a step or a chunk. Those with a node are steps, if their phase is -1, or chunks.
type span struct {
	from, to     time.Duration
	graph        *graph.Graph
	node         *graph.Node
	step         int
	phase, chunk int
}

// begin has the next run looked at.
func (c *chromeTrace) begin() { c.start = time.Now() }

func (t *track) push(now time.Duration) { t.open = append(t.open, now) }

func (t *track) pop(s span, now time.Duration) {
	s.from, s.to = t.open[len(t.open)-1], now
	t.open = t.open[:len(t.open)-1]
	t.spans = append(t.spans, s)
}

// BeginRun makes the tracks of the run's workers, who are not at work yet.
func (c *chromeTrace) BeginRun(r *exec.Run) bool {
	if c.start.IsZero() {
		return false
	}
	for len(c.tracks) < r.Workers {
		c.tracks = append(c.tracks, track{})
	}
	c.tracks[0].push(time.Since(c.start))
	return true
}

// EndRun notes a run.
func (c *chromeTrace) EndRun(r *exec.Run, _ error) {
	if !c.start.IsZero() {
		c.tracks[0].pop(span{graph: r.Graph}, time.Since(c.start))
	}
}

// BeginStep notes when a worker takes up a step.
func (c *chromeTrace) BeginStep(w exec.Work) { c.tracks[w.Worker].push(time.Since(c.start)) }

// EndStep notes a worker's part in a step.
func (c *chromeTrace) EndStep(w exec.Work, _ bool) {
	c.tracks[w.Worker].pop(span{node: w.Node, step: w.Step, phase: -1}, time.Since(c.start))
}

// BeginChunk notes when a chunk begins.
func (c *chromeTrace) BeginChunk(w exec.Work) { c.tracks[w.Worker].push(time.Since(c.start)) }

// EndChunk notes a chunk.
func (c *chromeTrace) EndChunk(w exec.Work, _ error) {
	c.tracks[w.Worker].pop(span{node: w.Node, step: w.Step, phase: w.Phase, chunk: w.Chunk}, time.Since(c.start))
}

// traceEvent is an event in Chrome's trace event format. Times are microseconds.
type traceEvent struct {
	Name  string   `json:"name"`
	Cat   string   `json:"cat,omitempty"`
	Phase string   `json:"ph"` // X: complete, with a duration; M: metadata
	TS    *float64 `json:"ts,omitempty"`
	Dur   *float64 `json:"dur,omitempty"`
	PID   int      `json:"pid"`
	TID   int      `json:"tid"`
	Args  any      `json:"args"`
}

type stepArgs struct {
	Op   string `json:"op"`
	Step int    `json:"step"`
}

type chunkArgs struct {
	stepArgs
	Phase int `json:"phase"`
	Chunk int `json:"chunk"`
}

type nameArgs struct {
	Name string `json:"name"`
}

type orderArgs struct {
	Index int `json:"sort_index"`
}

func (s span) event(worker int) traceEvent {
	micro := func(d time.Duration) *float64 {
		us := float64(d.Nanoseconds()) / 1000
		return &us
	}
	e := traceEvent{Phase: "X", TS: micro(s.from), Dur: micro(s.to - s.from), PID: 1, TID: worker}
	switch {
	case s.node == nil:
		e.Name, e.Cat, e.Args = cmp.Or(s.graph.Name, "run"), "run", struct{}{}
	case s.phase < 0:
		e.Name, e.Cat, e.Args = s.node.Name, "step", stepArgs{s.node.Op.Name, s.step}
	default:
		e.Name, e.Cat = s.node.Name, "chunk"
		e.Args = chunkArgs{stepArgs{s.node.Op.Name, s.step}, s.phase, s.chunk}
	}
	return e
}

// write writes the run as a trace, an event a line.
func (c *chromeTrace) write(w io.Writer, title string) error {
	sep := "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n"
	put := func(e traceEvent) error {
		if _, err := io.WriteString(w, sep); err != nil {
			return err
		}
		sep = ",\n"
		return json.MarshalWrite(w, e, jsontext.AllowInvalidUTF8(true))
	}
	err := put(traceEvent{Name: "process_name", Phase: "M", PID: 1, Args: nameArgs{title}})
	for worker := 0; worker < len(c.tracks) && err == nil; worker++ {
		err = c.writeTrack(worker, put)
	}
	if err == nil {
		_, err = io.WriteString(w, "\n]}\n")
	}
	return err
}

func (c *chromeTrace) writeTrack(worker int, put func(traceEvent) error) error {
	name := traceEvent{Name: "thread_name", Phase: "M", PID: 1, TID: worker, Args: nameArgs{fmt.Sprint("worker ", worker)}}
	order := traceEvent{Name: "thread_sort_index", Phase: "M", PID: 1, TID: worker, Args: orderArgs{worker}}
	for _, e := range []traceEvent{name, order} {
		if err := put(e); err != nil {
			return err
		}
	}
	for _, s := range c.tracks[worker].spans {
		if err := put(s.event(worker)); err != nil {
			return err
		}
	}
	return nil
}

// traceRun looks at one more run, if a trace is wanted and nobody has interrupted.
func (r *runner) traceRun(ctx context.Context) error {
	if r.trace == nil || ctx.Err() != nil {
		return nil
	}
	r.trace.begin()
	if err := r.once(ctx, false); ctx.Err() == nil {
		return err
	}
	return nil
}

// checkTrace refuses a --trace that could not be written.
func checkTrace(path string) error {
	if path != "" && filepath.Ext(path) != ".json" {
		return wrongf("--trace %s: want a .json file", path)
	}
	return checkWritable("--trace", path)
}
