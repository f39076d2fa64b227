package expr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/tensor"
)

// Op is what an instruction does. Operands and result have one dtype where nothing else is said; integers wrap.
type Op uint8

// The operations. Those before Exp are primitive: they give the same bits wherever an expression runs, in code that
// was compiled for it and in Go. Of the elementary functions from Exp on, compiled code takes the expansions into
// primitives ([Code.Expand]), which are the same on all processors of a [Target]; Go takes package math, computing in
// float64, and functions of its own where that is more than 2 ulp off.
// Expressions with a Call are computed in Go.
const (
	Invalid Op = iota
	Const      // the number Imm: the bits of an element of the dtype, zero-extended
	Load       // part Imm (0, or 1 for the imaginary part) of the element of operand A
	Convert    // A in another dtype, by c10::convert's rules, and rounded to nearest even
	Bits       // the bits of A as another dtype of the same size
	Add
	Sub
	Mul
	Div // of floats; of integers truncated, of a divisor of 0 any number
	FMA // A*B + C of floats, rounded once; nothing is ever contracted that does not say so
	Neg
	Abs  // of the least integer that integer
	Sqrt // of floats, rounded correctly
	Min  // A if that is NaN or less than B, else B: what processors and PyTorch's loops do
	Max  // A if that is NaN or greater than B, else B
	Floor
	Ceil
	Trunc
	Rint // to nearest, ties to even
	And  // of the bits of integers, and of bools
	Or
	Xor
	Not
	Shl // by B modulo the bits of the dtype
	Shr // arithmetic of signed integers, else logical; by B modulo the bits of the dtype
	Eq  // Eq, Ne, Lt and Le give bool; with NaN all but Ne are false
	Ne
	Lt
	Le
	Select // B where the bool A is true, else C
	Mod    // C's fmod: exact, with the sign of A
	Scale  // A*2^B of floats, rounded once, B rounded down; of an infinite B, if A is 0 or none, any number
	Limit  // A of floats if |A| <= |B|, else |B| with the sign of A; of a NaN A |B| with any sign
	Lookup // of float32: the number in table Imm at the lowest 5 bits of A's bits
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
	Reduce // A folded by the operation Imm (Add, Mul, Min, Max, And, Or) over a row: one number for all of it
	// Position is the place of the element in its row, an int32 from 0 on, in row-major order where a row has several
	// dimensions. It is for codes that are run in sweeps: loops load it ([Code.Positioned]).
	Position
	// Scan is A folded by the operation Imm (Add, Mul) over the elements of a row up to this one, in their order. Floats
	// are carried in float64 and rounded for each element. It is for codes that are run in sweeps.
	Scan
	numOps
)

var opNames = [numOps]string{"invalid", "const", "load", "convert", "bits", "add", "sub", "mul", "div", "fma", "neg",
	"abs", "sqrt", "min", "max", "floor", "ceil", "trunc", "rint", "and", "or", "xor", "not", "shl", "shr", "eq", "ne",
	"lt", "le", "select", "mod", "scale", "limit", "lookup", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
	"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "pow",
	"atan2", "call", "reduce", "position", "scan"}

// String returns the name in listings.
func (o Op) String() string {
	if o < numOps {
		return opNames[o]
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// Primitive reports whether the operation gives the same bits wherever it runs.
func (o Op) Primitive() bool { return Invalid < o && o < Exp }

// Elementary reports whether the operation is a function that has an expansion into primitives.
func (o Op) Elementary() bool { return Exp <= o && o < Call }

// Args returns the number of operands.
func (o Op) Args() int {
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

// Value is the result of an instruction of one Code: its place among them. None is no value.
type Value int32

// None is no value.
const None Value = -1

// Inst is an instruction. A value of a complex dtype does not exist: there are its two parts.
type Inst struct {
	Op    Op
	DType tensor.DType // of the result
	A     Value        // the first operand; for Load the number of the operand of the Code
	B, C  Value
	Imm   uint64
}

// Func is a function of up to three numbers that only Go can compute: float32 is handed over as float64.
// Name is unique among all functions.
type Func struct {
	Name string
	F    func(a, b, c float64) float64
	Args int

	one func(float64) float64 // F of one number, if it is one of package expr

	// A function of a complex number is two of its parts. The real part knows the other, and what computes both at once.
	imag *Func
	both func(complex128) complex128
}

// Output is a result: what is stored, in the dtype that memory has. Im is the imaginary part of a complex
// one, else None. One of dtype Invalid is computed for a [Fold] and stored nowhere.
type Output struct {
	DType  tensor.DType
	Re, Im Value
}

// Code is what is computed for one element, in static single assignment: an instruction uses results of those before
// it. It is immutable once built ([Builder]), and equal codes have equal keys.
type Code struct {
	In    []tensor.DType // the operands as memory holds them
	Insts []Inst
	Out   []Output
	Funcs []*Func

	formula *Formula
}

// Formula returns the text that the code was typed from; nil for a code that was made otherwise, or changed since.
func (c *Code) Formula() *Formula {
	if c == nil {
		return nil
	}
	return c.formula
}

// Uses returns the operands of an instruction that are values.
func (i Inst) Uses() []Value {
	return []Value{i.A, i.B, i.C}[:i.uses()] // short enough to be inlined, so that the list needs no memory
}

// Table returns what a [Lookup] looks up: zeros where there is no such table, which [Code.Check] refuses.
func (i Inst) Table() (t [32]float32) {
	if i.Imm < uint64(len(tables)) {
		t = tables[i.Imm]
	}
	return t
}

func (i *Inst) uses() int {
	if i.Op == Load {
		return 0
	}
	return i.Op.Args()
}

// Key identifies the code: equal keys mean the same computation.
func (c *Code) Key() string {
	b := make([]byte, 0, len(c.In)+16*len(c.Insts)+8*len(c.Out))
	for _, d := range c.In {
		b = append(b, byte(d))
	}
	list := func(first byte, numbers ...int64) {
		for _, x := range numbers {
			b = strconv.AppendInt(append(b, first), x, 10)
			first = '.'
		}
	}
	for _, i := range c.Insts {
		list(';', int64(i.Op), int64(i.DType), int64(i.A), int64(i.B), int64(i.C))
		b = strconv.AppendUint(append(b, '.'), i.Imm, 16)
		if i.Op == Call {
			b = append(b, c.Funcs[i.Imm].Name...)
		}
	}
	for _, o := range c.Out {
		list('>', int64(o.DType), int64(o.Re), int64(o.Im))
	}
	return string(b)
}

// Compilable reports whether no instruction needs Go.
func (c *Code) Compilable() bool {
	return !slices.ContainsFunc(c.Insts, func(i Inst) bool { return i.Op == Call })
}

// Reduces reports whether some instruction folds a row: such a code is run in sweeps.
func (c *Code) Reduces() bool {
	return slices.ContainsFunc(c.Insts, func(i Inst) bool { return i.Op == Reduce })
}

// Count returns the number of instructions that compute.
func (c *Code) Count() int {
	n := 0
	for _, i := range c.Insts {
		if i.Op != Const && i.Op != Load {
			n++
		}
	}
	return n
}

// String lists the code, a line an instruction.
func (c *Code) String() string {
	var b strings.Builder
	for v, i := range c.Insts {
		fmt.Fprintf(&b, "v%d = %s.%v", v, i.Op, i.DType)
		switch i.Op {
		case Const:
			fmt.Fprintf(&b, " %s", number(i.DType, i.Imm))
		case Load:
			fmt.Fprintf(&b, " x%d", i.A)
			if c.In[i.A].IsComplex() {
				b.WriteString([]string{".re", ".im"}[i.Imm&1])
			}
		case Call:
			b.WriteString(" " + c.Funcs[i.Imm].Name)
		case Lookup:
			fmt.Fprintf(&b, " table %d", i.Imm)
		}
		for _, u := range i.Uses() {
			fmt.Fprintf(&b, " v%d", u)
		}
		b.WriteByte('\n')
	}
	results := 0
	for _, out := range c.Out {
		if out.DType == tensor.Invalid { // it is not stored: a loop folds it
			continue
		}
		fmt.Fprintf(&b, "y%d.%v = v%d", results, out.DType, out.Re)
		if out.Im != None {
			fmt.Fprintf(&b, " v%d", out.Im)
		}
		b.WriteByte('\n')
		results++
	}
	return b.String()
}

// Check returns what is wrong with the code; nil for one that a Builder made. The other methods are for codes with
// which nothing is.
func (c *Code) Check() error {
	for k, d := range c.In {
		if !d.Valid() {
			return fmt.Errorf("expr: operand %d is %v", k, d)
		}
	}
	for v, i := range c.Insts {
		if err := c.check(Value(v), i); err != nil {
			return fmt.Errorf("expr: v%d (%v): %w", v, i.Op, err)
		}
	}
	if len(c.Out) == 0 {
		return errors.New("expr: a code without outputs")
	}
	for n, o := range c.Out {
		if err := c.checkOut(o); err != nil {
			return fmt.Errorf("expr: y%d: %w", n, err)
		}
	}
	return nil
}

func (c *Code) checkOut(o Output) error {
	part := o.DType
	if part == tensor.Invalid && o.Re >= 0 && int(o.Re) < len(c.Insts) {
		part = c.Insts[o.Re].DType
	}
	if o.DType.IsComplex() {
		part = o.DType.ToReal()
	}
	for k, v := range []Value{o.Re, o.Im} {
		switch {
		case k == 1 && v == None && !o.DType.IsComplex():
		case v < 0 || int(v) >= len(c.Insts):
			return fmt.Errorf("there is no v%d", v)
		case c.Insts[v].DType != part:
			return fmt.Errorf("v%d is %v, the output %v", v, c.Insts[v].DType, o.DType)
		}
	}
	if o.Im != None && !o.DType.IsComplex() {
		return errors.New("an imaginary part of a real output")
	}
	return nil
}

func (c *Code) check(at Value, i Inst) error {
	for _, u := range i.Uses() {
		if u < 0 || u >= at {
			return fmt.Errorf("uses v%d, which does not come before it", u)
		}
	}
	if !i.DType.Valid() || i.DType.IsComplex() {
		return fmt.Errorf("its dtype is %v", i.DType)
	}
	if i.Op == Invalid || i.Op >= numOps {
		return errors.New("it is no operation")
	}
	return c.checkDTypes(i)
}

// checkDTypes checks what an instruction takes and makes.
func (c *Code) checkDTypes(i Inst) error {
	of := func(v Value) tensor.DType { return c.Insts[v].DType }
	switch i.Op {
	case Const:
		return holds(i.DType, i.Imm)
	case Load:
		return c.checkLoad(i)
	case Convert:
		return nil
	case Position:
		return same(tensor.Int32, i.DType)
	case Bits:
		if of(i.A).Size() != i.DType.Size() || i.DType == tensor.Bool {
			return fmt.Errorf("bits of %v as %v", of(i.A), i.DType)
		}
		return nil
	case Eq, Ne, Lt, Le:
		return errors.Join(same(i.DType, tensor.Bool), same(of(i.A), of(i.B)), computes(of(i.A)))
	case Select:
		return errors.Join(same(of(i.A), tensor.Bool), same(i.DType, of(i.B)), same(i.DType, of(i.C)))
	case Reduce:
		if err := folds(Op(i.Imm), i.DType); err != nil {
			return err
		}
		return same(i.DType, of(i.A))
	case Lookup:
		if i.Imm >= uint64(len(tables)) {
			return fmt.Errorf("there is no table %d", i.Imm)
		}
		return errors.Join(same(i.DType, tensor.Float32), same(i.DType, of(i.A)))
	case Scan:
		if Scanning(Op(i.Imm), i.DType) == nil {
			return fmt.Errorf("a scan by %v of %v", Op(i.Imm), i.DType)
		}
		return same(i.DType, of(i.A))
	case Call:
		if i.Imm >= uint64(len(c.Funcs)) {
			return fmt.Errorf("there is no function %d", i.Imm)
		}
		if f := c.Funcs[i.Imm]; f == nil || f.F == nil || f.Args < 1 || f.Args > 3 {
			return fmt.Errorf("function %d cannot be called", i.Imm)
		}
	}
	err := errors.Join(computes(i.DType), takes(i.Op, i.DType))
	for _, u := range i.Uses() {
		err = errors.Join(err, same(i.DType, of(u)))
	}
	return err
}

func (c *Code) checkLoad(i Inst) error {
	if i.A < 0 || int(i.A) >= len(c.In) {
		return fmt.Errorf("there is no operand %d", i.A)
	}
	d := c.In[i.A]
	if d.IsComplex() {
		d = d.ToReal()
	} else if i.Imm != 0 {
		return errors.New("an imaginary part of a real operand")
	}
	if i.Imm > 1 {
		return fmt.Errorf("there is no part %d", i.Imm)
	}
	return same(i.DType, d)
}

func same(a, b tensor.DType) error {
	if a != b {
		return fmt.Errorf("%v where %v is meant", b, a)
	}
	return nil
}

// folds refuses what is no way to fold values of a dtype.
func folds(o Op, d tensor.DType) error {
	switch o {
	case Add, Mul, Min, Max, And, Or:
		return errors.Join(computes(d), takes(o, d))
	}
	return fmt.Errorf("a fold by %v", o)
}

// holds refuses a constant with more bits than its dtype has, and a bool that is neither 0 nor 1.
func holds(d tensor.DType, imm uint64) error {
	if n := 8 * d.Size(); n < 64 && imm>>n != 0 || d == tensor.Bool && imm > 1 {
		return fmt.Errorf("%v does not hold %#x", d, imm)
	}
	return nil
}

// computes refuses the dtypes that are converted before anything is computed.
func computes(d tensor.DType) error {
	if d.IsReducedFloat() {
		return fmt.Errorf("nothing is computed in %v", d)
	}
	return nil
}

// takes refuses operations of dtypes in which they have no meaning.
func takes(o Op, d tensor.DType) error {
	float, ok := d.IsFloat(), true
	switch o {
	case Add, Sub, Mul, Div, Neg, Abs, Min, Max:
		ok = d != tensor.Bool
	case And, Or, Xor, Not:
		ok = !float
	case Shl, Shr:
		ok = !float && d != tensor.Bool
	default:
		ok = float
	}
	if !ok {
		return fmt.Errorf("it has no meaning for %v", d)
	}
	return nil
}
