//go:build linux || darwin

package jittest

import (
	"bytes"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// randomCount is the number of random elements for a loop that has too many combinations of edge cases.
const randomCount = 6000

// checkEdgeCases runs edge cases. A uniform operand has one element for each row. A single operand that is not uniform
// has all values of its dtype if the dtype has 8 or 16 bits, else the dtype's edge cases. Two operands have all pairs
// of edge cases. All other loops, and loops with folds or complex operands, have random elements. The rows of folds are
// short, because a NaN hides all other elements. Rows with uniform operands are short, too, so that these operands have
// many elements.
func (c *Comparison) checkEdgeCases() error {
	operandCount := len(c.loop.Code.In)
	data := make([][]byte, operandCount) // by operand; nil for random elements
	rowLen, rows := randomCount, 1
	hasFolds, hasUniform := len(c.loop.Folds) > 0, slices.Contains(c.loop.Uniform, true)
	hasComplex := slices.ContainsFunc(c.loop.Code.In, tensor.DType.IsComplex)
	switch {
	case !hasFolds && operandCount == 1 && !hasUniform && !hasComplex:
		data[0] = AllValues(c.loop.Code.In[0])
		rowLen = len(data[0]) / c.loop.Code.In[0].Size()
	case !hasFolds && operandCount == 2 && !hasComplex:
		rowLen, rows = c.setPairs(data)
	case hasFolds || hasUniform: // short rows
		rowLen, rows = 60, 100
	}
	var operands, copies []unsafe.Pointer
	var strides []int
	for k, dtype := range c.loop.Code.In {
		count := rowLen
		if c.loop.Uniform[k] {
			count = 1
		}
		if data[k] == nil {
			data[k] = RandomElements(c.rng, dtype, count*rows)
		}
		stride := count * dtype.Size()
		if len(data[k]) == stride {
			stride = 0 // all rows read the same elements
		}
		strides = append(strides, stride)
		operands = append(operands, unsafe.Pointer(&data[k][0]))
		copied := slices.Clone(data[k])
		copies = append(copies, unsafe.Pointer(&copied[0]))
	}
	return c.compareOn(operands, copies, strides, rowLen, rows)
}

// setPairs sets data to all pairs of edge cases of two operands. It returns the number of elements of a row and the
// number of rows. The pairs are one row, unless an operand is uniform: then each row has one element of this operand.
func (c *Comparison) setPairs(data [][]byte) (rowLen, rows int) {
	x, y := EdgeCases(c.loop.Code.In[0]), EdgeCases(c.loop.Code.In[1])
	sizeY := c.loop.Code.In[1].Size()
	countX, countY := len(x)/c.loop.Code.In[0].Size(), len(y)/sizeY
	switch {
	case c.loop.Uniform[0] && c.loop.Uniform[1]: // all elements of a row are equal, so short rows suffice
		rowLen, rows = 3, countX*countY
	case c.loop.Uniform[0]: // row i has element i of x, and all elements of y
		data[0], data[1] = x, y
		return countY, countX
	case c.loop.Uniform[1]: // row i has all elements of x, and element i of y
		data[0], data[1] = x, y
		return countX, countY
	default:
		rowLen, rows = countX*countY, 1
	}
	data[0] = bytes.Repeat(x, countY)
	for element := range slices.Chunk(y, sizeY) {
		data[1] = append(data[1], bytes.Repeat(element, countX)...)
	}
	return rowLen, rows
}

// compareOn runs the machine code on the operands and the interpreter on their copies, and compares the outputs and
// folds. c.ptrs describes the pointers of the code: outputs, operands, and then folds. Each operand has `rows` rows of
// rowLen elements. strides has, by operand, the bytes from a row to the next.
func (c *Comparison) compareOn(operands, copies []unsafe.Pointer, strides []int, rowLen, rows int) error {
	outCount := len(c.loop.Code.Out)
	operandsOf := [2][]unsafe.Pointer{compiledSide: operands, interpretedSide: copies}
	var ptrs [2][]unsafe.Pointer // by side (compiledSide or interpretedSide) and pointer
	var buffers [2][][]byte      // by side and pointer: the memory of outputs and folds; nil for operands
	var pointerStrides []int
	for k := range c.ptrs {
		ptr := &c.ptrs[k]
		if isOperand := k >= outCount && k < outCount+len(operands); isOperand {
			pointerStrides = append(pointerStrides, strides[k-outCount])
			for side := range ptrs {
				ptrs[side], buffers[side] = append(ptrs[side], operandsOf[side][k-outCount]), append(buffers[side], nil)
			}
			continue
		}
		row, total := ptr.size(rowLen, rows) // in bytes: from a row to the next, and of all rows
		pointerStrides = append(pointerStrides, row)
		for side := range ptrs {
			var address unsafe.Pointer
			memory := make([]byte, total)
			copy(memory, ptr.pool) // the pool has the initial accumulators of a fold
			if ptr.hasMemory {
				address = unsafe.Pointer(unsafe.SliceData(memory))
			}
			buffers[side], ptrs[side] = append(buffers[side], memory), append(ptrs[side], address)
		}
	}
	if err := c.code.Run(c.args, ptrs[compiledSide], pointerStrides, rowLen, rows); err != nil {
		return err
	}
	c.interpret(ptrs[interpretedSide], pointerStrides, rowLen, rows)
	for k := range c.ptrs {
		dtype, compiled, interpreted := c.ptrs[k].dtype, buffers[compiledSide][k], buffers[interpretedSide][k]
		if !c.ptrs[k].hasMemory || bytes.Equal(compiled, interpreted) { // both are nil for operands, and thus equal
			continue
		}
		if i := firstDifferentElement(dtype, compiled, interpreted); i >= 0 {
			start, end := i*dtype.Size(), (i+1)*dtype.Size()
			return fmt.Errorf("%d rows of %d: pointer %d (%v), element %d: compiled % x, interpreted % x of %s", rows, rowLen,
				k, dtype, i, compiled[start:end], interpreted[start:end], c.formatOperands(copies, strides, i, rowLen))
		}
	}
	return nil
}

// firstDifferentElement returns the index of the first element that is not the same in both buffers, or -1. Buffers of
// different bytes may have the same elements (see [Same]).
func firstDifferentElement(dtype tensor.DType, compiled, interpreted []byte) int {
	elemBytes := dtype.Size()
	for i := range len(compiled) / elemBytes {
		if start := i * elemBytes; !Same(dtype, compiled[start:][:elemBytes], interpreted[start:][:elemBytes]) {
			return i
		}
	}
	return -1
}

// formatOperands prints the operands of an element. rowLen is the number of elements of a row.
func (c *Comparison) formatOperands(copies []unsafe.Pointer, strides []int, element, rowLen int) (text string) {
	for k, dtype := range c.loop.Code.In {
		offset := element / rowLen * strides[k]
		if !c.loop.Uniform[k] {
			offset += element % rowLen * dtype.Size()
		}
		text += fmt.Sprintf("% x; ", unsafe.Slice((*byte)(unsafe.Add(copies[k], offset)), dtype.Size()))
	}
	return text
}
