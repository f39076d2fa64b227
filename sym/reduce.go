package sym

// reduced is what is left of a condition: a truth, or the condition that remains.
type reduced struct {
	truth, known bool
	rest         *cond
}

func settled(truth bool) reduced { return reduced{truth: truth, known: true} }

// ask is reduce under the facts.
func (v *Env) ask(c *cond) reduced {
	defer v.asking()()
	return v.reduce(c)
}

// reduce drops what is known of a condition. In a conjunction each part is looked at where those before it hold, in an
// alternative where they do not: of Eq(x, 0) | Eq(Max(1, x), x) the second is only asked for x other than 0.
func (v *Env) reduce(c *cond) reduced {
	switch {
	case v.facts.contradiction:
		return settled(c.hint)
	case c.settled:
		return settled(true)
	case c.not().settled:
		return settled(false)
	}
	at := asked{c, v.facts.state()}
	r, again := v.facts.found[at]
	if again {
		return r
	}
	if c.kind < condAnd {
		if r.truth, r.known = v.relationKnown(c); !r.known {
			r.rest = c
		}
	} else {
		r = v.reduceParts(c)
	}
	switch {
	case v.facts.left == 0 && !r.known:
		return reduced{rest: c}
	case at.state == v.facts.state():
		v.facts.note(at, r)
	}
	return r
}

// chosen returns the truth of a condition inside an expression.
func (v *Env) chosen(c *cond) (truth, known bool) {
	if !v.facts.shallow() {
		r := v.reduce(c)
		return r.truth, r.known
	}
	switch {
	case c.settled:
		return true, true
	case c.not().settled:
		return false, true
	case c.kind < condAnd:
		return v.relationKnown(c)
	}
	either := c.kind == condOr
	all := true
	for _, p := range c.args {
		truth, known := v.chosen(p)
		if known && truth == either {
			return either, true
		}
		all = all && known
	}
	return !either, all
}

func (v *Env) reduceParts(c *cond) reduced {
	either := c.kind == condOr
	m := v.mark()
	defer v.reset(m)
	var kept []*cond
	// What is a relation comes first: it tells most about the others.
	for _, junctions := range []bool{false, true} {
		for _, p := range c.args {
			if (p.kind >= condAnd) != junctions {
				continue
			}
			r := v.reduce(p)
			switch {
			case r.known && r.truth == either:
				return settled(either)
			case r.known:
				continue
			}
			kept = append(kept, r.rest)
			if len(kept) == len(c.args) {
				break
			}
			v.facts.hypotheses = m.hypotheses + 1
			if either {
				v.learn(r.rest.not())
			} else {
				v.learn(r.rest)
			}
			if v.facts.contradiction {
				// No sizes make all parts so far false, or true.
				return settled(either)
			}
		}
	}
	switch {
	case len(kept) == 0:
		return settled(!either)
	case len(kept) == len(c.args) && same(kept, c.args):
		return reduced{rest: c}
	}
	return reduced{rest: v.joined(c.kind, flat(c.kind, kept))}
}

// same reports whether all parts are there, in any order.
func same(a, b []*cond) bool {
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

// flat puts the parts of junctions of the kind in their place.
func flat(k condKind, parts []*cond) []*cond {
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
