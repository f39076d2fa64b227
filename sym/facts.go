package sym

import (
	"math"
	"slices"
)

// This file stores facts about expressions and derives bounds from them; residue.go derives residues. An expr is a
// constant plus terms, a term is a coefficient times atoms, and an atom is a symbol or a function of expressions.
//
// For example, the guard 2*x + 4 <= 20 is stored as the fact that x is at most 8. The guard x % 4 = 0 is stored as the
// fact that x is 0 modulo 4. For x of at least 1, x is then 4 or 8: x*y is at least 4 for y of at least 1, and x + 1 is
// 1 modulo 4, so that it is not 0.

// facts holds the known conditions on symbols besides their bounds: guards, assumptions and hypotheses. A hypothesis is
// a fact for a limited time: the operands of a disjunction or conjunction are examined under hypotheses. Each fact is
// stored in the expression, atom or condition that it is about.
type facts struct {
	trueRelations []*cond  // relations that hold
	clauses       []*cond  // disjunctions that hold
	sumFacts      int      // number of facts about sums of several terms; if it is 0, bounds need not look for them
	contradiction bool     // whether no sizes satisfy the facts
	hypotheses    int      // nesting depth of hypotheses
	trail         []change // the changes so far, in order; reset undoes them

	// Cached bounds and answers are valid for one generation: the number of a set of facts.
	generation     int                       // the current generation; 0 is the empty set
	lastGeneration int                       // the greatest number so far
	generations    map[transition]int        // the generation that followed each earlier transition
	answers        map[questionKey]reduction // cached answers

	// A question asks whether a condition holds: see budget.go.
	inUse      bool // whether answers to questions use facts in addition to bounds
	proofSteps int  // remaining steps of a proof
	stepsLeft  int  // remaining steps of the question
	stepsSpent int  // steps of all earlier questions
}

// fact is the knowledge about an expression: its value is in [lo, hi], is not in the list excluded, and equals rem
// modulo mod.
type fact struct {
	lo, hi   int
	excluded []int
	mod, rem int // modulus, at least 1, and residue
}

// change is an entry of the trail. It is one of three changes; the fields of the other two changes are nil.
type change struct {
	expr *expr // an expression that got a fact
	fact *fact // the previous fact of expr
	atom *atom // an atom that got a replacement, an expression that equals it
	cond *cond // a condition that became a fact
}

// setFact stores the fact of a primitive expression (see primitiveForm).
func (env *Env) setFact(primitive *expr, f fact) {
	if primitive.fact == nil && len(primitive.terms) > 1 {
		env.facts.sumFacts++
	}
	env.facts.trail = append(env.facts.trail, change{expr: primitive, fact: primitive.fact})
	primitive.fact = &f
	env.facts.beginGeneration()
}

// factOf returns the fact of a primitive expression. Its bounds include bounds that other facts imply.
func (env *Env) factOf(primitive *expr) fact {
	lo, hi := env.bounds(primitive)
	f := fact{lo: lo, hi: hi, mod: 1}
	if primitive.fact != nil {
		f.excluded, f.mod, f.rem = primitive.fact.excluded, primitive.fact.mod, primitive.fact.rem
	}
	return f
}

// tighten raises lo and lowers hi to the nearest value that is not excluded and has the residue. For example, the
// bounds 1 and 9 both become 8 if the residue is 0 modulo 4, and 4 is excluded. tighten does not change bounds near the
// limits of an int, where a step of up to maxModulus could overflow.
func (f *fact) tighten() {
	// A lower bound of math.MinInt and an upper bound of math.MaxInt mean no bound, and do not change.
	for f.lo > math.MinInt+maxModulus && f.lo <= f.hi && f.lo < math.MaxInt-maxModulus {
		if offset := f.lo - f.rem; f.mod > 1 && offset%f.mod != 0 { // take the next number above lo with the residue
			f.lo = f.rem + f.mod*floorDiv(offset, f.mod) + f.mod
		}
		if !slices.Contains(f.excluded, f.lo) {
			break
		}
		f.lo++
	}
	// The limit is twice maxModulus, so that hi - rem, rounded down to a multiple of mod, does not overflow.
	for f.hi < math.MaxInt && f.hi >= f.lo && f.hi > math.MinInt+2*maxModulus {
		if offset := f.hi - f.rem; f.mod > 1 && offset%f.mod != 0 { // take the next number below hi with the residue
			f.hi = f.rem + f.mod*floorDiv(offset, f.mod)
		}
		if !slices.Contains(f.excluded, f.hi) {
			break
		}
		f.hi--
	}
}

// mark is a state of the facts that reset can restore. The numbers are the lengths of lists at that time, or counters.
type mark struct {
	generation, trail, trueRelations, clauses, sumFacts, guards, path, hypotheses int
	contradiction                                                                 bool
}

// mark returns the current state of the facts, for reset.
func (env *Env) mark() mark {
	f := &env.facts
	return mark{generation: f.generation, trail: len(f.trail), trueRelations: len(f.trueRelations),
		clauses: len(f.clauses), sumFacts: f.sumFacts, guards: len(env.guards), path: len(env.path), hypotheses: f.hypotheses,
		contradiction: f.contradiction}
}

// reset undoes all facts and guards since the mark.
func (env *Env) reset(m mark) {
	f := &env.facts
	for len(f.trail) > m.trail {
		last := f.trail[len(f.trail)-1]
		f.trail = f.trail[:len(f.trail)-1]
		switch {
		case last.atom != nil:
			last.atom.replacement = nil
		case last.cond != nil:
			last.cond.isFact = false
		default:
			last.expr.fact = last.fact
		}
	}
	f.generation, f.sumFacts, f.hypotheses, f.contradiction = m.generation, m.sumFacts, m.hypotheses, m.contradiction
	f.trueRelations, f.clauses = f.trueRelations[:m.trueRelations], f.clauses[:m.clauses]
	env.guards, env.path = env.guards[:m.guards], env.path[:m.path]
}

// withFacts sets whether questions use facts, and returns a function that restores the previous setting. Canonical
// forms use bounds only. The form of an expression therefore does not depend on the facts that are known when the
// expression is built.
func (env *Env) withFacts(inUse bool) func() {
	wasInUse := env.facts.inUse
	env.facts.inUse = inUse
	return func() { env.facts.inUse = wasInUse }
}

// beginGeneration gives the changed set of facts a new number, which invalidates cached bounds and answers.
func (f *facts) beginGeneration() {
	f.lastGeneration++
	f.generation = f.lastGeneration
}

// transition identifies a change from one set of facts to another: cond becomes a fact and, if learned is set, its
// consequences too.
type transition struct {
	from       int // the generation before
	cond       *cond
	learned    bool
	hypotheses int // nesting depth of hypotheses
}

// reuseGeneration records the generation to which a transition leads. If the transition occurred before,
// reuseGeneration restores the number of the earlier generation, so that answers cached for that generation are valid
// again. For example, hypothesis c changes generation 3 to 4. After its end, the generation is 3 again, and the same
// hypothesis changes it to 4 again.
func (f *facts) reuseGeneration(t transition) {
	if f.generations == nil {
		f.generations = map[transition]int{}
	}
	if generation, known := f.generations[t]; known {
		f.generation = generation
		return
	}
	f.generations[t] = f.generation
}

// questionKey is a condition in a state of the facts: the key of a cached answer.
type questionKey struct {
	cond  *cond
	state int // the generation, with a sign for the remaining steps: see facts.state
}

// maxAnswers bounds the number of cached answers.
const maxAnswers = 1 << 16

// storeAnswer stores the answer to a question in the cache. A reduction is the truth of the condition or, if the truth
// is unknown, a simpler condition.
func (f *facts) storeAnswer(key questionKey, r reduction) {
	if f.answers == nil || len(f.answers) >= maxAnswers {
		f.answers = map[questionKey]reduction{}
	}
	f.answers[key] = r
}

// active reports whether there are facts in use.
func (f *facts) active() bool { return f.inUse && f.generation != 0 }

// bounds returns bounds of e, under the current facts if these are in use.
func (env *Env) bounds(e *expr) (lo, hi int) {
	if !env.facts.active() || len(e.terms) == 0 {
		return e.lo, e.hi
	}
	if e.boundsGeneration == env.facts.generation {
		return e.currentBounds[0], e.currentBounds[1]
	}
	lo, hi = constantRange(e.constant)
	for _, t := range e.terms {
		termLo, termHi := env.termBounds(t)
		lo, hi = addLower(lo, termLo), addUpper(hi, termHi)
	}
	lo, hi = max(lo, e.lo), min(hi, e.hi)
	if f := e.fact; f != nil {
		lo, hi = max(lo, f.lo), min(hi, f.hi)
	} else if env.facts.sumFacts > 0 && len(e.terms) > 1 {
		if primitive, factor, constant := env.primitiveForm(e); primitive.fact != nil {
			factLo, factHi := mulRange(primitive.fact.lo, primitive.fact.hi, factor, factor)
			lo, hi = max(lo, addLower(factLo, constant)), min(hi, addUpper(factHi, constant))
		}
	}
	e.boundsGeneration, e.currentBounds = env.facts.generation, [2]int{lo, hi}
	return lo, hi
}

// termBounds returns the bounds of a term, under the current facts if these are in use.
func (env *Env) termBounds(t term) (lo, hi int) {
	lo, hi = t.coeff, t.coeff
	for _, a := range t.atoms {
		atomLo, atomHi := env.atomBounds(a)
		lo, hi = mulRange(lo, hi, atomLo, atomHi)
	}
	return lo, hi
}

// atomBounds is bounds for an atom.
func (env *Env) atomBounds(a *atom) (lo, hi int) {
	if !env.facts.active() {
		return a.lo, a.hi
	}
	if a.boundsGeneration == env.facts.generation {
		return a.currentBounds[0], a.currentBounds[1]
	}
	lo, hi = a.boundsFrom(env.bounds)
	lo, hi = max(lo, a.lo), min(hi, a.hi)
	if f := a.asExpr.fact; f != nil {
		lo, hi = max(lo, f.lo), min(hi, f.hi)
	}
	if a.replacement != nil {
		replacementLo, replacementHi := env.bounds(a.replacement)
		lo, hi = max(lo, replacementLo), min(hi, replacementHi)
	}
	a.boundsGeneration, a.currentBounds = env.facts.generation, [2]int{lo, hi}
	return lo, hi
}

// primitiveForm writes e as factor*primitive + constant. The primitive expression has no constant, its first
// coefficient is positive, and its coefficients have no common divisor. Facts about e are stored in the primitive
// expression. e must have at least one term.
func (env *Env) primitiveForm(e *expr) (primitive *expr, factor, constant int) {
	factor = e.gcd()
	if e.terms[0].coeff < 0 {
		factor = -factor
	}
	if factor == 1 && e.constant == 0 {
		return e, 1, 0
	}
	const primitivePart = 'p' // name of this operation in the memo
	primitive = env.memoized(primitivePart, e, e, func() *expr { return env.dividedBy(e, factor, 0) })
	return primitive, factor, e.constant
}
