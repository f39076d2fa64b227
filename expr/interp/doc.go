// Package interp runs an [expr.Loop] in Go: the portable path where no machine code can be generated, and the reference
// that tests compare machine code with. [New] prepares a loop, and [Runner.Run] computes rows:
//
//	run, err := interp.New(&expr.Loop{Code: code, Scalar: make([]bool, len(code.In))})
//	run.Run(nil, addresses, strides, nil, elements, rows)
//
// # Blocks and slots
//
// A Runner processes a row in blocks that fit the L1 cache. Each instruction is one Go loop over a block ([loopFunc]).
// Its operands and its result are in slots: outputs, operands, constants, values that are constant within a row, or
// temporary blocks. The last instruction writes directly to the output unless an operand that may alias it is read
// later. Rows of a code that is one loop need no blocks.
//
// # Fewer loops
//
// An element costs about one cycle per loop, whatever the operation. New therefore reduces the number of loops:
//
//   - joined.go: two instructions, such as a product and a sum, or a comparison and a selection, are one loop.
//   - peepholes.go: known formulas of many instructions, such as complex products or hypot, are one loop.
//   - bytetable.go: a value that depends on one byte or on two bools only is a table lookup.
//   - predicate.go: values that only one side of a selection needs are skipped in blocks whose mask never selects it.
//   - moved.go: complex64 values that are only moved are moved as 64-bit integers.
//
// Loops take operands of any stride; contiguous operands are unrolled by four (loops.go and internal/genloops).
package interp
