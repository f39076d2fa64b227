// Package expand replaces elementary functions in an [expr.Code] by primitive operations, for compiled code.
// [Functions] is its only function.
//
// The results are within 2 units in the last place (ulp) for all operands, including subnormal numbers, with the
// special values of C99. They have the same bits for every [Target]. Expansions have no branches. Rare
// operands (subnormal numbers, angles beyond 2^25) take the same operations as all other operands, and selections
// choose the result.
//
// # Methods
//
//   - exp of float32 reduces its operand to steps of ln 2 / 4. The powers of 2, and their rounding errors, come from
//     a table that fits a vector register; a polynomial of degree 4 gives the rest. The error is at most 0.8 ulp.
//     This takes 13 operations with an instruction for scaling by powers of 2 (AVX-512), and 17 without (AVX2).
//   - tanh and erfc of float32 are polynomials whose coefficients come from tables by interval (scripts/tables.py
//     fits them). 1 + erf(x), as in gelu, is computed as erfc, so that no rounding error of erf remains where the
//     sum cancels.
//   - Functions of float32 whose rounding errors would add up are computed in float64, with the polynomials that
//     suffice for float32.
//   - sin, cos and tan reduce their operand by parts of pi/2 (Cody and Waite) or by the bits of 2/pi (Payne and
//     Hanek).
//   - Logarithms split their operand into a power of 2 and a factor between 2/3 and 4/3. pow of float64 uses a
//     logarithm that is a sum of two numbers.
//
// docs/accuracy.md lists the errors of all functions.
package expand
