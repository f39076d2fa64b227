package window

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

const (
	// maxGroupPositions and maxGroupTaps are the maximum numbers of positions and of taps of a group (see gridKernel).
	// The list of taps stays in the L2 cache while it is used for all channels.
	maxGroupPositions, maxGroupTaps = 1024, 4096
	// maxBlockChannels is the maximum number of channels of a block if the inner loop is over channels. maxBlockPlanes
	// is the maximum for other layouts.
	maxBlockChannels, maxBlockPlanes = 256, 16
)

// gridKernel samples groups of positions. A position is an element of the grid. It has the coordinates of one sample,
// which all channels share. A tap is an element of the operand that a sample reads, with its weight.
//
// A row has positions of one image that are equally far apart in grid and result. Often these are all positions of the
// image. Rows are divided into groups, and channels are divided into blocks. A unit of work is one group for one block.
// The kernel lists the taps of the group, which all blocks use, and then computes the weighted sums for each channel.
// For example, a bilinear call of 2 images, 64 channels and 64x64 positions has 2 rows, each with 4 groups of 1024
// positions. A row-major operand has 4 blocks of 16 channels for each group.
//
// The example is without quads. A float32 operand may be copied to quads first (copyToQuads). Four channels of a pixel
// are then adjacent in memory, and vectors sum them together.
type gridKernel struct {
	*gridSampling
	dtype                  tensor.DType       // dtype of operand, grid and result
	toFloat64, fromFloat64 tensor.ConvertFunc // convert elements of dtype to float64, and back

	rows         *kit.LineSet // rows of positions, with offsets in grid, result and operand
	rowPositions int          // number of positions of a row
	groupSize    int          // maximum number of positions of a group
	rowGroups    int          // number of groups of a row
	maxTaps      int          // maximum number of taps of a position

	channels          int
	blockSize         int  // maximum number of channels of a block
	channelBlocks     int  // number of blocks
	loopsOverChannels bool // whether the inner loop is over channels (smaller stride)
	readsQuads        bool // whether the operand is in quads
	outsideOffset     int  // offset of the zero pixel for taps outside, in bytes; only for quads

	// Strides in bytes.
	gridStride, coordinateStride        int // of positions and of coordinates in the grid
	inChannelStride                     int // of channels in the operand
	outPositionStride, outChannelStride int // of positions and of channels in the result
}

// gridGroup is the memory of a worker for one group.
type gridGroup struct {
	points     [maxGroupPositions][3]float64             // the coordinates x, y, z of each position
	taps       [maxGroupTaps]gridTap                     // room for gridKernel.maxTaps taps for each position
	tapCounts  [maxGroupPositions]int                    // number of taps of each position
	tapsByAxis [3][4]gridTap                             // taps along each axis (see gridSampling.storeTaps)
	value      float64                                   // an element, or a sum, that is converted
	sums       [maxGroupPositions * quadChannels]float32 // samples of a quad or, for fewer positions, of a block
}

// newGridKernel returns the kernel of a call for an operand of the given dtype and layout. sampling was made for this
// layout. readsQuads is set if copyToQuads made the operand.
func newGridKernel(c *graph.Call, sampling *gridSampling, input tensor.Meta, readsQuads bool) *gridKernel {
	grid, out := c.Meta(1), c.Out[0]
	kernel := &gridKernel{
		gridSampling:     sampling,
		dtype:            grid.DType,
		toFloat64:        tensor.Converter(tensor.Float64, grid.DType),
		fromFloat64:      tensor.Converter(grid.DType, tensor.Float64),
		channels:         input.Shape[1],
		readsQuads:       readsQuads,
		coordinateStride: kit.ByteStride(grid, grid.Rank()-1),
		inChannelStride:  kit.ByteStride(input, 1),
		outChannelStride: kit.ByteStride(out, 1),
	}
	kernel.maxTaps = maxTapsOf(kernel.mode, len(kernel.axes))
	kernel.groupSize = min(maxGroupPositions, maxGroupTaps/kernel.maxTaps)
	columnStride := kernel.axes[len(kernel.axes)-1].stride
	kernel.blockSize = maxBlockPlanes
	if magnitude(kernel.inChannelStride) < magnitude(columnStride) {
		kernel.loopsOverChannels, kernel.blockSize = true, maxBlockChannels
	}
	if readsQuads {
		kernel.blockSize = maxBlockChannels
		kernel.outsideOffset = tensor.Numel(input.Shape[2:]) * columnStride // the zero pixel is after all others
	}
	kernel.setRows(input, grid, out)
	kernel.channelBlocks = kit.DivUp(kernel.channels, kernel.blockSize)
	return kernel
}

// magnitude returns the absolute value of a stride, which may be negative.
func magnitude(i int) int { return max(i, -i) }

// setRows divides the positions into rows, and rows into groups.
func (k *gridKernel) setRows(input, grid, out tensor.Meta) {
	last := grid.Rank() - 1 // dimension of the coordinates; all other dimensions are of positions
	// perPosition returns the layout of one element per position in the given array, with the given strides.
	perPosition := func(array tensor.Meta, strides ...int) tensor.Meta {
		return tensor.Meta{DType: array.DType, Shape: slices.Clone(grid.Shape[:last]), Strides: append([]int{}, strides...)}
	}
	outStrides := slices.Delete(slices.Clone(out.Strides), 1, 2) // without the stride of channels
	operandStrides := make([]int, last)                          // 0 for positions: an image has one origin
	operandStrides[0] = input.Strides[0]
	layouts := []tensor.Meta{perPosition(grid, grid.Strides[:last]...), perPosition(out, outStrides...),
		perPosition(input, operandStrides...)}
	mergeDims(layouts)
	inner := layouts[0].Rank() - 1 // the dimension along a row
	k.rowPositions = layouts[0].Shape[inner]
	k.gridStride, k.outPositionStride = kit.ByteStride(layouts[0], inner), kit.ByteStride(layouts[1], inner)
	if k.readsQuads { // about quadGroups groups in a row, so that workers can share it
		k.groupSize = min(k.groupSize, max(minQuadPositions, kit.DivUp(k.rowPositions, quadGroups)))
	}
	k.rows = kit.NewLineSet(layouts[0].Shape, inner, layouts...)
	k.rowGroups = kit.DivUp(k.rowPositions, k.groupSize)
}

// mergeDims merges adjacent dimensions of metas of the same shape if the strides of all metas permit this. The strides
// of dimensions of size 1 do not matter. Dimension 0, the batch, is not merged.
func mergeDims(metas []tensor.Meta) {
	for d := metas[0].Rank() - 1; d > 1; d-- {
		outer, inner := metas[0].Shape[d-1], metas[0].Shape[d]
		isSpaced := func(meta tensor.Meta) bool { return meta.Strides[d-1] != meta.Strides[d]*inner }
		if outer > 1 && inner > 1 && slices.ContainsFunc(metas, isSpaced) {
			continue
		}
		for i := range metas {
			meta := &metas[i]
			if inner > 1 {
				meta.Strides[d-1] = meta.Strides[d]
			}
			meta.Shape[d-1] = outer * inner
			meta.Shape, meta.Strides = slices.Delete(meta.Shape, d, d+1), slices.Delete(meta.Strides, d, d+1)
		}
	}
}

// phase returns the phase that samples, and the bytes of worker memory that it needs.
func (k *gridKernel) phase() (workerBytes int, phase graph.Phase) {
	tapCost := listedTapMoves + summedTapMoves*min(k.channels, k.blockSize)
	cost := min(k.groupSize, k.rowPositions) * tapCost * k.maxTaps
	units := k.rows.Count * k.rowGroups * k.channelBlocks
	return int(unsafe.Sizeof(gridGroup{})), copies.ChunkedPhase(units, cost, func(mem *graph.Mem, begin, end int) error {
		group := (*gridGroup)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)))
		for unit := begin; unit < end; unit++ {
			k.computeUnit(mem, group, unit, unit == begin)
		}
		return nil
	})
}

// computeUnit computes a unit of work. If isFirst is false, the worker has computed the previous unit and still has the
// taps of that unit.
func (k *gridKernel) computeUnit(mem *graph.Mem, group *gridGroup, unit int, isFirst bool) {
	block, groupIndex := unit%k.channelBlocks, unit/k.channelBlocks
	first := groupIndex % k.rowGroups * k.groupSize // the group's first position in the row
	positions := min(k.groupSize, k.rowPositions-first)
	offsets := k.rows.Offsets(groupIndex / k.rowGroups) // in the order of the layouts of setRows
	gridOffset, outOffset, operandOffset := offsets[0], offsets[1], offsets[2]
	if isFirst || block == 0 {
		k.listTaps(group, unsafe.Add(mem.Ptrs[2], gridOffset+first*k.gridStride), positions)
		mem.CheckContextAfter(positions * k.maxTaps)
	}
	firstChannel := block * k.blockSize
	channels := min(k.blockSize, k.channels-firstChannel)
	out := unsafe.Add(mem.Ptrs[0], outOffset+first*k.outPositionStride+firstChannel*k.outChannelStride)
	in := unsafe.Add(mem.Ptrs[1], operandOffset+firstChannel*k.inChannelStride)
	switch {
	case k.readsQuads:
		k.sumQuads(group, out, in, positions, channels)
	case k.dtype == tensor.Float32:
		sumGroup[float32](k, group, out, in, positions, channels)
	case k.dtype == tensor.Float64:
		sumGroup[float64](k, group, out, in, positions, channels)
	default:
		k.sumConverted(group, out, in, positions, channels)
	}
	mem.CheckContextAfter(positions * k.maxTaps * channels)
}

// listTaps lists the taps of some positions of the grid. storeInnerTaps stores most taps of bilinear and nearest
// samples of an image. It leaves a count of 0 for other positions, whose taps storeTaps stores.
func (k *gridKernel) listTaps(group *gridGroup, grid unsafe.Pointer, positions int) {
	pointStride := int(unsafe.Sizeof(group.points[0]))
	for axis := range k.axes {
		points, coordinates := unsafe.Pointer(&group.points[0][axis]), unsafe.Add(grid, axis*k.coordinateStride)
		k.toFloat64(points, coordinates, pointStride, k.gridStride, positions)
	}
	counts := group.tapCounts[:positions]
	clear(counts)
	if k.mode != gridBicubic && len(k.axes) == 2 {
		k.storeInnerTaps(group.points[:positions], group.taps[:], counts)
	}
	for i, count := range counts {
		if count > 0 {
			continue
		}
		taps := group.taps[i*k.maxTaps : (i+1)*k.maxTaps]
		counts[i] = k.storeTaps(&group.points[i], &group.tapsByAxis, taps)
		if !k.readsQuads {
			continue
		}
		for tap := counts[i]; tap < k.maxTaps; tap++ { // in quads, all positions have maxTaps taps
			taps[tap] = gridTap{offset: k.outsideOffset, weight: 0} // adds 0 to the sum
		}
	}
}

// tapsOf returns the taps of position i of the group.
func (k *gridKernel) tapsOf(group *gridGroup, i int) []gridTap {
	first := i * k.maxTaps
	return group.taps[first : first+group.tapCounts[i]]
}

// planeBlock is the number of planes that are sampled together. It is less than the number of ways of the L1 cache (8),
// because the elements of a sample can have the same cache set in every plane, for example with planes of 64x64
// elements.
const planeBlock = 4

// sumGroup computes the results of the given numbers of positions and channels. out is the address of the first result.
// in is the address of the first element of the operand's first channel.
func sumGroup[T float32 | float64](k *gridKernel, group *gridGroup, out, in unsafe.Pointer, positions, channels int) {
	together := planeBlock // number of channels that are summed together
	if k.loopsOverChannels {
		together = channels
	}
	for channel := 0; channel < channels; channel += together {
		sumChannels[T](k, group, unsafe.Add(out, channel*k.outChannelStride),
			unsafe.Add(in, channel*k.inChannelStride), positions, min(together, channels-channel))
	}
}

// sumChannels is sumGroup for at most planeBlock planes or, if the inner loop is over channels, for all channels.
func sumChannels[T float32 | float64](k *gridKernel, group *gridGroup, out, in unsafe.Pointer, positions,
	channels int) {
	inStride, outStride := k.inChannelStride, k.outChannelStride
	for i := range positions {
		taps, result := k.tapsOf(group, i), unsafe.Add(out, i*k.outPositionStride)
		if len(taps) != 4 {
			for channel := range channels {
				sum := 0.0
				for tapIndex := range taps {
					sum += weighted[T](taps[tapIndex].weight, in, channel*inStride+taps[tapIndex].offset)
				}
				*(*T)(unsafe.Add(result, channel*outStride)) = T(sum)
			}
			continue
		}
		// Four taps are a bilinear sample of an image. Their pointers and weights stay in registers.
		four := (*[4]gridTap)(taps)
		x0, x1, x2, x3 := unsafe.Add(in, four[0].offset), unsafe.Add(in, four[1].offset), unsafe.Add(in, four[2].offset),
			unsafe.Add(in, four[3].offset)
		w0, w1, w2, w3 := four[0].weight, four[1].weight, four[2].weight, four[3].weight
		offset := 0
		for range channels { // the sum starts at 0, as above, so that -0 becomes 0
			*(*T)(result) = T(0 + weighted[T](w0, x0, offset) + weighted[T](w1, x1, offset) +
				weighted[T](w2, x2, offset) + weighted[T](w3, x3, offset))
			offset, result = offset+inStride, unsafe.Add(result, outStride)
		}
	}
}

// weighted returns the element at an offset in bytes from an address, times a weight.
func weighted[T float32 | float64](weight float64, address unsafe.Pointer, offset int) float64 {
	return float64(weight * float64(*(*T)(unsafe.Add(address, offset))))
}

// sumConverted is sumGroup for other dtypes. It converts each element separately.
func (k *gridKernel) sumConverted(group *gridGroup, out, in unsafe.Pointer, positions, channels int) {
	value := unsafe.Pointer(&group.value)
	for channel := range channels {
		plane, result := unsafe.Add(in, channel*k.inChannelStride), unsafe.Add(out, channel*k.outChannelStride)
		for i := range positions {
			sum := 0.0
			for _, tap := range k.tapsOf(group, i) {
				k.toFloat64(value, unsafe.Add(plane, tap.offset), 0, 0, 1) // one element, so strides are unused
				sum += float64(tap.weight * group.value)
			}
			group.value = sum
			k.fromFloat64(unsafe.Add(result, i*k.outPositionStride), value, 0, 0, 1)
		}
	}
}

// The approximate costs of listing a tap and of summing a tap of one channel, in copied elements.
const listedTapMoves, summedTapMoves = 16, 2

// The following costs are for the estimate gridWork (grid_sampler.go).
//
// The costs of listing the taps of a position, relative to a bilinear position of an image. A list has a fixed cost and
// a cost for each tap. The two modes of storeInnerTaps have only a fixed cost. These and the following ratios are
// fitted to calls of 1 to 128 channels and 32x32 to 224x224 samples, on an EPYC with AVX2.
const listedPositionCost, listedTapCost, nearestListCost = 3.5, .33, .85

// The costs of a tap and of storing a result of one channel, relative to a bilinear sample of four taps.
const summedTapCost, storedResultCost = .22, .42

// unrolledTapCost is summedTapCost for samples of four taps, which are summed without a loop.
const unrolledTapCost = .145

// The costs of a tap and of storing the results of four channels, relative to a bilinear sample in quads.
const quadTapCost, quadResultCost = .155, .38
