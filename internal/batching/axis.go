// Package batching joins several runs of a program into one run. It concatenates their inputs along dimension 0 and
// splits the outputs of the joined run.
package batching

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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
// joined along the batch dimension: for example, runs with inputs of shapes [2, 3, 224, 224] and [1, 3, 224, 224]
// become one run with an input of shape [3, 3, 224, 224]. [Prove] makes an Axis if it can prove that the rows are
// independent. [Axis.EfficientRows] returns the number of rows that a batch should have.
type Axis struct {
	maxRows       int             // maximum number of rows of a batch
	exact         bool            // runs are joined only if the plan of each run is also the plan of the batch
	outputHasRows map[string]bool // by output: whether dimension 0 has the rows; else all runs have the same output
	program       *program.Program
	openIndex     int // index in program.OpenSymbols (the symbols without a fixed size) of the batch size

	planOf    lru.Cache[string, *plan] // keyed by sizes as text (fmt.Sprint); each list of sizes is planned once
	rowsOf    lru.Cache[string, int]   // results of EfficientRows, keyed by its arguments as text (fmt.Sprint)
	rowsLock  sync.Mutex               // held while EfficientRows plans
	plansLock sync.Mutex
	plans     []*plan // distinct plans, at most maxPlans: see uniquePlan
}

// Symbol returns the symbol of the batch size: dimension 0 of every input. It returns an error if there is no such
// symbol, or if `fixed` contains the symbol. fixed has the sizes that are the same for all runs
// ([program.Options.Sizes]).
func Symbol(g *graph.Graph, fixed map[string]int) (string, error) {
	symbol := ""
	for _, v := range g.Inputs {
		if v.HasConstantDefault() {
			continue // a run that overrides it is not joined
		}
		if v.Default != nil {
			return "", fmt.Errorf("input %q has a default and a symbolic shape", v.Name)
		}
		if len(v.Dims) == 0 || v.Dims[0].Symbol == "" || symbol != "" && v.Dims[0].Symbol != symbol {
			return "", fmt.Errorf("the first dimension of input %q is not a symbol that all inputs share", v.Name)
		}
		symbol = v.Dims[0].Symbol
	}
	if symbol == "" {
		return "", errors.New("the model has no inputs")
	}
	if bounds := g.Symbols[symbol]; bounds.Max > 0 && bounds.Max < 2 {
		return "", fmt.Errorf("the batch size %s is at most %d: want at least 2", symbol, bounds.Max)
	}
	sizes, _ := g.SizesBySymbol(fixed) // program.New returns the same error
	if _, ok := sizes[symbol]; ok {
		return "", fixedError(symbol)
	}
	return symbol, nil
}

// fixedError returns the error of a batch size that is the same for all runs.
func fixedError(symbol string) error {
	return fmt.Errorf("the batch size %s is fixed: want an open symbol", symbol)
}

// proofRows are the batch sizes for which the independence of rows is proved: the first maxProofs of them that the
// bounds of the batch size permit. At one batch size, another dimension may have the same size by coincidence. At
// several batch sizes, it does not.
var proofRows = []int{7, 11, 13, 5, 3}

// maxProofs is the maximum number of batch sizes for which the independence of rows is proved.
const maxProofs = 3

// Prove proves that the rows of a program are independent: each row of an output depends only on the same row of the
// inputs. symbol is the result of [Symbol] for the program's graph g. A batch has at most maxRows rows. If exact is
// set, a run is joined only if the plan of the run alone is also the plan of the batch. Its results then have the same
// bits as without the batch. For this purpose, Prove makes runs of all batch sizes share a specialization
// ([program.Program.ShareSpecializations]). The error names the node that prevents the proof.
func Prove(ctx context.Context, p *program.Program, g *graph.Graph, symbol string, maxRows int, exact bool) (*Axis,
	error) {
	const noMaxBytes = 0 // New chooses the bound on bytes; cached values count as 0 bytes
	axis := &Axis{maxRows: maxRows, exact: exact, program: p, openIndex: slices.Index(p.OpenSymbols(), symbol),
		planOf: lru.New[string, *plan](maxSizes, noMaxBytes), rowsOf: lru.New[string, int](maxSizes, noMaxBytes)}
	if axis.openIndex < 0 {
		return nil, fixedError(symbol)
	}
	if !p.Specializes() {
		return nil, errors.New("shapes depend on data")
	}
	axis.maxRows = min(axis.maxRows, batch.MaxOpenRows)
	bounds := g.Symbols[symbol]
	if bounds.Max > 0 {
		axis.maxRows = min(axis.maxRows, bounds.Max)
	}
	var graphs []*graph.Graph
	for _, rows := range proofRows {
		if len(graphs) == maxProofs || rows < bounds.Min || bounds.Max > 0 && rows > bounds.Max {
			continue
		}
		sizes := slices.Clone(p.AssumedSizes())
		sizes[axis.openIndex] = rows
		// GraphAt panics if its context has ended, and Prove does not recover.
		sized, err := p.GraphAt(context.WithoutCancel(ctx), sizes)
		if err != nil {
			return nil, err
		}
		graphs = append(graphs, sized)
	}
	if len(graphs) < 2 {
		return nil, fmt.Errorf("the proof that rows are independent needs two of the batch sizes %v, and the bounds of "+
			"%s permit %d", proofRows, symbol, len(graphs))
	}
	for i, sized := range graphs {
		if err := axis.proveAt(g, sized, graphs[(i+1)%len(graphs)]); err != nil {
			return nil, err
		}
	}
	if exact {
		p.ShareSpecializations(symbol)
	}
	return axis, nil
}

// proveAt proves that the rows are independent for one batch size, and sets a.outputHasRows. sized is g with this batch
// size, and other is g with another one.
func (a *Axis) proveAt(g, sized, other *graph.Graph) error {
	rowDims := map[string]int{} // by input: the dimension of the rows
	for _, input := range sized.Inputs {
		rowDims[input.Name] = 0
	}
	// FollowOpen finds the dimension of the rows in each output, or -1 if the output has no rows.
	proof, err := batch.FollowOpen(sized, other, rowDims)
	if err != nil {
		return err
	}
	a.outputHasRows = make(map[string]bool, len(g.Outputs))
	for i, dim := range proof.Outputs() {
		if dim > 0 {
			return fmt.Errorf("the rows of output %q are in dimension %d", g.Outputs[i].Name, dim)
		}
		a.outputHasRows[g.Outputs[i].Name] = dim == 0
	}
	return nil
}

// EfficientRows prefers a smaller batch if its cost per row is greater by at most the factor 1+costTolerance. The
// tolerance is small, because larger batches save more than predicted: for resnet18, a batch of 8 rows instead of 4
// saves 5%, while the prediction is 0.6%.
const costTolerance = 0.005

// EfficientRows returns the number of rows that a batch with the given run should have. Candidates are minRows,
// 2*minRows, 4*minRows and so on, and maxRows, within the bounds of the batch size. If maxRows is less than twice the
// rows of the smallest possible run, it is increased to this number. The result is the least candidate whose predicted
// cost per row is at most 0.5% above the minimum. For example, if the costs per row of 2, 4 and 8 rows are 10, 9.02 and
// 9 us, the result is 4. EfficientRows prefers small batches for three reasons: they need less memory, rows wait for
// less time, and intermediate results stay in faster caches.
//
// If no other run fits into a batch with the given run, the result is at most the number of rows of this run. The run
// then does not wait for others. The result is maxRows if the run cannot be joined, or if no candidate can be planned
// before the context ends. It is also maxRows while another call of EfficientRows plans, so that requests of many sizes
// do not wait for each other.
func (a *Axis) EfficientRows(ctx context.Context, run *Run, minRows, maxRows int) int {
	cannotBeJoined := run.Rows == 0 || a.exact && run.plan == nil
	if cannotBeJoined {
		return maxRows
	}
	smallestRun := a.program.Clamp(a.openIndex, 1) // in rows
	minRows, maxRows = max(minRows, smallestRun), min(max(maxRows, 2*smallestRun), a.maxRows)
	switch {
	case run.Rows+smallestRun > maxRows: // no other run fits
		return min(run.Rows, maxRows)
	case minRows >= maxRows: // there is one candidate
		return maxRows
	}
	sizes := slices.Clone(run.sizes)
	sizes[a.openIndex] = 0 // the result is the same for all batch sizes
	key := fmt.Sprint(sizes, minRows, maxRows)
	if rows, ok := a.rowsOf.Find(key); ok {
		return rows
	}
	if !a.rowsLock.TryLock() { // another call plans
		return maxRows
	}
	defer a.rowsLock.Unlock()
	rows, err := a.findEfficientRows(ctx, sizes, minRows, maxRows)
	if err != nil {
		return maxRows
	}
	a.rowsOf.Put(key, rows)
	a.rowsOf.SetSize(key, rows, 0) // evicts old entries; the size in bytes does not matter
	return rows
}

// findEfficientRows computes the result of EfficientRows. It overwrites the batch size in sizes. It returns an error if
// the context ends.
func (a *Axis) findEfficientRows(ctx context.Context, sizes []int, minRows, maxRows int) (efficient int, err error) {
	defer tensor.CatchMemory(&err)
	defer interrupt.Catch(&err)
	minCost, costs := math.Inf(1), map[int]float64{} // costs per row, by the number of rows
	for rows := minRows; ; rows = min(2*rows, maxRows) {
		sizes[a.openIndex] = rows
		plan, _, err := a.program.PlanAt(ctx, sizes)
		interrupt.Check(ctx) // an error of PlanAt may mean that the context has ended
		if err == nil {
			costs[rows] = plan.CostNS / float64(rows)
			minCost = min(minCost, costs[rows])
		}
		if rows == maxRows {
			break
		}
	}
	efficient = maxRows
	for rows, cost := range costs {
		if cost <= minCost*(1+costTolerance) {
			efficient = min(efficient, rows)
		}
	}
	return efficient, nil
}

// plan is a plan that serves several batch sizes. Runs with the same plan compute the same bits for each row.
type plan struct {
	decisions *passes.Decisions
	impls     map[string]*graph.Impl // by node; may differ from the decisions: see program.Program.Implementations
	// foldOrders has the order of the sums of each node: see graph.Kernel. The order depends on the number of rows.
	foldOrders map[string]string
}

// equal reports whether two plans compute the same bits for each row.
func (p *plan) equal(other *plan) bool {
	sameDecisions := p.decisions == other.decisions || p.decisions.Equal(other.decisions)
	return sameDecisions && maps.Equal(p.impls, other.impls) && maps.Equal(p.foldOrders, other.foldOrders)
}

// planAt returns the plan for the sizes of a run, but with the given number of rows. It returns nil if there is no such
// plan, or if the context ends first. For equal plans it returns the same pointer, as long as a.plans has fewer than
// maxPlans plans.
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
	var unique *plan
	if spec != nil {
		foldOrders, err := a.program.FoldOrders(ctx, sizes)
		if err != nil {
			return nil
		}
		unique = a.uniquePlan(&plan{decisions: spec.Decisions, impls: impls, foldOrders: foldOrders})
	}
	found := a.planOf.Put(key, unique)
	a.planOf.SetSize(key, found, 0) // evicts old entries; the size in bytes does not matter
	return found
}

// uniquePlan returns the element of a.plans that equals the candidate. If there is none, it returns the candidate, and
// adds the candidate if a.plans has fewer than maxPlans elements.
func (a *Axis) uniquePlan(candidate *plan) *plan {
	a.plansLock.Lock()
	defer a.plansLock.Unlock()
	for _, known := range a.plans {
		if known.equal(candidate) {
			return known
		}
	}
	if len(a.plans) < maxPlans {
		a.plans = append(a.plans, candidate)
	}
	return candidate
}

// These constants limit the number of plans that are kept for comparison, and the number of sizes whose plans are
// cached.
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
	byName, err := program.SizesOf(g.Inputs, shapeOf, nil, g.Symbols) // nil: no sizes are given
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
