// Package diff implements "graphrun diff". It shows the differences between two plans.
package diff

import (
	"bufio"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
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
	ext  *command.Extensions
	json bool

	// The differences between the plans.
	strategies  []string
	dims, pins  []string
	sizes       [2][]string   // the values of --dim for each plan
	hasTwoSizes bool          // whether --dim gives two sizes of a symbol
	slackFlag   command.Slack // --slack: how much more a plan with fewer copies may cost

	// The options of both plans.
	noFusion, exact bool
	threads         int
	device          string
	costs           string
	costProfile     *pricing.Profile // the prices of --costs or of this machine: see command.CostProfile
}

// Command returns the command diff.
func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "diff FILE [FILE2]",
		Short: "Show the differences between two plans and their costs",
		Long: `Plans a graph in two ways, or two versions of a graph, and shows the differences between the plans: a
summary, the totals of both plans, the values with different layouts, the copies that only one plan has
(with their reasons), and the steps with different implementations, fused nodes or costs. The steps are
sorted by their difference in cost, the greatest first.

The plans use the two strategies of --strategies. If --strategies names one strategy, both plans use it.
--pin and --slack apply to the second plan only. A second file is planned for the second plan. If none of
--strategies, --pin, --slack, two sizes and a second file is given, the strategies are ` + command.DefaultStrategy + ` and
channels_last.

Values, copies and steps of the plans are matched by the nodes that compute them, by their readers, and by
names that occur in both graphs; their position does not matter.

With two sizes of one symbol (--dim N=1,16), the plans of one graph for these sizes are compared, and also
their costs divided by N. Values and nodes are then matched by name, and layouts are compared by their order
of dimensions. A step that differs only in its cost is not listed. --pin and --slack apply to both plans.

Equal plans are reported as equal; the exit code is then 0, too.`,
		Example: `  graphrun diff model.json --strategies propagate,channels_last
  graphrun diff model.json --pin conv1=channels_last
  graphrun diff old.onnx new.onnx --strategies channels_last --json
  graphrun diff model.onnx --dim N=1,16`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return command.UsageError(cmd, "diff wants one graph file or two, got %s", format.Count(len(args), "argument"))
			}
			return nil
		},
		ValidArgsFunction: command.CompleteGraphs,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			return run(cmd, args, f)
		}),
	}
	flagSet := cmd.Flags()
	flagSet.StringSliceVar(&f.strategies, "strategies", nil,
		"strategies `A,B` of the first and the second plan; a single strategy applies to both")
	_ = cmd.RegisterFlagCompletionFunc("strategies", f.ext.CompleteStrategies)
	flagSet.BoolVar(&f.json, "json", false, "print JSON")
	command.FusionFlag(cmd, &f.noFusion)
	command.ExactFlag(cmd, &f.exact)
	command.DeviceFlag(cmd, &f.device)
	command.CostsFlag(cmd, &f.costs)
	flagSet.StringArrayVar(&f.dims, "dim", nil, "size of a symbolic dimension, as in `N=8` (repeatable); with two sizes "+
		"of a symbol, the first plan is for the first size, and the second plan for the second; "+command.NoSymbolsHelp)
	command.PinFlag(cmd, &f.pins)
	command.ThreadsFlag(cmd, &f.threads)
	f.slackFlag.AddFlag(cmd)
	return cmd
}

// Document is the output of diff. The embedded Difference has the totals (First, Second), and the lists of differences
// (Values, OnlyFirst, OnlySecond, Steps, NodesFirst, NodesSecond).
type Document struct {
	Files []string         `json:"files" doc:"The file of the first plan and the file of the second plan."`
	Sizes []map[string]int `json:"sizes,omitzero" doc:"The sizes of --dim for the first plan and for the second plan; absent if they are equal."`
	*experiment.Difference
	report.Notes
}

// run makes both plans and prints their differences.
func run(cmd *cobra.Command, args []string, f flags) error {
	var doc Document
	if err := f.splitDims(len(args), &doc); err != nil {
		return err
	}
	strategies, err := f.strategyPair(cmd, len(args))
	if err != nil {
		return err
	}
	if err := command.CheckThreads(f.threads); err != nil {
		return err
	}
	if f.costProfile, err = command.CostProfile(cmd, f.costs); err != nil {
		return err
	}

	paths := [2]string{args[0], args[len(args)-1]} // equal if there is one file
	job := progress.Begin(cmd, filepath.Base(args[0]))
	defer job.End()
	labels := command.FileLabels(paths[:])
	doc.Files = []string{labels[paths[0]], labels[paths[1]]}
	graphs, programs, err := f.planBoth(job, paths, strategies)
	job.End() // no progress is displayed while notes are printed; a second End has no effect
	for i, g := range graphs {
		if g != nil && (i == 0 || paths[1] != paths[0]) { // the notes of one file are printed once
			command.PrintNotes(cmd, paths[i], g)
			command.AddNotes(&doc.Notes, g.Notes())
		}
	}
	if err != nil {
		return err
	}

	compare := experiment.Diff
	if f.hasTwoSizes {
		compare = experiment.DiffSizes
	}
	if doc.Difference, err = compare(programs[0], programs[1]); err != nil {
		return err
	}
	return job.Do(progress.Printing, func() error {
		out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
		if f.json {
			document.Write(out, &doc)
		} else {
			first, second := f.planNames(&doc)
			term.StdoutDisplay(cmd).WriteSentences(out, doc.sizesText(first, second), doc.summary(first, second))
			writeDifference(out, term.StdoutDisplay(cmd), &doc, first, second)
		}
		return out.Flush()
	})
}

// splitDims distributes the values of --dim to the two plans: it sets f.sizes, f.hasTwoSizes and doc.Sizes. A single
// size of a symbol applies to both plans. Of two sizes, the first applies to the first plan, and the second to the
// second plan. For example, N=1,16 and C=3 give the sizes N=1 C=3 and N=16 C=3. files is the number of files in the
// command line.
func (f *flags) splitDims(files int, doc *Document) error {
	single, err := singleSizes(f.dims)
	if err != nil {
		return err
	}
	indexOf := map[string]int{}      // the index of a symbol's size in both lists of f.sizes
	hasTwoSizes := map[string]bool{} // the key is a symbol
	for _, dim := range single {
		name, _, _ := strings.Cut(dim, "=")
		i, exists := indexOf[name]
		switch {
		case !exists:
			indexOf[name] = len(f.sizes[1])
			f.sizes[0], f.sizes[1] = append(f.sizes[0], dim), append(f.sizes[1], dim)
			continue
		case hasTwoSizes[name]:
			return exit.UsageErrorf("--dim gives three sizes of %s: want one for each plan", name)
		case files == 2:
			return exit.UsageErrorf("--dim gives two sizes of %s: want one file, or one size", name)
		}
		hasTwoSizes[name], f.hasTwoSizes = true, true
		f.sizes[1][i] = dim
	}
	for _, dims := range f.sizes {
		sizes, err := command.ParseDims(dims)
		if err != nil {
			return err
		}
		if f.hasTwoSizes {
			doc.Sizes = append(doc.Sizes, sizes)
		}
	}
	return nil
}

// singleSizes splits values of --dim with several sizes: N=1,16 becomes N=1 and N=16.
func singleSizes(dims []string) (single []string, err error) {
	for _, dim := range dims {
		name, sizes, ok := strings.Cut(dim, "=")
		if !ok {
			return nil, exit.UsageErrorf("--dim %s: want a symbol and its size, as in N=8", dim)
		}
		for size := range strings.SplitSeq(sizes, ",") {
			single = append(single, name+"="+size)
		}
	}
	return single, nil
}

// strategyPair returns the strategies of the two plans. files is the number of files in the command line.
func (f *flags) strategyPair(cmd *cobra.Command, files int) (pair [2]string, err error) {
	optionsDiffer := len(f.pins) > 0 || f.hasTwoSizes || cmd.Flags().Changed("slack")
	for _, s := range f.strategies {
		if err := f.ext.CheckStrategy(s); err != nil {
			return pair, err
		}
	}
	switch len(f.strategies) {
	case 0:
		pair = [2]string{command.DefaultStrategy, command.DefaultStrategy}
		if files == 1 && !optionsDiffer { // the plans must differ in something
			pair[1] = graphrun.ChannelsLast.Name()
		}
	case 1:
		pair = [2]string{f.strategies[0], f.strategies[0]}
		if files == 1 && !optionsDiffer {
			return pair, exit.UsageErrorf("--strategies %s: want a second strategy, a second file, --pin, --slack or a second "+
				"size of --dim to compare with", f.strategies[0])
		}
	case 2:
		pair = [2]string(f.strategies)
	default:
		return pair, exit.UsageErrorf("--strategies %s: want two at most", strings.Join(f.strategies, ","))
	}
	return pair, f.slackFlag.Check(cmd, pair[1])
}

// planBoth loads and plans the files of both plans. If it fails, it also returns the graphs that were loaded.
func (f *flags) planBoth(job *progress.Job, paths, strategies [2]string) (graphs [2]*graph.Graph,
	programs [2]*graphrun.Program, err error) {
	for i := range paths {
		if graphs[i], programs[i], err = f.planFile(job, paths[i], strategies[i], i); err != nil {
			break
		}
	}
	return graphs, programs, err
}

// planFile loads and plans the file of the plan with index 0 or 1. It returns the graph even if planning fails.
func (f *flags) planFile(job *progress.Job, path, strategy string, index int) (g *graph.Graph,
	compiled *graphrun.Program, err error) {
	var pins []string
	slack := 0.0
	if index == 1 || f.hasTwoSizes { // without two sizes, --pin and --slack distinguish the second plan
		pins, slack = f.pins, f.slackFlag.Option()
	}
	err = job.Do(progress.Loading, func() (err error) {
		g, err = f.ext.LoadWithPins(job.Context, path, f.sizes[index], pins)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if err := command.RejectDynamic(g, "the graph runs in segments and has no plan as a whole"); err != nil {
		return g, nil, program.WithFile(path, err)
	}
	err = job.Do(progress.Planning, func() (err error) {
		compiled, err = f.ext.Compile(job.Context, g, graphrun.Options{Strategy: f.ext.Strategy(strategy),
			Progress: job.Enter, Costs: f.costProfile, NoFusion: f.noFusion, Exact: f.exact, Device: f.device, Slack: slack,
			Threads: f.threads, MemoryLimit: -1}) // the plan may be for another machine
		return err
	})
	if err != nil {
		return g, nil, program.WithFile(path, err)
	}
	return g, compiled, nil
}

// planNames returns the names of the plans: their strategies and, if necessary, the files, sizes, pins or slack that
// distinguish them.
func (f *flags) planNames(doc *Document) (first, second string) {
	first, second = doc.First.Strategy, doc.Second.Strategy
	if doc.Files[0] != doc.Files[1] {
		first, second = doc.Files[0]+" "+first, doc.Files[1]+" "+second
	}
	if doc.Sizes != nil { // pins and slack apply to both plans
		sizes := [2]string{program.SizesText(doc.Sizes[0]), program.SizesText(doc.Sizes[1])}
		if first != second {
			return first + " " + sizes[0], second + " " + sizes[1]
		}
		return sizes[0], sizes[1]
	}
	if len(f.pins) > 0 {
		second += " pinned"
	}
	if f.slackFlag.Option() > 0 {
		second += " --slack " + f.slackFlag.String()
	}
	return first, second
}

// changedSymbols lists the symbols with different sizes in the two plans.
func (doc *Document) changedSymbols() []string {
	var list []string
	if doc.Sizes != nil {
		for _, symbol := range sorted.Keys(doc.Sizes[0]) {
			if doc.Sizes[0][symbol] != doc.Sizes[1][symbol] {
				list = append(list, symbol)
			}
		}
	}
	return list
}
