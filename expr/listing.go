package expr

// Listing tells what was made of a [Loop], for people who want to see.
type Listing struct {
	Name string // which of the loops of a step it is; empty for the only one
	Loop *Loop  // nil for machine code that no expression states, such as that of sums of products
	// Staged marks, outputs before operands, what the loop does not read or write where it lies, but in a block of
	// the worker's memory that is copied from there, or to there.
	Staged []bool
	// Assembly is the machine code in the syntax of Go's assembler; empty for a loop that runs in Go, because of Why.
	Assembly, Why string
}
