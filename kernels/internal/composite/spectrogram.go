package composite

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/fourier"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type stftAttrs struct {
	NFFT          int    `attr:"n_fft" doc:"length of a transform"`
	HopLength     *int   `attr:"hop_length" default:"none" doc:"distance between frames; default: a quarter of n_fft"`
	WinLength     *int   `attr:"win_length" default:"none" doc:"length of the window, which is centered in a frame; default: n_fft"`
	Center        bool   `attr:"center" default:"true" doc:"pad self, so that frame i is centered at element i*hop_length"`
	PadMode       string `attr:"pad_mode" default:"reflect" oneof:"reflect|constant|replicate|circular" doc:"padding of self"`
	Normalized    bool   `attr:"normalized" default:"false" doc:"divide by the root of n_fft"`
	Onesided      *bool  `attr:"onesided" default:"none" doc:"only frequencies up to n_fft/2; default: for real numbers"`
	ReturnComplex *bool  `attr:"return_complex" default:"none" doc:"return complex numbers, not pairs; default: only if an operand is complex"`
}

type istftAttrs struct {
	NFFT          int   `attr:"n_fft" doc:"length of a transform"`
	HopLength     *int  `attr:"hop_length" default:"none" doc:"distance between frames; default: a quarter of n_fft"`
	WinLength     *int  `attr:"win_length" default:"none" doc:"length of the window, which is centered in a frame; default: n_fft"`
	Center        bool  `attr:"center" default:"true" doc:"frame i is centered at element i*hop_length"`
	Normalized    bool  `attr:"normalized" default:"false" doc:"multiply by the root of n_fft"`
	Onesided      *bool `attr:"onesided" default:"none" doc:"self has only frequencies up to n_fft/2; default: if self has not n_fft"`
	Length        *int  `attr:"length" default:"none" doc:"length of the result"`
	ReturnComplex bool  `attr:"return_complex" default:"false" doc:"return complex numbers"`
}

var windowParam = graph.Param{Name: "window", Optional: true}

// Fourier transforms of overlapping frames. The function of an op applies other ops (steps.go) and returns the result.
// If the condition of Reject holds, Reject ends the function with an error.
//
// A frame has n_fft elements of the signal, and the next frame begins hop_length elements later. With n_fft 8 and
// hop_length 2, a signal of 20 elements that is not padded has the 7 frames [0, 8), [2, 10), ..., [12, 20).
var (
	Stft = defineOneResult(graph.Semantics{
		Name: "stft", Doc: "Transforms overlapping frames of signals, each multiplied by the window: [batch, n] gives " +
			"[batch, frequencies, frames].", Params: []graph.Param{kit.Self, windowParam},
		Examples: []graph.Example{kit.Example(graph.Attrs{"n_fft": 8, "return_complex": true}, kit.F32(2, 20)),
			kit.Example(graph.Attrs{"n_fft": 8, "win_length": 5, "center": false, "onesided": false}, kit.F32(20), kit.F32(5))},
	}, stft)
	Istft = defineOneResult(graph.Semantics{
		Name: "istft", Doc: "Adds the inverse transforms of overlapping frames and divides by the sum of the squares of " +
			"their windows: the inverse of stft. If that sum is 0, PyTorch reports an error; here the result is not finite.",
		Params: []graph.Param{kit.Self, windowParam},
		Examples: []graph.Example{kit.Example(graph.Attrs{"n_fft": 8}, tensor.New(tensor.Complex64, 2, 5, 11)),
			kit.Example(graph.Attrs{"n_fft": 8, "length": 25}, kit.F32(5, 11, 2))},
	}, istft)
)

// stft returns [batch, frequencies, frames] for signals [batch, n], and [frequencies, frames] for one signal [n].
func stft(s applier, a *stftAttrs, in []*graph.Arg) *graph.Arg {
	x := in[0]
	xType := x.Type()
	frameLength := a.NFFT
	s.Reject(!xType.DType.IsFloat() && !xType.DType.IsComplex(),
		"stft: expected a tensor of floating point or complex values")
	s.Reject(xType.Rank() != 1 && xType.Rank() != 2, "stft: expected a 1D or 2D tensor")
	s.Reject(frameLength <= 0, "stft: expected n_fft > 0, but got n_fft=%d", frameLength)
	if xType.Rank() == 1 {
		x = s.unsqueeze(x, 0)
	}
	if a.Center {
		x = s.unsqueeze(x, 0) // as in PyTorch, pad gets [1, batch, n]
		x = s.Apply(view.Pad, graph.Attrs{"pad": []int{frameLength / 2, frameLength / 2}, "mode": a.PadMode}, x)
		x = s.selectIndex(x, 0, 0)
	}
	length := s.shape(x)[1]
	s.Reject(length.Lt(sym.Of(frameLength)).Holds(), "stft: expected 0 < n_fft < %v, but got n_fft=%d", length,
		frameLength)
	hop, window := s.hopAndWindow("stft", frameLength, a.HopLength, a.WinLength, in[1])
	x = s.Apply(view.Unfold, graph.Attrs{"dimension": 1, "size": frameLength, "step": hop}, x)
	if window.Kind != graph.Null {
		x = s.mul(x, window)
	}
	isComplex := x.Type().DType.IsComplex() // also if only the window is complex
	isOnesided := !isComplex
	if a.Onesided != nil {
		isOnesided = *a.Onesided
	}
	s.Reject(isComplex && isOnesided, "Cannot have onesided output if window or input is complex")
	transform := fourier.FftFft
	if isOnesided {
		transform = fourier.FftRfft
	}
	out := s.transpose(s.Apply(transform, graph.Attrs{"norm": normOf(a.Normalized)}, x), 1, 2)
	if xType.Rank() == 1 {
		out = s.Apply(view.Squeeze, graph.Attrs{"dim": []int{0}}, out)
	}
	if a.ReturnComplex != nil && *a.ReturnComplex || a.ReturnComplex == nil && isComplex {
		return out
	}
	pairs := s.Apply(view.ViewAsReal, nil, out)
	// pairs is a view, and the result must not be a view. rowMajor copies pairs, and WithLayout restores the strides.
	return s.WithLayout(s.rowMajor(pairs), pairs.Type())
}

// normOf returns the attribute norm of a transform. The norm "ortho" divides by the root of the length.
func normOf(isNormalized bool) string {
	if isNormalized {
		return "ortho"
	}
	return "backward"
}

// istft is the inverse of stft. It adds the inverse transforms of the frames, times the window, and divides by the
// envelope: the sum of the squares of all windows at each element.
func istft(s applier, a *istftAttrs, in []*graph.Arg) *graph.Arg {
	x, frameLength := s.complexSpectrum(in[0]), a.NFFT
	xType := x.Type()
	rank := xType.Rank()
	s.Reject(kit.IsEmpty(xType), "istft: input tensor cannot be empty.")
	// The message counts a dimension for the two parts of a number.
	s.Reject(rank != 2 && rank != 3, "istft: expected a tensor with 3 or 4 dimensions, but got %d", rank+1)
	s.Reject(frameLength <= 0, "istft: expected n_fft > 0, but got n_fft=%d", frameLength)
	if rank == 2 {
		x = s.unsqueeze(x, 0)
	}
	batch, frameCount := s.shape(x)[0], s.shape(x)[2]
	isOnesided := s.isOnesided(a, s.shape(x)[1])
	hop, window := s.hopAndWindow("istft", frameLength, a.HopLength, a.WinLength, in[1])
	if window.Kind == graph.Null {
		window = s.Apply(view.Full, graph.Attrs{"size": []int{frameLength}, "fill_value": 1, "dtype": s.windowDType()})
	}
	s.Reject(!a.ReturnComplex && window.Type().DType.IsComplex(), "Complex windows are incompatible with "+
		"return_complex=False")
	s.Reject(a.ReturnComplex && isOnesided, "Cannot have onesided output if window or input is complex")
	frames := s.inverseFrames(a, s.transpose(x, 1, 2))
	signal := s.overlapAdd(s.mul(frames, window), batch, frameCount, frameLength, hop)
	squares := s.Apply(pointwise.Pow, nil, window, integer(2))
	oneBatch := sym.Of(1)
	squares = s.Apply(view.Expand, graph.Attrs{"size": []sym.Int{oneBatch, frameCount, sym.Of(frameLength)}}, squares)
	envelope := s.overlapAdd(squares, oneBatch, frameCount, frameLength, hop)
	result := s.normalizedSignal(a, signal, envelope)
	if rank == 2 {
		result = s.Apply(view.Squeeze, graph.Attrs{"dim": []int{0}}, result)
	}
	return result
}

// complexSpectrum returns the spectrum x as complex numbers. The last dimension of a real x has the real and the
// imaginary part of each number.
func (s applier) complexSpectrum(x *graph.Arg) *graph.Arg {
	xType := x.Type()
	if xType.DType.IsComplex() {
		return x
	}
	s.Reject(xType.Rank() == 0 || !kit.SizeIs(xType.Shape[xType.Rank()-1], 2),
		"istft: expected the last dimension to be 2 (corresponding to real and imaginary parts)")
	return s.Apply(view.Complex, nil, s.selectIndex(x, -1, 0), s.selectIndex(x, -1, 1))
}

// inverseFrames returns frames [batch, frames, n_fft] for spectra [batch, frames, frequencies].
func (s applier) inverseFrames(a *istftAttrs, spectra *graph.Arg) *graph.Arg {
	attrs := graph.Attrs{"n": a.NFFT, "norm": normOf(a.Normalized)}
	if a.ReturnComplex {
		return s.Apply(fourier.FftIfft, attrs, spectra)
	}
	return s.Apply(fourier.FftIrfft, attrs, s.slice(spectra, 2, 0, a.NFFT/2+1))
}

// normalizedSignal returns signal/envelope, without the padding of centered frames. Elements up to a.Length that no
// frame covers are zeros.
func (s applier) normalizedSignal(a *istftAttrs, signal, envelope *graph.Arg) *graph.Arg {
	length := s.shape(signal)[1]
	start, end := 0, length
	if a.Center {
		start, end = a.NFFT/2, length.Sub(sym.Of(a.NFFT/2))
	}
	if a.Length != nil {
		s.Reject(*a.Length <= 0, "istft: expected length > 0, but got length=%d", *a.Length)
		end = sym.Of(start + *a.Length)
	}
	result := s.div(s.slice(signal, 1, start, end), s.slice(envelope, 1, start, end))
	if missing := end.Sub(length); missing.Gt(sym.Of(0)).Holds() {
		result = s.Apply(view.Pad, graph.Attrs{"pad": []sym.Int{sym.Of(0), missing}, "mode": "constant"}, result)
	}
	return result
}

// isOnesided reports whether the spectrum has only the frequencies from 0 to n_fft/2. It rejects other sizes of the
// frequency dimension.
func (s applier) isOnesided(a *istftAttrs, size sym.Int) bool {
	isOnesided := !kit.SizeIs(size, a.NFFT)
	if a.Onesided != nil {
		isOnesided = *a.Onesided
	}
	frequencies := a.NFFT
	if isOnesided {
		frequencies = a.NFFT/2 + 1
	}
	s.Reject(!kit.SizeIs(size, frequencies), "istft: expected the frequency dimension (3rd to the last) of the input "+
		"tensor to be %d, but got %v", frequencies, size)
	return isOnesided
}

// hopAndWindow checks the attributes of frames. It returns the distance between frames and the window, extended to
// n_fft elements. The window is null if all its elements would be 1.
func (s applier) hopAndWindow(name string, nFFT int, hopLength, winLength *int, window *graph.Arg) (int, *graph.Arg) {
	hop, windowLength := nFFT/4, nFFT
	if hopLength != nil {
		hop = *hopLength
	}
	if winLength != nil {
		windowLength = *winLength
	}
	s.Reject(hop <= 0, "%s: expected hop_length > 0, but got hop_length=%d", name, hop)
	s.Reject(windowLength <= 0 || windowLength > nFFT, "%s: expected 0 < win_length <= n_fft, but got win_length=%d",
		name, windowLength)
	s.Reject(name == "istft" && hop > windowLength, "istft: expected 0 < hop_length <= win_length, but got hop_length=%d",
		hop)
	if window.Kind != graph.Null {
		windowType := window.Type()
		s.Reject(windowType.Rank() != 1 || !kit.SizeIs(windowType.Shape[0], windowLength),
			"%s: expected a 1D window tensor of size equal to "+
				"win_length=%d, but got window with size %s", name, windowLength, tensor.Sizes(windowType.Shape))
	}
	return hop, s.paddedWindow(window, nFFT, windowLength)
}

// paddedWindow extends a window of the given length to frameLength elements by zeros on both sides. A null window
// stands for ones; it stays null if its length is frameLength.
func (s applier) paddedWindow(window *graph.Arg, frameLength, length int) *graph.Arg {
	if length == frameLength {
		return window
	}
	if window.Kind == graph.Null {
		window = s.Apply(view.Full, graph.Attrs{"size": []int{length}, "fill_value": 1, "dtype": s.windowDType()})
	}
	leftPad := (frameLength - length) / 2
	return s.Apply(view.Pad, graph.Attrs{"pad": []int{leftPad, frameLength - length - leftPad}, "mode": "constant"},
		window)
}

// windowDType is the dtype of a window of ones: the real dtype of self.
func (s applier) windowDType() tensor.DType { return s.Call.Type(0).DType.ToReal() }

// overlapAdd returns a signal [batch, (frameCount-1)*hop+frameLength], the sum of frames [batch, frameCount,
// frameLength]. Frame i begins at i*hop.
func (s applier) overlapAdd(frames *graph.Arg, batch, frameCount sym.Int, frameLength, hop int) *graph.Arg {
	length := frameCount.Sub(sym.Of(1)).Mul(sym.Of(hop)).Add(sym.Of(frameLength))
	// positions[i][k] = i*hop + k, for all frames i and elements k
	positions := s.add(s.unsqueeze(s.mul(s.arange(frameCount), integer(int64(hop))), 1), s.arange(sym.Of(frameLength)))
	elements := frameCount.Mul(sym.Of(frameLength))
	positions = s.reshape(positions, sym.Of(1), elements) // before Expand, because no view flattens an expanded tensor
	positions = s.Apply(view.Expand, graph.Attrs{"size": []sym.Int{batch, elements}}, positions)
	zeros := s.Apply(view.NewZeros, graph.Attrs{"size": []sym.Int{batch, length}}, frames)
	return s.Apply(index.ScatterAdd, graph.Attrs{"dim": 1}, zeros, positions, s.reshape(frames, batch, elements))
}

// arange returns the integers from 0 to count-1.
func (s applier) arange(count sym.Int) *graph.Arg {
	return s.Apply(view.Arange, graph.Attrs{"end": count, "dtype": tensor.Int64})
}
