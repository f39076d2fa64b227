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
	"github.com/graphrun/graphrun/report"
)

// Report describes the program for the sizes of [Program.First]. For a segmented graph it describes the compiled
// segment. It is nil for a program that was not compiled.
func (p *Program) Report() *report.Plan {
	b := p.First()
	if b == nil {
		return nil
	}
	plan, steps := b.Plan, b.Program
	if steps == nil { // nothing can be planned before the run
		plan, steps = &passes.Plan{}, new(exec.Program)
	}
	r := &report.Plan{Strategy: p.options.Strategy.Name(), Exact: p.options.Exact,
		CostNS: plan.CostNS, SavedNS: plan.SavedNS, PeakBytes: steps.PeakBytes(),
		Memory: memoryOf(steps.Need()), PlanMS: milliseconds(b.CompileTime), Profile: profileOf(p.options.Costs),
		RefusedHints: slices.Clone(p.refused), Notes: report.NotesOf(b.Graph)}
	if err := jit.Available(); err != nil {
		r.NoCode = err.Error()
	}
	if known := NewPreRunFacts(b.Runnable); known != nil {
		r.Segments = known.segments(b.Segment)
	}
	r.Constants = plan.ConstantBytes()
	addBound(r, plan)
	addPreference(r, plan.Preference)
	addRewrites(r, plan)
	if p.options.Check {
		r.Unchecked = mapList(plan.Unchecked, func(u passes.Unchecked) report.Unchecked {
			return report.Unchecked{Node: u.Node, Op: u.Op, Why: u.Why, Outputs: notNil(u.Outputs)}
		})
	}
	var loop *report.Loop
	r.Steps = mapList(steps.Steps(), func(s exec.Step) report.Step {
		d := stepOf(plan, s)
		r.MovedBytes += d.Bytes
		if s.Loop != nil {
			if !isLoop(loop, s.Loop) { // long runs of equal loops share one description
				loop = loopOf(s.Loop)
			}
			d.Loop, d.FastSetup = loop, s.Loop.FastSetup().String()
		}
		return d
	})
	return r
}

// profileOf describes a profile. A nil profile is the default profile.
func profileOf(p *layout.Profile) report.Profile {
	if p == nil {
		p = layout.DefaultProfile()
	}
	return report.Profile{Digest: p.Digest(), CPU: p.CPU, Instructions: p.Instructions, Measured: p.Measured,
		Estimated: p.Estimated, Default: p.Shipped()}
}

// addBound adds the lower bound on the cost that the solution of the layout problem proves.
func addBound(r *report.Plan, plan *passes.Plan) {
	s := plan.Solution
	if s == nil || s.Bound == 0 && !s.Optimal() {
		return
	}
	// The costs of the steps add up to the cost of the solution except for rounding. The bound holds for the solution.
	if cost := float64(s.Cost) / 1000; math.Abs(cost-plan.CostNS-plan.SavedNS) <= 1e-9*cost {
		r.CostNS = cost - plan.SavedNS
	}
	bound := float64(s.Bound) / 1000
	r.Optimal, r.LowerBoundNS = s.Optimal(), &bound
}

// addPreference describes the choice among plans of nearly equal cost.
func addPreference(plan *report.Plan, p *layout.Preference) {
	if p == nil {
		return
	}
	plan.FewestCopies = &report.FewestCopies{Slack: p.Slack, Copies: p.Copies, AtLeast: p.FewestCopies, Proved: p.Fewest(),
		ExtraNS: float64(p.CostPS-p.LeastPS) / 1000}
}

// addRewrites adds the effects of the passes.
func addRewrites(r *report.Plan, plan *passes.Plan) {
	r.Passes = mapList(plan.Passes, func(d passes.PassRecord) report.Pass {
		return report.Pass{Pass: d.Name, Doc: d.Doc, Did: d.Summary, Nodes: d.Nodes, MS: milliseconds(d.Duration)}
	})
	r.Copies = []report.Copy{}
	if len(plan.Copies) > 0 {
		e := plan.Explainer()
		r.Copies = mapList(plan.Copies, func(c passes.Copy) report.Copy { return CopyOf(&c, e.Sides(&c)) })
	}
	r.Elided = mapList(plan.Elided, func(e passes.Elision) report.Elision { return report.Elision(e) })
	r.Folded = mapList(plan.Folded, func(f passes.Folding) report.Folding { return report.Folding(f) })
	if len(plan.Placed) > 0 {
		r.Placed = mapList(plan.Placed, func(v passes.Placed) report.Placed { return report.Placed(v) })
	}
	r.Decomposed = mapList(plan.Decomposed, func(d passes.Decomposition) report.Decomposition {
		return report.Decomposition{Node: d.Node, Op: d.Op, Into: notNil(d.Into), Why: d.Why}
	})
	r.Unfused = mapList(plan.Unfused, func(a passes.Unfused) report.Unfused { return report.Unfused(a) })
	r.Packed = mapList(plan.Packed, func(c passes.Packing) report.Packing {
		return report.Packing{Value: c.Value, Original: c.Original, Form: c.Form, Bytes: c.Bytes, Readers: notNil(c.Readers)}
	})
	if len(plan.PackedInRuns) > 0 {
		r.PackedInRuns = mapList(plan.PackedInRuns, func(c passes.RunPacking) report.RunPacking {
			return report.RunPacking(c)
		})
	}
}

// CopyOf describes a copy and its sides.
func CopyOf(c *passes.Copy, s passes.Sides) report.Copy {
	transfer := ""
	if c.Node != nil && c.Node.Impl.IsTransfer() {
		transfer = c.Node.Impl.Name
	}
	return report.Copy{Value: c.Value, From: notNil(c.From), To: notNil(c.To), Transfer: transfer, Bytes: c.Bytes,
		CostNS: c.CostNS,
		Share:  s.Share, Why: s.String(), Producer: report.Producer(s.Producer), Reader: report.Reader(s.Reader),
		Advice: s.Advice, Strategy: s.Strategy}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// stepOf describes a step without its loop.
func stepOf(p *passes.Plan, s exec.Step) report.Step {
	d := report.Step{Name: s.Name, Ops: notNil(s.Ops), FastSetup: rule.FastNone.String(), Strides: notNil(s.Strides),
		Buffer: s.Buffer}
	if s.Node != nil {
		d.CostNS, d.Bytes, d.Work = p.Cost(s.Node), movedBytes(s.Node), worksOf(s.Node)
		if s.Node.Impl != nil {
			d.Impl, d.Device = s.Node.Impl.Name, p.DeviceOf(s.Node)
		}
	}
	if len(s.Ops) == 1 && s.Node != nil {
		d.Op = s.Node.Op.Name
	}
	return d
}

// movedBytes returns the size in bytes of a node's operands and results. An element that a stride of 0 repeats counts
// once. An operand that is read twice counts once.
func movedBytes(n *graph.Node) int {
	total := 0
	for _, v := range n.Out {
		total += v.Meta.Bytes()
	}
	for i, a := range n.In {
		seen := slices.ContainsFunc(n.In[:i], func(b graph.Arg) bool { return b.Value == a.Value })
		if a.Kind == graph.TensorArg && !seen {
			meta := a.Value.Meta
			total += min(meta.Bytes(), meta.Extent()*meta.DType.Size())
		}
	}
	return total
}

// worksOf describes the work of a node: first the work of its implementation, then for each operand the additional work
// that the operand's layout causes.
func worksOf(n *graph.Node) []report.Work {
	var list []report.Work
	for _, work := range n.Works() {
		d := report.Work{Footprint: work.Footprint, Steps: work.Steps, Bytes: map[string]float64{},
			Kernels: map[string]float64{}, Waits: map[string]float64{}}
		for a, b := range work.Bytes {
			if b != 0 {
				d.Bytes[graph.Access(a).String()] = b
			}
		}
		for _, p := range work.Parts {
			switch {
			case p.Kernel == "" || p.Units == 0:
			case p.Unoverlapped:
				d.Waits[p.Kernel] += p.Units
			default:
				d.Kernels[p.Kernel] += p.Units
			}
		}
		list = append(list, d)
	}
	return list
}

func loopOf(loop graph.Loop) *report.Loop {
	d := &report.Loop{Shape: notNil(loop.WalkShape())}
	for i := range loop.Len() {
		d.Strides = append(d.Strides, notNil(loop.WalkStrides(i)))
	}
	return d
}

// isLoop reports whether d describes a loop. A nil description describes no loop.
func isLoop(d *report.Loop, loop graph.Loop) bool {
	if d == nil || loop.Len() != len(d.Strides) || !slices.Equal(d.Shape, loop.WalkShape()) {
		return false
	}
	for i, st := range d.Strides {
		if !slices.Equal(st, loop.WalkStrides(i)) {
			return false
		}
	}
	return true
}

func memoryOf(n exec.Need) report.Memory {
	return report.Memory{Inputs: n.Inputs, Constants: n.Constants, Originals: n.Originals, Packed: n.Packed,
		Arena: n.Arena, Outputs: n.Outputs, Scratch: n.Scratch, Total: n.Total(),
		Largest: mapList(n.Largest, func(h exec.Holding) report.Holding {
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

// notNil returns an empty slice for nil.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
