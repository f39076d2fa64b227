package expr_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/exprtest"
	"github.com/graphrun/graphrun/tensor"
)

// joined folds values one after the other.
func joined(t *testing.T, op expr.Op, d tensor.DType, x []expr.Number) expr.Number {
	t.Helper()
	c, err := expr.Joining(op, d)
	if err != nil {
		t.Fatal(err)
	}
	acc := expr.Number{Re: expr.Neutral(op, d)}
	for _, v := range x {
		acc = c.Eval(acc, v)[0]
	}
	return acc
}

// ran folds the values of a row up to each of them.
func ran(op expr.Op, d tensor.DType, x []expr.Number) []expr.Number {
	y := make([]expr.Number, len(x))
	carry := make([]uint64, 1)
	s := expr.Scanning(op, d)
	s.Begin(unsafe.Pointer(&carry[0]), 1)
	for i, v := range x {
		s.Row(unsafe.Pointer(&carry[0]), unsafe.Pointer(&y[i].Re), unsafe.Pointer(&v.Re), 1)
	}
	return y
}

// rowsOf computes a code over a row as it is written: fold after fold, all else again for each of them.
func rowsOf(t *testing.T, c *expr.Code, in [][]expr.Number, n int) [][]expr.Number {
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
		known[f] = make([]expr.Number, 1)
	}
	run := func(out []expr.Output) [][]expr.Number {
		one := &expr.Code{In: plain.In, Insts: plain.Insts, Out: out, Funcs: plain.Funcs}
		y := make([][]expr.Number, len(out))
		for at := range n {
			var x []expr.Number
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
		x := run([]expr.Output{{DType: i.DType, Re: i.A, Im: expr.None}})[0]
		if i.Op == expr.Scan {
			known[f] = ran(expr.Op(i.Imm), i.DType, x)
		} else {
			known[f] = []expr.Number{joined(t, expr.Op(i.Imm), i.DType, x)}
		}
	}
	return run(c.Out)
}

// swept computes a code over a row, pass by pass.
func swept(t *testing.T, s *expr.RowProgram, in [][]expr.Number, n int) [][]expr.Number {
	memory := map[expr.Place][]expr.Number{}
	find := func(p expr.Place) expr.Place {
		if p.Kind == expr.AtRow && s.Rows[p.N].Out >= 0 {
			return expr.Place{Kind: expr.AtOutput, N: s.Rows[p.N].Out}
		}
		return p
	}
	read := func(p expr.Place, at int) expr.Number {
		if p.Kind == expr.AtOperand {
			return in[p.N][at%len(in[p.N])]
		}
		m := memory[find(p)]
		return m[at%len(m)]
	}
	write := func(p expr.Place, at int, v expr.Number, n int) {
		if len(memory[find(p)]) != n {
			memory[find(p)] = make([]expr.Number, n)
		}
		memory[find(p)][at] = v
	}
	run := func(c *expr.Code, from, to []expr.Place, n int) (y [][]expr.Number) {
		y = make([][]expr.Number, len(c.Out))
		for at := range n {
			var x []expr.Number
			for _, p := range from {
				x = append(x, read(p, at))
			}
			for o, v := range c.Eval(x...) {
				y[o] = append(y[o], v)
				if to[o].Kind != expr.Nowhere {
					write(to[o], at, v, n)
				}
			}
		}
		return y
	}
	for _, w := range s.Passes {
		if w.Code != nil {
			y := run(w.Code, w.In, w.Out, n)
			first := len(y) - len(w.Folds)
			for f, fold := range w.Folds {
				d := w.Code.Insts[fold.Value].DType
				write(expr.Place{Kind: expr.AtNumber, N: w.FoldResults[f]}, 0, joined(t, fold.Op, d, y[first+f]), 1)
			}
			for o, p := range w.Out {
				if p.Kind == expr.AtRow && s.Rows[p.N].Scan != expr.Invalid {
					memory[find(p)] = ran(s.Rows[p.N].Scan, s.Rows[p.N].DType, y[o])
				}
			}
		}
		if w.PerRow != nil {
			run(w.PerRow, w.PerRowIn, w.PerRowOut, 1)
		}
	}
	var out [][]expr.Number
	for o := range s.Code.Out {
		out = append(out, memory[expr.Place{Kind: expr.AtOutput, N: o}])
	}
	return out
}

// randomFolds makes a code with folds.
func randomFolds(t *testing.T, rng *rand.Rand) *expr.Code {
	in := make([]tensor.DType, 1+rng.IntN(3))
	for k := range in {
		in[k] = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Float16}[rng.IntN(4)]
	}
	b := expr.NewBuilder(in...)
	var values []expr.Value
	for k := range in {
		values = append(values, b.Load(k))
	}
	values = append(values, b.Position())
	one := func() expr.Value { return values[rng.IntN(len(values))] }
	for range 3 + rng.IntN(14) {
		if rng.IntN(3) > 0 {
			values = append(values, exprtest.RandomInst(b, rng, one))
			continue
		}
		v := one()
		d := b.DType(v)
		if d.IsReducedFloat() {
			v = b.Convert(tensor.Float32, v)
			d = tensor.Float32
		}
		if op := []expr.Op{expr.Add, expr.Mul}[rng.IntN(2)]; rng.IntN(3) == 0 && expr.Scanning(op, d) != nil {
			values = append(values, b.Scan(op, v))
			continue
		}
		op := []expr.Op{expr.Add, expr.Mul, expr.Min, expr.Max, expr.And, expr.Or}[rng.IntN(6)]
		if exprtest.IsValidOp(op, d) {
			values = append(values, b.Reduce(op, v))
		}
	}
	outs := []expr.Output{b.Real(values[len(values)-1])}
	for range rng.IntN(3) {
		outs = append(outs, b.Real(one()))
	}
	c, err := b.Build(outs...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRowProgram compares random codes computed pass by pass with their folds computed as written.
func TestRowProgram(t *testing.T) {
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 2))
		c, placed := randomFolds(t, rng).Positioned()
		n := 1 + rng.IntN(5)
		var in [][]expr.Number
		uniform, whole := make([]bool, len(c.In)), make([]bool, len(c.Out))
		for k, d := range c.In {
			uniform[k] = rng.IntN(3) == 0
			row := make([]expr.Number, n)
			if uniform[k] {
				row = row[:1]
			}
			for i := range row {
				row[i].Re = exprtest.RandomBits(rng, d)
			}
			in = append(in, row)
		}
		if placed {
			uniform[len(in)-1], in[len(in)-1] = false, make([]expr.Number, n)
			for i := range in[len(in)-1] {
				in[len(in)-1][i].Re = uint64(i)
			}
		}
		for o := range whole {
			whole[o] = true
		}
		s, err := c.RowProgram(uniform, whole)
		if err != nil {
			t.Fatal(err)
		}
		for o, out := range c.Out {
			if rng.IntN(2) == 0 {
				u := slices.Clone(whole)
				u[o] = false
				if s2, err := c.RowProgram(uniform, u); err == nil {
					s, whole = s2, u
				} else if out.Re == expr.None {
					t.Fatal(err)
				}
			}
		}
		got, want := swept(t, s, in, n), rowsOf(t, c, in, n)
		for o := range want {
			for i, g := range got[o] {
				if !exprtest.SameBits(c.Out[o].DType, g.Re, want[o][i].Re) {
					t.Fatalf("seed %d: y%d[%d] of rows of %d is %#x, want %#x\n%v", seed, o, i, n, g.Re, want[o][i].Re, c)
				}
			}
		}
		checkColumns(t, s)
	}
}

// checkColumns makes the loops for rows that lie side by side.
func checkColumns(t *testing.T, s *expr.RowProgram) {
	for k := range s.Passes {
		if s.Passes[k].Code == nil {
			continue
		}
		for elements := 1; elements <= 4; elements *= 2 {
			c, in, out, err := s.Columns(k, elements)
			if err != nil || c.Check() != nil || len(in) != len(c.In) || len(out) != len(c.Out) {
				t.Fatalf("%v\n%v: %v", s.Passes[k].Code, c, err)
			}
		}
	}
}

// TestPassCount checks that known computations take as few passes as possible.
func TestPassCount(t *testing.T) {
	f := tensor.Float32
	softmax := func(b *expr.Builder) expr.Output {
		e := b.Emit(expr.Exp, b.Emit(expr.Sub, b.Load(0), b.Reduce(expr.Max, b.Load(0))))
		return b.Real(b.Emit(expr.Div, e, b.Reduce(expr.Add, e)))
	}
	moments := func(b *expr.Builder) expr.Output {
		x := b.Load(0)
		m, q := b.Reduce(expr.Add, x), b.Reduce(expr.Add, b.Emit(expr.Mul, x, x))
		return b.Real(b.Emit(expr.Sub, x, b.Emit(expr.Sub, q, b.Emit(expr.Mul, m, m))))
	}
	norm := func(b *expr.Builder) expr.Output {
		d := b.Emit(expr.Sub, b.Load(0), b.Emit(expr.Mul, b.Reduce(expr.Add, b.Load(0)), b.Const(f, 0.25)))
		return b.Real(b.Emit(expr.Div, d, b.Emit(expr.Sqrt, b.Reduce(expr.Add, b.Emit(expr.Mul, d, d)))))
	}
	for _, tc := range []struct {
		name        string
		code        func(b *expr.Builder) expr.Output
		steps, rows int
	}{{"softmax", softmax, 3, 1}, {"moments", moments, 2, 0}, {"norm", norm, 3, 0}} {
		b := expr.NewBuilder(f)
		c, err := b.Build(tc.code(b))
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.RowProgram([]bool{false}, []bool{true})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Passes) != tc.steps || len(s.Rows) != tc.rows {
			t.Errorf("%s: %d passes, %d stored rows; want %d and %d", tc.name, len(s.Passes), len(s.Rows), tc.steps, tc.rows)
		}
		for _, r := range s.Rows {
			if r.Out != 0 {
				t.Errorf("%s: a row has memory of its own", tc.name)
			}
		}
	}
}

// A stored row is a value that later passes need, not one that must be combined with operands first.
func TestRowsReadOnce(t *testing.T) {
	const f = tensor.Float32
	b := expr.NewBuilder(f)
	e := b.Emit(expr.Exp, b.Emit(expr.Sub, b.Load(0), b.Reduce(expr.Max, b.Load(0))))
	exact, err := b.Build(b.Real(b.Emit(expr.Div, e, b.Reduce(expr.Add, e))))
	if err != nil {
		t.Fatal(err)
	}
	c, ok := exact.FlushExp(-60)
	if !ok {
		t.Fatal("nothing is flushed")
	}
	s, err := c.RowProgram([]bool{false}, []bool{true})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Passes) != 3 || len(s.Rows) != 1 {
		t.Fatalf("%d passes, %d stored rows", len(s.Passes), len(s.Rows))
	}
	for _, p := range s.Passes[2].In {
		if p.Kind == expr.AtOperand {
			t.Error("weights are flushed again, of scores")
		}
	}
}
