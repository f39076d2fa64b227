package conv

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// deform describes a call of deform_conv2d with known sizes. All operands of its kernel are row-major. The kernel first
// samples the image (sampleColumns) and then multiplies (product). A column is the samples of one window. For an image
// of 3 channels, windows of 3x3 and a result of 8 channels and 5x5 pixels, the matrix of columns has 3*3*3 rows and 5*5
// columns. The result is the product of the weight, an 8x27 matrix, and this matrix.
type deform struct {
	window
	images                  int
	inChannels, outChannels int
	groups                  int // number of groups of channels
	inPerGroup              int // number of input channels per group
	offsetGroups            int // number of groups of input channels that share offsets
	pointCount              int // number of pixels of the result; a point is such a pixel
}

// pointSample describes the bilinear sample of one tap, which interpolates between four pixels. The pixels are in the
// order upper left, upper right, lower left, lower right.
type pointSample[T float32 | float64] struct {
	upperLeft int     // index of the upper left pixel in the plane
	inside    [4]bool // whether each pixel is inside the image
	allInside bool    // all pixels are inside the image
	weight    [4]T    // bilinear weight of each pixel
	factor    T       // from the mask; 1 if there is no mask
}

// sampleBlock is the number of points for which positions are computed at once. All channels with the same offset use
// the same positions.
const sampleBlock = 128

// sampleColumns returns the phase that computes the columns of imageCount images from firstImage on, and the size of
// its worker memory in bytes. A unit of work samples one tap of a block of points, in all channels with the same
// offset.
func sampleColumns[T float32 | float64](conv *deform, firstImage, imageCount int) (phase graph.Phase, workerBytes int) {
	blocks, channels := kit.DivUp(conv.pointCount, sampleBlock), conv.inChannels/conv.offsetGroups
	scratchBytes := kit.AlignUp(sampleBlock * int(unsafe.Sizeof(pointSample[T]{})))
	unitCost := sampleBlock * (8 + 4*channels) // estimated: positions and weights once, four pixels per channel
	return copies.ChunkedPhase(imageCount*conv.offsetGroups*conv.taps()*blocks, unitCost,
		func(mem *graph.Mem, begin, end int) error {
			samples := kit.SliceOf[pointSample[T]](mem.WorkerScratch, 0, sampleBlock)
			for unit := begin; unit < end; unit++ {
				// Units are numbered as [image][offset group][tap][block].
				firstPoint, tap, group := unit%blocks*sampleBlock, unit/blocks%conv.taps(), unit/blocks/conv.taps()
				block := samples[:min(sampleBlock, conv.pointCount-firstPoint)]
				locateSamples(conv, mem, block, firstImage*conv.offsetGroups+group, tap, firstPoint)
				// Channels are numbered over the images from firstImage on.
				for channel := group * channels; channel < (group+1)*channels; channel++ {
					var plane []T
					if mem.Ptrs[1] != nil {
						plane = kit.PlaneOf[T](mem.Ptrs[1], firstImage*conv.inChannels+channel, conv.h.Size*conv.w.Size)
					}
					columns := kit.PlaneOf[T](mem.Ptrs[0], channel*conv.taps()+tap, conv.pointCount)
					samplePoints(columns[firstPoint:], plane, conv.w.Size, block)
				}
			}
			return nil
		}), scratchBytes
}

// locateSamples computes the positions, weights and mask factors of the samples of one tap for the points from
// firstPoint on. group is the index of the offset group over all images.
func locateSamples[T float32 | float64](conv *deform, mem *graph.Mem, block []pointSample[T], group, tap,
	firstPoint int) {
	offsets := kit.PlaneOf[T](mem.Ptrs[2], group*conv.taps()+tap, 2*conv.pointCount) // y of all points, then x
	offsetsY, offsetsX := offsets[firstPoint:conv.pointCount], offsets[conv.pointCount+firstPoint:]
	_, tapRow, tapCol := conv.tap(tap)
	outRow, outCol := firstPoint/conv.w.Results, firstPoint%conv.w.Results
	for i := range block {
		block[i] = newPointSample(conv.h.Size, conv.w.Size, T(conv.h.Position(outRow, tapRow))+offsetsY[i],
			T(conv.w.Position(outCol, tapCol))+offsetsX[i])
		if outCol++; outCol == conv.w.Results {
			outRow, outCol = outRow+1, 0
		}
	}
	if mem.Ptrs[3] != nil {
		mask := kit.PlaneOf[T](mem.Ptrs[3], group*conv.taps()+tap, conv.pointCount)[firstPoint:]
		for i := range block {
			block[i].factor = mask[i]
		}
	}
}

// newPointSample returns the sample at (y, x). A sample is 0 if its position is at least one pixel outside the image.
// NaN coordinates give NaN.
func newPointSample[T float32 | float64](height, width int, y, x T) pointSample[T] {
	sample := pointSample[T]{factor: 1}
	switch {
	case y != y || x != x:
		for i := range sample.weight {
			sample.weight[i] = T(math.NaN())
		}
		return sample
	case y <= -1 || y >= T(height) || x <= -1 || x >= T(width):
		return sample
	}
	y0, x0 := int(math.Floor(float64(y))), int(math.Floor(float64(x)))
	dy, dx := y-T(y0), x-T(x0)
	sample.upperLeft = y0*width + x0
	// Whether the two rows and the two columns of the pixels are inside the image.
	top, bottom, left, right := y0 >= 0, y0+1 < height, x0 >= 0, x0+1 < width
	sample.inside = [4]bool{top && left, top && right, bottom && left, bottom && right}
	sample.allInside = top && bottom && left && right
	sample.weight = [4]T{(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx}
	return sample
}

// samplePoints writes the samples of a block of points in one channel to dst. plane has the pixels of the channel,
// whose rows have the given width.
func samplePoints[T float32 | float64](dst, plane []T, width int, block []pointSample[T]) {
	dst = dst[:len(block)]
	for i := range block {
		sample := &block[i]
		if sample.allInside {
			upper, lower := plane[sample.upperLeft:sample.upperLeft+2], plane[sample.upperLeft+width:sample.upperLeft+width+2]
			dst[i] = sample.factor * (T(sample.weight[0]*upper[0]) + T(sample.weight[1]*upper[1]) +
				T(sample.weight[2]*lower[0]) + T(sample.weight[3]*lower[1]))
			continue
		}
		var sum T
		for k, isInside := range sample.inside {
			var pixel T
			if isInside {
				pixel = plane[sample.upperLeft+k/2*width+k%2]
			}
			sum += T(sample.weight[k] * pixel)
		}
		dst[i] = sample.factor * sum
	}
}

// product returns the products of the weight and the columns of imageCount images from firstImage on: one product for
// each group of each image.
func (conv *deform) product(dtype tensor.DType, firstImage, imageCount int, addsBias bool) (*multiply.Multiplier,
	error) {
	outPerGroup, depth := conv.outChannels/conv.groups, conv.inPerGroup*conv.taps()
	spec := gemm.Spec{DType: dtype, M: outPerGroup, N: conv.pointCount, K: depth,
		A: gemm.Operand{RowStride: depth, ColStride: 1}, B: gemm.Operand{RowStride: conv.pointCount, ColStride: 1},
		CRowStride: conv.pointCount, CColStride: 1}
	if addsBias {
		spec.Bias, spec.BiasStride = gemm.BiasRows, 1
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return nil, err
	}
	multiplier := &multiply.Multiplier{Plan: plan, Entries: imageCount * conv.groups,
		MACs: kit.BoundedProduct(outPerGroup, conv.pointCount, depth),
		A:    entryOffsets(imageCount, 0, conv.groups, outPerGroup*depth),
		B:    entryOffsets(imageCount, conv.inChannels*conv.taps()*conv.pointCount, conv.groups, depth*conv.pointCount),
		C:    entryOffsets(imageCount, conv.outChannels*conv.pointCount, conv.groups, outPerGroup*conv.pointCount),
		Bias: entryOffsets(imageCount, 0, conv.groups, outPerGroup)}
	multiplier.Bind = func(mem *graph.Mem, job *multiply.Job) {
		job.C, job.B, job.A = unsafe.Add(mem.Ptrs[0], firstImage*conv.outChannels*conv.pointCount*dtype.Size()), mem.Ptrs[1],
			mem.Ptrs[2]
		if addsBias {
			job.Bias = mem.Ptrs[3]
		}
	}
	return multiplier, nil
}
