package copies

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Converted compiles a call such that it computes in dtype d: operands of other dtypes are
// converted into scratch memory by a phase of their own, and the results by one at the
// end, which rounds once. Constants are converted here. Layouts stay as they are, but for
// operands that are not dense.
//
// It serves kernels that use every element many times, for which the copies are cheap.
func Converted(c *graph.Call, d tensor.DType, compile func(*graph.Call) (*graph.Kernel, error)) (*graph.Kernel, error) {
	x := NewCompound(c)
	in := graph.Call{Attrs: c.Attrs, Impl: c.Impl, Walk: c.Walk}
	var buffers []kit.Buffer
	var jobs []Job
	differs := false
	for i, m := range c.Out {
		b := kit.OutBuffer(c, i)
		if m.DType != d {
			b = x.room(denseAs(m, d))
			x.delivery = append(x.delivery, Job{Dst: kit.OutBuffer(c, i), Src: b})
		}
		buffers, in.Out = append(buffers, b), append(in.Out, b.Meta)
	}
	for i, a := range c.In {
		b := kit.InBuffer(c, i)
		if a.Kind == graph.TensorArg && b.Meta.DType != d {
			v := *a.Value
			if v.Const != nil {
				v.Const = v.Const.CopyTo(denseAs(v.Meta, d))
				b = kit.DataBuffer(v.Const)
				differs = true
			} else {
				to := x.room(denseAs(v.Meta, d))
				jobs = append(jobs, Job{Dst: to, Src: b})
				b = to
			}
			v.SetMeta(b.Meta)
			a.Value = &v
		}
		buffers, in.In = append(buffers, b), append(in.In, a)
	}
	k, err := compile(&in)
	if err != nil || !differs && len(jobs)+len(x.delivery) == 0 {
		return k, err
	}
	if len(jobs) > 0 {
		x.Copies(jobs...)
	}
	x.runKernel(k, len(c.Out), buffers)
	return x.Kernel()
}

// denseAs is the meta of a dense copy in dtype d with the order of dimensions of m.
func denseAs(m tensor.Meta, d tensor.DType) tensor.Meta {
	if m.IsNonOverlappingAndDense() {
		return tensor.Meta{DType: d, Shape: m.Shape, Strides: m.Strides}
	}
	return tensor.Meta{DType: d, Shape: m.Shape, Strides: tensor.DenseStrides(m.Shape, m.Strides)}
}
