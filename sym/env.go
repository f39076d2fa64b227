package sym

import (
	"fmt"
	"go/token"
	"slices"
)

// Env holds the symbols of one inference, the expressions over the symbols, and the recorded guards. It is PyTorch's
// shape environment. It is not safe for concurrent use, but its expressions may be printed and evaluated concurrently.
type Env struct {
	symbols        map[string]Int
	exprs          map[string]*expr
	atoms          map[string]*atom
	conds          map[string]*cond
	memo           map[operation]*expr // results of operations: see memoized
	smallConstants [64]*expr           // the numbers from 0 to 63
	guards         []Bool
	facts          facts
	fork           *pathSearch // nil if branches follow the hints
}

// Binding maps names of symbols to values.
type Binding map[string]int

// NewEnv returns an Env without symbols.
func NewEnv() *Env {
	v := &Env{}
	v.init()
	return v
}

// init makes the zero Env ready for the first symbol.
func (v *Env) init() {
	if v.symbols == nil {
		*v = Env{symbols: map[string]Int{}, exprs: map[string]*expr{}, atoms: map[string]*atom{},
			conds: map[string]*cond{}, memo: map[operation]*expr{}}
	}
}

// reserved are the names with a meaning in expressions and conditions.
var reserved = []string{"Max", "Min", "Where", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "True", "False"}

// Symbol returns the symbol with the given name. Its value is from lo to hi. If there is no lower bound, lo is
// math.MinInt. If there is no upper bound, hi is math.MaxInt. hint is a typical value within the bounds. If both bounds
// are equal, the result is a number. Symbol fails if the symbol exists with other bounds or another hint.
func (v *Env) Symbol(name string, lo, hi, hint int) (Int, error) {
	switch {
	case !token.IsIdentifier(name) || slices.Contains(reserved, name):
		return Int{}, fmt.Errorf("sym: %q is not a valid symbol name", name)
	case lo > hi:
		return Int{}, fmt.Errorf("sym: the bounds of symbol %s are invalid: %d to %d", name, lo, hi)
	case hint < lo || hint > hi:
		return Int{}, fmt.Errorf("sym: symbol %s has the hint %d, outside its bounds %d to %d", name, hint, lo, hi)
	}
	v.init()
	s, known := v.symbols[name]
	if !known {
		s = Int{n: lo}
		if lo < hi {
			a := &atom{kind: kindSymbol, name: name, id: len(v.symbols) + len(v.atoms), lo: lo, hi: hi, hint: hint,
				size: 1}
			a.asExpr = v.sum([]term{{1, []*atom{a}}}, 0)
			s = a.asExpr.int()
		}
		v.symbols[name] = s
	}
	h := s.Hint()
	l := h
	if s.e != nil {
		a := s.e.single()
		l, h = a.lo, a.hi
	}
	if l != lo || h != hi || s.Hint() != hint {
		return Int{}, fmt.Errorf("sym: symbol %s has bounds %d to %d and hint %d, not %d to %d and %d", name, l, h, s.Hint(),
			lo, hi, hint)
	}
	return s, nil
}

// Guards returns the recorded conditions in the order of the decisions, in a new slice.
func (v *Env) Guards() []Bool { return slices.Clone(v.guards) }

// Assume adds a condition to the facts without recording a guard. It is for knowledge about symbols beyond their
// bounds, for example that one symbol is a multiple of another. Assume returns an error if the condition contradicts
// the facts.
func (v *Env) Assume(b Bool) error {
	if b.c == nil && b.v {
		return nil
	}
	if b.c != nil {
		if b.c.env != v {
			return fmt.Errorf("sym: %v is a condition of another Env", b)
		}
		defer v.beginQuestion()()
		mark := v.mark()
		if v.learn(b.c); !v.facts.contradiction {
			return nil
		}
		v.reset(mark)
	}
	return fmt.Errorf("sym: %v contradicts the known facts", b)
}

// decide returns the answer of a branch on b and records it. If the facts decide b, they give the answer. Otherwise the
// hints give the answer, or in a fork the current path.
func (v *Env) decide(b Bool) bool {
	defer v.beginQuestion()()
	answer := b.v
	var c *cond
	if v.fork != nil {
		t := v.fork.next(v, b.c)
		answer, c = t.answer, t.remaining
		if c == nil {
			return answer
		}
	} else {
		r := v.reduce(b.c)
		if r.known {
			return r.truth
		}
		c = r.remaining
	}
	full := b.c
	if !answer {
		c, full = c.not(), full.not()
	}
	defer v.beginQuestion()()
	mark := v.mark()
	if v.learn(c); v.facts.contradiction {
		// c contradicts the facts. Therefore the negation of c follows from the facts, although reduce did not find
		// this.
		v.reset(mark)
		if v.fork != nil {
			v.fork.flip()
		}
		v.markTrue(c.not())
		return !answer
	}
	v.markTrue(full)
	v.guards = append(v.guards, Bool{v: c.hint, c: c})
	return answer
}
