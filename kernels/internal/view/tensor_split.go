package view

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type tensorSplitAttrs struct {
	Sections *int  `attr:"sections" default:"none" doc:"number of parts, whose sizes differ by at most 1"`
	Indices  []int `attr:"indices" default:"none" range:"int64" doc:"positions at which to split"`
	Dim      int   `attr:"dim" default:"0" doc:"dimension to split"`
}

type splitAlongAttrs struct {
	Sections *int  `attr:"sections" default:"none" doc:"number of parts, which divides the size"`
	Indices  []int `attr:"indices" default:"none" range:"int64" doc:"positions at which to split"`
}

// TensorSplit is torch.tensor_split.
var TensorSplit = multiViewOp(graph.SchemaOf[*tensorSplitAttrs](), graph.Op{Semantics: graph.Semantics{
	Name: "tensor_split",
	Doc: "Splits a dimension into `sections` parts, or before each index in `indices`. If the size is not a multiple " +
		"of `sections`, the first parts are larger by 1. `tensor_indices_or_sections`, of int64, stands for `sections` if " +
		"it has no dimensions, or for `indices` if it is a vector.",
	Infer: inferTensorSplit,
	Params: []graph.Param{kit.Self, {Name: "tensor_indices_or_sections", Optional: true,
		Overload: "tensor_indices_or_sections"}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(5, 2)}, Attrs: graph.Attrs{"sections": 3}},
		{In: []tensor.Meta{kit.F32(5, 2)}, Attrs: graph.Attrs{"indices": []int{1, 3}}}},
}, Lowerings: graph.Lowerings{RunDynamic: runTensorSplit}}, splitTensor)

// splitTensor returns the types of the parts. If the second operand is given, it is a constant.
func splitTensor(c *graph.Call, self tensor.Type) ([]tensor.Type, error) {
	attrs := kit.Attrs[*tensorSplitAttrs](c)
	dim, err := splitDim(self, attrs)
	if err != nil {
		return nil, err
	}
	if c.HasOperand(1) {
		if err := checkSplitOperand(c, attrs); err != nil {
			return nil, err
		}
		if attrs, err = splitByConstant(c.Const(1), *attrs); err != nil {
			return nil, err
		}
	}
	return splitAt(self, dim, attrs.Sections, attrs.Indices)
}

// splitDim returns the dimension to split.
func splitDim(self tensor.Type, attrs *tensorSplitAttrs) (int, error) {
	if self.Rank() == 0 {
		return 0, errors.New("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
	}
	return tensor.WrapDim(attrs.Dim, self.Rank())
}

// inferTensorSplit infers the parts. If a run computes the second operand, the sizes of the parts depend on data. Their
// number is the length of a vector plus 1, or else the number of results that the node names.
func inferTensorSplit(c *graph.Call) ([]graph.Result, error) {
	self := c.Type(0)
	if !c.HasOperand(1) || c.In[1].Kind == graph.NumberArg || c.Const(1) != nil {
		types, err := splitTensor(c, self)
		const viewedOperand = 0
		return c.AliasResults(viewedOperand, types...), err
	}
	attrs := kit.Attrs[*tensorSplitAttrs](c)
	dim, err := splitDim(self, attrs)
	if err == nil {
		err = checkSplitOperand(c, attrs)
	}
	if err != nil {
		return nil, err
	}
	count := c.ResultCount()
	if by := c.Type(1); by.Rank() == 1 {
		length, known := by.Shape[0].Known()
		if known {
			count = length + 1
		}
	}
	if count < 1 || count > maxViews {
		return nil, errors.New("tensor_split: the number of results is not known: name them under \"outputs\", or give " +
			"tensor_indices_or_sections as a constant")
	}
	const unknownSize = -1
	outline := graph.PartialType{DType: self.DType, TypeFor: func(shape []sym.Int) (tensor.Type, error) {
		part := self
		part.Shape = shape
		return part, nil
	}}
	for i, size := range self.Shape {
		n, known := size.Known()
		if !known || i == dim {
			n = unknownSize
		}
		outline.Sizes = append(outline.Sizes, n)
	}
	return slices.Repeat([]graph.Result{outline.Result()}, count), nil
}

// runTensorSplit splits self by a tensor that the run has computed.
func runTensorSplit(_ graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return viewsOf(in[0], func(self tensor.Type) ([]tensor.Type, error) { return splitTensor(callWithData(c, in), self) })
}

// checkSplitOperand checks the second operand of tensor_split.
func checkSplitOperand(c *graph.Call, attrs *tensorSplitAttrs) error {
	const expected = "tensor_split expected tensor_indices_or_sections to "
	operandType := c.Type(1)
	switch {
	case operandType.DType != tensor.Int64:
		return fmt.Errorf(expected+"have dtype of long, but got %s", operandType.DType.TorchName())
	case operandType.Rank() > 1:
		return fmt.Errorf(expected+"be a zero-dimensional or one-dimensional tensor, but got a tensor with %d dims",
			operandType.Rank())
	case attrs.Sections != nil || attrs.Indices != nil:
		return errors.New("tensor_split: tensor_indices_or_sections is given, and so is an attribute in its place")
	case c.In[1].Kind == graph.NumberArg:
		return errors.New("tensor_split: tensor_indices_or_sections is a number; use the attribute sections")
	}
	return nil
}

// splitByConstant returns attributes with sections or indices from the second operand of tensor_split.
func splitByConstant(values *tensor.Tensor, attrs tensorSplitAttrs) (*tensorSplitAttrs, error) {
	if values.Rank() == 0 {
		sections := int(values.At().Int())
		attrs.Sections = &sections
		return &attrs, nil
	}
	if values.Numel() >= maxViews {
		return nil, fmt.Errorf("split at %d indices: at most %d parts are supported", values.Numel(), maxViews)
	}
	attrs.Indices = []int{}
	for i := range values.Numel() {
		index := values.At(i).Int()
		index = min(max(index, -tensor.MaxBytes), tensor.MaxBytes) // MaxBytes is beyond every size
		attrs.Indices = append(attrs.Indices, int(index))
	}
	return &attrs, nil
}

// Hsplit, Vsplit and Dsplit are torch.hsplit, torch.vsplit and torch.dsplit.
var (
	Hsplit = splitAlongOp("hsplit", "Splits the second dimension, or the only one, as tensor_split does.", 1,
		func(t tensor.Type) int { return min(1, t.Rank()-1) })
	Vsplit = splitAlongOp("vsplit", "Splits the first dimension, as tensor_split does.", 2,
		func(tensor.Type) int { return 0 })
	Dsplit = splitAlongOp("dsplit", "Splits the third dimension, as tensor_split does.", 3,
		func(tensor.Type) int { return 2 })
)

// splitAlongOp defines a split along the dimension that dimOf returns for the operand's type. minRank is the least rank
// that the op accepts.
func splitAlongOp(name, doc string, minRank int, dimOf func(self tensor.Type) int) *graph.Op {
	return multiViewOp(graph.SchemaOf[*splitAlongAttrs](), graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc,
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(4, 2, 2)}, Attrs: graph.Attrs{"sections": 2}},
			{In: []tensor.Meta{kit.F32(4, 2, 2)}, Attrs: graph.Attrs{"indices": []int{1}}}},
	}}, func(c *graph.Call, self tensor.Type) ([]tensor.Type, error) {
		attrs := kit.Attrs[*splitAlongAttrs](c)
		if self.Rank() < minRank {
			return nil, fmt.Errorf("torch.%s requires a tensor with at least %s, but got a tensor with %d dimensions!", name,
				[...]string{"1 dimension", "2 dimension", "3 dimension"}[minRank-1], self.Rank())
		}
		dim := dimOf(self)
		sections := attrs.Sections
		// For a symbolic size, Holds answers for the typical value of the size, and records the answer as a guard.
		if sections != nil && (*sections == 0 || self.Shape[dim].Mod(sym.Of(*sections)).Ne(sym.Int{}).Holds()) {
			return nil, fmt.Errorf("torch.%s attempted to split along dimension %d, but the size of the dimension %v is not "+
				"divisible by the split_size %d!", name, dim, self.Shape[dim], *sections)
		}
		return splitAt(self, dim, attrs.Sections, attrs.Indices)
	})
}

// splitAt splits a dimension into sections, or at indices. For example, three sections of a dimension of size 8 have
// the sizes 3, 3 and 2. A split of this dimension at the indices 1 and 6 gives parts of sizes 1, 5 and 2.
func splitAt(self tensor.Type, dim int, sections *int, indices []int) ([]tensor.Type, error) {
	var starts []sym.Int // the first index of each part
	switch {
	case (sections == nil) == (indices == nil):
		return nil, fmt.Errorf("tensor_split: either sections or indices must be given")
	case sections == nil:
		starts = append(sym.Ints(0), sym.Ints(indices...)...)
	case *sections <= 0:
		return nil, fmt.Errorf("number of sections must be larger than 0, got %d", *sections)
	case *sections > maxViews:
		return nil, fmt.Errorf("split into %d parts: at most %d are supported", *sections, maxViews)
	default:
		starts = sectionStarts(self.Shape[dim], *sections)
	}
	parts := make([]tensor.Type, len(starts))
	for i := range parts {
		end := &self.Shape[dim]
		if i+1 < len(starts) {
			end = &starts[i+1]
		}
		var err error
		if parts[i], err = self.Slice(dim, &starts[i], end, sym.Of(1)); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// sectionStarts returns the first index of each section of a dimension. If the size is not a multiple of the number of
// sections, the first sections have one index more than the last sections.
func sectionStarts(dimSize sym.Int, sections int) (starts []sym.Int) {
	size, largerSections := dimSize.Div(sym.Of(sections)), dimSize.Mod(sym.Of(sections))
	for i := range sections {
		starts = append(starts, size.Mul(sym.Of(i)).Add(largerSections.Min(sym.Of(i))))
	}
	return starts
}
