package index

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type indexPutAttrs struct {
	Accumulate bool `attr:"accumulate" default:"false" doc:"add values to the elements; else replace them"`
}

// IndexPut is aten::index_put, with values before the indices.
var IndexPut = kit.Define[*indexPutAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "index_put",
		Doc: "Copies self, then replaces the elements self[index0, index1, ...] by `values`, or adds `values` to them. " +
			"These are the elements that the op `index` selects. `values` is broadcast to their shape. An element that is " +
			"selected several times gets the last of its values, or the sum of all.",
		Params: append([]graph.Param{kit.Self, {Name: "values"}}, indexParams()[1:]...),
		Infer:  inferIndexPut,
		Ref:    indexPutRef,
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 4, 2), kit.F32(3, 1), {}, kit.I64(3, 1), kit.I64(2)}},
			{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), kit.F32(), kit.I64(2)}, Attrs: graph.Attrs{"accumulate": true}},
			{In: []tensor.Meta{kit.F32(3, 4), kit.F32(1), tensor.New(tensor.Bool, 3, 4)}}},
	},
	Lowerings: graph.Lowerings{
		Compile:    compileIndexPut,
		RunDynamic: runIndexPut,
	},
})

// inferIndexPut infers the result, with the layout of empty_like(self). With a mask, the number of selected elements is
// unknown, so the shape of values is not checked.
func inferIndexPut(c *graph.Call) ([]graph.Result, error) {
	self, values := c.Type(0), c.Type(1)
	out := rule.PreserveType(self)
	if self.DType != values.DType && !fillsMask(c) {
		return nil, fmt.Errorf("Index put requires the source and destination dtypes match, got %s for the "+
			"destination and %s for the source.", self.DType.TorchName(), values.DType.TorchName())
	}
	selecting := selectingCall(c, c.In[0])
	if hasMask(selecting) {
		// The indices of the mask depend on data. An outline, in place of the type, selects runIndexPut.
		return []graph.Result{graph.PartialType{DType: self.DType, Sizes: outlineSizes(self.Shape),
			TypeFor: func([]sym.Int) (tensor.Type, error) { return out, nil }}.Result()}, nil
	}
	parsed, err := newIndexCall(selecting)
	if err == nil {
		err = parsed.checkValues(values)
	}
	return c.NewResult(out), err
}

// fillsMask reports whether the call sets the elements that a single mask selects to a single number. PyTorch converts
// the number to the dtype of self, as masked_fill does.
func fillsMask(c *graph.Call) bool {
	indexOperands := 0
	for i := 2; i < len(c.In); i++ {
		if c.HasOperand(i) {
			indexOperands++
		}
	}
	isSingleMask := indexOperands == 1 && hasMask(selectingCall(c, c.In[0]))
	return isSingleMask && !kit.Attrs[*indexPutAttrs](c).Accumulate && kit.SizeIs(c.Type(1).Numel(), 1)
}

// selectingCall returns the call of op index that selects the elements which c, a call of index_put, replaces:
// index(self, i, j) for index_put(self, values, i, j).
func selectingCall(c *graph.Call, self graph.Arg) *graph.Call {
	indices := c.In[min(2, len(c.In)):] // none if the call has only self and values
	return &graph.Call{In: append([]graph.Arg{self}, indices...)}
}

// checkValues returns PyTorch's error if values cannot be broadcast to the shape of the indexed elements.
func (parsed *indexCall) checkValues(values tensor.Type) error {
	if _, err := values.Expand(parsed.shape); err != nil {
		return fmt.Errorf("shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
			tensor.Sizes(values.Shape), tensor.Sizes(parsed.shape))
	}
	return nil
}

// indexPutRef is the reference of index_put.
func indexPutRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	call, operands, err := replaceMasksOfPut(c, in, nonzeroRef)
	if err != nil {
		return nil, err
	}
	self, values, indices := operands[0], operands[1], operands[2:]
	targets, err := selectedPositions(call, self.Shape, indices)
	if err != nil {
		return nil, err
	}
	out := self.CopyTo(tensor.New(self.DType, self.Shape...))
	flat, err := out.View(tensor.New(out.DType, out.Numel()))
	if err != nil {
		return nil, err
	}
	expandedValues, err := values.Expanded(targets.Shape)
	if err != nil {
		return nil, err
	}
	kit.EachIndex(targets.Shape, func(coords []int) {
		target := int(targets.At(coords...).Int())
		flat.Set(refCombine(out.DType, putMode(call), putAlpha, flat.At(target), expandedValues.At(coords...)), target)
	})
	return []*tensor.Tensor{out}, nil
}

// selectedPositions returns the row-major positions in self of the elements that the indices select. It applies the op
// index to a tensor of the shape of self whose elements are their own positions.
func selectedPositions(c *graph.Call, shape []int, indices []*tensor.Tensor) (*tensor.Tensor, error) {
	positions := tensor.Zeros(tensor.Int64, shape...)
	position := int64(0)
	kit.EachIndex(shape, func(coords []int) {
		positions.Set(tensor.IntScalar(position), coords...)
		position++
	})
	self := graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: positions.Meta, Type: positions.Meta.Type()}}
	selected, err := indexRef(selectingCall(c, self), append([]*tensor.Tensor{positions}, indices...))
	if err != nil {
		return nil, err
	}
	return selected[0], nil
}

// compileIndexPut compiles a call without masks: the kernel copies self, and an indexed walk (walk.go) writes values to
// the copy. The walk has the operands values (0), the copy as the table (1), and index operands (2, 3, ...).
func compileIndexPut(c *graph.Call) (*graph.Kernel, error) {
	kernel, out := copySelfKernel(c), c.Out[0]
	self := graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: out, Type: out.Type()}}
	parsed, err := newIndexCall(selectingCall(c, self))
	if err == nil {
		err = parsed.checkValues(c.Meta(1).Type())
	}
	if err != nil {
		return nil, err
	}
	shape := kit.KnownSizes(parsed.shape)
	if tensor.Numel(shape) == 0 {
		return kernel, nil
	}
	values, err := c.Meta(1).Type().Expand(parsed.shape)
	if err != nil {
		return nil, err
	}
	table := kit.KnownMeta(parsed.table)
	// The order in Mem.Ptrs differs from the order in the walk: the result, self, values and then an index operand for
	// each dimension.
	const valuesPtr, firstIndexPtr = 2, 3
	walk := &indexedWalk{shape: shape, writesTable: true, operands: []walkOperand{
		operandAt(valuesPtr, kit.KnownMeta(values)), {kit.OutBuffer(c, 0), kit.ByteStrides(table)}}}
	parsed.addIndices(walk, firstIndexPtr, out) // also adds, for each index operand, the dimension that it indexes
	kernel.Phases = append(kernel.Phases, walk.phase(scatterRowLoops(out.DType, putMode(c), putAlpha)))
	return kernel, nil
}

// putAlpha is the factor of the values. index_put has no attribute alpha, unlike index_add, which uses the same loops.
var putAlpha = tensor.IntScalar(1)

// putMode returns the way in which a call of index_put combines the values with the elements of self.
func putMode(c *graph.Call) combineMode {
	if kit.Attrs[*indexPutAttrs](c).Accumulate {
		return combineAdd
	}
	return combineSet
}

// runIndexPut runs a call with masks, which it first replaces by indices.
func runIndexPut(rt graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	ctx := contextOf(rt)
	call, operands, err := replaceMasksOfPut(c, in, func(mask *tensor.Tensor) (*tensor.Tensor, error) {
		return nonzeroIndices(ctx, mask)
	})
	if err != nil {
		return nil, err
	}
	call.Out = []tensor.Meta{kit.KnownMeta(rule.PreserveType(in[0].Meta.Type()))}
	kernel, err := compileIndexPut(call)
	if err != nil {
		return nil, err
	}
	return runSerially(ctx, kernel, call.Out[0], operands)
}

// replaceMasksOfPut is replaceMasks for a call of index_put. If the call fills a mask by a number (see fillsMask),
// it also converts this number to the dtype of self.
func replaceMasksOfPut(c *graph.Call, in []*tensor.Tensor, nonzero func(*tensor.Tensor) (*tensor.Tensor, error)) (
	*graph.Call, []*tensor.Tensor, error) {
	// Replace the masks in the operands of selectingCall: self, index0, index1, ...
	self, values := in[0], in[1]
	selecting, operands, err := replaceMasks(selectingCall(c, c.In[0]), append([]*tensor.Tensor{self}, in[2:]...),
		nonzero)
	if err != nil {
		return nil, nil, err
	}
	if len(operands) > 1+maxIndices { // self and the indices
		return nil, nil, errors.New("index_put: too many indices")
	}
	if values.DType != self.DType { // the call fills a mask
		number := values.At(make([]int, values.Rank())...)
		if err := kit.CheckNumberFits(number, self.DType); err != nil {
			return nil, nil, err
		}
		values = tensor.Zeros(self.DType)
		values.Set(number)
	}
	// Insert values again, after self.
	valuesArg := graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: values.Meta}}
	args := append([]graph.Arg{selecting.In[0], valuesArg}, selecting.In[1:]...)
	return &graph.Call{In: args, Attrs: c.Attrs}, append([]*tensor.Tensor{operands[0], values}, operands[1:]...), nil
}
