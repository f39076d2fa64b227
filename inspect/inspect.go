// Package inspect explains the plan of one program.
//
// [Report] is the whole plan as data: steps, copies, costs, memory, and the changes by passes. The other functions
// answer one question each:
//
//	e, err := inspect.Explain(p, "conv1")              // why a value has its layout, and what computes it
//	c, err := inspect.Code(p, "conv1")                 // the loops of a step, and their machine code
//	list, err := inspect.Specializations(p)            // plans for symbolic sizes: conditions, cost above the best
//	proof, err := inspect.ForAll(p, "no-copies")       // a property of plans at all sizes within bounds
//
// [ExplainLayout] and [FirstBreak] explain layouts of a graph before it is compiled. All results have JSON tags, and
// are parts of the documents of the command graphrun.
package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Report returns p.Report(), the description of the whole plan. It returns nil if graphrun.Compile did not make the
// program.
func Report(p *graphrun.Program) *report.Plan { return p.Report() }

// mapSlice applies f to each element of a list. The result is not nil.
func mapSlice[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}

// StepCode lists the loops of a step. It lists only loops that are compiled from expressions.
type StepCode struct {
	Step  string     `json:"step" doc:"The name of the step."`
	Ops   []string   `json:"ops" doc:"The nodes that it computes."`
	Why   string     `json:"why,omitzero" doc:"The reason why the step has no loops that are compiled from expressions; omitted if loops is not empty."`
	Loops []LoopCode `json:"loops" doc:"The loops, in the order of execution."`
}

// LoopCode is the expression of a loop over rows, and the code that was generated for it.
type LoopCode struct {
	Name       string   `json:"name,omitzero" doc:"The name of the loop, if the step has several."`
	Expression string   `json:"expression" doc:"The computation of one element, one value per line."`
	Results    []Access `json:"results" doc:"The results that it writes."`
	Operands   []Access `json:"operands" doc:"The operands that it reads."`
	Folds      []string `json:"folds,omitzero" doc:"The reductions over a row, such as \"add of v1\"."`
	Assembly   string   `json:"assembly,omitzero" doc:"The machine code, in the syntax of Go's assembler."`
	Why        string   `json:"why,omitzero" doc:"The reason why the loop runs in Go; omitted if there is machine code."`
}

// Access is the way in which a loop accesses an operand along a row: contiguous; broadcast (all elements of the row use
// one element); or staged (first copied to a block, which is a small buffer of the worker). The tag `of` is for JSON
// Schemas. It names the list of a field's possible values: of:"access" means Accesses.
type Access struct {
	DType  string `json:"dtype" of:"dtype" doc:"The dtype of the operand in memory."`
	Access string `json:"access" of:"access" doc:"How elements of a row are accessed."`
}

// Accesses lists the values of [Access.Access].
func Accesses() []string { return []string{accessContiguous, accessBroadcast, accessStaged} }

const (
	accessContiguous = "contiguous"
	accessBroadcast  = "broadcast"
	accessStaged     = "staged"
)

// Code returns the code of the step with the given name, or with a node of that name. If shapes depend on data, it
// searches only the part of the graph that is compiled before a run. It fails if there is no such step.
func Code(p *graphrun.Program, step string) (*StepCode, error) {
	first := p.Internal().FirstBinding()
	if first == nil || first.Program == nil {
		return nil, errors.New("the program has no steps before a run, because the shapes of all its nodes depend on data")
	}
	found, err := findStep(first.Program.Steps(), step)
	if err != nil {
		return nil, err
	}
	code := &StepCode{Step: found.Name, Ops: program.NotNil(found.Ops), Loops: []LoopCode{}}
	if found.Code != nil {
		code.Loops = mapSlice(found.Code(), loopCodeOf)
	}
	switch {
	case len(code.Loops) > 0: // no reason is needed
	case found.Loop != nil: // the step iterates over elements, but has no compiled loops
		code.Why = "the op has no expression: a Go function computes its elements"
	default:
		code.Why = "the kernel of the step has no expression: it is written in Go, or only copies elements"
	}
	return code, nil
}

// findStep returns the step with a name or, if there is none, the step that computes the node with this name.
func findStep(steps []exec.Step, name string) (*exec.Step, error) {
	i := slices.IndexFunc(steps, func(step exec.Step) bool { return step.Name == name })
	if i < 0 {
		i = slices.IndexFunc(steps, func(step exec.Step) bool { return slices.Contains(step.Ops, name) })
	}
	if i >= 0 {
		return &steps[i], nil
	}
	names := func(yield func(string) bool) {
		for _, step := range steps {
			if !yield(step.Name) {
				return
			}
		}
	}
	return nil, fmt.Errorf("there is no step %q%s", name, suggest.ForUnknown(name, "steps", names))
}

// loopCodeOf returns the expression of a loop, the accesses of its results and operands, and its machine code.
func loopCodeOf(listing expr.Listing) LoopCode {
	loop := LoopCode{Name: listing.Name, Results: []Access{}, Operands: []Access{}, Why: listing.Why}
	if listing.Assembly != nil {
		loop.Assembly = listing.Assembly()
	}
	if listing.Loop == nil {
		return loop
	}
	code := listing.Loop.Code
	loop.Expression = code.String()
	for i, o := range code.Out {
		if o.DType != tensor.Invalid { // otherwise the output is folded over the row and not stored
			const isScalar = false
			loop.Results = append(loop.Results, accessOf(&listing, o.DType, i, isScalar))
		}
	}
	for i, dtype := range code.In {
		loop.Operands = append(loop.Operands, accessOf(&listing, dtype, len(code.Out)+i, listing.Loop.Uniform[i]))
	}
	for _, f := range listing.Loop.Folds {
		loop.Folds = append(loop.Folds, fmt.Sprintf("%v of v%d", f.Op, f.Value))
	}
	return loop
}

// accessOf returns the access to a result or an operand. index counts first the results and then the operands. isScalar
// means that the result or operand has one element for the whole row.
func accessOf(listing *expr.Listing, dtype tensor.DType, index int, isScalar bool) Access {
	access := accessContiguous
	switch {
	case isScalar:
		access = accessBroadcast
	case index < len(listing.Staged) && listing.Staged[index]:
		access = accessStaged
	}
	return Access{DType: dtype.String(), Access: access}
}

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
		o.Impl, o.Device = candidate.Impl, plan.DeviceOf(candidate.Node)
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

// MemoryFormulas are the sizes of the buffers of a [Specialization] as expressions over symbols. The layout of the
// arena (the memory that intermediate values share) has no expression: it is computed when sizes are bound.
type MemoryFormulas struct {
	Outputs string `json:"outputs_bytes" doc:"The bytes of outputs that steps write, as an expression over symbols."`
	AtOnce  string `json:"at_once_bytes" doc:"The maximum number of bytes of intermediate values that are live at once if steps run in order, as an expression over symbols; steps that overwrite an operand need less, and concurrent steps need more."`
}

const (
	// maxMoments is the maximum number of operands of MemoryFormulas.AtOnce. This expression is a maximum whose
	// operands are the numbers of bytes that are live during single steps.
	maxMoments = 24
	maxNodes   = 1 << 14 // maximum number of nodes of a graph for which AtOnce is computed
)

// memory has two sizes in bytes, as expressions.
type memory struct {
	outputs sym.Int // size of the outputs that steps write
	maxLive sym.Int // maximum size of the live intermediate values
}

// memoryOf computes the memory of a planned graph with symbolic sizes. It returns false if the expressions would be
// long: see maxMoments and maxNodes. For example, let the float32 values a = relu(x), b = exp(a) and y = sum(b) have N,
// N and 1 elements. Then a needs 4*N bytes, and a and b together 8*N bytes. maxLive is 8*N, and outputs is 4.
func memoryOf(g *graph.Graph) (sizes memory, ok bool) {
	if len(g.Nodes) > maxNodes {
		return sizes, false
	}
	isOutput := map[*graph.Value]bool{}
	for _, output := range g.Outputs {
		isOutput[output.Value.Root()] = true
	}
	lastReader := lastReaders(g)
	var live sym.Int
	freedAfter := make([]sym.Int, len(g.Nodes)) // indexed by node: the bytes of the values that are dead after the node
	// moments has the number of bytes that are live during each step. A step is omitted if another step never has fewer
	// bytes.
	var moments []sym.Int
	for i, n := range g.Nodes {
		for _, v := range n.Out {
			if v.Alias != nil || n.Op.Stores { // a view, or in the memory of an input
				continue
			}
			bytes := bufferElements(v).Mul(sym.Of(v.Type.DType.Size()))
			if isOutput[v] {
				sizes.outputs = sizes.outputs.Add(bytes)
				continue
			}
			live = live.Add(bytes)
			end := max(lastReader[v], i)
			freedAfter[end] = freedAfter[end].Add(bytes)
		}
		if !n.IsView() { // a step
			moments = addMoment(moments, live)
		}
		if len(moments) > maxMoments {
			return sizes, false
		}
		live = live.Sub(freedAfter[i])
	}
	for i, bytes := range moments {
		if i == 0 {
			sizes.maxLive = bytes
		}
		sizes.maxLive = sizes.maxLive.Max(bytes)
	}
	return sizes, true
}

// lastReaders returns, for each value that is not a view, the index of the last node that reads the value or a view of
// it. Values without readers are missing.
func lastReaders(g *graph.Graph) map[*graph.Value]int {
	readers := map[*graph.Value]int{}
	for i, n := range g.Nodes {
		for _, a := range n.In {
			if a.Kind == graph.TensorArg {
				readers[a.Value.Root()] = i
			}
		}
	}
	return readers
}

// bufferElements returns the number of elements in the buffer of a value. If a value is not dense, the gaps between
// elements count, too.
func bufferElements(v *graph.Value) sym.Int {
	// v.Meta has example sizes. The answer holds for all sizes: if a step writes a value densely at one size, it does
	// so at all sizes.
	if v.Meta.IsNonOverlappingAndDense() {
		return v.Type.Numel().Simplify()
	}
	return v.Type.Extent().Simplify()
}

// addMoment adds the bytes of a moment to list, the operands of a maximum. It drops operands that never exceed another
// operand. It overwrites list.
func addMoment(list []sym.Int, moment sym.Int) []sym.Int {
	neverLess := func(a, b sym.Int) bool { holds, known := a.Ge(b).Known(); return known && holds }
	remaining := list[:0]
	for i, other := range list {
		if neverLess(other, moment) {
			return append(remaining, list[i:]...)
		}
		if !neverLess(moment, other) {
			remaining = append(remaining, other)
		}
	}
	return append(remaining, moment)
}
