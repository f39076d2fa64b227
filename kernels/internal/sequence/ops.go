// Package sequence has the ops that go step by step: recurrent layers, Fourier transforms, loops and branches.
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
