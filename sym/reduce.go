package sym

// This file decides conditions under the facts: the guards, the assumptions and the hypotheses about the symbols. A
// cond is a relation, or a junction: a conjunction (condAnd) or disjunction (condOr) of other conds. A hypothesis is a
// fact that env.reset removes afterwards. For example, let x >= 3 be a fact. Then x >= 1 is known to be true, and the
// conjunction x >= 1 & y >= x is reduced to the remaining condition y >= x.

// reduction is the result of reduce: the truth if it is known, else the remaining condition.
type reduction struct {
	truth, known bool
	remaining    *cond // equivalent to the condition under the facts; nil if the truth is known
}

// knownTruth returns the reduction to a known truth.
func knownTruth(truth bool) reduction { return reduction{truth: truth, known: true} }

// reduceAsQuestion reduces a condition under the known facts, with the step budget of a new question (budget.go).
func (env *Env) reduceAsQuestion(c *cond) reduction {
	defer env.beginQuestion()() // begins now; the returned function ends the question
	return env.reduce(c)
}

// reduce drops the known parts of a condition. It examines each operand of a conjunction under the hypothesis that the
// earlier operands are true. It examines each operand of a disjunction under the hypothesis that the earlier operands
// are false. For example, in Eq(x, 0) | Eq(Max(1, x), x), with x of at least 0, it examines the second operand for x
// other than 0. The second operand is then known to be true, and so is the disjunction.
func (env *Env) reduce(c *cond) reduction {
	switch {
	case env.facts.contradiction: // no sizes satisfy the facts, so either truth is right
		return knownTruth(c.hint)
	case c.isFact:
		return knownTruth(true)
	case c.not().isFact:
		return knownTruth(false)
	}
	key := questionKey{c, env.facts.state()}
	result, cached := env.facts.answers[key]
	if cached {
		return result
	}
	if !c.isJunction() {
		if result.truth, result.known = env.relationKnown(c); !result.known {
			result.remaining = c
		}
	} else {
		result = env.reduceParts(c)
	}
	switch {
	case env.facts.stepsLeft == 0 && !result.known: // not cached, because a later question has more steps
		return reduction{remaining: c}
	case key.state == env.facts.state(): // else the second half of the budget has begun: answers are less complete
		env.facts.storeAnswer(key, result)
	}
	return result
}

// condTruth returns the truth of a condition inside an expression, if it is known. If few steps remain or hypotheses
// are deeply nested, it makes no further hypotheses, because they may take many steps.
func (env *Env) condTruth(c *cond) (truth, known bool) {
	if !env.facts.avoidsHypotheses() {
		r := env.reduce(c)
		return r.truth, r.known
	}
	// Without hypotheses, each relation in c is examined by itself.
	switch {
	case c.isFact:
		return true, true
	case c.not().isFact:
		return false, true
	case !c.isJunction():
		return env.relationKnown(c)
	}
	decisive := c.kind == condOr // an operand with this truth decides the truth of c
	allKnown := true
	for _, part := range c.args {
		truth, known := env.condTruth(part)
		if known && truth == decisive {
			return decisive, true
		}
		allKnown = allKnown && known
	}
	return !decisive, allKnown
}

// reduceParts is [Env.reduce] for a conjunction or disjunction.
func (env *Env) reduceParts(c *cond) reduction {
	decisive := c.kind == condOr // an operand with this truth decides the truth of c
	start := env.mark()
	defer env.reset(start)
	var undecided []*cond // the remaining conditions of the operands so far
	// The relations come first, because they are the most useful hypotheses for the other operands.
	for _, wantsJunctions := range []bool{false, true} {
		for _, part := range c.args {
			if part.isJunction() != wantsJunctions {
				continue
			}
			reduced := env.reduce(part)
			switch {
			case reduced.known && reduced.truth == decisive:
				return knownTruth(decisive)
			case reduced.known:
				continue
			}
			undecided = append(undecided, reduced.remaining)
			if len(undecided) == len(c.args) { // this is the last operand, so no operand needs it as a hypothesis
				break
			}
			env.facts.hypotheses = start.hypotheses + 1
			if decisive {
				env.learn(reduced.remaining.not())
			} else {
				env.learn(reduced.remaining)
			}
			if env.facts.contradiction {
				// The operands so far cannot all be false (in a disjunction) or all be true (in a conjunction).
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
	return reduction{remaining: env.junctionOf(c.kind, flatten(c.kind, undecided))}
}

// sameParts reports whether both lists have the same parts in any order. They must have the same length and no
// duplicates.
func sameParts(a, b []*cond) bool {
	commonCount := 0
	for _, part := range a {
		for _, other := range b {
			if part == other {
				commonCount++
			}
		}
	}
	return commonCount == len(b)
}

// flatten replaces each nested condition of the given kind by its operands.
func flatten(kind condKind, parts []*cond) []*cond {
	var out []*cond
	for _, part := range parts {
		if part.kind == kind {
			out = append(out, part.args...)
		} else {
			out = append(out, part)
		}
	}
	return out
}
