// Package expr describes the computation of one element as data: the pointwise part of an op, or the folds of a row.
//
// A [Formula] is text: the operators of Python, the functions of PyTorch, numbers that promote as those of PyTorch.
// [Formula.Code] types it for the dtypes of its operands and returns a [Code]: instructions in static single
// assignment, each of one dtype, in which every conversion and rounding is explicit. A [Builder] makes a Code without
// text. [Code.Eval] computes one element and is the definition of the results.
//
// A [Loop] is a Code over rows of elements, with optional folds: the unit of compilation. Package expr/interp runs it
// in Go, internal/jit/vector compiles it. Elementary functions are computed within 2 ulp: package expr/expand replaces
// them by primitive operations for compiled code, and interp calls Go functions. Primitive operations have the same
// bits in both.
//
// # Rows
//
// A Code may fold its row ([Reduce], [Scan]) and use the index of the element in the row ([Position]).
// [Code.RowProgram] splits such a Code into passes over the row. Folds that depend on other folds need later passes; a
// value that a later pass needs is recomputed, or stored as a row if recomputing is expensive. An argmax is two folds:
// the extreme, and the least position at which it occurs. [RowProgram.Overlap] and [RowProgram.Pipeline] run all passes
// in one loop, each on another row. [RowProgram.Columns] is a pass across adjacent rows. [Code.Pieces] cuts long rows
// into pieces that are folded independently, and derives the code that combines them.
//
// # The language
//
//	x + y   x - y   x * y     for bools + is or, * is and
//	x / y                     for integers float32
//	x // y  x % y             rounded down; the remainder has the sign of y
//	x ** y                    the exponents 2, 3, -1 and 0.5 are products, quotients and roots
//	-x  +x  ~x  &  |  ^  <<  >>
//	x == y  !=  <  <=  >  >=  bool; they do not chain
//	x and y  or  not          bool; every number but 0 is true
//	where(c, x, y)            min(x, y)  max(x, y): NaN propagates, as in torch.minimum
//	float16(x)                and other dtypes: a cast, which rounds
//	type_as(x, y)             x in the dtype of y, rounded
//	fma(x, y, z)              x*y + z, rounded once; nothing else is contracted
//	real(z)  imag(z)  conj(z)  complex(x, y)
//	t = x * x; t + 1          a definition; each name is defined once
//	(x + y, x - y)            two results
//
// Integer operations wrap; the result of a division by 0 is unspecified. Functions have their PyTorch names: exp,
// sigmoid, gelu, gelu_tanh, leaky_relu(x, slope), softplus(x, beta, threshold), nan_to_num(x, nan, posinf, neginf),
// logaddexp(x, y), lerp(a, b, w) and so on. Functions that are defined in terms of others are text in library.go.
package expr
