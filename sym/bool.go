package sym

// Bool is a known truth value or a condition on symbols. The zero value is false. For a symbol N of at least 1, for
// example, N.Ge(Of(1)) is true, and N.Eq(Of(4)) is the condition Eq(N, 4). Three methods ask for the truth: Known
// answers only if bounds and guards decide, Hint answers for the hints of the symbols, and Holds decides and records
// the decision.
type Bool struct {
	_     [0]func() // makes == a compile error
	truth bool      // the truth value; if cond is not nil, its truth value at the hints of symbols
	cond  *cond     // the condition; nil if the truth value is known
}

// BoolOf returns a known truth value.
func BoolOf(v bool) Bool { return Bool{truth: v} }

// The comparisons below have a fast path for numbers: an Int is the number n if its expression e is nil.

// Eq returns the condition a = b.
func (a Int) Eq(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{truth: a.n == b.n}
	}
	return eq(a, b)
}

// Ne returns the condition that a and b differ.
func (a Int) Ne(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{truth: a.n != b.n}
	}
	return ne(a, b)
}

// Lt returns the condition a < b.
func (a Int) Lt(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{truth: a.n < b.n}
	}
	return lt(a, b)
}

// Le returns the condition a <= b.
func (a Int) Le(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{truth: a.n <= b.n}
	}
	return le(a, b)
}

// Gt returns the condition a > b.
func (a Int) Gt(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{truth: a.n > b.n}
	}
	return lt(b, a)
}

// Ge returns the condition a >= b.
func (a Int) Ge(b Int) Bool {
	if a.e == nil && b.e == nil {
		return Bool{truth: a.n >= b.n}
	}
	return le(b, a)
}

// And returns the conjunction of a and b.
func (a Bool) And(b Bool) Bool {
	if a.cond == nil && b.cond == nil {
		return Bool{truth: a.truth && b.truth}
	}
	return and(a, b)
}

// Or returns the disjunction of a and b.
func (a Bool) Or(b Bool) Bool {
	if a.cond == nil && b.cond == nil {
		return Bool{truth: a.truth || b.truth}
	}
	return or(a, b)
}

// Not returns the negation of a.
func (a Bool) Not() Bool {
	if a.cond == nil {
		return Bool{truth: !a.truth}
	}
	return Bool{truth: !a.truth, cond: a.cond.not()}
}

// Known returns the truth value of the condition if bounds of symbols and recorded guards decide it. Otherwise ok is
// false, and truth has no meaning.
func (a Bool) Known() (truth, ok bool) {
	if a.cond == nil {
		return a.truth, true
	}
	r := a.cond.env.reduceAsQuestion(a.cond)
	return r.truth, r.known
}

// Decide returns true or false if bounds and guards decide the condition. Otherwise it returns the condition without
// the parts that they decide. It records nothing.
func (a Bool) Decide() Bool {
	if a.cond == nil {
		return a
	}
	r := a.cond.env.reduceAsQuestion(a.cond)
	if r.known {
		return Bool{truth: r.truth}
	}
	return Bool{truth: r.remaining.hint, cond: r.remaining}
}

// Hint returns the truth value at the hints of the symbols.
func (a Bool) Hint() bool { return a.truth }

// Holds decides a branch. If bounds and guards do not decide the condition, Holds evaluates it at the hints (typical
// values) of the symbols. It records the answer as a guard in the symbols' Env, because the caller's result is valid
// only for sizes with the same answer. In a fork ([Fork]), the current path gives the answer. The guard of a
// conjunction or disjunction omits operands that are known.
func (a Bool) Holds() bool {
	if a.cond == nil {
		return a.truth
	}
	return a.cond.env.decide(a)
}

// Same reports whether a and b are the same truth value or the same condition.
func (a Bool) Same(b Bool) bool { return a.cond == b.cond && (a.cond != nil || a.truth == b.truth) }

// At returns the truth of the condition for the given values of symbols. It fails where [Int.At] fails.
func (a Bool) At(b Binding) (bool, error) {
	if a.cond == nil {
		return a.truth, nil
	}
	return (&valuation{binding: b}).cond(a.cond)
}

// String returns "True", "False" or the condition: "Eq(x, 1) | Lt(y, x)".
func (a Bool) String() string {
	switch {
	case a.cond != nil:
		return a.cond.String()
	case a.truth:
		return "True"
	}
	return "False"
}

// Atoms returns the comparisons that occur in the condition. A comparison and its negation are listed once.
func (a Bool) Atoms() []Bool {
	if a.cond == nil {
		return nil
	}
	collector := &comparisonCollector{visited: map[*cond]bool{}}
	collector.visit(a.cond)
	return collector.list
}

// comparisonCollector lists the comparisons in conditions: see [Bool.Atoms].
type comparisonCollector struct {
	list    []Bool
	visited map[*cond]bool // the conditions that were visited, and the negations of listed comparisons
}

// visit lists the comparisons in a condition that are not listed yet.
func (v *comparisonCollector) visit(c *cond) {
	switch {
	case v.visited[c]:
		return
	case c.isJunction():
		for _, part := range c.args {
			v.visit(part)
		}
	default:
		// Either c or its negation is listed: Eq instead of Ne, otherwise the one that was made first.
		negation := c.not()
		if c.kind == condNe || c.kind == condGe && negation.id < c.id {
			c, negation = negation, c
		}
		if !v.visited[c] {
			v.list = append(v.list, Bool{truth: c.hint, cond: c})
		}
		v.visited[negation] = true
	}
	v.visited[c] = true
}
