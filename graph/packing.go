package graph

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// Packing is the form in which an implementation wants a constant operand: see [Impl.Pack]. The data of
// the operand are brought into it once, when the graph is planned, and the kernel finds them so.
type Packing struct {
	// Form names the form for people: "float32 panels of 32 by kh,kw,c". It tells all that the data in
	// this form depend on beside the operand: operands of one value in one form share the data.
	Form string
	// DType and Len are those of the packed data, which are a row of elements.
	DType tensor.DType
	Len   int
	// Fill writes the packed data. dst is a row of Len elements, aligned to [tensor.Align] and all 0;
	// src is the operand.
	Fill func(dst, src *tensor.Tensor)
	// Unpack is the inverse: it writes the elements of the operand into dst, which is laid out as the operand
	// does but begins at the first element of its storage.
	Unpack func(dst, packed *tensor.Tensor)
}

// Packed tells of a constant that it holds another value in the form of an implementation. The
// constant's own meta is that of the packed data; operands have Type and Meta, those of the value that
// it stands for.
type Packed struct {
	Form string
	Type tensor.Type
	Meta tensor.Meta

	unpack func(dst, packed *tensor.Tensor)
}

// PackConstant returns a constant that holds the data of v in a form. It belongs to no graph: kernels that
// call others make such operands themselves. v must be a constant and packing one that an
// implementation asked for.
func PackConstant(v *Value, packing Packing) (*Value, error) { return packConstant(v, packing, nil) }

// packConstant shares the data with what in has of the same constant in the same form; in may be nil.
func packConstant(v *Value, packing Packing, in *folded) (_ *Value, err error) {
	defer tensor.CatchMemory(&err)
	switch {
	case v == nil || v.Const == nil:
		return nil, errors.New("only a constant can be packed")
	case v.Packed != nil:
		return nil, fmt.Errorf("constant %q is packed already", v.Name)
	case packing.Fill == nil || packing.Unpack == nil || packing.Form == "":
		return nil, errors.New("a packing needs a form, and tells how to fill and to unpack it")
	}
	m := tensor.New(packing.DType, packing.Len)
	if err := m.Check(); err != nil {
		return nil, err
	}
	fill := func() ([]*tensor.Tensor, error) {
		t := tensor.Empty(m)
		packing.Fill(t, v.Const)
		return []*tensor.Tensor{t}, nil
	}
	var made []*tensor.Tensor
	if in == nil {
		made, err = fill()
	} else {
		made, err = in.share(func(f *folded) (string, bool) {
			return fmt.Sprintf("%s of %d %v", packing.Form, f.id(v.Const.Storage()), v.Meta), true
		}, nil, nil, []tensor.Meta{m}, fill)
	}
	if err != nil {
		return nil, err
	}
	t := made[0]
	logical := v.Meta
	logical.Offset = 0
	w := &Value{Name: v.Name, Const: t, number: -1,
		Packed: &Packed{Form: packing.Form, Type: logical.Type(), Meta: logical, unpack: packing.Unpack}}
	w.SetMeta(m)
	return w, nil
}

// AddPacked adds a constant of the graph in a form, as another constant: see [PackConstant]. Its data are those
// that any plan of the graph, its clones or its segments still has of the same constant in the same form: a
// weight is packed once, however many sizes it is planned for.
func (g *Graph) AddPacked(v *Value, packing Packing) (*Value, error) {
	if v == nil || v.graph != g {
		return nil, errors.New("the constant is none of the graph's")
	}
	w, err := packConstant(v, packing, g.folded)
	if err != nil {
		return nil, err
	}
	w.Name, w.graph = g.Fresh(v.Name+".packed"), g
	g.number(w)
	g.named().values[w.Name] = w
	g.Constants = append(g.Constants, w)
	return w, nil
}

// Data returns the data of a constant as people know it: unpacked where an implementation has it in a
// form of its own. Nil for other values.
func (v *Value) Data() *tensor.Tensor {
	if v.Packed == nil || v.Const == nil {
		return v.Const
	}
	t := tensor.Empty(v.Packed.Meta)
	v.Packed.unpack(t, v.Const)
	return t
}

// Packed tells of operand i that it is a constant in an implementation's form; nil where it is not.
func (c *Call) Packed(i int) *Packed {
	if i < 0 || i >= len(c.In) || c.In[i].Kind != TensorArg || c.In[i].Value == nil {
		return nil
	}
	return c.In[i].Value.Packed
}

// checkPacked reports where an operand is packed otherwise than its implementation asks for.
func (n *Node) checkPacked(c *Call, i int) error {
	p := c.Packed(i)
	if p == nil {
		return nil
	}
	if n.Impl == nil || n.Impl.Pack == nil {
		return fmt.Errorf("operand %d, %q, is packed, and no implementation asks for that", i, n.In[i].Value.Name)
	}
	if want, ok := n.Impl.Pack(c, i); !ok || want.Form != p.Form {
		return fmt.Errorf("operand %d, %q, is packed as %s, and implementation %s asks for %s", i,
			n.In[i].Value.Name, p.Form, n.Impl.Name, want.Form)
	}
	return nil
}
