// Package tile makes machine code of register tiles: sums of products that stay in vector registers until they are
// done, for AVX-512 and AVX2 on amd64. Products of matrices, convolutions and transforms are made of it.
//
// A tile has rows and, beside one another, vectors of lanes. Element (row, lane) is the sum over terms of an element of
// the broadcast operand, which belongs to the row, times one of the vector operand, which belongs to the lane: a
// matrix product's A and B, or a convolution's pixels and weights. Where terms and rows lie is data of a [Spec], and
// becomes constants of the code; what is [Dynamic] is read from the call's arguments, so that sizes share code.
//
// The additions of an element have one order, that of loops, runs and terms, each by one fused multiply-add: however
// a result is cut into tiles, and on whichever instruction set, it has the same bits. A long chain of additions rounds
// what is small beside its sum. So terms may be cut into blocks ([Run] and [Loop] say where those end): each has a sum
// of its own, which is added to those before it and to the start.
package tile

import "math"

// Dynamic stands for a distance or a number that a call tells; see [Slot].
const Dynamic = math.MinInt32

// Most of a spec. Tiles have as many rows as registers hold beside the vectors; dynamic ones have at most DynamicRows.
const (
	MaxLoops    = 3
	DynamicRows = 15
)

// Spec is a tile's code as data. Distances are in bytes. A Spec that was compiled must not change.
type Spec struct {
	Size int // bytes of an element: 4 for float32, 8 for float64
	// Bytes says that elements are four bytes each, of which products are added up, without sign in the broadcast
	// operand and with one in the vector operand; sums, and what they start with, are int32, and become float32 before a
	// tail. The processor must multiply bytes by the vectors that code is for.
	Bytes bool
	// Unit says that the processor's matrix unit multiplies Bytes. Places of rows, and numbers of terms, are told then;
	// terms lie side by side, rows evenly, all of them or in two parts, and have all terms. The bias has whole vectors,
	// and Room is UnitRoom bytes of memory. Needs AVX512.
	Unit bool
	// Words says that elements are two int16 each, of which products are added up likewise. Any instruction set has it.
	Words bool
	// Levels says that sums become bytes, where Bytes or Words is set: distances of results are of those. Out must be
	// told.
	Levels  Levels
	Rows    int
	Vectors int
	Lanes   int // of the last vector; 0 for all of them, Dynamic for a number from 1 on

	// In and Out are where the rows lie, from where the tile is in the broadcast operand and in the result. Without
	// them rows are as far from one another as a call tells.
	In, Out []int

	// Masked vector operands have no elements behind the last vector's lanes. Others, such as packed panels, are read
	// in whole vectors.
	Masked bool

	Runs  []Run  // the terms of a turn of the innermost loop, in order
	Loops []Loop // around the runs, outermost first
	Tiles Loop   // how far tiles are from one another; Turns is not used, for calls tell how many tiles there are

	Start Start
	Tail  []Tail // what follows the sum, in order

	// Touch asks for the result's lines before the sum, so that a start or tail that reads them finds them near.
	Touch bool
	// Near asks for the vector operand that many bytes ahead of every line that is read, 0 for not at all.
	Near int
	// Ahead asks for so many lines of the operand [Ahead] per turn of unrolled terms, each behind the one before, for
	// the second cache. They go on from tile to tile.
	Ahead int
	// Fetch asks for rows of other operands, which go on from tile to tile, too. Terms are those of one Dynamic run then.
	Fetch []Fetch
	// Keep writes what is read of the vector operand to the operand [Kept], too, by so many bytes from term to term:
	// whole vectors, with zeros for lanes that are not there. A call computes one tile then. 0 keeps nothing.
	Keep int
	// Unroll is how many terms a turn of the code has; 0 leaves it to Compile.
	Unroll int
}

// Fetch asks for lines that lie side by side, for the second cache, and for those so far behind them as a call tells
// after so many terms: a power of two, FewTerms at least. So they come one by one, where many at once would have the
// terms wait for theirs.
type Fetch struct{ Lines, Every int }

// Run is terms that lie evenly.
type Run struct {
	In, Vec         int    // the first term, from where the loops are
	InStep, VecStep int    // from a term to the next, or Dynamic
	Terms           int    // or Dynamic, which may be none
	Rows            uint32 // which rows have these terms, a bit each; 0 for all

	// Block is how many terms make a block: one ends behind each so many, and one behind the last term. 0 for none.
	// Rows must lie at places that are told.
	Block int
}

// Loop repeats what it is around.
type Loop struct {
	In, Vec, Out int // from a turn to the next; of tiles, it may be Dynamic; Out belongs to tiles alone
	Turns        int // or Dynamic, which may be none
	Block        int // a block ends behind each so many turns; 0 for none. As Run.Block.
}

// Start is what a sum begins with.
type Start uint8

// Starts.
const (
	Zero       Start = iota
	FromLanes        // one element of the operand [Bias] per lane
	FromRows         // one element of the operand [Bias] per row
	FromResult       // the element that the result has
)

// Tail is an operation on the sums, in registers.
type Tail struct {
	Op      TailOp
	Operand int     // which of the tail's operands, from 0; see Slot
	Lo, Hi  float64 // bounds, or the factor in Lo, rounded to the tile's elements
}

// TailOp tells operations of tails apart.
type TailOp uint8

// Operations of tails. Tile operands have the rows, distances and lanes of the result; those by lanes one element for
// each lane, those by rows one for each row, and neither moves from tile to tile. NaNs stay NaNs.
const (
	AddTile   TailOp = iota
	AddResult        // what the result has before it is written
	MulTile
	AddLanes
	MulLanes
	AddRows
	MulRows
	AtLeast // at least Lo
	AtMost  // at most Hi
	Scale   // times Lo
)

// Slot is where a call's arguments are in [jit.Args]. Operand k begins Row[k] bytes behind Ptr[k], so that a call's
// place is a number, and no pointer needs to be written. Numbers of Dynamic are in Step.
type Slot = int

// Operands: entries of Ptr and Row. Tail operand i is at Tails+i, and that of Fetch i at Fetches+i. What is asked for
// ahead need not be memory that can be read.
const (
	In Slot = iota
	Vec
	Out
	Bias
	Ahead
	Kept
	Room
	Fetches
	Tails = Fetches + maxFetches
)

// Numbers: entries of Step. Args.Rows is how many tiles there are, 1 or more, and Args.N how many terms a Dynamic run
// has. Those of loop i are at LoopTurns+i, and those of Fetch i at FetchStep+i.
const (
	InRow     Slot = iota // bytes from a row to the next of the broadcast operand, where Spec.In is nil
	OutRow                // the same of the result and of the tile operands of tails, where Spec.Out is nil
	InTerm                // Run.InStep
	VecTerm               // Run.VecStep
	InTile                // Spec.Tiles.In
	VecTile               // Spec.Tiles.Vec
	OutTile               // Spec.Tiles.Out
	LastLanes             // Spec.Lanes
	FetchStep             // bytes from what a Fetch asks for to what it asks for next

	// LoopTurns has Loop.Turns.
	LoopTurns = FetchStep + maxFetches
)
