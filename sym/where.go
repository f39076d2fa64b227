package sym

import (
	"errors"
	"fmt"
)

// Where returns a where the condition holds, and b elsewhere. What the condition excludes is not evaluated: a
// division by zero there does no harm.
func Where(c Bool, a, b Int) Int {
	switch {
	case c.c == nil && c.v || a.Same(b):
		return a
	case c.c == nil:
		return b
	}
	v := c.c.env
	x, y := v.of(a), v.of(b)
	if c.c.kind == condNe {
		c, x, y = c.Not(), y, x
	}
	// Where(c, x, Where(d, x, y)) is Where(c | d, x, y).
	if s := y.single(); s != nil && s.kind == kindWhere && s.args[0] == x {
		return Where(c.Or(Bool{v: s.cond.hint, c: s.cond}), x.int(), s.args[1].int())
	}
	return v.atomIf(kindWhere, c.c, x, y).int()
}

// Case is one way through a computation that branched: what came of it where a condition holds.
type Case[T any] struct {
	If    Bool
	Value T
	Err   error
}

// errCases is the error of Fork where there are too many.
var errCases = errors.New("sym: too many cases")

// forking says which ways the branches of a computation go this time.
type forking struct {
	turns []turn
	at    int
	limit int // of turns
	full  *cond
}

type turn struct {
	answer bool
	last   bool // whether the other answer was tried, or is impossible
}

// errTwice stops a computation that would go a way again.
var errTwice = errors.New("sym: an impossible case")

// next answers an undecided branch: by its turn, or the first time as the hints would.
func (f *forking) next(b Bool) bool {
	if f.at == len(f.turns) {
		if f.at >= f.limit {
			f.full = b.c
			panic(errCases)
		}
		f.turns = append(f.turns, turn{answer: b.v})
	}
	f.at++
	return f.turns[f.at-1].answer
}

// forced turns round the last answer, which turned out to be impossible. Where it was the second one, the first was
// taken before.
func (f *forking) forced() {
	if f.turns[f.at-1].last {
		panic(errTwice)
	}
	f.turns[f.at-1] = turn{answer: !f.turns[f.at-1].answer, last: true}
}

// advance goes on to the next way; false: there is none.
func (f *forking) advance() bool {
	n := len(f.turns)
	for n > 0 && f.turns[n-1].last {
		n--
	}
	f.turns, f.at = f.turns[:n], 0
	if n == 0 {
		return false
	}
	f.turns[n-1] = turn{answer: !f.turns[n-1].answer, last: true}
	return true
}

// Fork runs a computation for both answers of each branch that bounds and guards do not decide, from the beginning each
// time, and returns what came of it: conditions of which exactly one holds for any sizes, in the order in
// which a search goes that tries the answer of the hints first. Nothing is recorded. Where there are more than limit
// cases it returns those, and an error that names a condition that is left open.
//
// A computation that divides by what may be zero has the error of that as a case. It must branch alike when it is run
// again, and leave nothing behind but what it returns.
func Fork[T any](v *Env, limit int, run func() (T, error)) ([]Case[T], error) {
	if v == nil || run == nil {
		panic("sym: Fork needs an Env and a computation")
	}
	f := &forking{limit: max(limit, 1) + 64}
	var cases []Case[T]
	for {
		c, possible := once(v, f, run)
		switch {
		case f.full != nil:
			return cases, fmt.Errorf("%w: more than %d branches in one; open is %v", errCases, f.limit, f.full)
		case possible && len(cases) >= limit:
			return cases, fmt.Errorf("%w: more than %d; open is %v", errCases, limit, c.If)
		case possible:
			cases = append(cases, c)
		}
		if !f.advance() {
			return cases, nil
		}
	}
}

// once runs the computation the way of the turns, and takes back what it entered; false: it has not come to its end.
func once[T any](v *Env, f *forking, run func() (T, error)) (c Case[T], possible bool) {
	outer, m := v.fork, v.mark()
	v.fork = f
	defer func() {
		v.fork = outer
		v.reset(m)
		switch p := recover(); p {
		case nil:
		case zeroDivision:
			c.Err = errZero
			possible = true
		case errCases, errTwice:
			f.turns = f.turns[:f.at]
		default:
			panic(p)
		}
	}()
	defer func() {
		c.If = Truth(true)
		for _, g := range v.guards[m.guards:] {
			c.If = c.If.And(g)
		}
	}()
	c.Value, c.Err = run()
	return c, true
}
