package graph

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Symbolic is a graph that was inferred for sizes that are not known.
type Symbolic struct {
	// Graph is a copy of the graph. Types of values ([Value.Type]) are expressions over the symbols of Env, and
	// [Value.Meta] is what they are at the hints, for which alone it holds.
	Graph *Graph
	// Env has the symbols that are open, by the names that [Symbolic.Name] gives.
	Env *sym.Env
	// Guards are the conditions under which the types hold, in the order in which inference asked for them.
	Guards []Guard
	// Hints are the sizes of the open symbols that decided where form and bounds did not.
	Hints sym.Binding

	// Cut says why the graph was not inferred for all sizes at once, where [Graph.SymbolicForked] was asked to.
	Cut error

	bound   map[string]bool // symbols that guards leave one size
	late    []*Node         // those whose attributes depend on symbols
	forking bool            // cases are examined; their guards are not guards of the whole

	unbacked *unbacked // names the sizes that data decide; nil but for [Graph.Unbacked]
}

// Guard is a condition that inference rests on.
type Guard struct {
	Cond sym.Bool
	// Node is the one whose inference asked for it, in the copy; nil for what an input needs.
	Node *Node
	// Value is the input that needs it; nil for a node's.
	Value *Value
	// Binds lists the symbols that have one size from here on, that of the hints.
	Binds []string
	// Refusal is what happens where the guard does not hold, as far as that was looked at: see
	// [Graph.SymbolicForked].
	Refusal error
}

// Symbolic infers a copy of the graph in which sizes stay unknown: those of the symbols that hints names, and of
// all others that were given no number ([Graph.Assumed]). Where form and bounds do not decide, inference uses
// the hints, which are what the graph assumes unless given, and records a guard. So at all sizes at which the
// guards hold the types are what [Graph.Bind] infers there. Limits of memory apart: sizes at which a value were
// larger than [tensor.MaxBytes] are rejected when they are bound.
//
// The error is that of the first node that is rejected at the hints; the types inferred before it, and their guards,
// are returned beside it.
func (g *Graph) Symbolic(hints map[string]int) (*Symbolic, error) {
	s, err := g.symbolic(hints)
	if err != nil {
		return nil, err
	}
	if err := s.inputs(); err != nil {
		return s, err
	}
	return s, s.Graph.settleAndInfer()
}

// symbolic returns a copy of the graph with open symbols, to be inferred.
func (g *Graph) symbolic(hints map[string]int) (*Symbolic, error) {
	s := &Symbolic{Env: sym.NewEnv(), Hints: sym.Binding{}, Graph: g.Clone(), bound: map[string]bool{}}
	hints, err := g.SizesNamed(hints)
	if err != nil {
		return nil, err
	}
	c := s.Graph
	c.sizes, c.open = map[string]sym.Int{}, s
	for _, name := range slices.Sorted(maps.Keys(g.Symbols)) {
		size, err := s.symbol(g, name, hints)
		if err != nil {
			return nil, err
		}
		c.sizes[name] = size
	}
	for _, n := range c.Nodes {
		if n.attrs.uses(c.sizes) {
			s.late = append(s.late, n)
		}
	}
	s.decodeLater()
	return s, nil
}

// decodeLater leaves attributes that depend on symbols to inference, so that what they bind is their nodes'.
func (s *Symbolic) decodeLater() {
	for _, n := range s.late {
		n.Attrs = nil
	}
}

// symbol returns the size of a symbol of g: a number where somebody gave one.
func (s *Symbolic) symbol(g *Graph, name string, hints map[string]int) (sym.Int, error) {
	b := g.Symbols[name]
	hint, open := hints[name]
	if !open {
		if hint, open = g.assumed[name]; !open {
			if n, bound := g.sizes[name]; bound {
				return n, nil
			}
			hint = b.assumed()
		}
	}
	hi := math.MaxInt
	if b.Max > 0 {
		hi = b.Max
	}
	if hint < b.Min || hint > hi {
		return sym.Int{}, fmt.Errorf("%s=%d is outside its bounds: min %d, max %d", g.SymbolText(name), hint, b.Min, b.Max)
	}
	inEnv := s.Name(name)
	s.Hints[inEnv] = hint
	return s.Env.Symbol(inEnv, b.Min, hi, hint)
}

// Name returns the name that a symbol of the graph has in the Env: its own, unless that is no identifier there.
func (s *Symbolic) Name(symbol string) string {
	if legalSymbol(symbol) {
		return symbol
	}
	name := strings.Map(func(r rune) rune {
		if r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return '_'
	}, symbol)
	if name == "" || !legalSymbol(name) {
		name = "s_" + name
	}
	if s.Graph == nil {
		return name
	}
	for _, taken := s.Graph.Symbols[name]; taken; _, taken = s.Graph.Symbols[name] {
		name += "_"
	}
	return name
}

// legalSymbol reports whether an Env takes a name.
func legalSymbol(name string) bool {
	_, err := sym.NewEnv().Symbol(name, 0, 1, 0)
	return err == nil
}

// Binding returns sizes of the graph's symbols by their names in the Env.
func (s *Symbolic) Binding(sizes map[string]int) sym.Binding {
	b := make(sym.Binding, len(sizes))
	for name, n := range sizes {
		b[s.Name(name)] = n
	}
	return b
}

// Holds reports whether all guards hold at the given sizes of the graph's symbols.
func (s *Symbolic) Holds(sizes map[string]int) bool {
	at := s.Binding(sizes)
	return !slices.ContainsFunc(s.Guards, func(g Guard) bool {
		holds, err := g.Cond.At(at)
		return err != nil || !holds
	})
}

// inputs gives the inputs their types. What they need so that there are such values are guards.
func (s *Symbolic) inputs() error {
	for _, v := range s.Graph.Inputs {
		if v.Dims == nil {
			continue
		}
		t, err := v.decl.Type(s.Graph.sizes)
		if err == nil {
			err = s.mayBe(t)
		}
		if err != nil {
			return s.Graph.failValue(v, err)
		}
		v.Type, v.Meta = t, t.AtHints()
		s.record(Guard{Value: v})
	}
	return nil
}

// mayBe rejects sizes, strides or an offset that are negative.
func (s *Symbolic) mayBe(t tensor.Type) error {
	for d, size := range t.Shape {
		if size.Lt(sym.Int{}).Holds() {
			return fmt.Errorf("negative size %v of dimension %d", size, d)
		}
	}
	for d, stride := range t.Strides {
		if stride.Lt(sym.Int{}).Holds() {
			return fmt.Errorf("negative stride %v of dimension %d", stride, d)
		}
	}
	if t.Offset.Lt(sym.Int{}).Holds() {
		return fmt.Errorf("negative offset %v", t.Offset)
	}
	return nil
}

// maxJoined is the number of ways up to which the inference of a node goes them all.
const maxJoined = 8

// joined infers a node. Branches that make no difference to its results leave no guards.
func (s *Symbolic) joined(n *Node) ([]Result, error) {
	return sym.Join(s.Env, maxJoined, func() ([]Result, error) {
		c := &Call{In: n.In, Attrs: n.Attrs, Impl: n.Impl, Walk: n.Walk, binds: true}
		return n.Op.Infer(c)
	}, func(first, other []Result, _ sym.Bool) bool { return slices.EqualFunc(first, other, sameResult) })
}

// sameResult reports whether two results are known to be the same: of one type, and views of the same operand or both
// fresh memory.
func sameResult(a, b Result) bool {
	return !a.Dynamic && !b.Dynamic && a.Alias == b.Alias && sameType(a.Type, b.Type)
}

// sameType reports whether what is known makes two types the same.
func sameType(a, b tensor.Type) bool {
	if a.DType != b.DType {
		return false
	}
	for _, lists := range [][2][]sym.Int{{a.Shape, b.Shape}, {a.Strides, b.Strides}, {{a.Offset}, {b.Offset}}} {
		if holds, known := tensor.EqualSizes(lists[0], lists[1]).Known(); !known || !holds {
			return false
		}
	}
	return true
}

// record notes who asked for the guards that are new.
func (s *Symbolic) record(by Guard) {
	if s.forking {
		return
	}
	all := s.Env.Guards()
	if len(all) == len(s.Guards) {
		return
	}
	first := len(s.Guards)
	for _, cond := range all[first:] {
		by.Cond = cond
		s.Guards = append(s.Guards, by)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Graph.sizes)) {
		size := s.Graph.sizes[name]
		if _, number := size.Known(); number || s.bound[name] {
			continue
		}
		cond := size.Eq(sym.Of(size.Hint()))
		if fixed, known := cond.Known(); fixed && known {
			i := slices.IndexFunc(s.Guards[first:], func(g Guard) bool { return g.Cond.Same(cond) })
			if i < 0 {
				i = len(s.Guards) - first - 1
			}
			s.Guards[first+i].Binds = append(s.Guards[first+i].Binds, name)
			s.bound[name] = true
		}
	}
}

// maxCases is the number of classes of sizes up to which a graph is inferred for all of them.
const maxCases = 16

// SymbolicForked is [Graph.Symbolic] for all classes of sizes at once, up to 16: wherever form and bounds do not
// decide, both ways are gone. A size, stride or offset that is another in other classes is a [sym.Where]. Guards then
// exclude sizes that are rejected, for which [Guard.Refusal] has the reason, and those for which a value has another
// rank, dtype or alias than it has at the hints. Where there are more classes the graph is inferred for that of the
// hints alone, and [Symbolic.Cut] says so.
func (g *Graph) SymbolicForked(hints map[string]int) (*Symbolic, error) {
	if i := slices.IndexFunc(g.Nodes, (*Node).settles); i >= 0 {
		s, err := g.Symbolic(hints)
		if s != nil {
			s.Cut = fmt.Errorf("%q runs one of several graphs, or one several times, as sizes say", g.Nodes[i].Name)
		}
		return s, err
	}
	s, err := g.symbolic(hints)
	if err != nil {
		return nil, err
	}
	s.forking = true
	cases, err := sym.Fork(s.Env, maxCases, s.oneCase)
	if err != nil || len(cases) == 0 || cases[0].Value.err != nil {
		one, wrong := g.Symbolic(hints)
		if one != nil && err != nil {
			one.Cut = fmt.Errorf("more than %d classes of sizes: %w", maxCases, err)
		}
		return one, wrong
	}
	s.forking = false
	s.merge(cases)
	return s, nil
}

// oneClass is what inference says of the values of one class of sizes, in the order of [Graph.Values].
type oneClass struct {
	values []classValue
	err    error // why the class is rejected
	node   *Node
}

type classValue struct {
	t       tensor.Type
	m       tensor.Meta
	alias   *Value
	dynamic bool
}

// oneCase infers the graph on the way through its branches that the fork goes.
func (s *Symbolic) oneCase() (c oneClass, err error) {
	s.decodeLater()
	if err := s.inputs(); err != nil {
		return oneClass{err: err}, nil
	}
	var of inference
	var at *Node
	defer func() {
		if p := recover(); p == any(sym.ErrNumber) && at != nil {
			c = oneClass{err: s.Graph.Fail(at, sym.ErrNumber), node: at}
		} else if p != nil {
			panic(p)
		}
	}()
	for _, at = range s.Graph.Nodes {
		if err := at.infer(&of); err != nil {
			return oneClass{err: s.Graph.Fail(at, err), node: at}, nil
		}
	}
	s.Graph.Values(func(v *Value) { c.values = append(c.values, classValue{v.Type, v.Meta, v.Alias, v.Dynamic}) })
	return c, nil
}

// alike reports whether the values of two classes differ in sizes, strides and offsets only.
func (c *oneClass) alike(o *oneClass) error {
	for i := range c.values {
		a, b := &c.values[i], &o.values[i]
		switch {
		case a.dynamic != b.dynamic || a.t.DType != b.t.DType || a.alias != b.alias:
			return errors.New("a value is of another kind there")
		case len(a.t.Shape) != len(b.t.Shape):
			return errors.New("a value has another number of dimensions there")
		}
	}
	return nil
}

// merge gives the values the types of all classes that are like that of the hints, which is the first, and makes
// guards of what keeps the others out.
func (s *Symbolic) merge(cases []sym.Case[oneClass]) {
	first := &cases[0].Value
	kept := cases[:1]
	for _, c := range cases[1:] {
		err := c.Value.err
		switch {
		case c.Err != nil:
			err = c.Err
		case err == nil:
			err = first.alike(&c.Value)
		}
		if err != nil {
			s.Guards = append(s.Guards, Guard{Cond: c.If.Not(), Node: c.Value.node, Refusal: err})
		} else {
			kept = append(kept, c)
		}
	}
	i := 0
	s.Graph.Values(func(v *Value) {
		f := &first.values[i]
		v.Type, v.Meta, v.Alias, v.Dynamic = f.t, f.m, f.alias, f.dynamic
		if !f.dynamic {
			v.Type = mergedType(kept, i)
		}
		i++
	})
	for _, guard := range s.Guards {
		// A condition that form decides to hold is none, and one that contradicts another cannot be: cases are
		// disjoint.
		if err := s.Env.Assume(guard.Cond); err != nil {
			s.Cut = fmt.Errorf("guards of classes contradict each other: %w", err)
		}
	}
}

// mergedType returns the type of value i over all cases.
func mergedType(cases []sym.Case[oneClass], i int) tensor.Type {
	last := len(cases) - 1
	t := cases[last].Value.values[i].t
	for k := last - 1; k >= 0; k-- {
		cond, own := cases[k].If, cases[k].Value.values[i].t
		if own.SameForm(t) {
			continue
		}
		merged := tensor.Type{DType: t.DType, Shape: make([]sym.Int, len(t.Shape)), Strides: make([]sym.Int, len(t.Shape)),
			Offset: sym.Where(cond, own.Offset, t.Offset)}
		for d := range t.Shape {
			merged.Shape[d] = sym.Where(cond, own.Shape[d], t.Shape[d])
			merged.Strides[d] = sym.Where(cond, own.Strides[d], t.Strides[d])
		}
		t = merged
	}
	return t
}
