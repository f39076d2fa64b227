// Package sequence has the ops that compute step by step: recurrent layers, Fourier transforms, loops and branches.
//
// A [recurrentLayer] describes a recurrent layer of PyTorch or ONNX. First, one matrix product multiplies the inputs of
// all steps by the weights of all gates. Then each worker runs blocks of sequences through the steps ([stepper]). A
// step multiplies the states by weights. Loops over the products then compute the gates and the new states.
package sequence

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package.
func Ops() []*graph.Op {
	return []*graph.Op{
		If, IfSizes, Loop, Scan, Raise,
		FftFft, FftIfft, FftRfft, FftIrfft, FftHfft, FftIhfft, Dft,
		FftFftn, FftFft2, FftIfftn, FftIfft2, FftRfftn, FftRfft2, FftIrfftn, FftIrfft2,
		FftHfftn, FftHfft2, FftIhfftn, FftIhfft2, FftFftshift, FftIfftshift,
		OnnxLSTM, OnnxGRU, OnnxRNN,
		LSTM, GRU, RNNTanh, RNNRelu,
	}
}
