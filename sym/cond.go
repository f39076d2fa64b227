package sym

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
)

type condKind uint8

// The kinds of conditions: d = 0, d != 0, d >= 0, conjunctions and disjunctions.
const (
	condEq condKind = iota
	condNe
	condGe
	condAnd
	condOr
)

// cond is a condition that neither its form nor bounds decide. Equal conditions of an Env are the same cond.
type cond struct {
	env        *Env
	kind       condKind
	difference *expr
	args       []*cond // the operands of condAnd and condOr, sorted
	id         int
	hint       bool // the truth at the hints of symbols
	negation   *cond
	// The following fields are for display: the sides as first written, the relation between them, and the number of
	// symbols and numbers.
	left, right *expr
	relation    string
	size        int
	text        atomic.Value // the result of String, once it is known

	isFact bool // the current facts contain the condition
}

// The slow paths of the comparisons are functions that are not inlined. The fast paths, which call them, then stay
// within the compiler's inlining budget.

//go:noinline
func eq(a, b Int) Bool {
	v := envOf(a, b)
	x, y := v.exprOf(a), v.exprOf(b)
	if len(x.terms) == 0 {
		x, y = y, x
	}
	return v.equal(x, y)
}

//go:noinline
func ne(a, b Int) Bool { return eq(a, b).Not() }

//go:noinline
func lt(a, b Int) Bool {
	v := envOf(a, b)
	x, y := v.exprOf(a), v.exprOf(b)
	return v.atLeast(v.strictDifference(x, y), x, y, "Lt")
}

// strictDifference returns y - x - 1, which is not negative if and only if x < y.
func (v *Env) strictDifference(x, y *expr) *expr {
	return v.addMultiple(v.addMultiple(y, x, -1), v.constant(1), -1)
}

//go:noinline
func le(a, b Int) Bool {
	v := envOf(a, b)
	x, y := v.exprOf(a), v.exprOf(b)
	return v.atLeast(v.addMultiple(y, x, -1), x, y, "Le")
}

//go:noinline
func and(a, b Bool) Bool { return junction(condAnd, a, b) }

//go:noinline
func or(a, b Bool) Bool { return junction(condOr, a, b) }

// proven is a cached truth: 1 for true, -1 for false, 0 for unknown.
type proven int8

func provenAs(truth bool) proven {
	if truth {
		return 1
	}
	return -1
}

func (p proven) known() (truth, known bool) { return p > 0, p != 0 }

// equal returns the condition x = y.
func (v *Env) equal(x, y *expr) Bool {
	d := v.addMultiple(x, y, -1)
	if len(d.terms) == 0 {
		return Bool{v: d.c == 0}
	}
	defer v.withFacts(false)()
	g := d.gcd()
	if d.c%g != 0 {
		return Bool{}
	}
	if d.terms[0].coeff < 0 {
		g = -g
	}
	n := v.zeroForm(v.dividedBy(d, g, d.c/g))
	if b, ok := v.equalsOperand(n); ok {
		return b
	}
	if c := v.conds[relationKey(condEq, n)]; c != nil {
		return Bool{v: c.hint, c: c}
	}
	if truth, known := n.zero.known(); known {
		return Bool{v: truth}
	}
	if truth, known := v.isZero(n); known {
		n.zero = provenAs(truth)
		return Bool{v: truth}
	}
	// The sides are displayed as written, unless the equation was simplified or terms of both sides cancel.
	if n != d && n != v.addMultiple(v.constant(0), d, -1) || len(x.terms)+len(y.terms) > len(d.terms) {
		x, y = v.splitEquation(n)
	}
	c := v.relation(condEq, n, "Eq", x, y)
	return Bool{v: c.hint, c: c}
}

// zeroForm returns an expression that is 0 if and only if e is 0. It removes common factors that cannot be 0, and
// replaces powers by their base.
func (v *Env) zeroForm(e *expr) *expr {
	if e.c != 0 {
		return e
	}
	m := e.terms[0].atoms
	if len(e.terms) > 1 {
		m = e.commonFactors()
	}
	var drop []*atom
	for i, a := range m {
		if a.lo > 0 || a.hi < 0 || len(e.terms) == 1 && i > 0 && m[i-1] == a {
			drop = append(drop, a)
		}
	}
	if len(drop) == len(e.terms[0].atoms) {
		return e
	}
	return v.divideTerms(e, drop)
}

// dropPositiveFactors removes the positive factors p that all terms of e = p*q + c share. For c = 0 and c = -1, e >= 0
// is equivalent to q + c >= 0. For other constants c this does not hold, and the expression is returned unchanged.
func (v *Env) dropPositiveFactors(e *expr) *expr {
	if e.c != 0 && e.c != -1 {
		return e
	}
	m := e.terms[0].atoms
	if len(e.terms) > 1 {
		m = e.commonFactors()
	}
	drop := slices.DeleteFunc(slices.Clone(m), func(a *atom) bool { return a.lo <= 0 })
	if len(drop) == 0 || len(e.terms) == 1 && len(drop) == len(m) {
		return e
	}
	return v.addMultiple(v.divideTerms(e, drop), v.constant(e.c), 1)
}

// equalsOperand rewrites n = 0 if it states that a Max (or Min) equals one of its operands. The result is the condition
// that this operand is at least (at most) every other operand. ok is false if n = 0 has another form.
func (v *Env) equalsOperand(n *expr) (b Bool, ok bool) {
	for _, t := range n.terms {
		if len(t.atoms) != 1 || t.coeff != 1 && t.coeff != -1 || t.atoms[0].kind != kindMax && t.atoms[0].kind != kindMin {
			continue
		}
		a := t.atoms[0]
		candidate := v.addMultiple(a.asExpr, n, -t.coeff)
		b = Bool{v: true}
		if !slices.Contains(a.args, candidate) {
			// n = 0 states that a maximum of constants and terms equals another number m. The constant operand c comes
			// first. If c > m, the statement is false. If not, c can be dropped. A minimum is the mirror case.
			if len(candidate.terms) > 0 || len(a.args[0].terms) > 0 {
				continue
			}
			if (candidate.c < a.args[0].c) == (a.kind == kindMax) {
				return Bool{}, true
			}
			return v.extreme(a.kind, a.args[1:]...).int().Eq(candidate.int()), true
		}
		for _, e := range a.args {
			switch {
			case e == candidate:
			case a.kind == kindMax:
				b = b.And(e.int().Le(candidate.int()))
			default:
				b = b.And(candidate.int().Le(e.int()))
			}
		}
		return b, true
	}
	return b, false
}

// atLeast returns the condition d >= 0, written as x rel y.
func (v *Env) atLeast(d, x, y *expr, rel string) Bool {
	if len(d.terms) == 0 {
		return Bool{v: d.c >= 0}
	}
	defer v.withFacts(false)()
	n := d
	if g := d.gcd(); g > 1 {
		n = v.dividedBy(d, g, floorDiv(d.c, g))
	}
	if p := v.dropPositiveFactors(n); p != n {
		x, y = v.splitEquation(v.addMultiple(p, v.constant(n.c), -1))
		return v.atLeast(p, y, x, map[int]string{0: "Le", -1: "Lt"}[n.c])
	}
	if c := v.conds[relationKey(condGe, n)]; c != nil {
		return Bool{v: c.hint, c: c}
	}
	if truth, known := n.nonNegative.known(); known {
		return Bool{v: truth}
	}
	if truth, known := v.isNonNegative(n); known {
		n.nonNegative = provenAs(truth)
		return Bool{v: truth}
	}
	if b, ok := v.extremeAtLeast(n); ok {
		return b
	}
	c := v.relation(condGe, n, rel, x, y)
	return Bool{v: c.hint, c: c}
}

// extremeAtLeast rewrites n >= 0 if n is a constant plus a multiple of the Max or Min of a number and an expression x.
// If the number decides the condition, the result is true or false. Otherwise the result is a condition on x.
func (v *Env) extremeAtLeast(n *expr) (b Bool, ok bool) {
	t := n.terms[0]
	a := t.atoms[0]
	if len(n.terms) > 1 || len(t.atoms) > 1 || a.kind != kindMax && a.kind != kindMin || len(a.args) > 2 ||
		len(a.args[0].terms) > 0 {
		return Bool{}, false
	}
	numberCase := v.addMultiple(v.constant(n.c), a.args[0], t.coeff)
	switch decided := (t.coeff > 0) == (a.kind == kindMax); {
	case len(numberCase.terms) > 0:
		return Bool{}, false
	case (numberCase.c >= 0) == decided:
		return Bool{v: decided}, true
	}
	return Int{}.Le(v.addMultiple(v.constant(n.c), a.args[1], t.coeff).int()), true
}

// splitEquation returns x and y such that x = y is equivalent to n = 0. x has the positive terms of n.
func (v *Env) splitEquation(n *expr) (x, y *expr) {
	var left, right []term
	for _, t := range n.terms {
		if t.coeff > 0 {
			left = append(left, t)
		} else {
			right = append(right, term{-t.coeff, t.atoms})
		}
	}
	return v.sum(left, 0), v.sum(right, -n.c)
}

func relationKey(k condKind, d *expr) string {
	var buf [12]byte
	return string(binary.AppendVarint(append(buf[:0], byte(k)), int64(d.id)))
}

func (v *Env) relation(k condKind, d *expr, rel string, x, y *expr) *cond {
	key := relationKey(k, d)
	if c := v.conds[key]; c != nil {
		return c
	}
	c := &cond{env: v, kind: k, difference: d, id: len(v.conds), left: x, right: y, relation: rel,
		size: satAdd(x.size, y.size)}
	c.hint = k == condEq && d.hint == 0 || k == condNe && d.hint != 0 || k == condGe && d.hint >= 0
	if d.hint == math.MinInt || d.hint == math.MaxInt {
		hints := Binding{}
		for name, s := range v.symbols {
			hints[name] = s.Hint()
		}
		c.hint, _ = (&valuation{binding: hints}).cond(c)
	}
	v.conds[key] = c
	return c
}

// not returns the negation. De Morgan's laws give the negation of a conjunction or disjunction.
func (c *cond) not() *cond {
	if c.negation != nil {
		return c.negation
	}
	v := c.env
	switch c.kind {
	case condEq:
		c.negation = v.relation(condNe, c.difference, "Ne", c.left, c.right)
	case condNe:
		c.negation = v.relation(condEq, c.difference, "Eq", c.left, c.right)
	case condGe:
		d, rel := v.strictDifference(c.difference, v.constant(0)), "Lt"
		if c.relation == "Lt" {
			rel = "Le"
		}
		c.negation = v.relation(condGe, d, rel, c.right, c.left)
	default:
		parts := make([]*cond, len(c.args))
		for i, p := range c.args {
			parts[i] = p.not()
		}
		slices.SortFunc(parts, compareConds)
		c.negation = v.internJunction(condAnd+condOr-c.kind, parts)
	}
	c.negation.negation = c
	return c.negation
}

// junction returns the conjunction or the disjunction of two operands, at least one of which is a condition.
func junction(k condKind, a, b Bool) Bool {
	hint := a.v && b.v
	if k == condOr {
		hint = a.v || b.v
	}
	var parts []*cond
	for _, x := range []Bool{a, b} {
		switch {
		case x.c == nil && x.v == (k == condOr):
			return x
		case x.c == nil:
		case x.c.kind == k:
			parts = append(parts, x.c.args...)
		default:
			parts = append(parts, x.c)
		}
	}
	v := parts[0].env
	for _, p := range parts {
		if p.env != v {
			panic("sym: conditions of different Envs")
		}
		if slices.Contains(parts, p.not()) {
			return Bool{v: k == condOr}
		}
	}
	return Bool{v: hint, c: v.junctionOf(k, parts)}
}

// junctionOf returns the conjunction or disjunction of at least one part, in any order, with or without
// duplicates.
func (v *Env) junctionOf(k condKind, parts []*cond) *cond {
	slices.SortFunc(parts, compareConds)
	parts = absorb(slices.Compact(parts))
	if len(parts) == 1 {
		return parts[0]
	}
	return v.internJunction(k, parts)
}

// absorb drops redundant parts: p & (p | q) is p.
func absorb(parts []*cond) []*cond {
	return slices.DeleteFunc(slices.Clone(parts), func(c *cond) bool {
		return c.kind >= condAnd && slices.ContainsFunc(parts, func(p *cond) bool { return slices.Contains(c.args, p) })
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
		if s := strings.Compare(a.String(), b.String()); s != 0 {
			return s
		}
	}
	return a.id - b.id
}

func (v *Env) internJunction(k condKind, parts []*cond) *cond {
	key := []byte{byte(k)}
	for _, p := range parts {
		key = binary.AppendVarint(key, int64(p.id))
	}
	if c := v.conds[string(key)]; c != nil {
		return c
	}
	c := &cond{env: v, kind: k, args: parts, id: len(v.conds), hint: k == condAnd}
	for _, p := range parts {
		if p.hint == (k == condOr) {
			c.hint = p.hint
		}
		c.size = satAdd(c.size, p.size)
	}
	v.conds[string(key)] = c
	return c
}

// String returns the condition in Python's syntax.
func (c *cond) String() string {
	if c.size > maxPrinted {
		return fmt.Sprintf("(a condition of %d parts)", c.size)
	}
	if text, ok := c.text.Load().(string); ok {
		return text
	}
	var text string
	if c.kind < condAnd {
		text = c.relation + "(" + c.left.String() + ", " + c.right.String() + ")"
	} else {
		parts := make([]string, len(c.args))
		for i, p := range c.args {
			if parts[i] = p.String(); p.kind >= condAnd {
				parts[i] = "(" + parts[i] + ")"
			}
		}
		text = strings.Join(parts, map[condKind]string{condAnd: " & ", condOr: " | "}[c.kind])
	}
	c.text.Store(text)
	return text
}
