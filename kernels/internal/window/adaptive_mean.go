package window

import (
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/tensor"
)

// adaptiveMean returns the mean over the last dims dimensions.
func adaptiveMean(m tensor.Meta, dims int) *folds.Spec {
	mask := make([]bool, m.Rank())
	for d := range dims {
		mask[m.Rank()-1-d] = true
	}
	n := float64(folds.Count(m.Shape, mask))
	return &folds.Spec{Mask: mask, Keepdim: true, Cast: m.DType, Outs: []tensor.DType{m.DType},
		How: func() folds.How {
			return folds.How{Fold: func() *iter.Fold { return folds.Sum(m.DType, n) }, Ref: folds.RefSum(m.DType, n)}
		}}
}
