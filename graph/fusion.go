package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Fusion is what a node computes that stands for several that go over the same elements: the attributes of [Fused].
// Values inside have no memory and no layout. It is immutable.
type Fusion struct {
	Parts []FusedPart
	// Results are the values that the node makes, by part and output.
	Results [][2]int
	// Mask marks the dimensions that parts fold, of the shape to which all operands are broadcast; nil if none
	// does.
	Mask []bool
	// Split and Channels are as in [Rows], by operand of the node.
	Split    int
	Channels []bool
	// Head is the number of operands of the first part, where that is no loop of an expression but a product or a
	// convolution: they are the first operands of the node, one for one, and all that follows goes over the elements
	// of what it makes. 0: all parts are loops.
	Head int
	// Seen is not nil where the parts are an attention: the first and the last multiply matrices, Head operands are
	// query, key and value, and what lies between goes over rows. It holds the shape in which each operand, and then
	// the result, is seen: a view of it in the dimensions of which Mask marks the last. See [Attention].
	Seen [][]int

	code   *expr.Code // of the whole, or of what follows the head: dtypes are the same for all layouts
	effort func() Effort
}

// FusedPart is a node within a [Fusion].
type FusedPart struct {
	Name  string
	Op    *Op
	Attrs any
	In    []FusedArg
	Outs  int
}

// FusedArg is an operand of a part: a number, operand Place of the whole where Part is negative, else output Place
// of an earlier part. An operand that is left out has a negative Place.
type FusedArg struct {
	Number      tensor.Scalar
	Part, Place int
}

// Fused is the op of nodes that stand for several: one loop computes all of them. It is in no catalogue: passes
// make such nodes ([Fuser]).
var Fused = func() *Op {
	op, err := Define(Op{
		Name: "fused", Kind: Follows, Many: true,
		Doc:    "Computes several ops that go over the same elements in one loop, or rows in a few.",
		Params: []Param{{Name: "operands", Variadic: true}},
		Infer:  inferFused,
		Impls: []Impl{{Name: "loop", Doc: "One loop over the elements, or a few over rows that stay in the cache.",
			Work: fusedWork, Lower: lowerFused,
			Writes: func(c *Call, _ Walk, _ int, _ tensor.Meta) bool {
				f, ok := c.Attrs.(*Fusion)
				return ok && f.Mask == nil
			}}},
		Ref: fusedRef,
	})
	if err != nil {
		panic(err)
	}
	return op
}()

// elementwise reports whether calls of the op can be loops of an expression.
func (o *Op) elementwise() bool { return o.loops || o.Expression != nil }

// expression returns the expression of a call; nil where the op has none.
func (o *Op) expression(c *Call) (*expr.Code, error) {
	switch {
	case o == nil:
		return nil, errors.New("a part without an op")
	case o.Expression != nil:
		return o.Expression(c)
	case !o.loops:
		return nil, nil
	}
	return o.Pointwise.Expression(c)
}

// Expression returns what a call computes for one element, over operands and results as memory holds them; nil
// where the body is no expression. It is for [Op.Expression] of ops that compile the loop themselves.
func (p *Pointwise) Expression(c *Call) (*expr.Code, error) {
	if c == nil || p == nil || p.Config == nil || p.Body == nil {
		return nil, errors.New("a pointwise op needs a call, Config and Body")
	}
	r, k, err := p.rule(c)
	if err != nil {
		return nil, err
	}
	return r.InMemory(k)
}

// Formula returns what a call of the op computes for one element as text, whose operands are those of the call in
// their order, in the dtypes that loops see; nil where no text says it, and for a call that is none of the op.
func (o *Op) Formula(c *Call) *expr.Formula {
	if o == nil || o.Pointwise == nil || c == nil || !o.owns(c.Attrs) || (&Node{Op: o, In: c.In}).checkArity() != nil {
		return nil
	}
	_, k, err := o.Pointwise.rule(c)
	if err != nil {
		return nil
	}
	return k.Formula()
}

// calls replays the parts: f is told of each with its call, whose operands have the types that they have there, and
// gives its results' types.
func (f *Fusion) calls(in []Arg, visit func(p *FusedPart, c *Call) ([]tensor.Type, error)) ([][]tensor.Type, error) {
	types := make([][]tensor.Type, len(f.Parts))
	for i := range f.Parts {
		p := &f.Parts[i]
		c := &Call{Attrs: p.Attrs, In: make([]Arg, len(p.In))}
		for k, a := range p.In {
			switch {
			case a.Number.IsSet():
				c.In[k] = Arg{Kind: NumberArg, Number: a.Number}
			case a.Part < 0 && a.Place < 0: // left out
			case a.Part < 0 && a.Place < len(in):
				c.In[k] = in[a.Place]
			case a.Part >= 0 && a.Part < i && a.Place < len(types[a.Part]):
				t := types[a.Part][a.Place]
				v := &Value{Type: t}
				v.Meta, _ = t.Meta()
				c.In[k] = Of(v)
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

// inferredTypes is what a part infers.
func inferredTypes(p *FusedPart, c *Call) ([]tensor.Type, error) {
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

// inferFused gives what the parts give, one after the other.
func inferFused(c *Call) ([]Result, error) {
	f, ok := c.Attrs.(*Fusion)
	if !ok {
		return nil, errors.New("a fused node is made by passes")
	}
	types, err := f.calls(c.In, inferredTypes)
	if err != nil {
		return nil, err
	}
	res := make([]Result, len(f.Results))
	for i, r := range f.Results {
		if r[0] >= len(types) || r[1] >= len(types[r[0]]) {
			return nil, fmt.Errorf("result %d is made by none of the parts", i)
		}
		res[i] = Result{Type: types[r[0]][r[1]], Alias: Fresh}
	}
	return res, nil
}

// Code returns the expression of the whole, over operands and results as memory holds them; with a head that of what
// follows it, whose operand 0 is what the head makes.
func (f *Fusion) Code() *expr.Code {
	if f == nil {
		return nil
	}
	return f.code
}

// lowerFused compiles one loop over the outputs' layouts, which lead the permutation as given outputs do.
func lowerFused(c *Call) (*Kernel, error) {
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
	p := Pointwise{Outputs: len(c.Out),
		Config: func(c *Call, outs []rule.Operand) (rule.Config, error) {
			cfg := rule.New().CheckAllSameDType(false)
			for _, o := range outs {
				cfg = cfg.Output(o)
			}
			for _, a := range c.In {
				cfg = cfg.Input(a.Operand())
			}
			return cfg, nil
		},
		Body: func(*Call, *rule.Rule) (rule.Kernel, error) { return rule.Expr(code), nil },
	}
	outs := make([]rule.Operand, len(c.Out))
	for i, m := range c.Out {
		outs[i] = rule.Of(m)
	}
	it, body, err := p.iterate(c, outs)
	if err != nil {
		return nil, err
	}
	return p.kernel(c, it, body)
}

// lowerRows compiles sweeps over rows.
func (f *Fusion) lowerRows(c *Call, code *expr.Code) (*Kernel, error) {
	r := &Rows{Mask: f.Mask, Split: f.Split, Channels: f.Channels, Code: code}
	var err error
	if r.full, err = f.spaceOf(c); err != nil {
		return nil, err
	}
	for i := range c.In {
		r.In = append(r.In, i)
	}
	p, err := r.plan(c)
	if err != nil {
		return nil, err
	}
	return r.kernel(c, p), nil
}

// spaceOf is the shape to which all operands are broadcast.
func (f *Fusion) spaceOf(c *Call) ([]int, error) {
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

// grainOf is the number of elements of a loop in Go that are worth a chunk: fewer of one that computes functions, and
// more of one that copies elements of few bytes. c is nil where it is unknown what is computed.
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

// copiedBytes are worth a chunk that copies them: as many as elements of four bytes.
const copiedBytes = 4 * iter.GrainSize

// fusedWork is what the expression of the whole does, and every byte of operands and results once.
func fusedWork(c *Call, walk Walk) (w Work) {
	w.Steps = 1
	f, ok := c.Attrs.(*Fusion)
	if !ok || f.effort == nil || len(c.Out) == 0 {
		return w
	}
	c.Streamed(&w)
	if f.Mask == nil {
		f.effort().Do(&w, float64(c.Out[0].Numel()), 0)
		c.doRuns(&w, walk.Lay(0, c.Out[0]))
		return w
	}
	if x, ok := f.folds(c); ok {
		x.work(&w, f.effort(), c, walk)
	}
	return w
}

// folds tells along which dimensions the whole folds.
func (f *Fusion) folds(c *Call) (x folding, ok bool) {
	full, err := f.spaceOf(c)
	return folding{full: full, mask: f.Mask, split: f.Split}, err == nil
}

// fusedRef asks the parts' references, one after the other.
func fusedRef(c *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	f, ok := c.Attrs.(*Fusion)
	if !ok {
		return nil, errors.New("a fused node is made by passes")
	}
	made := make([][]*tensor.Tensor, 0, len(f.Parts))
	_, err := f.calls(c.In, func(p *FusedPart, c *Call) ([]tensor.Type, error) {
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

// into is the result in whose memory the head's is: of its dtype rather than another one of its size; -1 for none.
func (f *Fusion) into() int {
	if f.Head == 0 || f.code == nil {
		return -1
	}
	d := f.code.In[0]
	if o := slices.IndexFunc(f.code.Out, func(o expr.Output) bool { return o.DType == d }); o >= 0 {
		return o
	}
	return slices.IndexFunc(f.code.Out, func(o expr.Output) bool { return HasRoom(o.DType, d) })
}

// HasRoom reports whether what a head makes can be in the memory of a result of the step behind it until that is
// computed, by their dtypes: an element of the result takes the place of one of the head's, which need be of its size.
func HasRoom(result, head tensor.DType) bool {
	return result == head || result.Size() == head.Size() && !result.IsComplex() && !head.IsComplex()
}

// Names returns the names of the parts.
func (f *Fusion) Names() []string {
	names := make([]string, len(f.Parts))
	for i := range f.Parts {
		names[i] = f.Parts[i].Name
	}
	return slices.Clip(names)
}
