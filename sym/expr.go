package sym

import (
	"encoding/binary"
	"math"
	"slices"
)

// expr is a canonical sum c + k1*m1 + k2*m2 + ... whose m are products of atoms. Within its Env there
// is one expr for all equal sums.
type expr struct {
	env    *Env
	terms  []term // in the order of compareTerms, no product twice, no coefficient math.MinInt
	c      int    // math.MinInt in constants only, so that terms and sums can be negated
	id     int
	lo, hi int // bounds, by those of the symbols alone
	most   int // the greatest magnitude of the coefficients and the constant
	hint   int
	size   int // of symbols and numbers that are printed
	// Whether it is 0, and not negative, where bounds alone tell.
	zero, natural proven

	// What the facts of the moment add; decisions write it, nothing else does.
	fact    *fact // of sums that are their own linear part: see linear
	spanGen int   // the state of facts that span belongs to, 0 for none
	span    [2]int
	plain   *expr

	plainState int // that of plain
}

// term is a coefficient other than 0 and a product of at least one atom, ordered by id.
type term struct {
	k int
	m []*atom
}

// compareTerms orders products by degree, the greatest first, then by their atoms. It is an order
// that multiplication keeps, which division needs.
func compareTerms(a, b term) int {
	if len(a.m) != len(b.m) {
		return len(b.m) - len(a.m)
	}
	for i := range a.m {
		if a.m[i] != b.m[i] {
			return a.m[i].id - b.m[i].id
		}
	}
	return 0
}

// sum returns the expression with the given parts, nil if no int holds its coefficients. The terms are the callee's to
// keep and to reorder; products may occur twice.
func (v *Env) sum(terms []term, c int) *expr {
	slices.SortFunc(terms, compareTerms)
	out := terms[:0]
	for _, t := range terms {
		if n := len(out); n > 0 && compareTerms(out[n-1], t) == 0 {
			k, fits := addFits(out[n-1].k, t.k)
			if !fits {
				return nil
			}
			out[n-1].k = k
		} else {
			out = append(out, t)
		}
		if out[len(out)-1].k == 0 {
			out = out[:len(out)-1]
		}
	}
	if c == math.MinInt && len(out) > 0 {
		return nil
	}
	var buf [64]byte
	key := binary.AppendVarint(buf[:0], int64(c))
	for _, t := range out {
		if t.k == math.MinInt {
			return nil
		}
		key = binary.AppendVarint(key, int64(t.k))
		key = binary.AppendVarint(key, int64(len(t.m)))
		for _, a := range t.m {
			key = binary.AppendVarint(key, int64(a.id))
		}
	}
	if e := v.exprs[string(key)]; e != nil {
		return e
	}
	e := &expr{env: v, terms: out, c: c, id: len(v.exprs) + 1}
	e.bound()
	e.size = e.count()
	v.exprs[string(key)] = e
	return e
}

// bound computes bounds and hint from those of the atoms.
func (e *expr) bound() {
	e.lo, e.hi = constantRange(e.c)
	e.hint, e.most = e.c, satMagnitude(e.c)
	for _, t := range e.terms {
		e.most = max(e.most, satMagnitude(t.k))
		lo, hi, hint := t.k, t.k, t.k
		for _, a := range t.m {
			lo, hi = mulRange(lo, hi, a.lo, a.hi)
			hint = satMul(hint, a.hint)
		}
		e.lo, e.hi, e.hint = addLower(e.lo, lo), addUpper(e.hi, hi), satAdd(e.hint, hint)
	}
}

func (v *Env) constant(n int) *expr {
	if n < 0 || n >= len(v.small) {
		return v.sum(nil, n)
	}
	if v.small[n] == nil {
		v.small[n] = v.sum(nil, n)
	}
	return v.small[n]
}

// operation is a key of what was computed before: no expression is built twice.
type operation struct {
	op   byte
	a, b int
}

// again returns a op b, which form computes only the first time. What it depends on must not change.
func (v *Env) again(op byte, a, b *expr, form func() *expr) *expr {
	key := operation{op, a.id, b.id}
	e := v.done[key]
	if e == nil {
		e = form()
		v.done[key] = e
	}
	return e
}

// of returns an Int of this Env as an expression.
func (v *Env) of(a Int) *expr {
	switch {
	case a.e == nil:
		return v.constant(a.n)
	case a.e.env != v:
		panic("sym: expressions of two Envs meet")
	}
	return a.e
}

// int returns an expression as an Int: a constant becomes a number.
func (e *expr) int() Int {
	if len(e.terms) == 0 {
		return Int{n: e.c}
	}
	return Int{n: e.hint, e: e}
}

// envOf returns the Env of two operands, one of which is an expression.
func envOf(a, b Int) *Env {
	if a.e != nil {
		return a.e.env
	}
	return b.e.env
}

func add(a, b Int) Int {
	v := envOf(a, b)
	return v.plus(v.of(a), v.of(b), 1).int()
}

func sub(a, b Int) Int {
	v := envOf(a, b)
	return v.plus(v.of(a), v.of(b), -1).int()
}

func mul(a, b Int) Int {
	v := envOf(a, b)
	return v.times(v.of(a), v.of(b)).int()
}

// plus returns a + k*b.
func (v *Env) plus(a, b *expr, k int) *expr {
	switch {
	case len(b.terms) == 0 && b.c == 0:
		return a
	case k == 1:
		return v.again('+', a, b, func() *expr { return v.scaledSum(a, b, 1) })
	case k == -1:
		return v.again('-', a, b, func() *expr { return v.scaledSum(a, b, -1) })
	}
	return v.scaledSum(a, b, k)
}

func (v *Env) scaledSum(a, b *expr, k int) *expr {
	terms := append(make([]term, 0, len(a.terms)+len(b.terms)), a.terms...)
	var of checked
	for _, t := range b.terms {
		terms = append(terms, term{of.product(k, t.k), t.m})
	}
	c := of.sum(a.c, of.product(k, b.c))
	if !of.wraps {
		if e := v.sum(terms, c); e != nil {
			return e
		}
	}
	return v.unexpanded(kindSum, a, v.times(v.constant(k), b))
}

func (v *Env) times(a, b *expr) *expr {
	return v.again('*', a, b, func() *expr { return v.product(a, b) })
}

func (v *Env) product(a, b *expr) *expr {
	terms := make([]term, 0, (len(a.terms)+1)*(len(b.terms)+1))
	var of checked
	for _, s := range a.terms {
		for _, t := range b.terms {
			terms = append(terms, term{of.product(s.k, t.k), product(s.m, t.m)})
		}
		if b.c != 0 {
			terms = append(terms, term{of.product(s.k, b.c), s.m})
		}
	}
	if a.c != 0 {
		for _, t := range b.terms {
			terms = append(terms, term{of.product(a.c, t.k), t.m})
		}
	}
	c := of.product(a.c, b.c)
	if !of.wraps {
		if e := v.sum(terms, c); e != nil {
			return e
		}
	}
	return v.unexpanded(kindProduct, a, b)
}

// product merges the atoms of two products.
func product(a, b []*atom) []*atom {
	m := append(append(make([]*atom, 0, len(a)+len(b)), a...), b...)
	slices.SortFunc(m, func(x, y *atom) int { return x.id - y.id })
	return m
}

// quotient returns a without the atoms of b, and whether a holds them all.
func quotient(a, b []*atom) ([]*atom, bool) {
	out := make([]*atom, 0, len(a))
	for _, x := range a {
		if len(b) > 0 && x == b[0] {
			b = b[1:]
			continue
		}
		out = append(out, x)
	}
	return out, len(b) == 0
}

// termExpr returns a term, whose product may be empty, as an expression.
func (v *Env) termExpr(t term) *expr {
	if len(t.m) == 0 {
		return v.constant(t.k)
	}
	return v.sum([]term{t}, 0)
}

// lead returns the first term; for a constant the constant with the empty product.
func (e *expr) lead() term {
	if len(e.terms) == 0 {
		return term{k: e.c}
	}
	return e.terms[0]
}

// gcd returns the greatest common divisor of the coefficients, that of the constant left out.
func (e *expr) gcd() int {
	g := 0
	for _, t := range e.terms {
		g = gcd(g, t.k)
	}
	return g
}

// gcd is 1 where the divisor does not fit: that of the least number and 0.
func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	if a == math.MinInt {
		return 1
	}
	return max(a, -a)
}

// scaled returns the expression with its terms divided by g, which divides their coefficients, and
// another constant.
func (v *Env) scaled(e *expr, g, c int) *expr {
	terms := make([]term, len(e.terms))
	for i, t := range e.terms {
		terms[i] = term{t.k / g, t.m}
	}
	return v.sum(terms, c)
}
