package index

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type appendAttrs struct {
	Dim      int       `attr:"dim" doc:"dimension that grows"`
	Capacity int       `attr:"capacity" doc:"greatest size of this dimension"`
	Pad      []sym.Int `attr:"pad" default:"" doc:"numbers of zeros to append, as of constant_pad_nd; none: as many elements as src has"`
}

// appendOp extends a cache, and is not in the catalogue: [graph.Graph.StoreCaches] makes its nodes. The result is in
// the memory of self, which has space for the capacity. Elements follow those of self along a dimension:
//
//	append(self, null, src)        the elements of src
//	append(self, null, null)       zeros, as many as attribute pad says
//	append(self, index, src)       zeros; then elements of src replace elements of the result, as in scatter
var appendOp = kit.Define[*appendAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "append", Doc: "Writes elements behind those of self along a dimension, in the memory of self, which is a cache.",
		Params: []graph.Param{kit.Self, {Name: "index", Optional: true, IndexBound: func(c *graph.Call) int {
			return sizeAt(c.Out[0], kit.Attrs[*appendAttrs](c).Dim)
		}}, {Name: "src", Optional: true}},
		Infer: inferAppend, Ref: refAppend,
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 3).WithStrides([]int{8, 1}), {}, kit.F32(2, 1)},
			Attrs: graph.Attrs{"dim": 1, "capacity": 8}}},
	},
	Facts: graph.Facts{Stores: true},
	Lowerings: graph.Lowerings{Impls: []graph.Impl{{Name: "plain", Doc: "Writes the new elements.", Lower: compileAppend,
		Writes: func(*graph.Call, graph.Walk, int, tensor.Meta) bool { return true },
		Read: func(c *graph.Call, _ graph.Walk, i int, operand tensor.Meta) (work pricing.Work, ok bool) {
			if i == 0 && !operand.SameAddresses(c.Meta(0)) { // the memory of the cache is no copy
				return work, false
			}
			if i == 2 {
				copies.AddCopyCost(&work, operand, operand.WithStrides(c.Out[0].Strides))
			}
			return work, true
		},
		Work: func(c *graph.Call, _ graph.Walk) pricing.Work {
			work := pricing.Work{StartedSteps: 1}
			if added := appended(c); len(kit.Attrs[*appendAttrs](c).Pad) > 0 {
				work.Bytes[pricing.Copied] += float64(added.Bytes())
			}
			return work
		}}}},
})

// AppendOf returns the extension of self by src along a dimension. If src is absent, zeros are appended, as many as pad
// says, which is the attribute pad of constant_pad_nd with two numbers for each dimension.
func AppendOf(dim int, pad any, self, src graph.Arg) graph.Extension {
	attrs := graph.Attrs{"dim": dim}
	if pad != nil {
		attrs["pad"] = pad
	}
	return graph.Extension{Dim: dim, Op: appendOp, In: []graph.Arg{self, {}, src}, Attrs: attrs}
}

// extendByScatter is [graph.Op.Extend] of scatter. self may be an extension by zeros.
func extendByScatter(n *graph.Node, s scatterCall) (extension graph.Extension, ok bool) {
	self, index, src := n.In[0], n.In[1], n.In[2]
	if s.mode() != combineSet || src.Kind != graph.TensorArg {
		return extension, false
	}
	extension = AppendOf(s.dim, make([]int, 2*self.Meta().Rank()), self, src)
	if padded, ok := self.Value.Node.Extension(); ok && padded.Dim == s.dim && padded.In[2].Kind == graph.Null {
		extension = padded
	}
	extension.In[1], extension.In[2], extension.Overwrites = index, src, true
	return extension, true
}

// inferAppend returns the type of self with more indices of the dimension.
func inferAppend(c *graph.Call) ([]graph.Result, error) {
	attrs, out := kit.Attrs[*appendAttrs](c), c.Type(0)
	dim, added := attrs.Dim, sym.Int{}
	switch {
	case dim < 0 || dim >= out.Rank():
		return nil, fmt.Errorf("self has no dimension %d", dim)
	case len(attrs.Pad) >= 2*(out.Rank()-dim):
		added = attrs.Pad[2*(out.Rank()-1-dim)+1] // pad lists the last dimension first, and two numbers for each
	case c.HasOperand(2) && c.Type(2).Rank() == out.Rank():
		added = c.Type(2).Shape[dim]
	default:
		return nil, errors.New("append() needs src or pad")
	}
	out.Shape = append(out.Shape[:0:0], out.Shape...)
	size := out.Shape[dim].Add(added)
	out.Shape[dim] = size
	if sym.Of(attrs.Capacity).Lt(size).Holds() {
		return nil, fmt.Errorf("cache %q needs size %v in dimension %d, but its capacity is %d", c.In[0].Value.Name, size, dim,
			attrs.Capacity)
	}
	return c.NewResult(out), nil
}

// appended returns the part of the result behind the elements of self.
func appended(c *graph.Call) tensor.Meta {
	part, dim := c.Out[0], kit.Attrs[*appendAttrs](c).Dim
	first := c.Meta(0).Shape[dim]
	part, err := part.Narrow(dim, first, part.Shape[dim]-first)
	if err != nil {
		panic(err) // inference has checked the sizes
	}
	return part
}

// compileAppend returns a kernel that writes the new elements.
func compileAppend(c *graph.Call) (*graph.Kernel, error) {
	if !c.IsInPlace(0) {
		return nil, errors.New("the result of append is not in the memory of a cache")
	}
	attrs, out := kit.Attrs[*appendAttrs](c), kit.OutBuffer(c, 0)
	hasIndex := c.HasOperand(1)
	job := copies.Job{Dst: out.View(appended(c))}
	if c.HasOperand(2) && !hasIndex {
		job.Src = kit.InBuffer(c, 2)
	} else {
		job.Fill = tensor.IntScalar(0).Tensor(out.Meta.DType)
	}
	kernel := copies.Kernel(job)
	if hasIndex && c.Meta(1).Numel() > 0 {
		kernel.WorkerScratch = max(kernel.WorkerScratch, offsetBlockLen*8)
		scatter := scatterCall{dim: attrs.Dim, reduce: "none", includeSelf: true}
		walk := scatter.walk(c, out, operandAt(3, c.Meta(2)))
		kernel.Phases = append(kernel.Phases, walk.phase(scatterRowLoops(c.Out[0].DType, scatter.mode(), tensor.IntScalar(1))))
	}
	return kernel, nil
}

// refAppend is the reference: it copies self.
func refAppend(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	results, err := inferAppend(c)
	if err != nil {
		return nil, err
	}
	attrs, shape := kit.Attrs[*appendAttrs](c), kit.KnownSizes(results[0].Type.Shape)
	dim := attrs.Dim
	out := tensor.Zeros(in[0].DType, shape...)
	copyAt := func(source *tensor.Tensor, first int) {
		kit.EachIndex(source.Shape, func(index []int) {
			target := append([]int(nil), index...)
			target[dim] += first
			out.Set(source.At(index...), target...)
		})
	}
	copyAt(in[0], 0)
	switch {
	case c.HasOperand(1):
		scatter := scatterCall{dim: dim, reduce: "none", includeSelf: true}
		return scatter.reference([]*tensor.Tensor{out, in[1], in[2]})
	case c.HasOperand(2):
		copyAt(in[2], in[0].Shape[dim])
	}
	return []*tensor.Tensor{out}, nil
}
