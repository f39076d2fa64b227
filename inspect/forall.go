package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file proves that plans have a property at all sizes. Its terms are:
//   - An open symbol is a symbol whose size comes from the inputs of a run.
//   - A hint is a set of sizes for which the caller of Compile wants good plans. Without hints, Compile plans
//     for the assumed sizes.
//   - A specialization is a plan for many sets of sizes. It was planned at one of these sets, which is the hint of the
//     specialization.
//   - The nondegenerate sizes are a set at which a further specialization is planned. In this set, no size that depends
//     on open symbols is 0 or 1.
//   - A guard is a condition on sizes that planning assumed for a decision. A specialization serves the sizes that
//     satisfy its guards: a run at these sizes uses the specialization.
//   - A sample is a set of sizes that ForAll plans.
//   - A case is the set of all sizes that satisfy certain conditions. Planning makes the same decisions at all sizes of
//     the case.

// Proof is the result of [ForAll]: whether plans have a property at all sizes within bounds.
type Proof struct {
	Property       string           `json:"property" doc:"The property."`
	Proved         bool             `json:"proved" doc:"Whether the property is proved for all sizes within bounds: the cases cover these sizes, and every plan for them has the property."`
	Cases          []Case           `json:"cases" doc:"The cases for which it is shown with symbolic sizes."`
	Counterexample map[string]int   `json:"broken,omitzero" doc:"Sizes at which it does not hold, by symbol."`
	Why            string           `json:"why,omitzero" doc:"How the plan breaks it, or why it is not proved."`
	Tried          []map[string]int `json:"tried" doc:"The sets of sizes, by symbol, that were planned one by one; their plans have the property."`
}

// Case is a set of sizes for which a property is shown.
type Case struct {
	Sizes   map[string]int `json:"sizes" doc:"An example of sizes of the case, by symbol."`
	Holds   []string       `json:"holds_while" doc:"The conditions of the case."`
	Refused bool           `json:"refused,omitzero" doc:"Whether the graph rejects these sizes, so that there is no plan."`
}

// These limits bound the time of the search. For each case, the graph is inferred and planned with symbolic sizes.
const (
	maxCases   = 24 // maximum number of cases
	minSamples = 96 // number of samples that are planned even if a case covers them
)

// ForAll proves a property of plans for all sizes within the bounds of the symbols, or finds sizes that violate the
// property. The property "no-copies" means that no copy is inserted. "VALUE=FORMAT" and "FORMAT(VALUE)" mean that a
// value is in a memory format.
//
// The proof has three steps:
//  1. ForAll plans samples. It ends if the plan of a sample violates the property. A sample that no case covers gives a
//     new case: its specialization is planned again with symbols as sizes. If this symbolic plan has the property, the
//     sizes that satisfy the guards of the symbolic plan are the case.
//  2. ForAll checks that every specialization has the property at all sizes that it serves.
//  3. Package sym shows that the cases cover all sizes within bounds.
//
// The proof does not check implementations at all sizes. It assumes the following: if an implementation supports a call
// at the hint of a specialization, it supports the call at all sizes that the specialization serves.
func ForAll(p *graphrun.Program, text string) (*Proof, error) {
	internal := p.Internal()
	if _, err := internal.Compiled(); err != nil {
		return nil, err
	}
	if !internal.Specializes() {
		return nil, errors.New("there is nothing to prove for all sizes: each plan of this graph serves one set of sizes, " +
			"because all sizes are fixed or shapes depend on data")
	}
	parsed, err := propertyOf(internal.Source(), text)
	if err != nil {
		return nil, err
	}
	prover := &prover{program: internal, property: parsed, shown: map[*program.Specialization]extent{},
		result: &Proof{Property: text, Cases: []Case{}, Tried: []map[string]int{}}}
	prover.planSamples()
	if prover.result.Counterexample != nil {
		return prover.result, nil
	}
	return prover.result, prover.conclude()
}

// prover proves a property by cases.
type prover struct {
	program  *program.Program
	property property
	result   *Proof // the result so far
	// covers has a function for each of result.Cases. The function reports whether the case has the given sizes.
	covers []func(sizesByName map[string]int) bool
	shown  map[*program.Specialization]extent // the sizes for which the property is shown
}

// extent describes the sizes at which a specialization is shown to have the property.
type extent int

const (
	shownNowhere     extent = iota // the symbolic plan does not have the property, or was not tried
	shownConditional               // at the sizes that satisfy its guards and further conditions
	shownEverywhere                // at all sizes that satisfy its guards (Specialization.Serves)
)

// planSamples plans the samples, and adds a case for each sample that no case covers. It stops at a sample that
// violates the property, and sets result.Counterexample.
func (prover *prover) planSamples() {
	for _, sizes := range samplesOf(prover.program) {
		sizesByName := prover.program.SizesByName(sizes)
		isCovered := slices.ContainsFunc(prover.covers, func(hasSizes func(map[string]int) bool) bool {
			return hasSizes(sizesByName)
		})
		if isCovered && len(prover.result.Tried) >= minSamples {
			continue
		}
		wantsCase := !isCovered && len(prover.covers) < maxCases
		plan, spec, err := prover.program.PlanAt(context.Background(), sizes)
		if err != nil {
			if wantsCase {
				prover.addRejected(sizes)
			}
			continue
		}
		if why := prover.property.violation(plan); why != "" {
			prover.result.Counterexample, prover.result.Why = sizesByName, why
			return
		}
		prover.result.Tried = append(prover.result.Tried, sizesByName)
		if wantsCase && spec != nil {
			prover.tryCase(spec, sizes)
		}
	}
}

// tryCase adds a case: all sizes for which planning makes the same decisions as for the given sizes. spec serves the
// given sizes. It adds no case if symbolic planning fails, or if the symbolic plan does not have the property.
// Otherwise it sets shown[spec].
func (prover *prover) tryCase(spec *program.Specialization, sizes []int) {
	symbolicPlan, err := prover.program.SymbolicPlanOf(context.Background(), spec, sizes)
	if err != nil {
		return
	}
	guardCount := len(symbolicPlan.Env.Guards()) // before Is, which may add conditions for the property
	if prover.property.value != "" {
		if v := symbolicPlan.PlannedGraph.Value(prover.property.value); v == nil || !v.Type.Is(prover.property.format) {
			return
		}
	}
	prover.shown[spec] = shownConditional
	if len(symbolicPlan.Env.Guards()) == guardCount {
		prover.shown[spec] = shownEverywhere
	}
	// A run tries specializations one after another. Under the path conditions, a run tries the same specializations as
	// at the given sizes, and so reaches spec.
	if pathConditions, ok := prover.program.PathConditions(context.Background(), spec, symbolicPlan.Symbolic, sizes); ok {
		const isRejected = false
		prover.addCase(symbolicPlan.Symbolic, pathConditions, sizes, isRejected)
	}
}

// firstUnproved returns a specialization for which the property is not shown everywhere, or nil if there is none. It
// first tries a case at the hint of each such specialization.
//
// It suffices to visit the specializations that the program has planned, because no other specialization can serve
// sizes of a case. A run first tries the specializations for the hints and the nondegenerate sizes. These sizes are
// samples, so their specializations are planned. PathConditions has planned the other specializations that a run tries
// before the specialization of the case.
func (prover *prover) firstUnproved() *program.Specialization {
	for {
		list := prover.program.Specializations() // listed again in each round, because planning adds specializations
		i := slices.IndexFunc(list, func(spec *program.Specialization) bool { return !prover.isProved(spec) })
		if i < 0 {
			return nil
		}
		spec := list[i]
		plan, serving, err := prover.program.PlanAt(context.Background(), spec.Hint)
		if err != nil || serving != spec {
			return spec
		}
		if why := prover.property.violation(plan); why != "" {
			prover.result.Counterexample, prover.result.Why = prover.program.SizesByName(spec.Hint), why
			return spec
		}
		if prover.tryCase(spec, spec.Hint); !prover.isProved(spec) {
			return spec
		}
	}
}

// isProved reports whether a specialization has the property at all sizes that it serves. If the caller gave no hints,
// Compile plans a specialization that serves only the assumed sizes. These sizes are a sample, so this specialization
// needs no symbolic plan with the property.
func (prover *prover) isProved(spec *program.Specialization) bool {
	p := prover.program
	servesOnlyHint := len(p.Hints()) == 0 && slices.Equal(spec.Hint, p.AssumedSizes()) &&
		!slices.Equal(spec.Hint, p.NondegenerateSizes(context.Background()))
	return prover.shown[spec] == shownEverywhere || prover.shown[spec] == shownNowhere && servesOnlyHint
}

// addRejected adds a case: all sizes that the graph rejects for the same reason as the given sizes.
func (prover *prover) addRejected(sizes []int) {
	if s, err := prover.program.Symbolic(context.Background(), sizes); err != nil && s != nil && len(s.Env.Guards()) > 0 {
		const isRejected = true
		prover.addCase(s, nil /* no path conditions */, sizes, isRejected)
	}
}

// addCase adds a case: all sizes that satisfy the guards of symbolic and the path conditions. sizes are an example of
// the case. isRejected means that the graph rejects the sizes of the case.
func (prover *prover) addCase(symbolic *graph.Symbolic, pathConditions []sym.Bool, sizes []int, isRejected bool) {
	conditions := slices.Concat(symbolic.Env.Guards(), pathConditions)
	texts := make([]string, len(conditions))
	for i, cond := range conditions {
		texts[i] = cond.String()
	}
	hasSizes := func(sizesByName map[string]int) bool {
		binding := symbolic.Binding(sizesByName)
		return !slices.ContainsFunc(conditions, func(cond sym.Bool) bool {
			holds, err := cond.At(binding)
			return err != nil || !holds
		})
	}
	prover.covers = append(prover.covers, hasSizes)
	prover.result.Cases = append(prover.result.Cases,
		Case{Sizes: prover.program.SizesByName(sizes), Holds: texts, Refused: isRejected})
}

// conclude decides whether the property is proved, and sets result.Proved, or result.Why with the reason.
func (prover *prover) conclude() error {
	unproved := prover.firstUnproved() // called before coveredSizes, because this call may add cases
	covered, err := prover.coveredSizes()
	if err != nil {
		return err
	}
	coversAll, known := covered.Known()
	switch {
	case prover.result.Counterexample != nil: // result.Why is set
	case unproved != nil:
		prover.result.Why = fmt.Sprintf("the plan for %s has no proof for all sizes that it serves",
			program.SizesText(prover.program.SizesByName(unproved.Hint)))
	case known && coversAll:
		prover.result.Proved = true
	default:
		prover.result.Why = fmt.Sprintf("it is shown under the condition %v, which is not proved for all sizes", covered)
	}
	return nil
}

// coveredSizes returns the condition that sizes belong to a case: at least one case has only conditions that hold. If
// the result is known to be true, the cases cover all sizes within the bounds.
func (prover *prover) coveredSizes() (sym.Bool, error) {
	symbols, err := prover.boundedSymbols()
	if err != nil {
		return sym.Bool{}, err
	}
	lookup := func(name string) (sym.Int, bool) { symbol, ok := symbols[name]; return symbol, ok }
	covered := sym.BoolOf(false)
	for _, c := range prover.result.Cases {
		inCase := sym.BoolOf(true)
		for _, text := range c.Holds {
			cond, err := sym.ParseBool(text, lookup)
			if err != nil {
				return sym.Bool{}, err
			}
			inCase = inCase.And(cond)
		}
		covered = covered.Or(inCase)
	}
	return covered.Decide(), nil
}

// boundedSymbols returns new symbols with the bounds of the open symbols. The keys are the names that conditions use.
func (prover *prover) boundedSymbols() (map[string]sym.Int, error) {
	env, naming := sym.NewEnv(), &graph.Symbolic{}
	symbols := map[string]sym.Int{}
	for i, name := range prover.program.OpenSymbols() {
		bounds := prover.program.Source().Symbols[name]
		upper := bounds.Max
		if upper == 0 {
			upper = tensor.MaxBytes // no size is greater
		}
		const hint = 2 // does not affect the decision, but must be within the bounds
		symbol, err := env.Symbol(naming.Name(name), bounds.Min, upper, prover.program.Clamp(i, hint))
		if err != nil {
			return nil, err
		}
		symbols[naming.Name(name)] = symbol
	}
	return symbols, nil
}

// property is a property of a plan: it has no copies, or a value is in a memory format.
type property struct {
	value  string // the name of the value; empty for the property no-copies
	format tensor.MemoryFormat
}

// propertyOf parses "no-copies", "VALUE=FORMAT" or "FORMAT(VALUE)".
func propertyOf(g *graph.Graph, text string) (property, error) {
	if text == "no-copies" {
		return property{}, nil
	}
	parsed := property{}
	format, afterParenthesis, isCall := strings.Cut(text, "(")
	if isCall && strings.HasSuffix(afterParenthesis, ")") {
		parsed.value = strings.TrimSuffix(afterParenthesis, ")")
	} else if equals := strings.LastIndexByte(text, '='); equals > 0 {
		parsed.value, format = text[:equals], text[equals+1:]
	}
	pin, err := graph.ParsePin(format) // ParsePin also accepts pins that are not memory formats
	if parsed.value == "" || err != nil || pin.Format == tensor.NoFormat {
		return parsed, fmt.Errorf("there is no property %q: want no-copies, VALUE=FORMAT or FORMAT(VALUE)", text)
	}
	parsed.format = pin.Format
	if g.Value(parsed.value) == nil {
		var names []string
		g.Values(func(v *graph.Value) { names = append(names, v.Name) })
		return parsed, fmt.Errorf("property %q: the graph has no value %q%s", text, parsed.value,
			suggest.DidYouMean(suggest.Nearest(parsed.value, slices.Values(names))))
	}
	return parsed, nil
}

// violation describes how a plan violates the property. It returns "" if the plan has the property.
func (p property) violation(plan *passes.Plan) string {
	if p.value == "" {
		if len(plan.Copies) == 0 {
			return ""
		}
		return fmt.Sprintf("%q is copied: %s", plan.Copies[0].Value, plan.Copies[0].Why)
	}
	switch v := plan.Graph.Value(p.value); {
	case v == nil:
		return fmt.Sprintf("%q is not in memory: it is computed within a step, or its readers read another value", p.value)
	case !v.Meta.Is(p.format):
		return fmt.Sprintf("%q is %v", p.value, v.Meta)
	}
	return ""
}

// This part chooses the samples: the sets of sizes for which [ForAll] plans a graph. A list of sizes has one size for
// each open symbol. An open symbol is a symbol whose size comes from the inputs of a run.

// maxSamples is the maximum number of combinations of sizes among the samples.
const maxSamples = 4096

// samplesOf returns the samples of a program, each indexed by open symbol. The hints, the assumed sizes and the
// nondegenerate sizes come first. At the nondegenerate sizes, every size that depends on an open symbol is at least 2:
// see [program.Program.NondegenerateSizes]. They are followed by combinations of small sizes, bounds, and the sizes of
// the first samples.
func samplesOf(p *program.Program) [][]int {
	list := append(slices.Clone(p.Hints()), p.AssumedSizes())
	if sizes := p.NondegenerateSizes(context.Background()); sizes != nil {
		list = append(list, sizes)
	}
	combinations := [][]int{nil} // of the sizes of the symbols processed so far
	for i := range p.OpenSymbols() {
		candidates := candidateSizes(p, i, list)
		var extended [][]int
		for _, sizes := range combinations {
			for _, size := range candidates {
				extended = append(extended, append(slices.Clip(sizes), size))
			}
		}
		combinations = extended[:min(len(extended), maxSamples)]
	}
	return append(list, combinations...)
}

// candidateSizes returns sizes of open symbol i that samples combine: small sizes, the bounds, and the symbol's sizes
// in the first samples.
func candidateSizes(p *program.Program, i int, firstSamples [][]int) []int {
	bounds := p.Source().Symbols[p.OpenSymbols()[i]]
	candidates := []int{bounds.Min, bounds.Min + 1, bounds.Min + 2, 3, 8}
	for _, sizes := range firstSamples {
		candidates = append(candidates, sizes[i])
	}
	if bounds.Max > 0 {
		candidates = append(candidates, bounds.Max-1, bounds.Max)
	}
	for k, size := range candidates {
		candidates[k] = p.Clamp(i, size)
	}
	sorted.Ints(candidates)
	return slices.Compact(candidates)
}
