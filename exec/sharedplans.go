package exec

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/tensor"
)

// MemoryPlans has the memory plans of the programs of one planned graph at several sizes. A plan is made for rounded
// sizes: each block of memory has space for up to a quarter more than it needs. Programs whose blocks have the same
// rounded sizes share a plan. So a graph whose sizes grow step by step is seldom planned anew, and its arenas have few
// different sizes. The plan depends only on the sizes, not on the order in which programs are compiled.
//
// The zero value is ready to use. It is safe for concurrent use.
type MemoryPlans struct {
	mu    sync.Mutex
	plans map[string]*memoryPlan
}

// maxMemoryPlans is the maximum number of plans that are kept.
const maxMemoryPlans = 64

// memoryPlan is what planMemory decides. It is immutable.
type memoryPlan struct {
	arenaSize, deviceArenaSize int
	overwrites                 []int // as in Program
	storages                   []plannedStorage
	steps                      []plannedStep
}

// plannedStorage is the plan of a storage.
type plannedStorage struct {
	root                  int32 // the storage whose memory it uses: its own index unless it overwrites an operand
	lastStep, arenaOffset int   // as in storage
}

// plannedStep is the plan of a step.
type plannedStep struct {
	waitingSteps  []int32
	scratchOffset int
}

// roundedSize rounds a size up to a multiple of an eighth of the greatest power of two that it contains.
func roundedSize(size int) int {
	if size <= tensor.Align {
		return size
	}
	step := max(tensor.Align, 1<<max(0, bits.Len(uint(size-1))-3))
	return (size + step - 1) &^ (step - 1)
}

// capacityOf returns the size of the memory for a block of the given size.
func (p *Program) capacityOf(size int) int {
	if p.memoryPlans == nil {
		return size
	}
	return roundedSize(size)
}

// memoryKey returns all on which a memory plan depends, besides the graph: which storages steps use, the capacities of
// storages and scratch memory, and which operands a result may overwrite.
func (p *Program) memoryKey() string {
	key := make([]byte, 0, 8*len(p.storages)+16*len(p.steps))
	add := func(numbers ...int) {
		for _, n := range numbers {
			key = binary.AppendVarint(key, int64(n))
		}
	}
	bit := func(isSet bool) int {
		if isSet {
			return 1
		}
		return 0
	}
	add(len(p.storages), len(p.steps))
	for i := range p.storages {
		s := &p.storages[i]
		add(int(s.kind), int(s.place), s.lastStep, int(p.mergedIntoOutput[i]))
		if s.kind == inArena {
			add(p.capacityOf(s.bytes))
		}
	}
	planner := &memoryPlanner{program: p}
	for i := range p.steps {
		step := &p.steps[i]
		add(len(step.addresses), p.capacityOf(step.kernel.Scratch), int(step.kernel.Place), step.pipelineEnd)
		for _, address := range step.addresses {
			add(address.storage)
		}
		for _, pair := range step.kernel.InPlace {
			operand := step.addresses[len(step.node.Out)+pair.In]
			add(pair.Out, pair.In, bit(operand.offset == 0), bit(planner.isWholeInput(i, pair)))
			for k := range step.node.In {
				add(bit(step.readsSameElements(k, pair.In)))
			}
		}
		add(-1)
	}
	for _, output := range p.outputs {
		add(p.storageOf(output.Value))
	}
	return string(key)
}

// followMemoryPlan sets the memory of the program by a plan for the same key. It returns false if there is none.
func (p *Program) followMemoryPlan(key string) bool {
	p.memoryPlans.mu.Lock()
	plan := p.memoryPlans.plans[key]
	p.memoryPlans.mu.Unlock()
	if plan == nil {
		return false
	}
	p.arenaSize, p.deviceArenaSize, p.overwrites = plan.arenaSize, plan.deviceArenaSize, plan.overwrites
	for i := range p.storages {
		planned := &plan.storages[i]
		p.storages[i].arenaOffset, p.storages[i].lastStep = planned.arenaOffset, planned.lastStep
		p.storageIndex.Set(p.storages[i].root, planned.root+1)
	}
	for i := range p.steps {
		step, planned := &p.steps[i], &plan.steps[i]
		step.waitingSteps, step.scratchOffset = planned.waitingSteps, planned.scratchOffset
		for k := range step.addresses {
			if address := &step.addresses[k]; address.storage >= 0 {
				address.storage = int(plan.storages[address.storage].root)
			}
		}
	}
	return true
}

// addMemoryPlan keeps the plan of the program. roots has, by storage, the storage whose memory it uses.
func (p *Program) addMemoryPlan(key string, roots []int32) {
	plan := &memoryPlan{arenaSize: p.arenaSize, deviceArenaSize: p.deviceArenaSize, overwrites: slices.Clip(p.overwrites),
		storages: make([]plannedStorage, len(p.storages)), steps: make([]plannedStep, len(p.steps))}
	for i := range p.storages {
		plan.storages[i] = plannedStorage{roots[i], p.storages[i].lastStep, p.storages[i].arenaOffset}
	}
	for i := range p.steps {
		plan.steps[i] = plannedStep{slices.Clip(p.steps[i].waitingSteps), p.steps[i].scratchOffset}
	}
	p.memoryPlans.mu.Lock()
	defer p.memoryPlans.mu.Unlock()
	if p.memoryPlans.plans == nil || len(p.memoryPlans.plans) >= maxMemoryPlans {
		p.memoryPlans.plans = map[string]*memoryPlan{}
	}
	p.memoryPlans.plans[key] = plan
}
