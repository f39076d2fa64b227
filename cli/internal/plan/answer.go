package plan

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/sections"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes/layout"
)

// answers returns the sentences with which the text output begins: the results of the given flags, a summary of the
// plan, and changes of inputs and outputs that would reduce the cost. A sentence is empty if there is nothing to say.
func (f *flags) answers(g *graph.Graph, doc *Document) []string {
	list := f.limitAnswers(g, doc)
	for i := range doc.ForAll {
		list = append(list, doc.ForAll[i].Property+": "+proofText(&doc.ForAll[i]))
	}
	list = append(list, sections.SlackText(&doc.Plan))
	if f.problem.certificate != "" { // the path of the written certificate
		claim := "a lower bound on the cost of any plan"
		if doc.Optimal && doc.LowerBoundNS != nil {
			claim = "that no plan among the forms considered costs less than " + format.Nanoseconds(*doc.LowerBoundNS)
		}
		list = append(list, fmt.Sprintf("%s proves %s, at the stated prices; graphrun verify checks it",
			f.problem.certificate, claim))
	}
	if f.problem.problem != "" { // the path of the written layout problem
		list = append(list, f.problem.problem+" has the layout problem")
	}
	list = append(list, bestText(doc), sensitivityText(doc.Sensitivity), measuredPlanText(doc.Measured))
	if f.passes != "" {
		list = append(list, fmt.Sprintf("%s shows the graph after each of %s", f.passes,
			format.CountIrregular(len(doc.Passes), "pass", "passes")))
	}
	list = append(list, classesText(doc.Classes), planText(doc), f.problem.solutionText(doc), doc.Regret.String(), adviceText(doc.Advice))
	return list
}

// limitAnswers returns the results of the flags --max-memory and --max-copies.
func (f *flags) limitAnswers(g *graph.Graph, doc *Document) []string {
	list := f.limits.rejectedTexts(doc) // empty if no plan was rejected, or if no plan is within the limit (unmet)
	if f.limits.unmet {
		list = append(list, fmt.Sprintf("%s; this plan, of %s, needs %s, the least of the plans examined",
			f.limits.unmetText(doc), doc.Strategy, format.Bytes(bytesNeeded(&doc.Plan))))
	} else if f.limits.memoryText != "" && len(list) == 0 {
		list = append(list, fmt.Sprintf("a run of the plan of %s needs %s, within --max-memory %s", doc.Strategy,
			format.Bytes(bytesNeeded(&doc.Plan)), f.limits.memoryText))
	}
	if f.limits.hasMaxCopies {
		list = append(list, fmt.Sprintf("%s inserted, --max-copies allows %d",
			format.CountIrregular(len(countedCopies(g, doc.Copies)), "copy is", "copies are"), f.limits.maxCopies))
	}
	return list
}

// planText returns the cost and the copies of a plan, and the distance of the cost from the lower bound, if there is
// one.
func planText(doc *Document) string {
	exactText := ""
	if doc.Exact {
		exactText = ", exact"
	}
	costs := doc.Costs()
	text := fmt.Sprintf("strategy %s%s: estimated cost %s, %s inserted (%s)%s", doc.Strategy, exactText,
		format.Nanoseconds(doc.CostNS), format.CountIrregular(len(doc.Copies), "copy", "copies"),
		format.Bytes(costs.CopiedBytes), sections.PlacesText(costs.Places)) // such as ", 3 steps on cuda"
	if bound := sections.BoundText(&doc.Plan); bound != "" {
		text += "; " + bound
	}
	return text
}

// proofText returns the result of --for-all for a property.
func proofText(proof *inspect.Proof) string {
	switch {
	case proof.Counterexample != nil:
		return fmt.Sprintf("does not hold at %s: %s", program.SizesText(proof.Counterexample), proof.Why)
	case proof.Proved:
		return fmt.Sprintf("proved for all sizes within bounds by %s; also planned at %s",
			format.Count(len(proof.Cases), "case"), format.Count(len(proof.Tried), "size"))
	}
	return fmt.Sprintf("not proved; holds at %s: %s", triedSizes(proof.Tried), proof.Why)
}

// bestText compares the costs of the plans of --k-best.
func bestText(doc *Document) string {
	if doc.BestWanted == 0 || len(doc.Best) == 0 {
		return ""
	}
	first, last := doc.Best[0], doc.Best[len(doc.Best)-1]
	text := fmt.Sprintf("the cheapest plan costs %s", format.Nanoseconds(first.CostNS))
	if len(doc.Best) > 1 {
		second := doc.Best[1]
		text += fmt.Sprintf(", the second %s more (%s)", moreText(second, first.CostNS), second.Change)
	}
	if n := len(doc.Best); n > 2 {
		text += fmt.Sprintf(", and plan %d %s more", n, moreText(last, first.CostNS))
	}
	switch n := len(doc.Best); {
	case doc.BestTimedOut:
		text += fmt.Sprintf("; the time limit ended the search: %d of %d plans found", n, doc.BestWanted)
	case n < doc.BestWanted:
		text += fmt.Sprintf("; %s", format.CountIrregular(n, "plan exists", "plans exist"))
	}
	return text
}

// moreText formats the additional cost of a plan, absolute and relative to the cheapest plan.
func moreText(choice experiment.Choice, cheapest float64) string {
	return fmt.Sprintf("%s (%.2g%%)", format.Nanoseconds(choice.MoreNS), 100*choice.MoreNS/max(cheapest, 1))
}

// sensitivityText says at which bandwidths of copies the cheapest plan changes. Package layout examines copies that are
// up to 1024 times slower or faster.
func sensitivityText(sensitivity *layout.Sensitivity) string {
	var list []string
	switch {
	case sensitivity == nil:
		return ""
	case sensitivity.Slower == nil && sensitivity.Faster == nil:
		return "the cheapest plan is the same for copies that are up to 1024 times slower or faster"
	}
	for _, point := range breakpoints(sensitivity) {
		text := "the same for copies that are up to 1024 times " + point.direction
		if point.breakpoint != nil {
			factor, _ := format.DistinctPair(point.factor(), 1) // with enough digits to differ from 1
			text = fmt.Sprintf("another for copies that are %s times %s", factor, point.direction)
		}
		list = append(list, text)
	}
	return "the cheapest plan is " + strings.Join(list, ", and ")
}

// classesText returns the number of plans for symbolic sizes, and their greatest regret. The regret of a plan at some
// sizes is its additional cost, relative to a plan made for these sizes. The regret exists only at sizes for which the
// guards of the plan hold (Fits).
func classesText(classes []inspect.Specialization) string {
	if len(classes) == 0 {
		return ""
	}
	worstRegret, sizes := 0.0, "" // the greatest regret, and the sizes at which it occurs
	var hints []string
	for _, class := range classes {
		hints = append(hints, program.SizesText(class.Hint))
		for _, r := range class.Regret {
			if r.Fits && r.Regret > worstRegret {
				worstRegret, sizes = r.Regret, program.SizesText(r.Sizes)
			}
		}
	}
	text := fmt.Sprintf("%s, made for %s", format.Count(len(classes), "plan"), strings.Join(hints, "; "))
	if sizes == "" {
		return text + "; at the other listed sizes no plan is cheaper"
	}
	return text + fmt.Sprintf("; at %s another plan costs less: the greatest regret is %s", sizes,
		format.Percent(worstRegret))
}
