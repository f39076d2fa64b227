package graph

import (
	"fmt"

	"github.com/graphrun/graphrun/sym"
)

// toCondition reads a truth, or a condition on symbols.
func toCondition(v any, symbols map[string]sym.Int) (sym.Bool, error) {
	switch x := v.(type) {
	case bool:
		return sym.Truth(x), nil
	case string:
		c, err := sym.ParseBool(x, func(name string) (sym.Int, bool) { s, ok := symbols[name]; return s, ok })
		if err != nil {
			return sym.Bool{}, fmt.Errorf("%w: want a condition such as Lt(100, N)", err)
		}
		return c, nil
	}
	return sym.Bool{}, &misfit{got: v}
}
