package window

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// InIntegers returns the attributes with which max_pool2d computes the same windows on integers of dtype d: the padding
// in ONNX's form, with both ends. It returns false if the windows would differ.
func InIntegers(c *graph.Call, d tensor.DType) (graph.Attrs, bool) {
	if c == nil || len(c.Out) != 1 || c.Type(0).Rank() != 4 {
		return nil, false
	}
	a, ok := c.Attrs.(*maxPoolAttrs)
	if !ok {
		return nil, false
	}
	padding := a.Padding
	switch len(padding) {
	case 1:
		padding = slices.Repeat(padding, 4)
	case 2:
		padding = slices.Repeat(padding, 2)
	}
	at := graph.Attrs{"kernel_size": a.KernelSize, "stride": a.Stride, "padding": padding, "dilation": a.Dilation,
		"ceil_mode": a.CeilMode}
	attrs, err := MaxPool2d.Schema.Decode(at, nil)
	if err != nil {
		return nil, false
	}
	t, err := kit.InferredType(MaxPool2d, attrs, tensor.NewType(d, c.Type(0).Shape...))
	return at, err == nil && tensor.SameSizes(t.Shape, c.Out[0].Type().Shape)
}
