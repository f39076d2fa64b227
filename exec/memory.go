package exec

import (
	"context"
	"math"
	"slices"
	"sort"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

// This file assigns memory to the values of a program when it is compiled.
//
//   - A step runs a kernel. It has the addresses of its results, followed by the addresses of its operands. An address
//     is a storage and an offset. The storage -1 means that there is no memory, as for an operand that is a number.
//   - A storage is the memory of a value and its views. Its kind is inArena, inNewMemory (an output), inInput or
//     inConst.
//   - The arena is a memory block that a run allocates. Its free parts are blocks.
//   - The users of memory are the steps that read or write it.

// planMemory computes the dependencies between steps and the position of every storage in the arena.
//
// The lifetime of a storage is the range of steps from its first to its last use, in the program's order. Storages with
// disjoint lifetimes may have the same memory in the arena. Because steps run concurrently, a step that writes to
// reused bytes waits for all steps that used these bytes before. For example:
//
//	storage   step 0   step 1   step 2   step 3   offset
//	a         writes   reads                      0
//	b                  writes   reads             64
//	c                           writes   reads    0: step 2 waits for step 1
//
// With several workers, memory is assigned so that a worker finds the data that it wrote in its cache. This affinity is
// given up where it would make the arena much larger: see affinity.
func (p *Program) planMemory(ctx context.Context) {
	for i := range p.steps {
		for _, address := range p.steps[i].addresses {
			if address.storage >= 0 {
				p.storages[address.storage].lastStep = i
			}
		}
	}
	p.extendLifetimes()
	attempts := &memoryAttempts{program: p, ctx: ctx, steps: p.steps, storages: p.storages}
	planner := attempts.planWithoutAffinity()
	if p.threads > 1 {
		planner = attempts.planWithAffinity(planner)
	}
	p.arenaSize, p.deviceArenaSize, p.overwrites = planner.arenaSize, planner.device.size, planner.overwrites
	for storage := range p.storages {
		p.storageIndex.Set(p.storages[storage].root, int32(planner.mergedRoot(storage)+1)) // plus 1: see storageOf
	}
}

// memoryPolicy has the choices of one memory plan.
type memoryPolicy struct {
	// ignoresAffinity marks memory that is placed without affinity. It has an element for each storage, followed by an
	// element for the scratch memory of each step. Nil means that no memory has affinity.
	ignoresAffinity []bool
	maxBytes        int // limit on the arena's bytes; unused if ignoresAffinity is nil
	// extendsLast means that the arena grows by extending a free block at its end. Otherwise it grows by a new block.
	extendsLast bool
}

// memoryAttempts makes several memory plans of a program, each from the same unplanned steps and storages. The program
// has the steps and storages of the last plan.
type memoryAttempts struct {
	program  *Program
	ctx      context.Context
	steps    []step    // unplanned
	storages []storage // unplanned
}

// plan makes a plan.
func (a *memoryAttempts) plan(policy memoryPolicy) *memoryPlanner {
	p := a.program
	p.steps, p.storages = slices.Clone(a.steps), slices.Clone(a.storages)
	for i := range a.steps {
		p.steps[i].addresses = slices.Clone(a.steps[i].addresses)
	}
	return p.tryMemoryPlan(a.ctx, policy)
}

// planWithoutAffinity makes a plan in which no memory has affinity. It tries both ways to grow the arena, because
// neither is always better.
func (a *memoryAttempts) planWithoutAffinity() *memoryPlanner {
	planner := a.plan(memoryPolicy{extendsLast: false})
	if !planner.couldExtend {
		return planner // extending blocks would give the same plan
	}
	plannedSteps, plannedStorages := a.program.steps, a.program.storages
	if other := a.plan(memoryPolicy{extendsLast: true}); other.arenaSize < planner.arenaSize {
		return other
	}
	a.program.steps, a.program.storages = plannedSteps, plannedStorages
	return planner
}

// planWithAffinity makes a plan with affinity, whose arena is at most slightly larger than without. Each failed attempt
// removes the affinity of more memory: see dropAffinity. If no attempt succeeds, the plan has no affinity.
func (a *memoryAttempts) planWithAffinity(without *memoryPlanner) *memoryPlanner {
	policy := memoryPolicy{ignoresAffinity: make([]bool, len(a.storages)+len(a.steps)),
		maxBytes: without.arenaSize + without.arenaSize/arenaGrowthDivisor, extendsLast: without.extendsLast}
	for range maxPlans {
		if planner := a.plan(policy); planner.arenaSize <= policy.maxBytes {
			return planner
		}
	}
	return a.plan(memoryPolicy{extendsLast: without.extendsLast})
}

// memoryPlanner assigns memory to the steps in order.
type memoryPlanner struct {
	memoryPolicy
	program *Program

	blocks      []block // free memory of the arena, by offset
	arenaSize   int
	couldExtend bool // whether the arena grew while its last block was free
	device      deviceArena
	affinity    affinity

	mergedInto    []int                // indexed by storage: the storage that it overwrites in place, or itself
	isPlaced      []bool               // indexed by storage: whether it has an address in the arena
	users         [][]int32            // indexed by storage: its users since the last in-place reuse; nil if freed
	previousUsers [][]int32            // indexed by storage: the users of its memory before it got the memory
	overwrites    []int                // indexed by storage: 1 + the input that it may overwrite, or 0
	writingStep   graph.ByValue[int32] // for each value, also one stored within another: the step that writes it
	latestWaiter  []int32              // indexed by step: the latest step that already waits for it
	groupStart    int                  // first step of the current pipelined group (pipelined.go), or the current step
}

// deviceArena is the arena in the memory of the device.
type deviceArena struct {
	blocks []block
	size   int
}

// block is a free part of an arena.
type block struct {
	offset, size int     // offset in the arena and size, in bytes
	users        []int32 // the last users
}

// tryMemoryPlan plans the memory of all steps. It stops if the arena exceeds its limit. growArena has then marked the
// live memory in policy.ignoresAffinity, so that the next attempt places this memory without affinity.
func (p *Program) tryMemoryPlan(ctx context.Context, policy memoryPolicy) *memoryPlanner {
	planner := &memoryPlanner{memoryPolicy: policy, program: p, mergedInto: make([]int, len(p.storages)),
		writingStep: graph.NewByValue[int32](p.graph), isPlaced: make([]bool, len(p.storages)),
		users: make([][]int32, len(p.storages)), previousUsers: make([][]int32, len(p.storages)),
		latestWaiter: make([]int32, len(p.steps)), overwrites: make([]int, len(p.storages)),
		affinity: affinity{workers: min(p.threads, maxParts)}}
	for i := range planner.mergedInto {
		planner.mergedInto[i] = i
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
	return m.ignoresAffinity != nil && m.arenaSize > m.maxBytes
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
		step.scratchOffset, _ = m.alloc(i, step.kernel.Scratch, len(m.program.storages)+i, step.kernel.Place)
	}
	for _, address := range step.addresses {
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
		if operand >= 0 && m.isWrittenByStep(address.storage) && step.node.In[operand].Kind == graph.TensorArg {
			m.addWait(i, m.writingStep.At(step.node.In[operand].Value.Root()))
		}
	}
}

// placeStorage assigns arena memory to the storage of v, a result of step i, unless the result reuses the memory of an
// operand. If v is stored within another value, an earlier step may have placed the storage already. Step i then waits
// for the previous users of the memory, but not for the step that placed it.
func (m *memoryPlanner) placeStorage(i, storage int, v *graph.Value) {
	placed := &m.program.storages[storage]
	switch {
	case placed.kind != inArena: // no memory of the arena
	case !m.isPlaced[storage] && storage == m.program.storageOf(v): // not merged into the storage of an operand
		placed.arenaOffset, m.previousUsers[storage] = m.alloc(i, placed.bytes, storage, placed.place)
		m.isPlaced[storage] = true
	case v.ContainedIn != nil:
		for _, user := range m.previousUsers[storage] {
			m.addWait(i, user)
		}
	}
}

// mergedRoot returns the storage whose memory a storage uses.
func (m *memoryPlanner) mergedRoot(storage int) int {
	for m.mergedInto[storage] != storage {
		storage = m.mergedInto[storage]
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
	if users := m.users[storage]; len(users) == 0 || users[len(users)-1] != step {
		m.users[storage] = append(users, step)
	}
}

// addWait makes step i wait for an earlier step, unless it already does.
func (m *memoryPlanner) addWait(i int, earlier int32) {
	if int(earlier) == i || m.latestWaiter[earlier] == int32(i) {
		return
	}
	m.latestWaiter[earlier] = int32(i)
	m.program.steps[earlier].waitingSteps = append(m.program.steps[earlier].waitingSteps, int32(i))
}

// reuseInPlace lets the results of step i reuse the memory of operands that no later step uses. The pairs of a result
// and an operand for which the kernel permits this are in kernel.InPlace.
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
		fits := operand.offset == 0 && operandStorage.bytes >= resultStorage.bytes
		isReadLater := operandStorage.lastStep != i
		if !inSameArena || !fits || isReadLater || !m.readsSameElements(i, pair.In) {
			continue
		}
		reused[operand.storage] = true
		// Step i overwrites the operand, so it waits for the steps that write or read it. From now on, the result's
		// users are the users of the memory.
		for _, user := range m.users[operand.storage] {
			m.addWait(i, user)
		}
		m.users[operand.storage] = nil
		operandStorage.lastStep = resultStorage.lastStep
		m.mergedInto[result.storage] = operand.storage
		result.storage = operand.storage
	}
}

// needsMemory reports whether a result has a storage of its own that has no memory yet.
func (m *memoryPlanner) needsMemory(result *graph.Value, storage int) bool {
	isOwn := m.mergedInto[storage] == storage && storage == m.program.storageOf(result) && result.ContainedIn == nil
	return isOwn && !m.isPlaced[storage]
}

// readsSameElements reports whether all operands of step i in the storage of the given operand have each element at
// the same address as this operand. The step may then overwrite the elements in order.
func (m *memoryPlanner) readsSameElements(i, operand int) bool {
	step := &m.program.steps[i]
	outCount := len(step.node.Out)
	meta := step.node.In[operand].Meta()
	for k, arg := range step.node.In {
		if k == operand || step.addresses[outCount+k].storage != step.addresses[outCount+operand].storage ||
			arg.Kind != graph.TensorArg {
			continue
		}
		if other := arg.Meta(); other.Offset != meta.Offset || other.DType.Size() != meta.DType.Size() ||
			!other.SameAddresses(meta) {
			return false
		}
	}
	return true
}

// maxArenaBytes is the maximum size of the arena. It is small enough that sums of sizes do not overflow.
const maxArenaBytes = math.MaxInt / 4

// alloc allocates size bytes for step i in the arena of a place (host or device), from a free block or by growing the
// arena. memoryIndex is the index of the memory in ignoresAffinity. previousUsers are the steps that used the memory
// before, for which step i waits.
func (m *memoryPlanner) alloc(i, size, memoryIndex int, place tensor.Place) (offset int, previousUsers []int32) {
	size = alignedSize(size)
	if size == 0 {
		return 0, nil
	}
	if place != tensor.Host {
		return m.allocOnDevice(i, size)
	}
	best, offset := m.pickBlock(size, memoryIndex)
	if best < 0 {
		offset, previousUsers = m.growArena(i, size, memoryIndex)
	} else {
		previousUsers = m.take(&m.blocks, best, offset, size, i)
	}
	m.affinity.record(offset, size)
	return offset, previousUsers
}

// alignedSize rounds a size up to a multiple of [tensor.Align], a power of two.
func alignedSize(size int) int { return (size + tensor.Align - 1) &^ (tensor.Align - 1) }

// growArena allocates size bytes for step i at the end of the arena. With extendsLast, they begin in the last free
// block, if this block is at the end.
func (m *memoryPlanner) growArena(i, size, memoryIndex int) (offset int, previousUsers []int32) {
	offset = m.arenaSize
	lastIndex := len(m.blocks) - 1
	if lastIndex >= 0 && m.blocks[lastIndex].offset+m.blocks[lastIndex].size == m.arenaSize {
		m.couldExtend = true
		if lastBlock := m.blocks[lastIndex]; m.extendsLast {
			offset = lastBlock.offset
			previousUsers = m.take(&m.blocks, lastIndex, lastBlock.offset, lastBlock.size, i)
		}
	}
	m.arenaSize = min(offset+size, maxArenaBytes)
	if m.exceedsLimit() {
		m.dropAffinity(memoryIndex)
	}
	return offset, previousUsers
}

// allocOnDevice is [memoryPlanner.alloc] for the arena of the device.
func (m *memoryPlanner) allocOnDevice(i, size int) (offset int, previousUsers []int32) {
	arena := &m.device
	best := smallestBlock(arena.blocks, size)
	if best < 0 {
		offset, arena.size = arena.size, min(arena.size+size, maxArenaBytes)
		return offset, nil
	}
	offset = arena.blocks[best].offset
	return offset, m.take(&arena.blocks, best, offset, size, i)
}

// take takes memory at an offset out of a free block for step i, and returns the users of the block.
func (m *memoryPlanner) take(blocks *[]block, blockIndex, offset, size, i int) (users []int32) {
	taken := (*blocks)[blockIndex]
	for _, user := range taken.users {
		m.addWait(i, user)
	}
	var unusedParts []block // the parts of the block before and after [offset, offset+size)
	if offset > taken.offset {
		unusedParts = append(unusedParts, block{taken.offset, offset - taken.offset, taken.users})
	}
	if end := taken.offset + taken.size; offset+size < end {
		unusedParts = append(unusedParts, block{offset + size, end - offset - size, taken.users})
	}
	*blocks = slices.Replace(*blocks, blockIndex, blockIndex+1, unusedParts...)
	return taken.users
}

// dropAffinity removes the affinity, in later plans, of all memory that is live now: the arena exceeds its limit.
func (m *memoryPlanner) dropAffinity(memoryIndex int) {
	m.ignoresAffinity[memoryIndex] = true
	for s, users := range m.users {
		isLive := users != nil // freeAfter clears the users
		m.ignoresAffinity[s] = m.ignoresAffinity[s] || isLive
	}
}

// pickBlock returns the index of a free block of at least size bytes, and an offset in the arena. The index is -1 if no
// block is large enough. Without affinity, it chooses the smallest such block.
func (m *memoryPlanner) pickBlock(size, memoryIndex int) (best, offset int) {
	if m.ignoresAffinity != nil && !m.ignoresAffinity[memoryIndex] {
		return m.affinity.chooseAddress(m.blocks, size)
	}
	best = smallestBlock(m.blocks, size)
	if best >= 0 {
		offset = m.blocks[best].offset
	}
	return best, offset
}

// smallestBlock returns the smallest block of at least size bytes, or -1 if there is none.
func smallestBlock(blocks []block, size int) (best int) {
	best = -1
	for k := range blocks {
		if candidate := &blocks[k]; candidate.size >= size && (best < 0 || candidate.size < blocks[best].size) {
			best = k
			if candidate.size == size { // no block is smaller
				break
			}
		}
	}
	return best
}

// freeAfter frees memory whose last use was step i. For memory whose last use is in a pipelined group, extendLifetimes
// moves this use to the last step of the group. This step may have no address of the memory, so the loop visits the
// addresses of all steps of the group.
func (m *memoryPlanner) freeAfter(i int) {
	step := &m.program.steps[i]
	if step.kernel.Scratch > 0 {
		m.freeBlock(step.kernel.Place, step.scratchOffset, step.kernel.Scratch, []int32{int32(i)})
	}
	for k := m.groupStart; k <= i; k++ {
		for _, address := range m.program.steps[k].addresses {
			if address.storage < 0 {
				continue
			}
			storage := &m.program.storages[address.storage]
			if storage.kind == inArena && storage.lastStep == i && m.users[address.storage] != nil {
				m.freeBlock(storage.place, storage.arenaOffset, storage.bytes, m.users[address.storage])
				m.users[address.storage] = nil
			}
		}
	}
}

// freeBlock returns memory to the free blocks of a place, and merges it with its neighbours.
func (m *memoryPlanner) freeBlock(place tensor.Place, offset, size int, users []int32) {
	size = alignedSize(size)
	if size == 0 {
		return
	}
	blocks := &m.blocks
	if place != tensor.Host {
		blocks = &m.device.blocks
	}
	k := sort.Search(len(*blocks), func(k int) bool { return (*blocks)[k].offset > offset })
	*blocks = slices.Insert(*blocks, k, block{offset, size, m.truncateUsers(users)})
	m.joinWithNext(blocks, k)
	m.joinWithNext(blocks, k-1)
}

// joinWithNext merges free block k with the next one if both exist and are adjacent.
func (m *memoryPlanner) joinWithNext(blocks *[]block, k int) {
	if k < 0 || k+1 >= len(*blocks) || (*blocks)[k].offset+(*blocks)[k].size != (*blocks)[k+1].offset {
		return
	}
	current, next := (*blocks)[k], (*blocks)[k+1]
	users := slices.Concat(current.users, next.users)
	slices.Sort(users) // ascending for truncateUsers; Compact then removes duplicates
	(*blocks)[k] = block{current.offset, current.size + next.size, m.truncateUsers(slices.Compact(users))}
	*blocks = slices.Delete(*blocks, k+1, k+2)
}

// maxBlockUsers is the maximum length of a block's list of users.
const maxBlockUsers = 32

// truncateUsers keeps lists of users short, so that planning takes linear time. It replaces a list that is too long by
// the latest step of the list, and makes this step wait for the other steps. users is ascending.
func (m *memoryPlanner) truncateUsers(users []int32) []int32 {
	if len(users) <= maxBlockUsers {
		return users
	}
	latest := users[len(users)-1]
	for _, user := range users[:len(users)-1] {
		m.addWait(int(latest), user)
	}
	return []int32{latest}
}
