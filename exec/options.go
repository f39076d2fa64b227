package exec

import (
	"context"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Options configures a program.
type Options struct {
	// Context cancels compilation; the error then wraps the cause of the context. Runs have their own contexts. Nil
	// means none.
	Context context.Context
	// Threads is the maximum number of workers of one run; 0 or less means GOMAXPROCS. More than 4096 means 4096.
	Threads int
	// Costs are the prices of work. Compile uses them to decide which steps are divided among several workers. Nil
	// means the prices of a typical machine.
	Costs *machine.Profile
	// Tracer, if set, observes runs. Without a tracer there is no overhead.
	Tracer Tracer
	// MemoryLimit is the maximum [Need] of a run in bytes. A graph that needs more is rejected with a [*MemoryError]
	// before memory is allocated. 0 means the memory that is available to the process at compilation. This is the least
	// of three numbers: the limit of the process, the limit of its control groups, and the free memory of the machine.
	// A negative number means no limit.
	MemoryLimit int
	// InputsInMemory means that the inputs of the run are in memory at compilation. Their memory is then not counted
	// twice.
	InputsInMemory bool
	// KeepGoing continues after failures. A node that cannot be compiled or that fails in a run is omitted together
	// with its dependents. Nodes whose results do not fit into memory are omitted, too. If nodes are omitted, the error
	// of a run is an [*Incomplete].
	KeepGoing bool
	// Pool provides the memory of results, and takes it back when results are released. Nil means that the program has
	// its own pool.
	Pool *tensor.Pool
	// Device runs the nodes whose implementations are on a device; nil if the graph has no such nodes.
	Device graph.Device
	// Base, if set, is the program of the same planned graph at other sizes. Both programs share the kernels of the nodes
	// that are equal: those for whose index in the graph Changed returns false.
	Base    *Program
	Changed func(i int) bool
	// MemoryPlans has the memory plans of the programs of the same planned graph at other sizes; nil if there are none.
	MemoryPlans *MemoryPlans
	// Uploads has the constants that programs share on the device. Nil means that the program shares none.
	Uploads *Uploads
}

// maxThreads is the maximum of [Options.Threads]. It bounds memory, because each worker has its own.
const maxThreads = 4096

// check returns an error if the memory that a run needs exceeds MemoryLimit. held is the part of the need that is in
// memory already.
func (o Options) check(need Need) error {
	held := need.Held()
	if o.InputsInMemory {
		held += need.Inputs
	}
	return need.Check(o.MemoryLimit, held)
}
