package graph

import (
	"cmp"
	"math"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the defaults of [Impl.Work] and [Impl.Read], which count bytes and operations. A walk is an order of
// the loops of a call, and the layouts of its results. An inner kernel is a kind of operation; its unit has a price in
// cost profiles. For example, consider an op with one float32 operand of 1,000 elements and a float32 result, and
// without Pricing, Flops and FlopsPerElement. Its work is one step, 8,000 bytes, and 1,000 units of the inner kernel
// GoSimple. AddUnits adds units that overlap with memory accesses. AddUnoverlapped adds other units.

// Pricing computes the work of implementations whose field Work or Read is nil. A method returns false for a call that
// it does not price. In this case, [Op.CountedWork] or [ReadWork] is used.
type Pricing interface {
	// Work replaces [Impl.Work]: it returns the work of the call with the walk.
	Work(call *Call, walk Walk) (work pricing.Work, ok bool)
	// Read replaces [Impl.Read]: it returns the additional work for operand i in layout meta.
	Read(call *Call, walk Walk, i int, meta tensor.Meta) (work pricing.Work, ok bool)
}

// defaultWork is the default of [Impl.Work].
func (op *Op) defaultWork(call *Call, walk Walk) pricing.Work {
	if op.Pricing != nil {
		if work, ok := op.Pricing.Work(call, walk); ok {
			return work
		}
	}
	return op.CountedWork(call)
}

// defaultRead is the default of [Impl.Read], for an implementation that reads operands in any layout.
func (op *Op) defaultRead(call *Call, walk Walk, i int, meta tensor.Meta) (pricing.Work, bool) {
	if len(call.Out) == 0 {
		return pricing.Work{}, true
	}
	if op.Pricing != nil {
		if work, ok := op.Pricing.Read(call, walk, i, meta); ok {
			return work, true
		}
	}
	return ReadWork(meta, walk.ResultLayout(0, call.Out[0])), true
}

// CountedWork computes the work of a call from its bytes and from the op's Flops or FlopsPerElement. The call is one
// step. CountedWork is the default for an implementation without Work if the op has no Pricing, or if its Pricing
// returns false for the call.
func (op *Op) CountedWork(call *Call) (work pricing.Work) {
	work.StartedSteps = 1
	call.AddStreamed(&work)
	if len(call.Out) == 0 {
		return work
	}
	if op.Flops != nil {
		work.Flops = op.Flops(call)
		work.AddUnits(cmp.Or(op.FlopKernel, Flop), work.Flops)
		return work
	}
	elements := call.Elements()
	perElement := op.operationsPerElement()
	work.AddUnits(GoSimple, elements*perElement.Simple)
	work.AddUnits(GoFunction, elements*perElement.Function)
	work.Flops = elements * (perElement.Simple + perElement.Function)
	return work
}

// AddStreamed adds the work of reading all operands and writing all results once, in the order of memory. Bytes of
// constants above smallConstBytes are counted as DenseConstants, all other bytes as Dense.
func (c *Call) AddStreamed(work *pricing.Work) {
	if c == nil || work == nil {
		return
	}
	for i, a := range c.In {
		if a.Kind != TensorArg {
			continue
		}
		meta := a.Meta()
		if bytes := float64(meta.Numel() * meta.DType.Size()); c.IsConstant(i) && bytes > smallConstBytes {
			work.Bytes[pricing.DenseConstants] += bytes
		} else {
			work.Bytes[pricing.Dense] += bytes
		}
	}
	for _, meta := range c.Out {
		work.Bytes[pricing.Dense] += float64(meta.Bytes())
	}
}

// smallConstBytes is the maximum size of a constant that is assumed to be in a cache, such as a bias or a scale.
const smallConstBytes = 16 << 10

// Elements returns the maximum of two numbers: the elements of the first result, and the elements of the first operand.
func (c *Call) Elements() float64 {
	if len(c.Out) == 0 {
		return 0
	}
	elements := c.Out[0].Numel()
	if len(c.In) > 0 {
		elements = max(elements, c.Meta(0).Numel())
	}
	return float64(elements)
}

// operationsPerElement returns the op's FlopsPerElement. The default is one function for a pointwise op with a small
// grain, one simple operation for any other op, and nothing for an op with Flops.
func (op *Op) operationsPerElement() ElementFlops {
	switch p := op.Pointwise; {
	case op.FlopsPerElement != ElementFlops{} || op.Flops != nil:
		return op.FlopsPerElement
	case p != nil && p.Grain > 0 && p.Grain <= functionGrain:
		return ElementFlops{Function: 1}
	}
	return ElementFlops{Simple: 1}
}

// functionGrain distinguishes pointwise ops that compute functions such as exp from cheaper ops. A function takes some
// nanoseconds per element, so a chunk of such an op needs only few elements: its [Pointwise.Grain] is at most
// functionGrain.
const functionGrain = machine.MoveGrain / 4

// AddRunStartWork adds the work of starting the runs of a loop that writes a result of layout meta, if there are
// several runs. A run is a sequence of elements in which each broadcast operand is constant ([LoopRun]).
func (c *Call) AddRunStartWork(work *pricing.Work, meta tensor.Meta) {
	if work == nil || len(meta.Strides) != len(meta.Shape) { // the layout is unknown
		return
	}
	if runs := c.runCount(meta); runs > 1 {
		// all runs have the same number of bytes
		addRunStarts(work, runs, float64(meta.Bytes())/runs)
		work.AddUnoverlapped(LoopBroadcast, 1)
	}
}

// runCount returns the number of runs of a loop that writes a result of layout meta. A run extends over the fastest
// dimensions of the result. Each operand must be broadcast along all dimensions of a run, or along none of them. Under
// this condition, a run is as long as possible. A row-major sum of [8, 5, 5] and [8, 1, 1], for example, has 8 runs of
// 25 elements.
func (c *Call) runCount(meta tensor.Meta) float64 {
	dims := make([]int, 0, meta.Rank())
	for d, size := range meta.Shape {
		if size > 1 {
			dims = append(dims, d)
		}
	}
	sorted.Func(dims, func(a, b int) int { return meta.Strides[a] - meta.Strides[b] }) // fastest first
	runLength := 1
	for i, d := range dims {
		if i > 0 && !c.broadcastAlike(dims[i-1], d, meta.Rank()) {
			break
		}
		runLength *= meta.Shape[d]
	}
	return float64(meta.Numel()) / float64(max(1, runLength))
}

// broadcastAlike reports whether each operand is broadcast either along both dimensions a and b or along neither. rank
// is the rank of the result.
func (c *Call) broadcastAlike(a, b, rank int) bool {
	for _, operand := range c.In {
		if operand.Kind != TensorArg {
			continue
		}
		if shape := operand.Meta().Shape; isBroadcast(shape, a, rank) != isBroadcast(shape, b, rank) {
			return false
		}
	}
	return true
}

// isBroadcast reports whether an operand is broadcast along dimension d of the result. shape is the shape of the
// operand, and rank is the rank of the result.
func isBroadcast(shape []int, d, rank int) bool {
	d -= rank - len(shape) // shapes are aligned at their last dimensions
	return d < 0 || d < len(shape) && shape[d] == 1
}

// addRunStarts adds the work of starting runs. Each run has the given number of bytes.
func addRunStarts(work *pricing.Work, runs, bytes float64) {
	if math.Mod(bytes, machine.LineBytes) == 0 {
		runs *= wholeLinesPriceRatio
	}
	work.AddUnoverlapped(LoopRun, runs)
}

// wholeLinesPriceRatio is the price of starting a run of whole cache lines, relative to the price of starting any other
// run. It is less than 1 because such a run needs no partial vector.
const wholeLinesPriceRatio = .15

// ReadWork returns the additional work of reading an operand of layout meta in loops that write a result of the given
// layout. The caller adds it to the work of reading each byte once in the order of the loops. If the fastest dimensions
// of operand and result differ, the operand is transposed block by block. If its elements are not contiguous, it is
// read with strides. If the operand's contiguous runs are shorter than the runs of the result, as in a slice of each
// row, each run begins without prefetched lines. If there are no elements, the work is zero. For example, with a
// row-major result:
//
//	a transposed operand, strides [1, 100]                       Tiled
//	every second column of a matrix, strides [200, 2]            Strided
//	the first 8 columns of a matrix, strides [100, 1]            Copied, for the gaps between runs of 8
func ReadWork(meta, result tensor.Meta) (work pricing.Work) {
	extent := meta.Extent()
	if result.Extent() == 0 { // there are no elements; Extent panics if strides are missing
		return work
	}
	// bytes counts the bytes that are read: repeated elements once, and gaps between elements not at all.
	bytes := float64(min(meta.Bytes(), extent*meta.DType.Size()))
	fastest := Fastest(meta)
	// -bytes cancels the read in the order of the loops, which the caller counts.
	switch {
	case meta.Rank() == result.Rank() && fastest != Fastest(result):
		work.Bytes[pricing.Tiled], work.Bytes[pricing.Dense] = 2*bytes, -bytes // a transpose reads and writes each byte
		work.AddUnits(LoopTransposed, float64(meta.Numel()))
	case fastest >= 0 && meta.Strides[fastest] > 1:
		work.Bytes[pricing.Strided], work.Bytes[pricing.Dense] = bytes, -bytes
	case meta.Rank() == result.Rank():
		if runs := runsOf(meta, result); runs > 1 {
			addRunStarts(&work, runs, bytes/runs)
			work.Bytes[pricing.Copied] = gapPriceRatio * min(float64(extent*meta.DType.Size()), runs*pageBytes)
		}
	}
	return work
}

const (
	// gapPriceRatio is the price of each byte of the operand's extent (runs and gaps), relative to a copied byte. A gap
	// has a price because the processor's prefetching stops at the end of a run. At most pageBytes for each run are
	// counted, because prefetching also stops at the end of a page.
	gapPriceRatio = .75
	// pageBytes is the size of a memory page.
	pageBytes = 4096
)

// runsOf returns the number of runs in an operand of layout meta. A run is a maximal sequence of elements that are
// contiguous in both the operand and the result. runsOf returns 0 if the numbers of elements differ, or if the
// operand repeats elements.
func runsOf(meta, result tensor.Meta) float64 {
	length, total := 1, meta.Numel()
	if total != result.Numel() {
		return 0
	}
	// length is the length of the runs along the dimensions found so far. The next dimension of a run must have the
	// stride `length` in both layouts. If there is no such dimension, the runs end.
	for length < total {
		next := -1
		for dim, size := range meta.Shape {
			if size > 1 && meta.Strides[dim] == 0 {
				return 0
			}
			if size > 1 && meta.Strides[dim] == length && result.Strides[dim] == length {
				next = dim
			}
		}
		if next < 0 {
			return float64(total) / float64(length)
		}
		length *= meta.Shape[next]
	}
	return 1
}

// Fastest returns the dimension with the smallest positive stride among the dimensions of size over 1, or -1 if there
// is none.
func Fastest(meta tensor.Meta) int {
	best := -1
	if len(meta.Strides) != len(meta.Shape) {
		return best
	}
	for dim, size := range meta.Shape {
		if size > 1 && meta.Strides[dim] > 0 && (best < 0 || meta.Strides[dim] < meta.Strides[best]) {
			best = dim
		}
	}
	return best
}

// The names of the inner kernels of loops in profiles.
const (
	LoopSimple     = "loop.simple"     // an instruction of a compiled loop on an element of up to 32 bits
	LoopDivide     = "loop.divide"     // a division or a square root of an element
	LoopRun        = "loop.run"        // a run of elements in which a broadcast operand is constant
	LoopBroadcast  = "loop.broadcast"  // the start of a loop of several of these runs
	LoopTransposed = "loop.transposed" // an element of an operand that a loop reads in transposed tiles

	// Loops that fold rows in one pass.
	FoldElement    = "fold.element"    // an element that is folded
	FoldSimple     = "fold.simple"     // an instruction on an element
	FoldRow        = "fold.row"        // the start of a row, in a loop along rows
	FoldRun        = "fold.run"        // the start of a run of adjacent columns, in a loop along columns
	FoldTail       = "fold.tail"       // the last elements of a row, if they do not fill a register
	FoldBegin      = "fold.begin"      // the start of a fold
	FoldTransposed = "fold.transposed" // an element of an operand that is transposed first

	// Loops that fold rows in several passes, because a fold depends on another fold.
	MultipassElement = "multipass.element"
	MultipassSimple  = "multipass.simple"
	MultipassRow     = "multipass.row"
	MultipassRun     = "multipass.run"
	MultipassTail    = "multipass.tail"
	MultipassBegin   = "multipass.begin"

	Flop       = "flop"        // an arithmetic operation of an op that states the number of operations (Flops)
	GoSimple   = "go.simple"   // an operation in Go code of an op
	GoFunction = "go.function" // a function, such as exp, in Go code of an op
	GoLoop     = "go.loop"     // an instruction of an interpreted loop
)

// Rate is an inner kernel that has a price in cost profiles. Each family of ops lists its rates. The price of a unit
// follows from the measured times of Calls, after the time of all other work of these calls is subtracted.
type Rate struct {
	Name  string // the name of the kernel in Work and in profiles: "gemm.f32"
	Unit  string // the unit that is priced: "a multiplication and an addition"
	Calls []RateCall
}

// RateCall is a call whose measured time determines the price of an inner kernel.
type RateCall struct {
	Op    string
	Attrs Attrs
	In    []tensor.Meta // layouts of the operands; dtype Invalid for an absent operand
	// Constant lists the indices of the operands that are constants, which are packed.
	Constant []int
	Impl     string // the name of the implementation; empty means the cheapest
	// Make, if set, adds several nodes to g in place of one node of Op. The planner treats these nodes like the nodes of a
	// network, so that they share a loop if possible.
	Make func(g *Graph, in []any) []*Value
}
