package sym

import (
	"errors"
	"fmt"
	"slices"
)

// This file has the branches of computations on sizes. A computation branches where it calls [Bool.Holds]. If the
// bounds of the symbols and the known facts do not decide the condition, the branch is a choice: Holds takes the answer
// at the hints (example values of the symbols) and records the condition as a guard, which becomes a fact.
//
//	Where(c, a, b)   no branch: an expression that is a or b
//	Fork             runs a computation for both answers of each choice, and records no guards
//	Join             keeps the result at the hints, and records guards only where another answer changes the result
//	Differing        lists the first case of a Fork, and the cases whose values differ from it
//
// An Env has the symbols, the guards and the facts. A hypothesis is a fact for the time of a call.

// Where returns a if the condition holds, else b. Only the selected operand is evaluated, so the other operand may
// divide by zero.
func Where(condition Bool, a, b Int) Int {
	switch {
	case condition.cond == nil && condition.truth || a.Same(b):
		return a
	case condition.cond == nil:
		return b
	}
	env := condition.cond.env
	x, y := env.exprOf(a), env.exprOf(b)
	if condition.cond.kind == condNe { // a canonical form: a Where on a = b has the operands in the other order
		condition, x, y = condition.Not(), y, x
	}
	// Where(y <= x, x, Max(x, y)) is Max(x, y).
	for _, branch := range []struct {
		condition         Bool
		candidate, result *expr
	}{{condition, x, y}, {condition.Not(), y, x}} {
		extreme := branch.result.singleAtom()
		if extreme != nil && extreme.isExtreme() && slices.Contains(extreme.args, branch.candidate) &&
			extreme.isExtremeOperand(branch.candidate).Same(branch.condition) {
			return branch.result.int()
		}
	}
	// Where(c, x, Where(d, x, y)) is Where(c | d, x, y). The truth of a Bool with a cond is its truth at the hints.
	if inner := y.singleAtom(); inner != nil && inner.kind == kindWhere && inner.args[0] == x {
		return Where(condition.Or(Bool{truth: inner.cond.hint, cond: inner.cond}), x.int(), inner.args[1].int())
	}
	return env.atomWithCond(kindWhere, condition.cond, x, y).int()
}

// Case is the result of a computation on one path. Value and Err are valid for the sizes that satisfy If.
type Case[T any] struct {
	If    Bool
	Value T
	Err   error
}

// Fork runs a computation for both answers of each branch that bounds and guards do not decide. It repeats the
// computation from the beginning for each path, and returns a case for each path. For any sizes, the condition of
// exactly one case holds. The cases are in depth-first order: for each branch, the answer at the hints comes first.
// Fork records no guards. If there are more cases than `limit`, or too many choices on a path, it returns the cases so
// far and an error. The error names an unexplored condition.
//
// For example, let the computation branch on N = 1 and then, if N is not 1, on N > 8, and let the hint of N be 4. The
// cases are N != 1 & N <= 8, N != 1 & N > 8, and N = 1: the computation runs three times.
//
// A division by a size that may be zero, or a number that overflows an int, adds a case with an error. The computation
// must have no side effects, and must make the same branches for the same answers.
func Fork[T any](env *Env, limit int, run func() (T, error)) ([]Case[T], error) {
	if env == nil || run == nil {
		panic("sym: Fork needs an Env and a computation")
	}
	// A path may have more choices than there are cases: if one answer of a choice is found to be impossible later, the
	// choice leads to a single case.
	const choicesWithOneCase = 64 // margin for such choices
	search := &pathSearch{maxChoices: max(limit, 1) + choicesWithOneCase}
	var cases []Case[T]
	for {
		result, possible := runPath(env, search, run)
		switch {
		case search.unexplored != nil: // too many choices on this path
			return cases, fmt.Errorf("%w: more than %d branches on one path; undecided is %v", errTooManyCases,
				search.maxChoices, search.unexplored)
		case possible && len(cases) >= limit: // one case too many
			return cases, fmt.Errorf("%w: more than %d; undecided is %v", errTooManyCases, limit, result.If)
		case possible:
			cases = append(cases, result)
		}
		if !search.advance() {
			return cases, nil
		}
	}
}

// runPath runs the computation along the recorded answers, and then removes the facts that the run added. possible is
// false if the run was ended early, because its path is impossible or was explored before.
func runPath[T any](env *Env, search *pathSearch, run func() (T, error)) (result Case[T], possible bool) {
	outer, start := env.pathSearch, env.mark()
	env.pathSearch = search // Holds takes the answers of the path from search
	defer func() {
		env.pathSearch = outer
		env.reset(start)
		panicked := recover() // some panics are results of the path
		if overflow, overflowed := panicked.(*overflowPanic); overflowed {
			result.Err, possible = errors.New(overflow.text), true
			return
		}
		switch panicked {
		case nil: // run has returned
		case zeroDivision:
			result.Err = errDivisionByZero
			possible = true
		case ErrNumber: // Int.Specialize panics with this error for sizes other than the hint
			result.Err = ErrNumber
			possible = true
		case errTooManyCases, errPathEnded: // the path has no case; the branches that the run did not reach are dropped
			search.branches = search.branches[:search.nextIndex]
		default:
			panic(panicked)
		}
	}()
	defer func() { // runs first, while env has the guards of the run
		result.If = BoolOf(true)
		for _, g := range env.guards[start.guards:] {
			result.If = result.If.And(g)
		}
	}()
	result.Value, result.Err = run()
	return result, true
}

// errTooManyCases is the error of Fork for too many cases. As a panic value, it ends a run with too many choices.
var errTooManyCases = errors.New("sym: too many cases")

// pathSearch enumerates the paths of a computation. A path is a sequence of branches with their answers. A choice is a
// branch that bounds and guards do not decide. In the example of [Fork], the first path has the branches N = 1 (false)
// and N > 8 (false). Method advance changes the last answer, so that N > 8 is true on the second path. Then both
// answers of N > 8 have been tried: advance drops this branch, and changes the answer of N = 1.
type pathSearch struct {
	branches    []branch // all branches of the current path so far, choices or not
	nextIndex   int      // index of the next branch of the run; below len(branches) while recorded answers are repeated
	choiceCount int      // number of choices among branches[:nextIndex]
	maxChoices  int      // maximum of choiceCount on a path
	unexplored  *cond    // the choice that exceeded the limit
}

// branch is a branch of the current path. The next run of the computation repeats the recorded answers up to the branch
// whose answer changes.
type branch struct {
	answer     bool  // the truth that the condition of the branch has on the path
	otherTried bool  // whether the other answer was tried, or is impossible
	remaining  *cond // the condition of a choice, without its known parts; nil for other branches
}

// errPathEnded is the panic value that ends a run whose path was explored before or is impossible.
var errPathEnded = errors.New("sym: an impossible case")

// next returns the next branch of the current path, whose condition is c. Its answer is the recorded answer, if there
// is one. Otherwise it is the answer that the facts prove or, for a choice, the truth of the condition at the hints of
// the symbols ([Int.Hint]).
func (search *pathSearch) next(env *Env, c *cond) branch {
	if isNew := search.nextIndex == len(search.branches); isNew {
		reduced := env.reduce(c)
		current := branch{answer: reduced.truth, otherTried: true} // if the facts prove the answer
		if !reduced.known {                                        // a choice
			current = branch{answer: reduced.remaining.hint, remaining: reduced.remaining}
			if search.choiceCount >= search.maxChoices {
				search.unexplored = reduced.remaining
				panic(errTooManyCases)
			}
		}
		search.branches = append(search.branches, current)
	}
	current := search.branches[search.nextIndex]
	search.nextIndex++
	if current.remaining != nil {
		search.choiceCount++
	}
	return current
}

// flip negates the answer of the branch that next returned last. [Env.decide] calls flip if the facts contradict the
// answer. If the negation was tried before, flip ends the run by a panic.
func (search *pathSearch) flip() {
	current := &search.branches[search.nextIndex-1]
	if current.otherTried {
		panic(errPathEnded)
	}
	*current = branch{answer: !current.answer, otherTried: true}
}

// advance moves to the next path in depth-first order. It returns false if there is none.
func (search *pathSearch) advance() bool {
	kept := len(search.branches)
	for kept > 0 && search.branches[kept-1].otherTried {
		kept--
	}
	search.branches, search.nextIndex, search.choiceCount = search.branches[:kept], 0, 0
	if kept == 0 {
		return false
	}
	last := &search.branches[kept-1]
	last.answer, last.otherTried = !last.answer, true
	return true
}

// Join runs a computation and records guards only for branches that affect the result. It explores up to limit paths as
// [Fork] does, and returns the first result, which is the result at the hints. It records guards that exclude two kinds
// of paths: paths that fail, and paths whose results differ from the first result. same(first, other, when) reports
// whether both results are equal for all sizes that satisfy the condition `when`. During the call, the condition is a
// fact. If there are more than limit paths, or the first path fails, the computation runs once more, and each undecided
// branch records a guard. Within a [Fork], Join only runs the computation: its branches are branches of the Fork.
func Join[T any](env *Env, limit int, run func() (T, error), same func(first, other T, when Bool) bool) (T, error) {
	if env == nil || run == nil || same == nil {
		panic("sym: Join needs an Env, a computation and a comparison")
	}
	if env.pathSearch != nil {
		return run()
	}
	cases, err := Fork(env, limit, run)
	if err != nil || cases[0].Err != nil {
		return run()
	}
	first := cases[0].Value
	if cases[0].If.cond != nil {
		env.path = append(env.path, cases[0].If)
	}
	// The last cases differ from the first in the earliest branches. The guards that exclude them are recorded first,
	// because they simplify the later guards.
	for _, c := range slices.Backward(cases[1:]) {
		if c.Err != nil || !env.underHypothesis(c.If, func() bool { return same(first, c.Value, c.If) }) {
			env.exclusion(c.If).Holds()
		}
	}
	return first, nil
}

// Differing returns the first case of a [Fork], and each other case whose value differs from the first value.
// same(first, other) reports whether two values are equal. During the call, the condition of the other case is a fact.
func Differing[T any](cases []Case[T], same func(first, other T) bool) []Case[T] {
	if same == nil {
		panic("sym: Differing needs a comparison")
	}
	var list []Case[T]
	for i, c := range cases {
		isSame := func() bool { return same(cases[0].Value, c.Value) }
		switch {
		case i == 0:
			list = append(list, c)
		case c.If.cond == nil: // the condition is a known truth value, which adds no fact
			if !isSame() {
				list = append(list, c)
			}
		case !c.If.cond.env.underHypothesis(c.If, isSame):
			list = append(list, c)
		}
	}
	return list
}

// exclusion returns the negation of a condition. If the negation is a disjunction, exclusion drops each operand that
// implies the disjunction of the other operands.
func (env *Env) exclusion(condition Bool) Bool {
	condition = condition.Not().Decide()
	if condition.cond == nil || condition.cond.kind != condOr {
		return condition
	}
	parts := slices.Clone(condition.cond.args)
	for i := len(parts) - 1; i >= 0 && len(parts) > 1; i-- {
		rest := env.junctionOf(condOr, slices.Delete(slices.Clone(parts), i, i+1))
		isImplied := func() bool { r := env.reduce(rest); return r.known && r.truth }
		if env.underHypothesis(Bool{truth: parts[i].hint, cond: parts[i]}, isImplied) {
			parts = slices.Delete(parts, i, i+1)
		}
	}
	c := env.junctionOf(condOr, parts)
	return Bool{truth: c.hint, cond: c}
}

// underHypothesis calls question with the condition as an additional fact, and then removes this fact.
func (env *Env) underHypothesis(condition Bool, question func() bool) bool {
	if condition.cond == nil {
		return question()
	}
	defer env.reset(env.mark())
	defer env.beginQuestion()() // the returned function ends the question
	env.learn(condition.cond)
	return question()
}
