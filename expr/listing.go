package expr

// Listing shows the code that was generated for a [Loop].
type Listing struct {
	Name string // distinguishes the loops of one node of a plan; empty if it has one loop
	Loop *Loop  // nil for machine code without an expression, such as the code of matrix products
	// Staged has an entry for each output, then for each operand. An entry is true if the loop accesses a copy of the
	// output or operand in a buffer of the worker.
	Staged []bool
	// Assembly returns the machine code in the syntax of Go's assembler. It may generate the code again, which takes as
	// long as compiling the loop. It is nil for a loop that runs in Go.
	Assembly func() string
	Why      string // the reason why the loop runs in Go
}
