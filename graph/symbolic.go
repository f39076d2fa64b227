package graph

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Symbolic is a graph that is inferred for unknown sizes, with the conditions under which the inferred types are valid.
// An open symbol is a symbol whose size is unknown. For example, let x be an input of shape [n, 4], with the
// hint 8 of n:
//
//	y = flatten(x)          Type has the shape [4*n], and Meta the shape [32]
//	z = add(y, b), b [32]   node z needs the guard 4*n == 32, which fixes n to 8
type Symbolic struct {
	// Graph is a copy of the graph. Types of values ([Value.Type]) are expressions over the symbols of Env. [Value.Meta]
	// is the type for the sizes in Hints.
	Graph *Graph
	// Env has the open symbols, under the names of [Symbolic.Name].
	Env *sym.Env
	// Guards are the conditions under which the types are valid, in the order in which inference needed them.
	Guards []Guard
	// Hints has a size for each open symbol. Branches were decided for these sizes.
	Hints sym.Binding

	// IncompleteReason is the reason why [Graph.SymbolicForked] did not infer the graph for all sizes, or nil if it
	// did.
	IncompleteReason error

	fixedSymbols      map[string]bool // open symbols that guards fix to one size, the hint
	symbolicAttrNodes []*Node         // nodes whose attributes depend on symbols
	insideFork        bool            // inference runs in [sym.Fork], for a class of sizes; mergeClasses adds guards

	unbacked *unbacked // state of [Graph.Unbacked]; nil if another function made the Symbolic
}

// Guard is a condition on sizes under which inferred types are valid.
type Guard struct {
	Cond sym.Bool
	// Node is the node of Symbolic.Graph whose inference needs the condition; nil for a guard of an input.
	Node *Node
	// Value is the input that needs the condition; nil for a guard of a node.
	Value *Value
	// Binds lists the symbols that this guard fixes to one size, the hint, and that the earlier guards alone do not
	// fix.
	Binds []string
	// Refusal is the error of inference for sizes that do not satisfy the guard. It is set only by
	// [Graph.SymbolicForked].
	Refusal error
}

// Symbolic infers a copy of the graph in which sizes are unknown. The open symbols are the symbols in `hints`, and all
// other symbols without a given size. Symbols that are not in hints have their assumed sizes as hints
// ([Graph.Assumed]). If the bounds of symbols do not decide a branch of inference, the hints decide it, and the branch
// becomes a guard. For all sizes that satisfy the guards, the types are the types that [Graph.Bind] infers. There is
// one exception: if a value exceeds [tensor.MaxBytes] at some sizes, only Bind rejects these sizes.
//
// If inference rejects a node at the hints, Symbolic returns the error, and also the result with the types and guards
// of the earlier nodes.
func (g *Graph) Symbolic(hints map[string]int) (*Symbolic, error) {
	s, err := g.symbolic(hints)
	if err != nil {
		return nil, err
	}
	if err := s.setInputs(); err != nil {
		return s, err
	}
	return s, s.Graph.inlineAndInfer()
}

// symbolic returns a copy of the graph with open symbols, before inference.
func (g *Graph) symbolic(hints map[string]int) (*Symbolic, error) {
	s := &Symbolic{Env: sym.NewEnv(), Hints: sym.Binding{}, Graph: g.Clone(), fixedSymbols: map[string]bool{}}
	hints, err := g.SizesBySymbol(hints)
	if err != nil {
		return nil, err
	}
	copied := s.Graph
	copied.sizes, copied.symbolicState = map[string]sym.Int{}, s
	for _, name := range sorted.Keys(g.Symbols) {
		size, err := s.symbolSize(g, name, hints)
		if err != nil {
			return nil, err
		}
		copied.sizes[name] = size
	}
	for _, n := range copied.Nodes {
		if n.undecoded.dependOn(copied.sizes) {
			s.symbolicAttrNodes = append(s.symbolicAttrNodes, n)
		}
	}
	s.discardDecoded()
	return s, nil
}

// symbolSize returns the size of a symbol of g. It is a number if the size was given ([Graph.Bind]) and hints does not
// have the symbol. Otherwise it is a symbol of Env. The hint of this symbol is the first of these sizes that exists:
// the size in hints, the assumed size in g, or [Bounds].assumedSize.
func (s *Symbolic) symbolSize(g *Graph, name string, hints map[string]int) (sym.Int, error) {
	bounds := g.Symbols[name]
	hint, isOpen := hints[name]
	if !isOpen {
		hint, isOpen = g.assumed[name]
	}
	if !isOpen {
		if size, isBound := g.sizes[name]; isBound {
			return size, nil
		}
		hint = bounds.assumedSize()
	}
	maxSize := math.MaxInt
	if bounds.Max > 0 {
		maxSize = bounds.Max
	}
	if hint < bounds.Min || hint > maxSize {
		return sym.Int{}, fmt.Errorf("%s=%d is outside its bounds: %s", g.SymbolText(name), hint, bounds.text())
	}
	envName := s.Name(name)
	s.Hints[envName] = hint
	return s.Env.Symbol(envName, bounds.Min, maxSize, hint)
}

// discardDecoded discards the decoded attributes that depend on symbols. Inference then decodes them again, and records
// the guards of decoding for the node of the attribute.
func (s *Symbolic) discardDecoded() {
	for _, n := range s.symbolicAttrNodes {
		n.Attrs = nil
	}
}

// setInputs sets the types of the inputs, with guards that make these types valid.
func (s *Symbolic) setInputs() error {
	for _, v := range s.Graph.Inputs {
		if v.Dims == nil {
			continue
		}
		t, err := v.decl.Type(s.Graph.sizes)
		if err == nil {
			err = s.checkNonNegative(t)
		}
		if err != nil {
			return s.Graph.valueError(v, err)
		}
		v.Type, v.Meta = t, t.AtHints()
		s.recordGuards(Guard{Value: v})
	}
	return nil
}

// checkNonNegative returns an error if a size, a stride or the offset of a type is negative.
func (s *Symbolic) checkNonNegative(t tensor.Type) error {
	for dim, size := range t.Shape {
		if size.Lt(sym.Int{}).Holds() {
			return fmt.Errorf("negative size %v of dimension %d", size, dim)
		}
	}
	for dim, stride := range t.Strides {
		if stride.Lt(sym.Int{}).Holds() {
			return fmt.Errorf("negative stride %v of dimension %d", stride, dim)
		}
	}
	if t.Offset.Lt(sym.Int{}).Holds() {
		return fmt.Errorf("negative offset %v", t.Offset)
	}
	return nil
}

// recordGuards adds the new guards of Env to Guards, with the fields Node and Value of origin.
func (s *Symbolic) recordGuards(origin Guard) {
	if s.insideFork {
		return
	}
	guards := s.Env.Guards()
	if len(guards) == len(s.Guards) {
		return
	}
	first := len(s.Guards)
	for _, cond := range guards[first:] {
		origin.Cond = cond
		s.Guards = append(s.Guards, origin)
	}
	s.recordFixedSymbols(s.Guards[first:])
}

// recordFixedSymbols finds the symbols that new guards fix to their hints. It adds the name of such a symbol to Binds
// of the guard "symbol = hint". If several guards together fix the symbol, it adds the name to Binds of the last new
// guard.
func (s *Symbolic) recordFixedSymbols(newGuards []Guard) {
	for _, name := range sorted.Keys(s.Graph.sizes) {
		size := s.Graph.sizes[name]
		if _, isNumber := size.Known(); isNumber || s.fixedSymbols[name] {
			continue
		}
		cond := size.Eq(sym.Of(size.Hint()))
		if isFixed, known := cond.Known(); isFixed && known {
			i := slices.IndexFunc(newGuards, func(g Guard) bool { return g.Cond.Same(cond) })
			if i < 0 {
				i = len(newGuards) - 1
			}
			newGuards[i].Binds = append(newGuards[i].Binds, name)
			s.fixedSymbols[name] = true
		}
	}
}

// maxPaths is the maximum number of paths through the branches of one node's inference that inferAllPaths explores. (A
// class is a path through the inference of all nodes.)
const maxPaths = 8

// inferAllPaths infers a node. [sym.Join] follows both paths of a branch, and compares each result with the result at
// the hints. Thus branches that do not affect the results leave no guards.
func (s *Symbolic) inferAllPaths(n *Node) ([]Result, error) {
	return sym.Join(s.Env, maxPaths, func() ([]Result, error) {
		call := &Call{In: n.In, Attrs: n.Attrs, Impl: n.Impl, Walk: n.Walk,
			metaFixesSizes: true} // a size that the op reads as a number is fixed to its hint by a guard
		return n.Op.Infer(call)
	}, func(first, other []Result, _ sym.Bool) bool { return slices.EqualFunc(first, other, sameResult) })
}

// sameResult reports whether two results are equal for all sizes: the same type, and the same operand as alias.
func sameResult(a, b Result) bool {
	return !a.Dynamic && !b.Dynamic && a.Alias == b.Alias && sameType(a.Type, b.Type)
}

// sameType reports whether two types are equal for all sizes.
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

// SymbolicForked infers the graph as [Graph.Symbolic] does, for up to 16 classes of sizes at once. A class contains the
// sizes for which inference takes the same branches. If the bounds of symbols do not decide a branch, inference follows
// both paths. A size, stride or offset that differs between classes is a [sym.Where]. For example, let n have the hint
// 4, and let a node infer the size 8 if n < 8, and otherwise the size n. The classes are n < 8 and n >= 8, and the size
// becomes Where(n < 8, 8, n).
//
// Guards exclude the classes that inference rejects. They also exclude a class if a value's rank, dtype, alias or
// [Value.Dynamic] differs from the class of the hints. [Guard.Refusal] has the reason. If there are more than 16
// classes, or if control flow depends on sizes, the graph is inferred only for the class of the hints, and
// [Symbolic.IncompleteReason] has the reason.
func (g *Graph) SymbolicForked(hints map[string]int) (*Symbolic, error) {
	if i := slices.IndexFunc(g.Nodes, (*Node).mustInline); i >= 0 {
		return g.incompleteSymbolic(hints, fmt.Errorf(
			"sizes decide which branch of node %q runs, or how often its body runs", g.Nodes[i].Name))
	}
	s, err := g.symbolic(hints)
	if err != nil {
		return nil, err
	}
	s.insideFork = true
	cases, err := sym.Fork(s.Env, maxCases, s.inferCase)
	switch {
	case err != nil:
		return g.incompleteSymbolic(hints, fmt.Errorf("more than %d classes of sizes: %w", maxCases, err))
	case len(cases) == 0 || cases[0].Value.err != nil: // inference rejects the hints: Symbolic returns the error
		return g.Symbolic(hints)
	}
	s.insideFork = false
	s.mergeClasses(cases)
	return s, nil
}

// incompleteSymbolic returns the result of [Graph.Symbolic], with a reason why the graph is not inferred for all sizes.
func (g *Graph) incompleteSymbolic(hints map[string]int, reason error) (*Symbolic, error) {
	s, err := g.Symbolic(hints)
	if s != nil {
		s.IncompleteReason = reason
	}
	return s, err
}

// maxCases is the maximum number of classes of sizes for which a graph is inferred at once.
const maxCases = 16

// classResult is the result of inference for one class of sizes, a [sym.Case]. values are in the order of
// [Graph.Values].
type classResult struct {
	values []classValue
	err    error // the reason why inference rejects the class; nil if inference succeeds
	node   *Node // the node of err
}

// classValue has the inferred fields of a value.
type classValue struct {
	valueType tensor.Type
	meta      tensor.Meta
	alias     *Value
	isDynamic bool
}

// inferCase infers the graph for one class of sizes: sym.Fork calls it for each combination of branches.
func (s *Symbolic) inferCase() (result classResult, err error) {
	s.discardDecoded()
	if err := s.setInputs(); err != nil {
		return classResult{err: err}, nil
	}
	var state inference
	var current *Node
	defer func() {
		// If an op reads a size as a number, the size is fixed to its hint. If the class excludes this hint, inference
		// of the node panics with ErrNumber.
		if panicked := recover(); panicked == any(sym.ErrNumber) && current != nil {
			result = classResult{err: s.Graph.NodeError(current, sym.ErrNumber), node: current}
		} else if panicked != nil {
			panic(panicked)
		}
	}()
	for _, current = range s.Graph.Nodes {
		if err := current.infer(&state); err != nil {
			return classResult{err: s.Graph.NodeError(current, err), node: current}, nil
		}
	}
	s.Graph.Values(func(v *Value) {
		result.values = append(result.values, classValue{v.Type, v.Meta, v.Alias, v.Dynamic})
	})
	return result, nil
}

// mergeClasses sets the types of the values. The types hold for the first class, which contains the hints, and for the
// classes whose values differ from it only in sizes, strides and offsets. Guards exclude all other classes.
func (s *Symbolic) mergeClasses(cases []sym.Case[classResult]) {
	first := &cases[0].Value
	accepted := cases[:1]
	for _, c := range cases[1:] {
		err := c.Value.err
		switch {
		case c.Err != nil:
			err = c.Err
		case err == nil:
			err = first.checkMergeable(&c.Value)
		}
		if err != nil {
			s.Guards = append(s.Guards, Guard{Cond: c.If.Not(), Node: c.Value.node, Refusal: err})
		} else {
			accepted = append(accepted, c)
		}
	}
	i := 0
	s.Graph.Values(func(v *Value) {
		atHints := &first.values[i]
		v.Type, v.Meta, v.Alias, v.Dynamic = atHints.valueType, atHints.meta, atHints.alias, atHints.isDynamic
		if !atHints.isDynamic {
			v.Type = mergedType(accepted, i)
		}
		i++
	})
	for _, guard := range s.Guards {
		// Classes are disjoint, so there should be no error.
		if err := s.Env.Assume(guard.Cond); err != nil {
			s.IncompleteReason = fmt.Errorf("guards of classes contradict each other: %w", err)
		}
	}
}

// checkMergeable returns an error if the values of two classes differ in more than sizes, strides and offsets.
func (c *classResult) checkMergeable(other *classResult) error {
	for i := range c.values {
		a, b := &c.values[i], &other.values[i]
		switch {
		case a.isDynamic != b.isDynamic || a.valueType.DType != b.valueType.DType || a.alias != b.alias:
			return errors.New("a value has another dtype or alias there")
		case len(a.valueType.Shape) != len(b.valueType.Shape):
			return errors.New("a value has another number of dimensions there")
		}
	}
	return nil
}

// mergedType returns the type of value i as an expression that is valid for all classes.
func mergedType(cases []sym.Case[classResult], i int) tensor.Type {
	// Where(If of case 0, type of case 0, Where(If of case 1, ...)): the last case is the innermost alternative.
	last := len(cases) - 1
	t := cases[last].Value.values[i].valueType
	for k := last - 1; k >= 0; k-- {
		cond, caseType := cases[k].If, cases[k].Value.values[i].valueType
		if caseType.SameForm(t) {
			continue
		}
		merged := tensor.Type{DType: t.DType, Shape: make([]sym.Int, len(t.Shape)), Strides: make([]sym.Int, len(t.Shape)),
			Offset: sym.Where(cond, caseType.Offset, t.Offset)}
		for dim := range t.Shape {
			merged.Shape[dim] = sym.Where(cond, caseType.Shape[dim], t.Shape[dim])
			merged.Strides[dim] = sym.Where(cond, caseType.Strides[dim], t.Strides[dim])
		}
		t = merged
	}
	return t
}

// Holds reports whether all guards hold at the given sizes of the graph's symbols.
func (s *Symbolic) Holds(sizes map[string]int) bool {
	binding := s.Binding(sizes)
	return !slices.ContainsFunc(s.Guards, func(g Guard) bool {
		holds, err := g.Cond.At(binding)
		return err != nil || !holds
	})
}

// Binding returns sizes of the graph's symbols, keyed by the names of the symbols in Env.
func (s *Symbolic) Binding(sizes map[string]int) sym.Binding {
	binding := make(sym.Binding, len(sizes))
	for name, size := range sizes {
		binding[s.Name(name)] = size
	}
	return binding
}

// Name returns the name in Env of a symbol of the graph. It is the name in the graph if this is an identifier,
// otherwise a similar identifier.
func (s *Symbolic) Name(symbol string) string {
	if isLegalSymbol(symbol) {
		return symbol
	}
	name := strings.Map(func(r rune) rune {
		if r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return '_'
	}, symbol)
	if name == "" || !isLegalSymbol(name) {
		name = "s_" + name
	}
	if s.Graph == nil {
		return name
	}
	for _, isTaken := s.Graph.Symbols[name]; isTaken; _, isTaken = s.Graph.Symbols[name] {
		name += "_"
	}
	return name
}

// isLegalSymbol reports whether an Env accepts a name.
func isLegalSymbol(name string) bool {
	_, err := sym.NewEnv().Symbol(name, 0, 1, 0)
	return err == nil
}
