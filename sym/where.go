package sym

import (
	"errors"
	"fmt"
	"slices"
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
	turns []turn // of all branches so far, those that are known without asking among them
	at    int
	asked int // how many of the turns before at were asked
	limit int // of those
	full  *cond
}

// turn is an answer. When the computation is run again, nothing needs to be decided anew up to where it goes another
// way.
type turn struct {
	answer bool
	last   bool // whether the other answer was tried, or is impossible
	rest   *cond
}

// errTwice stops a computation that would go a way again.
var errTwice = errors.New("sym: an impossible case")

// next returns the turn of a branch, which reduces to r: that of the last time, or the answer of the hints.
func (f *forking) next(v *Env, c *cond) turn {
	if f.at == len(f.turns) {
		r := v.reduce(c)
		t := turn{answer: r.truth, last: true}
		if !r.known {
			t = turn{answer: r.rest.hint, rest: r.rest}
			if f.asked >= f.limit {
				f.full = r.rest
				panic(errCases)
			}
		}
		f.turns = append(f.turns, t)
	}
	t := f.turns[f.at]
	f.at++
	if t.rest != nil {
		f.asked++
	}
	return t
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
	f.turns, f.at, f.asked = f.turns[:n], 0, 0
	if n == 0 {
		return false
	}
	t := &f.turns[n-1]
	t.answer, t.last = !t.answer, true
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
		case ErrNumber:
			c.Err = ErrNumber
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

// Join runs a computation that branches, and records no guard for a branch that makes no difference: it goes all ways
// as [Fork] does, up to limit of them, and excludes by guards those that fail or whose results alike does not take for
// that of the hints, which it returns. alike is asked under the condition of the other result, while sizes for which
// that does not hold count as impossible. Where there are more ways, and within [Fork], the computation
// runs once, and its branches leave guards as they are.
func Join[T any](v *Env, limit int, run func() (T, error), alike func(first, other T, when Bool) bool) (T, error) {
	if v == nil || run == nil || alike == nil {
		panic("sym: Join needs an Env, a computation and a comparison")
	}
	if v.fork != nil {
		return run()
	}
	cases, err := Fork(v, limit, run)
	if err != nil || cases[0].Err != nil {
		return run()
	}
	first := cases[0].Value
	for _, c := range slices.Backward(cases[1:]) { // what was asked first comes last
		if c.Err != nil || !v.supposing(c.If, func() bool { return alike(first, c.Value, c.If) }) {
			v.excluded(c.If).Holds()
		}
	}
	return first, nil
}

// Differing returns the first of the cases that [Fork] gives, and of the others those whose values alike does not take
// for the first. alike is asked under the condition of the other value.
func Differing[T any](cases []Case[T], alike func(first, other T) bool) []Case[T] {
	if alike == nil {
		panic("sym: Differing needs a comparison")
	}
	var list []Case[T]
	for i, c := range cases {
		ask := func() bool { return alike(cases[0].Value, c.Value) }
		if i == 0 || c.If.c == nil && !ask() || c.If.c != nil && !c.If.c.env.supposing(c.If, ask) {
			list = append(list, c)
		}
	}
	return list
}

// excluded returns the condition that another one does not hold, less the sides of it that follow from others.
func (v *Env) excluded(b Bool) Bool {
	b = b.Not().Decide()
	if b.c == nil || b.c.kind != condOr {
		return b
	}
	sides := slices.Clone(b.c.args)
	for i := len(sides) - 1; i >= 0 && len(sides) > 1; i-- {
		others := v.joined(condOr, slices.Delete(slices.Clone(sides), i, i+1))
		follows := func() bool { r := v.reduce(others); return r.known && r.truth }
		if v.supposing(Bool{v: sides[i].hint, c: sides[i]}, follows) {
			sides = slices.Delete(sides, i, i+1)
		}
	}
	c := v.joined(condOr, sides)
	return Bool{v: c.hint, c: c}
}

// supposing asks under a condition, and takes back what was entered.
func (v *Env) supposing(b Bool, ask func() bool) bool {
	if b.c == nil {
		return ask()
	}
	defer v.reset(v.mark())
	defer v.asking()()
	v.learn(b.c)
	return ask()
}
