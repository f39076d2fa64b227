package tensor

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/contiguity"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/sym"
)

// Predicate is one of PyTorch's tests of the layout of a value, given its shape and strides. [Type.Condition] returns
// the test as a condition on sizes and strides. [Type.Holds] decides the test, and records guards: the conditions under
// which the decision is valid. [Meta.Holds] evaluates it for numbers.
type Predicate uint8

// The predicates. NoOverlap is the overlap test that PyTorch's backward of as_strided makes. If it holds, no two
// elements share memory. If it does not hold, elements may share memory. The Suggests predicates compare the result of
// [Meta.SuggestMemoryFormat] with a format. Names that end in Exactly mean exactMatch = true.
const (
	IsContiguous Predicate = iota
	IsChannelsLast
	IsChannelsLast3d
	StridesLikeChannelsLast
	StridesLikeChannelsLast3d
	IsNonOverlappingAndDense
	NoOverlap
	SuggestsContiguous
	SuggestsChannelsLast
	SuggestsChannelsLast3d
	SuggestsChannelsLastExactly
	SuggestsChannelsLast3dExactly
	numPredicates // the number of predicates
)

// Predicates returns all predicates.
func Predicates() []Predicate {
	all := make([]Predicate, numPredicates)
	for i := range all {
		all[i] = Predicate(i)
	}
	return all
}

// Valid reports whether p is one of the predicates.
func (p Predicate) Valid() bool { return p < numPredicates }

// String returns the name, such as "non_overlapping_and_dense".
func (p Predicate) String() string {
	if !p.Valid() {
		return fmt.Sprintf("predicate(%d)", uint8(p))
	}
	return contiguity.Predicates[p].Name
}

// Doc returns a sentence that describes the predicate.
func (p Predicate) Doc() string {
	if !p.Valid() {
		return ""
	}
	return contiguity.Predicates[p].Doc
}

// Rank returns the only rank of values for which p can hold, or 0 if p applies to all ranks.
func (p Predicate) Rank() int {
	if !p.Valid() {
		return 0
	}
	return contiguity.Predicates[p].Rank
}

// ParsePredicate returns the predicate of a name. The error lists all names.
func ParsePredicate(name string) (Predicate, error) {
	known := map[string]Predicate{}
	for _, p := range Predicates() {
		known[p.String()] = p
	}
	if p, ok := known[name]; ok {
		return p, nil
	}
	names := sorted.Keys(known)
	return 0, fmt.Errorf("unknown predicate %q: want one of %v%s", name, names,
		suggest.DidYouMean(suggest.Nearest(name, slices.Values(names))))
}

// Condition returns the condition under which p holds for t. The condition is a constant if sizes and strides decide p.
// Otherwise it is a formula over sizes and strides. The method records no guard, and assumes that sizes and strides are
// not negative. The condition of an invalid predicate is false. The method panics if shape and strides differ in
// length.
func (t Type) Condition(p Predicate) sym.Bool {
	t.mustMatchRanks()
	if !p.Valid() {
		return sym.BoolOf(false)
	}
	return contiguity.Predicates[p].Condition(t.Shape, t.Strides)
}

// Holds reports whether p holds for t. If the expressions of the sizes and their bounds do not decide p, Holds follows
// the branches of PyTorch's code and records a guard for each branch.
func (t Type) Holds(p Predicate) bool {
	if v, known := t.Condition(p).Known(); known {
		return v
	}
	return contiguity.Predicates[p].Branches(t.Shape, t.Strides)
}

// Holds reports whether p holds for m.
func (m Meta) Holds(p Predicate) bool {
	switch p {
	case IsContiguous:
		return m.IsContiguous()
	case IsChannelsLast:
		return m.IsChannelsLast()
	case IsChannelsLast3d:
		return m.IsChannelsLast3d()
	case StridesLikeChannelsLast:
		return m.StridesLikeChannelsLast()
	case StridesLikeChannelsLast3d:
		return m.StridesLikeChannelsLast3d()
	case IsNonOverlappingAndDense:
		return m.IsNonOverlappingAndDense()
	// The formats have the same order as these predicates.
	case SuggestsContiguous, SuggestsChannelsLast, SuggestsChannelsLast3d:
		const exactMatch = false
		return m.SuggestMemoryFormat(exactMatch) == Contiguous+MemoryFormat(p-SuggestsContiguous)
	case SuggestsChannelsLastExactly, SuggestsChannelsLast3dExactly:
		const exactMatch = true
		return m.SuggestMemoryFormat(exactMatch) == ChannelsLast+MemoryFormat(p-SuggestsChannelsLastExactly)
	}
	holds, _ := m.Type().Condition(p).Known() // NoOverlap; an invalid predicate is false
	return holds
}
