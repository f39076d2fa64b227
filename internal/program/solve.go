package program

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// solver finds the sizes of symbols from the size expressions of inputs. For example, 2*N = 8 gives N = 4. N//2 = 3
// gives the range 6 to 7, from which another equation, such as N//3 = 2, must select a size.
type solver struct {
	sizes  map[string]int           // known sizes, by symbol
	bounds map[string]graph.Bounds  // declared bounds, by symbol
	ranges map[string]solutionRange // solutions of each symbol that had several
}

// solutionRange is the range of solutions, from first to last, of an equation for a symbol.
type solutionRange struct {
	first, last int
	equation    string // the equation that gave the range, for errors; empty for the declared bounds
}

// solve adds to sizes the solutions of the equations "expression = size of an input". It solves an equation if exactly
// one of its symbols is unknown and the expression is monotonic in that symbol. It fails if an equation has no integer
// solution, a symbol has several solutions, or an expression without unknowns differs from the size.
func solve(inputs []*graph.Value, shapeOf func(name string) ([]int, bool), sizes map[string]int,
	bounds map[string]graph.Bounds) error {
	equations := solver{sizes: sizes, bounds: bounds, ranges: map[string]solutionRange{}}
	for known := -1; known < len(sizes); { // until a pass over all sizes finds no further symbol
		known = len(sizes)
		for _, v := range inputs {
			shape, ok := shapeOf(v.Name)
			if !ok || len(shape) != len(v.Dims) {
				continue
			}
			for i, dim := range v.Dims {
				if dim.Expr == "" {
					continue
				}
				if err := equations.solveEquation(fmt.Sprintf("size %d of input %q", i, v.Name), dim.Expr,
					shape[i]); err != nil {
					return fmt.Errorf("input %q: size %d is %d, which does not fit: %w", v.Name, i, shape[i], err)
				}
			}
		}
	}
	for _, name := range sorted.Keys(equations.ranges) {
		if _, known := sizes[name]; !known {
			candidates := equations.ranges[name]
			return fmt.Errorf("%s holds for %s from %d to %d: the shapes of inputs do not determine the size, so it must "+
				"be given", candidates.equation, name, candidates.first, candidates.last)
		}
	}
	return nil
}

// solveEquation solves exprText = size. sizeText describes the size in errors.
func (s *solver) solveEquation(sizeText, exprText string, size int) error {
	env, unknowns, knownSizes := sym.NewEnv(), map[string]sym.Int{}, map[string]int{}
	expression, err := (graph.Dim{Expr: exprText}).In(lookupSymbols(exprText, env, unknowns, knownSizes, s.sizes))
	if err != nil {
		return fmt.Errorf("%s%s: %w", exprText, atSizes(knownSizes), err)
	}
	value, known := expression.Known()
	switch {
	case known && value != size:
		return fmt.Errorf("%s is %d%s", exprText, value, atSizes(knownSizes))
	case known || len(unknowns) != 1: // the equation holds, or has several unknowns
		return nil
	}
	name := sorted.Keys(unknowns)[0]                   // the only unknown, which is unknownName in the expression
	sign, isMonotonic := expression.Trend(unknownName) // 1: rising, -1: falling, 0: constant
	if !isMonotonic || sign == 0 {
		return nil // another input may determine the symbol; otherwise the run reports the assumed size
	}
	old := s.rangeOf(name)
	solved := solutionRange{equation: fmt.Sprintf("%s = %d (%s)", exprText, size, sizeText)}
	if solved.first, solved.last, err = solutions(expression, sign, size, old.first, old.last); err != nil {
		return fmt.Errorf("%s: %w", exprText, err)
	}
	switch {
	case solved.first > solved.last && old.equation != "": // no solution is in the range of the earlier equation
		return fmt.Errorf("it is %s, but no %s from %d to %d gives this size, and %s holds for these %s only%s", exprText,
			name, old.first, old.last, old.equation, name, atSizes(knownSizes))
	case solved.first > solved.last:
		return fmt.Errorf("it is %s, but no %s gives this size%s", exprText, name, atSizes(knownSizes))
	case old.equation != "" && solved.first == old.first && solved.last == old.last: // errors name the earlier equation
		solved.equation = old.equation
	}
	s.ranges[name] = solved
	if solved.first == solved.last {
		s.sizes[name] = solved.first
	}
	return nil
}

// rangeOf returns the range in which a symbol is known to be: the solutions of earlier equations or, without equation,
// the bounds.
func (s *solver) rangeOf(name string) solutionRange {
	if solved, ok := s.ranges[name]; ok {
		return solved
	}
	bounds := s.bounds[name]
	if bounds.Max > 0 {
		return solutionRange{first: bounds.Min, last: bounds.Max}
	}
	return solutionRange{first: bounds.Min, last: tensor.MaxBytes}
}

// solutions returns the first and the last size from low to high at which a monotonic expression equals target. If
// there is no such size, first is greater than last. sign is 1 for a rising expression and -1 for a falling expression.
// For example, N//2 = 3 has the solutions 6 to 7: N//2 reaches 3 at N = 6, and the next value, 4, at N = 8.
func solutions(expression sym.Int, sign, target, low, high int) (first, last int, err error) {
	reaches := func(size, target int) bool {
		value, evalErr := expression.At(sym.Binding{unknownName: size})
		if evalErr != nil {
			err = evalErr
		}
		return err != nil || (value-target)*sign >= 0 // an error ends the search
	}
	// The expression overflows far beyond the solution, so the range grows by doubling until it contains the solution.
	searchEnd := func(target int) int {
		for step := 1; ; step *= 2 {
			if end := low + step; end >= high || reaches(end, target) {
				return min(end, high)
			}
		}
	}
	firstReaching := func(target int) int { // the first size at which the expression reaches target
		return low + sort.Search(searchEnd(target)-low+1, func(i int) bool { return reaches(low+i, target) })
	}
	first, last = firstReaching(target), firstReaching(target+sign)-1 // target+sign is the next value of the trend
	return first, last, err
}

// unknownName is the name of the unknown in the solver's Env.
const unknownName = "x"

// lookupSymbols returns the values of the symbols in an expression. A symbol with a known size (in sizes) is a number,
// which lookupSymbols adds to usedSizes. Any other symbol is a symbol of env, which lookupSymbols adds to unknowns. The
// first of these has the name unknownName. For example, for 2*N + M with sizes M=3, the values are N=x and M=3.
func lookupSymbols(text string, env *sym.Env, unknowns map[string]sym.Int,
	usedSizes, sizes map[string]int) map[string]sym.Int {
	const hint = 2 // has no effect on solutions
	values := map[string]sym.Int{}
	// Parse calls the function with each symbol. The parsed expression is not used, so its symbols are of another Env.
	// A syntax error is ignored: parsing the text with the values reports it.
	scratch := sym.NewEnv()
	_, _ = sym.Parse(text, func(name string) (sym.Int, bool) {
		if n, ok := sizes[name]; ok {
			values[name], usedSizes[name] = sym.Of(n), n
		} else if _, ok := values[name]; !ok {
			symbolName := unknownName
			for range len(unknowns) {
				symbolName += "_"
			}
			symbol, _ := env.Symbol(symbolName, 0, math.MaxInt, hint) // there is no error, because the name is new
			values[name], unknowns[name] = symbol, symbol
		}
		symbol, err := scratch.Symbol(name, 0, math.MaxInt, hint)
		return symbol, err == nil
	})
	return values
}

// atSizes lists the sizes at which an expression was evaluated, for errors.
func atSizes(usedSizes map[string]int) string {
	if len(usedSizes) == 0 {
		return ""
	}
	return " at " + SizesText(usedSizes)
}

// observer is a strategy that records the layout problem and ends planning, so that the graph of the problem is not
// changed.
type observer struct{ problem *layout.Problem }

var errObserved = errors.New("the problem was observed")

func (*observer) Name() string { return "observer" }

// Choose records the problem and returns errObserved.
func (o *observer) Choose(problem *layout.Problem) (*layout.Assignment, error) {
	o.problem = problem
	return nil, errObserved
}

// Problem returns the layout problem that planning states for the sizes of [Program.FirstBinding].
func (p *Program) Problem() (*layout.Problem, error) {
	binding, err := p.Compiled()
	if err != nil {
		return nil, err
	}
	return p.ProblemOf(context.Background(), binding)
}

// ProblemOf returns the layout problem that planning states for a binding. It fails if the graph is planned in
// segments, or if planning fails before a pass calls the strategy. The first call plans the graph, and stops when ctx
// ends.
func (p *Program) ProblemOf(ctx context.Context, binding *Binding) (*layout.Problem, error) {
	binding.problemOnce.Do(func() {
		if binding.RunnableGraph.Dynamic() {
			binding.problemErr = errors.New("shapes depend on data: the graph is planned in segments as it runs, " +
				"so there is no single layout problem")
			return
		}
		withConstants := binding.RunnableGraph // planning folds constants, so it needs the data of all constants
		if len(binding.packedConstants) > 0 {
			withConstants = binding.WithAllConstants()
		}
		var recorder observer
		options := p.PlanOptions(ctx)
		options.Strategy, options.Check = &recorder, false
		_, err := passes.Run(withConstants, options)
		switch {
		case recorder.problem != nil:
			binding.problem = recorder.problem
		case err == nil:
			binding.problemErr = errors.New("no pass asks a strategy for layouts")
		default:
			binding.problemErr = err
		}
	})
	return binding.problem, binding.problemErr
}

// Model converts [Program.Problem] to the form that the exact solver takes.
func (p *Program) Model() (*layout.Model, error) {
	problem, err := p.Problem()
	if err != nil {
		return nil, err
	}
	return layout.NewModel(problem)
}

// maxPricedDecisions bounds the total number of variables of the problems that a program solves for
// [Program.WithoutCopy]. A variable is the choice of a layout. Problems with this total take some seconds.
const maxPricedDecisions = 1 << 20

// copyPrices holds the solved problem of a program, and the prices of copies that were requested.
type copyPrices struct {
	model    *layout.Model   // nil: the problem could not be stated or solved
	cheapest *layout.Outcome // the cheapest plan

	mu              sync.Mutex
	prices          map[*passes.Copy]copyPrice
	solvedVariables int // variables of the problems that were solved
}

// copyPrice is the result of [Program.WithoutCopy].
type copyPrice struct {
	ns     *float64       // the cost of the plan without the copy, minus the least cost
	change *layout.Change // the differences between both plans
}

// WithoutCopy compares the cheapest plan with the cheapest plan that does not have the copy. It returns the difference
// of their costs in nanoseconds, and the differences between the plans. Both are nil if there is no plan without the
// copy or the problem was not solved to optimality. They are also nil if earlier calls have used up the bound on work.
func (p *Program) WithoutCopy(copied *passes.Copy) (*float64, *layout.Change) {
	p.copyPricesOnce.Do(func() {
		p.copyPrices = &copyPrices{prices: map[*passes.Copy]copyPrice{}}
		if model, err := p.Model(); err == nil {
			p.copyPrices.model, p.copyPrices.cheapest = model, cheapest(model, layout.Changed{})
		}
	})
	prices := p.copyPrices
	prices.mu.Lock()
	defer prices.mu.Unlock()
	price, known := prices.prices[copied]
	if !known {
		price = prices.findPrice(copied)
		prices.prices[copied] = price
	}
	return price.ns, price.change
}

// cheapest returns the plan of least cost with the given changes. It returns nil if the search does not prove
// optimality.
func cheapest(model *layout.Model, changed layout.Changed) *layout.Outcome {
	solution, err := model.Solve(changed)
	if err != nil || !solution.Optimal() {
		return nil
	}
	outcome, err := solution.Outcome()
	if err != nil {
		return nil
	}
	return outcome
}

// findPrice compares the cheapest plan with the cheapest plan that does not have the given copy. It returns no price if
// that plan cannot be found, or if the search would take too long.
func (prices *copyPrices) findPrice(copied *passes.Copy) (none copyPrice) {
	if prices.cheapest == nil || copied.Node == nil { // only a Copy that no plan has made lacks the node
		return none
	}
	value := prices.model.Problem.Graph.Value(copied.Value)
	if value == nil {
		return none
	}
	prices.solvedVariables += len(prices.model.WCSP.Variables)
	if prices.solvedVariables > maxPricedDecisions {
		return none
	}
	without := cheapest(prices.model, layout.Changed{NoCopy: layout.Form{Value: value,
		Meta:  tensor.Meta{DType: value.Meta.DType, Shape: value.Meta.Shape, Strides: copied.To},
		Place: copied.Node.Out[0].Place()}}) // the memory: of the host or of a device
	if without == nil {
		return none
	}
	ns, change := float64(without.CostPS-prices.cheapest.CostPS)/pricing.PSPerNS, without.ChangesSince(prices.cheapest)
	return copyPrice{&ns, &change}
}
