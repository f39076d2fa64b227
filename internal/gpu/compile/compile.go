// Package compile makes programs for devices from calls of ops.
//
// An op describes a call by forms (graph.FormsOf): an expression of elements, a row program, a gather, a contraction.
// Package lower makes the kernels of a form. The placement of a graph's steps needs [Call] only.
package compile

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/iter"
)

// Call returns the program that computes a call on a device. The layouts are those of the call. align has, by result
// and then by operand, a number of bytes that divides the address of the first element; nil means 16 for all. The
// results do not overlap the operands. The error wraps [lower.ErrUnsupported] if there is no kernel for the call. Call
// compiles nothing for the device, so that it also answers whether there is a program.
func Call(op *graph.Op, call *graph.Call, align []int, t lower.Target) (*lower.Program, error) {
	forms, err := graph.FormsOf(op, call)
	if err != nil {
		return nil, err
	}
	if len(forms) == 0 {
		return nil, fmt.Errorf("gpu: %s has no form and is %w", op.Name, lower.ErrUnsupported)
	}
	if align == nil {
		align = slices.Repeat([]int{16}, len(call.Out)+len(call.In))
	}
	all := new(lower.Program)
	for _, f := range forms {
		p, err := compileForm(f, call, align, t)
		if err != nil {
			return nil, err
		}
		all.Launches = append(all.Launches, p.Launches...)
		all.Scratch, all.Fault = max(all.Scratch, p.Scratch), max(all.Fault, p.Fault)
	}
	return all, nil
}

func compileForm(f graph.Form, call *graph.Call, align []int, t lower.Target) (*lower.Program, error) {
	switch f := f.(type) {
	case *graph.Elements:
		return compileElements(f, align, t)
	case *graph.Rows:
		return compileRows(f, call, align, t)
	case *graph.Contraction:
		p, err := lower.Contraction(f, t)
		if err == nil {
			toBuffers(p, []graph.FormOperand{{Index: f.Out.Index}, {Index: f.A.Index}, {Index: f.B.Index}, {Index: f.Add.Index}})
		}
		return p, err
	case *graph.Gather:
		var operands []graph.FormOperand
		var aligns []int
		for _, o := range f.Operands {
			operands, aligns = append(operands, graph.FormOperand{Index: o.Index}), append(aligns, align[o.Index])
		}
		p, err := lower.Gather(f, aligns, t)
		if err == nil {
			toBuffers(p, operands)
		}
		return p, err
	}
	return nil, fmt.Errorf("gpu: a %T is %w", f, lower.ErrUnsupported)
}

func compileElements(f *graph.Elements, align []int, t lower.Target) (*lower.Program, error) {
	cfg := iter.New().CheckAllSameDType(false).ResizeOutputs(false)
	for i, o := range f.Operands {
		if i < len(f.Code.Out) {
			cfg = cfg.Output(iter.OfMeta(o.Meta))
		} else {
			cfg = cfg.Input(iter.OfMeta(o.Meta))
		}
	}
	it, err := cfg.Build()
	if err != nil {
		return nil, err
	}
	p, err := lower.Pointwise(f.Code, it, operandAlign(f.Operands, align), t)
	if err == nil {
		toBuffers(p, f.Operands)
	}
	return p, err
}

func compileRows(r *graph.Rows, call *graph.Call, align []int, t lower.Target) (*lower.Program, error) {
	outs, ins, err := fusion.RowMetas(r, call)
	if err != nil {
		return nil, err
	}
	var operands []graph.FormOperand
	for i, m := range outs {
		operands = append(operands, graph.FormOperand{Index: i, Meta: m})
	}
	for k, i := range r.In {
		operands = append(operands, graph.FormOperand{Index: len(outs) + i, Meta: ins[k]})
	}
	p, err := lower.Rows(r.Code, outs, ins, r.Mask, operandAlign(operands, align), t)
	if err == nil {
		toBuffers(p, operands)
	}
	return p, err
}

// operandAlign returns the number of bytes that divides the address of each operand of a form.
func operandAlign(operands []graph.FormOperand, align []int) (list []int) {
	for _, o := range operands {
		a := align[o.Index] | o.Offset*o.Meta.DType.Size()
		list = append(list, a&-a)
	}
	return list
}

// toBuffers replaces the operands of a form, in the arguments of its launches, by results and operands of the call.
func toBuffers(p *lower.Program, operands []graph.FormOperand) {
	for _, l := range p.Launches {
		for k, a := range l.Args {
			if a.Buffer >= 0 {
				o := operands[a.Buffer]
				l.Args[k] = lower.Arg{Buffer: o.Index, Offset: a.Offset + o.Offset*o.Meta.DType.Size()}
			}
		}
	}
}
