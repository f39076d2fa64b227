package sym

import (
	"encoding/binary"
	"slices"
	"strings"
)

type condKind uint8

// Conditions: d = 0, d != 0, d >= 0, and their conjunctions and alternatives.
const (
	condEq condKind = iota
	condNe
	condGe
	condAnd
	condOr
)

// cond is a condition that form and bounds do not decide. Within its Env there is one for all that
// are equal.
type cond struct {
	env  *Env
	kind condKind
	d    *expr
	args []*cond // of condAnd and condOr, ordered
	id   int
	neg  *cond
	// For display: the sides as they were written first, and how many symbols and numbers there are.
	a, b *expr
	rel  string
	size int
	text string
}

// The slow ways of the comparisons: functions of two arguments each that are not inlined themselves,
// so that the calls leave room to inline the fast ways.

//go:noinline
func eq(a, b Int) Bool {
	v := envOf(a, b)
	x, y := v.of(a), v.of(b)
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
	x, y := v.of(a), v.of(b)
	return v.atLeast(v.plus(v.plus(y, x, -1), v.constant(-1), 1), x, y, "Lt")
}

//go:noinline
func le(a, b Int) Bool {
	v := envOf(a, b)
	x, y := v.of(a), v.of(b)
	return v.atLeast(v.plus(y, x, -1), x, y, "Le")
}

//go:noinline
func and(a, b Bool) Bool { return junction(condAnd, a, b) }

//go:noinline
func or(a, b Bool) Bool { return junction(condOr, a, b) }

// equal returns whether x = y.
func (v *Env) equal(x, y *expr) Bool {
	d := v.plus(x, y, -1)
	if len(d.terms) == 0 {
		return Bool{v: d.c == 0}
	}
	g := d.gcd()
	if d.c%g != 0 || d.lo > 0 || d.hi < 0 {
		return Bool{}
	}
	if d.terms[0].k < 0 {
		g = -g
	}
	n := v.scaled(d, g, d.c/g)
	if len(n.terms) == 1 && n.c == 0 {
		n = v.mayVanish(n)
	}
	if n != d && n != v.plus(v.constant(0), d, -1) || len(x.terms)+len(y.terms) > len(d.terms) {
		x, y = v.sides(n)
	}
	return Bool{v: d.hint == 0, c: v.relation(condEq, n, "Eq", x, y)}
}

// mayVanish drops the factors of a product that cannot be 0, and repetitions.
func (v *Env) mayVanish(e *expr) *expr {
	var m []*atom
	for _, a := range e.terms[0].m {
		if a.lo <= 0 && a.hi >= 0 && !slices.Contains(m, a) {
			m = append(m, a)
		}
	}
	return v.sum([]term{{1, m}}, 0)
}

// atLeast returns whether d >= 0, which was written as x rel y.
func (v *Env) atLeast(d, x, y *expr, rel string) Bool {
	if g := d.gcd(); g > 1 {
		d = v.scaled(d, g, floorDiv(d.c, g))
	}
	switch {
	case d.lo >= 0:
		return Bool{v: true}
	case d.hi < 0:
		return Bool{}
	}
	return Bool{v: d.hint >= 0, c: v.relation(condGe, d, rel, x, y)}
}

// sides writes n = 0 with its positive terms at the left.
func (v *Env) sides(n *expr) (x, y *expr) {
	var left, right []term
	for _, t := range n.terms {
		if t.k > 0 {
			left = append(left, t)
		} else {
			right = append(right, term{-t.k, t.m})
		}
	}
	return v.sum(left, 0), v.sum(right, -n.c)
}

func (v *Env) relation(k condKind, d *expr, rel string, x, y *expr) *cond {
	key := string(binary.AppendVarint([]byte{byte(k)}, int64(d.id)))
	if c := v.conds[key]; c != nil {
		return c
	}
	c := &cond{env: v, kind: k, d: d, id: len(v.conds), a: x, b: y, rel: rel, size: x.size() + y.size()}
	c.text = rel + "(" + x.String() + ", " + y.String() + ")"
	v.conds[key] = c
	return c
}

// not returns the negation: again a relation, or by De Morgan's laws a junction.
func (c *cond) not() *cond {
	if c.neg != nil {
		return c.neg
	}
	v := c.env
	switch c.kind {
	case condEq:
		c.neg = v.relation(condNe, c.d, "Ne", c.a, c.b)
	case condNe:
		c.neg = v.relation(condEq, c.d, "Eq", c.a, c.b)
	case condGe:
		d, rel := v.plus(v.constant(-1), c.d, -1), "Lt"
		if c.rel == "Lt" {
			rel = "Le"
		}
		c.neg = v.relation(condGe, d, rel, c.b, c.a)
	default:
		parts := make([]*cond, len(c.args))
		for i, p := range c.args {
			parts[i] = p.not()
		}
		slices.SortFunc(parts, compareConds)
		c.neg = v.join(condAnd+condOr-c.kind, parts)
	}
	c.neg.neg = c
	return c.neg
}

// junction returns the conjunction or the alternative of two truths, one of which is a condition.
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
			panic("sym: conditions of two Envs meet")
		}
		if slices.Contains(parts, p.not()) {
			return Bool{v: k == condOr}
		}
	}
	slices.SortFunc(parts, compareConds)
	parts = absorb(slices.Compact(parts))
	if len(parts) == 1 {
		return Bool{v: hint, c: parts[0]}
	}
	return Bool{v: hint, c: v.join(k, parts)}
}

// absorb drops a part that another one makes superfluous: p & (p | q) is p.
func absorb(parts []*cond) []*cond {
	return slices.DeleteFunc(slices.Clone(parts), func(c *cond) bool {
		return c.kind >= condAnd && slices.ContainsFunc(parts, func(p *cond) bool { return slices.Contains(c.args, p) })
	})
}

// compareConds puts shorter conditions first, and orders those of one length by their text.
func compareConds(a, b *cond) int {
	if a.size != b.size {
		return a.size - b.size
	}
	if s := strings.Compare(a.text, b.text); s != 0 {
		return s
	}
	return a.id - b.id
}

func (v *Env) join(k condKind, parts []*cond) *cond {
	key := []byte{byte(k)}
	for _, p := range parts {
		key = binary.AppendVarint(key, int64(p.id))
	}
	if c := v.conds[string(key)]; c != nil {
		return c
	}
	c := &cond{env: v, kind: k, args: parts, id: len(v.conds)}
	var texts []string
	for _, p := range parts {
		c.size += p.size
		text := p.text
		if p.kind >= condAnd {
			text = "(" + text + ")"
		}
		texts = append(texts, text)
	}
	c.text = strings.Join(texts, map[condKind]string{condAnd: " & ", condOr: " | "}[k])
	v.conds[string(key)] = c
	return c
}

// String returns the condition in Python's syntax.
func (c *cond) String() string { return c.text }

// at returns the truth for the given values of symbols.
func (c *cond) at(b Binding) (bool, error) {
	if c.kind >= condAnd {
		for _, p := range c.args {
			if t, err := p.at(b); err != nil || t == (c.kind == condOr) {
				return t, err
			}
		}
		return c.kind == condAnd, nil
	}
	d, err := c.d.at(b)
	switch c.kind {
	case condEq:
		return err == nil && d == 0, err
	case condNe:
		return err == nil && d != 0, err
	}
	return err == nil && d >= 0, err
}
