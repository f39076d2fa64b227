package index

import "github.com/graphrun/graphrun/graph"

// Ops returns the family's ops in the order of their files.
func Ops() []*graph.Op {
	return []*graph.Op{
		Gather, TakeAlongDim, Take,
		GatherND, ScatterND,
		IndexAdd, IndexCopy, IndexFill,
		IndexSelect, Embedding, Index,
		MaskedFill,
		NonMaxSuppression, Nms,
		Nonzero, MaskedSelect, Compress,
		OneHot,
		RepeatInterleave,
		Scatter, ScatterAdd, ScatterReduce,
		Sort, Argsort, Topk, Kthvalue,
		TfidfVectorizer,
		TreeEnsemble,
		Unique2, UniqueDim, Unique,
	}
}
