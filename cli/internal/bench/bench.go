// Package bench implements "graphrun bench". It measures the run time of a graph.
//
// measure.go runs the program until a stop condition holds. With --profile, an observer records the times of steps and
// workers of each run (profile.go), and document.go compares the medians with the predicted times. trace.go writes
// Chrome's trace format, and report.go an HTML page with charts.
package bench

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/inputs"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// flags are the options of the command.
type flags struct {
	ext     *command.Extensions
	sources inputs.Sources

	// The measurement and its output.
	runs          int
	measureTime   time.Duration // the value of --for; 0 means that the number of runs limits the measurement
	json, profile bool
	trace, report string // paths of the files to write; empty for none

	// The compilation of the graph.
	strategy        string
	slack           command.Slack // the value of --slack
	caches          command.Caches
	threads         int
	noFusion, exact bool
	device          string
	dims, pins      []string
	hints           []map[string]int
	cache           command.Cache
	tuned           string         // path of the file of --tuned; empty for none
	tunedResult     *pricing.Tuned // of the file
	costs           string
	costProfile     *pricing.Profile // the costs in the file of --costs, or the stored costs of this machine
}

// check validates the flags.
func (f *flags) check(cmd *cobra.Command) error {
	if f.runs < 1 {
		return exit.UsageErrorf("--runs %d: want at least 1", f.runs)
	}
	if err := command.CheckThreads(f.threads); err != nil {
		return err
	}
	if err := f.ext.CheckStrategy(f.strategy); err != nil {
		return err
	}
	if err := cmp.Or(f.slack.Check(cmd, f.strategy), f.caches.Check()); err != nil {
		return err
	}
	var err error
	if f.tunedResult, err = command.Tuned(f.tuned); err != nil {
		return err
	}
	if err := f.cache.Check(cmd); err != nil {
		return err
	}
	if err := f.sources.Check(cmd); err != nil {
		return err
	}
	if err := outfile.CheckWritable("--report", f.report, ".html"); err != nil {
		return err
	}
	return checkTrace(f.trace)
}

// workers returns the number of workers of a run.
func (f *flags) workers() int {
	if f.threads == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return f.threads
}

const help = `Compiles a graph once and runs it many times, on inputs from --inputs and --input, or on inputs
generated from --seed, as graphrun run does. Prints the median and the spread of the time of a run; loading,
planning and compiling are not included. Warm-up runs come first, which are not measured: they fill caches
and buffers, and plan the segments of a graph whose shapes depend on data.

Three ways to call a program are measured in alternation: "Run", whose results take new memory and
are dropped; "Run, Release", which releases the memory of the results after each run; and "RunInto",
which writes existing tensors. In JSON the times of Run are at the top level, and the other two ways are
under "released" and "into". The time of a run includes its set-up and the delivery of results;
--profile shows the time of the steps alone.

--for limits the time of the measurement instead of the number of runs; each way runs at least once.
graphrun compare FILE --strategies S --until 1% measures until the confidence interval of the median
extends at most 1% to either side.

--profile shows the time by op, step and worker, and rates relative to the speed of a core. "time" is from
the start of the first worker to the end of the last worker. "busy%" is the time of all workers in the step
or op, as a share of their time in all steps; the rows are sorted by it. After every four measured runs of RunInto,
later after every 64, one extra run is profiled; the measured times do not include the extra runs. Bytes and
operations are estimates for the implementation, as if each operand were read once.

Times that vary, other busy processes and too few profiled runs are told as a "disturbed measurement". A step whose
time varies by more than a factor of 2, or is more than ten times or less than a tenth of the predicted time, is
marked as doubtful, unless the difference is below 10 us or a hundredth of a run.

--trace makes one more run after the measured ones, and writes the steps and chunks of every worker
and the memory in use in Chrome's trace event format, for ui.perfetto.dev.

--report writes an HTML page with the profile: predicted against measured times of steps, a roofline,
memory over time, and the properties of the machine, the model and the program.

Ctrl-C ends the measurement: the measurements so far are printed ("interrupted" is true in JSON), no
trace is written, and the exit code is 130.`

// Command returns the command bench.
func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "bench FILE",
		Short: "Measure the time of a run",
		Long:  help,
		Example: `  graphrun bench examples/models/attention.json
  graphrun bench model.json --threads 2 --trace trace.json
  graphrun bench model.json --for 3s --profile
  graphrun bench model.json --runs 100 --threads 1 --json
  graphrun bench model.onnx --inputs in.npz --strategy channels_last`,
		Args:              command.OneFile,
		ValidArgsFunction: command.CompleteGraph,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			switch changed := cmd.Flags().Changed; {
			case changed("for") && changed("runs"):
				return exit.UsageErrorf("--runs and --for exclude each other")
			case changed("for") && f.measureTime <= 0:
				return exit.UsageErrorf("--for %v: want more than 0", f.measureTime)
			}
			return run(cmd, args[0], f)
		}),
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().DurationVar(&f.measureTime, "for", 0, "measure for some `TIME`, such as 3s, after warm-up")
	cmd.Flags().BoolVar(&f.profile, "profile", false, "show the time by op, step and worker")
	cmd.Flags().StringVar(&f.trace, "trace", "", "write a trace of one run to `OUT.json`, for Perfetto")
	_ = cmd.MarkFlagFilename("trace", "json")
	cmd.Flags().StringVar(&f.report, "report", "", "also write the measurements and a profile to `OUT.html`")
	_ = cmd.MarkFlagFilename("report", "html")
	f.sources.AddFlags(cmd)
	command.PinFlag(cmd, &f.pins)
	cmd.Flags().IntVar(&f.runs, "runs", 20, "measure `N` runs, after warm-up")
	command.ThreadsFlag(cmd, &f.threads)
	f.cache.AddFlags(cmd)
	command.TunedFlag(cmd, &f.tuned)
	command.FusionFlag(cmd, &f.noFusion)
	command.ExactFlag(cmd, &f.exact)
	command.DeviceFlag(cmd, &f.device)
	command.CostsFlag(cmd, &f.costs)
	f.ext.StrategyFlag(cmd, &f.strategy)
	f.slack.AddFlag(cmd)
	f.caches.AddFlag(cmd)
	command.HintFlag(cmd, &f.dims)
	return cmd
}

// run loads and compiles the graph at path, measures its runs, prints the times, and writes the report and the trace.
// An interrupted measurement prints the times so far.
func run(cmd *cobra.Command, path string, f flags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	var err error
	if f.costProfile, err = command.CostProfile(cmd, f.costs); err != nil {
		return err
	}
	if f.dims, f.hints, err = command.SplitHints(f.dims); err != nil {
		return err
	}
	f.sources.Cache = f.cache.Option()
	job := progress.Begin(cmd, filepath.Base(path))
	defer job.End()
	var workload inputs.Workload
	err = job.Do(progress.Loading, func() (err error) {
		workload, err = inputs.LoadWorkload(job.Context, f.ext, path, f.dims, f.pins, f.hints, f.sources)
		return err
	})
	if err != nil {
		return err
	}
	var benchmark *runner
	err = job.Do(progress.Planning, func() (err error) { benchmark, err = compileRunner(&workload, f, job); return err })
	if err != nil {
		return err
	}
	err = benchmark.measure(job.Context, stopCondition{f.runs, f.measureTime}, job.Report)
	if err == nil {
		err = benchmark.traceRun(job.Context)
	}
	job.End()
	command.PrintNotes(cmd, path, workload.Graph)
	command.NoteUnplanned(cmd, path, benchmark.program)
	workload.Inputs.Print(cmd)
	if err != nil {
		return workload.Inputs.HintAtGeneratedValues(err)
	}
	return benchmark.writeResults(cmd, path, workload.Graph, f, exit.InterruptError(job.Context))
}

// compileRunner compiles a graph and returns its runner. Segments with data-dependent shapes are planned in the first
// run.
func compileRunner(workload *inputs.Workload, f flags, job *progress.Job) (*runner, error) {
	created := &runner{strategy: f.strategy, in: workload.Inputs.Values}
	// The inputs are in memory before the graph is compiled.
	options := graphrun.Options{Strategy: f.ext.Strategy(f.strategy), Threads: f.threads, InputsInMemory: true,
		NoFusion: f.noFusion, Exact: f.exact, Device: f.device, Costs: f.costProfile, Hints: f.hints,
		Slack: f.slack.Option(), Progress: job.EnterPhaseBeforeRun, Cache: f.cache.Option(),
		Tuned: f.tunedResult, Caches: f.caches.Option()}
	if f.trace != "" || f.report != "" {
		created.trace = &chromeTrace{}
	}
	if f.profile || f.report != "" {
		created.profile = newProfile()
		created.profile.costProfile = f.costProfile
	}
	if created.profile != nil || created.trace != nil {
		options.Tracer = &created.observer
	}
	var err error
	if created.program, err = f.ext.Compile(job.Context, workload.Graph, options); err != nil {
		return created, err
	}
	workload.DropConstants()
	created.in, err = created.program.CachesOf(created.in)
	return created, err
}

// writeResults prints the times, and writes the report and the trace. interruptErr is the error of an interrupted
// measurement, or nil.
func (r *runner) writeResults(cmd *cobra.Command, path string, g *graph.Graph, f flags, interruptErr error) error {
	doc, err := r.doc(g, f, interruptErr != nil)
	if err != nil {
		return err
	}
	if err := r.printMeasurements(cmd, doc, f); err != nil {
		return err
	}
	if f.report != "" && doc.Into.Runs > 0 { // after an interruption, too: hence the context without cancellation
		err := outfile.Write(context.WithoutCancel(cmd.Context()), f.report, func(w io.Writer) error {
			return r.writeReport(w, doc, command.CommandLine(cmd, []string{path}), path)
		})
		if err != nil {
			return err
		}
	}
	if interruptErr != nil || f.trace == "" {
		return interruptErr
	}
	return outfile.Write(cmd.Context(), f.trace, func(w io.Writer) error {
		return r.trace.write(w, filepath.Base(path), opsByName(g))
	})
}

// Document is the output of bench.
type Document struct {
	Strategy    string `json:"strategy" doc:"The strategy of the plan."`
	Threads     int    `json:"threads" doc:"The number of workers of a run."`
	Interrupted bool   `json:"interrupted" doc:"Whether the measurement was interrupted."`

	Dims map[string]int `json:"dims" doc:"The sizes of the symbols of the graph."`
	// Spread has the times of Run. Costs is nil if Piecewise is set, and ProfileDoc is nil if no run was profiled.
	experiment.Spread
	Piecewise bool `json:"piecewise" doc:"Whether the graph runs in segments, because shapes depend on data."`
	*report.Costs
	*ProfileDoc
	Samples     []float64  `json:"samples_ns" doc:"The time of each run, in nanoseconds."`
	Call        string     `json:"call" doc:"The measured call: Run, whose results take new memory and are dropped."`
	RunReleased CallReport `json:"released" doc:"The times of Run with a release of its results after each run."`
	Into        CallReport `json:"into" doc:"The times of RunInto, which writes existing tensors."`
	Noise       string     `json:"noise" doc:"What disturbed the measurement or makes times doubtful, in words; empty for nothing."`
	report.Notes
}

// CallReport has the times of one way to call a program.
type CallReport struct {
	experiment.Spread
	Samples []float64 `json:"samples_ns" doc:"The time of each run, in nanoseconds."`
}

// callReportOf summarizes the times of runs in nanoseconds.
func callReportOf(times []float64) CallReport {
	return CallReport{experiment.SpreadOf(times), program.NotNil(times)}
}

// doc returns the measurements as a document.
func (r *runner) doc(g *graph.Graph, f flags, interrupted bool) (*Document, error) {
	sizes, err := command.SizesOf(g, f.dims)
	if err != nil {
		return nil, err
	}
	doc := &Document{Dims: sizes, Strategy: f.strategy, Threads: f.workers(), Interrupted: interrupted,
		Spread: experiment.SpreadOf(r.times[methodRun]), Samples: program.NotNil(r.times[methodRun]),
		Call: methodRun.String(), RunReleased: callReportOf(r.times[methodRunRelease]),
		Into: callReportOf(r.times[methodRunInto]), Notes: g.Notes()}
	if report := r.program.Report(); report.Segments == nil {
		costs := report.Costs()
		doc.Costs = &costs
	} else {
		doc.Piecewise = true
	}
	if r.profile != nil {
		doc.ProfileDoc = r.profile.doc(opsByName(g))
	}
	doc.Noise = doc.disturbances(r.load.Mean())
	return doc, nil
}

// printMeasurements prints the document as JSON or text.
func (r *runner) printMeasurements(cmd *cobra.Command, doc *Document, f flags) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		document.Write(out, doc)
		return out.Flush()
	}
	if doc.Runs > 0 {
		doc.writeText(out, term.StdoutDisplay(cmd), f.profile)
	}
	switch {
	case doc.Interrupted && f.measureTime > 0:
		fmt.Fprintf(out, "interrupted after %s\n", format.Count(doc.Runs, "run"))
	case doc.Interrupted:
		fmt.Fprintf(out, "interrupted after %d of %s\n", doc.Runs, format.Count(f.runs, "run"))
	}
	return out.Flush()
}

// disturbed introduces [Document.Noise].
const disturbed = "disturbed measurement: "

// writeText prints a summary, the times, and with withProfile the profile.
func (d *Document) writeText(out *bufio.Writer, display term.Display, withProfile bool) {
	// Into.Median is nil if the measurement was interrupted before the first RunInto.
	withProfile = withProfile && d.ProfileDoc != nil && d.Into.Median != nil
	stepsText, timesText, noiseText := "", "", "" // sentences
	if withProfile {
		stepsText = d.ProfileDoc.summary()
	}
	if d.Into.Median != nil {
		timesText = d.summary("strategy " + d.Strategy)
	}
	if d.Noise != "" {
		noiseText = disturbed + d.Noise
	}
	display.WriteSentences(out, stepsText, timesText, noiseText)
	d.writeTimes(out, display)
	if withProfile {
		d.ProfileDoc.write(out, display, *d.Into.Median)
	}
}

// writeTimes prints a row for each way to call the program.
func (d *Document) writeTimes(w io.Writer, display term.Display) {
	columns := []term.Column{term.NameCol("strategy"), term.NameCol("call"), term.UntruncatedCol("runs")}
	symbols := sorted.Keys(d.Dims)
	for _, name := range symbols {
		columns = append(columns, term.UntruncatedCol(name))
	}
	for _, head := range []string{"threads", "median", "min", "p10", "p90", "max", "peak memory"} {
		columns = append(columns, term.UntruncatedCol(head))
	}
	table := term.NewTable(columns...)
	peak := "?" // unknown for a graph in segments
	if d.Costs != nil {
		peak = format.Bytes(d.PeakBytes)
	}
	for method, spread := range [numMethods]experiment.Spread{d.Spread, d.RunReleased.Spread, d.Into.Spread} {
		if spread.Runs == 0 {
			continue
		}
		cells := []any{d.Strategy, callMethod(method).String(), spread.Runs}
		for _, name := range symbols {
			cells = append(cells, d.Dims[name])
		}
		cells = append(cells, d.Threads)
		for _, ns := range []*float64{spread.Median, spread.Min, spread.P10, spread.P90, spread.Max} {
			cells = append(cells, format.Nanoseconds(*ns))
		}
		table.Add(append(cells, peak)...)
	}
	table.Write(w, display)
}
