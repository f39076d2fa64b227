package main

import (
	"errors"
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// normAttrs are the attributes of channel_norm.
type normAttrs struct {
	Eps float64 `attr:"epsilon" default:"1e-6" doc:"added to the variance"`
}

// channelNorm defines the layer norm of ConvNeXt: each pixel of an image gets mean 0 and variance 1 over its channels.
// The op has two implementations. "pixels" reads channels-last images, where the channels of a pixel are contiguous.
// "planes" reads row-major images, where the channels of a pixel are a plane apart.
func channelNorm() (*graph.Op, error) {
	pixels, err := tensor.ChannelsLast.Order(4)
	if err != nil {
		return nil, err
	}
	return fusion.Define(graph.Op{
		Semantics: graph.Semantics{
			Name:   "channel_norm",
			Doc:    "Normalizes each pixel of float32 images over its channels.",
			Params: []graph.Param{{Name: "self"}},
			Schema: graph.SchemaOf[normAttrs](),
			Kind:   graph.RequiresLayout,
			Infer: func(call *graph.Call) ([]graph.Result, error) {
				if x := call.Type(0); len(x.Shape) != 4 || x.DType != tensor.Float32 {
					return nil, errors.New("channel_norm takes images of float32")
				}
				return call.NewResult(call.Type(0)), nil
			},
			Ref: func(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				return []*tensor.Tensor{normReference(in[0], call.Attrs.(*normAttrs).Eps)}, nil
			},
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4, 5)}}},
		},
		Facts: graph.Facts{ImageRole: graph.ImageOp},
		Lowerings: graph.Lowerings{
			Impls: []graph.Impl{
				normIn("pixels", "The channels of a pixel are contiguous in memory.", pixels, pricing.Dense),
				normIn("planes", "The elements of a pixel are a plane apart.", tensor.RowMajorOrder(4), pricing.Strided),
			},
		},
	})
}

// normIn returns the implementation for images whose dimensions are stored in the given order. Walks says that it
// writes results in this order only. Read says that an operand in another order must be copied first. Work counts the
// bytes of the memory accesses, which are of the given kind.
func normIn(name, doc string, order tensor.Order, access pricing.Access) graph.Impl {
	return graph.Impl{Name: name, Doc: doc,
		Walks: func(call *graph.Call, _ []tensor.Order) []graph.Walk { return []graph.Walk{call.WalkInOrder(order)} },
		Read: func(_ *graph.Call, _ graph.Walk, _ int, meta tensor.Meta) (work pricing.Work, ok bool) {
			return work, order.Matches(meta)
		},
		Work: func(call *graph.Call, _ graph.Walk) (work pricing.Work) {
			work.Bytes[access] = 4 * float64(call.Out[0].Bytes()) // the operand is read three times, the result written once
			work.AddUnits(graph.GoSimple, 4*float64(call.Out[0].Numel()))
			work.StartedSteps = 1
			return work
		},
		Lower: lowerNorm,
	}
}

// lowerNorm returns the kernel of both implementations. A chunk is an image. Operand and result have the same layout.
func lowerNorm(call *graph.Call) (*graph.Kernel, error) {
	x, eps := call.Out[0], call.Attrs.(*normAttrs).Eps
	images, channels, height, width := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: images, Run: func(m *graph.Mem, image int) error {
		dst := unsafe.Slice((*float32)(m.Ptrs[0]), x.Numel())
		src := unsafe.Slice((*float32)(m.Ptrs[1]), x.Numel())
		for i := range height * width {
			pixel := image*x.Strides[0] + i/width*x.Strides[2] + i%width*x.Strides[3] // index of the pixel's first channel
			normalize(dst[pixel:], src[pixel:], channels, x.Strides[1], eps)
		}
		return nil
	}}}}, nil
}

// normalize normalizes count elements of src and stores the results in dst. The distance between elements is stride, in
// both src and dst.
func normalize(dst, src []float32, count, stride int, eps float64) {
	var mean, variance float64
	for c := range count {
		mean += float64(src[c*stride]) / float64(count)
	}
	for c := range count {
		deviation := float64(src[c*stride]) - mean
		variance += deviation * deviation / float64(count)
	}
	scale := 1 / math.Sqrt(variance+eps)
	for c := range count {
		dst[c*stride] = float32((float64(src[c*stride]) - mean) * scale)
	}
}

// normReference is the reference implementation: tests compare kernels with it. It computes the variance as the mean of
// the squares minus the square of the mean.
func normReference(x *tensor.Tensor, eps float64) *tensor.Tensor {
	y := tensor.Zeros(x.DType, x.Shape...)
	channels, height, width := x.Shape[1], x.Shape[2], x.Shape[3]
	for i := range x.Numel() / max(channels, 1) { // pixels of all images
		image, row, column := i/(height*width), i/width%height, i%width
		var sum, squares float64
		for c := range channels {
			v := x.At(image, c, row, column).Float()
			sum, squares = sum+v, squares+v*v
		}
		mean := sum / float64(channels)
		variance := squares/float64(channels) - mean*mean
		for c := range channels {
			v := (x.At(image, c, row, column).Float() - mean) / math.Sqrt(variance+eps)
			y.Set(tensor.FloatScalar(v), image, c, row, column)
		}
	}
	return y
}
