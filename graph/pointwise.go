package graph

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Pointwise states a pointwise op as an iteration over the operands and the computation of an element. Inference and
// the kernel follow from them: the same rule gives the inferred layout and the loop.
type Pointwise struct {
	// Config returns the iteration. outs are the outputs, to be laid out or given; all operands must follow them in their
	// order.
	Config func(c *Call, outs []rule.Operand) (rule.Config, error)
	// Body returns the kernel for the dtypes that loops of the iteration see; the error is that they are not supported. A
	// kernel of other dtypes or another arity is rejected when it is compiled.
	Body func(c *Call, r *rule.Rule) (rule.Kernel, error)
	// Outputs is the number of outputs; 0 means 1.
	Outputs int
	// Results returns the number of outputs of a call if attributes determine it ([Op.Many]); nil: Outputs.
	Results func(c *Call) (int, error)
	// Grain is the number of elements of a chunk; 0: iter.GrainSize, or less for an expression with functions.
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

// laidOut are outputs to be laid out: as many as most ops have. All calls share them, and must not write to them.
var laidOut [4]rule.Operand

// Undefined returns operands for the outputs of a call, to be laid out. They are shared and must not be changed.
func (p *Pointwise) Undefined(c *Call) ([]rule.Operand, error) {
	n, err := p.outputs(c)
	switch {
	case err != nil:
		return nil, err
	case n <= len(laidOut):
		return laidOut[:n:n], nil
	}
	return make([]rule.Operand, n), nil
}

// complete returns an error if the call or a part is missing.
func (p *Pointwise) complete(c *Call) error {
	if c == nil || p == nil || p.Config == nil || p.Body == nil {
		return errors.New("a pointwise op needs a call, Config and Body")
	}
	return nil
}

// rule returns the rule of a call's iteration, and the kernel.
func (p *Pointwise) rule(c *Call) (*rule.Rule, rule.Kernel, error) {
	if err := p.complete(c); err != nil {
		return nil, rule.Kernel{}, err
	}
	outs, err := p.Undefined(c)
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

// Rule returns the decisions about a call: shape, dtypes, permutation and layouts. The errors are those of Infer.
func (p *Pointwise) Rule(c *Call) (*rule.Rule, error) {
	r, _, err := p.rule(c)
	return r, err
}

// Infer gives the results by the permutation rule. Sizes may be unknown.
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

// Expression returns what a call computes for one element, in the dtypes that operands and results have in memory; nil
// if the body is no expression. It is for [Op.Expression] of ops that compile the loop themselves.
func (p *Pointwise) Expression(c *Call) (*expr.Code, error) {
	r, k, err := p.rule(c)
	if err != nil {
		return nil, err
	}
	return r.InMemory(k)
}

// Unchecked is [Pointwise.Expression] for operands that the kernel does not reject. In contrast to that method, it
// returns the expression of a kernel that checks its operands, such as an integer division.
func (p *Pointwise) Unchecked(c *Call) (*expr.Code, error) {
	r, k, err := p.rule(c)
	if err != nil {
		return nil, err
	}
	return r.InMemory(k.Unchecked())
}

// Formula returns what a call of the op computes for one element as text, by the operands of the call in their order,
// in the dtypes that loops see; nil if there is no text, or if the call is of another op.
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
