package copies

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file makes kernels that compute in another dtype than the dtype of their operands: they first convert the
// operands, and last the results.

// CompileInDType returns a kernel that computes a call in the given dtype. compile returns the kernel of a call whose
// operands and results have this dtype. The first phase of the returned kernel converts operands of other dtypes into
// scratch memory. The last phase converts the results, which are therefore rounded once. Packed operands already have
// this dtype. The converted copy of a dense operand has the operand's layout.
//
// CompileInDType is for kernels that use each element many times. The copies are cheap compared to such kernels.
func CompileInDType(call *graph.Call, dtype tensor.DType,
	compile func(*graph.Call) (*graph.Kernel, error)) (*graph.Kernel, error) {
	converted := InDType(call, dtype)
	if converted == call {
		return compile(call)
	}
	builder := NewKernelBuilder(call)
	var buffers []kit.Buffer // the results and operands of the compiled kernel
	var jobs []Job           // conversions of operands
	for i, m := range call.Out {
		b := kit.OutBuffer(call, i)
		if m.DType != dtype {
			b = builder.scratch(converted.Out[i])
			builder.resultCopies = append(builder.resultCopies, Job{Dst: kit.OutBuffer(call, i), Src: b})
		}
		buffers = append(buffers, b)
	}
	for i, a := range call.In {
		b := kit.InBuffer(call, i)
		if a.Kind == graph.TensorArg && !b.Packed && b.Meta.DType != dtype {
			copied := builder.scratch(converted.Meta(i))
			jobs = append(jobs, Job{Dst: copied, Src: b})
			b = copied
		}
		buffers = append(buffers, b)
	}
	k, err := compile(converted)
	if err != nil || len(jobs)+len(builder.resultCopies) == 0 {
		return k, err
	}
	if len(jobs) > 0 {
		builder.AddCopies(jobs...)
	}
	builder.addCompiled(k, len(call.Out), buffers)
	return builder.Kernel()
}

// InDType returns a copy of the call in which all dtypes are d, or the call itself if all dtypes are d already. A value
// that gets another dtype is dense in the copy.
func InDType(call *graph.Call, d tensor.DType) *graph.Call {
	if isInDType(call, d) {
		return call
	}
	convert := func(m tensor.Meta) tensor.Meta {
		if m.DType == d || m.DType == tensor.Invalid {
			return m
		}
		return DenseAs(m, d)
	}
	result := &graph.Call{Attrs: call.Attrs, Impl: call.Impl, Walk: call.Walk, Epilogue: call.Epilogue}
	for _, m := range call.Out {
		result.Out = append(result.Out, convert(m))
	}
	for _, a := range call.In {
		// Values of dtype d are not copied: when the constant of a value is dropped later, a copy would keep it alive.
		if a.Kind == graph.TensorArg && (a.Value.Packed != nil || convert(a.Value.Meta).DType != a.Value.Meta.DType) {
			v := *a.Value
			if p := v.Packed; p != nil {
				converted := *p
				converted.Meta = convert(p.Meta)
				converted.Type = converted.Meta.Type()
				v.Packed = &converted
			} else {
				v.SetMeta(convert(v.Meta))
				v.Const = nil // the kernel reads the copy
			}
			a.Value = &v
		}
		result.In = append(result.In, a)
	}
	return result
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
