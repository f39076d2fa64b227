package view

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type fullAttrs struct {
	Size      []sym.Int          `attr:"size" doc:"sizes of the result"`
	FillValue graph.NumberOrSize `attr:"fill_value" doc:"the number, or an expression of sizes"`
	DType     tensor.DType       `attr:"dtype" default:"none" doc:"dtype of the result; default: bool, int64, float32 or complex64, by the number's kind"`
}

// Full is torch.full.
var Full = fillOp(graph.SchemaOf[*fullAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "full",
	Doc:      "Creates a value filled with one number.",
	Examples: []graph.Example{{Attrs: graph.Attrs{"size": []int{2, 3}, "fill_value": 1.5}}},
}, Facts: graph.Facts{Parallel: kit.LoopsExceptDims(), SizesAttr: "size"}}, func(c *graph.Call) (tensor.Type, error) {
	attrs := kit.Attrs[*fullAttrs](c)
	dtype := attrs.DType
	if dtype == tensor.Invalid {
		dtype = tensor.Int64 // for an expression of sizes
		if attrs.FillValue.Number.IsSet() {
			dtype = numberDType(attrs.FillValue.Number)
		}
	}
	return kit.FreshType(dtype, attrs.Size)
}, func(c *graph.Call) graph.NumberOrSize { return kit.Attrs[*fullAttrs](c).FillValue })

// numberDType returns the default dtype for a plain number: bool, int64, float32 or complex64.
func numberDType(number tensor.Scalar) tensor.DType {
	var promotion tensor.Promotion
	promotion.AddNumber(number)
	dtype, _ := promotion.Result() // promotion of a single operand never fails
	return dtype
}

// constantAttrs are the attributes of zeros and ones.
type constantAttrs struct {
	Size  []sym.Int    `attr:"size" doc:"sizes of the result"`
	DType tensor.DType `attr:"dtype" default:"float32" doc:"dtype of the result"`
}

// Zeros and Ones are torch.zeros and torch.ones.
var (
	Zeros = constantOp("zeros", "Creates a value of zeros.", 0)
	Ones  = constantOp("ones", "Creates a value of ones.", 1)
)

// constantOp defines an op that creates a tensor filled with a value.
func constantOp(name, doc string, value int64) *graph.Op {
	return fillOp(graph.SchemaOf[*constantAttrs](), graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc,
		Examples: []graph.Example{{Attrs: graph.Attrs{"size": []int{2, 3}}}},
	}, Facts: graph.Facts{Parallel: kit.LoopsExceptDims(), SizesAttr: "size"}},
		func(c *graph.Call) (tensor.Type, error) {
			attrs := kit.Attrs[*constantAttrs](c)
			if attrs.DType == tensor.Invalid { // the attribute is null, which selects PyTorch's default dtype
				return kit.FreshType(tensor.Float32, attrs.Size)
			}
			return kit.FreshType(attrs.DType, attrs.Size)
		}, func(*graph.Call) graph.NumberOrSize { return graph.NumberOrSize{Number: tensor.IntScalar(value)} })
}

type fullLikeAttrs struct {
	FillValue    graph.NumberOrSize  `attr:"fill_value" doc:"the number, or an expression of sizes"`
	DType        tensor.DType        `attr:"dtype" default:"none" doc:"dtype of the result; default: self's"`
	MemoryFormat tensor.MemoryFormat `attr:"memory_format" default:"preserve" doc:"layout of the result"`
}

// FullLike, ZerosLike and OnesLike create a value with the shape of self and fill it with a number.
var (
	FullLike = fillOp(graph.SchemaOf[*fullLikeAttrs](), graph.Op{Semantics: graph.Semantics{
		Name:     "full_like",
		Doc:      "Creates a value filled with one number, with the shape, dtype and layout of self.",
		Params:   []graph.Param{kit.Self},
		Examples: kit.OneExample(kit.NHWC(2, 3, 4, 5), graph.Attrs{"fill_value": 1.5}),
	}, Facts: graph.Facts{Parallel: kit.LoopsExceptDims()}}, func(c *graph.Call) (tensor.Type, error) {
		attrs := kit.Attrs[*fullLikeAttrs](c)
		return emptyLikeType(c.Type(0), attrs.DType, attrs.MemoryFormat)
	}, func(c *graph.Call) graph.NumberOrSize { return kit.Attrs[*fullLikeAttrs](c).FillValue })
	ZerosLike = constantLike("zeros_like", "Creates a value of zeros, with the shape, dtype and layout of self.", 0)
	OnesLike  = constantLike("ones_like", "Creates a value of ones, with the shape, dtype and layout of self.", 1)
)
