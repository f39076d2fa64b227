// Package alloc is the register allocator of the code generators for loops over rows (packages amd64, arm64 and
// winograd). It assigns registers to lists of instructions without jumps. A generator selects instructions ([Inst]) on
// virtual registers ([Virt]). [Run] replaces virtual by real registers ([Allocated]). The generator then writes the
// result with its assembler. The allocator does not depend on the processor: it knows the number of registers of each
// class, but not the meaning of instruction names.
//
// If no register is free, the value whose next use is farthest is evicted (Belady's rule). A value that a single
// load can restore is loaded again, or folded: it becomes a memory operand of the instruction that uses it. Other
// values are spilled to slots, places in memory.
package alloc

// Virt is the number of a virtual register. A virtual register has one value, so comments also call it a value. If a
// target splits a value of the loop into several registers, each part has a Virt. 0 means none.
type Virt int32

// Class is a class of registers.
type Class uint8

// Classes of registers.
const (
	Vectors    Class = iota
	Masks            // mask registers of AVX-512; other targets have none
	numClasses = 2
)

// Value describes a virtual register and the ways to restore its contents.
type Value struct {
	Class     Class
	Bytes     uint8   // size of the vector register in bytes
	Invariant bool    // a row constant: the same for all elements of a row
	Constant  bool    // the same for all calls
	Reload    *Reload // the single load that computes the value; nil if the value needs other instructions
	Acc       *Acc    // set for accumulators, whose registers the generator chooses; nil for other values
}

// Acc is the accumulator of a reduction of the row (or a part of the accumulator) in one of several interleaved
// iterations. An accumulator has several registers, and successive iterations use successive registers, so that their
// latencies overlap. For example, with two interleaved iterations, accumulator 0 has the Accs {0, v, 0} and {0, v, 1}.
// v is the virtual register of the accumulator in the first iteration.
type Acc struct {
	Index     int  // number of the accumulator in the loop
	Virt      Virt // the accumulator in the first interleaved iteration; equal for all interleaved iterations
	Iteration int  // number of the iteration among interleaved iterations
}

// Reload is a load that computes a value (such as an element of an operand), or that restores a spilled value. A value
// with a Reload needs no instruction in the list: Run inserts the load before its use.
type Reload struct {
	Name           string // name of the load instruction; empty for a slot
	Mem            Mem
	Foldable       bool  // an instruction may have the memory as an operand
	BroadcastBytes uint8 // size in bytes of the element that the load broadcasts; 0 if it loads a whole vector
}

// Space is the kind of memory that a memory operand accesses.
type Space uint8

// Spaces of memory operands. "Row" stands for a row of the loop that the code computes.
const (
	AlongRow          Space = iota + 1 // elements along the row, of an output or of memory that may overlap an output
	AlongRowReadOnly                   // elements along the row that share no memory with an output
	PerRow                             // one element for the whole row
	Constant                           // data that is stored after the code
	Slot                               // a spilled value
	AccumulatorMemory                  // accumulators; element k of the row uses accumulator k modulo their number
)

// advancesPerIteration reports whether each iteration accesses other elements, so that a register cannot keep them for
// the next iteration.
func (s Space) advancesPerIteration() bool {
	return s == AlongRow || s == AlongRowReadOnly || s == AccumulatorMemory
}

// Mem is a memory operand. Its address is symbolic and may depend on the iteration: the target computes the concrete
// address when it writes the instruction. Along the row, the address is pointer + iteration*Step + Offset.
type Mem struct {
	Space        Space
	Index        int    // Slot: number of the slot; others: number of the pointer
	Offset       int32  // in bytes
	Step         int32  // bytes between the accesses of successive iterations
	Data         string // contents of a Constant
	Part         uint8  // for complex elements: 1 or 2, the first or second half of an iteration's elements; else 0
	Row          int8   // for a tile (package winograd): row and column of the element
	Col          int8
	ElementBytes uint8 // size of an element in bytes
}

// After returns the memory that the same instruction accesses the given number of iterations later.
func (m Mem) After(iterations int) Mem {
	m.Offset += int32(iterations) * m.Step
	return m
}

// Arg is a source of an instruction: a value or, if Virt is 0, an immediate.
type Arg struct {
	Virt  Virt
	Bytes uint8 // number of bytes of the register that are read; 0 means all
	Imm   int64
}

// Sources returns values as the sources of an instruction.
func Sources(values ...Virt) []Arg {
	args := make([]Arg, len(values))
	for k, value := range values {
		args[k].Virt = value
	}
	return args
}

// Inst is an instruction on virtual registers. For example, VADDPS of the values 1 and 2 has the sources 1 and 2, and
// the destination 3, a new value.
type Inst struct {
	Name        string
	Src         []Arg // in the order in which the target's assembler writes them
	Dst         Virt  // 0 for a store
	Tied        Virt  // the value that the register of Dst must hold before the instruction, which overwrites it; or 0
	Mask        Virt  // the mask of the elements that are written, or 0
	ZeroMasking bool  // elements outside the mask become 0; otherwise they keep their values

	FoldableSource int8  // index of the source that may be a memory operand, or -1; unused without RegisterFile.FoldLoads
	Commutative    bool  // sources FoldableSource and FoldableSource+1 may be exchanged
	BroadcastBytes uint8 // size in bytes of an element that a memory operand may broadcast, or 0

	// Forms, if not nil, are alternatives of an instruction with a tied source, in descending order of preference.
	// Name, Tied, Mask and Commutative are then unused. If FoldableSource is not negative, source Order[0] of the form
	// may be a memory operand.
	Forms []Form

	Store       *Mem   // for a store: its destination
	NonTemporal string // name of the non-temporal form of a store, or empty

	// InstructionCount is the number of instructions that the target writes for a pseudo-instruction; 0 for a real
	// instruction.
	InstructionCount uint8

	EarlyClobber bool              // the instruction writes Dst before it has read all sources
	TempCounts   [numClasses]uint8 // temporary registers by class, which differ from all operands; they imply EarlyClobber
}

// Form is an alternative of an instruction with three sources. The result overwrites source Tied. The other operands
// are the sources Order[0] and Order[1], in this order. Tied and Order are indices in Inst.Src. Examples are
// multiply-add on amd64 (213, 231, 132) and select on arm64 (BSL, BIT, BIF). With the sources x, y and sum, for
// example, VFMADD231PS has Tied 2 and Order {0, 1}: it overwrites sum.
type Form struct {
	Name  string
	Tied  int8
	Order [2]int8
}

// Move is the name of a pseudo-instruction that sets Dst to Src[0]. It becomes a load or a copy.
const Move = "move"

// eachUse calls visit for each value that the instruction reads, and with 0 for operands that are absent or immediate.
func (in *Inst) eachUse(visit func(Virt)) {
	for _, source := range in.Src {
		visit(source.Virt)
	}
	visit(in.Tied)
	visit(in.Mask)
}
