package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// transposedConv is a transposed convolution over dims spatial dimensions.
type transposedConv struct {
	name string
	dims int
}

// transposedWindows describes a transposed convolution, which is the gradient of an ordinary convolution with the same
// window. The embedded window describes the ordinary convolution, whose input is the transposed convolution's result.
// Therefore, Size of an axis is the size of the transposed convolution's result, and Results is the size of its input.
type transposedWindows struct {
	window
	images, groups          int // number of images; number of groups
	inChannels, outChannels int // channels that the transposed convolution reads and writes
	hasBias                 bool
}

// inputPixels and resultPixels return the pixels of an image of the transposed convolution, which reads the results of
// the ordinary convolution and writes its input.
func (s *transposedWindows) inputPixels() int  { return s.pixelsOut() }
func (s *transposedWindows) resultPixels() int { return s.pixelsIn() }

// inPerGroup returns the number of input channels per group.
func (s *transposedWindows) inPerGroup() int { return s.inChannels / s.groups }

// weightRows returns the number of rows of a group's transposed weight: one for each output channel and tap.
func (s *transposedWindows) weightRows() int { return s.outChannels / s.groups * s.taps() }

// windows returns the geometry of a call with known sizes.
func (op transposedConv) windows(c *graph.Call) *transposedWindows {
	params := op.params(c, op.dims)
	input, weight, out := c.Meta(0), c.Meta(1), c.Out[0]
	windows := &transposedWindows{images: 1, inChannels: weight.Shape[0], outChannels: weight.Shape[1] * params.groups,
		groups: params.groups, hasBias: c.HasOperand(2)}
	if input.Rank() == op.dims+2 {
		windows.images = input.Shape[0]
	}
	// The ordinary convolution reads out and writes input.
	windows.window = newWindow(newAxes(out.Shape, input.Shape, weight.Shape[2:], params.stride,
		kit.KnownSizes(params.padding), params.dilation))
	return windows
}
