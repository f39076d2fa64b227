package arm64

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/lane"
)

// generator generates the code of a loop over rows. A pass is the code for a fixed number of adjacent elements of a row
// (lanes); type pass has its instructions. The main loop has a long pass, and the tail loop a short one. A value of a
// pass occupies one or more vector registers. Some values are special:
//
//   - A row constant is computed once per row.
//   - An accumulator holds intermediate results of a fold, a reduction of a row. Each fold has lane.FoldLanes (32)
//     accumulators. They are operands in memory. In a loop with totals (lane.Loop.CombinesLanes), they are in the spill
//     area, and are combined to one number for each row. The main loop may keep them in registers.
//
// The steps are layOutFrame, which chooses the number of lanes and assigns registers, and emit (rows.go), which writes
// the code. For example, with two row constants and a fold of float32, a pass of 16 lanes may have this frame:
//
//	V0 and V1     row constants
//	V2 to V9      32 accumulators
//	V10 to V31    other values of a pass
type generator struct {
	*selector        // selects instructions (selectPass); has Builder.Row, the instructions that compute row constants
	out       writer // writes instructions
	registers int    // number of vector registers that may be used

	tailPass           *pass        // pass of the tail loop: its widest value fills one register
	accInit, accFinish []alloc.Inst // with totals, instructions before and after the passes of a row; see selectTotals
	pointers           []pointer    // the addresses that the code keeps (pointers.go)
	slotCount          int          // number of slots of the spill area that pointers and accumulators occupy
	frame                           // the best frame; chooseLanes sets it
	work               jit.Work     // bound on the number of executed instructions
}

// frame is the result of an allocation of registers.
type frame struct {
	mainPass         *pass  // pass of the main loop
	permanent        []int8 // by Virt (virtual register): its permanent register, or -1
	firstAccRegister int    // the first register after the permanent ones
	accsInRegisters  bool   // in the main loop, the accumulators are in registers, from firstAccRegister on

	// Lists of instructions with assigned registers.
	rowCode, mainCode, tailCode *alloc.Result // row constants, a pass of the main loop, and a pass of the tail loop
	accLoadCode, accStoreCode   *alloc.Result // loads and stores of accumulator registers
	accInitCode, accFinishCode  *alloc.Result // the code of generator.accInit and accFinish
}

// spillSlots is the number of slots in the spill area. A slot is memory for one vector.
const spillSlots = jit.SpillBytes / vectorBytes

// minPool is the minimum number of vector registers that remain for the values of a pass.
const minPool = 4

// Bounds of a pass of the main loop.
const (
	maxParts  = 4   // registers of a value; the latencies of instructions on different registers overlap
	maxLength = 400 // instructions
)

// layOutFrame selects instructions and assigns registers and memory.
func (g *generator) layOutFrame() error {
	g.layOutPointers()
	widestBytes := 1
	for v := range g.loop.Insts {
		if inst := &g.loop.Insts[v]; inst.Op != lane.Store {
			widestBytes = max(widestBytes, inst.Type.Size())
		}
	}
	var err error
	if g.tailPass, err = g.selectPass(vectorBytes / widestBytes); err != nil {
		return err
	}
	if g.loop.CombinesLanes {
		g.accInit, g.accFinish = g.selectTotals()
	}
	g.chooseLanes()
	if g.mainCode == nil {
		return target.Unsupported("too many values are live at the same time")
	}
	return nil
}

// chooseLanes sets the frame for the best number of lanes of the main loop: the greatest number that causes few spills
// (at most one for six instructions). If there is no such number, it is the number with the lowest cost per element.
func (g *generator) chooseLanes() {
	bestCost := math.Inf(1) // per element
	var chosen frame
	for lanes := min(maxParts*g.tailPass.lanes, lane.FoldLanes); lanes >= g.tailPass.lanes; lanes /= 2 {
		candidate := g.tailPass
		if lanes > g.tailPass.lanes {
			var err error
			if candidate, err = g.selectPass(lanes); err != nil || candidate.length > maxLength {
				continue
			}
		}
		layout := g.searchAllocation(candidate)
		if layout.mainCode == nil {
			continue
		}
		spillCost := layout.mainCode.Cost // estimated number of instructions that spills add to the pass
		cost := (spillCost + float64(layout.mainCode.InstructionCount)) / float64(lanes)
		hasFewSpills := spillCost <= float64(candidate.length)/6
		if hasFewSpills || cost < bestCost {
			bestCost, chosen = cost, layout
		}
		if hasFewSpills {
			break
		}
	}
	g.frame = chosen
}

// searchAllocation allocates registers several times and returns the frame with the lowest cost. The first attempt
// assigns permanent registers to all row constants, and each further attempt to about an eighth fewer. The search ends
// after three successive attempts without improvement, or at cost 0. mainCode of the result is nil if every attempt
// failed.
func (g *generator) searchAllocation(mainPass *pass) (best frame) {
	// A pass has two lists: memoryInsts with the accumulators in memory, and registerInsts with them in registers.
	lists := [][]alloc.Inst{mainPass.memoryInsts, g.tailPass.memoryInsts, mainPass.registerInsts, mainPass.accLoads,
		mainPass.accStores, g.accInit, g.accFinish}
	allRow := g.Row      // restored below: Prune removes instructions from Row whose results these lists do not use
	g.Builder.Body = nil // its instructions are in the lists
	g.Prune(lists...)
	rowConstants := g.RowConstants(lists...) // in descending order of their number of uses
	bestCost, withoutGain := math.Inf(1), 0  // withoutGain: number of attempts since the best one
	for count := len(rowConstants); count >= 0 && bestCost > 0 && withoutGain < 3; count -= 1 + count/8 {
		if layout, ok := g.tryAllocation(mainPass, rowConstants, count, bestCost); ok {
			best, bestCost, withoutGain = layout, layout.mainCode.Cost, 0
		} else if best.mainCode != nil {
			withoutGain++
		}
	}
	g.Row = allRow
	return best
}

// tryAllocation allocates registers. The first permanentCount row constants get permanent registers. ok is false if the
// allocation fails, or if its cost is not below costLimit.
func (g *generator) tryAllocation(mainPass *pass, rowConstants []alloc.Virt, permanentCount int,
	costLimit float64) (layout frame, ok bool) {
	if permanentCount > g.registers-minPool {
		return frame{}, false
	}
	file := g.placeRowConstants(rowConstants[:permanentCount], rowConstants[permanentCount:])
	layout = frame{mainPass: mainPass, permanent: file.Permanent, firstAccRegister: permanentCount}
	file.Pool[alloc.Vectors] = g.registersFrom(permanentCount) // the registers for all other values
	tailFile, mainInsts := file, mainPass.memoryInsts
	accRegisters := mainPass.accCount * g.passCountOf(mainPass)
	afterAccs := permanentCount + accRegisters
	leavesRegisters := accRegisters <= g.registers/2 && afterAccs <= g.registers-minPool
	layout.accsInRegisters = accRegisters > 0 && leavesRegisters
	if layout.accsInRegisters { // in the main loop only: the tail loop has accumulators in memory
		mainInsts = mainPass.registerInsts
		file.Pool[alloc.Vectors] = g.registersFrom(afterAccs)
	}
	ok = true
	allocate := func(registerFile *alloc.RegisterFile, list []alloc.Inst, policy alloc.Policy) *alloc.Result {
		result := alloc.Run(g.Values, registerFile, list, policy)
		ok = ok && result.Err == nil && result.Slots <= spillSlots
		return result
	}
	layout.mainCode = allocate(&file, mainInsts, alloc.Policy{CostLimit: costLimit})
	if !ok || layout.mainCode.Cost >= costLimit {
		return frame{}, false
	}
	layout.rowCode = allocate(&file, g.Row, alloc.Policy{OncePerRow: true, Preload: rowConstants})
	layout.tailCode = allocate(&tailFile, g.tailPass.memoryInsts, alloc.Policy{})
	layout.accLoadCode = allocate(&file, mainPass.accLoads, alloc.Policy{})
	layout.accStoreCode = allocate(&file, mainPass.accStores, alloc.Policy{})
	layout.accInitCode = allocate(&tailFile, g.accInit, alloc.Policy{})
	layout.accFinishCode = allocate(&tailFile, g.accFinish, alloc.Policy{})
	return layout, ok
}

// registersFrom returns the bit set of the usable vector registers from number `first` on.
func (g *generator) registersFrom(first int) uint32 { return uint32(1<<g.registers - 1<<first) }

// placeRowConstants returns a register file in which some row constants have permanent registers, from 0 on. The others
// have permanent slots, except for constants that a load from memory can restore. The caller sets the field Pool.
func (g *generator) placeRowConstants(inRegisters, others []alloc.Virt) alloc.RegisterFile {
	file := alloc.RegisterFile{Permanent: make([]int8, len(g.Values)), PermanentSlot: make([]int16, len(g.Values)),
		ReservedSlots: g.slotCount}
	for v := range file.Permanent {
		file.Permanent[v], file.PermanentSlot[v] = -1, -1
	}
	for k, v := range inRegisters {
		file.Permanent[v] = int8(k)
	}
	for _, v := range others {
		if value := &g.Values[v]; value.Reload == nil || !value.Constant {
			file.PermanentSlot[v] = int16(file.ReservedSlots)
			file.ReservedSlots++
		}
	}
	return file
}

// passCountOf returns the number of passes p in an iteration of the main loop. An iteration combines one element with
// each accumulator, and each of its passes has its own set of accumulator registers: 32 accumulators take two passes of
// 16 elements.
func (g *generator) passCountOf(p *pass) int {
	if len(g.loop.Folds) == 0 {
		return 1
	}
	return lane.FoldLanes / p.lanes
}
