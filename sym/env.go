package sym

import (
	"fmt"
	"go/token"
	"slices"
)

// Env holds the symbols of one inference, the expressions over them, and the guards that were
// recorded: PyTorch's shape environment. It is not safe for concurrent use; expressions may be
// printed and evaluated at the same time.
type Env struct {
	symbols map[string]Int
	exprs   map[string]*expr
	atoms   map[string]*atom
	conds   map[string]*cond
	facts   map[*cond]bool
	guards  []Bool
}

// Binding gives symbols values, by name.
type Binding map[string]int

// NewEnv returns an Env without symbols.
func NewEnv() *Env {
	v := &Env{}
	v.init()
	return v
}

// init makes the zero Env ready, at the first symbol.
func (v *Env) init() {
	if v.symbols == nil {
		*v = Env{symbols: map[string]Int{}, exprs: map[string]*expr{}, atoms: map[string]*atom{},
			conds: map[string]*cond{}, facts: map[*cond]bool{}}
	}
}

// Symbol returns the symbol with the name, whose value is from lo to hi (math.MinInt or math.MaxInt
// where there is no bound), with a hint between them. Where both bounds are equal it is a number.
// A symbol that exists already must be asked for with the same bounds and hint.
func (v *Env) Symbol(name string, lo, hi, hint int) (Int, error) {
	switch {
	case !token.IsIdentifier(name) || slices.Contains([]string{"Max", "Min", "Eq", "Ne", "Lt", "Le", "Where"}, name):
		return Int{}, fmt.Errorf("sym: %q is no name for a symbol", name)
	case lo > hi:
		return Int{}, fmt.Errorf("sym: symbol %s has bounds %d to %d", name, lo, hi)
	case hint < lo || hint > hi:
		return Int{}, fmt.Errorf("sym: symbol %s has the hint %d, outside its bounds %d to %d", name, hint, lo, hi)
	}
	v.init()
	s, known := v.symbols[name]
	if !known {
		s = Int{n: lo}
		if lo < hi {
			a := &atom{kind: kindSymbol, name: name, id: len(v.symbols) + len(v.atoms), lo: lo, hi: hi, hint: hint}
			s = v.sum([]term{{1, []*atom{a}}}, 0).int()
		}
		v.symbols[name] = s
	}
	if l, h := s.Bounds(); l != lo || h != hi || s.n != hint {
		return Int{}, fmt.Errorf("sym: symbol %s has bounds %d to %d and hint %d, not %d to %d and %d", name, l, h, s.n,
			lo, hi, hint)
	}
	return s, nil
}

// Guards returns the conditions that decisions rested on, in the order in which they were recorded.
func (v *Env) Guards() []Bool { return slices.Clone(v.guards) }

// decide answers by what is known, else by the hints, and records the answer.
func (v *Env) decide(b Bool) bool {
	if known, ok := v.known(b.c); ok {
		return known
	}
	c := b.c
	if !b.v {
		c = c.not()
	}
	v.learn(c)
	v.guards = append(v.guards, Bool{v: true, c: c})
	return b.v
}

// learn enters a condition that holds. With a conjunction its parts hold.
func (v *Env) learn(c *cond) {
	v.facts[c], v.facts[c.not()] = true, false
	if c.kind == condAnd {
		for _, p := range c.args {
			v.learn(p)
		}
	}
}

// known returns the truth of a condition that follows from what was recorded.
func (v *Env) known(c *cond) (truth, ok bool) {
	if t, ok := v.facts[c]; ok {
		return t, true
	}
	if c.kind != condAnd && c.kind != condOr {
		return false, false
	}
	all := true
	for _, p := range c.args {
		t, ok := v.known(p)
		if ok && t == (c.kind == condOr) {
			return t, true
		}
		all = all && ok
	}
	return c.kind == condAnd, all
}
