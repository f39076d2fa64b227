package graphrun

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
)

// solve adds to sizes those of symbols that occur in the sizes of inputs within expressions: of each expression that is
// linear in the only symbol of it that is not known. It refuses a size that no integer fits, and one of which the
// expression, with all symbols known, says another.
func solve(inputs []*graph.Value, shapeOf func(name string) ([]int, bool), sizes map[string]int) error {
	for more := true; more; {
		more = false
		for _, v := range inputs {
			shape, ok := shapeOf(v.Name)
			if !ok || len(shape) != len(v.Dims) {
				continue
			}
			for i, d := range v.Dims {
				if d.Expr == "" {
					continue
				}
				found, err := solveOne(d.Expr, shape[i], sizes)
				if err != nil {
					return fmt.Errorf("input %q: size %d is %d, which does not fit: %w", v.Name, i, shape[i], err)
				}
				more = more || found
			}
		}
	}
	return nil
}

// solveOne solves an expression that is to be n, and reports whether that told the size of a symbol.
func solveOne(text string, n int, sizes map[string]int) (bool, error) {
	env, open, used := sym.NewEnv(), map[string]sym.Int{}, map[string]int{}
	e, err := (graph.Dim{Expr: text}).In(lookups(text, env, open, used, sizes))
	if err != nil {
		return false, fmt.Errorf("%s%s: %w", text, atSizes(used), err)
	}
	is, known := e.Known()
	switch {
	case known && is != n:
		return false, fmt.Errorf("%s is %d%s", text, is, atSizes(used))
	case known || len(open) != 1:
		return false, nil
	}
	for name, x := range open {
		zero, err0 := e.At(sym.Binding{envName: 0})
		one, err1 := e.At(sym.Binding{envName: 1})
		by := one - zero
		if err0 != nil || err1 != nil || by == 0 || !e.Same(x.Mul(sym.Of(by)).Add(sym.Of(zero))) {
			return false, nil // another input may tell, and else the run says what it assumes
		}
		if (n-zero)%by != 0 || (n-zero)/by < 0 {
			return false, fmt.Errorf("it is %s, and no size %s gives that%s", text, name, atSizes(used))
		}
		sizes[name] = (n - zero) / by
	}
	return true, nil
}

// envName is what the symbol that is solved for is called in its Env, whatever the graph calls it.
const envName = "x"

// lookups returns the values of the symbols in an expression: what is known as a number, which is noted in used, and
// others as symbols of env, which are noted in open, the first as envName.
func lookups(text string, env *sym.Env, open map[string]sym.Int, used, sizes map[string]int) map[string]sym.Int {
	values := map[string]sym.Int{}
	scratch := sym.NewEnv()
	_, _ = sym.Parse(text, func(name string) (sym.Int, bool) { // its error comes when it is read with the values
		if n, is := sizes[name]; is {
			values[name], used[name] = sym.Of(n), n
		} else if _, is := values[name]; !is {
			as := envName
			for range len(open) {
				as += "_"
			}
			s, _ := env.Symbol(as, 0, math.MaxInt, 2) // the name is fresh
			values[name], open[name] = s, s
		}
		s, err := scratch.Symbol(name, 0, math.MaxInt, 2)
		return s, err == nil
	})
	return values
}

// atSizes tells the sizes that an expression was looked at with.
func atSizes(used map[string]int) string {
	if len(used) == 0 {
		return ""
	}
	return " at " + sizesText(used)
}
