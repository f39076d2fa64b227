package interp

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/exprtest"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// memory is an operand or output of rows.
type memory struct {
	d      tensor.DType
	bytes  []byte
	stride int
	scalar bool
}

func newMemory(rng *rand.Rand, d tensor.DType, n0, n1 int, scalar bool) *memory {
	m := &memory{d: d, scalar: scalar}
	row := n0
	if scalar {
		row = 1
	}
	gap := rng.IntN(3)
	if m.stride = (row + gap) * d.Size(); rng.IntN(4) == 0 && scalar {
		m.stride = 0
	}
	// The last row ends with the memory.
	words := make([]uint64, (m.stride*(n1-1)+row*d.Size())/8+2)
	m.bytes = unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), m.stride*(n1-1)+row*d.Size())
	part := d.ToReal()
	for at := 0; at+part.Size() <= len(m.bytes); at += part.Size() {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], exprtest.RandomBits(rng, part))
		copy(m.bytes[at:], b[:part.Size()])
	}
	return m
}

func (m *memory) at(i, j int) (n expr.Number) {
	if m.scalar {
		i = 0
	}
	read := func(at int) uint64 {
		var b [8]byte
		copy(b[:], m.bytes[at:at+m.d.ToReal().Size()])
		return binary.LittleEndian.Uint64(b[:])
	}
	at := j*m.stride + i*m.d.Size()
	n.Re = read(at)
	if m.d.IsComplex() {
		n.Im = read(at + m.d.Size()/2)
	}
	return n
}

func (m *memory) ptr() unsafe.Pointer { return unsafe.Pointer(&m.bytes[0]) }

// TestInterpAgainstEval runs random codes over rows of ragged lengths, some outputs in the memory of an operand.
func TestInterpAgainstEval(t *testing.T) {
	lengths := []int{1, 2, 7, 31, 33, 255, 256, 257, 513, 1100}
	for seed := range testsize.Of[uint64](500, 2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := exprtest.RandomCode(t, rng)
		n0, n1 := lengths[rng.IntN(len(lengths))], 1+rng.IntN(3)
		switch {
		case seed%50 == 0:
			n0, n1 = 4100, 1 // more than a block of bytes
		case n0 < 40 && seed%2 == 0:
			n1 = 1 + rng.IntN(1200/n0) // rows that are more than a block together
		}
		if !againstEval(t, rng, c, n0, n1) {
			t.Fatalf("seed %d: %d rows of %d\n%v", seed, n1, n0, c)
		}
	}
}

func againstEval(t *testing.T, rng *rand.Rand, c *expr.Code, n0, n1 int) bool {
	l := &expr.Loop{Code: c, Uniform: make([]bool, len(c.In))}
	ins := make([]*memory, len(c.In))
	for k, d := range c.In {
		l.Uniform[k] = rng.IntN(3) == 0
		ins[k] = newMemory(rng, d, n0, n1, l.Uniform[k])
	}
	outs, taken := make([]*memory, len(c.Out)), map[int]bool{}
	for k, o := range c.Out {
		outs[k] = newMemory(rng, o.DType, n0, n1, false)
		for i, in := range ins {
			if in.d.Size() == o.DType.Size() && (!in.scalar || n0 == 1 && in.stride > 0) && !taken[i] && rng.IntN(2) == 0 {
				outs[k] = &memory{o.DType, in.bytes, in.stride, false}
				taken[i] = true
				break
			}
		}
	}
	want := make([][]expr.Number, n0*n1)
	for at := range want {
		x := make([]expr.Number, len(ins))
		for k, in := range ins {
			x[k] = in.at(at%n0, at/n0)
		}
		want[at] = c.Eval(x...)
	}
	p, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	var ptrs []unsafe.Pointer
	var strides []int
	for _, m := range append(append([]*memory(nil), outs...), ins...) {
		ptrs, strides = append(ptrs, m.ptr()), append(strides, m.stride)
	}
	p.Run(nil, ptrs, strides, nil, n0, n1)
	for at := range want {
		for k, o := range outs {
			got, part := o.at(at%n0, at/n0), o.d.ToReal()
			if !exprtest.SameBits(part, got.Re, want[at][k].Re) || !exprtest.SameBits(part, got.Im, want[at][k].Im) {
				t.Errorf("y%d[%d]: got %x, want %x", k, at, got, want[at][k])
				return false
			}
		}
	}
	return true
}

// TestFolds checks the definition: element k of a row goes into accumulator k mod FoldLanes.
func TestFolds(t *testing.T) {
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 2))
		d := []tensor.DType{tensor.Bool, tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
			tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Float32, tensor.Float64}[rng.IntN(11)]
		o := []expr.Op{expr.Add, expr.Mul, expr.Min, expr.Max, expr.And, expr.Or}[rng.IntN(6)]
		if !exprtest.IsValidOp(o, d) {
			continue
		}
		t.Run(fmt.Sprintf("%d %v %v", seed, o, d), func(t *testing.T) { foldOnce(t, rng, o, d) })
	}
}

// foldOnce folds x or x op y, not stored or stored in x, and compares all lanes.
func foldOnce(t *testing.T, rng *rand.Rand, o expr.Op, d tensor.DType) {
	b := expr.NewBuilder(d, d)
	v := b.Load(0)
	if rng.IntN(3) > 0 {
		v = b.Emit(o, v, b.Load(1))
	}
	out := expr.Output{DType: tensor.Invalid, Re: v, Im: expr.None}
	inPlace := rng.IntN(2) == 0
	if inPlace {
		out.DType = d
	}
	c, err := b.Build(out)
	if err != nil {
		t.Fatal(err)
	}
	l := &expr.Loop{Code: c, Uniform: make([]bool, len(c.In)), Folds: []expr.Fold{{Op: o, Value: c.Out[0].Re}}}
	n0, n1 := []int{1, 31, 32, 33, 512, 700, 1100, 4100}[rng.IntN(8)], 1+rng.IntN(3)
	l.Uniform[0] = rng.IntN(5) == 0 && !inPlace
	x, y := newMemory(rng, d, n0, n1, l.Uniform[0]), newMemory(rng, d, n0, n1, false)
	fold := expr.NewBuilder(d, d)
	one, err := fold.Build(fold.Real(fold.Emit(o, fold.Load(0), fold.Load(1))))
	if err != nil {
		t.Fatal(err)
	}
	var acc, want [expr.FoldLanes]uint64
	size := d.Size()
	for lane := range want {
		want[lane] = expr.Neutral(o, d)
		var bits [8]byte
		binary.LittleEndian.PutUint64(bits[:], want[lane])
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&acc)), 8*expr.FoldLanes)[lane*size:], bits[:size])
	}
	for j := range n1 {
		for i := range n0 {
			e := c.Eval(x.at(i, j), y.at(i, j))[0]
			want[i%expr.FoldLanes] = one.Eval(expr.Number{Re: want[i%expr.FoldLanes]}, e)[0].Re
		}
	}
	p, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	p.Run(p.NewScratch(), []unsafe.Pointer{x.ptr(), x.ptr(), y.ptr()}, []int{x.stride, x.stride, y.stride},
		[]unsafe.Pointer{unsafe.Pointer(&acc)}, n0, n1)
	for lane := range want {
		var bits [8]byte
		copy(bits[:size], unsafe.Slice((*byte)(unsafe.Pointer(&acc)), 8*expr.FoldLanes)[lane*size:])
		if got := binary.LittleEndian.Uint64(bits[:]); !exprtest.SameBits(d, got, want[lane]) {
			t.Errorf("lane %d of %d x %d: %x, want %x", lane, n1, n0, got, want[lane])
		}
	}
}

// TestFMA32 compares float32 multiply-adds with exact arithmetic, for sums that two roundings get wrong.
func TestFMA32(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	b := expr.NewBuilder(tensor.Float32, tensor.Float32, tensor.Float32)
	exact, err := b.Build(b.Real(b.Emit(expr.FMA, b.Load(0), b.Load(1), b.Load(2))))
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for range 200000 {
		var x [3]float32
		for k := range x {
			x[k] = math.Float32frombits(uint32(exprtest.RandomBits(rng, tensor.Float32)))
		}
		if rng.IntN(2) == 0 { // c just above or below half of the last place of a*b
			x[0], x[1] = 1+float32(rng.IntN(1<<12))/(1<<12), 1+float32(rng.IntN(1<<12))/(1<<12)
			x[2] = float32(math.Ldexp(float64(1-2*rng.IntN(2)), -rng.IntN(70)))
		}
		got := fma32(x[0], x[1], x[2])
		var in [3]expr.Number
		for k := range in {
			in[k].Re = uint64(math.Float32bits(x[k]))
		}
		want := math.Float32frombits(uint32(exact.Eval(in[:]...)[0].Re))
		if !exprtest.SameBits(tensor.Float32, uint64(math.Float32bits(got)), uint64(math.Float32bits(want))) {
			t.Fatalf("%v*%v + %v: %v, want %v", x[0], x[1], x[2], got, want)
		}
		if twice := float32(float64(x[0])*float64(x[1]) + float64(x[2])); want == want && twice != want {
			wrong++
		}
	}
	if wrong == 0 {
		t.Error("no sum that two roundings get wrong was tried")
	}
}

// TestRunAllocatesNothing checks runs with pooled and with given scratch memory.
func TestRunAllocatesNothing(t *testing.T) {
	b := expr.NewBuilder(tensor.Float32, tensor.Float32)
	c, err := b.Build(b.Real(b.Emit(expr.Max, b.Emit(expr.Add, b.Emit(expr.Mul, b.Load(0), b.Load(1)), b.Load(1)),
		b.Const(tensor.Float32, 0))))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(&expr.Loop{Code: c, Uniform: []bool{false, true}})
	if err != nil {
		t.Fatal(err)
	}
	x, s := make([]float32, 1000), p.NewScratch()
	ptrs := []unsafe.Pointer{unsafe.Pointer(&x[0]), unsafe.Pointer(&x[0]), unsafe.Pointer(&x[0])}
	if n := testing.AllocsPerRun(100, func() { p.Run(s, ptrs, []int{0, 0, 0}, nil, 1000, 1) }); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
}

// TestFoldsOfUniformParts folds values that one loop computes from both parts of a scalar operand: once, not once per
// part.
func TestFoldsOfUniformParts(t *testing.T) {
	b := expr.NewBuilder(tensor.Complex128)
	re, im := b.Load(0), b.LoadImag(0)
	minusIm, minusRe := b.Emit(expr.Neg, im), b.Emit(expr.Neg, re)
	c, err := b.Build(b.Real(minusRe), b.Real(minusIm))
	if err != nil {
		t.Fatal(err)
	}
	c.Out[0].DType, c.Out[1].DType = tensor.Invalid, tensor.Invalid
	l := &expr.Loop{Code: c, Uniform: []bool{true}, CombinesLanes: true,
		Folds: []expr.Fold{{Op: expr.Add, Value: c.Out[0].Re}, {Op: expr.Add, Value: c.Out[1].Re}}}
	p, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	x := []complex128{3 + 5i}
	var sums [2]float64
	p.Run(nil, []unsafe.Pointer{nil, nil, unsafe.Pointer(&x[0])}, []int{0, 0, 0},
		[]unsafe.Pointer{unsafe.Pointer(&sums[0]), unsafe.Pointer(&sums[1])}, 40, 1)
	if sums != [2]float64{-120, -200} {
		t.Errorf("got %v", sums)
	}
}
