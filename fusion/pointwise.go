package fusion

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file makes the kernels of pointwise calls. A kernel iterates over the operands. Its loop is the compiled
// expression of an element.

// CompileLoop compiles the loop of a pointwise op for a call. If an output has another layout than the inferred one,
// the layouts of the outputs determine the order of the loop's dimensions, as PyTorch does for outputs that the caller
// gives. The layouts of operands order the remaining dimensions.
func CompileLoop(pointwise *graph.Pointwise, call *graph.Call) (*graph.Kernel, error) {
	if call == nil || pointwise == nil || pointwise.Config == nil || pointwise.Body == nil {
		return nil, errors.New("a pointwise op needs a call, Config and Body")
	}
	outputs, err := pointwise.Undefined(call) // results without layouts; the iteration chooses the layouts
	if err != nil {
		return nil, err
	}
	iteration, body, err := buildIteration(pointwise, call, outputs)
	if err != nil {
		return nil, err
	}
	if len(call.Out) != len(outputs) {
		return nil, fmt.Errorf("the op has %d results, the call %d", len(outputs), len(call.Out))
	}
	sameLayouts := true
	for i, meta := range call.Out {
		sameLayouts = sameLayouts && iteration.Meta(i).SameLayout(meta)
	}
	if !sameLayouts {
		givenOutputs := make([]rule.Operand, len(call.Out))
		for i, meta := range call.Out {
			givenOutputs[i] = rule.OperandOfMeta(meta)
		}
		if iteration, body, err = buildIteration(pointwise, call, givenOutputs); err != nil {
			return nil, err
		}
	}
	return loopKernel(call, iteration, body, pointwise.Grain)
}

// buildIteration builds the iteration of a call. An output with a layout in outputs keeps that layout.
func buildIteration(pointwise *graph.Pointwise, call *graph.Call, outputs []rule.Operand) (*iter.Iterator, rule.Kernel,
	error) {
	config, err := pointwise.Config(call, outputs)
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	iteration, err := iter.Build(config)
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	body, err := pointwise.Body(call, &iteration.Rule)
	return iteration, body, err
}

// loopKernel makes the kernel of a loop over the elements of an iteration. grain is the approximate number of elements
// of a chunk of an interpreted loop; 0 means that the number depends on the expression. A compiled loop ignores grain.
func loopKernel(call *graph.Call, iteration *iter.Iterator, body rule.Kernel, grain int) (*graph.Kernel, error) {
	loop, err := iteration.Prepare(body)
	if err != nil {
		return nil, err
	}
	elementNS := loop.ElementNS()
	switch {
	case elementNS > 0: // compiled
		grain = compiledGrain(elementNS)
	case grain == 0:
		code, _ := iteration.InMemory(body) // Prepare has returned its error
		grain = grainOf(code)
	}
	grain = evenGrain(iteration.Numel(), grain)
	phase := graph.Phase{Chunks: loop.Chunks(grain)}
	if phase.Chunks == 1 {
		phase.Run = func(m *graph.Mem, _ int) error { return loop.RunAll(cursorOf(m), m.Ptrs) }
	} else {
		phase.Run = func(m *graph.Mem, chunk int) error { return loop.RunChunk(cursorOf(m), m.Ptrs, chunk, grain) }
	}
	kernel := &graph.Kernel{Loop: iteration, Phases: []graph.Phase{phase},
		Arithmetic: elementNS * float64(iteration.Numel())}
	if loop.IsExpression() {
		kernel.Code = loop.Listings
	}
	addOperandFacts(kernel, call, iteration)
	return kernel, nil
}

// chunkNS is the approximate minimum time of a chunk of a compiled loop, in nanoseconds: see compiledGrain.
const chunkNS = 4e3

// compiledGrain returns the number of elements per chunk of a compiled loop, a power of two from machine.CallGrain to
// machine.MoveGrain. elementNS is the time of the loop per element, in nanoseconds. Expensive loops have smaller
// chunks. The grain does not affect results. Small chunks balance the load better, but each chunk has a fixed cost: it
// sets up addresses, and waits for its non-temporal stores.
func compiledGrain(elementNS float64) int {
	grain := machine.MoveGrain
	for grain > machine.CallGrain && float64(grain)*elementNS > 1.5*chunkNS { // a half then takes at least 0.75*chunkNS
		grain /= 2
	}
	return grain
}

// evenGrain returns a number of elements per chunk, near grain, for which all chunks have about the same size. It is a
// multiple of LineBytes, so that chunks of any element size consist of whole cache lines.
func evenGrain(elements, grain int) int {
	chunks := max(1, machine.DivideUnits(elements, 1, grain).Chunks) // DivideUnits returns 0 chunks for 0 elements
	divisor := chunks * machine.LineBytes
	multiples := max(1, (elements+divisor-1)/divisor) // multiples of LineBytes in a chunk, rounded up
	return multiples * machine.LineBytes
}

// addOperandFacts adds two facts to the kernel of a call: the tensors of plain numbers, and the operands that results
// may overwrite.
func addOperandFacts(kernel *graph.Kernel, call *graph.Call, iteration *iter.Iterator) {
	outputCount := iteration.NumOutputs()
	for i, arg := range call.In {
		meta := iteration.Meta(outputCount + i)
		if arg.Kind == graph.NumberArg {
			if kernel.EmbeddedOperands == nil {
				kernel.EmbeddedOperands = make([]*tensor.Tensor, len(call.In))
			}
			kernel.EmbeddedOperands[i] = arg.Number.Tensor(meta.DType)
			continue
		}
		for result := range outputCount {
			// An operand with the same addresses as the result may be overwritten, because the loop reads each block of the
			// operand before it writes this block of the result.
			if out := iteration.Meta(result); meta.DType.Size() == out.DType.Size() && meta.SameAddresses(out) {
				kernel.InPlace = append(kernel.InPlace, graph.InPlace{Out: result, In: i})
			}
		}
	}
}

// cursorOf returns the worker's iteration state. All loops that the worker runs share this state.
func cursorOf(m *graph.Mem) *iter.Cursor {
	cursor, ok := m.Walk.(*iter.Cursor)
	if !ok {
		cursor = new(iter.Cursor)
		m.Walk = cursor
	}
	return cursor
}

// RunChunk runs a chunk of a prepared loop with the worker's iteration state.
func RunChunk(loop iter.Prepared, m *graph.Mem, ptrs []unsafe.Pointer, chunk, grain int) error {
	return loop.RunChunk(cursorOf(m), ptrs, chunk, grain)
}

// EpilogueStep is an operation of an epilogue that kernels can apply in registers. The anchor is the node whose kernel
// applies the epilogue, such as a matrix product or a convolution. The first operand of a step is the result of the
// previous step. The second operand is a number or an operand of the fused node. An operand is a vector of Width
// elements (AlongFastest is set), a scalar (IsScalar is set), or a tensor with the layout of the anchor's result.
// For example, relu(product + bias + skip) has three steps: Add of bias with AlongFastest, Add of skip, and Max of the
// Number 0.
type EpilogueStep struct {
	Op           expr.Op // Add, Mul, Min or Max
	AddressIndex int     // index of the second operand among the addresses of the anchor's kernel; 0 means Number
	Number       float64 // the second operand, if AddressIndex is 0
	// AlongFastest means that the second operand has an element for each position in the fastest dimension of the
	// anchor's result, and is broadcast along all other dimensions.
	AlongFastest bool
	IsScalar     bool // the second operand has one element
	Width        int  // size of the fastest dimension of the anchor's result
}

// Chain returns the epilogue as a sequence of steps. The first operand of the first step is the anchor's result. An
// int32 result is first converted to float32. Chain returns nil if the epilogue is not a sequence of steps, has several
// results, or has an operand in a layout that kernels do not read.
func (e *Epilogue) Chain() []EpilogueStep {
	if e == nil || e.code == nil || len(e.code.Out) != 1 {
		return nil
	}
	dtype := e.code.In[0]
	if dtype == tensor.Int32 {
		dtype = tensor.Float32
	}
	if !dtype.IsFloat() {
		return nil
	}
	var steps []EpilogueStep
	result := e.code.Out[0].Re // the result of the next step to find; the last step is found first
	for !e.isAnchorResult(result, dtype) {
		if result < 0 || e.code.Insts[result].DType != dtype {
			return nil
		}
		inst := e.code.Insts[result]
		switch inst.Op {
		case expr.Add, expr.Mul, expr.Min, expr.Max:
		default:
			return nil
		}
		// All these operations commute, so either operand may be the result of the previous step.
		previous, second := inst.A, inst.B
		if e.isSecondOperand(previous) {
			previous, second = second, previous
		}
		step, ok := e.stepOf(inst.Op, second, dtype)
		if !ok {
			return nil
		}
		steps, result = append(steps, step), previous
	}
	slices.Reverse(steps)
	return steps
}

// isAnchorResult reports whether a value is the anchor's result in the given dtype.
func (e *Epilogue) isAnchorResult(v expr.Value, dtype tensor.DType) bool {
	if v < 0 {
		return false
	}
	inst := e.code.Insts[v]
	if e.code.In[0] != dtype { // int32: the code converts the result
		if inst.Op != expr.Convert || inst.DType != dtype {
			return false
		}
		inst = e.code.Insts[inst.A]
	}
	return inst.Op == expr.Load && inst.A == 0
}

// isSecondOperand reports whether a value is a number or an operand other than the anchor's result, so that it is not
// the result of a step.
func (e *Epilogue) isSecondOperand(v expr.Value) bool {
	if v < 0 {
		return false
	}
	inst := e.code.Insts[v]
	return inst.Op == expr.Const || inst.Op == expr.Load && inst.A != 0
}

// stepOf returns the step with operation op and the given second operand, in the given dtype. It returns false if the
// second operand is neither a number nor an operand in a layout that kernels read.
func (e *Epilogue) stepOf(op expr.Op, second expr.Value, dtype tensor.DType) (step EpilogueStep, ok bool) {
	step.Op = op
	switch inst := e.code.Insts[second]; {
	case inst.Op == expr.Const && inst.DType == tensor.Float32:
		step.Number = float64(math.Float32frombits(uint32(inst.Imm)))
		return step, !math.IsNaN(step.Number)
	case inst.Op == expr.Const && inst.DType == tensor.Float64:
		step.Number = math.Float64frombits(inst.Imm)
		return step, !math.IsNaN(step.Number)
	case inst.Op != expr.Load || inst.A == 0 || inst.DType != dtype || e.code.In[inst.A] != dtype:
		return step, false
	default:
		return e.operandStep(op, int(inst.A))
	}
}

// operandStep returns the step with operation op whose second operand is an operand of the expression. It returns false
// if kernels do not read the operand's layout. A stream describes the memory of the result or an operand. Its strides
// are in bytes, and dimension 0 is the fastest.
func (e *Epilogue) operandStep(op expr.Op, operandIndex int) (step EpilogueStep, ok bool) {
	result, operand := e.streams[0], e.streams[1+operandIndex] // streams: the result, then the operands
	isScalar, sameStrides := true, true
	alongFastest := operand.strides[0] == operand.size
	for dim, stride := range operand.strides {
		sameStrides = sameStrides && stride == result.strides[dim]
		isScalar = isScalar && stride == 0
		alongFastest = alongFastest && (dim == 0 || stride == 0)
	}
	alongFastest = alongFastest && !sameStrides
	step = EpilogueStep{Op: op, AddressIndex: operand.addressIndex, AlongFastest: alongFastest, IsScalar: isScalar,
		Width: e.sizes[0]}
	return step, sameStrides || alongFastest || isScalar
}

// OpCounts is the number of operations of an expression, by kind. It is also called the effort of the expression. In
// all fields except Passes and Scans, an operation on elements of 64 bits counts twice. [OpCounts.AddTo] converts it to
// work. For example, (x - reduce max(x)) / sqrt(reduce max(x)) of float32 has the counts Simple 1 (the difference),
// Divide 1, Folds 1, Row 1 (the square root of the maximum) and Passes 1.
type OpCounts struct {
	Simple float64 // instructions for each element
	Divide float64 // divisions, remainders and square roots for each element
	Folds  float64 // folds (reductions of a row), for each element
	Row    float64 // instructions for each row
	Passes float64 // number of folds: each takes one pass over each row
	Scans  float64 // running folds, for each element; they run in Go
}

// EffortOf counts the operations of an expression. Values that depend only on constants and folds count once per row.
func EffortOf(c *expr.Code) (counts OpCounts) {
	if c == nil {
		return counts
	}
	if slices.ContainsFunc(c.Insts, func(inst expr.Inst) bool { return inst.Op.Elementary() }) {
		if expanded, err := expand.Functions(c, expand.Target{}); err == nil {
			c = expanded
		}
	}
	oncePerRow := make([]bool, len(c.Insts)) // by instruction: whether it depends only on constants and folds
	for i, inst := range c.Insts {
		weight := 1.0
		if inst.DType.Size() == 8 {
			weight = 2
		}
		switch inst.Op {
		case expr.Const:
			oncePerRow[i] = true
			continue
		case expr.Load, expr.Position:
			continue
		case expr.Reduce:
			oncePerRow[i] = true
			counts.Folds += weight
			counts.Passes++
			continue
		case expr.Scan:
			counts.Scans++
			continue
		}
		oncePerRow[i] = !slices.ContainsFunc(inst.Operands(), func(v expr.Value) bool { return v >= 0 && !oncePerRow[v] })
		switch {
		case oncePerRow[i]:
			counts.Row += weight
		case inst.Op == expr.Div || inst.Op == expr.Sqrt || inst.Op == expr.Mod:
			counts.Divide += weight
		default:
			counts.Simple += weight
		}
	}
	return counts
}

// AddTo adds the work of a number of elements, and the work of starting a number of rows. The work is counted in units
// of inner kernels ([graph.Rate]), such as [graph.LoopSimple]. A caller that itself adds the work of starting rows or
// runs of columns passes 0 rows.
func (e OpCounts) AddTo(work *pricing.Work, elements, rows float64) {
	if work == nil {
		return
	}
	work.Flops += float64(elements * (e.Simple + e.Divide + e.Folds + e.Scans))
	if e.Scans > 0 {
		work.AddUnits(graph.GoSimple, elements*ScanSimple*e.Scans)
	}
	switch {
	case !loops.CodeAvailable():
		work.AddUnits(graph.GoLoop, elements*(e.Simple+e.Divide+e.Folds))
		return
	case e.Folds > 0:
		// Each fold begins once for all rows; addRowLoops adds the work for each row. Folds are assumed not to overlap
		// with memory access. foldKernel selects the second unit if there are several passes.
		work.AddUnoverlapped(e.foldKernel(graph.FoldBegin, graph.MultipassBegin), e.Passes)
		work.AddUnoverlapped(e.foldKernel(graph.FoldElement, graph.MultipassElement), elements*e.Folds)
		// A division takes about as long as two simple instructions.
		work.AddUnoverlapped(e.foldKernel(graph.FoldSimple, graph.MultipassSimple), elements*(e.Simple+2*e.Divide))
		e.addRowLoops(work, elements, rows)
		return
	}
	work.AddUnits(graph.LoopSimple, elements*e.Simple)
	if e.Divide > 0 {
		work.AddUnits(graph.LoopDivide, elements*e.Divide)
	}
}

// ScanSimple is the time that a scan (a running fold) takes per element, in operations of Go code ([graph.GoSimple]).
const ScanSimple = 3.8

// exampleEffort returns the effort of the op's first example. It returns false if there is no example or no expression,
// or if the expression does not compile.
func exampleEffort(op *graph.Op) (counts OpCounts, ok bool) {
	defer func() { _ = recover() }() // functions of a caller's op may panic; calls of the op report the panic
	if code := exampleCode(op); code != nil && code.Compilable() {
		return EffortOf(code), true
	}
	return counts, false
}

// exampleCode returns the expression of the op's first example. It returns nil if the op has no example, or if the
// example has no expression.
func exampleCode(op *graph.Op) *expr.Code {
	if op.Expression == nil && op.Rows == nil || len(op.Examples) == 0 {
		return nil
	}
	example := op.Examples[0]
	attrs, err := op.Schema.Decode(example.Attrs, nil)
	if err != nil {
		return nil
	}
	call := &graph.Call{Attrs: attrs}
	for _, meta := range example.In {
		if !meta.DType.Valid() { // an absent optional operand
			call.In = append(call.In, graph.Arg{})
			continue
		}
		call.In = append(call.In, graph.ArgOf(&graph.Value{Meta: meta, Type: meta.Type()}))
	}
	results, err := op.Infer(call)
	if err != nil {
		return nil
	}
	for _, result := range results {
		call.Out = append(call.Out, result.Meta())
	}
	if op.Expression != nil {
		code, _ := op.Expression(call)
		return code
	}
	if rows, err := op.Rows(call); err == nil && rows != nil {
		return rows.Code
	}
	return nil
}

// Define makes an op as [graph.Define] does, and completes it for planning and execution. If the op has a Pointwise,
// but neither Compile nor Impls, it is compiled as the loop of its expression. The work of implementations without Work
// is estimated from the op's expression. Every op that runs, including users' own ops, must be made by Define.
func Define(op graph.Op) (*graph.Op, error) {
	if pointwise := op.Pointwise; pointwise != nil && op.Compile == nil && len(op.Impls) == 0 {
		op.Compile = func(call *graph.Call) (*graph.Kernel, error) { return CompileLoop(pointwise, call) }
		if op.Expression == nil {
			op.Expression = pointwise.Expression
		}
	}
	p := new(opPricing)
	p.effort = sync.OnceValues(func() (OpCounts, bool) { return exampleEffort(p.op) })
	op.Pricing = p
	defined, err := graph.Define(op)
	p.op = defined
	return defined, err
}

// opPricing estimates the work of the calls of an op. It counts the operations in the expression of the op's first
// example (Semantics.Examples). Other attributes and dtypes give expressions of similar length.
type opPricing struct {
	op     *graph.Op
	effort func() (counts OpCounts, ok bool) // ok is false if there is no expression, or if it does not compile
}

// Work implements [graph.Pricing].
func (p *opPricing) Work(call *graph.Call, walk graph.Walk) (work pricing.Work, ok bool) {
	if p.op.Flops != nil || len(call.Out) == 0 { // with Flops, the op states the number of operations
		return work, false
	}
	counts, ok := p.effort()
	if !ok {
		return work, false
	}
	work.StartedSteps = 1
	call.AddStreamed(&work)
	if counts.Folds > 0 {
		fold := foldingOf(call)
		fold.addWork(&work, counts, call, walk)
		return work, true
	}
	const rows = 0 // AddRunStartWork adds the work of starting runs
	counts.AddTo(&work, call.Elements(), rows)
	call.AddRunStartWork(&work, walk.ResultLayout(0, call.Out[0]))
	return work, true
}

// Read implements [graph.Pricing]. It prices operands of ops with folds, whose layouts may determine the direction of
// the loops. The default [graph.ReadWork] assumes that the layout of the result determines it.
func (p *opPricing) Read(call *graph.Call, walk graph.Walk, i int, meta tensor.Meta) (work pricing.Work, ok bool) {
	if p.op.Flops != nil || len(call.Out) == 0 {
		return work, false
	}
	counts, ok := p.effort()
	if !ok || counts.Folds == 0 {
		return work, false
	}
	fold := foldingOf(call)
	return fold.read(counts, call, walk, i, meta), true
}
