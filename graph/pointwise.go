package graph

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Pointwise is a pointwise op by its two parts, from which inference and kernel follow: an
// iteration over the operands, and what is computed for each element. The same iterator gives
// the layout that is inferred and the loop that is run.
type Pointwise struct {
	// Config states the iteration. outs are the outputs, laid out by the iterator or given;
	// the operands must follow in their order, all of them.
	Config func(c *Call, outs []rule.Operand) (rule.Config, error)
	// Body returns the kernel for the dtypes that the iteration's loops see. The error says
	// that they are not supported. Compile refuses a kernel of other dtypes or arity.
	Body func(c *Call, r *rule.Rule) (rule.Kernel, error)
	// Outputs is the number of outputs; 0 means 1.
	Outputs int
	// Results is the number of outputs of a call, for an op whose attributes decide it ([Op.Many]); nil: Outputs.
	Results func(c *Call) (int, error)
	// Grain is the number of elements worth a chunk; 0 means iter.GrainSize, or fewer of an expression with functions.
	Grain int
}

func (p *Pointwise) outputs(c *Call) (int, error) {
	if p.Results == nil {
		return max(p.Outputs, 1), nil
	}
	n, err := p.Results(c)
	if err == nil && n < 1 {
		err = fmt.Errorf("makes %d values", n)
	}
	return n, err
}

// laidOut are outputs that the iterator lays out: as many as most ops have, shared by all calls, which
// do not write to them.
var laidOut [4]rule.Operand

// undefined returns operands for outputs to be laid out.
func (p *Pointwise) undefined(c *Call) ([]rule.Operand, error) {
	n, err := p.outputs(c)
	switch {
	case err != nil:
		return nil, err
	case n <= len(laidOut):
		return laidOut[:n:n], nil
	}
	return make([]rule.Operand, n), nil
}

// complete reports whether there is what a call is asked by.
func (p *Pointwise) complete(c *Call) error {
	if c == nil || p.Config == nil || p.Body == nil {
		return errors.New("a pointwise op needs a call, Config and Body")
	}
	return nil
}

// rule gives the iteration of a call without its walk, and the kernel.
func (p *Pointwise) rule(c *Call) (*rule.Rule, rule.Kernel, error) {
	if err := p.complete(c); err != nil {
		return nil, rule.Kernel{}, err
	}
	outs, err := p.undefined(c)
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	cfg, err := p.Config(c, outs)
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	r, err := cfg.Rule()
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	k, err := p.Body(c, r)
	return r, k, err
}

// Rule decides how the results of a call lie: shape, dtypes, permutation and layouts. The errors are those of Infer.
func (p *Pointwise) Rule(c *Call) (*rule.Rule, error) {
	r, _, err := p.rule(c)
	return r, err
}

// iterate builds the iteration; given outputs dictate their layout.
func (p *Pointwise) iterate(c *Call, outs []rule.Operand) (*iter.Iterator, rule.Kernel, error) {
	cfg, err := p.Config(c, outs)
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	it, err := iter.Build(cfg)
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	body, err := p.Body(c, &it.Rule)
	return it, body, err
}

// Infer gives the results by the permutation rule: of the iteration nothing but the rule is
// needed, and sizes may be unknown.
func (p *Pointwise) Infer(c *Call) ([]Result, error) {
	r, _, err := p.rule(c)
	if err != nil {
		return nil, err
	}
	if r.NumOutputs() == 1 {
		return c.One(r.Type(0)), nil
	}
	var few [4]tensor.Type
	types := few[:0]
	for i := range r.NumOutputs() {
		types = append(types, r.Type(i))
	}
	return c.All(types...), nil
}

// Compile prepares the loop. Where the outputs have the layout that the rule gives, the
// iteration is the one that inferred it; a layout chosen otherwise leads the permutation
// as a given output does.
func (p *Pointwise) Compile(c *Call) (*Kernel, error) {
	if err := p.complete(c); err != nil {
		return nil, err
	}
	outs, err := p.undefined(c)
	if err != nil {
		return nil, err
	}
	it, body, err := p.iterate(c, outs)
	if err != nil {
		return nil, err
	}
	if len(c.Out) != len(outs) {
		return nil, fmt.Errorf("makes %d values, the call has %d", len(outs), len(c.Out))
	}
	same := true
	for i, m := range c.Out {
		same = same && it.Meta(i).SameLayout(m)
	}
	if !same {
		outs := make([]rule.Operand, len(c.Out))
		for i, m := range c.Out {
			outs[i] = rule.Of(m)
		}
		if it, body, err = p.iterate(c, outs); err != nil {
			return nil, err
		}
	}
	return p.kernel(c, it, body)
}

// chunkNS is the arithmetic that is worth a chunk of machine code.
const chunkNS = 4e3

// compiledGrain is the number of elements worth a chunk where machine code takes so many nanoseconds for one: a power
// of two, as many as are worth one of any loop but for those that compute much. The cut of such a loop decides no bits,
// and one that is finer than this costs more than it evens out: what begins a chunk, and that stores past the caches
// have to arrive at its end.
func compiledGrain(each float64) int {
	grain := machine.MoveGrain
	for grain > machine.CallGrain && float64(grain)*each > 1.5*chunkNS {
		grain /= 2
	}
	return grain
}

// evenGrain is the elements of even chunks of about a grain: whole cache lines of them, whatever their size.
func evenGrain(elements, grain int) int {
	chunks := machine.CutUnits(elements, 1, grain).Chunks
	line := max(1, chunks) * machine.LineBytes // there are none of no elements
	return max(1, (elements+line-1)/line) * machine.LineBytes
}

func (p *Pointwise) kernel(c *Call, it *iter.Iterator, body rule.Kernel) (*Kernel, error) {
	loop, err := it.Prepare(body)
	if err != nil {
		return nil, err
	}
	each, grain := loop.PerElement(), p.Grain
	switch {
	case each > 0:
		grain = compiledGrain(each)
	case grain == 0:
		code, _ := it.InMemory(body) // Prepare has told of errors
		grain = grainOf(code)
	}
	grain = evenGrain(it.Numel(), grain)
	phase := Phase{Chunks: loop.Chunks(grain)}
	if phase.Chunks == 1 {
		phase.Run = func(m *Mem, _ int) error { return loop.All(m.Cursor, m.Ptrs) }
	} else {
		phase.Run = func(m *Mem, chunk int) error { return loop.Chunk(m.Cursor, m.Ptrs, chunk, grain) }
	}
	k := &Kernel{Loop: it, Phases: []Phase{phase}, Arithmetic: each * float64(it.Numel())}
	if loop.Expression() {
		k.Code = loop.Listings
	}
	nout := it.NumOutputs()
	for i, a := range c.In {
		m := it.Meta(nout + i)
		if a.Kind == NumberArg {
			if k.Bound == nil {
				k.Bound = make([]*tensor.Tensor, len(c.In))
			}
			k.Bound[i] = a.Number.Tensor(m.DType)
			continue
		}
		for o := range nout {
			// Block by block reading stays ahead of writing only if every element is
			// replaced at its own place.
			if out := it.Meta(o); m.DType.Size() == out.DType.Size() && m.SameAddresses(out) {
				k.InPlace = append(k.InPlace, InPlace{o, i})
			}
		}
	}
	return k, nil
}
