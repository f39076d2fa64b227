package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

type compareFlags struct {
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
		Long: `Runs a graph under several strategies on the same made-up inputs, in turns, so that whatever
slows the machine down slows all of them. Shows the measured time with its spread, the
inserted copies and their bytes, and the peak memory; and checks that all outputs have the
same values: integers and bools exactly, floats within a few units in the last place.
Values that differ are a failure (exit code 1).`,
		Example: `  graphrun compare examples/models/residual.json
  graphrun compare model.json --strategies propagate,channels_last --runs 50 --json
  graphrun compare model.json --report out.html`,
		Args:              oneFile,
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return compare(cmd, args[0], f)
		}),
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.strategies, "strategies", passes.Strategies(), "strategies to compare, the first is the base")
	_ = cmd.RegisterFlagCompletionFunc("strategies", completeStrategies)
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.StringVar(&f.report, "report", "", "write the comparison to an .html file too")
	_ = cmd.MarkFlagFilename("report", "html")
	f.timing.add(cmd)
	dimFlag(cmd, &f.dims)
	return cmd
}

func (f *compareFlags) check() error {
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
	return f.timing.check()
}

func compare(cmd *cobra.Command, path string, f compareFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	g, in, err := loadTimed(path, f.dims, f.timing.seed)
	if err != nil {
		return err
	}
	tell(cmd.ErrOrStderr(), path, g)
	c := &comparison{File: path, Threads: f.timing.workers()}
	for _, s := range f.strategies {
		p, err := prepare(g, passes.Options{Strategy: s}, f.timing.threads)
		if err != nil {
			return named(path, err)
		}
		c.runners = append(c.runners, newRunner(p, in))
	}
	var m meter
	_, err = withProgress(cmd.ErrOrStderr(), g.Name, &m, func() (struct{}, error) {
		return struct{}{}, c.measure(cmd.Context(), f.timing.runs, &m)
	})
	if err != nil {
		return runError(cmd.Context(), err)
	}
	c.check(g)
	return c.show(cmd, f)
}

// comparison is a set of strategies, measured. The first is the base.
type comparison struct {
	File      string
	Threads   int
	runners   []*runner
	Different []string // what values differ, and by how much
}

// measure runs all strategies in turns.
func (c *comparison) measure(ctx context.Context, runs int, m *meter) error {
	for i := range warmUps + runs {
		m.report(i, warmUps+runs)
		for _, r := range c.runners {
			if err := r.once(ctx, i >= warmUps); err != nil {
				return fmt.Errorf("strategy %s: %w", r.plan.plan.Strategy, err)
			}
		}
	}
	return nil
}

// check compares the outputs of the last runs with those of the base.
func (c *comparison) check(g *graph.Graph) {
	base := c.runners[0]
	for _, r := range c.runners[1:] {
		for _, o := range g.Outputs {
			if why := differ(base.out[o.Name], r.out[o.Name]); why != "" {
				c.Different = append(c.Different, fmt.Sprintf("output %q under %s and %s: %s",
					o.Name, base.plan.plan.Strategy, r.plan.plan.Strategy, why))
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
		c.writeJSON(out)
	} else {
		c.writeTable(out)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if f.report != "" {
		file, err := os.Create(f.report)
		if err != nil {
			return err
		}
		err = c.writeHTML(file)
		if closing := file.Close(); err == nil {
			err = closing
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.report, err)
		}
	}
	if len(c.Different) > 0 {
		return fmt.Errorf("the strategies give different values: %s", c.Different[0])
	}
	return nil
}

func (c *comparison) writeJSON(w *bufio.Writer) {
	d := newDocument(w)
	d.field("file", c.File)
	d.field("threads", c.Threads)
	d.field("equal", len(c.Different) == 0)
	d.field("differences", filled(c.Different))
	d.objects("strategies", len(c.runners), func(i int, d *document) {
		r := c.runners[i]
		d.field("strategy", r.plan.plan.Strategy)
		r.spread().fields(d)
		r.plan.fields(d)
	})
	d.told(c.runners[0].plan.plan.Graph)
	d.end()
}

// row is a line of the table and of the report.
type row struct {
	Strategy, Median, Min, P10, P90, Ratio string
	Copies                                 int
	Copied, Peak                           string
	Percent                                float64 // of the slowest median
}

func (c *comparison) rows() []row {
	slowest := 0.0
	for _, r := range c.runners {
		slowest = max(slowest, r.spread().Median)
	}
	base := c.runners[0].spread().Median
	var rows []row
	for _, r := range c.runners {
		s := r.spread()
		rows = append(rows, row{r.plan.plan.Strategy, nanoseconds(s.Median), nanoseconds(s.Min), nanoseconds(s.P10),
			nanoseconds(s.P90), fmt.Sprintf("%.2fx", s.Median/base), len(r.plan.plan.Copies), byteSize(r.plan.copyBytes()),
			byteSize(r.plan.program.PeakBytes()), 100 * s.Median / slowest})
	}
	return rows
}

func (c *comparison) writeTable(w *bufio.Writer) {
	t := newTable("strategy", "median", "p10", "p90", "time", "copies", "copied", "peak memory")
	for _, r := range c.rows() {
		t.add(r.Strategy, r.Median, r.P10, r.P90, r.Ratio, r.Copies, r.Copied, r.Peak)
	}
	t.write(w)
	fmt.Fprintf(w, "%s each, in turns, %s\n", count(c.runners[0].spread().Runs, "run"), count(c.Threads, "thread"))
	if len(c.Different) == 0 {
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
	for _, s := range passes.Strategies() {
		if !slices.Contains(strings.Split(head, ","), s) {
			out = append(out, head+s)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
