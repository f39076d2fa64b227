package graphrun

import (
	"slices"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
)

// Report tells what a program does, and why. It is what the command graphrun prints as plan: its JSON
// has the keys of that document, but for the version that documents begin with.
type Report struct {
	Strategy     string              `json:"strategy" doc:"The strategy that was applied."`
	Exact        bool                `json:"exact,omitempty" doc:"Whether implementations that compute by another formula than the op's definition were left out; itself left out where false."`
	Optimal      bool                `json:"optimal" doc:"Whether it is proved that no plan costs less."`
	CostNS       float64             `json:"cost_ns" doc:"Its estimated cost, in nanoseconds."`
	SavedNS      float64             `json:"saved_ns,omitzero" doc:"What is saved, by the same estimate, in that values are written within others, where the strategy did not know of it: a bound and certificates are of the cost without that."`
	LowerBoundNS *float64            `json:"lower_bound_ns" doc:"What any plan costs at least, before values are written within others; null where unknown."`
	Profile      ProfileReport       `json:"profile" doc:"The profile of a machine that costs are estimated by."`
	Constants    float64             `json:"constants_bytes,omitzero" doc:"The bytes of the constants that all steps go over."`
	Passes       []PassReport        `json:"passes" doc:"The passes in their order, and what each did."`
	Copies       []CopyReport        `json:"copies" doc:"The copies that were inserted."`
	Elided       []ElisionReport     `json:"elided" doc:"The nodes that were found to be needless."`
	Folded       []FoldingReport     `json:"folded" doc:"The nodes that were computed ahead: they depend on constants alone."`
	Placed       []PlacedReport      `json:"placed,omitzero" doc:"The values that are written within others, without a copy."`
	Decomposed   []PartsReport       `json:"decomposed" doc:"The nodes of composite ops, for which others run."`
	Packed       []PackingReport     `json:"packed" doc:"The constants in the form of an implementation."`
	PackedInRuns []RunPacking        `json:"packed_in_runs,omitzero" doc:"The operands that are packed in every run."`
	Unchecked    []UncheckedReport   `json:"unchecked,omitzero" doc:"What --check could not compare."`
	Apart        []ApartReport       `json:"apart" doc:"Nodes that share no loop with one that reads them, though both could."`
	Steps        []StepReport        `json:"steps" doc:"What runs, in a valid order."`
	MovedBytes   int                 `json:"moved_bytes" doc:"The bytes of all that steps read and make, each operand once."`
	PeakBytes    int                 `json:"peak_bytes" doc:"Memory beside inputs and constants."`
	Memory       MemoryReport        `json:"memory" doc:"What a run needs in all."`
	PlanMS       float64             `json:"plan_ms" doc:"The time of planning and compiling."`
	Segments     []SegmentReport     `json:"segments,omitzero" doc:"In what it runs if data decide shapes."`
	Measured     *MeasuredReport     `json:"measured,omitzero" doc:"What --measure found: steps have their times."`
	Rejected     []RejectionReport   `json:"rejected,omitzero" doc:"The plans that --max-memory rejected, the wanted one first."`
	Within       *WithinReport       `json:"within_memory,omitzero" doc:"How good the plan is of those that --max-memory admits."`
	Advice       *AdviceReport       `json:"advice,omitzero" doc:"What a caller could change, where strategy optimal planned."`
	Best         []PlanChoice        `json:"best,omitzero" doc:"The cheapest plans, for --k-best: see [Program.Best]."`
	Sensitivity  *layout.Sensitivity `json:"sensitivity,omitzero" doc:"How far prices of copies may be off, for --sensitivity."`
	Classes      []ClassReport       `json:"classes,omitzero" doc:"The plans that serve other sizes: see [Program.Classes]."`
	RefusedHints []RefusedHint       `json:"refused_hints,omitzero" doc:"Sizes of --dim, beside the first, for which there is no plan."`
	ForAll       []ForAllReport      `json:"for_all,omitzero" doc:"Whether what --for-all asked holds for all sizes: see [Program.ForAll]."`
	NoCode       string              `json:"no_machine_code,omitzero" doc:"Why no loop is machine code, where none can be had: all run in Go."`
	Code         *CodeReport         `json:"code,omitzero" doc:"What --code asked for: see [Program.Code]."`
	Notes
}

// ProfileReport tells by which profile of a machine work is priced.
type ProfileReport struct {
	Digest       string `json:"digest" doc:"The sha256 of its canonical JSON, in hexadecimal digits."`
	CPU          string `json:"cpu" doc:"The processor that was measured."`
	Instructions string `json:"instructions" doc:"The instruction set that was measured."`
	Measured     string `json:"measured,omitzero" doc:"When it was measured (RFC 3339); left out of a default."`
	Default      bool   `json:"default" doc:"Whether it is the default: nobody measured the machine."`
}

// profileOf describes a profile; nil is the default.
func profileOf(p *layout.Profile) ProfileReport {
	if p == nil {
		p = layout.DefaultProfile()
	}
	return ProfileReport{p.Digest(), p.CPU, p.Instructions, p.Measured, p.Shipped()}
}

// CopyReport is a copy of a value in another layout that was inserted.
type CopyReport struct {
	Value  string  `json:"value" doc:"The value that is copied."`
	From   []int   `json:"from" doc:"Its strides, in elements."`
	To     []int   `json:"to" doc:"The strides of the copy, in elements."`
	Bytes  int     `json:"bytes" doc:"The size of the copy."`
	CostNS float64 `json:"cost_ns" doc:"What the copy is estimated to cost, in nanoseconds."`
	Why    string  `json:"why" doc:"What wants the copy."`
}

// PlacedReport is a value that is written where the result of a node that joins it with others has it.
type PlacedReport struct {
	Value   string  `json:"value" doc:"The value."`
	Within  string  `json:"within" doc:"The value that has the memory."`
	Bytes   int     `json:"bytes" doc:"The size of what is not copied."`
	SavedNS float64 `json:"saved_ns" doc:"What that saves by estimate, in nanoseconds, less what others take more to read it so."`
}

// ElisionReport is a node of the graph that does not run.
type ElisionReport struct {
	Node string `json:"node" doc:"The node that does not run."`
	Why  string `json:"why" doc:"Why it need not."`
}

// PassReport is a pass that was applied: see [Options.Passes].
type PassReport struct {
	Pass  string  `json:"pass" doc:"The name of the pass."`
	Doc   string  `json:"doc" doc:"What the pass does."`
	Did   string  `json:"did" doc:"What it did to this graph, in a few words; empty for nothing."`
	Nodes int     `json:"nodes" doc:"The nodes that the graph has after it."`
	MS    float64 `json:"ms" doc:"The time that it took, in milliseconds."`
}

// FoldingReport is a node that does not run, because it depends on constants alone.
type FoldingReport struct {
	Node  string `json:"node" doc:"The node that was computed ahead."`
	Op    string `json:"op" doc:"The op of the node."`
	Bytes int    `json:"bytes" doc:"The size of its results; 0 for a view."`
	Why   string `json:"why,omitzero" doc:"Of a node that a pass inserted, why it did."`
}

// PartsReport is a node of a composite op.
type PartsReport struct {
	Node string   `json:"node" doc:"The node of a composite op."`
	Op   string   `json:"op" doc:"The op of the node."`
	Into []string `json:"into" doc:"The nodes that run in its place."`
	Why  string   `json:"why,omitempty" doc:"Why it is restated with nodes before it, where it is."`
}

// ApartReport is a pair of nodes in different steps that could share a loop, or might be thought to: pointwise ones,
// those that fold rows, and scans.
type ApartReport struct {
	Node   string `json:"node" doc:"A node."`
	Reader string `json:"reader" doc:"A node that reads what it makes, in another step."`
	Why    string `json:"why" doc:"Why they are not one step."`
}

// PackingReport is a constant that was brought into the form in which an implementation reads it.
type PackingReport struct {
	Value   string   `json:"value" doc:"The packed constant."`
	Of      string   `json:"of" doc:"The constant that it was made of."`
	Form    string   `json:"form" doc:"The form, in words."`
	Bytes   int      `json:"bytes" doc:"The size of the packed constant."`
	Readers []string `json:"readers" doc:"The nodes that read it."`
}

// RunPacking is an operand that the kernel of a node packs in every run: it is no constant, or memory was short.
type RunPacking struct {
	Value string `json:"value" doc:"The operand."`
	Form  string `json:"form" doc:"The form in which its reader wants it, in words."`
	Node  string `json:"node" doc:"The node that reads it."`
}

// UncheckedReport is what [Options.Check] could not compare, because of a node or in general.
type UncheckedReport struct {
	Node    string   `json:"node,omitzero" doc:"The node because of which nothing was compared."`
	Op      string   `json:"op,omitzero" doc:"The op of the node."`
	Why     string   `json:"why" doc:"Why it could not be compared."`
	Outputs []string `json:"outputs" doc:"The outputs that went unchecked."`
}

// String says what went unchecked, and why.
func (u UncheckedReport) String() string {
	return passes.Unchecked{Node: u.Node, Op: u.Op, Why: u.Why, Outputs: u.Outputs}.String()
}

// RejectionReport is a plan that was not taken because a run of it needs too much memory.
type RejectionReport struct {
	Strategy string  `json:"strategy" doc:"The strategy of the plan."`
	Bytes    int     `json:"needs_bytes" doc:"What a run of it on one worker needs in all."`
	CostNS   float64 `json:"cost_ns" doc:"What it is estimated to cost, in nanoseconds."`
}

// WithinReport tells how good a plan is of those that need no more memory than they may.
type WithinReport struct {
	Tried        int     `json:"tried" doc:"How many of the cheapest plans of all need more memory, one after another."`
	LowerBoundNS float64 `json:"lower_bound_ns" doc:"What any plan that needs no more costs at least."`
	Optimal      bool    `json:"optimal" doc:"Whether this is the cheapest of them."`
}

// LoopReport is how a pointwise step walks over its operands.
type LoopReport struct {
	Shape   []int   `json:"shape" doc:"The coalesced shape, the fastest dimension first."`
	Strides [][]int `json:"strides" doc:"For each operand, outputs first, its strides in bytes, in the same order."`
}

// StepReport is a kernel call.
type StepReport struct {
	Name      string      `json:"name" doc:"The name of the step."`
	Ops       []string    `json:"ops" doc:"The nodes that it computes."`
	Op        string      `json:"op,omitzero" doc:"The op of the node where it computes one."`
	Impl      string      `json:"impl,omitzero" doc:"The implementation of the op that computes it."`
	Loop      *LoopReport `json:"loop,omitzero" doc:"The loop over elements; left out for what is none."`
	FastSetup string      `json:"fast_setup" of:"fast_setup" doc:"TensorIterator's short cut that laid it out."`
	CostNS    float64     `json:"cost_ns" doc:"What the step is estimated to cost, in nanoseconds."`
	Bytes     int         `json:"bytes,omitzero" doc:"The bytes of what it reads and makes, each operand once."`
	// MeasuredNS is set by who runs the plan: see the command's plan --measure.
	MeasuredNS *float64     `json:"measured_ns,omitzero" doc:"The median of the times that it took, in nanoseconds."`
	Work       []WorkReport `json:"work,omitzero" doc:"What is priced: of the implementation, then of its operands."`
	Strides    []int        `json:"strides" doc:"Strides of its first output, in elements."`
	Buffer     int          `json:"buffer" doc:"The memory of its first output, by number."`
}

// MeasuredReport is what was measured of a plan, beside what was estimated.
type MeasuredReport struct {
	Runs        int     `json:"runs" doc:"How often it was run, by one worker."`
	MeasuredNS  float64 `json:"measured_ns" doc:"The medians of all steps, in nanoseconds, added up."`
	PredictedNS float64 `json:"predicted_ns" doc:"What these were estimated to cost, in nanoseconds, added up."`
	MedianError float64 `json:"median_error" doc:"The median over steps of the estimate's relative error."`
	P90Error    float64 `json:"p90_error" doc:"The error that a tenth of the steps exceed."`
}

// MemoryReport is what a run needs, in bytes, by what it is for.
type MemoryReport struct {
	Inputs    int             `json:"inputs" doc:"For the inputs."`
	Constants int             `json:"constants" doc:"For the constants."`
	Packed    int             `json:"packed" doc:"For constants in the forms of implementations."`
	Arena     int             `json:"arena" doc:"For the arena, in which intermediate values take turns."`
	Outputs   int             `json:"outputs" doc:"For the outputs."`
	Scratch   int             `json:"scratch" doc:"For the scratch of all workers."`
	Total     int             `json:"total" doc:"All of these."`
	Largest   []HoldingReport `json:"largest" doc:"What takes most."`
}

// HoldingReport is a value that takes memory.
type HoldingReport struct {
	Kind  string `json:"kind" doc:"What it is for."`
	Name  string `json:"name" doc:"The value."`
	Bytes int    `json:"bytes" doc:"Its size."`
}

// Notes are what should be known of a graph beside results.
type Notes struct {
	Assumed  map[string]int `json:"assumed,omitzero" doc:"Sizes that nobody gave, by symbol."`
	Warnings []Mistake      `json:"warnings,omitzero" doc:"What may be wrong with the file."`
}

// Mistake is a [graph.Error] in a document.
type Mistake struct {
	Node    string `json:"node" doc:"The node that it is a mistake of; empty for none."`
	Op      string `json:"op,omitzero" doc:"The op of the node."`
	Message string `json:"message" doc:"What is wrong, in PyTorch's words where it has some."`
	File    string `json:"file,omitzero" doc:"The file that has the mistake."`
	Line    int    `json:"line,omitzero" doc:"The line in the file, from 1."`
	Col     int    `json:"col,omitzero" doc:"The column in the line, from 1."`
}

// Report tells what the program does, for the sizes that [Compile] saw. A graph whose shapes depend on data
// runs in segments, which are planned in runs but for the one whose shapes are known ahead: of that one are
// copies, steps and all else.
func (p *Program) Report() *Report {
	if p == nil || p.first == nil {
		return nil
	}
	plan, program := p.first.plan, p.first.ahead
	if program == nil { // nothing can be planned ahead
		plan, program = &passes.Plan{}, new(exec.Program)
	}
	r := &Report{Strategy: p.options.Strategy.Name(), Exact: p.options.Exact,
		CostNS: plan.CostNS, SavedNS: plan.SavedNS, PeakBytes: program.PeakBytes(),
		Memory: memoryOf(program.Need()), PlanMS: milliseconds(p.first.took),
		Profile: profileOf(p.options.Costs), RefusedHints: p.RefusedHints(), Notes: NotesOf(p.first.graph)}
	if err := jit.Available(); err != nil {
		r.NoCode = err.Error()
	}
	if known := KnownOf(p.first.runs); known != nil {
		r.Segments = known.segments(p.first.place)
	}
	r.Constants = plan.Kept()
	r.proved(plan)
	r.rewrites(plan)
	if p.options.Check {
		r.Unchecked = mapped(plan.Unchecked, func(u passes.Unchecked) UncheckedReport {
			return UncheckedReport{u.Node, u.Op, u.Why, filled(u.Outputs)}
		})
	}
	var loop *LoopReport
	r.Steps = mapped(program.Steps(), func(s exec.Step) StepReport {
		d := stepOf(plan, s)
		r.MovedBytes += d.Bytes
		if s.Loop != nil {
			if !isLoop(loop, s.Loop) { // of a million steps in a row that walk alike, one is kept
				loop = loopOf(s.Loop)
			}
			d.Loop, d.FastSetup = loop, s.Loop.FastSetup().String()
		}
		return d
	})
	return r
}

// rewrites tells what the passes did.
func (r *Report) rewrites(plan *passes.Plan) {
	r.Passes = mapped(plan.Passes, func(d passes.Done) PassReport {
		return PassReport{d.Name, d.Doc, d.Did, d.Nodes, milliseconds(d.Took)}
	})
	r.Copies = mapped(plan.Copies, copyOf)
	r.Elided = mapped(plan.Elided, func(e passes.Elision) ElisionReport { return ElisionReport{e.Node, e.Why} })
	r.Folded = mapped(plan.Folded, func(f passes.Folding) FoldingReport {
		return FoldingReport{f.Node, f.Op, f.Bytes, f.Why}
	})
	if len(plan.Placed) > 0 {
		r.Placed = mapped(plan.Placed, func(v passes.Placed) PlacedReport { return PlacedReport(v) })
	}
	r.Decomposed = mapped(plan.Decomposed, func(d passes.Decomposition) PartsReport {
		return PartsReport{d.Node, d.Op, filled(d.Into), d.Why}
	})
	r.Apart = mapped(plan.Apart, func(a passes.Apart) ApartReport { return ApartReport(a) })
	r.Packed = mapped(plan.Packed, func(c passes.Packing) PackingReport {
		return PackingReport{c.Value, c.Of, c.Form, c.Bytes, filled(c.Readers)}
	})
	if len(plan.PackedInRuns) > 0 {
		r.PackedInRuns = mapped(plan.PackedInRuns, func(c passes.RunPacking) RunPacking { return RunPacking(c) })
	}
}

func copyOf(c passes.Copy) CopyReport {
	return CopyReport{c.Value, filled(c.From), filled(c.To), c.Bytes, c.CostNS, c.Why}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// stepOf describes a step but for its loop.
func stepOf(p *passes.Plan, s exec.Step) StepReport {
	d := StepReport{Name: s.Name, Ops: filled(s.Ops), FastSetup: iter.FastNone.String(), Strides: filled(s.Strides),
		Buffer: s.Buffer}
	if s.Node != nil {
		d.CostNS, d.Bytes, d.Work = p.Cost(s.Node), movedBytes(s.Node), worksOf(s.Node)
		if s.Node.Impl != nil {
			d.Impl = s.Node.Impl.Name
		}
	}
	if len(s.Ops) == 1 && s.Node != nil {
		d.Op = s.Node.Op.Name
	}
	return d
}

// movedBytes is the size of what a node reads and of what it makes. Of an operand that repeats elements, by strides of
// 0, each counts once; one that is read twice counts as one.
func movedBytes(n *graph.Node) int {
	total := 0
	for _, v := range n.Out {
		total += v.Meta.Bytes()
	}
	for i, a := range n.In {
		seen := slices.ContainsFunc(n.In[:i], func(b graph.Arg) bool { return b.Value == a.Value })
		if a.Kind == graph.TensorArg && !seen {
			m := a.Value.Meta
			total += min(m.Bytes(), m.Extent()*m.DType.Size())
		}
	}
	return total
}

func loopOf(it *iter.Iterator) *LoopReport {
	d := &LoopReport{Shape: filled(it.WalkShape())}
	for i := range it.Len() {
		d.Strides = append(d.Strides, filled(it.WalkStrides(i)))
	}
	return d
}

// isLoop reports whether a description is that of an iterator. A nil one is of none.
func isLoop(d *LoopReport, it *iter.Iterator) bool {
	if d == nil || it.Len() != len(d.Strides) || !slices.Equal(d.Shape, it.WalkShape()) {
		return false
	}
	for i, st := range d.Strides {
		if !slices.Equal(st, it.WalkStrides(i)) {
			return false
		}
	}
	return true
}

func memoryOf(n exec.Need) MemoryReport {
	return MemoryReport{n.Inputs, n.Constants, n.Packed, n.Arena, n.Outputs, n.Scratch, n.Total(),
		mapped(n.Largest, func(h exec.Holding) HoldingReport { return HoldingReport{h.Kind, h.Name, h.Bytes} })}
}

// NotesOf returns what should be known of a graph: the sizes that were assumed, and its warnings.
func NotesOf(g *graph.Graph) (n Notes) {
	if g == nil {
		return n
	}
	if assumed := g.Assumed(); len(assumed) > 0 {
		n.Assumed = assumed
	}
	for _, e := range g.Warnings() {
		n.Warnings = append(n.Warnings, MistakeOf(e))
	}
	return n
}

// MistakeOf returns an error as it is in documents; the zero Mistake for nil.
func MistakeOf(e *graph.Error) Mistake {
	if e == nil {
		return Mistake{}
	}
	m := Mistake{Node: e.Node, Op: e.Op}
	if e.Err != nil {
		m.Message = e.Err.Error()
	}
	if e.Line > 0 {
		m.File, m.Line, m.Col = e.File, e.Line, e.Col
	}
	return m
}

// mapped returns a list that is never nil, as documents have lists.
func mapped[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}

// filled makes a nil list empty.
func filled[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}
