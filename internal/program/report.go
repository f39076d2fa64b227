package program

import (
	"math"
	"slices"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
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
func profileOf(profile *layout.Profile) report.Profile {
	if profile == nil {
		profile = machine.SharedDefaultProfile()
	}
	return report.Profile{Digest: profile.Digest(), CPU: profile.CPU, Instructions: profile.Instructions,
		Measured: profile.Measured, Estimated: profile.Estimated, Default: profile.Shipped()}
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
	if cost := float64(solution.Cost) / machine.PSPerNS; math.Abs(cost-plan.CostNS-plan.SavedNS) <= 1e-9*cost {
		document.CostNS = cost - plan.SavedNS
	}
	bound := float64(solution.Bound) / machine.PSPerNS
	document.Optimal, document.LowerBoundNS = solution.Optimal(), &bound
}

// addPreference describes the choice among plans of nearly equal cost.
func addPreference(document *report.Plan, preference *layout.Preference) {
	if preference == nil {
		return
	}
	document.FewestCopies = &report.FewestCopies{Slack: preference.Slack, Copies: preference.Copies,
		AtLeast: preference.FewestCopies, Proved: preference.Fewest(),
		ExtraNS: float64(preference.CostPS-preference.LeastPS) / machine.PSPerNS}
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
		described := stepOf(plan, step)
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

// stepOf describes a step without its loop.
func stepOf(plan *passes.Plan, step exec.Step) report.Step {
	described := report.Step{Name: step.Name, Ops: NotNil(step.Ops), FastSetup: rule.FastNone.String(),
		Strides: NotNil(step.Strides), Buffer: step.Buffer}
	if step.Node != nil {
		described.CostNS, described.Bytes, described.Work = plan.Cost(step.Node), movedBytes(step.Node),
			worksOf(step.Node)
		if step.Node.Impl != nil {
			described.Impl, described.Device = step.Node.Impl.Name, plan.DeviceOf(step.Node)
		}
	}
	if len(step.Ops) == 1 && step.Node != nil {
		described.Op = step.Node.Op.Name
	}
	return described
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
				described.Bytes[graph.Access(access).String()] = bytes
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
	return report.Memory{Inputs: need.Inputs, Constants: need.Constants, Originals: need.Originals, Packed: need.Packed,
		Arena: need.Arena, Outputs: need.Outputs, Scratch: need.Scratch, Total: need.Total(),
		DeviceConstants: need.DeviceConstants, DeviceArena: need.DeviceArena,
		Largest: mapList(need.Largest, func(h exec.Holding) report.Holding {
			return report.Holding{Kind: h.Kind, Name: h.Name, Bytes: h.Bytes}
		})}
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
