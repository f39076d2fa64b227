package plan

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
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
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// maxPlans is the maximum number of planned sizes.
const maxPlans = 64

// keepGoing is an argument of OpenGraph. Loading fails if a node has a mistake, because plans need whole graphs.
const keepGoing = false

// SizesDocument is the output of plan for a range of sizes. Each of its Ranges has the costs at its first size (CostNS)
// and at its last size (CostToNS).
type SizesDocument struct {
	Symbol   string `json:"symbol" doc:"The symbol whose sizes are planned."`
	Strategy string `json:"strategy" doc:"The strategy of the plans."`
	experiment.SizeRanges
	report.Notes
}

// runSweep runs the command for a range of sizes. It loads the graph once, binds a copy of it to each planned size, and
// prints ranges of sizes with equal plans.
func (f *flags) runSweep(cmd *cobra.Command, path string, costProfile *pricing.Profile) error {
	swept, err := parseInterval(f.sweep, f.dims)
	if err != nil {
		return err
	}
	job := progress.Begin(cmd, filepath.Base(path))
	defer job.End() // if an error occurs before the planning ends
	doc := &SizesDocument{Symbol: swept.symbol, Strategy: f.strategy}
	var g *graph.Graph
	err = job.Do(progress.Loading, func() (err error) {
		if g, _, err = f.extensions.OpenGraph(job.Context, path, f.dims, keepGoing); err == nil {
			err = swept.checkBounds(g)
		}
		return err
	})
	if err != nil {
		return err
	}
	first, err := f.bindFirstSize(job.Context, path, g, swept)
	if err != nil {
		return err
	}
	options := f.options(job, costProfile)
	options.Strategy = f.extensions.Strategy(f.strategy)
	err = job.Do(progress.Planning, func() error {
		ranges, err := f.planSizes(job.Context, path, g, swept, options)
		if ranges != nil {
			doc.SizeRanges = *ranges
		}
		return err
	})
	job.End()
	if interruptErr := exit.InterruptError(job.Context); interruptErr != nil {
		return interruptErr
	}
	// The notes are about the graph, not about the sizes, so they are printed even if planning failed.
	command.PrintNotes(cmd, path, first)
	command.AddNotes(&doc.Notes, first.Notes())
	if err != nil {
		return program.WithFile(path, err)
	}
	return f.printSizes(cmd, doc)
}

// bindFirstSize returns bindSize for the first size. It rejects unknown symbols and graphs that run in segments.
func (f *flags) bindFirstSize(ctx context.Context, path string, g *graph.Graph, swept interval) (*graph.Graph, error) {
	first, err := f.bindSize(ctx, path, g, swept.symbol, swept.from)
	if unknown := (*command.UnknownDim)(nil); errors.As(err, &unknown) && unknown.Name == swept.symbol {
		return nil, exit.UsageErrorf("--sweep %s: %s", f.sweep, unknown.Why)
	}
	if err != nil {
		return nil, program.WithFile(path, err)
	}
	if err := command.RejectDynamic(first, "the graph runs in segments and has no plan as a whole"); err != nil {
		return nil, program.WithFile(path, err)
	}
	return first, nil
}

// interval is a symbol and a range of its sizes.
type interval struct {
	symbol   string
	from, to int // both inclusive
}

// parseInterval parses a range of sizes such as N=1..256. The values of --dim must not name its symbol.
func parseInterval(text string, dims []string) (parsed interval, err error) {
	name, sizes, ok := strings.Cut(text, "=")
	from, to, hasDots := strings.Cut(sizes, "..")
	parsed.symbol = name
	var fromErr, toErr error
	parsed.from, fromErr = strconv.Atoi(from)
	parsed.to, toErr = strconv.Atoi(to)
	hasForm := ok && hasDots && name != "" && fromErr == nil && toErr == nil
	if !hasForm || parsed.from < 0 || parsed.to < parsed.from {
		return parsed, exit.UsageErrorf("--sweep %s: the value must be a symbol and its sizes in ascending order, as in "+
			"N=1..256", text)
	}
	for _, dim := range dims {
		if strings.HasPrefix(dim, name+"=") {
			return parsed, exit.UsageErrorf("--sweep %s and --dim %s give sizes of the same symbol", text, dim)
		}
	}
	return parsed, nil
}

// checkBounds returns an error if sizes of the interval exceed the bounds of its symbol in the graph.
func (v interval) checkBounds(g *graph.Graph) error {
	symbol, _ := g.SymbolNamed(v.symbol) // the symbol's name in the graph may differ from its name in the file
	b := g.Symbols[symbol]               // the zero Bounds, which permit every size, for an unknown symbol
	if v.from >= b.Min && (b.Max == 0 || v.to <= b.Max) {
		return nil
	}
	bounds := fmt.Sprintf("%d or more", b.Min)
	if b.Max > 0 {
		bounds = fmt.Sprintf("%d..%d", b.Min, b.Max)
	}
	return exit.UsageErrorf("--sweep %s=%d..%d: the bounds of %s are %s", v.symbol, v.from, v.to, v.symbol, bounds)
}

// planSizes plans the sizes of an interval, at most maxPlans of them, and returns the ranges with equal plans.
func (f *flags) planSizes(ctx context.Context, path string, g *graph.Graph, swept interval, options graphrun.Options) (
	*experiment.SizeRanges, error) {
	compileSize := func(ctx context.Context, size int) (*graphrun.Program, error) {
		bound, err := f.bindSize(ctx, path, g, swept.symbol, size)
		if err != nil {
			return nil, err
		}
		return f.extensions.Compile(ctx, bound, options)
	}
	return experiment.PlansBySize(ctx, swept.from, swept.to, maxPlans, compileSize)
}

// bindSize returns a copy of the graph in which a symbol is bound to a size, after inference and --pin. If the graph
// lacks the symbol, the symbol may stand for the number of rows of a graph without symbols (see the field Sizes of
// [graphrun.Loader]). The file is then loaded again with --dim SYMBOL=SIZE.
func (f *flags) bindSize(ctx context.Context, path string, g *graph.Graph, symbol string, size int) (bound *graph.Graph,
	err error) {
	if _, ok := g.SymbolNamed(symbol); ok {
		bound = g.Clone()
		hint := map[string]int{symbol: size}
		err = command.BindHints(path, bound, []map[string]int{hint})
	} else {
		dims := append(slices.Clip(f.dims), fmt.Sprintf("%s=%d", symbol, size))
		bound, _, err = f.extensions.OpenGraph(ctx, path, dims, keepGoing)
	}
	if err == nil {
		err = command.Infer(ctx, bound)
	}
	if err == nil {
		err = command.ApplyPins(ctx, bound, f.pins)
	}
	return bound, err
}

// printSizes prints the document as JSON or text.
func (f *flags) printSizes(cmd *cobra.Command, doc *SizesDocument) error {
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	if f.json {
		document.Write(out, doc)
	} else {
		doc.write(out, term.StdoutDisplay(cmd))
	}
	return out.Flush()
}

// write prints the ranges of sizes and the changes between them.
func (doc *SizesDocument) write(w io.Writer, display term.Display) {
	table := term.NewTable(term.NameCol(doc.Symbol), term.UntruncatedCol("copies"), term.UntruncatedCol("cost"),
		term.UntruncatedCol("cost/"+doc.Symbol), term.ProseCol("changes"))
	for _, r := range doc.Ranges {
		if r.Rejected != "" {
			table.Add(sizeRange(r.From, r.To), "-", "-", "-", r.Rejected)
			continue
		}
		table.Add(sizeRange(r.From, r.To), r.Copies,
			textRange(format.Nanoseconds(r.CostNS), format.Nanoseconds(r.CostToNS)),
			textRange(format.PerSize(r.CostNS, r.From), format.PerSize(r.CostToNS, r.To)),
			format.Count(len(r.Changes), "change"))
	}
	display.WriteSentences(w, doc.summary()...)
	table.Write(w, display)
	fmt.Fprintln(w, format.Wrap(format.CountIrregular(doc.Plans, "size was", "sizes were")+" planned; where two of them "+
		"have the same plan, the sizes between them are assumed to have it too", display.ProseWidth()))
	doc.writeChanges(w, display)
}

// writeChanges prints a table of the changes between each range of sizes and the next.
func (doc *SizesDocument) writeChanges(w io.Writer, display term.Display) {
	const minWidth = 14 // minimum width of a column, in characters
	columns := []term.Column{term.UntruncatedCol("differs"), term.NameCol("value or nodes"),
		term.PhraseCol("before", minWidth), term.PhraseCol("after", minWidth)}
	for i, r := range doc.Ranges[1:] {
		before := doc.Ranges[i] // the range before r
		title := fmt.Sprintf("From %s=%d to %s=%d", doc.Symbol, before.To, doc.Symbol, r.From)
		term.WriteList(w, display, title, r.Changes, columns, func(c experiment.PlanChange) []any {
			return []any{c.What, c.Name, orDash(c.Before), orDash(c.After)}
		})
	}
}

// maxExplainedSizes is the maximum number of sizes whose changes are listed in the summary.
const maxExplainedSizes = 4

// summary returns the sentences above the table: the sizes at which the plan changes, and the changes at the first
// maxExplainedSizes of these sizes.
func (doc *SizesDocument) summary() []string {
	first, last := doc.Ranges[0], doc.Ranges[len(doc.Ranges)-1]
	span := fmt.Sprintf("from %[1]s=%[2]d to %[1]s=%[3]d", doc.Symbol, first.From, last.To)
	if len(doc.Ranges) == 1 {
		return []string{fmt.Sprintf("strategy %s has the same plan for all sizes %s: cost %s", doc.Strategy,
			span, textRange(format.Nanoseconds(first.CostNS), format.Nanoseconds(last.CostToNS)))}
	}
	var sizes, changes []string
	for i, r := range doc.Ranges[1:] {
		sizes = append(sizes, fmt.Sprintf("%s=%d", doc.Symbol, r.From))
		if i < maxExplainedSizes {
			changes = append(changes, fmt.Sprintf("at %s=%d: %s", doc.Symbol, r.From, doc.changeText(i+1)))
		}
	}
	sentence := fmt.Sprintf("%s the plan of strategy %s changes at %s", span, doc.Strategy, format.JoinFirst(sizes))
	if !doc.Complete {
		sentence += fmt.Sprintf("; the limit of %d plans is reached: between some ranges the exact %s at which the "+
			"plan changes is unknown", maxPlans, doc.Symbol)
	}
	if more := len(sizes) - maxExplainedSizes; more > 0 {
		changes = append(changes, fmt.Sprintf("%s listed below", format.CountIrregular(more, "further change is",
			"further changes are")))
	}
	return append([]string{sentence}, changes...)
}

// changeText returns the difference of range i from the range before: the most frequent changes, and the costs.
func (doc *SizesDocument) changeText(i int) string {
	before, current := doc.Ranges[i-1], doc.Ranges[i]
	if current.Rejected != "" {
		return "there is no plan: " + current.Rejected
	}
	text := fmt.Sprintf("%s: %s", format.Count(len(current.Changes), "change"),
		format.JoinFirst(countedKinds(current.Changes)))
	if before.Rejected == "" && before.To > 0 { // size 0 has no cost per size
		text += fmt.Sprintf("; cost/%s %s instead of %s at %s=%d", doc.Symbol,
			format.PerSize(current.CostNS, current.From), format.PerSize(before.CostToNS, before.To), doc.Symbol, before.To)
	}
	return text
}

// countedKinds lists the kinds of changes with their numbers, such as "3 x impl from nchw to im2col", the most frequent
// first.
func countedKinds(changes []experiment.PlanChange) []string {
	var kinds []string
	count := map[string]int{}
	for _, change := range changes {
		kind := change.What
		if change.Before != "" && change.After != "" {
			kind = fmt.Sprintf("%s from %s to %s", change.What, change.Before, change.After)
		}
		if count[kind]++; count[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	slices.SortStableFunc(kinds, func(a, b string) int { return count[b] - count[a] })
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d x %s", count[kind], kind)
	}
	return kinds
}

// sizeRange formats a range of sizes.
func sizeRange(from, to int) string {
	if from == to {
		return strconv.Itoa(from)
	}
	return fmt.Sprintf("%d to %d", from, to)
}

// textRange formats the texts for both ends of a range.
func textRange(from, to string) string {
	if from == to {
		return from
	}
	return from + " to " + to
}

// orDash returns a dash for an empty text.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
