// Package amd64 compiles loops of lane operations ([lane.Loop]) to machine code with AVX-512 or AVX2. [Compile] works
// in four steps:
//
//  1. Instructions are selected for each operation (lower.go, arith.go, bools.go, integer.go, convert.go, memory.go,
//     complex.go, remainder.go, lookup.go; totals.go for folds). Row constants (values that depend only on constants
//     and uniform operands) are computed once per row.
//  2. Registers are allocated along the body, which has no jumps (package internal/jit/alloc).
//  3. The number of row constants in registers is chosen by trial (frame.go, allocate.go), and two or four passes are
//     interleaved if that causes little spilling.
//  4. The loops over elements and rows are written (emit.go, tail.go), and the allocated instructions (write.go).
//
// A pass computes 16 elements with AVX-512 and 8 with AVX2. It computes half of this number if a value has 64 bits.
// Every value then occupies one register. Integers of fewer than 32 bits are in lanes of 32 bits, and are sign- or
// zero-extended only if the extension affects results. All masks of a loop have the same form, and lane.Remask needs no
// instruction. The tail of a row is the elements after the last full pass. It is computed under masks, so that no byte
// beyond an operand is accessed.
//
// The body is the instructions of a full pass. The main loop is unrolled: an iteration has one or more passes, and two
// or four of them may be interleaved. Package alloc calls a pass an iteration. A fold (a reduction of the rows)
// combines element k of a row with accumulator k modulo [lane.FoldLanes]. In a loop with totals
// (lane.Loop.CombinesLanes), a fold gives one number for each row.
package amd64

import (
	"encoding/binary"
	"strings"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// generator generates the code of one loop: it selects instructions, allocates registers, and writes the code. In its
// methods, laneBytes is the size of a lane and width is the size of a vector, both in bytes. In the methods that add an
// instruction, laneBytes is also the size of an element that a memory operand may broadcast.
type generator struct {
	alloc.Builder
	loop        *lane.Loop
	options     target.LoopOptions
	has64Bits   bool   // a value has 64 bits
	lanes       int    // number of elements of a pass
	avx512      bool   // AVX-512: masks, 32 registers of 512 bits
	outputCount int    // number of outputs, whose pointers are first
	advances    []bool // by pointer: whether it is used and advances along rows

	// The selected instructions. Builder.Body has the other instructions of a pass.
	foldInsts     [3][]alloc.Inst // folds of a pass: foldsInMemory, foldsInRegisters, foldsInTail
	stores        []alloc.Inst    // stores of a pass
	tailInsts     []alloc.Inst    // all instructions of a tail pass
	accInitInsts  []alloc.Inst    // initialization of accumulator registers
	accStoreInsts []alloc.Inst    // stores of accumulator registers

	// Values that are already selected.
	selected        []*laneValue              // by lane.Value: its register; nil before its instructions are selected
	complexOperands map[int][2]alloc.Virt     // by pointer of a complex operand: its real and imaginary parts
	constants       map[alloc.Mem]alloc.Virt  // by contents: the value of the constant
	bools           [2]*laneValue             // the constants false and true
	bitMasks        map[bitKey]alloc.Virt     // the mask of the lanes in which a bit is set
	lookups         map[lookupKey]alloc.Virt  // the results of lookups
	tableOffsets    map[alloc.Virt]alloc.Virt // by index value: the byte offsets of rows of tables
	tables          []string                  // contents of the tables of lookupRows
	accs            []*alloc.Acc              // the accumulators of folds
	tailLanes       alloc.Virt                // mask of the lanes that have elements in a tail; 0 if none needs it

	err error // the first error

	// Pointers (pointers.go). The spill area is memory for vectors.
	pointerRegisters []asm.Reg   // by pointer: one of bases, or regTemp if the pointer is in the spill area
	bounceVectors    map[int]int // by pointer: index of the spill vector that buffers an unmasked tail
	hasWideElements  bool        // an operand or output has elements of 16 bytes
	reservedSlots    int         // number of spill vectors with pointers or bounce buffers; they are the first ones

	// Passes and their registers (frame.go).
	rowConstants       []alloc.Virt // in descending order of their number of uses
	accSets            int          // number of sets of accumulator registers; successive passes use different sets
	interleavedPasses  int          // number of interleaved passes in bodyCode
	passesPerIteration int          // number of passes in one iteration of the main loop
	frame

	// The written code, and the state of the functions that write it.
	asm               *asm.Assembler
	extraExecuted     int      // number of instructions that nested loops execute after their first iteration
	work              jit.Work // bound on the number of executed instructions
	inTail            bool     // loads and stores are masked, and the addresses of accumulators depend on regIndex
	writesNonTemporal bool     // stores are non-temporal
	firstAccSet       int      // number of the accumulator set that the current pass uses
}

// Indices of generator.foldInsts.
const (
	foldsInMemory    = iota // full passes with accumulators in memory
	foldsInRegisters        // full passes with accumulators in registers
	foldsInTail             // passes of a tail
)

// noFoldableSource is the value of alloc.Inst.FoldableSource for instructions without a memory operand. Otherwise the
// field has the index of the source whose load may become a memory operand: 0, or 1 if source 0 is an immediate.
const noFoldableSource = -1

// noBroadcast is the argument laneBytes for instructions whose memory operand is a whole vector.
const noBroadcast = 0

// laneValue describes the register that holds a value of the loop. Integers of fewer than 32 bits are in 32-bit lanes,
// sign- or zero-extended unless hasUndefinedHighBits is set. 16-bit floats are zero-extended to 32-bit lanes in the
// register `reg`, or in lanes of 16 bits in the register `packed`, or both. With AVX-512, bools are mask registers.
// Without AVX-512, all bits of a bool's lane are equal, and all bools of a loop have lanes of the same width
// (widestLaneBytes).
type laneValue struct {
	reg                  alloc.Virt // 0 if only packed exists
	hasUndefinedHighBits bool       // the bits of a lane above the bits of the dtype are undefined
	packed               alloc.Virt // 0 if only reg exists
	dtype                tensor.DType
}

// Compile compiles a loop. The error wraps [target.ErrUnsupported] if the loop needs more registers or memory than
// there are.
func Compile(loop *lane.Loop, cpu machine.Features, options target.LoopOptions, withListing bool) (jit.Code, error) {
	g := newGenerator(loop, cpu, options)
	if err := g.lower(); err != nil {
		return jit.Code{}, err
	}
	g.asm = &asm.Assembler{NoEVEX: !cpu.Has(machine.Vector512), WithListing: withListing}
	if err := g.emit(); err != nil {
		return jit.Code{}, err
	}
	g.frame.free()
	code, err := jit.Finish(g.asm)
	code.Work = g.work
	return code, err
}

// newGenerator returns the generator of a loop. It chooses the number of elements of a pass.
func newGenerator(loop *lane.Loop, cpu machine.Features, options target.LoopOptions) *generator {
	g := &generator{loop: loop, options: options, avx512: cpu.Has(machine.Vector512),
		complexOperands: map[int][2]alloc.Virt{}, constants: map[alloc.Mem]alloc.Virt{},
		bitMasks: map[bitKey]alloc.Virt{}, lookups: map[lookupKey]alloc.Virt{},
		tableOffsets: map[alloc.Virt]alloc.Virt{}}
	for _, ptr := range loop.Ptrs {
		if ptr.Kind == lane.Output {
			g.outputCount++
		}
	}
	g.advances = make([]bool, len(loop.Ptrs)+1) // the last one is the row counter
	for k := range loop.Insts {
		inst := &loop.Insts[k]
		if inst.Op == lane.Load || inst.Op == lane.Store {
			g.advances[inst.Ptr] = loop.Ptrs[inst.Ptr].Kind != lane.RowOperand
		}
		switch {
		case inst.Op == lane.Store: // no value; its type may be complex
		case inst.Op == lane.Div && (inst.Type.DType == tensor.Int32 || inst.Type.DType == tensor.Uint32):
			g.has64Bits = true // the division is in float64
		case inst.Type.DType.Size() == 8:
			g.has64Bits = true
		}
	}
	g.lanes = 8
	if g.avx512 {
		g.lanes = 16
	}
	if g.has64Bits {
		g.lanes /= 2
	}
	g.selected = make([]*laneValue, len(loop.Insts))
	return g
}

// fail records the first error.
func (g *generator) fail(format string, args ...any) {
	if g.err == nil {
		g.err = target.Unsupported(format, args...)
	}
}

// laneSize returns the size in bytes of an element in a register.
func laneSize(dtype tensor.DType) int {
	if dtype.Size() == 8 {
		return 8
	}
	return 4
}

// width returns the size in bytes of a register with g.lanes lanes of the given size: at least 16, the smallest size.
func (g *generator) width(laneBytes int) uint8 { return uint8(max(g.lanes*laneBytes, 16)) }

// widestLaneBytes returns the size in bytes of the lanes of the loop's widest values. Without AVX-512, bools have lanes
// of this size, too.
func (g *generator) widestLaneBytes() int {
	if g.has64Bits {
		return 8
	}
	return 4
}

// boolRegister returns the description of a virtual register that holds bools.
func (g *generator) boolRegister() alloc.Value {
	if g.avx512 {
		return alloc.Value{Class: alloc.Masks}
	}
	return alloc.Value{Bytes: g.width(g.widestLaneBytes())}
}

// newVector adds a virtual register for a vector of the given width in bytes. Inlining is off: it would only enlarge
// the many callers.
//
//go:noinline
func (g *generator) newVector(width uint8) alloc.Virt { return g.New(alloc.Value{Bytes: width}) }

// newVectorLike adds a virtual register for a vector as wide as v.
func (g *generator) newVectorLike(v alloc.Virt) alloc.Virt { return g.newVector(g.Values[v].Bytes) }

// withImmediate returns an immediate and values as the sources of an instruction.
func withImmediate(imm int64, values ...alloc.Virt) []alloc.Arg {
	return append([]alloc.Arg{{Imm: imm}}, alloc.Sources(values...)...)
}

// binaryOp adds an operation on two vectors. Operands are in the order of Go's assembler: a - b has the sources b, a.
func (g *generator) binaryOp(name string, laneBytes int, b, a alloc.Virt) alloc.Virt {
	return g.Add(alloc.Inst{Name: name, Src: alloc.Sources(b, a), Dst: g.newVectorLike(a),
		BroadcastBytes: uint8(laneBytes)})
}

// commutativeOp adds a commutative operation on two vectors.
func (g *generator) commutativeOp(name string, laneBytes int, a, b alloc.Virt) alloc.Virt {
	return g.Add(alloc.Inst{Name: name, Src: alloc.Sources(b, a), Dst: g.newVectorLike(a),
		Commutative: true, BroadcastBytes: uint8(laneBytes)})
}

// unaryOp adds an operation on one vector.
func (g *generator) unaryOp(name string, laneBytes int, a alloc.Virt) alloc.Virt {
	return g.Add(alloc.Inst{Name: name, Src: alloc.Sources(a), Dst: g.newVectorLike(a),
		BroadcastBytes: uint8(laneBytes)})
}

// immediateOp adds an operation on an immediate and a vector. The vector must be in a register, because shifts in VEX
// encoding have no memory operand.
func (g *generator) immediateOp(name string, imm int64, a alloc.Virt) alloc.Virt {
	return g.Add(alloc.Inst{Name: name, Src: withImmediate(imm, a), Dst: g.newVectorLike(a),
		FoldableSource: noFoldableSource})
}

// shuffle adds an operation on an immediate and the vectors a and b. Only b may be a memory operand (source 1).
func (g *generator) shuffle(name string, imm int64, b, a alloc.Virt) alloc.Virt {
	return g.Add(alloc.Inst{Name: name, Src: withImmediate(imm, b, a), Dst: g.newVectorLike(a),
		FoldableSource: 1})
}

// upperHalf returns the upper half of a vector of 32 bytes.
func (g *generator) upperHalf(x alloc.Virt) alloc.Virt {
	const upper = 1
	return g.Add(alloc.Inst{Name: "VEXTRACTI128", Src: withImmediate(upper, x), Dst: g.newVector(16),
		FoldableSource: noFoldableSource})
}

// convertOp adds an operation on one vector. Its result has the given width in bytes.
func (g *generator) convertOp(name string, width uint8, laneBytes int, a alloc.Virt) alloc.Virt {
	return g.Add(alloc.Inst{Name: name, Src: alloc.Sources(a), Dst: g.newVector(width), BroadcastBytes: uint8(laneBytes)})
}

// constLanes returns a constant with x in all lanes.
func (g *generator) constLanes(laneBytes int, x uint64) alloc.Virt {
	element := binary.LittleEndian.AppendUint64(nil, x)[:laneBytes]
	width := g.width(laneBytes)
	if g.avx512 {
		name := "VBROADCASTSS"
		if laneBytes == 8 {
			name = "VBROADCASTSD"
		}
		return g.constant(name, width, laneBytes, string(element))
	}
	return g.constant("VMOVUPS", width, noBroadcast, strings.Repeat(string(element), int(width)/laneBytes))
}

// constant returns a constant of the given width, which the instruction with the given name loads from data. Unless
// laneBytes is noBroadcast, data is one element, which the instruction broadcasts.
func (g *generator) constant(name string, width uint8, laneBytes int, data string) alloc.Virt {
	key := alloc.Mem{Space: alloc.Constant, Data: data, Index: int(width)} // the field Index holds the width
	if v, ok := g.constants[key]; ok {
		return v
	}
	mem := alloc.Mem{Space: alloc.Constant, Data: data}
	reload := &alloc.Reload{Name: name, Mem: mem, BroadcastBytes: uint8(laneBytes), Foldable: true}
	v := g.New(alloc.Value{Bytes: width, Invariant: true, Constant: true, Reload: reload})
	g.constants[key] = v
	return v
}

// constantVector returns a constant vector with the given bytes.
func (g *generator) constantVector(data []byte) alloc.Virt {
	return g.constant("VMOVUPS", uint8(len(data)), noBroadcast, string(data))
}

// floatSuffix returns the suffix of float instructions: PS for lanes of 4 bytes, PD for 8.
func floatSuffix(laneBytes int) string {
	if laneBytes == 8 {
		return "PD"
	}
	return "PS"
}

// intSuffix returns the suffix of integer instructions: D for lanes of 4 bytes, Q for 8.
func intSuffix(laneBytes int) string {
	if laneBytes == 8 {
		return "Q"
	}
	return "D"
}

// selectedValue returns the register of a value of the loop.
func (g *generator) selectedValue(v lane.Value) *laneValue { return g.selected[v] }

// extendedReg returns the register of a value, with the bits above its dtype sign- or zero-extended. It records the
// register in the value, so that the extension is done once.
func (g *generator) extendedReg(value *laneValue) alloc.Virt {
	if !value.hasUndefinedHighBits {
		return g.unpackedReg(value)
	}
	dtype := value.dtype
	if dtype.IsSigned() && !dtype.IsFloat() {
		shift := int64(32 - 8*dtype.Size())
		value.reg = g.immediateOp("VPSRAD", shift, g.immediateOp("VPSLLD", shift, value.reg))
	} else {
		value.reg = g.and(4, value.reg, g.constLanes(4, 1<<(8*dtype.Size())-1))
	}
	value.hasUndefinedHighBits = false
	return value.reg
}

// unpackedReg returns the register `reg` of a value. If only the register `packed` exists, it adds the instruction that
// unpacks that register.
func (g *generator) unpackedReg(value *laneValue) alloc.Virt {
	if value.reg == 0 && value.packed != 0 {
		value.reg = g.convertOp("VPMOVZXWD", g.width(4), noBroadcast, value.packed)
	}
	return value.reg
}

// logicOp adds a bitwise operation. With AVX-512, the name of the instruction gets a suffix for the size of the lanes.
func (g *generator) logicOp(name string, laneBytes int, a, b alloc.Virt) alloc.Virt {
	if g.avx512 {
		name += intSuffix(laneBytes)
	}
	return g.commutativeOp(name, laneBytes, a, b)
}

func (g *generator) and(laneBytes int, a, b alloc.Virt) alloc.Virt {
	return g.logicOp("VPAND", laneBytes, a, b)
}

func (g *generator) or(laneBytes int, a, b alloc.Virt) alloc.Virt {
	return g.logicOp("VPOR", laneBytes, a, b)
}

func (g *generator) xor(laneBytes int, a, b alloc.Virt) alloc.Virt {
	return g.logicOp("VPXOR", laneBytes, a, b)
}
