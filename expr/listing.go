package expr

// Listing shows the code that was generated for a [Loop].
type Listing struct {
	Name string // the name of the loop in its step; empty if there is only one
	Loop *Loop  // nil for machine code without an expression, such as the code of matrix products
	// Staged marks the outputs, and then the operands, that the loop accesses in a buffer of the worker instead of in
	// place. They are copied from or to that buffer.
	Staged []bool
	// Assembly is the machine code in the syntax of the Go assembler. For a loop that runs in Go, Assembly is empty and
	// Why is the reason.
	Assembly, Why string
}
