package conv

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// packing describes the packed form of the weight. The transform of F(m x m, 3 x 3) maps the 3x3 window of an output
// channel and an input channel to (m+2)x(m+2) numbers, one for each point. The packed form is
//
//	[block of output channels][point][input channel][output channel of the block]
//
// There is no Unpack function, because the transform cannot be inverted exactly.
func (w *winogradConv) packing() graph.Packing {
	return graph.Packing{
		Format: fmt.Sprintf("float32 at the points of F(%dx%d,3x3) by %d", w.form.M, w.form.M, w.blockChannels),
		DType:  tensor.Float32, Len: w.transformedWeights(),
		Fill: func(ctx context.Context, dst, src *tensor.Tensor) {
			to := kit.ElementsOf[float32](dst.Pointer(), w.transformedWeights())
			for block := range w.blockCount {
				interrupt.Check(ctx)
				w.packBlock(to, src.Pointer(), src.Strides, block)
			}
		},
	}
}

// weightDepth is the number of input channels that are transformed at a time. The transposed weights of these channels
// and one block of output channels stay in the L1 cache.
const weightDepth = 32

// packBlock transforms the weights of a block of output channels. to has the transformed weights of all blocks. from is
// the address of the weight, and strides are its strides in elements. Channels of the last block that do not exist are
// 0.
func (w *winogradConv) packBlock(to []float32, from unsafe.Pointer, strides []int, block int) {
	blockWeights := w.form.Points() * w.pointWeights()
	to = to[block*blockWeights:][:blockWeights]
	first := block * w.blockChannels
	lanes := min(w.blockChannels, w.conv.outChannels-first)
	if lanes < w.blockChannels {
		clear(to)
	}
	transposed := make([]float32, windowElements*weightDepth*w.blockChannels)
	for channel := 0; channel < w.conv.inChannels; channel += weightDepth {
		w.packChannels(to, kit.AddressOf[float32](from, first*strides[0]+channel*strides[1]), strides, channel, lanes,
			transposed)
	}
}

// packChannels transforms the weights of a block, to, for up to weightDepth input channels, from the given input
// channel on. from is the address of the weights of the block's first output channel and of this input channel. lanes
// is the number of output channels. transposed is temporary memory.
func (w *winogradConv) packChannels(to []float32, from unsafe.Pointer, strides []int, channel, lanes int,
	transposed []float32) {
	const size = floatBytes
	// Transpose the weights to [input channel][row of the window][column][output channel].
	depth := min(weightDepth, w.conv.inChannels-channel)
	strided.MoverOf(size).Run(unsafe.Pointer(unsafe.SliceData(transposed)), from, []strided.Axis{
		{N: lanes, Dst: size, Src: strides[0] * size},
		{N: depth, Dst: windowElements * w.blockChannels * size, Src: strides[1] * size},
		{N: 3, Dst: 3 * w.blockChannels * size, Src: strides[2] * size},
		{N: 3, Dst: w.blockChannels * size, Src: strides[3] * size}})
	var state loops.State
	var ptrs [expr.MaxOperands]unsafe.Pointer
	var rowStrides [expr.MaxOperands]int
	for _, loop := range weightLoopsBySize[w.form.M]() {
		operands := 0 // first the results, then the elements of the window
		for point := range loop.points {
			offset := (loop.first+point)*w.pointWeights() + channel*w.blockChannels
			ptrs[operands], rowStrides[operands] = unsafe.Pointer(&to[offset]), w.blockChannels*size
			operands++
		}
		for k := range windowElements {
			ptrs[operands] = unsafe.Pointer(&transposed[k*w.blockChannels])
			rowStrides[operands] = windowElements * w.blockChannels * size
			operands++
		}
		loop.Run(&state, ptrs[:operands], rowStrides[:operands], lanes, depth)
	}
}

// weightLoop is a compiled loop that computes the transformed weights of some consecutive points.
type weightLoop struct {
	*loops.Loop
	first, points int // index of the first point; number of points
}

// weightLoopsBySize holds the loops by m, compiled on first use.
var weightLoopsBySize = map[int]func() []weightLoop{2: loopsOnce(2), 4: loopsOnce(4)}

// loopsOnce returns a function that compiles the loops of F(m x m, 3 x 3) in its first call.
func loopsOnce(m int) func() []weightLoop {
	return sync.OnceValue(func() []weightLoop {
		list, err := weightLoops(winograd.Form{M: m})
		if err != nil {
			panic("conv: " + err.Error())
		}
		return list
	})
}

// windowElements is the number of elements of the 3x3 window.
const windowElements = 9

// weightLoops returns the loops that transform weights. They compute in float64 and round once. The nine operands of a
// loop are the elements of the 3x3 window, row by row. There are several loops because a loop has few outputs.
func weightLoops(form winograd.Form) ([]weightLoop, error) {
	const rows = 2 // rows of points per loop: at most 12 outputs and 9 operands
	var list []weightLoop
	for row := 0; row < form.N(); row += rows {
		builder := expr.NewBuilder(slices.Repeat([]tensor.DType{tensor.Float32}, windowElements)...)
		var window [windowElements]expr.Value
		for k := range window {
			window[k] = builder.Convert(tensor.Float64, builder.Load(k))
		}
		arithmetic := winograd.Arithmetic[expr.Value]{
			Add: func(x, y expr.Value) expr.Value { return builder.Emit(expr.Add, x, y) },
			Sub: func(x, y expr.Value) expr.Value { return builder.Emit(expr.Sub, x, y) },
			Mul: func(k float64, x expr.Value) expr.Value {
				return builder.Emit(expr.Mul, builder.Const(tensor.Float64, k), x)
			},
			Neg: func(x expr.Value) expr.Value { return builder.Emit(expr.Neg, x) },
		}
		var out []expr.Output
		for _, weight := range winograd.Weights(form, arithmetic, window, row, row+rows) {
			out = append(out, builder.Real(builder.Convert(tensor.Float32, weight)))
		}
		code, err := builder.Build(out...)
		if err != nil {
			return nil, err
		}
		loop, err := loops.New(&expr.Loop{Code: code, Uniform: make([]bool, windowElements)}, loops.Options{})
		if err != nil {
			return nil, err
		}
		list = append(list, weightLoop{loop, row * form.N(), len(out)})
	}
	return list, nil
}

// weightIsPacked reports whether the weight is packed. It fails if the weight is packed for another kernel.
func (w *winogradConv) weightIsPacked() (bool, error) {
	packed := w.conv.call.Packed(1)
	if packed == nil {
		return false, nil
	}
	if wantedFormat := w.packing().Format; packed.Format != wantedFormat {
		return false, fmt.Errorf("operand 1 is packed as %s, but %s is required", packed.Format, wantedFormat)
	}
	return true, nil
}
