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
	"github.com/graphrun/graphrun/tensor"
)

// Fusion has the parts of a node that stands for several nodes over the same elements. It is the attributes of the
// node. Values between parts have no memory and no layout. It is immutable.
type Fusion struct {
	Parts []FusedPart
	// Results are the node's values: part and output of each.
	Results [][2]int
	// Mask marks the dimensions that parts fold, in the shape to which all operands are broadcast; nil if no part folds.
	Mask []bool
	// Split is that of [graph.Rows]; so is Channels, by operand of the node.
	Split    int
	Channels []bool
	// Anchor is the number of operands of the first part if that is a product or a convolution: they are the first
	// operands of the node, in the same order, and the other parts compute elements of its result. 0: all parts are loops.
	Anchor int
	// Seen is not nil if the parts are an attention: the first and the last part multiply matrices, the Anchor operands
	// are query, key and value, and the other parts are a row program. It has the shape in which each operand and then
	// the result is seen, as a view. See [graph.Attention].
	Seen [][]int

	code   *expr.Code // of the whole, or of the parts after the anchor
	effort func() Effort
}

// FusedPart is a node within a [Fusion].
type FusedPart struct {
	Name  string
	Op    *graph.Op
	Attrs any
	In    []FusedArg
	Outs  int
}

// FusedArg is an operand of a part: a number, operand Place of the whole if Part is negative, else output Place of an
// earlier part. An absent operand has a negative Place.
type FusedArg struct {
	Number      tensor.Scalar
	Part, Place int
}

// Fused is the op of pointwise groups and row programs. It is in no catalogue: passes make its nodes with a [Fuser].
var Fused = func() *graph.Op {
	op, err := graph.Define(graph.Op{
		Semantics: graph.Semantics{
			Name: "fused", Kind: graph.Follows, Many: true,
			Doc:    "Computes several ops that go over the same elements in one loop, or rows in a few.",
			Params: []graph.Param{{Name: "operands", Variadic: true}},
			Infer:  inferFused,
			Ref:    fusedRef,
		},
		Lowerings: graph.Lowerings{
			Impls: []graph.Impl{{Name: "loop", Doc: "One loop over the elements, or a few over rows that stay in the cache.",
				Work: fusedWork, Lower: lowerFused,
				Writes: func(c *graph.Call, _ graph.Walk, _ int, _ tensor.Meta) bool {
					f, ok := c.Attrs.(*Fusion)
					return ok && f.Mask == nil
				}}},
			Pricing: fusedPricing{},
		},
	})
	if err != nil {
		panic(err)
	}
	return op
}()

// calls replays the parts: it hands each to visit with its call, whose operands have the types that they have there.
// visit returns the types of its results.
func (f *Fusion) calls(in []graph.Arg, visit func(p *FusedPart, c *graph.Call) ([]tensor.Type, error)) ([][]tensor.Type,
	error) {
	types := make([][]tensor.Type, len(f.Parts))
	for i := range f.Parts {
		p := &f.Parts[i]
		c := &graph.Call{Attrs: p.Attrs, In: make([]graph.Arg, len(p.In))}
		for k, a := range p.In {
			switch {
			case a.Number.IsSet():
				c.In[k] = graph.Arg{Kind: graph.NumberArg, Number: a.Number}
			case a.Part < 0 && a.Place < 0: // left out
			case a.Part < 0 && a.Place < len(in):
				c.In[k] = in[a.Place]
			case a.Part >= 0 && a.Part < i && a.Place < len(types[a.Part]):
				t := types[a.Part][a.Place]
				v := &graph.Value{Type: t}
				v.Meta, _ = t.Meta()
				c.In[k] = graph.Of(v)
			default:
				return nil, fmt.Errorf("operand %d of %q is not there", k, p.Name)
			}
		}
		t, err := visit(p, c)
		if err != nil {
			return nil, err
		}
		types[i] = t
	}
	return types, nil
}

// inferredTypes returns the types that a part infers.
func inferredTypes(p *FusedPart, c *graph.Call) ([]tensor.Type, error) {
	res, err := p.Op.Infer(c)
	if err != nil {
		return nil, err
	}
	types := make([]tensor.Type, len(res))
	for i, r := range res {
		types[i] = r.Type
	}
	return types, nil
}

// inferFused infers the parts one after the other.
func inferFused(c *graph.Call) ([]graph.Result, error) {
	f, ok := c.Attrs.(*Fusion)
	if !ok {
		return nil, errors.New("a fused node is made by passes")
	}
	types, err := f.calls(c.In, inferredTypes)
	if err != nil {
		return nil, err
	}
	res := make([]graph.Result, len(f.Results))
	for i, r := range f.Results {
		if r[0] >= len(types) || r[1] >= len(types[r[0]]) {
			return nil, fmt.Errorf("result %d is made by none of the parts", i)
		}
		res[i] = graph.Result{Type: types[r[0]][r[1]], Alias: graph.Fresh}
	}
	return res, nil
}

// Code returns the expression of the whole, in the dtypes that operands and results have in memory. With an anchor it
// is the expression of the epilogue, whose operand 0 is the anchor's result.
func (f *Fusion) Code() *expr.Code {
	if f == nil {
		return nil
	}
	return f.code
}

// lowerFused compiles one loop. The layouts of the outputs lead the permutation, as those of given outputs do.
func lowerFused(c *graph.Call) (*graph.Kernel, error) {
	f, ok := c.Attrs.(*Fusion)
	if !ok {
		return nil, errors.New("a fused node is made by passes")
	}
	code := f.code
	if code == nil {
		return nil, errors.New("a fused node is made by passes")
	}
	if f.Mask != nil {
		return f.lowerRows(c, code)
	}
	p := graph.Pointwise{Outputs: len(c.Out),
		Config: func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
			cfg := rule.New().CheckAllSameDType(false)
			for _, o := range outs {
				cfg = cfg.Output(o)
			}
			for _, a := range c.In {
				cfg = cfg.Input(a.Operand())
			}
			return cfg, nil
		},
		Body: func(*graph.Call, *rule.Rule) (rule.Kernel, error) { return rule.Expr(code), nil },
	}
	outs := make([]rule.Operand, len(c.Out))
	for i, m := range c.Out {
		outs[i] = rule.Of(m)
	}
	it, body, err := iterate(&p, c, outs)
	if err != nil {
		return nil, err
	}
	return loopKernel(c, it, body, 0)
}

// lowerRows compiles a row program.
func (f *Fusion) lowerRows(c *graph.Call, code *expr.Code) (*graph.Kernel, error) {
	r := &graph.Rows{Mask: f.Mask, Split: f.Split, Channels: f.Channels, Code: code}
	var err error
	if r.Shape, err = f.spaceOf(c); err != nil {
		return nil, err
	}
	for i := range c.In {
		r.In = append(r.In, i)
	}
	p, err := planRows(r, c)
	if err != nil {
		return nil, err
	}
	return rowKernel(r, c, p), nil
}

// spaceOf is the shape to which all operands are broadcast.
func (f *Fusion) spaceOf(c *graph.Call) ([]int, error) {
	var full []int
	for i := range c.In {
		if i < len(f.Channels) && f.Channels[i] {
			continue
		}
		var err error
		if full, err = tensor.Broadcast(full, c.Meta(i).Shape); err != nil {
			return nil, err
		}
	}
	return full, nil
}

// grainOf is the number of elements of an interpreted loop for a chunk: fewer if it computes functions, more if it
// copies small elements. c is nil for a function of Go.
func grainOf(c *expr.Code) int {
	if c == nil {
		return iter.GrainSize
	}
	for _, i := range c.Insts {
		if i.Op == expr.Mod || !i.Op.Primitive() {
			return machine.FunctionGrain
		}
	}
	if simple, err := c.Simplify(); err == nil && len(simple.Insts) == 1 && len(simple.Out) == 1 {
		return max(iter.GrainSize, copiedBytes/simple.Out[0].DType.Size()) // it is loaded, and no more
	}
	return iter.GrainSize
}

// copiedBytes is the size of a chunk that only copies: GrainSize elements of four bytes.
const copiedBytes = 4 * iter.GrainSize

// fusedWork is the work of the expression, and every byte of operands and results once.
func fusedWork(c *graph.Call, walk graph.Walk) (w graph.Work) {
	w.Steps = 1
	f, ok := c.Attrs.(*Fusion)
	if !ok || f.effort == nil || len(c.Out) == 0 {
		return w
	}
	c.Streamed(&w)
	if f.Mask == nil {
		f.effort().Do(&w, float64(c.Out[0].Numel()), 0)
		c.AddRuns(&w, walk.Lay(0, c.Out[0]))
		return w
	}
	if x, ok := f.folds(c); ok {
		x.work(&w, f.effort(), c, walk)
	}
	return w
}

// fusedPricing prices how a fused node reads its operands: its Work is stated.
type fusedPricing struct{}

// Work implements [graph.Pricing].
func (fusedPricing) Work(*graph.Call, graph.Walk) (w graph.Work, ok bool) { return w, false }

// Read implements [graph.Pricing].
func (fusedPricing) Read(c *graph.Call, walk graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
	f, ok := c.Attrs.(*Fusion)
	if !ok || f.Mask == nil || f.effort == nil {
		return w, false
	}
	x, ok := f.folds(c)
	if !ok {
		return w, false
	}
	return x.read(f.effort(), c, walk, i, m), true
}

// folds returns the dimensions that the whole folds.
func (f *Fusion) folds(c *graph.Call) (x folding, ok bool) {
	full, err := f.spaceOf(c)
	return folding{full: full, mask: f.Mask, split: f.Split}, err == nil
}

// fusedRef evaluates the references of the parts one after the other.
func fusedRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	f, ok := c.Attrs.(*Fusion)
	if !ok {
		return nil, errors.New("a fused node is made by passes")
	}
	made := make([][]*tensor.Tensor, 0, len(f.Parts))
	_, err := f.calls(c.In, func(p *FusedPart, c *graph.Call) ([]tensor.Type, error) {
		types, err := inferredTypes(p, c)
		if err != nil {
			return nil, err
		}
		operands := make([]*tensor.Tensor, len(p.In))
		for k, a := range p.In {
			switch {
			case a.Number.IsSet():
				operands[k] = a.Number.Tensor(a.Number.DType())
			case a.Part < 0 && a.Place < 0: // left out
			case a.Part < 0:
				operands[k] = in[a.Place]
			default:
				operands[k] = made[a.Part][a.Place]
			}
		}
		for _, t := range types {
			m, _ := t.Meta()
			c.Out = append(c.Out, m)
		}
		out, err := p.Op.Ref(c, operands)
		if err == nil && len(out) != len(types) {
			err = fmt.Errorf("the reference of %q makes %d values, not %d", p.Name, len(out), len(types))
		}
		made = append(made, out)
		return types, err
	})
	if err != nil {
		return nil, err
	}
	out := make([]*tensor.Tensor, len(f.Results))
	for i, r := range f.Results {
		out[i] = made[r[0]][r[1]]
	}
	return out, nil
}

// into is the index of the result whose memory holds the anchor's result: of the same dtype if there is one, else of
// the same size; -1 for none.
func (f *Fusion) into() int {
	if f.Anchor == 0 || f.code == nil {
		return -1
	}
	d := f.code.In[0]
	if o := slices.IndexFunc(f.code.Out, func(o expr.Output) bool { return o.DType == d }); o >= 0 {
		return o
	}
	return slices.IndexFunc(f.code.Out, func(o expr.Output) bool { return HasRoom(o.DType, d) })
}

// HasRoom reports whether a result of a step can hold the anchor's result until it is computed itself: whether an
// element of one dtype fits in the memory of one of the other.
func HasRoom(result, anchor tensor.DType) bool {
	return result == anchor || result.Size() == anchor.Size() && !result.IsComplex() && !anchor.IsComplex()
}

// Names returns the names of the parts.
func (f *Fusion) Names() []string {
	names := make([]string, len(f.Parts))
	for i := range f.Parts {
		names[i] = f.Parts[i].Name
	}
	return slices.Clip(names)
}
