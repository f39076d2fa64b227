package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
)

// convNCHW multiplies the weight by the windows of planes. A is the weight; the columns of B are the windows of output
// pixels, gathered while B is packed (implicit im2col). Each image and group is a separate product. The input may have
// any strides.
func convNCHW(s *convShape) (*graph.Kernel, error) {
	pixel, ok := s.pixelStride()
	if !ok {
		return nil, errPixelStride
	}
	d := s.call.Out[0].DType
	spec := gemm.Spec{DType: d, M: s.og(), N: s.oh * s.ow, K: s.depth(),
		A:          gemm.Operand{Source: gemm.Prepacked},
		B:          gemm.Operand{Source: gemm.Custom},
		CRowStride: s.os[1], CColStride: pixel}
	plain := s.pointwise() && (s.h == 1 || s.w == 1 || s.xs[2] == s.w*s.xs[3])
	if plain {
		spec.B = gemm.Operand{RowStride: s.xs[1], ColStride: s.xs[3]}
		if s.w == 1 {
			spec.B.ColStride = s.xs[2]
		}
	}
	if s.hasBias {
		spec.Bias, spec.BiasStride = gemm.BiasRows, s.bias
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return nil, err
	}
	weight, err := newPackedWeight(s.call, convPanels(s, convByPlanes, d))
	if err != nil {
		return nil, err
	}
	x := &multiply.Multiplier{Plan: plan, Entries: s.n * s.groups, MACs: kit.Times(s.og(), s.oh, s.ow, s.depth())}
	x.Then(s.tail, spec)
	planeEntries(x, s, weight, s.xs[0], s.xs[1], s.os[0], s.os[1])
	if !plain {
		p := &windowPacker{in: [3]int{1, s.h, s.w}, out: [3]int{1, s.oh, s.ow}, k: [3]int{1, s.kh, s.kw},
			step: [3]int{1, s.sh, s.sw}, pad: [3]int{0, s.ph, s.pw}, dilated: [3]int{1, s.dh, s.dw},
			strides: [3]int{0, s.xs[2], s.xs[3]}, channel: s.xs[1], width: plan.PackCols(), elem: strided.Move(d.Size())}
		p.use(x)
	}
	return weight.kernel(x), nil
}
