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

// plan computes the dependencies between steps and the position of every storage in the arena.
//
// A storage is the memory of a value and its views. The lifetime of a storage is the range of steps from its first to
// its last use, in the program's order. Storages with disjoint lifetimes may have the same memory in the arena, the
// memory block that a run allocates. Because steps run concurrently, a step that writes to reused bytes waits for all
// steps that used these bytes before.
//
// With several workers, memory is assigned so that a worker finds the data that it wrote in its cache, if this makes
// the arena only a little larger: see affinity.
func (p *Program) plan(ctx context.Context) {
	for i := range p.steps {
		for _, r := range p.steps[i].addresses {
			if r.storage >= 0 {
				p.storages[r.storage].lastStep = i
			}
		}
	}
	p.extendLifetimes()
	steps, storages := p.steps, p.storages
	plan := func(ignoresAffinity []bool, maxBytes int, extendsLast bool) *memoryPlanner {
		p.steps, p.storages = slices.Clone(steps), slices.Clone(storages)
		for i := range steps {
			p.steps[i].addresses = slices.Clone(steps[i].addresses)
		}
		return p.planFor(ctx, ignoresAffinity, maxBytes, extendsLast)
	}
	m := plan(nil, 0, false)
	extendsLast := false
	if m.couldExtend { // neither way to grow the arena is always better
		plannedSteps, plannedStorages := p.steps, p.storages
		if other := plan(nil, 0, true); other.arenaSize < m.arenaSize {
			m, extendsLast = other, true
		} else {
			p.steps, p.storages = plannedSteps, plannedStorages
		}
	}
	if p.threads > 1 {
		// m is the plan without affinity. Each failed attempt removes the affinity of more memory: see dropAffinity.
		ignoresAffinity, maxBytes := make([]bool, len(storages)+len(steps)), m.arenaSize+m.arenaSize/arenaGrowthDivisor
		for range maxPlans {
			if m = plan(ignoresAffinity, maxBytes, extendsLast); m.arenaSize <= maxBytes {
				break
			}
		}
		if m.arenaSize > maxBytes {
			m = plan(nil, 0, extendsLast)
		}
	}
	p.arena, p.deviceArena, p.overwrites = m.arenaSize, m.device.size, m.overwrites
	for s := range p.storages {
		p.storageIndex.Set(p.storages[s].root, int32(m.mergedRoot(s)+1))
	}
}

// planFor plans memory with affinity, except for the memory that is marked in ignoresAffinity. This list has an element
// for each storage, followed by an element for the scratch memory of each step. If it is nil, no memory has affinity.
// If the arena exceeds maxBytes, planFor marks all memory that is live at this point, and stops. extendsLast is a field
// of [memoryPlanner].
func (p *Program) planFor(ctx context.Context, ignoresAffinity []bool, maxBytes int, extendsLast bool) *memoryPlanner {
	m := &memoryPlanner{program: p, merged: make([]int, len(p.storages)), writer: graph.NewByValue[int32](p.graph),
		isPlaced: make([]bool, len(p.storages)), users: make([][]int32, len(p.storages)),
		previousUsers: make([][]int32, len(p.storages)), waits: make([]int32, len(p.steps)),
		overwrites: make([]int, len(p.storages)), ignoresAffinity: ignoresAffinity, maxBytes: maxBytes,
		extendsLast: extendsLast,
		affinity:    affinity{workers: min(p.threads, maxParts)}}
	for i := range m.merged {
		m.merged[i] = i
	}
	for i := range m.waits {
		m.waits[i] = -1
	}
	for i, end := 0, 0; i < len(p.steps); i++ {
		if i >= end {
			m.groupStart, end = i, p.steps[i].pipelineEnd
		}
		interrupt.Check(ctx)
		m.planStep(i)
		if ignoresAffinity != nil && m.arenaSize > maxBytes {
			break
		}
	}
	return m
}

// memoryPlanner assigns memory to the steps in order.
type memoryPlanner struct {
	program       *Program
	merged        []int                // indexed by storage: the storage that it overwrites in place, or itself
	writer        graph.ByValue[int32] // for each value, also for a value stored within another: the step that writes it
	isPlaced      []bool               // indexed by storage: whether it has an address in the arena
	users         [][]int32            // indexed by storage: the steps that used it since it got its address
	previousUsers [][]int32            // indexed by storage: the steps that used its address before
	blocks        []block              // free memory of the arena, by offset
	arenaSize     int
	device        deviceArena
	waits         []int32 // indexed by step: the latest step that already waits for it, to avoid duplicates
	overwrites    []int   // see Program.overwrites
	groupStart    int     // first step of the current pipelined group, or the current step
	// ignoresAffinity marks memory that is placed without affinity: see planFor.
	ignoresAffinity []bool
	maxBytes        int // limit on the arena's bytes, if ignoresAffinity is not nil
	// extendsLast means that the arena grows by extending a free block at its end. Otherwise it grows by a new block.
	extendsLast bool
	couldExtend bool // whether the arena grew while its last block was free
	affinity    affinity
}

// deviceArena is the arena in the memory of the device.
type deviceArena struct {
	blocks []block
	size   int
}

// block is a free part of an arena.
type block struct {
	offset, size int     // offset in the arena and size, in bytes
	users        []int32 // the steps that used the memory last
}

// mergedRoot returns the storage whose memory a storage uses.
func (m *memoryPlanner) mergedRoot(s int) int {
	for m.merged[s] != s {
		s = m.merged[s]
	}
	return s
}

// planStep assigns memory to the results and the scratch memory of step i, and frees memory after its last use.
func (m *memoryPlanner) planStep(i int) {
	p := m.program
	st := &p.steps[i]
	outCount := len(st.node.Out)
	for k := range st.addresses {
		if r := &st.addresses[k]; r.storage >= 0 {
			r.storage = m.mergedRoot(r.storage)
			// addresses[k] is operand k-outCount; it must be written before step i reads it.
			if k >= outCount && m.isWrittenByStep(r.storage) && st.node.In[k-outCount].Kind == graph.TensorArg {
				m.addWait(i, m.writer.At(st.node.In[k-outCount].Value.Root()))
			}
		}
	}
	m.reuseInPlace(i)
	m.overwriteInputs(i)
	for k := range outCount {
		r := st.addresses[k]
		if r.storage < 0 {
			continue
		}
		m.writer.Set(st.node.Out[k], int32(i))
		m.placeStorage(i, r.storage, st.node.Out[k])
	}
	if st.kernel.Scratch > 0 {
		st.scratch, _ = m.alloc(i, st.kernel.Scratch, len(p.storages)+i, st.kernel.Place)
	}
	for _, r := range st.addresses {
		if r.storage >= 0 && m.isWrittenByStep(r.storage) && !slices.Contains(m.lastUsers(r.storage), int32(i)) {
			m.users[r.storage] = append(m.users[r.storage], int32(i))
		}
	}
	m.freeAfter(i)
}

// placeStorage assigns arena memory to the storage of v, a result of step i, unless the result reuses the memory of an
// operand. If v is stored within another value, an earlier step may have placed the storage already. Step i then waits
// for the previous users of the memory, but not for the step that placed it.
func (m *memoryPlanner) placeStorage(i, storage int, v *graph.Value) {
	s := &m.program.storages[storage]
	switch {
	case s.kind != inArena:
	case !m.isPlaced[storage] && storage == m.program.storageOf(v):
		s.arenaOffset, m.previousUsers[storage] = m.alloc(i, s.bytes, storage, s.place)
		m.isPlaced[storage] = true
	case v.ContainedIn != nil:
		for _, u := range m.previousUsers[storage] {
			m.addWait(i, u)
		}
	}
}

// isWrittenByStep reports whether a step of the program writes storage s.
func (m *memoryPlanner) isWrittenByStep(s int) bool {
	k := m.program.storages[s].kind
	return k == inArena || k == inNewMemory
}

// lastUsers returns a list with the last step that uses a storage. The list is empty if no step uses the storage.
func (m *memoryPlanner) lastUsers(storage int) []int32 {
	u := m.users[storage]
	return u[max(0, len(u)-1):]
}

// addWait makes step i wait for an earlier step, unless it already does.
func (m *memoryPlanner) addWait(i int, earlier int32) {
	if int(earlier) == i || m.waits[earlier] == int32(i) {
		return
	}
	m.waits[earlier] = int32(i)
	m.program.steps[earlier].waitingSteps = append(m.program.steps[earlier].waitingSteps, int32(i))
}

// reuseInPlace lets the results of step i reuse the memory of operands that no later step uses, if the kernel permits
// it.
func (m *memoryPlanner) reuseInPlace(i int) {
	p := m.program
	st := &p.steps[i]
	outCount := len(st.node.Out)
	reused := map[int]bool{}
	for _, pair := range st.kernel.InPlace {
		out, in := &st.addresses[pair.Out], st.addresses[outCount+pair.In]
		if out.storage < 0 || in.storage < 0 || reused[in.storage] || m.merged[out.storage] != out.storage ||
			out.storage != p.storageOf(st.node.Out[pair.Out]) || m.isPlaced[out.storage] ||
			st.node.Out[pair.Out].ContainedIn != nil {
			continue
		}
		from, to := &p.storages[in.storage], &p.storages[out.storage]
		if from.kind != inArena || to.kind != inArena || from.place != to.place || from.lastStep != i ||
			in.offset != 0 || from.bytes < to.bytes ||
			!m.readsSameElements(i, pair.In) {
			continue
		}
		reused[in.storage] = true
		// Step i overwrites the operand, so it waits for the steps that write or read it. From now on, the result's users
		// are the users of the memory.
		for _, u := range m.users[in.storage] {
			m.addWait(i, u)
		}
		m.users[in.storage] = nil
		from.lastStep = to.lastStep
		m.merged[out.storage] = in.storage
		out.storage = in.storage
	}
}

// readsSameElements reports whether every operand of step i that shares the storage of operand `in` has each element
// at the same address as operand `in`. The step may then overwrite the elements in order.
func (m *memoryPlanner) readsSameElements(i, in int) bool {
	st := &m.program.steps[i]
	outCount := len(st.node.Out)
	meta := st.node.In[in].Meta()
	for k, a := range st.node.In {
		if k == in || st.addresses[outCount+k].storage != st.addresses[outCount+in].storage || a.Kind != graph.TensorArg {
			continue
		}
		if other := a.Meta(); other.Offset != meta.Offset || other.DType.Size() != meta.DType.Size() ||
			!other.SameAddresses(meta) {
			return false
		}
	}
	return true
}

// maxArenaBytes is the maximum size of the arena. It is small enough that sums of sizes do not overflow.
const maxArenaBytes = math.MaxInt / 4

// alloc allocates size bytes for step i in the arena of a place (host or device), from a free block or by growing the
// arena. memoryIndex is the index of the memory in ignoresAffinity. before has the steps that used the memory before,
// for which step i waits.
func (m *memoryPlanner) alloc(i, size, memoryIndex int, place tensor.Place) (offset int, before []int32) {
	size = (size + tensor.Align - 1) &^ (tensor.Align - 1)
	if size == 0 {
		return 0, nil
	}
	if place != tensor.Host {
		return m.allocOnDevice(i, size)
	}
	best, offset := m.pickBlock(size, memoryIndex)
	if best < 0 {
		offset = m.arenaSize
		if last := len(m.blocks) - 1; last >= 0 && m.blocks[last].offset+m.blocks[last].size == m.arenaSize {
			m.couldExtend = true
			if b := m.blocks[last]; m.extendsLast {
				offset, before = b.offset, m.take(&m.blocks, last, b.offset, b.size, i)
			}
		}
		m.arenaSize = min(offset+size, maxArenaBytes)
		if m.ignoresAffinity != nil && m.arenaSize > m.maxBytes {
			m.dropAffinity(memoryIndex)
		}
		m.affinity.record(offset, size)
		return offset, before
	}
	m.affinity.record(offset, size)
	return offset, m.take(&m.blocks, best, offset, size, i)
}

// allocOnDevice is [memoryPlanner.alloc] for the arena of the device.
func (m *memoryPlanner) allocOnDevice(i, size int) (offset int, before []int32) {
	a := &m.device
	best := smallestBlock(a.blocks, size)
	if best < 0 {
		offset, a.size = a.size, min(a.size+size, maxArenaBytes)
		return offset, nil
	}
	offset = a.blocks[best].offset
	return offset, m.take(&a.blocks, best, offset, size, i)
}

// take takes memory at an offset out of free block k for step i, and returns the steps that used the block.
func (m *memoryPlanner) take(blocks *[]block, k, offset, size, i int) (before []int32) {
	b := (*blocks)[k]
	for _, u := range b.users {
		m.addWait(i, u)
	}
	var unusedParts []block // the parts of the block before and after [offset, offset+size)
	if offset > b.offset {
		unusedParts = append(unusedParts, block{b.offset, offset - b.offset, b.users})
	}
	if end := b.offset + b.size; offset+size < end {
		unusedParts = append(unusedParts, block{offset + size, end - offset - size, b.users})
	}
	*blocks = slices.Replace(*blocks, k, k+1, unusedParts...)
	return b.users
}

// dropAffinity removes the affinity of all memory that is live now, because the arena exceeds its limit.
func (m *memoryPlanner) dropAffinity(memoryIndex int) {
	m.ignoresAffinity[memoryIndex] = true
	for s, users := range m.users {
		m.ignoresAffinity[s] = m.ignoresAffinity[s] || users != nil
	}
}

// pickBlock returns the index of a free block of at least size bytes, or -1 if no block is large enough, and an
// offset in the arena. Without affinity, it chooses the smallest such block.
func (m *memoryPlanner) pickBlock(size, memoryIndex int) (best, offset int) {
	if m.ignoresAffinity != nil && !m.ignoresAffinity[memoryIndex] {
		return m.affinity.chooseAddress(m.blocks, size)
	}
	if best = smallestBlock(m.blocks, size); best >= 0 {
		offset = m.blocks[best].offset
	}
	return best, offset
}

// smallestBlock returns the smallest block of at least size bytes, or -1 if there is none.
func smallestBlock(blocks []block, size int) (best int) {
	best = -1
	for k := range blocks {
		if b := &blocks[k]; b.size >= size && (best < 0 || b.size < blocks[best].size) {
			if best = k; b.size == size {
				break
			}
		}
	}
	return best
}

// freeAfter frees memory whose last use was step i. At the end of a pipelined group, it frees memory whose last use was
// any step of the group.
func (m *memoryPlanner) freeAfter(i int) {
	p := m.program
	st := &p.steps[i]
	if st.kernel.Scratch > 0 {
		m.freeBlock(st.kernel.Place, st.scratch, st.kernel.Scratch, []int32{int32(i)})
	}
	for k := m.groupStart; k <= i; k++ {
		for _, r := range p.steps[k].addresses {
			if r.storage < 0 {
				continue
			}
			storage := &p.storages[r.storage]
			if storage.kind == inArena && storage.lastStep == i && m.users[r.storage] != nil {
				m.freeBlock(storage.place, storage.arenaOffset, storage.bytes, m.users[r.storage])
				m.users[r.storage] = nil
			}
		}
	}
}

// freeBlock returns memory to the free blocks of a place, and merges it with its neighbours.
func (m *memoryPlanner) freeBlock(place tensor.Place, offset, size int, users []int32) {
	size = (size + tensor.Align - 1) &^ (tensor.Align - 1)
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

// joinWithNext merges free block k with the next one if they are adjacent.
func (m *memoryPlanner) joinWithNext(blocks *[]block, k int) {
	if k < 0 || k+1 >= len(*blocks) {
		return
	}
	a, b := (*blocks)[k], (*blocks)[k+1]
	if a.offset+a.size != b.offset {
		return
	}
	users := slices.Concat(a.users, b.users)
	slices.Sort(users)
	(*blocks)[k] = block{a.offset, a.size + b.size, m.truncateUsers(slices.Compact(users))}
	*blocks = slices.Delete(*blocks, k+1, k+2)
}

// maxBlockUsers is the maximum length of a block's list of users.
const maxBlockUsers = 32

// truncateUsers keeps lists of users (steps) short, so that planning takes linear time. truncateUsers replaces a list
// that is too long by the latest step of the list, and makes this step wait for the other steps. users is ascending.
func (m *memoryPlanner) truncateUsers(users []int32) []int32 {
	if len(users) <= maxBlockUsers {
		return users
	}
	latest := users[len(users)-1]
	for _, u := range users[:len(users)-1] {
		m.addWait(int(latest), u)
	}
	return []int32{latest}
}
