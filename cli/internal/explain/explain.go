// Package explain implements "graphrun explain". It prints why a value has its layout and how a program computes it.
// Package inspect computes the explanation.
package explain

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/infer"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/sections"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// flags are the options of the command.
type flags struct {
	ext                   *command.Extensions
	strategy, firstBreak  string
	costs                 string
	json, noFusion, exact bool
	device                string
	dims, pins            []string
	solver                command.SolveLimit
	slack                 command.Slack
}

// Command returns the command explain.
func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "explain FILE VALUE",
		Short: "Explain the layout and the computation of a value",
		Long: `Explains first why a value has the strides that graphrun infer shows. PyTorch's rule for pointwise ops sorts
the dimensions of the result by the strides of the operands. If this rule gives the strides, the explanation
lists the operands and each comparison of two dimensions, with the operand that decided the comparison.
Otherwise it names the value that is viewed, or the rule of the op. Then explain shows how a program computes
the value under the strategy: the step and the nodes fused into it, the copies of the value, and the adjacent
nodes that were not fused, with the reasons.

In the first part, symbolic sizes without --dim stay symbols, as in graphrun infer: strides are expressions,
with the conditions under which they hold. The second part is for the sizes of --dim and, for other symbols,
the sizes that the plan assumes.

--first-break FORMAT explains the first value, in the graph as written, that loses memory format FORMAT: the value
is not in FORMAT, but its node reads a value of the same rank that is in FORMAT and in no other format. VALUE is then
omitted.`,
		Example: `  graphrun explain examples/models/residual.json joined
  graphrun explain model.onnx /layer1/Relu_output_0 --strategy channels_last
  graphrun explain model.json --first-break channels_last`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.firstBreak == "" && len(args) != 2:
				return command.UsageError(cmd, "explain wants a graph file and the name of a value, got %s",
					format.Count(len(args), "argument"))
			case f.firstBreak != "" && len(args) != 1:
				return command.UsageError(cmd, "explain --first-break wants one graph file, got %s",
					format.Count(len(args), "argument"))
			}
			return nil
		},
		ValidArgsFunction: command.CompleteGraph,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			value := strings.Join(args[1:], "") // one argument; none with --first-break
			return run(cmd, args[0], value, f)
		}),
	}
	flagSet := cmd.Flags()
	flagSet.BoolVar(&f.json, "json", false, "print JSON")
	flagSet.StringVar(&f.firstBreak, "first-break", "", "explain the first value that loses the memory format `FORMAT`: "+
		"contiguous, channels_last or channels_last_3d")
	command.CompleteFrom(cmd, "first-break", breakFormats)
	f.ext.StrategyFlag(cmd, &f.strategy)
	command.FusionFlag(cmd, &f.noFusion)
	command.ExactFlag(cmd, &f.exact)
	command.DeviceFlag(cmd, &f.device)
	command.CostsFlag(cmd, &f.costs)
	command.DimFlag(cmd, &f.dims)
	command.PinFlag(cmd, &f.pins)
	f.solver.AddFlag(cmd)
	f.slack.AddFlag(cmd)
	return cmd
}

// Document is the output of explain.
type Document struct {
	FirstBreakFormat document.TextOrNull `json:"breaks" doc:"The format of --first-break; null for none."`
	Value            *infer.ValueDoc     `json:"value" doc:"The value, as infer shows it; null if --first-break found no value."`
	// Explanation has Layout, Outcome (the JSON field run), Copies and Unfused. It is nil if Value is nil.
	*inspect.Explanation
	Guards       []infer.GuardDoc `json:"guards,omitzero" doc:"The conditions on sizes under which the fields value and layout are valid; the fields run and copies are valid only for the assumed sizes."`
	report.Notes                  // has Assumed: the assumed sizes
}

// run loads a graph, compiles it, and explains the named value. With --first-break, the name is empty.
func run(cmd *cobra.Command, path, value string, f flags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	memoryFormat, err := formatOf(f.firstBreak)
	if err != nil {
		return err
	}
	costProfile, err := command.CostProfile(cmd, f.costs)
	if err != nil {
		return err
	}
	job := progress.Begin(cmd, filepath.Base(path))
	defer job.End()
	var g *graph.Graph
	err = job.Do(progress.Loading, func() (err error) {
		g, err = f.ext.LoadWithPins(job.Context, path, f.dims, f.pins)
		return err
	})
	if err != nil {
		return err
	}
	options := graphrun.Options{Strategy: f.ext.Strategy(f.strategy), Progress: job.Enter, Costs: costProfile,
		NoFusion: f.noFusion, Exact: f.exact, Device: f.device, SolveLimit: f.solver.Option(), Slack: f.slack.Option(),
		MemoryLimit: -1} // no limit: the plan may be made for another machine
	var doc *Document
	err = job.Do(progress.Planning, func() (err error) {
		doc, err = f.explainValue(job.Context, g, path, value, memoryFormat, options)
		return err
	})
	job.End() // removes the display of progress, so that notes can be printed
	if interruptErr := exit.InterruptError(job.Context); interruptErr != nil {
		return interruptErr
	}
	command.PrintNotes(cmd, path, g)
	if err != nil {
		return program.WithFile(path, err)
	}
	return job.Do(progress.Printing, func() error {
		out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
		if f.json {
			document.Write(out, doc)
		} else {
			Write(out, term.StdoutDisplay(cmd), doc)
		}
		return out.Flush()
	})
}

// check validates the flags.
func (f *flags) check(cmd *cobra.Command) error {
	if err := f.ext.CheckStrategy(f.strategy); err != nil {
		return err
	}
	if err := f.solver.Check(); err != nil {
		return err
	}
	return f.slack.Check(cmd, f.strategy)
}

// breakFormats are the memory formats of --first-break.
var breakFormats = []string{tensor.Contiguous.String(), tensor.ChannelsLast.String(), tensor.ChannelsLast3d.String()}

// formatOf parses the value of --first-break.
func formatOf(name string) (tensor.MemoryFormat, error) {
	if name == "" {
		return tensor.NoFormat, nil
	}
	if memoryFormat, err := tensor.ParseMemoryFormat(name); err == nil && slices.Contains(breakFormats, name) {
		return memoryFormat, nil
	}
	return tensor.NoFormat, exit.UsageErrorf("--first-break %q: want one of %s%s", name,
		strings.Join(breakFormats, ", "), suggest.DidYouMean(suggest.Nearest(name, slices.Values(breakFormats))))
}

// explainValue explains the named value, or the first value that loses the format of --first-break.
func (f *flags) explainValue(ctx context.Context, g *graph.Graph, path, value string, memoryFormat tensor.MemoryFormat,
	options graphrun.Options) (*Document, error) {
	doc := &Document{Notes: g.Notes()}
	if memoryFormat != tensor.NoFormat {
		doc.FirstBreakFormat = document.TextOrNull(memoryFormat.String())
		explained, err := inspect.FirstBreak(g, memoryFormat)
		if err != nil || explained == nil {
			return doc, err
		}
		value = explained.Name
	}
	explained, err := inspect.ValueNamed(g, value)
	if err != nil {
		return nil, exit.UsageErrorf("%s: %w", path, err)
	}
	compiled, err := f.ext.Compile(ctx, g, options)
	if err != nil {
		return nil, err
	}
	if doc.Explanation, err = inspect.Explain(compiled, explained.Name); err != nil {
		return nil, err
	}
	facts := program.NewPreRunFacts(g)
	valueDoc := infer.ValueDocOf(explained, facts)
	doc.Value = &valueDoc
	if valueDoc.Dynamic { // sizes that depend on data are u0, u1, ...
		infer.SetSymbolicType(&valueDoc, facts.Unbacked(), explained)
	}
	return doc, doc.describeSymbolically(g, explained)
}

// describeSymbolically replaces the sizes and strides in doc.Value and doc.Layout by expressions over the symbols
// without a given size, and sets doc.Guards. It does nothing if all symbols have given sizes.
func (doc *Document) describeSymbolically(g *graph.Graph, v *graph.Value) error {
	const allBranches = false // only the branches that the assumed sizes take
	symbolic, err := infer.SymbolicOf(g, nil, allBranches)
	if err != nil || symbolic == nil {
		return err
	}
	// ExplainLayout may branch on sizes. It adds the conditions to symbolic.Env, but not to symbolic.Guards, which names
	// the node of each condition. The added conditions belong to the value's node.
	guardsBefore := len(symbolic.Env.Guards())
	layout, err := inspect.ExplainLayout(symbolic.Graph, v.Name)
	if err != nil {
		return err
	}
	doc.Layout = *layout
	infer.SetSymbolicType(doc.Value, symbolic, v)
	value := symbolic.Graph.Value(v.Name)
	for _, cond := range symbolic.Env.Guards()[guardsBefore:] {
		symbolic.Guards = append(symbolic.Guards, graph.Guard{Cond: cond, Node: value.Node})
	}
	nodes := ancestors(value) // guards of other nodes do not concern the value
	symbolic.Guards = slices.DeleteFunc(symbolic.Guards, func(guard graph.Guard) bool {
		return guard.Node != nil && !nodes[guard.Node]
	})
	doc.Guards = infer.GuardsOf(symbolic)
	return nil
}

// ancestors returns the set of all nodes that a value depends on, including the node that computes the value.
func ancestors(v *graph.Value) map[*graph.Node]bool {
	reached := map[*graph.Node]bool{}
	pending := []*graph.Value{v}
	for len(pending) > 0 {
		last := len(pending) - 1
		n := pending[last].Node
		pending = pending[:last]
		if n == nil || reached[n] {
			continue
		}
		reached[n] = true
		for _, a := range n.In {
			if a.Value != nil {
				pending = append(pending, a.Value)
			}
		}
	}
	return reached
}

// Write prints the document as text.
func Write(w io.Writer, display term.Display, doc *Document) {
	if doc.Value == nil {
		fmt.Fprintf(w, "no value loses %s: if an operand of a node has this format and no other, the results of the "+
			"same rank have this format, too\n", doc.FirstBreakFormat)
		return
	}
	if doc.FirstBreakFormat != "" {
		fmt.Fprintf(w, "%s is the first value that loses %s\n", format.Printable(doc.Value.Name), doc.FirstBreakFormat)
	}
	display.WriteSentences(w, doc.answer())
	WriteLayout(w, display, doc)
	infer.WriteGuards(w, doc.Guards)
	writeExecution(w, display, doc.Explanation, doc.Assumed)
}

// answer returns how the program stores the value, in a sentence. doc.Copies are the copies of the value and the copies
// of operands of the step that computes the value.
func (doc *Document) answer() string {
	outcome := &doc.Outcome
	text := fmt.Sprintf("under strategy %s: %s", outcome.Strategy, outcome.What)
	if strides := format.Ints(outcome.Strides); len(outcome.Strides) > 0 {
		text += "; its strides are " + strides
		if written := doc.Value.Strides.String(); written != strides {
			text += " (" + written + " in the graph as written)"
		}
	}
	return text + "; " + format.CountIrregular(len(doc.Copies), "copy", "copies") + " inserted for it"
}

// WriteLayout prints the type of a value and the reason for its layout in the graph as written.
func WriteLayout(w io.Writer, display term.Display, doc *Document) {
	v := doc.Value
	fmt.Fprintf(w, "%s: %s, %s %s", format.Printable(v.Name), v.Op, cmp.Or(v.DType, "?"), v.Shape)
	if v.Strides != nil {
		fmt.Fprintf(w, " by %s", v.Strides)
		if v.Offset.N != 0 || v.Offset.Name != "" {
			fmt.Fprintf(w, " from %v on", v.Offset)
		}
		if len(v.Flags) > 0 {
			fmt.Fprintf(w, ", %s", strings.Join(v.Flags, ", "))
		}
		for _, flag := range sorted.Keys(v.Conditions) {
			fmt.Fprintf(w, "\n%s where %s", flag, v.Conditions[flag])
		}
	}
	fmt.Fprintf(w, "\n\n%s\n%s\n", display.Paint(term.Strong, "Layout as written"),
		format.Wrap(format.Printable(doc.Layout.Why), display.ProseWidth()))
	writePermutationRule(w, display, &doc.Layout)
}

// writePermutationRule prints the operands and the comparisons of PyTorch's rule for pointwise ops, if this rule
// determines the layout.
func writePermutationRule(w io.Writer, display term.Display, layout *inspect.Layout) {
	term.WriteList(w, display, "Operands of the permutation rule", layout.Operands,
		[]term.Column{term.NameCol("operand"), term.ListCol("effective strides")},
		func(o inspect.Operand) []any { return []any{o.Name, o.Strides.String()} })
	columns := []term.Column{term.UntruncatedCol("faster"), term.UntruncatedCol("slower"), term.NameCol("decided by"),
		term.ProseCol("why"), term.UntruncatedCol("outcome")}
	term.WriteList(w, display, "Comparisons of dimensions", layout.Sort, columns, func(c inspect.Comparison) []any {
		outcome := "stay"
		if c.Exchanged {
			outcome = "exchanged"
		}
		return []any{c.Faster, c.Slower, cmp.Or(c.By, "none"), c.Why, outcome}
	})
	if len(layout.Order) > 0 {
		fmt.Fprintf(w, "order of the dimensions, the slowest first: %s\n", format.Ints(layout.Order))
	}
}

// writeExecution prints how the program computes a value.
func writeExecution(w io.Writer, display term.Display, explanation *inspect.Explanation, assumed map[string]int) {
	outcome := &explanation.Outcome
	head := "Under strategy " + outcome.Strategy
	if len(assumed) > 0 {
		head += " for " + program.SizesText(assumed)
	}
	fmt.Fprintf(w, "\n%s\n%s\n", display.Paint(term.Strong, head), format.Wrap(format.Printable(outcome.What), display.ProseWidth()))
	if outcome.Step != "" {
		fmt.Fprintf(w, "step %s", format.Printable(outcome.Step))
		if outcome.Impl != "" {
			fmt.Fprintf(w, ", implementation %s", outcome.Impl)
		}
		fmt.Fprintf(w, ", reads %s\n", format.Printable(cmp.Or(strings.Join(outcome.Reads, ", "), "nothing")))
	}
	if len(outcome.Strides) > 0 {
		fmt.Fprintf(w, "its strides are %s\n", format.Ints(outcome.Strides))
	}
	fmt.Fprintf(w, "read by %s\n", format.Printable(cmp.Or(strings.Join(outcome.Readers, ", "), "no node")))
	copies := make([]report.Copy, len(explanation.Copies))
	for i, c := range explanation.Copies {
		copies[i] = c.Copy
	}
	sections.WriteCopies(w, display, "Copies", copies)
	for _, c := range explanation.Copies {
		writeCopyReasons(w, display, c)
	}
	sections.WriteUnfused(w, display, explanation.Unfused)
}

// writeCopyReasons prints the reasons for a copy, and the cost of the cheapest plan without the copy. The reasons
// explain the layout in which the value is computed, and the layout that the readers of the copy require.
func writeCopyReasons(w io.Writer, display term.Display, reason inspect.CopyReason) {
	title := fmt.Sprintf("The copy of %s into %s", reason.Value, format.Ints(reason.To))
	if reason.Transfer != "" {
		title = fmt.Sprintf("The %s of %s", reason.Transfer, reason.Value)
	}
	fmt.Fprintf(w, "\n%s\n", display.Paint(term.Strong, format.Printable(title)))
	const lineFormat = "  %-21s%s\n" // the first column has the width of the longest phrase, and two blanks
	for _, explained := range []struct {
		phrase  string
		reasons []string
	}{{"computed so because", reason.SourceReasons}, {"required so because", reason.TargetReasons}} {
		for i, step := range explained.reasons {
			phrase := ""
			if i == 0 {
				phrase = explained.phrase
			}
			fmt.Fprintf(w, lineFormat, phrase, format.Printable(step))
		}
	}
	if reason.WithoutNS == nil {
		return
	}
	phrase := fmt.Sprintf("the cheapest plan costs %s more", format.Nanoseconds(*reason.WithoutNS))
	if *reason.WithoutNS == 0 {
		phrase = "the same cost: one of the cheapest plans has no such copy"
	}
	fmt.Fprintf(w, lineFormat, "without it", phrase)
	if reason.Instead == nil {
		return
	}
	if change := reason.Instead.String(); change != "" {
		fmt.Fprintf(w, lineFormat, "", format.Printable(change))
	}
}
