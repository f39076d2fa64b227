package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// This file runs programs. A run binds the caller's inputs to the memory of a session, executes the steps, and delivers
// the outputs. [Session.runUntraced] has these stages. The other functions call it: Run takes and returns tensors by
// name, and RunInto takes lists in the order of the graph. Both are methods of [Program], which acquires a session, and
// of [Session].

// Run runs the program on inputs by name and returns the outputs by name.
//
// An input must have the dtype and shape that the graph declares. An input with another layout is copied first. An
// output that is a view of an input shares the input's storage. The storage of any other output contains nothing but
// outputs. Two outputs may share it. Outputs stay valid until they are released ([tensor.Tensor.Release]), which is
// optional. If nodes fail, the error names the first one in the order of the graph. If the context is canceled, the
// error is its cause. No work of the run continues after Run returns. If the program was compiled with
// [Options.KeepGoing], outputs may be missing; the error is then an [*Incomplete].
func (p *Program) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	session, err := p.acquireSession()
	if err != nil {
		return nil, err
	}
	defer p.releaseSession(session)
	return session.Run(ctx, in)
}

// Run is [Program.Run] in this session's memory.
func (s *Session) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	orderedInputs, outputs := s.in, s.out
	defer func() { clear(orderedInputs); clear(outputs) }()
	if err := orderInputs(s.program.inputs, in, orderedInputs); err != nil {
		return nil, err
	}
	err := s.RunInto(ctx, orderedInputs, outputs)
	if err != nil && !errors.As(err, new(*Incomplete)) { // with an Incomplete, the computed outputs are returned too
		return nil, err
	}
	byName := make(map[string]*tensor.Tensor, len(outputs))
	for i, output := range s.program.outputs {
		if outputs[i] != nil {
			byName[output.Name] = outputs[i]
		}
	}
	return byName, err
}

// RunIntoNamed runs the program like [Program.Run], and writes each output into the tensor that out holds under its
// name. Such a tensor must have the dtype and shape of the output. Its strides are arbitrary, but no two elements may
// overlap. If the program would give the output the same strides, the last kernel writes the tensor directly.
// Otherwise the output is copied into the tensor. Bytes between the elements are not written. Outputs without a
// tensor in out are dropped. Unknown names in out are ignored: see [CheckOutputs].
//
// A tensor may be the tensor of an input, which the run then overwrites. This is not permitted if an output is a view
// of the input. A tensor may not share memory with an input in any other way, with a constant or with another tensor.
// If it does, RunIntoNamed writes nothing and returns an error that names the tensor. After other errors the contents
// of the tensors are arbitrary. With [Options.KeepGoing], only the contents of outputs that the [*Incomplete] lists are
// arbitrary.
func (p *Program) RunIntoNamed(ctx context.Context, in, out map[string]*tensor.Tensor) error {
	session, err := p.acquireSession()
	if err != nil {
		return err
	}
	defer p.releaseSession(session)
	session.onlyGivenOutputs = true
	defer func() { clear(session.in); clear(session.out); session.onlyGivenOutputs = false }()
	if err := orderInputs(p.inputs, in, session.in); err != nil {
		return err
	}
	for i, output := range p.outputs {
		session.out[i] = out[output.Name]
	}
	return session.RunInto(ctx, session.in, session.out)
}

var errNoContext = errors.New("the context is nil: pass context.Background() if there is no other")

// RunInto is [Program.Run] with inputs and outputs in the order of the graph. It writes output i into the tensor out[i]
// (see [Program.RunIntoNamed]). If out[i] is nil, RunInto sets it to a new tensor, unless a run with
// [Options.KeepGoing] omits the output.
func (p *Program) RunInto(ctx context.Context, in, out []*tensor.Tensor) error {
	return p.RunWithin(ctx, nil, in, out)
}

// RunWithin is [Program.RunInto] as a part of the run parent ([Run.Parent]), which may be nil.
func (p *Program) RunWithin(ctx context.Context, parent *Run, in, out []*tensor.Tensor) error {
	session, err := p.acquireSession()
	if err != nil {
		return err
	}
	defer p.releaseSession(session)
	return session.runWithin(ctx, parent, in, out)
}

// RunInto is [Program.RunInto] in this session's memory. It does not allocate if the program has one thread, all
// outputs are given, and all inputs have the declared layout.
func (s *Session) RunInto(ctx context.Context, in, out []*tensor.Tensor) error {
	return s.runWithin(ctx, nil, in, out)
}

// runUntraced executes a run with the inputs and outputs in the order of the graph. It checks the inputs, allocates
// memory, and copies inputs into the layouts that the plan requires. Then it executes the steps and delivers the
// outputs. It sets outputs that the caller did not give.
func (s *Session) runUntraced(ctx context.Context, inputs, outputs []*tensor.Tensor) (err error) {
	defer tensor.CatchMemory(&err)
	program := s.program
	if err := program.checkRun(ctx, inputs, outputs); err != nil {
		return err
	}
	if program.device != nil && s.device == nil {
		if err := s.openDevice(); err != nil {
			return err
		}
	}
	defer s.release()
	s.setContext(ctx)
	if s.stepFailures != nil {
		s.stepFailures.reset()
	}
	if err := s.allocateOutputs(inputs, outputs); err != nil {
		return err
	}
	if inputs, err = s.inputsInLayout(ctx, inputs); err != nil {
		return err
	}
	s.bind(inputs)
	if err := s.execute(ctx); err != nil {
		return err
	}
	var computed []bool // nil: all outputs are computed
	if s.stepFailures != nil {
		computed = s.stepFailures.computedOutputs()
	}
	for i, output := range program.outputs {
		if computed != nil && !computed[i] {
			continue
		}
		if err := s.deliverOutput(ctx, i, inputs, outputs); err != nil {
			return fmt.Errorf("output %q: %w", output.Name, err)
		}
	}
	if s.stepFailures != nil {
		return s.stepFailures.runError(computed)
	}
	return nil
}

// OrderInputs returns the given inputs in the order of the graph's inputs. The tensor of a missing input is its
// default. OrderInputs returns an error for an unknown name, and for a tensor that cannot be an input.
func OrderInputs(inputs []*graph.Value, given map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
	ordered := make([]*tensor.Tensor, len(inputs))
	if slices.Contains(inputs, nil) {
		return nil, errors.New("an input is nil")
	}
	if err := orderInputs(inputs, given, ordered); err != nil {
		return nil, err
	}
	for i, v := range inputs {
		if err := checkInput(v, ordered[i]); err != nil {
			return nil, err
		}
	}
	return ordered, nil
}

// orderInputs stores the given inputs in `ordered`, in the order of the graph. The entry of a missing input is
// its default, or nil. An unknown name is an error.
func orderInputs(inputs []*graph.Value, given map[string]*tensor.Tensor, ordered []*tensor.Tensor) error {
	found := 0
	for i, v := range inputs {
		input, isGiven := given[v.Name]
		if isGiven {
			found++
		} else {
			input = v.Default
		}
		ordered[i] = input
	}
	if found == len(given) {
		return nil
	}
	names := make([]string, len(inputs))
	for i, v := range inputs {
		names[i] = v.Name
	}
	return unknownName("input", names, given)
}

// maxListed is the maximum number of names that a message lists. If there are more names, the message lists none.
const maxListed = 12

// unknownName returns an error for the first name, alphabetically, that the graph does not have.
func unknownName(kind string, names []string, tensors map[string]*tensor.Tensor) error {
	for _, name := range sorted.Keys(tensors) {
		if slices.Contains(names, name) {
			continue
		}
		hint := suggest.DidYouMean(suggest.Nearest(name, slices.Values(names)))
		if hint == "" && len(names) > 0 && len(names) <= maxListed {
			hint = "; it has " + strings.Join(names, ", ")
		}
		return fmt.Errorf("the graph has no %s %q%s", kind, name, hint)
	}
	return nil
}

// CheckOutputs returns an error if a name is not an output of the graph, or if a tensor is nil.
func CheckOutputs(outputs []graph.Output, out map[string]*tensor.Tensor) error {
	found := 0
	for _, output := range outputs {
		given, isGiven := out[output.Name]
		if !isGiven {
			continue
		}
		if found++; given == nil {
			return fmt.Errorf("the tensor given for output %q is nil", output.Name)
		}
	}
	if found == len(out) {
		return nil
	}
	names := make([]string, len(outputs))
	for i, output := range outputs {
		names[i] = output.Name
	}
	return unknownName("output", names, out)
}

// checkRun returns an error if a run cannot start: the context is nil, the machine cannot run programs, or the inputs
// or the number of outputs are wrong.
func (p *Program) checkRun(ctx context.Context, inputs, outputs []*tensor.Tensor) error {
	if ctx == nil {
		return errNoContext
	}
	if err := machine.RunError(); err != nil {
		return err
	}
	if len(inputs) != len(p.inputs) || len(outputs) != len(p.outputs) {
		return fmt.Errorf("the graph has %d inputs and %d outputs, but %d and %d tensors were given", len(p.inputs),
			len(p.outputs), len(inputs), len(outputs))
	}
	for i, v := range p.inputs {
		if err := checkInput(v, inputs[i]); err != nil {
			return err
		}
	}
	return p.checkCaches(inputs, outputs)
}

// checkInput returns an error if a tensor cannot be input v.
func checkInput(v *graph.Value, given *tensor.Tensor) error {
	switch {
	case given == nil:
		return fmt.Errorf("input %q is missing", v.Name)
	case given.Check() != nil:
		return fmt.Errorf("input %q: %w", v.Name, given.Check())
	case given.Storage().Place() != tensor.Host:
		return fmt.Errorf("input %q is in the memory of the %v, but the program runs on the %v", v.Name,
			given.Storage().Place(), tensor.Host)
	case given.DType != v.Meta.DType:
		return fmt.Errorf("input %q is %v, the graph wants %v", v.Name, given.DType, v.Meta.DType)
	case !slices.Equal(given.Shape, v.Meta.Shape):
		return fmt.Errorf("input %q has shape %s, the graph wants %s", v.Name, tensor.ListString(given.Shape),
			tensor.ListString(v.Meta.Shape))
	}
	return nil
}

// Session is the memory of a run: the arena, the addresses of all operands, and the state of the schedule. It serves
// one run at a time. It is not safe for concurrent use. [Program.Run] reuses sessions automatically.
//
// The addresses of operands in the arena and of constants are set once ([Program.NewSession]). The addresses of inputs
// and outputs are set at the start of each run ([Session.bind]) and cleared at its end ([Session.release]).
type Session struct {
	program *Program
	arena   *tensor.Storage
	ptrs    []unsafe.Pointer // addresses of the operands of all steps: see step.firstPtr
	patches []patch
	workers []workerState

	// The inputs and outputs, during a run.
	outputMemories []outputMemory    // for each storage
	outputCopies   []*tensor.Storage // by index in outputPlan.copies
	copies         []*tensor.Storage // copies of inputs with other layouts, and of outputs
	in, out        []*tensor.Tensor  // lists for a run by names
	// onlyGivenOutputs means that only outputs for which the caller gave a tensor are returned.
	onlyGivenOutputs bool

	device *deviceSession // nil unless the program uses a device

	sectionRun sectionRun // state of shared sections

	stepFailures *stepFailures // nil unless the run keeps going
	tracedRun    *Run          // the present run if its steps are traced, otherwise nil
}

// outputMemory is the memory of an output's storage during a run.
type outputMemory struct {
	storage       *tensor.Storage
	shiftBytes    int  // offset of the output in a caller's storage, minus its offset in the program's storage
	directOutput  int  // 1 + index of the output whose tensor is written directly; 0 for none
	ownedByCaller bool // the caller owns the storage
}

// patch is an operand address that differs between runs. For each run, bind sets entry ptrIndex of [Session].ptrs to
// this address.
type patch struct {
	ptrIndex int
	address  storageAddress
}

// workerState is the memory of one worker.
type workerState struct {
	mem        graph.Mem
	state      graph.WorkerState // objects that kernels keep for this worker
	index      int
	tracedStep int // 1 + the worker's current step according to the tracer; 0 for none
}

// NewSession returns a session with its arena allocated. It panics with a [*tensor.MemoryError] if there is not enough
// memory.
func (p *Program) NewSession() *Session {
	const zeroed = false // steps write memory before they read it
	session := &Session{program: p, arena: p.pool.Take(p.arenaSize, zeroed), ptrs: make([]unsafe.Pointer, p.pointerCount),
		outputMemories: make([]outputMemory, len(p.storages)), outputCopies: make([]*tensor.Storage, len(p.outputPlan.copies)),
		workers: make([]workerState, p.threads)}
	session.in, session.out = make([]*tensor.Tensor, len(p.inputs)), make([]*tensor.Tensor, len(p.outputs))
	session.sectionRun.prepare(p)
	session.sectionRun.job.Help = session.runHelper
	if p.keepsGoing {
		session.stepFailures = &stepFailures{program: p, lostSteps: make([]atomic.Bool, len(p.steps))}
	}
	for i := range session.workers {
		worker := &session.workers[i]
		worker.mem.WorkerScratch = p.pool.Take(p.workerBytes, zeroed).Bytes()
		worker.mem.State = &worker.state
		worker.index = i
	}
	session.setFixedAddresses()
	return session
}

// setFixedAddresses sets the addresses of operands that are the same in all runs, and lists the others in patches.
func (s *Session) setFixedAddresses() {
	p := s.program
	for i := range p.steps {
		step := &p.steps[i]
		for k, operand := range step.addresses {
			if operand.storage < 0 || p.storages[operand.storage].place != tensor.Host {
				continue
			}
			ptrIndex := step.firstPtr + k
			switch storage := &p.storages[operand.storage]; storage.kind {
			case inArena:
				s.ptrs[ptrIndex] = address(s.arena.Bytes(), storage.arenaOffset+operand.offset)
			case inConst:
				s.ptrs[ptrIndex] = address(storage.data.Storage().Bytes(), operand.offset)
			default: // inInput, inNewMemory: the memory of an input, or of an output that the run allocates
				s.patches = append(s.patches, patch{ptrIndex: ptrIndex, address: operand})
			}
		}
	}
}

// address returns the address of a byte of memory.
func address(memory []byte, offset int) unsafe.Pointer { return unsafe.Pointer(&memory[offset]) }

// bind sets the addresses of the run's inputs and outputs.
func (s *Session) bind(in []*tensor.Tensor) {
	for _, patched := range s.patches {
		storage := &s.program.storages[patched.address.storage]
		if storage.kind == inNewMemory {
			memory := &s.outputMemories[patched.address.storage]
			s.ptrs[patched.ptrIndex] = address(memory.storage.Bytes(), memory.shiftBytes+patched.address.offset)
			continue
		}
		// The offsets of patches are for the declared layout; shiftBytes is the distance to the given tensor.
		t := in[storage.inputIndex]
		shiftBytes := (t.Offset - storage.root.Meta.Offset) * t.DType.Size()
		s.ptrs[patched.ptrIndex] = address(t.Storage().Bytes(), shiftBytes+patched.address.offset)
	}
}

// setContext sets the context for chunks.
func (s *Session) setContext(ctx context.Context) {
	for i := range s.workers {
		s.workers[i].mem.Context = ctx
	}
}

// release clears the run's context, inputs and outputs, so that a cached session does not keep them alive. It also
// releases memory that the caller does not own.
func (s *Session) release() {
	s.setContext(context.Background())
	if s.device != nil {
		s.device.queue.Reset() // after a failure, the queue may have launches that were not executed
	}
	for k := range s.outputMemories {
		if memory := &s.outputMemories[k]; memory.storage != nil && memory.directOutput == 0 && !memory.ownedByCaller {
			_ = memory.storage.Release()
		}
	}
	clear(s.outputMemories)
	clear(s.outputCopies)
	for _, c := range s.copies {
		if c != nil {
			_ = c.Release()
		}
	}
	s.copies = s.copies[:0]
	for _, p := range s.patches {
		s.ptrs[p.ptrIndex] = nil
	}
}

// acquireSession returns a cached session or a new one. It fails if memory is insufficient.
func (p *Program) acquireSession() (*Session, error) {
	p.mu.Lock()
	p.keepsSessions = true
	if n := len(p.idleSessions); n > 0 {
		s := p.idleSessions[n-1]
		p.idleSessions = p.idleSessions[:n-1]
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	return p.newSession()
}

// newSession returns a new session.
func (p *Program) newSession() (s *Session, err error) {
	defer tensor.CatchMemory(&err)
	return p.NewSession(), nil
}

// maxCachedSessions is the maximum number of sessions that a program keeps between runs.
const maxCachedSessions = 4

// releaseSession returns a session to the program's cache.
func (p *Program) releaseSession(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keepsSessions && len(p.idleSessions) < maxCachedSessions {
		p.idleSessions = append(p.idleSessions, s)
		return
	}
	s.drop()
}

// drop releases the memory of a session that no run uses again.
func (s *Session) drop() {
	_ = s.arena.Release() // to the pool
	s.freeDevice()
}

// DropSessions releases the memory that the program keeps for later runs. The memory of active runs is released when
// they end. Arenas return to the pool, arenas on devices are freed, and the garbage collector frees other memory.
// Runs that start later keep their memory again.
func (p *Program) DropSessions() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keepsSessions = false
	for _, s := range p.idleSessions {
		s.drop()
	}
	p.idleSessions = nil
}

// This part finds the memory of a run's inputs and outputs. Outputs are in tensors of the caller, in new memory, or in
// memory of the pool. Inputs with another layout than the graph declares are copied.
//
// A storage is the memory of a root value and its views. The storage of an output is new in each run (inNewMemory), in
// the arena (inArena), an input's tensor (inInput), or a constant's tensor (inConst): see outputs.go.

// findDirectOutputs finds the outputs that a step can write directly into the caller's tensor. Such an output has
// memory of its own in each run (inNewMemory). The output covers all bytes of its root value, so that the step writes
// no bytes of the tensor except its elements.
func (p *Program) findDirectOutputs() {
	p.directOutputs = make([]bool, len(p.outputs))
	for i, output := range p.outputs {
		p.directOutputs[i] = output.Value.Meta.Numel() > 0 && p.storages[p.storageOf(output.Value)].kind == inNewMemory &&
			coversRoot(output.Value)
	}
}

// coversRoot reports whether the elements of a value are all bytes of its root value, each once.
func coversRoot(v *graph.Value) bool {
	meta, root := v.Meta, v.Root().Meta
	hasSameRange := meta.Bytes() == root.Bytes() && meta.Offset*meta.DType.Size() == root.Offset*root.DType.Size()
	return hasSameRange && root.IsNonOverlappingAndDense() && !meta.OverlapsItself()
}

// allocateOutputs sets the memory of the outputs: the caller's tensor if it has the layout of the output, otherwise
// memory from the pool. Memory with gaps between elements is cleared, so that a result never contains bytes of another
// run.
func (s *Session) allocateOutputs(inputs, outputs []*tensor.Tensor) error {
	program := s.program
	for i, given := range outputs {
		output := program.outputs[i]
		if given == nil {
			continue
		}
		meta := output.Value.Meta
		if err := CheckOutput(output.Name, meta.DType, meta.Shape, given); err != nil {
			return err
		}
		if program.cacheOf(i) != nil { // in the memory of an input
			continue
		}
		direct, err := program.checkWritable(i, inputs, outputs) // direct: a step may write the tensor
		if err != nil {
			return err
		}
		memory := &s.outputMemories[program.storageOf(output.Value)]
		isFree := memory.storage == nil // no earlier output with the same storage has a tensor
		mayWriteDirectly := direct && program.directOutputs[i] && isFree
		// The offset of the tensor in its storage may exceed the offset of the output in the program's storage. It must not
		// be smaller.
		if mayWriteDirectly && given.SameAddresses(meta) && given.Offset >= meta.Offset && isAligned(given) {
			*memory = outputMemory{storage: given.Storage(), shiftBytes: (given.Offset - meta.Offset) * meta.DType.Size(),
				directOutput: i + 1}
		}
	}
	for k := range program.storages {
		if storage := &program.storages[k]; storage.kind == inNewMemory && s.outputMemories[k].storage == nil {
			mustClear := !coversStorage(storage.root.Meta)
			s.outputMemories[k].storage = program.pool.Take(storage.bytes, mustClear)
		}
	}
	return nil
}

// coversStorage reports whether the elements of a value cover all bytes of its storage.
func coversStorage(meta tensor.Meta) bool { return meta.Offset == 0 && meta.IsNonOverlappingAndDense() }

// isAligned reports whether elements have the alignment that kernels require for writing: the size of an element, but
// at most the size of a pointer.
func isAligned(t *tensor.Tensor) bool {
	return uintptr(t.Pointer())%uintptr(min(t.DType.Size(), int(unsafe.Sizeof(uintptr(0))))) == 0
}

// CheckOutput returns an error for a tensor that cannot receive an output of the given name, dtype and shape.
func CheckOutput(name string, dtype tensor.DType, shape []int, given *tensor.Tensor) error {
	switch err := given.Check(); {
	case err != nil:
		return fmt.Errorf("the tensor given for output %q: %w", name, err)
	case given.Storage().Place() != tensor.Host:
		return fmt.Errorf("the tensor given for output %q is in the memory of the %v, but the program runs on the %v",
			name, given.Storage().Place(), tensor.Host)
	case given.DType != dtype:
		return fmt.Errorf("output %q is %v, but the tensor given for it is %v", name, dtype, given.DType)
	case !slices.Equal(given.Shape, shape):
		return fmt.Errorf("output %q has shape %s, but the tensor given for it has shape %s", name, tensor.ListString(shape),
			tensor.ListString(given.Shape))
	case given.OverlapsItself():
		return fmt.Errorf("the tensor given for output %q: more than one element of the written-to tensor refers to a "+
			"single memory location (strides %s)", name, tensor.ListString(given.Strides))
	}
	return nil
}

// inputsInLayout returns the inputs in the layouts for which the program was compiled. An input in another layout is
// copied.
func (s *Session) inputsInLayout(ctx context.Context, inputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	copied := false
	for i, v := range s.program.inputs {
		declared := v.Meta
		if !s.program.readsStorage { // no step reads memory before the first element
			declared.Offset = 0
		}
		if input := inputs[i]; input.SameAddresses(declared) && input.Offset >= declared.Offset {
			continue
		}
		if !copied {
			inputs, copied = slices.Clone(inputs), true
		}
		var err error
		if inputs[i], err = s.copyOf(ctx, inputs[i], declared); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// copyOf returns a copy of the source with the layout meta, offset included. Its memory is released at the end of the
// run unless [Session.passToCaller] keeps it.
func (s *Session) copyOf(ctx context.Context, source *tensor.Tensor, meta tensor.Meta) (*tensor.Tensor, error) {
	copied, err := PooledCopy(ctx, s.program.pool, source, meta, s.program.threads)
	if err == nil {
		s.copies = append(s.copies, copied.Storage())
	}
	return copied, err
}

// PooledCopy returns a copy of the source with the layout meta, offset included. Its memory is from the pool.
func PooledCopy(ctx context.Context, pool *tensor.Pool, source *tensor.Tensor, meta tensor.Meta,
	workers int) (*tensor.Tensor, error) {
	if err := meta.Check(); err != nil || pool == nil || source == nil {
		return nil, cmp.Or(err, errors.New("the pool or the tensor to copy is nil"))
	}
	mustClear := !coversStorage(meta)
	copied := tensor.Must(tensor.FromStorage(meta, pool.Take(meta.Extent()*meta.DType.Size(), mustClear)))
	return copied, iter.CopyElements(ctx, copied, source, workers)
}

// passToCaller passes the memory of t to the caller, so that the session does not release the memory.
func (s *Session) passToCaller(t *tensor.Tensor) {
	if i := slices.Index(s.copies, t.Storage()); i >= 0 {
		s.copies[i] = nil
	}
}

// deliverOutput sets output i to a tensor over the storage that the run wrote, a view of an input, or a copy. With
// onlyGivenOutputs, it sets only outputs for which the caller gave a tensor.
func (s *Session) deliverOutput(ctx context.Context, i int, inputs, outputs []*tensor.Tensor) error {
	output := s.program.outputs[i]
	root := output.Value.Root()
	storageIndex := s.program.storageOf(root)
	storage, meta := &s.program.storages[storageIndex], output.Value.Meta
	isGiven := outputs[i] != nil
	// directOutput is 1 + the index of the output whose tensor a step has written directly, or 0.
	isWritten := s.outputMemories[storageIndex].directOutput == i+1
	if isWritten || s.onlyGivenOutputs && !isGiven || isGiven && s.program.cacheOf(i) != nil {
		return nil
	}
	var result *tensor.Tensor
	var err error
	switch storage.kind {
	case inNewMemory:
		memory := &s.outputMemories[storageIndex]
		if memory.directOutput > 0 { // the storage is the caller's tensor for another output
			result, err = tensor.FromStorage(meta, tensor.StorageOf(memory.storage.Bytes()[memory.shiftBytes:]))
			break
		}
		if result, err = tensor.FromStorage(meta, memory.storage); err == nil && !isGiven {
			memory.ownedByCaller = true
		}
	case inInput:
		result, err = s.viewOfInput(ctx, inputs[storage.inputIndex], root.Meta, meta)
	case inArena:
		inArena := meta
		inArena.Offset += storage.arenaOffset / meta.DType.Size()
		result, err = tensor.FromStorage(inArena, s.arena)
	default: // inConst
		result, err = storage.data.View(meta)
	}
	if copyIndex := s.program.outputPlan.copyOf[i] - 1; err == nil && copyIndex >= 0 && !isGiven {
		result, err = s.copyOutput(ctx, copyIndex, result, meta)
	}
	if err != nil {
		return err
	}
	if isGiven {
		return iter.CopyElements(ctx, outputs[i], result, s.program.threads)
	}
	s.passToCaller(result)
	outputs[i] = result
	return nil
}

// viewOfInput returns a view of an input. declared and meta are the layouts of the input and of the view in the
// program. The caller's tensor may begin at another offset.
func (s *Session) viewOfInput(ctx context.Context, input *tensor.Tensor, declared, meta tensor.Meta) (*tensor.Tensor,
	error) {
	shiftBytes := (input.Offset - declared.Offset) * input.DType.Size() // the view may have another element size
	if shiftBytes%meta.DType.Size() != 0 {
		// The first byte of the view is not at a multiple of its element size, so the output is a copy.
		shiftBytes = -declared.Offset * input.DType.Size()
		declared.Offset = 0
		var err error
		if input, err = s.copyOf(ctx, input, declared); err != nil {
			return nil, err
		}
	}
	view := meta
	view.Offset += shiftBytes / meta.DType.Size()
	return input.View(view)
}
