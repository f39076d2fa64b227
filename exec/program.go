package exec

import (
	"cmp"
	"errors"
	"runtime"
	"sync"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/panics"
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
	arenaSize    int                  // size of the arena in bytes
	memoryPlans  *MemoryPlans         // nil unless plans are shared
	workerBytes  int                  // bytes of scratch memory per worker
	need         Need                 // memory of a run, by purpose

	device          graph.Device // nil unless a step or a constant is on the device
	deviceArenaSize int          // size of the arena on the device in bytes
	uploads         *Uploads
	uploaded        deviceConstants // constants on the device

	// The memory of outputs.
	pool          *tensor.Pool
	outputPlan    outputPlan     // see outputs.go
	directOutputs []bool         // indexed by output: a step can write the caller's tensor; see findDirectOutputs
	overwrites    []int          // indexed by storage: 1 + the input that it may overwrite, or 0; see overwriteInputs
	constants     []addressRange // address ranges of constants, sorted
	caches        []cache        // inputs that steps extend: see caches.go
	readsStorage  bool           // an op depends on the layout of its operand in memory: [graph.Facts.ReadsStorage]

	// The following fields are nil without [Options.KeepGoing].
	failed        graph.Errors          // errors of nodes that were omitted at compilation
	sourceSteps   [][]int32             // indexed by step: the steps that compute its operands
	omittedValues map[*graph.Value]bool // results of nodes that were omitted at compilation
	completeGraph *graph.Graph          // the graph before nodes were omitted for lack of memory; nil if none were

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

// Compile compiles a planned graph: passes.Run has chosen its layouts. If a node has no kernel, Compile fails with an
// error that names the node. If memory is insufficient, it fails with a [*MemoryError].
func Compile(g *graph.Graph, options Options) (*Program, error) {
	if g == nil {
		return nil, errors.New("the graph to compile is nil")
	}
	if options.Threads <= 0 {
		options.Threads = runtime.GOMAXPROCS(0)
	}
	options.Threads = min(options.Threads, maxThreads)
	if options.Changed == nil || options.Base != nil && len(options.Base.kernels) != len(g.Nodes) {
		options.Base = nil
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	if options.KeepGoing {
		return compileWithOmissions(g, options) // calls compile for smaller graphs until the memory suffices
	}
	return compile(g, options)
}

// compile compiles a graph. A program with one worker gets pipelined groups: sequences of steps whose chunks are
// interleaved. Groups need more memory. If the memory does not suffice, compile compiles the graph again without
// groups.
func compile(g *graph.Graph, options Options) (*Program, error) {
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
	if err := options.check(minNeed(g)); err != nil {
		return nil, err
	}
	program := &Program{
		graph: g, inputs: g.Inputs, outputs: g.Outputs,
		threads: options.Threads, tracer: SafeTracer(options.Tracer),
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
	program.planMemory(options.Context) // also finds the steps that wait for others
	program.cutSections(options.Costs, options.Base)
	program.findConstants()
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

// keepsGoing reports whether [Options.KeepGoing] was set at compilation.
func (p *Program) keepsGoing() bool { return p.omittedValues != nil }

// addSteps adds a step for each node that is not a view. If a node fails, addSteps returns the error. With KeepGoing,
// it records the error instead, and omits the results of the node.
func (p *Program) addSteps(g *graph.Graph, options Options) error {
	kernels := lowerAll(g, options)
	p.kernels = kernels
	for i, n := range g.Nodes {
		interrupt.Check(options.Context)
		isOmitted := p.keepsGoing() && p.omitIfDependent(n)
		if isOmitted || n.IsView() { // the node has no step
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
		bytes := 0
		for _, v := range n.Out {
			bytes += v.Meta.Bytes()
		}
		ops := names[i : i+1 : i+1] // a list of one name, without an allocation for each step
		if fused, isFused := n.Attrs.(*fusion.Fusion); isFused {
			ops = fused.Names()
		}
		steps[i] = Step{Name: n.Name, Ops: ops, Node: n, Loop: step.kernel.Loop, Code: step.kernel.Code,
			Strides: n.Out[0].Meta.Strides, Buffer: p.storageOf(n.Out[0]), Bytes: bytes}
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
