package sym

import (
	"math"
	"slices"
	"strconv"
)

// facts is the knowledge beyond the bounds of symbols: guards, assumptions, and the hypotheses under which the operands
// of a disjunction or conjunction are examined. A fact is stored in its expression, atom or condition. trail records
// the replaced states, so that reset can restore them.
type facts struct {
	inUse          bool                      // whether questions use facts in addition to bounds
	generation     int                       // identifies the current set of facts; 0 is the empty set
	lastGeneration int                       // the latest generation
	generations    map[transition]int        // the generation to which each transition led
	answers        map[questionKey]reduction // cached answers
	contradiction  bool
	trail          []change
	trueRelations  []*cond // relations that hold
	clauses        []*cond // disjunctions that hold
	sumFacts       int     // number of facts about sums of several terms
	proofSteps     int     // remaining steps of a proof
	hypotheses     int     // nesting depth of hypotheses
	stepsLeft      int     // remaining steps of the question
	stepsSpent     int     // steps of all earlier questions
}

// fact is the knowledge about an expression. The value of the expression is in [lo, hi], is not in the list excluded,
// and is rem modulo mod.
type fact struct {
	lo, hi   int
	excluded []int
	mod, rem int // mod is at least 1
}

// change is an entry of the trail: the expression, atom or condition for which a fact was set, and its earlier fact.
type change struct {
	e    *expr
	fact *fact
	a    *atom
	c    *cond
}

// mark is a state of the facts to which reset returns.
type mark struct {
	generation, trail, trueRelations, clauses, sumFacts, guards, hypotheses int
	contradiction                                                           bool
}

func (v *Env) mark() mark {
	f := &v.facts
	return mark{f.generation, len(f.trail), len(f.trueRelations), len(f.clauses), f.sumFacts, len(v.guards), f.hypotheses,
		f.contradiction}
}

// reset undoes all facts and guards since the mark.
func (v *Env) reset(m mark) {
	f := &v.facts
	for len(f.trail) > m.trail {
		c := f.trail[len(f.trail)-1]
		f.trail = f.trail[:len(f.trail)-1]
		switch {
		case c.a != nil:
			c.a.replacement = nil
		case c.c != nil:
			c.c.isFact = false
		default:
			c.e.fact = c.fact
		}
	}
	f.generation, f.sumFacts, f.contradiction, f.hypotheses = m.generation, m.sumFacts, m.contradiction, m.hypotheses
	f.trueRelations, f.clauses = f.trueRelations[:m.trueRelations], f.clauses[:m.clauses]
	v.guards = v.guards[:m.guards]
}

// withFacts sets whether questions use facts, and returns a function that restores the previous setting. Canonical
// forms use bounds only. The form of an expression therefore does not depend on the facts that are known when the
// expression is built.
func (v *Env) withFacts(inUse bool) func() {
	wasInUse := v.facts.inUse
	v.facts.inUse = inUse
	return func() { v.facts.inUse = wasInUse }
}

// newGeneration starts a new generation of facts.
func (f *facts) newGeneration() {
	f.lastGeneration++
	f.generation = f.lastGeneration
}

// transition identifies a change from one set of facts to another. A condition is marked as true, or is
// learned together with its consequences.
type transition struct {
	from       int
	c          *cond
	learned    bool
	hypotheses int
}

// reuseGeneration records the generation to which a transition leads. If it occurred before, reuseGeneration restores
// the number of the earlier generation, so that answers cached for that generation apply again.
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
	c     *cond
	state int
}

// maxAnswers bounds the number of cached answers.
const maxAnswers = 1 << 16

// cache caches an answer.
func (f *facts) cache(key questionKey, r reduction) {
	if f.answers == nil || len(f.answers) >= maxAnswers {
		f.answers = map[questionKey]reduction{}
	}
	f.answers[key] = r
}

func (f *facts) active() bool { return f.inUse && f.generation != 0 }

// bounds returns bounds of e, under the current facts if these are in use.
func (v *Env) bounds(e *expr) (lo, hi int) {
	if !v.facts.active() || len(e.terms) == 0 {
		return e.lo, e.hi
	}
	if e.boundsGeneration == v.facts.generation {
		return e.currentBounds[0], e.currentBounds[1]
	}
	lo, hi = constantRange(e.c)
	for _, t := range e.terms {
		l, h := v.termBounds(t)
		lo, hi = addLower(lo, l), addUpper(hi, h)
	}
	lo, hi = max(lo, e.lo), min(hi, e.hi)
	if f := e.fact; f != nil {
		lo, hi = max(lo, f.lo), min(hi, f.hi)
	} else if v.facts.sumFacts > 0 && len(e.terms) > 1 {
		if p, k, c := v.linear(e); p.fact != nil {
			l, h := mulRange(p.fact.lo, p.fact.hi, k, k)
			lo, hi = max(lo, addLower(l, c)), min(hi, addUpper(h, c))
		}
	}
	e.boundsGeneration, e.currentBounds = v.facts.generation, [2]int{lo, hi}
	return lo, hi
}

func (v *Env) termBounds(t term) (lo, hi int) {
	lo, hi = t.coeff, t.coeff
	for _, a := range t.atoms {
		l, h := v.atomBounds(a)
		lo, hi = mulRange(lo, hi, l, h)
	}
	return lo, hi
}

func (v *Env) atomBounds(a *atom) (lo, hi int) {
	if !v.facts.active() {
		return a.lo, a.hi
	}
	if a.boundsGeneration == v.facts.generation {
		return a.currentBounds[0], a.currentBounds[1]
	}
	lo, hi = a.boundsFrom(v.bounds)
	lo, hi = max(lo, a.lo), min(hi, a.hi)
	if f := a.asExpr.fact; f != nil {
		lo, hi = max(lo, f.lo), min(hi, f.hi)
	}
	if a.replacement != nil {
		l, h := v.bounds(a.replacement)
		lo, hi = max(lo, l), min(hi, h)
	}
	a.boundsGeneration, a.currentBounds = v.facts.generation, [2]int{lo, hi}
	return lo, hi
}

// linear returns p, k and c with e = k*p + c. p has no constant, its first coefficient is positive, and its
// coefficients have no common divisor. Facts about e are stored in p. e must have at least one term.
func (v *Env) linear(e *expr) (p *expr, k, c int) {
	k = e.gcd()
	if e.terms[0].coeff < 0 {
		k = -k
	}
	if k == 1 && e.c == 0 {
		return e, 1, 0
	}
	p = v.memoized('p', e, e, func() *expr { return v.dividedBy(e, k, 0) })
	return p, k, e.c
}

// maxModulus bounds moduli, so that their products fit an int.
const maxModulus = 1 << (strconv.IntSize/2 - 2)

// residue returns m and r such that e equals r modulo m. m is 1 if nothing is known. m is 0 if e is the number r.
func (v *Env) residue(e *expr) (m, r int) {
	m, r = modulo(0, e.c)
	for _, t := range e.terms {
		tm, tr := modulo(0, t.coeff)
		for _, a := range t.atoms {
			am, ar := v.atomResidue(a)
			tm, tr = modulo(gcd(gcd(tm*am, tm*ar), am*tr), tr*ar)
		}
		m, r = modulo(gcd(m, tm), r+tr)
	}
	if len(e.terms) > 1 && v.facts.active() && v.facts.sumFacts > 0 {
		if p, k, c := v.linear(e); p.fact != nil && p.fact.mod > 1 && max(k, -k, c, -c) < maxModulus {
			if fm, fr := modulo(p.fact.mod*k, p.fact.rem*k+c); fm > m {
				return fm, fr
			}
		}
	}
	return m, r
}

// modulo normalizes a residue r modulo m. If m or r exceeds maxModulus, the result is the unknown residue.
func modulo(m, r int) (int, int) {
	m = max(m, -m)
	switch {
	case m > maxModulus || r > maxModulus*maxModulus || r < -maxModulus*maxModulus:
		return 1, 0
	case m == 0 && (r > maxModulus || r < -maxModulus):
		return 1, 0
	case m == 0:
		return 0, r
	}
	return m, r - m*floorDiv(r, m)
}

// atomResidue is residue for an atom.
func (v *Env) atomResidue(a *atom) (m, r int) {
	state := 1
	if v.facts.active() {
		state += v.facts.generation
	}
	if a.residueState != state {
		m, r = v.findResidue(a)
		a.residueState, a.residue = state, [2]int{m, r}
	}
	return a.residue[0], a.residue[1]
}

// findResidue computes the residue of an atom from its facts, or from the residues of its operands.
func (v *Env) findResidue(a *atom) (m, r int) {
	m = 1
	if v.facts.active() {
		if lo, hi := v.atomBounds(a); lo == hi {
			return modulo(0, lo)
		}
		if a.replacement != nil {
			return v.residue(a.replacement)
		}
		if f := a.asExpr.fact; f != nil {
			m, r = f.mod, f.rem
		}
	}
	if m > 1 || a.kind == kindSymbol {
		return m, r
	}
	x, y := a.args[0], a.args[1]
	xm, xr := v.residue(x)
	divisor := y.c
	switch isConstant := len(y.terms) == 0 && divisor > 0; {
	case a.kind == kindDiv && isConstant && xm != 0 && xm%divisor == 0:
		return modulo(xm/divisor, floorDiv(xr, divisor))
	case a.kind == kindMod && isConstant && xm != 0 && gcd(xm, divisor) > 1:
		if xm%divisor == 0 {
			return modulo(0, xr-divisor*floorDiv(xr, divisor))
		}
		return modulo(gcd(xm, divisor), xr)
	case a.kind == kindMax || a.kind == kindMin || a.kind == kindWhere:
		for _, e := range a.args[1:] {
			em, er := v.residue(e)
			xm, xr = modulo(gcd(gcd(xm, em), xr-er), xr)
		}
		return xm, xr
	}
	return 1, 0
}

// setFact sets the fact of p, which must be a result of linear.
func (v *Env) setFact(p *expr, f fact) {
	if p.fact == nil && len(p.terms) > 1 {
		v.facts.sumFacts++
	}
	v.facts.trail = append(v.facts.trail, change{e: p, fact: p.fact})
	p.fact = &f
	v.facts.newGeneration()
}

// factOf returns the fact of p. Its bounds include those that other facts imply.
func (v *Env) factOf(p *expr) fact {
	lo, hi := v.bounds(p)
	f := fact{lo: lo, hi: hi, mod: 1}
	if p.fact != nil {
		f.excluded, f.mod, f.rem = p.fact.excluded, p.fact.mod, p.fact.rem
	}
	return f
}

// tighten moves each bound inward to the nearest value that is not excluded and has the residue. Bounds near the limits
// of an int are not moved.
func (f *fact) tighten() {
	for f.lo > math.MinInt+maxModulus && f.lo <= f.hi && f.lo < math.MaxInt-maxModulus {
		if off := f.lo - f.rem; f.mod > 1 && off%f.mod != 0 {
			f.lo = f.rem + f.mod*floorDiv(off, f.mod) + f.mod
		}
		if !slices.Contains(f.excluded, f.lo) {
			break
		}
		f.lo++
	}
	for f.hi < math.MaxInt && f.hi >= f.lo && f.hi > math.MinInt+2*maxModulus {
		if off := f.hi - f.rem; f.mod > 1 && off%f.mod != 0 {
			f.hi = f.rem + f.mod*floorDiv(off, f.mod)
		}
		if !slices.Contains(f.excluded, f.hi) {
			break
		}
		f.hi--
	}
}
