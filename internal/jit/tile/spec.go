// Package tile generates machine code for register tiles, the microkernels of matrix products, convolutions and
// Winograd products. It supports AVX-512 and AVX2 on amd64, and NEON on arm64. A [Spec] describes the code, and
// [Compile] generates it.
//
// A tile is a block of the result: several rows, each of the same number of adjacent vectors. Its accumulators stay in
// vector registers for the whole k-loop, which is
//
//	sum[row][lane] += in[row, term] * vec[term, lane]
//
// The k-loop is the loop over the terms of the sums. The broadcast operand (In) has one element for each row and term;
// the code broadcasts the element to all lanes. The vector operand (Vec) has some vectors for each term, which all rows
// share; Vec is usually a packed panel. In a matrix product, In is A and Vec is B; in a convolution, In has the pixels
// and Vec the weights. The package uses these words:
//
//	term      one iteration of the k-loop: a rank-1 update of the tile
//	run       a sequence of terms with constant steps between them in both operands (Run)
//	loop      a loop around the runs, such as those over the rows of a convolution's window (Loop)
//	block     consecutive terms that are summed separately (Run.Block, Loop.Block)
//	initial   the value of the accumulators before the k-loop: zero, a bias or the result's previous value (InitialSum)
//	epilogue  element-wise operations on the accumulators before they are stored (EpilogueStep)
//
// The offsets of rows and terms are constants of the code, or [Dynamic]: arguments of the call, so that several sizes
// can share code. One call computes several tiles, at constant distances.
//
// The terms of each sum are added in a fixed order (loops, runs, terms), with one fused multiply-add each. A result
// therefore has the same bits for every division into tiles and on all instruction sets. Rounding errors grow with the
// length of a chain of additions. A sum can therefore be divided into blocks. Each block is summed separately, and its
// sum is added to a running total, which begins with the initial sum.
package tile

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/target"
)

// Dynamic stands for a distance or a number that is an argument of the call; see [Slot].
const Dynamic = math.MinInt32

// Limits of a Spec. The registers limit the rows further: accumulators, a term's vectors and at least one broadcast
// element must fit.
const (
	MaxLoops       = 3
	MaxDynamicRows = 15 // rows of a tile without Spec.In
)

// Spec describes the code of a tile. All distances and offsets are in bytes and may be negative. Offsets in the
// operands are relative to the operand's address for the tile. A Spec must not be modified after it was compiled.
//
// For example, this tile has 2 rows of 2 vectors of 16 float32. It belongs to a product of a row-major 2x100 matrix by
// one packed panel of 32 columns. The result is a row-major 2x32 matrix.
//
//	Spec{ElemBytes: 4, Rows: 2, Vectors: 2, In: []int{0, 400}, Out: []int{0, 128},
//		Runs: []Run{{InStep: 4, VecStep: 128, Terms: 100}}}
type Spec struct {
	// The tile.

	ElemBytes int // bytes of an element: 4 for float32, 8 for float64
	Rows      int // rows of the tile, at least 1
	Vectors   int // vectors of a row, at least 1
	Lanes     int // number of valid lanes of the last vector; 0 for all; or Dynamic (see DynamicLanes)

	// In and Out are the offsets of the rows in the broadcast operand and in the result. If nil, rows have a constant
	// distance that the call passes (InRow, OutRow).
	In, Out []int

	// Masked limits reads of the vector operand to the valid Lanes of the last vector. Otherwise whole vectors are
	// read, as from packed panels.
	Masked bool

	// Half is the format of the vector operand if its elements are 16-bit floats. The code converts them to float32 when
	// it loads them. With PackedStep, it stores the converted vectors. Half requires ElemBytes 4, float sums, and neither
	// Masked nor VecQuantization.
	Half target.Half

	// The terms and the tiles of a call.

	Runs  []Run  // terms of an iteration of the innermost loop, in order; a run with Dynamic fields must be the only one
	Loops []Loop // loops around the runs, outermost first; at most MaxLoops
	Tiles Loop   // distances between the tiles of a call; Trips is ignored: jit.Args.Rows, not Spec.Rows, counts tiles

	// The result.

	InitialSum InitialSum
	Epilogue   []EpilogueStep // applied in order

	// Integers.

	// Int8 selects int8 products: an element is a group of four bytes, unsigned (unless SignedIn) in the broadcast
	// operand and signed in the vector operand. The product of two groups is the sum of four products. Accumulators,
	// initial sums and results are int32. If there is an epilogue, the accumulators are converted to float32 first.
	// ElemBytes is 4. The processor must have a byte dot product for these vectors: VPDPBUSD, or SDOT and SUDOT.
	Int8 bool
	// SignedIn selects signed bytes in the broadcast operand. It must equal the result of [ReadsSigned] for the
	// dtype of the operand.
	SignedIn bool
	// Int8Matrix executes Int8 by products of 2x8 and 8x2 matrices of bytes (SMMLA, USMMLA). An element of the operands is
	// then a group of eight bytes. It requires machine.MatrixBytes, all rows in every run, and neither Masked nor
	// PackedStep.
	Int8Matrix bool
	// MatrixUnit executes Int8 with the processor's matrix unit (AMX). It requires AVX-512, In, Out, constant
	// numbers of terms, InStep equal to ElemBytes, equal VecSteps, and all rows in every run. The rows must form one or
	// two groups with a constant distance between the rows of each. A bias must have whole vectors, and the operand
	// Scratch must have UnitScratchBytes bytes.
	MatrixUnit bool
	// Int16 selects int16 products: an element is a pair of signed int16. The product of two pairs is the sum of two
	// products. ElemBytes, accumulators, initial sums, results and epilogue are as for Int8, which must not be set.
	// Every instruction set of amd64 has these products; arm64 has no code for them.
	Int16 bool
	// Quantized selects the dtype of the result for Int8 and Int16. Elements of a quantized result have one
	// byte, and the spec must then have Out, an InitialSum other than FromResult, and no Epilogue.
	Quantized Quantized

	VecQuantization VecQuantization // the quantization of the vector operand; zero if its elements are not quantized

	// Speed.

	// Unroll is the number of terms of an iteration of the k-loop; 0 selects DefaultUnroll, or full unrolling for
	// short runs.
	Unroll int
	// PrefetchResult prefetches the tile's cache lines of the result into L1 before the k-loop. The prefetches save time
	// if the initial sum or the epilogue reads the result.
	PrefetchResult bool
	// PrefetchDistance is the distance at which the vector operand is prefetched into L1, ahead of its loads. 0
	// disables the prefetching.
	PrefetchDistance int
	// PrefetchedLines is the number of cache lines of the operand [Prefetched] that are prefetched into L2 per
	// iteration of the k-loop. The prefetched address advances with each iteration, also from tile to tile. 0 disables
	// the prefetching.
	PrefetchedLines int
	// Prefetch lists further operands to prefetch into L2: at most two, or one with PrefetchedLines. It requires a
	// single run with Dynamic Terms, no loops, and no Unroll.
	Prefetch []Prefetch
	// PackedStep, if not 0, packs the vector operand while it is read. The code also stores the vectors of every term to
	// the operand [Packed], PackedStep bytes after the vectors of the previous term. Whole vectors are stored, and the
	// lanes that a Masked operand lacks are 0. PackedStep requires a single run without loops, and one tile per call.
	PackedStep int
}

// Prefetch describes the prefetching of an operand into L2. Once per `Every` terms, the code prefetches Lines adjacent
// cache lines and advances the address by a distance that the call passes. Every is a power of two that is at least
// DefaultUnroll. Many prefetches at once would delay the loads of the k-loop.
type Prefetch struct{ Lines, Every int }

// Run describes terms with constant steps.
type Run struct {
	In, Vec         int    // offsets of the first term in the operands, relative to the current iteration of the loops
	InStep, VecStep int    // distances between terms, or Dynamic
	Terms           int    // number of terms, at least 1, or Dynamic, which may be 0
	Rows            uint32 // bit mask of the rows that have these terms; 0 for all rows

	// Block is the number of terms of a block; 0 for none. The last term also ends a block. Blocks require Spec.In and
	// float elements.
	Block int
}

// Loop repeats the loops inside it and the runs.
type Loop struct {
	InStep, VecStep, OutStep int // distances between iterations; only Spec.Tiles has an OutStep and Dynamic distances
	Trips                    int // number of iterations, at least 1, or Dynamic, which may be 0
	Block                    int // number of iterations of a block; 0 for none. Run.Block states the requirements.
}

// InitialSum is the value of the accumulators before the k-loop.
type InitialSum uint8

// The initial values.
const (
	Zero       InitialSum = iota
	FromLanes             // an element of the operand [Bias] for each lane
	FromRows              // an element of the operand [Bias] for each row
	FromResult            // the previous value of the result
)

// EpilogueStep is an element-wise operation on the accumulators.
type EpilogueStep struct {
	Op      EpilogueOp
	Operand int // index among the operands of the epilogue (see FirstEpilogueOperand), if Op has an operand
	// Lower is the bound of AtLeast or the factor of Scale, and Upper is the bound of AtMost. They are rounded to the
	// elements' dtype.
	Lower, Upper float64
}

// EpilogueOp is the operation of an EpilogueStep.
type EpilogueOp uint8

// Operations of epilogues. A tile operand (AddTile, MulTile) has the offsets and lanes of the result, and moves with
// the tiles. An operand by lanes or rows has one element for each lane or row of a tile. It is the same for all tiles
// of a call. NaNs are propagated.
const (
	AddTile   EpilogueOp = iota
	AddResult            // add the previous value of the result; not for Int8 and Int16
	MulTile
	AddLanes
	MulLanes
	AddRows
	MulRows
	AtLeast // max(x, Lower)
	AtMost  // min(x, Upper)
	Scale   // x * Lower
)

// Slot is the index of an argument in [jit.Args]. Operand k starts Row[k] bytes after Ptr[k], so that a caller can
// move the operands without writing pointers. Dynamic values are in Step.
type Slot = int

// Operands: indices into Ptr and Row. Operand i of the epilogue is at FirstEpilogueOperand+i, and the operand of
// Spec.Prefetch[i] is at PrefetchOperands+i. Addresses that are only prefetched need not be readable.
const (
	In Slot = iota
	Vec
	Out
	Bias
	Prefetched
	Packed
	Scratch
	PrefetchOperands
	FirstEpilogueOperand = PrefetchOperands + maxPrefetches
)

// Numbers: indices into Step. Args.Rows is the number of tiles, at least 1, and Args.InnerCount the number of terms of
// a Dynamic run. The number of iterations of loop i is at LoopTrips+i, and the distance of Spec.Prefetch[i] is at
// PrefetchStep+i.
const (
	InRow        Slot = iota // distance between rows of the broadcast operand, without Spec.In
	OutRow                   // distance between rows of the result and of tile operands, without Spec.Out
	InTerm                   // Run.InStep
	VecTerm                  // Run.VecStep
	InTile                   // Spec.Tiles.InStep
	VecTile                  // Spec.Tiles.VecStep
	OutTile                  // Spec.Tiles.OutStep
	LastLanes                // Spec.Lanes
	PrefetchStep             // distance between consecutive prefetches of an operand

	// LoopTrips is the index of the first loop's Trips.
	LoopTrips = PrefetchStep + maxPrefetches
)
