package program

import (
	"sync"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

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
		model, err := p.Model()
		if err != nil {
			return
		}
		if cheapestPlan := cheapest(model); cheapestPlan != nil {
			p.copyPrices.model, p.copyPrices.cheapest = model, cheapestPlan
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

// cheapest returns the plan of least cost. It returns nil if the search does not prove optimality.
func cheapest(model *layout.Model) *layout.Outcome {
	// Weighted is model.WCSP, the problem with costs in time, with costs that also count copies: among the plans of
	// least time, its solution has the fewest copies.
	solution, err := wcsp.Exact.Solve(model.Weighted, wcsp.Options{TimeLimit: model.Problem.SearchTimeLimit()})
	if err != nil || !solution.Optimal() {
		return nil
	}
	outcome, err := model.Outcome(solution.Labels)
	if err != nil {
		return nil
	}
	return outcome
}

// findPrice compares the cheapest plan with the cheapest plan that does not have the given copy. It returns no price if
// that plan cannot be found, or if the search would take too long.
func (prices *copyPrices) findPrice(copied *passes.Copy) (none copyPrice) {
	if prices.model == nil || copied.Node == nil { // only a Copy that no plan has made lacks the node
		return none
	}
	value := prices.model.Problem.Graph.Value(copied.Value)
	if value == nil {
		return none
	}
	prices.solvedVariables += len(prices.model.WCSP.Variables) // Weighted has the same variables
	if prices.solvedVariables > maxPricedDecisions {
		return none
	}
	copyMeta := tensor.Meta{DType: value.Meta.DType, Shape: value.Meta.Shape, Strides: copied.To}
	copyPlace := copied.Node.Out[0].Place() // the memory: of the host or of a device
	model, err := prices.model.Without(value, copyMeta, copyPlace)
	if err != nil {
		return none
	}
	cheapestWithout := cheapest(model)
	if cheapestWithout == nil {
		return none
	}
	ns, change := float64(cheapestWithout.CostPS-prices.cheapest.CostPS)/machine.PSPerNS,
		cheapestWithout.ChangesSince(prices.cheapest)
	return copyPrice{&ns, &change}
}
