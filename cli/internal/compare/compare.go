// Package compare implements "graphrun compare". It measures strategies side by side, for each combination of file,
// sizes and threads. Package experiment makes the measurements and the statistical tests; this package prints the
// results as text, JSON (document.go), CSV (csv.go), or an HTML page (html.go).
package compare

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/inputs"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// flags are the options of the command.
type flags struct {
	ext     *command.Extensions
	sources inputs.Sources

	// What is measured: every strategy for every combination of a file, sizes and a number of threads.
	strategies   []string
	variantTexts []string   // the values of --variant
	variants     []*variant // set by readVariants
	dims, pins   []string
	threads      []int

	// When the measurement ends.
	runs, turnRuns int     // turnRuns is the number of consecutive runs of a strategy in a round
	untilText      string  // the value of --until, such as 1%
	untilShare     float64 // the parsed value, such as 0.01; 0 without --until

	// The compilation of the graphs.
	costs, prices   string
	costProfile     *pricing.Profile // the prices of --costs or of this machine: see command.CostProfile
	noFusion, exact bool
	device          string
	solver          command.SolveLimit
	slack           command.Slack

	// The output.
	json, markdown         bool
	csv, benchstat, report string // paths of additional files; empty for none
}

const help = `Runs graphs under several strategies on the same inputs, in rounds. In each round every strategy has a
turn, in random order, so that disturbances of the machine affect all strategies equally. A turn is
three consecutive runs. The first is not measured, because the caches then have data of another strategy
(--turn 1 measures every run). Inputs come from --inputs and --input, or are generated from --seed, as
graphrun run does. Every combination of files, sizes (--dim N=1,2,4) and numbers of threads (--threads
1,2) is measured. Strategies with equal plans are measured once.

The text begins with the fastest strategy of each combination. It ends with the complete verdict for each
combination if that is longer: the fastest strategies, and how much slower the others are.
All pairs of plans are tested (Mann-Whitney U test of the medians of turns) with Holm's correction; a
difference is significant if p < 0.01. For pairs without a significant difference, the verdict states the
number of runs that would detect a difference of 2%. If the runs are too few for any difference to be
significant, the verdict states how many are needed. Notes warn of disturbances: times that vary or drift,
and other busy processes (on Linux).

--variant NAME:SETTING=VALUE measures further plans beside the strategies: optimal with other pins
(pin=NODE=impl:NAME), chosen at other prices (costs=FILE, prices=FILE), or plan N of the cheapest (k=N).
The plans of all variants are priced at the same prices as those of the strategies, and their gaps are
relative to the same bound; the bound is for plans without the pins of variants.

--until 1% makes at least 20 runs, and measures until the 95% confidence interval of each median extends
at most 1% to either side. It ends earlier after --runs runs or, without --runs, after 1000 runs or a
minute.

Columns for each strategy:
  cost      the estimated cost of the plan on one core, and the gap to a proved lower bound
  median    of the measured times, with its 95% confidence interval (±; - for fewer than 6 runs)
  vs        the difference from the first strategy if significant, else ~; = for an equal plan
  p         the p-value with Holm's correction
  regret    how much slower than the fastest measured plan, if significant, else ~; 0.0% for the fastest
  copies    the number of inserted copies, their bytes, and the bytes that all steps read and write (moved)
  on NAME   with --device: the steps that the device NAME computes, and the uploads and downloads, which are
            copies, too
  peak      memory without inputs and constants, and with constants (+weights)
  plan      the time of planning and compiling, without folded constants and generated code

All strategies must give the same values: integers and bools exactly, floats with a difference of at most
2e-5 (for float32) relative to the largest value or, with --exact, to each value. Differing values are a
failure (exit code 1).

--csv writes a row for each run, with constant properties repeated, for pandas and R; --benchstat
writes the format of Go benchmarks, for benchstat -col /strategy; --report writes an HTML page.
With --json every row has its samples, in the order of the runs.

Ctrl-C or a failure ends the measurement; the measurements so far are printed and written
("interrupted" is true in JSON). The exit code is then 130 after Ctrl-C, otherwise the exit code of the failure.`

// Command returns the command compare.
func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "compare FILE...",
		Short: "Measure strategies side by side and check that they agree",
		Long:  help,
		Example: `  graphrun compare examples/models/residual.json
  graphrun compare model.json --strategies propagate,channels_last --runs 50 --json
  graphrun compare model.onnx --strategies optimal,published
  graphrun compare model.onnx --inputs in.npz --pin conv1=channels_last
  graphrun compare small.onnx large.onnx --dim N=1,2,4 --threads 1,2 --csv times.csv
  graphrun compare model.onnx --until 1%
  graphrun compare model.onnx --variant fast:pin=conv1=impl:nhwc --variant second:k=2 --variant new:costs=costs.json
  graphrun compare model.json --benchstat times.txt --report out.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.UsageError(cmd, "compare wants one or more graph files, got none")
			}
			return nil
		},
		ValidArgsFunction: command.CompleteGraphs,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			return run(cmd, args, f)
		}),
	}
	f.addFlags(cmd)
	return cmd
}

func (f *flags) addFlags(cmd *cobra.Command) {
	flagSet := cmd.Flags()
	flagSet.StringSliceVar(&f.strategies, "strategies", f.ext.Unpublished(),
		"compare strategies `A,B` with the first one; \"published\" stands for the strategies of published optimizers, "+
			"\"all\" for all")
	_ = cmd.RegisterFlagCompletionFunc("strategies", f.ext.CompleteGroups)
	flagSet.StringArrayVar(&f.variantTexts, "variant", nil, variantHelp)
	flagSet.BoolVar(&f.json, "json", false, "print JSON")
	flagSet.BoolVar(&f.markdown, "markdown", false, "print the table in Markdown")
	flagSet.StringVar(&f.csv, "csv", "", "also write a row for each run to `FILE.csv`")
	_ = cmd.MarkFlagFilename("csv", "csv")
	flagSet.StringVar(&f.benchstat, "benchstat", "", "also write the times to `FILE`, in the format of Go's benchmarks")
	flagSet.StringVar(&f.report, "report", "", "also write the comparison to `FILE.html`")
	_ = cmd.MarkFlagFilename("report", "html")
	f.sources.AddFlags(cmd)
	command.PinFlag(cmd, &f.pins)
	flagSet.IntVar(&f.runs, "runs", 20, "measure `N` runs of each strategy, after warm-up; with --until at most N")
	flagSet.StringVar(&f.untilText, "until", "",
		"measure until the confidence interval of each median is at most ± `PERCENT`, such as 1%, or a limit is reached")
	flagSet.IntVar(&f.turnRuns, "turn", 3,
		"run each strategy `N` times in succession and measure all runs except the first; with 1, measure every run")
	flagSet.IntSliceVar(&f.threads, "threads", nil,
		"measure with `N,M` workers; 0 is GOMAXPROCS, the default")
	command.FusionFlag(cmd, &f.noFusion)
	command.ExactFlag(cmd, &f.exact)
	command.DeviceFlag(cmd, &f.device)
	command.CostsFlag(cmd, &f.costs)
	command.PricesFlag(cmd, &f.prices)
	f.solver.AddFlag(cmd)
	f.slack.AddFlag(cmd)
	flagSet.StringArrayVar(&f.dims, "dim", nil, "sizes of a symbolic dimension, as in `N=1,2,4` (repeatable); "+
		command.NoSymbolsHelp)
}

// check validates the flags and expands groups of strategies. A number of threads of 0 is replaced by GOMAXPROCS.
func (f *flags) check(cmd *cobra.Command) error {
	var err error
	if len(f.variantTexts) > 0 && !cmd.Flags().Changed("strategies") {
		f.strategies = []string{layout.Optimal.Name()}
	}
	if f.strategies, err = f.ext.ExpandAndCheckStrategies(f.strategies); err != nil {
		return err
	}
	if f.runs < 1 {
		return exit.UsageErrorf("--runs %d: want at least 1", f.runs)
	}
	if err := f.readUntil(cmd); err != nil {
		return err
	}
	if err := f.solver.Check(); err != nil {
		return err
	}
	if err := f.slack.Check(cmd, f.strategies...); err != nil {
		return err
	}
	if f.turnRuns < 1 {
		return exit.UsageErrorf("--turn %d: want at least 1", f.turnRuns)
	}
	if f.json && f.markdown {
		return exit.UsageErrorf("--json and --markdown exclude each other")
	}
	for i, threads := range f.threads {
		if err := command.CheckThreads(threads); err != nil {
			return err
		}
		if threads == 0 {
			threads = runtime.GOMAXPROCS(0)
			f.threads[i] = threads
		}
		if slices.Contains(f.threads[:i], threads) {
			return exit.UsageErrorf("--threads names %d twice", threads)
		}
	}
	if len(f.threads) == 0 {
		f.threads = []int{runtime.GOMAXPROCS(0)}
	}
	if err := f.sources.Check(cmd); err != nil {
		return err
	}
	return cmp.Or(outfile.CheckWritable("--report", f.report, ".html"), outfile.CheckWritable("--csv", f.csv, ".csv"),
		outfile.CheckWritable("--benchstat", f.benchstat))
}

// readUntil parses --until. With --until and without --runs, it sets runs to 0, so that [experiment.Compare] uses its
// default limits.
func (f *flags) readUntil(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("until") {
		return nil
	}
	number, hasPercentSign := strings.CutSuffix(f.untilText, "%")
	percentage, err := strconv.ParseFloat(number, 64)
	if !hasPercentSign || err != nil {
		return exit.UsageErrorf("--until %s: want a percentage, as in 1%%", f.untilText)
	}
	f.untilShare = percentage / 100
	if !(f.untilShare > 0 && f.untilShare < 1) {
		return exit.UsageErrorf("--until %s: want more than 0%% and less than 100%%", f.untilText)
	}
	if !cmd.Flags().Changed("runs") {
		f.runs = 0
	}
	return nil
}

// run measures all combinations, and prints the measurements. If the measurement fails or is interrupted, it prints the
// measurements so far.
func run(cmd *cobra.Command, paths []string, f flags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	var err error
	if f.costProfile, err = command.PricedProfile(cmd, f.costs, f.prices); err != nil {
		return err
	}
	if err := f.readVariants(cmd); err != nil {
		return err
	}
	sizes, err := command.Combinations(f.dims)
	if err != nil {
		return err
	}
	for _, path := range paths { // a missing file is reported before the first measurement
		if _, err := os.Stat(path); err != nil {
			return exit.UsageError(files.WithPath(path, err))
		}
	}
	command.LimitGarbage()
	compared := &comparison{flags: f, files: command.FileLabels(paths), commandLine: command.CommandLine(cmd, paths),
		printed: map[string]bool{}, otherPrices: map[string]bool{}}
	measureErr := compared.measureAll(cmd, paths, sizes)
	if measureErr != nil && len(compared.rows) == 0 {
		return measureErr
	}
	interruptErr := exit.InterruptError(cmd.Context())
	compared.Interrupted = measureErr != nil || interruptErr != nil
	showErr := compared.show(cmd)
	switch {
	case interruptErr != nil:
		return cmp.Or(showErr, interruptErr)
	case measureErr != nil:
		return measureErr
	}
	return showErr
}

// comparison has the measurements so far. Rows with the same file, sizes and threads form a combination. The first row
// of a combination is the base with which the other rows are compared. For example, two strategies and --dim N=1,8 give
// four rows in two combinations:
//
//	model.onnx N=1, 2 threads: propagate (the base), channels_last
//	model.onnx N=8, 2 threads: propagate (the base), channels_last
type comparison struct {
	flags       flags
	files       map[string]string // the label of each file in results, by path
	commandLine string
	profile     report.Profile // the cost profile of all plans
	rows        []Row
	notes       report.Notes    // notes about all graphs
	printed     map[string]bool // the notes that were printed
	otherPrices map[string]bool // the variants whose costs are at other prices than those of the other plans

	Verdicts    []Verdict
	Differences []string // the outputs with different values, in words
	Unchecked   bool     // whether some outputs were not compared
	Interrupted bool     // whether the measurement is incomplete
}

// measureAll measures the strategies for every combination. sizes has a list of values of --dim for each combination of
// sizes. If the context ends, it returns an error; c has the measurements so far.
func (c *comparison) measureAll(cmd *cobra.Command, paths []string, sizes [][]string) error {
	for _, path := range paths {
		for _, dims := range sizes {
			job := progress.Begin(cmd, filepath.Base(path))
			workload, err := c.load(job, path, dims)
			if err == nil {
				err = c.measureThreads(job, path, workload, dims)
			}
			job.End()
			if workload.Graph != nil {
				c.printNotes(cmd, path, workload)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// load loads a graph and its inputs. dims are the values of --dim.
func (c *comparison) load(job *progress.Job, path string, dims []string) (workload inputs.Workload, err error) {
	err = job.Do(progress.Loading, func() (err error) {
		var hints []map[string]int // none: dims determines the sizes
		workload, err = inputs.LoadWorkload(job.Context, c.flags.ext, path, dims, c.flags.pins, hints, c.flags.sources)
		return err
	})
	if err != nil {
		return inputs.Workload{}, err
	}
	if err := command.RejectDynamic(workload.Graph,
		"the graph runs in segments, whose plans are not compared"); err != nil {
		return inputs.Workload{}, program.WithFile(path, err)
	}
	return workload, nil
}

// measureThreads measures the strategies for every number of threads. dims are the values of --dim.
func (c *comparison) measureThreads(job *progress.Job, path string, workload inputs.Workload, dims []string) error {
	for _, threads := range c.flags.threads {
		if err := c.measure(job, path, workload, dims, threads); err != nil {
			return err
		}
	}
	return nil
}

// measure measures the strategies for one combination. dims are the values of --dim.
func (c *comparison) measure(job *progress.Job, path string, workload inputs.Workload, dims []string,
	threads int) error {
	var candidates []experiment.Candidate // a program for each strategy
	var bound *float64
	options := graphrun.Options{Threads: threads, InputsInMemory: true, NoFusion: c.flags.noFusion, Exact: c.flags.exact,
		Device: c.flags.device, Costs: c.flags.costProfile, SolveLimit: c.flags.solver.Option(),
		Slack: c.flags.slack.Option(), Progress: job.EnterPhaseBeforeRun}
	err := job.Do(progress.Planning, func() (err error) {
		candidates, bound, err = c.compile(job.Context, workload.Graph, options)
		return err
	})
	if err != nil {
		return program.WithFile(path, err)
	}
	measured, err := experiment.Compare(job.Context, candidates, workload.Inputs.Values,
		experiment.Options{Runs: c.flags.runs, Until: c.flags.untilShare, Turn: c.flags.turnRuns,
			BoundNS: bound, Seed: c.flags.sources.Seed, Progress: job.Report})
	if err != nil {
		return workload.Inputs.HintAtGeneratedValues(err)
	}
	sizes, err := command.SizesOf(workload.Graph, dims)
	if err != nil {
		return err
	}
	c.addCombination(path, sizes, threads, measured)
	return exit.InterruptError(job.Context)
}

// compile compiles a graph with every strategy and variant, and returns the programs and a lower bound on the cost of
// any plan without the pins and prices of variants.
// In the first compilation, the time of the first program includes the folded constants, packed constants and machine
// code that all programs share. Therefore every program is compiled twice: the planning times of the second compilation
// can be compared, and its programs are returned.
func (c *comparison) compile(ctx context.Context, g *graph.Graph,
	options graphrun.Options) (list []experiment.Candidate, bound *float64, err error) {
	contestants, err := c.contestants(ctx, g, options)
	if err != nil {
		return nil, nil, err
	}
	var previous []experiment.Candidate
	for range 2 {
		previous, list, bound = list, nil, nil
		for _, planned := range contestants {
			compiled, err := c.flags.ext.Compile(ctx, planned.graph, planned.options)
			if err != nil && planned.isVariant {
				err = fmt.Errorf("variant %s: %w", planned.name, err)
			}
			if err != nil {
				return nil, nil, err
			}
			list = append(list, experiment.Candidate{Name: planned.name, Program: compiled})
			if !planned.isVariant {
				bound = cmp.Or(bound, compiled.Report().LowerBoundNS)
				c.profile = compiled.Report().Profile
			}
			if !planned.isRepriced {
				c.otherPrices[planned.name] = true
			}
		}
	}
	runtime.KeepAlive(previous) // the first programs keep the shared constants alive until the second ones are compiled
	if bound == nil {
		options.Passes = c.flags.ext.Passes()
		bound, err = experiment.LowerBound(g, options)
	}
	return list, bound, err
}

// addCombination adds the measurements of one combination.
func (c *comparison) addCombination(path string, dims map[string]int, threads int, measured *experiment.Comparison) {
	combination := Combination{c.files[path], dims, threads}
	texts := c.flags.texts()
	for _, m := range measured.Rows {
		if c.otherPrices[m.Name] {
			m.BoundNS, m.Gap = nil, nil
		}
		c.rows = append(c.rows, Row{combination, m, texts[m.Name], c.otherPrices[m.Name]})
	}
	if measured.Verdict != nil {
		c.Verdicts = append(c.Verdicts, Verdict{combination, *measured.Verdict})
	}
	for _, difference := range measured.Differences {
		if len(c.flags.threads) > 1 || len(c.flags.dims) > 0 {
			difference = c.rows[len(c.rows)-1].Label() + ": " + difference
		}
		c.Differences = append(c.Differences, difference)
	}
	c.Unchecked = c.Unchecked || !measured.HasOutputs
}

// printNotes prints the notes about a file that were not printed yet, and adds notes of the graph to the document.
func (c *comparison) printNotes(cmd *cobra.Command, path string, workload inputs.Workload) {
	for _, v := range c.Verdicts {
		if v.Noise == "" || v.File != c.files[path] {
			continue
		}
		if text := v.Label() + v.Noise; !c.printed[text] {
			c.printed[text] = true
			term.PrintNote(cmd, "%s: disturbed measurement: %s", v.Label(), v.Noise)
		}
	}
	notes := workload.Graph.Notes()
	if text := fmt.Sprint(path, notes); !c.printed[text] {
		c.printed[text] = true
		command.PrintNotes(cmd, path, workload.Graph)
		command.AddNotes(&c.notes, notes)
	}
	for _, text := range workload.Inputs.Notes() {
		if !c.printed[text] {
			c.printed[text] = true
			term.PrintNote(cmd, "%s", text)
		}
	}
}

// show prints the comparison and writes the files of --csv, --benchstat and --report. It returns an error if outputs of
// strategies have different values.
func (c *comparison) show(cmd *cobra.Command) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	if c.flags.json {
		document.Write(out, c.doc())
	} else {
		c.writeTable(out, term.StdoutDisplay(cmd))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, file := range []struct {
		path  string
		write func(io.Writer) error
	}{{c.flags.csv, c.writeCSV}, {c.flags.benchstat, c.writeBenchmarks}, {c.flags.report, c.writeHTML}} {
		if file.path == "" {
			continue
		}
		// Files are written after an interruption, too.
		if err := outfile.Write(context.WithoutCancel(cmd.Context()), file.path, file.write); err != nil {
			return err
		}
	}
	if len(c.Differences) > 0 {
		return fmt.Errorf("the strategies give different values: %s", c.Differences[0])
	}
	return nil
}
