package bench

import (
	"cmp"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/pricing"
)

// observer is the tracer of a program. It forwards events to the embedded tracer, which may change between runs. If the
// embedded tracer is nil, runs are not traced and not slowed down.
type observer struct{ exec.Tracer }

// BeginRun forwards the event.
func (o *observer) BeginRun(run *exec.Run) bool { return o.Tracer != nil && o.Tracer.BeginRun(run) }

// EndRun forwards the event.
func (o *observer) EndRun(run *exec.Run, err error) {
	if o.Tracer != nil {
		o.Tracer.EndRun(run, err)
	}
}

// profile is a tracer that collects the times of steps. During a run each worker writes to its own memory. At the end
// of the run, the times of all workers are added up. A nested run is a run that a step makes, such as an iteration of a
// loop; an outer run is not nested. For example, if a step takes 10 us and makes two nested runs of 4 us each, its own
// time is 2 us, and the other 8 us count for the steps of the nested runs.
type profile struct {
	start         time.Time // start of the current run; all times are relative to it
	byGraph       map[*graph.Graph]*profiledGraph
	graphs        []*profiledGraph // the values of byGraph, in the order of their first runs
	busy          []time.Duration  // the time that each worker has spent in steps of the current run
	profiledRuns  []profiledRun
	stepTimesLeft int              // maxStepTimes minus the number of stored step times
	costProfile   *pricing.Profile // costs of this machine; nil for the built-in costs
	clockCost     time.Duration    // the time of reading the clock; EndStep subtracts it
}

// A profile is complete after maxProfiledRuns runs, or after the run in which the number of stored step times reaches
// maxStepTimes.
const (
	maxStepTimes    = 1 << 22
	maxProfiledRuns = 500
)

// profiledRun has the time of a run, including its nested runs.
type profiledRun struct {
	runTime time.Duration
	busy    []time.Duration // the time that each worker spent in steps
}

// profiledGraph has the times of the steps of a graph. The graph may run several times as a nested run.
type profiledGraph struct {
	run          *exec.Run          // the first run of the graph
	currentTimes []stepTime         // the time of each step in the current outer run, over all nested runs
	times        map[int][]stepTime // the times of steps in each run, by the run's index in profile.profiledRuns
	reusable     []*runRecord       // records of ended runs, with cleared times, for the next runs
}

// stepTime is the time of a step in a run, without the time of the runs that the step makes (nested runs).
type stepTime struct {
	busy     time.Duration // sum of the times of all workers
	wallTime time.Duration // wall time from the start of the first worker to the end of the last worker
	calls    int           // number of executions
}

// runRecord has the times of a run that has not ended.
type runRecord struct {
	graph   *profiledGraph
	start   time.Duration
	workers []workerRecord
}

// workerRecord has the times of a worker in a run that has not ended. Only worker 0 makes nested runs.
type workerRecord struct {
	stepStart time.Duration // start of the current step
	nested    time.Duration // time of nested runs in the current step
	steps     []stepRecord
	_         [64]byte // padding: workers write to different cache lines
}

// stepRecord has the times of a worker in a step. last is 0 if the worker has not computed the step.
type stepRecord struct {
	first, last  time.Duration // first start and last end
	busy, nested time.Duration // time in the step, and time of nested runs
	calls        int           // number of executions of the step that this worker completed
}

func newProfile() *profile {
	return &profile{byGraph: map[*graph.Graph]*profiledGraph{}, stepTimesLeft: maxStepTimes, start: time.Now(),
		clockCost: environment.ClockCost()}
}

// isComplete reports whether enough runs were profiled.
func (p *profile) isComplete() bool {
	isFull := len(p.profiledRuns) > 0 && p.stepTimesLeft <= 0
	return isFull || len(p.profiledRuns) >= maxProfiledRuns
}

// BeginRun allocates the record of a run before the run starts.
func (p *profile) BeginRun(run *exec.Run) bool {
	if run.Parent == nil {
		p.start, p.busy = time.Now(), make([]time.Duration, run.Workers)
	}
	for len(p.busy) < run.Workers {
		p.busy = append(p.busy, 0)
	}
	g := p.byGraph[run.Graph]
	if g == nil {
		g = &profiledGraph{run: run, currentTimes: make([]stepTime, run.Steps), times: map[int][]stepTime{}}
		p.byGraph[run.Graph] = g
		p.graphs = append(p.graphs, g)
	}
	run.Data = g.newRecord(run)
	if run.Parent == nil {
		p.start = time.Now() // set again, so that the time of the run excludes the allocations above
	}
	run.Data.(*runRecord).start = time.Since(p.start)
	return true
}

// newRecord returns an empty record for a run of the graph.
func (g *profiledGraph) newRecord(run *exec.Run) *runRecord {
	if n := len(g.reusable); n > 0 {
		record := g.reusable[n-1]
		g.reusable = g.reusable[:n-1]
		return record
	}
	record := &runRecord{graph: g, workers: make([]workerRecord, run.Workers)}
	for i := range record.workers {
		record.workers[i].steps = make([]stepRecord, run.Steps)
	}
	return record
}

// BeginStep records the start of a step on a worker.
func (p *profile) BeginStep(position exec.Position) {
	worker := &position.Run.Data.(*runRecord).workers[position.Worker]
	worker.nested = 0
	worker.stepStart = time.Since(p.start)
}

// EndStep records the time of a worker in a step. isCompleted is set for the last worker that leaves the step.
func (p *profile) EndStep(position exec.Position, isCompleted bool) {
	now := time.Since(p.start) - p.clockCost
	worker := &position.Run.Data.(*runRecord).workers[position.Worker]
	spent := &worker.steps[position.Step]
	if spent.last == 0 {
		spent.first = worker.stepStart
	}
	now = max(now, worker.stepStart+worker.nested+1) // at least 1 ns, so that spent.last is not 0
	spent.last = now
	spent.busy += now - worker.stepStart - worker.nested
	spent.nested += worker.nested
	if isCompleted {
		spent.calls++
	}
}

// BeginChunk does nothing.
func (p *profile) BeginChunk(exec.Position) {}

// EndChunk does nothing.
func (p *profile) EndChunk(exec.Position, error) {}

// EndRun adds up the times of all workers. It stores the times of an outer run, unless the run failed, and reports the
// time of a nested run to the enclosing step.
func (p *profile) EndRun(run *exec.Run, err error) {
	record, ok := run.Data.(*runRecord)
	if !ok { // BeginRun has panicked
		return
	}
	took := time.Since(p.start) - record.start
	for i := range record.graph.currentTimes {
		p.addStep(record, i)
	}
	record.graph.reusable = append(record.graph.reusable, record)
	if run.Parent != nil {
		if outer, ok := run.Parent.Data.(*runRecord); ok {
			outer.workers[0].nested += took // only worker 0 makes nested runs
		}
		return
	}
	for _, g := range p.graphs {
		if err != nil {
			clear(g.currentTimes) // drops the times of the failed run
			continue
		}
		g.times[len(p.profiledRuns)] = g.currentTimes
		g.currentTimes = make([]stepTime, len(g.currentTimes))
		p.stepTimesLeft -= len(g.currentTimes)
	}
	if err == nil {
		p.profiledRuns = append(p.profiledRuns, profiledRun{took, p.busy})
	}
}

// addStep adds the times of all workers in a step to profiledGraph.currentTimes and profile.busy, and clears these
// times in the record.
func (p *profile) addStep(record *runRecord, step int) {
	var merged stepRecord  // first start, last end and nested time of all workers
	var busy time.Duration // the sum of the workers' times
	workers := 0           // the number of workers that computed the step
	sum := &record.graph.currentTimes[step]
	for workerIndex := range record.workers {
		s := &record.workers[workerIndex].steps[step]
		if s.last == 0 {
			continue
		}
		if merged.last == 0 || s.first < merged.first {
			merged.first = s.first
		}
		workers++
		merged.last = max(merged.last, s.last)
		merged.nested += s.nested
		busy += s.busy
		sum.busy += s.busy
		sum.calls += s.calls
		p.busy[workerIndex] += s.busy
		*s = stepRecord{}
	}
	wallTime := max(0, merged.last-merged.first-merged.nested)
	if workers == 1 { // the worker may have computed other steps in between, which busy excludes
		wallTime = min(wallTime, busy)
	}
	sum.wallTime += wallTime
}

// fasterHalf returns the indices of the profiled runs that took no longer than their median. The slower runs may have
// been disturbed by other work of the machine.
func (p *profile) fasterHalf() []int {
	indices := make([]int, len(p.profiledRuns))
	for i := range indices {
		indices[i] = i
	}
	sorted.Func(indices, func(a, b int) int { return cmp.Compare(p.profiledRuns[a].runTime, p.profiledRuns[b].runTime) })
	return indices[:(len(indices)+1)/2]
}
