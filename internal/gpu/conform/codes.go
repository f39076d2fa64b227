// Package conform tests devices: it compares the results of kernels with expr.Code.Eval and with the references of ops.
// It has the expressions, iterations and calls of the tests. [Probe] finds the operations that a device computes
// exactly.
package conform

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Code is an expression with the name of its operation and dtypes.
type Code struct {
	Name string
	*expr.Code
}

// Primitives returns an expression for each primitive operation and each dtype that supports it, and for each
// conversion between two dtypes.
func Primitives() []Code {
	var list []Code
	all := tensor.DTypes()
	for o := expr.Bits + 1; o.Primitive(); o++ {
		for _, d := range all {
			if lane.Ops[o].On.Has(d) {
				list = append(list, primitive(o, d))
			}
		}
	}
	for _, from := range all {
		for _, to := range all {
			b := expr.NewBuilder(from)
			if from != to && !from.IsComplex() && !to.IsComplex() {
				list = append(list, build(fmt.Sprintf("%v to %v", from, to), b, b.Convert(to, b.Load(0))))
			}
			if from != to && lane.Ops[lane.Bits].On.Has(from) && lane.Ops[lane.Bits].On.Has(to) && from.Size() == to.Size() {
				b := expr.NewBuilder(from)
				list = append(list, build(fmt.Sprintf("bits of %v as %v", from, to), b, b.Bits(to, b.Load(0))))
			}
		}
	}
	return list
}

// build returns an expression with the single result v.
func build(name string, b *expr.Builder, v expr.Value) Code {
	code, err := b.Build(b.Real(v))
	if err != nil {
		panic(err)
	}
	return Code{name, code}
}

// primitive returns an expression with one operation. It replaces operands for which the result is unspecified.
func primitive(o expr.Op, d tensor.DType) Code {
	in := slices.Repeat([]tensor.DType{d}, o.Args())
	if o == expr.Select {
		in[0] = tensor.Bool
	}
	b := expr.NewBuilder(in...)
	var x []expr.Value
	for k := range in {
		x = append(x, b.Load(k))
	}
	name := fmt.Sprintf("%v of %v", o, d)
	switch {
	case o == expr.Lookup:
		return build(name, b, b.Make(expr.Inst{Op: o, DType: d, A: x[0], B: expr.None, C: expr.None}))
	case o == expr.Div && !d.IsFloat(): // not by 0
		x[1] = b.Do(expr.Select, b.Do(expr.Eq, x[1], b.Int(d, 0)), b.Int(d, 3), x[1])
	case o == expr.Limit: // the result for a NaN has any sign
		x[0] = b.Do(expr.Select, b.Do(expr.Eq, x[0], x[0]), x[0], b.Const(d, 1))
	}
	return build(name, b, b.Do(o, x...))
}

// Functions returns, for each of the dtypes, an expression for each elementary function, and for each function of the
// expression language that accepts operands of the dtype.
func Functions(dtypes ...tensor.DType) []Code {
	var list []Code
	for _, d := range dtypes {
		for o := expr.Exp; o.Elementary() && (d == tensor.Float32 || d == tensor.Float64); o++ {
			list = append(list, primitive(o, d))
		}
		for _, f := range expr.Functions() {
			text := f.Name + "("
			for k, p := range f.Params {
				if k > 0 {
					text += ", "
				}
				text += p
			}
			formula, err := expr.Parse(text+")", f.Params...)
			if err != nil {
				continue // a function of constants
			}
			code, err := formula.Code(slices.Repeat([]tensor.DType{d}, len(f.Params)), expr.Typing{})
			if err == nil && code.Compilable() && !code.Reduces() {
				list = append(list, Code{fmt.Sprintf("%s) of %v", text, d), code})
			}
		}
	}
	return list
}
