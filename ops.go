package graphrun

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
)

// New returns an empty graph, to be built on with the ops of package kernels. [graph.New] takes others:
// see [Lookup].
func New(name string) *graph.Graph { return graph.New(name, kernels.Lookup) }

// Lookup returns what finds the ops of package kernels and own, which [fusion.Define] made. It is for
// [graph.New] and [Loader.Lookup]:
//
//	lookup, err := graphrun.Lookup(swish)
//	g := graph.New("net", lookup)                                // in Go
//	g, err := graphrun.Loader{Lookup: lookup}.Load("model.json") // from a file
//
// It is an error if two ops have the same name, also if one of them is built in.
func Lookup(own ...*graph.Op) (graph.Lookup, error) {
	byName := make(map[string]*graph.Op, len(own))
	for i, o := range own {
		switch {
		case o == nil:
			return nil, fmt.Errorf("op %d is nil", i)
		case o.Name == "":
			return nil, errors.New("an op has no name: fusion.Define makes ops")
		case kernels.Lookup(o.Name) != nil:
			return nil, fmt.Errorf("op %q: package kernels has one of this name", o.Name)
		case byName[o.Name] != nil:
			return nil, fmt.Errorf("two ops are named %q", o.Name)
		}
		byName[o.Name] = o
	}
	return func(name string) *graph.Op {
		if o := byName[name]; o != nil {
			return o
		}
		return kernels.Lookup(name)
	}, nil
}
