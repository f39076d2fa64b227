package machine

// A grain is the amount of work per chunk, in elements of one kind of work. A grain is large enough to hide the cost of
// distributing a chunk. It is small enough for workers to end at about the same time. Grains are constants instead of
// profile rates, because the division into chunks must depend only on shapes. A test compares them with the default
// profile.
const (
	// MoveGrain is for elements that are moved, or combined by a few operations (PyTorch's
	// at::internal::GRAIN_SIZE).
	MoveGrain = 1 << 15
	// GatherGrain is for elements with random access.
	GatherGrain = 1 << 14
	// FunctionGrain is for elements that take a function such as exp without machine code, and for losses. Losses
	// are summed chunk by chunk, so this grain affects the bits of results.
	FunctionGrain = 1 << 12
	// CallGrain is for elements that are computed one by one, each by a function call with a Scalar.
	CallGrain = 1 << 11
	// ReduceGrain is for accumulated elements. There is a partial sum for each chunk, so this grain affects the bits
	// of results.
	ReduceGrain = 1 << 16
	// MACGrain counts multiply-adds of matrix products; several small products share a chunk. PortableMACGrain counts
	// multiply-adds of products without assembly. DirectMACGrain counts multiply-adds of windows over unpacked
	// operands.
	MACGrain         = 1 << 20
	PortableMACGrain = 1 << 16
	DirectMACGrain   = 1 << 17
)

// LineBytes is the size of a cache line.
const LineBytes = 64

// BlockBytes is the size of the blocks in which operands pass from loop to loop. Eight blocks fit an L1 cache.
// Reductions accumulate block by block, so BlockBytes affects the bits of results.
const BlockBytes = 4096

// Sizes in bytes.
const (
	L1Bytes = 32 << 10 // a typical L1 data cache
	L2Bytes = 1 << 20  // a typical L2 cache
	// NonTemporalMinBytes is the minimum size of a result for which non-temporal stores are faster. The result and its
	// operands then exceed the last-level cache.
	NonTemporalMinBytes = 16 << 20
)
