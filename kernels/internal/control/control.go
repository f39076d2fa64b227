// Package control has the ops of control flow: branches ([If], [IfSizes]), loops ([Loop], [Scan]) and errors ([Raise]).
//
// They run graphs that are attributes (bodies and branches). A body may use values of the graph that contains the node.
// Such values are the last operands of the node and the last inputs of the body. An iteration passes its carried values
// (the states of a scan) to the next iteration. The collected values of all iterations are stacked in the results. For
// example, let the body of a loop carry a sum that starts at 0. Its inputs are (i, condition, sum), and its outputs are
// (condition, sum+i, sum). Three iterations give the carried value 3 and the collected values [0 0 1].
package control

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type ifAttrs struct {
	Then *graph.Graph `attr:"then_branch" doc:"graph to run if condition holds; its inputs are the first operands after condition"`
	Else *graph.Graph `attr:"else_branch" doc:"graph to run otherwise; its inputs are the remaining operands"`
}

type loopAttrs struct {
	Body    *graph.Graph `attr:"body" doc:"inputs: the number of the iteration, the condition, the carried values, then the values of the enclosing graph; outputs: the condition, the carried values, then the collected values"`
	Carried int          `attr:"carried" default:"0" doc:"number of values that each iteration passes to the next"`
	Trips   *sym.Int     `attr:"trips" default:"none" range:"int64" doc:"number of iterations as an expression over sizes, only for a loop whose condition stays true; when the sizes are known, the loop is unrolled, unless that makes too many nodes; none: the number depends on data"`
}

type scanAttrs struct {
	Body         *graph.Graph `attr:"body" doc:"inputs: the states, a slice of each scanned operand, then the values of the enclosing graph; outputs: the states, then the collected values"`
	States       int          `attr:"states" default:"0" doc:"number of operands that are initial states"`
	Scanned      int          `attr:"num_scan_inputs" doc:"number of operands that are scanned, after the states"`
	InputAxes    []int        `attr:"scan_input_axes" default:"" doc:"dimensions that are scanned; none: the first"`
	Backwards    []bool       `attr:"scan_input_directions" default:"" doc:"by scanned operand: whether the scan starts at its end"`
	OutputAxes   []int        `attr:"scan_output_axes" default:"" doc:"dimensions along which values are stacked; none: the first"`
	OutBackwards []bool       `attr:"scan_output_directions" default:"" doc:"by collected value: whether the values are stacked in reverse order"`
}

var (
	// optValues are the operands of bodies and branches.
	optValues = graph.Param{Name: "values", Variadic: true, Optional: true}

	// If runs one of two graphs.
	If = kit.Define[*ifAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: "if", Doc: "Runs `then_branch` if `condition` holds, else `else_branch`. The results are the outputs of " +
				"that graph.",
			Params: []graph.Param{{Name: "condition", AcceptsNumber: true}, optValues}, VariadicResults: true, Infer: inferIf,
			Ref: referenceOf(runIf),
		},
		Lowerings: graph.Lowerings{RunDynamic: runIf},
	})
	// Loop runs a graph repeatedly, as ONNX's Loop does.
	Loop = kit.Define[*loopAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: "loop",
			Doc: "Runs `body` at most `max_trip_count` times, as long as `condition` holds. The results are the carried " +
				"values after the last iteration, and the collected values of all iterations, stacked along a new first " +
				"dimension.",
			Params: []graph.Param{{Name: "max_trip_count", Optional: true, AcceptsNumber: true},
				{Name: "condition", Optional: true, AcceptsNumber: true}, optValues},
			VariadicResults: true, Infer: inferLoop, Ref: referenceOf(runLoop),
		},
		Lowerings: graph.Lowerings{Repeats: unrolledLoop, RunDynamic: runLoop},
	})
	// Scan runs a graph once for each index of its scanned operands, as ONNX's Scan does.
	Scan = kit.Define[*scanAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: "scan",
			Doc: "Runs `body` once for each index of the scanned operands. " +
				"The results are the states after the last iteration, and the collected values, stacked along a new dimension.",
			Params: []graph.Param{optValues}, VariadicResults: true, Infer: inferScan, Ref: referenceOf(runScan),
		},
		Lowerings: graph.Lowerings{RunDynamic: runScan},
	})
)

// inferIf checks the numbers of operands and results of the branches.
func inferIf(c *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*ifAttrs](c)
	if len(attrs.Then.Outputs) != len(attrs.Else.Outputs) {
		return nil, fmt.Errorf("then_branch gives %d values, else_branch %d", len(attrs.Then.Outputs),
			len(attrs.Else.Outputs))
	}
	if got := len(c.In) - 1; got != len(attrs.Then.Inputs)+len(attrs.Else.Inputs) {
		return nil, fmt.Errorf("the branches take %d and %d values, got %d", len(attrs.Then.Inputs),
			len(attrs.Else.Inputs), got)
	}
	return unknownResults(attrs.Then.Outputs), nil
}

// runIf runs the branch that the condition selects.
func runIf(rt graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*ifAttrs](c)
	holds, err := conditionValue(in[0])
	if err != nil {
		return nil, err
	}
	firstElse := 1 + len(attrs.Then.Inputs)
	if holds {
		return rt.Run(attrs.Then, in[1:firstElse])
	}
	return rt.Run(attrs.Else, in[firstElse:])
}

// conditionValue returns the value of a condition, which must have one element.
func conditionValue(t *tensor.Tensor) (bool, error) {
	if t.Numel() != 1 {
		return false, errors.New("Boolean value of Tensor with more than one value is ambiguous")
	}
	return t.At(make([]int, t.Rank())...).Complex() != 0, nil
}

// inferLoop checks the numbers of operands and results of the body.
func inferLoop(c *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*loopAttrs](c)
	// Besides the carried values, the body has the inputs i and condition, and the output condition. Operands 0 and 1
	// are max_trip_count and the first condition. The other operands are the inputs of the body after i and condition.
	switch outputs, inputs := len(attrs.Body.Outputs), len(attrs.Body.Inputs); {
	case attrs.Carried < 0 || outputs < 1+attrs.Carried || inputs < 2+attrs.Carried:
		return nil, fmt.Errorf("a body with %d inputs and %d outputs cannot carry %d values", inputs, outputs,
			attrs.Carried)
	case max(len(c.In)-2, 0) != inputs-2:
		return nil, fmt.Errorf("the body takes %d values, got %d", inputs-2, max(len(c.In)-2, 0))
	case c.HasOperand(0) && !kit.HaveOneElement(c, 0) || c.HasOperand(1) && !kit.HaveOneElement(c, 1):
		return nil, errors.New("max_trip_count and condition must have one element")
	}
	// The iteration and the condition, then the carried values and the values of the enclosing graph.
	inputs := []tensor.Type{tensor.NewType(tensor.Int64), tensor.NewType(tensor.Bool)}
	for i := 2; i < len(c.In); i++ {
		inputs = append(inputs, c.Type(i))
	}
	length := -1
	if attrs.Trips != nil {
		if trips, known := attrs.Trips.Known(); known {
			length = trips
		}
	}
	axisOf := func(int) int { return 0 }
	return repetition{body: attrs.Body, inputs: inputs, before: 2, unused: 1, carried: attrs.Carried, length: length,
		axisOf: axisOf}.results(), nil
}

// runLoop runs the iterations. It releases the memory of carried values and collected values as soon as they are unused
// ([releaseUnused]). The body has the inputs (i, condition, carried values..., values of the enclosing graph...) and
// the outputs (condition, carried values..., collected values...).
func runLoop(rt graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*loopAttrs](c)
	trips, conditionHolds := int64(math.MaxInt64), true
	if c.HasOperand(0) {
		trips = in[0].At(make([]int, in[0].Rank())...).Int()
	}
	var err error
	if c.HasOperand(1) {
		if conditionHolds, err = conditionValue(in[1]); err != nil {
			return nil, err
		}
	}
	values := slices.Clone(in[min(2, len(in)):]) // the carried values, then the values of the enclosing graph
	inputStorages, collected := storages(in...), newCollector(len(attrs.Body.Outputs)-1-attrs.Carried)
	for i := int64(0); i < trips && conditionHolds; i++ {
		args := append([]*tensor.Tensor{tensor.IntScalar(i).Tensor(tensor.Int64),
			tensor.BoolScalar(conditionHolds).Tensor(tensor.Bool)}, values...)
		out, err := rt.Run(attrs.Body, args)
		if err != nil {
			return nil, fmt.Errorf("iteration %d: %w", i, err)
		}
		if conditionHolds, err = conditionValue(out[0]); err != nil {
			return nil, err
		}
		carried := out[1 : 1+attrs.Carried]
		collected.add(out[1+attrs.Carried:])
		if i > 0 { // before the first iteration, the carried values are operands
			releaseUnused(values[:attrs.Carried], carried, inputStorages, collected.storages)
		}
		copy(values, carried)
	}
	results, err := attrs.results(values, collected.lists)
	if err != nil {
		return nil, err
	}
	for _, list := range collected.lists { // the results have copies of these tensors
		releaseUnused(list, values[:attrs.Carried], inputStorages)
	}
	return results, nil
}

// results returns the results of a loop: the carried values, which are the first of values, and the stacked collected
// values.
func (attrs *loopAttrs) results(values []*tensor.Tensor, collected [][]*tensor.Tensor) ([]*tensor.Tensor, error) {
	const axis, isReversed = 0, false
	out := slices.Clone(values[:attrs.Carried])
	bodyResults := func() ([]graph.Result, error) { // called if no iteration ran
		iteration, condition := tensor.New(tensor.Int64), tensor.New(tensor.Bool)
		return attrs.Body.ResultsFor(append([]tensor.Meta{iteration, condition}, metasOf(values)...))
	}
	for k, list := range collected {
		stacked, err := stackCollected(list, axis, isReversed, 1+attrs.Carried+k, bodyResults)
		if err != nil {
			return nil, err
		}
		out = append(out, stacked)
	}
	return out, nil
}

// maxUnrolledNodes is the greatest number of nodes that may replace a loop.
const maxUnrolledNodes = 1 << 12

// unrolledLoop returns the iterations with which planning replaces a loop. It returns false if the sizes do not
// determine the number of iterations, or if the iterations would have too many nodes. It also returns false for a loop
// without iterations, because unrolling would lose the shapes of its empty collected values.
func unrolledLoop(call *graph.Call) (graph.Repetition, bool) {
	attrs := kit.Attrs[*loopAttrs](call)
	if attrs.Trips == nil || attrs.Body == nil || len(call.In) < 2 {
		return graph.Repetition{}, false
	}
	maxTrips := sym.Of(maxUnrolledNodes / max(len(attrs.Body.Nodes), 1))
	if attrs.Trips.Lt(sym.Of(1)).Holds() || maxTrips.Lt(*attrs.Trips).Holds() { // no iteration, or too many nodes
		return graph.Repetition{}, false
	}
	trips := attrs.Trips.Specialize() // the value for the sizes of this plan, which is then valid only for this value
	return graph.Repetition{Body: attrs.Body, Times: trips, Carried: attrs.Carried, Values: call.In[2:]}, true
}

// inferScan checks the numbers of operands, axes and results.
func inferScan(c *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*scanAttrs](c)
	inputs, outputs := len(attrs.Body.Inputs), len(attrs.Body.Outputs)
	fitsBody := inputs >= attrs.States+attrs.Scanned && outputs >= attrs.States
	if attrs.States < 0 || attrs.Scanned < 1 || !fitsBody || len(c.In) != inputs {
		return nil, fmt.Errorf("a body with %d inputs and %d outputs does not match %d operands, %d states and %d "+
			"scanned operands", inputs, outputs, len(c.In), attrs.States, attrs.Scanned)
	}
	if count := len(attrs.InputAxes); count != 0 && count != attrs.Scanned {
		return nil, fmt.Errorf("scan_input_axes has %d numbers, want %d", count, attrs.Scanned)
	}
	if count := len(attrs.OutputAxes); count != 0 && count != outputs-attrs.States {
		return nil, fmt.Errorf("scan_output_axes has %d numbers, want %d", count, outputs-attrs.States)
	}
	types := make([]tensor.Type, len(c.In))
	for i := range types {
		types[i] = c.Type(i)
	}
	length := -1
	for k := range attrs.Scanned {
		slice, axis := &types[attrs.States+k], attrs.inputAxis(k)
		axis, err := tensor.WrapDim(axis, len(slice.Shape))
		if err != nil || len(slice.Shape) == 0 {
			return unknownResults(attrs.Body.Outputs), nil // the run reports the error
		}
		if size, known := slice.Shape[axis].Known(); known {
			length = size
		}
		*slice = tensor.Type{DType: slice.DType, Shape: slices.Delete(slices.Clone(slice.Shape), axis, axis+1),
			Strides: slices.Delete(slices.Clone(slice.Strides), axis, axis+1)}
	}
	return repetition{body: attrs.Body, inputs: types, carried: attrs.States, length: length,
		axisOf: attrs.outputAxis}.results(), nil
}

// inputAxis returns the scanned dimension of scanned operand k, which may be negative.
func (attrs *scanAttrs) inputAxis(k int) int {
	if k < len(attrs.InputAxes) {
		return attrs.InputAxes[k]
	}
	return 0
}

// outputAxis returns the dimension along which collected value k is stacked.
func (attrs *scanAttrs) outputAxis(k int) int {
	if k < len(attrs.OutputAxes) {
		return attrs.OutputAxes[k]
	}
	return 0
}

// runScan runs the body for each index. It releases states and collected values of the body as soon as they are unused.
func runScan(rt graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*scanAttrs](c)
	axes, length, err := attrs.scannedAxes(in)
	if err != nil {
		return nil, err
	}
	values := slices.Clone(in) // the states, the slices of scanned operands, then the values of the enclosing graph
	inputStorages, collected := storages(in...), newCollector(len(attrs.Body.Outputs)-attrs.States)
	for i := range length {
		if err := attrs.selectSlices(values, in, axes, length, i); err != nil {
			return nil, err
		}
		out, err := rt.Run(attrs.Body, values)
		if err != nil {
			return nil, fmt.Errorf("index %d: %w", i, err)
		}
		states := out[:attrs.States]
		collected.add(out[attrs.States:])
		if i > 0 { // before the first iteration, the states are operands
			releaseUnused(values[:attrs.States], states, inputStorages, collected.storages)
		}
		copy(values, states)
	}
	results, err := attrs.results(in, axes, values, collected.lists)
	if err != nil {
		return nil, err
	}
	for _, list := range collected.lists { // the results have copies of these tensors
		releaseUnused(list, values[:attrs.States], inputStorages)
	}
	return results, nil
}

// scannedAxes returns the scanned dimension of each scanned operand, and their common length.
func (attrs *scanAttrs) scannedAxes(in []*tensor.Tensor) (axes []int, length int, err error) {
	length = -1 // before the first operand
	axes = make([]int, attrs.Scanned)
	for k := range axes {
		meta := in[attrs.States+k].Meta
		if axes[k], err = tensor.WrapDim(attrs.inputAxis(k), meta.Rank()); err != nil {
			return nil, 0, err
		}
		if meta.Rank() == 0 || length >= 0 && meta.Shape[axes[k]] != length {
			return nil, 0, errors.New("scanned operands differ in length")
		}
		length = meta.Shape[axes[k]]
	}
	return axes, length, nil
}

// selectSlices sets the slices in values to the slices of the scanned operands for an iteration. axes and length are
// the results of scannedAxes.
func (attrs *scanAttrs) selectSlices(values, in []*tensor.Tensor, axes []int, length, iteration int) (err error) {
	for k, axis := range axes {
		index := iteration
		if k < len(attrs.Backwards) && attrs.Backwards[k] {
			index = length - 1 - iteration
		}
		if values[attrs.States+k], err = selectIndex(in[attrs.States+k], axis, index); err != nil {
			return err
		}
	}
	return nil
}

// results returns the results of a scan: the states, which are the first of values, and the stacked collected values.
// in are the operands of the scan, and axes the scanned dimensions.
func (attrs *scanAttrs) results(in []*tensor.Tensor, axes []int, values []*tensor.Tensor,
	collected [][]*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := slices.Clone(values[:attrs.States])
	bodyResults := func() ([]graph.Result, error) { // called if no iteration ran
		bodyInputs := metasOf(in)
		for k, axis := range axes { // a slice lacks the scanned dimension
			slice := &bodyInputs[attrs.States+k]
			*slice = tensor.New(slice.DType, slices.Delete(slices.Clone(slice.Shape), axis, axis+1)...)
		}
		return attrs.Body.ResultsFor(bodyInputs)
	}
	for k, list := range collected {
		isReversed := k < len(attrs.OutBackwards) && attrs.OutBackwards[k]
		stacked, err := stackCollected(list, attrs.outputAxis(k), isReversed, attrs.States+k, bodyResults)
		if err != nil {
			return nil, err
		}
		out = append(out, stacked)
	}
	return out, nil
}

// collector collects the values of all iterations.
type collector struct {
	lists    [][]*tensor.Tensor       // by collected value: its tensors, in the order of the iterations
	storages map[*tensor.Storage]bool // the set of the storages of these tensors
}

// newCollector returns a collector for the given number of collected values.
func newCollector(count int) *collector {
	return &collector{lists: make([][]*tensor.Tensor, count), storages: map[*tensor.Storage]bool{}}
}

// add adds the collected values of an iteration.
func (c *collector) add(values []*tensor.Tensor) {
	for k, t := range values {
		c.lists[k] = append(c.lists[k], t)
		c.storages[t.Storage()] = true
	}
}

// storages returns the set of the tensors' storages. A tensor may be nil.
func storages(list ...*tensor.Tensor) map[*tensor.Storage]bool {
	set := map[*tensor.Storage]bool{}
	for _, t := range list {
		if t != nil {
			set[t.Storage()] = true
		}
	}
	return set
}

// releaseUnused releases the storages of results of a body, except the storages of the tensors in kept and the storages
// in the sets. Results share storage with other tensors if, for example, a body returns an input unchanged.
func releaseUnused(results, kept []*tensor.Tensor, sets ...map[*tensor.Storage]bool) {
	sets = append(sets, storages(kept...))
	for _, t := range results {
		storage := t.Storage()
		isMember := func(set map[*tensor.Storage]bool) bool { return set[storage] }
		if storage.Releasable() && !slices.ContainsFunc(sets, isMember) {
			_ = storage.Release() // does not fail, because the storage is releasable
		}
	}
}

// stackCollected stacks tensors along a new dimension. If isReversed is set, the last tensor of the list comes first.
// The list is empty if no iteration ran. bodyResults then infers the dtype and the shape of a tensor: the type of the
// body's result number resultIndex. A size that depends on data is then 0, as in ONNX Runtime.
func stackCollected(list []*tensor.Tensor, axis int, isReversed bool, resultIndex int,
	bodyResults func() ([]graph.Result, error)) (*tensor.Tensor, error) {
	var meta tensor.Meta
	if len(list) > 0 {
		meta = list[0].Meta
	} else {
		results, err := bodyResults()
		if err != nil {
			return nil, err
		}
		switch result := results[resultIndex]; {
		case !result.Type.DType.Valid() || result.Dynamic && result.Sizes == nil:
			return nil, errors.New("no iteration ran, so the dtype and the rank of the collected value are unknown")
		case result.Dynamic:
			sizes := slices.Clone(result.Sizes)
			for i := range sizes {
				sizes[i] = max(sizes[i], 0) // -1 is unknown
			}
			meta = tensor.New(result.Type.DType, sizes...)
		default:
			meta = result.Meta()
		}
	}
	axis, err := tensor.WrapDim(axis, len(meta.Shape)+1)
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(meta.DType, slices.Insert(slices.Clone(meta.Shape), axis, len(list))...)
	for i, t := range list {
		if !slices.Equal(t.Shape, meta.Shape) {
			return nil, fmt.Errorf("collected values differ in shape: %s and %s", tensor.ListString(meta.Shape),
				tensor.ListString(t.Shape))
		}
		if isReversed {
			i = len(list) - 1 - i
		}
		slice, err := selectIndex(out, axis, i)
		if err != nil {
			return nil, err
		}
		tensor.CopyElements(slice, t)
	}
	return out, nil
}

// selectIndex returns the view of a tensor at an index of a dimension.
func selectIndex(t *tensor.Tensor, axis, index int) (*tensor.Tensor, error) {
	meta, err := t.Select(axis, index)
	if err != nil {
		return nil, err
	}
	return t.View(meta)
}

// referenceOf returns the reference implementation (Ref) of an op that runs graphs. Ref calls runDynamic, the op's
// RunDynamic function, with a runtime that computes the nodes of these graphs by the references of their ops.
func referenceOf(
	runDynamic func(graph.Runtime, *graph.Call, []*tensor.Tensor) ([]*tensor.Tensor, error),
) func(*graph.Call, []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return runDynamic(graph.Reference{}, c, in)
	}
}

// metasOf returns the metas of tensors.
func metasOf(in []*tensor.Tensor) []tensor.Meta {
	metas := make([]tensor.Meta, len(in))
	for i, t := range in {
		metas[i] = t.Meta
	}
	return metas
}

type raiseAttrs struct {
	Message string `attr:"message" doc:"message of the error"`
	Results int    `attr:"results" default:"1" doc:"number of results"`
}

// Raise fails when it runs, as TorchScript's prim::RaiseException does. It stands in branches that must not run.
var Raise = kit.Define[*raiseAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "raise",
		Doc: "Fails with `message` when it runs. Its results are never computed. They stand in for the results of " +
			"nodes that cannot run, so that the graph stays valid.",
		VariadicResults: true, Infer: inferRaise,
		Ref: func(c *graph.Call, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return nil, errors.New(kit.Attrs[*raiseAttrs](c).Message)
		},
	},
	Lowerings: graph.Lowerings{
		RunDynamic: func(_ graph.Runtime, c *graph.Call, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return nil, errors.New(kit.Attrs[*raiseAttrs](c).Message)
		},
	},
})

// maxResults is the greatest number of results of a raise.
const maxResults = 1 << 16

// inferRaise returns results of unknown dtype and shape.
func inferRaise(c *graph.Call) ([]graph.Result, error) {
	results := kit.Attrs[*raiseAttrs](c).Results
	if results < 1 || results > maxResults {
		return nil, fmt.Errorf("results must be 1 to %d, got %d", maxResults, results)
	}
	return slices.Repeat([]graph.Result{{Alias: graph.NoAlias, Dynamic: true}}, results), nil
}
