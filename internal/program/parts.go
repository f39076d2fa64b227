package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// This file runs graphs whose shapes depend on data, and the bodies of loops and branches. Such a graph has several
// parts ([graph.Graph.Segments]). The shapes of a part are known once its inputs are known. A part is either a
// subgraph, which is planned and compiled, or a single dynamic node. The op of a dynamic node has a
// [graph.Lowerings.RunDynamic], because the shapes of its results depend on data. A run executes the parts in order: it
// finds the [Binding] of a part for the values that are known at this time (see [Program.bindingForPart]), and stores
// the results of the part. It then drops the values that no later part reads. For example, the graph
// neg(nonzero(relu(x))) has three parts: relu; nonzero, a dynamic node; and neg.
//
// With keepGoing, a run continues after failures. It then runs only the nodes of a part whose operands exist.

// partList is a graph divided into parts. All runs share it. Its fields do not change, except forms.
type partList struct {
	graph        *graph.Graph
	parts        []graph.Segment
	dynamicIndex []int           // indexed by part: number of earlier parts that are dynamic nodes
	dynamicCount int             // number of parts that are dynamic nodes
	readByParts  map[string]bool // the names of the values that another part reads
	// lastReads[i] lists the values that part i reads or computes, and no later part reads. Outputs are omitted, and
	// inputs, because the caller holds them and their shapes bind symbols.
	lastReads [][]*graph.Value
	// openSymbols are the symbols of the graph that have other sizes in other runs.
	openSymbols []string
	isWhole     bool // the graph is the whole graph of the program, with sizes of the first run: see sharedParts

	formsLock sync.Mutex // guards forms
	forms     map[formKey]*Program
}

// newPartList divides a graph into parts.
func newPartList(g *graph.Graph) *partList {
	list := &partList{graph: g, parts: g.Segments(), readByParts: map[string]bool{}}
	list.dynamicIndex, list.lastReads = make([]int, len(list.parts)), make([][]*graph.Value, len(list.parts))
	isKeptOrReadLater := graph.NewByValue[bool](g)
	for _, v := range slices.Concat(g.Inputs, g.Constants) {
		isKeptOrReadLater.Set(v, true)
	}
	for _, output := range g.Outputs {
		isKeptOrReadLater.Set(output.Value, true)
	}
	for i, part := range list.parts {
		list.dynamicIndex[i] = list.dynamicCount
		if part.Dynamic {
			list.dynamicCount++
		}
	}
	for i, part := range slices.Backward(list.parts) {
		results := part.Out
		if part.Dynamic {
			results = part.Nodes[0].Out // all results of a dynamic node are stored
		}
		read := slices.Concat(part.In, part.AttrInputs)
		for _, v := range read {
			list.readByParts[v.Name] = true
		}
		for _, v := range append(read, results...) {
			if !isKeptOrReadLater.At(v) {
				isKeptOrReadLater.Set(v, true)
				list.lastReads[i] = append(list.lastReads[i], v)
			}
		}
	}
	return list
}

// partsRun is one run of a graph in parts. It implements [graph.Runtime] for the dynamic nodes.
type partsRun struct {
	*partList
	owner       *Program
	ctx         context.Context
	tracedRun   *exec.Run // this run, or the enclosing one if only that is traced; nil without a tracer
	traced      bool      // whether the tracer observes the steps of this run
	knownValues map[*graph.Value]*tensor.Tensor
	keepGoing   bool // whether the run continues after failed nodes
	beforeRun   bool // a part is compiled before the first run: see prepareFirstPart
	texts       *tensor.Texts
	// sharedConstants has the storages of constants that results of dynamic nodes share: see recordSharedConstant.
	sharedConstants map[*tensor.Storage]bool
	given           map[string]*tensor.Tensor // the caller's tensors for outputs, by the name of the output's value

	failed        graph.Errors
	missingValues map[*graph.Value]bool // values that are missing because of failures
}

// runInParts runs the graph of a binding in parts and returns the outputs by name. It puts the inputs in their declared
// layouts. If out is not nil, it writes the outputs to the tensors in out, as [exec.Program.RunIntoNamed] does, except
// that none may be the tensor of an input.
func (p *Program) runInParts(ctx context.Context, binding *Binding, texts *tensor.Texts,
	in, out map[string]*tensor.Tensor) (byName map[string]*tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	g := binding.graphOfParts
	in = graph.FillDefaults(g.Inputs, in) // makeReleasable must know them
	inputs, err := exec.OrderInputs(g.Inputs, in)
	if err != nil {
		return nil, err
	}
	given, givenByValue := make([]*tensor.Tensor, len(g.Outputs)), map[string]*tensor.Tensor{}
	for i, output := range g.Outputs {
		if given[i] = out[output.Name]; given[i] != nil && givenByValue[output.Value.Name] == nil {
			givenByValue[output.Value.Name] = given[i]
		}
	}
	if err := exec.CheckTensors(g, inputs, given); err != nil {
		return nil, err
	}
	for i, v := range g.Inputs {
		input := inputs[i]
		if !input.SameAddresses(v.Meta) || input.Offset != v.Meta.Offset {
			if input, err = exec.PooledCopy(ctx, p.pool, input, v.Meta, p.options.Threads); err != nil {
				return nil, err
			}
		}
		inputs[i] = tensor.Must(input.View(v.Meta))
	}
	run := &partsRun{partList: binding.parts, owner: p, ctx: ctx, keepGoing: p.options.KeepGoing,
		texts: cmp.Or(texts, tensor.NewTexts(nil))}
	if out != nil {
		run.given = givenByValue
	}
	results, err := run.run(inputs)
	if err != nil && !errors.As(err, new(*exec.Incomplete)) {
		return nil, err
	}
	if out != nil {
		for i, t := range results {
			if t == nil || given[i] == nil || t == given[i] {
				continue
			}
			if err := exec.CheckOutput(g.Outputs[i].Name, t.DType, t.Shape, given[i]); err != nil {
				return nil, err
			}
			if err := iter.CopyElements(ctx, given[i], t, p.options.Threads); err != nil {
				return nil, err
			}
		}
		return nil, err
	}
	if ownErr := exec.OwnOutputs(ctx, p.pool, results, inputs, p.options.Threads); ownErr != nil {
		return nil, ownErr
	}
	p.makeReleasable(results, in)
	byName = map[string]*tensor.Tensor{}
	for i, result := range results {
		if result != nil {
			byName[g.Outputs[i].Name] = result
		}
	}
	return byName, err
}

// makeReleasable makes it possible to release the memory of outputs ([tensor.Tensor.Release]), except outputs in the
// memory of an input. Without this call, memory that RunDynamic of an op allocated could not be released.
func (p *Program) makeReleasable(outputs []*tensor.Tensor, inputs map[string]*tensor.Tensor) {
	adopted := map[*tensor.Storage]*tensor.Storage{} // the pool's storage for each storage; inputs keep their own
	for _, input := range inputs {
		adopted[input.Storage()] = input.Storage()
	}
	for i, output := range outputs {
		if output == nil || output.Storage().Releasable() {
			continue
		}
		pooled := adopted[output.Storage()]
		if pooled == nil {
			pooled = p.pool.Adopt(output.Storage())
			adopted[output.Storage()] = pooled
		}
		outputs[i] = tensor.Must(tensor.FromStorage(output.Meta, pooled))
	}
}

// run runs the parts and returns the outputs of the graph in order. With keepGoing, the error may be an
// [*exec.Incomplete]. Outputs that were not computed are then nil.
func (run *partsRun) run(inputs []*tensor.Tensor) (outputs []*tensor.Tensor, err error) {
	run.missingValues = map[*graph.Value]bool{}
	run.knownValues = make(map[*graph.Value]*tensor.Tensor, 2*len(inputs))
	for i, v := range run.graph.Inputs {
		run.knownValues[v] = inputs[i]
	}
	isOneProgram := len(run.parts) == 1 && run.dynamicCount == 0
	if run.owner.options.Tracer == nil || isOneProgram {
		return run.runParts()
	}
	run.tracedRun = &exec.Run{Graph: run.graph, Parent: run.tracedRun, Steps: run.dynamicCount, Workers: 1}
	err = exec.TraceRun(run.owner.options.Tracer, run.tracedRun, func(observesSteps bool) (err error) {
		run.traced = observesSteps
		outputs, err = run.runParts()
		return err
	})
	return outputs, err
}

// runParts runs the parts in order.
func (run *partsRun) runParts() ([]*tensor.Tensor, error) {
	for i := range run.parts {
		if run.ctx.Err() != nil {
			return nil, context.Cause(run.ctx)
		}
		part := &run.parts[i]
		switch err := run.runPart(i); {
		case err == nil:
		case run.ctx.Err() != nil: // the cause replaces the error of the part
			return nil, context.Cause(run.ctx)
		case !run.keepGoing:
			return nil, err
		default: // the run continues
			run.recordFailure(part, err)
		}
		for _, v := range run.lastReads[i] {
			run.dropValue(v)
		}
	}
	return run.outputs()
}

// runPart runs part i. If some operands of its nodes are missing, it runs only the nodes whose operands exist, and this
// part of a part is not kept for later runs.
func (run *partsRun) runPart(i int) error {
	part, isWhole := &run.parts[i], true
	if len(run.missingValues) > 0 {
		remaining := part.Without(run.missingValues)
		if len(remaining.Nodes) == 0 {
			return nil
		}
		if len(remaining.Nodes) < len(part.Nodes) {
			part, isWhole = &remaining, false
		}
	}
	if !part.Dynamic {
		return run.runPlanned(part, isWhole)
	}
	n := part.Nodes[0]
	if !run.traced {
		return run.nodeError(n, run.runDynamic(part, isWhole))
	}
	t, position := run.owner.options.Tracer, exec.Position{Run: run.tracedRun, Node: n, Step: run.dynamicIndex[i]}
	t.BeginStep(position)
	t.BeginChunk(position)
	err := run.runDynamic(part, isWhole)
	t.EndChunk(position, err)
	t.EndStep(position, err == nil || run.keepGoing && run.ctx.Err() == nil)
	return run.nodeError(n, err)
}

// nodeError returns an error that names the node once, or nil.
func (run *partsRun) nodeError(n *graph.Node, err error) error {
	if nodeErr, ok := err.(*graph.Error); ok && nodeErr.Node == n.Name {
		err = nodeErr.Err
	}
	if err == nil {
		return nil
	}
	return run.graph.NodeError(n, err)
}

// runPlanned runs a part that is not a dynamic node, and stores its results.
func (run *partsRun) runPlanned(part *graph.Segment, isWhole bool) error {
	binding, err := run.owner.bindingForPart(run, part, isWhole)
	if err != nil {
		return err
	}
	inputs := make([]*tensor.Tensor, len(part.In))
	for i, v := range part.In {
		inputs[i] = run.knownValues[v]
	}
	outputs := binding.outputs()
	results := make([]*tensor.Tensor, len(outputs))
	if inner := binding.parts; inner != nil { // runInParts copies its results to the caller's tensors later
		innerRun := &partsRun{partList: inner, owner: run.owner, ctx: run.ctx, tracedRun: run.tracedRun,
			keepGoing: run.keepGoing}
		results, err = innerRun.run(inputs)
	} else {
		for i, output := range outputs {
			results[i] = run.writable(part, output)
		}
		err = binding.Program.RunWithin(run.ctx, run.tracedRun, inputs, results)
	}
	failed := slices.Clone(binding.failed)
	var incomplete *exec.Incomplete
	if errors.As(err, &incomplete) {
		failed = append(failed, incomplete.Failed...)
	} else if err != nil {
		return err
	}
	resultsByName := make(map[string]*tensor.Tensor, len(results))
	for i, result := range results {
		resultsByName[outputs[i].Name] = result // outputs of parts have the names of their values
	}
	for _, v := range part.Out {
		if result := resultsByName[v.Name]; result != nil {
			run.knownValues[v] = result
		}
	}
	if len(failed) > 0 {
		return &exec.Incomplete{Failed: failed}
	}
	return nil
}

// writable returns the caller's tensor that a part can write directly as an output of its program, or nil. The tensor
// must have the dtype and shape of the output. If another part reads the value, the tensor must also have the strides
// and the offset of the output: the plan of that part depends on them.
func (run *partsRun) writable(part *graph.Segment, output graph.Output) *tensor.Tensor {
	t, meta := run.given[output.Name], output.Value.Meta
	isResult := func(v *graph.Value) bool { return v.Name == output.Name }
	if t == nil || exec.CheckOutput(output.Name, meta.DType, meta.Shape, t) != nil ||
		!slices.ContainsFunc(part.Out, isResult) {
		return nil
	}
	if run.readByParts[output.Name] && !(t.SameAddresses(meta) && t.Offset == meta.Offset) {
		return nil
	}
	return t
}

// runDynamic runs a dynamic node.
func (run *partsRun) runDynamic(part *graph.Segment, isWhole bool) (err error) {
	defer panics.Recover(&err)
	n := part.Nodes[0]
	binding, err := run.owner.bindingForPart(run, part, isWhole)
	if err != nil {
		return err
	}
	operands := make([]*tensor.Tensor, len(n.In))
	for i, arg := range n.In {
		switch arg.Kind {
		case graph.TensorArg:
			operands[i] = arg.Value.Const
			if operands[i] == nil {
				operands[i] = run.knownValues[arg.Value]
			}
		case graph.NumberArg: // a tensor with one element
			operands[i] = arg.Number.Tensor(arg.Number.DType())
		}
	}
	results, err := n.Op.RunDynamic(run, binding.call, operands)
	if err != nil {
		return err
	}
	if len(results) != len(n.Out) {
		return fmt.Errorf("the op returned %d values, but \"outputs\" names %d", len(results), len(n.Out))
	}
	for i, v := range n.Out {
		result := results[i]
		if result != nil && !n.Pin.Matches(result.Meta) { // the user demands the layout of the pin
			meta, err := n.Pin.Apply(result.Meta)
			if err != nil {
				return err
			}
			if result, err = run.copyOf(result, meta); err != nil {
				return err
			}
		}
		run.knownValues[v] = result
		run.recordSharedConstant(n, result)
	}
	return nil
}

// Context implements [graph.Runtime].
func (run *partsRun) Context() context.Context { return run.ctx }

// Texts implements [graph.Runtime].
func (run *partsRun) Texts() *tensor.Texts { return run.texts }

// Run implements [graph.Runtime]: it runs the body of a loop or a branch. It fails if any node of the body fails.
func (run *partsRun) Run(body *graph.Graph, inputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if run.ctx.Err() != nil {
		return nil, context.Cause(run.ctx)
	}
	list, err := run.owner.partsOfBody(body)
	if err != nil {
		return nil, err
	}
	if len(inputs) != len(body.Inputs) {
		return nil, fmt.Errorf("the graph has %d inputs, but %d tensors were given", len(body.Inputs), len(inputs))
	}
	for i, input := range inputs {
		if err := input.Check(); err != nil {
			return nil, fmt.Errorf("input %q: %w", body.Inputs[i].Name, err)
		}
	}
	bodyRun := &partsRun{partList: list, owner: run.owner, ctx: run.ctx, texts: run.texts, tracedRun: run.tracedRun}
	return bodyRun.run(inputs)
}

// maxBodies is the maximum number of cached bodies. Only an op that creates graphs at run time can need more.
const maxBodies = 1024

// partsOfBody returns a body in parts, from the cache if possible.
func (p *Program) partsOfBody(body *graph.Graph) (*partList, error) {
	if body == nil {
		return nil, errors.New("the graph to run is nil")
	}
	p.partsLock.Lock()
	defer p.partsLock.Unlock()
	if list := p.bodies[body]; list != nil {
		return list, nil
	}
	if err := body.Err(); err != nil {
		return nil, err
	}
	if p.bodies == nil || len(p.bodies) >= maxBodies {
		p.bodies = map[*graph.Graph]*partList{}
	}
	list := newPartList(body)
	list.openSymbols = sorted.Keys(body.Symbols)
	p.bodies[body] = list
	return list, nil
}

// sharedParts returns the parts of the first binding instead of the parts of another one, if they have the same nodes.
// Its parts take the sizes of open symbols from the inputs of a run, as bodies do.
func (p *Program) sharedParts(list *partList) *partList {
	isGiven := func(symbol string) bool { // an input has a dimension of this size
		return slices.ContainsFunc(list.graph.Inputs, func(v *graph.Value) bool {
			return slices.ContainsFunc(v.Dims, func(dim graph.Dim) bool { return dim.Symbol == symbol })
		})
	}
	for _, symbol := range p.openSymbols {
		if !isGiven(symbol) {
			return list
		}
	}
	if p.options.KeepGoing || !slices.EqualFunc(p.graph.Nodes, list.graph.Nodes, sameNode) { // inlined for these sizes
		return list
	}
	p.partsLock.Lock()
	defer p.partsLock.Unlock()
	if p.parts == nil {
		p.parts, list.openSymbols, list.isWhole = list, p.openSymbols, true
	}
	if slices.EqualFunc(p.parts.parts, list.parts, sameNodes) {
		return p.parts
	}
	return list
}

// sameNode reports whether two nodes have the same name and op.
func sameNode(m, n *graph.Node) bool { return m.Name == n.Name && m.Op == n.Op }

// sameNodes reports whether two parts have the same nodes, inputs and outputs.
func sameNodes(a, b graph.Segment) bool {
	sameName := func(v, w *graph.Value) bool { return v.Name == w.Name }
	return a.Dynamic == b.Dynamic && slices.EqualFunc(a.Nodes, b.Nodes, sameNode) && slices.EqualFunc(a.In, b.In, sameName) &&
		slices.EqualFunc(a.AttrInputs, b.AttrInputs, sameName) && slices.EqualFunc(a.Out, b.Out, sameName)
}

// recordSharedConstant records a result that shares memory with a constant operand, such as the result of a branch that
// returns its input. The run must neither release this memory nor return it as an output.
func (run *partsRun) recordSharedConstant(n *graph.Node, result *tensor.Tensor) {
	sharesMemory := func(arg graph.Arg) bool {
		return arg.Kind == graph.TensorArg && arg.Value.Const != nil && arg.Value.Const.Storage() == result.Storage()
	}
	if result == nil || !slices.ContainsFunc(n.In, sharesMemory) {
		return
	}
	if run.sharedConstants == nil {
		run.sharedConstants = map[*tensor.Storage]bool{}
	}
	run.sharedConstants[result.Storage()] = true
}

// copyOf returns a copy of a tensor with the layout meta, from the start of new memory.
func (run *partsRun) copyOf(t *tensor.Tensor, meta tensor.Meta) (*tensor.Tensor, error) {
	meta.Offset = 0
	return exec.PooledCopy(run.ctx, run.owner.pool, t, meta, run.owner.options.Threads)
}

// recordFailure records the error of a part and marks the results that the part did not compute as missing.
func (run *partsRun) recordFailure(part *graph.Segment, err error) {
	var incomplete *exec.Incomplete
	if errors.As(err, &incomplete) {
		run.failed = append(run.failed, incomplete.Failed...)
	} else if nodeErr, ok := err.(*graph.Error); ok {
		run.failed = append(run.failed, nodeErr)
	} else {
		run.failed = append(run.failed, &graph.Error{Err: err}) // the error concerns the whole part
	}
	for _, v := range part.Out {
		if run.knownValues[v] == nil {
			run.missingValues[v] = true
		}
	}
}

// dropValue removes a value that has no further reader. The memory returns to the pool unless another value shares it.
func (run *partsRun) dropValue(v *graph.Value) {
	dropped := run.knownValues[v]
	delete(run.knownValues, v)
	if dropped == nil || !dropped.Storage().Releasable() || run.sharedConstants[dropped.Storage()] {
		return
	}
	for _, other := range run.knownValues {
		if other != nil && other.Storage() == dropped.Storage() {
			return
		}
	}
	_ = dropped.Release()
}

// outputs returns the outputs in their pinned layouts. An output that is copied to a tensor of the caller is as
// computed. An output that was not computed is nil, and so is, with keepGoing, one that cannot have its pinned layout.
func (run *partsRun) outputs() (_ []*tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	isComputed := map[string]bool{}
	out := make([]*tensor.Tensor, len(run.graph.Outputs))
	for i, output := range run.graph.Outputs {
		result := run.knownValues[output.Value]
		if output.Value.Const != nil {
			result = output.Value.Const
		}
		if result != nil && run.given == nil {
			meta, isGraphData := result.Meta, output.Value.Const != nil || run.sharedConstants[result.Storage()]
			matches := output.Pin.Matches(meta)
			if !matches {
				meta, err = output.Pin.Apply(meta)
			}
			switch {
			case err != nil && run.keepGoing:
				run.failed = append(run.failed, run.graph.OutputError(output, err))
				result, err = nil, nil
			case err != nil:
				return nil, fmt.Errorf("output %q: %w", output.Name, err)
			case !matches || isGraphData: // the caller must not get the graph's own data
				if result, err = run.copyOf(result, meta); err != nil {
					return nil, err
				}
			}
		}
		out[i], isComputed[output.Name] = result, result != nil
	}
	return out, exec.IncompleteError(run.graph, run.failed, func(name string) bool { return isComputed[name] })
}

// This part shares plans between the sizes at which a part of a graph runs. For example, the part behind nonzero runs
// with another number of rows for each image. The sizes that differ between runs are symbols of the part's graph
// ([graph.SegmentForm]), which is a program of its own, the open program. Its specializations are plans for the hints of
// the graph; sizes that depend on data are rounded up to powers of two. The sizes of a run alone thus determine the
// plan. A binding repeats the decisions of such a plan, by a template if possible (see specialization.go).

// maxForms is the number of forms at which the open programs of a graph are dropped. Later runs make them again.
const maxForms = 64

// formKey identifies the open program of a part for values of one form.
type formKey struct {
	part *graph.Segment
	form string // see [graph.SegmentForm.Key]
}

// openProgram returns the open program of a part, and the sizes of its open symbols in a run. It returns nil if each
// list of sizes needs a plan of its own.
func (run *partsRun) openProgram(part *graph.Segment) (open *Program, sizes []int) {
	owner := run.owner
	if owner.hasOwnPasses || owner.options.KeepGoing || owner.device != nil {
		return nil, nil
	}
	form := part.Form(run.knownValues, run.openSymbols)
	if form == nil || run.isWhole && owner.isHint(form.Sizes) {
		return nil, nil
	}
	names := sorted.Keys(form.Sizes)
	for _, name := range names {
		sizes = append(sizes, form.Sizes[name])
	}
	run.formsLock.Lock()
	defer run.formsLock.Unlock()
	key := formKey{part, form.Key}
	if open := run.forms[key]; open != nil {
		return open, sizes
	}
	g, err := form.Graph(context.Background())
	if err != nil {
		return nil, nil
	}
	g.ReadPacked()
	fixed := g.BoundSizes()
	maps.DeleteFunc(fixed, func(name string, _ int) bool { return slices.Contains(names, name) })
	open = &Program{graph: g, options: owner.options, needsInference: true, openSymbols: names, fixedSizes: fixed,
		pool: owner.pool, uploads: owner.uploads, planCount: owner.planCount}
	open.options.InputsInMemory = true
	if run.isWhole {
		open.anchors = owner.anchorsOf(names)
	}
	if run.forms == nil || len(run.forms) >= maxForms {
		run.forms = map[formKey]*Program{}
	}
	run.forms[key] = open
	return open, sizes
}

// anchorsOf returns the hints for named symbols, or the assumed sizes if there are no hints. A size is -1 for a symbol
// that depends on data.
func (p *Program) anchorsOf(names []string) [][]int {
	hints := p.hints
	if len(hints) == 0 {
		hints = [][]int{p.assumedSizes}
	}
	anchors := make([][]int, len(hints))
	for i, hint := range hints {
		for _, name := range names {
			size := -1
			if k := slices.Index(p.openSymbols, name); k >= 0 {
				size = hint[k]
			}
			anchors[i] = append(anchors[i], size)
		}
	}
	return anchors
}

// anchor returns the sizes for which the open program of a part is planned: those of the nearest anchor. Sizes that
// depend on data are rounded up to powers of two, and so are all sizes of a part of a body.
func (p *Program) anchor(sizes []int) []int {
	anchor := p.roundUp(sizes)
	if len(p.anchors) == 0 {
		return anchor
	}
	nearest := slices.MinFunc(p.anchors, func(a, b []int) int {
		return cmp.Compare(distance(a, sizes), distance(b, sizes))
	})
	for i, n := range nearest {
		if n >= 0 {
			anchor[i] = n
		}
	}
	return anchor
}

// isHint reports whether the sizes of symbols are those of a hint, or the assumed sizes if there are no hints. Compile
// makes plans for exactly these sizes. Sizes that depend on data are in no hint.
func (p *Program) isHint(sizes map[string]int) bool {
	hints := p.hints
	if len(hints) == 0 {
		hints = [][]int{p.assumedSizes}
	}
	return slices.ContainsFunc(hints, func(hint []int) bool {
		for name, n := range sizes {
			if i := slices.Index(p.openSymbols, name); i < 0 || hint[i] != n {
				return false
			}
		}
		return true
	})
}

// roundUp returns sizes rounded up to powers of two, within the bounds of the symbols.
func (p *Program) roundUp(sizes []int) []int {
	rounded := slices.Clone(sizes)
	for i, n := range sizes {
		if n > 2 {
			rounded[i] = p.Clamp(i, 1<<bits.Len(uint(n-1)))
		}
	}
	return rounded
}

// bindPart compiles the binding of a part by the plan for the rounded sizes of its open program. It returns false if
// the sizes need a plan of their own.
func (b *Binding) bindPart(ctx context.Context, open *Program, sizes []int) (bound bool, err error) {
	defer interrupt.Catch(&err)
	hint := open.anchor(sizes)
	spec := open.SpecializationAt(ctx, hint)
	if spec == nil { // the part cannot be planned for the rounded sizes
		return false, nil
	}
	b.decisionsFrom, b.sizes = spec, open.SizesByName(sizes)
	if slices.Equal(hint, sizes) {
		return true, b.compilePlan(ctx, open, spec.Plan, false /* keepGoing */)
	}
	if spec.isFollowed.Swap(true) { // a template, which takes longer to make than a plan, is for several sizes
		for class := range spec.classesFor(ctx, open, sizes) {
			if class.template == nil || class.isWrong.Load() {
				break
			}
			if err := b.bindTo(ctx, open, class, spec, sizes); !errors.As(err, new(*passes.Misfit)) {
				return true, err
			}
		}
	}
	g, err := open.GraphAt(ctx, sizes)
	if err == nil {
		err = b.plan(ctx, open, g, planMode{follow: spec.Decisions, inRun: true})
	}
	if err == nil || errors.As(err, new(*exec.MemoryError)) || errors.As(err, new(*tensor.MemoryError)) {
		return true, err
	}
	b.decisionsFrom = nil
	return false, nil
}
