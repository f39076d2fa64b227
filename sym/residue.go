package sym

import "strconv"

// This file computes residues: a modulus m and a residue r, such that an expression equals r modulo m for all sizes. If
// x is 0 modulo 4, for example, 3*x + 1 is 1 modulo 12, and x//2 is 0 modulo 2. A number is its own residue, modulo 0:
// x % 4 is 0 modulo 0.
//
// An expression is a constant plus a sum of terms, and a term is a coefficient times atoms. A fact is additional
// knowledge about an expression, for example that it equals rem modulo mod. Each set of facts has a number, its
// generation, and generation 0 has no facts.

// residue returns m and r such that e equals r modulo m. m is 1 if nothing is known. m is 0 if e is the number r.
func (env *Env) residue(e *expr) (m, r int) {
	m, r = modulo(0, e.constant)
	for _, t := range e.terms {
		termModulus, termResidue := modulo(0, t.coeff)
		for _, a := range t.atoms {
			atomModulus, atomResidue := env.atomResidue(a)
			// (m1*i + r1)*(m2*j + r2) equals r1*r2 modulo the common divisor of m1*m2, m1*r2 and m2*r1.
			termModulus, termResidue = modulo(gcd(gcd(termModulus*atomModulus, termModulus*atomResidue),
				atomModulus*termResidue), termResidue*atomResidue)
		}
		// A sum is known modulo the common divisor: 1 modulo 4 plus 2 modulo 6 is 1 modulo 2.
		m, r = modulo(gcd(m, termModulus), r+termResidue)
	}
	if factModulus, factResidue, ok := env.residueByFact(e); ok && factModulus > m {
		return factModulus, factResidue
	}
	return m, r
}

// residueByFact returns the residue of a sum of several terms that its own fact states. ok is false if there is none.
// The fact is stored in the primitive form: e is factor*primitive + constant.
func (env *Env) residueByFact(e *expr) (m, r int, ok bool) {
	if len(e.terms) < 2 || !env.facts.active() || env.facts.sumFacts == 0 {
		return 0, 0, false
	}
	primitive, factor, constant := env.primitiveForm(e)
	f := primitive.fact
	if f == nil || f.mod <= 1 || max(factor, -factor, constant, -constant) >= maxModulus {
		return 0, 0, false
	}
	m, r = modulo(f.mod*factor, f.rem*factor+constant)
	return m, r, true
}

// atomResidue is residue for an atom.
func (env *Env) atomResidue(a *atom) (m, r int) {
	generation := 0
	if env.facts.active() {
		generation = env.facts.generation
	}
	if a.residueGeneration != generation+1 { // 0 means that no residue is stored
		m, r = env.findResidue(a)
		a.residueGeneration, a.residue = generation+1, [2]int{m, r}
	}
	return a.residue[0], a.residue[1]
}

// findResidue computes the residue of an atom from its facts, or from the residues of its operands.
func (env *Env) findResidue(a *atom) (m, r int) {
	m = 1
	if env.facts.active() {
		if lo, hi := env.atomBounds(a); lo == hi {
			return modulo(0, lo)
		}
		if a.replacement != nil {
			return env.residue(a.replacement)
		}
		if f := a.asExpr.fact; f != nil {
			m, r = f.mod, f.rem
		}
	}
	if m > 1 || a.kind == kindSymbol {
		return m, r
	}
	switch a.kind {
	case kindDiv, kindMod:
		divisor := a.args[1]
		if len(divisor.terms) > 0 || divisor.constant <= 0 {
			return 1, 0
		}
		m, r = env.residue(a.args[0])
		if a.kind == kindDiv {
			return quotientResidue(m, r, divisor.constant)
		}
		return remainderResidue(m, r, divisor.constant)
	case kindMax, kindMin, kindWhere:
		// The value is one of the operands: their residues are equal modulo common divisors of the moduli and of the
		// differences.
		m, r = env.residue(a.args[0])
		for _, e := range a.args[1:] {
			otherModulus, otherResidue := env.residue(e)
			m, r = modulo(gcd(gcd(m, otherModulus), r-otherResidue), r)
		}
		return m, r
	}
	return 1, 0
}

// quotientResidue returns the residue of x // divisor, where x equals r modulo m: (m*i + r) // c = (m/c)*i + r//c if c
// divides m.
func quotientResidue(m, r, divisor int) (int, int) {
	if m == 0 || m%divisor != 0 {
		return 1, 0
	}
	return modulo(m/divisor, floorDiv(r, divisor))
}

// remainderResidue returns the residue of x % divisor, where x equals r modulo m. If divisor divides m, the remainder
// is a number.
func remainderResidue(m, r, divisor int) (int, int) {
	common := gcd(m, divisor)
	switch {
	case m == 0 || common == 1:
		return 1, 0
	case common == divisor:
		return modulo(0, r-divisor*floorDiv(r, divisor))
	}
	return modulo(common, r)
}

// maxModulus bounds moduli, so that their products fit an int.
const maxModulus = 1 << (strconv.IntSize/2 - 2)

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
