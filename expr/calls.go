package expr

import (
	"github.com/graphrun/graphrun/expr/internal/elementary"
)

// calls has the functions of one number that have no expansion into primitive operations. They are computed in Go.
var calls = map[string]*Func{
	"lgamma": realFunc("lgamma", elementary.Lgamma), "erfinv": realFunc("erfinv", elementary.Erfinv),
	"digamma": realFunc("digamma", elementary.Digamma),
}

func realFunc(name string, f func(float64) float64) *Func {
	return &Func{Name: name, ArgCount: 1, F: func(a, _, _ float64) float64 { return f(a) }}
}

// complexCalls has the functions of a complex number that are computed in Go. The two Funcs of an entry compute the
// real and the imaginary part of the result.
var complexCalls = func() map[string][2]*Func {
	calls := map[string][2]*Func{}
	for name, f := range elementary.Complex {
		im := &Func{Name: name + ".im", ArgCount: 2, F: func(a, b, _ float64) float64 { return imag(f(complex(a, b))) }}
		re := &Func{Name: name + ".re", ArgCount: 2, F: func(a, b, _ float64) float64 { return real(f(complex(a, b))) },
			Complex: f, Im: im}
		calls[name] = [2]*Func{re, im}
	}
	return calls
}()

// Unary returns the function of float64 that an elementary operation of one number computes in Go, or nil. Its results
// have the same bits on all processors, and errors of at most 2 ulp.
func (o Op) Unary() func(x float64) float64 { return elementary.Unary[o.String()] }

// Binary is [Op.Unary] for operations of two numbers.
func (o Op) Binary() func(x, y float64) float64 { return elementary.Binary[o.String()] }
