// Package kit has code that several packages of ops share: definitions of ops and operands, PyTorch's error messages,
// types of results, references, and access to elements and lines (the elements along one dimension) in memory.
package kit

import (
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
)

// Define defines an op whose attributes are the fields of A, a pointer to a struct with tags ([graph.SchemaOf]).
// [fusion.Define] checks the definition and adds defaults. Define panics if the definition contradicts itself.
//
// Type arguments for attributes are pointers in all of package kernels: Go compiles a generic function once for all
// pointer types, but once more for every struct type.
func Define[A any](op graph.Op) *graph.Op { return DefineWith(graph.SchemaOf[A](), op) }

// DefineWith is Define with the attributes of a schema.
func DefineWith(schema *graph.Schema, op graph.Op) *graph.Op {
	op.Schema = schema
	defined, err := fusion.Define(op)
	if err != nil {
		panic("kernels: " + err.Error())
	}
	return defined
}

// EmptyAttrs is the attribute struct of an op without attributes.
type EmptyAttrs struct{}

// NoAttrs is the schema of an op without attributes.
var NoAttrs = graph.SchemaOf[*EmptyAttrs]()

// Attrs returns the decoded attributes of a call of an op defined with A.
//
//go:noinline // saves code and compile time: it has many callers, none of them hot
func Attrs[A any](c *graph.Call) A { return c.Attrs.(A) }

// HaveOneElement reports whether each of the operands with the given indices has exactly one element. If sizes are
// unknown, it may record a guard (a condition under which the answer is valid: see sizes.go).
func HaveOneElement(c *graph.Call, operands ...int) bool {
	all := sym.BoolOf(true)
	for _, i := range operands {
		all = all.And(c.Type(i).Numel().Eq(sym.Of(1)))
	}
	return all.Holds()
}

// Common operands. An operand named ...OrNumber may be a plain number: a number in place of a tensor, like a Python
// number in PyTorch. An operand named Opt... may be omitted.
var (
	Self          = graph.Param{Name: "self"}
	SelfOrNumber  = graph.Param{Name: "self", AcceptsNumber: true}
	Other         = graph.Param{Name: "other"}
	OtherOrNumber = graph.Param{Name: "other", AcceptsNumber: true}
	Input         = graph.Param{Name: "input"}
	Tensors       = graph.Param{Name: "tensors", Variadic: true}
	Weight        = graph.Param{Name: "weight"}
	OptWeight     = graph.Param{Name: "weight", Optional: true}
	OptBias       = graph.Param{Name: "bias", Optional: true}
)
