package exec

import "github.com/graphrun/graphrun/tensor"

// Lifetime describes a block of memory and the steps that use it. The block is in use from the first to the last of
// these steps.
type Lifetime struct {
	Bytes  int
	Output bool  // whether the caller owns the block after the run; otherwise it is in the arena
	Steps  []int // indices of the steps that use the block, ascending
}

// Lifetimes returns the lifetimes of a run's memory blocks. A block contains a value that a step computes, or the
// scratch memory that the workers of a step share. A result that overwrites an operand is in the block of the operand.
// Steps may run concurrently, so any of the listed steps may finish last.
func (p *Program) Lifetimes() []Lifetime {
	if p == nil {
		return nil
	}
	list := make([]Lifetime, 0, len(p.storages))
	listIndex := make([]int, len(p.storages)) // listIndex[s] is 1 + the index in list of storage s
	for i := range p.steps {
		step := &p.steps[i]
		for _, ref := range step.addresses {
			if ref.storage < 0 {
				continue
			}
			storage := &p.storages[ref.storage]
			isWrittenByStep := storage.kind == inArena || storage.kind == inNewMemory
			if !isWrittenByStep || storage.place != tensor.Host {
				continue
			}
			index := &listIndex[ref.storage]
			if *index == 0 {
				list = append(list, Lifetime{Bytes: storage.bytes, Output: storage.kind == inNewMemory})
				*index = len(list)
			}
			lifetime := &list[*index-1]
			if n := len(lifetime.Steps); n == 0 || lifetime.Steps[n-1] != i {
				lifetime.Steps = append(lifetime.Steps, i)
			}
		}
		if n := step.kernel.Scratch; n > 0 && step.kernel.Place == tensor.Host {
			list = append(list, Lifetime{Bytes: n, Steps: []int{i}})
		}
	}
	last := len(p.steps) - 1
	for k, index := range listIndex {
		if index > 0 && p.storages[k].lastStep > last { // outputs are copied from it after the last step
			if lifetime := &list[index-1]; lifetime.Steps[len(lifetime.Steps)-1] < last {
				lifetime.Steps = append(lifetime.Steps, last)
			}
		}
	}
	return list
}
