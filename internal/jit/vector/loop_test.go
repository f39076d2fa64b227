//go:build linux || darwin

package vector

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
	"golang.org/x/sys/unix"
)

// levels returns the instruction sets that can be run here.
func levels(t testing.TB) []machine.Features {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	host := machine.HostFeatures()
	switch {
	case host.Has(machine.Vector512):
		return []machine.Features{host, host.Vectors256()}
	case host.Has(machine.NEON) && host != machine.NEON:
		return []machine.Features{host, machine.NEON}
	}
	return []machine.Features{host}
}

const guarded = 1 << 14

// guard is memory between two pages that must not be touched.
type guard []byte

func newGuard(t testing.TB) guard {
	page := os.Getpagesize()
	m, err := unix.Mmap(-1, 0, guarded+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range [][]byte{m[:page], m[page+guarded:]} {
		if err := unix.Mprotect(p, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	return guard(m[page : page+guarded : page+guarded])
}

// bench has the memory of two runs of a loop, one compiled and one interpreted. Both start with the same data.
type bench struct {
	mem  [2][]guard
	args *jit.Args
}

func newBench(t testing.TB) *bench {
	b := &bench{args: new(jit.Args)}
	for k := range b.mem {
		for range jit.MaxOperands {
			b.mem[k] = append(b.mem[k], newGuard(t))
		}
	}
	return b
}

// part describes the elements of a pointer: its rows start at offset at of memory mem, and have n elements each. size
// and stride are those of a row in bytes.
type part struct {
	mem, at, size, stride int
	dtype                 tensor.DType
	n                     int
}

// layOut places outputs, operands and accumulators, mostly at the start or end of guarded memory. Sometimes an output
// has the memory of an operand.
func (b *bench) layOut(rng *rand.Rand, l *expr.Loop, n, rows int) []part {
	var parts []part
	add := func(d tensor.DType, n int, sparse bool) {
		p := part{mem: len(parts), dtype: d, n: n, size: n * d.Size()}
		p.stride = p.size
		if sparse && rng.IntN(3) == 0 {
			p.stride += rng.IntN(20) * d.Size()
		}
		total := (rows-1)*p.stride + p.size
		if p.at = guarded - total; rng.IntN(3) == 0 {
			p.at = 0
		} else if rng.IntN(3) == 0 {
			p.at -= rng.IntN(100)
		}
		parts = append(parts, p)
	}
	for _, o := range l.Code.Out {
		add(o.DType, n, true)
	}
	for k, d := range l.Code.In {
		if l.Uniform[k] {
			add(d, 1, true)
		} else {
			add(d, n, true)
		}
	}
	for k := range l.Folds {
		if l.CombinesLanes {
			add(l.DType(k), 1, true)
			continue
		}
		add(l.DType(k), expr.FoldLanes, false)
	}
	taken := map[int]bool{}
	for k, o := range l.Code.Out {
		j := len(l.Code.Out) + rng.IntN(len(l.Code.In))
		if !taken[j] && rng.IntN(3) == 0 && parts[j].n == n && parts[j].dtype.Size() == o.DType.Size() &&
			!l.Uniform[j-len(l.Code.Out)] {
			parts[k], taken[j] = parts[j], true
			parts[k].dtype = o.DType
		}
	}
	return parts
}

// fill writes random operands and accumulators, the same for both runs. Outputs are filled with 0xA5.
func (b *bench) fill(rng *rand.Rand, parts []part, outs, rows int) {
	for k, p := range parts {
		m := b.mem[0][p.mem]
		if k < outs {
			for i := range m {
				m[i] = 0xA5
			}
		}
	}
	for k, p := range parts {
		m := b.mem[0][p.mem]
		for row := 0; row < rows && k >= outs; row++ {
			for i := range p.n {
				putElement(m[p.at+row*p.stride:], i, p.dtype, rng)
			}
		}
	}
	for _, p := range parts {
		copy(b.mem[1][p.mem], b.mem[0][p.mem])
	}
}

func putElement(m []byte, i int, d tensor.DType, rng *rand.Rand) {
	r := d
	if d.IsComplex() {
		r = d.ToReal()
	}
	for at := 0; at < d.Size(); at += r.Size() {
		x := binary.LittleEndian.AppendUint64(nil, randomBits(rng, r))
		copy(m[i*d.Size()+at:], x[:r.Size()])
	}
}

func (b *bench) pointers(run int, parts []part) (ptrs []unsafe.Pointer, strides []int) {
	for _, p := range parts {
		ptrs = append(ptrs, unsafe.Add(unsafe.Pointer(unsafe.SliceData(b.mem[run][p.mem])), p.at))
		strides = append(strides, p.stride)
	}
	return ptrs, strides
}

// sameElement compares an element of both runs. All NaNs are equal.
func sameElement(d tensor.DType, a, b []byte) bool {
	if d.IsComplex() {
		r := d.ToReal()
		h := r.Size()
		return sameElement(r, a[:h], b[:h]) && sameElement(r, a[h:], b[h:])
	}
	if bytes.Equal(a, b) {
		return true
	}
	if !d.IsFloat() {
		return false
	}
	var x, y float64
	tensor.Converter(tensor.Float64, d)(unsafe.Pointer(&x), unsafe.Pointer(&a[0]), 0, 0, 1)
	tensor.Converter(tensor.Float64, d)(unsafe.Pointer(&y), unsafe.Pointer(&b[0]), 0, 0, 1)
	return math.IsNaN(x) && math.IsNaN(y)
}

// differ describes the first difference between the results of the two runs. It returns "" if there is none.
func (b *bench) differ(parts []part, outs, ins, rows int) string {
	for k, p := range parts {
		if k >= outs && k < outs+ins || p.size == 0 {
			continue
		}
		x, y := b.mem[0][p.mem], b.mem[1][p.mem]
		for row := range rows {
			for i := range p.n {
				at := p.at + row*p.stride + i*p.dtype.Size()
				u, v := x[at:at+p.dtype.Size()], y[at:at+p.dtype.Size()]
				if !sameElement(p.dtype, u, v) {
					return fmt.Sprintf("pointer %d (%v) row %d element %d: compiled % x, interpreted % x", k, p.dtype, row, i,
						u, v)
				}
				copy(u, v)
			}
		}
	}
	for _, p := range parts {
		if !bytes.Equal(b.mem[0][p.mem], b.mem[1][p.mem]) {
			return fmt.Sprintf("bytes beside the elements of pointer %d changed", p.mem)
		}
	}
	return ""
}

// check compiles a loop and compares both runs. It returns the reason if the loop is unsupported, and "" otherwise.
func (b *bench) check(t *testing.T, rng *rand.Rand, l *expr.Loop, cpu machine.Features, n, rows int) string {
	t.Helper()
	x, err := newTrial(rng, l, cpu, n, rows)
	switch {
	case errors.Is(err, ErrUnsupported):
		return err.Error()
	case err != nil:
		t.Fatalf("%v\n%v", err, l.Code)
	}
	b.compare(t, x)
	return ""
}

// trial is a compiled loop and the sizes of its runs.
type trial struct {
	*expr.Loop
	rng     *rand.Rand
	cpu     machine.Features
	code    *Loop
	n, rows int
}

// newTrial compiles a loop with random options.
func newTrial(rng *rand.Rand, l *expr.Loop, cpu machine.Features, n, rows int) (*trial, error) {
	opts := Options{NonTemporal: rng.IntN(4) == 0, CachedOutputs: rng.Uint32() & rng.Uint32()}
	if rng.IntN(4) == 0 {
		opts.Prefetch = Prefetch{Operands: rng.Uint32(), Bytes: int32(rng.IntN(1 << 20)), IntoL1: rng.IntN(2) == 0}
	}
	if rng.IntN(3) == 0 && !l.CombinesLanes {
		opts.Registers = 8 // few, so that values are spilled
	}
	c, err := Compile(l, cpu, opts)
	return &trial{l, rng, cpu, c, n, rows}, err
}

// compare interprets and calls a loop, and compares the results.
func (b *bench) compare(t *testing.T, x *trial) {
	t.Helper()
	l, rng, c, n, rows := x.Loop, x.rng, x.code, x.n, x.rows
	var err error
	reference := l
	if slices.ContainsFunc(l.Code.Insts, func(i expr.Inst) bool { return i.Op.Elementary() }) {
		if reference, err = Expanded(l, x.cpu); err != nil {
			t.Fatal(err)
		}
	}
	p, err := interp.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	outs, ins := len(l.Code.Out), len(l.Code.In)
	parts := b.layOut(rng, l, n, rows)
	if rng.IntN(2) == 0 && !l.CombinesLanes {
		for k := outs + ins; k < len(parts); k++ {
			parts[k].stride = 0
		}
	}
	b.fill(rng, parts, outs, rows)
	ptrs, strides := b.pointers(1, parts)
	scratch := p.NewScratch() // the interpreter's own scratch memory would outlive it by a collection or two
	for row := range rows {
		at := make([]unsafe.Pointer, len(ptrs))
		for k := range ptrs {
			at[k] = unsafe.Add(ptrs[k], row*strides[k])
		}
		p.Run(scratch, at[:outs+ins], strides[:outs+ins], at[outs+ins:], n, 1)
	}
	ptrs, strides = b.pointers(0, parts)
	// Sometimes a row is computed by two calls.
	if cut := expr.FoldLanes * rng.IntN(4); rows == 1 && cut < n && !l.CombinesLanes && rng.IntN(2) == 0 {
		if err := c.Run(b.args, ptrs, strides, cut, 1); err != nil {
			t.Fatal(err)
		}
		for k := range ptrs {
			if k < outs || k < outs+ins && !l.Uniform[k-outs] {
				ptrs[k] = unsafe.Add(ptrs[k], cut*parts[k].dtype.Size())
			}
		}
		if err := c.Run(b.args, ptrs, strides, n-cut, 1); err != nil {
			t.Fatal(err)
		}
	} else if err := c.Run(b.args, ptrs, strides, n, rows); err != nil {
		t.Fatal(err)
	}
	if d := b.differ(parts, outs, ins, rows); d != "" {
		t.Fatalf("%v, %d rows of %d: %s\nscalar %v, folds %v, totals %v\n%v\n%s", x.cpu, rows, n, d, l.Uniform, l.Folds,
			l.CombinesLanes, l.Code, c.Listing())
	}
}

// TestOperations runs each operation of each dtype by itself, and each conversion.
func TestOperations(t *testing.T) {
	testsize.Long(t)
	lengths := testsize.Of([]int{1, 7, 200}, []int{1, 3, 7, 8, 16, 31, 200})
	for _, cpu := range levels(t) {
		t.Run(cpu.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			b := newBench(t)
			missing := map[string]int{}
			try := func(d tensor.DType, code func(m *exprMaker) expr.Value) {
				for round := range testsize.Of(2, 3) {
					m := &exprMaker{Builder: expr.NewBuilder(d, d, tensor.Bool), rng: rng}
					m.values = []expr.Value{m.Load(0), m.Load(1), m.Load(2)}
					c, err := m.Build(m.Real(code(m)))
					if err != nil {
						t.Fatal(err)
					}
					l := &expr.Loop{Code: c, Uniform: []bool{false, round == 1, false}}
					for _, n := range lengths {
						if why := b.check(t, rng, l, cpu, n, 1+round); why != "" {
							missing[why]++
							break
						}
					}
				}
			}
			for _, d := range operationDTypes {
				for _, o := range operations(d) {
					try(d, func(m *exprMaker) expr.Value { return m.apply(o, d) })
				}
			}
			for _, d := range []tensor.DType{tensor.Float32, tensor.Float64} {
				for o := expr.Exp; o <= expr.Atan2; o++ {
					try(d, func(m *exprMaker) expr.Value { return m.apply(o, d) })
				}
			}
			all := tensor.DTypes()
			for _, s := range all[:len(all)-2] {
				for _, d := range all[:len(all)-2] {
					try(s, func(m *exprMaker) expr.Value { return m.Convert(d, m.values[0]) })
					if s.IsFloat() && !s.IsReducedFloat() {
						try(s, func(m *exprMaker) expr.Value { return m.Convert(d, m.Emit(expr.Rint, m.values[0])) })
					}
				}
			}
			expectMissing(t, missing, 1)
		})
	}
}

// TestTotals folds rows of each dtype by each operation. A loop with one fold always has code.
func TestTotals(t *testing.T) {
	for _, cpu := range levels(t) {
		t.Run(cpu.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			b := newBench(t)
			sizes := testsize.Short([]int{1, 16, 31, 65, 197}, []int{1, 7, 16, 31, 32, 65, 100, 197, 200})
			for _, d := range operationDTypes {
				for _, o := range []expr.Op{expr.Add, expr.Mul, expr.Min, expr.Max, expr.And, expr.Or} {
					for _, n := range sizes {
						e := expr.NewBuilder(d)
						c, err := e.Build(expr.Output{Re: e.Load(0), Im: expr.None})
						if err != nil {
							t.Fatal(err)
						}
						l := &expr.Loop{Code: c, Uniform: []bool{false}, Folds: []expr.Fold{{Op: o, Value: c.Out[0].Re}},
							CombinesLanes: true}
						if l.Check() != nil {
							continue
						}
						if why := b.check(t, rng, l, cpu, n, 1+rng.IntN(5)); why != "" {
							t.Fatalf("%v of %v: %s", o, d, why)
						}
					}
				}
			}
		})
	}
}

// TestManyPointers computes sums of as many operands as a loop may have, so that some pointers have no register.
func TestManyPointers(t *testing.T) {
	in := make([]tensor.DType, jit.MaxOperands-2)
	scalar := make([]bool, len(in))
	for k := range in {
		in[k] = []tensor.DType{tensor.Float32, tensor.Int16, tensor.Uint8}[k%3]
		scalar[k] = k%7 == 6
	}
	e := expr.NewBuilder(in...)
	sum := e.Load(0)
	for k := range in[1:] {
		sum = e.Emit(expr.Add, sum, e.Convert(tensor.Float32, e.Load(k+1)))
	}
	c, err := e.Build(e.Real(sum))
	if err != nil {
		t.Fatal(err)
	}
	for _, cpu := range levels(t) {
		b := newBench(t)
		for seed := range testsize.Short[uint64](12, 40) {
			l := &expr.Loop{Code: c, Uniform: scalar, Folds: []expr.Fold{{Op: expr.Max, Value: c.Out[0].Re}},
				CombinesLanes: seed%2 == 0}
			rng := rand.New(rand.NewPCG(seed, 5))
			if why := b.check(t, rng, l, cpu, 1+rng.IntN(100), 1+int(seed%4)); why != "" {
				t.Fatal(why)
			}
		}
	}
}

// expectMissing checks why some of a number of loops have no code. A tenth may lack registers, and one in 50,000 spill
// memory.
func expectMissing(t *testing.T, missing map[string]int, of int) {
	for why, n := range missing {
		ok := strings.HasSuffix(why, "too many values are live at the same time") && n <= of/50000 ||
			strings.HasSuffix(why, "than there are registers") && n <= of/10
		if !ok {
			t.Error(why)
		}
	}
}
