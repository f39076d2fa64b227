// Package target defines the interface between code generators and processors. A generator that chooses registers
// itself, such as package tile, writes its code through a [Writer]. Packages amd64/writer and arm64/writer implement
// it. Package vector, whose registers are assigned by package alloc, shares only [LoopOptions] and [ErrUnsupported].
package target

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

// Writer writes code with registers that the generator chooses. A Writer spills no register and keeps the order of the
// instructions. The first operand of a method is a source, and the operand `to` or `sum` is the destination. All
// vectors have elements of the size that the Writer was created for. Finish returns the first error of any method.
type Writer interface {
	// Declare states the role of registers until the end of the code. A register with two roles is an error.
	Declare(role string, registers ...Register)

	Move(from, to Int)             // to = from
	Add(from, to Int)              // to += from
	Sub(from Int, to GReg)         // to -= from
	Lea(addr Addr, to GReg)        // computes the address
	AlignDown(bytes int, to GReg)  // rounds down to a multiple of bytes, a power of two
	Prefetch(level int, addr Addr) // prefetches the cache line into the cache of level 1 or 2

	NewLabel() Label // returns a new label
	Bind(Label)      // places the label before the next instruction
	Align(bytes int) // aligns the next instruction
	Jump(Label)
	CompareJump(x GReg, y Int, c Cond, l Label)       // jumps if x has the relation to y; an Imm is 0 to 4095
	AddJump(n int64, to Int, c Cond, l Label)         // adds n, and jumps if the sum has the relation to 0
	CountDown(counter Int, c Cond, l Label)           // subtracts 1, and jumps if the difference has the relation to 0
	JumpIfBits(mask int64, value GReg, l Label)       // jumps if any bit of the mask is set in the value
	SetLanes(lanes Int, mask VReg, temporary [2]GReg) // sets the length of partial vectors; mask: see UsesVectorMasks
	Load(addr Addr, to VReg, partial bool)            // if partial, lanes beyond the count of SetLanes become 0
	LoadBytes(addr Addr, to VReg)                     // loads a signed byte for each lane, as int32
	ShiftLeft(n int, x, to VReg)                      // shifts int32
	ShiftRight(n int, x, to VReg)                     // shifts int32, and repeats the sign bit
	Store(from VReg, addr Addr, partial bool)         // if partial, lanes beyond the count of SetLanes are not written
	Broadcast(addr Addr, to VReg)                     // loads an element into all lanes
	BroadcastNumber(x float64, to VReg)               // sets all lanes to a constant
	Clear(to VReg)                                    // sets all lanes to 0
	Copy(from, to Source)                             // copies a whole vector; from or to is a register
	Op(op Op, x Source, y, to VReg)                   // to = the result of an operation, see Op
	Inst(name string, operands ...Source)             // writes an instruction by its name, for this processor only
	LoadElements(addr Addr, n int, to VReg)           // loads n adjacent elements, for FMAElement and Dot
	FMAElement(x Element, y, sum VReg)                // sum += x * y; x is broadcast
	FMABroadcast(addr Addr, y, sum VReg)              // sum += y * the broadcast element in memory; for 512-bit vectors
	Dot(x Element, y, sum VReg, signed bool)          // sum += the dot product of four bytes of x and of each lane of y
	ToFloats(v VReg)                                  // converts int32 to float32
	FMA(x Source, y, sum VReg)                        // sum += x * y, rounded once, in each lane
	Permutation(indices []int, to VReg)               // sets the permutation of Permute: indices of 32-bit words
	AddToIndices(n int, permutation VReg)             // adds n to all indices of a permutation
	Permute(addr Addr, permutation, to VReg)          // loads the words of a vector that the permutation selects
	Return()                                          // ends the function
	Finish() (jit.Code, error)                        // returns the code
}

// GReg is a general register. [Args] and the registers below [Generals] exist on all processors.
type GReg uint8

// Generals is the number of general registers, without Args.
const Generals = 13

// Args is the register with the address of [jit.Args], which code does not change.
const Args GReg = 0xFF

// VReg is a vector register, from 0; see [VectorRegisters].
type VReg uint8

// Register is a [GReg] or a [VReg].
type Register interface{ register() string }

// ArgsWord is a word of 64 bits in [jit.Args]. The value is its offset in bytes from the start of Args.
type ArgsWord int32

// Imm is an integer constant of 32 bits.
type Imm int64

// Int is an operand of integer instructions: a [GReg], an [ArgsWord] or, as a source, an [Imm].
type Int interface{ isInt() }

// Addr is the memory at Base + Index*Scale + Disp. Scale is 1, 2 or 4, or 0 without an index.
type Addr struct {
	Base, Index GReg
	Scale       uint8
	Disp        int
}

// Source is a whole vector: a [VReg], the vector at an [Addr], or, if it is only read, a [Constant].
type Source interface{ isSource() }

// Constant has the bytes of a constant vector, or of one element that is broadcast to all lanes.
type Constant string

// Element is a lane of a register that [Writer.LoadElements] has loaded.
type Element struct {
	Reg  VReg
	Lane int
}

// Label is a position in the code.
type Label int

// Op is an operation on vectors.
type Op uint8

// Operations. Sub is y - x. Max is y if y > x, else x. Min is y if y < x, else x. If x is a NaN, both are x.
const (
	Add Op = iota
	Sub
	Mul
	Max
	Min
)

// Cond is the relation of a result to 0 or, in CompareJump, of x to y.
type Cond uint8

// Relations.
const (
	NE Cond = iota
	LT
	LE
	GT
	GE
	EQ
)

// VectorRegisters returns the number of vector registers for generators, and their size in bytes. On arm64, the last of
// the 32 registers is a temporary of the Writer. Inlining is off: it would only enlarge the many callers.
//
//go:noinline
func VectorRegisters(cpu machine.Features) (count, bytes int) {
	switch {
	case cpu.Has(machine.AVX512):
		return 32, 64
	case cpu.Has(machine.NEON):
		return 31, 16
	}
	return 16, 32
}

// ElementsPerVector returns the maximum number of elements, of size bytes each, that [Writer.LoadElements] loads.
func ElementsPerVector(cpu machine.Features, size int) int {
	if cpu.Has(machine.NEON) {
		return 16 / size
	}
	return 1
}

// UsesVectorMasks reports whether a vector register selects the lanes of partial vectors: the mask of
// [Writer.SetLanes]. Otherwise a mask register or the length of the vector selects them, and no code uses the mask of
// SetLanes.
func UsesVectorMasks(cpu machine.Features) bool {
	return cpu.Has(machine.AVX2) && !cpu.Has(machine.Vector512)
}

// Roles records the declared roles of registers, and finds registers with two roles. It implements [Writer.Declare].
type Roles struct {
	roles map[Register]string
	err   error
}

// Declare implements [Writer].
func (r *Roles) Declare(role string, registers ...Register) {
	if r.roles == nil {
		r.roles = map[Register]string{}
	}
	for _, reg := range registers {
		general, isGeneral := reg.(GReg)
		if isGeneral && general >= Generals {
			r.Fail(fmt.Errorf("target: %s does not exist: the numbers are 0 to %d", reg.register(), Generals-1))
		}
		if other, declared := r.roles[reg]; declared {
			r.Fail(fmt.Errorf("target: %s is declared twice, as %s and as %s", reg.register(), other, role))
		}
		r.roles[reg] = role
	}
}

// Fail records an error.
func (r *Roles) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Err returns the first error.
func (r *Roles) Err() error { return r.err }

func (g GReg) register() string { return fmt.Sprintf("general register %d", g) }
func (v VReg) register() string { return fmt.Sprintf("vector register %d", v) }

func (GReg) isInt()     {}
func (ArgsWord) isInt() {}
func (Imm) isInt()      {}

func (VReg) isSource()     {}
func (Addr) isSource()     {}
func (Constant) isSource() {}
