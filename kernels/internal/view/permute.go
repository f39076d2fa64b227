package view

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// permuteOp defines a view that only reorders dimensions. viewType maps the operand's type to the view's type.
func permuteOp(attrs *graph.Schema, op graph.Op, viewType viewTypeFunc) *graph.Op {
	op.Permutes = func(c *graph.Call) []int {
		// viewType is called with an operand that has stride d in dimension d. A dimension of the view has the stride
		// of the corresponding dimension of the operand, so the strides of the view are the permutation.
		numbered := tensor.Meta{DType: c.Meta(0).DType, Shape: c.Meta(0).Shape, Strides: make([]int, c.Meta(0).Rank())}
		for d := range numbered.Strides {
			numbered.Strides[d] = d
		}
		viewed, err := viewType(c, numbered.Type(), sym.Int{}) // the size of the storage does not matter
		if err != nil {
			return nil
		}
		numbered, _ = viewed.Meta()
		return numbered.Strides
	}
	return viewOp(attrs, op, viewType)
}

type permuteAttrs struct {
	Dims []int `attr:"dims" doc:"for each dimension of the result, the dimension of self that it comes from"`
}

// Permute is Tensor.permute.
var Permute = permuteOp(graph.SchemaOf[*permuteAttrs](), graph.Op{Semantics: graph.Semantics{
	Name:     "permute",
	Doc:      "Reorders the dimensions of self.",
	Examples: kit.OneExample(kit.F32(2, 3, 4), graph.Attrs{"dims": []int{2, 0, 1}}),
}}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	return self.Permute(kit.Attrs[*permuteAttrs](c).Dims)
})

type transposeAttrs struct {
	Dim0 int `attr:"dim0" doc:"first dimension"`
	Dim1 int `attr:"dim1" doc:"second dimension"`
}

type swapaxesAttrs struct {
	Axis0 int `attr:"axis0" doc:"first dimension"`
	Axis1 int `attr:"axis1" doc:"second dimension"`
}

// Transpose, Swapdims and Swapaxes are Tensor.transpose under its three names.
var (
	Transpose = permuteOp(graph.SchemaOf[*transposeAttrs](), graph.Op{Semantics: graph.Semantics{
		Name:     "transpose",
		Doc:      "Swaps two dimensions of self.",
		Examples: kit.OneExample(kit.F32(2, 3, 4), graph.Attrs{"dim0": 0, "dim1": -1}),
	}}, swapDims)
	Swapdims = permuteOp(graph.SchemaOf[*transposeAttrs](), graph.Op{Semantics: graph.Semantics{
		Name:     "swapdims",
		Doc:      "Swaps two dimensions of self, as transpose does.",
		Examples: kit.OneExample(kit.F32(2, 3, 4), graph.Attrs{"dim0": 0, "dim1": -1}),
	}}, swapDims)
	Swapaxes = permuteOp(graph.SchemaOf[*swapaxesAttrs](), graph.Op{Semantics: graph.Semantics{
		Name:     "swapaxes",
		Doc:      "Swaps two dimensions of self, as transpose does.",
		Examples: kit.OneExample(kit.F32(2, 3, 4), graph.Attrs{"axis0": 0, "axis1": 1}),
	}}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
		attrs := kit.Attrs[*swapaxesAttrs](c)
		return self.Transpose(attrs.Axis0, attrs.Axis1)
	})
)

// swapDims returns the type of the view of transpose.
func swapDims(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	attrs := kit.Attrs[*transposeAttrs](c)
	return self.Transpose(attrs.Dim0, attrs.Dim1)
}

// T is Tensor.t.
var T = permuteOp(kit.NoAttrs, graph.Op{Semantics: graph.Semantics{
	Name:     "t",
	Doc:      "Transposes a matrix; a value of rank 0 or 1 is unchanged.",
	Examples: kit.OneExample(kit.F32(2, 3), nil),
}}, func(_ *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
	if self.Rank() > 2 {
		return self, fmt.Errorf("t() expects a tensor with <= 2 dimensions, but self is %dD", self.Rank())
	}
	return self.Transpose(0, max(0, self.Rank()-1))
})

type movedimAttrs struct {
	Source      []int `attr:"source" doc:"dimensions to move; a number stands for a list of one"`
	Destination []int `attr:"destination" doc:"new position of each dimension in source"`
}

// Movedim and Moveaxis are torch.movedim under its two names.
var (
	Movedim  = movedimOp("movedim")
	Moveaxis = movedimOp("moveaxis")
)

// movedimOp defines the op with the given name.
func movedimOp(name string) *graph.Op {
	return permuteOp(graph.SchemaOf[*movedimAttrs](), graph.Op{Semantics: graph.Semantics{
		Name:     name,
		Doc:      "Moves dimensions of self to other positions and keeps the order of the rest.",
		Examples: kit.OneExample(kit.F32(2, 3, 4), graph.Attrs{"source": 0, "destination": -1}),
	}}, func(c *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
		attrs := kit.Attrs[*movedimAttrs](c)
		return self.MoveDim(attrs.Source, attrs.Destination)
	})
}

// NumpyT is Tensor.T, and MT is Tensor.mT.
var (
	NumpyT = permuteOp(kit.NoAttrs, graph.Op{Semantics: graph.Semantics{
		Name:     "numpy_T",
		Doc:      "Reverses the order of the dimensions.",
		Examples: kit.OneExample(kit.F32(2, 3, 4), nil),
	}}, func(_ *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
		dims := make([]int, self.Rank())
		for d := range dims {
			dims[d] = len(dims) - 1 - d
		}
		return self.Permute(dims)
	})
	MT = permuteOp(kit.NoAttrs, graph.Op{Semantics: graph.Semantics{
		Name: "mT", Doc: "Transposes matrices: swaps the last two dimensions.", Examples: kit.OneExample(kit.F32(2, 3), nil),
	}}, func(_ *graph.Call, self tensor.Type, _ storageSize) (tensor.Type, error) {
		switch self.Rank() {
		case 0:
			return self, nil
		case 1:
			return self, errors.New("tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.")
		}
		return self.Transpose(-2, -1)
	})
)
