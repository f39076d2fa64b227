package composite

import (
	"github.com/graphrun/graphrun/graph"
)

// Ops returns the ops of this package, in the order of their files.
func Ops() []*graph.Op {
	return []*graph.Op{
		Fliplr, Flipud, MH, MatrixH, Rot90, NarrowCopy, Msort, DiagEmbed, Diag, Diagflat,
		Diff, Trapezoid, Trapz, CumulativeTrapezoid, Gradient,
		Histc, Renorm, Logcumsumexp, MaskedScatter, Quantile, Nanquantile,
		Normalize, CosineSimilarity, PairwiseDistance, Dist, Cdist, Pdist, LinalgCross, Cross, Vecdot,
		LinalgTensorinv, LinalgTensorsolve, LinalgVander, LUUnpack,
		Logspace, AsStridedScatter,
		NativeLayerNorm,
		Put, IndexReduce,
		Softsign, Tanhshrink, Softmin, Mvlgamma, Deg2rad, Rad2deg, FloatPower, Ldexp, Frexp, Polar,
		Isclose, Allclose, Equal, Isreal, Isin,
		MseLoss, L1Loss, SmoothL1Loss, HuberLoss, SoftMarginLoss, HingeEmbeddingLoss, KlDiv, PoissonNllLoss,
		BinaryCrossEntropy, BinaryCrossEntropyWithLogits,
		GaussianNllLoss, MarginRankingLoss, CosineEmbeddingLoss, TripletMarginLoss, MultilabelSoftMarginLoss,
		MultiMarginLoss, MultilabelMarginLoss,
		Aminmax, CountNonzero, Nansum, Nanmean, Cov, Corrcoef, SumToSize,
		BroadcastTensors, Meshgrid, Atleast1d, Atleast2d, Atleast3d,
		Tensordot, Inner, Vdot, Kron, Addmv, Addr, Addbmm, Bilinear, BlockDiag, CartesianProd, ColumnStack, Dstack,
		Stft, Istft,
		LinalgMatrixPower, MatrixPower, MultiDot, Pinv, Pinverse, MatrixRank, MatrixNorm, LinalgNorm, LinalgCond,
	}
}
