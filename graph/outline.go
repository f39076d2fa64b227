package graph

import (
	"maps"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file finds the known properties of values whose shapes depend on data, before the graph runs. Ops have only one
// function for types, Infer, which needs sizes. [Op.Outline] therefore calls Infer with several stand-ins for each
// unknown size, dtype and rank. Properties of the results that are the same for all stand-ins are known.

// Outline is the known part of the type of a value whose shape depends on data.
type Outline struct {
	DType tensor.DType // Invalid if it is unknown
	Sizes []int        // -1 for an unknown size; nil if the rank is unknown, empty for rank 0
	// Lay returns the type of the value given all its sizes; nil if the layout is unknown.
	Lay func(shape []sym.Int) (tensor.Type, error)
}

// Result returns the result of [Semantics.Infer] for a value with this outline.
func (o Outline) Result() Result {
	return Result{Type: tensor.Type{DType: o.DType}, Alias: Fresh, Dynamic: true, Sizes: o.Sizes, Lay: o.Lay}
}

// Join returns the outline of a value that has outline o or p.
func (o Outline) Join(p Outline) Outline {
	if o.DType != p.DType {
		o.DType = tensor.Invalid
	}
	if o.Sizes == nil || p.Sizes == nil || len(o.Sizes) != len(p.Sizes) {
		return Outline{DType: o.DType}
	}
	sizes := make([]int, len(o.Sizes))
	for i := range sizes {
		sizes[i] = o.Sizes[i]
		if p.Sizes[i] != sizes[i] {
			sizes[i] = -1
		}
	}
	o.Sizes = sizes
	return o
}

// Outlined is an operand with a known outline or, if Arg is set, an operand that is fully known.
type Outlined struct {
	Arg     Arg
	Outline Outline
}

// Stand-ins for unknown sizes. firstStandIns are tried to find sizes that an op accepts: first one of them for all
// unknown sizes, then combinations that also include known sizes. otherStandIns then replace them, to find which sizes
// of a result depend on unknown sizes; they are on both sides of usual bounds of slices, windows and clamps.
var (
	firstStandIns = []int{3, 1, 2, 5, 64, 224}
	otherStandIns = []int{1, 2, 3, 5, 64, 1 << 12, 1<<20 + 3}
)

const (
	// maxGuessed is the maximum rank that is tried for an operand of unknown rank.
	maxGuessed = 5
	// maxRank is the maximum number of elements of one attribute that become candidates for sizes.
	maxRank = 64
	// maxTrials is the maximum number of combinations of sizes that are tried.
	maxTrials = 400
)

// Outline returns the outlines of the op's results for operands that are partly known. It returns nil if the op rejects
// all sizes that are tried. If attributes are values of the graph ([Ref]) or name symbols, the sizes of the results are
// unknown. refs returns the shape and the elements of such a value, with nil for an unknown element; ok is false if the
// shape is unknown.
func (o *Op) Outline(in []Outlined, attrs Attrs, refs func(*Value) (shape []int, elements []any, ok bool),
	symbols map[string]sym.Int) []Outline {
	if o == nil || o.Schema == nil || o.Infer == nil {
		return nil // Define did not make it
	}
	p := &prober{op: o, in: in, given: attrs}
	if !p.decode(attrs, refs, symbols) {
		return nil
	}
	var out []Outline
	for _, d := range p.dtypes() {
		for _, rank := range p.ranks() {
			found := p.known(d, rank)
			switch {
			case found == nil:
			case out == nil:
				out = found
			case len(out) != len(found):
				return nil
			default:
				for i := range out {
					out[i] = out[i].Join(found[i])
				}
			}
		}
	}
	return out
}

// prober calls Infer of an op with stand-ins.
type prober struct {
	op      *Op
	in      []Outlined
	given   Attrs
	decoded []any // decoded attributes, one for each stand-in of unknown elements
	loose   bool  // attributes depend on values or symbols, and may differ in the run
}

// decode decodes the attributes, with stand-ins for the unknown elements of attributes that are values.
func (p *prober) decode(attrs Attrs, refs func(*Value) ([]int, []any, bool), symbols map[string]sym.Int) bool {
	fills := []any{nil}
	for _, a := range attrs {
		if _, ok := a.(Ref); ok {
			p.loose = true
			fills = []any{1, 3, 0, 2, -1, 1.5}
		}
		p.loose = p.loose || usesAny(a, symbols)
	}
	for _, fill := range fills {
		given := Attrs{}
		for name, a := range attrs {
			if r, ok := a.(Ref); ok {
				if refs == nil {
					return false
				}
				shape, list, ok := refs(r.Value)
				if !ok || len(list) > maxAttr || len(list) != tensor.Numel(shape) {
					return false
				}
				a = standInFor(shape, list, fill)
			}
			given[name] = a
		}
		if d, err := p.op.Schema.Decode(given, symbols); err == nil {
			p.decoded = append(p.decoded, d)
		}
	}
	return len(p.decoded) > 0
}

// standInFor returns an attribute for a value, with fill for unknown elements.
func standInFor(shape []int, list []any, fill any) any {
	list = slices.Clone(list)
	for i, x := range list {
		if x == nil {
			list[i] = fill
		}
	}
	if len(shape) == 0 {
		return list[0]
	}
	return elements(list)
}

// dtypes lists the stand-ins for unknown dtypes.
func (p *prober) dtypes() []tensor.DType {
	for _, x := range p.in {
		if x.open() && x.Outline.DType == tensor.Invalid {
			return []tensor.DType{tensor.Float32, tensor.Int64, tensor.Bool}
		}
	}
	return []tensor.DType{tensor.Float32}
}

// ranks lists the stand-ins for unknown ranks.
func (p *prober) ranks() []int {
	for _, x := range p.in {
		if x.open() && x.Outline.Sizes == nil {
			list := make([]int, maxGuessed+1)
			for i := range list {
				list[i] = i
			}
			return list
		}
	}
	return []int{0}
}

// open reports whether only an outline of the operand is known. The zero Outlined is an absent operand.
func (x Outlined) open() bool { return x.Arg.Kind == TensorArg && x.Arg.Value == nil }

// known returns the common outlines of the results for all stand-ins of sizes, given stand-ins for an unknown dtype and
// an unknown rank.
func (p *prober) known(d tensor.DType, rank int) []Outline {
	sizes, free := p.start(rank)
	first, at := p.search(d, sizes, free)
	if first == nil {
		return nil
	}
	out := first
	join := func(sizes [][]int) bool {
		found := p.infer(d, sizes)
		if found == nil || len(found) != len(out) {
			return false
		}
		for i := range out {
			out[i] = out[i].Join(found[i])
		}
		return true
	}
	moved := make([]bool, len(free)) // whether the op accepted another value of a free size
	for _, s := range otherStandIns {
		for i, f := range free {
			trial := copyOf(at)
			trial[f[0]][f[1]] = s
			moved[i] = join(trial) && s != at[f[0]][f[1]] || moved[i]
		}
		// All at once, for sizes that must be equal.
		if join(filled(at, free, s)) && len(free) > 0 {
			for i, f := range free {
				moved[i] = moved[i] || s != at[f[0]][f[1]]
			}
		}
	}
	if p.loose || slices.Contains(moved, false) {
		// A size of a result may depend on a size of which only one value was accepted.
		for i := range out {
			out[i] = out[i].ranked()
		}
	}
	return out
}

// ranked returns the outline with all sizes unknown.
func (o Outline) ranked() Outline {
	if o.Sizes != nil {
		o.Sizes = slices.Repeat([]int{-1}, len(o.Sizes))
	}
	return o
}

// start returns the sizes of the operands, and the operand and dimension of each unknown size.
func (p *prober) start(rank int) (sizes [][]int, free [][2]int) {
	for i, x := range p.in {
		s := slices.Clone(x.Outline.Sizes)
		if x.open() && x.Outline.Sizes == nil {
			s = slices.Repeat([]int{-1}, rank)
		}
		for k, size := range s {
			if x.open() && size < 0 {
				free = append(free, [2]int{i, k})
			}
		}
		sizes = append(sizes, s)
	}
	return sizes, free
}

// search finds sizes that the op accepts: one value for all unknown sizes if possible, otherwise a combination. It also
// returns the outlines of the results.
func (p *prober) search(d tensor.DType, sizes [][]int, free [][2]int) ([]Outline, [][]int) {
	candidates := p.candidates()
	for _, s := range candidates {
		at := filled(sizes, free, s)
		if out := p.infer(d, at); out != nil || len(free) == 0 {
			return out, at
		}
	}
	// A fixed sequence of pseudorandom numbers, so that results are reproducible.
	state := uint32(1)
	for range maxTrials {
		at := copyOf(sizes)
		for _, f := range free {
			state = state*1664525 + 1013904223
			at[f[0]][f[1]] = candidates[int(state>>8)%len(candidates)]
		}
		if out := p.infer(d, at); out != nil {
			return out, at
		}
	}
	return nil, nil
}

// candidates returns values for unknown sizes: stand-ins, known sizes, and the numbers of attributes with their sums
// and products, because the op may require that sizes match.
func (p *prober) candidates() []int {
	list := slices.Clone(firstStandIns)
	add := func(s int) {
		if s > 0 && s < 1<<24 && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.given)) {
		switch a := p.given[name].(type) {
		case int:
			add(a)
		case []int:
			sum := 0
			for _, s := range a {
				sum += s
			}
			add(sum)
			add(tensor.Numel(a))
			for _, s := range a[:min(len(a), maxRank)] {
				add(s)
			}
		}
	}
	for _, x := range p.in {
		sizes := x.Outline.Sizes
		if !x.open() {
			sizes = x.Arg.Meta().Shape
		}
		for _, s := range sizes {
			add(s)
		}
	}
	return list
}

// filled returns sizes with s for all free sizes.
func filled(sizes [][]int, free [][2]int, s int) [][]int {
	at := copyOf(sizes)
	for _, f := range free {
		at[f[0]][f[1]] = s
	}
	return at
}

func copyOf(sizes [][]int) [][]int {
	out := make([][]int, len(sizes))
	for i, s := range sizes {
		out[i] = slices.Clone(s)
	}
	return out
}

// infer infers the op for given sizes, with every stand-in for attributes, and joins the results. It returns nil if the
// op rejects all.
func (p *prober) infer(d tensor.DType, sizes [][]int) []Outline {
	c := &Call{In: make([]Arg, len(p.in))}
	for i, x := range p.in {
		if c.In[i] = x.Arg; !x.open() {
			continue
		}
		m := tensor.Meta{DType: x.Outline.DType, Shape: sizes[i]}
		if m.DType == tensor.Invalid {
			m.DType = d
		}
		m.Strides = make([]int, len(m.Shape))
		if m.Check() != nil {
			return nil
		}
		m = tensor.New(m.DType, m.Shape...)
		if m.Check() != nil {
			return nil
		}
		c.In[i] = Arg{Kind: TensorArg, Value: &Value{Name: "operand", Meta: m}}
	}
	for len(c.In) > 0 && c.In[len(c.In)-1].Kind == Null {
		c.In = c.In[:len(c.In)-1]
	}
	n := &Node{Op: p.op, In: c.In}
	if n.checkArity() != nil {
		return nil
	}
	var out []Outline
	for _, a := range p.decoded {
		c.Attrs = a
		res, err := p.op.Infer(c)
		if err != nil || out != nil && len(res) != len(out) {
			continue
		}
		for i, r := range res {
			m := r.Meta()
			o := Outline{DType: m.DType}
			if r.Dynamic {
				o.Sizes = slices.Clone(r.Sizes)
			} else {
				o.Sizes = append([]int{}, m.Shape...)
			}
			if i == len(out) {
				out = append(out, o)
			} else {
				out[i] = out[i].Join(o)
			}
		}
	}
	return out
}

// Stacked returns the outline of a stack of values of outline o along a new dimension axis, which counts from the end
// if it is negative.
func (o Outline) Stacked(axis int) Outline {
	if o.Sizes == nil {
		return o
	}
	if axis < 0 {
		axis += len(o.Sizes) + 1
	}
	o.Sizes = slices.Insert(slices.Clone(o.Sizes), min(max(axis, 0), len(o.Sizes)), -1)
	return o
}

// Outlines returns the outline of every value of an inferred graph. If the shape of a value depends on data, the
// outline is derived from the op and from the outlines of its operands ([Op.Outline]).
func (g *Graph) Outlines() *ByValue[Outline] {
	all := NewByValue[Outline](g)
	g.Values(func(v *Value) {
		if v.Node == nil {
			all.Set(v, v.outline())
		}
	})
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			all.Set(v, v.outline())
		}
		if len(n.Out) == 0 || !n.Out[0].Dynamic {
			continue
		}
		for i, o := range n.outlines(&all) {
			if i < len(n.Out) {
				all.Set(n.Out[i], o)
			}
		}
	}
	return &all
}

// outline returns the outline of the value from its inferred type.
func (v *Value) outline() Outline {
	o := Outline{DType: v.Meta.DType}
	if !v.Dynamic {
		o.Sizes = append([]int{}, v.Meta.Shape...)
	}
	return o
}

// outlines returns the outlines of a node's results from the known outlines of its operands.
func (n *Node) outlines(known *ByValue[Outline]) []Outline {
	in := make([]Outlined, len(n.In))
	for i, a := range n.In {
		if in[i].Arg = a; a.Value == nil {
			continue
		}
		if o := known.At(a.Value); a.Value.Dynamic || slices.Contains(o.Sizes, -1) {
			in[i] = Outlined{Arg: Arg{Kind: TensorArg}, Outline: o}
		}
	}
	refs := func(v *Value) (shape []int, list []any, ok bool) {
		if v.Const != nil {
			a, err := attrOf(v.Const)
			if list, several := a.(elements); several {
				return v.Const.Shape, list, err == nil
			}
			return v.Const.Shape, []any{a}, err == nil
		}
		shape = known.At(v).Sizes
		size := 1
		for _, s := range shape {
			size = min(size*max(s, 0), maxAttr+1)
		}
		return shape, make([]any, size), shape != nil && size <= maxAttr && !slices.Contains(shape, -1)
	}
	var symbols map[string]sym.Int
	if len(n.Out) > 0 && n.Out[0].graph != nil {
		symbols = n.Out[0].graph.sizes
	}
	return n.Op.Outline(in, n.written(), refs, symbols)
}
