// Package requantize generates machine code that converts sums of int32 to quantized bytes, 64 at a time, for AVX-512.
//
// A sum is converted to float32, multiplied by the scale of its column, and rounded to nearest even. The zero point is
// then added with saturation. NaN becomes 0.
package requantize

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
	"github.com/graphrun/graphrun/internal/machine"
)

// Columns is the number of columns that a call processes.
const Columns = 64

// Operands: indices into Ptr of [jit.Args]. Operand k starts Row[k] bytes after Ptr[k]. Scales are float32, and the
// zero point is an int32. Args.Rows is the number of rows, at least 1.
const (
	Out = iota
	Sums
	Scales
	ZeroPoint
)

// Indices into Step of [jit.Args].
const (
	ColumnMask = iota // bit mask of the columns
	NextOut           // bytes between rows of the result
	NextSums          // bytes between rows of the sums
)

// CallRows bounds the number of rows of a call, so that the call takes less than 50 us.
const CallRows = 1 << 10

// Compile generates the code for signed or unsigned bytes, or returns existing code. Calls do not modify their
// arguments, and access only the columns in ColumnMask.
func Compile(isSigned bool, cpu machine.Features) (*jit.Func, error) {
	if !cpu.Has(machine.Vector512) {
		return nil, fmt.Errorf("requantize: the code requires AVX-512, and the processor has %v", cpu)
	}
	return jit.Lookup(fmt.Sprintf("requantize signed %v", isSigned), func(withListing bool) (jit.Code, error) {
		w := writer.New(cpu, 4, withListing)
		emit(w, isSigned)
		return w.Finish()
	})
}

// General registers. The third one, CX, is unused.
const (
	zeroPoint target.GReg = iota
	scales
	_
	out
	sums
	rows
	nextOut
	nextSums
)

// order is the register with the permutation that restores the order of columns after packing. It follows the
// registers of sums (0 to 3), scales (4 to 7) and constants (8 and 9).
const order target.VReg = 10

// emit writes the function.
func emit(w *writer.Writer, isSigned bool) {
	for k, to := range []target.GReg{Out: out, Sums: sums, Scales: scales, ZeroPoint: zeroPoint} {
		target.LoadAddress(w, k, to)
	}
	// NotNaN is the mask register K6: BeginColumns uses K1 to K5.
	quantizer := &writer.Quantizer{Writer: w, Signed: isSigned, MaxLevel: 8, ZeroPoint: 9, NotNaN: 6}
	quantizer.Begin(target.Addr{Base: zeroPoint})
	quantizer.LoadOrder(order)
	quantizer.BeginColumns(target.ArgsStep(ColumnMask), scales)
	w.Move(target.ArgsStep(NextOut), nextOut)
	w.Move(target.ArgsStep(NextSums), nextSums)
	w.Move(target.ArgsWord(jit.OffsetRows), rows)
	top := w.NewLabel()
	w.Align(32)
	w.Bind(top)
	quantizer.ConvertColumns(sums, out, order)
	w.Add(nextOut, out)
	w.Add(nextSums, sums)
	w.CountDown(rows, target.NE, top)
	w.Return()
}
