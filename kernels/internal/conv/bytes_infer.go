package conv

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Indices of the operands of conv2d_bytes. The op sums bytesBias and (bytesInput - bytesInputZero) * bytesWeight. Only
// bytesScale and bytesResultZero are optional: with both, the sum is scaled and converted to a byte.
const (
	bytesInput = iota
	bytesWeight
	bytesBias
	bytesScale
	bytesInputZero  // input_zero_point
	bytesResultZero // zero_point
)

type bytesAttrs struct {
	Stride   []int     `attr:"stride" default:"1" doc:"step of the window: [height, width]"`
	Padding  []sym.Int `attr:"padding" default:"0" doc:"zero points around the image: [height, width], or [top, left, bottom, right]"`
	Dilation []int     `attr:"dilation" default:"1" doc:"distance between the elements of the window: [height, width]"`
	Groups   int       `attr:"groups" default:"1" doc:"number of groups into which channels are divided; each group is convolved separately"`
}

// byteConv describes the shapes and windows of conv2d_bytes, which do not depend on scales and zero points.
var byteConv = convolution{name: "conv2d_bytes", dims: 2, params: func(c *graph.Call) convParams {
	a := kit.Attrs[*bytesAttrs](c)
	return newConvParams(c, 2, a.Stride, graph.IntsOrWord{Ints: a.Padding}, a.Dilation, a.Groups)
}}

// bytesResult checks a call of conv2d_bytes and returns the type of its row-major result.
func bytesResult(call *graph.Call) (result tensor.Type, err error) {
	const name = "conv2d_bytes"
	input := call.Type(bytesInput)
	if !kit.IsByte(input.DType) {
		return result, kit.NotImplemented(name, input.DType)
	}
	dtype := tensor.Int32
	if call.HasOperand(bytesScale) != call.HasOperand(bytesResultZero) {
		return result, fmt.Errorf("%s: expected scale and zero_point together", name)
	}
	if call.HasOperand(bytesResultZero) {
		if dtype = call.Type(bytesResultZero).DType; !kit.IsByte(dtype) {
			return result, kit.NotImplemented(name, dtype)
		}
	}
	wantedDTypes := [...]tensor.DType{bytesInput: input.DType, bytesWeight: tensor.Int8, bytesBias: tensor.Int32,
		bytesScale: tensor.Float32, bytesInputZero: input.DType}
	for i, wantedDType := range wantedDTypes {
		if got := call.Type(i).DType; got != wantedDType && (i != bytesScale || call.HasOperand(i)) {
			return result, fmt.Errorf("%s: expected operand %d to be %v, but got %v", name, i, wantedDType, got)
		}
	}
	weight := call.Type(bytesWeight)
	if input.Rank() != 4 {
		return result, fmt.Errorf("%s: expected input to have 4 dimensions, but got %d", name, input.Rank())
	}
	if result, err = byteConv.result(asFloatCall(call, tensor.Float32)); err != nil {
		return result, err
	}
	for i := bytesBias; i <= bytesResultZero; i++ {
		wantedShape := []sym.Int{} // zero points have no dimensions
		if i < bytesInputZero {
			wantedShape = append(wantedShape, weight.Shape[0])
		}
		if t := call.Type(i); call.HasOperand(i) && !tensor.SameSizes(t.Shape, wantedShape) {
			return result, fmt.Errorf("%s: expected operand %d to have shape %s, but got %s", name, i,
				tensor.Sizes(wantedShape), tensor.Sizes(t.Shape))
		}
	}
	return tensor.NewType(dtype, result.Shape...), nil
}

// maxBytesTerms bounds the number of products of a sum, so that the sum cannot overflow int32. See [InBytes].
const maxBytesTerms = 1 << 14

// asFloatCall returns the call of a convolution of floats with the shapes of a call of conv2d_bytes.
func asFloatCall(call *graph.Call, dtype tensor.DType) *graph.Call {
	withoutResults := &graph.Call{}
	return kit.DelegatedCall(withoutResults, call.Attrs, tensor.NewType(dtype, call.Type(bytesInput).Shape...),
		tensor.NewType(dtype, call.Type(bytesWeight).Shape...))
}

// bytesShape returns the convShape of a call of conv2d_bytes, without its bias and its epilogue.
func (op convolution) bytesShape(c *graph.Call) *convShape {
	inputAndWeight := *c
	inputAndWeight.In, inputAndWeight.Epilogue = c.In[:2], nil
	conv := op.shape(&inputAndWeight)
	conv.call = c // the whole call, with all operands
	return conv
}
