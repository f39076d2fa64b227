package window

import (
	"math"

	"github.com/graphrun/graphrun/tensor"
)

// The functions of this file compute the taps of an interpolation along one dimension by the formulas of aten. A tap is
// an element of the input, with a weight.

// cubicWeights returns the weights of the four elements around a position, by Keys's cubic convolution with the
// coefficient a. The position is between the second and the third element, at distance t from the second. For example,
// t = 0.5 and a = -0.75 give the weights -0.09375, 0.59375, 0.59375, -0.09375. inner returns the weight of an element
// at a distance up to 1, and outer at a distance from 1 to 2. Each float64(...) rounds a product, which prevents fused
// multiply-adds.
func cubicWeights(t, a float64) [4]float64 {
	inner := func(distance float64) float64 {
		return float64((float64((a+2)*distance)-(a+3))*distance*distance) + 1
	}
	outer := func(distance float64) float64 {
		return float64((float64((float64(a*distance)-float64(5*a))*distance)+float64(8*a))*distance) - float64(4*a)
	}
	return [4]float64{outer(t + 1), inner(t), inner(1 - t), outer(2 - t)}
}

// nearestIndex returns a function for nearest-neighbour interpolation. The function maps an index i of the output to
// the index of its tap in the input: floor(i * inputSize/outputSize). If the caller of the op gave a factor, factor is
// positive, and 1/factor replaces inputSize/outputSize.
//
// As in PyTorch, the arithmetic is float64 for float64 images, else float32. If the output is twice as large as the
// input, PyTorch's kernel for channels-last images halves the index and ignores the factor. nearestIndex uses the
// factor for every layout.
func nearestIndex(dtype tensor.DType, inputSize, outputSize int, factor float64) func(i int) int {
	scale := float64(inputSize) / float64(outputSize)
	if factor > 0 {
		scale = 1 / factor
	}
	if dtype != tensor.Float64 && factor <= 0 {
		scale = float64(float32(inputSize) / float32(outputSize))
	}
	return func(i int) int {
		position := float32(float64(i) * scale)
		if dtype != tensor.Float64 {
			position = float32(i) * float32(scale)
		}
		return clampIndex(math.Floor(float64(position)), inputSize)
	}
}

// clampIndex returns floor(x), clamped to the range from 0 to size-1. It returns 0 for NaN.
func clampIndex(x float64, size int) int {
	switch {
	case x >= float64(size-1):
		return size - 1
	case x >= 0:
		return int(x)
	}
	return 0
}
