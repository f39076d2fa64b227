// Package compare is the command that measures strategies side by side.
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
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/report"
)

type flags struct {
	ext             *command.Extensions
	src             inputs.Sources
	strategies      []string
	dims, pins      []string
	threads         []int
	runs, turn      int
	costs           string
	prices          *machine.Profile // that costs names
	noFusion, exact bool
	solver          command.SolveLimit
	json            bool
	markdown        bool
	// Files that are written beside what is printed; empty for none.
	csv, benchstat, report string
}

func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "compare FILE...",
		Short: "Measure strategies side by side and check that they agree",
		Long: `Runs graphs under several strategies on the same inputs, in rounds: in each round every strategy has
its turn, in an order that is drawn anew, so that whatever slows the machine down slows all of them.
A turn is three runs in a row, of which the first is not measured, since it finds in the caches what
another strategy left there (--turn 1 measures every run, each after one of another strategy).
Inputs come from --inputs and --input, else they are made from --seed, as run does. With several
files, sizes (--dim N=1,2,4) or numbers of threads (--threads 1,2), every combination is measured.

For each strategy it shows
  cost      what the model estimates for the plan, on one core, and by how much that exceeds the
            least that any plan costs, where a strategy proves such a bound (gap)
  median    of the measured times, and how far its 95% confidence interval reaches (±)
  vs        the difference from the first strategy, where it is significant (Mann-Whitney U test,
            p < 0.05), else ~
  copies    that were inserted, their bytes, and the bytes of all that steps read and make (moved)
  peak      memory beside inputs and constants, and with the constants (+weights)
  plan      the time of planning and compiling, once constants are computed and machine code is made

and checks that all outputs have the same values: integers and bools exactly, floats within 2e-5
(float32) of the largest value, with --exact of each value. Values that differ are a failure (exit code 1).

--csv writes a row for each run, with all that is constant repeated, for pandas and R; --benchstat
writes what Go's benchmarks print, for benchstat -col /strategy; --report a page for browsers.
With --json every row has its samples, in the order of the runs.

Ctrl-C ends the measurement, and so does what fails: what was measured until then is printed and
written ("interrupted" is true in JSON). The exit code is 130 then, or that of the failure.`,
		Example: `  graphrun compare examples/models/residual.json
  graphrun compare model.json --strategies propagate,channels_last --runs 50 --json
  graphrun compare model.onnx --inputs in.npz --pin conv1=channels_last
  graphrun compare small.onnx large.onnx --dim N=1,2,4 --threads 1,2 --csv times.csv
  graphrun compare model.json --benchstat times.txt --report out.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Misused(cmd, "compare wants a graph file, or several, got none")
			}
			return nil
		},
		ValidArgsFunction: command.CompleteGraphs,
		RunE: exit.Coded(func(cmd *cobra.Command, args []string) error {
			return run(cmd, args, f)
		}),
	}
	f.add(cmd)
	return cmd
}

func (f *flags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.strategies, "strategies", f.ext.StrategyNames(),
		"compare strategies `A,B`, the first is the base")
	_ = cmd.RegisterFlagCompletionFunc("strategies", f.ext.CompleteStrategies)
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.BoolVar(&f.markdown, "markdown", false, "print the table in Markdown")
	fl.StringVar(&f.csv, "csv", "", "write a row for each run to `FILE.csv` too")
	_ = cmd.MarkFlagFilename("csv", "csv")
	fl.StringVar(&f.benchstat, "benchstat", "", "write the times as Go's benchmarks print them to `FILE` too")
	fl.StringVar(&f.report, "report", "", "write the comparison to `FILE.html` too")
	_ = cmd.MarkFlagFilename("report", "html")
	f.src.AddFlags(cmd)
	command.PinFlag(cmd, &f.pins)
	fl.IntVar(&f.runs, "runs", 20, "measure `N` runs of each, after warm-up")
	fl.IntVar(&f.turn, "turn", 3, "run each `N` times in a row and measure all of them but the first, or with 1 all")
	fl.IntSliceVar(&f.threads, "threads", nil,
		"run on `N,M` workers, one number after the other; 0 is GOMAXPROCS, the default")
	command.FusionFlag(cmd, &f.noFusion)
	command.ExactFlag(cmd, &f.exact)
	command.CostsFlag(cmd, &f.costs)
	f.solver.AddFlag(cmd)
	fl.StringArrayVar(&f.dims, "dim", nil, "sizes of a symbolic dimension, as in `N=1,2,4` (repeatable)")
}

func (f *flags) check(cmd *cobra.Command) error {
	for flag, want := range map[string]string{"report": ".html", "csv": ".csv"} {
		path := map[string]string{"report": f.report, "csv": f.csv}[flag]
		if path != "" && filepath.Ext(path) != want {
			return exit.Wrongf("--%s %s: want a %s file", flag, path, want)
		}
	}
	if err := f.checkStrategies(); err != nil {
		return err
	}
	if f.runs < 1 {
		return exit.Wrongf("--runs %d: want at least 1", f.runs)
	}
	if err := f.solver.Check(); err != nil {
		return err
	}
	if f.turn < 1 {
		return exit.Wrongf("--turn %d: want at least 1", f.turn)
	}
	if f.json && f.markdown {
		return exit.Wrongf("--json and --markdown both say how to print: want one of them")
	}
	for i, n := range f.threads {
		if err := command.CheckThreads(n); err != nil {
			return err
		}
		if n == 0 {
			n = runtime.GOMAXPROCS(0)
			f.threads[i] = n
		}
		if slices.Contains(f.threads[:i], n) {
			return exit.Wrongf("--threads names %d twice", n)
		}
	}
	if len(f.threads) == 0 {
		f.threads = []int{runtime.GOMAXPROCS(0)}
	}
	if err := f.src.Check(cmd); err != nil {
		return err
	}
	for _, file := range [][2]string{{"--report", f.report}, {"--csv", f.csv}, {"--benchstat", f.benchstat}} {
		if err := outfile.CheckWritable(file[0], file[1]); err != nil {
			return err
		}
	}
	return nil
}

// checkStrategies rejects unknown and repeated strategies.
func (f *flags) checkStrategies() error {
	seen := map[string]bool{}
	for _, s := range f.strategies {
		if err := f.ext.CheckStrategy(s); err != nil {
			return err
		}
		if seen[s] {
			return exit.Wrongf("--strategies names %q twice", s)
		}
		seen[s] = true
	}
	if len(f.strategies) == 0 {
		return exit.Wrongf("--strategies is empty")
	}
	return nil
}

func run(cmd *cobra.Command, paths []string, f flags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	var err error
	if f.prices, err = command.Prices(cmd, f.costs); err != nil {
		return err
	}
	sizes, err := command.Combinations(f.dims)
	if err != nil {
		return err
	}
	for _, path := range paths { // before anything is measured
		if _, err := os.Stat(path); err != nil {
			return exit.Wrong(files.InFile(path, err))
		}
	}
	command.CollectEarly()
	s := &comparison{flags: f, files: command.FileLabels(paths), seen: map[string]bool{}}
	err = s.measureAll(cmd, paths, sizes)
	cut := exit.Stopped(cmd.Context())
	if err != nil && len(s.rows) == 0 {
		return err
	}
	s.Interrupted = err != nil || cut != nil
	shown := s.show(cmd) // what was measured before something failed
	switch {
	case cut != nil:
		return cmp.Or(shown, cut)
	case err != nil:
		return err
	}
	return shown
}

// comparison is what was measured so far. Of each combination of a file, sizes and threads the first row is the base.
type comparison struct {
	flags       flags
	files       map[string]string // what files are called, by path
	rows        []Row
	Interrupted bool     // before all of it was done
	Unchecked   bool     // for some there were no outputs to compare
	Different   []string // what values differ, and by how much
	notes       report.Notes
	seen        map[string]bool // of what was told beside results
}

// measureAll measures every combination. When the context ends there is an error, and the rows have what was measured
// until then.
func (s *comparison) measureAll(cmd *cobra.Command, paths []string, sizes [][]string) error {
	for _, path := range paths {
		for _, dims := range sizes {
			j := progress.Begin(cmd, filepath.Base(path))
			t, err := s.load(j, path, dims)
			for _, threads := range s.flags.threads {
				if err == nil {
					err = s.measure(j, path, t, dims, threads)
				}
			}
			j.End()
			if t.Graph != nil {
				s.tell(cmd, path, t)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *comparison) load(j *progress.Job, path string, dims []string) (t inputs.Workload, err error) {
	err = j.Do(progress.Loading, func() (err error) {
		t, err = inputs.LoadWorkload(j.Context, s.flags.ext, path, dims, s.flags.pins, nil, s.flags.src)
		return err
	})
	if err != nil {
		return inputs.Workload{}, err
	}
	err = command.RejectDynamic(t.Graph, "the graph can be run and measured, but plans of it are not compared as a whole")
	if err != nil {
		return inputs.Workload{}, exit.InFile(path, err)
	}
	return t, nil
}

// measure measures the strategies on one number of threads. dims are the sizes that were given.
func (s *comparison) measure(j *progress.Job, path string, t inputs.Workload, dims []string, threads int) error {
	var list []experiment.Candidate
	var bound *float64
	o := graphrun.Options{Threads: threads, InputsHeld: true, NoFusion: s.flags.noFusion, Exact: s.flags.exact,
		Costs: s.flags.prices, SolveLimit: s.flags.solver.Option(), Progress: j.EnterUntilRun}
	err := j.Do(progress.Planning, func() (err error) {
		list, bound, err = s.compile(j.Context, t.Graph, o)
		return err
	})
	if err != nil {
		return exit.InFile(path, err)
	}
	c, err := experiment.Compare(j.Context, list, t.Inputs.Values,
		experiment.Options{Runs: s.flags.runs, Turn: s.flags.turn,
			BoundNS: bound, Seed: s.flags.src.Seed, Progress: j.Report})
	if err != nil {
		return t.Inputs.Blame(err)
	}
	sizes, err := sizesOf(t.Graph, dims)
	if err != nil {
		return err
	}
	s.add(path, sizes, threads, c)
	return exit.Stopped(j.Context)
}

// compile plans a graph by every strategy, and finds what any plan costs at least. The constants that the first program
// computes and packs, and its machine code, are the others' too, so each is compiled again while all are there: what
// that takes can be compared.
func (s *comparison) compile(ctx context.Context, g *graph.Graph, o graphrun.Options) (list []experiment.Candidate,
	bound *float64, err error) {
	var first []experiment.Candidate
	for range 2 {
		first, list, bound = list, nil, nil
		for _, name := range s.flags.strategies {
			o.Strategy = s.flags.ext.Strategy(name)
			p, err := s.flags.ext.Compile(ctx, g, o)
			if err != nil {
				return nil, nil, err
			}
			list = append(list, experiment.Candidate{Program: p})
			bound = cmp.Or(bound, p.Report().LowerBoundNS)
		}
	}
	runtime.KeepAlive(first)
	if bound == nil {
		o.Passes = s.flags.ext.Passes
		bound, err = experiment.LowerBound(g, o)
	}
	return list, bound, err
}

// sizesOf returns the sizes of a graph's symbols and the given sizes: the import of an ONNX model replaces symbols with
// given sizes by numbers.
func sizesOf(g *graph.Graph, given []string) (map[string]int, error) {
	sizes, err := command.ParseDims(given)
	if err != nil {
		return nil, err
	}
	for name, n := range g.Bound() {
		sizes[name] = n
	}
	for _, d := range given {
		name, _, _ := strings.Cut(d, "=")
		if symbol, ok := g.SymbolNamed(name); ok && symbol != name {
			delete(sizes, name)
		}
	}
	return sizes, nil
}

// add keeps what was measured of one combination.
func (s *comparison) add(path string, dims map[string]int, threads int, c *experiment.Comparison) {
	for _, m := range c.Rows {
		s.rows = append(s.rows, Row{s.files[path], dims, threads, m})
	}
	for _, d := range c.Differences {
		if len(s.flags.threads) > 1 || len(s.flags.dims) > 0 {
			d = s.rows[len(s.rows)-1].Place() + ": " + d
		}
		s.Different = append(s.Different, d)
	}
	s.Unchecked = s.Unchecked || !c.Outputs
}

// tell prints what should be known beside the results, each thing once, and keeps it for documents.
func (s *comparison) tell(cmd *cobra.Command, path string, t inputs.Workload) {
	n := report.NotesOf(t.Graph)
	if text := fmt.Sprint(path, n); !s.seen[text] {
		s.seen[text] = true
		command.PrintNotes(cmd, path, t.Graph)
		command.AddNotes(&s.notes, n)
	}
	for _, text := range t.Inputs.Notes() {
		if !s.seen[text] {
			s.seen[text] = true
			term.Note(cmd, "%s", text)
		}
	}
}

// show prints the comparison and writes the files that were asked for, and fails if values differ.
func (s *comparison) show(cmd *cobra.Command) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	if s.flags.json {
		document.Write(out, s.doc())
	} else {
		s.writeTable(out, term.Output(cmd))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, file := range []struct {
		path  string
		write func(io.Writer) error
	}{{s.flags.csv, s.writeCSV}, {s.flags.benchstat, s.writeBenchmarks}, {s.flags.report, s.writeHTML}} {
		if file.path == "" {
			continue
		}
		// What was measured before an interruption is worth a file.
		if err := outfile.Write(context.WithoutCancel(cmd.Context()), file.path, file.write); err != nil {
			return err
		}
	}
	if len(s.Different) > 0 {
		return fmt.Errorf("the strategies give different values: %s", s.Different[0])
	}
	return nil
}
