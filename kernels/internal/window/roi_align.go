package window

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type roiAlignAttrs struct {
	SpatialScale  float64 `attr:"spatial_scale" default:"1" doc:"factor from the rois' coordinates to the input's"`
	PooledHeight  sym.Int `attr:"pooled_height" doc:"rows of the result"`
	PooledWidth   sym.Int `attr:"pooled_width" doc:"columns of the result"`
	SamplingRatio int     `attr:"sampling_ratio" default:"0" doc:"samples of a bin along each dimension; 0 or less: one per pixel, rounded up"`
	Aligned       bool    `attr:"aligned" default:"false" doc:"shift rois by half a pixel, without a minimum size of one pixel"`
	Mode          string  `attr:"mode" default:"avg" oneof:"avg|max" doc:"reduction of the samples of a bin"`
}

// RoiAlign is torchvision's roi_align, with the max mode of ONNX. A roi (region of interest) is a rectangle of an
// image. It is divided into bins, one for each pixel of the result. A bin has samples at equal distances. A sample is a
// weighted sum of four pixels. The result is the mean of the samples or, in mode max, the greatest of the weighted
// pixels of all samples. For example, a roi of 8x6 pixels with pooled_height 2 and pooled_width 3 has bins of 4x2
// pixels. By default, each bin then has 4x2 samples, one per pixel.
var RoiAlign = kit.Define[*roiAlignAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "roi_align",
		Doc: "Pools regions of images [N,C,H,W] to a fixed size by bilinear sampling. `rois` is [K,5]: the index " +
			"of the image, then x1, y1, x2, y2. The result is " +
			"[K,C,`pooled_height`,`pooled_width`].",
		Params: []graph.Param{kit.Input, {Name: "rois"}},
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			attrs, inputType, roisType := kit.Attrs[*roiAlignAttrs](call), call.Type(0), call.Type(1)
			switch {
			case inputType.Rank() != 4 || roisType.Rank() != 2 || !kit.SizeIs(roisType.Shape[1], 5):
				return nil, errors.New("rois must have shape as Tensor[K, 5]")
			case inputType.DType != roisType.DType:
				return nil, errors.New("roi_align_forward_kernel: expected input and rois to have the same dtype")
			case !inputType.DType.IsFloat():
				return nil, kit.NotImplementedBy("ROIAlign_forward", inputType.DType)
			case !kit.SizeAtLeast(attrs.PooledHeight, 1) || !kit.SizeAtLeast(attrs.PooledWidth, 1):
				return nil, errors.New("roi_align: pooled_height and pooled_width must be positive")
			case attrs.SamplingRatio > maxRoiSamples:
				return nil, fmt.Errorf("roi_align: sampling_ratio must be at most %d, but got %d", maxRoiSamples,
					attrs.SamplingRatio)
			}
			out, err := kit.FreshType(inputType.DType, []sym.Int{roisType.Shape[0], inputType.Shape[1], attrs.PooledHeight,
				attrs.PooledWidth})
			return call.NewResult(out), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			attrs, input, rois := kit.Attrs[*roiAlignAttrs](c), in[0], in[1]
			out := tensor.Zeros(input.DType, rois.Shape[0], input.Shape[1], kit.KnownSize(attrs.PooledHeight),
				kit.KnownSize(attrs.PooledWidth))
			var imageErr error
			kit.EachIndex(out.Shape, func(index []int) {
				var roi [5]float64
				for i := range roi {
					roi[i] = rois.At(index[0], i).Float()
				}
				if err := checkRoiImage(roi[0], input.Shape[0]); err != nil {
					imageErr = err
					return
				}
				plane := roiPlane{input.Shape[2], input.Shape[3], func(row, col int) float64 {
					return input.At(int(roi[0]), index[1], row, col).Float()
				}}
				value := attrs.binResult(nil, attrs.bin(&roi, index[2], index[3]), &plane)
				out.Set(tensor.FloatScalar(value), index...)
			})
			return []*tensor.Tensor{out}, imageErr
		},
		Examples: []graph.Example{{In: []tensor.Meta{kit.NHWC(2, 3, 6, 5), kit.F32(2, 5)},
			Attrs: graph.Attrs{"pooled_height": 2, "pooled_width": 3, "aligned": true}}},
	},
	// The parallel loop is over the rois, operand 1. The input has rank 4.
	Facts:     graph.Facts{Parallel: kit.BatchLoopForRank(4, 1), WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{Compile: compileRoiAlign},
})

// checkRoiImage returns an error if index, the image index of a roi, is not in the batch of images.
func checkRoiImage(index float64, images int) error {
	if !(index >= 0 && index < float64(images)) {
		return fmt.Errorf("roi_align: image index %v is out of bounds for dimension 0 with size %d", index, images)
	}
	return nil
}

// maxRoiSamples is the maximum number of samples of a bin along a dimension. It bounds the time of a bin if the number
// of samples depends on data.
const maxRoiSamples = 4096

// roiSampleMoves is the approximate cost of a sample, in copied elements.
const roiSampleMoves = 16

// roiPlane is one channel of an image.
type roiPlane struct {
	height, width int
	pixel         func(row, col int) float64 // returns a pixel
}

// roiBin is the first corner and the size of a bin, in pixels of the image.
type roiBin struct{ y, x, height, width float64 }

// bin returns the bin at (binRow, binCol) of a roi. roi is a row of the operand rois: the index of the image, then x1,
// y1, x2, y2. The conversions float64(...) of products prevent fused multiply-adds.
func (attrs *roiAlignAttrs) bin(roi *[5]float64, binRow, binCol int) roiBin {
	shift := 0.0
	if attrs.Aligned {
		shift = 0.5
	}
	x0, y0 := float64(roi[1]*attrs.SpatialScale)-shift, float64(roi[2]*attrs.SpatialScale)-shift
	roiWidth, roiHeight := float64(roi[3]*attrs.SpatialScale)-shift-x0, float64(roi[4]*attrs.SpatialScale)-shift-y0
	if !attrs.Aligned {
		roiWidth, roiHeight = max(roiWidth, 1), max(roiHeight, 1)
	}
	binHeight := roiHeight / float64(kit.KnownSize(attrs.PooledHeight))
	binWidth := roiWidth / float64(kit.KnownSize(attrs.PooledWidth))
	return roiBin{y: y0 + float64(float64(binRow)*binHeight), x: x0 + float64(float64(binCol)*binWidth),
		height: binHeight, width: binWidth}
}

// binResult returns the result of a bin for one channel. If mem is nil, the context is not checked.
func (attrs *roiAlignAttrs) binResult(mem *graph.Mem, bin roiBin, plane *roiPlane) float64 {
	rowSamples, colSamples := attrs.samplesAlong(bin.height), attrs.samplesAlong(bin.width)
	sum, maximum := 0.0, math.Inf(-1)
	for i := range rowSamples {
		y := bin.y + (float64(i)+0.5)*bin.height/float64(rowSamples)
		isRowInside := y >= -1 && y <= float64(plane.height)
		if !isRowInside && colSamples > 0 { // all samples of the row are 0 and do not change the sum
			maximum = max(maximum, 0)
			continue
		}
		for j := range colSamples {
			x := bin.x + (float64(j)+0.5)*bin.width/float64(colSamples)
			mem.CheckContextAfter(roiSampleMoves)
			value, maxPixel := plane.sample(y, x)
			sum, maximum = sum+value, max(maximum, maxPixel)
		}
	}
	if attrs.Mode == "max" {
		if rowSamples*colSamples == 0 {
			return 0
		}
		return maximum
	}
	return sum / float64(max(1, rowSamples*colSamples))
}

// samplesAlong returns the number of samples of a bin along a dimension. binSize is the size of the bin along this
// dimension, in pixels.
func (attrs *roiAlignAttrs) samplesAlong(binSize float64) int {
	if attrs.SamplingRatio > 0 {
		return attrs.SamplingRatio
	}
	if !(binSize > 0) { // also if it is NaN
		return 0
	}
	return int(min(math.Ceil(binSize), maxRoiSamples))
}

// sample interpolates the plane at (y, x). Samples more than a pixel outside the plane are 0. sum is the interpolated
// value. maximum is the maximum of the four weighted pixels, which ONNX's mode max uses.
func (p *roiPlane) sample(y, x float64) (sum, maximum float64) {
	height, width, pixel := p.height, p.width, p.pixel
	if height == 0 || width == 0 || !(y >= -1 && y <= float64(height) && x >= -1 && x <= float64(width)) {
		return 0, 0
	}
	y, x = max(y, 0), max(x, 0)
	y0, x0 := int(y), int(x) // the first of the two rows and of the two columns
	y1, x1 := y0+1, x0+1     // the second
	if y0 >= height-1 {      // both are the last row
		y0, y1, y = height-1, height-1, float64(height-1)
	}
	if x0 >= width-1 { // both are the last column
		x0, x1, x = width-1, width-1, float64(width-1)
	}
	fractionY, fractionX := y-float64(y0), x-float64(x0)
	topLeft := float64((1 - fractionY) * (1 - fractionX) * pixel(y0, x0))
	topRight := float64((1 - fractionY) * fractionX * pixel(y0, x1))
	bottomLeft := float64(fractionY * (1 - fractionX) * pixel(y1, x0))
	bottomRight := float64(fractionY * fractionX * pixel(y1, x1))
	return topLeft + topRight + bottomLeft + bottomRight, max(topLeft, topRight, bottomLeft, bottomRight)
}

// compileRoiAlign returns a kernel whose unit of work is one bin in one channel. The flat index of a unit is the
// row-major index of its result in [K,C,pooled_height,pooled_width].
func compileRoiAlign(c *graph.Call) (*graph.Kernel, error) {
	attrs, input, rois, out := kit.Attrs[*roiAlignAttrs](c), c.Meta(0), c.Meta(1), c.Out[0]
	if out.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	inStrides, roiStrides, outStrides := kit.ByteStrides(input), kit.ByteStrides(rois), kit.ByteStrides(out)
	toFloat64, fromFloat64 := tensor.Converter(tensor.Float64, input.DType),
		tensor.Converter(input.DType, tensor.Float64)
	height, width := out.Shape[2], out.Shape[3]
	// computeBin computes a unit. The kernel's buffers are the result (Ptrs[0]), the input and the rois.
	computeBin := func(mem *graph.Mem, roi *[5]float64, roiIndex, flatIndex int) {
		binCol, binRow := flatIndex%width, flatIndex/width%height
		channel := flatIndex / width / height % out.Shape[1]
		firstPixel := unsafe.Add(mem.Ptrs[1], int(roi[0])*inStrides[0]+channel*inStrides[1])
		plane := roiPlane{input.Shape[2], input.Shape[3], func(row, col int) float64 {
			address := unsafe.Add(firstPixel, row*inStrides[2]+col*inStrides[3])
			if input.DType == tensor.Float32 {
				return float64(*(*float32)(address))
			}
			var pixel float64
			toFloat64(unsafe.Pointer(&pixel), address, 0, 0, 1) // one element, so strides are unused
			return pixel
		}}
		result := attrs.binResult(mem, attrs.bin(roi, binRow, binCol), &plane)
		offset := roiIndex*outStrides[0] + channel*outStrides[1] + binRow*outStrides[2] + binCol*outStrides[3]
		fromFloat64(unsafe.Add(mem.Ptrs[0], offset), unsafe.Pointer(&result), 0, 0, 1) // one element
	}
	cost := roiSampleMoves * attrs.typicalSamples(input, out)
	phase := copies.ChunkedPhase(out.Numel(), cost, func(mem *graph.Mem, begin, end int) error {
		var roi [5]float64
		bins := out.Numel() / out.Shape[0] // bins of a roi, over all channels
		for flatIndex := begin; flatIndex < end; {
			roiIndex := flatIndex / bins
			const step = 8 // bytes between the numbers in roi
			from := unsafe.Add(mem.Ptrs[2], roiIndex*roiStrides[0])
			toFloat64(unsafe.Pointer(&roi), from, step, roiStrides[1], len(roi))
			if err := checkRoiImage(roi[0], input.Shape[0]); err != nil {
				return err
			}
			for ; flatIndex < min(end, (roiIndex+1)*bins); flatIndex++ {
				computeBin(mem, &roi, roiIndex, flatIndex)
			}
		}
		return nil
	})
	return &graph.Kernel{Phases: []graph.Phase{phase}}, nil
}

// typicalSamples estimates the number of samples of a bin. If the number depends on data, the estimate is for rois with
// half the height and half the width of the image.
func (attrs *roiAlignAttrs) typicalSamples(input, out tensor.Meta) int {
	if attrs.SamplingRatio > 0 {
		return attrs.SamplingRatio * attrs.SamplingRatio
	}
	samples := 1
	for dim := 2; dim < 4; dim++ {
		samples *= min(kit.DivUp(input.Shape[dim], 2*out.Shape[dim]), maxRoiSamples)
	}
	return max(1, samples)
}
