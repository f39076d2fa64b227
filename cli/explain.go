package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

type explainFlags struct {
	strategy, firstBreak  string
	costs                 string
	json, noFusion, exact bool
	dims, pins            []string
	solver                solveLimit
}

func explainCommand() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain FILE VALUE",
		Short: "Tell why a value lies as it does, and what becomes of it",
		Long: `Tells of one value why it has the strides that graphrun infer shows: what the permutation rule saw
of each operand, and each comparison of two dimensions with the operand that decided it; or of what it is
a view; or the rule of its op. Then what becomes of it under the strategy: the step that computes it, and
with what in one loop; copies that are made of it or for it, and why; and which of the nodes beside it could
have been one step with it and are not, and why.

Sizes that are not given stay unknown in the first part, as in graphrun infer: strides are expressions, shown with the
conditions under which they hold. The second part is for the assumed sizes.

--first-break names the first node that reads a value in a memory format and gives one that is not in it, as
the graph is written, and explains that one. No VALUE is wanted then.`,
		Example: `  graphrun explain examples/models/residual.json joined
  graphrun explain model.onnx /layer1/Relu_output_0 --strategy channels_last
  graphrun explain model.json --first-break channels_last`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.firstBreak == "" && len(args) != 2:
				return misused(cmd, "explain wants a graph file and the name of a value, got %s", count(len(args), "argument"))
			case f.firstBreak != "" && len(args) != 1:
				return misused(cmd, "explain --first-break wants one graph file, got %s", count(len(args), "argument"))
			}
			return nil
		},
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return explain(cmd, args[0], strings.Join(args[1:], ""), f)
		}),
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.StringVar(&f.firstBreak, "first-break", "", "explain the first value that loses memory `FORMAT`: contiguous, "+
		"channels_last or channels_last_3d")
	completeFrom(cmd, "first-break", breakFormats)
	strategyFlag(cmd, &f.strategy)
	fusionFlag(cmd, &f.noFusion)
	exactFlag(cmd, &f.exact)
	costsFlag(cmd, &f.costs)
	dimFlag(cmd, &f.dims)
	pinFlag(cmd, &f.pins)
	f.solver.add(cmd)
	return cmd
}

// explainReport is what explain prints.
type explainReport struct {
	Breaks textOrNull `json:"breaks" doc:"The format that --first-break asked for; null for none."`
	Value  *valueDoc  `json:"value" doc:"The value, as infer shows it; null where --first-break found none."`
	*inspect.Explanation
	Guards []guardDoc `json:"guards,omitzero" doc:"Conditions on the assumed sizes under which value and layout hold; run and copies are for these sizes."`
	report.Notes
}

func explain(cmd *cobra.Command, path, value string, f explainFlags) error {
	if err := checkStrategy(f.strategy); err != nil {
		return err
	}
	if err := f.solver.check(); err != nil {
		return err
	}
	format, err := formatOf(f.firstBreak)
	if err != nil {
		return err
	}
	costs, err := pricesOf(cmd, f.costs)
	if err != nil {
		return err
	}
	j := begin(cmd, filepath.Base(path))
	defer j.end()
	var g *graph.Graph
	err = j.do(loading, func() (err error) {
		g, err = loadPinned(j.ctx, path, f.dims, f.pins)
		return err
	})
	if err != nil {
		return err
	}
	var r *explainReport
	err = j.do(planning, func() (err error) {
		r, err = explained(j.ctx, g, path, value, format, graphrun.Options{Strategy: strategyOf(f.strategy),
			Progress: j.enter, Costs: costs, NoFusion: f.noFusion, Exact: f.exact, SolveLimit: f.solver.option(),
			MemoryLimit: -1}) // it may be for another machine
		return err
	})
	j.end()
	if cut := stopped(j.ctx); cut != nil {
		return cut
	}
	tell(cmd, path, g)
	if err != nil {
		return named(path, err)
	}
	return j.do(printing, func() error {
		out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
		if f.json {
			writeDocument(out, r)
		} else {
			writeExplanation(out, shown(cmd), r)
		}
		return out.Flush()
	})
}

// breakFormats are the memory formats that a value can lose.
var breakFormats = []string{tensor.Contiguous.String(), tensor.ChannelsLast.String(), tensor.ChannelsLast3d.String()}

// formatOf is the format that --first-break names; none where it is not given.
func formatOf(name string) (tensor.MemoryFormat, error) {
	if name == "" {
		return tensor.NoFormat, nil
	}
	if format, err := tensor.ParseMemoryFormat(name); err == nil && slices.Contains(breakFormats, name) {
		return format, nil
	}
	return tensor.NoFormat, wrongf("--first-break: no value lies in memory format %q: want one of %s%s", name,
		strings.Join(breakFormats, ", "), suggest.DidYouMean(suggest.Nearest(name, slices.Values(breakFormats))))
}

// explained explains the value of a name, or the first that loses a format.
func explained(ctx context.Context, g *graph.Graph, path, value string, format tensor.MemoryFormat,
	o graphrun.Options) (*explainReport, error) {
	r := &explainReport{Notes: report.NotesOf(g)}
	if format != tensor.NoFormat {
		r.Breaks = textOrNull(format.String())
		v, err := inspect.FirstBreak(g, format)
		if err != nil || v == nil {
			return r, err
		}
		value = v.Name
	}
	v, err := inspect.ValueNamed(g, value)
	if err != nil {
		return nil, wrongf("%s: %w", path, err)
	}
	p, err := compile(ctx, g, o)
	if err != nil {
		return nil, err
	}
	if r.Explanation, err = inspect.Explain(p, v.Name); err != nil {
		return nil, err
	}
	known := program.KnownOf(g)
	d := valueOf(v, known)
	if r.Value = &d; d.Dynamic {
		symbolicValue(&d, known.Unbacked(), v)
	}
	return r, r.leaveOpen(g, v)
}

// leaveOpen describes value and layout as expressions over the sizes that were not given, if any.
func (r *explainReport) leaveOpen(g *graph.Graph, v *graph.Value) error {
	s, err := symbolicOf(g, nil, false)
	if err != nil || s == nil {
		return err
	}
	before := len(s.Env.Guards())
	layout, err := inspect.ExplainLayout(s.Graph, v.Name)
	if err != nil {
		return err
	}
	r.Layout = *layout
	symbolicValue(r.Value, s, v)
	own := s.Graph.Value(v.Name)
	for _, cond := range s.Env.Guards()[before:] {
		s.Guards = append(s.Guards, graph.Guard{Cond: cond, Node: own.Node})
	}
	above := ancestors(own)
	s.Guards = slices.DeleteFunc(s.Guards, func(g graph.Guard) bool {
		return g.Node != nil && !above[g.Node]
	})
	r.Guards = guardsOf(s)
	return nil
}

// ancestors returns the node that computes a value and all nodes that it depends on.
func ancestors(v *graph.Value) map[*graph.Node]bool {
	seen := map[*graph.Node]bool{}
	todo := []*graph.Value{v}
	for len(todo) > 0 {
		last := len(todo) - 1
		n := todo[last].Node
		if todo = todo[:last]; n == nil || seen[n] {
			continue
		}
		seen[n] = true
		for _, a := range n.In {
			if a.Value != nil {
				todo = append(todo, a.Value)
			}
		}
	}
	return seen
}

// writeExplanation prints an explanation for a reader.
func writeExplanation(w io.Writer, show display, r *explainReport) {
	if r.Value == nil {
		fmt.Fprintf(w, "nothing loses %s: no node reads a value that is in it alone, and gives one that is not\n", r.Breaks)
		return
	}
	if r.Breaks != "" {
		fmt.Fprintf(w, "%s is the first that loses %s\n", r.Value.Name, r.Breaks)
	}
	writeLayout(w, show, r)
	writeGuards(w, r.Guards)
	writeFate(w, show, r.Explanation, r.Assumed)
}

// writeLayout tells what a value is, and why it lies so in the graph as written.
func writeLayout(w io.Writer, show display, r *explainReport) {
	v := r.Value
	fmt.Fprintf(w, "%s: %s, %s %s", v.Name, v.Op, cmp.Or(v.DType, "?"), v.Shape)
	if v.Strides != nil {
		fmt.Fprintf(w, " by %s", v.Strides)
		if v.Offset.N != 0 || v.Offset.Name != "" {
			fmt.Fprintf(w, " from %v on", v.Offset)
		}
		if len(v.Flags) > 0 {
			fmt.Fprintf(w, ", %s", strings.Join(v.Flags, ", "))
		}
		for _, flag := range slices.Sorted(maps.Keys(v.Conditions)) {
			fmt.Fprintf(w, "\n%s where %s", flag, v.Conditions[flag])
		}
	}
	fmt.Fprintf(w, "\n\n%s\n%s\n", show.paint(strong, "Layout as written"),
		wrapped(r.Layout.Why, show.proseWidth()))
	writeList(w, show, "What the permutation rule sees", r.Layout.Operands,
		[]column{nameCol("operand"), listCol("effective strides")},
		func(o inspect.Operand) []any { return []any{o.Name, o.Strides.String()} })
	writeList(w, show, "Comparisons of dimensions", r.Layout.Sort, []column{wholeCol("faster"), wholeCol("slower"),
		nameCol("decided by"), proseCol("why"), wholeCol("outcome")}, func(c inspect.Comparison) []any {
		outcome := "stay"
		if c.Exchanged {
			outcome = "exchanged"
		}
		return []any{c.Faster, c.Slower, cmp.Or(c.By, "none"), c.Why, outcome}
	})
	if len(r.Layout.Order) > 0 {
		fmt.Fprintf(w, "order of the dimensions, the slowest first: %s\n", ints(r.Layout.Order))
	}
}

func writeFate(w io.Writer, show display, e *inspect.Explanation, assumed map[string]int) {
	f := &e.Run
	head := "Under strategy " + f.Strategy
	if len(assumed) > 0 {
		head += " for " + sizesText(assumed)
	}
	fmt.Fprintf(w, "\n%s\n%s\n", show.paint(strong, head), wrapped(f.What, show.proseWidth()))
	if f.Step != "" {
		fmt.Fprintf(w, "step %s", f.Step)
		if f.Impl != "" {
			fmt.Fprintf(w, ", implementation %s", f.Impl)
		}
		fmt.Fprintf(w, ", reads %s\n", cmp.Or(strings.Join(f.Reads, ", "), "nothing"))
	}
	if len(f.Strides) > 0 {
		fmt.Fprintf(w, "it lies by %s\n", ints(f.Strides))
	}
	fmt.Fprintf(w, "read by %s\n", cmp.Or(strings.Join(f.Readers, ", "), "no node"))
	list := make([]report.Copy, len(e.Copies))
	for i, c := range e.Copies {
		list[i] = c.Copy
	}
	writeCopies(w, show, "Copies", list)
	for _, c := range e.Copies {
		writeSides(w, show, c)
	}
	writeApart(w, show, e.Apart)
}

// writeSides tells why the two sides of a copy disagree, and what it would cost to do without.
func writeSides(w io.Writer, show display, c inspect.CopyReason) {
	fmt.Fprintf(w, "\n%s\n", show.paint(strong, fmt.Sprintf("The copy of %s into %s", c.Value, ints(c.To))))
	for _, side := range []struct {
		what string
		path []string
	}{{"written so because", c.Written}, {"wanted so because", c.Wanted}} {
		for i, step := range side.path {
			what := ""
			if i == 0 {
				what = side.what
			}
			fmt.Fprintf(w, "  %-20s%s\n", what, step)
		}
	}
	if c.WithoutNS == nil {
		return
	}
	what := fmt.Sprintf("the cheapest plan costs %s more", nanoseconds(*c.WithoutNS))
	if *c.WithoutNS == 0 {
		what = "nothing is lost: one of the cheapest plans has no such copy"
	}
	fmt.Fprintf(w, "  %-20s%s\n", "without it", what)
	if c.Instead == nil {
		return
	}
	if otherwise := c.Instead.String(); otherwise != "" {
		fmt.Fprintf(w, "  %-20s%s\n", "", printable(otherwise))
	}
}
