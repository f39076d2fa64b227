package expr

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

var allDTypes = []tensor.DType{tensor.Bool, tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
	tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64,
	tensor.Complex64, tensor.Complex128}

// randomBits returns an element of a real dtype: special values, small whole numbers, and any bits.
func randomBits(rng *rand.Rand, d tensor.DType) uint64 {
	special := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, 3.5, -7.25, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40,
		-1e-310, 6e4, 3e9, -3e9, 1e19, math.MaxFloat32, -math.MaxFloat64, math.Pi, 1 << 24}
	if d == tensor.Bool {
		return rng.Uint64() & 1
	}
	mask := ^uint64(0) >> (64 - 8*d.Size())
	switch k := rng.IntN(4); {
	case k == 0:
		return rng.Uint64() & mask
	case d.IsFloat() && k == 1:
		var b uint64
		x := special[rng.IntN(len(special))]
		tensor.Converter(d, tensor.Float64)(unsafe.Pointer(&b), unsafe.Pointer(&x), 0, 0, 1)
		return b
	case d.IsFloat():
		var b uint64
		x := math.Round(rng.NormFloat64()*100) / 8
		tensor.Converter(d, tensor.Float64)(unsafe.Pointer(&b), unsafe.Pointer(&x), 0, 0, 1)
		return b
	case k == 1:
		return []uint64{0, 1, mask, mask >> 1, mask>>1 + 1, 2}[rng.IntN(6)]
	}
	return uint64(rng.IntN(20)-8) & mask
}

var testFuncs = []*Func{
	{Name: "test.lgamma", Args: 1, F: func(a, _, _ float64) float64 { v, _ := math.Lgamma(a); return v }},
	{Name: "test.mix", Args: 3, F: func(a, b, c float64) float64 { return a*b - c }},
}

// randomCode makes a code of up to 12 operations on operands of random dtypes.
func randomCode(t *testing.T, rng *rand.Rand) *Code {
	in := make([]tensor.DType, 1+rng.IntN(3))
	for k := range in {
		in[k] = allDTypes[rng.IntN(len(allDTypes))]
	}
	b := NewBuilder(in...)
	var values []Value
	for k, d := range in {
		values = append(values, b.Load(k))
		if d.IsComplex() {
			values = append(values, b.LoadImag(k))
		}
	}
	one := func() Value { return values[rng.IntN(len(values))] }
	for range 1 + rng.IntN(12) {
		values = append(values, randomInst(b, rng, one))
	}
	var outs []Output
	for k := range 1 + rng.IntN(3) {
		v := one()
		if k == 0 {
			v = values[len(values)-1]
		}
		o := b.Real(v)
		if d := b.DType(v); d == tensor.Float32 || d == tensor.Float64 {
			if w := one(); rng.IntN(3) == 0 && b.DType(w) == d {
				o = Output{DType: d.ToComplex(), Re: v, Im: w}
			}
		}
		outs = append(outs, o)
	}
	c, err := b.Build(outs...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// randomInst applies an operation that is allowed of a value, and brings further operands to its dtype.
func randomInst(b *Builder, rng *rand.Rand, one func() Value) Value {
	for {
		v := one()
		d := b.DType(v)
		if d.IsReducedFloat() || rng.IntN(6) == 0 {
			v = b.Convert([]tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Uint8, tensor.Float16,
				tensor.BFloat16, tensor.Bool, tensor.Int64, tensor.Uint64, tensor.Int16}[rng.IntN(10)], v)
			if d = b.DType(v); d.IsReducedFloat() {
				return v
			}
		}
		arg := func() Value {
			if rng.IntN(3) == 0 {
				return b.Make(Inst{Op: Const, DType: d, A: None, B: None, C: None, Imm: randomBits(rng, d)})
			}
			return b.Convert(d, one())
		}
		o := Op(1 + rng.IntN(int(numOps)-1))
		switch o {
		case Const, Load, Convert, Reduce, Position, Scan:
			return b.Make(Inst{Op: Const, DType: d, A: None, B: None, C: None, Imm: randomBits(rng, d)})
		case Bits:
			to := map[int][]tensor.DType{1: {tensor.Uint8, tensor.Int8}, 2: {tensor.Int16, tensor.Float16},
				4: {tensor.Int32, tensor.Float32, tensor.Uint32}, 8: {tensor.Int64, tensor.Float64}}[d.Size()]
			return b.Bits(to[rng.IntN(len(to))], v)
		case Select:
			return b.Do(Select, b.Convert(tensor.Bool, one()), v, arg())
		case Lookup:
			if d != tensor.Float32 {
				continue
			}
			return b.Make(Inst{Op: Lookup, DType: d, A: v, B: None, C: None, Imm: uint64(rng.IntN(len(tables)))})
		case Call:
			if !d.IsFloat() {
				continue
			}
			f := testFuncs[rng.IntN(len(testFuncs))]
			return b.Call(f, d, []Value{v, arg(), arg()}[:f.Args]...)
		}
		compares := o == Eq || o == Ne || o == Lt || o == Le
		if !compares && takes(o, d) != nil {
			continue
		}
		args := []Value{v, arg(), arg()}[:o.Args()]
		if rng.IntN(2) == 0 && len(args) > 1 {
			args[0], args[1] = args[1], args[0]
		}
		return b.Do(o, args...)
	}
}

func sameBits(d tensor.DType, a, b uint64) bool {
	if a == b {
		return true
	}
	switch d {
	case tensor.Float16:
		x, y := tensor.Half(a).Float32(), tensor.Half(b).Float32()
		return x != x && y != y
	case tensor.BFloat16:
		x, y := tensor.BF16(a).Float32(), tensor.BF16(b).Float32()
		return x != x && y != y
	case tensor.Float32:
		x, y := math.Float32frombits(uint32(a)), math.Float32frombits(uint32(b))
		return x != x && y != y
	case tensor.Float64:
		x, y := math.Float64frombits(a), math.Float64frombits(b)
		return x != x && y != y
	}
	return false
}

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
		binary.LittleEndian.PutUint64(b[:], randomBits(rng, part))
		copy(m.bytes[at:], b[:part.Size()])
	}
	return m
}

func (m *memory) at(i, j int) (n Number) {
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
	rounds := 2000
	if testing.Short() {
		rounds = 500
	}
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := randomCode(t, rng)
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

func againstEval(t *testing.T, rng *rand.Rand, c *Code, n0, n1 int) bool {
	l := &Loop{Code: c, Scalar: make([]bool, len(c.In))}
	ins := make([]*memory, len(c.In))
	for k, d := range c.In {
		l.Scalar[k] = rng.IntN(3) == 0
		ins[k] = newMemory(rng, d, n0, n1, l.Scalar[k])
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
	want := make([][]Number, n0*n1)
	for at := range want {
		x := make([]Number, len(ins))
		for k, in := range ins {
			x[k] = in.at(at%n0, at/n0)
		}
		want[at] = c.Eval(x...)
	}
	p, err := l.Prepare()
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
			if !sameBits(part, got.Re, want[at][k].Re) || !sameBits(part, got.Im, want[at][k].Im) {
				t.Errorf("y%d[%d]: got %x, want %x", k, at, got, want[at][k])
				return false
			}
		}
	}
	return true
}

// TestFolds adds up by definition: element k of a row goes into accumulator k modulo Lanes.
func TestFolds(t *testing.T) {
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 2))
		d := []tensor.DType{tensor.Bool, tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
			tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Float32, tensor.Float64}[rng.IntN(11)]
		o := []Op{Add, Mul, Min, Max, And, Or}[rng.IntN(6)]
		if takes(o, d) != nil {
			continue
		}
		t.Run(fmt.Sprintf("%d %v %v", seed, o, d), func(t *testing.T) { foldOnce(t, rng, o, d) })
	}
}

// foldOnce folds x or x op y, stores it nowhere or where x lies, and compares all lanes.
func foldOnce(t *testing.T, rng *rand.Rand, o Op, d tensor.DType) {
	b := NewBuilder(d, d)
	v := b.Load(0)
	if rng.IntN(3) > 0 {
		v = b.Do(o, v, b.Load(1))
	}
	out := Output{DType: tensor.Invalid, Re: v, Im: None}
	inPlace := rng.IntN(2) == 0
	if inPlace {
		out.DType = d
	}
	c, err := b.Build(out)
	if err != nil {
		t.Fatal(err)
	}
	l := &Loop{Code: c, Scalar: make([]bool, len(c.In)), Folds: []Fold{{o, c.Out[0].Re}}}
	n0, n1 := []int{1, 31, 32, 33, 512, 700, 1100, 4100}[rng.IntN(8)], 1+rng.IntN(3)
	l.Scalar[0] = rng.IntN(5) == 0 && !inPlace
	x, y := newMemory(rng, d, n0, n1, l.Scalar[0]), newMemory(rng, d, n0, n1, false)
	fold := NewBuilder(d, d)
	one, err := fold.Build(fold.Real(fold.Do(o, fold.Load(0), fold.Load(1))))
	if err != nil {
		t.Fatal(err)
	}
	var acc, want [Lanes]uint64
	size := d.Size()
	for lane := range want {
		want[lane] = Neutral(o, d)
		var bits [8]byte
		binary.LittleEndian.PutUint64(bits[:], want[lane])
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&acc)), 8*Lanes)[lane*size:], bits[:size])
	}
	for j := range n1 {
		for i := range n0 {
			e := c.Eval(x.at(i, j), y.at(i, j))[0]
			want[i%Lanes] = one.Eval(Number{Re: want[i%Lanes]}, e)[0].Re
		}
	}
	p, err := l.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	p.Run(p.NewScratch(), []unsafe.Pointer{x.ptr(), x.ptr(), y.ptr()}, []int{x.stride, x.stride, y.stride},
		[]unsafe.Pointer{unsafe.Pointer(&acc)}, n0, n1)
	for lane := range want {
		var bits [8]byte
		copy(bits[:size], unsafe.Slice((*byte)(unsafe.Pointer(&acc)), 8*Lanes)[lane*size:])
		if got := binary.LittleEndian.Uint64(bits[:]); !sameBits(d, got, want[lane]) {
			t.Errorf("lane %d of %d x %d: %x, want %x", lane, n1, n0, got, want[lane])
		}
	}
}

// TestFMA32 holds the float32 form against exact arithmetic, at sums that two roundings get wrong.
func TestFMA32(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	wrong := 0
	for range 200000 {
		var x [3]float32
		for k := range x {
			x[k] = math.Float32frombits(uint32(randomBits(rng, tensor.Float32)))
		}
		if rng.IntN(2) == 0 { // c just above or below half of the last place of a*b
			x[0], x[1] = 1+float32(rng.IntN(1<<12))/(1<<12), 1+float32(rng.IntN(1<<12))/(1<<12)
			x[2] = float32(math.Ldexp(float64(1-2*rng.IntN(2)), -rng.IntN(70)))
		}
		var got float32
		fmaV32(unsafe.Pointer(&got), unsafe.Pointer(&x[0]), unsafe.Pointer(&x[1]), unsafe.Pointer(&x[2]), nil, nil, 1,
			&strides{})
		want := evalFMA(float64(x[0]), float64(x[1]), float64(x[2]))
		if !sameBits(tensor.Float32, uint64(math.Float32bits(got)), uint64(math.Float32bits(want))) {
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

// TestRunAllocatesNothing holds for the pool and for scratch memory of one's own.
func TestRunAllocatesNothing(t *testing.T) {
	b := NewBuilder(tensor.Float32, tensor.Float32)
	c, err := b.Build(b.Real(b.Do(Max, b.Do(Add, b.Do(Mul, b.Load(0), b.Load(1)), b.Load(1)), b.Const(tensor.Float32, 0))))
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&Loop{Code: c, Scalar: []bool{false, true}}).Prepare()
	if err != nil {
		t.Fatal(err)
	}
	x, s := make([]float32, 1000), p.NewScratch()
	ptrs := []unsafe.Pointer{unsafe.Pointer(&x[0]), unsafe.Pointer(&x[0]), unsafe.Pointer(&x[0])}
	if n := testing.AllocsPerRun(100, func() { p.Run(s, ptrs, []int{0, 0, 0}, nil, 1000, 1) }); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
}

// TestFoldsOfUniformParts folds values that one loop computes of both parts of a scalar operand: once, not for each of
// the two.
func TestFoldsOfUniformParts(t *testing.T) {
	b := NewBuilder(tensor.Complex128)
	re, im := b.Load(0), b.LoadImag(0)
	minusIm, minusRe := b.Do(Neg, im), b.Do(Neg, re)
	c, err := b.Build(b.Real(minusRe), b.Real(minusIm))
	if err != nil {
		t.Fatal(err)
	}
	c.Out[0].DType, c.Out[1].DType = tensor.Invalid, tensor.Invalid
	l := &Loop{Code: c, Scalar: []bool{true}, Totals: true,
		Folds: []Fold{{Op: Add, V: c.Out[0].Re}, {Op: Add, V: c.Out[1].Re}}}
	p, err := l.Prepare()
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
