package apifuzz

import (
	"reflect"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/tensor"
)

// formulas are texts with operands, numbers, attributes and several results.
var formulas = []string{"x * 2 + y", "t = x % y; (t, exp(t))", "alpha * sigmoid(x)", "complex(x, y) / 2j",
	"x & 3", "lgamma(x)"}

func init() {
	makers[reflect.TypeFor[expr.Op]()] = func(w *world) any { return expr.Op(w.rng.IntN(80)) }
	makers[reflect.TypeFor[expr.Value]()] = func(w *world) any { return expr.Value(w.rng.IntN(6) - 1) }
	makers[reflect.TypeFor[*expr.Builder]()] = func(w *world) any { return w.builder() }
	makers[reflect.TypeFor[*expr.Code]()] = func(w *world) any { return w.code() }
	makers[reflect.TypeFor[*expr.Formula]()] = func(w *world) any { return formula(pick(w, formulas)) }
	makers[reflect.TypeFor[*expr.RowProgram]()] = func(w *world) any {
		b := expr.NewBuilder(tensor.Float32)
		c, err := b.Build(b.Real(b.Emit(expr.Sub, b.Load(0), b.Reduce(expr.Max, b.Load(0)))))
		if err != nil {
			panic(err)
		}
		s, err := c.RowProgram([]bool{false}, []bool{true})
		if err != nil {
			panic(err)
		}
		return pick(w, []*expr.RowProgram{new(expr.RowProgram), s})
	}
	makers[reflect.TypeFor[*expr.Loop]()] = func(w *world) any { return w.loop() }
	makers[reflect.TypeFor[*interp.Runner]()] = func(w *world) any {
		c := w.code()
		p, err := interp.New(&expr.Loop{Code: c, Uniform: make([]bool, len(c.In))})
		if err != nil {
			panic(err)
		}
		return p
	}
	makers[reflect.TypeFor[*expr.Func]()] = func(w *world) any {
		return pick(w, []*expr.Func{nil, new(expr.Func), {Name: "f", ArgCount: 7},
			{Name: "half", ArgCount: 1, F: func(a, _, _ float64) float64 { return a / 2 }}})
	}
	// The values for the operands of inlined code.
	makers[reflect.TypeFor[func(operand, part int) expr.Value]()] = func(w *world) any {
		v := expr.Value(w.rng.IntN(6) - 1)
		return func(operand, part int) expr.Value { return v }
	}
}

func formula(text string) *expr.Formula {
	f, err := expr.Parse(text)
	if err != nil {
		panic(err)
	}
	return f
}

// builder returns a builder with a few values, sometimes with an error.
func (w *world) builder() *expr.Builder {
	b := expr.NewBuilder(w.dtype(), tensor.Float32)
	b.Emit(expr.Exp, b.Load(1))
	b.Convert(tensor.Int32, b.Load(1))
	return b
}

// code returns valid code. Invalid code is an error of Check.
func (w *world) code() *expr.Code {
	f := formula(pick(w, formulas))
	for {
		in := make([]tensor.DType, len(f.Params()))
		for k := range in {
			in[k] = w.dtype()
		}
		c, err := f.Code(in, expr.Typing{Attrs: map[string]tensor.Scalar{"alpha": tensor.FloatScalar(2)}})
		if err == nil {
			return c
		}
		f = formula(formulas[0])
	}
}

// loop returns a loop, sometimes with folds of unsuitable dtypes or operations.
func (w *world) loop() *expr.Loop {
	c := w.code()
	l := &expr.Loop{Code: c, Uniform: make([]bool, len(c.In))}
	if w.rng.IntN(2) == 0 {
		l.Folds = []expr.Fold{{Op: expr.Op(w.rng.IntN(20)), Value: expr.Value(w.rng.IntN(len(c.Insts)))}}
	}
	if w.rng.IntN(4) == 0 {
		l.Uniform = nil
	}
	return l
}
