package graph

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Pointwise defines a pointwise op by an iteration over the operands and the computation of one element. Inference and
// the kernel are derived from this definition, so that the inferred layout and the loop agree. For example, a product
// of x [2, 3] float16 and w [3] float32 has
//
//	an iteration   [rule.Config]   the operands and options: the result, x and w
//	a rule         [rule.Rule]     derived facts: shape [2, 3], dtype float32, and the strides of the result
//	a kernel       [rule.Kernel]   the computation of elements: an expression, or a Go function of blocks
//	an expression  [expr.Code]     the instructions "load x, load w, multiply", which can be fused and compiled
//	a formula      [expr.Formula]  the syntax tree of "x * w", without dtypes, if the expression was parsed from it
type Pointwise struct {
	// Config returns the iteration. The operands of the iteration are `outs`, followed by the operands of the call in
	// order. An element of outs may have no layout.
	Config func(call *Call, outs []rule.Operand) (rule.Config, error)
	// Body returns the kernel for the dtypes of the iteration, or an error if the op does not support them. Compilation
	// rejects a kernel whose dtypes or numbers of operands and results do not match the iteration.
	Body func(call *Call, r *rule.Rule) (rule.Kernel, error)
	// Outputs is the number of outputs. The zero value means 1.
	Outputs int
	// Results returns the number of outputs of a call if it depends on attributes ([Op.VariadicResults]); nil means
	// Outputs.
	Results func(call *Call) (int, error)
	// Grain is the number of elements per chunk (see [Phase]). 0 means a default: iter.GrainSize, or fewer elements for
	// an expression with functions such as exp.
	Grain int
}

// Infer implements [Semantics.Infer] of the op: it computes the results by the rule of the iteration. Sizes may be
// unknown.
func (p *Pointwise) Infer(call *Call) ([]Result, error) {
	r, _, err := p.ruleAndKernel(call)
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

// ruleAndKernel returns the rule and the kernel of a call. [Pointwise.Rule] describes the rule.
func (p *Pointwise) ruleAndKernel(call *Call) (*rule.Rule, rule.Kernel, error) {
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

// Undefined returns placeholders for the undefined outputs of a call: operands without a layout, which Config accepts.
// They are shared and must not be changed.
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

// Rule returns the facts that follow from a call: shape, dtypes, permutation (order of the loops) and layouts. It fails
// for calls that Infer rejects.
func (p *Pointwise) Rule(call *Call) (*rule.Rule, error) {
	r, _, err := p.ruleAndKernel(call)
	return r, err
}

// Expression returns the expression of one element of a call. Its operands and results have the dtypes of the values in
// memory. Expression returns nil if the body is a Go function. Ops that compile the loop themselves can use this method
// as their [Lowerings.Expression].
func (p *Pointwise) Expression(call *Call) (*expr.Code, error) {
	r, kernel, err := p.ruleAndKernel(call)
	if err != nil {
		return nil, err
	}
	return r.InMemory(kernel)
}

// Unchecked returns the expression as [Pointwise.Expression] does, without the kernel's checks of operands. The kernels
// of some ops, such as integer division, check operands. For these kernels Expression returns nil, but Unchecked
// returns an expression. It is valid only for operands that the kernel accepts.
func (p *Pointwise) Unchecked(call *Call) (*expr.Code, error) {
	r, kernel, err := p.ruleAndKernel(call)
	if err != nil {
		return nil, err
	}
	return r.InMemory(kernel.Unchecked())
}

// Formula returns the formula of one element of a call. The operands of the formula are the operands of the call in
// order, in the dtypes of the iteration. Formula returns nil if the kernel was not made from a formula, or if the call
// is a call of another op.
func (op *Op) Formula(call *Call) *expr.Formula {
	if op == nil || op.Pointwise == nil || call == nil || !op.ownsAttrs(call.Attrs) {
		return nil
	}
	if (&Node{Op: op, In: call.In}).checkArity() != nil {
		return nil
	}
	_, kernel, err := op.Pointwise.ruleAndKernel(call)
	if err != nil {
		return nil
	}
	return kernel.Formula()
}
