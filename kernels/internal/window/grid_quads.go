package window

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

const (
	// quadChannels is the number of adjacent channels of a pixel that vectors sum together.
	quadChannels = 4
	elemBytes    = 4 // bytes of a float32
	quadBytes    = elemBytes * quadChannels
	// maxPixelChannels is the maximum number of channels of a pixel that are adjacent in memory: a cache line of float32.
	maxPixelChannels = 16
	// A row of positions whose samples are summed by quads is divided into about quadGroups groups, so that workers can
	// share it. A group has at least minQuadPositions positions, or all positions of a shorter row.
	minQuadPositions, quadGroups = 128, 8
)

// quadLanes returns the number of channels of an operand in quads, including the padding of the last quad.
func quadLanes(channels int) int { return kit.DivUp(channels, quadChannels) * quadChannels }

// pixelChannels returns the number of channels of a pixel that are adjacent in an operand in quads.
func pixelChannels(channels int) int { return min(maxPixelChannels, quadLanes(channels)) }

// copyToQuads copies a float32 operand [N,C,...] to scratch memory [N, blocks of channels, pixels + 1, channels of a
// block]. The last pixel of a block is zero. Taps outside the operand read this pixel. For example, [1,20,4,5] becomes
// [1,2,21,16]: a block with channels 0 to 15, and a block with channels 16 to 19 and padding, which is not initialized.
// The meta of the result has the operand's shape. The channel stride of the meta is exact only for whole blocks.
func copyToQuads(builder *copies.KernelBuilder, operand kit.Buffer) kit.Buffer {
	meta := operand.Meta
	batch, channels, space := meta.Shape[0], meta.Shape[1], meta.Shape[2:]
	pixels, perBlock := tensor.Numel(space), pixelChannels(channels)
	array := builder.NewScratch(tensor.Float32, batch, kit.DivUp(channels, perBlock), pixels+1, perBlock)
	strides := array.Meta.Strides
	spaceStrides := tensor.New(tensor.Float32, append(slices.Clone(space), perBlock)...).Strides[:len(space)]
	// view returns a view of a float32 buffer that begins at element `first`.
	view := func(buffer kit.Buffer, first int, shape []int, strides ...int) kit.Buffer {
		return buffer.Shifted(first*elemBytes, tensor.Meta{DType: tensor.Float32, Shape: shape, Strides: strides})
	}
	// The zero pixel of each block.
	jobs := []copies.Job{{Dst: view(array, pixels*perBlock, []int{batch, strides[0] / strides[1], perBlock}, strides[0],
		strides[1], 1), Fill: tensor.Zeros(tensor.Float32)}}
	completeBlocks := channels / perBlock
	for _, part := range []struct{ firstBlock, blocks, channels int }{
		{0, completeBlocks, perBlock}, {completeBlocks, 1, channels % perBlock}} {
		shape := append([]int{batch, part.blocks, part.channels}, space...)
		jobs = append(jobs, copies.Job{
			Dst: view(array, part.firstBlock*strides[1], shape,
				append([]int{strides[0], strides[1], 1}, spaceStrides...)...),
			Src: view(operand, part.firstBlock*perBlock*meta.Strides[1], shape,
				append([]int{meta.Strides[0], perBlock * meta.Strides[1], meta.Strides[1]}, meta.Strides[2:]...)...)})
	}
	builder.AddCopies(jobs...)
	array.Meta = tensor.Meta{DType: tensor.Float32, Shape: meta.Shape,
		Strides: append([]int{strides[0], strides[1] / perBlock}, spaceStrides...)}
	return array
}

// sumQuads is sumGroup for an operand in quads. It computes whole blocks of channels together, and other channels by
// quads.
func (k *gridKernel) sumQuads(group *gridGroup, out, in unsafe.Pointer, positions, channels int) {
	mover, perBlock := strided.MoverOf(elemBytes), pixelChannels(k.channels)
	for channel := 0; channel < channels; {
		sample, width := sampleQuads, quadChannels
		if channels-channel >= maxPixelChannels {
			sample, width = sampleBlocks, maxPixelChannels
		}
		inBlock, count := channel%perBlock, min(width, channels-channel)
		pixels := unsafe.Add(in, (channel-inBlock)*k.inChannelStride+inBlock*mover.SrcSize)
		result, sums := unsafe.Add(out, channel*k.outChannelStride), unsafe.Pointer(&group.sums)
		channel += count
		if count == width && k.outChannelStride == mover.DstSize { // the channels of the result are contiguous
			sample(positions, result, k.outPositionStride, pixels, &group.taps[0], k.maxTaps)
			continue
		}
		for first := 0; first < positions; first += len(group.sums) / width {
			sampled := min(len(group.sums)/width, positions-first) // as many positions as group.sums can hold
			sample(sampled, sums, width*elemBytes, pixels, &group.taps[first*k.maxTaps], k.maxTaps)
			mover.CopyBlock(unsafe.Add(result, first*k.outPositionStride), sums,
				strided.Axis{N: sampled, Dst: k.outPositionStride, Src: width * elemBytes},
				strided.Axis{N: count, Dst: k.outChannelStride, Src: mover.SrcSize})
		}
	}
}
