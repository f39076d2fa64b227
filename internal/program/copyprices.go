package program

import (
	"sync"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
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
	ns, change := float64(without.CostPS-prices.cheapest.CostPS)/machine.PSPerNS, without.ChangesSince(prices.cheapest)
	return copyPrice{&ns, &change}
}
