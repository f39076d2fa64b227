package main

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

type benchFlags struct {
	src      sources
	strategy string
	timing   timingFlags
	json     bool
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
func (f *timingFlags) options() exec.Options {
	return exec.Options{Threads: f.threads, InputsHeld: true}
}

func benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench FILE",
		Short: "Measure the time of a run",
		Long: `Compiles a graph once and runs it many times, on inputs from --inputs and --input, else made
from --seed, as run does. Prints the median and the spread of the time of a run; loading,
planning and compiling are not part of it. Some runs before the measured ones warm caches and
buffers up. A graph whose shapes depend on data is planned piece by piece while it runs, and
that is part of its time.

Ctrl-C ends the measurement: what was measured is printed ("interrupted" is true in JSON), and
the exit code is 130.`,
		Example: `  graphrun bench examples/models/attention.json
  graphrun bench model.json --runs 100 --threads 1 --json
  graphrun bench model.onnx --inputs in.npz --strategy channels_last`,
		Args:              oneFile,
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return bench(cmd, args[0], f)
		}),
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
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
	j := begin(cmd, filepath.Base(path))
	defer j.end()
	var t timed
	if err := j.do(loading, func() (err error) { t, err = loadTimed(path, f.dims, f.timing.pins, f.src); return err }); err != nil {
		return err
	}
	var r *runner
	if err := j.do(planning, func() (err error) { r, err = benchRunner(t.g, f, j.enter); return err }); err != nil {
		return err
	}
	r.in = t.in.values
	err := measure(j.ctx, []*runner{r}, f.timing.runs, j.report)
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
	return cut
}

// show prints what was measured.
func (r *runner) show(cmd *cobra.Command, g *graph.Graph, f benchFlags, cut bool) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		d := newDocument(out)
		d.field("strategy", f.strategy)
		d.field("threads", f.timing.workers())
		d.field("interrupted", cut)
		r.spread().fields(d)
		d.field("piecewise", r.plan == nil)
		if r.plan != nil {
			r.plan.fields(d)
		}
		d.field("samples_ns", filled(r.times))
		d.told(g)
		d.end()
		return out.Flush()
	}
	if len(r.times) > 0 {
		t := newTable(nameCol("strategy"), wholeCol("runs"), wholeCol("threads"), wholeCol("median"), wholeCol("min"),
			wholeCol("p10"), wholeCol("p90"), wholeCol("max"), wholeCol("peak memory"))
		s, peak := r.spread(), "?"
		if r.plan != nil {
			peak = byteSize(r.plan.program.PeakBytes())
		}
		t.add(f.strategy, s.Runs, f.timing.workers(), nanoseconds(s.Median), nanoseconds(s.Min), nanoseconds(s.P10),
			nanoseconds(s.P90), nanoseconds(s.Max), peak)
		t.write(out, shown(cmd))
	}
	if cut {
		fmt.Fprintf(out, "interrupted after %d of %s\n", len(r.times), count(f.timing.runs, "run"))
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

// runner runs one graph again and again and keeps the times.
type runner struct {
	plan  *planned // nil for a graph that runs piecewise
	run   func(context.Context, map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error)
	in    map[string]*tensor.Tensor
	times []float64 // ns
	keep  bool      // what the last run made
	out   map[string]*tensor.Tensor
}

func newRunner(p *planned, in map[string]*tensor.Tensor) (_ *runner, err error) {
	defer tensor.CatchMemory(&err)
	return &runner{plan: p, run: p.program.NewSession().Run, in: in}, nil
}

// benchRunner prepares a graph. One whose shapes depend on data is planned piece by piece
// in each run.
func benchRunner(g *graph.Graph, f benchFlags, enter func(phase string)) (*runner, error) {
	if g.Dynamic() {
		r, err := exec.NewRunner(g, planner(f.strategy, false, func(string) {}), f.timing.options())
		if err != nil {
			return nil, err
		}
		return &runner{run: r.Run}, nil
	}
	p, err := prepare(g, passes.Options{Strategy: strategyOf(f.strategy)}, f.timing.options(), enter)
	if err != nil {
		return nil, err
	}
	return newRunner(p, nil)
}

// once runs the program, keeps what it gives if that is wanted, and notes the time if it is
// measured.
func (r *runner) once(ctx context.Context, measured bool) error {
	start := time.Now()
	out, err := r.run(ctx, r.in)
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
				return under(r.plan.plan.Strategy, err)
			default:
				return err
			}
		}
	}
	return nil
}

// spread sums up measured times, in nanoseconds.
type spread struct {
	Runs                       int
	Median, Min, Max, P10, P90 float64
}

func (r *runner) spread() spread {
	t := slices.Sorted(slices.Values(r.times))
	if len(t) == 0 {
		return spread{}
	}
	return spread{len(t), quantile(t, 0.5), t[0], t[len(t)-1], quantile(t, 0.1), quantile(t, 0.9)}
}

// quantile interpolates between the sorted values that stand around the place q.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func (s spread) fields(d *document) {
	d.field("runs", s.Runs)
	d.field("median_ns", s.known(s.Median))
	d.field("min_ns", s.known(s.Min))
	d.field("p10_ns", s.known(s.P10))
	d.field("p90_ns", s.known(s.P90))
	d.field("max_ns", s.known(s.Max))
}

// known is a time for JSON: null where nothing was measured.
func (s spread) known(ns float64) *float64 {
	if s.Runs == 0 {
		return nil
	}
	return &ns
}

// fields prints what a plan costs besides time.
func (p *planned) fields(d *document) {
	d.field("copies", len(p.plan.Copies))
	d.field("copied_bytes", p.copyBytes())
	d.field("elided", len(p.plan.Elided))
	d.field("steps", len(p.program.Steps()))
	d.field("peak_bytes", p.program.PeakBytes())
	d.field("memory", memoryOf(p.program.Need()))
	d.field("cost_ns", p.plan.CostNS)
	d.field("plan_ms", milliseconds(p.took))
}
