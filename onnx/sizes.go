package onnx

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Sizes that are not known when a model is read are symbols: those of its inputs, and one for each size that
// data decide. The graph is built for some sizes of the former, its hints, but nothing is decided by these: the
// shapes that converters see are expressions, and a shape of which inference says one thing for some sizes and
// another for others is an expression too, or a symbol of its own.

// hints are sizes to build the graph for. Networks are picky about sizes: images must be large enough, texts
// must not be too long, and some symbols must be equal. The i-th symbol has first+i*step.
var hints = []struct{ first, step int }{{2, 0}, {16, 0}, {224, 0}, {16, 1}, {224, 32}}

// bindHints makes the symbols of the model's inputs known to the graph and to the Env.
func (im *importer) bindHints(first, step int) error {
	im.g.Symbols = map[string]graph.Bounds{}
	im.hints = map[string]int{}
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
			for _, symbol := range symbolsOf(d) {
				if _, ok := im.hints[symbol]; ok {
					continue
				}
				n := first + len(im.hints)*step
				im.g.Symbols[symbol], im.hints[symbol] = im.model.bounds(symbol), n
				s, err := im.env.Symbol(symbol, 0, math.MaxInt, n)
				if err != nil {
					return fmt.Errorf("input %q: %w", v.Name, err)
				}
				im.symbols[symbol] = s
			}
		}
	}
	return im.g.BindOnly(im.hints)
}

// unknown returns the symbol of one more integer that data decide, which is at least least.
func (im *importer) unknown(least int) sym.Int {
	for {
		*im.unknowns++
		name := fmt.Sprint(dataPrefix, *im.unknowns)
		if _, taken := im.symbols[name]; !taken {
			s, _ := im.env.Symbol(name, least, math.MaxInt, 2) // the name is fresh
			return s
		}
	}
}

// written returns an expression as attributes have it: a number, or text over the symbols of the graph. ok is
// false where data decide what it is.
func (im *importer) written(a sym.Int) (attr any, ok bool) {
	if n, known := a.Known(); known {
		return n, true
	}
	text := a.String()
	im.texts[text] = true
	return text, im.uses(text)
}

// uses notes the symbols in an expression or a condition, and reports whether all are of the graph.
func (im *importer) uses(text string) bool {
	names := strings.FieldsFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if slices.ContainsFunc(names, im.ofData) {
		return false
	}
	for _, name := range names {
		if _, ok := im.symbols[name]; ok {
			im.used[name] = true
		}
	}
	return true
}

// ofData reports whether a name is that of a symbol that data decide.
func (im *importer) ofData(name string) bool {
	_, ours := im.symbols[name]
	return !ours && strings.HasPrefix(name, dataPrefix)
}

// dataPrefix begins the names of symbols that data decide.
const dataPrefix = "_u"

// bySymbols reports whether attributes hold expressions.
func (im *importer) bySymbols(attrs graph.Attrs) bool {
	is := func(x any) bool { text, ok := x.(string); return ok && im.texts[text] }
	for _, a := range attrs {
		if list, ok := a.([]any); is(a) || ok && slices.ContainsFunc(list, is) {
			return true
		}
	}
	return false
}

// shapeOf returns the sizes of x; nil where not even their number is known.
func (im *importer) shapeOf(x *val) []sym.Int {
	if x.v == nil || x.data != nil || x.elements != nil {
		return sym.Ints(x.meta().Shape...)
	}
	if s := im.shapes[x.v]; s != nil {
		return s
	}
	if !x.dynamic() {
		return sym.Ints(x.meta().Shape...)
	}
	if x.outline.Sizes == nil {
		return nil
	}
	s := make([]sym.Int, len(x.outline.Sizes))
	for i, n := range x.outline.Sizes {
		if s[i] = sym.Of(n); n < 0 {
			s[i] = im.unknown(0)
		}
	}
	im.shapes[x.v] = s
	return s
}

// sizes returns the shape of x with -1 for what is not a number.
func (n *node) sizes(x *val) []int {
	n.rank(x)
	return plainSizes(n.shapeOf(x))
}

// plainSizes puts -1 in place of what is not a number.
func plainSizes(shape []sym.Int) []int {
	list := make([]int, len(shape))
	for i, s := range shape {
		var ok bool
		if list[i], ok = s.Known(); !ok {
			list[i] = -1
		}
	}
	return list
}

// shape returns the sizes of x, which must be numbers.
func (n *node) shape(x *val) []int {
	s := n.sizes(x)
	if slices.Contains(s, -1) {
		n.failf("the shape of %q must be known before the graph runs: give the model's symbolic sizes (%s)", x.name,
			n.symbolNames())
	}
	return s
}

// symbolNames lists the symbols of the graph for errors.
func (n *node) symbolNames() string { return strings.Join(slices.Sorted(maps.Keys(n.g.Symbols)), ", ") }

// known1 is one size of x, which must be a number.
func (n *node) known1(x *val, i int) int {
	s := n.sizes(x)
	if i >= len(s) || s[i] < 0 {
		n.failf("size %d of %q must be known before the graph runs: give the model's symbolic sizes (%s)", i, x.name,
			n.symbolNames())
	}
	return s[i]
}

// static reports whether the shape of x is numbers: it depends on no symbol and no data.
func (im *importer) static(x *val) bool {
	return !x.dynamic() && !slices.ContainsFunc(im.shapeOf(x), func(s sym.Int) bool { _, ok := s.Known(); return !ok })
}

// dims returns the shape of x as a vector.
func (n *node) dims(x *val) *val {
	computed := func() *val { return n.emit("_shape_as_tensor", nil, x)[0].as(tensor.Int64, 1) }
	s := n.shapeOf(x)
	if s == nil {
		return computed()
	}
	list := make([]entry, len(s))
	for i := range s {
		list[i] = entry{n: s[i]}
	}
	return settled(&entries{dtype: tensor.Int64, shape: []int{len(s)}, list: list, make: computed})
}

// maxSize bounds expressions of sizes. A broadcast of unknown sizes compares both, so that without a bound expressions
// would grow with the number of nodes.
const maxSize = 24

// maxPaths bounds the ways through the inference of a node that are followed.
const maxPaths = 16

// inferShapes notes the shapes of a node's results where they depend on symbols: as its op infers them for all
// sizes that it takes. A size of which that says too little, or too much, is a symbol of its own, which the graph
// computes.
func (im *importer) inferShapes(vals []*graph.Value, attrs graph.Attrs) {
	node := vals[0].Node
	if node == nil || vals[0].Dynamic {
		return
	}
	types := make([]tensor.Type, len(node.In))
	open := im.bySymbols(attrs)
	for i, a := range node.In {
		types[i] = a.Type()
		if shape := im.shapes[a.Value]; a.Kind == graph.TensorArg && shape != nil {
			// How it lies is no matter: what is asked for are shapes.
			open, types[i] = true, tensor.NewType(types[i].DType, shape...)
		}
	}
	if !open {
		return
	}
	a := &answers{sizes: make([][]sym.Int, 0, 8)}
	cases, err := sym.Fork(im.env, maxPaths, func() ([]int, error) {
		res, err := node.InferFor(types, im.symbols)
		if err != nil {
			return nil, err
		}
		return a.enter(vals, res)
	})
	if slices.ContainsFunc(cases, func(c answer) bool { return errors.Is(c.Err, sym.ErrNumber) && !im.beyond(c.If) }) {
		err = sym.ErrNumber
	}
	cases = slices.DeleteFunc(cases, func(c answer) bool { return c.Err != nil }) // sizes that it refuses
	at := 0
	for _, v := range vals {
		shape := make([]sym.Int, v.Meta.Rank())
		for k := range shape {
			if shape[k] = sym.Of(-1); err == nil && len(cases) > 0 {
				shape[k] = a.merged(cases, at)
			}
			if shape[k].Same(sym.Of(-1)) {
				shape[k] = im.unknown(0)
			}
			at++
		}
		if !slices.Equal(plainSizes(shape), v.Meta.Shape) {
			im.shapes[v] = shape
		}
	}
}

// answers are, of each size of a node's results, the expressions that inference gives for some sizes or others.
type answers struct{ sizes [][]sym.Int }

// answer tells of each size which expression it is.
type answer = sym.Case[[]int]

var errRank = errors.New("the number of dimensions depends on sizes")

// enter returns which expressions results have. What is the same under the conditions of the moment is one: N is 1
// where N is 1.
func (a *answers) enter(vals []*graph.Value, res []graph.Result) ([]int, error) {
	var which []int
	for i, v := range vals {
		if len(res) != len(vals) || len(res[i].Type.Shape) != v.Meta.Rank() {
			return nil, errRank
		}
		for _, s := range res[i].Type.Shape {
			at := len(which)
			if at == len(a.sizes) {
				a.sizes = append(a.sizes, nil)
			}
			k := slices.IndexFunc(a.sizes[at], func(o sym.Int) bool { same, known := o.Eq(s).Known(); return same && known })
			if k < 0 {
				k = len(a.sizes[at])
				a.sizes[at] = append(a.sizes[at], s)
			}
			which = append(which, k)
		}
	}
	return which, nil
}

// merged returns a size for all sizes that there are cases for; -1 where an expression would be larger than what
// it is worth.
func (a *answers) merged(cases []answer, at int) sym.Int {
	last := cases[len(cases)-1].Value[at]
	size, distinct := a.sizes[at][last], 0
	for _, c := range slices.Backward(cases[:len(cases)-1]) {
		if c.Value[at] == last {
			continue
		}
		last = c.Value[at]
		if distinct++; distinct > 2 {
			return sym.Of(-1)
		}
		size = sym.Where(c.If, a.sizes[at][last], size)
	}
	if size.Size() > maxSize {
		return sym.Of(-1)
	}
	return size
}
