package sym

// reduction is the result of reduce: the truth if it is known, else the remaining condition.
type reduction struct {
	truth, known bool
	remaining    *cond
}

func knownTruth(truth bool) reduction { return reduction{truth: truth, known: true} }

// reduceByFacts calls reduce as a separate question, which uses facts.
func (v *Env) reduceByFacts(c *cond) reduction {
	defer v.beginQuestion()()
	return v.reduce(c)
}

// reduce drops the known parts of a condition. It examines each operand of a conjunction under the hypothesis that the
// earlier operands are true. It examines each operand of a disjunction under the hypothesis that the earlier operands
// are false. For example, in Eq(x, 0) | Eq(Max(1, x), x) it examines the second operand for x other than 0.
func (v *Env) reduce(c *cond) reduction {
	switch {
	case v.facts.contradiction:
		return knownTruth(c.hint)
	case c.isFact:
		return knownTruth(true)
	case c.not().isFact:
		return knownTruth(false)
	}
	key := questionKey{c, v.facts.state()}
	r, cached := v.facts.answers[key]
	if cached {
		return r
	}
	if c.kind < condAnd {
		if r.truth, r.known = v.relationKnown(c); !r.known {
			r.remaining = c
		}
	} else {
		r = v.reduceParts(c)
	}
	switch {
	case v.facts.stepsLeft == 0 && !r.known:
		return reduction{remaining: c}
	case key.state == v.facts.state():
		v.facts.cache(key, r)
	}
	return r
}

// condTruth returns the truth of a condition inside an expression, if it is known.
func (v *Env) condTruth(c *cond) (truth, known bool) {
	if !v.facts.shallow() {
		r := v.reduce(c)
		return r.truth, r.known
	}
	switch {
	case c.isFact:
		return true, true
	case c.not().isFact:
		return false, true
	case c.kind < condAnd:
		return v.relationKnown(c)
	}
	decisive := c.kind == condOr
	all := true
	for _, p := range c.args {
		truth, known := v.condTruth(p)
		if known && truth == decisive {
			return decisive, true
		}
		all = all && known
	}
	return !decisive, all
}

// reduceParts is [Env.reduce] for a conjunction or disjunction.
func (v *Env) reduceParts(c *cond) reduction {
	decisive := c.kind == condOr
	m := v.mark()
	defer v.reset(m)
	var undecided []*cond
	// Relations come first, because they are the most useful hypotheses.
	for _, junctions := range []bool{false, true} {
		for _, p := range c.args {
			if (p.kind >= condAnd) != junctions {
				continue
			}
			r := v.reduce(p)
			switch {
			case r.known && r.truth == decisive:
				return knownTruth(decisive)
			case r.known:
				continue
			}
			undecided = append(undecided, r.remaining)
			if len(undecided) == len(c.args) {
				break
			}
			v.facts.hypotheses = m.hypotheses + 1
			if decisive {
				v.learn(r.remaining.not())
			} else {
				v.learn(r.remaining)
			}
			if v.facts.contradiction {
				// No sizes make all parts so far false (in a disjunction) or true (in a conjunction).
				return knownTruth(decisive)
			}
		}
	}
	switch {
	case len(undecided) == 0:
		return knownTruth(!decisive)
	case len(undecided) == len(c.args) && sameParts(undecided, c.args):
		return reduction{remaining: c}
	}
	return reduction{remaining: v.junctionOf(c.kind, flatten(c.kind, undecided))}
}

// sameParts reports whether both lists have the same parts, in any order.
func sameParts(a, b []*cond) bool {
	n := 0
	for _, p := range a {
		for _, q := range b {
			if p == q {
				n++
			}
		}
	}
	return n == len(b)
}

// flatten replaces each nested condition of kind k by its operands.
func flatten(k condKind, parts []*cond) []*cond {
	var out []*cond
	for _, p := range parts {
		if p.kind == k {
			out = append(out, p.args...)
		} else {
			out = append(out, p)
		}
	}
	return out
}
