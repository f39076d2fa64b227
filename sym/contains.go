package sym

import "slices"

// This file searches for an atom in expressions. An expr is a constant plus terms, a term is a coefficient times atoms,
// and an atom is a symbol or a function of expressions. For example, x occurs in the atom Max(1, x//2). Expressions
// share parts, so that the text of an expression may be exponentially longer than the expression in memory.

// contains reports whether b occurs in a.
func (a *atom) contains(b *atom) bool { return (&search{target: b}).inAtom(a) }

// search looks for an atom, the target, in an expression. It visits each large part only once, even if several
// expressions share the part.
type search struct {
	target       *atom
	visitedParts map[any]bool
}

// markVisited marks a part, an atom or a condition, as searched, and reports whether it was searched before.
func (s *search) markVisited(part any) bool {
	if s.visitedParts == nil {
		s.visitedParts = map[any]bool{}
	}
	wasVisited := s.visitedParts[part]
	s.visitedParts[part] = true
	return wasVisited
}

// inAtom reports whether the target occurs in a.
func (s *search) inAtom(a *atom) bool {
	if a.id <= s.target.id || a.kind == kindSymbol {
		return a == s.target // the parts of an atom have lower ids
	}
	if a.size > maxUnmemoizedSize && s.markVisited(a) {
		return false
	}
	return a.cond != nil && s.inCond(a.cond) || slices.ContainsFunc(a.args, s.inExpr)
}

// inExpr reports whether the target occurs in e.
func (s *search) inExpr(e *expr) bool {
	return slices.ContainsFunc(e.terms, func(t term) bool { return slices.ContainsFunc(t.atoms, s.inAtom) })
}

// inCond reports whether the target occurs in c.
func (s *search) inCond(c *cond) bool {
	if c.size > maxUnmemoizedSize && c.isJunction() && s.markVisited(c) {
		return false
	}
	return c.difference != nil && s.inExpr(c.difference) || slices.ContainsFunc(c.args, s.inCond)
}

// maxUnmemoizedSize is the size above which results for shared parts are memoized. Smaller parts are computed again.
const maxUnmemoizedSize = 32
