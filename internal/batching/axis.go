// Package batching joins several runs of a program into one run. It concatenates their inputs along dimension 0 and
// splits the outputs of the joined run.
package batching

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/batch"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/lru"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// Axis is the batch dimension of a program: dimension 0 of all inputs. A row is an index of this dimension. Runs are
// joined along the batch dimension.
type Axis struct {
	maxRows   int             // maximum number of rows of a batch
	exact     bool            // runs are joined only if the batch has the plan of each run: see Prove
	outputs   map[string]bool // whether dimension 0 of an output has the rows; other outputs are the same for all runs
	program   *program.Program
	openIndex int // index of the batch size's symbol in program.OpenSymbols

	planOf    lru.Cache[string, *plan] // by sizes, formatted by fmt.Sprint: each size is planned once
	plansLock sync.Mutex
	plans     []*plan // different plans
}

// Symbol returns the symbol of the batch size: dimension 0 of every input. It returns an error if there is no such
// symbol.
func Symbol(g *graph.Graph) (string, error) {
	symbol := ""
	for _, v := range g.Inputs {
		if len(v.Dims) == 0 || v.Dims[0].Symbol == "" || symbol != "" && v.Dims[0].Symbol != symbol {
			return "", fmt.Errorf("the first dimension of input %q is not the symbol of a batch size", v.Name)
		}
		symbol = v.Dims[0].Symbol
	}
	if symbol == "" {
		return "", errors.New("the model has no inputs")
	}
	if bounds := g.Symbols[symbol]; bounds.Max > 0 && bounds.Max < 2 {
		return "", fmt.Errorf("the batch size %s is at most %d: want at least 2", symbol, bounds.Max)
	}
	return symbol, nil
}

// PlanForOneRow compares two plans for all batch sizes: the plan for one row, and the plan for `rows` rows, for which p
// was compiled from g. oneRowIsBetter reports whether the plan for one row is better. At both sizes, the cost of each
// plan is divided by the cost of the plan for this size; the plan with the lesser maximum is better. oneRowIsBetter is
// false if other sizes are open, because costs depend on them. Some implementations that the plan for one row chooses
// may not support `rows` rows: pins names, by node, the implementations that the plan must have instead. symbol is the
// result of [Symbol].
func PlanForOneRow(ctx context.Context, p *program.Program, g *graph.Graph, symbol string, rows int) (
	oneRowIsBetter bool, pins map[string]graph.Pin, err error) {
	defer interrupt.Catch(&err)
	index := slices.Index(p.OpenSymbols(), symbol)
	if index < 0 || !p.Specializes() || rows == 1 || len(p.OpenSymbols()) > 1 {
		return false, nil, nil
	}
	sizesOfOne, sizesOfRows := slices.Clone(p.AssumedSizes()), slices.Clone(p.AssumedSizes())
	sizesOfOne[index], sizesOfRows[index] = 1, rows
	forRows, forOne := p.SpecializationAt(ctx, sizesOfRows), p.SpecializationAt(ctx, sizesOfOne)
	if forRows == nil || forOne == nil || forRows.Decisions.Equal(forOne.Decisions) {
		return false, nil, nil
	}
	// The costs of a plan by a search and by decisions of a cache may differ slightly, so all plans here follow decisions.
	// forRowsAtOne is the plan for `rows` rows, applied to one row; the other names are formed in the same way.
	// unpinnedAtOne is the plan for one row without the pins added below.
	forRowsAtRows, forRowsAtOne := followAt(ctx, p, forRows, sizesOfRows), followAt(ctx, p, forRows, sizesOfOne)
	unpinnedAtOne := followAt(ctx, p, forOne, sizesOfOne)
	if forRowsAtRows == nil || forRowsAtOne == nil || unpinnedAtOne == nil {
		return false, nil, nil
	}
	options := *p.Options()
	if options.Pins = maps.Clone(options.Pins); options.Pins == nil {
		options.Pins = map[string]graph.Pin{}
	}
	for candidate := p; forOne.Serves(ctx, candidate, sizesOfRows); forOne = candidate.SpecializationAt(ctx, sizesOfOne) {
		forOneAtRows := followAt(ctx, candidate, forOne, sizesOfRows)
		forOneAtOne := followAt(ctx, candidate, forOne, sizesOfOne)
		if forOneAtRows == nil || forOneAtOne == nil || max(forOneAtRows.CostNS/forRowsAtRows.CostNS,
			forOneAtOne.CostNS/unpinnedAtOne.CostNS) >= forRowsAtOne.CostNS/unpinnedAtOne.CostNS {
			return false, nil, nil
		}
		replaced := replacements(forOneAtOne.Graph, forOneAtRows.Graph)
		if len(replaced) == 0 {
			return true, options.Pins, nil
		}
		for name, impl := range replaced {
			pin := options.Pins[name]
			if pin.Impl != "" {
				return false, nil, nil
			}
			pin.Impl = impl
			options.Pins[name] = pin
		}
		candidate, err = program.New(g, options)
		if _, ok := errors.AsType[*graph.PinError](err); ok {
			return false, nil, nil // a pass has made the node
		}
		if err != nil {
			return false, nil, err
		}
	}
	return false, nil, nil
}

// followAt plans a program for sizes by the decisions of a specialization. It returns nil if they cannot be applied.
func followAt(ctx context.Context, p *program.Program, spec *program.Specialization, sizes []int) *passes.Plan {
	g, err := p.GraphAt(ctx, sizes)
	if err != nil {
		return nil
	}
	plan, err := p.Follow(ctx, spec, g)
	if err != nil {
		return nil
	}
	return plan
}

// replacements returns the names of the implementations of b, by node, that differ from those of a.
func replacements(a, b *graph.Graph) map[string]string {
	names, before := map[string]string{}, program.ImplsOf(a)
	for name, impl := range program.ImplsOf(b) {
		if impl != nil && impl != before[name] {
			names[name] = impl.Name
		}
	}
	return names
}

// proofRows are the batch sizes for which the independence of rows is proved. Several sizes are tried, because a model
// that computes with its batch size may have independent rows at one size by coincidence. Primes make a coincidence at
// all three unlikely.
var proofRows = []int{7, 11, 13}

// Prove proves that the rows of a program are independent: each row of an output depends only on the same row of the
// inputs. symbol is the result of [Symbol] for its graph g. A batch has at most maxRows rows. If exact is set, a run is
// joined only if its own plan is also the plan of the batch. Its results then have the same bits. The error names the
// node that prevents the proof.
func Prove(ctx context.Context, p *program.Program, g *graph.Graph, symbol string, maxRows int, exact bool) (*Axis,
	error) {
	axis := &Axis{maxRows: maxRows, exact: exact, program: p, openIndex: slices.Index(p.OpenSymbols(), symbol),
		planOf: lru.New[string, *plan](maxSizes, 0)}
	if axis.openIndex < 0 {
		return nil, fmt.Errorf("the batch size %s is fixed: want an open symbol", symbol)
	}
	if !p.Specializes() {
		return nil, errors.New("shapes depend on data")
	}
	bounds := g.Symbols[symbol]
	if bounds.Max > 0 {
		axis.maxRows = min(axis.maxRows, bounds.Max)
	}
	dims := map[string]int{}
	for _, input := range g.Inputs {
		dims[input.Name] = 0
	}
	for _, rows := range proofRows {
		if rows < bounds.Min || bounds.Max > 0 && rows > bounds.Max {
			continue
		}
		sizes := slices.Clone(p.AssumedSizes())
		sizes[axis.openIndex] = rows
		bound, err := p.GraphAt(context.WithoutCancel(ctx), sizes)
		if err != nil {
			return nil, err
		}
		proof, err := batch.Follow(bound, dims)
		if err != nil {
			return nil, err
		}
		axis.outputs = make(map[string]bool, len(g.Outputs))
		for i, dim := range proof.Outputs() {
			if dim > 0 {
				return nil, fmt.Errorf("the rows of output %q are in dimension %d", g.Outputs[i].Name, dim)
			}
			axis.outputs[g.Outputs[i].Name] = dim == 0
		}
	}
	if axis.outputs == nil {
		return nil, fmt.Errorf("the bounds of %s admit none of the batch sizes %v", symbol, proofRows)
	}
	return axis, nil
}

// plan is a plan that serves several batch sizes. Runs with the same plan compute the same bits for each row.
type plan struct {
	decisions *passes.Decisions
	impls     map[string]*graph.Impl // by node; may differ from the decisions, see program.Program.Implementations
}

// planAt returns the plan for the sizes of a run, but with the given number of rows; nil if there is none, or if the
// context ends first. Plans with equal decisions and implementations have the same pointer, unless maxPlans other plans
// are kept. Then runs of different sizes are not joined.
func (a *Axis) planAt(ctx context.Context, sizes []int, rows int) *plan {
	sizes = slices.Clone(sizes)
	sizes[a.openIndex] = rows
	key := fmt.Sprint(sizes)
	if known, ok := a.planOf.Find(key); ok {
		return known
	}
	impls, spec, err := a.program.Implementations(ctx, sizes)
	if err != nil {
		return nil
	}
	found := a.planOf.Put(key, a.uniquePlan(impls, spec))
	a.planOf.SetSize(key, found, 0) // evicts
	return found
}

// uniquePlan returns the kept plan with the given implementations and the decisions of spec; nil if spec is nil.
func (a *Axis) uniquePlan(impls map[string]*graph.Impl, spec *program.Specialization) *plan {
	if spec == nil {
		return nil
	}
	a.plansLock.Lock()
	defer a.plansLock.Unlock()
	for _, known := range a.plans {
		if (known.decisions == spec.Decisions || known.decisions.Equal(spec.Decisions)) && maps.Equal(known.impls, impls) {
			return known
		}
	}
	found := &plan{spec.Decisions, impls}
	if len(a.plans) < maxPlans {
		a.plans = append(a.plans, found)
	}
	return found
}

// Bounds on the plans that are kept for comparison, and on the sizes whose plans are known.
const (
	maxPlans = 16
	maxSizes = 1024
)

// sizesOf returns the sizes of the open symbols for a run with the given inputs.
func (a *Axis) sizesOf(in map[string]*tensor.Tensor) ([]int, error) {
	shapeOf := func(name string) ([]int, bool) {
		if t := in[name]; t != nil {
			return t.Shape, true
		}
		return nil, false
	}
	g := a.program.Source()
	byName, err := program.SizesOf(g.Inputs, shapeOf, nil, g.Symbols)
	if err != nil {
		return nil, err
	}
	sizes := slices.Clone(a.program.AssumedSizes())
	for i, name := range a.program.OpenSymbols() {
		if n, ok := byName[name]; ok {
			sizes[i] = n
		}
	}
	return sizes, nil
}
