package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

type benchFlags struct {
	src             sources
	strategy        string
	json            bool
	span            time.Duration
	profile         bool
	trace           string
	noFusion, exact bool

	runs, threads int
	dims, pins    []string
	hints         []map[string]int
	costs         string
	prices        *machine.Profile // that costs names
}

// check looks at the flags alone.
func (f *benchFlags) check(cmd *cobra.Command) error {
	if f.runs < 1 {
		return wrongf("--runs %d: want at least 1", f.runs)
	}
	if err := checkThreads(f.threads); err != nil {
		return err
	}
	if err := checkStrategy(f.strategy); err != nil {
		return err
	}
	if err := f.src.check(cmd); err != nil {
		return err
	}
	return checkTrace(f.trace)
}

// workers is the number of workers that the flags ask for.
func (f *benchFlags) workers() int {
	if f.threads == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return f.threads
}

const benchText = `Compiles a graph once and runs it many times, on inputs from --inputs and --input, else made
from --seed, as run does. Prints the median and the spread of the time of a run; loading,
planning and compiling are not part of it. Some runs before the measured ones warm caches and
buffers up; the segments of a graph whose shapes depend on data are planned in these.

Three calls are measured, some runs of each in alternation: "Run", whose results take new memory and
are dropped; "Run, Release", which gives the memory of results back; and "RunInto", which writes
existing tensors. In JSON the times of Run are at the top, those of the others under "released"
and "into". The time of a run includes its set-up and the delivery of results; --profile shows
the time of the steps alone.

--for measures for some time instead of a number of runs of each, one at least.

--profile tells where the time goes, by op, step and worker, beside what a core of the machine can
do. It profiles an extra RunInto after every four measured ones, later after every 64; extra
runs are not in the measured times. Bytes and operations are those that the implementation of an op has,
each operand read once.

--trace makes one more run after the measured ones, and writes what every worker did in it, steps
and chunks, and the memory in use, in Chrome's trace event format: ui.perfetto.dev shows it.

Ctrl-C ends the measurement: what was measured is printed ("interrupted" is true in JSON), no
trace is written, and the exit code is 130.`

func benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench FILE",
		Short: "Measure the time of a run",
		Long:  benchText,
		Example: `  graphrun bench examples/models/attention.json
  graphrun bench model.json --threads 2 --trace trace.json
  graphrun bench model.json --for 3s --profile
  graphrun bench model.json --runs 100 --threads 1 --json
  graphrun bench model.onnx --inputs in.npz --strategy channels_last`,
		Args:              oneFile,
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			switch changed := cmd.Flags().Changed; {
			case changed("for") && changed("runs"):
				return wrongf("--runs and --for both say how long to measure: want one of them")
			case changed("for") && f.span <= 0:
				return wrongf("--for %v: want more than 0", f.span)
			}
			return bench(cmd, args[0], f)
		}),
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().DurationVar(&f.span, "for", 0, "measure for some `TIME`, such as 3s, after warm-up")
	cmd.Flags().BoolVar(&f.profile, "profile", false, "tell where the time goes: by op, by step and by worker")
	cmd.Flags().StringVar(&f.trace, "trace", "",
		"write what every worker did in one run to `OUT.json`, for Perfetto")
	_ = cmd.MarkFlagFilename("trace", "json")
	f.src.add(cmd)
	pinFlag(cmd, &f.pins)
	cmd.Flags().IntVar(&f.runs, "runs", 20, "measure `N` runs, after warm-up")
	threadsFlag(cmd, &f.threads)
	fusionFlag(cmd, &f.noFusion)
	exactFlag(cmd, &f.exact)
	costsFlag(cmd, &f.costs)
	strategyFlag(cmd, &f.strategy)
	hintFlag(cmd, &f.dims)
	return cmd
}

func bench(cmd *cobra.Command, path string, f benchFlags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	var err error
	if f.prices, err = pricesOf(cmd, f.costs); err != nil {
		return err
	}
	if f.dims, f.hints, err = splitHints(f.dims); err != nil {
		return err
	}
	j := begin(cmd, filepath.Base(path))
	defer j.end()
	var t timed
	if err := j.do(loading, func() (err error) {
		t, err = loadTimed(j.ctx, path, f.dims, f.pins, f.hints, f.src)
		return err
	}); err != nil {
		return err
	}
	var r *runner
	if err := j.do(planning, func() (err error) { r, err = benchRunner(&t, f, j); return err }); err != nil {
		return err
	}
	err = r.measure(j.ctx, until{f.runs, f.span}, j.report)
	if err == nil {
		err = r.traceRun(j.ctx)
	}
	j.end()
	tell(cmd, path, t.g)
	noteRefused(cmd, path, r.program)
	t.in.say(cmd)
	if err != nil {
		return t.in.blame(err)
	}
	cut := stopped(j.ctx)
	if err := r.show(cmd, t.g, f, cut != nil); err != nil {
		return err
	}
	if cut != nil || r.trace == nil {
		return cut
	}
	return writeWhole(cmd.Context(), f.trace, func(w io.Writer) error {
		return r.trace.write(w, filepath.Base(path), opsByName(t.g))
	})
}

// benchReport is what bench prints.
type benchReport struct {
	Strategy    string `json:"strategy" doc:"The strategy that was applied."`
	Threads     int    `json:"threads" doc:"The workers of a run."`
	Interrupted bool   `json:"interrupted" doc:"Whether the measurement was ended before its time."`
	experiment.Spread
	Piecewise bool `json:"piecewise" doc:"Whether it runs in segments, as shapes depend on data."`
	*report.Costs
	*profileDoc
	Samples  []float64  `json:"samples_ns" doc:"The time of each run, in nanoseconds."`
	Call     string     `json:"call" doc:"The call that was measured: Run, whose results take new memory and are dropped."`
	Released callReport `json:"released" doc:"The same for Run with a release of its results after each run."`
	Into     callReport `json:"into" doc:"The same for RunInto, which writes existing tensors."`
	report.Notes
}

// callReport has the times of one way to call a program.
type callReport struct {
	experiment.Spread
	Samples []float64 `json:"samples_ns" doc:"The time of each run, in nanoseconds."`
}

func callReportOf(times []float64) callReport {
	return callReport{experiment.SpreadOf(times), filled(times)}
}

// show prints what was measured.
func (r *runner) show(cmd *cobra.Command, g *graph.Graph, f benchFlags, cut bool) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	doc := &benchReport{Strategy: f.strategy, Threads: f.workers(), Interrupted: cut,
		Spread: experiment.SpreadOf(r.times[byRun]), Samples: filled(r.times[byRun]), Call: byRun.String(),
		Released: callReportOf(r.times[byRelease]), Into: callReportOf(r.times[byRunInto]), Notes: report.NotesOf(g)}
	if report := r.program.Report(); report.Segments == nil {
		costs := report.Costs()
		doc.Costs = &costs
	} else {
		doc.Piecewise = true
	}
	if r.profile != nil {
		doc.profileDoc = r.profile.doc(opsByName(g))
	}
	if f.json {
		writeDocument(out, doc)
		return out.Flush()
	}
	if doc.Runs > 0 {
		doc.writeTimes(out, shown(cmd))
		if doc.profileDoc != nil && doc.Into.Median != nil {
			doc.profileDoc.write(out, shown(cmd), *doc.Into.Median)
		}
	}
	switch {
	case cut && f.span > 0:
		fmt.Fprintf(out, "interrupted after %s\n", count(doc.Runs, "run"))
	case cut:
		fmt.Fprintf(out, "interrupted after %d of %s\n", doc.Runs, count(f.runs, "run"))
	}
	return out.Flush()
}

// writeTimes prints a row for each way to call the program that was measured.
func (d *benchReport) writeTimes(w io.Writer, to display) {
	t := newTable(nameCol("strategy"), nameCol("call"), wholeCol("runs"), wholeCol("threads"), wholeCol("median"),
		wholeCol("min"), wholeCol("p10"), wholeCol("p90"), wholeCol("max"), wholeCol("peak memory"))
	peak := "?"
	if d.Costs != nil {
		peak = byteSize(d.PeakBytes)
	}
	for how, s := range [ways]experiment.Spread{d.Spread, d.Released.Spread, d.Into.Spread} {
		if s.Runs > 0 {
			t.add(d.Strategy, way(how).String(), s.Runs, d.Threads, nanoseconds(*s.Median), nanoseconds(*s.Min),
				nanoseconds(*s.P10), nanoseconds(*s.P90), nanoseconds(*s.Max), peak)
		}
	}
	t.write(w, to)
}

// timed is a graph to be measured, and values for its inputs.
type timed struct {
	g  *graph.Graph
	in *inputs
}

func loadTimed(ctx context.Context, path string, dims, pins []string, hints []map[string]int,
	src sources) (t timed, err error) {
	collectEarly()
	g, given, err := loadFor(ctx, src, path, dims)
	if err != nil {
		return t, err
	}
	if err := bindHint(path, g, hints); err != nil {
		return t, err
	}
	if err := inferStrictly(ctx, g); err != nil {
		return t, err
	}
	if err := applyPins(ctx, g, pins); err != nil {
		return t, err
	}
	in, err := src.values(g, given)
	return timed{g, in}, err
}

// benchRunner prepares a graph. Of one whose shapes depend on data, segments are planned when they are first run.
func benchRunner(t *timed, f benchFlags, j *job) (*runner, error) {
	r := &runner{strategy: f.strategy, in: t.in.values}
	// The inputs are in memory before the graph is compiled.
	o := graphrun.Options{Strategy: strategyOf(f.strategy), Threads: f.threads, InputsHeld: true, NoFusion: f.noFusion,
		Exact: f.exact, Costs: f.prices, Hints: f.hints, Progress: j.enterUntilRun}
	if f.trace != "" {
		r.trace = &chromeTrace{}
	}
	if f.profile {
		r.profile = newProfile()
		r.profile.prices = f.prices
	}
	if f.profile || f.trace != "" {
		o.Tracer = &r.observed
	}
	var err error
	if r.program, err = compile(j.ctx, t.g, o); err == nil {
		t.letGo()
	}
	return r, err
}

// letGo keeps of the graph, once it is compiled, what is asked of it later: all but the data of constants. Weights that
// the program has packed would be in memory twice for as long as it runs.
func (t *timed) letGo() {
	bytes := 0
	for _, v := range t.g.Constants {
		if s := v.Const.Storage(); s != nil {
			bytes += s.Len()
		}
	}
	if bytes < worthReturning {
		return
	}
	t.g = t.g.Clone()
	for _, v := range t.g.Constants {
		v.Const = &tensor.Tensor{Meta: v.Const.Meta}
	}
	for i, v := range t.in.madeUp { // a value leads to its graph
		at := slices.IndexFunc(t.g.Inputs, func(w *graph.Value) bool { return w.Name == v.Name })
		t.in.madeUp[i] = t.g.Inputs[at]
	}
	debug.FreeOSMemory()
}

// worthReturning is from how many bytes on memory goes back to the system at once: runs allocate next to nothing, so
// that the runtime would keep it.
const worthReturning = 16 << 20
