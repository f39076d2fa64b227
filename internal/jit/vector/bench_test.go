package vector

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// formulas are the loops that are measured.
var formulas = []struct {
	name string
	ins  int
	code func(b *expr.Builder, x []expr.Value) expr.Value
}{
	{"add", 2, func(b *expr.Builder, x []expr.Value) expr.Value { return b.Do(expr.Add, x[0], x[1]) }},
	{"relu(a*b+c)*d-e", 5, func(b *expr.Builder, x []expr.Value) expr.Value {
		y := b.Do(expr.Max, b.Do(expr.Add, b.Do(expr.Mul, x[0], x[1]), x[2]), b.Const(tensor.Float32, 0))
		return b.Do(expr.Sub, b.Do(expr.Mul, y, x[3]), x[4])
	}},
	{"exp", 1, func(b *expr.Builder, x []expr.Value) expr.Value { return b.Do(expr.Exp, x[0]) }},
	{"sigmoid", 1, func(b *expr.Builder, x []expr.Value) expr.Value {
		one := b.Const(tensor.Float32, 1)
		return b.Do(expr.Div, one, b.Do(expr.Add, one, b.Do(expr.Exp, b.Do(expr.Neg, x[0]))))
	}},
	{"tanh", 1, func(b *expr.Builder, x []expr.Value) expr.Value { return b.Do(expr.Tanh, x[0]) }},
	{"gelu", 1, func(b *expr.Builder, x []expr.Value) expr.Value {
		c := func(v float64) expr.Value { return b.Const(tensor.Float32, v) }
		erf := b.Do(expr.Erf, b.Do(expr.Mul, x[0], c(0.70710678118654752440)))
		return b.Do(expr.Mul, b.Do(expr.Mul, x[0], c(0.5)), b.Do(expr.Add, erf, c(1)))
	}},
	{"log", 1, func(b *expr.Builder, x []expr.Value) expr.Value { return b.Do(expr.Log, x[0]) }},
	{"sin", 1, func(b *expr.Builder, x []expr.Value) expr.Value { return b.Do(expr.Sin, x[0]) }},
}

// BenchmarkLoop runs float32 elements in calls of at most 32,768. GB/s count each operand and the result once.
func BenchmarkLoop(b *testing.B) {
	if err := jit.Available(); err != nil {
		b.Skip(err)
	}
	const most = 16 << 20
	var mem [6][]float32
	for k := range mem {
		mem[k] = make([]float32, most+16)
		for i := range mem[k] {
			mem[k][i] = rand.Float32()*8 - 4
		}
	}
	for _, f := range formulas {
		for _, isa := range []machine.ISA{machine.AVX512, machine.AVX2} {
			if isa > machine.Instructions() {
				continue
			}
			for _, n := range []int{10, 64, 1 << 16, most} {
				nt := n == most
				b.Run(fmt.Sprintf("%s/%v/%d", f.name, isa, n), func(b *testing.B) {
					d := make([]tensor.DType, f.ins)
					for k := range d {
						d[k] = tensor.Float32
					}
					e := expr.NewBuilder(d...)
					var x []expr.Value
					for k := range d {
						x = append(x, e.Load(k))
					}
					c, err := e.Build(e.Real(f.code(e, x)))
					if err != nil {
						b.Fatal(err)
					}
					l, err := Compile(&expr.Loop{Code: c, Scalar: make([]bool, f.ins)}, isa, Options{NonTemporal: nt})
					if err != nil {
						b.Skip(err)
					}
					measure(b, l, mem, f.ins, n)
				})
			}
		}
	}
}

func measure(b *testing.B, l *Loop, mem [6][]float32, ins, n int) {
	args := new(jit.Args)
	ptrs, strides := make([]unsafe.Pointer, ins+1), make([]int, ins+1)
	b.SetBytes(int64(4 * n * (ins + 1)))
	for b.Loop() {
		for at := 0; at < n; at += 32768 {
			for k := range ptrs {
				ptrs[k] = unsafe.Pointer(&mem[(k+5)%6][at])
			}
			if err := l.Run(args, ptrs, strides, min(32768, n-at), 1); err != nil {
				b.Fatal(err)
			}
		}
	}
}
