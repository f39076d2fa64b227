package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Program is a compiled graph. It has a step for each kernel call, and a storage for each block of memory: an input, a
// constant, an intermediate value or an output. Intermediate values are in one arena. A Program is immutable except for
// its list of idle sessions.
//
// For example, the planned graph y = relu(x) + w with a constant w and without fusion has two steps and four storages:
//
//	storages: 0: x (inInput)   1: w (inConst)   2: relu (inArena)   3: y (inNewMemory)
//	steps:    0: relu, addresses of the storages 2, 0
//	          1: add, addresses of the storages 3, 2, 1
//
// A [Session] has the memory of a run, with a pointer for each of these five addresses.
//
// A kernel ([graph.Kernel]) consists of phases, which run one after another. A phase consists of chunks, which several
// workers can run at the same time. A section is a range of steps, whose chunks are run by one worker or divided among
// several.
type Program struct {
	graph   *graph.Graph
	inputs  []*graph.Value
	outputs []graph.Output
	threads int // maximum number of workers of a run
	tracer  Tracer

	// The steps and their schedule.
	steps       []step
	calls       []call // indexed by step
	sections    []section
	costsNS     []float64     // by step: see sharing; nil if there is one worker
	kernels     []loweredNode // by node of the graph
	phaseCount  int           // number of phases of all steps
	partOffsets []int         // schedule of shared sections: see setParts

	// The memory of values.
	storages     []storage
	storageIndex graph.ByValue[int32] // index of each root value's storage, plus 1: see storageOf
	pointerCount int                  // number of addresses of all steps
	addresses    []storageAddress     // of all steps
	arenaSize    int                  // size of the arena in bytes
	memoryPlans  *MemoryPlans         // nil unless plans are shared
	workerBytes  int                  // bytes of scratch memory per worker
	need         Need                 // memory of a run, by purpose

	device          graph.Device // nil unless a step or a constant is on the device
	deviceArenaSize int          // size of the arena on the device in bytes
	uploads         *Uploads
	uploaded        deviceConstants // constants on the device

	// The memory of outputs.
	pool             *tensor.Pool
	outputPlan       outputPlan // see outputs.go
	directOutputs    []bool     // indexed by output: a step can write the caller's tensor; see findDirectOutputs
	mergedIntoOutput []int32    // indexed by storage: 1 + the storage of the output that overwrites it, or 0
	overwrites       []int      // indexed by storage: 1 + the input that it may overwrite, or 0; see overwriteInputs
	caches           []cache    // inputs that steps extend: see outputs.go
	readsStorage     bool       // an op depends on the layout of its operand in memory: [graph.Facts.ReadsStorage]

	// constants returns the address ranges of constants, sorted. The first call finds them.
	constants func() []addressRange

	keepsGoing  bool      // see [Options.KeepGoing]
	sourceSteps [][]int32 // indexed by step: the steps that compute its operands; nil unless keepsGoing

	mu           sync.Mutex // protects the fields below
	idleSessions []*Session // for the next runs
	// keepsSessions is false after DropSessions, until the next run.
	keepsSessions bool
}

// step is one kernel call.
type step struct {
	node          *graph.Node
	kernel        *graph.Kernel
	addresses     []storageAddress // addresses of the outputs, then of the operands
	firstPtr      int              // index of its first address among the addresses of all steps
	firstPhase    int              // index of its first phase among the phases of all steps
	waitingSteps  []int32          // later steps that must wait for this step, in order
	scratchOffset int              // offset in the arena of the scratch memory that the workers share
	pipelineEnd   int              // end of the pipelined group that starts here, or 0: see pipelined.go
}

// call is the short form of a step of one chunk without scratch memory. It has only the fields that a run needs, so
// that several calls fit in a cache line.
type call struct {
	run                func(*graph.Mem, int) error // nil for other steps
	firstPtr, ptrCount int32                       // index of its first address as in step, and number of its addresses
}

// Compile compiles a planned graph: passes.Run has chosen its layouts. If nodes have no kernels, Compile fails with a
// [graph.Errors] that names these nodes. If memory is insufficient, it fails with a [*MemoryError].
func Compile(g *graph.Graph, options Options) (*Program, error) {
	if g == nil {
		return nil, errors.New("the graph to compile is nil")
	}
	if options.Threads <= 0 {
		options.Threads = runtime.GOMAXPROCS(0)
	}
	options.Threads = min(options.Threads, maxThreads)
	if b := options.Bound; b == nil || b.Graph != g || len(b.Changed) != len(g.Nodes) || len(b.Alike) != len(g.Nodes) {
		options.Base, options.Bound = nil, nil
	}
	if options.Base != nil && len(options.Base.kernels) != len(g.Nodes) {
		options.Base = nil
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	// A program with one worker gets pipelined groups: sequences of steps whose chunks are interleaved. Groups need more
	// memory. If the memory does not suffice, the graph is compiled again without groups.
	pipelined := options.Threads == 1 && !options.KeepGoing
	program, err := compileSteps(g, options, pipelined)
	if pipelined && errors.As(err, new(*MemoryError)) {
		pipelined = false
		return compileSteps(g, options, pipelined)
	}
	return program, err
}

// compileSteps compiles a graph in stages, with pipelined groups if pipelined is true.
func compileSteps(g *graph.Graph, options Options, pipelined bool) (_ *Program, err error) {
	defer tensor.CatchMemory(&err)
	defer interrupt.Catch(&err) // returns the error of a canceled context, with which interrupt.Check panics
	if options.Base == nil {    // otherwise most kernels are made already
		if err := options.check(minNeed(g)); err != nil {
			return nil, err
		}
	}
	program := &Program{
		graph: g, inputs: g.Inputs, outputs: g.Outputs,
		threads: options.Threads, tracer: SafeTracer(options.Tracer), keepsGoing: options.KeepGoing,
		storageIndex: graph.NewByValue[int32](g),
		pool:         cmp.Or(options.Pool, new(tensor.Pool)), uploads: cmp.Or(options.Uploads, new(Uploads)),
		memoryPlans: options.MemoryPlans,
	}
	if err := program.setDevice(options.Device); err != nil {
		return nil, err
	}
	if options.Base != nil {
		program.readsStorage = options.Base.readsStorage
	} else {
		program.readsStorage = g.ReadsStorage()
	}
	program.addStorages(g)
	addressCount := 0
	for _, n := range g.Nodes {
		addressCount += len(n.Out) + len(n.In)
	}
	program.addresses = make([]storageAddress, 0, addressCount)
	program.steps, program.calls = make([]step, 0, len(g.Nodes)), make([]call, 0, len(g.Nodes))
	if err := program.addSteps(g, options); err != nil {
		return nil, err
	}
	if pipelined {
		program.findPipelines()
	}
	program.planMemory(options.Context) // also finds the steps that wait for others
	program.cutSections(options.Costs, options.Base)
	program.constants = sync.OnceValue(program.findConstants) // only runs into tensors of the caller need them
	program.findCaches()
	program.findDirectOutputs()
	program.computeNeed()
	interrupt.Check(options.Context)
	if err := options.check(program.need); err != nil {
		return nil, err
	}
	if options.MemoryLimit >= 0 {
		if err := program.CheckDevice(); err != nil {
			return nil, err
		}
	}
	return program, nil
}

// addSteps adds a step for each node that is not a view. The error names all nodes that have no kernel.
func (p *Program) addSteps(g *graph.Graph, options Options) error {
	p.kernels = lowerAll(g, options)
	var failed graph.Errors
	for i, n := range g.Nodes {
		interrupt.Check(options.Context)
		if n.IsView() {
			continue
		}
		err := p.kernels[i].err
		if err == nil {
			err = p.addStep(n, p.kernels[i].kernel)
		}
		if err != nil {
			failed = append(failed, g.NodeError(n, err))
		}
	}
	if len(failed) > 0 {
		return failed
	}
	if p.keepsGoing {
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
	hasOneChunk := len(kernel.Phases) == 1 && kernel.Phases[0].Chunks == 1
	if hasOneChunk && kernel.Scratch == 0 {
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

// Step describes one kernel call of a program. Only the fields Name, Ops, Op, Impl, Strides and Buffer of its document
// are set: the others depend on the plan.
type Step struct {
	report.Step
	Node *graph.Node
	Loop graph.Loop // nil unless the kernel is a pointwise loop
	// Code lists the compiled loops of the kernel; nil if there are none.
	Code func() []expr.Listing
}

// StepCount returns the number of steps. It returns 0 for nil.
func (p *Program) StepCount() int {
	if p == nil {
		return 0
	}
	return len(p.steps)
}

// Steps describes the steps, in an order in which they can run.
func (p *Program) Steps() []Step {
	steps, names := make([]Step, len(p.steps)), make([]string, len(p.steps))
	for i, step := range p.steps {
		n := step.node
		names[i] = n.Name
		described := &steps[i]
		*described = Step{Node: n, Loop: step.kernel.Loop, Code: step.kernel.Code}
		described.Name, described.Ops = n.Name, names[i:i+1:i+1] // a list of one name, without an allocation for each step
		if fused, isFused := n.Attrs.(*fusion.Fusion); isFused {
			described.Ops = fused.Names()
		}
		if len(described.Ops) == 1 {
			described.Op = n.Op.Name
		}
		if n.Impl != nil {
			described.Impl = n.Impl.Name
		}
		described.Strides, described.Buffer = n.Out[0].Meta.Strides, p.storageOf(n.Out[0])
	}
	return steps
}

// Outputs returns the outputs of a run, in order. The result must not be changed.
func (p *Program) Outputs() []graph.Output { return p.outputs }

// FoldOrders returns the FoldOrder of the kernels that have one, by the name of the node.
func (p *Program) FoldOrders() map[string]string {
	orders := map[string]string{}
	for i := range p.steps {
		if order := p.steps[i].kernel.FoldOrder; order != "" {
			orders[p.steps[i].node.Name] = order
		}
	}
	return orders
}

// ArenaBytes returns the size of the arena that intermediate values of a run share.
func (p *Program) ArenaBytes() int { return p.arenaSize }

// PeakBytes returns the memory of a run in bytes, without inputs and constants: the arena, the outputs, and the scratch
// memory of all workers.
func (p *Program) PeakBytes() int { return sum(p.need.Arena, p.need.Outputs, p.need.Scratch) }

// Options configures a program.
type Options struct {
	// Context cancels compilation; the error then wraps the cause of the context. Runs have their own contexts. Nil
	// means none.
	Context context.Context
	// Threads is the maximum number of workers of one run; 0 or less means GOMAXPROCS. More than 4096 means 4096.
	Threads int
	// Costs are the prices of work. Compile uses them to decide which steps are divided among several workers. Nil
	// means the prices of a typical machine.
	Costs *pricing.Profile
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
	// KeepGoing continues a run after failed steps. The steps that depend on a failed step are omitted, and the error of
	// the run is an [*Incomplete].
	KeepGoing bool
	// Pool provides the memory of results, and takes it back when results are released. Nil means that the program has
	// its own pool.
	Pool *tensor.Pool
	// Device runs the nodes whose implementations are on a device; nil if the graph has no such nodes.
	Device graph.Device
	// Base, if set, is the program of the same planned graph at other sizes. Both programs share the kernels of the nodes
	// that Bound does not mark as changed.
	Base *Program
	// Bound has the planned graph if a template made it, and tells which nodes are alike and which have changed. Nil
	// means that Compile finds the nodes that are alike.
	Bound *graph.Bound
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

// This part compiles the kernels of all nodes, in parallel.

// loweredNode is the kernel of a node, or the error of its compilation. A view has no kernel and no error.
type loweredNode struct {
	kernel *graph.Kernel
	err    error
}

// lowerBatch is the number of consecutive nodes that a worker lowers at a time. It is small enough to balance the load
// if some nodes take a thousand times as long as others, and large enough to amortize the start of workers.
const lowerBatch = 16

// lowerAll compiles (lowers) the kernels of all nodes in parallel, one for all nodes that are alike, and then links
// their machine code in one operation. The number of workers affects only [joinChunks], which joins chunks of a kernel.
func lowerAll(g *graph.Graph, options Options) []loweredNode {
	list := make([]loweredNode, len(g.Nodes))
	var alike []int32
	if options.Bound != nil {
		alike = options.Bound.Alike
	} else {
		alike = g.Alike(nil)
	}
	lowerRange := func(begin, end int) {
		for i := begin; i < end; i++ {
			n := g.Nodes[i]
			switch {
			case options.Base != nil && !options.Bound.Changed[i]:
				list[i] = options.Base.kernels[i]
				continue
			case int(alike[i]) < i || n.IsView():
				continue
			}
			list[i].kernel, list[i].err = lower(options.Context, n, options.Threads)
		}
	}
	forEachBatch(len(list), options.Threads, lowerRange)
	for i, first := range alike {
		if list[i].kernel == nil && list[i].err == nil {
			list[i] = list[first]
		}
	}
	// The error is ignored: if memory cannot be made executable, loops run in Go.
	_ = jit.Link()
	return list
}

// forEachBatch divides the indices 0 to n-1 into batches and calls process for each batch, concurrently if there are
// several threads.
func forEachBatch(n, threads int, process func(begin, end int)) {
	workers := min(threads, runtime.GOMAXPROCS(0))
	if workers < 2 || n <= lowerBatch {
		process(0, n)
		return
	}
	var group errgroup.Group
	group.SetLimit(workers)
	for begin := 0; begin < n; begin += lowerBatch {
		group.Go(func() error {
			process(begin, min(begin+lowerBatch, n))
			return nil
		})
	}
	_ = group.Wait() // each batch stores its own results and errors
}

// lower compiles the kernel of a node that is not a view, for the given number of workers.
func lower(ctx context.Context, n *graph.Node, workers int) (kernel *graph.Kernel, err error) {
	defer panics.Recover(&err)
	if err := interrupt.Err(ctx); err != nil {
		return nil, err
	}
	if n.Op.Decompose != nil {
		return nil, errors.New("the op is composite, so it has no kernel: the graph must be planned first")
	}
	if n.Op.Compile == nil && !n.Impl.OnDevice() {
		return nil, fmt.Errorf("the op has no kernel for this node")
	}
	if slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return v.Alias != nil }) {
		return nil, fmt.Errorf("some of its outputs are views and some are not: the graph must be planned first")
	}
	if err := n.CheckPlaces(); err != nil { // operands in the memory of the wrong place, host or device
		return nil, err
	}
	compile := n.Op.Compile
	if n.Impl.OnDevice() {
		compile = n.Impl.Lower
	}
	if kernel, err = compile(n.Call()); err == nil && kernel == nil {
		err = errors.New("Compile of the op returned no kernel")
	}
	if err != nil {
		return kernel, err
	}
	if kernel.Place != n.Out[0].Place() {
		return nil, fmt.Errorf("the kernel has place %v, but the results have place %v", kernel.Place, n.Out[0].Place())
	}
	return joinChunks(kernel, workers), nil
}
