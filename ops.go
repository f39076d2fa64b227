package graphrun

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
)

// New returns an empty graph whose nodes may have the ops of package kernels. For a graph with user-defined ops, call
// [graph.New] with the result of [Lookup].
func New(name string) *graph.Graph { return graph.New(name, kernels.Lookup) }

// Lookup returns a function that finds an op by name. It finds the ops of package kernels and the given user-defined
// ops: new ops, which fusion.Define makes, and ops of package kernels with the caller's own implementations and prices,
// which [graph.Extend] makes. The function is an argument of [graph.New] and a field of [Loader]:
//
//	lookup, err := graphrun.Lookup(swish)
//	g := graph.New("net", lookup)                                // in Go
//	g, err := graphrun.Loader{Lookup: lookup}.Load("model.json") // from a file
//
// Lookup fails if an op is nil or has no name, or if two ops have the same name. Built-in ops that are not extended
// count, too.
func Lookup(userOps ...*graph.Op) (graph.Lookup, error) {
	byName := make(map[string]*graph.Op, len(userOps))
	for i, op := range userOps {
		switch {
		case op == nil:
			return nil, fmt.Errorf("op %d is nil", i)
		case op.Name == "":
			return nil, fmt.Errorf("op %d has no name", i)
		case kernels.Lookup(op.Name) != nil && (op.Base() == op || op.Base() != kernels.Lookup(op.Name)):
			return nil, fmt.Errorf("op %q: package kernels already has an op with this name", op.Name)
		case byName[op.Name] != nil:
			return nil, fmt.Errorf("two ops are named %q", op.Name)
		}
		byName[op.Name] = op
	}
	return func(name string) *graph.Op {
		if op := byName[name]; op != nil {
			return op
		}
		return kernels.Lookup(name)
	}, nil
}
