package sym

import (
	"fmt"
	"go/token"
	"slices"
)

// Env holds the symbols of one inference, the expressions over the symbols, and the recorded guards. It is PyTorch's
// shape environment. It is not safe for concurrent use, but its expressions may be printed and evaluated concurrently.
//
// For example, let N be a symbol from 1 to 64 with the hint 8. The branch N > 4 is true at the hint. It records the
// guard N > 4, which is then a fact: a later branch N > 2 is known to be true and records nothing.
type Env struct {
	symbols        map[string]Int      // by name
	exprs          map[string]*expr    // by a key of the terms; equal expressions are the same expr
	atoms          map[string]*atom    // by a key of kind and operands
	conds          map[string]*cond    // by a key of kind and operands
	memo           map[operation]*expr // results of operations: see memoized
	smallConstants [64]*expr           // the numbers from 0 to 63
	guards         []Bool              // recorded conditions, in the order of the decisions
	path           []Bool              // see Path
	facts          facts               // conditions that are known to be true
	pathSearch     *pathSearch         // the enumeration of paths by [Fork]; nil if branches follow the hints
}

// Binding maps names of symbols to values.
type Binding map[string]int

// NewEnv returns an Env without symbols.
func NewEnv() *Env {
	env := &Env{}
	env.init()
	return env
}

// init makes the zero Env ready for the first symbol.
func (env *Env) init() {
	if env.symbols == nil {
		*env = Env{symbols: map[string]Int{}, exprs: map[string]*expr{}, atoms: map[string]*atom{},
			conds: map[string]*cond{}, memo: map[operation]*expr{}}
	}
}

// reserved are the names with a meaning in expressions and conditions.
var reserved = []string{"Max", "Min", "Where", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "True", "False"}

// Symbol returns the symbol with the given name. Its value is from lo to hi. If there is no lower bound, lo is
// math.MinInt. If there is no upper bound, hi is math.MaxInt. hint is a typical value within the bounds. If both bounds
// are equal, the result is a number. Symbol fails if the symbol exists with other bounds or another hint.
func (env *Env) Symbol(name string, lo, hi, hint int) (Int, error) {
	switch {
	case !token.IsIdentifier(name) || slices.Contains(reserved, name):
		return Int{}, fmt.Errorf("sym: %q is not a valid symbol name", name)
	case lo > hi:
		return Int{}, fmt.Errorf("sym: the bounds of symbol %s are invalid: %d to %d", name, lo, hi)
	case hint < lo || hint > hi:
		return Int{}, fmt.Errorf("sym: symbol %s has the hint %d, outside its bounds %d to %d", name, hint, lo, hi)
	}
	env.init()
	symbol, known := env.symbols[name]
	if !known {
		symbol = Int{n: lo}
		if lo < hi {
			symbolAtom := &atom{kind: kindSymbol, name: name, id: len(env.symbols) + len(env.atoms), lo: lo,
				hi: hi, hint: hint, size: 1}
			symbolAtom.asExpr = env.sum([]term{{coeff: 1, atoms: []*atom{symbolAtom}}}, 0)
			symbol = symbolAtom.asExpr.int()
		}
		env.symbols[name] = symbol
	}
	if knownLo, knownHi := symbolBounds(symbol); knownLo != lo || knownHi != hi || symbol.Hint() != hint {
		return Int{}, fmt.Errorf("sym: symbol %s has bounds %d to %d and hint %d, not %d to %d and %d", name, knownLo,
			knownHi, symbol.Hint(), lo, hi, hint)
	}
	return symbol, nil
}

// symbolBounds returns the bounds of a symbol. A symbol with equal bounds is a number: both bounds are that number.
func symbolBounds(symbol Int) (lo, hi int) {
	if symbol.e == nil {
		return symbol.n, symbol.n
	}
	symbolAtom := symbol.e.singleAtom()
	return symbolAtom.lo, symbolAtom.hi
}

// Guards returns the recorded conditions in the order of the decisions, in a new slice.
func (env *Env) Guards() []Bool { return slices.Clone(env.guards) }

// Path returns the conditions under which all computations take the same branches, in a new slice: the guards, and the
// conditions of branches that [Join] explored although they do not affect its result. Paths of different sizes are
// equal or disjoint: sizes that satisfy the path have the same path. This does not hold for guards. Join may find, for
// example, that the result at n = 0 is also that for n = 1, but not that the result at n = 1 is that for n = 0.
func (env *Env) Path() []Bool { return slices.Clone(env.path) }

// Assume adds a condition to the facts without recording a guard. It is for knowledge about symbols beyond their
// bounds, for example that one symbol is a multiple of another. Assume returns an error if the condition contradicts
// the facts.
func (env *Env) Assume(condition Bool) error {
	if condition.cond == nil && condition.truth {
		return nil
	}
	if condition.cond != nil {
		if condition.cond.env != env {
			return fmt.Errorf("sym: %v is a condition of another Env", condition)
		}
		defer env.beginQuestion()() // the returned function ends the question
		mark := env.mark()
		if env.learn(condition.cond); !env.facts.contradiction {
			return nil
		}
		env.reset(mark)
	}
	return fmt.Errorf("sym: %v contradicts the known facts", condition)
}

// decide returns the answer of a branch on b and records it. If the facts decide b, they give the answer. Otherwise the
// hints give the answer. In a [Fork] (env.pathSearch is set), the current path gives it instead. The steps of the
// decision are limited: see questionSteps.
func (env *Env) decide(b Bool) bool {
	defer env.beginQuestion()()
	answer, remaining := env.answer(b)
	if remaining == nil {
		return answer
	}
	newFact, whole := remaining, b.cond // newFact lacks the parts of b that the facts already decide
	if !answer {
		newFact, whole = newFact.not(), whole.not()
	}
	defer env.beginQuestion()() // learning the new fact has its own budget of steps
	mark := env.mark()
	if env.learn(newFact); env.facts.contradiction {
		// The new fact contradicts the facts, although reduce did not decide it. Its negation therefore follows
		// from the facts.
		env.reset(mark)
		if env.pathSearch != nil {
			env.pathSearch.flip()
		}
		env.markTrue(newFact.not())
		return !answer
	}
	env.markTrue(whole)
	guard := Bool{truth: newFact.hint, cond: newFact}
	env.guards, env.path = append(env.guards, guard), append(env.path, guard)
	return answer
}

// answer returns the answer of a branch on b, and b without the parts that the facts decide. remaining is nil if they
// decide b.
func (env *Env) answer(b Bool) (answer bool, remaining *cond) {
	if env.pathSearch != nil {
		branch := env.pathSearch.next(env, b.cond)
		return branch.answer, branch.remaining
	}
	reduced := env.reduce(b.cond)
	if reduced.known {
		return reduced.truth, nil
	}
	return b.truth, reduced.remaining
}
