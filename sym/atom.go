package sym

import (
	"encoding/binary"
	"math"
	"slices"
)

// kind is the kind of an atom: a symbol, or a function of expressions.
type kind uint8

const (
	kindSymbol kind = iota
	kindDiv
	kindMod
	kindMax
	kindMin
	kindWhere
	// A sum or product of two operands that is not expanded, because a coefficient would overflow an int.
	kindUnexpandedSum
	kindUnexpandedProduct
)

// atom is a factor of a product in a canonical expression (see expr): a symbol, or a function of expressions, such as
// Max or //. For example, 2*N*(C//4) + Max(1, N) has the atoms N, C//4 and Max(1, N), and C is an atom of the operand
// of C//4. A sum or product whose expansion would overflow an int is an atom, too (kindUnexpandedSum,
// kindUnexpandedProduct).
type atom struct {
	kind   kind
	name   string  // the name of a symbol
	cond   *cond   // the condition of a Where
	args   []*expr // the operands of a function
	id     int     // number of the atom in its Env
	lo, hi int     // bounds that follow from the bounds of the symbols, without guards and other facts (see facts)
	hint   int     // value of the expression at the symbols' hints (their example sizes)
	size   int     // number of symbols, functions and numbers in the printed form
	asExpr *expr   // the atom as an expression

	// The following fields depend on the current facts. replacement follows from a fact, and the other fields are
	// caches. A generation is the number of a set of facts.
	replacement      *expr  // an expression that equals the atom and replaces it
	boundsGeneration int    // the generation of facts for which currentBounds is valid
	currentBounds    [2]int // least and greatest value under these facts
	residue          [2]int // m and r: the atom equals r modulo m (see Env.residue)
	// residueGeneration is 1 plus the generation for which residue is valid, or 0 if residue is not computed.
	residueGeneration int
}

// atom returns the unique atom with the given parts, as an expression.
func (env *Env) atom(kind kind, args ...*expr) *expr { return env.atomWithCond(kind, nil, args...) }

// atomWithCond is atom for a function that also depends on a condition, such as Where.
func (env *Env) atomWithCond(kind kind, cond *cond, args ...*expr) *expr {
	key := []byte{byte(kind)}
	if cond != nil {
		key = binary.AppendVarint(key, int64(cond.id))
	}
	for _, e := range args {
		key = binary.AppendVarint(key, int64(e.id))
	}
	if existing := env.atoms[string(key)]; existing != nil {
		return existing.asExpr
	}
	created := &atom{kind: kind, cond: cond, args: args, id: len(env.symbols) + len(env.atoms)}
	created.lo, created.hi = created.boundsFrom((*expr).symbolBounds)
	created.hint, created.size = created.hintValue(), created.printedSize()
	created.asExpr = env.sum([]term{{coeff: 1, atoms: []*atom{created}}}, 0)
	env.atoms[string(key)] = created
	return created.asExpr
}

// symbolBounds returns the bounds of e without facts.
func (e *expr) symbolBounds() (lo, hi int) { return e.lo, e.hi }

// boundsFrom computes the bounds of a from the bounds of its operands, which the function bounds returns.
func (a *atom) boundsFrom(bounds func(*expr) (lo, hi int)) (lo, hi int) {
	if a.kind == kindSymbol {
		return a.lo, a.hi
	}
	lo, hi = bounds(a.args[0])
	otherLow, otherHigh := bounds(a.args[1])
	switch a.kind {
	case kindDiv:
		return divRange(lo, hi, otherLow, otherHigh)
	case kindMod:
		if otherLow <= 0 {
			return math.MinInt, math.MaxInt
		}
		// For a positive divisor, 0 <= x%y < y, and x%y <= x if x is not negative.
		top := addUpper(otherHigh, -1)
		if lo >= 0 {
			top = min(top, hi)
		}
		return 0, top
	case kindWhere:
		return min(lo, otherLow), max(hi, otherHigh)
	case kindUnexpandedSum:
		return addLower(lo, otherLow), addUpper(hi, otherHigh)
	case kindUnexpandedProduct:
		return mulRange(lo, hi, otherLow, otherHigh)
	}
	for _, e := range a.args[1:] { // the operands of a Max or Min
		otherLow, otherHigh := bounds(e)
		if a.kind == kindMax {
			lo, hi = max(lo, otherLow), max(hi, otherHigh)
		} else {
			lo, hi = min(lo, otherLow), min(hi, otherHigh)
		}
	}
	return lo, hi
}

// hintValue computes the hint from the hints of the operands. If the hint of a divisor is 0, the result has no meaning.
func (a *atom) hintValue() int {
	left, right := a.args[0].hint, a.args[1].hint
	switch {
	case a.kind == kindWhere && a.cond.hint:
		return left
	case a.kind == kindWhere:
		return right
	case a.kind == kindUnexpandedSum:
		return satAdd(left, right)
	case a.kind == kindUnexpandedProduct:
		return satMul(left, right)
	case a.kind == kindDiv || a.kind == kindMod:
		if right == 0 {
			return 0
		} else if a.kind == kindDiv {
			return floorDiv(left, right)
		}
		return left - right*floorDiv(left, right)
	}
	for _, e := range a.args[1:] { // the operands of a Max or Min
		if a.kind == kindMax {
			left = max(left, e.hint)
		} else {
			left = min(left, e.hint)
		}
	}
	return left
}

// printedSize returns the size of a function: 1 for the function, plus the sizes of its operands and its condition.
func (a *atom) printedSize() int {
	total := 1
	for _, e := range a.args {
		total = satAdd(total, e.size)
	}
	if a.cond != nil {
		total = satAdd(total, a.cond.size)
	}
	return total
}

// unexpanded returns the atom for a sum or product whose coefficients overflow an int.
func (env *Env) unexpanded(kind kind, a, b *expr) *expr {
	if a.id > b.id {
		a, b = b, a
	}
	return env.atom(kind, a, b)
}

// isUnexpanded reports whether a is a sum or product whose coefficients overflow an int.
func (a *atom) isUnexpanded() bool {
	return a.kind == kindUnexpandedSum || a.kind == kindUnexpandedProduct
}

// singleAtom returns the atom if e is exactly one atom (without coefficient or constant), else nil.
func (e *expr) singleAtom() *atom {
	if e.constant == 0 && len(e.terms) == 1 && e.terms[0].coeff == 1 && len(e.terms[0].atoms) == 1 {
		return e.terms[0].atoms[0]
	}
	return nil
}

// maxOf returns the maximum of two operands.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func maxOf(a, b Int) Int { return extremeOf(kindMax, a, b) }

// minOf returns the minimum of two operands.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func minOf(a, b Int) Int { return extremeOf(kindMin, a, b) }

// extremeOf returns the maximum or the minimum of two operands. It memoizes Env.extreme.
func extremeOf(kind kind, a, b Int) Int {
	env := envOf(a, b)
	defer env.withFacts(false)() // the form must not depend on recorded facts
	x, y := env.exprOf(a), env.exprOf(b)
	return env.memoized(byte(kind), x, y, func() *expr { return env.extreme(kind, x, y) }).int()
}

// extreme returns the maximum or the minimum of operands. It replaces Max(a, b) among the operands of a maximum by a
// and b, and Min(a, b) among the operands of a minimum. It drops each operand that another operand makes redundant. For
// example, Max(Max(1, N), N+2) is N+2 for N >= 0, and Max(1, N+2) for N without a lower bound.
func (env *Env) extreme(kind kind, operands ...*expr) *expr {
	var args []*expr
	for _, operand := range operands {
		if nested := operand.singleAtom(); nested != nil && nested.kind == kind {
			args = append(args, nested.args...)
		} else {
			args = append(args, operand)
		}
	}
	sign := 1
	if kind == kindMin {
		sign = -1
	}
	var remaining []*expr
	for i, operand := range args {
		// Only the last of several equal operands remains.
		makesRedundant := func(other *expr) bool { return env.provesAtMost(operand, other, sign) }
		if !slices.ContainsFunc(remaining, makesRedundant) && !slices.ContainsFunc(args[i+1:], makesRedundant) {
			remaining = append(remaining, operand)
		}
	}
	if len(remaining) == 1 {
		return remaining[0]
	}
	// Constants come first, as in Max(1, x).
	slices.SortFunc(remaining, func(a, b *expr) int {
		if (len(a.terms) == 0) != (len(b.terms) == 0) {
			return len(a.terms) - len(b.terms)
		}
		return a.id - b.id
	})
	return env.atom(kind, remaining...)
}

// provesAtMost reports whether sign*e <= sign*other can be proved for all sizes. sign is 1 or -1.
func (env *Env) provesAtMost(e, other *expr, sign int) bool {
	if sign < 0 {
		other, e = e, other
	}
	return env.provesNonNegative(env.addMultiple(other, e, -1))
}
