package plan

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
)

// problemFlags holds the flags that concern the layout problem.
type problemFlags struct {
	certificate, problem, solution string // paths of files; empty for none
	best                           int    // the value of --k-best; 0 for none
	sensitivity                    bool
	solutionStrategy               graphrun.Strategy // applies the solution of --solution; nil without --solution
}

func (flags *problemFlags) addFlags(cmd *cobra.Command) {
	flagSet := cmd.Flags()
	flagSet.StringVar(&flags.certificate, "certificate", "", "write a certificate for graphrun verify to `OUT.json`: the "+
		"layout problem, its solution, and the proof of the bound")
	flagSet.StringVar(&flags.problem, "problem", "", "write the layout problem to `OUT.json` for another solver, in the "+
		"format of graphrun schema problem; OUT.cfn is in the format of toulbar2")
	flagSet.StringVar(&flags.solution, "solution", "", "apply the solution `IN.json` of another solver instead of a "+
		"strategy; the format is that of graphrun schema solution, or of toulbar2 -w")
	flagSet.IntVar(&flags.best, "k-best", 0, "list the `K` cheapest plans that differ in implementations or copies")
	flagSet.BoolVar(&flags.sensitivity, "sensitivity", false,
		"show the bandwidths of copies at which another plan becomes the cheapest")
}

// check validates the flags and reads the solution.
func (flags *problemFlags) check(cmd *cobra.Command, strategy string) error {
	strategyGiven := cmd.Flags().Changed("strategy")
	switch {
	case cmd.Flags().Changed("k-best") && flags.best < 1:
		return exit.UsageErrorf("--k-best %d: want at least 1", flags.best)
	case flags.solution != "" && strategyGiven:
		return exit.UsageErrorf("--solution replaces the strategy: omit --strategy %s", strategy)
	case flags.certificate != "" && flags.solution == "" && strategy != layout.Optimal.Name():
		return exit.UsageErrorf("--certificate: strategy %s does not prove its plan: add --strategy %s", strategy,
			layout.Optimal.Name())
	}
	if err := cmp.Or(outfile.CheckWritable("--certificate", flags.certificate),
		outfile.CheckWritable("--problem", flags.problem, ".json", ".cfn")); err != nil {
		return err
	}
	if flags.solution == "" {
		return nil
	}
	f, _, err := files.OpenRegular(flags.solution)
	if err != nil {
		return exit.UsageError(err)
	}
	defer f.Close()
	if flags.solutionStrategy, err = layout.ReadGiven(f); err != nil { // the strategy that applies the solution in f
		return exit.UsageErrorf("%s: %w", flags.solution, err)
	}
	return nil
}

// strategy returns the strategy that applies the solution of --solution. Without --solution it returns the strategy
// with the given name.
func (flags *problemFlags) strategy(ext *command.Extensions, name string) graphrun.Strategy {
	if flags.solutionStrategy != nil {
		return flags.solutionStrategy
	}
	return ext.Strategy(name)
}

// addResults writes the files of --problem and --certificate, and adds the results of the other flags to doc. dims has
// the values of --dim with which the graph was read.
func (flags *problemFlags) addResults(ctx context.Context, compiled *graphrun.Program, dims []string, doc *Document) (
	err error) {
	if flags.problem != "" {
		if err := flags.writeProblem(ctx, compiled); err != nil {
			return err
		}
	}
	if flags.solution != "" {
		if err := flags.compareSolution(ctx, compiled, doc); err != nil {
			return fmt.Errorf("--solution: %w", err)
		}
	}
	if flags.certificate != "" {
		if err := flags.writeCertificate(ctx, compiled, dims); err != nil {
			return err
		}
	}
	if flags.best > 0 {
		if doc.Best, doc.BestTimedOut, err = experiment.Best(compiled, flags.best); err != nil {
			return fmt.Errorf("--k-best: %w", err)
		}
		doc.BestWanted = flags.best
	}
	if flags.sensitivity {
		if doc.Sensitivity, err = experiment.Sensitivity(compiled); err != nil {
			return fmt.Errorf("--sensitivity: %w", err)
		}
	}
	if doc.Strategy == layout.Optimal.Name() && doc.LowerBoundNS != nil {
		doc.Advice, _ = experiment.Advise(compiled) // advice is optional
	}
	return nil
}

// compareSolution compares the solution of --solution with the bound that its file proves or, if it has no proof, with
// the bound of the exact solver.
func (flags *problemFlags) compareSolution(ctx context.Context, compiled *graphrun.Program, doc *Document) error {
	doc.Solution = &Solution{HasProof: doc.LowerBoundNS != nil}
	given := compiled.Internal().FirstBinding().Plan.Solution
	if given == nil {
		return nil
	}
	if !doc.Solution.HasProof {
		problem, err := experiment.Problem(compiled)
		if err != nil {
			return err
		}
		limit := cmp.Or(compiled.Internal().Options().SolveLimit, layout.SolveLimit)
		best, err := wcsp.Exact.Solve(problem, wcsp.Options{Context: ctx, TimeLimit: limit})
		if err != nil {
			return err
		}
		doc.LowerBoundNS, doc.Optimal = new(float64(best.Bound)/pricing.PSPerNS), given.Cost <= best.Bound
	}
	if bound := *doc.LowerBoundNS; bound > 0 {
		doc.Solution.Gap = new(float64(given.Cost)/pricing.PSPerNS/bound - 1)
	}
	return nil
}

// solutionText says whether the file of --solution proves its bound; "" without --solution.
func (flags *problemFlags) solutionText(doc *Document) string {
	switch {
	case doc.Solution == nil:
		return ""
	case doc.Solution.HasProof:
		return flags.solution + " has a proof of the bound, which is valid"
	case doc.LowerBoundNS == nil:
		return flags.solution + " has no proof"
	}
	return flags.solution + " has no proof; the bound is that of strategy " + layout.Optimal.Name()
}

// writeProblem writes the file of --problem.
func (flags *problemFlags) writeProblem(ctx context.Context, compiled *graphrun.Program) error {
	problem, err := experiment.PricedProblem(compiled)
	if err != nil {
		return fmt.Errorf("--problem: %w", err)
	}
	write := problem.Write
	if filepath.Ext(flags.problem) == ".cfn" {
		write = func(w io.Writer) error { return problem.WriteCFN(w, compiled.Graph().Name) }
	}
	return outfile.Write(ctx, flags.problem, write)
}

// writeCertificate writes the file of --certificate.
func (flags *problemFlags) writeCertificate(ctx context.Context, compiled *graphrun.Program, dims []string) error {
	certificate, err := experiment.Certify(compiled)
	if err != nil {
		return fmt.Errorf("--certificate: %w", err)
	}
	// graphrun verify loads the graph with the same values of --dim.
	if certificate.Graph.Sizes, err = command.ParseDims(dims); err != nil {
		return err
	}
	return outfile.Write(ctx, flags.certificate, certificate.Write)
}

// writeAlternatives prints advice, sensitivity and the cheapest plans.
func writeAlternatives(w io.Writer, display term.Display, doc *Document) {
	writeAdvice(w, display, doc.Advice)
	writeSensitivity(w, display, doc.Sensitivity)
	var costs []float64
	for _, b := range doc.Best {
		costs = append(costs, b.CostNS)
	}
	rows := make([][]any, len(doc.Best))
	for i, cost := range format.DistinctNanoseconds(costs) {
		b := doc.Best[i]
		rows[i] = []any{cost, "+" + format.Nanoseconds(b.MoreNS), cmp.Or(b.Change.String(), "-")}
	}
	term.WriteList(w, display, "Cheapest plans", rows, []term.Column{term.UntruncatedCol("cost"),
		term.UntruncatedCol("more"), term.ProseCol("differences")}, func(row []any) []any { return row })
}

// adviceText returns a sentence about the change that reduces the cost most. A change is another layout in which the
// caller passes an input or takes an output. If no change reduces the cost, the sentence says so. adviceText returns ""
// if there is no advice.
func adviceText(advice *layout.Advice) string {
	switch {
	case advice == nil || advice.Possible == 0:
		return ""
	case len(advice.Hints) == 0:
		return fmt.Sprintf("no change of the layouts of inputs or outputs reduces the cost by 0.1%% or more (%d of %d tried)",
			advice.Tried, advice.Possible)
	}
	return hintText(advice.Hints[0])
}

// hintText describes a change of the layout of an input or output, and its saving.
func hintText(hint layout.Hint) string {
	verb := "take "
	if hint.Input {
		verb = "pass "
	}
	return fmt.Sprintf("%s%s in %s: saves %s (%.2g%%)", verb, hint.Name, hint.Order, format.Nanoseconds(hint.SavedNS),
		100*hint.Part)
}

// writeAdvice prints the changes by the caller that reduce the cost.
func writeAdvice(w io.Writer, display term.Display, advice *layout.Advice) {
	if advice == nil || len(advice.Hints) == 0 {
		return
	}
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Changes by the caller that reduce the cost"))
	for _, h := range advice.Hints {
		fmt.Fprintf(w, "%s%s\n", format.Printable(hintText(h)), changeText(h.Change))
	}
	if more := advice.Possible - advice.Tried; more > 0 {
		fmt.Fprintf(w, "%s not priced\n", format.CountIrregular(more, "other change was", "other changes were"))
	}
}

// changeText describes the difference between two plans, for the end of a sentence; "" for none.
func changeText(c layout.Change) string {
	if text := c.String(); text != "" {
		return "; " + format.Printable(text)
	}
	return ""
}

// directedBreakpoint is the breakpoint for slower or for faster copies: the nearest bandwidth in that direction at
// which another plan becomes the cheapest.
type directedBreakpoint struct {
	breakpoint *layout.Breakpoint // nil if there is none
	direction  string             // slower or faster
}

// factor returns how many times slower or faster the copies are at the breakpoint.
func (b directedBreakpoint) factor() float64 { return max(b.breakpoint.Factor, 1/b.breakpoint.Factor) }

// breakpoints returns the breakpoint for slower copies, and the breakpoint for faster copies.
func breakpoints(s *layout.Sensitivity) [2]directedBreakpoint {
	return [2]directedBreakpoint{{s.Slower, "slower"}, {s.Faster, "faster"}}
}

// writeSensitivity prints the bandwidths of copies at which another plan is the cheapest.
func writeSensitivity(w io.Writer, display term.Display, sensitivity *layout.Sensitivity) {
	if sensitivity == nil || sensitivity.Slower == nil && sensitivity.Faster == nil {
		return
	}
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Sensitivity to the bandwidth of copies"))
	if sensitivity.CopyNS > 0 {
		fmt.Fprintf(w, "the copies of the cheapest plan take %s for %s\n", format.Nanoseconds(sensitivity.CopyNS),
			format.Bytes(sensitivity.CopiedBytes))
	}
	for _, point := range breakpoints(sensitivity) {
		if point.breakpoint == nil {
			// Package layout examines factors up to 1024.
			fmt.Fprintf(w, "the plan stays the cheapest for copies that are up to 1024 times %s\n", point.direction)
			continue
		}
		factor, _ := format.DistinctPair(point.factor(), 1) // has the digits that distinguish it from 1
		rate, previousRate := format.DistinctPair(point.breakpoint.GBps, point.breakpoint.WasGBps)
		fmt.Fprintf(w, "another plan is the cheapest for copies that are at least %s times %s (%s GB/s instead of %s)%s\n",
			factor, point.direction, rate, previousRate, changeText(point.breakpoint.Change))
	}
}
