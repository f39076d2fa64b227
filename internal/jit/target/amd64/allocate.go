package amd64

import (
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
)

// This file makes one attempt to allocate registers. The first row constants get permanent registers, vector registers
// from 0 on and mask registers from K7 down. If enough registers remain, the next ones hold the accumulators of folds.
// The other registers are the pool, from which package alloc takes registers for the values of a pass.
//
// A full pass computes one element of the row for each lane, and the body is its instructions. The tail, the remaining
// elements of the row, is computed by masked passes. A row constant is a value that is the same for all elements of a
// row. A fold is a reduction of the row. It has accSets sets of accumulators, which successive passes use in rotation.
// In a loop with totals (lane.Loop.CombinesLanes), a fold gives one number for each row.

// minPool is the minimum number of vector registers that remain for the values of the body.
const minPool = 4

// spillSlots is the number of vectors of 64 bytes in the spill area.
const spillSlots = jit.SpillBytes / 64

// freeRegisters are the vector registers from firstVector on, and the mask registers from K1 to lastMask. K0 cannot
// mask an instruction.
type freeRegisters struct{ firstVector, lastMask int }

// setPool makes the free registers the pool of a register file.
func (g *generator) setPool(file *alloc.RegisterFile, free freeRegisters) {
	file.Pool[alloc.Vectors] = 1<<g.vectorRegisterCount() - 1<<free.firstVector // the bits from firstVector on
	file.Pool[alloc.Masks] = 1<<(free.lastMask+1) - 2                           // the bits 1 to lastMask
}

// vectorRegisterCount returns the number of vector registers that may be used.
func (g *generator) vectorRegisterCount() int {
	switch {
	case g.options.Registers > 0:
		return g.options.Registers
	case g.avx512:
		return 32
	}
	return 16
}

// tryAllocation allocates registers for row constants, the body and the tail. The first permanentCount row constants
// get permanent registers. ok is false if the allocation failed or the cost of the body is not below costLimit. After a
// failure, f may have some allocated lists, which [frame.free] frees.
func (g *generator) tryAllocation(bodies bodyVariants, permanentCount int, costLimit float64) (f frame, ok bool) {
	file, free := g.placeRowConstants(permanentCount)
	if free.firstVector > g.vectorRegisterCount()-minPool {
		return f, false
	}
	f.accsInRegisters = g.haveRegistersForAccs(free)
	if g.loop.CombinesLanes && !f.accsInRegisters { // totals need accumulators in registers
		return f, false
	}
	f.bodyRegisters, f.tailRegisters = file, file
	g.setPool(&f.tailRegisters, free)
	if f.accsInRegisters {
		f.accRegisters, free = g.placeAccs(free)
	}
	g.setPool(&f.bodyRegisters, free)
	if g.loop.CombinesLanes { // in tails, too, accumulators are in registers
		f.tailRegisters.Pool = f.bodyRegisters.Pool
	}
	g.reserveTailMasks(&f.tailRegisters)
	ok = g.allocateAll(&f, bodies, costLimit)
	return f, ok
}

// placeRowConstants returns a register file without a pool, and the registers that are free for it. The first
// permanentCount row constants have permanent registers, but at most two mask registers. The others have vectors of the
// spill area, unless they can be loaded again.
func (g *generator) placeRowConstants(permanentCount int) (file alloc.RegisterFile, free freeRegisters) {
	file = alloc.RegisterFile{Permanent: make([]int8, len(g.Values)), PermanentSlot: make([]int16, len(g.Values)),
		FoldLoads: true, ReservedSlots: g.reservedSlots}
	for virt := range g.Values {
		file.Permanent[virt], file.PermanentSlot[virt] = -1, -1
	}
	const lastMask, maxMasks = 7, 2 // maxMasks: the maximum number of permanent mask registers
	free.lastMask = lastMask
	for k, virt := range g.rowConstants {
		value := &g.Values[virt]
		canLoadAgain := value.Reload != nil && value.Constant
		switch {
		case k < permanentCount && value.Class == alloc.Vectors:
			file.Permanent[virt] = int8(free.firstVector)
			free.firstVector++
		case k < permanentCount && free.lastMask > lastMask-maxMasks:
			file.Permanent[virt] = int8(free.lastMask)
			free.lastMask--
		case !canLoadAgain:
			file.PermanentSlot[virt] = int16(file.ReservedSlots)
			file.ReservedSlots++
		}
	}
	return file, free
}

// haveRegistersForAccs reports whether there are accumulators and enough registers for them. There are enough if the
// following remain for the other values of the body: half of the vector registers, minPool vector registers without row
// constants, and three mask registers.
func (g *generator) haveRegistersForAccs(free freeRegisters) bool {
	accVectors, accMasks := 0, 0
	for _, acc := range g.accs {
		if g.Values[acc.Virt].Class == alloc.Masks {
			accMasks += g.accSets
		} else {
			accVectors += g.accSets
		}
	}
	vectorCount := g.vectorRegisterCount()
	leavesVectors := accVectors <= vectorCount/2 && free.firstVector+accVectors <= vectorCount-minPool
	leavesMasks := free.lastMask-accMasks >= 3
	return len(g.accs) > 0 && leavesVectors && leavesMasks
}

// placeAccs returns the first register of each accumulator, and the registers that remain free. Each accumulator takes
// accSets consecutive registers: the first free vector registers or the last free mask registers.
func (g *generator) placeAccs(free freeRegisters) ([]int, freeRegisters) {
	registers := make([]int, len(g.accs))
	for index, acc := range g.accs {
		if g.Values[acc.Virt].Class == alloc.Masks {
			free.lastMask -= g.accSets
			registers[index] = free.lastMask + 1
		} else {
			registers[index] = free.firstVector
			free.firstVector += g.accSets
		}
	}
	return registers, free
}

// reserveTailMasks removes the registers of tail masks from the pool of the register file for tails. tailMask,
// wideTailMask and narrowTailMask are the numbers of these registers.
func (g *generator) reserveTailMasks(file *alloc.RegisterFile) {
	if g.tailLanes != 0 { // instructions of folds read the mask, as the value tailLanes
		file.Permanent = slices.Clone(file.Permanent)
		file.Permanent[g.tailLanes] = wideTailMask
		if g.avx512 {
			file.Permanent[g.tailLanes] = int8(tailMask)
		}
	}
	if g.avx512 {
		file.Pool[alloc.Masks] &^= 1 << tailMask
		if g.hasComplex() { // the next two registers have the masks of the two halves of complex elements
			file.Pool[alloc.Masks] &^= 1<<(tailMask+1) | 1<<(tailMask+2)
		}
		return
	}
	file.Pool[alloc.Vectors] &^= 1<<wideTailMask | 1<<narrowTailMask
}

// allocateAll allocates the registers of all instructions of the loop. It returns false if the allocation failed or the
// cost of the body is not below costLimit.
func (g *generator) allocateAll(f *frame, bodies bodyVariants, costLimit float64) bool {
	body := bodies[foldsInMemory]
	if f.accsInRegisters {
		body = bodies[foldsInRegisters]
	}
	f.bodyCode = alloc.Run(g.Values, &f.bodyRegisters, body, alloc.Policy{CostLimit: costLimit})
	if f.bodyCode.Cost >= costLimit {
		return false
	}
	f.rowCode = alloc.Run(g.Values, &f.bodyRegisters, g.Row, alloc.Policy{OncePerRow: true, Preload: g.rowConstants})
	f.tailCode = alloc.Run(g.Values, &f.tailRegisters, g.tailInsts, alloc.Policy{Masked: true})
	if f.accsInRegisters {
		f.accLoads = alloc.Run(g.Values, &f.bodyRegisters, g.accInitInsts, alloc.Policy{})
		f.accStores = alloc.Run(g.Values, &f.bodyRegisters, g.accStoreInsts, alloc.Policy{})
	}
	for _, result := range f.allocatedLists() {
		if result.Err != nil || result.Slots > spillSlots {
			return false
		}
	}
	return true
}
