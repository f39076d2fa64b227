package index

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package, in the order of their files.
func Ops() []*graph.Op {
	return []*graph.Op{
		Bincount,
		EmbeddingBag,
		Gather, TakeAlongDim, Take,
		GatherND, ScatterND,
		IndexAdd, IndexCopy, IndexFill,
		IndexSelect, Embedding, Index, IndexPut,
		SelectScatter, SliceScatter, DiagonalScatter,
		MaskedFill,
		NonMaxSuppression, Nms,
		Nonzero, MaskedSelect, Compress,
		OneHot,
		RepeatInterleave,
		Searchsorted, Bucketize,
		Scatter, ScatterAdd, ScatterReduce,
		Kthvalue, Median, Nanmedian, Mode,
		Sort, Argsort, Topk,
		TfidfVectorizer,
		TreeEnsemble,
		Unique2, UniqueDim, Unique, UniqueConsecutive,
	}
}
