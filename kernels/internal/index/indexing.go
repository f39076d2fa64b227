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

// selectKernel returns a kernel that selects slices of operand 0 along dim. In the result, the dimensions of index
// replace dimension dim.
func selectKernel(c *graph.Call, index kit.Buffer, dim int) *graph.Kernel {
	out, m, indexMeta := c.Out[0], c.Meta(0), index.Meta
	plain := operandAt(0, out)
	table, indexOperand := walkOperand{Buffer: kit.InBuffer(c, 0)}, walkOperand{Buffer: index}
	for d := range m.Rank() {
		if d == dim {
			table.steps = append(table.steps, make([]int, indexMeta.Rank())...)
			indexOperand.steps = append(indexOperand.steps, kit.ByteStrides(indexMeta)...)
			// A 0-dim index removes dim, or keeps it with size 1, as the op wants.
			if indexMeta.Rank() == 0 && out.Rank() == m.Rank() {
				table.steps, indexOperand.steps = append(table.steps, 0), append(indexOperand.steps, 0)
			}
			continue
		}
		table.steps, indexOperand.steps = append(table.steps, kit.StepAt(m, d)), append(indexOperand.steps, 0)
	}
	if m.Rank() == 0 {
		table.steps, indexOperand.steps = nil, nil
	}
	walk := &indexedWalk{shape: out.Shape, operands: []walkOperand{plain, table, indexOperand},
		lookups: []lookup{lookupAlong(m, indexMeta, dim)}}
	return walk.kernel(kit.GatherOps(out.DType))
}

// indexCall is a call of the op index without masks. The fields table and indices are types, expanded to the shape of
// the result.
type indexCall struct {
	self        tensor.Type
	table       tensor.Type   // self, with strides of 0 in the dimensions of the indices
	indexedDims []int         // the indexed dimensions of self
	indices     []tensor.Type // the index operands, in the order of indexedDims
	// ruleTypes are types of the index operands for PyTorch's permutation rule, which chooses the layout of the result
	// (see ruleType).
	ruleTypes     []tensor.Type
	shape         []sym.Int // shape of the result
	firstIndexDim int       // first dimension of the result that comes from the indices
	indexShape    []sym.Int // the broadcast shape of the indices
}

// newIndexCall checks a call of index and returns its description.
func newIndexCall(call *graph.Call) (*indexCall, error) {
	parsed := &indexCall{self: call.Type(0)}
	for i := 1; i < len(call.In); i++ {
		if !call.Has(i) {
			continue
		}
		t := call.Type(i)
		if t.DType != tensor.Int64 && t.DType != tensor.Int32 {
			return nil, errors.New("tensors used as indices must be long, int, byte or bool tensors")
		}
		if parsed.self.Rank() < i {
			return nil, fmt.Errorf("too many indices for tensor of dimension %d (got %d)", parsed.self.Rank(), len(call.In)-1)
		}
		b, err := tensor.BroadcastSizes(parsed.indexShape, t.Shape)
		if err != nil {
			return nil, fmt.Errorf("shape mismatch: indexing tensors could not be broadcast together with shapes %s, %s",
				tensor.Sizes(parsed.indexShape), tensor.Sizes(t.Shape))
		}
		parsed.indexShape = b
		parsed.indexedDims, parsed.indices = append(parsed.indexedDims, i-1), append(parsed.indices, t)
	}
	if len(parsed.indexedDims) == 0 {
		return nil, errors.New("at least one index must be provided")
	}
	for _, d := range parsed.indexedDims {
		if kit.SizeIs(parsed.self.Shape[d], 0) && !kit.SizeIs(tensor.Product(parsed.indexShape), 0) {
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

// expandTypes computes the shape of the result and expands all types to it.
func (p *indexCall) expandTypes() error {
	shape, strides := []sym.Int{}, []sym.Int{}
	for d := range p.self.Rank() {
		if !slices.Contains(p.indexedDims, d) {
			shape, strides = append(shape, p.self.Shape[d]), append(strides, p.self.Strides[d])
		}
	}
	p.shape = slices.Insert(shape, p.firstIndexDim, p.indexShape...)
	strides = slices.Insert(strides, p.firstIndexDim, make([]sym.Int, len(p.indexShape))...)
	p.table = tensor.Type{DType: p.self.DType, Shape: p.shape, Strides: strides}
	for i, t := range p.indices {
		e, err := t.Expand(p.indexShape)
		if err != nil {
			return err
		}
		x := tensor.Type{DType: t.DType, Shape: p.shape, Strides: make([]sym.Int, len(p.shape))}
		copy(x.Strides[p.firstIndexDim:], e.Strides)
		p.ruleTypes = append(p.ruleTypes, p.ruleType(e))
		// The stride of a dimension of size 1 is not used; 0 lets the walk merge the dimension.
		for d := range p.indexShape {
			if kit.SizeIs(p.indexShape[d], 1) {
				x.Strides[p.firstIndexDim+d] = sym.Int{}
			}
		}
		p.indices[i] = x
	}
	return nil
}

// ruleType returns the type of an index operand for the permutation rule. The type has additional dimensions of size 1
// for the dimensions of self that are not indexed (reshape_indexer in at::native).
func (p *indexCall) ruleType(t tensor.Type) tensor.Type {
	shape := slices.Repeat(sym.Ints(1), len(p.shape))
	copy(shape[p.firstIndexDim:], p.indexShape)
	if v, err := t.View(shape); err == nil {
		return v
	}
	return tensor.NewType(t.DType, shape...)
}

func (p *indexCall) kernel(call *graph.Call) *graph.Kernel {
	self := kit.KnownMeta(p.self)
	walk := &indexedWalk{shape: call.Out[0].Shape, operands: []walkOperand{operandAt(0, call.Out[0]),
		operandAt(1, kit.KnownMeta(p.table))}}
	for k, index := range p.indices {
		d := p.indexedDims[k]
		walk.operands = append(walk.operands, operandAt(2+d, kit.KnownMeta(index)))
		walk.lookups = append(walk.lookups, lookup{operand: 2 + k, isInt64: index.DType == tensor.Int64, dim: d,
			size: self.Shape[d],
			step: kit.StepAt(self, d)})
	}
	return walk.kernel(kit.GatherOps(call.Out[0].DType))
}

// resultType returns the type of the result. Its layout follows from PyTorch's permutation rule.
func (p *indexCall) resultType() (tensor.Type, error) {
	if t, err := kit.FreshType(p.self.DType, p.shape); err != nil {
		return t, err
	}
	cfg := rule.New().CheckAllSameDType(false).Output(rule.UndefinedOf(p.self.DType)).Input(rule.OfType(p.table))
	for _, t := range p.ruleTypes {
		cfg = cfg.Input(rule.OfType(t))
	}
	return kit.FirstResultType(cfg)
}

// copySelf returns a kernel that copies operand 0 to the output. The op adds phases that modify the output. If no other
// operand can share its memory, the output may overwrite operand 0 in place; then nothing is copied.
func copySelf(c *graph.Call) *graph.Kernel {
	kernel := copies.Kernel(copies.Job{Dst: kit.OutBuffer(c, 0), Src: kit.InBuffer(c, 0)})
	kernel.WorkerScratch = max(kernel.WorkerScratch, positionBlock*8)
	if c.Out[0].SameAddresses(c.Meta(0)) && selfIsUnshared(c) {
		kernel.InPlace = []graph.InPlace{{Out: 0, In: 0}}
		for i := range kernel.Phases {
			phase := &kernel.Phases[i]
			run := phase.Run
			phase.Run = func(m *graph.Mem, chunk int) error {
				if m.Ptrs[0] == m.Ptrs[1] {
					return nil
				}
				return run(m, chunk)
			}
		}
	}
	return kernel
}

// selfIsUnshared reports whether no other operand shares the memory of self. If the result overwrites self, elements of
// such an operand would be read after they are overwritten.
func selfIsUnshared(c *graph.Call) bool {
	for _, a := range c.In[1:] {
		if a.Kind == graph.TensorArg && c.In[0].Kind == graph.TensorArg &&
			a.Value.BufferOwner() == c.In[0].Value.BufferOwner() {
			return false
		}
	}
	return true
}

// maxIndices is the maximum number of index operands of the op index.
const maxIndices = 8

func indexParams() []graph.Param {
	p := []graph.Param{kit.Self}
	for i := range maxIndices {
		p = append(p, graph.Param{Name: fmt.Sprint("index", i), Optional: true, Below: sizeOfDim(i)})
	}
	return p
}

// indexRef is the reference of index.
func indexRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if hasMask(c) {
		var err error
		if c, in, err = replaceMasks(c, in, nonzeroRef); err != nil {
			return nil, err
		}
	}
	p, err := newIndexCall(c)
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(in[0].DType, kit.KnownSizes(p.shape)...)
	kit.EachIndex(out.Shape, func(at []int) {
		src := make([]int, in[0].Rank())
		broadcastIndex := at[p.firstIndexDim : p.firstIndexDim+len(p.indexShape)]
		otherIndices := append(slices.Clone(at[:p.firstIndexDim]), at[p.firstIndexDim+len(p.indexShape):]...)
		for d := range src {
			if !slices.Contains(p.indexedDims, d) {
				src[d], otherIndices = otherIndices[0], otherIndices[1:]
				continue
			}
			t := in[d+1]
			// The index of t that is broadcast to broadcastIndex: without leading dimensions, 0 in those of size 1.
			k := slices.Clone(broadcastIndex[len(broadcastIndex)-t.Rank():])
			for j, n := range t.Shape {
				if n == 1 {
					k[j] = 0
				}
			}
			i, e := refIndex(t, in[0].Shape[d], d, k...)
			if e != nil {
				err = cmp.Or(err, e)
				return
			}
			src[d] = i
		}
		out.Set(in[0].At(src...), at...)
	})
	return []*tensor.Tensor{out}, err
}
