package exec

import (
	"context"
	"slices"

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
// With several workers, memory is assigned so that a worker finds the data that it wrote in its cache. Memory has no
// such affinity where affinity would make the arena much larger: see affinity.
func (p *Program) planMemory(ctx context.Context) {
	for i := range p.steps {
		for _, address := range p.steps[i].addresses {
			if address.storage >= 0 {
				p.storages[address.storage].lastStep = i
			}
		}
	}
	p.extendLifetimes() // in pipelined groups, whose steps run interleaved
	for i, output := range p.outputs {
		if p.outputPlan.copyOf[i] > 0 { // copied after the last step
			p.storages[p.storageOf(output.Value)].lastStep = len(p.steps)
		}
	}
	p.findOutputMerges()
	key := ""
	if p.memoryPlans != nil {
		key = p.memoryKey()
		if p.followMemoryPlan(key) {
			return
		}
	}
	attempts := &memoryAttempts{program: p, ctx: ctx, steps: p.steps, storages: p.storages}
	planner := attempts.planWithoutAffinity()
	if p.threads > 1 {
		planner = attempts.planWithAffinity(planner)
	}
	p.arenaSize, p.deviceArenaSize, p.overwrites = planner.host.size, planner.device.size, planner.overwrites
	roots := make([]int32, len(p.storages))
	for storage := range p.storages {
		roots[storage] = int32(planner.mergedRoot(storage))
		p.storageIndex.Set(p.storages[storage].root, roots[storage]+1) // plus 1: 0 means no storage
	}
	if p.memoryPlans != nil {
		p.addMemoryPlan(key, roots)
	}
}

// findOutputMerges finds the operands that a step overwrites by an output ([graph.Kernel.InPlace]), and that no later
// step reads. Such an operand is computed in the memory of the output: its storage is merged into the storage of the
// output. For example, a step that replaces one row of a cache has a copy of the cache as its operand, and returns it.
func (p *Program) findOutputMerges() {
	p.mergedIntoOutput = make([]int32, len(p.storages))
	if p.keepsGoing { // an output would be lost with the memory of its operand
		return
	}
	planner := &memoryPlanner{program: p}
	for i, step := range slices.Backward(p.steps) {
		for _, pair := range step.kernel.InPlace {
			result, operand := step.addresses[pair.Out].storage, step.addresses[len(step.node.Out)+pair.In]
			if result < 0 || operand.storage < 0 || p.storages[result].root != step.node.Out[pair.Out] {
				continue
			}
			output := result
			if root := p.mergedIntoOutput[result]; root > 0 {
				output = int(root) - 1
			}
			from, to := &p.storages[operand.storage], &p.storages[output]
			readsInput := slices.ContainsFunc(step.addresses, func(a storageAddress) bool {
				return a.storage >= 0 && p.storages[a.storage].kind == inInput // which the output may overwrite instead
			})
			fits := from.kind == inArena && to.kind == inNewMemory && from.place == to.place && operand.offset == 0 &&
				from.bytes <= to.bytes
			if fits && from.lastStep == i && p.mergedIntoOutput[operand.storage] == 0 && !readsInput &&
				step.node.Op.ConcatDim == nil && planner.readsSameElements(i, pair.In) {
				p.mergedIntoOutput[operand.storage] = int32(output) + 1
				break
			}
		}
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
	if !planner.host.couldExtend {
		return planner // extending blocks would give the same plan
	}
	plannedSteps, plannedStorages := a.program.steps, a.program.storages
	if other := a.plan(memoryPolicy{extendsLast: true}); other.host.size < planner.host.size {
		return other
	}
	a.program.steps, a.program.storages = plannedSteps, plannedStorages
	return planner
}

// planWithAffinity makes a plan with affinity, whose arena is at most slightly larger than without affinity. Each
// failed attempt removes the affinity of more memory: see dropAffinity. If no attempt succeeds, the plan has no
// affinity.
func (a *memoryAttempts) planWithAffinity(without *memoryPlanner) *memoryPlanner {
	policy := memoryPolicy{ignoresAffinity: make([]bool, len(a.storages)+len(a.steps)),
		maxBytes: without.host.size + without.host.size/arenaGrowthDivisor, extendsLast: without.extendsLast}
	for range maxPlans {
		if planner := a.plan(policy); planner.host.size <= policy.maxBytes {
			return planner
		}
	}
	return a.plan(memoryPolicy{extendsLast: without.extendsLast})
}

// This part assigns a storage to each root value of a graph. A root value has memory of its own. Any other value is
// in the memory of a root value: it is a view (Value.Alias), or it is stored within another value (Value.ContainedIn),
// as an operand of a concatenation may be stored within the result. For example, with an input x:
//
//	x                   storage 0, inInput
//	t = transpose(x)    a view of x, in storage 0
//	r = relu(t)         storage 1, inArena
//	y = neg(r)          storage 2, inNewMemory, because y is an output
//	z = exp(r)          storage 3, inArena
//	row = select(z)     a view of z, in storage 3; a run copies the output row to new memory (outputs.go)

// storage is the memory of one root value.
type storage struct {
	kind        storageKind
	root        *graph.Value // nil for a constant that a kernel provides
	place       tensor.Place // memory of the host or of the device
	bytes       int
	arenaOffset int            // for inArena: offset in bytes, set by planMemory
	inputIndex  int            // for inInput: index in Program.inputs
	data        *tensor.Tensor // for inConst
	// lastStep is the last step that uses the storage, or -1 for none; set by planMemory. If outputs are copied from the
	// storage, it is the number of steps.
	lastStep int
}

// storageKind is the origin of a storage's memory in a run.
type storageKind uint8

const (
	inArena     storageKind = iota // in the arena, the block of memory that all intermediate values share
	inInput                        // an input's tensor
	inConst                        // a constant's tensor
	inNewMemory                    // allocated for each run: values whose memory consists of outputs
)

// storageAddress is an address, given as a storage and an offset in bytes from the start of the storage. For an input,
// this is the offset in the layout that the graph declares; a run adds the distance to the given tensor (Session.bind).
type storageAddress struct {
	storage int // index in Program.storages, or -1 for a nil address
	offset  int
}

// nilAddress is the address of an operand without elements, or of an operand that is no tensor.
var nilAddress = storageAddress{storage: -1}

// addStorages creates the storages of all root values.
func (p *Program) addStorages(g *graph.Graph) {
	p.storages = make([]storage, 0, len(g.Inputs)+len(g.Constants)+len(g.Nodes))
	add := func(root *graph.Value, added storage) {
		added.root, added.lastStep = root, -1
		added.bytes = storageBytes(root)
		p.storages = append(p.storages, added)
		p.storageIndex.Set(root, int32(len(p.storages))) // the index plus 1: 0 stands for no storage
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
	p.outputPlan = planOutputs(g.Outputs)
	for owner := range p.outputPlan.owned {
		p.storages[p.storageOf(owner)].kind = inNewMemory
	}
}

// storageOf returns the index of the storage of a value: the storage of its root value (BufferOwner follows Alias and
// ContainedIn). It returns 0 for a value that has no storage.
func (p *Program) storageOf(v *graph.Value) int {
	return int(max(p.storageIndex.At(v.BufferOwner())-1, 0))
}

// addressesOf returns the addresses of the outputs and operands of a node. It adds storages for the constants that the
// kernel provides.
func (p *Program) addressesOf(n *graph.Node, kernel *graph.Kernel) []storageAddress {
	first := len(p.addresses)
	for _, v := range n.Out {
		p.addresses = append(p.addresses, p.addressOf(v))
	}
	for i, arg := range n.In {
		address := nilAddress
		switch {
		case i < len(kernel.EmbeddedOperands) && kernel.EmbeddedOperands[i] != nil: // such as a plain number
			address = p.addConstant(kernel.EmbeddedOperands[i])
		case arg.Kind == graph.TensorArg:
			address = p.addressOf(arg.Value)
		}
		p.addresses = append(p.addresses, address)
	}
	return p.addresses[first:len(p.addresses):len(p.addresses)]
}

// addConstant adds a storage for a constant that a kernel provides, and returns the address of the constant.
func (p *Program) addConstant(constant *tensor.Tensor) storageAddress {
	if constant.Numel() == 0 {
		return nilAddress
	}
	p.storages = append(p.storages, storage{kind: inConst, data: constant, bytes: constant.Bytes(), lastStep: -1})
	return storageAddress{storage: len(p.storages) - 1, offset: constant.Offset * constant.DType.Size()}
}

// addressOf returns the address of a value.
func (p *Program) addressOf(v *graph.Value) storageAddress {
	if v.Meta.Numel() == 0 {
		return nilAddress
	}
	return storageAddress{storage: p.storageOf(v), offset: v.Meta.Offset * v.Meta.DType.Size()}
}

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
	overwrites  []int                // indexed by storage: 1 + the input that it may overwrite (outputs.go), or 0
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
		if root := p.mergedIntoOutput[i]; root > 0 {
			planner.storages[i].mergedInto = int(root) - 1
		}
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
		isStored := root.Node != nil && m.program.storages[address.storage].kind == inInput // by a step: see outputs.go
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
		if haveMemory && result.storage == operand.storage && program.storages[result.storage].kind == inNewMemory {
			m.waitForUsers(i, operand.storage) // findOutputMerges has merged them
			continue
		}
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
		m.waitForUsers(i, operand.storage)
		operandStorage.lastStep = resultStorage.lastStep
		m.storages[result.storage].mergedInto = operand.storage
		result.storage = operand.storage
	}
}

// waitForUsers makes step i, which overwrites a storage, wait for the steps that write or read it. From now on, the
// users of the result are the users of the memory.
func (m *memoryPlanner) waitForUsers(i, storage int) {
	for _, user := range m.storages[storage].users {
		m.addWait(i, user)
	}
	m.storages[storage].users = nil
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
