//go:build linux || darwin

package vector

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// randomBits returns an element of a real dtype: special values, small whole numbers, and any bits.
func randomBits(rng *rand.Rand, d tensor.DType) uint64 {
	special := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, 3.5, -7.25, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40,
		-1e-310, 6e4, 3e9, -3e9, 1 << 31, -1 << 31, 1 << 32, 5e9, 1e19, -1e19, 1 << 63, -1 << 63, 1 << 62, 0x1p64,
		math.MaxFloat32, -math.MaxFloat64, math.Pi, 1 << 24, 255.5, 256, -0.75, 65504, 65520, 5.9e-8}
	if d == tensor.Bool {
		return rng.Uint64() & 1
	}
	mask := ^uint64(0) >> (64 - 8*d.Size())
	x := math.Round(rng.NormFloat64()*100) / 8
	switch k := rng.IntN(4); {
	case k == 0:
		return rng.Uint64() & mask
	case d.IsFloat():
		if k == 1 {
			x = special[rng.IntN(len(special))]
		}
		var b uint64
		tensor.Converter(d, tensor.Float64)(unsafe.Pointer(&b), unsafe.Pointer(&x), 0, 0, 1)
		return b
	case k == 1:
		// The last two give another float32 if they are first rounded to float64.
		return []uint64{0, 1, mask, mask >> 1, mask>>1 + 1, 2, mask & (1<<62 | 1<<38 | 1),
			mask &^ (1<<62 | 1<<38)}[rng.IntN(8)]
	}
	return uint64(rng.IntN(20)-8) & mask
}

// exprMaker makes random expressions. No result depends on the bits of a NaN, because these are not specified.
type exprMaker struct {
	*expr.Builder
	rng    *rand.Rand
	values []expr.Value
}

var operationDTypes = []tensor.DType{tensor.Bool, tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
	tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Float32, tensor.Float64}

func (m *exprMaker) constant(d tensor.DType) expr.Value {
	return m.AddInst(expr.Inst{Op: expr.Const, DType: d, A: expr.None, B: expr.None, C: expr.None,
		Imm: randomBits(m.rng, d)})
}

func (m *exprMaker) one() expr.Value { return m.values[m.rng.IntN(len(m.values))] }

// of returns a value of a dtype.
func (m *exprMaker) of(d tensor.DType) expr.Value {
	if m.rng.IntN(4) == 0 {
		return m.constant(d)
	}
	for range 3 {
		if v := m.one(); m.DType(v) == d {
			return v
		}
	}
	return m.Convert(d, m.one())
}

// operations returns the operations of a dtype, except for conversions and functions.
func operations(d tensor.DType) []expr.Op {
	compare := []expr.Op{expr.Eq, expr.Ne, expr.Lt, expr.Le, expr.Select}
	switch {
	case d == tensor.Bool:
		return append(compare, expr.And, expr.Or, expr.Xor, expr.Not)
	case d.IsFloat():
		return append(compare, expr.Add, expr.Sub, expr.Mul, expr.Div, expr.FMA, expr.Neg, expr.Abs, expr.Sqrt, expr.Min,
			expr.Max, expr.Floor, expr.Ceil, expr.Trunc, expr.Rint, expr.Mod)
	}
	return append(compare, expr.Add, expr.Sub, expr.Mul, expr.Div, expr.Neg, expr.Abs, expr.Min, expr.Max, expr.And,
		expr.Or, expr.Xor, expr.Not, expr.Shl, expr.Shr)
}

// apply applies an operation of a dtype.
func (m *exprMaker) apply(o expr.Op, d tensor.DType) expr.Value {
	switch o {
	case expr.Select:
		return m.Emit(o, m.of(tensor.Bool), m.of(d), m.of(d))
	case expr.Div:
		if !d.IsFloat() {
			return m.Emit(o, m.of(d), m.Emit(expr.Or, m.of(d), m.Int(d, 1)))
		}
	}
	args := []expr.Value{m.of(d), m.of(d), m.of(d)}[:o.ArgCount()]
	return m.Emit(o, args...)
}

// step adds a random instruction.
func (m *exprMaker) step() expr.Value {
	all := tensor.DTypes()
	real := all[:len(all)-2]
	switch m.rng.IntN(8) {
	case 0:
		return m.Convert(real[m.rng.IntN(len(real))], m.one())
	case 1:
		v := m.one()
		to := map[int][]tensor.DType{1: {tensor.Uint8, tensor.Int8}, 2: {tensor.Int16, tensor.Float16, tensor.BFloat16,
			tensor.Uint16}, 4: {tensor.Int32, tensor.Float32, tensor.Uint32}, 8: {tensor.Int64, tensor.Float64,
			tensor.Uint64}}[m.DType(v).Size()]
		d := to[m.rng.IntN(len(to))]
		if i := m.Inst(v); m.DType(v).IsFloat() && i.Op != expr.Load && i.Op != expr.Const && d != m.DType(v) {
			return v
		}
		return m.Bits(d, v)
	}
	d := operationDTypes[m.rng.IntN(len(operationDTypes))]
	if v := m.DType(m.one()); !v.IsReducedFloat() && m.rng.IntN(3) > 0 {
		d = v
	}
	ops := operations(d)
	if d.IsFloat() && m.rng.IntN(5) == 0 {
		return m.apply(expr.Exp+expr.Op(m.rng.IntN(int(expr.Call-expr.Exp))), d)
	}
	return m.apply(ops[m.rng.IntN(len(ops))], d)
}

// randomLoop returns a loop of at most steps operations, sometimes with folds.
func randomLoop(rng *rand.Rand, steps int) (*expr.Loop, error) {
	all := tensor.DTypes()
	if rng.IntN(2) == 0 { // at most 32 bits
		all = []tensor.DType{tensor.Bool, tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Uint16, tensor.Uint32,
			tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Complex64}
	}
	in := make([]tensor.DType, 1+rng.IntN(4))
	scalar := make([]bool, len(in))
	for k := range in {
		in[k] = all[rng.IntN(len(all))]
		scalar[k] = rng.IntN(4) == 0
	}
	m := &exprMaker{expr.NewBuilder(in...), rng, nil}
	for k, d := range in {
		m.values = append(m.values, m.Load(k))
		if d.IsComplex() {
			m.values = append(m.values, m.LoadImag(k))
		}
	}
	for range 1 + rng.IntN(steps) {
		m.values = append(m.values, m.step())
	}
	var outs []expr.Output
	for k := range 1 + rng.IntN(3) {
		v := m.one()
		if k == 0 {
			v = m.values[len(m.values)-1]
		}
		o := m.Real(v)
		if d := m.DType(v); d == tensor.Float32 || d == tensor.Float64 {
			if w := m.one(); rng.IntN(3) == 0 && m.DType(w) == d {
				o = expr.Output{DType: d.ToComplex(), Re: v, Im: w}
			}
		}
		outs = append(outs, o)
	}
	l := &expr.Loop{Uniform: scalar}
	folded := []expr.Op{}
	if rng.IntN(3) == 0 {
		for k := range outs {
			d := outs[k].DType
			ops := []expr.Op{expr.Add, expr.Mul, expr.Min, expr.Max}
			switch {
			case d == tensor.Bool:
				ops = []expr.Op{expr.And, expr.Or}
			case d.IsComplex() || d.IsReducedFloat():
				continue
			case !d.IsFloat():
				ops = append(ops, expr.And, expr.Or)
			}
			folded = append(folded, ops[rng.IntN(len(ops))])
			if rng.IntN(2) == 0 {
				outs[k].DType = tensor.Invalid
			}
			l.Folds = append(l.Folds, expr.Fold{Op: folded[len(folded)-1], Value: expr.Value(k)})
		}
	}
	l.CombinesLanes = len(l.Folds) > 0 && rng.IntN(2) == 0
	var err error
	l.Code, err = m.Build(outs...)
	if err != nil {
		return nil, err
	}
	for k := range l.Folds { // the values of outputs have other numbers now
		l.Folds[k].Value = l.Code.Out[l.Folds[k].Value].Re
	}
	return l, nil
}

// share assigns a seed to one of n instruction sets and to a random loop. The instruction sets take turns by batches. A
// million seeds are a million loops. The next n-1 millions are the same loops with the other instruction sets, and then
// new loops follow.
func share(seed, n int) (set int, drawn uint64) {
	const million = 1_000_000
	again := seed / million
	return (seed%million/batch + again) % n, uint64(again/n*million + seed%million)
}

// seedsOf returns the range of seeds that GRAPHRUN_LOOPS gives. If it is set, the instruction sets share the seeds.
func seedsOf(t *testing.T) (from, to int, shared bool) {
	s := os.Getenv("GRAPHRUN_LOOPS")
	if s == "" {
		return 0, testsize.Of(300, 3000), false
	}
	begin, end, ok := strings.Cut(s, ":")
	if !ok {
		begin, end = "0", s
	}
	from, err := strconv.Atoi(begin)
	require.NoError(t, err)
	to, err = strconv.Atoi(end)
	require.NoError(t, err)
	return from, to, true
}

// TestRandomLoops compares loops of random expressions with the interpreter. GRAPHRUN_LOOPS is the number of seeds, or
// their range "from:to", which the instruction sets share (see share). A million take some minutes on two cores.
func TestRandomLoops(t *testing.T) {
	from, to, shared := seedsOf(t)
	defer debug.SetGCPercent(debug.SetGCPercent(2000)) // the memory of each loop is garbage after its test
	sets := levels(t)
	all, none := 0, 0
	for set, cpu := range sets {
		t.Run(cpu.String(), func(t *testing.T) {
			var workers sync.WaitGroup
			var seeds atomic.Int64
			without := &counted{loopOf: func(seed int) (uint64, bool) {
				if !shared {
					return uint64(seed), true
				}
				k, drawn := share(seed, len(sets))
				return drawn, k == set
			}}
			seeds.Store(int64(from))
			for range runtime.GOMAXPROCS(0) {
				b := newBench(t)
				workers.Go(func() {
					for seed := int(seeds.Add(batch)) - batch; seed < to && !t.Failed(); seed = int(seeds.Add(batch)) - batch {
						b.compareBatch(t, seed, min(seed+batch, to), cpu, without)
					}
				})
			}
			workers.Wait()
			expectMissing(t, without.why, without.total)
			t.Logf("%d of %d loops have no code", without.withoutCode, without.total)
			all, none = all+without.total, none+without.withoutCode
		})
	}
	t.Logf("%d of %d loops have no code", none, all)
}

// TestShares: a million seeds are different loops, and two million are each of these loops for both instruction sets.
func TestShares(t *testing.T) {
	const million = 1_000_000
	seen := make([]uint8, 2*million) // by loop: the number of seeds, in four bits for each instruction set
	for seed := range 3 * million {
		set, drawn := share(seed, 2)
		seen[drawn] += 1 << (4 * set)
		if seed/million != 1 && seen[drawn] != 1<<(4*set) {
			t.Fatalf("seed %d draws what one before did", seed)
		}
	}
	both := 0
	for drawn, sets := range seen {
		switch sets {
		case 0x11: // once for each
			both++
		case 1, 0x10:
		default:
			t.Fatalf("loop %d is drawn %#x times", drawn, sets)
		}
	}
	require.Equal(t, million, both)
}

// counted counts loops, and the reasons why some have no code.
type counted struct {
	loopOf func(seed int) (drawn uint64, ok bool) // whether a seed is for this instruction set, and its loop

	sync.Mutex
	why         map[string]int
	withoutCode int // number of loops without code
	total       int // number of all loops
}

func (c *counted) add(err error) {
	c.Lock()
	defer c.Unlock()
	if c.total++; err == nil {
		return
	}
	if c.why == nil {
		c.why = map[string]int{}
	}
	c.why[err.Error()]++
	c.withoutCode++
}

// batch is the number of loops that are compiled before the first is run, because then their code is mapped together.
const batch = 64

// compareBatch compiles and compares a batch of random loops, and counts those without code.
func (b *bench) compareBatch(t *testing.T, from, to int, cpu machine.Features, without *counted) {
	var list []*trial
	for seed := from; seed < to; seed++ {
		drawn, ok := without.loopOf(seed)
		if !ok {
			continue
		}
		rng := rand.New(rand.NewPCG(drawn, 7))
		steps := 12
		if drawn%20 == 0 {
			steps = 100
		}
		l, err := randomLoop(rng, steps)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		n, rows := 1+rng.IntN(70), 1
		switch rng.IntN(4) {
		case 0:
			n = 1 + rng.IntN(500)
		case 1:
			rows = 1 + rng.IntN(4)
		}
		x, err := newTrial(rng, l, cpu, n, rows)
		switch {
		case errors.Is(err, ErrUnsupported):
			without.add(err)
		case err != nil:
			t.Errorf("seed %d: %v\n%v", seed, err, l.Code)
		default:
			without.add(nil)
			list = append(list, x)
		}
	}
	for _, x := range list {
		b.compare(t, x)
	}
}
