package expr

import (
	"math"

	"github.com/graphrun/graphrun/expr/internal/elementary"
)

// calls has the functions of one number that have no expansion into primitive operations. They are computed in Go.
var calls = map[string]*Func{
	"lgamma": realFunc("lgamma", elementary.Lgamma), "erfinv": realFunc("erfinv", math.Erfinv),
	"digamma": realFunc("digamma", elementary.Digamma),
}

func realFunc(name string, f func(float64) float64) *Func {
	return &Func{Name: name, Args: 1, F: func(a, _, _ float64) float64 { return f(a) }}
}

// complexCalls has the functions of a complex number that are computed in Go. The two Funcs of an entry compute the
// real and the imaginary part of the result.
var complexCalls = func() map[string][2]*Func {
	calls := map[string][2]*Func{}
	for name, f := range elementary.Complex {
		im := &Func{Name: name + ".im", Args: 2, F: func(a, b, _ float64) float64 { return imag(f(complex(a, b))) }}
		re := &Func{Name: name + ".re", Args: 2, F: func(a, b, _ float64) float64 { return real(f(complex(a, b))) }}
		calls[name] = [2]*Func{re, im}
	}
	return calls
}()
