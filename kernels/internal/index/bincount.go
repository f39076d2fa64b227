package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type bincountAttrs struct {
	Minlength int `attr:"minlength" default:"0" doc:"least number of elements of the result"`
}

// Bincount is torch.bincount.
var Bincount = dynamicOp(graph.SchemaOf[*bincountAttrs](), graph.Op{Semantics: graph.Semantics{
	Name: "bincount",
	Doc: "Counts the occurrences of each number from 0 to the greatest element of self. With `weights`, it adds the " +
		"weights of the occurrences instead: in float32 if they are float32, else in float64.",
	Params: []graph.Param{{Name: "self", IndexBound: generatedBinBound}, {Name: "weights", Optional: true}},
	Examples: []graph.Example{kit.Example(graph.Attrs{"minlength": 20}, kit.I64(5)), kit.Example(nil, kit.I64(5),
		kit.F32(5))},
}}, outlineBincount, runBincount)

// outlineBincount checks a call of bincount and returns the outline of the result: its dtype and its known sizes.
func outlineBincount(c *graph.Call) ([]graph.PartialType, error) {
	attrs, self := kit.Attrs[*bincountAttrs](c), c.Type(0)
	switch {
	case attrs.Minlength < 0:
		return nil, errors.New("minlength should be >= 0")
	case attrs.Minlength > maxBincountLength:
		return nil, fmt.Errorf("bincount: minlength must be at most %d, but got %d", maxBincountLength, attrs.Minlength)
	case self.Rank() != 1:
		return nil, errBincount
	case !self.DType.IsIntegral(false):
		return nil, kit.NotImplemented("bincount", self.DType)
	case kit.IsEmpty(self):
		return oneOutline(tensor.Int64, attrs.Minlength)
	case !c.HasOperand(1):
		return oneOutline(tensor.Int64, unknownSize)
	}
	weights := c.Type(1)
	if weights.Rank() != 1 || weights.Shape[0].Ne(self.Shape[0]).Holds() {
		return nil, errors.New("weights should be 1-d and have the same length as input")
	}
	if weights.DType == tensor.Float32 {
		return oneOutline(tensor.Float32, unknownSize)
	}
	return oneOutline(tensor.Float64, unknownSize)
}

// runBincount computes the result of bincount.
func runBincount(ctx context.Context, c *graph.Call, in []*tensor.Tensor) (out []*tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err) // the number of bins depends on data
	binCount := kit.Attrs[*bincountAttrs](c).Minlength
	bins, err := rowMajorElements[int64](ctx, tensor.Int64, in[0])
	if err != nil {
		return nil, err
	}
	greatest := uint64(0) // a negative number is greater than all others
	kit.ForEachBlock(ctx, len(bins), func(begin, end int) {
		blockGreatest := uint64(0)
		for _, bin := range bins[begin:end] {
			blockGreatest = max(blockGreatest, uint64(bin))
		}
		greatest = max(greatest, blockGreatest)
	})
	if greatest >= tensor.MaxBytes { // negative, or more bins than memory can hold
		return nil, errBincount
	}
	if len(bins) > 0 {
		binCount = max(binCount, int(greatest)+1)
	}
	switch {
	case len(in) < 2 || in[1] == nil || len(bins) == 0:
		out := tensor.Zeros(tensor.Int64, binCount)
		counts := kit.ElementsOf[int64](out.Pointer(), binCount)
		kit.ForEachBlock(ctx, len(bins), func(begin, end int) {
			for _, bin := range bins[begin:end] {
				counts[bin]++
			}
		})
		return []*tensor.Tensor{out}, nil
	case in[1].DType == tensor.Float32:
		return sumByBin[float32](ctx, tensor.Float32, bins, binCount, in[1])
	}
	return sumByBin[float64](ctx, tensor.Float64, bins, binCount, in[1])
}

// maxBincountLength bounds minlength, so that data and not an attribute determine the memory of a run.
const maxBincountLength = 1 << 24

// generatedBinBound is the bound of the numbers in generated operands.
func generatedBinBound(*graph.Call) int { return 16 }

var errBincount = errors.New("bincount only supports 1-d non-negative integral inputs.")

// rowMajorElements returns the elements of a value in row-major order, converted to a dtype, whose element type is T.
func rowMajorElements[T int64 | float32 | float64](ctx context.Context, dtype tensor.DType,
	value *tensor.Tensor) ([]T, error) {
	if value.DType != dtype {
		value = kit.CopyTo(ctx, value, tensor.New(dtype, value.Shape...))
	}
	flat, err := kit.ReshapeRowMajor(ctx, value, value.Numel())
	if err != nil {
		return nil, err
	}
	return kit.ElementsOf[T](flat.Pointer(), flat.Numel()), nil
}

// sumByBin returns, for each of binCount bins, the sum of the weights of its elements, in a dtype. bins has the bin of
// each element.
func sumByBin[T float32 | float64](ctx context.Context, dtype tensor.DType, bins []int64, binCount int,
	weights *tensor.Tensor) ([]*tensor.Tensor, error) {
	out := tensor.Zeros(dtype, binCount)
	sums := kit.ElementsOf[T](out.Pointer(), binCount)
	elementWeights, err := rowMajorElements[T](ctx, dtype, weights)
	if err != nil {
		return nil, err
	}
	kit.ForEachBlock(ctx, len(bins), func(begin, end int) {
		block := elementWeights[begin:end]
		for i, bin := range bins[begin:end] {
			sums[bin] += block[i]
		}
	})
	return []*tensor.Tensor{out}, nil
}
