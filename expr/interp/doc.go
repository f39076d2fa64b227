// Package interp runs an [expr.Loop] in Go. It is used where no machine code can be generated, and tests compare
// machine code with it. [New] prepares a loop, and [Runner.Run] computes rows:
//
//	run, err := interp.New(&expr.Loop{Code: code, Scalar: make([]bool, len(code.In))})
//	run.Run(nil, addresses, strides, nil, elements, rows)
//
// # Blocks and slots
//
// A Runner processes a row in blocks that fit the L1 cache. Each instruction is one Go loop over a block ([loopFunc]).
// A slot is the address of an operand or result of such a loop: an output, an operand, a constant, a value that is
// constant within a row (uniform), or a temporary block. A result is written directly to an output, unless an operand
// that may share memory with the output is read later. If one loop computes the whole code, no blocks are needed.
//
// # Fewer loops
//
// A loop takes about one cycle per element for most operations. New therefore reduces the number of loops:
//
//   - joined.go: two instructions, such as a product and a sum, or a comparison and a selection, are one loop.
//   - peepholes.go: known formulas of many instructions, such as complex products or hypot, are one loop.
//   - bytetable.go: a value that depends only on one byte or on two bools is a table lookup.
//   - predicate.go: values that only one side of a selection needs are skipped in blocks whose mask never selects it.
//   - moved.go: complex64 values that are only moved are moved as 64-bit integers.
//
// Loops take operands of any stride. Loops over contiguous operands are unrolled by four (loops.go and
// internal/genloops).
package interp
