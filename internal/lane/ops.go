package lane

import (
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// Op is an operation. A, B and C are the operands of its instruction. Unless stated otherwise, operands and result have
// the same dtype. Integers wrap. A bool is a mask, whose lanes are as wide as the elements that it selects.
type Op uint8

// The operations. The operations up to Lookup are the primitive operations of package expr, and have the same numeric
// values.
const (
	Invalid Op = iota
	Const      // the number whose bits are Imm
	Load       // elements at pointer Ptr
	Convert    // A converted to another dtype, by the rules of c10::convert, rounded to nearest even
	Bits       // A reinterpreted as another dtype of the same size; neither is bool
	Add
	Sub
	Mul
	Div // truncated for integers; integer division by 0 is unspecified
	FMA // A*B + C of floats, rounded once; other products and sums are never contracted
	Neg
	Abs  // the least integer is its own absolute value
	Sqrt // of floats, correctly rounded
	Min  // A if A is NaN or less than B, else B
	Max  // A if A is NaN or greater than B, else B
	Floor
	Ceil
	Trunc
	Rint // to nearest, ties to even
	And  // bitwise
	Or
	Xor
	Not
	Shl // shifts A by B modulo the width of the dtype
	Shr // shifts A by B modulo the width of the dtype; arithmetic for signed integers, else logical
	Eq  // Eq, Ne, Lt and Le give a mask as wide as the operands; if an operand is NaN, only Ne is true
	Ne
	Lt
	Le
	Select // B if A is true, else C; the lanes of the mask A are as wide as the lanes of B and C
	Mod    // the C function fmod: exact, with the sign of A
	Scale  // A*2^floor(B) of floats, rounded once; unspecified if B is infinite and A is 0 or NaN
	Limit  // for floats: A if |A| < |B|, else |B| with the sign of A; for a NaN A, |B| with any sign
	Lookup // for float32: entry (bits of A) mod 32 of Table
	Store  // A, or the complex numbers with the parts A and B, to pointer Ptr; no result
	Remask // mask A with lanes of another width
	numOps
)

// DTypes is a set of dtypes.
type DTypes uint32

// dtypes returns the set of the given dtypes.
func dtypes(list ...tensor.DType) (s DTypes) {
	for _, dtype := range list {
		s |= 1 << dtype
	}
	return s
}

// Has reports whether the set contains a dtype.
func (s DTypes) Has(dtype tensor.DType) bool { return s>>dtype&1 != 0 }

var (
	bools    = dtypes(tensor.Bool)
	floats   = dtypes(tensor.Float32, tensor.Float64)
	halves   = dtypes(tensor.Float16, tensor.BFloat16)
	integers = dtypes(tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint16, tensor.Uint32,
		tensor.Uint64)
	numbers  = floats | integers
	reals    = numbers | halves | bools
	computed = numbers | bools // float16 and bfloat16 are converted before any computation
)

// Info describes an operation.
type Info struct {
	Name          string
	Args          int    // number of operands; a Store of complex numbers has one more
	OperandDTypes DTypes // dtypes of the operands (for a Select, of the second and third operand)
}

// Ops describes all operations.
var Ops = [numOps]Info{
	Invalid: {"invalid", 0, 0},
	Const:   {"const", 0, 0},
	Load:    {"load", 0, 0},
	Convert: {"convert", 1, reals},
	Bits:    {"bits", 1, reals &^ bools},
	Add:     {"add", 2, numbers},
	Sub:     {"sub", 2, numbers},
	Mul:     {"mul", 2, numbers},
	Div:     {"div", 2, numbers},
	FMA:     {"fma", 3, floats},
	Neg:     {"neg", 1, numbers},
	Abs:     {"abs", 1, numbers},
	Sqrt:    {"sqrt", 1, floats},
	Min:     {"min", 2, numbers},
	Max:     {"max", 2, numbers},
	Floor:   {"floor", 1, floats},
	Ceil:    {"ceil", 1, floats},
	Trunc:   {"trunc", 1, floats},
	Rint:    {"rint", 1, floats},
	And:     {"and", 2, integers | bools},
	Or:      {"or", 2, integers | bools},
	Xor:     {"xor", 2, integers | bools},
	Not:     {"not", 1, integers | bools},
	Shl:     {"shl", 2, integers},
	Shr:     {"shr", 2, integers},
	Eq:      {"eq", 2, computed},
	Ne:      {"ne", 2, computed},
	Lt:      {"lt", 2, computed},
	Le:      {"le", 2, computed},
	Select:  {"select", 3, reals},
	Mod:     {"mod", 2, floats},
	Scale:   {"scale", 2, floats},
	Limit:   {"limit", 2, floats},
	Lookup:  {"lookup", 1, dtypes(tensor.Float32)},
	Store:   {"store", 1, reals},
	Remask:  {"remask", 1, bools},
}

// String returns the name of the operation.
func (o Op) String() string {
	if o < numOps {
		return Ops[o].Name
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// Compares reports whether the operation is Eq, Ne, Lt or Le.
func (o Op) Compares() bool { return Eq <= o && o <= Le }

// Rounds reports whether the operation is Floor, Ceil, Trunc or Rint.
func (o Op) Rounds() bool { return Floor <= o && o <= Rint }

// Folds reports whether the operation can fold values of a dtype.
func (o Op) Folds(dtype tensor.DType) bool {
	switch o {
	case Add, Mul, Min, Max, And, Or:
		return Ops[o].OperandDTypes.Has(dtype)
	}
	return false
}
