package networks

import (
	"math"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// PricedRows is the text of a graph file whose ops [LookupPricedRows] finds. The graph has a node y. The symbol N is
// the number of rows.
const PricedRows = `{"version": 1, "symbols": {"N": {}},
	"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3]}],
	"nodes": [{"name": "y", "op": "softmax", "inputs": ["x"], "attrs": {"dim": 1}}], "outputs": ["y"]}`

// LookupPricedRows finds the ops of package kernels. It replaces some of them by ops whose prices have the same ratios
// on all machines. softmax has three implementations. "one" supports only one row, and is the cheapest for one row.
// "some" is the cheapest for 2 rows, and "many" is the cheapest for 8 rows. For 1 and 8 rows, "some" costs little more
// than the cheapest. log_softmax and cumsum cost less. They have two implementations: "few" is cheaper for 1 row, and
// "lots" is cheaper for more rows.
func LookupPricedRows(name string) *graph.Op {
	if op := pricedOps()[name]; op != nil {
		return op
	}
	return kernels.Lookup(name)
}

var pricedOps = sync.OnceValue(func() map[string]*graph.Op {
	return map[string]*graph.Op{
		"softmax": pricedOp("softmax",
			pricedImpl{name: "one", once: 100, maxRows: 1},
			pricedImpl{name: "some", perRow: 110, maxRows: math.MaxInt},
			pricedImpl{name: "many", once: 300, perRow: 60, maxRows: math.MaxInt}),
		"log_softmax": pricedOp("log_softmax",
			pricedImpl{name: "few", perRow: 10, maxRows: math.MaxInt},
			pricedImpl{name: "lots", once: 12, perRow: 1, maxRows: math.MaxInt}),
		"cumsum": pricedOp("cumsum",
			pricedImpl{name: "few", perRow: 10, maxRows: math.MaxInt},
			pricedImpl{name: "lots", once: 6, perRow: 7, maxRows: math.MaxInt}),
	}
})

// pricedImpl is an implementation that costs `once` steps and perRow steps for each row.
type pricedImpl struct {
	name         string
	once, perRow int
	maxRows      int
}

// pricedOp returns an op of package kernels with other implementations.
func pricedOp(name string, impls ...pricedImpl) *graph.Op {
	op := *kernels.Lookup(name)
	original := op.Impls[0]
	op.Compile, op.Impls = nil, nil // Define sets Compile again, from the new Impls
	for _, prices := range impls {
		impl := original
		impl.Name = prices.name
		impl.Work = func(call *graph.Call, _ graph.Walk) pricing.Work {
			return pricing.Work{StartedSteps: float64(prices.once + prices.perRow*call.Out[0].Shape[0])}
		}
		impl.Walks = func(call *graph.Call, candidates []tensor.Order) []graph.Walk {
			if call.Out[0].Shape[0] > prices.maxRows {
				return nil // the implementation does not support the call
			}
			return original.Walks(call, candidates)
		}
		op.Impls = append(op.Impls, impl)
	}
	defined, err := graph.Define(op)
	if err != nil {
		panic(err)
	}
	return defined
}
