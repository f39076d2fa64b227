package index

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the kernel of gathers of slices (selectKernel), the op index (indexCall), and the kernel that copies
// self before a scatter (copySelfKernel). The kernels of both gathers are indexed walks (walk.go): loops over the
// elements of the result. A walk has the operands result (0), table (1), which is the value that is indexed, and index
// operands (2, 3, ...). A lookup reads an index and gives the position in one dimension of the table.

// selectKernel returns a kernel that selects the slices of operand 0 along dim whose numbers are in index. In the
// result, the dimensions of index replace dimension dim. For example, with an operand of shape [4 5 6], dim 1 and an
// index of shape [2 3]:
//
//	result[a, i, j, b] = operand[a, index[i, j], b]    of shape [4 2 3 6]
//
// The table is operand 0 of the op. The strides of the table and of the index are 0 in the dimensions of the result
// that the other one has.
func selectKernel(c *graph.Call, index kit.Buffer, dim int) *graph.Kernel {
	out, selfMeta, indexMeta := c.Out[0], c.Meta(0), index.Meta
	var tableStrides, indexStrides []int // by dimension of the result
	for selfDim := range selfMeta.Rank() {
		if selfDim != dim {
			tableStrides = append(tableStrides, kit.ByteStride(selfMeta, selfDim))
			indexStrides = append(indexStrides, 0)
			continue
		}
		tableStrides = append(tableStrides, make([]int, indexMeta.Rank())...)
		indexStrides = append(indexStrides, kit.ByteStrides(indexMeta)...)
		// For a 0-dim index, some ops remove dim; others keep it with size 1.
		if indexMeta.Rank() == 0 && out.Rank() == selfMeta.Rank() {
			tableStrides, indexStrides = append(tableStrides, 0), append(indexStrides, 0)
		}
	}
	table := walkOperand{Buffer: kit.InBuffer(c, 0), byteStrides: tableStrides}
	indexOperand := walkOperand{Buffer: index, byteStrides: indexStrides}
	walk := &indexedWalk{shape: out.Shape, operands: []walkOperand{operandAt(0, out), table, indexOperand},
		lookups: []lookup{lookupAlong(selfMeta, indexMeta, dim)}}
	return walk.kernel(kit.GatherRowLoops(out.DType))
}

// indexCall is a call of the op index without masks. For example, if self has the shape [4 5 6 7] and indices of the
// shapes [3 1] and [2] index its dimensions 1 and 2, indexShape is [3 2], shape is [4 3 2 7] and firstIndexDim is 1.
type indexCall struct {
	self          tensor.Type
	indexedDims   []int     // the indexed dimensions of self
	indexShape    []sym.Int // the broadcast shape of the indices
	shape         []sym.Int // shape of the result
	firstIndexDim int       // first dimension of the result that comes from the indices

	// Types with the shape of the result. A stride is 0 in the dimensions that self or the index operand does not have.

	table   tensor.Type   // self
	indices []tensor.Type // the index operands, in the order of indexedDims

	// ruleTypes are types of the index operands for PyTorch's permutation rule, which chooses the layout of the result
	// from the layouts of the operands (see ruleType).
	ruleTypes []tensor.Type
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
	if len(parsed.indexedDims) == 0 {
		return nil, errors.New("at least one index must be provided")
	}
	for _, dim := range parsed.indexedDims {
		if kit.SizeIs(parsed.self.Shape[dim], 0) && !kit.SizeIs(tensor.Product(parsed.indexShape), 0) {
			return nil, errors.New("index is out of bounds for dimension with size 0")
		}
	}
	// The dimensions of the indices replace the indexed dimensions if these are adjacent; otherwise they come first.
	last := parsed.indexedDims[len(parsed.indexedDims)-1]
	if last-parsed.indexedDims[0] == len(parsed.indexedDims)-1 {
		parsed.firstIndexDim = parsed.indexedDims[0]
	}
	return parsed, parsed.expandTypes()
}

// addIndex checks and appends operand i, an index of dimension i-1. expandTypes then expands its type.
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
	parsed.indexedDims, parsed.indices = append(parsed.indexedDims, i-1), append(parsed.indices, indexType)
	return nil
}

// expandTypes sets the shape of the result and the types that depend on it.
func (parsed *indexCall) expandTypes() error {
	parsed.expandTable()
	for i, indexType := range parsed.indices {
		broadcast, err := indexType.Expand(parsed.indexShape)
		if err != nil {
			return err
		}
		parsed.ruleTypes = append(parsed.ruleTypes, parsed.ruleType(broadcast))
		parsed.indices[i] = parsed.expandIndex(broadcast)
	}
	return nil
}

// expandTable sets shape and table: the dimensions of the indices are inserted among the unindexed dimensions of self.
func (parsed *indexCall) expandTable() {
	shape, strides := []sym.Int{}, []sym.Int{}
	for dim := range parsed.self.Rank() {
		if !slices.Contains(parsed.indexedDims, dim) {
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
	self := kit.KnownMeta(parsed.self)
	walk := &indexedWalk{shape: call.Out[0].Shape, operands: []walkOperand{operandAt(0, call.Out[0]),
		operandAt(1, kit.KnownMeta(parsed.table))}}
	const firstIndexPtr = 2 // Mem.Ptrs has the result, self, and then an index operand for each dimension of self
	for k, index := range parsed.indices {
		dim := parsed.indexedDims[k]
		indexOperand := len(walk.operands) // its index in operands
		walk.operands = append(walk.operands, operandAt(firstIndexPtr+dim, kit.KnownMeta(index)))
		walk.lookups = append(walk.lookups, lookup{operand: indexOperand, isInt64: index.DType == tensor.Int64,
			dim: dim, size: self.Shape[dim], byteStride: kit.ByteStride(self, dim)})
	}
	return walk.kernel(kit.GatherRowLoops(call.Out[0].DType))
}

// resultType returns the type of the result. Its layout follows from PyTorch's permutation rule.
func (parsed *indexCall) resultType() (tensor.Type, error) {
	if t, err := kit.FreshType(parsed.self.DType, parsed.shape); err != nil {
		return t, err
	}
	config := rule.New().CheckAllSameDType(false).Output(rule.UndefinedOutputOf(parsed.self.DType)).
		Input(rule.OperandOfType(parsed.table))
	for _, t := range parsed.ruleTypes {
		config = config.Input(rule.OperandOfType(t))
	}
	return kit.FirstResultType(config)
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
			if !slices.Contains(parsed.indexedDims, dim) {
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

// copySelfKernel returns a kernel that copies operand 0 to the output. The op adds phases that modify the output. If
// operand 0 has the output's layout and shares its memory with no other operand, the output may be in the memory of
// operand 0; then nothing is copied.
func copySelfKernel(c *graph.Call) *graph.Kernel {
	kernel := copies.Kernel(copies.Job{Dst: kit.OutBuffer(c, 0), Src: kit.InBuffer(c, 0)})
	kernel.WorkerScratch = max(kernel.WorkerScratch, offsetBlockLen*8) // the op's indexed walk computes int offsets there
	if !c.Out[0].SameAddresses(c.Meta(0)) || !selfIsUnshared(c) {
		return kernel
	}
	kernel.InPlace = []graph.InPlace{{Out: 0, In: 0}}
	for i := range kernel.Phases {
		phase := &kernel.Phases[i]
		run := phase.Run
		phase.Run = func(m *graph.Mem, chunk int) error {
			if m.Ptrs[0] == m.Ptrs[1] { // the output is in the memory of operand 0
				return nil
			}
			return run(m, chunk)
		}
	}
	return kernel
}

// selfIsUnshared reports whether no other operand shares the memory of self, operand 0. The elements of such an operand
// would be overwritten before they are read if the result overwrote self.
func selfIsUnshared(c *graph.Call) bool {
	for _, arg := range c.In[1:] {
		if arg.Kind == graph.TensorArg && c.In[0].Kind == graph.TensorArg &&
			arg.Value.BufferOwner() == c.In[0].Value.BufferOwner() {
			return false
		}
	}
	return true
}
