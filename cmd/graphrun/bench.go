package main

import (
	"bufio"
	"context"
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
	strategy string
	timing   timingFlags
	json     bool
	dims     []string
}

// timingFlags are those of the commands that measure.
type timingFlags struct {
	runs, threads int
	seed          uint64
}

func (f *timingFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.runs, "runs", 20, "measured runs, after warm-up")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "seed of the made-up inputs")
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

func benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench FILE",
		Short: "Measure the time of a run",
		Long: `Compiles a graph once and runs it many times on inputs made from --seed. Prints the median
and the spread of the time of a run; loading, planning and compiling are not part of it. Some
runs before the measured ones warm caches and buffers up. A graph whose shapes depend on data is
planned piece by piece while it runs, and that is part of its time.`,
		Example: `  graphrun bench examples/models/attention.json
  graphrun bench model.json --runs 100 --threads 1 --json`,
		Args:              oneFile,
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return bench(cmd, args[0], f)
		}),
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
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
	g, in, err := loadTimed(path, f.dims, f.timing.seed)
	if err != nil {
		return err
	}
	tell(cmd.ErrOrStderr(), path, g)
	r, err := benchRunner(g, f)
	if err != nil {
		return err
	}
	r.in = in
	var m meter
	_, err = withProgress(cmd.ErrOrStderr(), g.Name, &m, func() (struct{}, error) {
		return struct{}{}, r.sample(cmd.Context(), f.timing.runs, &m)
	})
	if err != nil {
		return runError(cmd.Context(), err)
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		d := newDocument(out)
		d.field("strategy", f.strategy)
		d.field("threads", f.timing.workers())
		r.spread().fields(d)
		d.field("piecewise", r.plan == nil)
		if r.plan != nil {
			r.plan.fields(d)
		}
		d.field("samples_ns", r.times)
		d.told(g)
		d.end()
		return out.Flush()
	}
	t := newTable("strategy", "runs", "threads", "median", "min", "p10", "p90", "max", "peak memory")
	s, peak := r.spread(), "?"
	if r.plan != nil {
		peak = byteSize(r.plan.program.PeakBytes())
	}
	t.add(f.strategy, s.Runs, f.timing.workers(), nanoseconds(s.Median), nanoseconds(s.Min), nanoseconds(s.P10),
		nanoseconds(s.P90), nanoseconds(s.Max), peak)
	t.write(out)
	return out.Flush()
}

// loadTimed returns a graph and made-up values for its inputs.
func loadTimed(path string, dims []string, seed uint64) (*graph.Graph, map[string]*tensor.Tensor, error) {
	g, err := loadGraph(path, dims)
	if err != nil {
		return nil, nil, err
	}
	if err := fits(g); err != nil {
		return nil, nil, err
	}
	in, err := sources{seed: seed}.values(g, nil)
	return g, in, err
}

// warmUps is the number of runs before the measured ones.
const warmUps = 2

// runner runs one graph again and again and keeps the times.
type runner struct {
	plan  *planned // nil for a graph that runs piecewise
	run   func(context.Context, map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error)
	in    map[string]*tensor.Tensor
	times []float64 // ns
	out   map[string]*tensor.Tensor
}

func newRunner(p *planned, in map[string]*tensor.Tensor) *runner {
	return &runner{plan: p, run: p.program.NewSession().Run, in: in}
}

// benchRunner prepares a graph. One whose shapes depend on data is planned piece by piece
// in each run.
func benchRunner(g *graph.Graph, f benchFlags) (*runner, error) {
	if g.Dynamic() {
		r, err := exec.NewRunner(g, planner(f.strategy), exec.Options{Threads: f.timing.threads})
		if err != nil {
			return nil, err
		}
		return &runner{run: r.Run}, nil
	}
	p, err := prepare(g, passes.Options{Strategy: f.strategy}, f.timing.threads)
	if err != nil {
		return nil, err
	}
	return newRunner(p, nil), nil
}

// once runs the program and notes the time if it is measured.
func (r *runner) once(ctx context.Context, measured bool) error {
	start := time.Now()
	out, err := r.run(ctx, r.in)
	if measured {
		r.times = append(r.times, float64(time.Since(start)))
	}
	r.out = out
	return err
}

// sample warms up and measures.
func (r *runner) sample(ctx context.Context, runs int, m *meter) error {
	for i := range warmUps + runs {
		m.report(i, warmUps+runs)
		if err := r.once(ctx, i >= warmUps); err != nil {
			return err
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
	d.field("median_ns", s.Median)
	d.field("min_ns", s.Min)
	d.field("p10_ns", s.P10)
	d.field("p90_ns", s.P90)
	d.field("max_ns", s.Max)
}

// fields prints what a plan costs besides time.
func (p *planned) fields(d *document) {
	d.field("copies", len(p.plan.Copies))
	d.field("copied_bytes", p.copyBytes())
	d.field("elided", len(p.plan.Elided))
	d.field("steps", len(p.program.Steps()))
	d.field("peak_bytes", p.program.PeakBytes())
	d.field("cost_ns", p.plan.CostNS)
	d.field("plan_ms", milliseconds(p.took))
}
