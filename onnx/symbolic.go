package onnx

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Where sizes are symbols, the model is looked at under two bindings at once: the graph has
// the first, and what is said here the second. A size, or an element of a vector that is
// computed from sizes, which is the same under both is known; any other is computed when
// the graph runs.

// standIn gives symbols sizes under the two bindings: the i-th has first+i*step and
// second+i*step. Networks are picky about sizes, so there are several to try: images must
// be large enough, texts must not be too long, and some symbols must be equal.
type standIn struct{ first, second, step int }

var standIns = []standIn{{224, 448, 32}, {16, 32, 1}, {224, 448, 0}, {16, 32, 0}, {2, 3, 0}}

// dual is the data of a value under two bindings. make adds the value to the graph.
type dual struct {
	a, b *tensor.Tensor
	make func() *val
}

// bindStandIns binds all symbols of the model's inputs.
func (im *importer) bindStandIns(in standIn) error {
	im.g.Symbols = map[string]graph.Bounds{}
	im.sizes, im.otherSizes = map[string]int{}, map[string]int{}
	for _, v := range im.model.proto.Graph.Input {
		shape := v.GetType().GetTensorType().GetShape()
		if shape == nil {
			continue
		}
		dims, err := im.dims(v.Name, shape)
		if err != nil {
			return fmt.Errorf("input %q: %w", v.Name, err)
		}
		for _, d := range dims {
			if _, ok := im.sizes[d.Symbol]; d.Symbol == "" || ok {
				continue
			}
			i := len(im.sizes)
			im.g.Symbols[d.Symbol] = graph.Bounds{}
			im.sizes[d.Symbol], im.otherSizes[d.Symbol] = in.first+i*in.step, in.second+i*in.step
		}
	}
	return im.g.BindOnly(im.sizes)
}

// atOther returns an input's meta under the second binding.
func (im *importer) atOther(v *graph.Value) *tensor.Meta {
	shape := slices.Clone(v.Meta.Shape)
	for i, d := range v.Dims {
		if d.Symbol != "" {
			shape[i] = im.otherSizes[d.Symbol]
		}
	}
	m := tensor.New(v.Meta.DType, shape...)
	return &m
}

// written returns the elements of a vector as attributes have them: numbers, and the names
// of symbols. ok is false if some are neither.
func (im *importer) written(d *dual) (list []any, ok bool) {
	a, b := ints(d.a), ints(d.b)
	for i := range a {
		if a[i] == b[i] {
			list = append(list, a[i])
			continue
		}
		found := ""
		for _, s := range slices.Sorted(maps.Keys(im.sizes)) {
			if im.sizes[s] == a[i] && im.otherSizes[s] == b[i] {
				if found != "" {
					return nil, false // two symbols stand for the same sizes
				}
				found = s
			}
		}
		if found == "" {
			return nil, false
		}
		list = append(list, found)
	}
	return list, true
}

// bySymbol reports whether attributes name symbols.
func (im *importer) bySymbol(attrs graph.Attrs) bool {
	isSymbol := func(a any) bool {
		s, ok := a.(string)
		return ok && im.sizes[s] > 0
	}
	for _, a := range attrs {
		list, _ := a.([]any)
		if isSymbol(a) || slices.ContainsFunc(list, isSymbol) {
			return true
		}
	}
	return false
}

// inferOther notes the shapes of a node's results under the second binding, where they
// differ. Where the op refuses it, nothing is known of them.
func (im *importer) inferOther(vals []*graph.Value, attrs graph.Attrs) {
	node := vals[0].Node
	if len(im.other) == 0 || node == nil || vals[0].Dynamic {
		return
	}
	c := *node.Call()
	c.In = slices.Clone(c.In)
	c.Out = nil
	touched, loose := false, false
	if im.bySymbol(attrs) {
		decoded, err := node.Op.Schema.Decode(attrs, numbers(im.otherSizes))
		touched, loose = true, err != nil
		c.Attrs = decoded
	}
	for i, a := range c.In {
		m, ok := im.other[a.Value]
		if a.Kind != graph.TensorArg || !ok {
			continue
		}
		touched = true
		if m == nil {
			loose = true
			continue
		}
		c.In[i].Value = &graph.Value{Name: a.Value.Name, Meta: *m}
	}
	if !touched {
		return
	}
	var res []graph.Result
	if !loose {
		var err error
		if res, err = node.Op.Infer(&c); err != nil || len(res) != len(vals) {
			res = nil
		}
	}
	for i, v := range vals {
		switch {
		case res == nil:
			im.other[v] = nil
		case !slices.Equal(res[i].Meta().Shape, v.Meta.Shape):
			m := res[i].Meta()
			im.other[v] = &m
		}
	}
}

// sizes returns the shape of x with -1 for what is not known.
func (n *node) sizes(x *val) []int {
	if x.dynamic() {
		n.rank(x)
		return slices.Clone(x.outline.Sizes)
	}
	s := slices.Clone(x.meta().Shape)
	if x.v == nil {
		return s
	}
	m, ok := n.other[x.v]
	for i := range s {
		if ok && (m == nil || len(m.Shape) != len(s) || m.Shape[i] != s[i]) {
			s[i] = -1
		}
	}
	return s
}

// shape returns the sizes of x, which must be known.
func (n *node) shape(x *val) []int {
	s := n.sizes(x)
	if slices.Contains(s, -1) {
		n.failf("the shape of %q must be known before the graph runs: give the model's symbolic sizes (%s)", x.name,
			strings.Join(slices.Sorted(maps.Keys(n.g.Symbols)), ", "))
	}
	return s
}

// known1 is one size of x, which must be known.
func (n *node) known1(x *val, i int) int {
	s := n.sizes(x)
	if i >= len(s) || s[i] < 0 {
		n.failf("size %d of %q must be known before the graph runs: give the model's symbolic sizes (%s)", i, x.name,
			strings.Join(slices.Sorted(maps.Keys(n.g.Symbols)), ", "))
	}
	return s[i]
}

// dims returns the shape of x as a vector: known, known under two bindings, or computed
// when the graph runs.
func (n *node) dims(x *val) *val {
	if n.static(x) {
		return known(intTensor(x.meta().Shape...))
	}
	computed := func() *val { return n.emit("_shape_as_tensor", nil, x)[0].as(tensor.Int64, 1) }
	if sizes := x.outline.Sizes; x.dynamic() && sizes != nil {
		elements := slices.Clone(sizes)
		for i, s := range sizes {
			if s < 0 {
				elements[i] = unknownElement
			}
		}
		return n.withPartly([]*tensor.Tensor{intTensor(elements...)}, func() []*val { return []*val{computed()} })[0]
	}
	if m := n.other[x.v]; !x.dynamic() && m != nil {
		return &val{dual: &dual{intTensor(x.meta().Shape...), intTensor(m.Shape...), computed}}
	}
	return computed()
}

// foldDual folds an op under both bindings. It returns nil where that does not do.
func (n *node) foldDual(o *graph.Op, attrs graph.Attrs, operands []any) []*val {
	side := func(pick func(*dual) *tensor.Tensor) []*val {
		args := slices.Clone(operands)
		for i, a := range args {
			if x, ok := a.(*val); ok && x != nil && x.dual != nil {
				args[i] = known(pick(x.dual))
			}
		}
		return n.foldKnown(o, attrs, args)
	}
	as := side(func(d *dual) *tensor.Tensor { return d.a })
	bs := side(func(d *dual) *tensor.Tensor { return d.b })
	if as == nil || len(as) != len(bs) {
		return nil
	}
	var made []*val
	for i := range as {
		a, b := as[i].data, bs[i].data
		switch {
		case a == nil || b == nil || !slices.Equal(a.Shape, b.Shape):
			return nil
		case equal(a, b):
			continue
		}
		as[i] = &val{dual: &dual{a, b, func() *val {
			if made == nil {
				made = n.emit(o.Name, attrs, operands...)
			}
			return made[i]
		}}}
	}
	return as
}

// equal compares the elements of tensors of one shape and dtype.
func equal(a, b *tensor.Tensor) bool {
	row := func(t *tensor.Tensor) []byte { return t.CopyTo(tensor.New(t.DType, t.Shape...)).Storage().Bytes() }
	return bytes.Equal(row(a), row(b))
}

// reshapeDual reshapes x to sizes that are known under both bindings, without a value that
// is computed if it can: by one size that follows from the others, or by joining or
// cutting dimensions.
func (n *node) reshapeDual(x *val, d *dual) *val {
	a, b := ints(d.a), ints(d.b)
	own, other := x.meta().Shape, n.other[x.v]
	if x.v == nil || other == nil {
		m := x.meta()
		other = &m
	}
	sizes := slices.Clone(a)
	unknown := 0
	for i := range a {
		if a[i] != b[i] {
			sizes[i] = -1
			unknown++
		}
	}
	if unknown == 1 && !slices.Contains(a, -1) {
		return n.reshape(x, sizes...)
	}
	if x.dynamic() || len(other.Shape) != len(own) {
		return nil
	}
	front := 0
	for front < min(len(a), len(own)) && a[front] == own[front] && b[front] == other.Shape[front] {
		front++
	}
	back := 0
	for back < min(len(a), len(own))-front && a[len(a)-1-back] == own[len(own)-1-back] && b[len(b)-1-back] ==
		other.Shape[len(own)-1-back] {
		back++
	}
	from, to := len(own)-front-back, len(a)-front-back
	switch {
	case from > 1 && to == 1:
		return n.op("flatten", graph.Attrs{"start_dim": front, "end_dim": front + from - 1}, x)
	case from == 1 && to > 1 && count(sizes[front:front+to], -1) < 2:
		return n.op("unflatten", graph.Attrs{"dim": front, "sizes": sizes[front : front+to]}, x)
	case from == 0 && to == 0:
		return x
	}
	return nil
}

func count(list []int, x int) int {
	c := 0
	for _, y := range list {
		if y == x {
			c++
		}
	}
	return c
}

// expandDual expands x to sizes that are known under both bindings, if each size that is
// not the same is the operand's own.
func (n *node) expandDual(x *val, d *dual) *val {
	other := n.other[x.v]
	if x.v == nil || x.dynamic() || other == nil {
		return nil
	}
	a, errA := tensor.Broadcast(x.meta().Shape, ints(d.a))
	b, errB := tensor.Broadcast(other.Shape, ints(d.b))
	if errA != nil || errB != nil || len(a) != len(b) {
		return nil
	}
	own := x.meta().Shape
	for i := range a {
		at := i - (len(a) - len(own))
		switch {
		case a[i] == b[i]:
		case at >= 0 && own[at] == a[i] && other.Shape[at] == b[i]:
			a[i] = -1
		default:
			return nil
		}
	}
	return n.op("expand", graph.Attrs{"size": a}, x)
}

// numbers returns sizes of symbols as package graph takes them.
func numbers(sizes map[string]int) map[string]sym.Int {
	out := make(map[string]sym.Int, len(sizes))
	for name, n := range sizes {
		out[name] = sym.Of(n)
	}
	return out
}
