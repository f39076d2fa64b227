// Package lane is an intermediate representation of vector code that is independent of instruction sets. Packages
// amd64 and arm64 compile it. A [Block] is straight-line code in static single assignment form. Each SSA value has n
// elements of a dtype, its lanes. The block does not fix n. A target selects instructions for one or several n, with
// one or more registers for a value. A [Loop] computes rows of elements with a block.
//
// [Eval] defines the operations. [Loop.Emulate] interprets a loop as a target executes it, for tests.
//
// # Limits
//
// The following code does not use this representation:
//
//   - Packages tile, depthwise, winograd and requantize choose registers and the order of instructions themselves, and
//     write instructions through the Writer of package target. Their inner loops need nearly all registers, and must
//     not spill.
//   - Package requantize has code for AVX-512 only. That code keeps the scales of columns in registers for all rows.
//     Other processors run the loop of an expression, which reads the scales for each row.
//   - Package expr/interp interprets expressions. It computes elementary functions in Go, which takes less time than
//     their expansions to lane operations, and it skips values that no element of a block selects.
//   - Each target writes the loops around a block. With AVX-512 and AVX2, masks select the elements at the end of a
//     row. NEON has no masks: arm64 computes these elements in passes of half the elements, a quarter, and so on.
package lane

import "github.com/graphrun/graphrun/tensor"

// FoldLanes is the number of accumulators of a [Fold]. Element k of a row is folded into accumulator k mod FoldLanes
// for any number of lanes, so that a sum has the same bits on all processors.
const FoldLanes = 32

// Type is the type of a value.
type Type struct {
	DType tensor.DType // dtype of a lane; never complex
	// Mask is the number of bytes of a lane of a bool: 1, 2, 4 or 8. A bool is a mask, whose lanes are as wide as the
	// elements that it selects. Mask is 0 for other dtypes, which the docs call numbers.
	Mask uint8
}

// Size returns the number of bytes of a lane.
func (t Type) Size() int {
	if t.DType == tensor.Bool {
		return int(t.Mask)
	}
	return t.DType.Size()
}

// Value is the result of an instruction: its index in Block.Insts.
type Value int32

// None means that there is no value.
const None Value = -1

// Inst is an instruction. No padding separates its fields, so that a map hashes them as one piece of memory.
type Inst struct {
	A, B, C Value // operands, or None
	Ptr     int16 // for Load and Store: index in Block.Ptrs
	Type    Type  // type of the result; for Store, the dtype in memory, which may be complex
	// Imm has the bits of a Const, zero-extended. For a Load of a complex operand, 0 selects real parts and 1
	// imaginary parts.
	Imm   uint64
	Table *[32]float32 // for Lookup
	Op    Op
}

// PtrKind is the kind of the elements at a pointer.
type PtrKind uint8

// The kinds of pointers. The caller chooses the distance between rows for each pointer.
const (
	Operand     PtrKind = iota // the elements of a row, contiguous
	RowOperand                 // one element for the row, which a Load repeats in all lanes
	Output                     // the elements of a row, contiguous
	Accumulator                // the FoldLanes accumulators of a fold, or its total
)

// Ptr describes a pointer argument of the code.
type Ptr struct {
	DType tensor.DType // of the elements; Invalid for an output that is not stored
	Kind  PtrKind
}

// Block is straight-line code. Instructions are in the order of evaluation, which should keep few values live. Stores
// are last. An output may have the same address as an operand with elements of the same size.
type Block struct {
	Insts []Inst
	Ptrs  []Ptr

	uniform []bool         // indexed by value: whether all lanes of all iterations of a row are equal
	values  map[Inst]Value // the value of each instruction, to find equal ones
}

// Fold folds a value over a row. Op is Add, Mul, Min, Max, And or Or. Ptr is the index in Block.Ptrs of an Accumulator.
// A folded bool has a mask of 1 byte.
type Fold struct {
	Op    Op
	Value Value
	Ptr   int
}

// Loop executes a block for all elements of each row, and folds values over the row. Its pointers are the outputs, the
// operands, and the accumulators of each fold.
type Loop struct {
	Block
	Folds []Fold
	// CombinesLanes selects totals: the result of a fold is one number for each row, which is written to the pointer of
	// the fold. The accumulators of a row then start with [Neutral]. After the row, accumulator k is combined with
	// accumulator k+16, then with k+8, and so on. Otherwise the result is the accumulators, which are read first.
	CombinesLanes bool
}
