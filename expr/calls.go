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
	return &Func{Name: name, Args: 1, F: func(a, _, _ float64) float64 { return f(a) }, real: f}
}

// complexCalls has the functions of a complex number that are computed in Go. The two Funcs of an entry compute the
// real and the imaginary part of the result.
var complexCalls = func() map[string][2]*Func {
	calls := map[string][2]*Func{}
	for name, f := range elementary.Complex {
		im := &Func{Name: name + ".im", Args: 2, F: func(a, b, _ float64) float64 { return imag(f(complex(a, b))) }}
		re := &Func{Name: name + ".re", Args: 2, F: func(a, b, _ float64) float64 { return real(f(complex(a, b))) },
			imag: im, complex: f}
		calls[name] = [2]*Func{re, im}
	}
	return calls
}()

// Unary returns the function of one number that F calls, or nil if F is not such a function.
func (f *Func) Unary() func(float64) float64 { return f.real }

// Complex returns the function of a complex number whose real part F computes, and the Func of its imaginary part. It
// returns nil if F computes something else.
func (f *Func) Complex() (complex func(complex128) complex128, imag *Func) { return f.complex, f.imag }
