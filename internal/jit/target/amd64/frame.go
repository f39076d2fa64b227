package amd64

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/lane"
)

// This file chooses the passes of the main loop and the registers of the loop. A full pass computes a fixed number of
// adjacent elements, and the body is its instructions. An iteration of the main loop has passesPerIteration full
// passes. The remaining elements of a row, its tail, are computed by masked passes. A row constant is a value that is
// the same for all elements of a row. A fold is a reduction of the row. In a loop with totals
// (lane.Loop.CombinesLanes), it gives one number for each row. A bounce vector is memory that buffers the tail of an
// operand or output whose accesses cannot be masked.

// frame is the result of an attempt to allocate registers (tryAllocation). For example, with AVX-512, a loop with three
// row constants and one fold of float32 may use the vector registers so:
//
//	Z0 to Z2     row constants
//	Z3 and Z4    accumulators: two sets of 16 lanes, for passes with even and with odd numbers
//	Z5 to Z31    other values of a pass
type frame struct {
	bodyRegisters   alloc.RegisterFile // registers for row constants and full passes
	tailRegisters   alloc.RegisterFile // registers for tails, with accumulators in memory unless the loop has totals
	accsInRegisters bool               // accumulators are in registers during the main loop
	accRegisters    []int              // by index in generator.accs: its register in the first set

	rowCode   *alloc.Result // code that runs once per row
	bodyCode  *alloc.Result // code of full passes
	tailCode  *alloc.Result // code of a pass of the tail
	accLoads  *alloc.Result // loads of accumulator registers; nil if accumulators are in memory
	accStores *alloc.Result // stores of accumulator registers; nil if accumulators are in memory
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

// bodyVariants has the instructions of the body by the place of accumulators: foldsInMemory and foldsInRegisters.
type bodyVariants [2][]alloc.Inst

// Bounds on the number of instructions of one pass. A body of at most shortBody instructions counts as memory-bound. A
// body of more than mediumBody instructions is not unrolled, and a body of more than longBody instructions is not
// interleaved.
const (
	shortBody  = 12
	mediumBody = 40
	longBody   = 150
)

// layOutFrame assigns registers and memory, and chooses the numbers of passes that are interleaved and unrolled. The
// instructions are already selected: Builder.Body, foldInsts and stores.
func (g *generator) layOutFrame() error {
	g.accSets = 1
	if len(g.loop.Folds) > 0 {
		g.accSets = lane.FoldLanes / g.lanes // one register has g.lanes of the FoldLanes accumulators of a fold
	}
	g.layOutPointers()
	g.layOutBounceVectors()
	g.rowConstants = g.RowConstants(g.Body, g.foldInsts[foldsInRegisters], g.foldInsts[foldsInMemory],
		g.foldInsts[foldsInTail], g.stores)
	var bodies bodyVariants
	for place := range bodies {
		bodies[place] = slices.Concat(g.Body, g.foldInsts[place], g.stores)
	}
	g.tailInsts = slices.Concat(g.Body, g.foldInsts[foldsInTail], g.stores)
	var ok bool
	g.frame, ok = g.searchAllocation(bodies)
	switch {
	case !ok && g.loop.CombinesLanes:
		return target.Unsupported("totals need more accumulators than there are registers")
	case !ok:
		return target.Unsupported("too many values are live at the same time")
	}
	passLength := g.bodyCode.InstructionCount
	g.tryInterleave(bodies, passLength)
	g.chooseUnroll(passLength)
	return nil
}

// searchAllocation allocates registers for different numbers of row constants in permanent registers, and returns the
// frame whose body has the lowest cost. Each attempt uses about an eighth fewer permanent registers than the previous
// one. The search ends after three attempts without improvement, or at cost 0. ok is false if every attempt failed.
func (g *generator) searchAllocation(bodies bodyVariants) (best frame, ok bool) {
	bestCost, withoutGain := math.Inf(1), 0 // withoutGain: number of attempts since the best one
	for count := len(g.rowConstants); count >= 0 && bestCost > 0 && withoutGain < 3; count -= 1 + count/8 {
		candidate, isBetter := g.tryAllocation(bodies, count, bestCost)
		switch {
		case isBetter:
			best.free() // no lists the first time
			best, bestCost, withoutGain, ok = candidate, candidate.bodyCode.Cost, 0, true
			continue
		case ok:
			withoutGain++
		}
		candidate.free()
	}
	return best, ok
}

// tryInterleave interleaves two passes, and then four. It stops if interleaving adds more than one memory access per
// six instructions. The cost of the allocated code estimates the number of added accesses: spills and reloads. In
// measurements, interleaved code below this limit was faster, even if it had memory accesses: gelu with AVX-512 took a
// fifth less time. bodies and passLength are the instructions of one pass and their number.
func (g *generator) tryInterleave(bodies bodyVariants, passLength int) {
	g.interleavedPasses = 1
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
	maxPassCost := g.bodyCode.Cost + float64(len(g.Body))/6
	for passes := 2; passes <= maxPasses; passes *= 2 {
		for place := range bodies {
			bodies[place] = g.Interleave(bodies[place], passes/2)
		}
		interleaved, ok := g.searchAllocation(bodies)
		if !ok || interleaved.bodyCode.Cost > float64(passes)*maxPassCost {
			interleaved.free()
			return
		}
		g.frame.free()
		g.frame, g.interleavedPasses = interleaved, passes
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
