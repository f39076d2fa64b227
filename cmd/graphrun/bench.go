package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

type benchFlags struct {
	src      sources
	strategy string
	timing   timingFlags
	json     bool
	trace    string
	dims     []string
}

// timingFlags are those of the commands that measure.
type timingFlags struct {
	pins          []string
	runs, threads int
}

func (f *timingFlags) add(cmd *cobra.Command) {
	pinFlag(cmd, &f.pins)
	cmd.Flags().IntVar(&f.runs, "runs", 20, "measure `N` runs, after warm-up")
	threadsFlag(cmd, &f.threads)
}

func (f *timingFlags) check() error {
	if f.runs < 1 {
		return wrongf("--runs %d: want at least 1", f.runs)
	}
	return checkThreads(f.threads)
}

// workers is the number of workers that the flags ask for.
func (f *timingFlags) workers() int {
	if f.threads == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return f.threads
}

// options are those of a program that is measured: its inputs are made before it is
// compiled.
func (f *timingFlags) options(strategy string, j *job) graphrun.Options {
	return graphrun.Options{Strategy: strategyOf(strategy), Threads: f.threads, InputsHeld: true,
		Progress: j.enterUntilRun}
}

func benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench FILE",
		Short: "Measure the time of a run",
		Long: `Compiles a graph once and runs it many times, on inputs from --inputs and --input, else made
from --seed, as run does. Prints the median and the spread of the time of a run; loading,
planning and compiling are not part of it. Some runs before the measured ones warm caches and
buffers up; the segments of a graph whose shapes depend on data are planned in these.

--trace makes one more run after the measured ones, and writes what every worker did in it, steps
and chunks, in Chrome's trace event format; chrome://tracing and ui.perfetto.dev show it.

Ctrl-C ends the measurement: what was measured is printed ("interrupted" is true in JSON), no
trace is written, and the exit code is 130.`,
		Example: `  graphrun bench examples/models/attention.json
  graphrun bench model.json --threads 2 --trace trace.json
  graphrun bench model.json --runs 100 --threads 1 --json
  graphrun bench model.onnx --inputs in.npz --strategy channels_last`,
		Args:              oneFile,
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return bench(cmd, args[0], f)
		}),
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().StringVar(&f.trace, "trace", "",
		"write what every worker did in one run to `OUT.json`, for Chrome's trace viewer")
	_ = cmd.MarkFlagFilename("trace", "json")
	f.src.add(cmd)
	f.timing.add(cmd)
	strategyFlag(cmd, &f.strategy)
	dimFlag(cmd, &f.dims)
	return cmd
}

func bench(cmd *cobra.Command, path string, f benchFlags) error {
	if err := f.timing.check(); err != nil {
		return err
	}
	if err := checkStrategy(f.strategy); err != nil {
		return err
	}
	if err := f.src.check(cmd); err != nil {
		return err
	}
	if err := checkTrace(f.trace); err != nil {
		return err
	}
	j := begin(cmd, filepath.Base(path))
	defer j.end()
	var t timed
	if err := j.do(loading, func() (err error) {
		t, err = loadTimed(path, f.dims, f.timing.pins, f.src)
		return err
	}); err != nil {
		return err
	}
	var r *runner
	if err := j.do(planning, func() (err error) { r, err = benchRunner(t, f, j); return err }); err != nil {
		return err
	}
	err := measure(j.ctx, []*runner{r}, f.timing.runs, j.report)
	if err == nil {
		err = r.traceRun(j.ctx)
	}
	j.end()
	tell(cmd, path, t.g)
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
	return writeWhole(cmd.Context(), f.trace, func(w io.Writer) error { return r.trace.write(w, filepath.Base(path)) })
}

// benchReport is what bench prints.
type benchReport struct {
	Strategy    string `json:"strategy" doc:"The strategy that was applied."`
	Threads     int    `json:"threads" doc:"The workers of a run."`
	Interrupted bool   `json:"interrupted" doc:"Whether the measurement was ended before its time."`
	spread
	Piecewise bool `json:"piecewise" doc:"Whether it runs in segments, as shapes depend on data."`
	*planCosts
	Samples []float64 `json:"samples_ns" doc:"The time of each run, in nanoseconds."`
	graphrun.Notes
}

// show prints what was measured.
func (r *runner) show(cmd *cobra.Command, g *graph.Graph, f benchFlags, cut bool) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	doc := &benchReport{Strategy: f.strategy, Threads: f.timing.workers(), Interrupted: cut, spread: r.spread(),
		Samples: filled(r.times), Notes: graphrun.NotesOf(g)}
	if report := r.program.Report(); report.Segments == nil {
		costs := costsOf(report)
		doc.planCosts = &costs
	} else {
		doc.Piecewise = true
	}
	if f.json {
		writeDocument(out, doc)
		return out.Flush()
	}
	if doc.Runs > 0 {
		t := newTable(nameCol("strategy"), wholeCol("runs"), wholeCol("threads"), wholeCol("median"), wholeCol("min"),
			wholeCol("p10"), wholeCol("p90"), wholeCol("max"), wholeCol("peak memory"))
		peak := "?"
		if doc.planCosts != nil {
			peak = byteSize(doc.PeakBytes)
		}
		t.add(doc.Strategy, doc.Runs, doc.Threads, nanoseconds(*doc.Median), nanoseconds(*doc.Min), nanoseconds(*doc.P10),
			nanoseconds(*doc.P90), nanoseconds(*doc.Max), peak)
		t.write(out, shown(cmd))
	}
	if cut {
		fmt.Fprintf(out, "interrupted after %d of %s\n", doc.Runs, count(f.timing.runs, "run"))
	}
	return out.Flush()
}

// timed is a graph to be measured, and values for its inputs.
type timed struct {
	g  *graph.Graph
	in *inputs
}

func loadTimed(path string, dims, pins []string, src sources) (t timed, err error) {
	collectEarly()
	g, given, err := loadFor(src, path, dims)
	if err != nil {
		return t, err
	}
	if err := inferStrictly(g); err != nil {
		return t, err
	}
	if err := applyPins(g, pins); err != nil {
		return t, err
	}
	in, err := src.values(g, given)
	return timed{g, in}, err
}

// warmUps is the number of runs before the measured ones.
const warmUps = 2

// runner runs one program again and again and keeps the times.
type runner struct {
	strategy string
	program  *graphrun.Program
	in       map[string]*tensor.Tensor
	times    []float64 // ns
	keep     bool      // what the last run made
	trace    *chromeTrace
	out      map[string]*tensor.Tensor
}

// benchRunner prepares a graph. Of one whose shapes depend on data, segments are planned when they are first run.
func benchRunner(t timed, f benchFlags, j *job) (*runner, error) {
	r := &runner{strategy: f.strategy, in: t.in.values}
	o := f.timing.options(f.strategy, j)
	if f.trace != "" {
		r.trace = &chromeTrace{}
		o.Tracer = r.trace
	}
	var err error
	r.program, err = graphrun.Compile(t.g, o)
	return r, err
}

// once runs the program, keeps what it gives if that is wanted, and notes the time if it is
// measured.
func (r *runner) once(ctx context.Context, measured bool) error {
	start := time.Now()
	out, err := r.program.Run(ctx, r.in)
	if err != nil {
		return err
	}
	if measured {
		r.times = append(r.times, float64(time.Since(start)))
	}
	if r.keep {
		r.out = out
	}
	return nil
}

// measure warms up and measures all runners in turns. When ctx ends, it ends without an
// error: what was measured until then is there.
func measure(ctx context.Context, all []*runner, runs int, report func(done, total int)) error {
	for i := range warmUps + runs {
		report(i, warmUps+runs)
		for _, r := range all {
			if ctx.Err() != nil {
				return nil
			}
			err := r.once(ctx, i >= warmUps)
			switch {
			case err == nil || ctx.Err() != nil:
			case len(all) > 1:
				return fmt.Errorf("%w (strategy %s)", err, r.strategy)
			default:
				return err
			}
		}
	}
	return nil
}

// spread sums up measured times.
type spread struct {
	Runs   int      `json:"runs" doc:"How many runs were measured."`
	Median *float64 `json:"median_ns" doc:"The median time of a run, in nanoseconds; null where none was measured."`
	Min    *float64 `json:"min_ns" doc:"The least time, in nanoseconds; null where none was measured."`
	P10    *float64 `json:"p10_ns" doc:"The time that a tenth of the runs stay below; null where none was measured."`
	P90    *float64 `json:"p90_ns" doc:"The time that a tenth of the runs exceed; null where none was measured."`
	Max    *float64 `json:"max_ns" doc:"The greatest time, in nanoseconds; null where none was measured."`
}

func (r *runner) spread() spread {
	t := slices.Sorted(slices.Values(r.times))
	if len(t) == 0 {
		return spread{}
	}
	at := func(q float64) *float64 { ns := quantile(t, q); return &ns }
	return spread{len(t), at(0.5), at(0), at(0.1), at(0.9), at(1)}
}

// quantile interpolates between the sorted values that are around the place q.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// planCosts are what a plan costs besides time.
type planCosts struct {
	Copies      int                   `json:"copies" doc:"How many copies were inserted."`
	CopiedBytes int                   `json:"copied_bytes" doc:"The bytes that they copy."`
	Elided      int                   `json:"elided" doc:"How many nodes were found to be needless."`
	Steps       int                   `json:"steps" doc:"How many steps run."`
	PeakBytes   int                   `json:"peak_bytes" doc:"Memory of the arena, the outputs and the scratch of one worker."`
	Memory      graphrun.MemoryReport `json:"memory" doc:"What a run needs in all."`
	CostNS      float64               `json:"cost_ns" doc:"What the plan is estimated to cost, in nanoseconds."`
	PlanMS      float64               `json:"plan_ms" doc:"How long planning and compiling took, in milliseconds."`
}

func costsOf(r *graphrun.Report) planCosts {
	return planCosts{len(r.Copies), copiedBytes(r), len(r.Elided), len(r.Steps), r.PeakBytes, r.Memory, r.CostNS,
		r.PlanMS}
}
