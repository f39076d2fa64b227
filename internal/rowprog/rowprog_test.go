package rowprog_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// testCode is an expression with operands of some dtypes. The second operand is a weight, the third has one element per
// row.
type testCode struct {
	name string
	in   []tensor.DType
	make func(b *expr.Builder) []expr.Output
	one  []bool // by output: has one element per row
}

const f32, f64 = tensor.Float32, tensor.Float64

// sum folds a value in float64.
func sum(b *expr.Builder, v expr.Value) expr.Value {
	return b.Convert(b.DType(v), b.Reduce(expr.Add, b.Convert(f64, v)))
}

var testCodes = []testCode{
	{"sum", []tensor.DType{f32}, func(b *expr.Builder) []expr.Output {
		return []expr.Output{b.Real(sum(b, b.Load(0)))}
	}, []bool{true}},
	{"greatest and least", []tensor.DType{tensor.Int32}, func(b *expr.Builder) []expr.Output {
		return []expr.Output{b.Real(b.Reduce(expr.Max, b.Load(0))), b.Real(b.Reduce(expr.Min, b.Load(0))),
			b.Real(b.Reduce(expr.Mul, b.Load(0)))}
	}, []bool{true, true, true}},
	{"all", []tensor.DType{tensor.Bool}, func(b *expr.Builder) []expr.Output {
		return []expr.Output{b.Real(b.Reduce(expr.And, b.Load(0)))}
	}, []bool{true}},
	{"softmax", []tensor.DType{f32}, func(b *expr.Builder) []expr.Output {
		e := b.Emit(expr.Exp, b.Emit(expr.Sub, b.Load(0), b.Reduce(expr.Max, b.Load(0))))
		return []expr.Output{b.Real(b.Emit(expr.Div, e, sum(b, e)))}
	}, []bool{false}},
	{"norm", []tensor.DType{f32, f32, f64}, func(b *expr.Builder) []expr.Output {
		x := b.Convert(f64, b.Load(0))
		n := b.Reduce(expr.Add, b.Const(f64, 1))
		mean := b.Emit(expr.Div, b.Reduce(expr.Add, x), n)
		d := b.Emit(expr.Sub, x, mean)
		v := b.Emit(expr.Add, b.Emit(expr.Div, b.Reduce(expr.Add, b.Emit(expr.Mul, d, d)), n), b.Load(2))
		y := b.Emit(expr.Mul, b.Emit(expr.Div, d, b.Emit(expr.Sqrt, v)), b.Convert(f64, b.Load(1)))
		return []expr.Output{b.Real(b.Convert(f32, y)), b.Real(mean)}
	}, []bool{false, true}},
	{"stored rows", []tensor.DType{tensor.Float16, f32}, func(b *expr.Builder) []expr.Output {
		x := b.Convert(f32, b.Load(0))
		e, g := b.Emit(expr.Exp, x), b.Emit(expr.Sin, b.Emit(expr.Mul, x, b.Load(1)))
		s, m := sum(b, e), b.Reduce(expr.Max, g)
		return []expr.Output{b.Real(b.Convert(tensor.Float16, b.Emit(expr.Div, e, s))), b.Real(b.Emit(expr.Sub, g, m)),
			b.Real(b.Emit(expr.Add, s, m))}
	}, []bool{false, false, true}},
	{"first of the greatest", []tensor.DType{f32}, func(b *expr.Builder) []expr.Output {
		x := b.Emit(expr.Abs, b.Load(0))
		is := b.Emit(expr.Eq, x, b.Reduce(expr.Max, x))
		return []expr.Output{b.Real(b.Reduce(expr.Min, b.Emit(expr.Select, is, b.Position(), b.Int(tensor.Int32, 1<<30)))),
			b.Real(b.Position())}
	}, []bool{true, false}},
	{"running sums", []tensor.DType{f32, f32}, func(b *expr.Builder) []expr.Output {
		x := b.Emit(expr.Mul, b.Load(0), b.Load(1))
		y := b.Scan(expr.Add, x)
		z := b.Scan(expr.Add, b.Emit(expr.Sub, y, b.Reduce(expr.Max, y)))
		return []expr.Output{b.Real(y), b.Real(b.Emit(expr.Sub, b.Emit(expr.Abs, z), x))}
	}, []bool{false, false}},
}

// alongOne leaves at most one reduced dimension.
func alongOne(mask []bool) {
	if i := slices.Index(mask, true); i >= 0 {
		clear(mask[i+1:])
	}
}

// layout returns random strides for the dimensions that are not broadcast.
func layout(rng *rand.Rand, d tensor.DType, full []int, repeated func(d int) bool) tensor.Meta {
	m := tensor.Meta{DType: d, Shape: slices.Clone(full), Strides: make([]int, len(full))}
	order := rng.Perm(len(full))
	if rng.IntN(2) == 0 {
		for k := range order {
			order[k] = len(full) - 1 - k
		}
	}
	step := 1
	for _, k := range order {
		if repeated(k) {
			if rng.IntN(2) == 0 || full[k] == 0 {
				m.Shape[k] = 1
			}
			continue
		}
		if rng.IntN(6) == 0 {
			step *= 2
		}
		m.Strides[k] = step
		step *= max(1, full[k])
	}
	return m
}

func fill(rng *rand.Rand, t *tensor.Tensor) {
	n := t.Storage().Len() / t.DType.Size()
	flat := tensor.Must(tensor.FromStorage(tensor.New(t.DType, n), t.Storage()))
	for i := range n {
		switch {
		case t.DType == tensor.Bool:
			flat.SetFlat(i, tensor.BoolScalar(rng.IntN(40) > 0))
		case t.DType.IsFloat():
			flat.SetFlat(i, tensor.FloatScalar(math.Round(rng.NormFloat64()*64)/32))
		default:
			flat.SetFlat(i, tensor.IntScalar(int64(rng.IntN(200)-100)))
		}
	}
}

type call struct {
	plan    *rowprog.Plan
	outs    []*tensor.Tensor
	ptrs    []unsafe.Pointer
	scratch []byte
}

// run runs the chunks in random order on memory of arbitrary content.
func (c *call) run(t *testing.T, rng *rand.Rand) {
	t.Helper()
	c.scratch = runChunks(t, rng, c.plan, c.ptrs)
}

// chunked is a [rowprog.Plan] or [rowprog.Pieces].
type chunked interface {
	Phases() int
	Chunks(phase int) int
	Scratch() int
	WorkerScratch() int
	Run(s *rowprog.State, phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) error
}

// runChunks runs the chunks in random order on memory of arbitrary content, and returns the shared memory.
func runChunks(t *testing.T, rng *rand.Rand, p chunked, ptrs []unsafe.Pointer) (scratch []byte) {
	t.Helper()
	worker := tensor.NewStorage(p.WorkerScratch()).Bytes()
	scratch = tensor.NewStorage(p.Scratch()).Bytes()
	for _, b := range [][]byte{worker, scratch} {
		for i := range b {
			b[i] = 0xff
		}
	}
	var s rowprog.State
	for phase := range p.Phases() {
		for _, chunk := range rng.Perm(p.Chunks(phase)) {
			if err := p.Run(&s, phase, chunk, ptrs, scratch, worker); err != nil {
				t.Fatal(err)
			}
		}
	}
	return scratch
}

func newCall(t *testing.T, rng *rand.Rand, tc testCode, c *expr.Code, full []int, mask []bool) (*call,
	[]*tensor.Tensor) {
	t.Helper()
	in, outs := metasOf(rng, tc, c, full, mask)
	way := rowprog.Direction(rng.IntN(3))
	p, err := rowprog.New(c, outs, in, mask, way)
	if err != nil {
		t.Fatalf("%s %v %v: %v", tc.name, in, mask, err)
	}
	if way == rowprog.ByRows && p.ByColumns() && tensor.Numel(full) > 0 || way == rowprog.ByColumns && !p.ByColumns() {
		t.Fatalf("%s %v %v: not by way %d", tc.name, in, mask, way)
	}
	k := &call{plan: p}
	var ts []*tensor.Tensor
	k.outs, ts, k.ptrs = filled(rng, outs, in)
	return k, ts
}

// filled returns outputs, operands with random elements, and the addresses of all.
func filled(rng *rand.Rand, outs, in []tensor.Meta) (results, operands []*tensor.Tensor, ptrs []unsafe.Pointer) {
	for _, m := range outs {
		x := tensor.Empty(m)
		results, ptrs = append(results, x), append(ptrs, x.Pointer())
	}
	for _, m := range in {
		x := tensor.Empty(m)
		fill(rng, x)
		operands, ptrs = append(operands, x), append(ptrs, x.Pointer())
	}
	return results, operands, ptrs
}

// metasOf returns random layouts of operands and outputs.
func metasOf(rng *rand.Rand, tc testCode, c *expr.Code, full []int, mask []bool) (in, outs []tensor.Meta) {
	kept := func(int) bool { return false }
	for i, d := range tc.in {
		repeated := kept
		if i == 1 {
			repeated = func(d int) bool { return !mask[d] }
		} else if i == 2 {
			repeated = func(d int) bool { return mask[d] }
		}
		in = append(in, layout(rng, d, full, repeated))
	}
	for o, out := range c.Out {
		outs = append(outs, layout(rng, out.DType, full, func(d int) bool { return tc.one[o] && mask[d] }))
	}
	for o := range outs {
		for d := range full {
			if tc.one[o] && mask[d] {
				outs[o].Shape[d] = 1
			}
		}
	}
	return in, outs
}

// TestPlan runs expressions over random shapes and layouts. It compares results with the definition, with those of
// another order of chunks, and with those written in place.
func TestPlan(t *testing.T) {
	ways := map[string]int{}
	for seed := range testsize.Of[uint64](200, 300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		tc := testCodes[rng.IntN(len(testCodes))]
		long := seed%40 == 0
		if long {
			tc = testCodes[seed/40%2]
		}
		b := expr.NewBuilder(tc.in...)
		c, err := b.Build(tc.make(b)...)
		if err != nil {
			t.Fatal(err)
		}
		full, mask := make([]int, 1+rng.IntN(4)), []bool{}
		for d := range full {
			full[d] = []int{1, 2, 3, 7, 40, 70, 300}[rng.IntN(7)]
			mask = append(mask, rng.IntN(2) == 0)
		}
		for tensor.Numel(full) > 1000 {
			full[rng.IntN(len(full))] = rng.IntN(3)
		}
		if tc.name == "running sums" {
			alongOne(mask)
		}
		if long {
			full, mask = []int{9000, 16}, []bool{true, seed%80 == 0}
		}
		if seed%40 == 20 { // columns with distant elements
			full, mask = []int{19, 1100}, []bool{true, false}
		}
		k, in := newCall(t, rng, tc, c, full, mask)
		ways[fmt.Sprintf("%v %d", k.plan.ByColumns(), k.plan.Phases())]++
		k.run(t, rng)
		name := fmt.Sprintf("seed %d: %s %v of %v, %v", seed, tc.name, mask, k.plan.Program().Code.In, in)
		checkRows(t, name, c, in, k.outs, mask, full)
		var bits [][]byte
		for _, o := range k.outs {
			bits = append(bits, slices.Clone(o.Storage().Bytes()))
		}
		k.run(t, rng)
		for o := range bits {
			if !bytes.Equal(bits[o], k.outs[o].Storage().Bytes()) {
				t.Fatalf("%s: other bits in another order of chunks", name)
			}
		}
		for _, p := range k.plan.InPlace() {
			shared := tensor.Empty(k.outs[p[0]].Meta)
			tensor.CopyElements(shared, in[p[1]])
			again := *k
			again.ptrs = slices.Clone(k.ptrs)
			again.ptrs[p[0]], again.ptrs[len(k.outs)+p[1]] = shared.Pointer(), shared.Pointer()
			again.run(t, rng)
			if !bytes.Equal(bits[p[0]], shared.Storage().Bytes()) {
				t.Fatalf("%s: other bits in place", name)
			}
			ways["in place"]++
		}
		if t.Failed() {
			return
		}
	}
	for _, w := range []string{"false 1", "false 2", "true 1", "true 2", "in place"} {
		if ways[w] < 2 {
			t.Errorf("%q: only %d cases in %v", w, ways[w], ways)
		}
	}
}

// checkRows compares every row with the definition.
func checkRows(t *testing.T, name string, c *expr.Code, in, outs []*tensor.Tensor, mask []bool, full []int) {
	t.Helper()
	if tensor.Numel(full) == 0 {
		return
	}
	keep, row := slices.Clone(full), slices.Clone(full)
	for d := range full {
		if mask[d] {
			keep[d] = 1
		} else {
			row[d] = 1
		}
	}
	number := func(x *tensor.Tensor, index []int) (n expr.Number) {
		at := 0
		for d, i := range index {
			if x.Shape[d] > 1 {
				at += i * x.Strides[d]
			}
		}
		size := x.DType.Size()
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&n.Re)), 8), unsafe.Slice((*byte)(unsafe.Add(x.Pointer(), at*size)), size))
		return n
	}
	for k := range tensor.Numel(keep) {
		base := unravel(k, keep)
		var x [][]expr.Number
		for _, op := range in {
			var v []expr.Number
			for r := range tensor.Numel(row) {
				v = append(v, number(op, plus(base, unravel(r, row))))
			}
			x = append(x, v)
		}
		d, places := c.Positioned()
		if places {
			x = append(x, make([]expr.Number, len(x[0])))
			for r := range x[0] {
				x[len(x)-1][r].Re = uint64(r)
			}
		}
		want := byDefinition(t, d, x)
		for o, out := range c.Out {
			for r := range tensor.Numel(row) {
				g, w := value(out.DType, number(outs[o], plus(base, unravel(r, row)))), value(out.DType, want[o][r])
				if g != w && !(math.Abs(g-w) <= 1e-2*max(1, math.Abs(w)) && out.DType == tensor.Float16) &&
					!(math.Abs(g-w) <= 3e-6*max(1, math.Abs(w))) && (g == g || w == w) {
					t.Errorf("%s: output %d at %v is %v, want %v", name, o, plus(base, unravel(r, row)), g, w)
					return
				}
			}
		}
	}
}

func plus(a, b []int) []int {
	c := slices.Clone(a)
	for i := range c {
		c[i] += b[i]
	}
	return c
}

func unravel(i int, shape []int) []int {
	index := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		index[d], i = i%shape[d], i/shape[d]
	}
	return index
}

func value(d tensor.DType, n expr.Number) (x float64) {
	tensor.Converter(f64, d)(unsafe.Pointer(&x), unsafe.Pointer(&n.Re), 0, 0, 1)
	return x
}

// byDefinition computes a row fold by fold; other values are recomputed for each fold.
func byDefinition(t *testing.T, c *expr.Code, in [][]expr.Number) [][]expr.Number {
	plain := &expr.Code{In: slices.Clone(c.In), Insts: slices.Clone(c.Insts), Out: c.Out, Funcs: c.Funcs}
	var folds []expr.Inst
	for v, i := range c.Insts {
		if i.Op == expr.Reduce || i.Op == expr.Scan {
			plain.Insts[v] = expr.Inst{Op: expr.Load, DType: i.DType, A: expr.Value(len(plain.In)), B: expr.None, C: expr.None}
			plain.In = append(plain.In, i.DType)
			folds = append(folds, i)
		}
	}
	known := make([][]expr.Number, len(folds))
	for f := range known {
		known[f] = make([]expr.Number, len(in[0]))
	}
	run := func(out []expr.Output) [][]expr.Number {
		one := &expr.Code{In: plain.In, Insts: plain.Insts, Out: out, Funcs: plain.Funcs}
		y := make([][]expr.Number, len(out))
		for at := range in[0] {
			var x []expr.Number
			for _, row := range in {
				x = append(x, row[at])
			}
			for _, row := range known {
				x = append(x, row[at])
			}
			for o, v := range one.Eval(x...) {
				y[o] = append(y[o], v)
			}
		}
		return y
	}
	for f, i := range folds {
		join, err := expr.Joining(expr.Op(i.Imm), i.DType)
		if err != nil {
			t.Fatal(err)
		}
		sofar := expr.Number{Re: expr.Neutral(expr.Op(i.Imm), i.DType)}
		for at, v := range run([]expr.Output{{DType: i.DType, Re: i.A, Im: expr.None}})[0] {
			sofar = join.Eval(sofar, v)[0]
			known[f][at] = sofar
		}
		if i.Op == expr.Reduce {
			known[f] = slices.Repeat([]expr.Number{sofar}, len(known[f]))
		}
	}
	return run(c.Out)
}
