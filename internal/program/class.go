package program

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/sym"
)

// class is a set of sizes with one plan, in which sizes are expressions: the template. A [Binding] of the class evaluates
// the template at its sizes. It runs no pass, and lowers only the nodes that differ from the latest binding. A class
// contains sizes at which the guards of a specialization have the same outcomes, and at which the template applies: the
// same implementations support the sizes, and read constants in the same packed form.
type class struct {
	guards         []graph.Guard
	guardEvaluator *sym.Evaluator // evaluates the guards; nil if they are unknown
	err            error          // why they are unknown

	template *passes.Template             // nil if bindings must be planned
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
			if class.guardEvaluator.Hold(sizes) && !yield(class) {
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
	created := &class{}
	plan, err := p.SymbolicPlanOf(ctx, spec, sizes)
	interrupt.Check(ctx)
	if err == nil {
		created.guards = plan.Guards
		created.guardEvaluator, err = p.Evaluator(plan.Symbolic, nil /* no sizes */, plan.Env.Guards())
	}
	if created.err = err; err == nil {
		created.template, _ = plan.plan.TemplateOver(p.openSymbols, plan.Name) // nil after an error
	}
	return created
}

// Usage tells how the runs of a program got their plans.
type Usage struct {
	Plans   int // how often passes have planned the graph or a part of it
	Classes []ClassUsage
}

// ClassUsage describes a class: sizes for which a plan is evaluated instead of made.
type ClassUsage struct {
	Anchor   []int         // the sizes for which the plan was made, by open symbol
	Guards   []graph.Guard // the conditions on sizes of the class
	Bindings int           // number of sets of sizes for which the plan was evaluated
}

// Usage returns the use of plans so far. Parts whose shapes depend on data count as plans; their classes are not listed.
func (p *Program) Usage() Usage {
	if p.planCount == nil { // New did not make p
		return Usage{}
	}
	usage := Usage{Plans: int(p.planCount.Load())}
	for _, spec := range p.Specializations() {
		unlock := spec.lockClasses(context.Background())
		for _, class := range spec.classes {
			if class.template != nil {
				usage.Classes = append(usage.Classes, ClassUsage{Anchor: spec.Hint, Guards: class.guards,
					Bindings: int(class.bindings.Load())})
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
			if class.template == nil {
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

// bindTo compiles a binding by the template of a class. It returns a [*passes.Misfit] if the sizes are not in the class.
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
	if owner.options.Check {
		if err := owner.checkBound(ctx, spec, sizes, plan.Plan.Graph); err != nil {
			return fmt.Errorf("the plan for %s differs from the plan that is made anew: %w", SizesText(b.sizes), err)
		}
	}
	options.MemoryPlans = &class.memory
	options.Changed = func(i int) bool { return plan.Bound.Changed[i] }
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
