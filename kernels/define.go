package kernels

import (
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
)

var catalogue = map[string]*graph.Op{}

// Lookup returns the op with the name, nil if there is none.
func Lookup(name string) *graph.Op { return catalogue[name] }

// All returns every op, by name.
func All() []*graph.Op {
	var ops []*graph.Op
	for _, o := range catalogue {
		ops = append(ops, o)
	}
	slices.SortFunc(ops, func(a, b *graph.Op) int { return strings.Compare(a.Name, b.Name) })
	return ops
}

// define enters an op into the catalogue; A is its attribute struct ([graph.SchemaOf]).
// What can be filled in is ([graph.Define]).
func define[A any](o graph.Op) *graph.Op {
	if catalogue[o.Name] != nil {
		panic("kernels: op " + o.Name + " is defined twice")
	}
	o.Schema = graph.SchemaOf[A]()
	d, err := graph.Define(o)
	if err != nil {
		panic("kernels: " + err.Error())
	}
	catalogue[o.Name] = d
	return d
}

// none is the attribute struct of an op without attributes.
type none struct{}

// attrs returns the decoded attributes of a call of an op defined with A.
func attrs[A any](c *graph.Call) *A { return c.Attrs.(*A) }

// isOne reports whether each of the operands has one element.
func isOne(c *graph.Call, operands ...int) bool {
	all := sym.Truth(true)
	for _, i := range operands {
		all = all.And(c.Type(i).Numel().Eq(sym.Of(1)))
	}
	return all.Holds()
}

// self, other and the like are operands that recur.
var (
	self      = graph.Param{Name: "self"}
	selfNum   = graph.Param{Name: "self", Number: true}
	other     = graph.Param{Name: "other"}
	otherNum  = graph.Param{Name: "other", Number: true}
	input     = graph.Param{Name: "input"}
	tensors   = graph.Param{Name: "tensors", Variadic: true}
	weight    = graph.Param{Name: "weight"}
	optWeight = graph.Param{Name: "weight", Optional: true}
	optBias   = graph.Param{Name: "bias", Optional: true}
)
