package window

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

type gridSamplerAttrs struct {
	InterpolationMode int  `attr:"interpolation_mode" default:"0" doc:"0 bilinear, 1 nearest, 2 bicubic (images only)"`
	PaddingMode       int  `attr:"padding_mode" default:"0" doc:"values outside the input: 0 zeros, 1 border, 2 reflection"`
	AlignCorners      bool `attr:"align_corners" default:"false" doc:"-1 and 1 are the centres of the outermost elements, not their edges"`
}

// GridSampler is aten::grid_sampler. For example, in an image of width 4 with align_corners, the grid coordinate x = 0
// is position 1.5 of a row. Bilinear interpolation then has the taps 1 and 2 in each of two rows. Their weights along x
// are 1/2.
var GridSampler = kit.Define[*gridSamplerAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "grid_sampler",
		Doc: "Samples images [N,C,H,W] at the positions (x, y) of `grid` [N,h,w,2], or volumes [N,C,D,H,W] at (x, " +
			"y, z) of [N,d,h,w,3]. The coordinates -1 and 1 are the borders of `input`; `padding_mode` gives the " +
			"values outside.",
		Params: []graph.Param{kit.Input, {Name: "grid"}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			input, grid := c.Type(0), c.Type(1)
			if err := checkGrid(kit.Attrs[*gridSamplerAttrs](c), input, grid); err != nil {
				return nil, err
			}
			out, err := kit.FreshType(input.DType, kit.ReplaceSizes(input.Shape, 2, grid.Shape[1:grid.Rank()-1]...))
			return c.NewResult(out), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{newGridSampling(c, c.Meta(0)).reference(in[0], in[1])}, nil
		},
		Examples: []graph.Example{
			{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), kit.F32(2, 3, 2, 2)},
				Attrs: graph.Attrs{"interpolation_mode": 2, "padding_mode": 2}},
			{In: []tensor.Meta{kit.F32(1, 2, 3, 4, 5), kit.F32(1, 2, 3, 2, 3)},
				Attrs: graph.Attrs{"padding_mode": 1, "align_corners": true}}},
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true, Flops: gridFlops,
		Parallel: func(c *graph.Call) []graph.Parallel { // the loop over the batch of operands 0 and 1
			return kit.BatchLoopForRank(c.Meta(0).Rank(), 0, 1)(c)
		}},
	Lowerings: graph.Lowerings{
		Impls: []graph.Impl{{Name: "plain", Doc: "Lists the taps of each position once and sums them for each channel.",
			Lower: compileGridSampler, Work: gridWork}},
	},
})

// checkGrid makes the checks of aten::grid_sampler for an input and a grid.
func checkGrid(attrs *gridSamplerAttrs, input, grid tensor.Type) error {
	rank := input.Rank()
	switch {
	case rank != grid.Rank() || rank != 4 && rank != 5:
		return fmt.Errorf("grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input "+
			"with sizes %s and grid with sizes %s", tensor.Sizes(input.Shape), tensor.Sizes(grid.Shape))
	case input.Shape[0].Ne(grid.Shape[0]).Holds():
		return fmt.Errorf("grid_sampler(): expected grid and input to have same batch size, but got input with sizes %s "+
			"and grid with sizes %s", tensor.Sizes(input.Shape), tensor.Sizes(grid.Shape))
	case !kit.SizeIs(grid.Shape[rank-1], rank-2):
		return fmt.Errorf("grid_sampler(): expected grid to have size %d in last dimension, but got grid with sizes %s",
			rank-2, tensor.Sizes(grid.Shape))
	case input.DType != grid.DType:
		return errors.New("grid_sampler(): expected input and grid to have same dtype")
	case rank == 5 && attrs.InterpolationMode == gridBicubic:
		return errors.New("grid_sampler(): bicubic interpolation only supports 4D input")
	case !isBetween(attrs.InterpolationMode, 0, gridBicubic) || !isBetween(attrs.PaddingMode, 0, padReflection):
		return errors.New("grid_sampler(): unknown interpolation_mode or padding_mode")
	case !input.DType.IsFloat():
		return kit.NotImplementedBy("grid_sampler_2d_cpu", input.DType)
	}
	for d := 2; d < rank; d++ {
		if !kit.SizeAtLeast(input.Shape[d], 1) {
			return fmt.Errorf("grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes %s "+
				"with dimension %d being empty", tensor.Sizes(input.Shape), d)
		}
	}
	return nil
}

// isBetween reports whether x is in the range from least to greatest.
func isBetween(x, least, greatest int) bool { return x >= least && x <= greatest }

// compileGridSampler returns the kernel of a call. It first copies a float32 operand to quads if this is faster
// (usesQuads).
func compileGridSampler(call *graph.Call) (*graph.Kernel, error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	builder := copies.NewKernelBuilder(call)
	operand, isQuads := builder.Operand(0), usesQuads(call)
	if isQuads {
		operand = copyToQuads(builder, operand)
	}
	kernel := newGridKernel(call, newGridSampling(call, operand.Meta), operand.Meta, isQuads)
	workerBytes, phase := kernel.phase()
	buffers := []kit.Buffer{kit.OutBuffer(call, 0), operand, builder.Operand(1)}
	builder.AddPhases(copies.NoScratch, workerBytes, buffers, phase)
	return builder.Kernel()
}

// usesQuads reports whether copying the operand to quads (four adjacent channels) is faster. The operand must have
// several channels, because a single channel would be copied to four times its size. The total number of taps of all
// samples must be at least the number of elements of the operand.
func usesQuads(call *graph.Call) bool {
	operand := call.Meta(0)
	if !hasQuadCode || operand.Shape[1] < 2 {
		return false
	}
	maxTaps := maxTapsOf(kit.Attrs[*gridSamplerAttrs](call).InterpolationMode, operand.Rank()-2)
	return operand.DType == tensor.Float32 && kit.BoundedProduct(call.Out[0].Numel(), maxTaps) >= operand.Numel()
}

// newGridSampling returns the sampling of a call for an operand with the given layout.
func newGridSampling(c *graph.Call, layout tensor.Meta) *gridSampling {
	attrs := kit.Attrs[*gridSamplerAttrs](c)
	sampling := &gridSampling{mode: attrs.InterpolationMode, padding: attrs.PaddingMode, alignCorners: attrs.AlignCorners}
	for d := 2; d < layout.Rank(); d++ {
		sampling.axes = append(sampling.axes, gridAxis{layout.Shape[d], kit.ByteStride(layout, d)})
	}
	return sampling
}

// gridWork returns the work of a call. The work depends neither on the walk (the order of loops) nor on the values of
// the grid. For large operands, random positions take up to 1.6 times as long as smooth positions. The estimate is
// between these times.
func gridWork(c *graph.Call, _ graph.Walk) pricing.Work {
	work := pricing.Work{StartedSteps: 1, Flops: gridFlops(c)}
	c.AddStreamed(&work)
	mode, out := kit.Attrs[*gridSamplerAttrs](c).InterpolationMode, c.Out[0]
	if out.Numel() == 0 {
		return work
	}
	taps, channels := float64(maxTapsOf(mode, out.Rank()-2)), out.Shape[1]
	positions := float64(out.Numel() / channels)
	// All channels share the list of taps of a position. The cost of a list is relative to a bilinear position of an
	// image.
	listCost := listedPositionCost + float64(listedTapCost*taps)
	if mode != gridBicubic && out.Rank() == 4 {
		listCost = [...]float64{gridBilinear: 1, gridNearest: nearestListCost}[mode]
	}
	work.AddUnits(gridList, positions*listCost)
	operand := c.Meta(0)
	if !usesQuads(c) { // the sums of taps, channel by channel
		tapCost := summedTapCost
		if taps == 4 {
			tapCost = unrolledTapCost
		}
		work.AddUnits(gridSample, positions*float64(channels)*(storedResultCost+float64(tapCost*taps)))
		return work
	}
	// The sums of taps, four channels together.
	lanes := quadLanes(channels) // channels, rounded up to whole quads
	work.AddUnits(gridQuad, positions*float64(lanes/quadChannels)*(quadResultCost+float64(quadTapCost*taps)))
	// The operand is copied to quads, and blocks of results are transposed. Random reads of quads take about twice as
	// long as writes, so one write and one read count as 3*copiedBytes.
	copiedBytes := float64(operand.Numel() / operand.Shape[1] * lanes * elemBytes)
	work.Bytes[pricing.Tiled] = float64(operand.Bytes()) + float64(3*copiedBytes) + float64(out.Bytes())
	return work
}

// gridFlops returns the number of multiplications and additions of all taps.
func gridFlops(c *graph.Call) float64 {
	return float64(2*maxTapsOf(kit.Attrs[*gridSamplerAttrs](c).InterpolationMode, c.Out[0].Rank()-2)) *
		float64(c.Out[0].Numel())
}

// reference computes each sample of each channel separately.
func (s *gridSampling) reference(input, grid *tensor.Tensor) *tensor.Tensor {
	input = input.CopyTo(tensor.New(input.DType, input.Shape...))
	rowMajor := *s // the sampling of the row-major copy, with strides in elements
	rowMajor.axes = nil
	for d := 2; d < input.Rank(); d++ {
		rowMajor.axes = append(rowMajor.axes, gridAxis{input.Shape[d], input.Strides[d]})
	}
	last := grid.Rank() - 1
	out := tensor.Zeros(input.DType, append([]int{input.Shape[0], input.Shape[1]}, grid.Shape[1:last]...)...)
	// planes is [N, C, elements of a plane].
	planes := tensor.Must(input.View(tensor.New(input.DType, input.Shape[0], input.Shape[1],
		tensor.Numel(input.Shape[2:]))))
	kit.EachIndex(out.Shape, func(index []int) {
		position := append([]int{index[0]}, index[2:]...)
		var point [3]float64
		for axis := range rowMajor.axes {
			point[axis] = grid.At(append(position, axis)...).Float()
		}
		var tapsByAxis [3][4]gridTap // up to 4 taps along an axis, in bicubic interpolation
		var taps [16]gridTap
		count := rowMajor.storeTaps(&point, &tapsByAxis, taps[:])
		sum := 0.0
		for _, tap := range taps[:count] {
			sum += float64(tap.weight * planes.At(index[0], index[1], tap.offset).Float())
		}
		out.Set(tensor.FloatScalar(sum), index...)
	})
	return out
}
