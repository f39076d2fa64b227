package index

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// tupleWalk describes the indexed walk of a call of gather_nd or scatter_nd. These ops index a value by tuples of
// indices: a tuple has one index for each indexed dimension of the value. The indices of a tuple are along the last
// dimension of the index operand. For a value [3, 4, 2] and indices [5, 1], for example, the shape of the walk is
// [5, 4, 2]. At [n, i, j], the walk accesses the element [indices[n, 0], i, j] of the value.
//
// An indexed walk (walk.go) visits all indices of a shape, and copies elements between operand 0, the plain operand,
// and operand 1, the table. The table is the value that is indexed. A lookup reads an index from operand 2 and gives
// the position in one dimension of the table.
type tupleWalk struct {
	batchDims        int   // number of batch dimensions
	tupleLen         int   // number of indices of a tuple
	shape            []int // shape of the walk
	tableByteStrides []int // strides of the walk in the value, in bytes
	indexByteStrides []int // strides of the walk in the index operand, in bytes
	lookups          []lookup
}

// GatherND is ONNX's GatherND; PyTorch has no equivalent. For tuples of two indices and batch_dims 0:
//
//	gather_nd:   result[i, ...] = self[indices[i, 0], indices[i, 1], ...]
//	scatter_nd:  result[indices[i, 0], indices[i, 1], ...] = updates[i, ...]
var GatherND = kit.Define[*gatherNDAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "gather_nd",
		Doc: "Takes elements or slices of self by tuples of indices: `indices` [..., k] give [..., rest], where a " +
			"tuple indexes the first k dimensions of self after the batch dimensions, and rest are the sizes of " +
			"its other dimensions. A negative index counts from the end.",
		Params: []graph.Param{kit.Self, {Name: "indices", IndexBound: tupleIndexBound}},
		Infer:  inferGatherND,
		Ref:    refGatherND,
		Examples: []graph.Example{{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), kit.I64(6, 2)}},
			{In: []tensor.Meta{kit.F32(2, 3, 4), kit.I64(2, 1)}, Attrs: graph.Attrs{"batch_dims": 1}}},
	},
	Facts:     graph.Facts{Parallel: gatherNDLoops, WritesAnyDenseLayout: true, SelectsElements: true},
	Lowerings: graph.Lowerings{Compile: compileGatherND},
})

// gatherNDLoops returns the parallel loops of a call: over the dimensions of the indices before the last. A loop over a
// batch dimension also divides self.
func gatherNDLoops(c *graph.Call) []graph.Parallel {
	const self, indices = 0, 1
	loops := kit.LoopsOverDims(c, indices, c.Meta(indices).Rank()-1)
	for dim := range kit.Attrs[*gatherNDAttrs](c).BatchDims {
		loops[dim].OperandDims[self] = dim
	}
	return loops
}

// inferGatherND checks a call. The result is row-major.
func inferGatherND(c *graph.Call) ([]graph.Result, error) {
	shape, _, err := tupleWalkShape("gather_nd", c.Type(0), c.Type(1), kit.Attrs[*gatherNDAttrs](c).BatchDims)
	if err != nil {
		return nil, err
	}
	resultType, err := kit.FreshType(c.Type(0).DType, shape)
	return c.NewResult(resultType), err
}

// refGatherND is the reference implementation of gather_nd.
func refGatherND(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	tuples, err := newTupleWalk("gather_nd", in[0].Meta, in[1].Meta, kit.Attrs[*gatherNDAttrs](c).BatchDims)
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(in[0].DType, tuples.shape...)
	kit.EachIndex(tuples.shape, func(coords []int) {
		source, indexErr := tuples.valueIndex(in[0].Meta, in[1], coords)
		if indexErr != nil {
			err = cmp.Or(err, indexErr)
			return
		}
		out.Set(in[0].At(source...), coords...)
	})
	return []*tensor.Tensor{out}, err
}

// compileGatherND returns the kernel of gather_nd, an [indexedWalk] that reads self.
func compileGatherND(c *graph.Call) (*graph.Kernel, error) {
	tuples, err := newTupleWalk("gather_nd", c.Meta(0), c.Meta(1), kit.Attrs[*gatherNDAttrs](c).BatchDims)
	if err != nil {
		return nil, err
	}
	walk := &indexedWalk{shape: tuples.shape, lookups: tuples.lookups,
		operands: []walkOperand{operandAt(0, c.Out[0]), {kit.InBuffer(c, 0), tuples.tableByteStrides},
			{kit.InBuffer(c, 1), tuples.indexByteStrides}}}
	return walk.kernel(kit.GatherRowLoops(c.Out[0].DType)), nil
}

// noBatchDims is the number of batch dimensions of scatter_nd.
const noBatchDims = 0

type scatterNDAttrs struct {
	Reduce string `attr:"reduce" default:"none" oneof:"none|add|mul|amax|amin" doc:"reduction of updates with self's elements; none: replace the elements"`
}

// ScatterND is ONNX's ScatterND; PyTorch has no equivalent.
var ScatterND = kit.Define[*scatterNDAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "scatter_nd",
		Doc: "Copies self and writes `updates` into it at tuples of indices: `indices` [..., k] and `updates` " +
			"[..., rest], where a tuple indexes the first k dimensions of self. Among updates with the same tuple, " +
			"the last wins. A negative index counts from the end.",
		Params: []graph.Param{kit.Self, {Name: "indices", IndexBound: tupleIndexBound}, {Name: "updates"}},
		Infer:  inferScatterND,
		Ref:    refScatterND,
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(3, 4, 2), kit.I64(5, 1), kit.F32(5, 4, 2)},
			Attrs: graph.Attrs{"reduce": "add"}},
			{In: []tensor.Meta{kit.F32(3, 4), kit.I64(5, 2), kit.F32(5)}}},
	},
	Facts:     graph.Facts{WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{Compile: compileScatterND},
})

// inferScatterND checks a call. The result is row-major.
func inferScatterND(call *graph.Call) ([]graph.Result, error) {
	self, updates := call.Type(0), call.Type(2)
	shape, _, err := tupleWalkShape("scatter_nd", self, call.Type(1), noBatchDims)
	if err != nil {
		return nil, err
	}
	if !tensor.SameSizes(shape, updates.Shape) {
		return nil, fmt.Errorf("scatter_nd(): Expected updates of shape %s, got %s", tensor.Sizes(shape),
			tensor.Sizes(updates.Shape))
	}
	if updates.DType != self.DType {
		return nil, errors.New("scatter_nd(): Expected self.dtype to be equal to updates.dtype")
	}
	if mode := combineModeByName[kit.Attrs[*scatterNDAttrs](call).Reduce]; self.DType.IsComplex() && mode.isExtremum() {
		return nil, kit.NotImplementedBy("scatter_nd", self.DType)
	}
	return call.NewResult(self.RowMajor()), nil
}

// refScatterND is the reference implementation of scatter_nd.
func refScatterND(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	tuples, err := newTupleWalk("scatter_nd", in[0].Meta, in[1].Meta, noBatchDims)
	if err != nil {
		return nil, err
	}
	out := in[0].CopyTo(tensor.New(in[0].DType, in[0].Shape...))
	mode := combineModeByName[kit.Attrs[*scatterNDAttrs](c).Reduce]
	alpha := tensor.IntScalar(1) // the factor of updates that are added
	kit.EachIndex(tuples.shape, func(coords []int) {
		target, indexErr := tuples.valueIndex(in[0].Meta, in[1], coords)
		if indexErr != nil {
			err = cmp.Or(err, indexErr)
			return
		}
		out.Set(refCombine(out.DType, mode, alpha, out.At(target...), in[2].At(coords...)), target...)
	})
	return []*tensor.Tensor{out}, err
}

// compileScatterND returns the kernel of scatter_nd: a copy of self, and an [indexedWalk] that writes the copy.
func compileScatterND(call *graph.Call) (*graph.Kernel, error) {
	tuples, err := newTupleWalk("scatter_nd", call.Out[0], call.Meta(1), noBatchDims)
	if err != nil {
		return nil, err
	}
	kernel := copySelfKernel(call)
	if tensor.Numel(tuples.shape) == 0 {
		return kernel, nil
	}
	const updatesPtr = 3 // Mem.Ptrs has the result, self, indices and updates
	walk := &indexedWalk{shape: tuples.shape, lookups: tuples.lookups, writesTable: true,
		operands: []walkOperand{operandAt(updatesPtr, call.Meta(2)), {kit.OutBuffer(call, 0), tuples.tableByteStrides},
			{kit.InBuffer(call, 1), tuples.indexByteStrides}}}
	mode := combineModeByName[kit.Attrs[*scatterNDAttrs](call).Reduce]
	alpha := tensor.IntScalar(1) // the factor of updates that are added
	kernel.Phases = append(kernel.Phases, walk.phase(scatterRowLoops(call.Out[0].DType, mode, alpha)))
	return kernel, nil
}

// tupleWalkShape returns the shape of a walk over all tuples, and the length of a tuple. The length must be a known
// number, because it determines the rank of the shape.
func tupleWalkShape(op string, self, index tensor.Type, batchDims int) (shape []sym.Int, tupleLen int, err error) {
	if err := checkIndexDType(op, index.DType); err != nil {
		return nil, 0, err
	}
	if index.Rank() == 0 || self.Rank() == 0 {
		return nil, 0, fmt.Errorf("%s(): self and indices must have at least one dimension", op)
	}
	last := index.Rank() - 1
	tupleLen = index.Shape[last].Specialize()
	if batchDims < 0 || batchDims > last || batchDims+tupleLen > self.Rank() {
		return nil, 0, fmt.Errorf("%s(): tuples of %d indices do not fit self of %d dimensions with batch_dims %d", op,
			tupleLen, self.Rank(), batchDims)
	}
	if !tensor.SameSizes(self.Shape[:batchDims], index.Shape[:batchDims]) {
		return nil, 0, fmt.Errorf("%s(): the first %d dimensions of self %s and indices %s must be equal", op, batchDims,
			tensor.Sizes(self.Shape), tensor.Sizes(index.Shape))
	}
	return append(slices.Clone(index.Shape[:last]), self.Shape[batchDims+tupleLen:]...), tupleLen, nil
}

// newTupleWalk returns the walk for the metas of a value and of an index operand. op is the op's name in errors.
func newTupleWalk(op string, self, index tensor.Meta, batchDims int) (*tupleWalk, error) {
	shape, tupleLen, err := tupleWalkShape(op, self.Type(), index.Type(), batchDims)
	if err != nil {
		return nil, err
	}
	tuples := &tupleWalk{batchDims: batchDims, tupleLen: tupleLen, shape: kit.KnownSizes(shape)}
	// The walk has the dimensions [batch..., other dimensions of index..., unindexed dimensions of self...]. The value
	// has stride 0 in the second group, the index operand in the third.
	last := index.Rank() - 1
	tableStrides, indexStrides := kit.ByteStrides(self), kit.ByteStrides(index)
	firstUnindexed := batchDims + tupleLen
	tuples.tableByteStrides = slices.Concat(tableStrides[:batchDims], make([]int, last-batchDims),
		tableStrides[firstUnindexed:])
	tuples.indexByteStrides = slices.Concat(indexStrides[:last], make([]int, self.Rank()-firstUnindexed))
	for k := range tupleLen { // operand 2 of the walk has the indices
		dim := batchDims + k
		tuples.lookups = append(tuples.lookups,
			lookup{operand: 2, byteOffset: k * indexStrides[last], isInt64: index.DType == tensor.Int64, dim: dim,
				size: self.Shape[dim], byteStride: tableStrides[dim]})
	}
	return tuples, nil
}

// valueIndex returns the index in the value for an index of the walk. meta is the meta of the value.
func (tuples *tupleWalk) valueIndex(meta tensor.Meta, indices *tensor.Tensor, walkIndex []int) ([]int, error) {
	tupleIndex, unindexed := walkIndex[:indices.Rank()-1], walkIndex[indices.Rank()-1:]
	result := slices.Clone(walkIndex[:tuples.batchDims])
	for k := range tuples.tupleLen {
		dim := tuples.batchDims + k
		i, err := refIndex(indices, meta.Shape[dim], dim, append(slices.Clone(tupleIndex), k)...)
		if err != nil {
			return nil, err
		}
		result = append(result, i)
	}
	return append(result, unindexed...), nil
}
