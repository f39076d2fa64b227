package index

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// indexCall is a call of the op index without masks. For example, if self has the shape [4 5 6 7] and indices of the
// shapes [3 1] and [2] index its dimensions 1 and 2, indexShape is [3 2], shape is [4 3 2 7] and firstIndexDim is 1.
// index_put also uses it: it writes the elements that index reads.
type indexCall struct {
	self          tensor.Type
	indices       []indexOperand // in the order of the indexed dimensions
	indexShape    []sym.Int      // the broadcast shape of the indices
	shape         []sym.Int      // shape of the result
	firstIndexDim int            // first dimension of the result that comes from the indices
	table         tensor.Type    // self with the shape of the result; strides are 0 in the dimensions of the indices
}

// indexOperand is an index operand of an indexCall.
type indexOperand struct {
	dim      int         // the dimension of self that it indexes
	operand  tensor.Type // its own type
	expanded tensor.Type // with the shape of the result; strides are 0 in the dimensions that it does not have
	forRule  tensor.Type // for PyTorch's permutation rule, which chooses the layout of the result; see ruleType
}

// newIndexCall checks a call of index and returns its description.
func newIndexCall(call *graph.Call) (*indexCall, error) {
	parsed := &indexCall{self: call.Type(0)}
	for i := 1; i < len(call.In); i++ {
		if !call.HasOperand(i) {
			continue
		}
		if err := parsed.addIndex(call, i); err != nil {
			return nil, err
		}
	}
	if len(parsed.indices) == 0 {
		return nil, errors.New("at least one index must be provided")
	}
	for _, index := range parsed.indices {
		if kit.SizeIs(parsed.self.Shape[index.dim], 0) && !kit.SizeIs(tensor.Product(parsed.indexShape), 0) {
			return nil, errors.New("index is out of bounds for dimension with size 0")
		}
	}
	// If the indexed dimensions are adjacent, the dimensions of the indices replace them. Otherwise the dimensions of
	// the indices come first.
	firstDim, lastDim := parsed.indices[0].dim, parsed.indices[len(parsed.indices)-1].dim
	if lastDim-firstDim == len(parsed.indices)-1 {
		parsed.firstIndexDim = firstDim
	}
	parsed.setShape()
	for i := range parsed.indices {
		index := &parsed.indices[i]
		broadcast, err := index.operand.Expand(parsed.indexShape)
		if err != nil {
			return nil, err
		}
		index.forRule, index.expanded = parsed.ruleType(broadcast), parsed.expandIndex(broadcast)
	}
	return parsed, nil
}

// addIndex checks and appends operand i, an index of dimension i-1.
func (parsed *indexCall) addIndex(call *graph.Call, i int) error {
	indexType := call.Type(i)
	if indexType.DType != tensor.Int64 && indexType.DType != tensor.Int32 {
		return errors.New("tensors used as indices must be long, int, byte or bool tensors")
	}
	if parsed.self.Rank() < i {
		return fmt.Errorf("too many indices for tensor of dimension %d (got %d)", parsed.self.Rank(), len(call.In)-1)
	}
	broadcast, err := tensor.BroadcastSizes(parsed.indexShape, indexType.Shape)
	if err != nil {
		return fmt.Errorf("shape mismatch: indexing tensors could not be broadcast together with shapes %s, %s",
			tensor.Sizes(parsed.indexShape), tensor.Sizes(indexType.Shape))
	}
	parsed.indexShape = broadcast
	parsed.indices = append(parsed.indices, indexOperand{dim: i - 1, operand: indexType})
	return nil
}

// isIndexed reports whether an index operand indexes a dimension of self.
func (parsed *indexCall) isIndexed(dim int) bool {
	return slices.ContainsFunc(parsed.indices, func(index indexOperand) bool { return index.dim == dim })
}

// setShape sets shape and table: the dimensions of the indices are inserted among the other dimensions of self.
func (parsed *indexCall) setShape() {
	shape, strides := []sym.Int{}, []sym.Int{}
	for dim := range parsed.self.Rank() {
		if !parsed.isIndexed(dim) {
			shape, strides = append(shape, parsed.self.Shape[dim]), append(strides, parsed.self.Strides[dim])
		}
	}
	parsed.shape = slices.Insert(shape, parsed.firstIndexDim, parsed.indexShape...)
	strides = slices.Insert(strides, parsed.firstIndexDim, make([]sym.Int, len(parsed.indexShape))...)
	parsed.table = tensor.Type{DType: parsed.self.DType, Shape: parsed.shape, Strides: strides}
}

// expandIndex returns the type of an index operand with the shape of the result. broadcast is the operand's type,
// expanded to indexShape.
func (parsed *indexCall) expandIndex(broadcast tensor.Type) tensor.Type {
	expanded := tensor.Type{DType: broadcast.DType, Shape: parsed.shape, Strides: make([]sym.Int, len(parsed.shape))}
	copy(expanded.Strides[parsed.firstIndexDim:], broadcast.Strides)
	// The stride of a dimension of size 1 is not used; 0 lets the walk merge the dimension.
	for indexDim := range parsed.indexShape {
		if kit.SizeIs(parsed.indexShape[indexDim], 1) {
			expanded.Strides[parsed.firstIndexDim+indexDim] = sym.Int{}
		}
	}
	return expanded
}

// ruleType returns the type of an index operand for the permutation rule. indexType is the operand's type, expanded to
// indexShape. The result has additional dimensions of size 1 for the dimensions of self that are not indexed, as in
// reshape_indexer of at::native.
func (parsed *indexCall) ruleType(indexType tensor.Type) tensor.Type {
	shape := slices.Repeat(sym.Ints(1), len(parsed.shape))
	copy(shape[parsed.firstIndexDim:], parsed.indexShape)
	if view, err := indexType.View(shape); err == nil {
		return view
	}
	return tensor.NewType(indexType.DType, shape...)
}

// kernel returns the kernel of the call.
func (parsed *indexCall) kernel(call *graph.Call) *graph.Kernel {
	parsed.self = tableMeta(call).Type()
	parsed.setShape() // with the strides of the table
	walk := &indexedWalk{shape: call.Out[0].Shape, operands: []walkOperand{operandAt(0, call.Out[0]),
		operandAt(1, kit.KnownMeta(parsed.table))}}
	const firstIndexPtr = 2 // Mem.Ptrs has the result, self, and then an index operand for each dimension of self
	parsed.addIndices(walk, firstIndexPtr, kit.KnownMeta(parsed.self))
	walk.readView(call, func(dim int) int {
		walkDim := 0
		for other := range dim {
			if !parsed.isIndexed(other) {
				walkDim++
			}
		}
		if walkDim >= parsed.firstIndexDim {
			walkDim += len(parsed.indexShape)
		}
		return walkDim
	})
	return walk.kernel(kit.GatherRowLoops(call.Out[0].DType))
}

// addIndices adds the index operands, and a lookup for each, to a walk (walk.go). The walk visits all indices of its
// shape. At each of them, a lookup reads the index in one dimension of the table, the value that is indexed. The index
// operand of dimension 0 is at Mem.Ptrs[firstIndexPtr]. table is the meta of the table.
func (parsed *indexCall) addIndices(walk *indexedWalk, firstIndexPtr int, table tensor.Meta) {
	for _, index := range parsed.indices {
		walk.lookups = append(walk.lookups, lookup{operand: len(walk.operands),
			isInt64: index.operand.DType == tensor.Int64, dim: index.dim, size: table.Shape[index.dim],
			byteStride: kit.ByteStride(table, index.dim)})
		walk.operands = append(walk.operands, operandAt(firstIndexPtr+index.dim, kit.KnownMeta(index.expanded)))
	}
}

// resultType returns the type of the result. Its layout follows from PyTorch's permutation rule.
func (parsed *indexCall) resultType() (tensor.Type, error) {
	if t, err := kit.FreshType(parsed.self.DType, parsed.shape); err != nil {
		return t, err
	}
	config := rule.New().CheckAllSameDType(false).Output(rule.UndefinedOutputOf(parsed.self.DType)).
		Input(rule.OperandOfType(parsed.table))
	for _, index := range parsed.indices {
		config = config.Input(rule.OperandOfType(index.forRule))
	}
	return kit.FirstResultType(config)
}

// indexLoops returns the parallel loops of a call of index without masks: over the dimensions of self that are not
// indexed, and over the dimensions of the broadcast indices.
func indexLoops(call *graph.Call) []graph.Parallel {
	if hasMask(call) {
		return nil
	}
	parsed, err := newIndexCall(call)
	if err != nil {
		return nil
	}
	const self = 0
	indexRank := len(parsed.indexShape)
	var loops []graph.Parallel
	resultDim := 0
	for dim := range parsed.self.Rank() {
		if parsed.isIndexed(dim) {
			continue
		}
		if resultDim == parsed.firstIndexDim { // the dimensions of the indices precede dim
			resultDim += indexRank
		}
		loops = append(loops, kit.LoopOver(call, self, dim, resultDim))
		resultDim++
	}
	for indexDim, size := range kit.KnownSizes(parsed.indexShape) {
		loop := kit.LoopOverResults(call)
		loop.ResultDims[0] = parsed.firstIndexDim + indexDim
		loop.MayBroadcast = slices.Repeat([]bool{true}, len(call.In))
		for _, index := range parsed.indices {
			operand := index.dim + 1
			dim := indexDim - (indexRank - index.operand.Rank()) // indices are aligned at the last dimension
			if dim >= 0 && call.Meta(operand).Shape[dim] == size {
				loop.OperandDims[operand] = dim
			}
		}
		loops = append(loops, loop)
	}
	return loops
}

// maxIndices is the maximum number of index operands of the op index.
const maxIndices = 8

// indexParams returns the operands of the op index: self, index0, index1, ...
func indexParams() []graph.Param {
	params := []graph.Param{kit.Self}
	for i := range maxIndices {
		params = append(params, graph.Param{Name: fmt.Sprint("index", i), Optional: true, IndexBound: dimIndexBound(i)})
	}
	return params
}

// indexRef is the reference of index.
func indexRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if hasMask(c) {
		var err error
		if c, in, err = replaceMasks(c, in, nonzeroRef); err != nil {
			return nil, err
		}
	}
	parsed, err := newIndexCall(c)
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(in[0].DType, kit.KnownSizes(parsed.shape)...)
	endIndexDim := parsed.firstIndexDim + len(parsed.indexShape)
	kit.EachIndex(out.Shape, func(coords []int) {
		source := make([]int, in[0].Rank())
		broadcastIndex := coords[parsed.firstIndexDim:endIndexDim]
		otherIndices := append(slices.Clone(coords[:parsed.firstIndexDim]), coords[endIndexDim:]...)
		for dim := range source {
			if !parsed.isIndexed(dim) {
				source[dim], otherIndices = otherIndices[0], otherIndices[1:]
				continue
			}
			index := in[dim+1]
			i, indexErr := refIndex(index, in[0].Shape[dim], dim, broadcastSource(index, broadcastIndex)...)
			if indexErr != nil {
				err = cmp.Or(err, indexErr)
				return
			}
			source[dim] = i
		}
		out.Set(in[0].At(source...), coords...)
	})
	return []*tensor.Tensor{out}, err
}

// broadcastSource returns the position of the element of index that is broadcast to the given position: it omits
// leading dimensions that index does not have, and takes element 0 of dimensions of size 1.
func broadcastSource(index *tensor.Tensor, position []int) []int {
	source := slices.Clone(position[len(position)-index.Rank():])
	for dim, size := range index.Shape {
		if size == 1 {
			source[dim] = 0
		}
	}
	return source
}
