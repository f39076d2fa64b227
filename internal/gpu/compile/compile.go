// Package compile compiles calls of ops to programs for devices (GPUs).
//
// An op describes a call by forms (graph.FormsOf): elementwise expressions, row programs, gathers and contractions.
// Package lower generates the kernels of a form. The planner uses [Call] to find the steps that can run on a device.
package compile

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/iter"
)

// Call returns the program that computes a call on a device. Results and operands have the layouts of the call. align
// has, by result and then by operand, a number of bytes that divides the address of the first element; nil means 16 for
// all. The results do not overlap the operands. The error wraps [lower.ErrUnsupported] if there is no kernel for the
// call. Call needs no device: the driver compiles the kernels later.
func Call(op *graph.Op, call *graph.Call, align []int, target lower.Target) (*lower.Program, error) {
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
	for _, form := range forms {
		program, err := compileForm(form, call, align, target)
		if err != nil {
			return nil, err
		}
		all.Launches = append(all.Launches, program.Launches...)
		all.Scratch, all.Fault = max(all.Scratch, program.Scratch), max(all.Fault, program.Fault)
	}
	return all, nil
}

// compileForm returns the program of one form of a call. Its buffers are the results and operands of the call.
func compileForm(f graph.Form, call *graph.Call, align []int, target lower.Target) (*lower.Program, error) {
	switch f := f.(type) {
	case *graph.Elements:
		return compileElements(f, align, target)
	case *graph.Rows:
		return compileRows(f, call, align, target)
	case *graph.Contraction:
		program, err := lower.Contraction(f, target)
		if err == nil {
			toBuffers(program, []graph.FormOperand{{Index: f.Out.Index}, {Index: f.A.Index},
				{Index: f.B.Index}, {Index: f.Add.Index}})
		}
		return program, err
	case *graph.Gather:
		var operands []graph.FormOperand
		var aligns []int
		for _, operand := range f.Operands {
			operands, aligns = append(operands, graph.FormOperand{Index: operand.Index}),
				append(aligns, align[operand.Index])
		}
		program, err := lower.Gather(f, aligns, target)
		if err == nil {
			toBuffers(program, operands)
		}
		return program, err
	}
	return nil, fmt.Errorf("gpu: a %T is %w", f, lower.ErrUnsupported)
}

// compileElements compiles an elementwise expression.
func compileElements(elements *graph.Elements, align []int, target lower.Target) (*lower.Program, error) {
	config := iter.New().CheckAllSameDType(false).ResizeOutputs(false)
	for i, operand := range elements.Operands {
		if i < len(elements.Code.Out) {
			config = config.Output(iter.OfMeta(operand.Meta))
		} else {
			config = config.Input(iter.OfMeta(operand.Meta))
		}
	}
	iterator, err := config.Build()
	if err != nil {
		return nil, err
	}
	program, err := lower.Pointwise(elements.Code, iterator, operandAlign(elements.Operands, align), target)
	if err == nil {
		toBuffers(program, elements.Operands)
	}
	return program, err
}

// compileRows compiles a row program.
func compileRows(rows *graph.Rows, call *graph.Call, align []int, target lower.Target) (*lower.Program, error) {
	outs, ins, err := fusion.RowMetas(rows, call)
	if err != nil {
		return nil, err
	}
	var operands []graph.FormOperand
	for i, meta := range outs {
		operands = append(operands, graph.FormOperand{Index: i, Meta: meta})
	}
	for position, i := range rows.In {
		operands = append(operands, graph.FormOperand{Index: len(outs) + i, Meta: ins[position]})
	}
	program, err := lower.Rows(rows.Code, outs, ins, rows.Mask, operandAlign(operands, align), target)
	if err == nil {
		toBuffers(program, operands)
	}
	return program, err
}

// operandAlign returns, for each operand of a form, a number of bytes that divides its address.
func operandAlign(operands []graph.FormOperand, align []int) (list []int) {
	for _, operand := range operands {
		address := align[operand.Index] | operand.Offset*operand.Meta.DType.Size()
		list = append(list, address&-address)
	}
	return list
}

// toBuffers changes the buffers of launches from operands of a form to results and operands of the call.
func toBuffers(program *lower.Program, operands []graph.FormOperand) {
	for _, launch := range program.Launches {
		for param, arg := range launch.Args {
			if arg.Buffer >= 0 {
				operand := operands[arg.Buffer]
				launch.Args[param] = lower.Arg{Buffer: operand.Index,
					Offset: arg.Offset + operand.Offset*operand.Meta.DType.Size()}
			}
		}
	}
}
