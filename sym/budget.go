package sym

// A question is one call of Known, Decide, Holds, Simplify, Bounds or Assume. Its budget is a number of steps, not an
// amount of time, so that the answer is the same on every machine. The answer may depend on earlier questions to the
// Env, because cached answers cost no steps.
const (
	// questionSteps bounds the steps of one question. In the first half of the steps, conditions are reduced under up
	// to maxHypotheses nested hypotheses (see reduce). In the second half, a condition inside an expression is decided
	// without hypotheses: each of its relations is examined by itself. When no steps are left, the answer is "unknown".
	questionSteps = 1 << 14
	// envSteps bounds the steps of all questions of an Env together. Each later question has only fewSteps.
	envSteps = 1 << 21
	fewSteps = 1 << 10

	maxHypotheses = 4
)

// beginQuestion begins a question under the facts. The returned function ends it.
func (env *Env) beginQuestion() func() {
	f := &env.facts
	inUse, savedSteps := f.inUse, f.stepsLeft
	granted := questionSteps
	if f.stepsSpent >= envSteps {
		granted = fewSteps
	}
	f.inUse, f.stepsLeft = true, granted
	return func() {
		f.stepsSpent += granted - f.stepsLeft
		f.inUse, f.stepsLeft = inUse, savedSteps
	}
}

// Steps returns the number of steps of all questions so far.
func (env *Env) Steps() int { return env.facts.stepsSpent }

// spendSteps spends n steps, and reports whether the question has steps left.
func (f *facts) spendSteps(n int) bool {
	if f.stepsLeft > 0 {
		f.stepsLeft = max(f.stepsLeft-n, 0)
	}
	return f.stepsLeft > 0
}

// avoidsHypotheses reports whether conditions inside expressions must be reduced without hypotheses.
func (f *facts) avoidsHypotheses() bool {
	return f.stepsLeft < questionSteps/2 || f.hypotheses >= maxHypotheses
}

// state is a key for cached answers. Its magnitude is the generation of facts. It is negative in the second half of a
// question's budget.
func (f *facts) state() int {
	if f.stepsLeft < questionSteps/2 {
		return -f.generation
	}
	return f.generation
}
