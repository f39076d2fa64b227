// Package kernels shows kernels that are written against package iter alone, without a type switch: one over five
// dtypes with an attribute, one of three operands whose result is channels-last and bfloat16, and one with two results
// beside a fold; and an op of one's own by a formula. Each file is one program.
package kernels

import "log"

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
