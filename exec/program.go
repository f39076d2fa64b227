package exec

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/panics"
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
	// Uploads has the constants that programs share on the device. Nil means that the program shares none.
	Uploads *Uploads
}

// maxThreads is the maximum of [Options.Threads]. It bounds memory, because each worker has its own.
const maxThreads = 4096

// Program is a compiled graph: the kernels of its steps, their schedule, and the addresses of their operands. It is
// immutable except for the cache of sessions.
//
// For example, the planned graph y = relu(x) + w with a constant w and without fusion has two steps and four storages:
//
//	storages: 0: x (inInput)   1: w (inConst)   2: relu (inArena)   3: y (inNewMemory)
//	steps:    0: relu, addresses of the storages 2, 0
//	          1: add, addresses of the storages 3, 2, 1
//
// A [Session] has a pointer for each of these five addresses.
type Program struct {
	graph   *graph.Graph
	inputs  []*graph.Value
	outputs []graph.Output
	threads int
	tracer  Tracer

	// The steps and their schedule.
	steps       []step
	calls       []call    // indexed by step
	sections    []section // ranges of steps: see sections.go
	phaseCount  int       // number of phases of all steps
	partOffsets []int     // indexed by phase: number of parts of all earlier phases; see setParts

	// The memory of values.
	storages     []storage
	storageIndex graph.ByValue[int32] // index of each root value's storage, plus 1: see storageOf
	pointerCount int                  // number of operand addresses of all steps
	arenaSize    int                  // size of the arena in bytes
	workerBytes  int                  // bytes of memory per worker
	need         Need

	device          graph.Device // nil unless a step or a constant is on the device
	deviceArenaSize int          // size of the arena on the device in bytes
	uploads         *Uploads
	uploaded        deviceConstants // constants on the device

	// The memory of outputs.
	pool          *tensor.Pool
	directOutputs []bool         // indexed by output: see findDirectOutputs
	overwrites    []int          // indexed by storage: 1 + the input that it may overwrite, or 0; see overwriteInputs
	constants     []addressRange // address ranges of constants, sorted
	readsStorage  bool           // an op depends on the layout of its operand in memory: [graph.Facts.ReadsStorage]

	// The following fields are nil without KeepGoing.
	failed        graph.Errors          // errors of nodes that were omitted at compilation
	sourceSteps   [][]int32             // indexed by step: the steps that compute its operands
	omittedValues map[*graph.Value]bool // results of nodes that were omitted at compilation
	completeGraph *graph.Graph          // the graph before nodes were omitted for lack of memory; nil if none were

	mu           sync.Mutex
	idleSessions []*Session
	// keepsSessions is false after DropSessions, until the next run.
	keepsSessions bool
}

// storage is the memory of one root value and its views. A root is a value with memory of its own. Views of another
// value (Value.Alias) are no roots, and values that are stored within another value (Value.ContainedIn) are no roots.
// For example, an operand of a concatenation may be stored within the result.
type storage struct {
	kind        storageKind
	root        *graph.Value // nil for a constant that a kernel provides
	place       tensor.Place
	bytes       int
	arenaOffset int            // for inArena
	inputIndex  int            // for inInput: index in Program.inputs
	data        *tensor.Tensor // for inConst
	lastStep    int            // last step that uses the storage; -1 for none
}

// storageKind is the origin of a storage's bytes in a run.
type storageKind uint8

const (
	inArena storageKind = iota
	inInput
	inConst
	inNewMemory // allocated for each run: outputs
)

// storageAddress is an address, given as a storage and an offset in bytes. For inputs the offset counts from the first
// element of the root value. For other storages it counts from the start of the storage.
type storageAddress struct {
	storage int // index in Program.storages, or -1 for a nil address
	offset  int
}

// step is one kernel call.
type step struct {
	node         *graph.Node
	kernel       *graph.Kernel
	addresses    []storageAddress // addresses of the outputs, then of the operands
	firstPtr     int              // index of its first address in a session
	firstPhase   int              // index of its first phase in a session
	waitingSteps []int32          // steps that wait for this step, in order
	// scratchOffset is the offset in the arena of the scratch memory that the workers share.
	scratchOffset int
	pipelineEnd   int // end of the pipelined group (see pipelined.go) that starts here; 0 if none does
}

// call has the fields of a step that a run needs if the step has a single chunk and no scratch memory. It is small, so
// that several calls fit in a cache line.
type call struct {
	run                func(*graph.Mem, int) error // nil for other steps
	firstPtr, ptrCount int32                       // index of its first address in a session, and number of its addresses
}

// Compile compiles a graph whose layouts are chosen (passes.Run). If a node has no kernel, Compile fails with an error
// that names the node. If memory is insufficient, it fails with a [*MemoryError].
func Compile(g *graph.Graph, options Options) (*Program, error) {
	if g == nil {
		return nil, errors.New("the graph to compile is nil")
	}
	if options.Threads <= 0 {
		options.Threads = runtime.GOMAXPROCS(0)
	}
	options.Threads = min(options.Threads, maxThreads)
	if err := g.Err(); err != nil {
		return nil, err
	}
	if options.KeepGoing {
		return compileWithOmissions(g, options) // calls compile for smaller graphs until the memory suffices
	}
	return compile(g, options)
}

// compile calls compileSteps with pipelined groups or, if the memory does not suffice, without: groups keep more values
// live at the same time.
func compile(g *graph.Graph, options Options) (*Program, error) {
	pipelined := options.Threads == 1 && !options.KeepGoing
	program, err := compileSteps(g, options, pipelined)
	if pipelined && errors.As(err, new(*MemoryError)) {
		return compileSteps(g, options, false)
	}
	return program, err
}

// compileSteps compiles a graph in stages. It adds the storages of all values, adds a step for each node that is not a
// view, finds groups of steps if pipelined is true, plans memory, divides the steps into sections, and computes how
// much memory a run needs.
func compileSteps(g *graph.Graph, options Options, pipelined bool) (_ *Program, err error) {
	defer tensor.CatchMemory(&err)
	defer interrupt.Catch(&err)
	if err := options.check(minNeed(g)); err != nil {
		return nil, err
	}
	program := &Program{graph: g, inputs: g.Inputs, outputs: g.Outputs,
		threads: options.Threads, tracer: newSafeTracer(options.Tracer), storageIndex: graph.NewByValue[int32](g),
		pool: cmp.Or(options.Pool, new(tensor.Pool)), uploads: cmp.Or(options.Uploads, new(Uploads))}
	if err := program.setDevice(options.Device); err != nil {
		return nil, err
	}
	program.readsStorage = readsStorage(g)
	program.addStorages(g)
	program.steps, program.calls = make([]step, 0, len(g.Nodes)), make([]call, 0, len(g.Nodes))
	if options.KeepGoing {
		program.omittedValues = map[*graph.Value]bool{} // see keepsGoing
	}
	if err := program.addSteps(g, options); err != nil {
		return nil, err
	}
	if pipelined {
		program.findPipelines()
	}
	program.planMemory(options.Context)
	program.cutSections(options.Costs)
	program.findConstants()
	program.findDirectOutputs()
	program.computeNeed()
	interrupt.Check(options.Context)
	if err := cmp.Or(options.check(program.need), program.checkDevice(options.MemoryLimit)); err != nil {
		return nil, err
	}
	return program, nil
}

// check compares a need with the limit.
func (o Options) check(need Need) error {
	held := need.Held()
	if o.InputsInMemory {
		held += need.Inputs
	}
	return need.Check(o.MemoryLimit, held)
}

// addStorages creates the storages of all root values.
func (p *Program) addStorages(g *graph.Graph) {
	p.storages = make([]storage, 0, len(g.Inputs)+len(g.Constants)+len(g.Nodes))
	add := func(root *graph.Value, added storage) {
		added.root, added.lastStep = root, -1
		added.bytes = root.Meta.Extent() * root.Meta.DType.Size()
		p.storages = append(p.storages, added)
		p.storageIndex.Set(root, int32(len(p.storages)))
	}
	for i, v := range g.Inputs {
		add(v, storage{kind: inInput, inputIndex: i})
	}
	for _, v := range g.Constants {
		add(v, storage{kind: inConst, data: v.Const})
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v.Alias == nil && v.ContainedIn == nil {
				add(v, storage{kind: inArena, place: v.Place()})
			}
		}
	}
	for _, output := range g.Outputs {
		if outputStorage := &p.storages[p.storageOf(output.Value)]; outputStorage.kind == inArena {
			outputStorage.kind = inNewMemory
		}
	}
}

// storageOf returns the index of the storage that holds a value. It returns 0 for a value that has no storage.
func (p *Program) storageOf(v *graph.Value) int {
	return int(max(p.storageIndex.At(v.BufferOwner())-1, 0))
}

// keepsGoing reports whether [Options.KeepGoing] was set at compilation.
func (p *Program) keepsGoing() bool { return p.omittedValues != nil }

// addSteps adds a step for each node that is not a view. With KeepGoing, it records the error of a node that fails, and
// omits the results of the node.
func (p *Program) addSteps(g *graph.Graph, options Options) error {
	kernels := lowerAll(g, options)
	for i, n := range g.Nodes {
		interrupt.Check(options.Context)
		if p.keepsGoing() && p.omitIfDependent(n) || n.IsView() {
			continue
		}
		err := kernels[i].err
		if err == nil {
			err = p.addStep(n, kernels[i].kernel)
		}
		if err != nil {
			if !p.keepsGoing() {
				return g.NodeError(n, err)
			}
			p.failed = append(p.failed, g.NodeError(n, err))
			p.omitResults(n)
		}
	}
	if p.keepsGoing() {
		p.findSourceSteps()
	}
	return nil
}

// addStep adds a step for a node and its kernel. A node that uploads a constant has no step.
func (p *Program) addStep(n *graph.Node, kernel *graph.Kernel) (err error) {
	defer panics.Recover(&err)
	if n.UploadsConstant() {
		p.addUploaded(n)
		return nil
	}
	newStep := step{node: n, kernel: kernel, addresses: p.addressesOf(n, kernel), firstPtr: p.pointerCount,
		firstPhase: p.phaseCount}
	newCall := call{firstPtr: int32(newStep.firstPtr), ptrCount: int32(len(newStep.addresses))}
	if len(kernel.Phases) == 1 && kernel.Phases[0].Chunks == 1 && kernel.Scratch == 0 {
		newCall.run = kernel.Phases[0].Run
	}
	p.calls = append(p.calls, newCall)
	p.phaseCount += len(kernel.Phases)
	p.pointerCount += len(newStep.addresses)
	if newStep.hasDeviceScratch() {
		p.pointerCount++ // the address of the scratch memory follows the addresses of the operands
	}
	p.workerBytes = max(p.workerBytes, kernel.WorkerScratch)
	p.steps = append(p.steps, newStep)
	return nil
}

// addressesOf returns the addresses of the outputs and operands of a node. It adds storages for the constants that the
// kernel provides.
func (p *Program) addressesOf(n *graph.Node, kernel *graph.Kernel) []storageAddress {
	addresses := make([]storageAddress, 0, len(n.Out)+len(n.In))
	for _, v := range n.Out {
		addresses = append(addresses, p.addressOf(v))
	}
	for i, arg := range n.In {
		address := storageAddress{storage: -1}
		switch {
		case i < len(kernel.EmbeddedOperands) && kernel.EmbeddedOperands[i] != nil:
			address = p.addConstant(kernel.EmbeddedOperands[i])
		case arg.Kind == graph.TensorArg:
			address = p.addressOf(arg.Value)
		}
		addresses = append(addresses, address)
	}
	return addresses
}

// addConstant adds a storage for a constant that a kernel provides, and returns the address of the constant.
func (p *Program) addConstant(constant *tensor.Tensor) storageAddress {
	if constant.Numel() == 0 {
		return storageAddress{storage: -1}
	}
	p.storages = append(p.storages, storage{kind: inConst, data: constant, bytes: constant.Bytes(), lastStep: -1})
	return storageAddress{storage: len(p.storages) - 1, offset: constant.Offset * constant.DType.Size()}
}

// addressOf returns the address of a value.
func (p *Program) addressOf(v *graph.Value) storageAddress {
	if v.Meta.Numel() == 0 {
		return storageAddress{storage: -1}
	}
	return storageAddress{storage: p.storageOf(v), offset: v.Meta.Offset * v.Meta.DType.Size()}
}

// Step describes one kernel call of a program.
type Step struct {
	Name string
	Ops  []string // names of the nodes that it computes, several for a fused node
	Node *graph.Node
	Loop graph.Loop // nil unless the kernel is a pointwise loop
	// Code lists the compiled loops of the kernel; nil if there are none.
	Code    func() []expr.Listing
	Strides []int // strides of the first output in elements
	Buffer  int   // number of the first output's storage; equal numbers mean the same memory
	Bytes   int   // total size of the outputs
}

// Steps returns the steps in a valid order.
func (p *Program) Steps() []Step {
	steps, names := make([]Step, len(p.steps)), make([]string, len(p.steps))
	for i, step := range p.steps {
		n := step.node
		names[i] = n.Name
		bytes := 0
		for _, v := range n.Out {
			bytes += v.Meta.Bytes()
		}
		ops := names[i : i+1 : i+1]
		if fused, isFused := n.Attrs.(*fusion.Fusion); isFused {
			ops = fused.Names()
		}
		steps[i] = Step{Name: n.Name, Ops: ops, Node: n, Loop: step.kernel.Loop, Code: step.kernel.Code,
			Strides: n.Out[0].Meta.Strides, Buffer: p.storageOf(n.Out[0]), Bytes: bytes}
	}
	return steps
}

// ArenaBytes returns the size of the arena that intermediate values of a run share.
func (p *Program) ArenaBytes() int { return p.arenaSize }

// PeakBytes returns the memory of a run in bytes, without inputs and constants: the arena, the outputs, and the scratch
// memory of all workers.
func (p *Program) PeakBytes() int { return sum(p.need.Arena, p.need.Outputs, p.need.Scratch) }
