package view

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package, in the order of their files.
func Ops() []*graph.Op {
	return []*graph.Op{
		Arange,
		Cat, Concat, Concatenate, Hstack, Vstack,
		Clone, ContiguousOp,
		CopyOp,
		EmptyLike, NewEmpty, EmptyStrided,
		Expand, BroadcastTo, ExpandAs,
		Eye,
		Flip,
		Full, Zeros, Ones, FullLike, ZerosLike, OnesLike,
		Linspace,
		NewZeros, NewOnes, NewFull,
		Pad, ConstantPadNd,
		Permute, Transpose, Swapdims, Swapaxes, T, Movedim, Moveaxis, NumpyT, MT,
		Rand, Randn, RandLike, RandnLike, Randint, Bernoulli, Dropout,
		Multinomial,
		Repeat, Tile,
		Reshape, ReshapeAs, Flatten, Ravel, Unflatten,
		Roll,
		ShapeAsTensor,
		PixelShuffle, PixelUnshuffle, DepthToSpace, SpaceToDepth, ChannelShuffle,
		Slice, Select, Narrow,
		Split, SplitWithSizes, Chunk, Unbind,
		Squeeze, Unsqueeze,
		Stack,
		TensorSplit, Hsplit, Vsplit, Dsplit,
		To, TypeAs,
		Tril, Triu, TrilIndices, TriuIndices,
		Unfold, Diagonal,
		View, ViewAs, Detach, Alias, AsStrided,
		ViewAsReal, ViewAsComplex, Complex,
		HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix,
	}
}
