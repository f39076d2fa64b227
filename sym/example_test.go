package sym_test

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/sym"
)

// symbols returns sizes x1, x2, x3 and strides y1, y2, y3 with hints.
func symbols(env *sym.Env, hints map[string]int, names ...string) []sym.Int {
	out := make([]sym.Int, len(names))
	for i, name := range names {
		var err error
		if out[i], err = env.Symbol(name, 0, min(1<<40, math.MaxInt), hints[name]); err != nil {
			panic(err)
		}
	}
	return out
}

// contiguousStrides is c10::contiguous_strides.
func contiguousStrides(sizes ...sym.Int) []sym.Int {
	strides := make([]sym.Int, len(sizes))
	step := sym.Of(1)
	for d := len(sizes) - 1; d >= 0; d-- {
		strides[d] = step
		step = step.Mul(sizes[d].Max(sym.Of(1)))
	}
	return strides
}

func numel(sizes []sym.Int) sym.Int {
	n := sym.Of(1)
	for _, s := range sizes {
		n = n.Mul(s)
	}
	return n
}

// branching is TensorImpl::compute_contiguous with its branches.
func branching(sizes, strides []sym.Int) bool {
	if numel(sizes).Eq(sym.Of(0)).Holds() {
		return true
	}
	z := sym.Of(1)
	for d := len(sizes) - 1; d >= 0; d-- {
		if sizes[d].Ne(sym.Of(1)).Holds() {
			if !strides[d].Eq(z).Holds() {
				return false
			}
			z = z.Mul(sizes[d])
		}
	}
	return true
}

// formula is the same predicate without branches.
func formula(sizes, strides []sym.Int) sym.Bool {
	all, z := sym.BoolOf(true), sym.Of(1)
	for d := len(sizes) - 1; d >= 0; d-- {
		all = all.And(sizes[d].Eq(sym.Of(1)).Or(strides[d].Eq(z)))
		z = z.Mul(sizes[d])
	}
	return numel(sizes).Eq(sym.Of(0)).Or(all)
}

// Strides that follow from sizes: numbers where possible, else expressions.
func ExampleInt() {
	env := sym.NewEnv()
	x := symbols(env, map[string]int{"x": 3}, "x")[0]
	fmt.Println(contiguousStrides(sym.Ints(2, 3, 5)...))
	fmt.Println(contiguousStrides(x, sym.Of(3), sym.Of(5)))
	fmt.Println(contiguousStrides(sym.Of(2), x, sym.Of(5)))
	fmt.Println(contiguousStrides(sym.Ints(3, 1, 5)...))
	fmt.Println(contiguousStrides(sym.Ints(3, 0, 5)...))
	// Output:
	// [15 5 1]
	// [15 5 1]
	// [5*Max(1, x) 5 1]
	// [5 5 1]
	// [5 5 1]
}

// Strides of dimensions of size 1 do not affect contiguity, and no strides do without elements. Both forms
// decide numbers without a guard.
func ExampleOf() {
	for _, c := range [][2][]sym.Int{
		{sym.Ints(3, 1, 5), sym.Ints(5, 5, 1)},
		{sym.Ints(3, 1, 5), sym.Ints(5, 999999, 1)},
		{sym.Ints(3, 0, 5), sym.Ints(5, 5, 1)},
		{sym.Ints(3, 0, 5), sym.Ints(123456, 999999, 424242)},
		{sym.Ints(3, 2, 5), sym.Ints(5, 15, 1)},
	} {
		fmt.Println(branching(c[0], c[1]), formula(c[0], c[1]))
	}
	// Output:
	// true True
	// true True
	// true True
	// true True
	// false False
}

// A branching function follows the hints, and records the conditions of that path.
func ExampleEnv_Guards() {
	env := sym.NewEnv()
	hints := map[string]int{"x1": 3, "x2": 1, "x3": 5, "y1": 5, "y2": 99999, "y3": 1}
	x := symbols(env, hints, "x1", "x2", "x3")
	y := symbols(env, hints, "y1", "y2", "y3")
	fmt.Println(branching(x, y))
	for _, g := range env.Guards() {
		fmt.Println(g)
	}
	// Output:
	// true
	// Ne(x1*x2*x3, 0)
	// Ne(x3, 1)
	// Eq(y3, 1)
	// Eq(x2, 1)
	// Ne(x1, 1)
	// Eq(y1, x3)
}

// Without branches the answer is a condition, and no guard is needed.
func ExampleBool() {
	env := sym.NewEnv()
	x := symbols(env, nil, "x1", "x2", "x3", "x")
	y := symbols(env, nil, "y1", "y2", "y3")
	fmt.Println(formula(sym.Ints(3, 1, 5), []sym.Int{sym.Of(5), x[3], sym.Of(1)}))
	fmt.Println(formula(x[:3], y))
	fmt.Println(len(env.Guards()))
	// Output:
	// True
	// Eq(x1*x2*x3, 0) | ((Eq(x2, 1) | Eq(y2, x3)) & (Eq(x3, 1) | Eq(y3, 1)) & (Eq(x1, 1) | Eq(y1, x2*x3)))
	// 0
}
