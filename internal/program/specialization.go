package program

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Specialization is a plan for all sizes that satisfy its guards, the conditions on sizes under which its decisions are
// valid. Layouts, implementations, copies, groups and folded constants were chosen once, for the sizes of its hint. A
// [Binding], which is the compiled graph for one set of sizes, repeats these decisions without a search.
type Specialization struct {
	Hint      []int // the sizes at which the plan was priced, by open symbol (which gets its size from a run's inputs)
	Decisions *passes.Decisions
	Plan      *passes.Plan // for the hint; it holds the constants that all bindings share
	err       error        // why there is no plan
	// isFollowed is set once the binding of a part at other sizes than the hint follows the decisions: see parts.go.
	isFollowed atomic.Bool

	classLock interrupt.Mutex // guards classes
	classes   []*class        // the first one contains the hint
}

// maxSpecializations is the maximum number of specializations that are kept in addition to one for each hint.
const maxSpecializations = 32

// Specializes reports whether several sets of sizes can share a plan of the whole graph. This requires that sizes are
// open, and that shapes do not depend on data. Otherwise the parts of the graph share plans: see parts.go.
//
// Passes of the user run for each set of sizes, and their results are compared with the decisions of the
// specialization. With Options.KeepGoing, sizes at which inference rejects nodes have separate plans.
func (p *Program) Specializes() bool {
	return p.graph != nil && len(p.openSymbols) > 0 && (p.firstBinding == nil || !p.firstBinding.RunnableGraph.Dynamic())
}

// SpecializationAt returns the specialization of a hint; the first call plans it. It returns nil for a nil hint, or if
// the graph cannot be planned for the hint.
//
// It panics when the context ends, as all functions that plan specializations do: see [interrupt.Check].
func (p *Program) SpecializationAt(ctx context.Context, hint []int) *Specialization {
	if hint == nil {
		return nil
	}
	defer p.lock(ctx)()
	i := slices.IndexFunc(p.specializations, func(spec *Specialization) bool { return slices.Equal(spec.Hint, hint) })
	if i < 0 {
		spec := &Specialization{Hint: hint}
		spec.err = spec.plan(ctx, p)
		interrupt.Check(ctx)
		i = p.addSpecialization(spec)
	}
	if spec := p.specializations[i]; spec.err == nil {
		return spec
	}
	return nil
}

// Specializations returns the specializations that have been planned.
func (p *Program) Specializations() []*Specialization {
	defer p.lock(context.Background())()
	return slices.DeleteFunc(slices.Clone(p.specializations), func(spec *Specialization) bool { return spec.err != nil })
}

// lock takes planningLock, and returns a function that releases it. It panics when the context ends: see
// [interrupt.Check].
func (p *Program) lock(ctx context.Context) (unlock func()) {
	if p.planningLock.Lock(ctx) != nil {
		interrupt.Check(ctx)
	}
	return p.planningLock.Unlock
}

// addSpecialization adds a specialization and returns its index. If there are too many, it drops the oldest
// specialization that does not belong to a hint.
func (p *Program) addSpecialization(spec *Specialization) int {
	if len(p.specializations) >= maxSpecializations+len(p.hints) { // so at least one does not belong to a hint
		i := slices.IndexFunc(p.specializations, func(spec *Specialization) bool {
			return !slices.ContainsFunc(p.hints, func(hint []int) bool { return slices.Equal(hint, spec.Hint) })
		})
		p.specializations = slices.Delete(p.specializations, i, i+1)
	}
	p.specializations = append(p.specializations, spec)
	return len(p.specializations) - 1
}

// plan plans a specialization without compiling it.
func (spec *Specialization) plan(ctx context.Context, owner *Program) (err error) {
	defer tensor.CatchMemory(&err)
	owner.options.Progress("planning")
	g, err := owner.GraphAt(ctx, spec.Hint)
	if err != nil {
		return err
	}
	options := owner.PlanOptions(ctx)
	options.Record = true
	if spec.Plan, err = owner.runPasses(g, options); err != nil {
		return err
	}
	spec.Decisions = spec.Plan.Decisions
	return nil
}

// Follow plans g, a graph of [Program.GraphAt], by the decisions of a specialization. It computes the cost of the plan,
// and applies no limit on memory. It returns a [*passes.Misfit] if the decisions cannot be applied.
func (p *Program) Follow(ctx context.Context, spec *Specialization, g *graph.Graph) (*passes.Plan, error) {
	options := p.PlanOptions(ctx)
	const noLimit = -1
	options.Follow, options.Price = spec.Decisions, true
	options.Check, options.MemoryLimit = false, noLimit
	return p.runPasses(g, options)
}

// GraphAt returns the graph with the given sizes of the open symbols, after inference.
func (p *Program) GraphAt(ctx context.Context, sizes []int) (*graph.Graph, error) {
	interrupt.Check(ctx)
	g := p.graph.Clone()
	if err := p.bind(g, p.SizesByName(sizes)); err != nil {
		return nil, err
	}
	return g, g.PinCause(Infer(ctx, g))
}

// prepare plans and compiles an inferred graph. If there is a specialization for the sizes, the plan follows it. sizes
// has the sizes of the open symbols.
func (b *Binding) prepare(ctx context.Context, owner *Program, sizes []int) error {
	runnable, err := b.RunnableGraph.Runnable()
	if err != nil {
		return err
	}
	if runnable.Dynamic() {
		b.parts, b.graphOfParts, b.Segment = newPartList(runnable), runnable, -1
		if !b.isHint && owner.firstBinding == nil { // the sizes of the first run must not have an effect
			return nil
		}
		b.parts = owner.sharedParts(b.parts)
		if b.isHint {
			return b.prepareFirstPart(ctx, owner)
		}
		return nil
	}
	mode := planMode{keepGoing: owner.options.KeepGoing}
	if len(owner.openSymbols) == 0 {
		return b.plan(ctx, owner, runnable, mode)
	}
	if b.isHint {
		mode.record = true
		if err := b.plan(ctx, owner, runnable, mode); err != nil || len(b.failed) > 0 {
			return err // at other sizes other nodes may be rejected, so the plan is not shared
		}
		b.decisionsFrom = &Specialization{Hint: sizes, Decisions: b.Plan.Decisions, Plan: b.Plan}
		defer owner.lock(ctx)()
		owner.addSpecialization(b.decisionsFrom)
		return nil
	}
	if owner.firstBinding != nil && len(b.failed) == 0 { // after Compile, and if inference rejected no node
		for spec := range owner.specializationsFor(ctx, sizes) {
			mode.follow = spec.Decisions
			err := b.plan(ctx, owner, runnable, mode)
			if err == nil {
				b.decisionsFrom = spec
				if !mode.keepGoing { // whose runs read it
					b.Graph, b.RunnableGraph = nil, nil
				}
				return nil
			}
			if errors.As(err, new(*exec.MemoryError)) && !mode.keepGoing || interrupt.Err(ctx) != nil {
				return err
			}
			// Otherwise, for example, the decisions cannot be applied at these sizes.
		}
	}
	mode.follow = nil
	return b.plan(ctx, owner, runnable, mode)
}

// prepareFirstPart plans and compiles the first part whose shapes are known before a run, for inputs in the declared
// layouts.
func (b *Binding) prepareFirstPart(ctx context.Context, owner *Program) error {
	run := &partsRun{partList: b.parts, owner: owner, ctx: ctx, keepGoing: owner.options.KeepGoing}
	for i := range b.parts.parts {
		part := &b.parts.parts[i]
		interrupt.Check(ctx)
		isDynamic := func(v *graph.Value) bool { return v.Dynamic }
		if part.Dynamic || len(part.AttrInputs) > 0 || slices.ContainsFunc(part.In, isDynamic) {
			continue
		}
		run.knownValues = make(map[*graph.Value]*tensor.Tensor, len(b.parts.graph.Inputs)+len(part.In))
		for i, v := range b.parts.graph.Inputs { // only the metas of the tensors are read
			run.knownValues[v] = &tensor.Tensor{Meta: b.graphOfParts.Inputs[i].Meta}
		}
		for _, v := range part.In {
			if run.knownValues[v] == nil { // computed by an earlier part, whose sizes do not depend on data
				run.knownValues[v] = &tensor.Tensor{Meta: b.graphOfParts.Value(v.Name).Meta}
			}
		}
		run.beforeRun = true
		first, err := owner.bindingForPart(run, part, true /* all nodes */)
		if err != nil {
			return err
		}
		if first.parts != nil { // shapes inside the part depend on data
			continue
		}
		b.Segment, b.Plan, b.Program = i, first.Plan, first.Program
		return nil
	}
	return nil
}

// PlanOptions returns the options of passes for this program.
func (p *Program) PlanOptions(ctx context.Context) passes.Options {
	options := p.options
	return passes.Options{Context: ctx, Strategy: options.Strategy, Profile: options.Costs, Passes: options.Passes,
		MemoryLimit: options.MemoryLimit, Threads: options.Threads, Check: options.Check,
		Inferred: p.needsInference && !p.hasOwnPasses, Options: layout.Options{Exact: options.Exact,
			SolveLimit: options.SolveLimit, Slack: options.Slack, Device: p.device}}
}

// planMode has the options of [Binding.plan]. The zero value makes a plan by a search.
type planMode struct {
	record    bool              // whether the decisions are recorded for a specialization
	follow    *passes.Decisions // decisions to apply without a search; may be nil
	keepGoing bool              // whether nodes that fail are omitted
	inRun     bool              // a run plans the part: the plan is neither written to Options.Dump nor kept
}

// tryPlan plans and compiles a graph whose shapes are known. The plan is nil if planning fails.
func (b *Binding) tryPlan(ctx context.Context, owner *Program, g *graph.Graph, mode planMode) (*passes.Plan, error) {
	owner.options.Progress("planning")
	options := owner.PlanOptions(ctx)
	options.Record, options.Follow = mode.record, mode.follow
	options.Inferred = options.Inferred || b.isPart && !owner.hasOwnPasses
	if !mode.inRun {
		options.Dump = owner.options.Dump
	}
	planned, err := owner.runPasses(g, options)
	if err != nil {
		return nil, fmt.Errorf("%w (strategy %s)", err, owner.options.Strategy.Name())
	}
	if !mode.inRun {
		b.Plan = planned
	}
	return planned, b.compilePlan(ctx, owner, planned, mode.keepGoing)
}

// compilePlan compiles a plan.
func (b *Binding) compilePlan(ctx context.Context, owner *Program, planned *passes.Plan, keepGoing bool) (err error) {
	owner.options.Progress("compiling")
	compileOptions := owner.execOptions(ctx)
	compileOptions.KeepGoing, compileOptions.InputsInMemory = keepGoing, compileOptions.InputsInMemory || b.isPart
	b.Program, err = exec.Compile(planned.Graph, compileOptions)
	if ended := interrupt.Err(ctx); err != nil && ended != nil {
		return ended
	}
	return err
}

// execOptions returns the options of compilation for this program.
func (p *Program) execOptions(ctx context.Context) exec.Options {
	return exec.Options{Context: ctx, Threads: p.options.Threads, Costs: p.options.Costs, Tracer: p.options.Tracer,
		MemoryLimit: p.options.MemoryLimit, InputsInMemory: p.options.InputsInMemory, Pool: p.pool,
		Device: p.device, Uploads: p.uploads}
}

// class is a set of sizes with one plan, in which sizes are expressions: the template. A [Binding] of the class
// evaluates the template at its sizes. It runs no pass, and lowers only the nodes that differ from the latest binding.
// A class contains sizes at which the guards of a specialization have the same outcomes, and at which the template
// applies: the same implementations support the sizes, and read constants in the same packed form.
type class struct {
	guards         []graph.Guard
	guardEvaluator *sym.Evaluator // evaluates the guards; nil if they are unknown
	contains       *sym.Evaluator // evaluates the guards and sizeKinds: the sizes of the class
	err            error          // why they are unknown

	template *passes.Template             // nil if bindings must be planned
	sizes    []int                        // for which the template was made
	verified []atomic.Bool                // by open symbol: see verify
	isWrong  atomic.Bool                  // a binding differed from the plan that is made anew: bindings must be planned
	last     atomic.Pointer[boundProgram] // of the latest binding
	memory   exec.MemoryPlans             // of all bindings
	bindings atomic.Int64                 // number of bindings
}

// boundProgram is the plan of a binding, and its program.
type boundProgram struct {
	plan    *passes.BoundPlan
	program *exec.Program
}

// maxClasses is the maximum number of classes of a specialization. Sizes in further classes are planned one by one.
const maxClasses = 8

// hintClass returns the class of the hint, which has index 0. The first call computes it.
func (spec *Specialization) hintClass(ctx context.Context, p *Program) *class {
	if spec.classLock.Lock(ctx) != nil { // lockClasses would allocate
		interrupt.Check(ctx)
	}
	defer spec.classLock.Unlock()
	if len(spec.classes) == 0 {
		spec.classes = append(spec.classes, p.newClass(ctx, spec, spec.Hint))
	}
	return spec.classes[0]
}

// lockClasses takes classLock, and returns a function that releases it. It panics when the context ends.
func (spec *Specialization) lockClasses(ctx context.Context) (unlock func()) {
	if spec.classLock.Lock(ctx) != nil {
		interrupt.Check(ctx)
	}
	return spec.classLock.Unlock
}

// classesFor yields the classes that may contain sizes: first those that are known, then a new one.
func (spec *Specialization) classesFor(ctx context.Context, p *Program, sizes []int) iter.Seq[*class] {
	return func(yield func(*class) bool) {
		if spec.hintClass(ctx, p).err != nil {
			return
		}
		unlock := spec.lockClasses(ctx)
		known := slices.Clone(spec.classes)
		unlock()
		for _, class := range known {
			if class.contains.Hold(sizes) && !yield(class) {
				return
			}
		}
		if len(known) >= maxClasses {
			return
		}
		created := p.newClass(ctx, spec, sizes)
		if created.err != nil {
			return
		}
		if yield(created) { // the template does not even apply to these sizes
			created.template = nil
		}
		defer spec.lockClasses(ctx)()
		if len(spec.classes) == len(known) { // else another goroutine may have added the same class
			spec.classes = append(spec.classes, created)
		}
	}
}

// newClass returns the class of sizes.
func (p *Program) newClass(ctx context.Context, spec *Specialization, sizes []int) *class {
	p.planCount.Add(1)
	created := &class{sizes: slices.Clone(sizes), verified: make([]atomic.Bool, len(sizes))}
	plan, err := p.SymbolicPlanOf(ctx, spec, sizes)
	interrupt.Check(ctx)
	if err == nil {
		created.guards = plan.Guards
		created.guardEvaluator, err = p.Evaluator(plan.Symbolic, nil /* no sizes */, plan.Env.Guards())
	}
	if err == nil {
		conditions := slices.Concat(plan.Env.Guards(), plan.sizeKinds())
		created.contains, err = p.Evaluator(plan.Symbolic, nil /* no sizes */, conditions)
	}
	if created.err = err; err == nil {
		created.template, _ = plan.plan.TemplateOver(p.openSymbols, plan.Name) // nil after an error
	}
	return created
}

// sizeKinds returns the conditions that each size of a value is 0, 1 or greater, as at the given sizes. Planning
// decides by these kinds without recording guards: results of values without elements are constants, and a dimension of
// size 1 has no place in the order of dimensions.
func (s *SymbolicPlan) sizeKinds() (conditions []sym.Bool) {
	known := map[string]bool{}
	for _, g := range []*graph.Graph{s.Symbolic.Graph, s.PlannedGraph} {
		g.Values(func(v *graph.Value) {
			for _, size := range v.Type.Shape {
				if _, isNumber := size.Known(); isNumber || known[size.String()] {
					continue
				}
				known[size.String()] = true
				switch kind := size.Hint(); kind {
				case 0, 1:
					conditions = append(conditions, size.Eq(sym.Of(kind)))
				default:
					conditions = append(conditions, sym.Of(2).Le(size))
				}
			}
		})
	}
	return conditions
}

// Usage returns the use of plans so far. Parts whose shapes depend on data count as plans; their classes are not
// listed. It returns nothing for a nil program.
func (p *Program) Usage() report.Usage {
	if p == nil || p.planCount == nil { // New did not make p
		return report.Usage{}
	}
	usage := report.Usage{Plans: int(p.planCount.Load())}
	for _, spec := range p.Specializations() {
		unlock := spec.lockClasses(context.Background())
		for _, class := range spec.classes {
			if class.template != nil {
				used := report.ClassUsage{Anchor: p.SizesByName(spec.Hint), Bindings: int(class.bindings.Load())}
				for _, guard := range class.guards {
					used.Guards = append(used.Guards, guard.Cond.String())
				}
				usage.Classes = append(usage.Classes, used)
			}
		}
		unlock()
	}
	return usage
}

// bind compiles a binding by a template, without planning. It returns false if the sizes need a plan of their own.
func (b *Binding) bind(ctx context.Context, owner *Program, sizes []int) (bound bool, err error) {
	if b.isHint || owner.firstBinding == nil || !owner.Specializes() || owner.hasOwnPasses || owner.options.KeepGoing ||
		owner.device != nil {
		return false, nil
	}
	for i, n := range sizes {
		if n != owner.Clamp(i, n) { // outside its bounds: inference returns the error
			return false, nil
		}
	}
	for spec := range owner.specializationsFor(ctx, sizes) {
		for class := range spec.classesFor(ctx, owner, sizes) {
			if class.template == nil || class.isWrong.Load() {
				return false, nil
			}
			err := b.bindTo(ctx, owner, class, spec, sizes)
			if err == nil || !errors.As(err, new(*passes.Misfit)) {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// bindTo compiles a binding by the template of a class. It returns a [*passes.Misfit] if the sizes are not in the
// class.
func (b *Binding) bindTo(ctx context.Context, owner *Program, class *class, spec *Specialization, sizes []int) error {
	options := owner.execOptions(ctx)
	var base *passes.BoundPlan
	if last := class.last.Load(); last != nil {
		base, options.Base = last.plan, last.program
	}
	plan, err := class.template.At(ctx, sizes, base)
	if err != nil {
		return err
	}
	if err := class.verify(ctx, owner, spec, sizes, plan.Plan.Graph); err != nil {
		if owner.options.Check {
			return fmt.Errorf("the plan for %s differs from the plan that is made anew: %w", SizesText(b.sizes), err)
		}
		return &passes.Misfit{Why: err.Error()}
	}
	options.MemoryPlans, options.Bound = &class.memory, plan.Bound
	if b.Program, err = exec.Compile(plan.Plan.Graph, options); err != nil {
		return fmt.Errorf("compiling the plan for %s: %w", SizesText(b.sizes), err)
	}
	class.last.Store(&boundProgram{plan, b.Program})
	class.bindings.Add(1)
	if b.decisionsFrom = spec; !b.isPart {
		b.Plan = plan.Plan
	}
	return nil
}

// verify compares a graph that the template made with the graph that is planned at the same sizes: for the first sizes
// at which a symbol differs from the sizes of the template, and for all sizes with Options.Check. A number that a pass
// or a decomposition took from the sizes of the template, instead of an expression, then makes a difference. No further
// binding uses a template that is wrong.
func (c *class) verify(ctx context.Context, owner *Program, spec *Specialization, sizes []int, bound *graph.Graph) error {
	isNew := func(i int) bool { return sizes[i] != c.sizes[i] && !c.verified[i].Load() }
	hasNew := false
	for i := range sizes {
		hasNew = hasNew || isNew(i)
	}
	if !hasNew && !owner.options.Check {
		return nil
	}
	if err := owner.checkBound(ctx, spec, sizes, bound); err != nil {
		isTransient := errors.As(err, new(*tensor.MemoryError)) || interrupt.Err(ctx) != nil
		c.isWrong.Store(!isTransient)
		return err
	}
	for i := range sizes {
		if sizes[i] != c.sizes[i] {
			c.verified[i].Store(true)
		}
	}
	return nil
}

// checkBound compares a graph that a template made with the graph that is planned at the same sizes.
func (p *Program) checkBound(ctx context.Context, spec *Specialization, sizes []int, bound *graph.Graph) error {
	g, err := p.GraphAt(ctx, sizes)
	if err != nil {
		return err
	}
	options := p.PlanOptions(ctx)
	options.Follow, options.Check = spec.Decisions, false
	plan, err := p.runPasses(g, options)
	if err != nil {
		return err
	}
	return passes.DifferenceOf(plan.Graph, bound)
}

// OpenSymbols returns the symbols whose sizes come from the inputs of runs, sorted. Lists of sizes are in this order.
func (p *Program) OpenSymbols() []string { return p.openSymbols }

// AssumedSizes returns a size for each open symbol, which plans use if neither an input nor a hint gives the size. See
// [graph.Graph.Assumed].
func (p *Program) AssumedSizes() []int { return p.assumedSizes }

// Hints returns Options.Hints as lists of sizes of the open symbols. A symbol that a hint lacks has its assumed size.
func (p *Program) Hints() [][]int { return p.hints }

// Source returns the graph that is planned: the given graph with the layouts and implementations that the options
// prescribe (pins). It is nil for a program without open symbols.
func (p *Program) Source() *graph.Graph { return p.graph }

// SizesByName returns sizes of the open symbols by name.
func (p *Program) SizesByName(sizes []int) map[string]int {
	byName := make(map[string]int, len(sizes))
	for i, name := range p.openSymbols {
		byName[name] = sizes[i]
	}
	return byName
}

// Clamp returns n clamped to the bounds of open symbol i.
func (p *Program) Clamp(i, n int) int { return p.graph.Symbols[p.openSymbols[i]].Clamp(n) }

// distance measures the difference between two lists of sizes: the sum of |log(a[i]/b[i])|. Size 0 counts as 1.
func distance(a, b []int) (sum float64) {
	for i := range a {
		sum += math.Abs(math.Log(float64(max(a[i], 1)) / float64(max(b[i], 1))))
	}
	return sum
}

// Symbolic infers the graph for unknown sizes. Inference may branch on a condition that the bounds of the symbols do
// not decide. It then takes the outcome for the given sizes and records it as a guard.
func (p *Program) Symbolic(ctx context.Context, sizes []int) (*graph.Symbolic, error) {
	g := p.graph.Clone()
	if err := p.bind(g, nil); err != nil {
		return nil, err
	}
	g.SetContext(ctx)
	symbolic, err := g.Symbolic(p.SizesByName(sizes))
	if symbolic != nil && symbolic.Graph != nil {
		symbolic.Graph.SetContext(context.Background()) // the graph is used after ctx has ended
	}
	return symbolic, err
}

// Evaluator compiles expressions over the open symbols, and conditions on them.
func (p *Program) Evaluator(symbolic *graph.Symbolic, sizes []sym.Int, conds []sym.Bool) (*sym.Evaluator, error) {
	names := make([]string, len(p.openSymbols))
	for i, name := range p.openSymbols {
		names[i] = symbolic.Name(name) // the symbol's name in the environment of symbolic
	}
	return sym.NewEvaluator(names, sizes, conds)
}

// SymbolicPlan is the plan of a graph in which sizes are symbols instead of numbers. The sizes and strides
// in PlannedGraph are expressions in the symbols. Guards are the conditions under which these types hold.
type SymbolicPlan struct {
	*graph.Symbolic
	PlannedGraph *graph.Graph
	Guards       []graph.Guard

	plan *passes.Plan
}

// SymbolicPlanOf plans the graph for unknown sizes. It repeats the decisions of spec. Planning may branch on a
// condition that the bounds of the symbols do not decide. It then takes the outcome for the given sizes and records it
// as a guard.
func (p *Program) SymbolicPlanOf(ctx context.Context, spec *Specialization, sizes []int) (*SymbolicPlan, error) {
	symbolic, err := p.Symbolic(ctx, sizes)
	if err != nil {
		return nil, fmt.Errorf("inferring the graph for unknown sizes: %w", err)
	}
	// Guards of inference have nodes and are kept here. Planning appends guards without nodes to the environment.
	inferenceGuards := slices.Clone(symbolic.Guards)
	options := p.PlanOptions(ctx)
	options.Follow, options.Check, options.MemoryLimit, options.Template = spec.Decisions, false, -1, true
	plan, err := passes.Run(symbolic.Graph, options)
	if err != nil {
		return nil, fmt.Errorf("planning the graph for unknown sizes: %w", err)
	}
	symbolicPlan := &SymbolicPlan{Symbolic: symbolic, PlannedGraph: plan.Graph, Guards: inferenceGuards, plan: plan}
	for _, cond := range symbolic.Env.Guards()[len(inferenceGuards):] {
		symbolicPlan.Guards = append(symbolicPlan.Guards, graph.Guard{Cond: cond})
	}
	return symbolicPlan, nil
}
