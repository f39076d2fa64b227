// Package interp runs an [expr.Loop] in Go. It is used where no machine code can be generated, and tests compare
// machine code with it. [New] prepares a loop, and [Runner.Run] computes rows:
//
//	run, err := interp.New(&expr.Loop{Code: code, Uniform: make([]bool, len(code.In))})
//	run.Run(nil, addresses, strides, nil, elements, rows)
//
// table.go has one Go loop for each operation and dtype. A Runner processes a row in blocks that fit the L1 cache: each
// instruction is one loop over a block. Operands are read in place, with any stride. A value that is constant within a
// row is computed once per row. Values that only one side of a selection needs are skipped in blocks whose mask never
// selects this side (predicate.go).
package interp
