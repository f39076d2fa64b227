package pointwise

import (
	"errors"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// bodies holds the kernel of an op for each dtype in which it computes. 16-bit floats are
// computed as float32 (iter.Config.OpMath), so they have none of their own.
type bodies [tensor.Complex128 + 1]iter.Kernel

// join merges tables of which each dtype has one.
func join(tables ...bodies) (out bodies) {
	for _, t := range tables {
		for d, b := range t {
			if !b.IsZero() {
				out[d] = b
			}
		}
	}
	return out
}

// The constructors below take one generic function several times, once a dtype:
// integers2(addSlice, addSlice, ...). Go infers each instance, and a dtype that the
// function does not support does not compile. The arithmetic is in the function's own
// loop: a loop that calls a func per element is six times slower.

func bool1(f func(dst, a []bool)) (t bodies) {
	t[tensor.Bool] = iter.Slice1(f)
	return t
}

func signed1(i8 func(dst, a []int8), i16 func(dst, a []int16), i32 func(dst, a []int32),
	i64 func(dst, a []int64)) (t bodies) {
	t[tensor.Int8], t[tensor.Int16] = iter.Slice1(i8), iter.Slice1(i16)
	t[tensor.Int32], t[tensor.Int64] = iter.Slice1(i32), iter.Slice1(i64)
	return t
}

func unsigned1(u8 func(dst, a []uint8), u16 func(dst, a []uint16), u32 func(dst, a []uint32),
	u64 func(dst, a []uint64)) (t bodies) {
	t[tensor.Uint8], t[tensor.Uint16] = iter.Slice1(u8), iter.Slice1(u16)
	t[tensor.Uint32], t[tensor.Uint64] = iter.Slice1(u32), iter.Slice1(u64)
	return t
}

func floats1(f32 func(dst, a []float32), f64 func(dst, a []float64)) (t bodies) {
	t[tensor.Float32], t[tensor.Float64] = iter.Slice1(f32), iter.Slice1(f64)
	return t
}

func complexes1(c64 func(dst, a []complex64), c128 func(dst, a []complex128)) (t bodies) {
	t[tensor.Complex64], t[tensor.Complex128] = iter.Slice1(c64), iter.Slice1(c128)
	return t
}

func bool2(f func(dst, a, b []bool)) (t bodies) {
	t[tensor.Bool] = iter.Slice2(f)
	return t
}

func signed2(i8 func(dst, a, b []int8), i16 func(dst, a, b []int16), i32 func(dst, a, b []int32),
	i64 func(dst, a, b []int64)) (t bodies) {
	t[tensor.Int8], t[tensor.Int16] = iter.Slice2(i8), iter.Slice2(i16)
	t[tensor.Int32], t[tensor.Int64] = iter.Slice2(i32), iter.Slice2(i64)
	return t
}

func unsigned2(u8 func(dst, a, b []uint8), u16 func(dst, a, b []uint16), u32 func(dst, a, b []uint32),
	u64 func(dst, a, b []uint64)) (t bodies) {
	t[tensor.Uint8], t[tensor.Uint16] = iter.Slice2(u8), iter.Slice2(u16)
	t[tensor.Uint32], t[tensor.Uint64] = iter.Slice2(u32), iter.Slice2(u64)
	return t
}

func floats2(f32 func(dst, a, b []float32), f64 func(dst, a, b []float64)) (t bodies) {
	t[tensor.Float32], t[tensor.Float64] = iter.Slice2(f32), iter.Slice2(f64)
	return t
}

func complexes2(c64 func(dst, a, b []complex64), c128 func(dst, a, b []complex128)) (t bodies) {
	t[tensor.Complex64], t[tensor.Complex128] = iter.Slice2(c64), iter.Slice2(c128)
	return t
}

// pick returns the table's body for the dtype in which the iteration computes, or
// PyTorch's refusal.
func (t *bodies) pick(name string, it *iter.Rule) (iter.Kernel, error) {
	return t.pickLabel(name+"_cpu", it)
}

// pickLabel is pick for ops whose refusals go by another label than the name with _cpu.
func (t *bodies) pickLabel(label string, it *iter.Rule) (iter.Kernel, error) {
	if b := t[it.DType(it.NumOutputs())]; !b.IsZero() {
		return b, nil
	}
	return iter.Kernel{}, iter.NotImplemented(label, it)
}

// chosen makes the Body function of an op with a table of kernels.
func chosen(t *iter.Table) func(*graph.Call, *iter.Rule) (iter.Kernel, error) {
	return func(_ *graph.Call, it *iter.Rule) (iter.Kernel, error) { return t.For(it) }
}

// fixed makes the Body function of an op whose loops depend on no attribute.
func fixed(name string, t bodies) func(*graph.Call, *iter.Rule) (iter.Kernel, error) {
	return labelled(name+"_cpu", t)
}

// labelled is fixed for ops whose refusals go by a label of their own.
func labelled(label string, t bodies) func(*graph.Call, *iter.Rule) (iter.Kernel, error) {
	return func(_ *graph.Call, it *iter.Rule) (iter.Kernel, error) { return t.pickLabel(label, it) }
}

// only is the table that supports a single dtype.
func only(d tensor.DType, b iter.Kernel) (t bodies) {
	t[d] = b
	return t
}

// boolAsByte lets bools be computed as the bytes 0 and 1 that they are.
func boolAsByte(t bodies) bodies {
	t[tensor.Bool] = t[tensor.Uint8].Bits()
	return t
}

// unary, unaryFloat, binary, binaryFloat and comparison state PyTorch's ready
// configurations for a call.

func unary(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	return iter.Unary(outs[0], c.In[0].Operand()).OpMath(true), nil
}

func unaryFloat(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	return iter.UnaryFloat(outs[0], c.In[0].Operand()).OpMath(true), nil
}

func binary(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	return iter.Binary(outs[0], c.In[0].Operand(), c.In[1].Operand()).OpMath(true), nil
}

func binaryFloat(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	return iter.BinaryFloat(outs[0], c.In[0].Operand(), c.In[1].Operand()).OpMath(true), nil
}

func comparison(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	return iter.Comparison(outs[0], c.In[0].Operand(), c.In[1].Operand()).OpMath(true), nil
}

func ternary(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	return iter.Binary(outs[0], c.In[0].Operand(), c.In[1].Operand()).Input(c.In[2].Operand()).OpMath(true), nil
}

// unaryTo configures a unary op that keeps its operand's dtype in the loop and yields d.
func unaryTo(d tensor.DType) config {
	return func(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
		out := outs[0]
		if !out.Defined {
			out = iter.UndefinedOf(d)
		}
		return iter.New().CheckAllSameDType(false).Output(out).Input(c.In[0].Operand()).OpMath(true), nil
	}
}

// config states the iteration of a call.
type config = func(c *graph.Call, outs []iter.Operand) (iter.Config, error)

// checked puts a check before a configuration.
func checked(f config, check func(c *graph.Call) error) config {
	return func(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
		if err := check(c); err != nil {
			return iter.Config{}, err
		}
		return f(c, outs)
	}
}

// realOnly refuses complex operands with the message.
func realOnly(f config, message string) config {
	return checked(f, func(c *graph.Call) error {
		for i := range c.In {
			if c.Type(i).DType.IsComplex() {
				return errors.New(message)
			}
		}
		return nil
	})
}

func copySlice[T number](dst, a []T) { copy(dst, a) }

// number is what can be added and multiplied.
type number interface {
	integer | float32 | float64 | complex64 | complex128
}

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// float is a real floating-point number as loops see it.
type float interface{ float32 | float64 }

// ordered is what can be compared.
type ordered interface{ integer | float }

var intCopies = join(signed1(copySlice, copySlice, copySlice, copySlice),
	unsigned1(copySlice, copySlice, copySlice, copySlice))
