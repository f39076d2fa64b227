package pointwise

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// formula is what an op computes for one element, as text: see package expr. A mistake in it is one in the program.
func formula(text string, params ...string) *expr.Formula {
	f, err := expr.Parse(text, params...)
	if err != nil {
		panic("pointwise: " + text + ": " + err.Error())
	}
	return f
}

// The dtypes in which ops compute: 16-bit floats come as float32.
var (
	floats    = []tensor.DType{tensor.Float32, tensor.Float64}
	complexes = []tensor.DType{tensor.Complex64, tensor.Complex128}
	signed    = []tensor.DType{tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}
	unsigned  = []tensor.DType{tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64}
	boolean   = []tensor.DType{tensor.Bool}
)

// stated returns the kernels of a formula without attributes whose operands are all of one dtype, which is that of the
// result too.
func stated(f *expr.Formula, dtypes ...[]tensor.DType) bodies {
	return statedAs(f, func(d tensor.DType) tensor.DType { return d }, dtypes...)
}

// statedAs is stated for a result of another dtype.
func statedAs(f *expr.Formula, result func(tensor.DType) tensor.DType, dtypes ...[]tensor.DType) (t bodies) {
	for _, list := range dtypes {
		for _, d := range list {
			types := []tensor.DType{result(d)}
			for range f.Params() {
				types = append(types, d)
			}
			t[d] = iter.ExprOf(func() (*expr.Code, error) {
				return f.Code(types[1:], expr.Typing{Common: d, Out: types[:1]})
			}, 1, types...)
		}
	}
	return t
}

// numbers are the plain numbers of a formula by name: attributes of an op.
type numbers = map[string]tensor.Scalar

// with returns the kernel of a formula with attributes for the dtypes that loops see.
func with(f *expr.Formula, it *iter.Rule, attrs numbers) iter.Kernel {
	outs := it.NumOutputs()
	types := make([]tensor.DType, it.Len())
	for i := range types {
		types[i] = it.DType(i)
	}
	return iter.ExprOf(func() (*expr.Code, error) {
		return f.Code(types[outs:], expr.Typing{Attrs: attrs, Common: types[outs], Out: types[:outs]})
	}, outs, types...)
}
