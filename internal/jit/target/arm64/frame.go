package arm64

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/tensor"
)

// generator generates the code of a loop. Pointers are numbered: those of the loop, then the accumulators of folds with
// totals, then the row counter.
type generator struct {
	*selector
	w         writer
	registers int // number of vector registers that may be used

	tail          *pass        // pass of the rest loop; its widest value fills one register
	start, finish []alloc.Inst // see totals
	slots         int          // number of slots of the spill area that pointers and accumulators occupy
	accOffset     []int        // by fold with a total: offset of its accumulators in the spill area
	frame
	work jit.Work
}

// frame is the result of the allocation of registers: the registers of values, and the allocated lists.
type frame struct {
	body       *pass
	permanent  []int8 // by Virt: its permanent register, or -1
	accsInRegs bool
	firstAcc   int // the first register of accumulators

	row, main, rest      *alloc.Result // row constants, a pass of the main loop, and a pass of the rest loop
	loads, saves         *alloc.Result // loads and stores of accumulator registers
	accStarts, accTotals *alloc.Result // see totals

	cost float64 // estimated number of instructions that spills add to a pass
}

// spillSlots is the number of vectors in the spill area.
const spillSlots = jit.SpillBytes / vectorBytes

// minPool is the minimum number of vector registers that remain for the values of a pass.
const minPool = 4

// Bounds on the numbers of elements and instructions of a pass. If a value has several registers, the latencies of
// instructions on its parts overlap.
const (
	passParts  = 4
	passLength = 400
)

// layOut selects instructions and assigns registers and memory.
func (g *generator) layOut() error {
	g.layOutPointers()
	widest := 1
	for v := range g.loop.Insts {
		if i := &g.loop.Insts[v]; i.Op != lane.Store {
			widest = max(widest, i.Type.Size())
		}
	}
	var err error
	if g.tail, err = g.pass(vectorBytes / widest); err != nil {
		return err
	}
	if g.loop.Totals {
		g.start, g.finish = g.totals()
	}
	g.chooseLanes()
	if g.main == nil {
		return target.Unsupported("too many live values")
	}
	return nil
}

// chooseLanes chooses the number of elements of a pass of the main loop: the greatest number with few spills, or the
// number with the least cost of an element.
func (g *generator) chooseLanes() {
	best := math.Inf(1)
	var chosen frame
	for n := min(passParts*g.tail.lanes, lane.FoldLanes); n >= g.tail.lanes; n /= 2 {
		p := g.tail
		if n > g.tail.lanes {
			var err error
			if p, err = g.pass(n); err != nil || p.length > passLength {
				continue
			}
		}
		f := g.search(p)
		if f.main == nil {
			continue
		}
		perElement := (f.cost + float64(f.main.Length)) / float64(n)
		fewSpills := f.cost <= float64(p.length)/6
		if fewSpills || perElement < best {
			best, chosen = perElement, f
		}
		if fewSpills {
			break
		}
	}
	g.frame = chosen
}

// search allocates registers with different numbers of row constants in permanent registers, from all down, and returns
// the cheapest frame. It stops after three attempts that found nothing cheaper. The list main of the frame is nil if
// every attempt failed.
func (g *generator) search(p *pass) (best frame) {
	best.cost = math.Inf(1)
	lists := [][]alloc.Inst{p.inMem, g.tail.inMem, p.inRegs, p.loads, p.saves, g.start, g.finish}
	row := g.Row
	g.Builder.Body = nil
	g.Prune(lists...)
	constants := g.RowConstants(lists...)
	worse := 0
	for n := len(constants); n >= 0 && best.cost > 0 && worse < 3; n -= 1 + n/8 {
		f := frame{body: p}
		switch ok := g.attempt(&f, constants[:n], constants, best.cost); {
		case ok:
			best, worse = f, 0
		case best.main != nil:
			worse++
		}
	}
	g.Row = row
	return best
}

// attempt allocates registers. The row constants `permanent` get permanent registers. Other row constants get slots,
// unless they can be loaded again. It reports false if the allocation fails, or if its cost is not below limit.
func (g *generator) attempt(f *frame, permanent, constants []alloc.Virt, limit float64) bool {
	if len(permanent) > g.registers-minPool {
		return false
	}
	file := alloc.File{Permanent: make([]int8, len(g.Values)), PermanentSlot: make([]int16, len(g.Values)),
		ReservedSlots: g.slots}
	for v := range file.Permanent {
		file.Permanent[v], file.PermanentSlot[v] = -1, -1
	}
	for k, v := range permanent {
		file.Permanent[v] = int8(k)
	}
	for _, v := range constants[len(permanent):] {
		if x := &g.Values[v]; x.Reload == nil || !x.Constant {
			file.PermanentSlot[v] = int16(file.ReservedSlots)
			file.ReservedSlots++
		}
	}
	f.permanent, f.firstAcc = file.Permanent, len(permanent)
	accRegs := f.body.accs * g.setsOf(f.body)
	f.accsInRegs = accRegs > 0 && accRegs <= g.registers/2 && f.firstAcc+accRegs <= g.registers-minPool
	file.Pool[alloc.Vectors] = uint32(1<<g.registers - 1<<f.firstAcc)
	rest := file
	list := f.body.inMem
	if f.accsInRegs {
		list = f.body.inRegs
		file.Pool[alloc.Vectors] = uint32(1<<g.registers - 1<<(f.firstAcc+accRegs))
	}
	run := func(file *alloc.File, list []alloc.Inst, p alloc.Policy) (r *alloc.Result, ok bool) {
		r = alloc.Run(g.Values, file, list, p)
		return r, r.Err == nil && r.Slots <= spillSlots
	}
	var ok [7]bool
	if f.main, ok[0] = run(&file, list, alloc.Policy{Limit: limit}); !ok[0] || f.main.Cost >= limit {
		return false
	}
	f.row, ok[1] = run(&file, g.Row, alloc.Policy{OncePerRow: true, Preload: constants})
	f.rest, ok[2] = run(&rest, g.tail.inMem, alloc.Policy{})
	f.loads, ok[3] = run(&file, f.body.loads, alloc.Policy{})
	f.saves, ok[4] = run(&file, f.body.saves, alloc.Policy{})
	f.accStarts, ok[5] = run(&rest, g.start, alloc.Policy{})
	f.accTotals, ok[6] = run(&rest, g.finish, alloc.Policy{})
	f.cost = f.main.Cost
	return ok == [7]bool{true, true, true, true, true, true, true}
}

// setsOf returns the number of sets of accumulator registers of a pass. There is a set for each pass of an iteration of
// the main loop.
func (g *generator) setsOf(p *pass) int {
	if len(g.loop.Folds) == 0 {
		return 1
	}
	return lane.FoldLanes / p.lanes
}

// accPointer returns the number of the pointer to the accumulators of fold k with a total.
func (g *generator) accPointer(k int) int { return len(g.loop.Ptrs) + k }

// rowCounter returns the number of the pointer that counts the rows that are left.
func (g *generator) rowCounter() int { return len(g.w.baseOf) - 1 }

// layOutPointers assigns registers to pointers, first to the pointers that advance along rows, and the first slots of
// the spill area to other pointers and to the accumulators of totals.
func (g *generator) layOutPointers() {
	n := len(g.loop.Ptrs) + 1
	if g.loop.Totals {
		n += len(g.loop.Folds)
	}
	g.w.baseOf = make([]int8, n)
	next := 0
	for _, advances := range []bool{true, false} {
		for k := range n {
			if (g.elementBytes(k) > 0) != advances {
				continue
			}
			if g.w.baseOf[k] = -1; next < len(bases) {
				g.w.baseOf[k] = int8(next)
				next++
			} else {
				g.slots = max(g.slots, (8*k+8+vectorBytes-1)/vectorBytes)
			}
		}
	}
	for k := range g.loop.Folds {
		if g.loop.Totals {
			g.accOffset = append(g.accOffset, vectorBytes*g.slots)
			g.slots += lane.FoldLanes * g.loop.Type(g.loop.Folds[k].V).Size() / vectorBytes
		}
	}
}

// elementBytes returns the number of bytes by which an element of a row advances pointer k, or 0.
func (g *generator) elementBytes(k int) int {
	if fold := k - len(g.loop.Ptrs); fold >= 0 {
		if g.loop.Totals && fold < len(g.loop.Folds) {
			return g.loop.Type(g.loop.Folds[fold].V).Size()
		}
		return 0
	}
	switch p := g.loop.Ptrs[k]; {
	case p.Kind == lane.RowOperand, p.D == tensor.Invalid, p.Kind == lane.Accumulator && g.loop.Totals:
		return 0
	default:
		return p.D.Size()
	}
}

// accumulates reports whether pointer k points to accumulators, which passes of the main loop do not advance.
func (g *generator) accumulates(k int) bool {
	return k >= len(g.loop.Ptrs) || g.loop.Ptrs[k].Kind == lane.Accumulator
}
