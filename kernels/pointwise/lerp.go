package pointwise

import (
	"errors"
	"fmt"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type lerpAttrs struct {
	Weight tensor.Scalar `attr:"weight" default:"none" doc:"the weight, where it is a plain number and no operand"`
}

// Lerp is self + weight * (end - self).
var Lerp = kit.Define[lerpAttrs](graph.Op{
	Name:      "lerp",
	Doc:       "Interpolates from self to end by weight, a tensor or a plain number. All tensors must have one dtype.",
	Params:    []graph.Param{kit.Self, {Name: "end"}, {Name: "weight", Optional: true, Number: true}},
	Pointwise: &interpolation,
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		res, err := interpolation.Infer(c)
		if err != nil || len(c.In) < 3 || c.In[2].Kind != graph.NumberArg {
			return res, err
		}
		// A plain weight takes no part in the layout.
		t, err := kit.LaidOut(iter.Binary(iter.Undefined(), c.In[0].Operand(), c.In[1].Operand()))
		return c.One(t), err
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) { return compileGiven(&interpolation, c) },
	Ref:     kit.PointwiseRef(&interpolation, lerpRef),
	Examples: []graph.Example{kit.Example(nil, kit.ExTurned, kit.ExRow, kit.ExMatrix),
		kit.Example(graph.Attrs{"weight": 0.25}, kit.ExTurned, kit.ExRow)},
})

var interpolation = graph.Pointwise{Config: lerpConfig, Body: lerpBody}

func lerpConfig(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	d := c.Type(0).DType
	for i, name := range []string{"end", "weight"} {
		if i+1 < len(c.In) && c.In[i+1].Kind == graph.TensorArg && c.Type(i+1).DType != d {
			return iter.Config{}, fmt.Errorf("expected dtype %s for `%s` but got dtype %s", kit.CppName(d), name,
				kit.CppName(c.Type(i+1).DType))
		}
	}
	if c.Has(2) == kit.Attrs[lerpAttrs](c).Weight.IsSet() {
		return iter.Config{}, errors.New("lerp: weight must be given, as an operand or an attribute")
	}
	if !d.IsFloat() && !d.IsComplex() {
		label := "lerp_kernel_scalar"
		if c.Has(2) && c.In[2].Kind == graph.TensorArg {
			label = "lerp_kernel_tensor"
		}
		return iter.Config{}, kit.NotImplementedBy(label, d)
	}
	if c.Has(2) {
		return ternary(c, outs)
	}
	return binary(c, outs)
}

func lerpBody(c *graph.Call, it *iter.Rule) (iter.Kernel, error) {
	w := kit.Attrs[lerpAttrs](c).Weight
	if w.IsSet() {
		if err := kit.NumberFits(w, c.Type(0).DType); err != nil {
			return iter.Kernel{}, err
		}
	}
	switch d := it.DType(1); d {
	case tensor.Float32:
		return lerpSlices(w, float32(w.Float()), lerpFloats[float32]), nil
	case tensor.Float64:
		return lerpSlices(w, w.Float(), lerpFloats[float64]), nil
	case tensor.Complex64:
		return lerpSlices(w, complex64(w.Complex()), lerpComplex[complex64]), nil
	case tensor.Complex128:
		return lerpSlices(w, w.Complex(), lerpComplex[complex128]), nil
	default:
		return iter.Kernel{}, kit.NotImplementedBy("lerp_kernel_tensor", d)
	}
}

// lerpSlices makes the loop over three operands, or over two for a weight that is an
// attribute.
func lerpSlices[T number](s tensor.Scalar, w T, f func(dst, a, b, w []T)) iter.Kernel {
	if !s.IsSet() {
		return iter.Slice3(f)
	}
	ws := make([]T, 512)
	for i := range ws {
		ws[i] = w
	}
	return iter.Slice2(func(dst, a, b []T) {
		for len(dst) > 0 {
			n := min(len(dst), len(ws))
			f(dst[:n], a[:n], b[:n], ws[:n])
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	})
}

// lerpFloats goes from the nearer end, so that a weight of 1 gives end exactly
// (native::lerp).
func lerpFloats[T float](dst, a, b, w []T) {
	a, b, w = a[:len(dst)], b[:len(dst)], w[:len(dst)]
	for i := range dst {
		if x := w[i]; x < 0.5 {
			dst[i] = a[i] + x*(b[i]-a[i])
		} else {
			dst[i] = b[i] - (b[i]-a[i])*(1-x)
		}
	}
}

func lerpComplex[T complex64 | complex128](dst, a, b, w []T) {
	a, b, w = a[:len(dst)], b[:len(dst)], w[:len(dst)]
	for i := range dst {
		if x := w[i]; cmplx.Abs(complex128(x)) < 0.5 {
			dst[i] = a[i] + x*(b[i]-a[i])
		} else {
			dst[i] = b[i] - (b[i]-a[i])*(1-x)
		}
	}
}

func lerpRef(c *graph.Call) kit.ScalarFunc {
	w := kit.Attrs[lerpAttrs](c).Weight
	return func(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
		if w.IsSet() {
			x = append(x[:2:2], w)
		}
		return kit.ByKind(nil,
			func(x []float64) float64 { return x[0] + x[2]*(x[1]-x[0]) },
			func(x []complex128) complex128 { return x[0] + x[2]*(x[1]-x[0]) })(d, x)
	}
}
