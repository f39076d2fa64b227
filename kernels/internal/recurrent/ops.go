// Package recurrent has the recurrent layers of PyTorch and ONNX.
//
// A [recurrentLayer] describes a layer. First, one matrix product multiplies the inputs of all steps by the weights of
// all gates. Then each worker runs blocks of sequences through the steps ([stepper]). A step multiplies the states by
// weights. Loops over the products then compute the gates and the new states.
package recurrent

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package.
func Ops() []*graph.Op {
	return []*graph.Op{OnnxLSTM, OnnxGRU, OnnxRNN, LSTM, GRU, RNNTanh, RNNRelu}
}
