package exec

import (
	"context"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

// memoryPlanner makes one memory plan of a program: it assigns memory to the steps in order. All intermediate values of
// a place (host or device) share one block of memory, the arena. Affinity prefers addresses at which each worker finds
// data that it wrote itself, in its cache. See memory.go.
type memoryPlanner struct {
	memoryPolicy
	waits
	program  *Program
	host     arena    // the arena on the host
	device   arena    // the arena on the device
	affinity affinity // affinity in the arena on the host

	storages    []storagePlan        // by storage
	overwrites  []int                // indexed by storage: 1 + the input that it may overwrite (overwrite.go), or 0
	writingStep graph.ByValue[int32] // for each value, also one stored within another: the step that writes it
	// groupStart is the first step of the current pipelined group: steps whose chunks run interleaved (pipelined.go).
	// If the current step is in no group, groupStart is the current step.
	groupStart int
}

// storagePlan is the state of a storage in a memory plan.
type storagePlan struct {
	mergedInto    int     // the storage that this storage overwrites in place, or itself
	isPlaced      bool    // whether it has an address in the arena
	users         []int32 // its users since the last in-place reuse; nil if freed
	previousUsers []int32 // the previous users of its memory
}

// waits records pairs of steps in which the later step waits for the earlier step.
type waits struct {
	steps        []step
	latestWaiter []int32 // indexed by step: the latest step that already waits for this step
}

// addWait makes step i wait for an earlier step, unless it already does.
func (w *waits) addWait(i int, earlier int32) {
	if int(earlier) == i || w.latestWaiter[earlier] == int32(i) {
		return
	}
	w.latestWaiter[earlier] = int32(i)
	w.steps[earlier].waitingSteps = append(w.steps[earlier].waitingSteps, int32(i))
}

// tryMemoryPlan plans the memory of all steps. It stops if the arena exceeds its limit. alloc has then marked the live
// memory in policy.ignoresAffinity, so that the next attempt places this memory without affinity.
func (p *Program) tryMemoryPlan(ctx context.Context, policy memoryPolicy) *memoryPlanner {
	planner := &memoryPlanner{memoryPolicy: policy, program: p, waits: waits{p.steps, make([]int32, len(p.steps))},
		affinity: affinity{workers: min(p.threads, maxParts)}, storages: make([]storagePlan, len(p.storages)),
		overwrites: make([]int, len(p.storages)), writingStep: graph.NewByValue[int32](p.graph)}
	planner.host = arena{waits: &planner.waits, extendsLast: policy.extendsLast}
	planner.device = arena{waits: &planner.waits}
	for i := range planner.storages {
		planner.storages[i].mergedInto = i
	}
	for i := range planner.latestWaiter {
		planner.latestWaiter[i] = -1
	}
	groupEnd := 0
	for i := range p.steps {
		if i >= groupEnd {
			planner.groupStart, groupEnd = i, p.steps[i].pipelineEnd
		}
		interrupt.Check(ctx)
		planner.planStep(i)
		if planner.exceedsLimit() {
			break
		}
	}
	return planner
}

// exceedsLimit reports whether the arena is too large for a plan with affinity.
func (m *memoryPlanner) exceedsLimit() bool {
	return m.ignoresAffinity != nil && m.host.size > m.maxBytes
}

// planStep assigns memory to the results and the scratch memory of step i, and frees memory after its last use.
func (m *memoryPlanner) planStep(i int) {
	step := &m.program.steps[i]
	m.waitForOperands(i)
	m.reuseInPlace(i)
	m.overwriteInputs(i)
	for k, address := range step.addresses[:len(step.node.Out)] {
		if address.storage >= 0 {
			m.writingStep.Set(step.node.Out[k], int32(i))
			m.placeStorage(i, address.storage, step.node.Out[k])
		}
	}
	if step.kernel.Scratch > 0 {
		memoryIndex := len(m.program.storages) + i // the scratch memory of steps follows the storages
		step.scratchOffset, _ = m.alloc(i, m.program.capacityOf(step.kernel.Scratch), memoryIndex, step.kernel.Place)
	}
	for _, address := range step.addresses { // of results and operands
		if address.storage >= 0 && m.isWrittenByStep(address.storage) {
			m.addUser(address.storage, int32(i))
		}
	}
	m.freeAfter(i)
}

// waitForOperands makes step i wait for the steps that write its operands. If an earlier step merged the storage of an
// address into another storage, the address gets this other storage.
func (m *memoryPlanner) waitForOperands(i int) {
	step := &m.program.steps[i]
	for k := range step.addresses {
		address := &step.addresses[k]
		if address.storage < 0 {
			continue
		}
		address.storage = m.mergedRoot(address.storage)
		operand := k - len(step.node.Out)
		if operand < 0 || step.node.In[operand].Kind != graph.TensorArg {
			continue
		}
		root := step.node.In[operand].Value.Root()
		isStored := root.Node != nil && m.program.storages[address.storage].kind == inInput // by a step: see caches.go
		if isStored || m.isWrittenByStep(address.storage) {
			m.addWait(i, m.writingStep.At(root))
		}
	}
}

// placeStorage assigns arena memory to the storage of v, a result of step i, unless the result reuses the memory of an
// operand. If v is stored within another value, an earlier step may have placed the storage already. Step i then waits
// for the previous users of the memory, but not for the step that placed it.
func (m *memoryPlanner) placeStorage(i, storage int, v *graph.Value) {
	placed, planned := &m.program.storages[storage], &m.storages[storage]
	switch {
	case placed.kind != inArena: // the storage is not in the arena
	case !planned.isPlaced && storage == m.program.storageOf(v): // not merged into the storage of an operand
		placed.arenaOffset, planned.previousUsers = m.alloc(i, m.program.capacityOf(placed.bytes), storage, placed.place)
		planned.isPlaced = true
	case v.ContainedIn != nil:
		for _, user := range planned.previousUsers {
			m.addWait(i, user)
		}
	}
}

// mergedRoot returns the storage whose memory a storage uses.
func (m *memoryPlanner) mergedRoot(storage int) int {
	for m.storages[storage].mergedInto != storage {
		storage = m.storages[storage].mergedInto
	}
	return storage
}

// isWrittenByStep reports whether a step of the program writes storage s.
func (m *memoryPlanner) isWrittenByStep(s int) bool {
	kind := m.program.storages[s].kind
	return kind == inArena || kind == inNewMemory
}

// addUser adds a step to the users of a storage, unless it is the last user already.
func (m *memoryPlanner) addUser(storage int, step int32) {
	planned := &m.storages[storage]
	if users := planned.users; len(users) == 0 || users[len(users)-1] != step {
		planned.users = append(users, step)
	}
}

// reuseInPlace lets the results of step i reuse the memory of operands that no later step uses. kernel.InPlace has the
// permitted pairs of a result and an operand.
func (m *memoryPlanner) reuseInPlace(i int) {
	program := m.program
	step := &program.steps[i]
	outCount := len(step.node.Out)
	reused := map[int]bool{}
	for _, pair := range step.kernel.InPlace {
		result, operand := &step.addresses[pair.Out], step.addresses[outCount+pair.In]
		haveMemory := result.storage >= 0 && operand.storage >= 0
		if !haveMemory || reused[operand.storage] || !m.needsMemory(step.node.Out[pair.Out], result.storage) {
			continue
		}
		operandStorage, resultStorage := &program.storages[operand.storage], &program.storages[result.storage]
		inSameArena := operandStorage.kind == inArena && resultStorage.kind == inArena &&
			operandStorage.place == resultStorage.place
		fits := operand.offset == 0 &&
			m.program.capacityOf(operandStorage.bytes) >= m.program.capacityOf(resultStorage.bytes)
		isReadLater := operandStorage.lastStep != i
		if !inSameArena || !fits || isReadLater || !m.readsSameElements(i, pair.In) {
			continue
		}
		reused[operand.storage] = true
		// Step i overwrites the operand, so it waits for the steps that write or read it. From now on, the result's
		// users are the users of the memory.
		for _, user := range m.storages[operand.storage].users {
			m.addWait(i, user)
		}
		m.storages[operand.storage].users = nil
		operandStorage.lastStep = resultStorage.lastStep
		m.storages[result.storage].mergedInto = operand.storage
		result.storage = operand.storage
	}
}

// needsMemory reports whether a result has a storage of its own that has no memory yet.
func (m *memoryPlanner) needsMemory(result *graph.Value, storage int) bool {
	planned := &m.storages[storage]
	isOwn := planned.mergedInto == storage && storage == m.program.storageOf(result) && result.ContainedIn == nil
	return isOwn && !planned.isPlaced
}

// readsSameElements considers all operands of step i that are in the storage of the given operand. It reports whether
// each of them has every element at the same address as the given operand. The step may then overwrite the elements in
// order.
func (m *memoryPlanner) readsSameElements(i, operand int) bool {
	step := &m.program.steps[i]
	outCount := len(step.node.Out)
	for k := range step.node.In {
		if step.addresses[outCount+k].storage == step.addresses[outCount+operand].storage &&
			!step.readsSameElements(k, operand) {
			return false
		}
	}
	return true
}

// readsSameElements reports whether operand k has every element at the same address as another operand, if both are in
// one storage. It is true if operand k is no tensor.
func (st *step) readsSameElements(k, operand int) bool {
	arg := st.node.In[k]
	if k == operand || arg.Kind != graph.TensorArg {
		return true
	}
	meta, other := st.node.In[operand].Meta(), arg.Meta()
	return other.Offset == meta.Offset && other.DType.Size() == meta.DType.Size() && other.SameAddresses(meta)
}

// alloc allocates size bytes for step i in the arena of a place (host or device). memoryIndex is the index of the
// memory in ignoresAffinity. previousUsers are the steps that used the memory before, for which step i waits.
func (m *memoryPlanner) alloc(i, size, memoryIndex int, place tensor.Place) (offset int, previousUsers []int32) {
	size = alignedSize(size)
	switch {
	case size == 0:
		return 0, nil
	case place != tensor.Host:
		return m.device.alloc(i, size)
	}
	sizeBefore, blockIndex := m.host.size, -1
	if m.ignoresAffinity != nil && !m.ignoresAffinity[memoryIndex] {
		blockIndex, offset = m.affinity.chooseAddress(m.host.blocks, size)
	}
	if blockIndex >= 0 {
		previousUsers = m.host.take(i, size, blockIndex, offset)
	} else {
		offset, previousUsers = m.host.alloc(i, size)
	}
	if hasGrown := offset+size > sizeBefore; hasGrown && m.exceedsLimit() {
		m.dropAffinity(memoryIndex)
	}
	m.affinity.record(offset, size)
	return offset, previousUsers
}

// dropAffinity removes the affinity of all memory that is live now, for later plans. It is called when the arena
// exceeds its limit.
func (m *memoryPlanner) dropAffinity(memoryIndex int) {
	m.ignoresAffinity[memoryIndex] = true
	for s := range m.storages {
		isLive := m.storages[s].users != nil // freeAfter clears the users
		m.ignoresAffinity[s] = m.ignoresAffinity[s] || isLive
	}
}

// freeAfter frees memory whose last use was step i. Memory of a pipelined group is freed after the last step of the
// group: extendLifetimes makes this step the last use. This step may not use the memory itself, so the loop visits the
// addresses of all steps of the group.
func (m *memoryPlanner) freeAfter(i int) {
	step := &m.program.steps[i]
	if step.kernel.Scratch > 0 {
		m.arenaOf(step.kernel.Place).free(step.scratchOffset, m.program.capacityOf(step.kernel.Scratch), []int32{int32(i)})
	}
	for k := m.groupStart; k <= i; k++ {
		for _, address := range m.program.steps[k].addresses {
			if address.storage < 0 {
				continue
			}
			storage, planned := &m.program.storages[address.storage], &m.storages[address.storage]
			if storage.kind == inArena && storage.lastStep == i && planned.users != nil {
				m.arenaOf(storage.place).free(storage.arenaOffset, m.program.capacityOf(storage.bytes), planned.users)
				planned.users = nil
			}
		}
	}
}

// arenaOf returns the arena of a place.
func (m *memoryPlanner) arenaOf(place tensor.Place) *arena {
	if place == tensor.Host {
		return &m.host
	}
	return &m.device
}
