package index

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the op embedding_bag, with its inference and reference. File embedding_bag_kernel.go explains bags.

// EmbeddingBag is torch.nn.functional.embedding_bag with the order of aten's operands.
var EmbeddingBag = kit.Define[*embeddingBagAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "embedding_bag",
		Doc: "Reduces bags of rows of a matrix, `weight` [n, k], by `mode`. If `indices` is a matrix [b, m], each row is a " +
			"bag. If it is a vector, bag i begins at index `offsets`[i] and ends before the next bag. The result is [b, k], " +
			"with zeros for a bag without rows. `per_sample_weights`, of the shape of `indices`, are factors of the rows of " +
			"a sum. Indices equal to `padding_idx` are left out. With `include_last_offset`, the last offset is the end of " +
			"the last bag, and the last row of a matrix of indices is ignored. `scale_grad_by_freq` and `sparse` have no " +
			"effect, and are rejected for the maximum.",
		Params: []graph.Param{kit.Weight, {Name: "indices", IndexBound: rowIndexBound},
			// Offsets that are all 0 are valid in any call.
			{Name: "offsets", Optional: true, IndexBound: func(*graph.Call) int { return 1 }},
			{Name: "per_sample_weights", Optional: true}},
		Infer: inferEmbeddingBag,
		Ref:   refEmbeddingBag,
		Examples: []graph.Example{kit.Example(nil, kit.F32(4, 6), kit.I64(2, 3), tensor.Meta{}, kit.F32(2, 3)),
			kit.Example(graph.Attrs{"mode": 1, "padding_idx": 1}, kit.F32(4, 6).WithStrides([]int{1, 4}), kit.I64(2, 3)),
			kit.Example(graph.Attrs{"mode": 2}, kit.F32(4, 6), kit.I64(2, 3))},
	},
	Facts:     graph.Facts{Parallel: bagLoops, WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{Compile: compileEmbeddingBag},
})

// bagLoops returns the loop over the bags if each row of the indices is a bag.
func bagLoops(c *graph.Call) []graph.Parallel {
	if c.Meta(bagIndices).Rank() != 2 || kit.Attrs[*embeddingBagAttrs](c).IncludeLastOffset {
		return nil
	}
	loop := kit.LoopOver(c, bagIndices, 0, 0) // over dimension 0 of the indices and of the result
	if c.HasOperand(bagScales) {
		loop.OperandDims[bagScales] = 0
	}
	return []graph.Parallel{loop}
}

// inferEmbeddingBag infers the result, with PyTorch's checks in PyTorch's order.
func inferEmbeddingBag(c *graph.Call) ([]graph.Result, error) {
	attrs, weight, indices := kit.Attrs[*embeddingBagAttrs](c), c.Type(bagWeight), c.Type(bagIndices)
	bags, err := bagCount(c, indices)
	if err != nil {
		return nil, err
	}
	switch {
	case attrs.Mode < bagSum || attrs.Mode > bagMax:
		return nil, errors.New("mode has to be one of sum, mean or max")
	case attrs.Mode == bagMax && attrs.ScaleGradByFreq:
		return nil, errors.New("max mode does not support scaling the gradient by the frequency")
	case attrs.Mode == bagMax && attrs.Sparse:
		return nil, errors.New("max mode does not support sparse weights")
	}
	if err := checkScales(c, weight, indices); err != nil {
		return nil, err
	}
	switch {
	case weight.Rank() != 2:
		return nil, fmt.Errorf("embedding_bag: weight has to be a 2D Tensor, but got Tensor of dimension %d", weight.Rank())
	case !weight.DType.IsFloat():
		return nil, fmt.Errorf("Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "+
			"Float, Double; but got %s instead (while checking arguments for embedding_bag)", weight.DType.TorchName())
	}
	if err := checkPaddingIndex(attrs.PaddingIdx, weight.Shape[0]); err != nil {
		return nil, err
	}
	out, err := kit.FreshType(weight.DType, []sym.Int{bags, weight.Shape[1]})
	return c.NewResult(out), err
}

// bagCount returns the number of bags of a call. It returns PyTorch's error if the indices and offsets do not
// match.
func bagCount(c *graph.Call, indices tensor.Type) (bags sym.Int, err error) {
	indexDType := indices.DType
	switch {
	case indices.Rank() == 2 && c.HasOperand(bagOffsets):
		return bags, errors.New("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed " +
			"length sequences. However, found offsets of type <class 'torch.Tensor'>")
	case indices.Rank() == 2 && kit.SizeIs(indices.Shape[1], 0):
		return bags, errors.New("step must be nonzero")
	case indices.Rank() == 2:
		bags = indices.Shape[0]
	case indices.Rank() != 1:
		return bags, fmt.Errorf("input has to be 1D or 2D Tensor, but got Tensor of dimension %d", indices.Rank())
	case !c.HasOperand(bagOffsets):
		return bags, errors.New("offsets has to be a 1D Tensor but got None")
	case c.Type(bagOffsets).Rank() != 1:
		return bags, errors.New("offsets has to be a 1D Tensor")
	default:
		bags = c.Type(bagOffsets).Shape[0]
		if indexDType, err = tensor.Promote(indexDType, c.Type(bagOffsets).DType); err != nil {
			return bags, err
		}
	}
	if kit.Attrs[*embeddingBagAttrs](c).IncludeLastOffset {
		if kit.SizeIs(bags, 0) {
			return bags, errors.New("include_last_offset: number of offset should be at least 1")
		}
		bags = bags.Sub(sym.Of(1))
	}
	if indexDType != tensor.Int64 && indexDType != tensor.Int32 {
		return bags, fmt.Errorf("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "+
			"Int; but got %s instead (while checking arguments for embedding_bag)", indexDType.TorchName())
	}
	return bags, nil
}

// checkScales returns PyTorch's error if the operand per_sample_weights does not match the weight and the indices.
func checkScales(c *graph.Call, weight, indices tensor.Type) error {
	if !c.HasOperand(bagScales) {
		return nil
	}
	scales, mode := c.Type(bagScales), kit.Attrs[*embeddingBagAttrs](c).Mode
	switch {
	case !tensor.SameSizes(scales.Shape, indices.Shape):
		return fmt.Errorf("embedding_bag: If per_sample_weights (torch.Size(%s)) is not None, then it must have the same "+
			"shape as the input (torch.Size(%s))", tensor.Sizes(scales.Shape), tensor.Sizes(indices.Shape))
	case mode != bagSum:
		return fmt.Errorf("embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "+
			"mode='sum' (got mode=%d).", mode)
	case scales.DType != weight.DType:
		return fmt.Errorf("Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "+
			"'per_sample_weights'; but type %s does not equal %s (while checking arguments for embedding_bag)",
			weight.DType.TorchName(), scales.DType.TorchName())
	}
	return nil
}

// checkPaddingIndex returns PyTorch's error for a padding_idx, if given, that is not the index of one of the rows.
func checkPaddingIndex(paddingIndex *int, rows sym.Int) error {
	if paddingIndex == nil {
		return nil
	}
	padding := sym.Of(*paddingIndex)
	if padding.Ge(rows).Holds() || padding.Add(rows).Lt(sym.Int{}).Holds() {
		return fmt.Errorf("padding_idx must be within the number of embeddings, -%v through %v, but got %d", rows,
			rows.Sub(sym.Of(1)), *paddingIndex)
	}
	return nil
}

// refEmbeddingBag is the reference of embedding_bag.
func refEmbeddingBag(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	operands := make([]*tensor.Tensor, bagScales+1)
	copy(operands, in)
	bagBegins, err := refBagBegins(operands[bagIndices], operands[bagOffsets])
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(operands[bagWeight].DType, c.Out[0].Shape...)
	for i := range out.Shape[0] {
		elements, err := refBag(c, operands, int(bagBegins[i]), int(bagBegins[i+1]))
		if err != nil {
			return nil, err
		}
		for j, x := range elements {
			out.Set(tensor.FloatScalar(x), i, j)
		}
	}
	return []*tensor.Tensor{out}, nil
}

// refBag returns the row of the result for the bag of the indices from begin to end.
func refBag(c *graph.Call, operands []*tensor.Tensor, begin, end int) ([]float64, error) {
	mode, weight, indices := kit.Attrs[*embeddingBagAttrs](c).Mode, operands[bagWeight], operands[bagIndices]
	elements, count := make([]float64, weight.Shape[1]), 0
	for k := begin; k < end; k++ {
		coords := kit.Unravel(k, indices.Shape)
		row := indices.At(coords...).Int()
		if err := checkRow(row, weight.Shape[0]); err != nil {
			return nil, err
		}
		if row == paddingRow(c) {
			continue
		}
		scale := 1.0
		if operands[bagScales] != nil {
			scale = operands[bagScales].At(coords...).Float()
		}
		for j := range elements {
			switch x := weight.At(int(row), j).Float(); {
			case mode != bagMax:
				elements[j] += float64(scale * x)
			case count == 0 || x > elements[j]:
				elements[j] = x
			}
		}
		count++
	}
	if mode == bagMean && count > 0 {
		for j := range elements {
			elements[j] /= float64(count)
		}
	}
	return elements, nil
}

// refBagBegins returns the first index of each bag, and the number of indices as the end of the last bag. With the
// attribute include_last_offset, the last bag does not count.
func refBagBegins(indices, offsets *tensor.Tensor) ([]int64, error) {
	indexCount := int64(indices.Numel())
	var bagBegins []int64
	if indices.Rank() == 2 {
		for i := range indices.Shape[0] {
			bagBegins = append(bagBegins, int64(i*indices.Shape[1]))
		}
		return append(bagBegins, indexCount), nil
	}
	previous := int64(0)
	for i := range offsets.Numel() {
		begin := offsets.At(i).Int()
		if err := checkOffset(i, offsets.Numel(), begin, previous, indices.Numel()); err != nil {
			return nil, err
		}
		bagBegins, previous = append(bagBegins, begin), begin
	}
	return append(bagBegins, indexCount), nil
}
