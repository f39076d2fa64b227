package graph

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Template is a planned graph in which sizes are expressions over open symbols ([Graph.Symbolic]). [Template.At] binds
// it to sizes of these symbols: it evaluates the expressions, and infers nothing. A Template is immutable.
//
// For example, let a node y = reshape(x) have the attribute size [n, 4], with x of shape [4*n]. The template has the
// expressions n and 4*n. At n = 3, x has shape [12], and y has shape [3, 4] and the strides [4, 1].
type Template struct {
	graph     *Graph
	symbols   []string       // names in the graph of the symbols whose sizes At gets
	evaluator *sym.Evaluator // of the expressions in types, in attributes of nodes, and in attributes of folded nodes
	types     []tensor.Type  // the types with expressions: first those that NewTemplate gets, then those of values
	typeStart []int          // by type: the index of its first expression
	typeOf    ByValue[int32] // 1 + the index of the value's type in types; 0 for a type without expressions
	attrs     []sizedAttrs   // by node
	alike     []int32        // by node: see TemplateParts.Alike
	folded    []foldedNode
	foldedBy  ByValue[int32] // 1 + the index of the folded node that computes the value
	groups    [][]*Value     // see NewTemplate
	groupOf   ByValue[int32] // 1 + the index of the value's group
}

// sizedAttrs is the range of the expressions in the attributes of a node.
type sizedAttrs struct{ first, end int }

// foldedNode is a node whose results are constants that depend on sizes.
type foldedNode struct {
	*Node
	attrs       sizedAttrs
	firstResult int // index of the type of its first result
	sameAs      int // index of the first folded node with equal results, which may be the node itself
}

// SizedAttributes are decoded attributes that have sizes outside of exported fields of type [sym.Int], such as the
// attributes of fused nodes.
type SizedAttributes interface {
	// Sizes returns the sizes in the attributes that are expressions.
	Sizes() []sym.Int
	// AtSizes returns the attributes with the given values of Sizes. in has the operands of the node at these sizes. The
	// error states why the attributes are not valid at these sizes.
	AtSizes(in []Arg, sizes []int) (any, error)
	// Like reports whether other attributes are equal but for names: see [Graph.Alike].
	Like(other any) bool
	// WithNamesOf returns a copy of the attributes with the names in other attributes that are Like them.
	WithNamesOf(other any) any
}

// TemplateParts has what a [Template] contains besides its graph.
type TemplateParts struct {
	// Symbols has the names of the open symbols in the graph, and Name returns their names in the expressions.
	Symbols []string
	Name    func(string) string
	// Types lists further types. [Bound.Metas] has their values.
	Types []tensor.Type
	// Folded lists, in order, the nodes whose results are constants that depend on sizes, as they were before they were
	// folded: their results are copies of the values of the graph with types and aliases.
	Folded []*Node
	// Groups lists groups of values that are made anew together: those that may share memory ([Value.ContainedIn]).
	Groups [][]*Value
	// Alike has, by node, the first node that is alike at all sizes: [Graph.Alike].
	Alike []int32
}

// NewTemplate makes a template of a graph with open symbols. The graph must not be changed later.
func NewTemplate(g *Graph, parts TemplateParts) (*Template, error) {
	if g == nil || parts.Name == nil || slices.Contains(parts.Folded, nil) {
		return nil, errors.New("the graph, a folded node or the function that names symbols is nil")
	}
	if len(parts.Alike) != len(g.Nodes) {
		return nil, errors.New("the list of alike nodes has another length than the graph")
	}
	t := &Template{graph: g, symbols: parts.Symbols, types: slices.Clone(parts.Types), typeOf: NewByValue[int32](g),
		groups: parts.Groups, alike: parts.Alike}
	indexOf := map[string][]int32{} // by the sizes at the hints: types that may be equal
	g.Values(func(v *Value) {
		if _, known := v.Type.Meta(); known {
			return
		}
		key := v.Meta.String()
		for _, i := range indexOf[key] {
			if sameType(t.types[i], v.Type) {
				t.typeOf.Set(v, i+1)
				return
			}
		}
		indexOf[key] = append(indexOf[key], int32(len(t.types)))
		t.types = append(t.types, v.Type)
		t.typeOf.Set(v, int32(len(t.types)))
	})
	var list []sym.Int // the expressions
	addAttrs := func(n *Node) sizedAttrs {
		first := len(list)
		list = append(list, SizesInAttrs(n.Attrs)...)
		return sizedAttrs{first, len(list)}
	}
	foldedByKey := map[string][]int{} // by the key of the call: folded nodes that may have equal results
	for _, n := range parts.Folded {
		added := foldedNode{Node: n, firstResult: len(t.types), sameAs: len(t.folded)}
		key := string(n.appendCallKey(nil))
		same := foldedByKey[key]
		if k := slices.IndexFunc(same, func(i int) bool { return t.foldsTheSame(t.folded[i].Node, n) }); k >= 0 {
			added.sameAs = same[k]
		} else if len(same) < maxAlikeTried {
			foldedByKey[key] = append(same, len(t.folded))
		}
		for _, v := range n.Out {
			t.types = append(t.types, v.Type)
			t.foldedBy.Set(v, int32(len(t.folded)+1))
		}
		t.folded = append(t.folded, added)
	}
	for _, typ := range t.types {
		t.typeStart = append(t.typeStart, len(list))
		list = append(append(append(list, typ.Shape...), typ.Strides...), typ.Offset)
	}
	t.typeStart = append(t.typeStart, len(list))
	for i := range t.folded {
		t.folded[i].attrs = addAttrs(t.folded[i].Node)
	}
	for i, n := range g.Nodes {
		if k := t.alike[i]; int(k) < i {
			t.attrs = append(t.attrs, t.attrs[k])
			continue
		}
		t.attrs = append(t.attrs, addAttrs(n))
	}
	for i, group := range t.groups {
		for _, v := range group {
			t.groupOf.Set(v, int32(i+1))
		}
	}
	names := make([]string, len(t.symbols))
	for i, symbol := range t.symbols {
		names[i] = parts.Name(symbol)
	}
	var err error
	t.evaluator, err = sym.NewEvaluator(names, list, nil)
	return t, err
}

// foldsTheSame reports whether two folded nodes with equal keys have equal results at all sizes.
func (t *Template) foldsTheSame(n, other *Node) bool {
	isSame := func(a, b Arg) bool {
		by, otherBy := t.foldedBy.At(a.Value), t.foldedBy.At(b.Value)
		return a.Value == b.Value || by > 0 && otherBy > 0 && a.Value.Index == b.Value.Index &&
			t.folded[by-1].sameAs == t.folded[otherBy-1].sameAs
	}
	return n.Packing() == nil && n.Op == other.Op && slices.EqualFunc(n.In, other.In, isSame) && SameAttrs(n, other) &&
		slices.EqualFunc(n.Out, other.Out, func(a, b *Value) bool { return sameType(a.Type, b.Type) })
}

// Bound is a template at given sizes of its symbols. It is immutable once [Template.At] and the caller have completed
// it.
type Bound struct {
	// Graph has the nodes at these sizes. Nodes and values that do not depend on sizes are those of the template. A value
	// whose type is as in the base has the node of the base as its Node.
	Graph *Graph
	// Changed marks the nodes, by index, that differ from those of the base.
	Changed []bool
	// Metas has the values of [TemplateParts.Types].
	Metas []tensor.Meta
	// Alike is [TemplateParts.Alike].
	Alike []int32

	sizes   []int              // values of all expressions
	data    [][]*tensor.Tensor // results of the folded nodes
	current ByValue[*Value]    // by value of the template: the value at these sizes
}

// At binds the template to sizes, which are in the order of the symbols. base is the template at other sizes, with
// which the result shares all nodes and values that are equal; nil stands for the template itself. fold computes the
// results of a folded node, whose operands are constants. The results of changed nodes have the layouts of the
// template.
func (t *Template) At(sizes []int, base *Bound, fold func(*Node) ([]*tensor.Tensor, error)) (*Bound, error) {
	if t == nil || t.graph == nil || fold == nil {
		return nil, errors.New("the template was not made by NewTemplate, or the function that folds is nil")
	}
	b := &Bound{Changed: make([]bool, len(t.graph.Nodes)), Metas: make([]tensor.Meta, len(t.types)), Alike: t.alike}
	if base == nil {
		base = &Bound{Graph: t.graph, Metas: make([]tensor.Meta, len(t.types))}
	}
	var err error
	if b.sizes, err = t.evaluator.Sizes(make([]int, 0, len(base.sizes)), sizes); err != nil {
		return nil, err
	}
	isSame := func(first, end int) bool {
		return base.sizes != nil && slices.Equal(b.sizes[first:end], base.sizes[first:end])
	}
	isChanged := make([]bool, len(t.types))
	for i := range t.types {
		first, end, rank := t.typeStart[i], t.typeStart[i+1], len(t.types[i].Shape)
		if isSame(first, end) {
			b.Metas[i] = base.Metas[i]
			continue
		}
		isChanged[i] = true
		dims := slices.Clone(b.sizes[first : first+2*rank]) // not a part of b.sizes, which would stay alive
		b.Metas[i] = tensor.Meta{DType: t.types[i].DType, Shape: dims[:rank:rank], Strides: dims[rank:],
			Offset: b.sizes[end-1]}
		if err := b.Metas[i].Check(); err != nil { // such as more elements than memory can have
			return nil, err
		}
	}
	binding := binding{Template: t, bound: b, base: base, isChanged: isChanged, types: make([]tensor.Type, len(t.types)),
		renewed: NewByValue[bool](t.graph), isSame: isSame}
	if err := binding.fold(fold); err != nil {
		return nil, err
	}
	binding.findChanges()
	return b, binding.build(sizes)
}

// binding is the state of [Template.At].
type binding struct {
	*Template
	bound, base *Bound
	isChanged   []bool        // by type: whether its sizes differ from those of the base
	types       []tensor.Type // by type: its numbers, set at the first use
	renewed     ByValue[bool] // by value of the template: whether the value differs from the value of the base
	isSame      func(first, end int) bool
}

// fold computes the results of the folded nodes that differ from the base.
func (b *binding) fold(compute func(*Node) ([]*tensor.Tensor, error)) error {
	for i := range b.folded {
		folded := &b.folded[i]
		if folded.sameAs < i {
			for k, v := range folded.Out {
				b.renewed.Set(v, b.renewed.At(b.folded[folded.sameAs].Out[k]))
			}
			b.bound.data = append(b.bound.data, b.bound.data[folded.sameAs])
			continue
		}
		n := *folded.Node
		isSame := b.base.data != nil && b.isSame(folded.attrs.first, folded.attrs.end)
		for k := range n.Out {
			isSame = isSame && !b.isChanged[folded.firstResult+k]
		}
		for _, arg := range n.In {
			isSame = isSame && !b.renewed.At(arg.Value)
		}
		if isSame {
			b.bound.data = append(b.bound.data, b.base.data[i])
			continue
		}
		n.In = slices.Clone(n.In)
		for k := range n.In {
			n.In[k].Value = b.constant(n.In[k].Value)
		}
		var err error
		if n.Attrs, err = AttrsAtSizes(n.Attrs, n.In, b.bound.sizes[folded.attrs.first:folded.attrs.end]); err != nil {
			return b.graph.NodeError(&n, err)
		}
		n.Out = make([]*Value, len(n.Out))
		for k, v := range folded.Out {
			result := *v
			result.Alias = b.constant(v.Alias)
			result.SetMeta(b.bound.Metas[folded.firstResult+k])
			n.Out[k] = &result
			b.renewed.Set(v, true)
		}
		data, err := compute(&n)
		if err != nil {
			return b.graph.NodeError(&n, err)
		}
		b.bound.data = append(b.bound.data, data)
	}
	return nil
}

// constant returns a constant operand of a folded node at the sizes.
func (b *binding) constant(v *Value) *Value {
	i := b.foldedBy.At(v)
	if v == nil || i == 0 {
		return v
	}
	constant := *v
	constant.Const = b.dataOf(v)
	constant.SetMeta(constant.Const.Meta)
	return &constant
}

// dataOf returns the data of a result of a folded node.
func (b *binding) dataOf(v *Value) *tensor.Tensor {
	folded := b.foldedBy.At(v) - 1
	k := slices.IndexFunc(b.folded[folded].Out, func(result *Value) bool { return result.number == v.number })
	return b.bound.data[folded][k]
}

// findChanges finds the values that must be made anew, and the nodes that compute or read one of them.
func (b *binding) findChanges() {
	b.graph.Values(func(v *Value) {
		if i := b.typeOf.At(v); i > 0 && b.isChanged[i-1] {
			b.renewed.Set(v, true)
		}
	})
	isRenewedArg := func(a Arg) bool { return a.Kind == TensorArg && b.renewed.At(a.Value) }
	for again := true; again; {
		again = false
		for i, n := range b.graph.Nodes {
			for _, v := range n.Out {
				if b.renewed.At(v.Alias) {
					b.renewed.Set(v, true)
				}
			}
			attrs := b.attrs[i]
			b.bound.Changed[i] = slices.ContainsFunc(n.In, isRenewedArg) || slices.ContainsFunc(n.Out, b.renewed.At) ||
				attrs.end > attrs.first && !b.isSame(attrs.first, attrs.end)
			for _, v := range n.Out {
				group := b.groupOf.At(v)
				if group == 0 || !b.bound.Changed[i] || slices.IndexFunc(b.groups[group-1], b.isKept) < 0 {
					continue
				}
				for _, member := range b.groups[group-1] {
					b.renewed.Set(member, true)
				}
				again = true // also for earlier nodes
			}
		}
	}
}

// isKept reports whether a value is the value of the base.
func (b *binding) isKept(v *Value) bool { return !b.renewed.At(v) }

// blocks returns memory for the nodes and values that are made anew.
func (b *binding) blocks() slab {
	nodes, values, ins, outs := 0, 0, 0, 0
	b.graph.Values(func(v *Value) {
		if b.renewed.At(v) {
			values++
		}
	})
	for i, n := range b.graph.Nodes {
		if b.bound.Changed[i] {
			nodes, ins, outs = nodes+1, ins+len(n.In), outs+len(n.Out)
		}
	}
	return slab{make([]Node, nodes), make([]Value, values), make([]*Value, outs), make([]Arg, ins)}
}

// build makes the graph.
func (b *binding) build(sizes []int) error {
	source := b.graph
	g := &Graph{Name: source.Name, lookup: source.lookup, Symbols: source.Symbols, Labels: source.Labels,
		Texts: source.Texts, assumed: source.assumed, warnings: source.warnings,
		valueCount: source.valueCount, nodeCount: source.nodeCount,
		nameSerial: source.nameSerial, packedFrom: source.packedFrom, places: source.places, folded: source.folded, ctx: source.ctx,
		sizes: make(map[string]sym.Int, len(source.sizes))}
	g.names = &nameIndex{unindexed: g}
	b.bound.Graph = g
	maps.Copy(g.sizes, source.sizes)
	for i, name := range b.symbols {
		g.sizes[name] = sym.Of(sizes[i])
	}
	current := &b.bound.current
	current.elements = make([]*Value, source.valueCount)
	copy(current.elements, b.base.current.elements)
	valueOf := func(v *Value) *Value {
		if found := current.At(v); found != nil {
			return found
		}
		return v
	}
	blocks := b.blocks()
	var contained []*Value // new values within others, which come later
	renew := func(v *Value) *Value {
		if b.isKept(v) {
			return valueOf(v)
		}
		made := &takeFrom(&blocks.values, 1)[0]
		*made = *v
		if i := int(b.typeOf.At(v)) - 1; i >= 0 {
			if b.types[i].DType == tensor.Invalid {
				b.types[i] = b.bound.Metas[i].Type()
			}
			made.Meta, made.Type = b.bound.Metas[i], b.types[i]
		}
		if b.foldedBy.At(v) > 0 {
			made.Const = b.dataOf(v)
			made.SetMeta(made.Const.Meta)
		}
		made.Alias = valueOf(v.Alias)
		current.Set(v, made)
		if made.ContainedIn != nil {
			contained = append(contained, made)
		}
		return made
	}
	for _, v := range source.Inputs {
		g.Inputs = append(g.Inputs, renew(v))
	}
	for _, v := range source.Constants {
		g.Constants = append(g.Constants, renew(v))
	}
	g.Nodes = slices.Clone(b.base.Graph.Nodes)
	for i, n := range source.Nodes {
		if !b.bound.Changed[i] {
			continue
		}
		made := &takeFrom(&blocks.nodes, 1)[0]
		*made = *n
		made.In, made.Out = takeFrom(&blocks.ins, len(n.In)), takeFrom(&blocks.outs, len(n.Out))
		copy(made.In, n.In)
		typesChanged := false
		for k := range made.In {
			if arg := &made.In[k]; arg.Kind == TensorArg {
				typesChanged = typesChanged || b.renewed.At(arg.Value)
				arg.Value = valueOf(arg.Value)
			}
		}
		for k, v := range n.Out {
			made.Out[k] = renew(v)
			if !b.isKept(v) {
				made.Out[k].Node = made
			}
		}
		sized, isOwn := n.Attrs.(SizedAttributes)
		attrs, alike := b.attrs[i], g.Nodes[b.alike[i]]
		switch hasChanged := isOwn && typesChanged || attrs.end > attrs.first && !b.isSame(attrs.first, attrs.end); {
		case !hasChanged:
			made.Attrs = b.base.Graph.Nodes[i].Attrs
		case int(b.alike[i]) == i:
			var err error
			if made.Attrs, err = AttrsAtSizes(n.Attrs, made.In, b.bound.sizes[attrs.first:attrs.end]); err != nil {
				return source.NodeError(n, err)
			}
		case isOwn:
			made.Attrs = alike.Attrs.(SizedAttributes).WithNamesOf(sized)
		default:
			made.Attrs = alike.Attrs
		}
		g.Nodes[i] = made
	}
	for _, v := range contained {
		v.ContainedIn = valueOf(v.ContainedIn)
	}
	for _, output := range source.Outputs {
		output.Value = valueOf(output.Value)
		g.Outputs = append(g.Outputs, output)
	}
	return nil
}

// SizesInAttrs returns the sizes in decoded attributes that are expressions.
func SizesInAttrs(attrs any) []sym.Int {
	if sized, ok := attrs.(SizedAttributes); ok {
		return sized.Sizes()
	}
	var list []sym.Int
	replaceSizes(reflect.ValueOf(attrs), func(size sym.Int) sym.Int {
		list = append(list, size)
		return size
	})
	return list
}

// AttrsAtSizes returns decoded attributes with the given values of [SizesInAttrs]. in has the operands of the node.
func AttrsAtSizes(attrs any, in []Arg, sizes []int) (any, error) {
	if sized, ok := attrs.(SizedAttributes); ok {
		return sized.AtSizes(in, sizes)
	}
	if len(sizes) == 0 {
		return attrs, nil
	}
	replaced := replaceSizes(reflect.ValueOf(attrs), func(sym.Int) sym.Int {
		size := sym.Of(sizes[0])
		sizes = sizes[1:]
		return size
	})
	return replaced.Interface(), nil
}

// replaceSizes returns a copy of v in which replace has replaced the expressions, in order. Parts without expressions
// are shared with v.
func replaceSizes(v reflect.Value, replace func(sym.Int) sym.Int) reflect.Value {
	if !v.IsValid() || !mayHaveSizes(v.Type()) {
		return v
	}
	if v.Type() == sizeType {
		size := v.Interface().(sym.Int)
		if _, known := size.Known(); known {
			return v
		}
		return reflect.ValueOf(replace(size))
	}
	if number, ok := v.Interface().(NumberOrSize); ok {
		size := replaceSizes(reflect.ValueOf(number.Size), replace).Interface().(sym.Int)
		if n, known := size.Known(); known && !number.Number.IsSet() { // as decoding makes it
			return reflect.ValueOf(NumberOrSize{Number: tensor.IntScalar(int64(n))})
		}
		return reflect.ValueOf(NumberOrSize{Number: number.Number, Size: size})
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		copied := reflect.New(v.Type().Elem())
		copied.Elem().Set(replaceSizes(v.Elem(), replace))
		return copied
	case reflect.Struct:
		copied := reflect.New(v.Type()).Elem()
		copied.Set(v)
		for i := range v.NumField() {
			if mayFieldHaveSizes(v.Type().Field(i)) {
				copied.Field(i).Set(replaceSizes(v.Field(i), replace))
			}
		}
		return copied
	case reflect.Slice, reflect.Array:
		if v.Len() == 0 {
			return v
		}
		copied := reflect.New(v.Type()).Elem()
		if v.Kind() == reflect.Slice {
			copied.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}
		for i := range v.Len() {
			copied.Index(i).Set(replaceSizes(v.Index(i), replace))
		}
		return copied
	}
	return v
}

var sizeType = reflect.TypeFor[sym.Int]()

// mayHaveSizes reports whether decoded attributes of a type may contain sizes: see [Schema] for the types of fields.
func mayHaveSizes(t reflect.Type) bool {
	switch {
	case isSized(t):
		return true
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		return t.Elem().Kind() != reflect.Pointer && t.Elem().Kind() != reflect.Struct && mayHaveSizes(t.Elem()) ||
			isSized(t.Elem())
	case t.Kind() == reflect.Pointer:
		return isSized(t.Elem()) || t.Elem().Kind() == reflect.Struct && mayHaveSizes(t.Elem())
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if mayFieldHaveSizes(t.Field(i)) {
				return true
			}
		}
	}
	return false
}

// isSized reports whether a type of fields is a size, or one of the structs with a size.
func isSized(t reflect.Type) bool {
	return t == sizeType || t == reflect.TypeFor[IntOrInts]() || t == reflect.TypeFor[NumberOrSize]()
}

// mayFieldHaveSizes reports whether a field of attributes may contain sizes. Other structs than those of isSized are
// embedded ones.
func mayFieldHaveSizes(field reflect.StructField) bool {
	t := field.Type
	switch {
	case !field.IsExported():
		return false
	case t.Kind() == reflect.Pointer:
		return isSized(t.Elem())
	case t.Kind() == reflect.Struct:
		return isSized(t) || field.Anonymous && mayHaveSizes(t)
	}
	return mayHaveSizes(t)
}
