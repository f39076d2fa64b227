package contiguity

import (
	"math"

	"github.com/graphrun/graphrun/sym"
)

// Step is a lemma of an induction over the dimensions, about unknown sizes.
type Step struct {
	Claim string
	// Check runs the code in question both ways on symbols that it takes by name, none of them negative, and returns
	// whether what is claimed is so. It is run for all answers of its branches.
	Check func(symbol func(name string) sym.Int) bool
}

// certain reports whether a condition is seen to hold on the way taken.
func certain(b sym.Bool) bool {
	v, known := b.Known()
	return v && known
}

// denseStep: the state of both loops is one stride.
var denseStep = Step{
	Claim: "If both ways still hold behind some dimensions, of which the next stride is z, then behind one more " +
		"of any size and stride both hold or neither does, and if they hold, the next stride is the same. " +
		"Behind none both hold, with z = 1. Where one ends with false, the conjunction stays false.",
	Check: func(symbol func(string) sym.Int) bool {
		shape, strides, z := []sym.Int{symbol("s")}, []sym.Int{symbol("t")}, symbol("z")
		path, next := denseLoop([]int{0}, shape, strides, z)
		all, after := denseFrom([]int{0}, shape, strides, z)
		return path == all.Holds() && (!path || certain(next.Eq(after)))
	},
}

// elementsStep: what precedes the loop.
var elementsStep = Step{
	Claim: "An early return of true without elements is the alternative Eq(numel, 0).",
	Check: func(symbol func(string) sym.Int) bool {
		empty, rest := symbol("numel").Eq(sym.Int{}), symbol("rest").Eq(sym.Int{})
		path := empty.Holds() || rest.Holds()
		return path == empty.Or(rest).Holds()
	},
}

// anyStep: what precedes the sort.
var anyStep = Step{
	Claim: "Predicates that are asked one after the other until one holds are an alternative of them.",
	Check: func(symbol func(string) sym.Int) bool {
		any, path := sym.Truth(false), false
		for _, name := range []string{"contiguous", "channels_last", "channels_last_3d", "sorted"} {
			p := symbol(name).Eq(sym.Int{})
			any, path = any.Or(p), path || p.Holds()
		}
		return path == any.Holds()
	},
}

var likeStep = Step{
	Claim: "If both ways still hold behind some dimensions, of which the next stride may not be below z, then " +
		"behind one more, which is not the first of the value, both hold or neither does, and if they hold, " +
		"the next bound is the same. Behind none both hold, with z = 0.",
	Check: func(symbol func(string) sym.Int) bool { return likeAt(symbol, 1) },
}

var likeFirstStep = Step{
	Claim: "The same for the first dimension of the value, which the channels' stride is compared at.",
	Check: func(symbol func(string) sym.Int) bool { return likeAt(symbol, 0) },
}

func likeAt(symbol func(string) sym.Int, d int) bool {
	shape, strides := []sym.Int{symbol("s"), symbol("s")}, []sym.Int{symbol("t"), symbol("t")}
	z, channels := symbol("z"), symbol("c")
	path, next := likeLoop([]int{d}, shape, strides, z, channels)
	all, after := likeFrom([]int{d}, shape, strides, z, channels)
	return path == all.Holds() && (!path || certain(next.Eq(after)))
}

var exactStep = Step{
	Claim: "If both ways still hold behind some dimensions, which make the stride z, then behind one more both hold or " +
		"neither does, and if they hold, the next stride is the same. Behind none both hold, with z = 1.",
	Check: func(symbol func(string) sym.Int) bool {
		shape, strides, z := []sym.Int{symbol("s")}, []sym.Int{symbol("t")}, symbol("z")
		path, next := exactLoop([]int{0}, shape, strides, z)
		all, after := exactFrom([]int{0}, shape, strides, z)
		return path == all.Holds() && (!path || certain(next.Eq(after)))
	},
}

var apartStep = Step{
	Claim: "If both ways still hold behind some sorted dimensions, which reach the offset z, then behind one " +
		"more, which is left out where its size is 1, both hold or neither does, and if they hold, the reach " +
		"is the same. Behind none both hold, with z = 0.",
	Check: func(symbol func(string) sym.Int) bool {
		s, t, z := symbol("s"), symbol("t"), symbol("z")
		if s.Eq(sym.Int{}).Holds() {
			return true // there are elements
		}
		path, next := true, z
		if !is1(s).Holds() {
			path, next = apartLoop([]int{0}, []sym.Int{s}, []sym.Int{t}, z)
		}
		all, after := is1(s).Or(z.Lt(t)), z.Add(s.Sub(one()).Mul(t))
		return path == all.Holds() && (!path || certain(next.Eq(after)))
	},
}

// ordered runs a check for a dimension m and another one, e, that is before it in the order of strides: for each
// order of their numbers.
func ordered(check func(shape, strides []sym.Int, e, m int) bool) func(func(string) sym.Int) bool {
	return func(symbol func(string) sym.Int) bool {
		shape := []sym.Int{symbol("s0"), symbol("s1")}
		strides := []sym.Int{symbol("t0"), symbol("t1")}
		if numel(shape).Eq(sym.Int{}).Holds() {
			return true // there are elements
		}
		e, m := 0, 1
		if !before(strides, e, m).Holds() {
			e, m = m, e
		}
		return certain(before(strides, e, m)) && !before(strides, m, e).Holds() && check(shape, strides, e, m)
	}
}

var lastStep = Step{
	Claim: "Of any two dimensions one is before the other. The sort leaves out those of size 1, and puts the " +
		"one that all others are before behind them.",
	Check: ordered(func(shape, strides []sym.Int, e, m int) bool {
		var want []int
		for _, d := range []int{e, m} {
			if !is1(shape[d]).Holds() {
				want = append(want, d)
			}
		}
		got := sorted(shape, strides)
		if len(got) != len(want) {
			return false
		}
		for i := range got {
			if got[i] != want[i] {
				return false
			}
		}
		return true
	}),
}

var sizesStep = Step{
	Claim: "For the dimension m that all others are before, the product that the formula asks of its stride has " +
		"the size of each other one as a factor; that of another has 1 in the place of m, so that without m " +
		"it is the formula of the others: what the loop does with m last is the step above.",
	Check: ordered(func(shape, strides []sym.Int, e, m int) bool {
		return certain(sizesBefore(shape, strides, m).Eq(shape[e])) && certain(sizesBefore(shape, strides, e).Eq(one()))
	}),
}

var reachStep = Step{
	Claim: "For the dimension m that all others are before, the sum that the formula compares its stride with " +
		"has the reach of each other one as a term; that of another has 0 in the place of m.",
	Check: ordered(func(shape, strides []sym.Int, e, m int) bool {
		reach := shape[e].Sub(one()).Mul(strides[e])
		return certain(reachBefore(shape, strides, m).Eq(reach)) && certain(reachBefore(shape, strides, e).Eq(sym.Int{}))
	}),
}

// check returns whether a step holds for all answers of its branches, and how many ways there were.
func (s Step) check() (holds bool, ways int, err error) {
	env := sym.NewEnv()
	cases, err := sym.Fork(env, maxWays, func() (bool, error) {
		return s.Check(func(name string) sym.Int { return symbol(env, name) }), nil
	})
	holds = err == nil
	for _, c := range cases {
		holds = holds && c.Value
	}
	return holds, len(cases), err
}

// symbol returns a size or stride that nobody knows.
func symbol(env *sym.Env, name string) sym.Int {
	s, err := env.Symbol(name, 0, math.MaxInt, 2)
	if err != nil {
		panic(err)
	}
	return s
}
