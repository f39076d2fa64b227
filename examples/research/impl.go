package main

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file extends two ops of graphrun: avg_pool2d by an implementation, and conv2d by a price.

// tiledPool returns avg_pool2d with the implementation "tiles", for windows that divide a row-major image of float32
// into tiles, as those of the network's first node do.
func tiledPool() (*graph.Op, error) {
	rowMajor := tensor.RowMajorOrder(4)
	return graph.Extend(kernels.Lookup("avg_pool2d"), graph.Impl{
		Name: "tiles", Doc: "Adds the rows of tiles; row-major images.",
		Walks: func(call *graph.Call, _ []tensor.Order) []graph.Walk {
			if !isTiling(call) {
				return nil // the implementation does not support the call
			}
			return []graph.Walk{call.WalkInOrder(rowMajor)}
		},
		Read: func(_ *graph.Call, _ graph.Walk, _ int, meta tensor.Meta) (work pricing.Work, ok bool) {
			return work, rowMajor.Matches(meta)
		},
		Work: func(call *graph.Call, _ graph.Walk) (work pricing.Work) {
			work.StartedSteps = 1
			call.AddStreamed(&work)
			work.AddUnits(graph.GoSimple, float64(call.Meta(0).Numel()))
			return work
		},
		Lower: lowerTiles,
	})
}

// isTiling reports whether the windows of a pooling are the tiles of an image of float32.
func isTiling(call *graph.Call) bool {
	image, result := call.Meta(0), call.Out[0]
	size, _ := call.Attr("kernel_size").([]int)
	stride, _ := call.Attr("stride").([]int)
	dilation, _ := call.Attr("dilation").([]int)
	divisor, _ := call.Attr("divisor_override").(*int)
	if image.Rank() != 4 || image.DType != tensor.Float32 || len(size) == 0 || divisor != nil {
		return false
	}
	height, width := size[0], size[len(size)-1]
	isSpread := func(n int) bool { return n != 1 }
	return (len(stride) == 0 || slices.Equal(stride, size)) && !slices.ContainsFunc(dilation, isSpread) &&
		result.Shape[2]*height == image.Shape[2] && result.Shape[3]*width == image.Shape[3]
}

// lowerTiles returns the kernel of "tiles". A chunk is a plane: a channel of an image.
func lowerTiles(call *graph.Call) (*graph.Kernel, error) {
	image, result := call.Meta(0), call.Out[0]
	if !isTiling(call) {
		return nil, errors.New("the windows are no tiles")
	}
	width, rows, columns := image.Shape[3], result.Shape[2], result.Shape[3]
	tileHeight, tileWidth := image.Shape[2]/rows, width/columns
	scale := 1 / float32(tileHeight*tileWidth)
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: image.Shape[0] * image.Shape[1],
		Run: func(m *graph.Mem, plane int) error {
			src := unsafe.Slice((*float32)(m.Ptrs[1]), image.Numel())[plane*image.Shape[2]*width:]
			dst := unsafe.Slice((*float32)(m.Ptrs[0]), result.Numel())[plane*rows*columns:]
			for i := range rows * columns {
				sum := float32(0)
				for y := range tileHeight {
					begin := (i/columns*tileHeight+y)*width + i%columns*tileWidth
					for _, v := range src[begin : begin+tileWidth] {
						sum += v
					}
				}
				dst[i] = sum * scale
			}
			return nil
		}}}}, nil
}

// slowWindows returns conv2d with another price of its implementation "depthwise_nhwc": on a machine with few
// registers, the memory accesses of a large window are not contiguous.
func slowWindows() (*graph.Op, error) {
	conv := kernels.Lookup("conv2d")
	shipped, err := conv.Impl("depthwise_nhwc")
	if err != nil {
		return nil, err
	}
	return graph.Extend(conv, graph.Impl{Name: shipped.Name, Work: func(call *graph.Call, walk graph.Walk) pricing.Work {
		work := shipped.Work(call, walk)
		if call.Meta(1).Shape[2] > 5 { // the height of the window
			work.Bytes[pricing.Strided] += work.Bytes[pricing.Dense]
		}
		return work
	}})
}
