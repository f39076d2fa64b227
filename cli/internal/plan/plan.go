// Package plan is the command that prints the plan of a graph.
package plan

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout"
)

type flags struct {
	ext                                *command.Extensions
	strategy, code, costs              string
	json, dump, check, noFusion, exact bool
	measure                            bool
	dims, pins                         []string
	forAll                             []string
	hints                              []map[string]int
	limits                             limits
	solver                             command.SolveLimit
	study                              problemFlags
}

const help = `Applies a strategy and shows what will run: what each pass did to the graph, the copies that were
inserted and why, the nodes that were elided and why, the nodes that were computed ahead because
they depend on constants alone, the nodes for which others run, the constants that were packed for
the implementations that read them, and the steps with their loops, buffers and estimated costs.

Peak memory is that of the arena, the outputs and the scratch of one worker. What a run needs in
all is listed by what it is for: inputs, constants, constants packed into the forms in which
implementations read them, the arena in which intermediate values take turns, outputs, and the scratch of all
workers.

The implementation that computes a step is one of those that graphrun ops NAME lists; --pin
NODE=impl:NAME forces another.

--measure runs the plan with one worker and shows the median time of each step beside its estimate.

A loop is the coalesced iteration shape, fastest dimension first; after it, outputs first,
are the operands' byte strides.

Pointwise nodes that go over the same elements run as one step, in one loop; what stays apart though
one node reads another is listed, and why. --code shows what was generated for a step, or for the
step that computes a node: the expression, a value a line; which operands its loop reads one element
behind the other, which have one element for a whole row (broadcast), and which pass through blocks
(staged); and the machine code, or why the loop runs in Go.

--max-copies N fails (exit code 1) where more copies are inserted, but for those of constants, and lists
them with their reasons. --max-memory BYTES rejects the plan if a run of it on one worker needs more
in all: the cheapest of the plans of other strategies and of the cheapest plans of all that needs no more is
shown instead, what that costs is said ("rejected" in JSON), and whether none that needs no more costs less,
or how much less it could ("within_memory"). Where there is no such plan, the error tells what takes most.

Under --strategy optimal the plan is the cheapest that there is, or the gap to what is proved is told: what is
not found at once is searched for until the time of --solver-time-limit is up. What a caller could change, the
layout of an input or of an output, is said where that saves a thousandth of the cost or more. --certificate
writes what graphrun verify checks. --problem writes the problem of layouts, and --solution applies the labels
that a solver of your own has found, in the place of a strategy. --k-best K lists the K cheapest plans that
differ in implementations or in copies; --sensitivity tells at which bandwidth of copies another plan would be
the cheapest, and which. Both are about the cheapest plan, whatever strategy is shown.

Where sizes are open, a plan serves all sizes at which its guards hold: conditions on sizes that inference and planning
rest on. For each such plan it is said for which sizes it was priced, its guards, and its regret: how much more it costs
than a plan that is made for these sizes, at bounds and hints, and at 64 times the hint of a symbol that has no upper
bound. --dim N=1,64 makes a plan for each of these sizes, and others are served by the nearest whose guards hold; one
of these sizes, but the first, for which there is no plan is told of and left out. --for-all proves a property for all
sizes within bounds by cases, each with its conditions, or gives sizes that break it (exit code 1), or else lists the
sizes at which it was seen to hold: no-copies, that no copy is inserted; VALUE=FORMAT or 'FORMAT(VALUE)', that a value
lies in a memory format.

A graph whose shapes depend on data runs in segments: each is planned when all that it waits for
is known, for every set of layouts and sizes that comes. They are listed with what they wait for, and
what is known of the values that they give; the one whose shapes are known ahead is planned here.`

func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what will run under a strategy, and why",
		Long:  help,
		Example: `  graphrun plan examples/models/residual.json
  graphrun plan model.json --strategy channels_last --json
  graphrun plan model.json --pin conv1=channels_last --pin conv2=impl:nchw --pin y=order:0,2,1
  graphrun plan model.json --check --dump
  graphrun plan model.json --max-copies 0 --max-memory 64MiB
  graphrun plan model.json --strategy optimal --certificate plan.cert.json
  graphrun plan model.json --k-best 5 --sensitivity
  graphrun plan model.json --dim N=1,64 --for-all no-copies --for-all 'channels_last(conv1)'
  graphrun plan model.json --code sum`,
		Args:              command.OneFile,
		ValidArgsFunction: command.CompleteGraph,
		RunE: exit.Coded(func(cmd *cobra.Command, args []string) error {
			return run(cmd, args[0], f)
		}),
	}
	f.add(cmd)
	return cmd
}

func (f *flags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.BoolVar(&f.dump, "dump", false, "print the graph after each pass")
	fl.BoolVar(&f.check, "check", false, "verify the graph after each pass, and its values where the graph is small; "+
		"what went unchecked is said")
	fl.StringVar(&f.code, "code", "", "show the code of `STEP` alone: what it computes for an element, and what was "+
		"generated for that; under --json beside the plan")
	fl.BoolVar(&f.measure, "measure", false, "run it with one worker, on inputs that are made up, and show what each "+
		"step takes beside its estimate")
	f.ext.StrategyFlag(cmd, &f.strategy)
	command.FusionFlag(cmd, &f.noFusion)
	command.ExactFlag(cmd, &f.exact)
	command.CostsFlag(cmd, &f.costs)
	command.HintFlag(cmd, &f.dims)
	fl.StringArrayVar(&f.forAll, "for-all", nil, "prove `PROPERTY` for all sizes within bounds, or find sizes that break "+
		"it: no-copies, VALUE=FORMAT or 'FORMAT(VALUE)' (repeatable)")
	command.PinFlag(cmd, &f.pins)
	f.limits.add(cmd)
	f.solver.AddFlag(cmd)
	f.study.add(cmd)
}

// checked looks at the flags alone, and reads the profile that --costs names.
func (f *flags) checked(cmd *cobra.Command) (*machine.Profile, error) {
	if err := f.ext.CheckStrategy(f.strategy); err != nil {
		return nil, err
	}
	if err := f.limits.check(cmd); err != nil {
		return nil, err
	}
	if err := f.solver.Check(); err != nil {
		return nil, err
	}
	if err := f.study.check(cmd, f.strategy); err != nil {
		return nil, err
	}
	return command.Prices(cmd, f.costs)
}

func run(cmd *cobra.Command, path string, f flags) error {
	costs, err := f.checked(cmd)
	if err != nil {
		return err
	}
	if f.dims, f.hints, err = command.SplitHints(f.dims); err != nil {
		return err
	}
	j := progress.Begin(cmd, filepath.Base(path))
	defer j.End()
	var g *graph.Graph
	if err := j.Do(progress.Loading, func() (err error) { g, err = f.load(j.Context, path); return err }); err != nil {
		return err
	}
	var p *graphrun.Program
	var r *Document
	watch := newStepWatch()
	var dump bytes.Buffer // it must not mix with the line that shows progress
	err = j.Do(progress.Planning, func() (err error) {
		if p, r, err = f.plan(g, j, costs, watch, &dump); err != nil {
			return err
		}
		if r.Classes, err = inspect.Specializations(p); err != nil {
			return err
		}
		if err := f.prove(p, r); err != nil {
			return err
		}
		return f.study.ask(j.Context, p, r)
	})
	if !f.measure {
		j.End()
	}
	if cut := exit.Stopped(j.Context); cut != nil {
		return cut
	}
	command.PrintNotes(cmd, path, g)
	_, _ = dump.WriteTo(dumpTo(cmd, f.json)) // of a plan that fails too
	if given := (*layout.GivenError)(nil); errors.As(err, &given) {
		return exit.Wrongf("%s: %w", f.study.solution, err)
	}
	if err != nil {
		return exit.InFile(path, err)
	}
	return f.finish(cmd, path, j, p, g, r, watch)
}

// finish measures and prints a plan, and holds it to what was demanded.
func (f *flags) finish(cmd *cobra.Command, path string, j *progress.Job, p *graphrun.Program, g *graph.Graph,
	r *Document, watch *stepWatch) (err error) {
	f.limits.tell(cmd, r)
	if f.code != "" {
		if r.Code, err = inspect.Code(p, f.code); err != nil {
			return exit.Wrongf("%s: --code: %w", path, err)
		}
	}
	if f.measure {
		if err := measurePlan(j, p, g, watch, r); err != nil {
			return exit.InFile(path, err)
		}
	}
	command.NoteUnplanned(cmd, path, p)
	for _, u := range r.Unchecked {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: --check: %v\n", path, u)
	}
	if err := f.print(cmd, j, p, r); err != nil {
		return err
	}
	if err := f.limits.countCopies(p.Graph(), r.Copies); err != nil {
		return exit.InFile(path, err)
	}
	for _, a := range r.ForAll {
		if a.Broken != nil {
			return exit.Failed(fmt.Errorf("%s: --for-all %s: it does not hold at %s: %s", path, a.Property,
				format.Sizes(a.Broken),
				a.Why))
		}
	}
	return nil
}

// prove asks for what is to hold for all sizes.
func (f *flags) prove(p *graphrun.Program, r *Document) error {
	for _, property := range f.forAll {
		a, err := inspect.ForAll(p, property)
		if err != nil {
			return exit.Wrongf("--for-all: %w", err)
		}
		r.ForAll = append(r.ForAll, *a)
	}
	return nil
}

// load reads the graph, with pins and the sizes of the first hint.
func (f *flags) load(ctx context.Context, path string) (*graph.Graph, error) {
	if len(f.hints) == 0 {
		return f.ext.LoadPinned(ctx, path, f.dims, f.pins)
	}
	g, _, err := f.ext.OpenGraph(ctx, path, f.dims, false)
	if err == nil {
		err = command.BindHints(path, g, f.hints)
	}
	if err == nil {
		err = command.Infer(ctx, g)
	}
	if err == nil {
		err = command.ApplyPins(ctx, g, f.pins)
	}
	return g, err
}

// plan compiles the graph within the limits.
func (f *flags) plan(g *graph.Graph, j *progress.Job, costs *machine.Profile, watch *stepWatch,
	dump io.Writer) (*graphrun.Program, *Document, error) {
	o := graphrun.Options{Strategy: f.study.strategy(f.ext, f.strategy), Check: f.check, Progress: j.Enter,
		NoFusion: f.noFusion,
		Exact:    f.exact, Costs: costs, Hints: f.hints, SolveLimit: f.solver.Option(),
		MemoryLimit: -1} // it may be for another machine
	if f.dump {
		o.Dump = dump
	}
	if f.measure {
		o.Threads, o.Tracer = 1, watch
	}
	p, err := f.ext.Compile(j.Context, g, o)
	if err != nil {
		return nil, nil, err
	}
	return f.limits.keep(j.Context, f.ext, p, g, o)
}

func (f *flags) print(cmd *cobra.Command, j *progress.Job, p *graphrun.Program, r *Document) error {
	return j.Do(progress.Printing, func() error {
		out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
		switch {
		case f.json:
			document.Write(out, r)
		case r.Code != nil:
			writeCode(out, term.Output(cmd), r.Code)
		default:
			writePlan(out, term.Output(cmd), r, p.Need())
		}
		return out.Flush()
	})
}

// dumpTo returns where --dump prints: messages are beside JSON.
func dumpTo(cmd *cobra.Command, asJSON bool) io.Writer {
	if asJSON {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}
