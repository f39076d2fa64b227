package machine

// Grains are the amounts of work per chunk: large enough to hide the cost of handing out a chunk, small
// enough that workers end together. They count elements, by kind of work. They are constants instead of
// profile rates, because the cut into chunks must depend on shapes alone; a test compares them with the
// default profile.
const (
	// MoveGrain is for elements that are moved, or combined by a few operations (PyTorch's
	// at::internal::GRAIN_SIZE).
	MoveGrain = 1 << 15
	// GatherGrain is for elements with random access.
	GatherGrain = 1 << 14
	// FunctionGrain is for elements with a function each without machine code, and for losses, which are
	// summed chunk by chunk, so that it affects bits.
	FunctionGrain = 1 << 12
	// CallGrain is for elements made one by one through a call and a Scalar.
	CallGrain = 1 << 11
	// ReduceGrain is for accumulated elements. Partial sums follow the cut, so it affects bits.
	ReduceGrain = 1 << 16
	// MACGrain counts multiply-adds of matrix products (small products together), PortableMACGrain those of
	// products without assembly, and DirectMACGrain those of windows over unpacked operands.
	MACGrain         = 1 << 20
	PortableMACGrain = 1 << 16
	DirectMACGrain   = 1 << 17
)

// LineBytes is the size of a cache line.
const LineBytes = 64

// BlockBytes is the size of the blocks in which operands pass from loop to loop: eight of them fit an L1
// cache. Reductions accumulate block by block, so it affects bits.
const BlockBytes = 4096
