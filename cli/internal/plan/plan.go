// Package plan implements "graphrun plan". It prints the plan of a graph: the steps, the inserted copies with their
// reasons, the cost, and the gap to the best plan.
//
// [Document] is the JSON output. answer.go has the sentences at the beginning of the text. Each group of flags has a
// file: --max-copies and --max-memory (limits.go), --problem, --solution, --k-best and --sensitivity (problem.go),
// --strategies (strategies.go), ranges of sizes (sizes.go), --measure (measure.go), --code (code.go), --passes
// (passespage.go), and the plans of graphs with symbolic sizes (specializations.go).
package plan

import (
	"bufio"
	"bytes"
	"cmp"
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
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/steptimes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
)

// flags are the options of the command.
type flags struct {
	extensions *command.Extensions // strategies, ops and passes of the embedding program

	// The compilation of the graph.
	strategy         string
	dims, pins       []string
	sizeCombinations []map[string]int // sizes to plan for, by flag --dim: see command.SplitHints
	noFusion, exact  bool
	device           string
	costs, prices    string
	tuned            string         // path of the file of --tuned; empty for none
	tunedResult      *pricing.Tuned // of the file
	threads          int
	slack            command.Slack
	caches           command.Caches
	solver           command.SolveLimit
	problem          problemFlags
	limits           limits

	// Several plans, instead of one.
	sweep      string
	strategies []string

	// The output.
	json, dump, check, measure bool
	passes                     string // the path of the page; empty for none
	code                       string // the step whose code is shown; empty for none
	forAll                     []string
}

const help = `Plans a graph and shows the plan. The text begins with the results of the given flags, the estimated cost
with a proved lower bound, if there is one, and changes of input or output layouts that would reduce the cost.
Tables follow: the effect of each pass, inserted copies with their reasons, removed and folded nodes, composite
nodes with their replacements, packed constants, and the steps with their loops, buffers and estimated costs.

The memory of a run is listed by purpose: inputs, constants, constants packed for implementations, the arena of
intermediate values, outputs, and the scratch memory of all workers. Peak memory is the sum of the last three. The
arena and the scratch memory depend on the number of workers, --threads; layouts and implementations do not.

graphrun ops NAME lists the implementations of an op; --pin NODE=impl:NAME selects one for a node.

--measure runs the plan with one worker and shows the median time of each step with its estimate. With --json, the
output has the measured "prices", which --prices FILE reads: the plan is then the cheapest at these prices, where they
exist, and at the estimates elsewhere. If its steps have no measured prices yet, --measure adds them to those of
--prices, so that a repetition ends with a plan whose steps are all measured.

A loop is printed as its sizes, fastest dimension first, with dimensions merged where possible, followed by the
strides of each operand in bytes, outputs first.

Nodes that iterate over the same elements are fused into one step. Adjacent nodes that are not fused are listed with
the reason. --code STEP shows the generated code of the step with this name, or of the step that computes the node
with this name: the expression, one value per line; the access to each operand (contiguous, broadcast along rows, or
copied through blocks); and the machine code, or the reason why the loop runs in Go.

With --max-copies N the command fails (exit code 1) if more than N copies are inserted, and lists them with their
reasons; copies of constants do not count. --max-memory BYTES rejects plans whose run on --threads workers needs
more memory. If the plan is rejected, other strategies are tried, and a search that adds a price for each byte of
constants. The cheapest plan found within the limit is shown, with the difference in cost ("rejected" in JSON) and a
lower bound on the cost of plans within the limit ("within_memory"); --slack, the extra cost accepted for fewer
copies, does not apply to it. If none is found, the plan that needs the least memory is shown, and the exit code is
1. The search is not exhaustive: a plan that needs slightly less memory may exist.

--slack applies at the sizes that are planned. Other sizes use the nearest plan; the output shows their regret: the
extra cost, relative to a plan made for these sizes.

With --strategy optimal, the plan has the least cost, or its gap to a proved lower bound is shown if the search
reached --solver-time-limit. Changes of input or output layouts by the caller are listed if they save at least a
thousandth of the cost. --certificate writes a proof that graphrun verify checks. --problem writes the layout
problem, and --solution applies the solution of another solver instead of a strategy. --k-best K lists the K
cheapest plans that differ in implementations or copies. --sensitivity shows the bandwidths of copies at which
another plan becomes the cheapest. --k-best and --sensitivity do not depend on --strategy.

With symbolic sizes, a plan serves all sizes that satisfy its guards, which are the conditions on sizes that
inference and planning rely on. For each plan, the output has the sizes for which it was priced, its guards, and
its regret at the bounds of the symbols, at the sizes of other plans, and at 64 times the size of an unbounded
symbol. --dim N=1,64 makes a plan for each of these sizes; other sizes use the nearest plan whose guards hold.
Sizes that cannot be planned are reported and skipped, except for the first.

--for-all PROPERTY proves a property for all sizes within the bounds of the symbols, and lists the cases of the
proof. If the property does not hold, it prints sizes that violate it (exit code 1). If it finds neither a proof nor
such sizes, it lists the sizes at which the property holds. The property no-copies means that no copy is inserted;
VALUE=FORMAT or 'FORMAT(VALUE)' means that a value has a memory format.

--strategies propagate,optimal lists the copies of each strategy with their reasons, and the cost of each plan.
Strategies with equal copies are listed together.

--sweep N=1..256 shows ranges of sizes with the same plan, and the layouts, copies, implementations and fused groups
that change between them. It plans both ends and the powers of two, and bisects between sizes with different plans,
up to 64 plans. Sizes between two planned sizes with equal plans are not planned, so a short range with another plan
may be missed ("planned" in JSON lists the planned sizes).

A graph whose shapes depend on data runs in segments. A run plans each segment when the layouts and sizes of its
inputs are known. The segments are listed with their inputs and the known facts about their results. The segment
whose shapes are known in advance is planned by this command.`

// Command returns the command plan.
func Command(ext *command.Extensions) *cobra.Command {
	f := flags{extensions: ext}
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show the plan of a graph, with reasons",
		Long:  help,
		Example: `  graphrun plan examples/models/residual.json
  graphrun plan model.json --strategy channels_last --json
  graphrun plan model.json --pin conv1=channels_last --pin conv2=impl:nchw --pin y=order:0,2,1
  graphrun plan model.json --check --dump
  graphrun plan model.json --max-copies 0 --max-memory 64MiB
  graphrun plan model.json --strategy optimal --certificate plan.cert.json
  graphrun plan model.json --k-best 5 --sensitivity
  graphrun plan model.json --dim N=1,64 --for-all no-copies --for-all 'channels_last(conv1)'
  graphrun plan model.json --sweep N=1..256
  graphrun plan model.json --strategies all
  graphrun plan model.json --code sum`,
		Args:              command.OneFile,
		ValidArgsFunction: command.CompleteGraph,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			return run(cmd, args[0], f)
		}),
	}
	f.addFlags(cmd)
	return cmd
}

func (f *flags) addFlags(cmd *cobra.Command) {
	flagSet := cmd.Flags()
	flagSet.BoolVar(&f.json, "json", false, "print JSON")
	flagSet.BoolVar(&f.dump, "dump", false, "print the graph after each pass")
	flagSet.StringVar(&f.passes, "passes", "", "write a page with the graph after each pass, one column per pass, to "+
		"`OUT.html`")
	_ = cmd.MarkFlagFilename("passes", "html")
	flagSet.BoolVar(&f.check, "check", false, "verify the graph after each pass, and the values of small graphs; "+
		"report the parts that are not checked")
	flagSet.StringVar(&f.code, "code", "", "show only the code of `STEP`: its expression and the generated machine "+
		"code; with --json, the output has the plan, too")
	flagSet.BoolVar(&f.measure, "measure", false, "run the plan with one worker on generated inputs, and show the time "+
		"of each step with its estimate")
	f.extensions.StrategyFlag(cmd, &f.strategy)
	command.FusionFlag(cmd, &f.noFusion)
	command.ExactFlag(cmd, &f.exact)
	command.DeviceFlag(cmd, &f.device)
	command.CostsFlag(cmd, &f.costs)
	command.PricesFlag(cmd, &f.prices)
	command.TunedFlag(cmd, &f.tuned)
	command.HintFlag(cmd, &f.dims)
	flagSet.StringSliceVar(&f.strategies, "strategies", nil, "list the copies of strategies `A,B`; \"published\" stands "+
		"for the strategies of published optimizers, \"all\" for all strategies")
	_ = cmd.RegisterFlagCompletionFunc("strategies", f.extensions.CompleteGroups)
	flagSet.StringVar(&f.sweep, "sweep", "", "show the sizes at which the plan changes, as in `N=1..256`, and the changes")
	flagSet.StringArrayVar(&f.forAll, "for-all", nil, "prove `PROPERTY` for all sizes within bounds, or find sizes that "+
		"break it: no-copies, VALUE=FORMAT or 'FORMAT(VALUE)' (repeatable)")
	command.PinFlag(cmd, &f.pins)
	command.ThreadsFlag(cmd, &f.threads)
	f.limits.addFlags(cmd)
	f.solver.AddFlag(cmd)
	f.slack.AddFlag(cmd)
	f.caches.AddFlag(cmd)
	f.problem.addFlags(cmd)
}

// validate validates the flags and reads the cost profile.
func (f *flags) validate(cmd *cobra.Command) (*pricing.Profile, error) {
	if err := f.extensions.CheckStrategy(f.strategy); err != nil {
		return nil, err
	}
	if err := command.CheckThreads(f.threads); err != nil {
		return nil, err
	}
	if f.measure && f.threads > 1 {
		return nil, exit.UsageErrorf("--measure runs the plan with one worker: omit --threads %d", f.threads)
	}
	if err := cmp.Or(f.limits.check(cmd), f.caches.Check()); err != nil {
		return nil, err
	}
	if err := f.solver.Check(); err != nil {
		return nil, err
	}
	if err := f.problem.check(cmd, f.strategy); err != nil {
		return nil, err
	}
	if err := outfile.CheckWritable("--passes", f.passes, ".html"); err != nil {
		return nil, err
	}
	strategy := f.strategy
	if f.problem.solutionStrategy != nil {
		strategy = f.problem.solutionStrategy.Name()
	}
	if err := f.slack.Check(cmd, strategy); err != nil {
		return nil, err
	}
	if f.tuned != "" && (f.prices != "" || f.measure) {
		return nil, exit.UsageErrorf("--tuned excludes --prices and --measure: --prices reads the prices of the file, too")
	}
	var err error
	if f.tunedResult, err = command.Tuned(f.tuned); err != nil {
		return nil, err
	}
	return command.PricedProfile(cmd, f.costs, f.prices)
}

// run makes one plan, or several plans for a range of sizes (sizes.go) or for several strategies (strategies.go).
func run(cmd *cobra.Command, path string, f flags) error {
	costProfile, err := f.validate(cmd)
	if err != nil {
		return err
	}
	if f.dims, f.sizeCombinations, err = command.SplitHints(f.dims); err != nil {
		return err
	}
	if err := cmp.Or(f.checkSeveralPlans(cmd), f.checkOneSize(cmd)); err != nil {
		return err
	}
	switch {
	case f.sweep != "":
		return f.runSweep(cmd, path, costProfile)
	case len(f.strategies) > 0:
		return f.runStrategies(cmd, path, costProfile)
	}
	return f.runOnePlan(cmd, path, costProfile)
}

// runOnePlan makes one plan and prints it.
func (f *flags) runOnePlan(cmd *cobra.Command, path string, costProfile *pricing.Profile) error {
	job := progress.Begin(cmd, filepath.Base(path))
	defer job.End()
	var g *graph.Graph
	err := job.Do(progress.Loading, func() (err error) { g, err = f.load(job.Context, path); return err })
	if err != nil {
		return err
	}
	var compiled *graphrun.Program
	var doc *Document
	timer := steptimes.New()
	var dump bytes.Buffer // the graphs for --dump and --passes, printed after the progress line is cleared
	planErr := job.Do(progress.Planning, func() (err error) {
		if compiled, doc, err = f.plan(g, job, costProfile, timer, &dump); err != nil {
			return err
		}
		return f.addAnswers(job.Context, compiled, doc)
	})
	if !f.measure { // with measure, the method finish still shows progress
		job.End()
	}
	if interruptErr := exit.InterruptError(job.Context); interruptErr != nil {
		return interruptErr
	}
	command.PrintNotes(cmd, path, g)
	if err := f.showPasses(cmd, path, &dump); err != nil {
		return err
	}
	if given := (*layout.GivenError)(nil); errors.As(planErr, &given) { // the file of --solution does not fit the problem
		return exit.UsageErrorf("%s: %w", f.problem.solution, planErr)
	}
	if planErr != nil {
		return program.WithFile(path, planErr)
	}
	return f.finish(cmd, path, job, compiled, g, doc, timer)
}

// checkOneSize rejects flags that concern one plan if --dim gives several combinations of sizes.
func (f *flags) checkOneSize(cmd *cobra.Command) error {
	for _, name := range []string{"certificate", "problem", "solution"} {
		if len(f.sizeCombinations) > 1 && cmd.Flags().Changed(name) {
			return exit.UsageErrorf("--%s requires one combination of sizes, but --dim gives %d: give each symbol one size, "+
				"and plan each size by a separate command", name, len(f.sizeCombinations))
		}
	}
	return nil
}

// load reads the graph, binds it to the first of sizeCombinations, and applies the pins.
func (f *flags) load(ctx context.Context, path string) (*graph.Graph, error) {
	if len(f.sizeCombinations) == 0 {
		return f.extensions.LoadWithPins(ctx, path, f.dims, f.pins)
	}
	g, _, err := f.extensions.OpenGraph(ctx, path, f.dims, keepGoing)
	if err == nil {
		err = command.BindHints(path, g, f.sizeCombinations)
	}
	if err == nil {
		err = command.Infer(ctx, g)
	}
	if err == nil {
		err = command.ApplyPins(ctx, g, f.pins)
	}
	return g, err
}

// plan compiles the graph. The program satisfies --max-memory if limits.fitMemory finds such a plan. With --measure,
// timer traces its runs. dump receives the graphs for --dump and --passes.
func (f *flags) plan(g *graph.Graph, job *progress.Job, costProfile *pricing.Profile, timer *steptimes.Tracer,
	dump io.Writer) (*graphrun.Program, *Document, error) {
	options := f.options(job, costProfile)
	options.Strategy = f.problem.strategy(f.extensions, f.strategy)
	options.Check, options.Hints = f.check, f.sizeCombinations
	if f.dump || f.passes != "" {
		options.Dump = dump
	}
	if f.measure {
		options.Threads, options.Tracer = 1, timer
	}
	compiled, err := f.extensions.Compile(job.Context, g, options)
	if err != nil {
		return nil, nil, err
	}
	return f.limits.fitMemory(job.Context, f.extensions, compiled, g, options)
}

// options returns the options that apply to every plan.
func (f *flags) options(job *progress.Job, costProfile *pricing.Profile) graphrun.Options {
	return graphrun.Options{Progress: job.Enter, Costs: costProfile, NoFusion: f.noFusion, Exact: f.exact,
		Device: f.device, SolveLimit: f.solver.Option(), Slack: f.slack.Option(), Threads: f.threads, Caches: f.caches.Option(),
		Tuned: f.tunedResult, MemoryLimit: -1} // the plan may be for another machine
}

// addAnswers adds the plans for symbolic sizes, the proofs of --for-all and the results of problem.go to the document
// of a plan. It also writes the files of --problem and --certificate.
func (f *flags) addAnswers(ctx context.Context, compiled *graphrun.Program, doc *Document) (err error) {
	if doc.Classes, err = inspect.Specializations(compiled); err != nil {
		return err
	}
	if costs := compiled.Internal().Options().Costs; costs != nil && len(costs.Prices) > 0 {
		doc.Regret, _ = experiment.Regret(compiled) // unknown for strategies that do not state the problem
	}
	if err := f.prove(compiled, doc); err != nil {
		return err
	}
	return f.problem.addResults(ctx, compiled, f.dims, doc)
}

// prove checks the properties of --for-all.
func (f *flags) prove(compiled *graphrun.Program, doc *Document) error {
	for _, property := range f.forAll {
		proof, err := inspect.ForAll(compiled, property)
		if err != nil {
			return exit.UsageErrorf("--for-all: %w", err)
		}
		doc.ForAll = append(doc.ForAll, *proof)
	}
	return nil
}

// showPasses writes the page of --passes and prints the graphs of --dump. It is also called if planning failed.
func (f *flags) showPasses(cmd *cobra.Command, path string, dump *bytes.Buffer) error {
	if f.passes != "" && dump.Len() > 0 {
		title := command.FileLabel(path) + ", strategy " + f.strategy
		err := outfile.Write(cmd.Context(), f.passes, func(w io.Writer) error {
			return writePasses(w, title, dump.String())
		})
		if err != nil {
			return err
		}
	}
	if f.dump {
		_, _ = dump.WriteTo(dumpWriter(cmd, f.json))
	}
	return nil
}

// dumpWriter returns the destination of --dump: stderr with --json, otherwise stdout.
func dumpWriter(cmd *cobra.Command, asJSON bool) io.Writer {
	if asJSON {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}

// finish measures and prints a plan, and returns an error if the plan violates --max-memory, --max-copies or --for-all.
func (f *flags) finish(cmd *cobra.Command, path string, job *progress.Job, compiled *graphrun.Program, g *graph.Graph,
	doc *Document, timer *steptimes.Tracer) (err error) {
	if f.json || f.code != "" { // the text of a plan begins with these sentences: see answers
		for _, text := range f.limits.rejectedTexts(doc) {
			term.PrintNote(cmd, "%s", text)
		}
	}
	if f.code != "" {
		if doc.Code, err = inspect.Code(compiled, f.code); err != nil {
			return exit.UsageErrorf("%s: --code: %w", path, err)
		}
	}
	if f.measure {
		if doc.Dims, err = command.SizesOf(g, f.dims); err != nil {
			return err
		}
		if err := measurePlan(job, compiled, g, timer, doc); err != nil {
			return program.WithFile(path, err)
		}
	}
	command.NoteUnplanned(cmd, path, compiled)
	for _, reason := range doc.Unchecked {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: --check: %v\n", path, reason)
	}
	if err := f.print(cmd, job, compiled, doc); err != nil {
		return err
	}
	if err := f.limits.checkMemory(doc); err != nil {
		return program.WithFile(path, err)
	}
	if err := f.limits.checkCopies(compiled.Graph(), doc.Copies); err != nil {
		return program.WithFile(path, err)
	}
	for _, proof := range doc.ForAll {
		if proof.Counterexample != nil {
			return exit.Failed(fmt.Errorf("%s: --for-all %s: it does not hold at %s: %s", path, proof.Property,
				program.SizesText(proof.Counterexample), proof.Why))
		}
	}
	return nil
}

// print prints a plan as JSON or text, or only the code of --code.
func (f *flags) print(cmd *cobra.Command, job *progress.Job, compiled *graphrun.Program, doc *Document) error {
	return job.Do(progress.Printing, func() error {
		out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
		switch {
		case f.json:
			document.Write(out, doc)
		case doc.Code != nil:
			writeCode(out, term.StdoutDisplay(cmd), doc.Code)
		default:
			writePlan(out, term.StdoutDisplay(cmd), f.answers(compiled.Graph(), doc), doc, compiled.Need())
		}
		return out.Flush()
	})
}
