package graph

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Packing describes the conversion of an operand, usually a constant, to the form that an implementation reads: see
// [Impl.Pack]. [Packed] describes a converted value. In the planned graph, the operand is packed once, by a node from
// [Graph.Pack].
type Packing struct {
	// Format names the form in reports: "float32 panels of 32 by kh,kw,c". If two Packings of one value have the same
	// Format, their data must be the same, because the two packed values share memory.
	Format string
	// The packed data are one-dimensional, with Len elements of dtype DType.
	DType tensor.DType
	Len   int
	// Fill writes all packed data, padding included. dst has Len elements with arbitrary contents, aligned to
	// [tensor.Align]; src is the operand. Fill checks the context at least every 10 ms and panics as [interrupt.Check]
	// does.
	Fill func(ctx context.Context, dst, src *tensor.Tensor)
	// Unpack is the inverse of Fill: it writes the elements of the operand into dst. dst has the strides of the operand
	// and offset 0. If the bits of the operand cannot be restored, Unpack is nil, and the packed value also keeps the
	// original data.
	Unpack func(dst, packed *tensor.Tensor)
	// View returns the packed data as a strided view with the elements of an operand of the given meta, whose first
	// element is that of the packed operand. Dimension dim of the operand is two dimensions of the view: blocks, and
	// indices in a block. Elements of the view behind the end of dim are padding. For example, a matrix of 3 rows of 4
	// elements in panels of 2 rows has dim 0, and the view has the shape [2 2 4] and the strides [8 1 2]:
	//
	//	a0 b0 a1 b1 a2 b2 a3 b3
	//	c0 0  c1 0  c2 0  c3 0
	//
	// View returns false if there is no such view. If View is nil, there is none for any operand. If View is set, Format
	// states where the elements are in memory: views of a constant that are packed in one Format share the packed data. An
	// implementation with [Impl.ReadsView] reads the operand in the view, so that memory has one form of a constant that
	// is both multiplied and indexed.
	View func(operand tensor.Meta) (view tensor.Meta, dim int, ok bool)
}

// Source returns the tensor whose elements Fill reads: the constant, or its elements before a conversion from 16-bit
// floats if the packed data have them.
func (p *Packing) Source(constant *tensor.Tensor) *tensor.Tensor {
	if narrow := constant.Unwidened(); p != nil && narrow != nil && narrow.DType == p.DType {
		return narrow
	}
	return constant
}

// Packed describes a value whose data are the packed form of another value, the original. Format is the name of the
// form ([Packing.Format]), and Of is the name of the original. Type and Meta are the type and meta of the original.
// Calls that read the packed value use this type and meta. Value.Type and Value.Meta of the packed value describe the
// packed data.
type Packed struct {
	Format string
	Of     string
	Type   tensor.Type
	Meta   tensor.Meta
	// View is the packed data with dimension SplitDim as two dimensions: see [Packing.View]. If there is no view, it has
	// no dimensions.
	View     tensor.Meta
	SplitDim int

	unpack   func(dst, packed *tensor.Tensor)
	original *tensor.Tensor // nil if unpack can restore the original data
}

// Kept returns the original data if they cannot be restored from the packed data, otherwise nil. Runs do not read the
// original data.
func (p *Packed) Kept() *tensor.Tensor {
	if p == nil {
		return nil
	}
	return p.original
}

// packOp is the op of nodes that pack. It is in no catalogue: only [Graph.Pack] makes such nodes. Such a node has a
// [Packing] as its attributes. Packing does not change the meaning of the graph, so the reference returns the operand.
var packOp = func() *Op {
	op, err := Define(Op{
		Semantics: Semantics{
			Name:   "pack",
			Doc:    "Converts self to the form in which the implementation of an op reads it.",
			Params: []Param{{Name: "self"}},
			Infer:  inferPack,
			Ref:    func(_ *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return in, nil },
		},
		Lowerings: Lowerings{Compile: compilePack},
	})
	if err != nil {
		panic("graph: " + err.Error())
	}
	return op
}()

// inferPack returns the type of the packed data.
func inferPack(call *Call) ([]Result, error) {
	packing, ok := call.Attrs.(*Packing)
	if !ok {
		return nil, errors.New("the node has no Packing")
	}
	meta := tensor.New(packing.DType, packing.Len)
	return call.NewResult(meta.Type()), meta.Check()
}

// compilePack returns a kernel that fills the packed data in one chunk. Ptrs[0] is the address of the result. Ptrs[1]
// is the address of the operand's first element, so the kernel uses the operand's meta with offset 0.
func compilePack(call *Call) (*Kernel, error) {
	packing, ok := call.Attrs.(*Packing)
	if !ok {
		return nil, errors.New("the node has no Packing")
	}
	unpacked, packed := call.Meta(0), tensor.New(packing.DType, packing.Len)
	unpacked.Offset = 0
	return &Kernel{Phases: []Phase{{Chunks: 1, Run: func(m *Mem, _ int) error {
		packing.Fill(m.Context, tensorAt(packed, m.Ptrs[0]), tensorAt(unpacked, m.Ptrs[1]))
		return nil
	}}}}, nil
}

// tensorAt returns a tensor with the given meta whose first element is at the address.
func tensorAt(meta tensor.Meta, address unsafe.Pointer) *tensor.Tensor {
	bytes := unsafe.Slice((*byte)(address), meta.Extent()*meta.DType.Size())
	return tensor.Must(tensor.FromStorage(meta, tensor.StorageOf(bytes)))
}

// Packing returns the form into which a node packs its operand. It returns nil for nodes that [Graph.Pack] did not
// make.
func (n *Node) Packing() *Packing {
	p, _ := n.Attrs.(*Packing)
	if n.Op != packOp {
		return nil
	}
	return p
}

// Pack makes and infers a node that packs a value. Its result can replace the value as an operand of an implementation
// that reads this form. The caller, a pass, adds the node to Nodes.
func (g *Graph) Pack(v *Value, packing Packing) (*Node, error) {
	if v == nil || v.graph != g {
		return nil, errors.New("the value to pack is not in the graph")
	}
	packed, err := packing.describe(v)
	if err != nil {
		return nil, err
	}
	n := &Node{Name: g.UniqueName(v.Name + ".packed"), Op: packOp, In: []Arg{ArgOf(v)}, Attrs: &packing,
		Impl: &packOp.Impls[0]}
	result := &Value{Name: n.Name, Node: n, Packed: packed, graph: g}
	n.Out = []*Value{result}
	g.assignNodeNumber(n)
	if err := n.Infer(); err != nil {
		return nil, err
	}
	g.assignNumber(result)
	g.nameIndex().values[result.Name] = result
	return n, nil
}

// describe returns the description of v in packed form.
func (p *Packing) describe(v *Value) (*Packed, error) {
	switch {
	case v.Packed != nil:
		return nil, fmt.Errorf("value %q is already packed", v.Name)
	case p.Fill == nil || p.Format == "":
		return nil, errors.New("a packing needs a Format and a Fill function")
	case p.Unpack == nil && v.Const == nil:
		return nil, fmt.Errorf("value %q is not a constant, so the packing needs Unpack to restore the value", v.Name)
	}
	meta := v.Meta
	meta.Offset = 0
	packed := &Packed{Format: p.Format, Of: v.Name, Type: meta.Type(), Meta: meta, unpack: p.Unpack}
	if p.Unpack == nil {
		packed.original = v.Const
	}
	if p.View != nil && meta.DType == p.DType {
		if view, dim, ok := p.View(meta); ok {
			packed.View, packed.SplitDim = view, dim
		}
	}
	return packed, nil
}

// PackConstant returns a packed constant with the data of v. The constant belongs to no graph. It is for callers that
// compile a single call. v must be a constant; the argument packing must be a result of [Impl.Pack].
func PackConstant(v *Value, packing Packing) (_ *Value, err error) {
	defer tensor.CatchMemory(&err)
	if v == nil || v.Const == nil {
		return nil, errors.New("only a constant can be packed")
	}
	packed, err := packing.describe(v)
	if err != nil {
		return nil, err
	}
	meta := tensor.New(packing.DType, packing.Len)
	if err := meta.Check(); err != nil {
		return nil, err
	}
	result := &Value{Name: v.Name, Const: tensor.EmptyPacked(meta), number: -1, Packed: packed}
	packing.Fill(context.Background(), result.Const, v.Const)
	result.SetMeta(meta)
	return result, nil
}

// AddPacked adds the packed form of a constant to the constants of the graph, for a reader in the graph.
func (g *Graph) AddPacked(v *Value, packing Packing) (*Value, error) {
	packed, err := PackConstant(v, packing)
	if err != nil {
		return nil, err
	}
	packed.Name, packed.graph = v.Name+".packed", g
	g.assignNumber(packed)
	g.Constants = append(g.Constants, packed)
	return packed, nil
}

// Data returns the data of a constant, unpacked if they are packed. It returns nil for other values.
func (v *Value) Data() *tensor.Tensor {
	if v.Packed == nil || v.Const == nil {
		return v.Const
	}
	t := tensor.Empty(v.Packed.Meta)
	if original := v.Packed.original; original != nil {
		tensor.CopyElements(t, original)
	} else {
		v.Packed.unpack(t, v.Const)
	}
	return t
}

// ReadPacked states that the graph and clones that are made later are planned for several sizes. Large constants are
// then packed at all sizes, so that all plans share the packed form, and none needs the constant itself. An
// implementation that reads the elements of such a constant is chosen only if no other one can compute the node.
func (g *Graph) ReadPacked() { g.packedFrom = minReadPacked }

// minReadPacked is the size in bytes from which constants are large. Two forms of a smaller constant take little
// memory.
const minReadPacked = 64 << 10

// IsReadPacked reports whether the value is a constant that is not packed yet, but is to be: see [Graph.ReadPacked].
func (v *Value) IsReadPacked() bool {
	return v.Packed == nil && v.Const != nil && !v.Pin.SetsLayout() && v.graph != nil && v.graph.packedFrom > 0 &&
		v.Const.Storage().Len() >= v.graph.packedFrom
}

// IsReadPacked is [Value.IsReadPacked] of operand i.
func (c *Call) IsReadPacked(i int) bool { return c.Const(i) != nil && c.In[i].Value.IsReadPacked() }

// Packed returns the description of operand i if it is packed, otherwise nil.
func (c *Call) Packed(i int) *Packed {
	if i < 0 || i >= len(c.In) || c.In[i].Kind != TensorArg || c.In[i].Value == nil {
		return nil
	}
	return c.In[i].Value.Packed
}

// checkPacked returns an error if operand i is packed, but the node's implementation does not read operand i in this
// packed form.
func (n *Node) checkPacked(call *Call, i int) error {
	p := call.Packed(i)
	if p == nil {
		return nil
	}
	if p.View.Rank() > 0 && n.Impl != nil && n.Impl.ReadsView != nil && n.Impl.ReadsView(call, i) {
		return nil
	}
	if n.Impl == nil || n.Impl.Pack == nil {
		return fmt.Errorf("operand %d, %q, is packed, but node %q cannot read packed operands", i, n.In[i].Value.Name, n.Name)
	}
	if want, ok := n.Impl.Pack(call, i); !ok || want.Format != p.Format {
		return fmt.Errorf("operand %d, %q, is packed as %q, but implementation %s reads %q", i,
			n.In[i].Value.Name, p.Format, n.Impl.Name, want.Format)
	}
	return nil
}
