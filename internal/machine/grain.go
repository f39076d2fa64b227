package machine

// Grains are the work that is worth a chunk: enough that handing it out is lost in it, few enough
// that workers end together. They are elements, by what is done to one. They are constants and
// not read from a profile because the cut into chunks goes by shape alone, on every machine;
// a test holds them against the default profile.
const (
	// MoveGrain is for elements that are moved, or combined by a few operations: PyTorch's
	// at::internal::GRAIN_SIZE.
	MoveGrain = 1 << 15
	// GatherGrain is for elements read or written each at a place of its own.
	GatherGrain = 1 << 14
	// FunctionGrain is for elements that take a function each where no machine code is made, and for losses, which are
	// summed chunk by chunk, so that it decides bits.
	FunctionGrain = 1 << 12
	// CallGrain is for elements that are made one at a time through a call and a Scalar.
	CallGrain = 1 << 11
	// ReduceGrain is for elements that are accumulated. Partial sums follow the cut, so that it
	// decides bits.
	ReduceGrain = 1 << 16
	// MACGrain is the multiply-adds of matrix products, small ones taken together, and
	// PortableMACGrain that of products without assembly; DirectMACGrain is for windows that
	// slide over what was not packed.
	MACGrain         = 1 << 20
	PortableMACGrain = 1 << 16
	DirectMACGrain   = 1 << 17
)

// LineBytes is the size of a cache line.
const LineBytes = 64

// BlockBytes is the size of the blocks by which operands pass from loop to loop: eight of them are
// an L1 cache. Reductions accumulate block by block, so that it decides bits.
const BlockBytes = 4096
