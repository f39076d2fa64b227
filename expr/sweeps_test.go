package expr

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// joined folds values one after the other.
func joined(t *testing.T, op Op, d tensor.DType, x []Number) Number {
	t.Helper()
	c, err := Joining(op, d)
	if err != nil {
		t.Fatal(err)
	}
	acc := Number{Re: Neutral(op, d)}
	for _, v := range x {
		acc = c.Eval(acc, v)[0]
	}
	return acc
}

// ran folds the values of a row up to each of them.
func ran(op Op, d tensor.DType, x []Number) []Number {
	y := make([]Number, len(x))
	carry := make([]uint64, 1)
	s := Scanning(op, d)
	s.Begin(unsafe.Pointer(&carry[0]), 1)
	for i, v := range x {
		s.Row(unsafe.Pointer(&carry[0]), unsafe.Pointer(&y[i].Re), unsafe.Pointer(&v.Re), 1)
	}
	return y
}

// rowsOf computes a code over a row as it is written: fold after fold, all else again for each of them.
func rowsOf(t *testing.T, c *Code, in [][]Number, n int) [][]Number {
	plain := *c
	plain.In, plain.Insts = slices.Clone(c.In), slices.Clone(c.Insts)
	var folds []Inst
	for v, i := range c.Insts {
		if i.Op == Reduce || i.Op == Scan {
			plain.Insts[v] = Inst{Op: Load, DType: i.DType, A: Value(len(plain.In)), B: None, C: None}
			plain.In = append(plain.In, i.DType)
			folds = append(folds, i)
		}
	}
	known := make([][]Number, len(folds))
	for f := range known {
		known[f] = make([]Number, 1)
	}
	run := func(out []Output) [][]Number {
		one := plain
		one.Out = out
		y := make([][]Number, len(out))
		for at := range n {
			var x []Number
			for _, row := range in {
				x = append(x, row[at%len(row)])
			}
			for _, row := range known {
				x = append(x, row[at%len(row)])
			}
			for o, v := range one.Eval(x...) {
				y[o] = append(y[o], v)
			}
		}
		return y
	}
	for f, i := range folds {
		x := run([]Output{{DType: i.DType, Re: i.A, Im: None}})[0]
		if i.Op == Scan {
			known[f] = ran(Op(i.Imm), i.DType, x)
		} else {
			known[f] = []Number{joined(t, Op(i.Imm), i.DType, x)}
		}
	}
	return run(c.Out)
}

// swept computes a code over a row sweep by sweep.
func swept(t *testing.T, s *Sweeps, in [][]Number, n int) [][]Number {
	memory := map[Place][]Number{}
	find := func(p Place) Place {
		if p.Kind == AtRow && s.Rows[p.N].Out >= 0 {
			return Place{Kind: AtOutput, N: s.Rows[p.N].Out}
		}
		return p
	}
	read := func(p Place, at int) Number {
		if p.Kind == AtOperand {
			return in[p.N][at%len(in[p.N])]
		}
		m := memory[find(p)]
		return m[at%len(m)]
	}
	write := func(p Place, at int, v Number, n int) {
		if len(memory[find(p)]) != n {
			memory[find(p)] = make([]Number, n)
		}
		memory[find(p)][at] = v
	}
	run := func(c *Code, from, to []Place, n int) (y [][]Number) {
		y = make([][]Number, len(c.Out))
		for at := range n {
			var x []Number
			for _, p := range from {
				x = append(x, read(p, at))
			}
			for o, v := range c.Eval(x...) {
				y[o] = append(y[o], v)
				if to[o].Kind != Nowhere {
					write(to[o], at, v, n)
				}
			}
		}
		return y
	}
	for _, w := range s.Steps {
		if w.Code != nil {
			y := run(w.Code, w.In, w.Out, n)
			first := len(y) - len(w.Folds)
			for f, fold := range w.Folds {
				d := w.Code.Insts[fold.V].DType
				write(Place{Kind: AtNumber, N: w.Into[f]}, 0, joined(t, fold.Op, d, y[first+f]), 1)
			}
			for o, p := range w.Out {
				if p.Kind == AtRow && s.Rows[p.N].Scan != Invalid {
					memory[find(p)] = ran(s.Rows[p.N].Scan, s.Rows[p.N].DType, y[o])
				}
			}
		}
		if w.After != nil {
			run(w.After, w.AfterIn, w.AfterOut, 1)
		}
	}
	var out [][]Number
	for o := range s.Code.Out {
		out = append(out, memory[Place{Kind: AtOutput, N: o}])
	}
	return out
}

// randomFolds makes a code with folds.
func randomFolds(t *testing.T, rng *rand.Rand) *Code {
	in := make([]tensor.DType, 1+rng.IntN(3))
	for k := range in {
		in[k] = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Float16}[rng.IntN(4)]
	}
	b := NewBuilder(in...)
	var values []Value
	for k := range in {
		values = append(values, b.Load(k))
	}
	values = append(values, b.Position())
	one := func() Value { return values[rng.IntN(len(values))] }
	for range 3 + rng.IntN(14) {
		if rng.IntN(3) > 0 {
			values = append(values, randomInst(b, rng, one))
			continue
		}
		v := one()
		d := b.DType(v)
		if d.IsReducedFloat() {
			v = b.Convert(tensor.Float32, v)
			d = tensor.Float32
		}
		if op := []Op{Add, Mul}[rng.IntN(2)]; rng.IntN(3) == 0 && Scanning(op, d) != nil {
			values = append(values, b.Scan(op, v))
			continue
		}
		if op := []Op{Add, Mul, Min, Max, And, Or}[rng.IntN(6)]; takes(op, d) == nil {
			values = append(values, b.Reduce(op, v))
		}
	}
	outs := []Output{b.Real(values[len(values)-1])}
	for range rng.IntN(3) {
		outs = append(outs, b.Real(one()))
	}
	c, err := b.Build(outs...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSweeps computes random codes sweep by sweep and, fold by fold, as they are written.
func TestSweeps(t *testing.T) {
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 2))
		c, placed := randomFolds(t, rng).Positioned()
		n := 1 + rng.IntN(5)
		var in [][]Number
		uniform, whole := make([]bool, len(c.In)), make([]bool, len(c.Out))
		for k, d := range c.In {
			uniform[k] = rng.IntN(3) == 0
			row := make([]Number, n)
			if uniform[k] {
				row = row[:1]
			}
			for i := range row {
				row[i].Re = randomBits(rng, d)
			}
			in = append(in, row)
		}
		if placed {
			uniform[len(in)-1], in[len(in)-1] = false, make([]Number, n)
			for i := range in[len(in)-1] {
				in[len(in)-1][i].Re = uint64(i)
			}
		}
		for o := range whole {
			whole[o] = true
		}
		s, err := c.Sweeps(uniform, whole)
		if err != nil {
			t.Fatal(err)
		}
		for o, out := range c.Out {
			if rng.IntN(2) == 0 {
				u := slices.Clone(whole)
				u[o] = false
				if s2, err := c.Sweeps(uniform, u); err == nil {
					s, whole = s2, u
				} else if out.Re == None {
					t.Fatal(err)
				}
			}
		}
		got, want := swept(t, s, in, n), rowsOf(t, c, in, n)
		for o := range want {
			for i, g := range got[o] {
				if !sameBits(c.Out[o].DType, g.Re, want[o][i].Re) {
					t.Fatalf("seed %d: y%d[%d] of rows of %d is %#x, want %#x\n%v", seed, o, i, n, g.Re, want[o][i].Re, c)
				}
			}
		}
		checkColumns(t, s)
	}
}

// checkColumns makes the loops for rows that lie side by side.
func checkColumns(t *testing.T, s *Sweeps) {
	for k := range s.Steps {
		if s.Steps[k].Code == nil {
			continue
		}
		for elements := 1; elements <= 4; elements *= 2 {
			c, in, out, err := s.Columns(k, elements)
			if err != nil || c.Check() != nil || len(in) != len(c.In) || len(out) != len(c.Out) {
				t.Fatalf("%v\n%v: %v", s.Steps[k].Code, c, err)
			}
		}
	}
}

// Known computations take as few sweeps as they can.
func TestSweepsCount(t *testing.T) {
	f := tensor.Float32
	softmax := func(b *Builder) Output {
		e := b.Do(Exp, b.Do(Sub, b.Load(0), b.Reduce(Max, b.Load(0))))
		return b.Real(b.Do(Div, e, b.Reduce(Add, e)))
	}
	moments := func(b *Builder) Output {
		x := b.Load(0)
		m, q := b.Reduce(Add, x), b.Reduce(Add, b.Do(Mul, x, x))
		return b.Real(b.Do(Sub, x, b.Do(Sub, q, b.Do(Mul, m, m))))
	}
	norm := func(b *Builder) Output {
		d := b.Do(Sub, b.Load(0), b.Do(Mul, b.Reduce(Add, b.Load(0)), b.Const(f, 0.25)))
		return b.Real(b.Do(Div, d, b.Do(Sqrt, b.Reduce(Add, b.Do(Mul, d, d)))))
	}
	for _, tc := range []struct {
		name        string
		code        func(b *Builder) Output
		steps, rows int
	}{{"softmax", softmax, 3, 1}, {"moments", moments, 2, 0}, {"norm", norm, 3, 0}} {
		b := NewBuilder(f)
		c, err := b.Build(tc.code(b))
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Sweeps([]bool{false}, []bool{true})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Steps) != tc.steps || len(s.Rows) != tc.rows {
			t.Errorf("%s: %d sweeps, %d rows put aside; want %d and %d", tc.name, len(s.Steps), len(s.Rows), tc.steps, tc.rows)
		}
		for _, r := range s.Rows {
			if r.Out != 0 {
				t.Errorf("%s: a row has memory of its own", tc.name)
			}
		}
	}
}

// What is put aside is what later sweeps need, rather than what that is made of together with operands.
func TestSweepsReadOnce(t *testing.T) {
	const f = tensor.Float32
	b := NewBuilder(f)
	e := b.Do(Exp, b.Do(Sub, b.Load(0), b.Reduce(Max, b.Load(0))))
	exact, err := b.Build(b.Real(b.Do(Div, e, b.Reduce(Add, e))))
	if err != nil {
		t.Fatal(err)
	}
	c, ok := exact.FlushExp(-60)
	if !ok {
		t.Fatal("nothing is flushed")
	}
	s, err := c.Sweeps([]bool{false}, []bool{true})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Steps) != 3 || len(s.Rows) != 1 {
		t.Fatalf("%d sweeps, %d rows put aside", len(s.Steps), len(s.Rows))
	}
	for _, p := range s.Steps[2].In {
		if p.Kind == AtOperand {
			t.Error("weights are flushed again, of scores")
		}
	}
}
