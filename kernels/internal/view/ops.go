package view

import "github.com/graphrun/graphrun/graph"

// Ops returns the family's ops in the order of their files.
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
		Pad, ConstantPadNd,
		Permute, Transpose, Swapdims, Swapaxes, T, Movedim, Moveaxis,
		Rand, Randn, RandLike, RandnLike, Randint, Bernoulli, Dropout, Multinomial,
		Repeat, Tile,
		Reshape, ReshapeAs, Flatten, Ravel, Unflatten,
		Roll,
		ShapeAsTensor,
		PixelShuffle, PixelUnshuffle, DepthToSpace, SpaceToDepth, ChannelShuffle,
		Slice, Select, Narrow,
		Split, SplitWithSizes, Chunk, Unbind,
		Squeeze, Unsqueeze,
		Stack,
		To, TypeAs,
		Tril, Triu,
		Unfold, Diagonal,
		View, ViewAs, Detach, Alias, AsStrided,
		ViewAsReal, ViewAsComplex, Complex,
		HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix,
	}
}
