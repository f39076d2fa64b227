package view

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type newFullAttrs struct {
	Size      []sym.Int          `attr:"size" doc:"sizes of the result"`
	FillValue graph.NumberOrSize `attr:"fill_value" doc:"the number, or an expression of sizes"`
	DType     tensor.DType       `attr:"dtype" default:"none" doc:"dtype of the result; default: self's"`
}

// NewZeros, NewOnes and NewFull are Tensor.new_zeros, Tensor.new_ones and Tensor.new_full.
var (
	NewZeros = newConstantOp("new_zeros", "Creates a value of zeros with the dtype of self.", 0)
	NewOnes  = newConstantOp("new_ones", "Creates a value of ones with the dtype of self.", 1)
	NewFull  = fillOp(graph.SchemaOf[*newFullAttrs](), graph.Op{Semantics: graph.Semantics{
		Name: "new_full", Doc: "Creates a value with the dtype of self and fills it with a number.",
		Params: []graph.Param{kit.Self}, Examples: kit.OneExample(kit.F32(2), graph.Attrs{"size": []int{3, 2},
			"fill_value": 2}),
	}}, func(c *graph.Call) (tensor.Type, error) { // the type of the result
		attrs := kit.Attrs[*newFullAttrs](c)
		return resultTypeWithSize(c, attrs.Size, attrs.DType)
	}, func(c *graph.Call) graph.NumberOrSize { return kit.Attrs[*newFullAttrs](c).FillValue })
)

// newConstantOp defines an op that creates a tensor with the dtype of self and fills it with a value.
func newConstantOp(name, doc string, value int64) *graph.Op {
	return fillOp(graph.SchemaOf[*sizeAndDTypeAttrs](), graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc, Params: []graph.Param{kit.Self},
		Examples: kit.OneExample(kit.F32(2), graph.Attrs{"size": []int{3, 2}}),
	}}, func(c *graph.Call) (tensor.Type, error) { // the type of the result
		attrs := kit.Attrs[*sizeAndDTypeAttrs](c)
		return resultTypeWithSize(c, attrs.Size, attrs.DType)
	}, func(*graph.Call) graph.NumberOrSize { return graph.NumberOrSize{Number: tensor.IntScalar(value)} })
}
