package program

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/sym"
)

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
