package view

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// viewTypeFunc maps the type of an operand to the type of its view. Only ops with [graph.Op.ReadsStorage] depend on the
// size of the operand's storage.
type viewTypeFunc func(c *graph.Call, t tensor.Type, storage storageSize) (tensor.Type, error)

// storageSize is the size of an operand's storage, in elements.
type storageSize = sym.Int

// viewOp defines a view: an op with a result that shares the storage of its first operand. viewType returns the type of
// the result.
func viewOp(attrs *graph.Schema, op graph.Op, viewType viewTypeFunc) *graph.Op {
	if op.Params == nil {
		op.Params = []graph.Param{kit.Self}
	}
	op.Kind = graph.View
	op.Infer = func(c *graph.Call) ([]graph.Result, error) {
		var storage sym.Int
		if op.ReadsStorage { // only these ops walk to the root of a chain of views
			storage = c.In[0].Value.StorageLen()
		}
		t, err := viewType(c, c.Type(0), storage)
		const viewedOperand = 0
		return c.AliasResult(t, viewedOperand), err
	}
	op.Compile = func(c *graph.Call) (*graph.Kernel, error) { return compileViewCopy(c, op.Infer) }
	op.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		viewed, err := viewType(c, in[0].Meta.Type(), sym.Of(in[0].Storage().Len()/in[0].DType.Size()))
		if err != nil {
			return nil, err
		}
		meta, _ := viewed.Meta() // ok: the sizes are constants, because in[0] is a tensor
		t, err := in[0].View(meta)
		return []*tensor.Tensor{t}, err
	}
	return kit.DefineWith(attrs, op)
}

// compileViewCopy returns the kernel of a view whose results are pinned to other layouts. The kernel copies the viewed
// elements.
func compileViewCopy(call *graph.Call, infer func(*graph.Call) ([]graph.Result, error)) (*graph.Kernel, error) {
	inferred, err := infer(call)
	if err != nil {
		return nil, err
	}
	var jobs []copies.Job
	for i, result := range inferred {
		if call.Meta(0).Numel() == 0 && result.Meta().Numel() > 0 {
			return nil, errors.New("a non-empty view of an empty operand cannot be copied")
		}
		jobs = append(jobs, copies.Job{Dst: kit.OutBuffer(call, i), Src: kit.InBuffer(call, 0).View(result.Meta())})
	}
	return copies.Kernel(jobs...), nil
}

// multiViewOp defines an op that returns several views of its operand. viewTypes returns the types of the views.
func multiViewOp(attrs *graph.Schema, op graph.Op,
	viewTypes func(c *graph.Call, self tensor.Type) ([]tensor.Type, error)) *graph.Op {
	if op.Params == nil {
		op.Params = []graph.Param{kit.Self}
	}
	op.Kind, op.VariadicResults = graph.View, true
	if op.Infer == nil {
		op.Infer = func(c *graph.Call) ([]graph.Result, error) {
			types, err := viewTypes(c, c.Type(0))
			const viewedOperand = 0
			return c.AliasResults(viewedOperand, types...), err
		}
	}
	op.Compile = func(c *graph.Call) (*graph.Kernel, error) { return compileViewCopy(c, op.Infer) }
	op.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return viewsOf(in[0], func(self tensor.Type) ([]tensor.Type, error) { return viewTypes(callWithData(c, in), self) })
	}
	return kit.DefineWith(attrs, op)
}

// viewsOf returns the views of a tensor that viewTypes describes.
func viewsOf(self *tensor.Tensor, viewTypes func(self tensor.Type) ([]tensor.Type, error)) ([]*tensor.Tensor, error) {
	types, err := viewTypes(self.Meta.Type())
	if err != nil {
		return nil, err
	}
	out := make([]*tensor.Tensor, len(types))
	for i, viewType := range types {
		meta, _ := viewType.Meta() // ok: the sizes are constants
		if out[i], err = self.View(meta); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// callWithData returns a call whose operands after the first are constants with the given data.
func callWithData(c *graph.Call, in []*tensor.Tensor) *graph.Call {
	withData := &graph.Call{In: slices.Clone(c.In), Attrs: c.Attrs}
	for i := 1; i < len(withData.In); i++ {
		if withData.In[i].Kind == graph.TensorArg {
			withData.In[i].Value = &graph.Value{Type: in[i].Meta.Type(), Meta: in[i].Meta, Const: in[i]}
		}
	}
	return withData
}

// maxViews is the maximum number of results of unbind, of splits into a number of sections, and of tensor_split at
// constant indices. An operand with stride 0 may have any size, so without this bound the number of results could
// exhaust the memory.
const maxViews = 1 << 20

// suggestedFormat returns the memory format that the order of self's strides suggests. Self need not be dense.
func suggestedFormat(self tensor.Type) tensor.MemoryFormat {
	const exactMatch = false
	return self.SuggestMemoryFormat(exactMatch)
}

// withRankAtLeast returns a view of an operand with at least the given rank (at::atleast_1d, at::atleast_2d,
// at::atleast_3d). rank is at most 3.
func withRankAtLeast(self tensor.Type, rank int) (tensor.Type, error) {
	switch {
	case self.Rank() >= rank:
		return self, nil
	case self.Rank() == 0:
		return self.View(slices.Repeat(sym.Ints(1), rank))
	case self.Rank() == 2: // rank is 3
		return self.Unsqueeze(-1)
	}
	// A vector of n elements becomes [1, n] or [1, n, 1].
	row, err := self.Unsqueeze(0)
	if err != nil || rank == 2 {
		return row, err
	}
	return row.Unsqueeze(-1)
}
