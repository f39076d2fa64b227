package tile

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

// BenchmarkUnit measures calls of ten tiles on the matrix unit, with operands in cache and with int32 or quantized
// results.
func BenchmarkUnit(b *testing.B) {
	if err := jit.Available(); err != nil || !machine.HostWithUnit().Has(machine.MatrixUnit) {
		b.Skip("there is no matrix unit")
	}
	for _, rows := range []int{32, 16, 14, 7} {
		for _, terms := range []int{16, 24, 128, 576} {
			for _, dtype := range []Quantized{NotQuantized, Unsigned} {
				name := fmt.Sprintf("%dx2/%d/quantized=%d", rows, terms, dtype)
				b.Run(name, func(b *testing.B) { unitRate(b, rows, terms, dtype) })
			}
		}
	}
}

// unitRate reports the time of a tile with a number of terms, and the rate of its multiplications.
func unitRate(b *testing.B, rows, terms int, dtype Quantized) {
	const tiles = 10
	s := &Spec{ElemBytes: 4, Int8: true, MatrixUnit: true, Rows: rows, Vectors: 2, Quantized: dtype, InitialSum: FromLanes,
		Runs: []Run{{Terms: terms, InStep: 4, VecStep: 128}}}
	for i := range rows {
		s.In, s.Out = append(s.In, i*terms*4), append(s.Out, i*128)
	}
	c, err := Compile(s, machine.AVX512)
	if err != nil {
		b.Fatal(err)
	}
	x, w, y, bias := make([]byte, rows*terms*4), make([]byte, terms*128), make([]byte, rows*128), make([]byte, 256)
	a := &jit.Args{Rows: tiles}
	a.Ptr[In], a.Ptr[Vec], a.Ptr[Out] = unsafe.Pointer(&x[0]), unsafe.Pointer(&w[0]), unsafe.Pointer(&y[0])
	a.Ptr[Bias], a.Ptr[Scales], a.Ptr[ZeroPoint] = unsafe.Pointer(&bias[0]), unsafe.Pointer(&bias[0]),
		unsafe.Pointer(&bias[0])
	a.Ptr[Scratch] = unsafe.Pointer(new([UnitScratchBytes]byte))
	macs := tiles * rows * 32 * terms * 4
	r := rate(b, float64(macs), func() {
		if err := c.Call(a); err != nil {
			b.Fatal(err)
		}
	})
	b.ReportMetric(r, "GMAC/s")
	b.ReportMetric(float64(macs)/r/tiles, "ns/tile")
}
