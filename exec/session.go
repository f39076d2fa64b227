package exec

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

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
	if p.keepsGoing() {
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
