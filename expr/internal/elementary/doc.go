// Package elementary computes elementary functions of float64 and complex128 in Go, within 2 ulp. It also has the
// polynomials and tables that it shares with package expand. The results have the same bits on all processors. The
// results of packages math and math/cmplx differ between processors: these packages have assembly for some processors,
// and Go fuses products with sums on others. Some functions of these packages are also less accurate or slower:
//
//   - sin, cos, tan: package math loses most digits near multiples of pi/2. Here, small angles are reduced by pi/2 in
//     two parts, and other angles by 192 bits of 2/pi (Payne and Hanek).
//   - exp: 2^(k/128) from a table times a polynomial.
//   - log, log2, log10, pow: package math loses digits near 1 by cancellation, and is wrong for subnormal numbers on
//     some processors. pow uses the logarithm to base 2 as a sum of two float64, exact to 2^-63.
//   - erfc: a polynomial times exp(-x^2) as a sum of two float64.
//   - lgamma: package math loses digits near 1 and 2 by cancellation.
//   - complex functions: the formulas of math/cmplx on top of these functions; inverse functions by W. Kahan's
//     formulas.
//
// # Conventions
//
// A product whose rounding matters is wrapped in a conversion, float64(x*y), because Go may otherwise fuse it with a
// sum. A branch whose outcome is unpredictable is replaced by a conditional move of bits. Go compiles conditional moves
// for integers only, and branches for floats. "Exact to 2^-63" means a relative error below 2^-63.
package elementary
