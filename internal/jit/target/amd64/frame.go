package amd64

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
	"github.com/graphrun/graphrun/tensor"
)

// General registers. The spill area is scratch memory in jit.Args.
const (
	regArgs        = asm.DI
	regSpill       = asm.BX // the spill area
	regIndex       = asm.CX // number of elements of the row that are already computed
	regLimit       = asm.DX // the last regIndex at which an iteration may start; in tails, the remaining elements
	regTemp        = asm.AX // a temporary, which nearly all methods that write code may change
	regDoubleIndex = asm.SI // 2*regIndex, for elements of 16 bytes
)

// pointerRegisters are the registers for addresses of operands. Addresses without a register are in the spill area.
var pointerRegisters = []asm.Reg{asm.R8, asm.R9, asm.R10, asm.R11, asm.R12, asm.R13, asm.R14, asm.R15}

// frame is the result of register allocation for one loop: the registers and memory of its values, the numbers of
// interleaved and unrolled passes, and the allocated instructions. A full pass computes a fixed number of adjacent
// elements, and the body is its instructions. An iteration of the main loop has passesPerIteration full passes. The
// remaining elements of a row, its tail, are computed by masked passes. A row constant is a value that is the same for
// all elements of a row. Pointers are numbered: first the addresses of outputs, then of operands, then of the
// accumulators of folds (reductions of the row). The last pointer is the row counter. In a loop with totals
// (lane.Loop.CombinesLanes), a fold gives one number for each row.
//
// For example, with AVX-512, a loop with three row constants and one fold of float32 may use the vector registers so:
//
//	Z0 to Z2     row constants
//	Z3 and Z4    accumulators: two sets of 16 lanes, for passes with even and with odd numbers
//	Z5 to Z31    other values of a pass
//
// The generator embeds a frame. Allocation is tried several times. Each attempt overwrites fields of the embedded
// frame, and a copy of the frame keeps the result of the best attempt.
type frame struct {
	// Pointers.

	registerIndexOf []int       // by pointer: the index of its register in pointerRegisters, or -1
	rowCounter      int         // number of the pointer that counts the remaining rows
	pointerSlots    int         // number of vectors in the spill area that hold pointers without a register
	bounceVectors   map[int]int // by pointer: index of the spill vector that buffers an unmasked tail
	hasWideElements bool        // an operand or output has elements of 16 bytes

	// Registers.

	bodyRegisters   alloc.RegisterFile // registers for row constants and full passes
	tailRegisters   alloc.RegisterFile // registers for tails, with accumulators in memory unless the loop has totals
	accSets         int                // number of sets of accumulator registers; successive passes use different sets
	accsInRegisters bool               // accumulators are in registers during the main loop
	accRegisters    []int              // by index in generator.accs: its register in the first set

	// Passes and code.

	bodyInsts          [2][]alloc.Inst // by foldsInRegisters or foldsInMemory: the body with accumulators in this place
	interleavedPasses  int             // number of interleaved passes in each list of bodyInsts
	passesPerIteration int             // number of passes in one iteration of the main loop

	rowCode   *alloc.Result // code that runs once per row
	bodyCode  *alloc.Result // code of full passes
	tailCode  *alloc.Result // code of a pass of the tail
	accLoads  *alloc.Result // loads of accumulator registers; nil if accumulators are in memory
	accStores *alloc.Result // stores of accumulator registers; nil if accumulators are in memory

	// State of the functions that write code.

	inTail            bool // loads and stores are masked, and the addresses of accumulators depend on regIndex
	writesNonTemporal bool // stores are non-temporal
	firstAccSet       int  // number of the accumulator set that the current pass uses
}

// Bounds on the number of instructions of one pass. A body of at most shortBody instructions counts as memory-bound. A
// body of more than mediumBody instructions is not unrolled, and a body of more than longBody instructions is not
// interleaved.
const (
	shortBody  = 12
	mediumBody = 40
	longBody   = 150
)

// bodyKinds are the indices of frame.bodyInsts.
var bodyKinds = [2]int{foldsInMemory, foldsInRegisters}

// minPool is the minimum number of vector registers that remain for the values of the body.
const minPool = 4

// spillSlots is the number of vectors of 64 bytes in the spill area.
const spillSlots = jit.SpillBytes / 64

// layOutFrame assigns registers and memory, and chooses the numbers of passes that are interleaved and unrolled. The
// instructions are already selected: Builder.Body, foldInsts and stores.
func (g *generator) layOutFrame() error {
	g.accSets = 1
	if len(g.loop.Folds) > 0 {
		g.accSets = lane.FoldLanes / g.lanes // one register has g.lanes of the FoldLanes accumulators of a fold
	}
	g.layOutPointers()
	usedSlots := g.layOutBounceVectors()
	rowConstants := g.RowConstants(g.Body, g.foldInsts[foldsInRegisters], g.foldInsts[foldsInMemory],
		g.foldInsts[foldsInTail], g.stores)
	for _, kind := range bodyKinds {
		g.bodyInsts[kind] = slices.Concat(g.Body, g.foldInsts[kind], g.stores)
	}
	g.tailInsts = slices.Concat(g.Body, g.foldInsts[foldsInTail], g.stores)
	g.interleavedPasses = 1
	cost, ok := g.searchAllocation(rowConstants, usedSlots)
	switch {
	case !ok && g.loop.CombinesLanes:
		return target.Unsupported("totals need more accumulators than there are registers")
	case !ok:
		return target.Unsupported("too many values are live at the same time")
	}
	passLength := g.bodyCode.InstructionCount
	g.tryInterleave(rowConstants, usedSlots, cost, passLength)
	g.chooseUnroll(passLength)
	return nil
}

// layOutPointers assigns registers to pointers, first to the pointers that advance along rows.
func (g *generator) layOutPointers() {
	g.rowCounter = len(g.loop.Ptrs)
	pointerCount := g.rowCounter + 1
	g.registerIndexOf = make([]int, pointerCount)
	next := 0
	for _, advances := range []bool{true, false} {
		for k := range pointerCount {
			if g.advances[k] != advances {
				continue
			}
			g.registerIndexOf[k] = -1
			if next < len(pointerRegisters) {
				g.registerIndexOf[k] = next
				next++
			}
		}
	}
	for k, base := range g.registerIndexOf {
		if base < 0 {
			g.pointerSlots = k/8 + 1 // pointer k is word k of the spill area; a vector has eight words
		}
	}
	for k, ptr := range g.loop.Ptrs {
		g.hasWideElements = g.hasWideElements || ptr.DType == tensor.Complex128 && g.advances[k]
	}
}

// layOutBounceVectors assigns spill vectors to the pointers whose tails cannot be masked. It returns the number of
// spill vectors in use.
func (g *generator) layOutBounceVectors() (usedSlots int) {
	g.bounceVectors = map[int]int{}
	usedSlots = g.pointerSlots
	for k, ptr := range g.loop.Ptrs {
		if !g.avx512 && g.advances[k] && (ptr.DType.Size() < 4 || ptr.DType.IsComplex()) {
			g.bounceVectors[k] = usedSlots
			usedSlots++
		}
	}
	return usedSlots
}

// searchAllocation allocates registers for different numbers of row constants in permanent registers, and sets g.frame
// to the cheapest allocation. rowConstants are all row constants; the first ones get the permanent registers. Each
// attempt uses about an eighth fewer permanent registers than the previous one. The search ends after three attempts
// without improvement, or at cost 0. The first usedSlots vectors of the spill area are in use. ok is false if every
// attempt failed.
func (g *generator) searchAllocation(rowConstants []alloc.Virt, usedSlots int) (bestCost float64, ok bool) {
	bestCost = math.Inf(1)
	bestFrame := g.frame
	withoutGain := 0 // number of attempts since the cheapest one
	for count := len(rowConstants); count >= 0 && bestCost > 0 && withoutGain < 3; count -= 1 + count/8 {
		// bestFrame keeps the lists of the best attempt.
		g.rowCode, g.bodyCode, g.tailCode, g.accLoads, g.accStores = nil, nil, nil, nil, nil
		cost, allocated := g.tryAllocation(rowConstants[:count], rowConstants, usedSlots, bestCost)
		if !allocated {
			g.frame.free()
			if ok {
				withoutGain++
			}
			continue
		}
		if ok { // bestFrame has an allocation, which is replaced
			bestFrame.free()
		}
		bestFrame, bestCost, withoutGain, ok = g.frame, cost, 0, true
	}
	g.frame = bestFrame
	return bestCost, ok
}

// tryAllocation allocates registers, and sets fields of g.frame. The row constants in `permanent`, the first ones of
// rowConstants, get permanent registers. The others get vectors of the spill area from number usedSlots on, unless they
// can be loaded again. ok is false if the allocation failed or its cost is not below limit.
func (g *generator) tryAllocation(permanent, rowConstants []alloc.Virt, usedSlots int, limit float64) (cost float64,
	ok bool) {
	registers, rowConstVectors, lastMask := g.placeRowConstants(permanent)
	vectorCount := g.vectorRegisterCount()
	if rowConstVectors > vectorCount-minPool {
		return 0, false
	}
	for _, virt := range rowConstants {
		value := &g.Values[virt]
		canLoadAgain := value.Reload != nil && value.Constant
		if registers.Permanent[virt] < 0 && !canLoadAgain {
			registers.PermanentSlot[virt] = int16(usedSlots)
			usedSlots++
		}
	}
	registers.ReservedSlots = usedSlots
	registers.Pool[alloc.Vectors] = 1<<vectorCount - 1<<rowConstVectors // registers rowConstVectors to vectorCount-1
	registers.Pool[alloc.Masks] = 1<<(lastMask+1) - 2                   // without K0, which cannot mask an instruction
	g.decideAccPlace(rowConstVectors, vectorCount, lastMask)
	if g.loop.CombinesLanes && !g.accsInRegisters { // totals need accumulators in registers
		return 0, false
	}
	g.bodyRegisters, g.tailRegisters = registers, registers
	if g.accsInRegisters {
		g.reserveAccs(rowConstVectors)
	}
	if g.loop.CombinesLanes { // in tails, too, accumulators are in registers, which reserveAccs removed from the pool
		g.tailRegisters.Pool = g.bodyRegisters.Pool
	}
	g.reserveTailMasks()
	return g.allocateAll(rowConstants, limit)
}

// placeRowConstants returns a register file in which row constants have permanent registers: vector registers from 0
// on, and at most two mask registers, K7 and K6. It also returns the number of these vector registers, and the number
// of the last free mask register.
func (g *generator) placeRowConstants(permanent []alloc.Virt) (file alloc.RegisterFile, vectors, lastMask int) {
	valueCount := len(g.Values)
	file = alloc.RegisterFile{Permanent: make([]int8, valueCount), PermanentSlot: make([]int16, valueCount),
		FoldLoads: true}
	for virt := range valueCount {
		file.Permanent[virt], file.PermanentSlot[virt] = -1, -1
	}
	lastMask = 7
	for _, virt := range permanent {
		if g.Values[virt].Class == alloc.Masks {
			if lastMask > 5 {
				file.Permanent[virt] = int8(lastMask)
				lastMask--
			}
			continue
		}
		file.Permanent[virt] = int8(vectors)
		vectors++
	}
	return file, vectors, lastMask
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

// decideAccPlace decides whether accumulators stay in registers in the body. Enough registers must remain for the other
// values of the body: half of the vector registers, minPool vector registers without row constants, and three mask
// registers. Row constants occupy rowConstVectors of the vectorCount vector registers. lastMask is the last free mask
// register.
func (g *generator) decideAccPlace(rowConstVectors, vectorCount, lastMask int) {
	accVectors, accMasks := 0, 0
	for _, acc := range g.accs {
		if g.Values[acc.Virt].Class == alloc.Masks {
			accMasks += g.accSets
		} else {
			accVectors += g.accSets
		}
	}
	leavesVectors := accVectors <= vectorCount/2 && rowConstVectors+accVectors <= vectorCount-minPool
	leavesMasks := lastMask-accMasks >= 3
	g.accsInRegisters = len(g.accs) > 0 && leavesVectors && leavesMasks
}

// reserveAccs assigns registers to accumulators and removes these registers from the pool of the body. firstFree is the
// first vector register after the registers of row constants.
func (g *generator) reserveAccs(firstFree int) {
	g.accRegisters = make([]int, len(g.accs))
	lastMask := 0 // the last mask register of the pool; accumulators take mask registers from there down
	for g.bodyRegisters.Pool[alloc.Masks]>>(lastMask+1) != 0 {
		lastMask++
	}
	// Each accumulator takes accSets consecutive registers.
	for index, acc := range g.accs {
		if g.Values[acc.Virt].Class == alloc.Masks {
			lastMask -= g.accSets
			g.accRegisters[index] = lastMask + 1
			g.bodyRegisters.Pool[alloc.Masks] &= 1<<(lastMask+1) - 1
			continue
		}
		g.accRegisters[index] = firstFree
		firstFree += g.accSets
	}
	vectors := &g.bodyRegisters.Pool[alloc.Vectors]
	*vectors = *vectors >> firstFree << firstFree // clears the bits below firstFree
}

// reserveTailMasks removes the registers of tail masks from the pool for tails. tailMask, wideTailMask and
// narrowTailMask are the numbers of these registers.
func (g *generator) reserveTailMasks() {
	if g.tailLanes != 0 { // instructions of folds read the mask, as the value tailLanes
		g.tailRegisters.Permanent = slices.Clone(g.tailRegisters.Permanent)
		g.tailRegisters.Permanent[g.tailLanes] = wideTailMask
		if g.avx512 {
			g.tailRegisters.Permanent[g.tailLanes] = int8(tailMask)
		}
	}
	if g.avx512 {
		g.tailRegisters.Pool[alloc.Masks] &^= 1 << tailMask
		if g.hasComplex() { // the next two registers have the masks of the two halves of complex elements
			g.tailRegisters.Pool[alloc.Masks] &^= 1<<(tailMask+1) | 1<<(tailMask+2)
		}
		return
	}
	g.tailRegisters.Pool[alloc.Vectors] &^= 1<<wideTailMask | 1<<narrowTailMask
}

// hasComplex reports whether an output or an operand that advances along rows is complex.
func (g *generator) hasComplex() bool {
	for k, ptr := range g.loop.Ptrs {
		if ptr.DType.IsComplex() && g.advances[k] {
			return true
		}
	}
	return false
}

// allocateAll allocates the registers of all instructions of the loop. rowConstants are computed by the row code.
// allocateAll returns the cost of the body, and false if the allocation failed or its cost is not below limit.
func (g *generator) allocateAll(rowConstants []alloc.Virt, limit float64) (float64, bool) {
	body := g.bodyInsts[foldsInMemory]
	if g.accsInRegisters {
		body = g.bodyInsts[foldsInRegisters]
	}
	g.bodyCode = alloc.Run(g.Values, &g.bodyRegisters, body, alloc.Policy{CostLimit: limit})
	if g.bodyCode.Cost >= limit {
		return 0, false
	}
	g.rowCode = alloc.Run(g.Values, &g.bodyRegisters, g.Row, alloc.Policy{OncePerRow: true, Preload: rowConstants})
	g.tailCode = alloc.Run(g.Values, &g.tailRegisters, g.tailInsts, alloc.Policy{Masked: true})
	g.accLoads, g.accStores = nil, nil
	if g.accsInRegisters {
		g.accLoads = alloc.Run(g.Values, &g.bodyRegisters, g.accInitInsts, alloc.Policy{})
		g.accStores = alloc.Run(g.Values, &g.bodyRegisters, g.accStoreInsts, alloc.Policy{})
	}
	for _, result := range g.allocatedLists() {
		if result.Err != nil || result.Slots > spillSlots {
			return 0, false
		}
	}
	return g.bodyCode.Cost, true
}

// allocatedLists returns the allocated lists of the frame.
func (f *frame) allocatedLists() []*alloc.Result {
	all := []*alloc.Result{f.rowCode, f.bodyCode, f.tailCode, f.accLoads, f.accStores}
	return slices.DeleteFunc(all, func(r *alloc.Result) bool { return r == nil })
}

// free allows later allocations to reuse the memory of the allocated lists.
func (f *frame) free() {
	for _, r := range f.allocatedLists() {
		r.Free()
	}
}

// tryInterleave interleaves two passes, and then four. It stops if interleaving adds more than one memory access
// per six instructions. In measurements, interleaved code below this limit was faster, even if it had memory
// accesses: gelu with AVX-512 took a fifth less time. passCost and passLength are the cost and the number of
// instructions of one pass.
func (g *generator) tryInterleave(rowConstants []alloc.Virt, usedSlots int, passCost float64, passLength int) {
	maxPasses := 4
	switch {
	case passLength > longBody || len(g.bounceVectors) > 0:
		return
	case passLength <= shortBody: // a memory-bound body gains nothing from four passes
		maxPasses = 2
	}
	if len(g.loop.Folds) > 0 {
		maxPasses = min(maxPasses, g.accSets) // each pass needs its own accumulators
	}
	for passes := 2; passes <= maxPasses; passes *= 2 {
		previousFrame := g.frame
		for _, kind := range bodyKinds {
			g.bodyInsts[kind] = g.Interleave(g.bodyInsts[kind], passes/2)
		}
		g.interleavedPasses = passes
		totalCost, ok := g.searchAllocation(rowConstants, usedSlots)
		if !ok {
			g.frame = previousFrame
			return
		}
		maxCost := float64(passes) * (passCost + float64(len(g.Body))/6)
		if totalCost > maxCost {
			g.frame.free()
			g.frame = previousFrame
			return
		}
		previousFrame.free()
	}
}

// chooseUnroll sets the number of passes in one iteration of the main loop. Short bodies are unrolled, to reduce the
// overhead of the loop. passLength is the number of instructions of one pass.
func (g *generator) chooseUnroll(passLength int) {
	g.passesPerIteration = 1
	switch {
	case len(g.bounceVectors) > 0: // tails are slow, and unrolling makes them longer
	case passLength <= shortBody:
		g.passesPerIteration = 4
	case passLength <= mediumBody:
		g.passesPerIteration = 2
	}
	// All of these are powers of two, so an iteration has whole groups of interleaved passes, and uses each set
	// equally.
	g.passesPerIteration = max(g.passesPerIteration, g.accSets, g.interleavedPasses)
}
