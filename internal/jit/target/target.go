// Package target defines the interface between code generators and processors. Generators that choose registers
// themselves, such as package tile, write code through a [Writer], which amd64/writer and arm64/writer implement. The
// generator of loops, package vector, has no Writer, because package alloc chooses its registers. It uses [LoopOptions]
// and [ErrUnsupported].
package target

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

// Writer writes code with registers that the generator chooses. A Writer spills no register and keeps the order of the
// instructions. Methods write the operand `to` or `sum`, and only read their other operands, unless a comment says
// otherwise. All vectors have elements of the size that the Writer was created for. Finish returns the first error of
// any method.
type Writer interface {
	// Declare states the role of registers until the end of the code. A register with two roles is an error.
	Declare(role string, registers ...Register)

	// Integers.

	Move(from, to Int)            // to = from
	Add(from, to Int)             // to += from
	Sub(from Int, to GReg)        // to -= from
	Lea(addr Addr, to GReg)       // computes the address
	AlignDown(bytes int, to GReg) // rounds down to a multiple of bytes, a power of two

	// Labels and jumps.

	NewLabel() Label                                 // returns a new label
	Bind(Label)                                      // places the label before the next instruction
	Align(bytes int)                                 // aligns the next instruction
	Jump(Label)                                      // jumps to the label
	AddJump(n int64, to Int, relation Cond, l Label) // to += n, and jumps if the relation holds between to and 0
	CountDown(counter Int, relation Cond, l Label)   // counter--, and jumps if the relation holds between counter and 0
	JumpIfBits(mask int64, value GReg, l Label)      // jumps if any bit of the mask is set in the value
	// CompareJump jumps if the relation holds between x and y. An Imm y is 0 to 4095, the range of arm64's CMP.
	CompareJump(x GReg, y Int, relation Cond, l Label)
	Return() // ends the function

	// Loads, stores and copies of vectors.

	Load(addr Addr, to VReg, partial bool)    // if partial, lanes beyond the count given to SetLanes become 0
	Store(from VReg, addr Addr, partial bool) // writes memory; if partial, lanes beyond that count are not written
	// SetLanes sets the number of valid lanes of partial vectors. It uses mask only if [UsesVectorMasks].
	SetLanes(lanes Int, mask VReg, temporary [2]GReg)
	LoadBytes(addr Addr, to VReg)             // loads a signed byte for each lane, as int32
	LoadHalves(half Half, addr Addr, to VReg) // loads a 16-bit float for each lane, as float32
	LoadElements(addr Addr, n int, to VReg)   // loads n adjacent elements, for FMAElement and Dot
	Broadcast(addr Addr, to VReg)             // loads an element into all lanes
	BroadcastNumber(x float64, to VReg)       // sets all lanes to a constant
	Clear(to VReg)                            // sets all lanes to 0
	Copy(from, to Source)                     // copies a whole vector; from or to is a register
	Prefetch(level int, addr Addr)            // prefetches the cache line into the cache of level L1 or L2

	// Arithmetic of vectors.

	Op(op Op, x Source, y, to VReg)      // to = the result of an operation, see Op
	FMA(x Source, y, sum VReg)           // sum += x * y, rounded once, in each lane
	FMAElement(x Element, y, sum VReg)   // sum += x * y; x is broadcast
	FMABroadcast(addr Addr, y, sum VReg) // sum += y * the broadcast element in memory; for 512-bit vectors
	ShiftLeft(n int, x, to VReg)         // shifts int32
	ShiftRight(n int, x, to VReg)        // shifts int32, filling with the sign bit
	ToFloats(v VReg)                     // converts the lanes of v in place, from int32 to float32
	// Dot adds to each lane of sum the dot product of the four bytes of x and the four bytes of the lane in y. The bytes
	// of x are signed if isSigned, otherwise unsigned. The bytes of y are signed.
	Dot(x Element, y, sum VReg, isSigned bool)

	// Permutation loads a permutation: the indices of the 32-bit words that Permute selects.
	Permutation(indices []int, to VReg)
	AddToIndices(n int, permutation VReg)    // adds n to all indices of a permutation
	Permute(addr Addr, permutation, to VReg) // loads the words of a vector that the permutation selects

	Inst(name string, operands ...Source) // writes an instruction by its name, for this processor only
	Finish() (jit.Code, error)            // returns the code
}

// Half is a format of 16-bit floats.
type Half uint8

// Formats of 16-bit floats. NotHalf stands for floats of another size.
const (
	NotHalf Half = iota
	Float16
	BFloat16
)

// Values of the argument level of Prefetch.
const (
	L1 = 1
	L2 = 2
)

// GReg is a general register. [Args] and the registers below [GeneralRegisters] exist on all processors.
type GReg uint8

// GeneralRegisters is the number of general registers, without Args.
const GeneralRegisters = 13

// Args is the register with the address of [jit.Args], which code does not change.
const Args GReg = 0xFF

// VReg is a vector register, from 0; see [VectorRegisters].
type VReg uint8

// Register is a [GReg] or a [VReg].
type Register interface{ register() string }

// ArgsWord is a word of 64 bits in [jit.Args]. The value is its offset in bytes from the start of Args.
type ArgsWord int32

// Imm is an integer constant. Its value must fit in 32 bits.
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

// Operations. Sub is y - x. Max is y if y > x, else x. Min is y if y < x, else x. Max and Min are x if x or y is a NaN.
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

// MaxLoadedElements returns the maximum number of elements, of size bytes each, that [Writer.LoadElements] loads. On
// amd64 it is 1, because FMAElement and Dot cannot select a lane.
func MaxLoadedElements(cpu machine.Features, size int) int {
	if cpu.Has(machine.NEON) {
		return 16 / size
	}
	return 1
}

// UsesVectorMasks reports whether a vector register selects the lanes of partial vectors: the mask of
// [Writer.SetLanes]. Otherwise the Writer selects lanes by a mask register or by shorter loads, and ignores the
// argument mask of SetLanes.
func UsesVectorMasks(cpu machine.Features) bool {
	return cpu.Has(machine.AVX2) && !cpu.Has(machine.AVX512)
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
		if isGeneral && general >= GeneralRegisters {
			r.Fail(fmt.Errorf("target: %s does not exist: the numbers are 0 to %d", reg.register(), GeneralRegisters-1))
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
