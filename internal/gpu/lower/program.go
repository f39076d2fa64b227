package lower

import "github.com/graphrun/graphrun/internal/gpu/ir"

// Program is the computation of a call on a device. Its launches run in order: each sees what earlier launches wrote.
type Program struct {
	Launches []Launch
	Scratch  int // bytes of memory for the program, of any content, with an address that is a multiple of 16
	// Fault is the error of a run after which the word at the address [FaultWord] is not 0; empty if the program does
	// not write that word.
	Fault string
}

// Launch is a run of a kernel.
type Launch struct {
	Kernel *ir.Kernel
	Groups int
	Args   []Arg // by parameter of the kernel
}

// Arg is an address that a launch gives to a kernel.
type Arg struct {
	Buffer int // a result or an operand, results first; or Scratch or FaultWord
	Offset int // bytes from the first element
}

// Buffers that are not results or operands.
const (
	Scratch   = -1 // the memory of Program.Scratch
	FaultWord = -2 // a uint32 that was 0 before the program, or before several programs
)

// Bind returns the arguments of a launch. addresses has the addresses of results and operands.
func (l *Launch) Bind(addresses []uint64, scratch, fault uint64) []uint64 {
	list := make([]uint64, 0, len(l.Args))
	for _, arg := range l.Args {
		base := scratch
		switch {
		case arg.Buffer >= 0:
			base = addresses[arg.Buffer]
		case arg.Buffer == FaultWord:
			base = fault
		}
		list = append(list, base+uint64(arg.Offset))
	}
	return list
}
