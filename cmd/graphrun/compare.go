package main

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

type compareFlags struct {
	src        sources
	strategies []string
	timing     timingFlags
	json       bool
	report     string
	dims       []string
}

func compareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare FILE",
		Short: "Measure strategies side by side and check that they agree",
		Long: `Runs a graph under several strategies on the same inputs, in turns, so that whatever slows the
machine down slows all of them. Inputs come from --inputs and --input, else they are made from
--seed, as run does. Shows the measured time with its spread, the inserted copies and their
bytes, and the peak memory; and checks that all outputs have the same values: integers and bools
exactly, floats within a few units in the last place. Values that differ are a failure (exit
code 1).

Ctrl-C ends the measurement: what was measured is printed ("interrupted" is true in JSON), and
the exit code is 130.`,
		Example: `  graphrun compare examples/models/residual.json
  graphrun compare model.json --strategies propagate,channels_last --runs 50 --json
  graphrun compare model.onnx --inputs in.npz
  graphrun compare model.json --report out.html`,
		Args:              oneFile,
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return compare(cmd, args[0], f)
		}),
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.strategies, "strategies", strategyNames(),
		"compare strategies `A,B`, the first is the base")
	_ = cmd.RegisterFlagCompletionFunc("strategies", completeStrategies)
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.StringVar(&f.report, "report", "", "write the comparison to `FILE.html` too")
	_ = cmd.MarkFlagFilename("report", "html")
	f.src.add(cmd)
	f.timing.add(cmd)
	dimFlag(cmd, &f.dims)
	return cmd
}

func (f *compareFlags) check(cmd *cobra.Command) error {
	seen := map[string]bool{}
	if f.report != "" && filepath.Ext(f.report) != ".html" {
		return wrongf("--report %s: want an .html file", f.report)
	}
	for _, s := range f.strategies {
		if err := checkStrategy(s); err != nil {
			return err
		}
		if seen[s] {
			return wrongf("--strategies names %q twice", s)
		}
		seen[s] = true
	}
	if len(f.strategies) == 0 {
		return wrongf("--strategies is empty")
	}
	if err := f.timing.check(); err != nil {
		return err
	}
	if err := f.src.check(cmd); err != nil {
		return err
	}
	return checkWritable("--report", f.report)
}

func compare(cmd *cobra.Command, path string, f compareFlags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	var err error
	if f.timing.prices, err = pricesOf(cmd, f.timing.costs); err != nil {
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
	err = refuseDynamic(t.g, "the graph can be run and measured, but plans of it are not compared as a whole")
	if err != nil {
		return named(path, err)
	}
	c := &comparison{File: path, Threads: f.timing.workers(), Wanted: f.timing.runs}
	for _, s := range f.strategies {
		r := &runner{strategy: s, in: t.in.values, keep: true}
		err := j.do(planning, func() (err error) {
			r.program, err = graphrun.Compile(t.g, f.timing.options(s, j))
			return err
		})
		if err != nil {
			return named(path, err)
		}
		c.runners = append(c.runners, r)
	}
	if err := c.fits(); err != nil {
		return err
	}
	err = measure(j.ctx, c.runners, until{runs: f.timing.runs}, j.report)
	j.end()
	tell(cmd, path, t.g)
	t.in.say(cmd)
	if err != nil {
		return t.in.blame(err)
	}
	cut := stopped(j.ctx)
	c.Interrupted = cut != nil
	c.check(t.g)
	if err := c.show(cmd, f); err != nil {
		return err
	}
	return cut
}

// comparison is a set of strategies, measured. The first is the base.
type comparison struct {
	File        string
	Threads     int
	Wanted      int  // runs
	Interrupted bool // before all of them were done
	runners     []*runner
	Different   []string // what values differ, and by how much
}

// fits checks that the runs can be in memory at the same time: each program keeps its arena and the
// outputs of its last run, while one of them makes others.
func (c *comparison) fits() error {
	var programs []*graphrun.Program
	most := 0
	for _, r := range c.runners {
		programs = append(programs, r.program)
		most = max(most, r.program.Need().Outputs)
	}
	n := graphrun.Together(programs...)
	n.Outputs += most
	if err := n.Check(0, n.Held()+n.Inputs); err != nil {
		return fmt.Errorf("%s side by side: %w", countIrregular(len(programs), "strategy", "strategies"), err)
	}
	return nil
}

// check compares the outputs of the last runs with those of the base, as far as there were
// runs.
func (c *comparison) check(g *graph.Graph) {
	base := c.runners[0]
	for _, r := range c.runners[1:] {
		if base.out == nil || r.out == nil {
			continue
		}
		for _, o := range g.Outputs {
			if why := differ(base.out[o.Name], r.out[o.Name]); why != "" {
				c.Different = append(c.Different, fmt.Sprintf("output %q under %s and %s: %s",
					o.Name, base.strategy, r.strategy, why))
			}
		}
	}
}

// tolerances bound the difference of two results, relative to 1 + |value|: another order of
// summation is all that strategies may change.
var tolerances = map[tensor.DType]float64{
	tensor.Float16: 2e-3, tensor.BFloat16: 2e-2, tensor.Float32: 2e-5, tensor.Float64: 1e-11,
	tensor.Complex64: 5e-5, tensor.Complex128: 1e-10,
}

// show prints the comparison and fails if values differ.
func (c *comparison) show(cmd *cobra.Command, f compareFlags) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		writeDocument(out, c.doc())
	} else {
		c.writeTable(out, shown(cmd))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if f.report != "" {
		// What was measured before an interruption is worth a report.
		if err := writeWhole(context.WithoutCancel(cmd.Context()), f.report, c.writeHTML); err != nil {
			return err
		}
	}
	if len(c.Different) > 0 {
		return fmt.Errorf("the strategies give different values: %s", c.Different[0])
	}
	return nil
}

// compareReport is what compare prints.
type compareReport struct {
	File        string        `json:"file" doc:"The file of the graph."`
	Threads     int           `json:"threads" doc:"The workers of a run."`
	Interrupted bool          `json:"interrupted" doc:"Whether the measurement was ended before its time."`
	Equal       bool          `json:"equal" doc:"Whether no output differs between strategies."`
	Differences []string      `json:"differences" doc:"The outputs that differ, in words."`
	Strategies  []strategyDoc `json:"strategies" doc:"The strategies, of which the first is the base."`
	graphrun.Notes
}

type strategyDoc struct {
	Strategy string `json:"strategy" doc:"The strategy that was applied."`
	spread
	planCosts
	Samples []float64 `json:"samples_ns" doc:"The time of each run, in nanoseconds."`
}

func (c *comparison) doc() *compareReport {
	r := &compareReport{File: c.File, Threads: c.Threads, Interrupted: c.Interrupted, Equal: len(c.Different) == 0,
		Differences: filled(c.Different), Notes: graphrun.NotesOf(c.runners[0].program.Graph())}
	for _, x := range c.runners {
		r.Strategies = append(r.Strategies,
			strategyDoc{x.strategy, x.spread(), costsOf(x.program.Report()), filled(x.times)})
	}
	return r
}

// row is a line of the table and of the report.
type row struct {
	Strategy, Median, Min, P10, P90, Ratio string
	Copies                                 int
	Copied, Peak                           string
	Percent                                float64 // of the slowest median
}

func (r *compareReport) rows() []row {
	slowest := 0.0
	for _, s := range r.Strategies {
		if s.Runs > 0 {
			slowest = max(slowest, *s.Median)
		}
	}
	base := r.Strategies[0].Median
	var rows []row
	for _, s := range r.Strategies {
		x := row{Strategy: s.Strategy, Copies: s.Copies, Copied: byteSize(s.CopiedBytes),
			Peak: byteSize(s.PeakBytes), Median: "-", Min: "-", P10: "-", P90: "-", Ratio: "-"}
		if s.Runs > 0 {
			x.Median, x.Min = nanoseconds(*s.Median), nanoseconds(*s.Min)
			x.P10, x.P90 = nanoseconds(*s.P10), nanoseconds(*s.P90)
			x.Ratio, x.Percent = fmt.Sprintf("%.2fx", *s.Median / *base), 100**s.Median/slowest
		}
		rows = append(rows, x)
	}
	return rows
}

// runs is the number of runs that every strategy was measured for.
func (c *comparison) runs() int {
	n := c.Wanted
	for _, r := range c.runners {
		n = min(n, len(r.times))
	}
	return n
}

func (c *comparison) writeTable(w *bufio.Writer, show display) {
	t := newTable(nameCol("strategy"), wholeCol("median"), wholeCol("p10"), wholeCol("p90"), wholeCol("time"),
		wholeCol("copies"), wholeCol("copied"), wholeCol("peak memory"))
	for _, r := range c.doc().rows() {
		t.add(r.Strategy, r.Median, r.P10, r.P90, r.Ratio, r.Copies, r.Copied, r.Peak)
	}
	t.write(w, show)
	if c.Interrupted {
		fmt.Fprintf(w, "interrupted after %d of ", c.runs())
	}
	fmt.Fprintf(w, "%s each, in turns, %s\n", count(c.Wanted, "run"), count(c.Threads, "thread"))
	if len(c.Different) == 0 && !slices.ContainsFunc(c.runners, func(r *runner) bool { return r.out == nil }) {
		fmt.Fprintln(w, "all strategies give equal values")
	}
	for _, s := range c.Different {
		fmt.Fprintln(w, "DIFFERENT: "+s)
	}
}

// completeStrategies completes the last name of a list, which shells take as one word.
func completeStrategies(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	head := typed[:strings.LastIndex(typed, ",")+1]
	var out []string
	for _, s := range strategyNames() {
		if !slices.Contains(strings.Split(head, ","), s) {
			out = append(out, head+s)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
