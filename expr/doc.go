// Package expr states what a pointwise computation does to one element, as data, and runs it over rows.
//
// A [Formula] is text as people write it: Python's operators, PyTorch's functions, plain numbers that promote as
// PyTorch's do. [Formula.Code] types it for dtypes and gives a [Code]: instructions in static single assignment, each
// of one dtype. A [Builder] makes codes without text. A [Loop] is a code over rows of elements with the operands that
// are the same for a row, and with folds; [Loop.Prepare] makes it ready to run in Go, and [Code.Eval] computes one
// element by definition.
//
// Primitive operations give the same bits wherever they run. Elementary functions are package math's or our own here,
// computed in float64 within 2 ulp, and expansions into primitives in compiled code.
//
// # The language
//
//	x + y   x - y   x * y     of bools + is or, * is and
//	x / y                     of integers float32
//	x // y  x % y             rounded down, the remainder with the sign of y
//	x ** y                    2, 3, -1, 0.5 are products, quotients and roots
//	-x  +x  ~x  &  |  ^  <<  >>
//	x == y  !=  <  <=  >  >=  bool; they do not chain
//	x and y  or  not          bool, of what is not 0
//	where(c, x, y)            min(x, y)  max(x, y): NaN stays, as in torch.minimum
//	float16(x)                and other dtypes: a cast, which rounds
//	type_as(x, y)             x in the dtype of y, rounded
//	fma(x, y, z)              x*y + z, rounded once; nothing else is contracted
//	real(z)  imag(z)  conj(z)  complex(x, y)
//	t = x * x; t + 1          a name for a value, each once
//	(x + y, x - y)            two results
//
// Integer operations wrap, and a divisor of 0 gives any number. Functions have the names that they have in PyTorch:
// exp, sigmoid, gelu, gelu_tanh, leaky_relu(x, slope), softplus(x, beta, threshold), nan_to_num(x, nan, posinf,
// neginf), logaddexp(x, y), lerp(a, b, w) and so on. Those that are made of others are text in library.go.
package expr
