package graphrun

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
)

// FateReport is what becomes of a value in a program.
type FateReport struct {
	Strategy string   `json:"strategy" doc:"The strategy that was applied."`
	What     string   `json:"what" doc:"Whether a step computes it, with what others, or why none does."`
	Step     string   `json:"step,omitzero" doc:"The step that computes it."`
	Impl     string   `json:"impl,omitzero" doc:"The implementation of the op that computes it."`
	With     []string `json:"with" doc:"The nodes that are computed in the same loop."`
	Strides  []int    `json:"strides" doc:"Its strides in the program, in elements; empty where it is not stored."`
	Reads    []string `json:"reads" doc:"What the step reads."`
	Readers  []string `json:"readers" doc:"The nodes of the graph as written that read the value."`
}

// fate tells what becomes of a value.
func (p *Program) fate(v *graph.Value, e *Explanation) {
	r := &FateReport{Strategy: p.options.Strategy.Name(), With: []string{}, Strides: []int{}, Reads: []string{},
		Readers: []string{}}
	for _, n := range p.first.graph.Nodes {
		if slices.ContainsFunc(n.In, func(a graph.Arg) bool { return a.Kind == graph.TensorArg && a.Value == v }) {
			r.Readers = append(r.Readers, n.Name)
		}
	}
	plan, program := p.first.plan, p.first.ahead
	if plan == nil || program == nil {
		plan, program = &passes.Plan{Graph: graph.New("", nil)}, new(exec.Program)
	}
	r.What = whatOf(v, plan)
	if now := plan.Graph.Value(v.Name); now != nil && runs(now, plan.Graph) {
		r.Strides = filled(now.Meta.Strides)
	}
	if v.Node != nil && r.What == "" {
		r.computed(v, program)
	}
	if r.What == "" {
		r.What = "no step computes it"
		if p.first.graph.Dynamic() {
			r.What = "it runs in a segment that is planned when what it waits for is known"
		}
	}
	e.Run = *r
	e.Copies, e.Apart = p.explainCopies(v, r, plan), []ApartReport{}
	for _, a := range plan.Apart {
		if v.Node != nil && (a.Node == v.Node.Name || a.Reader == v.Node.Name) {
			e.Apart = append(e.Apart, ApartReport(a))
		}
	}
}

// runs reports whether a value is one of the graph as it runs: names of nodes that were dropped stay taken.
func runs(v *graph.Value, g *graph.Graph) bool {
	return v.Node == nil || slices.Contains(g.Nodes, v.Node)
}

// whatOf tells what the passes did to a value that no step computes as it is written; empty for one that a step may.
func whatOf(v *graph.Value, plan *passes.Plan) string {
	if v.Node == nil {
		if v.Const != nil {
			return "it is a constant"
		}
		return "it is an input"
	}
	name := v.Node.Name
	for _, f := range plan.Folded {
		if f.Node == name {
			return "it is computed when the program is compiled: it depends on constants alone"
		}
	}
	for _, x := range plan.Elided {
		if x.Node == name {
			return "it does not run: " + x.Why
		}
	}
	for _, d := range plan.Decomposed {
		if d.Node == name {
			return fmt.Sprintf("other nodes run in its place: %s", strings.Join(d.Into, ", "))
		}
	}
	if now := plan.Graph.Value(v.Name); now != nil && now.Alias != nil && runs(now, plan.Graph) {
		return fmt.Sprintf("nothing runs: it is a view of %s", now.Alias.Name)
	}
	return ""
}

// computed tells which step computes a value.
func (r *FateReport) computed(v *graph.Value, program *exec.Program) {
	for _, s := range program.Steps() {
		if !slices.Contains(s.Ops, v.Node.Name) {
			continue
		}
		r.Step, r.What = s.Name, "a step of its own computes it"
		if s.Node.Impl != nil {
			r.Impl = s.Node.Impl.Name
		}
		if len(s.Ops) > 1 {
			r.With = slices.DeleteFunc(slices.Clone(s.Ops), func(name string) bool { return name == v.Node.Name })
			r.What = fmt.Sprintf("one loop computes it together with %s", strings.Join(r.With, ", "))
			if len(r.Strides) == 0 && v.Meta.Rank() > 0 {
				r.What += "; it is never stored"
			}
		}
		for _, a := range s.Node.In {
			if a.Kind == graph.TensorArg && !slices.Contains(r.Reads, a.Value.Name) {
				r.Reads = append(r.Reads, a.Value.Name)
			}
		}
		return
	}
}

// concerns reports whether a copy is one of a value, or one that the step that computes it reads.
func concerns(c *passes.Copy, v *graph.Value, r *FateReport) bool {
	return c.Value == v.Name || c.Node != nil && slices.ContainsFunc(c.Node.Out, func(o *graph.Value) bool {
		return slices.Contains(r.Reads, o.Name)
	})
}
