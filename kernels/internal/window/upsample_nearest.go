package window

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type upsampleNearestAttrs struct {
	OutputSize   []sym.Int `attr:"output_size" default:"none" doc:"height and width of the result"`
	ScaleFactors []float64 `attr:"scale_factors" default:"none" doc:"factors of height and width; either these or output_size must be given"`
	ScalesH      *float64  `attr:"scales_h" default:"none" doc:"factor that maps rows; default: the quotient of the sizes"`
	ScalesW      *float64  `attr:"scales_w" default:"none" doc:"factor that maps columns; default: the quotient of the sizes"`
	AcceptEmpty  bool      `attr:"accept_empty" default:"false" doc:"accept sizes of 0, as ONNX does, if the result has no elements"`
}

// UpsampleNearest2d is aten::upsample_nearest2d and its overload vec. Pixel (i, j) of the result is pixel (row(i),
// col(j)) of the operand, where nearestIndices returns the functions row and col. For twice the size, this is pixel
// (i/2, j/2). The other upsample ops use a resampling (upsample.go). This op copies whole pixels if channels are
// contiguous.
var UpsampleNearest2d = kit.Define[*upsampleNearestAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "upsample_nearest2d",
		Doc: "Resizes images [N,C,H,W] by taking the nearest pixel. The result has the memory format that the " +
			"strides of `input` suggest.",
		Params:   []graph.Param{kit.Input},
		Infer:    inferUpsampleNearest,
		Ref:      refUpsampleNearest,
		Examples: kit.OneExample(kit.NHWC(1, 2, 3, 4), graph.Attrs{"scale_factors": []float64{2, 1.5}}),
	},
	// Workers divide all dimensions before the last two, height and width.
	Facts: graph.Facts{Parallel: kit.LoopsExceptLast(2), WritesAnyDenseLayout: true, ImageRole: graph.ImageOp},
	Lowerings: graph.Lowerings{
		Impls: []graph.Impl{{Name: "plain", Doc: "Copies pixels with contiguous channels, else element by element.",
			Lower: compileUpsampleNearest, Work: nearestWork, Read: nearestRead}},
	},
})

// inferUpsampleNearest makes PyTorch's checks and infers the result.
func inferUpsampleNearest(call *graph.Call) ([]graph.Result, error) {
	self := call.Type(0)
	attrs := kit.Attrs[*upsampleNearestAttrs](call)
	size, err := upsampledSize(attrs, self.Shape)
	if err != nil {
		return nil, err
	}
	height, width := self.Shape[2], self.Shape[3]
	shape := kit.ReplaceSizes(self.Shape, 2, size...)
	switch {
	case attrs.AcceptEmpty && kit.IsEmpty(tensor.Type{Shape: shape}): // there is nothing to interpolate
	case !kit.SizeAtLeast(height, 1) || !kit.SizeAtLeast(width, 1) ||
		!kit.SizeAtLeast(size[0], 1) || !kit.SizeAtLeast(size[1], 1):
		return nil, fmt.Errorf("Input and output sizes should be greater than 0, but got input (H: %v, W: %v) output "+
			"(H: %v, W: %v)", height, width, size[0], size[1])
	case kit.SizeIs(self.Shape[1], 0):
		return nil, fmt.Errorf("Non-empty 4D data tensor expected but got a tensor with sizes %s", tensor.Sizes(self.Shape))
	}
	if !self.DType.IsFloat() && self.DType != tensor.Uint8 {
		return nil, fmt.Errorf("\"compute_indices_weights_nearest\" not implemented for '%s'", self.DType.TorchName())
	}
	out, err := kit.FreshTypeInFormat(self.DType, shape, self.SuggestMemoryFormat(false))
	return call.NewResult(out), err
}

// upsampledSize returns the height and the width of the result. It makes the checks of
// at::native::upsample::compute_output_size.
func upsampledSize(attrs *upsampleNearestAttrs, shape []sym.Int) ([]sym.Int, error) {
	spatialRank := len(shape) - 2
	size := attrs.OutputSize
	if (attrs.OutputSize != nil) == (attrs.ScaleFactors != nil) {
		return nil, errors.New("Must specify exactly one of output_size and scale_factors")
	}
	if attrs.OutputSize != nil && len(size) != spatialRank {
		return nil, errors.New("Expected static_cast<int64_t>(output_size->size()) == spatial_dimensions to be true, " +
			"but got false.")
	}
	if attrs.OutputSize == nil {
		if len(attrs.ScaleFactors) != spatialRank {
			return nil, errors.New("Expected static_cast<int64_t>(scale_factors->size()) == spatial_dimensions to be true, " +
				"but got false.")
		}
		for i, factor := range attrs.ScaleFactors {
			size = append(size, ScaledSize(shape[2+i], factor))
		}
	}
	if len(size) != 2 {
		return nil, fmt.Errorf("It is expected output_size equals to 2, but got size %d", len(size))
	}
	return size, nil
}

// nearestIndices returns the functions from rows and columns of the result to rows and columns of the operand. shape is
// the shape of the result. A missing factor is 0, and [nearestIndex] then uses the quotient of the sizes.
func nearestIndices(c *graph.Call, shape []int) (row, col func(i int) int) {
	operand, factors := c.Meta(0), []float64{0, 0}
	attrs := kit.Attrs[*upsampleNearestAttrs](c)
	if attrs.ScaleFactors != nil {
		factors = attrs.ScaleFactors
	} else {
		for i, factor := range []*float64{attrs.ScalesH, attrs.ScalesW} {
			if factor != nil {
				factors[i] = *factor
			}
		}
	}
	row = nearestIndex(operand.DType, operand.Shape[2], shape[2], factors[0])
	col = nearestIndex(operand.DType, operand.Shape[3], shape[3], factors[1])
	return row, col
}

// hasContiguousPixels reports whether there are several channels, and the channels of each pixel are contiguous.
func hasContiguousPixels(value tensor.Meta) bool { return value.Strides[1] == 1 && value.Shape[1] > 1 }

// nearestWork returns the work for an operand with the layout of the result, which the walk gives.
func nearestWork(c *graph.Call, walk graph.Walk) pricing.Work {
	work, out := pricing.Work{StartedSteps: 1}, walk.ResultLayout(0, c.Out[0])
	addNearestWork(&work, out, hasContiguousPixels(out))
	return work
}

// addNearestWork adds the work of copying all elements of the result: whole pixels if copiesPixels is set, otherwise
// single elements.
func addNearestWork(work *pricing.Work, out tensor.Meta, copiesPixels bool) {
	if !copiesPixels {
		work.AddUnits(resizeElement, float64(out.Numel()))
		return
	}
	work.Bytes[pricing.Copied] += 2 * float64(out.Bytes())
	work.AddUnits(resizePixel, float64(out.Numel()/out.Shape[1]))
}

// nearestRead returns the additional work for an operand with a given layout. If the result has contiguous pixels and
// the operand does not, elements are copied one by one. Otherwise there is no additional work. ok is true, because the
// kernel supports any layout.
func nearestRead(c *graph.Call, walk graph.Walk, _ int, operand tensor.Meta) (work pricing.Work, ok bool) {
	if out := walk.ResultLayout(0, c.Out[0]); hasContiguousPixels(out) && !hasContiguousPixels(operand) {
		var pixels pricing.Work
		const copiesElements, copiesPixels = false, true
		addNearestWork(&work, out, copiesElements)
		addNearestWork(&pixels, out, copiesPixels)
		work = work.Minus(pixels)
	}
	return work, true
}

// nearestCopy copies the nearest pixels. A unit of work is a piece of a row of the result. It has all channels if whole
// pixels are copied, and otherwise one channel.
type nearestCopy struct {
	shape                  []int // of the result: [N,C,H,W]
	dstStrides, srcStrides []int // in bytes
	elementBytes           int
	rowTable               indexTable         // the operand's row for each row of the result
	columnTable            indexTable         // the byte offset in the operand's row for each column of the result
	pieces                 int                // number of pieces of a row
	copiesPixels           bool               // whether pixels are copied as rows of contiguous channels
	copyPixel              tensor.ConvertFunc // copies the channels of a pixel
}

// compileUpsampleNearest returns a kernel that copies whole pixels if channels are contiguous in operand and result,
// and single elements otherwise.
func compileUpsampleNearest(c *graph.Call) (*graph.Kernel, error) {
	src, dst := c.Meta(0), c.Out[0]
	if dst.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	elementBytes, channels, height, width := dst.DType.Size(), dst.Shape[1], dst.Shape[2], dst.Shape[3]
	row, column := nearestIndices(c, dst.Shape)
	kernel := &graph.Kernel{}
	job := &nearestCopy{shape: dst.Shape, dstStrides: kit.ByteStrides(dst), srcStrides: kit.ByteStrides(src),
		elementBytes: elementBytes, pieces: kit.DivUp(width, maxPieceElements),
		copyPixel: kit.RowConverter(dst.DType, src.DType)}
	job.rowTable = newIndexTable(kernel, height, row)
	job.columnTable = newIndexTable(kernel, width, func(i int) int { return column(i) * job.srcStrides[3] })
	job.copiesPixels = job.dstStrides[1] == elementBytes && job.srcStrides[1] == elementBytes && channels > 1
	units, unitElements := dst.Shape[0]*height*job.pieces, min(width, maxPieceElements)
	if job.copiesPixels {
		unitElements *= channels
	} else {
		units *= channels
	}
	unitsPerChunk := max(1, machine.MoveGrain/unitElements)
	kernel.Phases = append(kernel.Phases, graph.Phase{Chunks: kit.DivUp(units, unitsPerChunk),
		Run: func(mem *graph.Mem, chunk int) error {
			rows, columnOffsets := job.rowTable.indicesOf(mem), job.columnTable.indicesOf(mem)
			for unit := chunk * unitsPerChunk; unit < min(units, (chunk+1)*unitsPerChunk); unit++ {
				job.copyPiece(mem, unit, rows, columnOffsets)
			}
			return nil
		}})
	return kernel, nil
}

// copyPiece copies a piece of a row. Units of work are numbered by image, channel (only if single elements are copied),
// row and piece, with pieces fastest. rows and columnOffsets are the lists of rowTable and columnTable.
func (n *nearestCopy) copyPiece(mem *graph.Mem, unit int, rows, columnOffsets []int) {
	channels, height, width := n.shape[1], n.shape[2], n.shape[3]
	piece, row, plane := unit%n.pieces, unit/n.pieces%height, unit/n.pieces/height
	image, channel := plane, 0 // if pixels are copied, a plane has all channels of an image
	if !n.copiesPixels {
		image, channel = plane/channels, plane%channels
	}
	first := piece * maxPieceElements // the first column
	offsets := columnOffsets[first:min(width, first+maxPieceElements)]
	dstOffset := image*n.dstStrides[0] + channel*n.dstStrides[1] + row*n.dstStrides[2] + first*n.dstStrides[3]
	srcOffset := image*n.srcStrides[0] + channel*n.srcStrides[1] + rows[row]*n.srcStrides[2]
	target, source := unsafe.Add(mem.Ptrs[0], dstOffset), unsafe.Add(mem.Ptrs[1], srcOffset)
	if !n.copiesPixels {
		kit.GatherLoops[n.elementBytes](target, source, n.dstStrides[3], offsets)
		return
	}
	for i, offset := range offsets {
		n.copyPixel(unsafe.Add(target, i*n.dstStrides[3]), unsafe.Add(source, offset), n.elementBytes, n.elementBytes,
			channels)
	}
}

// refUpsampleNearest is the reference implementation.
func refUpsampleNearest(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	inferred, err := inferUpsampleNearest(call)
	if err != nil {
		return nil, err
	}
	shape := kit.KnownSizes(inferred[0].Type.Shape)
	if tensor.Numel(shape) == 0 {
		return []*tensor.Tensor{tensor.Zeros(in[0].DType, shape...)}, nil
	}
	row, col := nearestIndices(call, shape)
	rows, cols := make([]int, shape[2]), make([]int, shape[3])
	for i := range rows {
		rows[i] = row(i)
	}
	for i := range cols {
		cols[i] = col(i)
	}
	// SpanRef copies elements by one table of operand indices per dimension. A nil table keeps the index.
	return []*tensor.Tensor{copies.SpanRef(in[0], [][]int{nil, nil, rows, cols}, shape)}, nil
}
