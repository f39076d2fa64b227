package operators

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts AveragePool, LpPool and the global pools. MaxPool (maxpool.go) uses its functions poolOf,
// poolAttrs and paddingAfter. The pool ops of the catalogue support only padding that is equal on both sides and at
// most half of the window, as in PyTorch. For any other padding, the operand is padded first. For example, auto_pad
// SAME_UPPER with a window of 2 elements and stride 1 pads a row of 5 elements by one element at its end only.
//
// The operand is a tensor [N, C, ...] of N images with C channels, and its other dimensions are spatial. For each
// spatial dimension, a [geometry] has the number of elements of a window (kernel), the distance between them
// (dilation), the distance between windows (stride), and the padding before and after the operand. The extent of a
// window is (kernel-1)*dilation + 1. A sym.Int is a size: a number, or an expression over symbols.

// poolOf returns the spatial sizes of x, the attribute kernel_shape, and the geometry of a pool.
func poolOf(n *node, x *value) (inputSizes []sym.Int, kernel []int, windows geometry) {
	inputSizes = spatialSizes(n, x)
	kernel = n.PerDim("kernel_shape", len(inputSizes), 0)
	return inputSizes, kernel, geometryOf(n, inputSizes, sym.Ints(kernel...))
}

// poolAttrs returns the attributes of a pool op on x, or nil if the op does not support the padding. If a size of x may
// be 0, it lists the padding before and after each dimension: the op then accepts such sizes.
func (g geometry) poolAttrs(n *node, x *value, kernel []int) graph.Attrs {
	padding, known := symbolic.Known(g.padBefore)
	if !known || !g.isSymmetric() {
		return nil
	}
	for i, kernelSize := range kernel {
		if padding[i] > kernelSize/2 {
			return nil
		}
	}
	if mayBeEmpty(n.SymShape(x)[1:]...) {
		padding = slices.Repeat(padding, 2)
	}
	return graph.Attrs{"kernel_size": kernel, "stride": g.stride, "padding": padding, "ceil_mode": g.roundsUp}
}

// paddingAfter returns, by spatial dimension, the padding after an operand with the spatial sizes inputSizes. If the
// number of windows is rounded up (ceil_mode), this padding ends with the last window that starts before the end of the
// operand. For example, 5 elements have 3 windows of 2 elements with stride 2. The last window starts at element 4 and
// lacks one element, so the padding is 1.
func (g geometry) paddingAfter(inputSizes []sym.Int) (after []sym.Int) {
	if !g.roundsUp {
		return g.padAfter
	}
	for i, size := range inputSizes {
		// Starts and ends are distances from the start of the padding before the operand.
		stride, operandEnd := sym.Of(g.stride[i]), size.Add(g.padBefore[i])
		lastStart := operandEnd.Add(g.padAfter[i]).Sub(g.windowExtent(i)) // the greatest start at which a window fits
		start := lastStart.Add(stride).Sub(sym.Of(1)).Div(stride).Mul(stride)
		start = sym.Where(start.Ge(operandEnd), start.Sub(stride), start)
		after = append(after, start.Add(g.windowExtent(i)).Sub(operandEnd).Max(sym.Int{}))
	}
	return after
}

// averagePool converts AveragePool.
func averagePool(n *node) []*value { return single(averagePoolOf(n, n.Operand(0))) }

// averagePoolOf returns the average pool of x with the attributes of the node. If the op does not support the padding
// or the dilation, the result is the quotient of [windowSums] and [windowCounts].
func averagePoolOf(n *node, x *value) *value {
	inputSizes, kernel, windows := poolOf(n, x)
	includePadding := n.Flag("count_include_pad", false)
	isDilated := slices.ContainsFunc(windows.dilation, func(dilation int) bool { return dilation != 1 })
	if attrs := windows.poolAttrs(n, x, kernel); attrs != nil && !isDilated {
		attrs["count_include_pad"] = includePadding
		return n.Op(fmt.Sprintf("avg_pool%dd", len(inputSizes)), attrs, x)
	}
	return inFloat32(func(*node) []*value {
		sums := windowSums(n, x, inputSizes, windows)
		return single(n.Op("div", nil, sums, windowCounts(n, x.DType(), inputSizes, windows, includePadding)))
	})(n)[0]
}

// windowSums returns the sum of each window: a convolution with ones.
func windowSums(n *node, x *value, inputSizes []sym.Int, windows geometry) *value {
	after, shape, dtype := windows.paddingAfter(inputSizes), n.SymShape(x), x.DType()
	channels, known := shape[1].Known()
	if known = known && channels > 0; !known { // each channel becomes an image with one channel
		channels, x = 1, n.ReshapeSym(x, append([]sym.Int{shape[0].Mul(shape[1]), sym.Of(1)}, inputSizes...)...)
	}
	attrs := graph.Attrs{"stride": windows.stride, "dilation": windows.dilation, "groups": channels,
		"padding": make([]int, 2*len(inputSizes))} // in ONNX's form, with which there may be no windows
	op := fmt.Sprintf("conv%dd", len(inputSizes))
	sums := n.Op(op, attrs, padSpatial(n, x, windows.padBefore, after, 0), spatialOnes(n, dtype, channels, windows.kernel))
	if !known {
		sums = n.ReshapeSym(sums, append([]sym.Int{shape[0], shape[1]}, n.SymShape(sums)[2:]...)...)
	}
	return sums
}

// windowCounts returns the number of elements of each window, without padding. If includePadding is true, the number
// includes the padding that the attributes of the node request, but not the padding that rounding up adds.
func windowCounts(n *node, dtype tensor.DType, inputSizes []sym.Int, windows geometry, includePadding bool) *value {
	// Counted elements are ones, and the padding around them is zeros.
	onesSizes := slices.Clone(inputSizes)
	zerosBefore, zerosAfter := slices.Clone(windows.padBefore), windows.paddingAfter(inputSizes)
	if includePadding {
		for i := range inputSizes {
			onesSizes[i] = inputSizes[i].Add(windows.padBefore[i]).Add(windows.padAfter[i])
			zerosBefore[i], zerosAfter[i] = sym.Of(0), zerosAfter[i].Sub(windows.padAfter[i])
		}
	}
	counted := padSpatial(n, spatialOnes(n, dtype, 1, onesSizes), zerosBefore, zerosAfter, 0)
	attrs := graph.Attrs{"stride": windows.stride, "dilation": windows.dilation,
		"padding": make([]int, 2*len(inputSizes))}
	return n.Op(fmt.Sprintf("conv%dd", len(inputSizes)), attrs, counted, spatialOnes(n, dtype, 1, windows.kernel))
}

// spatialOnes returns ones of the shape [batch, 1, spatial sizes].
func spatialOnes(n *node, dtype tensor.DType, batch int, spatial []sym.Int) *value {
	size := n.SizesAttr(append([]sym.Int{sym.Of(batch), sym.Of(1)}, spatial...)...)
	return n.Op("full", graph.Attrs{"size": size, "fill_value": 1, "dtype": dtype})
}

// lpPool converts LpPool, the p-norm of each window: the sum of |element|^p, to the power 1/p. p is an integer from
// operator set 2 on, and a float before.
func lpPool(n *node) []*value {
	x := n.Operand(0)
	inputSizes, _, windows := poolOf(n, x)
	power := float64(n.Int("p", 2))
	if n.Opset < 2 {
		power = n.Float("p", 2)
	}
	powers := n.Op("pow", nil, n.Op("abs", nil, x), power)
	sum := windowSums(n, powers, inputSizes, windows)
	return single(n.Op("pow", nil, sum, 1/power))
}

// spatialDims returns the indices of the dimensions from the third on: 2, 3 ... rank-1.
func spatialDims(n *node, x *value) []int {
	var dims []int
	for i := 2; i < n.Rank(x); i++ {
		dims = append(dims, i)
	}
	if dims == nil {
		n.Failf("the operand has no spatial dimensions")
	}
	return dims
}

// globalPool returns the converter of GlobalAveragePool (op mean) or GlobalMaxPool (op amax).
func globalPool(op string) converter {
	return func(n *node) []*value {
		x := n.Operand(0)
		attrs := graph.Attrs{"dim": spatialDims(n, x), "keepdim": true}
		if op == "amax" {
			acceptEmpty(n, attrs, x)
		}
		return single(n.Op(op, attrs, x))
	}
}

// globalLpPool converts GlobalLpPool, the p-norm of each channel.
func globalLpPool(n *node) []*value {
	x := n.Operand(0)
	power := float64(n.Int("p", 2))
	return single(n.Op("linalg_vector_norm", graph.Attrs{"ord": power, "dim": spatialDims(n, x), "keepdim": true}, x))
}
