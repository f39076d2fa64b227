package graph

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// This file turns concatenations with caches into stores. A decoder takes the keys and values of earlier tokens as
// inputs, and returns them with those of the new tokens. For example, with a cache of 2048 positions that contains
// past:
//
//	present = cat(past, new)       past [B, H, P, D] and new [B, H, S, D], both row-major
//
// becomes
//
//	present = append(past, new)    past and present [B, H, P+S, D] have the strides of [B, H, 2048, D]
//
// where append writes the elements of new behind those of past, in the memory of past ([Value.ContainedIn]).

// GrowingCache is an input whose memory an output shares: the output is the input, extended along a dimension. The
// memory has space for Capacity indices of this dimension. It is reused from run to run: the output of a run is the
// input of the next run.
type GrowingCache struct {
	Input, Output string
	// Axis is the dimension that grows. A negative axis counts from the end.
	Axis int
	// Capacity is the greatest size of this dimension.
	Capacity int
}

// Extension describes a value that is another value with further elements behind it along a dimension: see [Op.Extend].
type Extension struct {
	Dim int // the dimension that is extended
	// Op is an op with [Facts.Stores] that writes the further elements behind those of its operand 0. In has its
	// operands, and Attrs its attributes, except for the capacity, which is attribute "capacity".
	Op    *Op
	In    []Arg
	Attrs Attrs
	// Overwrites means that the op may also overwrite elements of operand 0.
	Overwrites bool
}

// ExtensionOf returns the extension of input c.Input that output c.Output is. It ignores c.Axis and c.Capacity. It
// fails if the output is something else, or if the input cannot be overwritten. The node computes the extension.
func (g *Graph) ExtensionOf(c GrowingCache) (extended *Node, extension Extension, err error) {
	if g == nil {
		return nil, extension, fmt.Errorf("the graph of cache %q is nil", c.Input)
	}
	input := g.Value(c.Input)
	if input == nil || !slices.Contains(g.Inputs, input) {
		var names []string
		for _, v := range g.Inputs {
			names = append(names, v.Name)
		}
		return nil, extension, fmt.Errorf("there is no input %q%s", c.Input,
			suggest.DidYouMean(suggest.Nearest(c.Input, slices.Values(names))))
	}
	output := g.output(c.Output)
	if output == nil || output.Value == nil {
		var names []string
		for _, output := range g.Outputs {
			names = append(names, output.Name)
		}
		return nil, extension, fmt.Errorf("there is no output %q%s", c.Output,
			suggest.DidYouMean(suggest.Nearest(c.Output, slices.Values(names))))
	}
	n := copied(output.Value).Node
	switch {
	case n == nil:
		return nil, extension, fmt.Errorf("output %q is %s %q itself, which no node extends", c.Output,
			copied(output.Value).Kind(), copied(output.Value).Name)
	case n.Out[0].Dynamic:
		return nil, extension, fmt.Errorf("the shape of output %q is known only when the graph runs: it depends on %s",
			c.Output, n.firstDynamic())
	case n.Op == nil || n.Op.Extend == nil || !n.Out[0].Meta.DType.Valid():
		return nil, extension, fmt.Errorf("output %q is the result of node %q (%s), which is no concatenation of input %q "+
			"with other values", c.Output, n.Name, nameOf(n.Op), c.Input)
	}
	extension, ok := n.Extension()
	switch {
	case !ok:
		return nil, extension, fmt.Errorf("output %q is the result of node %q (%s), which does not write other values behind "+
			"a value", c.Output, n.Name, n.Op.Name)
	case copied(extension.In[0].Value) != input:
		return nil, extension, fmt.Errorf("output %q is the result of node %q (%s), which extends %q, not input %q", c.Output,
			n.Name, n.Op.Name, extension.In[0].Value.Name, c.Input)
	}
	for _, pin := range []Pin{n.Pin, input.Pin, output.Pin} {
		if pin != (Pin{}) {
			return nil, extension, fmt.Errorf("input %q and output %q have the layout of the cache, but there is the pin %v",
				c.Input, c.Output, pin)
		}
	}
	extension.In = slices.Clone(extension.In)
	extension.In[0] = ArgOf(input)
	if extension.Overwrites {
		for _, operand := range extension.In[1:] {
			if operand.Kind == TensorArg && isIn(operand.Value, input) {
				return nil, extension, fmt.Errorf("node %q (%s) reads %q, which is in the memory of input %q, of which the node "+
					"may overwrite elements", n.Name, n.Op.Name, operand.Value.Name, c.Input)
			}
		}
		if other := g.otherReader(input, n); other != "" {
			return nil, extension, fmt.Errorf("%s reads input %q, of which node %q (%s) may overwrite elements", other,
				c.Input, n.Name, n.Op.Name)
		}
	}
	return n, extension, nil
}

// Extension returns the extension that the node computes, in an inferred graph. It returns false if the result of the
// node is no extension: see [Op.Extend].
func (n *Node) Extension() (Extension, bool) {
	if n == nil || n.Op == nil || n.Op.Extend == nil || len(n.In) == 0 || len(n.Out) != 1 || n.Out[0] == nil ||
		!n.Out[0].Meta.DType.Valid() || n.decodeAttrs() != nil {
		return Extension{}, false
	}
	return n.Op.Extend(n)
}

// copied returns the value of which v is an unchanged copy or the same view, or v itself.
func copied(v *Value) *Value {
	for v.Node != nil && v.Node.Op != nil && v.Node.Op.Identity && v.Node.Pin == (Pin{}) &&
		v.Node.In[0].Kind == TensorArg && v.Node.In[0].Value.Meta.DType == v.Meta.DType && !v.Dynamic {
		v = v.Node.In[0].Value
	}
	return v
}

// isIn reports whether v is the input, or a view or an unchanged copy of it, which may be in its memory.
func isIn(v, input *Value) bool {
	for v = copied(v); v != input; v = copied(v.Alias) {
		if v.Alias == nil {
			return false
		}
	}
	return true
}

// firstDynamic names the first node of the graph whose results have shapes that depend on data, and an input that may
// decide them.
func (n *Node) firstDynamic() string {
	first := n
	for _, other := range n.Out[0].graph.Nodes {
		if other.Op != nil && other.Op.RunDynamic != nil && other.Out[0].Dynamic {
			first = other
			break
		}
	}
	text := fmt.Sprintf("node %q (%s)", first.Name, nameOf(first.Op))
	if len(first.In) == 0 {
		return text
	}
	if condition := first.In[0].Value; condition != nil && condition.Node == nil && condition.Meta.DType == tensor.Bool {
		text += fmt.Sprintf(", and thus on input %q, which could be a constant", condition.Name)
	}
	return text
}

// otherReader names a node or an output that reads v or a copy of it, other than the nodes that only n reads. It
// returns "" if there is none.
func (g *Graph) otherReader(v *Value, n *Node) string {
	for _, output := range g.Outputs {
		if output.Value == v {
			return fmt.Sprintf("output %q", output.Name)
		}
	}
	for _, reader := range g.Nodes {
		isOperand := func(a Arg) bool { return a.Kind == TensorArg && a.Value == v }
		if reader == n || !slices.ContainsFunc(reader.In, isOperand) {
			continue
		}
		isPart := slices.ContainsFunc(n.In, func(a Arg) bool { return a.Kind == TensorArg && a.Value.Node == reader })
		switch {
		case !isPart && !reader.Op.Identity:
			return fmt.Sprintf("node %q (%s)", reader.Name, reader.Op.Name)
		default:
			for _, result := range reader.Out {
				if other := g.otherReader(result, n); other != "" {
					return other
				}
			}
		}
	}
	return ""
}

// StoreCaches makes the extensions of caches stores into the memory of their inputs, which get the strides of the
// capacity. Then it infers the graph again. After an error, the graph is partly changed.
func (g *Graph) StoreCaches(caches []GrowingCache) error {
	if g == nil || len(caches) == 0 {
		return nil
	}
	for _, c := range caches {
		if err := g.storeCache(c); err != nil {
			return fmt.Errorf("cache %q: %w", c.Input, err)
		}
	}
	return g.Infer()
}

// storeCache is [Graph.StoreCaches] for one cache, without inference.
func (g *Graph) storeCache(c GrowingCache) error {
	n, extension, err := g.ExtensionOf(c)
	if err != nil {
		return err
	}
	input, axis := extension.In[0].Value, c.Axis
	rank := input.Meta.Rank()
	if axis < 0 {
		axis += rank
	}
	if axis != extension.Dim {
		return fmt.Errorf("node %q (%s) extends dimension %d, not %d", n.Name, n.Op.Name, extension.Dim, c.Axis)
	}
	if err := input.reserve(axis, c.Capacity); err != nil {
		return err
	}
	parts := &Parts{graph: g, whole: n}
	attrs := Attrs{"capacity": c.Capacity}
	for name, attr := range extension.Attrs {
		attrs[name] = attr
	}
	results, err := parts.Add(extension.Op, attrs, extension.In...)
	if err != nil {
		return err
	}
	if err := parts.substituteResult(0, results[0]); err != nil {
		return err
	}
	names := g.nameIndex()
	names.dropNodeName(n)
	names.renameNode(parts.nodes[0], n.Name)
	g.Nodes[slices.Index(g.Nodes, n)] = parts.nodes[0]
	g.output(c.Output).Value = n.Out[0]
	g.dropUnread(n.In)
	return nil
}

// dropUnread removes the nodes of operands without readers.
func (g *Graph) dropUnread(operands []Arg) {
	for _, operand := range operands {
		if operand.Kind != TensorArg || operand.Value.Node == nil {
			continue
		}
		n := operand.Value.Node
		isResult := func(v *Value) bool { return slices.Contains(n.Out, v) }
		isRead := slices.ContainsFunc(g.Outputs, func(output Output) bool { return isResult(output.Value) }) ||
			slices.ContainsFunc(g.Nodes, func(reader *Node) bool {
				return slices.ContainsFunc(reader.In, func(a Arg) bool { return isResult(a.Value) }) ||
					slices.ContainsFunc(reader.refs(), func(ref attrRef) bool { return isResult(ref.value) })
			})
		if i := slices.Index(g.Nodes, n); i >= 0 && !isRead {
			g.Nodes = slices.Delete(g.Nodes, i, i+1)
			g.nameIndex().dropNode(n)
			g.dropUnread(n.In)
		}
	}
}

// reserve declares that the memory of an input has space for the given number of indices of a dimension.
func (v *Value) reserve(axis, capacity int) error {
	decl := Decl{DType: v.Meta.DType, Dims: v.Dims}
	if v.decl != nil {
		decl = *v.decl
	}
	if decl.Dims == nil {
		decl.Dims = Numbers(v.Meta.Shape...)
	}
	if decl.Strides != nil || decl.Offset != (Dim{}) || decl.Layout.Order != "" || v.Meta.Offset != 0 ||
		decl.Layout.Format != tensor.NoFormat && decl.Layout.Format != tensor.Contiguous || !v.Meta.IsContiguous() {
		return fmt.Errorf("the input must be declared row-major, but is %v", v.Meta)
	}
	if capacity < 1 || capacity > tensor.MaxBytes {
		return fmt.Errorf("the capacity is %d, want a positive number", capacity)
	}
	decl.Layout, decl.Strides = Pin{}, make([]Dim, len(decl.Dims))
	stride := Dim{Size: 1}
	for dim := len(decl.Dims) - 1; dim >= 0; dim-- {
		decl.Strides[dim] = stride
		size := decl.Dims[dim]
		if dim == axis {
			size = Dim{Size: capacity}
		}
		switch {
		case stride.IsNumber() && size.IsNumber() && size.Size > tensor.MaxBytes/max(1, stride.Size):
			return fmt.Errorf("a cache of the capacity %d is too large", capacity)
		case stride.IsNumber() && size.IsNumber():
			stride = Dim{Size: stride.Size * size.Size}
		default:
			stride = Dim{Expr: fmt.Sprintf("(%v)*(%v)", stride, size)}
		}
	}
	typ, err := decl.Type(v.graph.sizes)
	if err != nil {
		return err
	}
	v.decl, v.Type, v.Meta = &decl, typ, typ.AtHints()
	return nil
}
