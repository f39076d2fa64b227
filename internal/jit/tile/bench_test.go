package tile

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
)

// peak returns code that executes Args.InnerCount iterations of 12 independent multiply-adds.
func peak(b *testing.B, cpu machine.Features) *jit.Func {
	g := newGen(&Spec{ElemBytes: 4, Rows: 1, Vectors: 1}, cpu, false)
	for i := range target.VReg(16) {
		g.Clear(i)
	}
	g.Move(target.ArgsWord(jit.OffsetInnerCount), countReg)
	g.Align(32)
	top := g.NewLabel()
	g.Bind(top)
	for i := range target.VReg(12) {
		g.FMAElement(target.Element{Reg: 14}, 15, i)
	}
	g.CountDown(countReg, target.NE, top)
	g.Return()
	f, err := jit.Lookup("peak", func(bool) (jit.Code, error) { return g.Finish() })
	if err != nil {
		b.Fatal(err)
	}
	return f
}

// rate returns the best rate of several rounds of calls, in operations per nanosecond, for calls of flops operations.
func rate(b *testing.B, flops float64, call func()) float64 {
	best := 0.0
	for range 7 {
		from := time.Now()
		for range 200 {
			call()
		}
		best = max(best, 200*flops/float64(time.Since(from)))
	}
	return best
}

// BenchmarkTile measures tiles whose operands stay in L1, and compares them with the peak rate of the processor.
func BenchmarkTile(b *testing.B) {
	if err := jit.Available(); err != nil {
		b.Skip(err)
	}
	for _, cpu := range []machine.Features{machine.AVX512, machine.AVX2} {
		if !machine.HostFeatures().Has(cpu) {
			continue
		}
		_, bytes := target.VectorRegisters(cpu)
		shapes := [][2]int{{14, 2}, {7, 2}, {12, 2}, {13, 2}, {6, 4}, {9, 3}, {8, 3}, {28, 1}, {14, 1}}
		if !cpu.Has(machine.Vector512) {
			shapes = [][2]int{{6, 2}, {4, 3}, {7, 1}, {3, 2}, {3, 3}}
		}
		most, p, a := 0.0, peak(b, cpu), &jit.Args{InnerCount: 1000}
		most = rate(b, 2*12*1000*float64(bytes/4), func() { _ = p.Call(a) })
		for _, s := range shapes {
			for _, dynamic := range []bool{false, true} {
				if dynamic && s[0] > MaxDynamicRows {
					continue
				}
				b.Run(fmt.Sprintf("%v/%dx%d/dynamic=%v", cpu, s[0], s[1], dynamic), func(b *testing.B) {
					r := tileRate(b, cpu, s[0], s[1], dynamic)
					b.ReportMetric(r, "GFLOP/s")
					b.ReportMetric(100*r/most, "%peak")
				})
			}
		}
	}
}

// tileRate measures a tile of 128 terms.
func tileRate(b *testing.B, cpu machine.Features, rows, vectors int, dynamic bool) float64 {
	const terms = 128
	_, bytes := target.VectorRegisters(cpu)
	s := &Spec{ElemBytes: 4, Rows: rows, Vectors: vectors,
		Runs: []Run{{Terms: terms, InStep: 4, VecStep: vectors * bytes}}}
	if dynamic {
		s.Runs = []Run{{Terms: Dynamic, InStep: Dynamic, VecStep: Dynamic}}
	}
	for i := range rows {
		if !dynamic {
			s.In = append(s.In, i*(terms*4+64))
			s.Out = append(s.Out, i*vectors*bytes)
		}
	}
	c, err := Compile(s, cpu)
	if err != nil {
		b.Fatal(err)
	}
	x, w, y := make([]byte, rows*(terms*4+64)), make([]byte, terms*vectors*bytes), make([]byte, rows*vectors*bytes)
	a := &jit.Args{Rows: 10, InnerCount: terms}
	a.Step[InRow], a.Step[OutRow], a.Step[InTerm], a.Step[VecTerm] = terms*4+64, vectors*bytes, 4, vectors*bytes
	a.Ptr[In], a.Ptr[Vec], a.Ptr[Out] = unsafe.Pointer(&x[0]), unsafe.Pointer(&w[0]), unsafe.Pointer(&y[0])
	return rate(b, 10*2*terms*float64(rows*vectors*bytes/4), func() {
		if err := c.Call(a); err != nil {
			b.Fatal(err)
		}
	})
}
