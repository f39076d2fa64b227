package program

import (
	"math"
	"slices"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Report describes the program for the sizes of [Program.FirstBinding]; a binding is the plan and the compiled steps
// for one set of sizes. A graph whose shapes depend on data is planned in segments: Report then describes the segment
// that is compiled before the run. Report returns nil for a program that was not compiled.
func (p *Program) Report() *report.Plan {
	binding := p.FirstBinding()
	if binding == nil {
		return nil
	}
	plan, compiled := binding.Plan, binding.Program
	if compiled == nil { // nothing can be planned before the run
		plan, compiled = &passes.Plan{}, new(exec.Program)
	}
	document := &report.Plan{Strategy: p.options.Strategy.Name(), Exact: p.options.Exact,
		CostNS: plan.CostNS, SavedNS: plan.SavedNS, PeakBytes: compiled.PeakBytes(),
		Memory: memoryOf(compiled.Need()), PlanMS: milliseconds(binding.CompileTime), Profile: profileOf(p.options.Costs),
		RefusedHints: slices.Clone(p.refusedHints), Notes: binding.Graph.Notes()}
	if p.device != nil {
		document.Device = p.device.Name()
	}
	if err := jit.Available(); err != nil {
		document.NoCode = err.Error()
	}
	if facts := NewPreRunFacts(binding.RunnableGraph); facts != nil {
		document.Segments = facts.describeSegments(binding.Segment)
	}
	document.Constants = plan.ConstantBytes()
	addBound(document, plan)
	addPreference(document, plan.Preference)
	addRewrites(document, plan)
	if p.options.Check {
		document.Unchecked = cloned(plan.Unchecked)
	}
	addSteps(document, plan, compiled)
	return document
}

// profileOf describes a profile. A nil profile is the default profile.
func profileOf(profile *pricing.Profile) report.Profile {
	if profile == nil {
		profile = pricing.SharedDefaultProfile()
	}
	return report.Profile{Digest: profile.Digest(), CPU: profile.CPU, Instructions: profile.Instructions,
		Measured: profile.Measured, Estimated: profile.Estimated, Default: profile.WithPrices(nil).Shipped(),
		Prices: len(profile.Prices)}
}

// addBound adds the lower bound on the cost that the solution of the layout problem proves.
func addBound(document *report.Plan, plan *passes.Plan) {
	solution := plan.Solution
	if solution == nil || solution.Bound == 0 && !solution.Optimal() { // no bound is proved
		return
	}
	// The bound holds for the cost of the solution. CostNS and SavedNS, the time that placements save, add up to this
	// cost, except for rounding. CostNS is therefore computed from the cost of the solution: for an optimal plan, the sum
	// then equals the bound.
	if cost := float64(solution.Cost) / pricing.PSPerNS; math.Abs(cost-plan.CostNS-plan.SavedNS) <= 1e-9*cost {
		document.CostNS = cost - plan.SavedNS
	}
	bound := float64(solution.Bound) / pricing.PSPerNS
	document.Optimal, document.LowerBoundNS = solution.Optimal(), &bound
}

// addPreference describes the choice among plans of nearly equal cost.
func addPreference(document *report.Plan, preference *layout.Preference) {
	if preference == nil {
		return
	}
	document.FewestCopies = &report.FewestCopies{Slack: preference.Slack, Copies: preference.Copies,
		AtLeast: preference.FewestCopies, Proved: preference.Fewest(),
		ExtraNS: float64(preference.CostPS-preference.LeastPS) / pricing.PSPerNS}
}

// addRewrites adds the effects of the passes.
func addRewrites(document *report.Plan, plan *passes.Plan) {
	var explainer *passes.Explainer
	if len(plan.Copies) > 0 {
		explainer = plan.Explainer()
	}
	document.Copies = mapList(plan.Copies, func(c passes.Copy) report.Copy { return explainer.Explain(&c) })
	document.Passes, document.Elided = cloned(plan.Passes), cloned(plan.Elided)
	document.Folded, document.Decomposed = cloned(plan.Folded), cloned(plan.Decomposed)
	document.Unfused, document.Packed = cloned(plan.Unfused), cloned(plan.Packed)
	document.Placed, document.PackedInRuns = slices.Clone(plan.Placed), slices.Clone(plan.PackedInRuns)
}

// cloned returns a copy of a list. It is not nil, so that JSON has a list.
func cloned[T any](list []T) []T { return append([]T{}, list...) }

// milliseconds returns a duration in milliseconds, to the microsecond.
func milliseconds(duration time.Duration) float64 { return float64(duration.Microseconds()) / 1000 }

// addSteps adds the steps of the program and the bytes that they move.
func addSteps(document *report.Plan, plan *passes.Plan, compiled *exec.Program) {
	var loop *report.Loop
	document.Steps = mapList(compiled.Steps(), func(step exec.Step) report.Step {
		described := step.Step
		described.Strides, described.FastSetup = NotNil(step.Strides), rule.FastNone.String()
		described.CostNS, described.Device = plan.Cost(step.Node), plan.DeviceOf(step.Node)
		described.Bytes, described.Work = movedBytes(step.Node), worksOf(step.Node)
		document.MovedBytes += described.Bytes
		if step.Loop != nil {
			if !describes(loop, step.Loop) { // long runs of equal loops share one description
				loop = loopOf(step.Loop)
			}
			described.Loop, described.FastSetup = loop, step.Loop.FastSetup().String()
		}
		return described
	})
}

// movedBytes returns the size in bytes of a node's operands and results. An element that a stride of 0 repeats counts
// once. An operand that is read twice counts once.
func movedBytes(node *graph.Node) int {
	total := 0
	for _, v := range node.Out {
		total += v.Meta.Bytes()
	}
	for i, arg := range node.In {
		isRepeated := slices.ContainsFunc(node.In[:i], func(earlier graph.Arg) bool { return earlier.Value == arg.Value })
		if arg.Kind == graph.TensorArg && !isRepeated {
			meta := arg.Value.Meta
			total += min(meta.Bytes(), meta.Extent()*meta.DType.Size()) // the extent counts repeated elements once
		}
	}
	return total
}

// worksOf describes the work of a node. The first element is the work of its implementation. Each other element is the
// additional work that the layout of one operand causes.
func worksOf(node *graph.Node) []report.Work {
	var list []report.Work
	for _, work := range node.WorkParts() {
		described := report.Work{Footprint: work.Footprint, Steps: work.StartedSteps, Bytes: map[string]float64{},
			Kernels: map[string]float64{}, Waits: map[string]float64{}}
		for access, bytes := range work.Bytes {
			if bytes != 0 {
				described.Bytes[pricing.Access(access).String()] = bytes
			}
		}
		for _, part := range work.Parts {
			switch {
			case part.Kernel == "" || part.Units == 0: // no work
			case part.Unoverlapped:
				described.Waits[part.Kernel] += part.Units
			default:
				described.Kernels[part.Kernel] += part.Units
			}
		}
		list = append(list, described)
	}
	return list
}

// loopOf describes a loop.
func loopOf(loop graph.Loop) *report.Loop {
	described := &report.Loop{Shape: NotNil(loop.WalkShape())}
	for i := range loop.Len() {
		described.Strides = append(described.Strides, NotNil(loop.WalkStrides(i)))
	}
	return described
}

// describes reports whether `described`, which may be nil, is the description of the loop.
func describes(described *report.Loop, loop graph.Loop) bool {
	if described == nil || loop.Len() != len(described.Strides) || !slices.Equal(described.Shape, loop.WalkShape()) {
		return false
	}
	for i, strides := range described.Strides {
		if !slices.Equal(strides, loop.WalkStrides(i)) {
			return false
		}
	}
	return true
}

// memoryOf describes the memory of a run.
func memoryOf(need exec.Need) report.Memory {
	document := need.Memory
	document.Total = need.Total()
	document.Largest = mapList(need.Largest, func(h exec.Holding) report.Holding { return h.Holding })
	return document
}

// mapList applies f to a list. The result is not nil, so that JSON has a list.
func mapList[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}

// NotNil returns an empty slice for nil, so that JSON has a list.
func NotNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// PreRunFacts has the facts about values that are known before a run, for a graph with shapes that depend on data. Such
// a graph is divided into segments, which are planned one after another: a segment is a set of nodes that is planned
// and run as soon as its inputs are known, or one node whose results determine shapes, such as nonzero. A nil
// *PreRunFacts stands for a graph in which all shapes are known.
type PreRunFacts struct {
	segmentList []graph.Segment
	segmentOf   graph.ByValue[int] // 1 + the index of the segment that produces the value
	unbacked    *graph.Symbolic    // the graph in which sizes that depend on data are symbols
}

// NewPreRunFacts returns the facts of an inferred graph, or nil if all shapes are known.
func NewPreRunFacts(g *graph.Graph) *PreRunFacts {
	if g == nil || !g.Dynamic() {
		return nil
	}
	facts := &PreRunFacts{segmentList: g.Segments(), segmentOf: graph.NewByValue[int](g), unbacked: g.Unbacked()}
	for i, segment := range facts.segmentList {
		for _, n := range segment.Nodes {
			for _, v := range n.Out {
				if facts.segmentOf.At(v) == 0 {
					facts.segmentOf.Set(v, i+1)
				}
			}
		}
	}
	return facts
}

// Sizes returns the shape of a value, or nil if its rank is unknown.
func (facts *PreRunFacts) Sizes(v *graph.Value) report.Sizes {
	switch {
	case v == nil:
		return nil
	case !v.Dynamic:
		list := make(report.Sizes, len(v.Meta.Shape))
		for i, n := range v.Meta.Shape {
			list[i].N = n
		}
		return list
	case facts == nil:
		return nil
	}
	if shape := facts.unbacked.Graph.Value(v.Name).Type.Shape; shape != nil {
		return report.SizesOf(shape)
	}
	return nil
}

// Unbacked returns the graph in which sizes that depend on data are symbols ([graph.Graph.Unbacked]). It returns nil
// for a nil *PreRunFacts.
func (facts *PreRunFacts) Unbacked() *graph.Symbolic {
	if facts == nil {
		return nil
	}
	return facts.unbacked
}

// DType returns the dtype of a value, or Invalid if the dtype is unknown.
func (facts *PreRunFacts) DType(v *graph.Value) tensor.DType {
	switch {
	case v == nil:
		return tensor.Invalid
	case v.Dynamic && !v.Meta.DType.Valid() && facts != nil:
		return facts.unbacked.Graph.Value(v.Name).Type.DType
	}
	return v.Meta.DType
}

// Segment returns the index of the first segment that produces a value. It returns false if no segment does.
func (facts *PreRunFacts) Segment(v *graph.Value) (int, bool) {
	if facts == nil || v == nil {
		return 0, false
	}
	i := facts.segmentOf.At(v)
	return i - 1, i > 0
}

// FirstShapeNode returns the first node whose results determine shapes, or nil if there is no such node.
func (facts *PreRunFacts) FirstShapeNode() *graph.Node {
	if facts != nil {
		for _, s := range facts.segmentList {
			if s.Dynamic { // a segment of one node, which determines shapes
				return s.Nodes[0]
			}
		}
	}
	return nil
}

// describeSegments describes the segments. planned is the index of the segment that is planned before the run.
func (facts *PreRunFacts) describeSegments(planned int) []report.Segment {
	list := make([]report.Segment, len(facts.segmentList))
	for i := range facts.segmentList {
		segment := &facts.segmentList[i]
		list[i] = report.Segment{Segment: i, Planned: planned == i, DecidesShapes: segment.Dynamic,
			After:  NotNil(segment.After),
			Nodes:  mapList(segment.Nodes, func(n *graph.Node) string { return n.Name }),
			Awaits: mapList(segment.AttrInputs, func(v *graph.Value) string { return v.Name }),
			Inputs: mapList(segment.In, facts.describeValue), Outputs: mapList(segment.Out, facts.describeValue)}
	}
	return list
}

// describeValue describes a value that passes between segments.
func (facts *PreRunFacts) describeValue(v *graph.Value) report.SegmentValue {
	described := report.SegmentValue{Name: v.Name, Shape: facts.Sizes(v)}
	if dtype := facts.DType(v); dtype.Valid() {
		name := dtype.String()
		described.DType = &name
	}
	return described
}
