package copies

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// CompileInDType returns a kernel that computes a call in dtype d. compile returns the kernel for operands and results
// of dtype d. The first phase of the kernel converts operands of other dtypes into scratch memory. The last phase
// converts the results, which are therefore rounded once. Packed operands already have dtype d. The copy of a dense
// operand has the layout of the operand.
//
// CompileInDType is for kernels that use each element many times. The copies are cheap compared to such kernels.
func CompileInDType(c *graph.Call, d tensor.DType, compile func(*graph.Call) (*graph.Kernel, error)) (*graph.Kernel,
	error) {
	in := InDType(c, d)
	if in == c {
		return compile(c)
	}
	x := NewKernelBuilder(c)
	var buffers []kit.Buffer
	var jobs []Job
	for i, m := range c.Out {
		b := kit.OutBuffer(c, i)
		if m.DType != d {
			b = x.scratch(in.Out[i])
			x.resultCopies = append(x.resultCopies, Job{Dst: kit.OutBuffer(c, i), Src: b})
		}
		buffers = append(buffers, b)
	}
	for i, a := range c.In {
		b := kit.InBuffer(c, i)
		if a.Kind == graph.TensorArg && !b.Packed && b.Meta.DType != d {
			to := x.scratch(in.Meta(i))
			jobs = append(jobs, Job{Dst: to, Src: b})
			b = to
		}
		buffers = append(buffers, b)
	}
	k, err := compile(in)
	if err != nil || len(jobs)+len(x.resultCopies) == 0 {
		return k, err
	}
	if len(jobs) > 0 {
		x.AddCopies(jobs...)
	}
	x.addCompiled(k, len(c.Out), buffers)
	return x.Kernel()
}

// InDType returns the call with all dtypes replaced by d, or the call itself if all dtypes are d already.
func InDType(c *graph.Call, d tensor.DType) *graph.Call {
	if isInDType(c, d) {
		return c
	}
	convert := func(m tensor.Meta) tensor.Meta {
		if m.DType == d || m.DType == tensor.Invalid {
			return m
		}
		return DenseAs(m, d)
	}
	in := &graph.Call{Attrs: c.Attrs, Impl: c.Impl, Walk: c.Walk, Epilogue: c.Epilogue}
	for _, m := range c.Out {
		in.Out = append(in.Out, convert(m))
	}
	for _, a := range c.In {
		// Unchanged values are shared with the original call, because a copy would keep constants alive.
		if a.Kind == graph.TensorArg && (a.Value.Packed != nil || convert(a.Value.Meta).DType != a.Value.Meta.DType) {
			v := *a.Value
			if p := v.Packed; p != nil {
				q := *p
				q.Meta = convert(p.Meta)
				q.Type = q.Meta.Type()
				v.Packed = &q
			} else {
				v.SetMeta(convert(v.Meta))
				v.Const = nil // the kernel reads the copy
			}
			a.Value = &v
		}
		in.In = append(in.In, a)
	}
	return in
}

// isInDType reports whether the results and the operands of a call have dtype d. For a packed operand, it checks the
// packed form.
func isInDType(c *graph.Call, d tensor.DType) bool {
	differs := func(m *tensor.Meta) bool { return m.DType != d && m.DType != tensor.Invalid }
	for i := range c.Out {
		if differs(&c.Out[i]) {
			return false
		}
	}
	for i := range c.In {
		a := &c.In[i]
		if a.Kind != graph.TensorArg {
			continue
		}
		if p := a.Value.Packed; p != nil && differs(&p.Meta) || p == nil && differs(&a.Value.Meta) {
			return false
		}
	}
	return true
}

// DenseAs returns the meta of a dense copy in dtype d whose dimensions have the same order as in m.
func DenseAs(m tensor.Meta, d tensor.DType) tensor.Meta {
	if m.IsNonOverlappingAndDense() {
		return tensor.Meta{DType: d, Shape: m.Shape, Strides: m.Strides}
	}
	return tensor.Meta{DType: d, Shape: m.Shape, Strides: tensor.DenseStrides(m.Shape, m.Strides)}
}
