package graph

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Pointwise defines a pointwise op by an iteration over the operands and the computation of one element. Inference and
// the kernel are both derived from this definition, so that the inferred layout and the loop agree. For example, a
// product of x [2, 3] float16 and w [3] float32 has
//
//	a [rule.Config]  the operands and options of the iteration: the result, x and w
//	a [rule.Rule]    the decisions that follow: shape [2, 3], dtype float32, and the strides of the result
//	a [rule.Kernel]  the computation of elements: the expression x*w, or a Go function of blocks
//
// An expression ([expr.Code]) is a list of instructions, which can be fused and compiled. A formula ([expr.Formula]) is
// the syntax tree from which an expression may have been made; it has no dtypes.
type Pointwise struct {
	// Config returns the iteration. The operands of the iteration are outs, then the operands of the call in order. An
	// element of outs may have no layout.
	Config func(call *Call, outs []rule.Operand) (rule.Config, error)
	// Body returns the kernel for the dtypes of the iteration, or an error if the op does not support them. Compilation
	// rejects a kernel that does not match the iteration in dtypes and in the numbers of operands and results.
	Body func(call *Call, r *rule.Rule) (rule.Kernel, error)
	// Outputs is the number of outputs. The zero value means 1.
	Outputs int
	// Results returns the number of outputs of a call if it depends on attributes ([Op.VariadicResults]); nil means
	// Outputs.
	Results func(call *Call) (int, error)
	// Grain is the number of elements per chunk (see [Phase]). 0 means iter.GrainSize, or less for an expression with
	// functions such as exp.
	Grain int
}

// Infer is [Semantics.Infer] of the op: it computes the results by the rule of the iteration. Sizes may be unknown.
func (p *Pointwise) Infer(call *Call) ([]Result, error) {
	r, _, err := p.rule(call)
	if err != nil {
		return nil, err
	}
	if r.NumOutputs() == 1 {
		return call.NewResult(r.Type(0)), nil
	}
	var buffer [4]tensor.Type // on the stack: few ops have more outputs
	types := buffer[:0]
	for i := range r.NumOutputs() {
		types = append(types, r.Type(i))
	}
	return call.NewResults(types...), nil
}

// Rule returns the decisions about a call: shape, dtypes, permutation (order of the loops) and layouts. It fails for
// calls that Infer rejects.
func (p *Pointwise) Rule(call *Call) (*rule.Rule, error) {
	r, _, err := p.rule(call)
	return r, err
}

// Expression returns the expression of one element of a call, in the dtypes that operands and results have in memory;
// nil if the body is a Go function. Ops that compile the loop themselves can use this method as
// their [Lowerings.Expression].
func (p *Pointwise) Expression(call *Call) (*expr.Code, error) {
	r, kernel, err := p.rule(call)
	if err != nil {
		return nil, err
	}
	return r.InMemory(kernel)
}

// Unchecked is [Pointwise.Expression] without the kernel's checks of operands. It also returns an expression for
// kernels that check operands, such as integer division, for which Expression returns nil. The result is valid only for
// operands that the kernel accepts.
func (p *Pointwise) Unchecked(call *Call) (*expr.Code, error) {
	r, kernel, err := p.rule(call)
	if err != nil {
		return nil, err
	}
	return r.InMemory(kernel.Unchecked())
}

// rule returns the decisions about a call (see [Pointwise.Rule]), and the kernel for one element.
func (p *Pointwise) rule(call *Call) (*rule.Rule, rule.Kernel, error) {
	if err := p.check(call); err != nil {
		return nil, rule.Kernel{}, err
	}
	outs, err := p.Undefined(call)
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	cfg, err := p.Config(call, outs)
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	r, err := cfg.Rule()
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	kernel, err := p.Body(call, r)
	return r, kernel, err
}

// check returns an error if the call, Config or Body is nil.
func (p *Pointwise) check(call *Call) error {
	if call == nil || p == nil || p.Config == nil || p.Body == nil {
		return errors.New("a pointwise op needs a call, Config and Body")
	}
	return nil
}

// undefinedOutputs has output operands without a layout. All calls with up to four outputs share this array, so it must
// not be written.
var undefinedOutputs [4]rule.Operand

// Undefined returns placeholders for the outputs of a call: operands without a layout, which Config accepts. They are
// shared and must not be changed.
func (p *Pointwise) Undefined(call *Call) ([]rule.Operand, error) {
	n, err := p.outputCount(call)
	switch {
	case err != nil:
		return nil, err
	case n <= len(undefinedOutputs):
		return undefinedOutputs[:n:n], nil
	}
	return make([]rule.Operand, n), nil
}

// outputCount returns the number of outputs of a call.
func (p *Pointwise) outputCount(call *Call) (int, error) {
	if p.Results == nil {
		return max(p.Outputs, 1), nil
	}
	n, err := p.Results(call)
	if err == nil && n < 1 {
		err = fmt.Errorf("Pointwise.Results returned %d, want at least 1", n)
	}
	return n, err
}

// Formula returns the formula of one element of a call as text. Its operands are the operands of the call in order, in
// the dtypes of the iteration. Formula returns nil if there is no text, or if the call is of another op.
func (op *Op) Formula(call *Call) *expr.Formula {
	if op == nil || op.Pointwise == nil || call == nil || !op.ownsAttrs(call.Attrs) {
		return nil
	}
	if (&Node{Op: op, In: call.In}).checkArity() != nil {
		return nil
	}
	_, kernel, err := op.Pointwise.rule(call)
	if err != nil {
		return nil
	}
	return kernel.Formula()
}
