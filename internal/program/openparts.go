package program

import (
	"context"
	"errors"
	"maps"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// This file shares plans between the sizes at which a part of a graph runs. For example, the part behind nonzero runs
// with another number of rows for each image. The sizes that differ between runs are symbols of the part's graph
// ([graph.SegmentForm]), which is a program of its own, the open program. Its specializations are plans for sizes that
// are rounded up to powers of two, so that the sizes of a run alone determine the plan. A binding repeats the decisions
// of such a plan, by a template if possible (see class.go).

// maxForms is the number of forms at which the open programs of a graph are dropped. Later runs make them again.
const maxForms = 64

// formKey identifies the open program of a part for values of one form.
type formKey struct {
	part *graph.Segment
	form string // see [graph.SegmentForm.Key]
}

// openProgram returns the open program of a part, and the sizes of its open symbols in a run. It returns nil if each
// list of sizes needs a plan of its own.
func (run *partsRun) openProgram(part *graph.Segment) (open *Program, sizes []int) {
	owner := run.owner
	if owner.hasOwnPasses || owner.options.KeepGoing || owner.device != nil {
		return nil, nil
	}
	form := part.Form(run.knownValues, run.openSymbols)
	if form == nil || run.isWhole && owner.isHint(form.Sizes) {
		return nil, nil
	}
	names := sorted.Keys(form.Sizes)
	for _, name := range names {
		sizes = append(sizes, form.Sizes[name])
	}
	run.formsLock.Lock()
	defer run.formsLock.Unlock()
	key := formKey{part, form.Key}
	if open := run.forms[key]; open != nil {
		return open, sizes
	}
	g, err := form.Graph(context.Background())
	if err != nil {
		return nil, nil
	}
	g.ReadPacked()
	fixed := g.BoundSizes()
	maps.DeleteFunc(fixed, func(name string, _ int) bool { return slices.Contains(names, name) })
	open = &Program{graph: g, options: owner.options, needsInference: true, openSymbols: names, fixedSizes: fixed,
		pool: owner.pool, uploads: owner.uploads, planCount: owner.planCount}
	open.options.InputsInMemory = true
	if run.forms == nil || len(run.forms) >= maxForms {
		run.forms = map[formKey]*Program{}
	}
	run.forms[key] = open
	return open, sizes
}

// isHint reports whether the sizes of symbols are those of a hint, or the assumed sizes if there are no hints. Compile
// makes plans for exactly these sizes. Sizes that depend on data are in no hint.
func (p *Program) isHint(sizes map[string]int) bool {
	hints := p.hints
	if len(hints) == 0 {
		hints = [][]int{p.assumedSizes}
	}
	return slices.ContainsFunc(hints, func(hint []int) bool {
		for name, n := range sizes {
			if i := slices.Index(p.openSymbols, name); i < 0 || hint[i] != n {
				return false
			}
		}
		return true
	})
}

// roundUp returns sizes rounded up to powers of two, within the bounds of the symbols.
func (p *Program) roundUp(sizes []int) []int {
	rounded := slices.Clone(sizes)
	for i, n := range sizes {
		if n > 2 {
			rounded[i] = p.Clamp(i, 1<<bits.Len(uint(n-1)))
		}
	}
	return rounded
}

// bindPart compiles the binding of a part by the plan for the rounded sizes of its open program. It returns false if
// the sizes need a plan of their own.
func (b *Binding) bindPart(ctx context.Context, open *Program, sizes []int) (bound bool, err error) {
	defer interrupt.Catch(&err)
	hint := open.roundUp(sizes)
	spec := open.SpecializationAt(ctx, hint)
	if spec == nil { // the part cannot be planned for the rounded sizes
		return false, nil
	}
	b.decisionsFrom, b.sizes = spec, open.SizesByName(sizes)
	if slices.Equal(hint, sizes) {
		return true, b.compilePlan(ctx, open, spec.Plan, false /* keepGoing */)
	}
	if spec.isFollowed.Swap(true) { // a template, which takes longer to make than a plan, is for several sizes
		for class := range spec.classesFor(ctx, open, sizes) {
			if class.template == nil {
				break
			}
			if err := b.bindTo(ctx, open, class, spec, sizes); !errors.As(err, new(*passes.Misfit)) {
				return true, err
			}
		}
	}
	g, err := open.GraphAt(ctx, sizes)
	if err == nil {
		err = b.plan(ctx, open, g, planMode{follow: spec.Decisions, inRun: true})
	}
	if err == nil || errors.As(err, new(*exec.MemoryError)) || errors.As(err, new(*tensor.MemoryError)) {
		return true, err
	}
	b.decisionsFrom = nil
	return false, nil
}
