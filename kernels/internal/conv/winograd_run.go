package conv

import (
	"unsafe"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file runs a Winograd convolution: it transforms tiles of pixels to points, multiplies at each point, and
// transforms the products back (see [winogradConv]). A transformed tile has an element for each point and channel. The
// tiles of the batch are divided three times:
//
//   - section: a sequence of tiles whose points are in memory together
//   - part: a sequence of tiles of a section, which are multiplied by one block of weights (some output channels)
//   - strip: a sequence of tiles of a part, whose products fit in one register tile
//
// A tileSpan is such a sequence: its first tile, numbered in the batch, and its count of tiles. A tileRun is a span in
// one row of tiles, whose tiles have the same code. In memory, the data are
//
//	points    [point][tile of the section][input channel]       pointStride bytes between points, tileStride elements
//	                                                            between tiles
//	weights   [block][point][input channel][output channel]     pointWeights() elements for each point
//	products  [point][tile of the part][output channel]         productStride bytes between points
//
// With pointSchedule, the products are [point][block][tile of the section][output channel] instead. A tile has
// form.M x form.M results, form.N() x form.N() pixels and form.Points() points. For F(4x4, 3x3), M is 4, N() is 6,
// and Points() is 36.
//
// The arguments of machine code are addresses (Ptr), byte offsets from them (Row), and strides (Step). A call of
// product code computes one strip at several points, Rows: its operand In has the points of the tiles, Vec the weights,
// Out the products, and Prefetched the weights to prefetch. mem.Ptrs has the result, input, weight and bias.

const (
	// transformGrain is the number of transformed elements per chunk of a transform.
	transformGrain = 1 << 15
	// pointMACs is the number of multiply-adds per chunk of pointSchedule.
	pointMACs = 1 << 19
	// winogradCallMACs bounds the multiply-adds of one call of product code. A goroutine cannot be preempted within a
	// call, so a call must not take longer than 50 us. CallDivisor is greater than 1 on slow processors.
	winogradCallMACs = 1 << 20 / machine.CallDivisor
)

// winogradArgs are a worker's arguments of the generated code.
type winogradArgs struct {
	transform, product jit.Args
	epilogue           fusion.EpilogueRun
}

// release removes the addresses of a run, so that the worker does not keep its memory alive.
func (a *winogradArgs) release() {
	clear(a.transform.Ptr[:])
	clear(a.product.Ptr[:])
	a.epilogue.Release()
}

// phases lists the phases of the kernel. The first phase packs the weight, unless it was packed when the graph was
// planned. The other phases depend on the schedule:
//
//	chunkSchedule:  one phase, in which a chunk computes a section
//	blockSchedule:  for each section, a phase that transforms, and a phase that multiplies and transforms back
//	pointSchedule:  for each section, a phase that transforms, one that multiplies, and one that transforms back
func (r *winogradRun) phases() (list []graph.Phase) {
	switch {
	case r.transformsInRun:
		list = r.weight.phases()
	case !r.isPacked:
		list = append(list, r.packPhase())
	}
	if r.schedule == chunkSchedule {
		return append(list, r.chunkPhase())
	}
	for i := range r.sections.count {
		section := r.sections.span(i)
		list = append(list, r.transformPhase(section))
		if r.schedule == pointSchedule {
			list = append(list, r.pointsPhase(section), r.inversePhase(section))
		} else {
			list = append(list, r.multiplyPhase(section))
		}
	}
	return list
}

// packPhase returns the phase that transforms the weight.
func (r *winogradRun) packPhase() graph.Phase {
	return graph.Phase{Chunks: r.blockCount, Run: func(mem *graph.Mem, block int) error {
		to := kit.SliceOf[float32](mem.Scratch, 0, r.transformedWeights())
		return r.packBlock(r.weightTransform, to, mem.Ptrs[2], r.conv.call.Meta(1).Strides, block)
	}}
}

// chunkPhase returns the only compute phase of chunkSchedule. A chunk transforms a section, multiplies, and transforms
// the products back.
func (r *winogradRun) chunkPhase() graph.Phase {
	return graph.Phase{Chunks: r.sections.count, Run: func(mem *graph.Mem, chunk int) error {
		args := r.workers.Get(mem)
		defer args.release()
		section := r.sections.span(chunk)
		if err := r.eachRun(section, func(t tileRun) error {
			return r.transform(mem, &args.transform, t, t.first-section.first)
		}); err != nil {
			return err
		}
		r.epilogue.setOperands(&args.transform, &args.epilogue, mem)
		parts := r.parts(section)
		for i := range parts.count {
			part := parts.span(i)
			for block := range r.blockCount {
				share := prefetchShare{index: 0, count: 1} // a chunk computes its parts alone
				if err := r.computePart(mem, args, section, part, block, share); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// transformPhase returns the phase that transforms the tiles of a section.
func (r *winogradRun) transformPhase(section tileSpan) graph.Phase {
	division := machine.DivideUnits(section.count, r.form.Points()*r.tileStride, transformGrain)
	return graph.Phase{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
		args := r.workers.Get(mem)
		defer args.release()
		first, end := division.ChunkRange(chunk)
		return r.eachRun(tileSpan{section.first + first, end - first}, func(t tileRun) error {
			return r.transform(mem, &args.transform, t, t.first-section.first)
		})
	}}
}

// multiplyPhase returns the phase that computes the results of a section. A chunk computes one part of the section for
// one block of output channels. If the weights are larger than the points, neighbouring chunks use the same block of
// weights. Otherwise they use the same part.
func (r *winogradRun) multiplyPhase(section tileSpan) graph.Phase {
	parts := r.parts(section)
	byBlock := r.transformedWeights() > r.form.Points()*r.tileStride*section.count
	return graph.Phase{Chunks: parts.count * r.blockCount, Run: func(mem *graph.Mem, chunk int) error {
		args := r.workers.Get(mem)
		defer args.release()
		r.epilogue.setOperands(&args.transform, &args.epilogue, mem)
		part, block := chunk/r.blockCount, chunk%r.blockCount
		if byBlock {
			part, block = chunk%parts.count, chunk/parts.count
		}
		share := prefetchShare{index: part, count: parts.count}
		return r.computePart(mem, args, section, parts.span(part), block, share)
	}}
}

// pointsPhase returns the phase that multiplies all tiles of a section by all weights, point by point.
func (r *winogradRun) pointsPhase(section tileSpan) graph.Phase {
	division := machine.DivideUnits(r.form.Points(), section.count*r.blockCount*r.pointWeights(), pointMACs)
	return graph.Phase{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
		args := r.workers.Get(mem)
		defer args.release()
		call := &args.product
		call.Ptr[tile.In], call.Ptr[tile.Vec], call.Ptr[tile.Out] = r.pointsAt(mem), r.weightsAt(mem), r.productsAt(mem)
		call.Ptr[tile.Prefetched] = call.Ptr[tile.Vec]
		call.Rows = 1
		for point, end := division.ChunkRange(chunk); point < end; point++ {
			if err := r.multiplyPoint(call, section, point); err != nil {
				return err
			}
		}
		return nil
	}}
}

// inversePhase returns the phase that transforms the products of a section back to pixels.
func (r *winogradRun) inversePhase(section tileSpan) graph.Phase {
	division := machine.DivideUnits(section.count, r.form.Points()*r.blockCount*r.blockChannels, transformGrain)
	return graph.Phase{Chunks: division.Chunks, Run: func(mem *graph.Mem, chunk int) error {
		args := r.workers.Get(mem)
		defer args.release()
		r.epilogue.setOperands(&args.transform, &args.epilogue, mem)
		first, end := division.ChunkRange(chunk)
		return r.eachRun(tileSpan{section.first + first, end - first}, func(t tileRun) error {
			for block := range r.blockCount {
				if err := r.transformBack(mem, args, t, t.first-section.first, block); err != nil {
					return err
				}
			}
			return nil
		})
	}}
}

// prefetchShare is the share of the next block's weights that a part prefetches. The `count` parts that read the same
// weights each prefetch an equal share; index is the index of the part.
type prefetchShare struct{ index, count int }

// computePart computes the results of one part of a section for one block of output channels.
func (r *winogradRun) computePart(mem *graph.Mem, args *winogradArgs, section, part tileSpan, block int,
	share prefetchShare) error {
	var err error
	if r.transformsInRun { // the product code also transforms the weights
		err = r.multiplyByWindows(mem, &args.product, block)
	} else {
		err = r.multiply(mem, &args.product, part, part.first-section.first, block, share)
	}
	if err != nil {
		return err
	}
	return r.eachRun(part, func(t tileRun) error { return r.transformBack(mem, args, t, t.first-part.first, block) })
}

// transform transforms a run of tiles. index is the index of the first tile in the section.
func (r *winogradRun) transform(mem *graph.Mem, args *jit.Args, tiles tileRun, index int) error {
	conv, inside := r.conv, tiles.code.part
	first := tiles.image * conv.inStride.n // index of the first element that the code reads
	if inside.RowEnd > 0 {                 // otherwise the whole tile is in the padding
		row := tiles.tileRow*r.form.M - conv.h.PadBefore + inside.Row
		col := tiles.tileCol*r.form.M - conv.w.PadBefore + inside.Col
		first += row*conv.inStride.h + col*conv.inStride.w
	}
	from := r.pixelArray(mem.Ptrs[1], first, conv.inStride)
	to := winograd.TileArray{Ptr: unsafe.Add(r.pointsAt(mem), floatBytes*index*r.tileStride),
		Row: r.form.N() * r.pointStride, Col: r.pointStride, Tile: floatBytes * r.tileStride}
	var noBias unsafe.Pointer
	return tiles.code.input.Run(args, to, from, noBias, conv.inChannels, tiles.count)
}

// multiply multiplies the tiles of a part by a block of weights. firstIndex is the index of the first tile in the
// section. The loop over points is outermost: the first strip loads the weights of a point, and the other strips find
// them in cache.
func (r *winogradRun) multiply(mem *graph.Mem, args *jit.Args, part tileSpan, firstIndex, block int,
	share prefetchShare) error {
	points, matrixBytes := r.form.Points(), floatBytes*r.pointWeights()
	pointsPerCall := max(1, winogradCallMACs/(r.stripTiles*r.pointWeights()))
	args.Ptr[tile.In], args.Ptr[tile.Vec] = r.pointsAt(mem), unsafe.Add(r.weightsAt(mem), block*points*matrixBytes)
	args.Ptr[tile.Out], args.Ptr[tile.Prefetched] = r.productsAt(mem), args.Ptr[tile.Vec]
	// The register tiles of a call are one strip at consecutive points.
	args.Step[tile.InTile], args.Step[tile.VecTile], args.Step[tile.OutTile] = r.pointStride, matrixBytes, r.productStride
	strips := r.strips(part)
	for point := 0; point < points; point += pointsPerCall {
		args.Rows = min(pointsPerCall, points-point)
		args.Row[tile.Vec] = point * matrixBytes
		nextPoints, nextBlock := (point+args.Rows)*matrixBytes, points*matrixBytes // offsets of the next weights
		for i := range strips.count {
			strip := strips.span(i)
			indexInPart := strip.first - part.first
			args.Row[tile.In] = point*r.pointStride + floatBytes*(firstIndex+indexInPart)*r.tileStride
			args.Row[tile.Out] = point*r.productStride + floatBytes*indexInPart*r.blockChannels
			// The share is in the next block if the part is one strip, else in the next points of this block.
			if strips.count == 1 {
				args.Row[tile.Prefetched] = nextBlock + (points*share.index+point)*matrixBytes/share.count
			} else { // each strip prefetches an equal share
				args.Row[tile.Prefetched] = nextPoints + args.Rows*matrixBytes*i/strips.count
			}
			if err := r.productCodes[strip.count].Call(args); err != nil { // code by the number of tiles
				return err
			}
		}
	}
	return nil
}

// windowDepth is the number of input channels of a call in multiplyByWindows. The windows of these channels and a block
// of output channels stay in the L1 cache for all rows of points, while the windows of the next channels are
// prefetched.
const windowDepth = 32

// multiplyByWindows multiplies all tiles, which are one part, by the weights of a block. The code transforms the
// weights.
func (r *winogradRun) multiplyByWindows(mem *graph.Mem, args *jit.Args, block int) error {
	channels := r.conv.inChannels
	windowBytes := floatBytes * windowElements * r.blockChannels // the windows of an input channel
	weights := unsafe.Add(r.weight.address(mem), block*channels*windowBytes)
	clear(mem.WorkerScratch[:r.form.Points()*r.productStride]) // the products
	arrays := winograd.ProductArrays{Out: r.productsAt(mem), InPoint: r.pointStride, OutPoint: r.productStride,
		InTile: floatBytes * r.tileStride}
	for channel := 0; channel < channels; channel += windowDepth {
		arrays.Channels = min(windowDepth, channels-channel)
		arrays.In = unsafe.Add(r.pointsAt(mem), floatBytes*channel)
		arrays.Windows = unsafe.Add(weights, channel*windowBytes)
		if err := r.windowProducts.Run(args, &arrays); err != nil {
			return err
		}
	}
	return nil
}

// multiplyPoint multiplies all tiles of a section by the weights of one point.
func (r *winogradRun) multiplyPoint(args *jit.Args, section tileSpan, point int) error {
	points, matrixBytes := r.form.Points(), floatBytes*r.pointWeights()
	strips := r.strips(section)
	for block := range r.blockCount {
		args.Row[tile.Vec] = (block*points + point) * matrixBytes
		next := args.Row[tile.Vec] + points*matrixBytes // offset of the weights that are used next
		if block == r.blockCount-1 {
			next = (point + 1) % points * matrixBytes
		}
		for i := range strips.count {
			strip := strips.span(i)
			indexInSection := strip.first - section.first
			args.Row[tile.In] = point*r.pointStride + floatBytes*indexInSection*r.tileStride
			args.Row[tile.Out] = point*r.productStride + block*r.blockStride + floatBytes*indexInSection*r.blockChannels
			args.Row[tile.Prefetched] = next + matrixBytes*i/strips.count
			if err := r.productCodes[strip.count].Call(args); err != nil {
				return err
			}
		}
	}
	return nil
}

// transformBack transforms the products of a run of tiles back to pixels and applies the epilogue. index is the index
// of the first tile in the stored products: in the part or, with pointSchedule, in the section.
func (r *winogradRun) transformBack(mem *graph.Mem, args *winogradArgs, tiles tileRun, index, block int) error {
	conv, channel := r.conv, block*r.blockChannels
	row, col := tiles.tileRow*r.form.M, tiles.tileCol*r.form.M // of the first result in its image
	first := tiles.image*conv.outStride.n + row*conv.outStride.h + col*conv.outStride.w + channel
	to := r.pixelArray(mem.Ptrs[0], first, conv.outStride)
	from := winograd.TileArray{Ptr: unsafe.Add(r.productsAt(mem), block*r.blockStride+floatBytes*index*r.blockChannels),
		Row: r.form.N() * r.productStride, Col: r.productStride, Tile: floatBytes * r.blockChannels}
	var bias unsafe.Pointer
	if conv.hasBias {
		bias = unsafe.Add(conv.biasAt(mem), floatBytes*channel)
	}
	inverse := tiles.code.inverse
	if block == r.blockCount-1 { // the last block may have fewer channels
		inverse = tiles.code.lastInverse
	}
	r.epilogue.SetOffsets(&args.transform, floatBytes*first, floatBytes*channel)
	if err := inverse.Run(&args.transform, to, from, bias, r.channels(block), tiles.count); err != nil {
		return err
	}
	if r.epilogue.strips != nil {
		const channelStride = 1
		for rowInTile := range tiles.code.rows {
			pixels := (tiles.count-1)*r.form.M + tiles.code.cols // only the last tile may be narrower
			r.epilogue.strips.Apply(&args.epilogue, first+rowInTile*conv.outStride.h, pixels, conv.outStride.w,
				r.channels(block), channelStride)
		}
	}
	return nil
}

// tileRun is a sequence of neighbouring tiles of a row that use the same code.
type tileRun struct {
	tileSpan
	image, tileRow, tileCol int       // the image; the row of tiles; the column of the first tile
	code                    *tileCode // the transforms, and the part of the tiles that is inside the image
}

// eachRun visits the tiles of a span, run by run (see tileRun).
func (r *winogradRun) eachRun(span tileSpan, visit func(tileRun) error) error {
	for span.count > 0 {
		batchRow, col := span.first/r.tilesAcross, span.first%r.tilesAcross // rows of all images are numbered together
		image, row := batchRow/r.tilesDown, batchRow%r.tilesDown
		colCase := r.colCases[col]
		count := 1
		for count < span.count && col+count < r.tilesAcross && r.colCases[col+count] == colCase {
			count++
		}
		if err := visit(tileRun{tileSpan: tileSpan{span.first, count}, image: image, tileRow: row, tileCol: col,
			code: &r.tileCodes[r.rowCases[row]][colCase]}); err != nil {
			return err
		}
		span.first += count
		span.count -= count
	}
	return nil
}

// pixelArray describes a row of tiles of an image at address p. The first pixel of the first tile has the given offset,
// in elements.
func (r *winogradRun) pixelArray(p unsafe.Pointer, offset int, strides ncdhw) winograd.TileArray {
	return winograd.TileArray{Ptr: unsafe.Add(p, floatBytes*offset), Row: floatBytes * strides.h,
		Col: floatBytes * strides.w, Tile: floatBytes * r.form.M * strides.w}
}

// pointsAt returns the address of the points of a section.
func (r *winogradRun) pointsAt(mem *graph.Mem) unsafe.Pointer {
	if r.schedule == chunkSchedule { // after the products
		return unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch[kit.AlignUp(r.form.Points()*r.productStride):]))
	}
	return unsafe.Pointer(unsafe.SliceData(mem.Scratch[r.weightBytes:])) // after the weights
}

// productsAt returns the address of the products.
func (r *winogradRun) productsAt(mem *graph.Mem) unsafe.Pointer {
	if r.schedule == pointSchedule { // after the points
		return unsafe.Pointer(unsafe.SliceData(mem.Scratch[r.weightBytes+r.form.Points()*r.pointStride:]))
	}
	return unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
}

// weightsAt returns the address of the transformed weights.
func (r *winogradRun) weightsAt(mem *graph.Mem) unsafe.Pointer {
	if r.isPacked {
		return mem.Ptrs[2]
	}
	return unsafe.Pointer(unsafe.SliceData(mem.Scratch))
}
