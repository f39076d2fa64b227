package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/report"
)

// Outcome describes how a program computes a value.
type Outcome struct {
	Strategy string   `json:"strategy" doc:"The strategy that was applied."`
	What     string   `json:"what" doc:"How the value is computed, in words, or why no step computes it."`
	Step     string   `json:"step,omitzero" doc:"The step that computes the value."`
	Impl     string   `json:"impl,omitzero" doc:"The implementation of the op."`
	Device   string   `json:"device,omitzero" doc:"The device that computes it; left out for the host."`
	With     []string `json:"with" doc:"The other nodes of the same loop."`
	Strides  []int    `json:"strides" doc:"Its strides in the program, in elements; empty if it is not stored."`
	Reads    []string `json:"reads" doc:"The values that the step reads."`
	Readers  []string `json:"readers" doc:"The nodes of the original graph that read the value."`
}

// addOutcome adds a description of how the program computes a value to the explanation. binding is the program for one
// set of sizes. value belongs to binding.Graph, the original graph. The graph of the plan is a rewritten copy in which
// values and nodes keep their names. binding.Program has the compiled steps of the plan.
func addOutcome(explanation *Explanation, p *program.Program, binding *program.Binding, value *graph.Value) {
	outcome := &Outcome{Strategy: p.Options().Strategy.Name(), With: []string{}, Strides: []int{}, Reads: []string{},
		Readers: []string{}}
	for _, node := range binding.Graph.Nodes {
		isRead := func(arg graph.Arg) bool { return arg.Kind == graph.TensorArg && arg.Value == value }
		if slices.ContainsFunc(node.In, isRead) {
			outcome.Readers = append(outcome.Readers, node.Name)
		}
	}
	plan, executable := binding.Plan, binding.Program
	if plan == nil || executable == nil { // all shapes depend on data
		plan, executable = &passes.Plan{Graph: graph.New("", nil)}, new(exec.Program) // without steps
	}
	outcome.What = noStepReason(value, plan)
	if planned := plan.Graph.Value(value.Name); planned != nil && isInGraph(planned, plan.Graph) {
		outcome.Strides = program.NotNil(planned.Meta.Strides)
	}
	if value.Node != nil && outcome.What == "" {
		outcome.addStep(value, executable, plan)
	}
	if outcome.What == "" {
		outcome.What = "no step computes it"
		if binding.Graph.Dynamic() {
			outcome.What = "it runs in a segment that is planned when its operands are known"
		}
	}
	explanation.Outcome = *outcome
	explanation.Copies, explanation.Unfused = copyReasons(p, value, outcome, plan), []report.Unfused{}
	for _, pair := range plan.Unfused {
		if value.Node != nil && (pair.Node == value.Node.Name || pair.Reader == value.Node.Name) {
			explanation.Unfused = append(explanation.Unfused, report.Unfused(pair))
		}
	}
}

// isInGraph reports whether a value is part of g, the graph that runs. ([graph.Graph.Value] may return a value of a
// removed node.)
func isInGraph(v *graph.Value, g *graph.Graph) bool {
	return v.Node == nil || slices.Contains(g.Nodes, v.Node)
}

// noStepReason states in words why no step computes a value. It returns "" for a value that a step may compute.
func noStepReason(v *graph.Value, plan *passes.Plan) string {
	if v.Node == nil {
		if v.Const != nil {
			return "it is a constant"
		}
		return "it is an input"
	}
	name := v.Node.Name
	for _, folded := range plan.Folded {
		if folded.Node == name {
			return "it is computed when the program is compiled: it depends on constants alone"
		}
	}
	for _, elided := range plan.Elided {
		if elided.Node == name {
			return "it does not run: " + elided.Why
		}
	}
	for _, decomposed := range plan.Decomposed {
		if decomposed.Node == name {
			return fmt.Sprintf("other nodes run in its place: %s", strings.Join(decomposed.Into, ", "))
		}
	}
	if planned := plan.Graph.Value(v.Name); planned != nil && planned.Alias != nil && isInGraph(planned, plan.Graph) {
		return fmt.Sprintf("nothing runs: it is a view of %s", planned.Alias.Name)
	}
	return ""
}

// addStep adds the step that computes v to o, if there is one. o.Strides must be set.
func (o *Outcome) addStep(v *graph.Value, p *exec.Program, plan *passes.Plan) {
	for _, candidate := range p.Steps() {
		if !slices.Contains(candidate.Ops, v.Node.Name) {
			continue
		}
		o.Step, o.What = candidate.Name, "a separate step computes it"
		if candidate.Node.Impl != nil {
			o.Impl, o.Device = candidate.Node.Impl.Name, plan.DeviceOf(candidate.Node)
		}
		if len(candidate.Ops) > 1 {
			o.With = slices.DeleteFunc(slices.Clone(candidate.Ops), func(name string) bool { return name == v.Node.Name })
			o.What = fmt.Sprintf("one loop computes it together with %s", strings.Join(o.With, ", "))
			if len(o.Strides) == 0 && v.Meta.Rank() > 0 {
				o.What += "; it is never stored"
			}
		}
		if o.Device != "" {
			o.What += ", on device " + o.Device
		}
		for _, a := range candidate.Node.In {
			if a.Kind == graph.TensorArg && !slices.Contains(o.Reads, a.Value.Name) {
				o.Reads = append(o.Reads, a.Value.Name)
			}
		}
		return
	}
}
