package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// convNCHW makes the kernel that multiplies the weight by the windows of planes or volumes. The product is A*B. A is
// the weight. The columns of B are the windows of output pixels, gathered while B is packed (implicit im2col). Each
// group of each image is a separate product. The input may have any strides.
func convNCHW(s *convShape) (*graph.Kernel, error) {
	pixel, ok := s.pixelStride()
	if !ok {
		return nil, errPixelStride
	}
	d := s.call.Out[0].DType
	spec := gemm.Spec{DType: d, M: s.outPerGroup(), N: s.pixelsOut(), K: s.termsPerOutput(),
		A:          gemm.Operand{Source: gemm.Prepacked},
		B:          gemm.Operand{Source: gemm.Custom},
		CRowStride: s.outStride.c, CColStride: pixel}
	inPixelStride, constant := pixelStride(s.inSize(), s.inStride)
	inPlace := s.isPointwise() && constant
	if inPlace {
		spec.B = gemm.Operand{RowStride: s.inStride.c, ColStride: inPixelStride}
	}
	if s.hasBias {
		spec.Bias, spec.BiasStride = gemm.BiasRows, s.biasStride
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return nil, err
	}
	weight, err := newPackedWeight(s.call, convPanels(s, convByPlanes, d))
	if err != nil {
		return nil, err
	}
	x := &multiply.Multiplier{Plan: plan, Entries: s.n * s.groups, MACs: kit.BoundedProduct(s.outPerGroup(), s.pixelsOut(),
		s.termsPerOutput())}
	x.SetEpilogue(s.epilogue, spec)
	planeEntries(x, s, weight)
	if !inPlace {
		p := &windowPacker{window: s.window, inStride: s.inStride, width: plan.PackCols(), elem: strided.Move(d.Size())}
		p.attachTo(x)
	}
	return weight.kernel(x), nil
}
