package view

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type pixelShuffleAttrs struct {
	UpscaleFactor int `attr:"upscale_factor" doc:"side of the blocks made from channels"`
}

type pixelUnshuffleAttrs struct {
	DownscaleFactor int `attr:"downscale_factor" doc:"side of the blocks that become channels"`
}

type depthToSpaceAttrs struct {
	BlockSize int    `attr:"block_size" doc:"side of the blocks"`
	Mode      string `attr:"mode" default:"DCR" oneof:"DCR|CRD" doc:"order of the parts of a channel index: the position in a block and then the channel of the result (DCR), or the reverse (CRD)"`
}

type spaceToDepthAttrs struct {
	BlockSize int `attr:"block_size" doc:"side of the blocks"`
}

type channelShuffleAttrs struct {
	Groups int `attr:"groups" doc:"number of groups of channels"`
}

// shuffle describes a copy that reorders parts of dimensions. The dimensions of the operand are split, reordered, and
// merged into the dimensions of the result. For example, pixel_shuffle with factor 2 converts four channels to a block
// of 2x2 pixels:
//
//	operand  [1, 4, h, w]
//	split    [1, 1, 2, 2, h, w]    batch, channel, row in the block, column in the block, height, width
//	reorder  [1, 1, h, 2, w, 2]    perm is [0, 1, 4, 2, 5, 3]
//	result   [1, 1, 2*h, 2*w]
type shuffle struct {
	split []sym.Int // sizes of the dimensions after the split
	perm  []int     // order of the split dimensions in the copy
	shape []sym.Int // shape of the result
	// copiesSelf is set if the result is a copy of self with the same strides. In PyTorch, pixel_unshuffle and
	// channel_shuffle return such a copy if self is empty.
	copiesSelf bool
}

// channelFirst and positionFirst are values of the parameter isPositionFirst of toBlocks and fromBlocks.
const channelFirst, positionFirst = false, true

// PixelShuffle, PixelUnshuffle, DepthToSpace and SpaceToDepth convert between channels and blocks of pixels.
// ChannelShuffle reorders channels.
var (
	PixelShuffle = shuffleOp(graph.SchemaOf[*pixelShuffleAttrs](), "pixel_shuffle",
		"Converts channels to blocks of pixels: [..., c*r*r, h, w] gives [..., c, h*r, w*r].",
		graph.Attrs{"upscale_factor": 2}, kit.F32(2, 8, 3, 2), func(c *graph.Call) (shuffle, error) {
			factor := kit.Attrs[*pixelShuffleAttrs](c).UpscaleFactor
			return toBlocks("pixel_shuffle", "upscale_factor", c.Type(0), factor, channelFirst)
		})
	PixelUnshuffle = shuffleOp(graph.SchemaOf[*pixelUnshuffleAttrs](), "pixel_unshuffle",
		"Converts blocks of pixels to channels: [..., c, "+
			"h*r, w*r] gives [..., c*r*r, h, w]. As in PyTorch, an empty self is unchanged.",
		graph.Attrs{"downscale_factor": 2}, kit.F32(2, 3, 4, 6), func(c *graph.Call) (shuffle, error) {
			factor := kit.Attrs[*pixelUnshuffleAttrs](c).DownscaleFactor
			result, err := fromBlocks("pixel_unshuffle", "downscale_factor", c.Type(0), factor, channelFirst)
			result.copiesSelf = kit.IsEmpty(c.Type(0))
			return result, err
		})
	DepthToSpace = shuffleOp(graph.SchemaOf[*depthToSpaceAttrs](), "depth_to_space",
		"Converts channels to blocks of pixels, as ONNX's DepthToSpace: [..., c*r*r, h, w] gives [..., c, h*r, w*r].",
		graph.Attrs{"block_size": 2}, kit.F32(2, 8, 3, 2), func(c *graph.Call) (shuffle, error) {
			attrs := kit.Attrs[*depthToSpaceAttrs](c)
			isPositionFirst := attrs.Mode == "DCR"
			return toBlocks("depth_to_space", "block_size", c.Type(0), attrs.BlockSize, isPositionFirst)
		})
	SpaceToDepth = shuffleOp(graph.SchemaOf[*spaceToDepthAttrs](), "space_to_depth",
		"Converts blocks of pixels to channels, as ONNX's SpaceToDepth: [..., c, h*r, w*r] gives [..., r*r*c, h, w].",
		graph.Attrs{"block_size": 2}, kit.F32(2, 3, 4, 6), func(c *graph.Call) (shuffle, error) {
			factor := kit.Attrs[*spaceToDepthAttrs](c).BlockSize
			return fromBlocks("space_to_depth", "block_size", c.Type(0), factor, positionFirst)
		})
	ChannelShuffle = shuffleOp(graph.SchemaOf[*channelShuffleAttrs](), "channel_shuffle",
		"Interleaves groups of channels: channel j of group i becomes channel i of group j.",
		graph.Attrs{"groups": 2}, kit.NHWC(2, 6, 3, 2), channelShuffle)
)

// shuffleOp defines an op that is a shuffle. shuffleOf returns the shuffle of a call.
func shuffleOp(attrs *graph.Schema, name, doc string, exampleAttrs graph.Attrs, exampleOperand tensor.Meta,
	shuffleOf func(c *graph.Call) (shuffle, error)) *graph.Op {
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Self},
			Infer: func(call *graph.Call) ([]graph.Result, error) {
				shuffled, err := shuffleOf(call)
				if err != nil {
					return nil, err
				}
				if shuffled.copiesSelf {
					return call.NewResult(rule.PreserveType(call.Type(0))), nil
				}
				selfType := call.Type(0)
				out, err := tensor.NewTypeFormat(selfType.DType, shuffled.shape, suggestedFormat(selfType))
				return call.NewResult(out), err
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				shuffled, err := shuffleOf(c)
				if err != nil {
					return nil, err
				}
				return shuffled.reference(in[0])
			},
			Examples: kit.OneExample(exampleOperand, exampleAttrs),
		},
		Facts: graph.Facts{Parallel: shuffleLoops, WritesAnyDenseLayout: true, ImageRole: graph.ImagePreserving},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				shuffled, err := shuffleOf(c)
				if err != nil || c.Out[0].Numel() == 0 {
					return &graph.Kernel{}, err
				}
				dst, src := kit.OutBuffer(c, 0), kit.InBuffer(c, 0)
				split, err := src.Meta.View(kit.KnownSizes(shuffled.split))
				if err != nil {
					return nil, err
				}
				permuted, err := split.Permute(shuffled.perm)
				if err != nil {
					return nil, err
				}
				target, err := dst.Meta.View(permuted.Shape) // the result before its dimensions are merged
				if err != nil {
					return nil, err
				}
				return copies.Kernel(copies.Job{Dst: dst.View(target), Src: src.View(permuted)}), nil
			},
		},
	})
}

// reference shuffles self index by index.
func (s *shuffle) reference(self *tensor.Tensor) ([]*tensor.Tensor, error) {
	if s.copiesSelf {
		return []*tensor.Tensor{tensor.Zeros(self.DType, self.Shape...)}, nil
	}
	if self.Numel() == 0 {
		return []*tensor.Tensor{tensor.Zeros(self.DType, kit.KnownSizes(s.shape)...)}, nil
	}
	input, err := kit.ReshapeRowMajor(context.Background(), self, kit.KnownSizes(s.split)...)
	if err != nil {
		return nil, err
	}
	permuted, err := input.Meta.Permute(s.perm)
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(self.DType, permuted.Shape...)
	kit.EachIndex(permuted.Shape, func(outIndex []int) {
		sourceIndex := make([]int, len(outIndex))
		for position, d := range s.perm {
			sourceIndex[d] = outIndex[position]
		}
		out.Set(input.At(sourceIndex...), outIndex...)
	})
	merged, err := out.View(tensor.New(self.DType, kit.KnownSizes(s.shape)...))
	return []*tensor.Tensor{merged}, err
}

// maxSide bounds the sides of blocks, so that the square of a side does not overflow.
const maxSide = 1 << (bits.UintSize/2 - 1)

// toBlocks returns the shuffle that converts factor*factor channels to a block of factor by factor pixels. A channel
// index of self combines the position in the block with a channel of the result. If isPositionFirst is set, the channel
// index is position*channels + channel, else channel*factor*factor + position. op and factorName are the names of the
// op and of its attribute in errors.
func toBlocks(op, factorName string, self tensor.Type, factor int, isPositionFirst bool) (result shuffle, err error) {
	rank, side := self.Rank(), sym.Of(factor)
	switch {
	case rank < 3:
		return result, fmt.Errorf("%s expects input to have at least 3 dimensions, but got input with %d dimension(s)", op,
			rank)
	case factor <= 0:
		return result, fmt.Errorf("%s expects a positive %s, but got %d", op, factorName, factor)
	case factor > maxSide || kit.RepeatTooLarge(self.Shape[rank-2], side) || kit.RepeatTooLarge(self.Shape[rank-1], side):
		return result, fmt.Errorf("%s: a size times the %s %d overflows", op, factorName, factor)
	case !kit.SizeIs(self.Shape[rank-3].Mod(sym.Of(factor*factor)), 0):
		return result, fmt.Errorf("%s expects its input's 'channel' dimension to be divisible by the square of "+
			"%s, but input.size(-3)=%v is not divisible by %d", op, factorName, self.Shape[rank-3], factor*factor)
	}
	batch, channels := self.Shape[:rank-3], self.Shape[rank-3].Div(sym.Of(factor*factor))
	height, width := self.Shape[rank-2], self.Shape[rank-1]
	// In both orders, the split dimensions are reordered to [..., channels, height, side, width, side].
	if isPositionFirst {
		result.split = append(slices.Clone(batch), side, side, channels, height, width)
		result.perm = permAfterBatch(len(batch), 2, 3, 0, 4, 1)
	} else {
		result.split = append(slices.Clone(batch), channels, side, side, height, width)
		result.perm = permAfterBatch(len(batch), 0, 3, 1, 4, 2)
	}
	result.shape = append(slices.Clone(batch), channels, height.Mul(side), width.Mul(side))
	return result, nil
}

// fromBlocks returns the shuffle that converts a block of factor by factor pixels to factor*factor channels. It is the
// inverse of toBlocks.
func fromBlocks(op, factorName string, self tensor.Type, factor int, isPositionFirst bool) (result shuffle, err error) {
	rank, side := self.Rank(), sym.Of(factor)
	switch {
	case rank < 3:
		return result, fmt.Errorf("%s expects input to have at least 3 dimensions, but got input with %d dimension(s)", op,
			rank)
	case factor <= 0:
		return result, fmt.Errorf("%s expects a positive %s, but got %d", op, factorName, factor)
	case factor > maxSide || kit.RepeatTooLarge(self.Shape[rank-3], side.Mul(side)):
		return result, fmt.Errorf("%s: a size times the square of the %s %d overflows", op, factorName, factor)
	case !kit.SizeIs(self.Shape[rank-2].Mod(side), 0):
		return result, fmt.Errorf("%s expects height to be divisible by %s, but input.size(-2)=%v is not divisible by %d", op,
			factorName, self.Shape[rank-2], factor)
	case !kit.SizeIs(self.Shape[rank-1].Mod(side), 0):
		return result, fmt.Errorf("%s expects width to be divisible by %s, but input.size(-1)=%v is not divisible by %d", op,
			factorName, self.Shape[rank-1], factor)
	}
	batch, channels := self.Shape[:rank-3], self.Shape[rank-3]
	height, width := self.Shape[rank-2].Div(side), self.Shape[rank-1].Div(side)
	result.split = append(slices.Clone(batch), channels, height, side, width, side)
	if isPositionFirst { // to [..., side, side, channels, height, width]
		result.perm = permAfterBatch(len(batch), 2, 4, 0, 1, 3)
	} else { // to [..., channels, side, side, height, width]
		result.perm = permAfterBatch(len(batch), 0, 2, 4, 1, 3)
	}
	result.shape = append(slices.Clone(batch), channels.Mul(side).Mul(side), height, width)
	return result, nil
}

// permAfterBatch returns a permutation that keeps the first batchRank dimensions. perm permutes the later dimensions,
// which it counts from 0.
func permAfterBatch(batchRank int, perm ...int) []int {
	list := make([]int, 0, batchRank+len(perm))
	for d := range batchRank {
		list = append(list, d)
	}
	for _, d := range perm {
		list = append(list, batchRank+d)
	}
	return list
}

// channelShuffle returns the shuffle of channel_shuffle. It splits the channels into [groups, c/groups] and transposes
// these two dimensions.
func channelShuffle(c *graph.Call) (result shuffle, err error) {
	selfType, groups := c.Type(0), kit.Attrs[*channelShuffleAttrs](c).Groups
	switch {
	case selfType.Rank() <= 2:
		return result, errors.New("channel_shuffle expects input with > 2 dims, but got input with sizes " +
			tensor.Sizes(selfType.Shape))
	case groups <= 0:
		return result, fmt.Errorf("Number of groups to divide channels in must be positive. Value of groups:%d", groups)
	case !kit.SizeIs(selfType.Shape[1].Mod(sym.Of(groups)), 0):
		return result, fmt.Errorf("Number of channels must be divisible by groups. Got %v channels and %d groups.",
			selfType.Shape[1], groups)
	}
	result.shape, result.copiesSelf = selfType.Shape, kit.IsEmpty(selfType)
	result.split = append([]sym.Int{selfType.Shape[0], sym.Of(groups), selfType.Shape[1].Div(sym.Of(groups))},
		selfType.Shape[2:]...)
	result.perm = []int{0, 2, 1}
	for d := 3; d < len(result.split); d++ {
		result.perm = append(result.perm, d)
	}
	return result, nil
}

// shuffleLoops returns the loops over the dimensions that the shuffle does not change.
func shuffleLoops(c *graph.Call) []graph.Parallel {
	if _, ok := c.Attrs.(*channelShuffleAttrs); ok {
		return kit.LoopsExceptDims(1)(c) // 1: the channels
	}
	return kit.LoopsExceptDims(-1, -2, -3)(c)
}
