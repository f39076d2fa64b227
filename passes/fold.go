package passes

import (
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// foldLimit is the size in bytes up to which results are always folded. Larger results, such as a long range, may be
// cheaper to compute in each run than to keep in memory.
const foldLimit = 1 << 14

// expandedLimit limits the size in bytes of the operands of a folded node. An expanded dimension (stride 0) counts
// with its full size, because folding takes time for each element.
const expandedLimit = 1 << 22

// foldConstants computes nodes whose operands are all constants, such as the conversion of a weight to another layout
// or dtype. For example, in y = conv(x, to(w, float16)), the node `to` becomes a constant, and w is dropped if nothing
// else reads it. A node is instead computed in each run in two cases:
//   - its results exceed the memory budget;
//   - it has no kernel for its current layouts, which later passes may change.
func foldConstants(plan *Plan) error {
	plan.nodesToFold = plan.decidedFolds()
	firstFolded := slices.IndexFunc(plan.Graph.Nodes, plan.shouldFold)
	if firstFolded < 0 {
		return nil
	}
	foldedBefore, foldedBytes := len(plan.Folded), 0
	plan.unpackedReads = sync.OnceValue(func() map[*tensor.Storage]bool { return readStorages(plan.Graph, nil) })
	plan.packedForms = map[memoryForm]bool{}
	plan.packInParallel(plan.Graph.Nodes[firstFolded:])
	computedInRuns := plan.Graph.Nodes[:firstFolded:firstFolded] // append copies it: unpack reads Graph.Nodes
	for _, n := range plan.Graph.Nodes[firstFolded:] {
		interrupt.Check(plan.options.Context)
		data, err := plan.resultsIfFolded(n)
		switch {
		case err != nil:
			return plan.Graph.NodeError(n, err)
		case data == nil && n.Packing() != nil: // kernels pack the constant in each run
			unpack(n, plan.Graph.Nodes)
			continue
		case data == nil:
			computedInRuns = append(computedInRuns, n)
			continue
		}
		foldedBytes = saturatedSum(foldedBytes, plan.recordFolding(n))
		plan.template.recordFolded(n)
		plan.makeConstants(n, data)
	}
	plan.packedForms = nil // it would keep the constants in memory
	plan.Graph.Nodes = computedInRuns
	plan.dropConstants()
	if plan.discarded.isLarge {
		plan.discarded.isLarge = false
		debug.FreeOSMemory() // the process would keep the memory for minutes
	}
	if foldedCount := len(plan.Folded) - foldedBefore; foldedCount > 0 {
		plan.Note("%s into %s of constants", countText(foldedCount, "node folded", "nodes folded"),
			machine.Bytes(foldedBytes))
	}
	return nil
}

// recordFolding records that a node is folded, and returns Folding.Bytes.
func (p *Plan) recordFolding(n *graph.Node) int {
	p.noteFolded(n)
	folding := report.Folding{Node: n.Name, Op: n.Op.Name, Why: n.Why}
	if !n.IsView() && widenedConstant(n) == nil && !p.sharesPacked(n) {
		folding.Bytes = resultBytes(n)
	}
	p.foldBudget.usedBytes = saturatedSum(p.foldBudget.usedBytes, folding.Bytes)
	p.Folded = append(p.Folded, folding)
	return folding.Bytes
}

// sharesPacked records the form that a node packs, and reports whether an earlier node packed the same data in this form:
// see packViews.
func (p *Plan) sharesPacked(n *graph.Node) bool {
	if packing := n.Packing(); packing == nil || packing.View == nil {
		return false
	}
	form := formOf(n)
	isShared := p.packedForms[form]
	p.packedForms[form] = true
	return isShared
}

// makeConstants makes the results of a folded node constants with the given data.
func (p *Plan) makeConstants(n *graph.Node, data []*tensor.Tensor) {
	for i, v := range n.Out {
		v.Pin = graph.Pin{Format: n.Pin.Format, Order: n.Pin.Order}
		symbolicType := v.Type
		p.Graph.MakeConstant(v, data[i])
		if !symbolicType.IsMeta(v.Meta) { // keep the type with unknown sizes
			v.Type = symbolicType
		}
	}
}

// resultsIfFolded returns the results of a node if the node is folded. It returns nil for a node that is computed in
// each run.
func (p *Plan) resultsIfFolded(n *graph.Node) ([]*tensor.Tensor, error) {
	if !p.shouldFold(n) {
		return nil, nil
	}
	data, err := p.foldResults(n)
	if errors.As(err, new(*noKernelError)) || errors.As(err, new(*tensor.MemoryError)) {
		return nil, nil
	}
	return data, err
}

// foldResults returns the results of a node that is folded. They come from packInParallel, from another plan of the
// graph (Graph.Fold caches results), from foldStore, or from compute.
func (p *Plan) foldResults(n *graph.Node) (data []*tensor.Tensor, err error) {
	if result, packed := p.packedResults[n]; packed {
		delete(p.packedResults, n)
		return result.data, result.err
	}
	if widened := widenedConstant(n); widened != nil {
		return p.Graph.Fold(n, func() ([]*tensor.Tensor, error) { return []*tensor.Tensor{widened}, nil })
	}
	compute := func() ([]*tensor.Tensor, error) { return p.compute(n) }
	computeOrFind := compute
	if p.options.FoldStore != nil && !n.IsView() {
		computeOrFind = func() ([]*tensor.Tensor, error) { return p.options.FoldStore(n, compute) }
	}
	data, err = p.Graph.Fold(n, computeOrFind)
	if packing := n.Packing(); packing != nil && err == nil {
		p.discardPacked(n.In[0].Value.Const, packing, data[0])
	}
	return data, err
}

// widenedConstant returns the result of a node that converts a constant from 16-bit floats to float32. The result takes
// no memory if only implementations read it that pack it in 16 bits. widenedConstant returns nil for other nodes, and
// for small constants, for which this would save nothing.
func widenedConstant(n *graph.Node) *tensor.Tensor {
	if !n.Op.Identity || n.IsView() || len(n.Out) != 1 || n.In[0].Kind != graph.TensorArg || resultBytes(n) <= foldLimit {
		return nil
	}
	return n.In[0].Value.Const.Widened(n.Out[0].Meta)
}

// foldedNode is the outcome of folding a node.
type foldedNode struct {
	data []*tensor.Tensor
	err  error
}

// errNotPacked is the error of a call of [graph.Graph.Fold] that only looks up results, if there are no such results.
var errNotPacked = errors.New("no plan has packed this constant yet")

// packInParallel computes, in parallel, the nodes that pack constants, that is, convert them to the form that a kernel
// reads. These nodes are independent of each other, and the results do not depend on the number of workers. Results
// that other plans of the graph have computed are looked up first, because that needs no goroutines.
func (p *Plan) packInParallel(nodes []*graph.Node) {
	if p.options.Threads < 2 {
		return
	}
	var toCompute []*graph.Node
	seen := map[memoryForm]bool{} // views of a constant have one result in a form, which foldConstants finds
	p.packedResults = map[*graph.Node]foldedNode{}
	for _, n := range nodes {
		if n.Packing() == nil || !p.shouldFold(n) {
			continue
		}
		form := formOf(n)
		if seen[form] {
			continue
		}
		seen[form] = true
		data, err := p.Graph.Fold(n, func() ([]*tensor.Tensor, error) { return nil, errNotPacked })
		if err == nil {
			p.packedResults[n] = foldedNode{data: data}
		} else {
			toCompute = append(toCompute, n)
		}
	}
	if len(toCompute) < 2 { // foldConstants computes a single node
		return
	}
	outcomes := make([]foldedNode, len(toCompute))
	var group errgroup.Group
	group.SetLimit(p.options.Threads)
	for i, n := range toCompute {
		group.Go(func() error {
			outcomes[i].data, outcomes[i].err = p.foldResults(n)
			return nil
		})
	}
	_ = group.Wait() // outcomes has the errors
	for i, n := range toCompute {
		p.packedResults[n] = outcomes[i]
	}
}

// shouldFold reports whether a node is to be computed during planning.
func (p *Plan) shouldFold(n *graph.Node) bool {
	for _, arg := range n.In {
		if arg.Kind != graph.TensorArg {
			continue
		}
		// A node that reads a pinned constant is folded only if its results have the same pin. Otherwise the pinned
		// constant stays in the program.
		if arg.Value.Const == nil || arg.Value.Pin.SetsLayout() && arg.Value.Pin != n.Pin {
			return false
		}
	}
	hasDecisions := p.nodesToFold != nil // earlier decisions choose the nodes, except nodes that pack a constant
	wasRejected := hasDecisions && n.Packing() == nil && !p.nodesToFold[n.Number()]
	if n.Op.RunDynamic != nil || n.Impl.OnDevice() || wasRejected {
		return false
	}
	if n.IsView() || n.Packing() != nil || widenedConstant(n) != nil {
		return true
	}
	isChosen := hasDecisions || isSmallEnough(n)
	return isChosen && p.foldBudget.allows(n, p.Graph)
}

// isSmallEnough reports whether the results are small enough to be stored. The limit is the larger of foldLimit and 8
// times the size of the stored operands. The size of the operands, with expanded dimensions in full size, may be at
// most the larger of this limit and expandedLimit.
func isSmallEnough(n *graph.Node) bool {
	storedBytes, readBytes := 0, 0
	for _, arg := range n.In {
		if arg.Kind == graph.TensorArg {
			storedBytes = saturatedSum(storedBytes, arg.Value.Const.Storage().Len())
			readBytes = saturatedSum(readBytes, arg.Value.Meta.Bytes())
		}
	}
	limitBytes := max(foldLimit, 8*storedBytes) // factor 8: int8 weights may become float64 weights, for exact products
	return resultBytes(n) <= limitBytes && readBytes <= max(expandedLimit, limitBytes)
}

// foldBudget limits the memory of folded results to half of the memory that is available without the constants, because
// the operands also stay in memory.
type foldBudget struct {
	limit     int // [Options.MemoryLimit]
	maxBytes  int // maximum total size of results in bytes; 0 until allows computes it
	usedBytes int // total size of the results so far in bytes
}

// uncheckedBytes is the total size of results, in bytes, below which the memory limit of the process is not queried.
// The query takes longer than planning a small graph.
const uncheckedBytes = 64 << 20

// allows reports whether the results of a node fit into the budget, together with the results so far. A total of up to
// foldLimit always fits.
func (b *foldBudget) allows(n *graph.Node, g *graph.Graph) bool {
	total := saturatedSum(b.usedBytes, resultBytes(n))
	if total < uncheckedBytes && b.limit == 0 || b.limit < 0 { // a negative limit means none
		return true
	}
	if b.maxBytes == 0 {
		b.maxBytes = machine.Memory().Available / 2
		if b.limit > 0 {
			b.maxBytes = b.limit
			for _, v := range g.Constants {
				b.maxBytes -= v.Meta.Extent() * v.Meta.DType.Size()
			}
			b.maxBytes = max(b.maxBytes/2, 1)
		}
	}
	return total <= max(b.maxBytes, foldLimit)
}

// resultBytes returns the size of a node's results in bytes, including gaps between strided elements.
func resultBytes(n *graph.Node) int {
	bytes := 0
	for _, v := range n.Out {
		bytes = saturatedSum(bytes, v.Meta.Extent()*v.Meta.DType.Size())
	}
	return bytes
}

// saturatedSum adds sizes and saturates instead of overflowing.
func saturatedSum(a, b int) int {
	if b > math.MaxInt-a {
		return math.MaxInt
	}
	return a + b
}

// noKernelError is the error of a node without a kernel for its layouts.
type noKernelError struct{ error }

// Unwrap returns the op's own error.
func (e *noKernelError) Unwrap() error { return e.error }

// compute runs one node on its constant operands in the calling goroutine.
func (p *Plan) compute(n *graph.Node) (_ []*tensor.Tensor, err error) {
	defer panics.Recover(&err)
	interrupt.Check(p.options.Context)
	n = atHints(n)
	if n.IsView() {
		results := make([]*tensor.Tensor, len(n.Out))
		for i, v := range n.Out {
			if results[i], err = v.Alias.Const.View(v.Meta); err != nil {
				return nil, err
			}
		}
		return results, nil
	}
	if n.Op.Compile == nil || slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return v.Alias != nil }) {
		return nil, &noKernelError{errors.New("the op has no kernel for this node")}
	}
	kernel, err := n.Op.Compile(n.Call())
	if err == nil && kernel == nil {
		err = errors.New("Compile of the op returned no kernel")
	}
	if err != nil {
		return nil, &noKernelError{err}
	}
	if machine.RunError() != nil { // this processor cannot run the kernels of the plan
		return p.computeForPlanning(n)
	}
	if packing := n.Packing(); packing != nil {
		packed := tensor.EmptyPacked(n.Out[0].Meta)
		packing.Fill(p.options.Context, packed, n.In[0].Value.Const)
		return []*tensor.Tensor{packed}, nil
	}
	return p.runKernel(kernel, n)
}

// atHints returns a node whose types are expressions with the types at the hints, for which kernels are made. It
// returns another node unchanged.
func atHints(n *graph.Node) *graph.Node {
	if p := n.Packing(); p != nil || !dependsOnSizes(n) {
		return n
	}
	copied := *n
	copied.In, copied.Out = slices.Clone(n.In), slices.Clone(n.Out)
	withNumbers := func(v *graph.Value) *graph.Value {
		if v == nil || hasNumericSizes(v.Type) {
			return v
		}
		atHints := *v
		atHints.SetMeta(v.Meta)
		return &atHints
	}
	for i := range copied.In {
		copied.In[i].Value = withNumbers(copied.In[i].Value)
	}
	for i, v := range copied.Out {
		copied.Out[i] = withNumbers(v)
	}
	sizes := graph.SizesInAttrs(n.Attrs)
	hints := make([]int, len(sizes))
	for i, size := range sizes {
		hints[i] = size.Hint()
	}
	if attrs, err := graph.AttrsAtSizes(n.Attrs, copied.In, hints); err == nil {
		copied.Attrs = attrs
	}
	return &copied
}

// discardPacked frees the memory of a constant that was packed, unless a node reads its elements, or they cannot be
// restored from the packed data. Constants that cannot be discarded (see [tensor.Storage.Discard]) keep their memory.
func (p *Plan) discardPacked(constant *tensor.Tensor, packing *graph.Packing, packed *tensor.Tensor) {
	freed := 0
	if narrow := constant.Unwidened(); narrow != nil {
		if !p.unpackedReads()[constant.Storage()] && constant.Storage().Discard(nil) {
			freed = constant.Storage().Len()
		}
		constant = packing.Source(constant)
	}
	meta, storage := constant.Meta, constant.Storage()
	isWhole := meta.Numel()*meta.DType.Size() == storage.Len() && meta.IsNonOverlappingAndDense()
	restore := func(dst []byte) {
		packing.Unpack(tensor.Must(tensor.FromStorage(meta, tensor.StorageOf(dst))), packed)
	}
	if packing.Unpack != nil && isWhole && !p.unpackedReads()[storage] && storage.Discard(restore) {
		freed += storage.Len()
	}
	p.discarded.Lock()
	defer p.discarded.Unlock()
	// The garbage collector runs when the heap has doubled, but weights and their packed forms would double it.
	if p.discarded.bytes += freed; p.discarded.bytes >= minCollectedBytes {
		p.discarded.bytes, p.discarded.isLarge = 0, true
		runtime.GC()
	}
}

// discardedMemory counts the memory of constants that discardPacked has freed.
type discardedMemory struct {
	sync.Mutex
	bytes   int  // freed since the garbage collector was called
	isLarge bool // whether it was called
}

// minCollectedBytes is the number of discarded bytes after which the garbage collector runs. It takes about a
// millisecond, much less than packing these bytes.
const minCollectedBytes = 16 << 20

// readStorages returns the storages of the constants that nodes of the graph read unpacked, or that the graph returns.
// Operands for which omit returns true do not count; omit may be nil.
func readStorages(g *graph.Graph, omit func(n *graph.Node, i int) bool) map[*tensor.Storage]bool {
	read := map[*tensor.Storage]bool{}
	add := func(v *graph.Value) {
		if v.Const != nil && v.Packed == nil {
			read[v.Const.Storage()] = true
		}
	}
	for _, n := range g.Nodes {
		for i, arg := range n.In {
			if arg.Kind == graph.TensorArg && n.Packing() == nil && (omit == nil || !omit(n, i)) {
				add(arg.Value)
			}
		}
	}
	for _, output := range g.Outputs {
		add(output.Value)
	}
	return read
}

// computeForPlanning is [Plan.compute] for a plan that this processor cannot run. Packed constants get no data: no
// pass reads it.
func (p *Plan) computeForPlanning(n *graph.Node) ([]*tensor.Tensor, error) {
	if n.Packing() != nil {
		return []*tensor.Tensor{tensor.Empty(n.Out[0].Meta)}, nil
	}
	if n.Op.Ref == nil {
		return nil, &noKernelError{graph.NoReference{Why: n.Op.NoRef}}
	}
	in := make([]*tensor.Tensor, len(n.In))
	for i, a := range n.In {
		switch a.Kind {
		case graph.TensorArg:
			in[i] = a.Value.Data()
		case graph.NumberArg:
			in[i] = a.Number.Tensor(a.Number.DType())
		}
	}
	results, err := n.Op.Ref(n.Call(), in)
	if err != nil {
		return nil, &noKernelError{err}
	}
	for i, v := range n.Out {
		if !results[i].SameAddresses(v.Meta) {
			results[i] = results[i].CopyTo(v.Meta)
		}
	}
	return results, nil
}

// runKernel runs a node's kernel on its constant operands.
func (p *Plan) runKernel(kernel *graph.Kernel, n *graph.Node) ([]*tensor.Tensor, error) {
	results := make([]*tensor.Tensor, len(n.Out))
	memory := kernel.NewMem()
	memory.Context = p.options.Context
	for i, v := range n.Out {
		results[i] = tensor.Empty(v.Meta)
		memory.Ptrs = append(memory.Ptrs, results[i].Pointer())
	}
	for i, arg := range n.In {
		var pointer unsafe.Pointer
		switch {
		case i < len(kernel.EmbeddedOperands) && kernel.EmbeddedOperands[i] != nil:
			pointer = kernel.EmbeddedOperands[i].Pointer()
		case arg.Kind == graph.TensorArg:
			pointer = arg.Value.Const.Pointer()
		}
		memory.Ptrs = append(memory.Ptrs, pointer)
	}
	for _, phase := range kernel.Phases {
		for chunk := range phase.Chunks {
			interrupt.Check(p.options.Context)
			if err := phase.Run(memory, chunk); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}
