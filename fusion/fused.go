package fusion

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// Fusion has the attributes of a fused node. A fused node replaces several nodes, its parts. A value that only parts
// read has no memory and no layout. A Fusion is immutable. For example, this is the Fusion of y = exp(x) * 2, a node
// with the operand x and the result y:
//
//	Parts: []FusedPart{
//		{Name: "exp", In: []FusedArg{{Part: -1, Index: 0}}, ...},                                // operand 0 of the node
//		{Name: "y", In: []FusedArg{{Part: 0, Index: 0}, {Number: tensor.IntScalar(2)}}, ...},   // output 0 of part 0
//	},
//	Results: [][2]int{{1, 0}},    // output 0 of part 1
type Fusion struct {
	// Parts are the replaced nodes in a valid order.
	Parts []FusedPart
	// Results has two indices for each result of the fused node: the part that computes the result, and the output of
	// this part.
	Results [][2]int
	// Mask marks the dimensions that parts fold (reduce). Its indices are dimensions of the shape to which all operands
	// are broadcast. Mask is nil if no part folds.
	Mask []bool
	// Split is the number of groups into which dimension 1 is split, or 0: see [graph.Rows.ChannelGroups]. Channels,
	// indexed by operand of the fused node, marks the operands that are vectors along dimension 1: see
	// [graph.Rows.Channels].
	Split    int
	Channels []bool
	// The first part may be an anchor: a product or a convolution. All other parts then compute expressions of elements
	// of the anchor's result. The first operands of the fused node are the anchor's operands, in the same order.
	// AnchorOperands is the number of these operands. It is 0 without an anchor, and 3 in an attention (query, key and
	// value).
	AnchorOperands int
	// ViewShapes is set only for an attention. In an attention, the first and the last part multiply matrices, and all
	// other parts are a row program. Operands 0 to 2 are query, key and value. The kernel accesses views of the
	// operands and of the result. ViewShapes has the shapes of these views, with the result last: see
	// [graph.Attention].
	ViewShapes [][]int

	names  []string        // of the parts; nil if Parts has them
	code   *expr.Code      // expression of all parts, or of the parts after the anchor
	effort func() OpCounts // effort of code, computed at the first call
}

// isAttention reports whether the parts are an attention.
func (f *Fusion) isAttention() bool { return f.ViewShapes != nil }

// FusedPart is a node that a [Fusion] replaces.
type FusedPart struct {
	Name        string // see [Fusion.Names]
	Op          *graph.Op
	Attrs       any // decoded attributes
	In          []FusedArg
	ResultCount int // number of results

	results  []tensor.Type // of the replaced node
	sizes    int           // number of sizes in Attrs that are expressions
	code     *expr.Code    // expression of the part; nil if the part is not part of the expression: see isReadAs
	rows     *graph.Rows   // the row program of which code is the expression; nil if the part folds nothing
	folded   []int         // the sizes on which the row program depends: see foldedSizes
	reshapes bool          // in an attention: the part is a view with another batch
	folds    bool          // in an attention: the part folds rows
}

// FusedArg is an operand of a part: a number, an operand of the fused node, or an output of an earlier part. If Number
// is not set and Part and Index are negative, the operand is absent.
type FusedArg struct {
	Number tensor.Scalar
	Part   int // index of the earlier part; negative for an operand of the fused node
	Index  int // index among the outputs of the part, or among the operands of the fused node
}

// Fused is the op of pointwise groups and row programs (groups that fold rows). Fusions with an anchor and attentions
// have other ops: see withEpilogue and attentionOp. Fused is in no catalogue. Passes make its nodes with a [Fuser].
var Fused = func() *graph.Op {
	op, err := graph.Define(graph.Op{
		Semantics: graph.Semantics{
			Name: "fused", Kind: graph.FollowsOperands, VariadicResults: true,
			Doc:    "Computes several ops over the same elements in one loop, or over the same rows in a few loops.",
			Params: []graph.Param{{Name: "operands", Variadic: true}},
			Infer:  inferFused,
			Ref:    fusedRef,
		},
		Facts: graph.Facts{ConstantsByAddress: true},
		Lowerings: graph.Lowerings{
			Impls: []graph.Impl{{Name: "loop", Doc: "One loop over the elements, or a few over rows that stay in the cache.",
				Work: fusedWork, Lower: lowerFused, Forms: fusedForms,
				Writes: writesFused}},
			Pricing: fusedPricing{},
		},
	})
	if err != nil {
		panic(err)
	}
	return op
}()

// errNoFusion is the error for a fused node that was not made by a pass.
var errNoFusion = errors.New("only passes can make fused nodes")

// inferFused infers the parts one after the other.
func inferFused(call *graph.Call) ([]graph.Result, error) {
	fused, ok := call.Attrs.(*Fusion)
	if !ok {
		return nil, errNoFusion
	}
	types, err := fused.visitParts(call.In, inferredTypes)
	if err != nil {
		return nil, err
	}
	results := make([]graph.Result, len(fused.Results))
	for i, result := range fused.Results {
		part, output := result[0], result[1]
		if part >= len(types) || output >= len(types[part]) {
			return nil, fmt.Errorf("no part computes result %d", i)
		}
		results[i] = graph.Result{Type: types[part][output], Alias: graph.NoAlias}
	}
	return results, nil
}

// partVisitor returns the types of the part's results. call is a call of the part.
type partVisitor = func(part *FusedPart, call *graph.Call) ([]tensor.Type, error)

// visitParts calls visit for each part, and returns the types of the results of all parts. operands are the operands of
// the fused node. The results of a part are operands of later parts.
func (f *Fusion) visitParts(operands []graph.Arg, visit partVisitor) ([][]tensor.Type, error) {
	types := make([][]tensor.Type, len(f.Parts))
	for i := range f.Parts {
		part := &f.Parts[i]
		call := &graph.Call{Attrs: part.Attrs, In: make([]graph.Arg, len(part.In))}
		for k, arg := range part.In {
			switch {
			case arg.Number.IsSet():
				call.In[k] = graph.Arg{Kind: graph.NumberArg, Number: arg.Number}
			case arg.Part < 0 && arg.Index < 0: // absent
			case arg.Part < 0 && arg.Index < len(operands):
				call.In[k] = operands[arg.Index]
			case arg.Part >= 0 && arg.Part < i && arg.Index < len(types[arg.Part]):
				resultType := types[arg.Part][arg.Index]
				operand := &graph.Value{Type: resultType}
				operand.Meta, _ = resultType.Meta()
				call.In[k] = graph.ArgOf(operand)
			default:
				return nil, fmt.Errorf("operand %d of %q does not exist", k, part.Name)
			}
		}
		resultTypes, err := visit(part, call)
		if err != nil {
			return nil, err
		}
		types[i] = resultTypes
	}
	return types, nil
}

// inferredTypes returns the types that a part infers.
func inferredTypes(part *FusedPart, call *graph.Call) ([]tensor.Type, error) {
	results, err := part.Op.Infer(call)
	if err != nil {
		return nil, err
	}
	types := make([]tensor.Type, len(results))
	for i, result := range results {
		types[i] = result.Type
	}
	return types, nil
}

// fusedRef evaluates the references of the parts one after the other.
func fusedRef(call *graph.Call, operands []*tensor.Tensor) ([]*tensor.Tensor, error) {
	fused, ok := call.Attrs.(*Fusion)
	if !ok {
		return nil, errNoFusion
	}
	results := make([][]*tensor.Tensor, 0, len(fused.Parts)) // by part and output
	_, err := fused.visitParts(call.In, func(part *FusedPart, call *graph.Call) ([]tensor.Type, error) {
		types, err := inferredTypes(part, call)
		if err != nil {
			return nil, err
		}
		for _, resultType := range types {
			meta, _ := resultType.Meta()
			call.Out = append(call.Out, meta)
		}
		partResults, err := part.Op.Ref(call, part.operandTensors(operands, results))
		if err == nil && len(partResults) != len(types) {
			err = fmt.Errorf("the reference of %q returns %d values, not %d", part.Name, len(partResults), len(types))
		}
		results = append(results, partResults)
		return types, err
	})
	if err != nil {
		return nil, err
	}
	fusedResults := make([]*tensor.Tensor, len(fused.Results))
	for i, result := range fused.Results {
		fusedResults[i] = results[result[0]][result[1]]
	}
	return fusedResults, nil
}

// operandTensors returns the operands of a part. operands are the operands of the fused node, and results are the
// results of the earlier parts.
func (part *FusedPart) operandTensors(operands []*tensor.Tensor, results [][]*tensor.Tensor) []*tensor.Tensor {
	selected := make([]*tensor.Tensor, len(part.In))
	for k, arg := range part.In {
		switch {
		case arg.Number.IsSet():
			selected[k] = arg.Number.Tensor(arg.Number.DType())
		case arg.Part < 0 && arg.Index < 0: // absent
		case arg.Part < 0:
			selected[k] = operands[arg.Index]
		default:
			selected[k] = results[arg.Part][arg.Index]
		}
	}
	return selected
}

// lowerFused compiles one loop. The layouts of the outputs determine the order of the loop's dimensions, as PyTorch
// does if the caller gives outputs. The layouts of the operands order the remaining dimensions.
func lowerFused(call *graph.Call) (*graph.Kernel, error) {
	fused, ok := call.Attrs.(*Fusion)
	if !ok || fused.code == nil {
		return nil, errNoFusion
	}
	code := fused.code
	if fused.Mask != nil {
		return fused.lowerRows(call)
	}
	pointwise := graph.Pointwise{Outputs: len(call.Out), Config: fusedConfig,
		Body: func(*graph.Call, *rule.Rule) (rule.Kernel, error) { return rule.Expr(code), nil },
	}
	outputs := make([]rule.Operand, len(call.Out))
	for i, meta := range call.Out {
		outputs[i] = rule.OperandOfMeta(meta)
	}
	iteration, body, err := buildIteration(&pointwise, call, outputs)
	if err != nil {
		return nil, err
	}
	const grain = 0 // the grain depends on the expression
	return loopKernel(call, iteration, body, grain)
}

// fusedConfig implements [graph.Pointwise.Config]: operands and results may have different dtypes.
func fusedConfig(call *graph.Call, outputs []rule.Operand) (rule.Config, error) {
	config := rule.New().CheckAllSameDType(false)
	for _, output := range outputs {
		config = config.Output(output)
	}
	for _, arg := range call.In {
		config = config.Input(arg.Operand())
	}
	return config, nil
}

// lowerRows compiles a row program.
func (f *Fusion) lowerRows(call *graph.Call) (*graph.Kernel, error) {
	rows, err := f.rowsOf(call)
	if err != nil {
		return nil, err
	}
	plan, err := planRows(rows, call)
	if err != nil {
		return nil, err
	}
	return rowKernel(rows, call, plan), nil
}

// rowsOf returns the row program of a call.
func (f *Fusion) rowsOf(call *graph.Call) (*graph.Rows, error) {
	rows := &graph.Rows{Mask: f.Mask, ChannelGroups: f.Split, Channels: f.Channels, Code: f.code}
	for i := range call.In {
		rows.In = append(rows.In, i)
	}
	var err error
	rows.Shape, err = f.broadcastShape(call)
	return rows, err
}

// broadcastShape returns the shape to which all operands are broadcast.
func (f *Fusion) broadcastShape(call *graph.Call) ([]int, error) {
	var shape []int
	for i := range call.In {
		if i < len(f.Channels) && f.Channels[i] {
			continue
		}
		var err error
		if shape, err = tensor.Broadcast(shape, call.Meta(i).Shape); err != nil {
			return nil, err
		}
	}
	return shape, nil
}

// writesFused implements [graph.Impl.Writes]. A loop over elements can write a result that is a slice of a larger
// value. A row program cannot.
func writesFused(call *graph.Call, _ graph.Walk, _ int, _ tensor.Meta) bool {
	fused, ok := call.Attrs.(*Fusion)
	return ok && fused.Mask == nil
}

// fusedForms implements [graph.Impl.Forms]: it describes the computation for compilers of devices.
func fusedForms(call *graph.Call) ([]graph.Form, error) {
	fused, ok := call.Attrs.(*Fusion)
	switch {
	case !ok || fused.code == nil:
		return nil, errNoFusion
	case fused.Mask != nil:
		rows, err := fused.rowsOf(call)
		return []graph.Form{rows}, err
	}
	elements := &graph.Elements{Code: fused.code}
	for i, meta := range call.Out {
		elements.Operands = append(elements.Operands, graph.FormOperand{Index: i, Meta: meta})
	}
	for i := range call.In {
		elements.Operands = append(elements.Operands, graph.FormOperand{Index: len(call.Out) + i, Meta: call.Meta(i)})
	}
	return []graph.Form{elements}, nil
}

// fusedWork returns the work of the expression, plus one access to every byte of operands and results. walk has the
// order of the loops and the layouts of the results.
func fusedWork(call *graph.Call, walk graph.Walk) (work pricing.Work) {
	work.StartedSteps = 1 // the whole node is one step of a run
	fused, ok := call.Attrs.(*Fusion)
	if !ok || fused.effort == nil || len(call.Out) == 0 {
		return work
	}
	call.AddStreamed(&work)
	if fused.Mask == nil {
		const rows = 0 // the loop has runs, not rows; AddRunStartWork adds the work of starting runs
		fused.effort().AddTo(&work, float64(call.Out[0].Numel()), rows)
		call.AddRunStartWork(&work, walk.ResultLayout(0, call.Out[0]))
		return work
	}
	if fold, ok := fused.foldingOf(call); ok {
		fold.addWork(&work, fused.effort(), call, walk)
	}
	return work
}

// foldingOf returns the dimensions that the parts fold.
func (f *Fusion) foldingOf(call *graph.Call) (fold folding, ok bool) {
	shape, err := f.broadcastShape(call)
	return newFolding(shape, f.Mask, f.Split), err == nil
}

// fusedPricing estimates the additional work of reading operands of a fused node in their layouts. fusedWork estimates
// all other work.
type fusedPricing struct{}

// Work implements [graph.Pricing]. It returns false, because fusedWork computes the work.
func (fusedPricing) Work(*graph.Call, graph.Walk) (work pricing.Work, ok bool) { return work, false }

// Read implements [graph.Pricing].
func (fusedPricing) Read(call *graph.Call, walk graph.Walk, i int, meta tensor.Meta) (work pricing.Work, ok bool) {
	fused, ok := call.Attrs.(*Fusion)
	if !ok || fused.Mask == nil || fused.effort == nil {
		return work, false
	}
	fold, ok := fused.foldingOf(call)
	if !ok {
		return work, false
	}
	return fold.read(fused.effort(), call, walk, i, meta), true
}

// carrierResult returns the index of the carrier: the result whose memory contains the anchor's result until the
// epilogue overwrites it. The carrier is the first result with the dtype of the anchor's result or, if there is none,
// the first result with a dtype of the same size. carrierResult returns -1 if there is no carrier.
func (f *Fusion) carrierResult() int {
	if f.AnchorOperands == 0 || f.code == nil {
		return -1
	}
	dtype := f.code.In[0]
	if k := slices.IndexFunc(f.code.Out, func(output expr.Output) bool { return output.DType == dtype }); k >= 0 {
		return k
	}
	return slices.IndexFunc(f.code.Out, func(output expr.Output) bool { return HasRoom(output.DType, dtype) })
}

// HasRoom reports whether the memory of a result can contain the anchor's result. The arguments are the dtypes of both.
func HasRoom(result, anchor tensor.DType) bool {
	return result == anchor || result.Size() == anchor.Size() && !result.IsComplex() && !anchor.IsComplex()
}

// Code returns the expression of all parts. Its operands and results have the dtypes of the values in memory. With an
// anchor, it returns the expression of the epilogue. Operand 0 of that expression is the anchor's result.
func (f *Fusion) Code() *expr.Code {
	if f == nil {
		return nil
	}
	return f.code
}

// Names returns the names of the parts.
func (f *Fusion) Names() []string {
	if f.names != nil {
		return slices.Clone(f.names)
	}
	names := make([]string, len(f.Parts))
	for i := range f.Parts {
		names[i] = f.Parts[i].Name
	}
	return names
}

// grainOf returns the number of elements per chunk of an interpreted loop. Chunks are smaller for loops with elementary
// functions, and larger for copies of small elements. code is nil for a loop in Go.
func grainOf(code *expr.Code) int {
	if code == nil {
		return iter.GrainSize
	}
	for _, instruction := range code.Insts {
		if instruction.Op == expr.Mod || !instruction.Op.Primitive() {
			return machine.FunctionGrain
		}
	}
	if simple, err := code.Simplify(); err == nil && len(simple.Insts) == 1 && len(simple.Out) == 1 {
		return max(iter.GrainSize, copiedBytes/simple.Out[0].DType.Size()) // a copy
	}
	return iter.GrainSize
}

// copiedBytes is the size in bytes of a chunk of a copy: GrainSize elements of four bytes.
const copiedBytes = 4 * iter.GrainSize
