package sym

// Bool is a known truth value or a condition on symbols. The zero value is false.
type Bool struct {
	_ [0]func()
	v bool  // the truth value if c is nil, else the truth of c at the hints
	c *cond // the condition; nil if the truth value is known
}

// Truth returns a known truth value.
func Truth(v bool) Bool { return Bool{v: v} }

// Eq returns the condition a = b.
func (a Int) Eq(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{v: a.n == b.n}
	}
	return eq(a, b)
}

// Ne returns the condition that a and b differ.
func (a Int) Ne(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{v: a.n != b.n}
	}
	return ne(a, b)
}

// Lt returns the condition a < b.
func (a Int) Lt(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{v: a.n < b.n}
	}
	return lt(a, b)
}

// Le returns the condition a <= b.
func (a Int) Le(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{v: a.n <= b.n}
	}
	return le(a, b)
}

// Gt returns the condition a > b.
func (a Int) Gt(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{v: a.n > b.n}
	}
	return lt(b, a)
}

// Ge returns the condition a >= b.
func (a Int) Ge(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{v: a.n >= b.n}
	}
	return le(b, a)
}

// And returns the conjunction.
func (a Bool) And(b Bool) Bool {
	if a.c == nil && b.c == nil {
		return Bool{v: a.v && b.v}
	}
	return and(a, b)
}

// Or returns the disjunction.
func (a Bool) Or(b Bool) Bool {
	if a.c == nil && b.c == nil {
		return Bool{v: a.v || b.v}
	}
	return or(a, b)
}

// Not returns the negation.
func (a Bool) Not() Bool {
	if a.c == nil {
		return Bool{v: !a.v}
	}
	return Bool{v: !a.v, c: a.c.not()}
}

// Known returns the truth value of the condition. ok reports whether bounds and recorded guards decide the condition.
// If ok is false, v has no meaning.
func (a Bool) Known() (v, ok bool) {
	if a.c == nil {
		return a.v, true
	}
	r := a.c.env.reduceByFacts(a.c)
	return r.truth, r.known
}

// Decide returns true or false if bounds and guards decide the condition. Otherwise it returns the condition without
// the parts that they decide. It records nothing.
func (a Bool) Decide() Bool {
	if a.c == nil {
		return a
	}
	r := a.c.env.reduceByFacts(a.c)
	if r.known {
		return Bool{v: r.truth}
	}
	return Bool{v: r.remaining.hint, c: r.remaining}
}

// Hint returns the truth value at the hints of the symbols.
func (a Bool) Hint() bool { return a.v }

// Holds decides a branch. If bounds and guards do not decide the condition, Holds follows the hints, and records the
// answer as a guard in the symbols' Env. The guard of a conjunction or disjunction omits operands that are known.
func (a Bool) Holds() bool {
	if a.c == nil {
		return a.v
	}
	return a.c.env.decide(a)
}

// Same reports whether a and b are the same truth value or the same condition.
func (a Bool) Same(b Bool) bool { return a.c == b.c && (a.c != nil || a.v == b.v) }

// At returns the truth of the condition for the given values of symbols. It fails where [Int.At] fails.
func (a Bool) At(b Binding) (bool, error) {
	if a.c == nil {
		return a.v, nil
	}
	return (&valuation{binding: b}).cond(a.c)
}

// String returns "True", "False" or the condition: "Eq(x, 1) | Lt(y, x)".
func (a Bool) String() string {
	switch {
	case a.c != nil:
		return a.c.String()
	case a.v:
		return "True"
	}
	return "False"
}

// Atoms returns the comparisons that occur in the condition. A comparison and its negation are listed once.
func (a Bool) Atoms() []Bool {
	if a.c == nil {
		return nil
	}
	var out []Bool
	seen := map[*cond]bool{}
	var walk func(c *cond)
	walk = func(c *cond) {
		switch {
		case seen[c]:
			return
		case c.kind >= condAnd:
			for _, p := range c.args {
				walk(p)
			}
		default:
			n := c.not()
			if c.kind == condNe || c.kind == condGe && n.id < c.id {
				c, n = n, c
			}
			if !seen[c] {
				out = append(out, Bool{v: c.hint, c: c})
			}
			seen[n] = true
		}
		seen[c] = true
	}
	walk(a.c)
	return out
}
