package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// productKernelByPlanes makes the kernel that multiplies the weight by the windows of planes or volumes. The product is
// A*B. A is the weight. The columns of B are the windows of output pixels, gathered while B is packed (implicit
// im2col). If windows are single pixels at a constant stride, B is the input itself. Each group of each image is a
// separate product. The input may have any strides. For example, an image of 14x14 pixels with 3x3 windows of 32
// channels and 64 output channels gives the product of a 64x288 matrix and a 288x196 matrix.
func productKernelByPlanes(conv *convShape) (*graph.Kernel, error) {
	outPixelStride, ok := conv.pixelStride()
	if !ok {
		return nil, errPixelStride
	}
	dtype := conv.call.Out[0].DType
	spec := gemm.Spec{DType: dtype, M: conv.outPerGroup(), N: conv.pixelsOut(), K: conv.termsPerOutput(),
		A:          gemm.Operand{Source: gemm.Prepacked},
		B:          gemm.Operand{Source: gemm.Custom},
		CRowStride: conv.outStride.c, CColStride: outPixelStride}
	inPixelStride, hasOneStride := pixelStride(conv.inSize(), conv.inStride)
	inPlace := conv.isPointwise() && hasOneStride
	if inPlace {
		spec.B = gemm.Operand{RowStride: conv.inStride.c, ColStride: inPixelStride}
	}
	if conv.hasBias {
		spec.Bias, spec.BiasStride = gemm.BiasRows, conv.biasStride
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return nil, err
	}
	weight, err := newPackedWeight(conv.call, panelsFor(conv, productByPlanes, dtype))
	if err != nil {
		return nil, err
	}
	multiplier := &multiply.Multiplier{Plan: plan, Entries: conv.batch * conv.groups,
		MACs: kit.BoundedProduct(conv.outPerGroup(), conv.pixelsOut(), conv.termsPerOutput())}
	multiplier.SetEpilogue(conv.epilogue, spec)
	setPlaneEntries(multiplier, conv, weight)
	if !inPlace {
		packer := &windowPacker{window: conv.window, inStride: conv.inStride, width: plan.PackCols(),
			elemCopier: strided.MoverOf(dtype.Size())}
		packer.attachTo(multiplier)
	}
	return weight.kernel(multiplier), nil
}

// setPlaneEntries sets the entries of a multiplier: the products of its batch. Operand A is the weight, and operand B
// the channels of an image. There is one entry for each group of each image.
func setPlaneEntries(multiplier *multiply.Multiplier, conv *convShape, w packedWeight) {
	if multiplier.Entries > 1 {
		multiplier.A = entryOffsets(conv.batch, 0, conv.groups, w.MatrixLen())
		multiplier.B = entryOffsets(conv.batch, conv.inStride.n, conv.groups, conv.inPerGroup*conv.inStride.c)
		multiplier.C = entryOffsets(conv.batch, conv.outStride.n, conv.groups, conv.outPerGroup()*conv.outStride.c)
		multiplier.Bias = entryOffsets(conv.batch, 0, conv.groups, conv.outPerGroup()*conv.biasStride)
	}
	multiplier.Bind = func(mem *graph.Mem, job *multiply.Job) {
		job.C, job.A, job.B, job.Bias = mem.Ptrs[0], w.address(mem), mem.Ptrs[1], conv.biasAt(mem)
	}
}
