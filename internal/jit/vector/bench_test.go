package vector

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// formula is an expression whose loop is measured. code is nil for the sum of complex numbers.
type formula struct {
	name string
	ins  []tensor.DType
	code func(b *expr.Builder, x []expr.Value) expr.Value
}

func (f *formula) loop(b *testing.B) *expr.Loop {
	e := expr.NewBuilder(f.ins...)
	var x []expr.Value
	for k := range f.ins {
		x = append(x, e.Load(k))
	}
	var out expr.Output
	if f.code == nil {
		re, im := e.Emit(expr.Add, x[0], x[1]), e.Emit(expr.Add, e.LoadImag(0), e.LoadImag(1))
		out = expr.Output{DType: tensor.Complex64, Re: re, Im: im}
	} else {
		out = e.Real(f.code(e, x))
	}
	c, err := e.Build(out)
	if err != nil {
		b.Fatal(err)
	}
	return &expr.Loop{Code: c, Uniform: make([]bool, len(f.ins))}
}

func floats(n int) []tensor.DType { return slices.Repeat([]tensor.DType{tensor.Float32}, n) }

// rounded adds 16-bit floats in float32, as ops do.
func rounded(b *expr.Builder, x []expr.Value) expr.Value {
	f := tensor.Float32
	return b.Convert(b.DType(x[0]), b.Emit(expr.Add, b.Convert(f, x[0]), b.Convert(f, x[1])))
}

var formulas = []formula{
	{"add float16", []tensor.DType{tensor.Float16, tensor.Float16}, rounded},
	{"add bfloat16", []tensor.DType{tensor.BFloat16, tensor.BFloat16}, rounded},
	{"add int32+float32", []tensor.DType{tensor.Int32, tensor.Float32},
		func(b *expr.Builder, x []expr.Value) expr.Value {
			return b.Emit(expr.Add, b.Convert(tensor.Float32, x[0]), x[1])
		}},
	{"add uint8", []tensor.DType{tensor.Uint8, tensor.Uint8},
		func(b *expr.Builder, x []expr.Value) expr.Value { return b.Emit(expr.Add, x[0], x[1]) }},
	{"add complex64", []tensor.DType{tensor.Complex64, tensor.Complex64}, nil},
	{"add", floats(2), func(b *expr.Builder, x []expr.Value) expr.Value { return b.Emit(expr.Add, x[0], x[1]) }},
	{"relu(a*b+c)*d-e", floats(5), func(b *expr.Builder, x []expr.Value) expr.Value {
		y := b.Emit(expr.Max, b.Emit(expr.Add, b.Emit(expr.Mul, x[0], x[1]), x[2]), b.Const(tensor.Float32, 0))
		return b.Emit(expr.Sub, b.Emit(expr.Mul, y, x[3]), x[4])
	}},
	{"exp", floats(1), func(b *expr.Builder, x []expr.Value) expr.Value { return b.Emit(expr.Exp, x[0]) }},
	{"sigmoid", floats(1), func(b *expr.Builder, x []expr.Value) expr.Value {
		one := b.Const(tensor.Float32, 1)
		return b.Emit(expr.Div, one, b.Emit(expr.Add, one, b.Emit(expr.Exp, b.Emit(expr.Neg, x[0]))))
	}},
	{"tanh", floats(1), func(b *expr.Builder, x []expr.Value) expr.Value { return b.Emit(expr.Tanh, x[0]) }},
	{"gelu", floats(1), func(b *expr.Builder, x []expr.Value) expr.Value {
		c := func(v float64) expr.Value { return b.Const(tensor.Float32, v) }
		erf := b.Emit(expr.Erf, b.Emit(expr.Mul, x[0], c(0.70710678118654752440)))
		return b.Emit(expr.Mul, b.Emit(expr.Mul, x[0], c(0.5)), b.Emit(expr.Add, erf, c(1)))
	}},
	{"log", floats(1), func(b *expr.Builder, x []expr.Value) expr.Value { return b.Emit(expr.Log, x[0]) }},
	{"sin", floats(1), func(b *expr.Builder, x []expr.Value) expr.Value { return b.Emit(expr.Sin, x[0]) }},
}

// BenchmarkLoop runs float32 elements in calls of at most 32,768. GB/s count each operand and the result once.
func BenchmarkLoop(b *testing.B) {
	if err := jit.Available(); err != nil {
		b.Skip(err)
	}
	const most = 16 << 20
	var mem [6][]float32
	for k := range mem {
		mem[k] = make([]float32, 2*most)
		for i := range mem[k] {
			mem[k][i] = rand.Float32()*8 - 4
		}
	}
	for _, f := range formulas {
		for _, cpu := range []machine.Features{machine.AVX512, machine.AVX2} {
			if !machine.HostFeatures().Has(cpu) {
				continue
			}
			for _, n := range []int{10, 64, 1 << 16, most} {
				nt := n == most
				b.Run(fmt.Sprintf("%s/%v/%d", f.name, cpu, n), func(b *testing.B) {
					l := f.loop(b)
					c, err := Compile(l, cpu, Options{NonTemporal: nt})
					if err != nil {
						b.Skip(err)
					}
					measure(b, c, l.Code, mem, n)
				})
			}
		}
	}
}

// measure reports the mean time of a run, and as best-ns the least time, which other processes disturb least.
func measure(b *testing.B, l *Loop, code *expr.Code, mem [6][]float32, n int) {
	size := []int{code.Out[0].DType.Size()}
	total := size[0]
	for _, d := range code.In {
		size = append(size, d.Size())
		total += d.Size()
	}
	ins := len(code.In)
	args := new(jit.Args)
	ptrs, strides := make([]unsafe.Pointer, ins+1), make([]int, ins+1)
	b.SetBytes(int64(total * n))
	batch := max(1, 1<<14/n) // many runs, so that reading the clock takes a small part of the time
	for k := range ptrs {
		ptrs[k] = unsafe.Pointer(&mem[(k+5)%6][0])
	}
	run := func() error { return l.Call(args) } // like a step whose operands have the same addresses each time
	if err := l.Run(args, ptrs, strides, min(32768, n), 1); err != nil {
		b.Fatal(err)
	}
	if n > 32768 {
		run = func() (err error) {
			for at := 0; at < n; at += 32768 {
				for k := range ptrs {
					ptrs[k] = unsafe.Add(unsafe.Pointer(&mem[(k+5)%6][0]), at*size[k])
				}
				err = errors.Join(err, l.Run(args, ptrs, strides, min(32768, n-at), 1))
			}
			return err
		}
	}
	best, runs := time.Duration(math.MaxInt64), 0
	for b.Loop() {
		if runs++; runs%batch != 0 {
			continue
		}
		start := time.Now()
		for range batch {
			if err := run(); err != nil {
				b.Fatal(err)
			}
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best)/float64(batch), "best-ns/op")
	b.ReportMetric(float64(total*n*batch)/float64(best), "best-GB/s")
}

// BenchmarkAssemble measures the compilation of each loop.
func BenchmarkAssemble(b *testing.B) {
	defer func(verify bool) { alloc.Verify = verify }(alloc.Verify)
	alloc.Verify = false
	for _, f := range formulas {
		b.Run(f.name, func(b *testing.B) {
			l := f.loop(b)
			for b.Loop() {
				if _, err := assemble(l, machine.AVX512, Options{}, false); err != nil {
					b.Skip(err)
				}
			}
		})
	}
}
