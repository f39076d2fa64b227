package gemm

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
)

// Replay replays the recorded machine-code calls of a matrix product. A replay avoids the computation of addresses,
// which takes a considerable part of the time of Plan.Run for small products. The plan records the calls once, as
// offsets from the operands. Before each product, [Plan.PrepareReplay] sets the addresses of the operands. Then
// [Replay.Run] or [Plan.RunReplay] executes the calls. A Replay belongs to one goroutine and must not be copied.
type Replay struct {
	args  jit.Args
	calls *recordedCalls
}

// recordedMACs is the maximum number of multiplications of a product whose calls are recorded. In larger products, the
// cost of computing addresses is negligible.
const recordedMACs = 1 << 24

// recordedCalls has the recorded calls of a product.
type recordedCalls struct {
	terms                          int // terms of K
	inRow, inTerm, vecTerm, outRow int // strides in bytes, equal for all calls; see the constants of package tile
	hasBias                        bool
	tiles                          [][]call // the calls of each tile of the plan
}

// call is a recorded call of machine code. It has offsets in bytes from the addresses of the operands.
type call struct {
	code                     *jit.Func
	tiles                    int // number of adjacent register tiles
	in, vec, out, bias       int // offsets from A, B, C and the bias
	prefetched               int // offset of the prefetched panel from B
	inTile, vecTile, outTile int // steps from register tile to register tile
	lastLanes                int // number of lanes of the last vector
}

// callOf records a call with the given arguments. args.Rows is the number of register tiles.
func callOf(code *jit.Func, args *jit.Args) call {
	return call{code: code, tiles: args.Rows, in: args.Row[tile.In], vec: args.Row[tile.Vec], out: args.Row[tile.Out],
		bias: args.Row[tile.FirstEpilogueOperand], prefetched: args.Row[tile.Prefetched],
		inTile: args.Step[tile.InTile], vecTile: args.Step[tile.VecTile],
		outTile: args.Step[tile.OutTile], lastLanes: args.Step[tile.LastLanes]}
}

// recordCalls records the calls of a small product whose operands and bias are read in place. It runs the code that
// computes addresses, without executing the calls.
func (p *Plan) recordCalls() {
	spec := &p.spec
	isLarge := spec.M*spec.N > recordedMACs/spec.K
	// Calls are recorded only if there is one block of K, and no packing, copy of the bias, temporary tile or prefetched
	// result.
	packs := p.a.createsPanels() || p.b.createsPanels() || p.b.convertedOnce
	copiesBias := spec.Bias != NoBias && spec.BiasStride != 1
	usesTemporary, hasSeveralBlocks := spec.CColStride != 1, p.kc < spec.K
	if isLarge || packs || copiesBias || usesTemporary || hasSeveralBlocks || p.prefetchResultInLoop {
		return
	}
	scratch := make([]byte, p.worker.totalBytes+1) // not empty; its address does not matter: only offsets are recorded
	base := unsafe.Pointer(unsafe.SliceData(scratch))
	memory := operandMemory{operand: base}
	run := execution{Plan: p, memoryA: memory, memoryB: memory, ptrC: base, worker: base}
	state := tileState{execution: &run, kc: spec.K, isFirstBlock: true} // not isLastBlock: RunReplay calls the epilogue
	var a, b operandView                                                // read in place: no packed panels, no PackFunc
	run.locate(&a, &p.a, &run.memoryA, nil, operandPart{0, spec.K, 0, spec.M})
	run.locate(&b, &p.b, &run.memoryB, nil, operandPart{0, spec.K, 0, spec.N})
	var args jit.Args
	recorded := &recordedCalls{tiles: make([][]call, p.Tiles(0)), hasBias: spec.Bias != NoBias}
	for i := range recorded.tiles {
		state.recordedTo = &recorded.tiles[i] // computePanels appends calls to recordedTo instead of executing them
		i0, i1, j0, j1 := p.tile(computeAll, i)
		state.computePanels(&args, &a, &b, i0, i1, j0, j1)
	}
	recorded.terms, recorded.outRow = args.InnerCount, args.Step[tile.OutRow]
	recorded.inRow, recorded.inTerm = args.Step[tile.InRow], args.Step[tile.InTerm]
	recorded.vecTerm = args.Step[tile.VecTerm]
	p.recorded = recorded
}

// PrepareReplay prepares replay to compute the product with args. The addresses in args may differ in each call. It
// returns false if the plan has no recorded calls, because the product is large or packs operands. In this case, only
// Plan.Run can compute the product.
func (p *Plan) PrepareReplay(replay *Replay, args *Args) bool {
	recorded, callArgs := p.recorded, &replay.args
	if recorded == nil {
		return false
	}
	if replay.calls != recorded {
		replay.calls, callArgs.InnerCount = recorded, recorded.terms
		callArgs.Step[tile.InRow], callArgs.Step[tile.InTerm] = recorded.inRow, recorded.inTerm
		callArgs.Step[tile.VecTerm], callArgs.Step[tile.OutRow] = recorded.vecTerm, recorded.outRow
	}
	a, b := args.A, args.B
	if p.swapped {
		a, b = b, a
	}
	callArgs.Ptr[tile.In], callArgs.Ptr[tile.Vec], callArgs.Ptr[tile.Out] = a, b, args.C
	callArgs.Ptr[tile.Prefetched] = b
	if recorded.hasBias {
		callArgs.Ptr[tile.FirstEpilogueOperand] = args.Bias
	}
	return true
}

// Run computes the product of the current contents of the operands.
func (r *Replay) Run() {
	for i := range r.calls.tiles {
		r.runTile(i)
	}
}

// runTile computes tile i of the plan.
func (r *Replay) runTile(i int) {
	args := &r.args
	for k := range r.calls.tiles[i] {
		recorded := &r.calls.tiles[i][k]
		args.Rows, args.Step[tile.LastLanes] = recorded.tiles, recorded.lastLanes
		args.Row[tile.In], args.Row[tile.Vec], args.Row[tile.Out] = recorded.in, recorded.vec, recorded.out
		args.Row[tile.FirstEpilogueOperand], args.Row[tile.Prefetched] = recorded.bias, recorded.prefetched
		args.Step[tile.InTile], args.Step[tile.VecTile], args.Step[tile.OutTile] = recorded.inTile, recorded.vecTile,
			recorded.outTile
		if err := recorded.code.Call(args); err != nil {
			panic(err) // cannot happen: a call fails only before its code is linked, and the plan has linked it
		}
	}
}

// RunReplay computes one tile, as Plan.Run does. A plan with recorded calls has a single phase. PrepareReplay must
// have prepared r with args.
func (p *Plan) RunReplay(r *Replay, tile int, args *Args) {
	r.runTile(tile)
	if epilogue := args.Epilogue; epilogue != nil {
		i0, i1, j0, j1 := p.tile(computeAll, tile)
		if p.swapped {
			i0, i1, j0, j1 = j0, j1, i0, i1
		}
		epilogue(i0, i1, j0, j1)
	}
}

// Release drops the references to the operands.
func (r *Replay) Release() {
	args := &r.args
	args.Ptr[tile.In], args.Ptr[tile.Vec], args.Ptr[tile.Out], args.Ptr[tile.Prefetched] = nil, nil, nil, nil
	args.Ptr[tile.FirstEpilogueOperand] = nil
}
