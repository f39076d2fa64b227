// Package ir is an intermediate representation of kernels for devices (GPUs). A [Kernel] is structured code in static
// single assignment form that every thread of every group executes. A group is a set of threads that share memory and
// barriers: a thread block of CUDA, a workgroup of Vulkan.
//
// Package internal/lane, the representation of the compiler for processors, defines the scalar operations with
// their dtypes and rounding. Kernels contain only operations on the dtypes that all devices support: bool, and integers
// and floats of 32 and 64 bits. This package adds memory accesses, indices of threads, variables, control flow, memory
// of a group, and barriers.
//
// [Kernel.Run] interprets a kernel. It reports errors that a device does not report: accesses outside of memory,
// divergent barriers, and races in the memory of a group.
package ir

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Op is an operation. The operations below Param are the operations of package lane, with the same numbers.
type Op uint8

// These operations do not exist in package lane. A and B are the first and the second operand, Inst.Args[0] and
// Inst.Args[1]. Imm is Inst.Imm.
const (
	Param    Op = 64 + iota // parameter Imm of the kernel: an address, a uint64
	Thread                  // the index of the thread in its group, a uint32
	Group                   // the index of the group, a uint32
	MulHigh                 // the upper 32 bits of the product of two uint32
	Load                    // loads Imm words at address A, a multiple of their total size; the value is the first word
	Extract                 // word Imm of the Load A
	Store                   // stores the words Args[1:] at address Args[0], a multiple of their total size
	Var                     // a variable with the initial value A; ReadVar and WriteVar refer to its Value
	ReadVar                 // the value of variable A
	WriteVar                // sets variable A to B
	Loop                    // repeats the instructions up to its End
	Break                   // leaves the innermost Loop if A is true; must not be inside an If of that Loop
	If                      // executes the instructions up to its Else or End if A is true
	Else
	End
	Barrier     // waits until all threads of the group are at the barrier
	LoadShared  // element A of array Imm in the memory of the group
	StoreShared // sets element A of array Imm to B
	numOps
)

// MaxWords is the maximum number of words of a Load or a Store.
const MaxWords = 4

// Value is the result of an instruction: its index in Kernel.Insts.
type Value int32

// None means that there is no value.
const None Value = -1

// Inst is an instruction. Its index in Kernel.Insts is its Value.
type Inst struct {
	Op Op
	// DType is the dtype of the result. For Load and Store it is the dtype of a word in memory: uint8, uint16, uint32
	// or uint64. Words of less than 32 bits are zero-extended to uint32.
	DType tensor.DType
	Args  [1 + MaxWords]Value // the operands, and None in the unused elements
	Imm   uint64              // an immediate number if Op has one (see the operations), else 0
	Table *[32]float32        // the table of a lane.Lookup, else nil
}

// Array is an array in the memory of a group.
type Array struct {
	DType  tensor.DType // the dtype of an element
	Length int          // the number of elements
}

// Kernel is the code of a thread.
type Kernel struct {
	Insts     []Inst
	Params    int     // number of parameters, which are addresses
	GroupSize int     // number of threads in a group
	Shared    []Array // the memory that the threads of a group share
}

// Digest returns a hash of the kernel. Kernels with equal hashes have the same code.
func (k *Kernel) Digest() [sha256.Size]byte {
	encoded := fmt.Append(nil, k.Params, k.GroupSize, k.Shared)
	for _, inst := range k.Insts {
		encoded = append(encoded, byte(inst.Op), byte(inst.DType))
		for _, operand := range inst.Args {
			encoded = binary.LittleEndian.AppendUint32(encoded, uint32(operand))
		}
		encoded = binary.LittleEndian.AppendUint64(encoded, inst.Imm)
		if inst.Table != nil {
			for _, entry := range inst.Table {
				encoded = binary.LittleEndian.AppendUint32(encoded, math.Float32bits(entry))
			}
		}
	}
	return sha256.Sum256(encoded)
}

// Operands returns the operands of an instruction.
func (i *Inst) Operands() []Value {
	count := 0
	for count < len(i.Args) && i.Args[count] != None {
		count++
	}
	return i.Args[:count]
}

// IsLaneOp reports whether package lane has the operation.
func (o Op) IsLaneOp() bool { return o < Param }

// opNames has the names that listings use for the operations from Param on. Some names are shorter than the constant:
// part for Extract, get for ReadVar.
var opNames = [...]string{"param", "thread", "group", "mulhigh", "load", "part", "store", "var", "get", "set", "loop",
	"break", "if", "else", "end", "barrier", "loadshared", "storeshared"}

// String returns the name of the operation.
func (o Op) String() string {
	switch {
	case o.IsLaneOp():
		return lane.Op(o).String()
	case o < numOps:
		return opNames[o-Param]
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// HasResult reports whether the operation has a result that other instructions use.
func (o Op) HasResult() bool {
	switch o {
	case Store, WriteVar, Loop, Break, If, Else, End, Barrier, StoreShared:
		return false
	}
	return true
}

// Register returns the dtype of a loaded word: uint32 for words of 8 and 16 bits, else the dtype of the word in memory.
func Register(inMemory tensor.DType) tensor.DType {
	if inMemory == tensor.Uint8 || inMemory == tensor.Uint16 {
		return tensor.Uint32
	}
	return inMemory
}

// Type returns the dtype of a value. For a Load, this is the dtype of its first word after zero extension.
func (k *Kernel) Type(v Value) tensor.DType { return Register(k.Insts[v].DType) }
