// Package arm64 compiles loops of lane operations ([lane.Loop]) to machine code with NEON. [Compile] works in four
// steps:
//
//  1. Instructions are selected for each operation, for a pass: the code that computes a given number of adjacent
//     elements of a row (the files select*.go make [Lists]). Folds (reductions of the row) are added in two variants,
//     with accumulators in registers and in memory (folds.go).
//  2. The layout of the frame is searched (frame.go): the number of elements of a pass, the row constants (values that
//     are the same for all elements of a row) that stay in registers, and the place of accumulators. The search
//     minimises the estimated instructions per element.
//  3. Registers are allocated for each list (package internal/jit/alloc).
//  4. The loops over rows and elements are written (rows.go), with the allocated instructions (write.go). A
//     pseudo-instruction, such as a loop for a remainder, is expanded when it is written (expand.go).
//
// NEON has no masks for the tail of a row. The last elements are computed by passes of half the elements, a quarter,
// and so on, with narrower loads and stores.
package arm64

import "github.com/graphrun/graphrun/internal/jit/alloc"

// Lists are the instructions of a loop for passes of Lanes elements, on virtual registers of 16 bytes. A loop has Lists
// for several numbers of lanes, selected with one [alloc.Builder]: row constants (Builder.Row) and constants are common
// to all Lists of a loop. The generator adds folds, assigns registers, and writes addresses and loops.
//
// For example, for 8 lanes, the loop out = a + b of float32 has the following Lists. v1 and v2 are the parts of a, v3
// and v4 the parts of b. No instruction computes them: the allocator loads each with its Reload, an "ldr q".
//
//	Body      fadd 4s: v5 = v1, v3     fadd 4s: v6 = v2, v4
//	Stores    str q: v5 to offset 0    str q: v6 to offset 16
//
// A value of more than 16 bytes has a virtual register for each part of 16 bytes. A shorter value is in the low bytes
// of one register. The other bytes are zero after a load, and arbitrary after other instructions. A uniform value,
// which is the same for all elements, has one part with the value in all lanes.
//
// The body of a pass of Lanes elements is also written for passes of m elements, where m is a smaller power of two.
// Then only the bytes of the first m elements are loaded and stored, and instructions compute the other lanes from
// arbitrary bytes. Instructions must therefore have no effects other than their results.
//
// # Names
//
// The name of an instruction is its mnemonic in Arm's syntax and the kinds of its operands, the destination first:
// "fcvtl 4s 4h". The last kind in the name holds for all further operands: "fadd 4s" is short for "fadd 4s 4s 4s".
// Inst.Src or Form.Order gives the order of the sources. The kinds are:
//
//   - 16b 8b 8h 4h 4s 2s 2d: a vector;
//   - q d s h b: the lowest bytes of a vector register;
//   - b[i] h[i] s[i] d[i]: lane i;
//   - {16b}: a list of one vector, for tbl and tbx;
//   - #: an immediate, the Imm of the source; #lsl: a shift by an immediate; #0 and #0.0: zero, for which Src has no
//     entry.
//
// # Memory
//
// Loads are the Reload of a value: "ldr q" (or d, s, h, b: the size of a part), and "ld1r 4s" for one element that is
// broadcast to all lanes. Stores are "str q", "str d" and so on. In alloc.Mem, Index is the index of a pointer in
// lane.Block.Ptrs. The other fields depend on the field Space:
//
//   - AlongRow (elements along the row): ElementBytes is the size of an element in memory (8 or 16 bytes if it is
//     complex), Offset is the distance in bytes of the part from the first element of the pass, and Step is
//     Lanes*ElementBytes;
//   - PerRow (one element for each row): Offset is 0; for an imaginary part, it is the size of the real part in bytes;
//   - AccumulatorMemory: as AlongRow, for the accumulators;
//   - Constant: Data is the constant, 16 bytes. For zeros, the instruction is movi.
type Lists struct {
	Lanes  int            // elements of a pass
	Body   []alloc.Inst   // a pass without folds and stores
	Stores []alloc.Inst   // stores of a pass
	Parts  [][]alloc.Virt // by lane.Value: its parts
}

// Expansion writes the instructions of a pseudo-instruction (an [alloc.Inst] with an InstructionCount). args are the
// Args of its [alloc.Allocated]: the sources, the temporaries, and the destination.
type Expansion func(w *writer, args []alloc.Operand)
