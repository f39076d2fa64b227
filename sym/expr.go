package sym

import (
	"encoding/binary"
	"math"
	"slices"
)

// expr is a canonical sum c + k1*m1 + k2*m2 + ... where each m is a product of atoms. Equal sums of an Env are the same
// expr. For example, (x + 1)*(x + y) and y + x*(y + 1 + x) are both the expr x*x + x*y + x + y: its constant is 0, and
// its terms have coefficient 1 and the atoms {x, x}, {x, y}, {x} and {y}.
//
// A fact is a condition on symbols that is known besides their bounds. Each set of facts has a number, its generation;
// the empty set has the number 0.
type expr struct {
	env          *Env
	terms        []term // sorted by compareTerms; no two have the same atoms, and no coefficient is math.MinInt
	constant     int    // not math.MinInt if there are terms, because its negative overflows
	id           int    // number of the expression in its Env, from 1
	lo, hi       int    // bounds that follow from the bounds of the symbols alone
	maxMagnitude int    // greatest absolute value of the coefficients and the constant
	hint         int    // value at the hints of the symbols (typical values)
	size         int    // number of symbols, functions and numbers in the printed form
	// Cached answers that follow from the bounds of the symbols alone: whether the sum is 0, or is not negative.
	zero, nonNegative cachedTruth

	// The following fields depend on the current facts. fact has the facts about the sum that lo and hi do not express.
	// It is nil if the sum is not primitive: a primitive sum has no constant, its first coefficient is positive, and its
	// coefficients have no common divisor.
	fact             *fact
	boundsGeneration int    // the generation of facts for which currentBounds is valid, 0 for none
	currentBounds    [2]int // least and greatest value under these facts
	simplified       *expr  // the sum, simplified under the facts
	simplifiedState  int    // the value of facts.state, which gives the generation, for which simplified is valid
}

// term is a non-zero coefficient and a product of at least one atom, sorted by id.
type term struct {
	coeff int
	atoms []*atom // a power of an atom is a repetition of the atom
}

// compareTerms orders products by falling degree, then by their atoms. Multiplication preserves this order,
// as polynomial division requires.
func compareTerms(a, b term) int {
	if len(a.atoms) != len(b.atoms) {
		return len(b.atoms) - len(a.atoms)
	}
	for i := range a.atoms {
		if a.atoms[i] != b.atoms[i] {
			return a.atoms[i].id - b.atoms[i].id
		}
	}
	return 0
}

// sum returns the canonical expression of terms and a constant. It returns nil if a coefficient overflows an int or is
// math.MinInt, or if the constant of an expression with terms is math.MinInt. It sorts terms in place and keeps the
// slice. Several terms may have the same product.
func (env *Env) sum(terms []term, constant int) *expr {
	merged, fits := mergeTerms(terms)
	if !fits || constant == math.MinInt && len(merged) > 0 {
		return nil
	}
	if slices.ContainsFunc(merged, func(t term) bool { return t.coeff == math.MinInt }) {
		return nil
	}
	var buffer [64]byte
	key := appendKey(buffer[:0], merged, constant)
	if existing := env.exprs[string(key)]; existing != nil {
		return existing
	}
	created := &expr{env: env, terms: merged, constant: constant, id: len(env.exprs) + 1}
	created.setBounds()
	created.size = created.printedSize()
	env.exprs[string(key)] = created
	return created
}

// appendKey appends the key of an expression in env.exprs: the constant, then the coefficient and atoms of each term.
func appendKey(key []byte, terms []term, constant int) []byte {
	key = binary.AppendVarint(key, int64(constant))
	for _, t := range terms {
		key = binary.AppendVarint(key, int64(t.coeff))
		key = binary.AppendVarint(key, int64(len(t.atoms)))
		for _, a := range t.atoms {
			key = binary.AppendVarint(key, int64(a.id))
		}
	}
	return key
}

// mergeTerms sorts terms in place and adds up the terms with equal products. It returns the terms that are not 0 in the
// same slice, and whether the coefficients fit an int.
func mergeTerms(terms []term) (merged []term, fits bool) {
	slices.SortFunc(terms, compareTerms)
	merged = terms[:0]
	for _, t := range terms {
		if count := len(merged); count > 0 && compareTerms(merged[count-1], t) == 0 {
			coeff, fits := addFits(merged[count-1].coeff, t.coeff)
			if !fits {
				return nil, false
			}
			merged[count-1].coeff = coeff
		} else {
			merged = append(merged, t)
		}
		if merged[len(merged)-1].coeff == 0 {
			merged = merged[:len(merged)-1]
		}
	}
	return merged, true
}

// setBounds computes the bounds, the hint and maxMagnitude of e from its atoms, coefficients and constant.
func (e *expr) setBounds() {
	e.lo, e.hi = constantRange(e.constant)
	e.hint, e.maxMagnitude = e.constant, satMagnitude(e.constant)
	for _, t := range e.terms {
		e.maxMagnitude = max(e.maxMagnitude, satMagnitude(t.coeff))
		lo, hi, hint := t.coeff, t.coeff, t.coeff
		for _, a := range t.atoms {
			lo, hi = mulRange(lo, hi, a.lo, a.hi)
			hint = satMul(hint, a.hint)
		}
		e.lo, e.hi, e.hint = addLower(e.lo, lo), addUpper(e.hi, hi), satAdd(e.hint, hint)
	}
}

// constant returns the number n as an expression.
func (env *Env) constant(n int) *expr {
	if n < 0 || n >= len(env.smallConstants) {
		return env.sum(nil, n)
	}
	if env.smallConstants[n] == nil {
		env.smallConstants[n] = env.sum(nil, n)
	}
	return env.smallConstants[n]
}

// exprOf returns an Int of this Env as an expression. It panics for an expression of another Env.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (env *Env) exprOf(a Int) *expr {
	switch {
	case a.e == nil:
		return env.constant(a.n)
	case a.e.env != env:
		panic("sym: operands of different Envs")
	}
	return a.e
}

// envOf returns the Env of two operands. At least one operand must be an expression.
func envOf(a, b Int) *Env {
	if a.e != nil {
		return a.e.env
	}
	return b.e.env
}

// int returns an expression as an Int. A constant becomes a number. In all other Ints, the field n is exprMark, which
// marks an expression.
func (e *expr) int() Int {
	if len(e.terms) == 0 {
		return Int{n: e.constant}
	}
	return Int{n: exprMark, e: e}
}

// add returns a + b. It panics if both are numbers and the sum overflows an int.
func add(a, b Int) Int {
	if a.e == nil && b.e == nil {
		n, fits := addFits(a.n, b.n)
		if !fits {
			panic(overflow("+", a.n, b.n))
		}
		return Int{n: n}
	}
	env := envOf(a, b)
	return env.addMultiple(env.exprOf(a), env.exprOf(b), 1).int()
}

// sub returns a - b. It panics as add does.
func sub(a, b Int) Int {
	if a.e == nil && b.e == nil {
		n, fits := subFits(a.n, b.n)
		if !fits {
			panic(overflow("-", a.n, b.n))
		}
		return Int{n: n}
	}
	env := envOf(a, b)
	return env.addMultiple(env.exprOf(a), env.exprOf(b), -1).int()
}

// mul returns a * b. It panics as add does.
func mul(a, b Int) Int {
	if a.e == nil && b.e == nil {
		n, fits := mulFits(a.n, b.n)
		if !fits {
			panic(overflow("*", a.n, b.n))
		}
		return Int{n: n}
	}
	env := envOf(a, b)
	return env.multiply(env.exprOf(a), env.exprOf(b)).int()
}

// addMultiple returns a + factor*b.
func (env *Env) addMultiple(a, b *expr, factor int) *expr {
	switch {
	case len(b.terms) == 0 && b.constant == 0:
		return a
	case factor == 1:
		return env.memoized('+', a, b, func() *expr { return env.expandSum(a, b, 1) })
	case factor == -1:
		return env.memoized('-', a, b, func() *expr { return env.expandSum(a, b, -1) })
	}
	return env.expandSum(a, b, factor)
}

// expandSum is addMultiple without memoization. If a coefficient overflows an int, the sum is an atom
// (kindUnexpandedSum).
func (env *Env) expandSum(a, b *expr, factor int) *expr {
	terms := append(make([]term, 0, len(a.terms)+len(b.terms)), a.terms...)
	var arith checkedArithmetic // records whether a result overflowed
	for _, t := range b.terms {
		terms = append(terms, term{arith.product(factor, t.coeff), t.atoms})
	}
	constant := arith.sum(a.constant, arith.product(factor, b.constant))
	if !arith.overflowed {
		if e := env.sum(terms, constant); e != nil {
			return e
		}
	}
	return env.unexpanded(kindUnexpandedSum, a, env.multiply(env.constant(factor), b))
}

// multiply returns a * b.
func (env *Env) multiply(a, b *expr) *expr {
	return env.memoized('*', a, b, func() *expr { return env.expandProduct(a, b) })
}

// expandProduct multiplies each term of a by each term of b. If a coefficient overflows an int, the product is an atom
// (kindUnexpandedProduct).
func (env *Env) expandProduct(a, b *expr) *expr {
	terms := make([]term, 0, (len(a.terms)+1)*(len(b.terms)+1))
	var arith checkedArithmetic
	for _, left := range a.terms {
		for _, right := range b.terms {
			terms = append(terms, term{arith.product(left.coeff, right.coeff), mergeAtoms(left.atoms, right.atoms)})
		}
		if b.constant != 0 {
			terms = append(terms, term{arith.product(left.coeff, b.constant), left.atoms})
		}
	}
	if a.constant != 0 {
		for _, right := range b.terms {
			terms = append(terms, term{arith.product(a.constant, right.coeff), right.atoms})
		}
	}
	constant := arith.product(a.constant, b.constant)
	if !arith.overflowed {
		if e := env.sum(terms, constant); e != nil {
			return e
		}
	}
	return env.unexpanded(kindUnexpandedProduct, a, b)
}

// mergeAtoms merges the atoms of two products.
func mergeAtoms(a, b []*atom) []*atom {
	merged := append(append(make([]*atom, 0, len(a)+len(b)), a...), b...)
	slices.SortFunc(merged, func(x, y *atom) int { return x.id - y.id })
	return merged
}

// operation is the key of a memoized operation.
type operation struct {
	op   byte // '+', '-', '*', '/', '%', 'p' (the primitive sum of a), kindMax or kindMin
	a, b int  // ids of the operands
}

// memoized returns the result of the operation op on a and b. The first call computes the result by compute and stores
// it. The result of compute must depend on a and b only.
func (env *Env) memoized(op byte, a, b *expr, compute func() *expr) *expr {
	key := operation{op: op, a: a.id, b: b.id}
	result := env.memo[key]
	if result == nil {
		result = compute()
		env.memo[key] = result
	}
	return result
}

// withoutAtoms divides the product a by the product b: it returns the atoms of a without the atoms of b, and whether a
// has all of them. Both are sorted by id. An atom that b has once is removed once: {x, x, y} without {x} is {x, y}.
func withoutAtoms(a, b []*atom) (remaining []*atom, hasAll bool) {
	remaining = make([]*atom, 0, len(a))
	for _, candidate := range a {
		if len(b) > 0 && candidate == b[0] {
			b = b[1:]
			continue
		}
		remaining = append(remaining, candidate)
	}
	return remaining, len(b) == 0
}

// termExpr returns a term as an expression. The product of the term may be empty.
func (env *Env) termExpr(t term) *expr {
	if len(t.atoms) == 0 {
		return env.constant(t.coeff)
	}
	return env.sum([]term{t}, 0)
}

// leadingTerm returns the first term. The leading term of a constant is the constant times the empty product.
func (e *expr) leadingTerm() term {
	if len(e.terms) == 0 {
		return term{coeff: e.constant}
	}
	return e.terms[0]
}

// gcd returns the greatest common divisor of the coefficients, without the constant.
func (e *expr) gcd() int {
	common := 0
	for _, t := range e.terms {
		common = gcd(common, t.coeff)
	}
	return common
}

// gcd returns the greatest common divisor. For math.MinInt and 0, whose greatest common divisor overflows an int, it
// returns 1.
func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	if a == math.MinInt {
		return 1
	}
	return max(a, -a)
}

// dividedBy returns an expression with the coefficients of e divided by divisor, and with the given constant. divisor
// must divide the coefficients.
func (env *Env) dividedBy(e *expr, divisor, constant int) *expr {
	terms := make([]term, len(e.terms))
	for i, t := range e.terms {
		terms[i] = term{t.coeff / divisor, t.atoms}
	}
	return env.sum(terms, constant)
}
