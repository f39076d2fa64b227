// Package kernels shows kernels that use only package iter and need no type switch: one for five dtypes with an
// attribute, one with three operands and a channels-last bfloat16 result, and one with two results, beside a fold. It
// also shows an op that is defined by a formula. Each file is one program.
package kernels

import "log"

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
