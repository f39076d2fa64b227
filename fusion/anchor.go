package fusion

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file derives the op of a fused node from the op of its anchor, a product or a convolution. The fused node,
// called the whole in this file, computes the anchor and then an epilogue: an expression that is applied to each
// element of the anchor's result. The operands of the whole are the operands of the anchor, followed by the operands of
// the epilogue. One result of the whole is the carrier (see carrierResult). The memory of the carrier holds the
// anchor's result until the epilogue overwrites it. For example, relu(conv(x, w) + skip) is one node:
//
//	operands:  x, w     operands of the anchor, a convolution; Fusion.AnchorOperands is 2
//	           skip     operand of the epilogue
//	epilogue:  y0 = max(x0 + x1, 0), where x0 is the anchor's result in the memory of y0, and x1 is skip
//
// The attributes of the whole are a Fusion: Parts[0] is the anchor, and code the expression of the epilogue. An
// Epilogue is this expression for the layouts of one call. makeWithEpilogue derives the op, and the methods of
// anchorImpl derive the op's implementations. The method lower makes the kernel, and forms describes the computation to
// compilers of devices. The planner of layouts uses walks, work, read and writes.

// withEpilogue returns the op of fused nodes whose anchor is a node of the given op: see [Fusion.AnchorOperands]. The
// returned op has all implementations of the anchor's op, under the same names. If an implementation has no Epilogues,
// a second pass over the finished result applies the expression. The op is in no catalogue. withEpilogue returns nil if
// no implementation of the anchor's op has Epilogues.
func withEpilogue(anchor *graph.Op) *graph.Op {
	derived, _ := anchor.Derived(epilogueKey{}, func() any { return makeWithEpilogue(anchor) }).(*graph.Op)
	return derived
}

// epilogueKey is the key of the derived op: see [graph.Op.Derived].
type epilogueKey struct{}

// TakesEpilogue reports whether at least one implementation of the op can apply an epilogue to its result: see
// [graph.Impl.Epilogues].
func TakesEpilogue(op *graph.Op) bool { return withEpilogue(op) != nil }

// makeWithEpilogue is [withEpilogue] without the cache.
func makeWithEpilogue(anchor *graph.Op) *graph.Op {
	if !slices.ContainsFunc(anchor.Impls, func(impl graph.Impl) bool { return impl.Epilogues }) {
		return nil
	}
	definition := graph.Op{
		Semantics: graph.Semantics{
			Name: "fused_" + anchor.Name, Kind: anchor.Kind, VariadicResults: true,
			Doc:    fmt.Sprintf("Computes %s, and pointwise ops on its result. %s", anchor.Name, anchor.Doc),
			Params: []graph.Param{{Name: "operands", Variadic: true, Optional: true, AcceptsNumber: true}},
			Infer:  inferFused, NoRef: anchor.NoRef,
		},
		Facts: graph.Facts{WritesAnyDenseLayout: anchor.WritesAnyDenseLayout, FixedLayoutReason: anchor.FixedLayoutReason,
			ImageRole: anchor.ImageRole, ConstantsByAddress: anchor.ConstantsByAddress},
	}
	if anchor.Ref != nil {
		definition.Ref = fusedRef
	}
	if anchor.Flops != nil {
		definition.Flops = anchorFlops
	}
	for i := range anchor.Impls {
		definition.Impls = append(definition.Impls, anchorImpl{&anchor.Impls[i]}.impl())
	}
	derived, err := graph.Define(definition)
	if err != nil {
		panic("graph: " + err.Error())
	}
	return derived
}

// anchorImpl is an implementation of the anchor. Its methods implement the whole.
type anchorImpl struct{ *graph.Impl }

// impl returns the implementation of the whole.
func (a anchorImpl) impl() graph.Impl {
	return graph.Impl{Name: a.Name, Doc: a.Doc, Inexact: a.Inexact,
		Walks: a.walks, Read: a.read, Writes: a.writes, Work: a.work, Pack: a.packAnchorOperand, Lower: a.lower,
		Forms: a.forms}
}

// anchorOf returns the call of the anchor within a call of the whole. The anchor's result has the shape and the layout
// of the carrier.
func anchorOf(call *graph.Call) (*Fusion, *graph.Call, error) {
	fused, ok := call.Attrs.(*Fusion)
	if !ok || fused.AnchorOperands == 0 || fused.AnchorOperands > len(call.In) || len(call.Out) == 0 {
		return nil, nil, errors.New("the attributes of the fused node are invalid: only passes can make fused nodes")
	}
	carrier := fused.carrierResult()
	if carrier < 0 || carrier >= len(call.Out) {
		return nil, nil, errNoRoom
	}
	anchorResult := call.Out[carrier]
	anchorResult.DType = fused.code.In[0] // In[0] is the anchor's result; it has the size of the carrier's dtype
	return fused, &graph.Call{Attrs: fused.Parts[0].Attrs, In: call.In[:fused.AnchorOperands:fused.AnchorOperands],
		Out: []tensor.Meta{anchorResult}}, nil
}

// lower makes the kernel of the anchor and extends it to the whole. There are three cases:
//   - The kernel absorbs the epilogue: it applies the expression in registers.
//   - The kernel applies the compiled loop of the epilogue to each final part of its result.
//   - The implementation has no Epilogues, or its kernel has called [Epilogue.Defer]. An additional last phase then
//     applies the loop to the complete result.
func (a anchorImpl) lower(call *graph.Call) (*graph.Kernel, error) {
	fused, anchor, err := anchorOf(call)
	if err != nil {
		return nil, err
	}
	epilogue, err := newEpilogue(fused, call)
	if err != nil {
		return nil, err
	}
	anchor.Impl, anchor.Walk = a.Impl, fused.anchorWalk(call.Walk)
	if a.Epilogues {
		anchor.Epilogue = epilogue // Lower may set its inRegisters or isDeferred
	}
	kernel, err := a.Lower(anchor)
	if err != nil || kernel == nil {
		return nil, err
	}
	if !epilogue.inRegisters {
		if err := epilogue.compile(); err != nil {
			return nil, err
		}
	}
	whole := *kernel
	whole.InPlace, whole.Loop = nil, nil // InPlace and Loop describe the anchor alone
	if !a.Epilogues || epilogue.isDeferred {
		whole.Phases = append(slices.Clone(kernel.Phases), epilogue.phase())
		whole.Arithmetic += float64(epilogue.loop.ElementNS() * float64(epilogue.numel)) // in nanoseconds
	}
	if carrier := fused.carrierResult(); len(call.Out) > 1 {
		whole.Phases = withReorderedAddresses(whole.Phases, carrier, len(call.Out))
	}
	whole.Code = func() []expr.Listing { return epilogue.listings(kernel) }
	return &whole, nil
}

// withReorderedAddresses returns phases that reorder the addresses of the whole for the kernel of the anchor. The whole
// has the addresses of its results, followed by the addresses of its operands. The anchor's kernel expects first the
// result with index `carrier`, then all operands, and then the other results. For example, with results r0 and r1,
// operands a and b, and carrier r1, the order r0, r1, a, b becomes r1, a, b, r0.
func withReorderedAddresses(phases []graph.Phase, carrier, resultCount int) []graph.Phase {
	mems, reordered := new(graph.PerWorker[graph.Mem]), make([]graph.Phase, len(phases))
	memOfAnchor := func(mem *graph.Mem) *graph.Mem {
		anchorMem := mems.Get(mem)
		const scratchOffset = 0              // the anchor's kernel uses the same scratch memory
		mem.Within(anchorMem, scratchOffset) // sets *anchorMem to mem without the addresses
		anchorMem.Ptrs = append(append(anchorMem.Ptrs, mem.Ptrs[carrier]), mem.Ptrs[resultCount:]...)
		for result, address := range mem.Ptrs[:resultCount] {
			if result != carrier {
				anchorMem.Ptrs = append(anchorMem.Ptrs, address)
			}
		}
		return anchorMem
	}
	for i, phase := range phases {
		reordered[i] = graph.Phase{Chunks: phase.Chunks, Run: func(mem *graph.Mem, chunk int) error {
			anchorMem := memOfAnchor(mem)
			err := phase.Run(anchorMem, chunk)
			anchorMem.Release()
			return err
		}}
		if phase.RunRange != nil {
			reordered[i].RunRange = func(mem *graph.Mem, begin, end int) error {
				anchorMem := memOfAnchor(mem)
				err := phase.RunRange(anchorMem, begin, end)
				anchorMem.Release()
				return err
			}
		}
	}
	return reordered
}

// packAnchorOperand implements [graph.Impl.Pack] for operand i: only operands of the anchor are packed.
func (a anchorImpl) packAnchorOperand(call *graph.Call, i int) (graph.Packing, bool) {
	fused, anchor, err := anchorOf(call)
	if err != nil || i >= fused.AnchorOperands || a.Pack == nil {
		return graph.Packing{}, false
	}
	anchor.Impl, anchor.Walk = a.Impl, fused.anchorWalk(call.Walk)
	return a.Pack(anchor, i)
}

// forms returns the contraction of the anchor with the expression of the epilogue. A contraction describes a product or
// convolution as loops over sums.
func (a anchorImpl) forms(call *graph.Call) ([]graph.Form, error) {
	fused, anchor, err := anchorOf(call)
	if err != nil || a.Forms == nil {
		return nil, err
	}
	list, err := a.Forms(anchor)
	if err != nil || len(list) != 1 {
		return nil, err
	}
	anchorForm, ok := list[0].(*graph.Contraction)
	if !ok || anchorForm.Epilogue != nil {
		return nil, nil
	}
	// The indices of a form count the results of the call first, and then its operands. The whole may have more results
	// than the anchor, which has one. This shifts the indices of the operands.
	product, carrier := *anchorForm, fused.carrierResult()
	for _, operand := range []*graph.ContractionOperand{&product.A, &product.B, &product.Add} {
		operand.Index += len(call.Out) - 1
	}
	product.Out.Index = carrier
	// The carrier occurs twice in the epilogue: as a result, and as operand x0, the anchor's result.
	epilogue := &graph.Elements{Code: fused.code}
	product.Epilogue = epilogue
	for i, meta := range call.Out {
		epilogue.Operands = append(epilogue.Operands, graph.FormOperand{Index: i, Meta: meta})
	}
	epilogue.Operands = append(epilogue.Operands, graph.FormOperand{Index: carrier, Meta: anchor.Out[0]})
	for i := fused.AnchorOperands; i < len(call.In); i++ {
		formOperand := graph.FormOperand{Index: len(call.Out) + i, Meta: call.Meta(i)}
		epilogue.Operands = append(epilogue.Operands, formOperand)
	}
	return []graph.Form{&product}, nil
}

// walks returns the walks of the anchor. A walk is a loop order and the layouts of the results. In each walk, all
// results of the whole have the layout of the anchor's result. In a walk without a layout, the result has the inferred
// layout. If the anchor cannot write the inferred layout, the result is row-major instead. candidates are orders that
// the planner considers for the first result.
func (a anchorImpl) walks(call *graph.Call, candidates []tensor.Order) []graph.Walk {
	fused, anchor, err := anchorOf(call)
	if err != nil {
		return nil
	}
	inferred := anchor.Out[0]
	writesInferred := fused.Parts[0].Op.WritesAnyDenseLayout || isStandard(inferred) // whether the anchor can write it
	if !writesInferred {
		// The anchor's walks depend on the layout that the anchor will write.
		anchor.Out = []tensor.Meta{tensor.New(inferred.DType, inferred.Shape...)}
	}
	list := a.Walks(anchor, candidates)
	out := make([]graph.Walk, 0, len(list))
	for _, walk := range list {
		var layout tensor.Order
		if len(walk.ResultOrders) > 0 {
			layout = walk.ResultOrders[0]
		}
		if layout == "" && !writesInferred {
			layout = tensor.RowMajorOrder(inferred.Rank())
		}
		if layout != "" {
			loopOrder := walk.LoopOrder
			walk = call.WalkInOrder(layout) // all results in this order
			walk.LoopOrder = loopOrder
		}
		out = append(out, walk)
	}
	return out
}

// isStandard reports whether meta has a layout that every anchor can write: contiguous or channels last.
func isStandard(meta tensor.Meta) bool { return meta.IsContiguous() || meta.IsChannelsLast() }

// anchorWalk returns the walk (loop order and result layout) of the anchor in a given walk of the whole.
func (f *Fusion) anchorWalk(whole graph.Walk) graph.Walk {
	walk := graph.Walk{LoopOrder: whole.LoopOrder}
	if carrier := f.carrierResult(); carrier < len(whole.ResultOrders) {
		walk.ResultOrders = whole.ResultOrders[carrier : carrier+1]
	}
	return walk
}

// work returns the work of the anchor and the epilogue. For an implementation without Epilogues, this includes reading
// and writing the anchor's result a second time.
func (a anchorImpl) work(call *graph.Call, walk graph.Walk) (total pricing.Work) {
	fused, anchor, err := anchorOf(call)
	if err != nil || fused.effort == nil {
		return total
	}
	total = a.Work(anchor, fused.anchorWalk(walk)).Plus(a.epilogueWork(fused, call, walk))
	total.Footprint = call.Footprint()
	return total
}

// epilogueWork returns the work of the epilogue: its arithmetic, and one access to its operands and to all results
// except the carrier. The work of the anchor includes the access to the carrier. Without a second pass, the carrier is
// still in the cache.
func (a anchorImpl) epilogueWork(fused *Fusion, call *graph.Call, walk graph.Walk) (work pricing.Work) {
	carrier := fused.carrierResult()
	const rows = 0 // AddTo counts rows for folds, and an epilogue has no folds
	epilogue := graph.Call{In: call.In[fused.AnchorOperands:],
		Out: slices.Delete(slices.Clone(call.Out), carrier, carrier+1)}
	epilogue.AddStreamed(&work)
	if a.Epilogues {
		addExposedMisses(&work, &epilogue, call.Footprint(), call.Out[carrier].Numel())
	}
	fused.effort().AddTo(&work, float64(call.Out[carrier].Numel()), rows)
	if !a.Epilogues {
		// A second pass reads and writes the anchor's result again. Like a copy, it both reads and writes memory in
		// order, so all its bytes count as copied.
		work.Bytes[pricing.Copied] = work.Bytes[pricing.Dense] + 2*float64(call.Out[carrier].Bytes())
		work.Bytes[pricing.Dense] = 0
		epilogue.AddRunStartWork(&work, walk.ResultLayout(carrier, call.Out[carrier]))
	}
	return work
}

// addExposedMisses adds the time that tiles wait for operands of the epilogue with as many elements as the result, such
// as the residual operand of a convolution. When the sums of a tile are complete, it reads a cache line of the operand
// for each of its rows. These lines are a row of the result apart, so the hardware does not prefetch them, and the tile
// has nothing left to compute meanwhile. The operand is in the L2 cache if the step's bytes (footprint) fit there.
// Beyond, a tile waits as long as a loop does at the start of each run of an operand with gaps (see [graph.ReadWork]).
//
// A 1x1 convolution with a residual operand of 3.2, 1.6 and 0.8 MB takes 490, 470 and 250 us longer in a ResNet-50 on
// Zen 2 than without it. Dense accesses, which would overlap with the products, would cost nothing.
func addExposedMisses(work *pricing.Work, epilogue *graph.Call, footprint float64, elements int) {
	const waitBytes = 3 << 10 // a wait takes as long as copying this number of bytes
	// A tile has 12 registers of 32 bytes (AVX2) or 24 of 16 bytes (NEON): 6 lines. With AVX-512 it has more lines than a
	// core loads at a time.
	linesPerWait := 6.0
	if machine.HostFeatures().Has(machine.AVX512) {
		linesPerWait = 12
	}
	for i, operand := range epilogue.In {
		if operand.Kind != graph.TensorArg || epilogue.IsConstant(i) || epilogue.Meta(i).Numel() != elements {
			continue
		}
		bytes := min(float64(epilogue.Meta(i).Bytes()), max(0, footprint-machine.L2Bytes))
		work.Bytes[pricing.Dense] -= bytes
		work.Bytes[pricing.Copied] += float64(bytes * waitBytes / (linesPerWait * machine.LineBytes))
	}
}

// anchorFlops returns the number of operations of the anchor.
func anchorFlops(call *graph.Call) float64 {
	fused, anchor, err := anchorOf(call)
	if err != nil {
		return 0
	}
	return fused.Parts[0].Op.Flops(anchor)
}

// read implements [graph.Impl.Read]: the work of reading operand i in layout meta. The anchor's implementation decides
// for the operands of the anchor. The epilogue reads its operands in any layout. If the attributes are invalid,
// there is no work: lower reports the error.
func (a anchorImpl) read(call *graph.Call, walk graph.Walk, i int, meta tensor.Meta) (work pricing.Work, ok bool) {
	fused, anchor, err := anchorOf(call)
	switch {
	case err != nil:
		return work, true
	case i < fused.AnchorOperands:
		work, ok = a.Read(anchor, fused.anchorWalk(walk), i, meta)
	default:
		carrier := fused.carrierResult()
		work, ok = graph.ReadWork(meta, walk.ResultLayout(carrier, call.Out[carrier])), true
	}
	if work != (pricing.Work{}) {
		work.Footprint = call.Footprint()
	}
	return work, ok
}

// writes reports whether result i can have layout meta. The epilogue can write a result other than the carrier with any
// strides. This method accepts only layouts with contiguous runs, because other layouts are slow. For the carrier, the
// anchor's implementation must also support the layout.
func (a anchorImpl) writes(call *graph.Call, walk graph.Walk, i int, meta tensor.Meta) bool {
	fused, anchor, err := anchorOf(call)
	if err != nil || longestRun(meta) < 2 {
		return false
	}
	if i != fused.carrierResult() {
		return true
	}
	return a.Writes != nil && a.Writes(anchor, fused.anchorWalk(walk), 0, meta)
}

// longestRun returns the largest number of elements that are contiguous along one dimension.
func longestRun(meta tensor.Meta) (longest int) {
	for dim, stride := range meta.Strides {
		if stride == 1 {
			longest = max(longest, meta.Shape[dim])
		}
	}
	return longest
}

// CheckAnchor returns nil if a node can be the anchor of an epilogue, otherwise an error with the reason. The outcome
// depends only on the op, shapes and dtypes. The error continues a sentence that starts with the name of the node.
func (f *Fuser) CheckAnchor(n *graph.Node) error {
	switch {
	case f == nil || n == nil:
		return errNoEpilogue
	case withEpilogue(n.Op) == nil || len(n.Out) != 1:
		return errNoEpilogue
	case !f.Device && !loops.CodeAvailable():
		return errNotCompiled
	case n.Out[0].Alias != nil:
		return errView
	}
	switch dtype := n.Out[0].Meta.DType; dtype {
	case tensor.Float32, tensor.Float64, tensor.Int32:
	default:
		return fmt.Errorf("returns %v, a dtype that epilogues do not support", dtype)
	}
	call := n.Call()
	for i := range n.Op.Impls {
		if impl := &n.Op.Impls[i]; impl.Epilogues && len(impl.Walks(call, nil /* candidate orders */)) > 0 {
			return nil
		}
	}
	return errNoEpilogue
}

// Reasons why nodes are not fused.
var (
	errNoEpilogue  = errors.New("has no kernel that applies an epilogue")
	errNoRoom      = errors.New("no result has room for the anchor's result")
	errNotCompiled = errors.New("loops have no machine code")
	errView        = errors.New("returns a view")
)
