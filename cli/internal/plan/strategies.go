package plan

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
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/sections"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// StrategiesDocument is the output of plan --strategies.
type StrategiesDocument struct {
	Summary      string         `json:"summary" doc:"A sentence with the number of copies of each strategy."`
	LowerBoundNS *float64       `json:"lower_bound_ns" doc:"A lower bound on the cost of any plan, in nanoseconds; null if no strategy proves a bound."`
	Plans        []StrategyPlan `json:"plans" doc:"The plan of each strategy."`
	report.Notes
}

// StrategyPlan summarizes the plan of a strategy.
type StrategyPlan struct {
	Strategy string `json:"strategy" doc:"The strategy."`
	// Costs also has the numbers of steps (Steps) and of copies (Copies).
	report.Costs
	CopyNS   float64       `json:"copy_ns" doc:"The estimated cost of the inserted copies, in nanoseconds."`
	Inserted []report.Copy `json:"inserted" doc:"The inserted copies."`
}

// copiesKey returns a string that lists the copied values, and their strides before and after. Two plans with equal
// copies have equal strings.
func (p *StrategyPlan) copiesKey() string {
	key := ""
	for _, c := range p.Inserted {
		key += fmt.Sprintf("%q %v %v\n", c.Value, c.From, c.To)
	}
	return key
}

// checkSeveralPlans rejects flags that concern a single plan if a flag asks for several plans. It also expands
// --strategies.
func (f *flags) checkSeveralPlans(cmd *cobra.Command) error {
	flag := "" // the flag that asks for several plans
	switch {
	case cmd.Flags().Changed("strategies"):
		flag = "strategies"
		if err := f.expandStrategies(cmd); err != nil {
			return err
		}
	case f.sweep != "":
		flag = "sweep"
	default:
		return nil
	}
	for _, name := range []string{"dump", "passes", "check", "code", "measure", "for-all", "max-copies", "max-memory",
		"certificate", "problem", "solution", "k-best", "sensitivity"} {
		if cmd.Flags().Changed(name) {
			return exit.UsageErrorf("--%s and --%s exclude each other: --%s concerns a single plan", flag, name, name)
		}
	}
	if len(f.sizeCombinations) > 0 {
		return exit.UsageErrorf("--%s: --dim accepts one size for a symbol, as in --dim M=8", flag)
	}
	return nil
}

// expandStrategies expands and checks the value of --strategies.
func (f *flags) expandStrategies(cmd *cobra.Command) (err error) {
	if cmd.Flags().Changed("sweep") || cmd.Flags().Changed("strategy") {
		return exit.UsageErrorf("--strategies excludes --strategy and --sweep")
	}
	if f.strategies, err = f.extensions.ExpandAndCheckStrategies(f.strategies); err != nil {
		return err
	}
	return f.slack.Check(cmd, f.strategies...)
}

// runStrategies runs the command with --strategies.
func (f *flags) runStrategies(cmd *cobra.Command, path string, costProfile *pricing.Profile) error {
	job := progress.Begin(cmd, filepath.Base(path))
	defer job.End()
	var g *graph.Graph
	err := job.Do(progress.Loading, func() (err error) { g, err = f.load(job.Context, path); return err })
	if err != nil {
		return err
	}
	if err := command.RejectDynamic(g, "the graph runs in segments and has no plan as a whole"); err != nil {
		return program.WithFile(path, err)
	}
	doc := &StrategiesDocument{}
	options := f.options(job, costProfile)
	err = job.Do(progress.Planning, func() error {
		for _, name := range f.strategies {
			options.Strategy = f.extensions.Strategy(name)
			if err := doc.add(job.Context, f.extensions, g, options); err != nil {
				return err
			}
		}
		return nil
	})
	job.End()
	if interruptErr := exit.InterruptError(job.Context); interruptErr != nil {
		return interruptErr
	}
	command.PrintNotes(cmd, path, g) // even if planning failed
	command.AddNotes(&doc.Notes, g.Notes())
	if err != nil {
		return program.WithFile(path, err)
	}
	doc.Summary = doc.summary()
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	if f.json {
		document.Write(out, doc)
	} else {
		doc.write(out, term.StdoutDisplay(cmd))
	}
	return out.Flush()
}

// add plans the graph with a strategy.
func (d *StrategiesDocument) add(ctx context.Context, ext *command.Extensions, g *graph.Graph,
	options graphrun.Options) error {
	compiled, err := ext.Compile(ctx, g, options)
	if err != nil {
		return err
	}
	plan := compiled.Report()
	added := StrategyPlan{Strategy: plan.Strategy, Costs: plan.Costs(), Inserted: program.NotNil(plan.Copies)}
	for _, c := range plan.Copies {
		added.CopyNS += c.CostNS
	}
	bound := plan.LowerBoundNS
	isGreatest := bound != nil && (d.LowerBoundNS == nil || *bound > *d.LowerBoundNS)
	if isGreatest {
		d.LowerBoundNS = bound
	}
	d.Plans = append(d.Plans, added)
	return nil
}

// groups returns the plans, grouped by equal copies.
func (d *StrategiesDocument) groups() (list [][]*StrategyPlan) {
	for i := range d.Plans {
		p := &d.Plans[i]
		index := slices.IndexFunc(list, func(g []*StrategyPlan) bool { return g[0].copiesKey() == p.copiesKey() })
		if index < 0 {
			index, list = len(list), append(list, nil)
		}
		list[index] = append(list[index], p)
	}
	return list
}

// strategyNames returns the names of the strategies of a group, such as "a, b and c", and whether there are several.
func strategyNames(group []*StrategyPlan) (text string, isPlural bool) {
	var list []string
	for _, p := range group {
		list = append(list, p.Strategy)
	}
	last := len(list) - 1
	if last == 0 {
		return list[0], false
	}
	return strings.Join(list[:last], ", ") + " and " + list[last], true
}

// summary returns the number and the cost of the copies of each group of strategies with equal copies. With a device,
// it also has the numbers of steps and transfers of the device (PlacesText).
func (d *StrategiesDocument) summary() string {
	var list []string
	for _, group := range d.groups() {
		text, isPlural := strategyNames(group)
		verb := " inserts "
		if isPlural {
			verb = " insert "
		}
		p := group[0]
		if p.Copies == 0 {
			list = append(list, text+verb+"no copy"+sections.PlacesText(p.Places))
			continue
		}
		list = append(list, fmt.Sprintf("%s%s%s (%s, %s)", text, verb, format.CountIrregular(p.Copies, "copy", "copies"),
			format.Bytes(p.CopiedBytes), format.Nanoseconds(p.CopyNS))+sections.PlacesText(p.Places))
	}
	return strings.Join(list, "; ")
}

// costliestCopy returns a sentence with the reason for the costliest copy of a group of strategies, or "" if they
// insert none. The copies of a group are equal.
func costliestCopy(group []*StrategyPlan) string {
	copies := group[0].Inserted
	if len(copies) == 0 {
		return ""
	}
	costliest := slices.MaxFunc(copies, func(a, b report.Copy) int { return cmp.Compare(a.CostNS, b.CostNS) })
	names, _ := strategyNames(group)
	subject := "the copy"
	if len(copies) > 1 {
		subject = "the costliest copy"
	}
	return fmt.Sprintf("%s under %s is a copy of %s: %s", subject, names, format.Printable(costliest.Value),
		format.Printable(costliest.Why))
}

// write prints the summary, the reasons of the costliest copies, and a row for each strategy. It then prints the copies
// of each group of strategies with equal copies.
func (d *StrategiesDocument) write(w io.Writer, display term.Display) {
	answers := []string{d.Summary}
	for _, group := range d.groups() {
		if text := costliestCopy(group); text != "" {
			answers = append(answers, text)
		}
	}
	display.WriteSentences(w, answers...)
	t := term.NewTable(term.UntruncatedCol("strategy"), term.NumberCol("cost"), term.NumberCol("gap"),
		term.NumberCol("steps"), term.NumberCol("copies"), term.NumberCol("copied"), term.NumberCol("cost of copies"))
	for _, p := range d.Plans {
		gap := "-"
		if d.LowerBoundNS != nil && *d.LowerBoundNS > 0 {
			gap = fmt.Sprintf("%.1f%%", 100*(p.CostNS / *d.LowerBoundNS - 1))
		}
		t.Add(p.Strategy, format.Nanoseconds(p.CostNS), gap, p.Steps, p.Copies, format.Bytes(p.CopiedBytes),
			format.Nanoseconds(p.CopyNS))
	}
	t.Write(w, display)
	for _, group := range d.groups() {
		text, _ := strategyNames(group)
		sections.WriteCopies(w, display, "Copies of "+text, group[0].Inserted)
	}
}
