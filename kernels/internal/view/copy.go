package view

import (
	"fmt"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type copyAttrs struct {
	NonBlocking bool `attr:"non_blocking" default:"false" doc:"has no effect"`
}

// CopyOp is aten::copy, the functional form of Tensor.copy_.
var CopyOp = kit.Define[*copyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "copy",
		Doc: "Returns the elements of `src` in new memory, in the shape, dtype and strides of self, as `self.copy_(src)` " +
			"leaves them in self. If elements of self share memory, the strides are those of `clone(self)`. Memory between " +
			"the elements is 0. This is the layout of PyTorch 2.0 and later; PyTorch 1.13 returns the strides of `src`.",
		Params: []graph.Param{kit.Self, {Name: "src"}},
		Infer:  inferCopy,
		Ref: func(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			expanded, err := in[1].Expand(in[0].Shape)
			if err != nil {
				return nil, err
			}
			src, err := in[1].View(expanded)
			if err != nil {
				return nil, err
			}
			return copies.Ref(inferCopy)(call, []*tensor.Tensor{src})
		},
		Examples: []graph.Example{{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), kit.F32(2, 3, 4, 5)}},
			{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), tensor.New(tensor.Int32, 3, 1, 1)}}},
	},
	Facts: graph.Facts{Parallel: copyLoops},
	Lowerings: graph.Lowerings{
		Decompose: decomposeCopy,
	},
})

// copyLoops returns the loops over the dimensions of self, to which src is broadcast. Each iteration has a separate
// slice of self (operand 0), but all iterations may read the same slice of src (operand 1).
func copyLoops(c *graph.Call) []graph.Parallel {
	loops := graph.BroadcastLoops(c)
	for i := range loops {
		loops[i].MayBroadcast = []bool{false, true}
	}
	return loops
}

// inferCopy mirrors at::copy of PyTorch 2: clone_preserve_strides of self. The result starts at offset 0.
func inferCopy(call *graph.Call) ([]graph.Result, error) {
	self := call.Type(0)
	if _, err := call.Type(1).Expand(self.Shape); err != nil {
		return nil, err
	}
	if sharesMemory(self) {
		result, err := kit.LikeType(self, tensor.Preserve)
		return call.NewResult(result), err
	}
	return call.NewResult(self.WithStrides(self.Strides)), nil
}

// sharesMemory reports whether elements of a value share memory. If sizes are unknown, only strides of 0 count.
func sharesMemory(t tensor.Type) bool {
	if kit.IsEmpty(t) {
		return false
	}
	for dim, stride := range t.Strides {
		if kit.SizeIs(stride, 0) && kit.SizeAtLeast(t.Shape[dim], 2) {
			return true
		}
	}
	meta, known := t.Meta()
	return known && meta.OverlapsItself()
}

// decomposeCopy replaces a copy by conversions and a clone, which passes can remove or fuse, if these give the strides
// of the result.
func decomposeCopy(p *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
	inferred, err := inferCopy(c)
	if err != nil {
		return nil, err
	}
	result := inferred[0].Type
	out, err := p.Add(To, graph.Attrs{"dtype": result.DType}, c.In[1])
	if err == nil && !tensor.SameSizes(result.Shape, c.Type(1).Shape) {
		out, err = p.Add(Expand, graph.Attrs{"size": result.Shape}, graph.ArgOf(out[0]))
	}
	if err != nil {
		return nil, err
	}
	if cloned, err := kit.LikeType(out[0].Type, tensor.Preserve); err == nil && sameStrides(cloned, result) {
		return p.Add(Clone, nil, graph.ArgOf(out[0]))
	}
	return p.Add(stridedCopy(), graph.Attrs{"size": result.Shape, "stride": result.Strides}, graph.ArgOf(out[0]))
}

// sameStrides reports whether types have the same strides for all sizes.
func sameStrides(a, b tensor.Type) bool {
	return slices.EqualFunc(a.Strides, b.Strides, sym.Int.Same)
}

type stridedCopyAttrs struct {
	Size   []sym.Int `attr:"size" doc:"sizes of self"`
	Stride []sym.Int `attr:"stride" doc:"strides of the result, in elements"`
}

// stridedCopy is a part of copy, and not in the catalogue: a copy with given strides, without shared memory. Memory
// between the elements is 0.
var stridedCopy = sync.OnceValue(func() *graph.Op {
	return kit.Define[*stridedCopyAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: "strided_copy", Doc: "Copies self to memory with the given strides.",
			Params: []graph.Param{kit.Self}, Infer: inferStridedCopy, Ref: copies.Ref(inferStridedCopy),
			Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 3)},
				Attrs: graph.Attrs{"size": []int{2, 3}, "stride": []int{5, 1}}}},
		},
		Lowerings: graph.Lowerings{Compile: func(c *graph.Call) (*graph.Kernel, error) {
			kernel, err := copies.CompileCopy(c)
			extent := c.Out[0].Extent() - c.Out[0].Offset
			if err != nil || extent == c.Out[0].Numel() {
				return kernel, err
			}
			vector := tensor.New(c.Out[0].DType, extent)
			cleared := copies.Kernel(copies.Job{Dst: kit.PtrBuffer(0, vector), Fill: tensor.Zeros(vector.DType)})
			kernel.Phases = append(cleared.Phases, kernel.Phases...)
			kernel.WorkerScratch = max(kernel.WorkerScratch, cleared.WorkerScratch)
			return kernel, nil
		}},
	})
})

func inferStridedCopy(c *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*stridedCopyAttrs](c)
	result, err := stridedType(c.Type(0).DType, attrs.Size, attrs.Stride)
	if err == nil && !tensor.SameSizes(result.Shape, c.Type(0).Shape) {
		err = fmt.Errorf("self has shape %s, but the result %s", tensor.Sizes(c.Type(0).Shape), tensor.Sizes(result.Shape))
	}
	return c.NewResult(result), err
}
