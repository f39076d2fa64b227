// Package batching joins several runs of a program into one run. It concatenates their inputs along dimension 0 and
// splits the outputs of the joined run.
package batching

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/batch"
	"github.com/graphrun/graphrun/internal/program"
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

	plansLock sync.Mutex
	plans     []*program.Specialization // plans with different decisions
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
	axis := &Axis{maxRows: maxRows, exact: exact, program: p, openIndex: slices.Index(p.OpenSymbols(), symbol)}
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

// planAt returns the plan for the sizes of a run, but with the given number of rows; nil if there is none. Plans with
// equal decisions compute the same bits for each row. planAt returns one of these plans for all of them, so callers can
// compare pointers. If maxPlans plans are kept, a new plan is not kept, and equals no other. This only prevents
// joining.
func (a *Axis) planAt(sizes []int, rows int) *program.Specialization {
	sizes = slices.Clone(sizes)
	sizes[a.openIndex] = rows
	plan := a.program.SpecializationFor(context.Background(), sizes)
	if plan == nil {
		return nil
	}
	a.plansLock.Lock()
	defer a.plansLock.Unlock()
	for _, known := range a.plans {
		if known == plan || known.Decisions.Equal(plan.Decisions) {
			return known
		}
	}
	if len(a.plans) >= maxPlans {
		return plan
	}
	a.plans = append(a.plans, plan)
	return plan
}

// maxPlans bounds the plans that are kept for comparison.
const maxPlans = 16

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
