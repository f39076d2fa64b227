package kit

import (
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// ElemOf returns the loops that copy elements and convert them from dtype src to dtype dst. Between equal dtypes, the
// loops copy bytes. This includes bool, whose converter would inspect every byte.
func ElemOf(dst, src tensor.DType) strided.Elem {
	if dst == src {
		return strided.MoverOf(dst.Size())
	}
	row := tensor.Converter(dst, src)
	if converter := conversionOf(dst, src); converter != nil {
		row = converter.rowLoop(row)
	}
	return strided.ConverterOf(dst.Size(), src.Size(), row)
}

// RowConverter returns the loop that copies one row and converts its elements from dtype src to dtype dst.
func RowConverter(dst, src tensor.DType) strided.Row { return ElemOf(dst, src).Row }

// conversion is machine code that converts contiguous rows.
type conversion struct {
	loop             *loops.Loop
	dstSize, srcSize int // bytes of an element of the result and of the operand
}

// conversions caches the conversions of the process by pair of dtypes. The cache is unbounded, because there are few
// pairs.
var conversions sync.Map

// conversionOf returns the machine code of a conversion, or nil if there is none.
func conversionOf(dst, src tensor.DType) *conversion {
	key := [2]tensor.DType{dst, src}
	if c, ok := conversions.Load(key); ok {
		return c.(*conversion)
	}
	var c *conversion
	if code, err := Conversion(src, dst); err == nil && code.Compilable() {
		onePerRow := []bool{false} // the operand has more than one element per row
		compiled, err := loops.New(&expr.Loop{Code: code, Uniform: onePerRow}, loops.Options{})
		if err == nil && compiled.Compiled() {
			c = &conversion{compiled, dst.Size(), src.Size()}
		}
	}
	conversions.Store(key, c)
	return c
}

// ConversionListing returns the listing of a conversion's machine code, or false if there is none.
func ConversionListing(dst, src tensor.DType) (expr.Listing, bool) {
	if dst == src {
		return expr.Listing{}, false
	}
	c := conversionOf(dst, src)
	if c == nil {
		return expr.Listing{}, false
	}
	return c.loop.Listing("convert"), true
}

// minCompiledRow is the minimum number of elements for which machine code is called. The call itself takes as long as
// the conversion of tens of elements in Go.
const minCompiledRow = 64

// conversionCall has the arguments of a call of a conversion. Later calls reuse its memory. Lists have the result
// first, then the operand.
type conversionCall struct {
	state   loops.State
	ptrs    [2]unsafe.Pointer
	strides [2]int
}

var conversionCalls = sync.Pool{New: func() any { return new(conversionCall) }}

// rowLoop returns a row loop that calls machine code for long contiguous rows, and goLoop for all other rows.
func (c *conversion) rowLoop(goLoop strided.Row) strided.Row {
	return func(dst, src unsafe.Pointer, dstStep, srcStep, n int) {
		if dstStep != c.dstSize || srcStep != c.srcSize || n < minCompiledRow {
			goLoop(dst, src, dstStep, srcStep, n)
			return
		}
		call := conversionCalls.Get().(*conversionCall)
		call.ptrs = [2]unsafe.Pointer{dst, src}
		const rows = 1 // strides, which separate rows, are not used
		c.loop.Run(&call.state, call.ptrs[:], call.strides[:], n, rows)
		call.ptrs = [2]unsafe.Pointer{} // the pool must not keep buffers alive
		call.state.Release()
		conversionCalls.Put(call)
	}
}
