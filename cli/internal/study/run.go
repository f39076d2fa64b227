package study

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/inputs"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// runner computes the results of tasks. It keeps the graph and the inputs of the last task for the next task.
type runner struct {
	ext          *command.Extensions
	build        string // the output of graphrun version
	commandLine  string
	lastTask     *Task           // the task of lastWorkload; nil for none
	lastWorkload inputs.Workload // the graph and the inputs of the last task
}

// run computes the result of a task: it loads the graph, plans it with each strategy, and solves its layout problem for
// the lower bound. If the task has threads, it measures the distinct plans. A panic that package interrupt raises at
// the end of ctx becomes its error.
func (r *runner) run(ctx context.Context, t *Task) (_ *Result, err error) {
	defer interrupt.Catch(&err)
	start := time.Now()
	w, err := r.workload(ctx, t)
	if err != nil {
		return nil, err
	}
	result := &Result{Build: r.build, Command: r.commandLine, CPU: machine.CPUName(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Differences: []string{}}
	programs, err := r.plan(ctx, t, &w, result)
	if err != nil {
		return nil, err
	}
	if t.Threads > 0 {
		if err := result.measure(ctx, t, programs, w.Inputs); err != nil {
			return nil, err
		}
	}
	result.Date = time.Now().UTC().Format(time.RFC3339)
	result.TookMS = float64(time.Since(start).Microseconds()) / 1000
	return result, nil
}

// workload returns the graph and the inputs of a task.
func (r *runner) workload(ctx context.Context, t *Task) (inputs.Workload, error) {
	last := r.lastTask
	hasSameWorkload := last != nil && last.file == t.file && last.Seed == t.Seed && last.graph() == t.graph()
	if hasSameWorkload {
		return r.lastWorkload, nil
	}
	if t.unreadable != nil {
		return inputs.Workload{}, t.unreadable
	}
	var dims []string
	for name, n := range t.Dims {
		dims = append(dims, fmt.Sprintf("%s=%d", name, n))
	}
	r.lastTask, r.lastWorkload = nil, inputs.Workload{}
	var pins []string          // none
	var hints []map[string]int // none
	generated := inputs.Sources{Seed: uint64(t.Seed)}
	w, err := inputs.LoadWorkload(ctx, r.ext, t.file, dims, pins, hints, generated)
	if err != nil {
		return w, err
	}
	if err := command.RejectDynamic(w.Graph, "therefore there is no single layout problem"); err != nil {
		return w, err
	}
	r.lastTask, r.lastWorkload = t, w
	return w, nil
}

// plan compiles the graph with every strategy, and adds the plans and the lower bound to the result. It returns one
// program for each distinct plan, with the name of the first strategy that has this plan. It returns none if plans
// are not measured.
func (r *runner) plan(ctx context.Context, t *Task, w *inputs.Workload, result *Result) (list []experiment.Candidate,
	err error) {
	options, err := r.options(t)
	if err != nil {
		return nil, err
	}
	variants := make([]variant, len(t.Strategies))
	for i, name := range t.Strategies {
		variants[i] = variant{name, options}
		variants[i].options.Strategy = r.ext.Strategy(name)
	}
	if t.tune > 0 {
		if variants, err = tuned(ctx, t, w, options, variants, result); err != nil {
			return nil, err
		}
	}
	for _, planned := range variants {
		name := planned.name
		compiled, err := graphrun.Compile(ctx, w.Graph, planned.options)
		if err != nil {
			return nil, err
		}
		planReport := compiled.Report()
		added := Plan{Strategy: name, Plan: digestOfPlan(planReport), Costs: planReport.Costs(), SavedNS: planReport.SavedNS,
			Samples: []float64{}}
		for _, pass := range planReport.Passes {
			if pass.Pass == "layout" {
				added.LayoutMS = pass.MS
			}
		}
		isRepeated := slices.ContainsFunc(result.Plans, func(other Plan) bool { return other.Plan == added.Plan })
		result.Plans = append(result.Plans, added)
		if len(result.Plans) == 1 { // the bound is the same for all strategies
			if err := result.setBound(ctx, compiled, t.solverLimit); err != nil {
				return nil, err
			}
		}
		if t.Threads > 0 && !isRepeated {
			list = append(list, experiment.Candidate{Name: name, Program: compiled})
		}
	}
	result.setGaps()
	return list, nil
}

// options returns the options with which a task plans its graph.
func (r *runner) options(t *Task) (graphrun.Options, error) {
	planOptions := graphrun.Options{Threads: max(1, t.Threads), NoFusion: t.NoFusion, Exact: t.Exact, Costs: t.profile,
		SolveLimit: t.solverLimit, InputsInMemory: true, Passes: r.ext.Passes()}
	if t.Threads == 0 {
		planOptions.MemoryLimit = -1 // no limit, because nothing runs
	}
	if t.solverLimit == 0 {
		planOptions.SolveLimit = -1 // no search; 0 would mean the default limit
	}
	if t.EqualLayoutPrices {
		list := planOptions.Passes
		if list == nil {
			list = passes.Passes()
		}
		var err error
		if planOptions.Passes, err = passes.Before(list, "layout", equalize); err != nil {
			return planOptions, err
		}
	}
	return planOptions, nil
}

// digestOfPlan returns the sha256 of the steps of a plan. Plans with equal digests run the same code.
func digestOfPlan(plan *report.Plan) string {
	type step struct {
		Name, Impl string
		Ops        []string
		Strides    any
	}
	steps := make([]step, len(plan.Steps))
	for i, s := range plan.Steps {
		steps[i] = step{s.Name, s.Impl, s.Ops, s.Strides}
	}
	return machine.DigestOfJSON(steps)
}

// setBound solves the layout problem of a program and checks the proof of the solution. It sets the lower bound, the
// properties of the problem and the size of the certificate.
func (r *Result) setBound(ctx context.Context, compiled *graphrun.Program, limit time.Duration) error {
	problem, err := experiment.Problem(compiled)
	if err != nil {
		return err
	}
	solution, err := solve(ctx, problem, limit)
	if err != nil {
		return err
	}
	r.Variables, r.Factors = len(problem.Variables), len(problem.Factors)
	r.BoundNS, r.Optimal = float64(solution.Bound)/pricing.PSPerNS, solution.Optimal()
	r.Certified = verify.Solution(ctx, problem, solution) == nil
	size := &byteCounter{}
	if err := errors.Join(problem.Write(size), solution.Write(size)); err != nil {
		return err
	}
	r.ProofSize = size.bytes
	return nil
}

// solve returns the solution of a problem with its proof.
func solve(ctx context.Context, p *wcsp.Problem, limit time.Duration) (*wcsp.Solution, error) {
	return wcsp.Exact.Solve(p, wcsp.Options{Context: ctx, TimeLimit: limit, Proof: true})
}

// byteCounter is a writer that counts bytes.
type byteCounter struct{ bytes int }

// Write counts b.
func (c *byteCounter) Write(b []byte) (int, error) {
	c.bytes += len(b)
	return len(b), nil
}

var _ io.Writer = (*byteCounter)(nil)

// measure measures the distinct plans side by side. Strategies with equal plans share the measurements.
func (r *Result) measure(ctx context.Context, t *Task, list []experiment.Candidate, inputSet *inputs.Set) error {
	options := experiment.Options{Runs: t.Runs, Seed: uint64(t.Seed)}
	comparison, err := experiment.Compare(ctx, list, inputSet.Values, options)
	switch {
	case err != nil:
		return inputSet.HintAtGeneratedValues(err)
	case comparison.Interrupted:
		return context.Cause(ctx)
	}
	r.Differences = append(r.Differences, comparison.Differences...)
	if comparison.Verdict != nil {
		r.Noise = comparison.Verdict.Noise
	}
	times := map[string]experiment.Measurement{} // the key is the digest of the plan
	for _, m := range comparison.Rows {
		for _, plan := range r.Plans {
			if plan.Strategy == m.Name {
				times[plan.Plan] = m
			}
		}
	}
	for i := range r.Plans {
		m := times[r.Plans[i].Plan]
		r.Plans[i].Spread, r.Plans[i].Samples, r.Plans[i].Regret = m.Spread, m.Samples, m.Regret
	}
	return nil
}
