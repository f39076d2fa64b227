package bench

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// ProfileDoc has the times by op, step and worker. Times are means over the faster half of the profiled runs: the runs
// that took no longer than the median profiled run.
type ProfileDoc struct {
	Profile  profiledRunsDoc `json:"profile" doc:"The profiled runs, and the speed of the machine."`
	ByOp     []timeDoc       `json:"by_op" doc:"The time by op, the greatest busy_ns first."`
	ByStep   []stepDoc       `json:"by_step" doc:"The time by step, the greatest busy_ns first."`
	ByWorker []workerDoc     `json:"by_worker" doc:"The time by worker."`
}

// profiledRunsDoc describes the profiled runs as a whole.
type profiledRunsDoc struct {
	Runs           int     `json:"runs" doc:"The number of profiled runs; they are not among the measured runs."`
	Median         float64 `json:"median_ns" doc:"The median time of the profiled runs in nanoseconds, with the cost of profiling."`
	Noise          string  `json:"noise" doc:"The noise of the profiled runs, in words; empty if there is little."`
	FasterHalfMean float64 `json:"run_ns" doc:"The mean time of the faster half of the profiled runs; the times by op, step and worker are means over these runs."`
	Idle           float64 `json:"idle_share" doc:"The share of the workers' time that is not spent in steps."`
	GBs            float64 `json:"machine_gbs" doc:"The memory bandwidth of a core in the cost profile, in GB/s."`
	GFLOPs         float64 `json:"machine_gflops" doc:"The speed of a core in the cost profile, in GFLOP/s."`
}

// timeDoc has the time of a step, or of all steps with the same ops. Times are nanoseconds in a run.
type timeDoc struct {
	Op        string   `json:"op" doc:"The op; for a step of several nodes the ops of all nodes, such as exp+neg*2 (one exp, two neg)."`
	Calls     float64  `json:"calls" doc:"The number of calls in a run."`
	Time      float64  `json:"time_ns" doc:"The time from the start of the first worker to the end of the last worker, without nested runs; if one worker computes the whole step, also without the time that it spends in other steps."`
	Busy      float64  `json:"busy_ns" doc:"The sum of the times of all workers."`
	Share     float64  `json:"share" doc:"The share of this busy_ns in the busy_ns of all steps."`
	Predicted float64  `json:"predicted_ns" doc:"The estimated time with one worker."`
	GBs       *float64 `json:"gbs" doc:"The bytes read and written, divided by time_ns, in GB/s; null if the op does not state its bytes."`
	GFLOPs    *float64 `json:"gflops" doc:"The arithmetic operations (a function such as exp counts as one) divided by time_ns, in GFLOP/s; null for a step without arithmetic."`
	bytes     float64  // bytes read and written in a run
	flops     float64  // arithmetic operations in a run
}

// stepDoc has the time of a step.
type stepDoc struct {
	Name  string   `json:"name" doc:"The name of the step."`
	Nodes []string `json:"ops" doc:"The names of the nodes that the step computes."`
	Doubt string   `json:"doubt" doc:"Why the times of the step may be wrong, in words; empty if nothing speaks against them."`
	timeDoc
	busyByRun []float64 // the sum of the times of all workers, for each run of the faster half
}

// workerDoc has the time of a worker.
type workerDoc struct {
	Worker int     `json:"worker" doc:"The number of the worker; worker 0 is the caller of the run."`
	Busy   float64 `json:"busy_ns" doc:"The time of the worker in steps, in a run."`
	Idle   float64 `json:"idle_ns" doc:"The time of a run minus busy_ns."`
}

// doc summarizes the profile. It returns nil if no run was profiled. opOf maps the name of a node to its op.
//
// Times are means over the faster half of the profiled runs. They are computed in this order: by worker, by step (from
// the times of each graph's steps), and by op (sums of the times of steps).
func (p *profile) doc(opOf map[string]string) *ProfileDoc {
	fasterHalf := p.fasterHalf() // indices of p.profiledRuns
	if len(fasterHalf) == 0 {
		return nil
	}
	workers, meanRunTime, meanBusy := p.workerDocs(fasterHalf)
	allTimes := make([]float64, len(p.profiledRuns))
	for i, profiled := range p.profiledRuns {
		allTimes[i] = float64(profiled.runTime)
	}
	spread := experiment.SpreadOf(allTimes)
	costProfile := cmp.Or(p.costProfile, pricing.SharedDefaultProfile())
	workersTime := meanRunTime * float64(len(workers)) // total time of all workers in a run, in nanoseconds
	doc := &ProfileDoc{ByWorker: workers}
	doc.Profile = profiledRunsDoc{Runs: len(p.profiledRuns), Median: *spread.Median, Noise: profileNoise(&spread),
		FasterHalfMean: meanRunTime, Idle: max(0, 1-meanBusy/max(1, workersTime)),
		GBs: costProfile.GBs(), GFLOPs: costProfile.GFLOPs()}
	doc.ByStep = p.stepDocs(fasterHalf, opOf)
	doc.ByOp = timesByOp(doc.ByStep)
	for i := range doc.ByStep {
		doc.ByStep[i].setRates(meanBusy)
		doc.ByStep[i].Doubt = doc.ByStep[i].doubt(meanRunTime)
	}
	for i := range doc.ByOp {
		doc.ByOp[i].setRates(meanBusy)
	}
	return doc
}

// workerDocs returns the times by worker, the time of a run, and the time of all workers in steps. They are means over
// the runs fasterHalf (indices of p.profiledRuns).
func (p *profile) workerDocs(fasterHalf []int) (docs []workerDoc, meanRunTime, meanBusy float64) {
	workers := 0
	for _, profiled := range p.profiledRuns {
		workers = max(workers, len(profiled.busy))
	}
	docs = make([]workerDoc, workers)
	runs := float64(len(fasterHalf))
	for _, i := range fasterHalf {
		meanRunTime += float64(p.profiledRuns[i].runTime) / runs
		for worker, busy := range p.profiledRuns[i].busy {
			docs[worker].Busy += float64(busy) / runs
			meanBusy += float64(busy) / runs
		}
	}
	for i := range docs {
		docs[i].Worker, docs[i].Idle = i, max(0, meanRunTime-docs[i].Busy)
	}
	return docs, meanRunTime, meanBusy
}

// stepDocs returns the times by step, as means over the runs fasterHalf (indices of p.profiledRuns). A graph may be
// compiled for several shapes; the times of steps with the same name and ops are added up. The predicted times are
// computed from p.costProfile. opOf maps the name of a node to its op.
func (p *profile) stepDocs(fasterHalf []int, opOf map[string]string) []stepDoc {
	var docs []stepDoc
	type key struct{ name, op string }
	indexOf := map[key]int{}
	for _, g := range p.graphs {
		costProfile := layout.ProfileFor(p.costProfile, g.run.Graph)
		sums := make([]stepTime, g.run.Steps)
		for _, runIndex := range fasterHalf {
			for i, spent := range g.times[runIndex] {
				sums[i].busy += spent.busy
				sums[i].wallTime += spent.wallTime
				sums[i].calls += spent.calls
			}
		}
		for i, step := range stepsOf(g.run) {
			if sums[i].calls == 0 || step.Node == nil {
				continue
			}
			stepKey := key{step.Name, opLabel(step, opOf)}
			index, known := indexOf[stepKey]
			if !known {
				index = len(docs)
				indexOf[stepKey] = index
				docs = append(docs, stepDoc{Name: step.Name, Nodes: program.NotNil(step.Ops), timeDoc: timeDoc{Op: stepKey.op},
					busyByRun: make([]float64, len(fasterHalf))})
			}
			for k, runIndex := range fasterHalf {
				if times := g.times[runIndex]; times != nil { // the graph may have run first in a later run
					docs[index].busyByRun[k] += float64(times[i].busy)
				}
			}
			docs[index].addStep(sums[i], step.Node.Work(), predictedNS(step.Node, costProfile), float64(len(fasterHalf)))
		}
	}
	sorted.Func(docs, func(a, b stepDoc) int { return cmp.Compare(b.Busy, a.Busy) })
	return docs
}

// predictedNS returns the estimated time of a node on one worker, in nanoseconds.
func predictedNS(n *graph.Node, costProfile *pricing.Profile) (ns float64) {
	for _, work := range n.WorkParts() {
		ns += costProfile.PriceNS(work)
	}
	return ns
}

// stepsOf returns the steps of a run. A run without a program executes a graph in segments (see [graph.Segment]). The
// steps of such a run are the dynamic segments: each is one node whose result shapes depend on data. Every other
// segment is a run of its own, with its own steps.
func stepsOf(run *exec.Run) []exec.Step {
	if run.Program != nil {
		return run.Program.Steps()
	}
	steps := make([]exec.Step, 0, run.Steps)
	for _, s := range run.Graph.Segments() {
		if s.Dynamic {
			n := s.Nodes[0]
			steps = append(steps, exec.Step{Step: report.Step{Name: n.Name, Ops: []string{n.Name}}, Node: n})
		}
	}
	return steps
}

// opLabel returns timeDoc.Op of a step. step.Ops has the names of its nodes, and opOf maps each name to an op.
func opLabel(step exec.Step, opOf map[string]string) string {
	if len(step.Ops) < 2 {
		return step.Node.Op.Name
	}
	var labels []string
	for i := 0; i < len(step.Ops); {
		op, first := opOf[step.Ops[i]], i
		if op == "" { // a pass inserted the node, so it is not in the graph as written
			return step.Node.Op.Name
		}
		for i < len(step.Ops) && opOf[step.Ops[i]] == op {
			i++
		}
		if i > first+1 {
			op = fmt.Sprintf("%s*%d", op, i-first)
		}
		labels = append(labels, op)
	}
	return strings.Join(labels, "+")
}

// opsByName maps the name of each node to its op.
func opsByName(g *graph.Graph) map[string]string {
	ops := make(map[string]string, len(g.Nodes))
	for _, n := range g.Nodes {
		ops[n.Name] = n.Op.Name
	}
	return ops
}

// addStep adds the time of a step to d. runs is a number of runs, and total is the sum of the step's times in these
// runs. work is the work of one call of the step, and predicted is the estimated time of one call in nanoseconds.
func (d *timeDoc) addStep(total stepTime, work pricing.Work, predicted, runs float64) {
	calls := float64(total.calls) / runs
	d.Calls += calls
	d.Busy += float64(total.busy) / runs
	d.Time += float64(total.wallTime) / runs
	d.Predicted += predicted * calls
	d.bytes += work.TotalBytes() * calls
	d.flops += work.Flops * calls
}

// setRates sets Share, GBs and GFLOPs. busy is the time of all workers in all steps.
func (d *timeDoc) setRates(busy float64) {
	d.Share = d.Busy / max(1, busy)
	if d.bytes > 0 && d.Time > 0 {
		rate := d.bytes / d.Time // bytes per nanosecond are GB/s
		d.GBs = &rate
	}
	if d.flops > 0 && d.Time > 0 {
		rate := d.flops / d.Time
		d.GFLOPs = &rate
	}
}

// timesByOp adds up the times of steps with the same ops.
func timesByOp(steps []stepDoc) []timeDoc {
	var totals []timeDoc
	indexOf := map[string]int{}
	for _, step := range steps {
		index, known := indexOf[step.Op]
		if !known {
			index = len(totals)
			indexOf[step.Op] = index
			totals = append(totals, timeDoc{Op: step.Op})
		}
		total := &totals[index]
		total.Calls += step.Calls
		total.Time += step.Time
		total.Busy += step.Busy
		total.Predicted += step.Predicted
		total.bytes += step.bytes
		total.flops += step.flops
	}
	sorted.Func(totals, func(a, b timeDoc) int { return cmp.Compare(b.Busy, a.Busy) })
	return totals
}

// summary returns a sentence with the op that takes the most time and the slowest step.
func (d *ProfileDoc) summary() string {
	if len(d.ByStep) == 0 {
		return "no step was run"
	}
	op := &d.ByOp[0]
	slowest := slices.MaxFunc(d.ByStep, func(a, b stepDoc) int { return cmp.Compare(a.Time, b.Time) })
	text := fmt.Sprintf("%s takes %s of the workers' time in steps; the slowest step is %s with %s, predicted %s on one "+
		"core", op.Op, format.Percent(op.Share), slowest.Name, format.Nanoseconds(slowest.Time),
		format.Nanoseconds(slowest.Predicted))
	if slowest.Doubt != "" {
		text += " (doubtful: " + slowest.Doubt + ")"
	}
	return text
}

// The limits above which [timesNoise] and [stepDoc.doubt] doubt times.
const (
	maxRelativeSpread  = 0.2  // (p90 - p10) / median
	fewestProfiledRuns = 3    // with fewer runs the spread says little
	maxStepSpread      = 2    // greatest / least time of a step
	maxOfPrediction    = 10   // measured / predicted time of a step, or the inverse
	leastDoubtedNS     = 10e3 // differences below 10 us are overheads, which the cost model leaves out
	leastDoubtedShare  = 0.01 // of the time of a run: smaller differences matter to nobody
)

// timesNoise describes the noise of the times of runs, which what names; "" for little noise.
func timesNoise(what string, s *experiment.Spread) string {
	if s.Median == nil {
		return ""
	}
	if spread := (*s.P90 - *s.P10) / max(1, *s.Median); spread > maxRelativeSpread {
		return fmt.Sprintf("the times of %s vary: the distance from p10 to p90 is %.0f%% of the median", what, 100*spread)
	}
	return ""
}

// profileNoise describes the noise of profiled runs.
func profileNoise(s *experiment.Spread) string {
	switch {
	case s.Runs == 1:
		return "a single run is profiled, whose noise is unknown"
	case s.Runs < fewestProfiledRuns:
		return fmt.Sprintf("only %d runs are profiled, whose noise is unknown", s.Runs)
	}
	return timesNoise("profiled runs", s)
}

// doubt returns [stepDoc.Doubt]. runTime is the time of a run in nanoseconds.
func (d *stepDoc) doubt(runTime float64) string {
	matters := max(leastDoubtedNS, leastDoubtedShare*runTime)
	var reasons []string
	if len(d.busyByRun) > 0 {
		least, greatest := slices.Min(d.busyByRun), slices.Max(d.busyByRun)
		if greatest > maxStepSpread*least && greatest-least > matters {
			reasons = append(reasons, fmt.Sprintf("from %s to %s in the averaged runs", format.Nanoseconds(least),
				format.Nanoseconds(greatest)))
		}
	}
	if d.Predicted > 0 && math.Abs(d.Busy-d.Predicted) > matters {
		switch ratio := d.Busy / d.Predicted; {
		case ratio > maxOfPrediction:
			reasons = append(reasons, fmt.Sprintf("%.0f times the prediction", ratio))
		case ratio < 1./maxOfPrediction:
			reasons = append(reasons, fmt.Sprintf("%.2g of the prediction", ratio))
		}
	}
	return strings.Join(reasons, "; ")
}

// disturbances describes what disturbed the measurement, or makes its times doubtful; "" for nothing. load is the mean
// number of runnable threads of other processes, or nil.
func (d *Document) disturbances(load *float64) string {
	list := []string{timesNoise(methodRunInto.String(), &d.Into.Spread), environment.LoadWarning(load)}
	if d.ProfileDoc != nil {
		list = append(list, d.Profile.Noise)
		var doubtful []string
		for i := range d.ByStep {
			if s := &d.ByStep[i]; s.Doubt != "" {
				doubtful = append(doubtful, fmt.Sprintf("%s (%s)", s.Name, s.Doubt))
			}
		}
		const shown = 3
		if n := len(doubtful); n > 0 {
			text := "the time of " + format.Count(n, "step") + " is doubtful: " + strings.Join(doubtful[:min(n, shown)], ", ")
			if n > shown {
				text += " and others"
			}
			list = append(list, text)
		}
	}
	return strings.Join(slices.DeleteFunc(list, func(text string) bool { return text == "" }), "; ")
}

// maxSteps is the maximum number of steps in text output.
const maxSteps = 40

// write prints the profile. median is the median time of the runs without profiling.
func (d *ProfileDoc) write(w *bufio.Writer, display term.Display, median float64) {
	runs := &d.Profile
	fmt.Fprintf(w,
		"\n%s median %s (%+.1f%% relative to the measured runs); a core of the machine: %.4g GB/s, %.4g GFLOP/s\n",
		"profile of "+format.Count(runs.Runs, "run")+", made between the measured runs:",
		format.Nanoseconds(runs.Median), 100*(runs.Median/median-1), runs.GBs, runs.GFLOPs)
	timeColumns := []term.Column{term.UntruncatedCol("calls"), term.UntruncatedCol("time"),
		term.UntruncatedCol("predicted").OmitIfNarrow(), term.UntruncatedCol("busy%"),
		term.UntruncatedCol("workers").OmitIfNarrow(), // the column with index workersCell
		term.UntruncatedCol("GB/s"), term.UntruncatedCol("GFLOP/s"), term.UntruncatedCol("of a core's peak")}
	const nodesWidth = 20 // the minimum width of the column of nodes
	nodesColumn := term.PhraseCol("nodes", nodesWidth).OmitIfNarrow()
	opColumns := append([]term.Column{term.NameCol("op")}, timeColumns...)
	term.WriteList(w, display, "By op", d.ByOp, opColumns, func(t timeDoc) []any {
		return append([]any{t.Op}, t.cells(runs)...)
	})
	stepColumns := append([]term.Column{term.NameCol("step"), term.NameCol("op"), nodesColumn}, timeColumns...)
	shownSteps := d.ByStep[:min(len(d.ByStep), maxSteps)]
	isDoubted := d.isDoubted()
	if isDoubted {
		stepColumns = append(stepColumns, term.ProseCol(doubtHead))
	}
	term.WriteList(w, display, "By step", shownSteps, stepColumns, func(s stepDoc) []any {
		nodes := "-"
		if len(s.Nodes) > 1 {
			nodes = strings.Join(s.Nodes, " ")
		}
		cells := append([]any{s.Name, s.Op, nodes}, s.cells(runs)...)
		if isDoubted {
			cells = append(cells, s.Doubt)
		}
		return cells
	})
	if more := len(d.ByStep) - maxSteps; more > 0 {
		fmt.Fprintf(w, "and %s with a smaller share; --json lists them\n", format.Count(more, "step"))
	}
	workerColumns := []term.Column{term.UntruncatedCol("worker"), term.UntruncatedCol("at steps"),
		term.UntruncatedCol("idle"), term.UntruncatedCol("idle share")}
	term.WriteList(w, display, "Workers", d.ByWorker, workerColumns, func(worker workerDoc) []any {
		idle := format.Percent(worker.Idle / max(1, runs.FasterHalfMean))
		return []any{worker.Worker, format.Nanoseconds(worker.Busy), format.Nanoseconds(worker.Idle), idle}
	})
}

// doubtHead is the head of the column of [stepDoc.Doubt], which tables have if a time is doubtful.
const doubtHead = "doubtful"

// isDoubted reports whether the time of a step is doubtful.
func (d *ProfileDoc) isDoubted() bool {
	return slices.ContainsFunc(d.ByStep, func(s stepDoc) bool { return s.Doubt != "" })
}

// workersCell is the index of the number of workers among the cells of a row. The HTML report omits this cell.
const workersCell = 4

// cells returns the cells of a row, one for each of the timeColumns in [ProfileDoc.write]. The last cell is the greater
// of two shares: the share of a core's memory bandwidth, and the share of a core's peak arithmetic speed.
func (d *timeDoc) cells(runs *profiledRunsDoc) []any {
	rateText := func(rate *float64) string {
		if rate == nil {
			return "-"
		}
		return fmt.Sprintf("%.3g", *rate)
	}
	peakShare := 0.0
	if d.GBs != nil {
		peakShare = *d.GBs / runs.GBs
	}
	if d.GFLOPs != nil {
		peakShare = max(peakShare, *d.GFLOPs/runs.GFLOPs)
	}
	ofCore := "-"
	if peakShare > 0 {
		ofCore = format.Percent(peakShare)
	}
	workers := fmt.Sprintf("%.1f", d.Busy/max(1, d.Time)) // the mean number of workers during the step
	return []any{fmt.Sprintf("%.6g", d.Calls), format.Nanoseconds(d.Time), format.Nanoseconds(d.Predicted),
		format.Percent(d.Share), workers, rateText(d.GBs), rateText(d.GFLOPs), ofCore}
}
