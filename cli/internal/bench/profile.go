package bench

import (
	"cmp"
	"slices"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
)

// observer is a program's tracer: it hands what runs do to the one who looks, if any, and else lets runs go
// untold, which then cost what they do without a tracer. Who looks changes between runs only.
type observer struct{ exec.Tracer }

// BeginRun tells of a run, if somebody looks.
func (o *observer) BeginRun(r *exec.Run) bool { return o.Tracer != nil && o.Tracer.BeginRun(r) }

// EndRun tells that a run is over, if somebody looks.
func (o *observer) EndRun(r *exec.Run, err error) {
	if o.Tracer != nil {
		o.Tracer.EndRun(r, err)
	}
}

// profile sums up where the time of runs goes. Every worker notes what it does in memory of its own, which is
// summed up when a run ends.
type profile struct {
	start   time.Time
	tables  map[*graph.Graph]*profiledGraph
	order   []*profiledGraph
	busy    []time.Duration // of the run that is looked at, by worker
	samples []profiledRun
	room    int // times of steps that may still be kept
	prices  *machine.Profile
	clock   time.Duration // what it takes to look at the clock, which is in every step's time once
}

// profileRoom bounds the times that a profile keeps, of steps in runs; profiledRuns bounds the runs.
const (
	profileRoom  = 1 << 22
	profiledRuns = 500
)

// profiledRun is a run that was looked at, with all runs within it.
type profiledRun struct {
	took time.Duration
	busy []time.Duration // what each worker was at steps
}

// profiledGraph is what is known of the steps of a graph, which may run several times within a run.
type profiledGraph struct {
	run   *exec.Run // the first
	sum   []stepTime
	times map[int][]stepTime // by sample
	free  []*runNotes
}

// stepTime is the time of a step in a run: of all workers together, and from when the first took it up until the last
// left it. Runs within the step are not in it.
type stepTime struct {
	busy, span time.Duration
	calls      int
}

// runNotes are what is noted of a run while it goes on.
type runNotes struct {
	graph   *profiledGraph
	began   time.Duration
	workers []workerNotes
}

// workerNotes are a worker's. Only worker 0 makes runs within a step.
type workerNotes struct {
	began, within time.Duration // of the step that it is at: since when, and what runs within took
	steps         []stepNotes
	_             [64]byte // workers write side by side
}

type stepNotes struct {
	first, last, busy, within time.Duration
	calls                     int
}

func newProfile() *profile {
	return &profile{tables: map[*graph.Graph]*profiledGraph{}, room: profileRoom, start: time.Now(), clock: ClockCost()}
}

// ClockCost measures the time that a call of the clock takes.
func ClockCost() time.Duration {
	start, cost := time.Now(), time.Microsecond
	last := time.Since(start)
	for range 1000 {
		now := time.Since(start)
		cost, last = min(cost, now-last), now
	}
	return cost
}

// full reports whether enough runs were looked at.
func (p *profile) full() bool {
	return len(p.samples) > 0 && p.room <= 0 || len(p.samples) >= profiledRuns
}

// BeginRun makes room for what the run's steps take.
func (p *profile) BeginRun(r *exec.Run) bool {
	if r.Parent == nil {
		p.start, p.busy = time.Now(), make([]time.Duration, r.Workers)
	}
	for len(p.busy) < r.Workers {
		p.busy = append(p.busy, 0)
	}
	t := p.tables[r.Graph]
	if t == nil {
		t = &profiledGraph{run: r, sum: make([]stepTime, r.Steps), times: map[int][]stepTime{}}
		p.tables[r.Graph] = t
		p.order = append(p.order, t)
	}
	r.Data = t.notes(r)
	if r.Parent == nil {
		p.start = time.Now()
	}
	r.Data.(*runNotes).began = time.Since(p.start)
	return true
}

// notes are empty ones for a run.
func (t *profiledGraph) notes(r *exec.Run) *runNotes {
	if n := len(t.free); n > 0 {
		notes := t.free[n-1]
		t.free = t.free[:n-1]
		return notes
	}
	notes := &runNotes{graph: t, workers: make([]workerNotes, r.Workers)}
	for i := range notes.workers {
		notes.workers[i].steps = make([]stepNotes, r.Steps)
	}
	return notes
}

// BeginStep notes when a worker takes up a step.
func (p *profile) BeginStep(w exec.Work) {
	at := &w.Run.Data.(*runNotes).workers[w.Worker]
	at.within = 0
	at.began = time.Since(p.start)
}

// EndStep notes what a worker spent at a step.
func (p *profile) EndStep(w exec.Work, done bool) {
	now := time.Since(p.start) - p.clock
	at := &w.Run.Data.(*runNotes).workers[w.Worker]
	s := &at.steps[w.Step]
	if s.last == 0 {
		s.first = at.began
	}
	now = max(now, at.began+at.within+1)
	s.last = now
	s.busy += now - at.began - at.within
	s.within += at.within
	if done {
		s.calls++
	}
}

// BeginChunk does nothing: steps are what is told.
func (p *profile) BeginChunk(exec.Work) {}

// EndChunk does nothing.
func (p *profile) EndChunk(exec.Work, error) {}

// EndRun adds what a run took to that of the run that it is within. Of one that fails nothing is kept.
func (p *profile) EndRun(r *exec.Run, err error) {
	notes, ok := r.Data.(*runNotes)
	if !ok {
		return
	}
	took := time.Since(p.start) - notes.began
	t := notes.graph
	for i := range t.sum {
		p.add(notes, i)
	}
	t.free = append(t.free, notes)
	if r.Parent != nil {
		if outer, ok := r.Parent.Data.(*runNotes); ok {
			outer.workers[0].within += took
		}
		return
	}
	for _, t := range p.order {
		if err == nil {
			t.times[len(p.samples)] = t.sum
			t.sum = make([]stepTime, len(t.sum))
			p.room -= len(t.sum)
		}
		clear(t.sum)
	}
	if err == nil {
		p.samples = append(p.samples, profiledRun{took, p.busy})
	}
}

// add adds what the workers noted of a step, and clears it.
func (p *profile) add(notes *runNotes, step int) {
	var all stepNotes
	var busy time.Duration
	lone := false
	sum := &notes.graph.sum[step]
	for w := range notes.workers {
		s := &notes.workers[w].steps[step]
		if s.last == 0 {
			continue
		}
		if all.last == 0 || s.first < all.first {
			all.first = s.first
		}
		lone = all.last == 0
		all.last = max(all.last, s.last)
		all.within += s.within
		busy += s.busy
		sum.busy += s.busy
		sum.calls += s.calls
		p.busy[w] += s.busy
		*s = stepNotes{}
	}
	if span := max(0, all.last-all.first-all.within); lone {
		sum.span += min(span, busy) // between its turns the worker was at other steps
	} else {
		sum.span += span
	}
}

// calm are the samples that took no longer than the median: what disturbs a machine only makes runs longer.
func (p *profile) calm() []int {
	all := make([]int, len(p.samples))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(p.samples[a].took, p.samples[b].took) })
	return all[:(len(all)+1)/2]
}
