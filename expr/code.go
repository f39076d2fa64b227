package expr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/internal/memo"
	"github.com/graphrun/graphrun/tensor"
)

// Code is a computation of one element, in static single assignment form: an instruction uses only results of earlier
// instructions. A Code that a [Builder] built is immutable. Equal codes have equal keys. For example, [Code.String]
// lists the code of max(x, 0) of float32 as
//
//	v0 = const.float32 0
//	v1 = load.float32 x0
//	v2 = max.float32 v1 v0
//	y0.float32 = v2
type Code struct {
	In    []tensor.DType // dtypes of the operands in memory
	Insts []Inst
	Out   []Output
	Funcs []*Func // the functions of [Call]

	formula *Formula  // see Code.Formula
	derived memo.Memo // of Key, FlushExp, Positioned and RowProgram
}

// Value is the result of an instruction: its index in Code.Insts.
type Value int32

// None means that there is no value.
const None Value = -1

// Inst is an instruction. Complex numbers are two values, the real and the imaginary part.
type Inst struct {
	Op    Op
	DType tensor.DType // dtype of the result; never complex
	A     Value        // the first operand; for Load the index of the operand in Code.In
	B, C  Value        // further operands, or None
	Imm   uint64       // an immediate operand; its meaning depends on Op
}

// Output is a result.
type Output struct {
	DType tensor.DType // dtype in memory; an output of dtype Invalid is computed for a [Fold] and not stored
	Re    Value        // the value, or the real part of a complex output
	Im    Value        // the imaginary part of a complex output, else None
}

// Op is an operation. Unless stated otherwise, operands and result have the same dtype. Integers wrap.
type Op uint8

// The operations. The operations before Exp are primitive: compiled code and Go give the same bits. The operations
// from Exp to Atan2 are elementary functions. Compiled code uses their expansions into primitives (package expand).
// An expansion gives the same bits on all processors. Go computes elementary functions in float64, by package math or,
// if package math has an error of more than 2 ulp, by functions of this module. Code with a Call runs in Go only.
const (
	Invalid Op = iota
	Const      // the number whose bits are Imm, zero-extended
	Load       // the element of operand A; Imm is 1 for its imaginary part, else 0
	Convert    // A converted to another dtype, by the rules of c10::convert, rounded to nearest even
	Bits       // A reinterpreted as another dtype of the same size
	Add
	Sub
	Mul
	Div // truncated for integers; integer division by 0 is unspecified
	FMA // A*B + C of floats, rounded once; other products and sums are never contracted
	Neg
	Abs  // the least integer is its own absolute value
	Sqrt // of floats, correctly rounded
	Min  // A if A is NaN or less than B, else B, as in the loops of PyTorch
	Max  // A if A is NaN or greater than B, else B
	Floor
	Ceil
	Trunc
	Rint // to nearest, ties to even
	And  // bitwise; logical for bools
	Or
	Xor
	Not
	Shl // shifts A by B modulo the width of the dtype
	Shr // shifts A by B modulo the width of the dtype; arithmetic for signed integers, else logical
	Eq  // Eq, Ne, Lt and Le give bool; if an operand is NaN, only Ne is true
	Ne
	Lt
	Le
	Select // B if the bool A is true, else C
	Mod    // the C function fmod: exact, with the sign of A
	Scale  // A*2^floor(B) of floats, rounded once; unspecified if B is infinite and A is 0 or NaN
	Limit  // for floats: A if |A| <= |B|, else |B| with the sign of A; for a NaN A, |B| with any sign
	Lookup // for float32: the entry of table Imm whose index is the lowest 5 bits of A
	Exp
	Exp2
	Expm1
	Log
	Log2
	Log10
	Log1p
	Sin
	Cos
	Tan
	Asin
	Acos
	Atan
	Sinh
	Cosh
	Tanh
	Asinh
	Acosh
	Atanh
	Erf
	Erfc
	Pow
	Atan2
	Call   // function Imm of Code.Funcs
	Reduce // A folded over a row by the operation Imm (Add, Mul, Min, Max, And, Or); the result is one number for each row
	// Position is the index of the element in its row, as an int32. If a row has several dimensions, the index is
	// row-major. Row programs load it from an operand ([Code.Positioned]).
	Position
	// Scan is A folded by the operation Imm (Add, Mul) over the elements of a row up to the current element, in order.
	// For floats the running result is a float64, which is rounded for each element. Only row programs run a Scan.
	Scan
	numOps
)

var opNames = [numOps]string{"invalid", "const", "load", "convert", "bits", "add", "sub", "mul", "div", "fma", "neg",
	"abs", "sqrt", "min", "max", "floor", "ceil", "trunc", "rint", "and", "or", "xor", "not", "shl", "shr", "eq", "ne",
	"lt", "le", "select", "mod", "scale", "limit", "lookup", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
	"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "pow",
	"atan2", "call", "reduce", "position", "scan"}

// String returns the name of the operation in listings.
func (o Op) String() string {
	if o < numOps {
		return opNames[o]
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// Primitive reports whether the operation gives the same bits in compiled code and in Go.
func (o Op) Primitive() bool { return Invalid < o && o < Exp }

// Elementary reports whether the operation is an elementary function, which expands into primitives.
func (o Op) Elementary() bool { return Exp <= o && o < Call }

// ArgCount returns the number of operands.
func (o Op) ArgCount() int {
	switch o {
	case Invalid, Const, Load, Position:
		return 0
	case Add, Sub, Mul, Div, Min, Max, And, Or, Xor, Shl, Shr, Eq, Ne, Lt, Le, Mod, Scale, Limit, Pow, Atan2:
		return 2
	case FMA, Select, Call:
		return 3
	}
	return 1
}

// Operands returns the values that are operands of an instruction.
func (inst Inst) Operands() []Value {
	return []Value{inst.A, inst.B, inst.C}[:inst.valueOperandCount()] // inlined, so that the slice is not allocated
}

// valueOperandCount returns the length of [Inst.Operands]. The operand of a Load is not a value.
func (inst *Inst) valueOperandCount() int {
	if inst.Op == Load {
		return 0
	}
	return inst.Op.ArgCount()
}

// Table returns the table of a [Lookup]. If there is no such table, the result is zero, and [Code.Check] rejects the
// instruction.
func (inst Inst) Table() (table [32]float32) {
	if inst.Imm < uint64(len(elementary.Tables)) {
		table = elementary.Tables[inst.Imm]
	}
	return table
}

// Func is a function of up to three numbers that is computed in Go. float32 operands are converted to float64.
type Func struct {
	Name     string // unique among all functions
	F        func(a, b, c float64) float64
	ArgCount int // number of operands, 1 to 3
	// If F computes the real part of a function of a complex number, Im computes the imaginary part, and Complex computes
	// both parts in the time of one part. Otherwise Complex is nil.
	Complex func(z complex128) complex128
	Im      *Func
}

// isCallable reports whether an instruction can call the function.
func (f *Func) isCallable() bool { return f != nil && f.F != nil && 1 <= f.ArgCount && f.ArgCount <= 3 }

// Formula returns the formula from which [Formula.Code] derived the code, or nil if the code was made otherwise.
func (c *Code) Formula() *Formula {
	if c == nil {
		return nil
	}
	return c.formula
}

// Derived returns the value that derive returned first for the key: see [memo.Memo]. Packages keep with a code what
// they derive from it, by keys of types of their own. It returns nil for a nil code or function.
func (c *Code) Derived(key any, derive func() any) any {
	if c == nil || derive == nil {
		return nil
	}
	return c.derived.Get(key, derive)
}

// Key returns a key of the code. Codes with equal keys are the same computation.
func (c *Code) Key() string { return memo.Of(&c.derived, "key", c.makeKey) }

func (c *Code) makeKey() string {
	key := make([]byte, 0, len(c.In)+16*len(c.Insts)+8*len(c.Out))
	for _, dtype := range c.In {
		key = append(key, byte(dtype))
	}
	appendNumbers := func(separator byte, numbers ...int64) {
		for _, number := range numbers {
			key = strconv.AppendInt(append(key, separator), number, 10)
			separator = '.'
		}
	}
	for _, inst := range c.Insts {
		appendNumbers(';', int64(inst.Op), int64(inst.DType), int64(inst.A), int64(inst.B), int64(inst.C))
		key = strconv.AppendUint(append(key, '.'), inst.Imm, 16)
		if inst.Op == Call {
			key = append(key, c.Funcs[inst.Imm].Name...)
		}
	}
	for _, output := range c.Out {
		appendNumbers('>', int64(output.DType), int64(output.Re), int64(output.Im))
	}
	return string(key)
}

// Compilable reports whether the code has no [Call].
func (c *Code) Compilable() bool {
	return !slices.ContainsFunc(c.Insts, func(inst Inst) bool { return inst.Op == Call })
}

// Reduces reports whether some instruction folds a row, which requires a row program.
func (c *Code) Reduces() bool {
	return slices.ContainsFunc(c.Insts, func(inst Inst) bool { return inst.Op == Reduce })
}

// Count returns the number of instructions other than constants and loads.
func (c *Code) Count() int {
	count := 0
	for _, inst := range c.Insts {
		if inst.Op != Const && inst.Op != Load {
			count++
		}
	}
	return count
}

// String lists the code, one instruction per line.
func (c *Code) String() string {
	var text strings.Builder
	for v, inst := range c.Insts {
		fmt.Fprintf(&text, "v%d = %s.%v", v, inst.Op, inst.DType)
		switch inst.Op {
		case Const:
			fmt.Fprintf(&text, " %s", constantText(inst.DType, inst.Imm))
		case Load:
			fmt.Fprintf(&text, " x%d", inst.A)
			if c.In[inst.A].IsComplex() {
				text.WriteString([]string{".re", ".im"}[inst.Imm&1])
			}
		case Call:
			text.WriteString(" " + c.Funcs[inst.Imm].Name)
		case Lookup:
			fmt.Fprintf(&text, " table %d", inst.Imm)
		}
		for _, operand := range inst.Operands() {
			fmt.Fprintf(&text, " v%d", operand)
		}
		text.WriteByte('\n')
	}
	results := 0
	for _, out := range c.Out {
		if out.DType == tensor.Invalid { // a loop folds the output and does not store it
			continue
		}
		fmt.Fprintf(&text, "y%d.%v = v%d", results, out.DType, out.Re)
		if out.Im != None {
			fmt.Fprintf(&text, " v%d", out.Im)
		}
		text.WriteByte('\n')
		results++
	}
	return text.String()
}

// Check returns an error if the code is invalid. Codes of a Builder are valid. The other methods require a valid code.
func (c *Code) Check() error {
	for i, dtype := range c.In {
		if !dtype.Valid() {
			return fmt.Errorf("expr: operand %d is %v", i, dtype)
		}
	}
	for v, inst := range c.Insts {
		if err := c.checkInst(Value(v), inst); err != nil {
			return fmt.Errorf("expr: v%d (%v): %w", v, inst.Op, err)
		}
	}
	if len(c.Out) == 0 {
		return errors.New("expr: the code has no outputs")
	}
	for i, output := range c.Out {
		if err := c.checkOut(output); err != nil {
			return fmt.Errorf("expr: y%d: %w", i, err)
		}
	}
	return nil
}

// checkInst returns an error if inst, the instruction that computes value, is invalid.
func (c *Code) checkInst(value Value, inst Inst) error {
	for _, operand := range inst.Operands() {
		if operand < 0 || operand >= value {
			return fmt.Errorf("the operand v%d is not an earlier value", operand)
		}
	}
	if !inst.DType.Valid() || inst.DType.IsComplex() {
		return fmt.Errorf("the dtype %v is invalid", inst.DType)
	}
	if inst.Op == Invalid || inst.Op >= numOps {
		return errors.New("the operation is unknown")
	}
	return c.checkDTypes(inst)
}

// checkDTypes checks the dtypes of the operands and the result of an instruction.
func (c *Code) checkDTypes(inst Inst) error {
	dtypeOf := func(v Value) tensor.DType { return c.Insts[v].DType }
	switch inst.Op {
	case Const:
		return checkConstBits(inst.DType, inst.Imm)
	case Load:
		return c.checkLoad(inst)
	case Convert:
		return nil
	case Position:
		return checkSame(tensor.Int32, inst.DType)
	case Bits:
		if dtypeOf(inst.A).Size() != inst.DType.Size() || inst.DType == tensor.Bool {
			return fmt.Errorf("Bits cannot reinterpret %v as %v", dtypeOf(inst.A), inst.DType)
		}
		return nil
	case Eq, Ne, Lt, Le:
		return errors.Join(checkSame(tensor.Bool, inst.DType), checkSame(dtypeOf(inst.A), dtypeOf(inst.B)),
			checkStorageOnly(dtypeOf(inst.A)))
	case Select:
		return errors.Join(checkSame(tensor.Bool, dtypeOf(inst.A)), checkSame(inst.DType, dtypeOf(inst.B)),
			checkSame(inst.DType, dtypeOf(inst.C)))
	case Reduce:
		if err := checkFold(Op(inst.Imm), inst.DType); err != nil {
			return err
		}
		return checkSame(inst.DType, dtypeOf(inst.A))
	case Lookup:
		if inst.Imm >= uint64(len(elementary.Tables)) {
			return fmt.Errorf("table %d does not exist", inst.Imm)
		}
		return errors.Join(checkSame(inst.DType, tensor.Float32), checkSame(inst.DType, dtypeOf(inst.A)))
	case Scan:
		if Scanning(Op(inst.Imm), inst.DType) == nil {
			return fmt.Errorf("%v cannot scan %v", Op(inst.Imm), inst.DType)
		}
		return checkSame(inst.DType, dtypeOf(inst.A))
	case Call:
		if inst.Imm >= uint64(len(c.Funcs)) {
			return fmt.Errorf("function %d does not exist", inst.Imm)
		}
		if !c.Funcs[inst.Imm].isCallable() {
			return fmt.Errorf("function %d cannot be called", inst.Imm)
		}
	}
	err := errors.Join(checkStorageOnly(inst.DType), checkOperation(inst.Op, inst.DType))
	for _, operand := range inst.Operands() {
		err = errors.Join(err, checkSame(inst.DType, dtypeOf(operand)))
	}
	return err
}

// checkLoad checks that the operand and the part (0 real, 1 imaginary) of a Load exist, and that the result has the
// dtype of the part.
func (c *Code) checkLoad(inst Inst) error {
	if inst.A < 0 || int(inst.A) >= len(c.In) {
		return fmt.Errorf("operand %d does not exist", inst.A)
	}
	partDType := c.In[inst.A]
	if partDType.IsComplex() {
		partDType = partDType.ToReal()
	} else if inst.Imm != 0 {
		return errors.New("a real operand has no imaginary part")
	}
	if inst.Imm > 1 {
		return fmt.Errorf("part %d does not exist: a part is 0 or 1", inst.Imm)
	}
	return checkSame(inst.DType, partDType)
}

// checkOut returns an error if a value of an output does not exist or has another dtype than the output. The values of
// a complex output must have the dtype of its parts.
func (c *Code) checkOut(output Output) error {
	partDType := output.DType
	if partDType == tensor.Invalid && output.Re >= 0 && int(output.Re) < len(c.Insts) {
		partDType = c.Insts[output.Re].DType
	}
	if output.DType.IsComplex() {
		partDType = output.DType.ToReal()
	}
	for part, v := range []Value{output.Re, output.Im} {
		switch {
		case part == 1 && v == None && !output.DType.IsComplex(): // real outputs have no imaginary part
		case v < 0 || int(v) >= len(c.Insts):
			return fmt.Errorf("value v%d does not exist", v)
		case c.Insts[v].DType != partDType:
			return fmt.Errorf("v%d is %v, but the output is %v", v, c.Insts[v].DType, output.DType)
		}
	}
	if output.Im != None && !output.DType.IsComplex() {
		return errors.New("a real output has an imaginary part")
	}
	return nil
}

// checkSame returns an error if two dtypes differ.
func checkSame(want, got tensor.DType) error {
	if got != want {
		return fmt.Errorf("the dtype is %v, want %v", got, want)
	}
	return nil
}

// checkFold returns an error if an operation cannot fold values of a dtype.
func checkFold(op Op, dtype tensor.DType) error {
	switch op {
	case Add, Mul, Min, Max, And, Or:
		return errors.Join(checkStorageOnly(dtype), checkOperation(op, dtype))
	}
	return fmt.Errorf("%v cannot fold a row", op)
}

// checkConstBits returns an error if the bits of a constant are not a value of its dtype.
func checkConstBits(dtype tensor.DType, imm uint64) error {
	width := 8 * dtype.Size()
	isTooWide := width < 64 && imm>>width != 0
	if isTooWide || dtype == tensor.Bool && imm > 1 {
		return fmt.Errorf("%#x is not a value of %v", imm, dtype)
	}
	return nil
}

// checkStorageOnly returns an error for storage-only dtypes, whose values are converted before any computation.
func checkStorageOnly(dtype tensor.DType) error {
	if dtype.IsReducedFloat() {
		return fmt.Errorf("%v is a storage dtype: convert it before computing", dtype)
	}
	return nil
}

// checkOperation returns an error if an operation is not defined for a dtype.
func checkOperation(op Op, dtype tensor.DType) error {
	isDefined := dtype.IsFloat() // the rule for elementary functions
	if op.Primitive() {
		isDefined = lane.Ops[op].OperandDTypes.Has(dtype)
	}
	if !isDefined {
		return fmt.Errorf("the operation is undefined for %v", dtype)
	}
	return nil
}
