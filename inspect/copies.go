package inspect

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
)

// CopyReason is a copy, with the reasons for the layouts on both sides and the cost of a plan without it. The source is
// the layout in which the value is written. The target is the layout that a reader of the copy needs.
type CopyReason struct {
	report.Copy
	SourceReasons []string `json:"written" doc:"The reasons for the layout of the value, from the copy back to the node that determines this layout."`
	TargetReasons []string `json:"wanted" doc:"The reasons for the layout of the copy, from the copy forward to the node that determines this layout."`
	// WithoutNS is nil if no plan without the copy exists, or if the layout problem was not solved. For each copy, the
	// problem is solved again. WithoutNS is also nil if earlier copies have used up the limit on this work
	// ([program.Program.WithoutCopy]).
	WithoutNS *float64       `json:"without_ns" doc:"The additional cost in ns of the cheapest plan without the copy; null if unknown."`
	Instead   *layout.Change `json:"instead" doc:"The differences between the cheapest plan without the copy and the cheapest plan; null if unknown."`
}

// copyReasons explains the copies of a value, and the copies that are operands of the value's step.
func copyReasons(p *program.Program, v *graph.Value, outcome *Outcome, plan *passes.Plan) []CopyReason {
	list := []CopyReason{}
	var explainer *passes.Explainer
	for i := range plan.Copies {
		copied := &plan.Copies[i]
		if !concerns(copied, v, outcome) {
			continue
		}
		if explainer == nil { // made for the first copy, because most values have none
			explainer = plan.Explainer()
		}
		source, target := explainer.Reasons(copied)
		reason := CopyReason{Copy: explainer.Explain(copied), SourceReasons: program.NotNil(source),
			TargetReasons: program.NotNil(target)}
		reason.WithoutNS, reason.Instead = p.WithoutCopy(copied)
		list = append(list, reason)
	}
	return list
}

// concerns reports whether a copy is a copy of v, or an operand of the step that computes v. copied.Node is the node
// that makes the copy.
func concerns(copied *passes.Copy, v *graph.Value, outcome *Outcome) bool {
	isRead := func(result *graph.Value) bool { return slices.Contains(outcome.Reads, result.Name) }
	return copied.Value == v.Name || copied.Node != nil && slices.ContainsFunc(copied.Node.Out, isRead)
}
