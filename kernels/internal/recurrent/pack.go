package recurrent

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// This file decides the packed forms of the weights of recurrent layers. A layer has weights for its inputs and weights
// for its states. One product multiplies the inputs of all steps at once. In each step, one or two products multiply
// the states of a block of sequences. For example, an LSTM has four gates. With inputs of 4 elements and states of 5,
// its weights are [20, 4] and [20, 5]. A packed form consists of panels (multiply.Panels): groups of rows of the
// weights, in the order in which products read them.

// recurrentImpls returns the only implementation of a recurrent layer.
func recurrentImpls(lower func(*graph.Call) (*graph.Kernel, error),
	pack func(*graph.Call, int) (graph.Packing, bool)) []graph.Impl {
	return []graph.Impl{{Name: "steps",
		Doc:  "Multiplies all inputs at once, and then runs blocks of sequences through the steps.",
		Pack: pack,
		Lower: func(c *graph.Call) (*graph.Kernel, error) {
			if err := checkPackedForms(c, pack); err != nil {
				return nil, err
			}
			return lower(c)
		}}}
}

// checkPackedForms returns an error if the packed form of an operand differs from the form that pack requests.
func checkPackedForms(c *graph.Call, pack func(*graph.Call, int) (graph.Packing, bool)) error {
	for operand := range c.In {
		if packed := c.Packed(operand); packed != nil {
			if required, ok := pack(c, operand); !ok || required.Format != packed.Format {
				return fmt.Errorf("operand %d is packed as %s, which is not the requested form", operand, packed.Format)
			}
		}
	}
	return nil
}

// pack is [graph.Impl.Pack] of ONNX's ops. An operand has the weights of all directions.
func (cell onnxCell) pack(c *graph.Call, operand int) (graph.Packing, bool) {
	if operand != onnxW && operand != onnxR {
		return graph.Packing{}, false
	}
	dtype, layer := c.Meta(0).DType.OpMath(), cell.layerOf(c)
	meta := copies.InDType(c, dtype).Meta(operand) // the weights after their conversion to dtype
	return layer.packing(dtype, operand == onnxR, layer.dirs, meta.Strides[0], meta.Strides[1], meta.Strides[2])
}

// weightRows is a range of rows of the recurrent weights.
type weightRows struct{ first, count int }

// productRows returns, for each product of a step, the rows of the recurrent weights that the product reads. A step has
// one product. Only a GRU whose reset gate applies before the product has a second product, for the candidate. The
// candidate is the last of the three gates in ONNX and in PyTorch.
func (layer *recurrentLayer) productRows() []weightRows {
	if layer.kind == cellGRU && !layer.resetAfter {
		return []weightRows{{0, 2 * layer.hidden}, {2 * layer.hidden, layer.hidden}}
	}
	return []weightRows{{0, layer.kind.gates() * layer.hidden}}
}

// packing returns the packed form of the weights that multiply the inputs or, if multipliesState is set, the states. It
// returns false if products do not read packed weights (see packs). dirs is the number of directions. dirStride,
// rowStride and colStride are the strides of the weights between directions, rows and columns, in elements.
func (layer *recurrentLayer) packing(dtype tensor.DType, multipliesState bool, dirs, dirStride, rowStride,
	colStride int) (graph.Packing, bool) {
	if !layer.packs(dtype, multipliesState) {
		return graph.Packing{}, false
	}
	width := gemm.PanelCols(dtype)
	var list []*multiply.Panels
	for dir := range dirs {
		if !multipliesState {
			list = append(list, multiply.MatrixPanels(dtype, width, layer.kind.gates()*layer.hidden, rowStride, layer.inputSize,
				colStride, []int{dir * dirStride}))
			continue
		}
		for _, rows := range layer.productRows() {
			list = append(list, multiply.MatrixPanels(dtype, width, rows.count, rowStride, layer.hidden, colStride,
				[]int{dir*dirStride + rows.first*rowStride}))
		}
	}
	return multiply.PackingOf(list...), true
}

// packs reports whether products read the weights in packed form. Its parameters are explained at packing.
func (layer *recurrentLayer) packs(dtype tensor.DType, multipliesState bool) bool {
	if dtype != tensor.Float32 && dtype != tensor.Float64 { // addByDefinition computes the layer
		return false
	}
	if layer.hidden == 0 {
		return false
	}
	if multipliesState {
		return layer.packsStepWeights(dtype)
	}
	inputs := layer.steps * layer.batch  // number of rows that are multiplied at once
	isThin := inputs <= multiply.MaxThin // a thin product reads unpacked weights
	return !isThin && layer.inputSize > 0
}

// packsStepWeights reports whether the products of steps are faster with packed weights. With machine code, they always
// are. Without machine code, products with packed weights compute whole panels of rows (gemm.PadsRows), so they are
// faster only for blocks of more than MaxThin sequences.
func (layer *recurrentLayer) packsStepWeights(dtype tensor.DType) bool {
	return layer.blockSize() > multiply.MaxThin || !gemm.PadsRows(dtype)
}

// blockSize returns the number of sequences of a block, which a worker runs together through all steps. A large batch
// is divided into at least two blocks.
func (layer *recurrentLayer) blockSize() int {
	if layer.batch > maxBlockSequences/2 {
		return min(maxBlockSequences, kit.DivUp(layer.batch, 2))
	}
	return layer.batch
}
