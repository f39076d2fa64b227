// Package sequence has the ops that compute step by step: recurrent layers, Fourier transforms, loops and branches.
//
// A recurrent layer of PyTorch or ONNX is a [recurrent]: one product computes the inputs of all steps and gates, and
// then each worker runs a block of sequences through the steps, with a product with the state and expressions for the
// gates in each step ([stepper]).
package sequence

import "github.com/graphrun/graphrun/graph"

// Ops returns the family's ops, file by file.
func Ops() []*graph.Op {
	return []*graph.Op{
		If, IfSizes, Loop, Scan, Raise,
		FftFft, FftIfft, FftRfft, FftIrfft, Dft,
		OnnxLSTM, OnnxGRU, OnnxRNN,
		LSTM, GRU, RNNTanh, RNNRelu,
	}
}
