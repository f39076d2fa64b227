package conv

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// packing describes the packed form of the weight. If every run of the plan transforms the weight (transformsInRun), it
// is packed in panels. Otherwise packing transforms it: for an output channel and an input channel, F(m x m, 3 x 3)
// maps the 3x3 window to (m+2)x(m+2) numbers, one for each point. The packed form is then
//
//	[block of output channels][point][input channel][output channel of the block]
//
// This form has no Unpack function, because the transform cannot be inverted exactly.
func (w *winogradConv) packing() graph.Packing {
	if w.transformsInRun {
		return multiply.PackingOf(w.panels())
	}
	return graph.Packing{
		Format: w.pointsFormat(), DType: tensor.Float32, Len: w.transformedWeights(),
		Fill: func(ctx context.Context, dst, src *tensor.Tensor) {
			transform, err := w.form.CompileWeights(w.cpu)
			to := kit.ElementsOf[float32](dst.Pointer(), w.transformedWeights())
			for block := 0; block < w.blockCount && err == nil; block++ {
				interrupt.Check(ctx)
				err = w.packBlock(transform, to, src.Pointer(), src.Strides, block)
			}
			if err != nil {
				panic("conv: " + err.Error())
			}
		},
	}
}

// pointsFormat names the packed form of transformed weights.
func (w *winogradConv) pointsFormat() string {
	return fmt.Sprintf("float32 at the points of F(%dx%d,3x3) by %d", w.form.M, w.form.M, w.blockChannels)
}

// panels returns the panels of the weight, for transformsInRun. Their terms are in the order channel, kh, kw.
func (w *winogradConv) panels() *multiply.Panels {
	return w.conv.weightPanels(tensor.Float32, w.blockChannels, "c,kh,kw", w.conv.channelsFirstTerms)
}

// windowElements is the number of elements of the 3x3 window.
const windowElements = 9

// weightDepth is the number of input channels that are transformed at a time. The transposed weights of these channels
// and one block of output channels stay in the L1 cache.
const weightDepth = 32

// packBlock transforms the weights of a block of output channels for packing. to has the transformed weights of all
// blocks. from is the address of the weight, and strides are its strides in elements. Channels of the last block that
// do not exist are 0.
func (w *winogradConv) packBlock(transform *winograd.Transform, to []float32, from unsafe.Pointer, strides []int,
	block int) error {
	blockWeights := w.form.Points() * w.pointWeights() // pointWeights: of all input channels, for one point of a block
	to = to[block*blockWeights:][:blockWeights]
	first := block * w.blockChannels
	lanes := min(w.blockChannels, w.conv.outChannels-first)
	transposed, args := make([]float32, windowElements*weightDepth*w.blockChannels), new(jit.Args)
	for channel := 0; channel < w.conv.inChannels; channel += weightDepth {
		source := kit.AddressOf[float32](from, first*strides[0]+channel*strides[1])
		if err := w.packChannels(transform, args, to, source, strides, channel, lanes, transposed); err != nil {
			return err
		}
	}
	return nil
}

// packChannels transforms up to weightDepth input channels of a block's weights, from the given input channel on. It
// writes to the block's transformed weights, `to`. from is the address of the weights of the block's first output
// channel for the given input channel. lanes is the number of output channels. transposed is temporary memory, whose
// missing output channels are 0.
func (w *winogradConv) packChannels(transform *winograd.Transform, args *jit.Args, to []float32, from unsafe.Pointer,
	strides []int, channel, lanes int, transposed []float32) error {
	const size = floatBytes
	row := w.blockChannels * size // the output channels of a block
	// Transpose the weights to [input channel][row of the window][column][output channel].
	depth := min(weightDepth, w.conv.inChannels-channel)
	// A TileArray has an address, and strides in bytes. A tile has the weights, or the points, of one input channel.
	windows := winograd.TileArray{Ptr: unsafe.Pointer(unsafe.SliceData(transposed)), Row: 3 * row, Col: row,
		Tile: windowElements * row}
	strided.MoverOf(size).Run(windows.Ptr, from, []strided.Axis{
		{N: lanes, Dst: size, Src: strides[0] * size},         // output channels
		{N: depth, Dst: windows.Tile, Src: strides[1] * size}, // input channels
		{N: 3, Dst: windows.Row, Src: strides[2] * size},      // rows of the window
		{N: 3, Dst: windows.Col, Src: strides[3] * size}})     // columns of the window
	points := winograd.TileArray{Ptr: unsafe.Pointer(&to[channel*w.blockChannels]),
		Row: w.form.N() * w.pointWeights() * size, Col: w.pointWeights() * size, Tile: row}
	var noBias unsafe.Pointer
	return transform.Run(args, points, windows, noBias, w.blockChannels, depth)
}

// packedPoints reports whether the weight is packed as transformed weights. It fails if the weight is packed for
// another kernel.
func (w *winogradConv) packedPoints() (bool, error) {
	packed := w.conv.call.Packed(1)
	if packed == nil {
		return false, nil
	}
	if wantedFormat := w.pointsFormat(); packed.Format != wantedFormat {
		return false, fmt.Errorf("operand 1 is packed as %s, but %s is required", packed.Format, wantedFormat)
	}
	return true, nil
}
