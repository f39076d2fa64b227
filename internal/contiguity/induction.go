package contiguity

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/sym"
)

// A predicate of strides has two forms: a loop with branches, such as denseLoop, and a formula without branches, such
// as denseFormulaFrom. Both take an order of dimensions and the state z before them. They return whether these
// dimensions satisfy the predicate, and the next state z. The lemmas of this file show that both forms agree for all
// ranks. There are three groups:
//   - Lemmas that add a dimension of size s and stride t to earlier dimensions. z is the result for the earlier
//     dimensions: the required stride or the bound for the next dimension.
//   - noElementsStep and disjunctionStep, for the conditions that are evaluated before a loop.
//   - sortStep, sortedDenseStep and reachStep, for the order in which a loop visits the dimensions.
//
// For example, denseStep compares one dimension of the two forms of a dense value:
//
//	loop:    if s != 1 { if t != z { return false }; z = z*s }
//	formula: s = 1 ∨ t = z; the next z is z*s
//
// If a dimension fails, the loop returns false, and the formula, a conjunction over the dimensions, remains false. Then
// the next z does not matter, and may differ between the two forms.

// Step is a lemma of the induction over the dimensions, for symbolic sizes and strides.
type Step struct {
	Claim string // the lemma, for users
	// Check runs one iteration of both forms on non-negative symbols, and reports whether the claim holds. symbol(name)
	// returns the symbol of this name. Prove runs Check on every path of its branches ([sym.Fork]): a call of
	// [sym.Bool.Holds] whose answer is unknown starts two paths.
	Check func(symbol func(name string) sym.Int) bool
}

// checkAllPaths reports whether a step holds on every path of its branches. paths is the number of paths.
func (s Step) checkAllPaths() (holds bool, paths int, err error) {
	env := sym.NewEnv()
	cases, err := sym.Fork(env, maxPaths, func() (bool, error) {
		return s.Check(func(name string) sym.Int { return symbol(env, name) }), nil
	})
	holds = err == nil
	for _, path := range cases {
		holds = holds && path.Value
	}
	return holds, len(cases), err
}

// symbol returns an unknown size or stride, which may be any number from 0 on. The hint 2 does not limit the number.
func symbol(env *sym.Env, name string) sym.Int {
	s, err := env.Symbol(name, 0, math.MaxInt, 2)
	if err != nil {
		panic(err)
	}
	return s
}

// isCertain reports whether a condition is known to be true on the current path. Unlike Bool.Holds, it does not start
// two paths if the condition is unknown.
func isCertain(b sym.Bool) bool {
	v, known := b.Known()
	return v && known
}

// agree reports whether both forms have the same truth value. If they hold, their next strides or bounds must also be
// the same.
func agree(loopHolds bool, loopNext sym.Int, formula sym.Bool, formulaNext sym.Int) bool {
	return loopHolds == formula.Holds() && (!loopHolds || isCertain(loopNext.Eq(formulaNext)))
}

// denseStep is the induction step of denseLoop and denseFormulaFrom. The state of these forms is one stride.
var denseStep = Step{
	Claim: "Suppose both forms hold for some dimensions, whose next stride is z. With one more dimension of any " +
		"size and stride, both hold or neither does; if they hold, the next stride is the same. For no " +
		"dimensions both hold, with z = 1. If one form ends with false, the conjunction stays false.",
	Check: func(symbol func(string) sym.Int) bool {
		shape, strides, z := []sym.Int{symbol("s")}, []sym.Int{symbol("t")}, symbol("z")
		loopHolds, loopNext := denseLoop([]int{0}, shape, strides, z)
		formula, formulaNext := denseFormulaFrom([]int{0}, shape, strides, z)
		return agree(loopHolds, loopNext, formula, formulaNext)
	},
}

// exactStep is the induction step of exactLoop and exactFormulaFrom.
var exactStep = Step{
	Claim: "Suppose both forms hold for some dimensions, whose next stride is z. With one more dimension both " +
		"hold or neither does; if they hold, the next stride is the same. For no dimensions both hold, with z " +
		"= 1.",
	Check: func(symbol func(string) sym.Int) bool {
		shape, strides, z := []sym.Int{symbol("s")}, []sym.Int{symbol("t")}, symbol("z")
		loopHolds, loopNext := exactLoop([]int{0}, shape, strides, z)
		formula, formulaNext := exactFormulaFrom([]int{0}, shape, strides, z)
		return agree(loopHolds, loopNext, formula, formulaNext)
	},
}

// disjointStep is the induction step of disjointLoop and disjointFormula.
var disjointStep = Step{
	Claim: "Suppose both forms hold for some sorted dimensions, which reach the offset z. With one more " +
		"dimension, which is skipped if its size is 1, both hold or neither does; if they hold, the reach is " +
		"the same. For no dimensions both hold, with z = 0.",
	Check: func(symbol func(string) sym.Int) bool {
		s, t, z := symbol("s"), symbol("t"), symbol("z")
		if s.Eq(sym.Int{}).Holds() {
			return true // values without elements are excluded
		}
		loopHolds, loopNext := true, z
		if !is1(s).Holds() { // sortedDims skips dimensions of size 1
			loopHolds, loopNext = disjointLoop([]int{0}, []sym.Int{s}, []sym.Int{t}, z)
		}
		formula, formulaNext := is1(s).Or(z.Lt(t)), z.Add(s.Sub(one()).Mul(t)) // the reach grows by (s-1)*t
		return agree(loopHolds, loopNext, formula, formulaNext)
	},
}

// orderedStep and orderedFirstStep are the induction steps of orderedLoop and orderedFormulaFrom. orderedFirstStep is
// for dimension 0 (the batch), and orderedStep is for each other dimension.
var orderedStep = Step{
	Claim: "Suppose both forms hold for some dimensions, with the lower bound z for the next stride. With one " +
		"more dimension that is not dimension 0, both hold or neither does; if they hold, the next bound is " +
		"the same. For no dimensions both hold, with z = 0.",
	// Dimension 1 represents every dimension except 0, because the forms compare the index of a dimension only with 0.
	Check: func(symbol func(string) sym.Int) bool { return orderedStepHolds(symbol, 1) },
}

var orderedFirstStep = Step{
	Claim: "The same for dimension 0, at which the channels' stride is compared.",
	Check: func(symbol func(string) sym.Int) bool { return orderedStepHolds(symbol, 0) },
}

// orderedStepHolds checks the induction step for dimension dim, 0 or 1.
func orderedStepHolds(symbol func(string) sym.Int, dim int) bool {
	// The lists have two elements, because dim is an index. Only the elements with index dim are used.
	shape, strides := []sym.Int{symbol("s"), symbol("s")}, []sym.Int{symbol("t"), symbol("t")}
	z, channels := symbol("z"), symbol("c")
	loopHolds, loopNext := orderedLoop([]int{dim}, shape, strides, z, channels)
	formula, formulaNext := orderedFormulaFrom([]int{dim}, shape, strides, z, channels)
	return agree(loopHolds, loopNext, formula, formulaNext)
}

// noElementsStep is the lemma for values without elements. For such values, the loop returns true early, and the
// formula has the disjunct numel = 0.
var noElementsStep = Step{
	Claim: "An early return of true without elements is the disjunct Eq(numel, 0).",
	Check: func(symbol func(string) sym.Int) bool {
		// rest = 0 represents the condition of the loop.
		isEmpty, loopCondition := symbol("numel").Eq(sym.Int{}), symbol("rest").Eq(sym.Int{})
		loopHolds := isEmpty.Holds() || loopCondition.Holds()
		return loopHolds == isEmpty.Or(loopCondition).Holds()
	},
}

// disjunctionStep is the lemma for the predicates that are evaluated before the sort.
var disjunctionStep = Step{
	Claim: "Evaluating predicates one by one until one holds computes their disjunction.",
	Check: func(symbol func(string) sym.Int) bool {
		disjunction, loopHolds := sym.BoolOf(false), false
		// A symbol represents each predicate: the predicate holds if the symbol is 0.
		for _, name := range []string{"contiguous", "channels_last", "channels_last_3d", "sorted"} {
			predicate := symbol(name).Eq(sym.Int{})
			disjunction, loopHolds = disjunction.Or(predicate), loopHolds || predicate.Holds()
		}
		return loopHolds == disjunction.Holds()
	},
}

// forOrderedPair returns a Check that calls check for dimensions 0 and 1, where `first` precedes `last` in the order of
// strides. `first` is 0 on some paths, and 1 on the other paths. The Check fails, too, unless exactly one of the two
// dimensions precedes the other.
func forOrderedPair(check func(shape, strides []sym.Int, first, last int) bool) func(func(string) sym.Int) bool {
	return func(symbol func(string) sym.Int) bool {
		shape := []sym.Int{symbol("s0"), symbol("s1")}
		strides := []sym.Int{symbol("t0"), symbol("t1")}
		if numel(shape).Eq(sym.Int{}).Holds() {
			return true // values without elements are excluded
		}
		first, last := 0, 1
		if !precedes(strides, first, last).Holds() {
			first, last = last, first
		}
		isOrdered := isCertain(precedes(strides, first, last)) && !precedes(strides, last, first).Holds()
		return isOrdered && check(shape, strides, first, last)
	}
}

// sortStep is the lemma for the order of sortedDims. This order begins with the dimension that precedes all others,
// ends with the dimension that all others precede, and omits dimensions of size 1.
var sortStep = Step{
	Claim: "Of any two dimensions one precedes the other. The sort drops dimensions of size 1, and puts the " +
		"dimension that all others precede last.",
	Check: forOrderedPair(func(shape, strides []sym.Int, first, last int) bool {
		var want []int
		for _, d := range []int{first, last} {
			if !is1(shape[d]).Holds() {
				want = append(want, d)
			}
		}
		return slices.Equal(sortedDims(shape, strides), want)
	}),
}

// sortedDenseStep is the induction step of sortedDenseFormula, a conjunction over the dimensions d:
//
//	size of d = 1 ∨ stride of d = product over the other dimensions e of (size of e if e precedes d, else 1)
//
// Check shows the claim for two dimensions: the product for `last` is the size of `first`, and the product for `first`
// is 1. Step 1 in the claim is denseStep, the first of the predicate's steps.
var sortedDenseStep = Step{
	Claim: "Let m be the dimension that all others precede. The product that the formula compares with the " +
		"stride of m has the size of every other dimension as a factor. The product for another dimension has 1 " +
		"in place of the size of m. If the condition on m is dropped, what remains is therefore the " +
		"formula of the other dimensions. The loop visits m last, as in step 1.",
	Check: forOrderedPair(func(shape, strides []sym.Int, first, last int) bool {
		return isCertain(sizesBefore(shape, strides, last).Eq(shape[first])) &&
			isCertain(sizesBefore(shape, strides, first).Eq(one()))
	}),
}

// reachStep is the induction step of disjointFormula, a conjunction over the dimensions d:
//
//	size of d = 1 ∨ stride of d > sum over the other dimensions e of (reach of e if e precedes d, else 0)
//
// The reach of e is (size of e - 1) * stride of e.
var reachStep = Step{
	Claim: "For the dimension m that all others precede, the sum that the formula compares with its stride has " +
		"the reach of every other dimension as a term; the sum of another dimension has 0 in place of m's " +
		"reach.",
	Check: forOrderedPair(func(shape, strides []sym.Int, first, last int) bool {
		reach := shape[first].Sub(one()).Mul(strides[first])
		return isCertain(reachBefore(shape, strides, last).Eq(reach)) &&
			isCertain(reachBefore(shape, strides, first).Eq(sym.Int{}))
	}),
}
