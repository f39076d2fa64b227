package expr

// Listing shows the code that was generated for a [Loop].
type Listing struct {
	Name string // the name of the loop in its step; empty if there is only one
	Loop *Loop  // nil for machine code without an expression, such as the code of matrix products
	// Staged has an entry for each output, and then for each operand. If the entry is true, the loop does not access
	// the output or operand in place: it accesses a copy in a buffer of the worker.
	Staged []bool
	// Assembly is the machine code in the syntax of the Go assembler. For a loop that runs in Go, Assembly is empty,
	// and Why is the reason.
	Assembly, Why string
}
