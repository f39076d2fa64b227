package exec

import (
	"context"
	"slices"
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
