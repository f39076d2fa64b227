// Package kit has what ops of several families are made of: the definition of an op and its operands, refusals in
// PyTorch's words, types of results, references, elements and lines in memory. Each file has one subject.
package kit

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
)

// Define makes an op whose attributes are the fields of A, which tags describe ([graph.SchemaOf]). What can be
// filled in is ([graph.Define]); a contract that contradicts itself panics, before a program begins.
func Define[A any](o graph.Op) *graph.Op { return DefineWith(graph.SchemaOf[A](), o) }

// DefineWith makes an op whose attributes are those of the schema.
func DefineWith(s *graph.Schema, o graph.Op) *graph.Op {
	o.Schema = s
	d, err := graph.Define(o)
	if err != nil {
		panic("kernels: " + err.Error())
	}
	return d
}

// None is the attribute struct of an op without attributes.
type None struct{}

// NoAttrs is the schema of an op without attributes.
var NoAttrs = graph.SchemaOf[None]()

// Attrs returns the decoded attributes of a call of an op defined with A.
func Attrs[A any](c *graph.Call) *A { return c.Attrs.(*A) }

// IsOne reports whether each of the operands has one element.
func IsOne(c *graph.Call, operands ...int) bool {
	all := sym.Truth(true)
	for _, i := range operands {
		all = all.And(c.Type(i).Numel().Eq(sym.Of(1)))
	}
	return all.Holds()
}

// Self, Other and the like are operands that recur: Num ones may be plain numbers, Opt ones left out.
var (
	Self      = graph.Param{Name: "self"}
	SelfNum   = graph.Param{Name: "self", Number: true}
	Other     = graph.Param{Name: "other"}
	OtherNum  = graph.Param{Name: "other", Number: true}
	Input     = graph.Param{Name: "input"}
	Tensors   = graph.Param{Name: "tensors", Variadic: true}
	Weight    = graph.Param{Name: "weight"}
	OptWeight = graph.Param{Name: "weight", Optional: true}
	OptBias   = graph.Param{Name: "bias", Optional: true}
)
