package program

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes"
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
	// isFollowed is set once the binding of a part at other sizes than the hint follows the decisions: see openparts.go.
	isFollowed atomic.Bool

	classLock interrupt.Mutex // guards classes
	classes   []*class        // the first one contains the hint
}

// maxSpecializations is the maximum number of specializations that are kept in addition to one for each hint.
const maxSpecializations = 32

// Specializes reports whether several sets of sizes can share a plan of the whole graph. This requires that sizes are
// open, and that shapes do not depend on data. Otherwise the parts of the graph share plans: see openparts.go.
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
	if len(spec.Plan.Failed) > 0 {
		return spec.Plan.Failed
	}
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
	return g, g.PinCause(InferContext(ctx, g))
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
				if !owner.options.KeepGoing { // whose runs read it
					b.Graph, b.RunnableGraph = nil, nil
				}
				return nil
			}
			if errors.As(err, new(*exec.MemoryError)) || interrupt.Err(ctx) != nil {
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
		KeepGoing: options.KeepGoing, Inferred: p.needsInference && !p.hasOwnPasses, Exact: options.Exact,
		SolveLimit: options.SolveLimit, Slack: options.Slack, Device: p.device}
}

// planMode has the options of [Binding.plan]. The zero value makes a plan by a search.
type planMode struct {
	record    bool              // whether the decisions are recorded for a specialization
	follow    *passes.Decisions // decisions to apply without a search; may be nil
	keepGoing bool              // whether nodes that fail are omitted
	inRun     bool              // a run plans the part: the plan is neither written to Options.Dump nor kept
}

// plan plans and compiles a graph whose shapes are known.
func (b *Binding) plan(ctx context.Context, owner *Program, g *graph.Graph, mode planMode) error {
	owner.options.Progress("planning")
	options := owner.PlanOptions(ctx)
	options.Record, options.Follow, options.KeepGoing = mode.record, mode.follow, mode.keepGoing
	options.Inferred = options.Inferred || b.isPart && !owner.hasOwnPasses
	if !mode.inRun {
		options.Dump = owner.options.Dump
	}
	planned, err := owner.runPasses(g, options)
	if err != nil {
		return fmt.Errorf("%w (strategy %s)", err, owner.options.Strategy.Name())
	}
	if !mode.inRun {
		b.Plan = planned
	}
	return b.compilePlan(ctx, owner, planned, mode.keepGoing)
}

// compilePlan compiles a plan.
func (b *Binding) compilePlan(ctx context.Context, owner *Program, planned *passes.Plan, keepGoing bool) (err error) {
	owner.options.Progress("compiling")
	compileOptions := owner.execOptions(ctx)
	compileOptions.KeepGoing, compileOptions.InputsInMemory = keepGoing, compileOptions.InputsInMemory || b.isPart
	b.Program, err = exec.Compile(planned.Graph, compileOptions)
	if err == nil {
		b.failed = append(b.failed, planned.Failed...)
	} else if ended := interrupt.Err(ctx); ended != nil {
		return ended
	}
	return err
}

// execOptions returns the options of compilation for this program.
func (p *Program) execOptions(ctx context.Context) exec.Options {
	return exec.Options{Context: ctx, Threads: p.options.Threads, Costs: p.options.Costs, Tracer: p.options.Tracer,
		MemoryLimit: p.options.MemoryLimit, InputsInMemory: p.options.InputsInMemory, KeepGoing: p.options.KeepGoing,
		Pool: p.pool, Device: p.device, Uploads: p.uploads}
}
