package lower

import "github.com/graphrun/graphrun/internal/gpu/ir"

// Program is the computation of a call on a device. Its launches run in order. A launch sees all writes of earlier
// launches.
type Program struct {
	Launches []Launch
	// Scratch is the size in bytes of the temporary memory. The address of this memory is a multiple of 16. The memory
	// need not be cleared.
	Scratch int
	// Fault is the text of the error to report if the word [FaultWord] is not 0 after a run. It is empty if the program
	// does not write that word.
	Fault string
}

// Launch is a run of a kernel.
type Launch struct {
	Kernel *ir.Kernel
	Groups int   // the number of groups of threads
	Args   []Arg // by parameter of the kernel
}

// Arg is the address that a launch passes for a parameter: a byte of a buffer. The buffers of a program are numbered:
// first the results of the call, then its operands.
type Arg struct {
	Buffer int // the number of a buffer, Scratch or FaultWord
	Offset int // bytes from the first element
}

// These buffers are neither results nor operands.
const (
	Scratch   = -1 // the memory of Program.Scratch
	FaultWord = -2 // a uint32 that the caller sets to 0 before a run; several programs may share it
)

// Bind returns the arguments of a launch as addresses, in the order of the kernel's parameters. buffers has the
// addresses of the results and operands. scratch and faultWord are the addresses of Scratch and FaultWord.
func (l *Launch) Bind(buffers []uint64, scratch, faultWord uint64) []uint64 {
	list := make([]uint64, 0, len(l.Args))
	for _, arg := range l.Args {
		base := scratch
		switch {
		case arg.Buffer >= 0:
			base = buffers[arg.Buffer]
		case arg.Buffer == FaultWord:
			base = faultWord
		}
		list = append(list, base+uint64(arg.Offset))
	}
	return list
}
