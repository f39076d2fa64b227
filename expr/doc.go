// Package expr describes the computation of one element as data. The computation is the pointwise part of an op, or
// folds over a row of elements.
//
// A [Formula] is parsed from text with the operators of Python and the functions of PyTorch. Its numbers are promoted
// as in PyTorch. [Formula.Code] derives a [Code] from the formula for given dtypes of the operands. A Code is a list of
// instructions in static single assignment form. Each instruction has one dtype, and every conversion and rounding is
// an instruction. A [Builder] makes a Code without text. [Code.Eval] computes one element and defines the results.
//
// A [Loop] is a Code over rows of elements, with optional folds. It is the unit of compilation: package expr/interp
// runs it in Go, and internal/jit/vector compiles it to machine code. Elementary functions have an error of at most 2
// ulp. Package expr/expand replaces them by primitive operations for machine code, and interp calls Go functions.
// Primitive operations give the same bits in machine code and in Go.
//
// # Rows
//
// A Code may fold its row ([Reduce], [Scan]) and use the index of the element in the row ([Position]).
// [Code.RowProgram] splits such a Code into passes over the row. A fold that depends on another fold needs a later
// pass. If a later pass needs a value of an earlier pass, the value is recomputed or, if that is expensive, stored as
// a row. An argmax is two folds: the maximum, and the least position at which the maximum occurs.
// [RowProgram.Overlap] and [RowProgram.Pipeline] return one loop for all passes. In an iteration of this loop, each
// pass works on a different row. [RowProgram.Columns] returns the loop of a pass across adjacent rows. [Code.Pieces]
// is for long rows that are cut into pieces. It derives a code that folds one piece, and a code that combines the
// results of the pieces.
//
// # The language
//
//	x + y   x - y   x * y     for bools, + is or, and * is and
//	x / y                     for integers, the result is float32
//	x // y  x % y             rounded down; the remainder has the sign of y
//	x ** y                    for the exponents 2, 3, -1 and 0.5: products, quotients and square roots
//	-x  +x  ~x  &  |  ^  <<  >>
//	x == y  !=  <  <=  >  >=  bool; comparisons do not chain
//	x and y  or  not          bool; every number but 0 is true
//	where(c, x, y)            min(x, y)  max(x, y): NaN propagates, as in torch.minimum
//	float16(x)                and other dtypes: a cast, which rounds
//	type_as(x, y)             x in the dtype of y, rounded
//	fma(x, y, z)              x*y + z, rounded once; nothing else is contracted
//	real(z)  imag(z)  conj(z)  complex(x, y)
//	t = x * x; t + 1          a definition; each name is defined once
//	(x + y, x - y)            two results
//
// Integer operations wrap, and the result of an integer division by 0 is unspecified. Functions have their PyTorch
// names: exp, sigmoid, gelu, gelu_tanh, leaky_relu(x, slope), softplus(x, beta, threshold), nan_to_num(x, nan, posinf,
// neginf), logaddexp(x, y), lerp(a, b, w) and so on. Functions that are defined in the language itself are in
// library.go.
package expr
