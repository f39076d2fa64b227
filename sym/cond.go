package sym

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync/atomic"
)

// This file builds conditions in a canonical form. An expr is a constant plus terms, a term is a coefficient times
// atoms, and an atom is a symbol or a function of expressions. A fact is a condition that is known to be true, such as
// a recorded guard.
//
// The canonical form of a comparison is a relation of a difference d to 0, without common divisors. For example, 2*x =
// 6, x = 3 and 3 = x are all the condition x - 3 = 0; x < y and x+1 <= y are y - x - 1 >= 0. A comparison whose truth
// follows from the bounds of the symbols is no condition, but true or false.

// condKind is the kind of a condition.
type condKind uint8

// The kinds of conditions: d = 0, d != 0, d >= 0, conjunctions and disjunctions.
const (
	condEq condKind = iota
	condNe
	condGe
	condAnd
	condOr
)

// cond is a condition whose truth is not known from its form and the bounds of symbols. Equal conditions of an Env are
// the same cond.
type cond struct {
	env         *Env
	kind        condKind
	difference  *expr   // the d of a relation
	args        []*cond // the operands of condAnd and condOr, sorted
	id          int     // number of the condition in its Env
	hint        bool    // the truth at the hints of symbols
	negation    *cond
	left, right *expr        // for display: the two sides of a relation as first written; nil for other conditions
	relation    string       // for display: the name of the relation between the sides, such as "Lt"
	size        int          // number of symbols, functions and numbers; see compareConds
	text        atomic.Value // the result of String, once it is known

	isFact bool // the current facts contain the condition
}

// isJunction reports whether c is a conjunction or a disjunction, and not a relation.
func (c *cond) isJunction() bool { return c.kind == condAnd || c.kind == condOr }

// The slow paths of comparisons are separate functions, so that the compiler can inline the fast paths, which call
// them. The slow paths are not inlined, to save compile time: they have many callers, none of them hot. At least one
// operand is an expression or a condition.

// eq returns the condition a = b.
//
//go:noinline
func eq(a, b Int) Bool {
	env := envOf(a, b)
	x, y := env.exprOf(a), env.exprOf(b)
	if len(x.terms) == 0 { // a number is the right side
		x, y = y, x
	}
	return env.equal(x, y)
}

// ne returns the condition a != b.
//
//go:noinline
func ne(a, b Int) Bool { return eq(a, b).Not() }

// equal returns the condition x = y.
func (env *Env) equal(x, y *expr) Bool {
	difference := env.addMultiple(x, y, -1) // x - y
	if len(difference.terms) == 0 {
		return Bool{truth: difference.constant == 0}
	}
	defer env.withFacts(false)() // the form must not depend on recorded facts
	divisor := difference.gcd()
	if difference.constant%divisor != 0 { // the terms sum to a multiple of divisor, but -constant is none
		return Bool{}
	}
	if difference.terms[0].coeff < 0 { // a positive first coefficient makes d = 0 and -d = 0 the same condition
		divisor = -divisor
	}
	reduced := env.zeroForm(env.dividedBy(difference, divisor, difference.constant/divisor))
	if b, ok := env.extremeEquals(reduced); ok {
		return b
	}
	if existing := env.conds[relationKey(condEq, reduced)]; existing != nil {
		return Bool{truth: existing.hint, cond: existing}
	}
	if truth, known := env.cachedIsZero(reduced); known {
		return Bool{truth: truth}
	}
	// The condition is displayed with its sides as written if it was not simplified and no terms cancel. A negation is
	// not a simplification.
	isSimplified := reduced != difference && reduced != env.addMultiple(env.constant(0), difference, -1)
	termsCancel := len(x.terms)+len(y.terms) > len(difference.terms)
	if isSimplified || termsCancel {
		x, y = env.splitEquation(reduced)
	}
	c := env.relation(condEq, reduced, "Eq", x, y)
	return Bool{truth: c.hint, cond: c}
}

// cachedTruth is 1 for true, -1 for false, and 0 for unknown.
type cachedTruth int8

// cacheTruth returns a truth for a cache.
func cacheTruth(truth bool) cachedTruth {
	if truth {
		return 1
	}
	return -1
}

// known returns the cached truth, and whether it is known.
func (cached cachedTruth) known() (truth, known bool) { return cached > 0, cached != 0 }

// cachedIsZero is isZero with a cache in e. Facts must not be in use.
func (env *Env) cachedIsZero(e *expr) (truth, known bool) {
	if truth, known = e.zero.known(); known {
		return truth, known
	}
	if truth, known = env.isZero(e); known {
		e.zero = cacheTruth(truth)
	}
	return truth, known
}

// cachedIsNonNegative is isNonNegative with a cache in e. Facts must not be in use.
func (env *Env) cachedIsNonNegative(e *expr) (truth, known bool) {
	if truth, known = e.nonNegative.known(); known {
		return truth, known
	}
	if truth, known = env.isNonNegative(e); known {
		e.nonNegative = cacheTruth(truth)
	}
	return truth, known
}

// zeroForm returns an expression that is 0 if and only if e is 0. It removes common factors that cannot be 0 and, in a
// single product, replaces powers by their base. For example, x*y - 2*x becomes y - 2 for x >= 1, and x*x becomes x.
func (env *Env) zeroForm(e *expr) *expr {
	if e.constant != 0 {
		return e
	}
	factors := e.terms[0].atoms
	if len(e.terms) > 1 {
		factors = e.commonFactors()
	}
	var dropped []*atom
	for i, a := range factors {
		isNonZero := a.lo > 0 || a.hi < 0
		isRepeated := len(e.terms) == 1 && i > 0 && factors[i-1] == a // equal factors are adjacent
		if isNonZero || isRepeated {
			dropped = append(dropped, a)
		}
	}
	if len(dropped) == len(e.terms[0].atoms) { // no atom of the first term would remain
		return e
	}
	return env.divideTerms(e, dropped)
}

// extremeEquals rewrites n = 0 in two cases. In the first case, n = 0 states that a Max or Min equals one of its
// operands (see isExtremeOperand). In the second case, n = 0 states that a Max or Min of a number and expressions
// equals a number. For example, Max(x, y) = x becomes y <= x, and Max(1, x) = 4 becomes x = 4. ok is false if n = 0 has
// another form.
func (env *Env) extremeEquals(n *expr) (condition Bool, ok bool) {
	for _, t := range n.terms {
		isPlainTerm := len(t.atoms) == 1 && (t.coeff == 1 || t.coeff == -1)
		if !isPlainTerm || !t.atoms[0].isExtreme() {
			continue
		}
		extreme := t.atoms[0]
		// The coefficient of extreme in n is 1 or -1, so n = 0 states extreme = extreme - coeff*n = candidate.
		candidate := env.addMultiple(extreme.asExpr, n, -t.coeff)
		if slices.Contains(extreme.args, candidate) {
			return extreme.isExtremeOperand(candidate), true
		}
		if len(candidate.terms) > 0 || len(extreme.args[0].terms) > 0 {
			continue
		}
		// n = 0 states Max(c, ...) = m with numbers c and m. If c > m, the statement is false; otherwise c can be
		// dropped. For a Min, the relations are reversed.
		m, c := candidate.constant, extreme.args[0].constant
		if (m < c) == (extreme.kind == kindMax) {
			return Bool{}, true
		}
		return env.extreme(extreme.kind, extreme.args[1:]...).int().Eq(candidate.int()), true
	}
	return Bool{}, false
}

// isExtremeOperand returns the condition that a Max (Min) equals the given operand: no other operand is greater (less).
func (a *atom) isExtremeOperand(candidate *expr) Bool {
	condition := Bool{truth: true}
	for _, operand := range a.args {
		switch {
		case operand == candidate:
		case a.kind == kindMax:
			condition = condition.And(operand.int().Le(candidate.int()))
		default:
			condition = condition.And(candidate.int().Le(operand.int()))
		}
	}
	return condition
}

// splitEquation returns x and y such that x = y is equivalent to n = 0. x has the positive terms of n.
func (env *Env) splitEquation(n *expr) (x, y *expr) {
	var left, right []term
	for _, t := range n.terms {
		if t.coeff > 0 {
			left = append(left, t)
		} else {
			right = append(right, term{-t.coeff, t.atoms})
		}
	}
	return env.sum(left, 0), env.sum(right, -n.constant)
}

// lt returns the condition a < b.
//
//go:noinline
func lt(a, b Int) Bool {
	env := envOf(a, b)
	x, y := env.exprOf(a), env.exprOf(b)
	return env.atLeast(env.strictDifference(x, y), x, y, "Lt")
}

// le returns the condition a <= b.
//
//go:noinline
func le(a, b Int) Bool {
	env := envOf(a, b)
	x, y := env.exprOf(a), env.exprOf(b)
	return env.atLeast(env.addMultiple(y, x, -1), x, y, "Le")
}

// strictDifference returns y - x - 1, which is not negative if and only if x < y.
func (env *Env) strictDifference(x, y *expr) *expr {
	return env.addMultiple(env.addMultiple(y, x, -1), env.constant(1), -1)
}

// atLeast returns the condition difference >= 0, which is displayed as relation(x, y).
func (env *Env) atLeast(difference, x, y *expr, relation string) Bool {
	if len(difference.terms) == 0 {
		return Bool{truth: difference.constant >= 0}
	}
	defer env.withFacts(false)() // the form must not depend on recorded facts
	reduced := difference
	if divisor := difference.gcd(); divisor > 1 {
		// For integers, divisor*d + c >= 0 is equivalent to d + floor(c/divisor) >= 0.
		reduced = env.dividedBy(difference, divisor, floorDiv(difference.constant, divisor))
	}
	if quotient := env.dropPositiveFactors(reduced); quotient != reduced {
		// reduced.constant is 0 or -1, so that quotient is x - y (y <= x) or x - y - 1 (y < x).
		x, y = env.splitEquation(env.addMultiple(quotient, env.constant(reduced.constant), -1))
		relation = "Le"
		if reduced.constant == -1 {
			relation = "Lt"
		}
		return env.atLeast(quotient, y, x, relation)
	}
	if existing := env.conds[relationKey(condGe, reduced)]; existing != nil {
		return Bool{truth: existing.hint, cond: existing}
	}
	if truth, known := env.cachedIsNonNegative(reduced); known {
		return Bool{truth: truth}
	}
	if b, ok := env.extremeAtLeast(reduced); ok {
		return b
	}
	if b, ok := env.operandAtLeast(reduced); ok {
		return b
	}
	c := env.relation(condGe, reduced, relation, x, y)
	return Bool{truth: c.hint, cond: c}
}

// dropPositiveFactors simplifies the condition e >= 0. Let e = p*q + c, where p is the product of the positive factors
// that all terms share. For c = 0 and c = -1, the condition is equivalent to q + c >= 0, and dropPositiveFactors
// returns q + c. For other constants c it is not, and dropPositiveFactors returns e. It also returns e if there are no
// such factors, or if e has a single term and all its factors are positive.
func (env *Env) dropPositiveFactors(e *expr) *expr {
	if e.constant != 0 && e.constant != -1 {
		return e
	}
	factors := e.terms[0].atoms
	if len(e.terms) > 1 {
		factors = e.commonFactors()
	}
	dropped := slices.DeleteFunc(slices.Clone(factors), func(a *atom) bool { return a.lo <= 0 })
	if len(dropped) == 0 || len(e.terms) == 1 && len(dropped) == len(factors) {
		return e
	}
	return env.addMultiple(env.divideTerms(e, dropped), env.constant(e.constant), 1)
}

// extremeAtLeast rewrites n >= 0 for n = c + k*Max(number, x) with an expression x, or the same with Min. If the number
// decides the condition, the result is true or false. Otherwise the result is a condition on x. For example, Max(4, x)
// - 2 >= 0 is true, and 8 - Max(4, x) >= 0 becomes 8 - x >= 0.
func (env *Env) extremeAtLeast(n *expr) (condition Bool, ok bool) {
	multiple := n.terms[0]
	extreme := multiple.atoms[0]
	isMultipleOfExtreme := len(n.terms) == 1 && len(multiple.atoms) == 1 && extreme.isExtreme()
	if !isMultipleOfExtreme || len(extreme.args) > 2 || len(extreme.args[0].terms) > 0 {
		return Bool{}, false
	}
	// n = c + k*Max(number, x). Let b = c + k*number, the numberCase. For k > 0, n >= b: if b >= 0, the condition is true.
	// For k < 0, n <= b: if b < 0, the condition is false. Otherwise it is equivalent to c + k*x >= 0. A Min reverses the
	// signs of k.
	numberCase := env.addMultiple(env.constant(n.constant), extreme.args[0], multiple.coeff)
	switch truthIfDecided := (multiple.coeff > 0) == (extreme.kind == kindMax); {
	case len(numberCase.terms) > 0: // the number overflows an int
		return Bool{}, false
	case (numberCase.constant >= 0) == truthIfDecided:
		return Bool{truth: truthIfDecided}, true
	}
	return Int{}.Le(env.addMultiple(env.constant(n.constant), extreme.args[1], multiple.coeff).int()), true
}

// operandAtLeast rewrites n >= 0 for n = e - Max(x, y) or n = e + Max(x, y) if one of e - x >= 0 and e - y >= 0 is
// decided, and likewise for Min: the condition is the other one, or decided, too. For example, x - Max(x, y) >= 0 becomes
// y <= x.
func (env *Env) operandAtLeast(n *expr) (condition Bool, ok bool) {
	for _, t := range n.terms {
		if len(t.atoms) != 1 || t.coeff != 1 && t.coeff != -1 || !t.atoms[0].isExtreme() || len(t.atoms[0].args) != 2 {
			continue
		}
		extreme := t.atoms[0]
		needsBoth := (t.coeff < 0) == (extreme.kind == kindMax)
		rest := env.addMultiple(n, extreme.asExpr, -t.coeff)
		for i, operand := range extreme.args {
			difference := env.addMultiple(rest, operand, t.coeff)
			truth := difference.constant >= 0
			if len(difference.terms) > 0 {
				var known bool
				if truth, known = env.cachedIsNonNegative(difference); !known {
					continue
				}
			}
			if truth != needsBoth {
				return Bool{truth: truth}, true
			}
			other := env.addMultiple(rest, extreme.args[1-i], t.coeff)
			switch {
			case other.constant > 0:
				return Int{}.Le(other.int()), true
			case other.constant == 0:
				greater, less := env.splitEquation(other)
				return less.int().Le(greater.int()), true
			}
			greater, less := env.splitEquation(env.addMultiple(other, env.constant(1), 1))
			return less.int().Lt(greater.int()), true
		}
	}
	return Bool{}, false
}

// isExtreme reports whether an atom is a Max or a Min.
func (a *atom) isExtreme() bool { return a.kind == kindMax || a.kind == kindMin }

// relationKey returns the key of a relation in Env.conds.
func relationKey(kind condKind, difference *expr) string {
	var buffer [12]byte
	return string(binary.AppendVarint(append(buffer[:0], byte(kind)), int64(difference.id)))
}

// relation returns the unique relation of a kind on a difference. A new relation is displayed as relation(x, y).
func (env *Env) relation(kind condKind, difference *expr, relation string, x, y *expr) *cond {
	key := relationKey(kind, difference)
	if existing := env.conds[key]; existing != nil {
		return existing
	}
	created := &cond{env: env, kind: kind, difference: difference, id: len(env.conds), left: x, right: y,
		relation: relation, size: satAdd(x.size, y.size)}
	switch kind {
	case condEq:
		created.hint = difference.hint == 0
	case condNe:
		created.hint = difference.hint != 0
	default:
		created.hint = difference.hint >= 0
	}
	if difference.hint == math.MinInt || difference.hint == math.MaxInt { // saturated, perhaps wrong: evaluate exactly
		hints := Binding{}
		for name, s := range env.symbols {
			hints[name] = s.Hint()
		}
		created.hint, _ = (&valuation{binding: hints}).cond(created)
	}
	env.conds[key] = created
	return created
}

// and returns the conjunction of a and b.
//
//go:noinline
func and(a, b Bool) Bool { return junction(condAnd, a, b) }

// or returns the disjunction of a and b.
//
//go:noinline
func or(a, b Bool) Bool { return junction(condOr, a, b) }

// junction returns the conjunction or the disjunction of two operands. At least one operand is a condition.
func junction(kind condKind, a, b Bool) Bool {
	hint := a.truth && b.truth
	if kind == condOr {
		hint = a.truth || b.truth
	}
	var parts []*cond
	for _, operand := range []Bool{a, b} {
		switch {
		case operand.cond == nil && operand.truth == (kind == condOr): // the operand decides
			return operand
		case operand.cond == nil: // the operand has no effect
		case operand.cond.kind == kind:
			parts = append(parts, operand.cond.args...)
		default:
			parts = append(parts, operand.cond)
		}
	}
	env := parts[0].env
	for _, part := range parts {
		if part.env != env {
			panic("sym: conditions of different Envs")
		}
		if slices.Contains(parts, part.not()) {
			return Bool{truth: kind == condOr}
		}
	}
	return Bool{truth: hint, cond: env.junctionOf(kind, parts)}
}

// not returns the negation. De Morgan's laws give the negation of a conjunction or disjunction.
func (c *cond) not() *cond {
	if c.negation != nil {
		return c.negation
	}
	env := c.env
	switch c.kind {
	case condEq:
		c.negation = env.relation(condNe, c.difference, "Ne", c.left, c.right)
	case condNe:
		c.negation = env.relation(condEq, c.difference, "Eq", c.left, c.right)
	case condGe:
		// The negation of d >= 0 is -d - 1 >= 0.
		difference, relation := env.strictDifference(c.difference, env.constant(0)), "Lt"
		if c.relation == "Lt" {
			relation = "Le"
		}
		c.negation = env.relation(condGe, difference, relation, c.right, c.left)
	default:
		parts := make([]*cond, len(c.args))
		for i, part := range c.args {
			parts[i] = part.not()
		}
		slices.SortFunc(parts, compareConds)
		negatedKind := condAnd
		if c.kind == condAnd {
			negatedKind = condOr
		}
		c.negation = env.internJunction(negatedKind, parts)
	}
	c.negation.negation = c
	return c.negation
}

// junctionOf returns the conjunction or disjunction of at least one part, in any order, with or without
// duplicates.
func (env *Env) junctionOf(kind condKind, parts []*cond) *cond {
	slices.SortFunc(parts, compareConds)
	parts = absorb(slices.Compact(parts))
	if len(parts) == 1 {
		return parts[0]
	}
	return env.internJunction(kind, parts)
}

// absorb drops redundant parts: p & (p | q) is p, and p | (p & q) is p.
func absorb(parts []*cond) []*cond {
	return slices.DeleteFunc(slices.Clone(parts), func(c *cond) bool {
		return c.isJunction() && slices.ContainsFunc(parts, func(p *cond) bool { return slices.Contains(c.args, p) })
	})
}

// maxCompared is the largest size of conditions that are ordered by their text. Printing larger conditions takes too
// long.
const maxCompared = 1 << 10

// compareConds orders conditions by size. Conditions of equal size are ordered by their text if the size is at most
// maxCompared, and by id otherwise.
func compareConds(a, b *cond) int {
	if a.size != b.size {
		return a.size - b.size
	}
	if a.size <= maxCompared {
		if order := strings.Compare(a.String(), b.String()); order != 0 {
			return order
		}
	}
	return a.id - b.id
}

// internJunction returns the unique conjunction or disjunction of sorted parts.
func (env *Env) internJunction(kind condKind, parts []*cond) *cond {
	key := []byte{byte(kind)}
	for _, part := range parts {
		key = binary.AppendVarint(key, int64(part.id))
	}
	if existing := env.conds[string(key)]; existing != nil {
		return existing
	}
	created := &cond{env: env, kind: kind, args: parts, id: len(env.conds), hint: kind == condAnd}
	for _, part := range parts {
		if part.hint == (kind == condOr) { // a true part decides a disjunction, a false one a conjunction
			created.hint = part.hint
		}
		created.size = satAdd(created.size, part.size)
	}
	env.conds[string(key)] = created
	return created
}
