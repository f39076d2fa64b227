package copies

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The kernels of this file compute in a dtype that differs from the dtype of their operands. They convert the operands
// first and the results last.

// CompileInDType returns a kernel that computes a call in the given dtype. compile returns the kernel of a call whose
// operands and results have this dtype. The first phase of the returned kernel converts operands of other dtypes into
// scratch memory. The last phase converts the results, which are therefore rounded once. The data of packed
// operands already have this dtype. The converted copy of a dense operand has the operand's layout.
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
	var conversions []Job    // conversions of operands
	for i, meta := range call.Out {
		buffer := kit.OutBuffer(call, i)
		if meta.DType != dtype {
			buffer = builder.scratch(converted.Out[i])
			builder.resultCopies = append(builder.resultCopies, Job{Dst: kit.OutBuffer(call, i), Src: buffer})
		}
		buffers = append(buffers, buffer)
	}
	for i, arg := range call.In {
		buffer := kit.InBuffer(call, i)
		if arg.Kind == graph.TensorArg && !buffer.Packed && buffer.Meta.DType != dtype {
			copied := builder.scratch(converted.Meta(i))
			conversions = append(conversions, Job{Dst: copied, Src: buffer})
			buffer = copied
		}
		buffers = append(buffers, buffer)
	}
	kernel, err := compile(converted)
	if err != nil || len(conversions)+len(builder.resultCopies) == 0 {
		return kernel, err
	}
	if len(conversions) > 0 {
		builder.AddCopies(conversions...)
	}
	builder.addCompiled(kernel, len(call.Out), buffers)
	return builder.Kernel()
}

// InDType returns a copy of the call in which all values have the given dtype, or the call itself if they have it
// already. A value that gets another dtype is dense in the copy. For a packed operand, only Packed.Type and Packed.Meta
// change, which describe the original of the packed data.
func InDType(call *graph.Call, dtype tensor.DType) *graph.Call {
	if isInDType(call, dtype) {
		return call
	}
	result := &graph.Call{Attrs: call.Attrs, Impl: call.Impl, Walk: call.Walk, Epilogue: call.Epilogue}
	for _, meta := range call.Out {
		result.Out = append(result.Out, metaInDType(meta, dtype))
	}
	for _, arg := range call.In {
		if arg.Kind == graph.TensorArg {
			arg.Value = valueInDType(arg.Value, dtype)
		}
		result.In = append(result.In, arg)
	}
	return result
}

// valueInDType returns the operand for a call in a dtype. It returns v itself if v has this dtype and is not packed,
// because a copy would keep the constant of v alive after v has dropped the constant. Otherwise it returns a copy of v
// whose meta has this dtype.
func valueInDType(v *graph.Value, dtype tensor.DType) *graph.Value {
	if v.Packed == nil && metaInDType(v.Meta, dtype).DType == v.Meta.DType {
		return v
	}
	value := *v
	if packed := value.Packed; packed != nil {
		converted := *packed
		converted.Meta = metaInDType(packed.Meta, dtype)
		converted.Type = converted.Meta.Type()
		value.Packed = &converted
	} else {
		value.SetMeta(metaInDType(value.Meta, dtype))
		value.Const = nil // the kernel reads the copy
	}
	return &value
}

// metaInDType returns a meta in a dtype: it is unchanged if it has this dtype or belongs to an omitted operand.
func metaInDType(meta tensor.Meta, dtype tensor.DType) tensor.Meta {
	if meta.DType == dtype || meta.DType == tensor.Invalid {
		return meta
	}
	return DenseAs(meta, dtype)
}

// isInDType reports whether the results and the operands of a call have a dtype. For a packed operand, it checks
// Packed.Meta, the meta of the original.
func isInDType(c *graph.Call, dtype tensor.DType) bool {
	differs := func(meta *tensor.Meta) bool { return meta.DType != dtype && meta.DType != tensor.Invalid }
	for i := range c.Out {
		if differs(&c.Out[i]) {
			return false
		}
	}
	for i := range c.In {
		arg := &c.In[i]
		if arg.Kind != graph.TensorArg {
			continue
		}
		if packed := arg.Value.Packed; packed != nil && differs(&packed.Meta) || packed == nil && differs(&arg.Value.Meta) {
			return false
		}
	}
	return true
}

// DenseAs returns the meta of a dense copy in the given dtype. Its dimensions have the same order as in meta.
func DenseAs(meta tensor.Meta, dtype tensor.DType) tensor.Meta {
	if meta.IsNonOverlappingAndDense() {
		return tensor.Meta{DType: dtype, Shape: meta.Shape, Strides: meta.Strides}
	}
	return tensor.Meta{DType: dtype, Shape: meta.Shape, Strides: tensor.DenseStrides(meta.Shape, meta.Strides)}
}
