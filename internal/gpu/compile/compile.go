// Package compile compiles calls of ops to programs for devices (GPUs).
//
// An op describes a call by forms (graph.FormsOf), which run one after another: elementwise expressions, row programs,
// gathers and contractions. Package lower generates the kernels of a form. The planner uses [Call] to find the steps
// that can run on a device.
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
// has an alignment in bytes for each result, followed by one for each operand: a number that divides the address of the
// first element. A nil align means 16 for all. In a run, results must not overlap operands. The error wraps
// [lower.ErrUnsupported] if there is no kernel for the call. Call needs no device, because a driver compiles the
// kernels later.
func Call(op *graph.Op, call *graph.Call, align []int, target lower.Target) (*lower.Program, error) {
	forms, err := Forms(op, call, target)
	if err != nil {
		return nil, err
	}
	if len(forms) == 0 {
		return nil, fmt.Errorf("gpu: %s has no form and is %w", op.Name, lower.ErrUnsupported)
	}
	if align == nil {
		align = slices.Repeat([]int{16}, len(call.Out)+len(call.In))
	}
	joined := new(lower.Program)
	for _, form := range forms {
		program, err := compileForm(form, call, align, target)
		if err != nil {
			return nil, err
		}
		joined.Launches = append(joined.Launches, program.Launches...)
		// The forms use the same scratch memory one after another. Fault is the text of an error, or empty. The maximum of
		// two texts is empty only if both texts are empty.
		joined.Scratch, joined.Fault = max(joined.Scratch, program.Scratch), max(joined.Fault, program.Fault)
	}
	return joined, nil
}

// Forms returns the forms of a call, as graph.FormsOf does, with one difference: an epilogue that the kernel of its
// contraction cannot apply becomes a separate form. For example, a product with an epilogue of 1000 instructions
// becomes two forms: the product and the elementwise expression.
func Forms(op *graph.Op, call *graph.Call, target lower.Target) (list []graph.Form, err error) {
	forms, err := graph.FormsOf(op, call)
	for _, form := range forms {
		contraction, ok := form.(*graph.Contraction)
		if !ok || contraction.Epilogue == nil || lower.CheckContraction(contraction, target) == nil {
			list = append(list, form)
			continue
		}
		withoutEpilogue := *contraction
		withoutEpilogue.Epilogue = nil
		list = append(list, &withoutEpilogue, contraction.Epilogue)
	}
	return list, err
}

// compileForm returns the program of one form of a call. Its buffers are the results and operands of the call.
func compileForm(form graph.Form, call *graph.Call, align []int, target lower.Target) (*lower.Program, error) {
	switch form := form.(type) {
	case *graph.Elements:
		return compileElements(form, align, target)
	case *graph.Rows:
		return compileRows(form, call, align, target)
	case *graph.Contraction:
		return compileContraction(form, target)
	case *graph.Gather:
		return compileGather(form, align, target)
	}
	return nil, fmt.Errorf("gpu: a %T is %w", form, lower.ErrUnsupported)
}

// compileGather compiles a gather.
func compileGather(gather *graph.Gather, align []int, target lower.Target) (*lower.Program, error) {
	var operands []graph.FormOperand // the offsets are not set, because lower.Gather adds them
	var operandAligns []int
	for _, operand := range gather.Operands {
		operands = append(operands, graph.FormOperand{Index: operand.Index})
		operandAligns = append(operandAligns, align[operand.Index])
	}
	program, err := lower.Gather(gather, operandAligns, target)
	if err == nil {
		renumberBuffers(program, operands)
	}
	return program, err
}

// compileContraction compiles a contraction with its epilogue.
func compileContraction(form *graph.Contraction, target lower.Target) (*lower.Program, error) {
	program, err := lower.Contraction(form, target)
	if err == nil {
		operands := []graph.FormOperand{{Index: form.Out.Index}, {Index: form.A.Index}, {Index: form.B.Index}}
		if form.HasAdd {
			operands = append(operands, graph.FormOperand{Index: form.Add.Index})
		}
		if form.Epilogue != nil {
			operands = append(operands, form.Epilogue.Operands...)
		}
		renumberBuffers(program, operands)
	}
	return program, err
}

// compileElements compiles an elementwise expression.
func compileElements(elements *graph.Elements, align []int, target lower.Target) (*lower.Program, error) {
	config := iter.New().CheckAllSameDType(false).ResizeOutputs(false)
	for i, operand := range elements.Operands {
		if i < len(elements.Code.Out) {
			config = config.Output(iter.OperandOfMeta(operand.Meta))
		} else {
			config = config.Input(iter.OperandOfMeta(operand.Meta))
		}
	}
	iterator, err := config.Build()
	if err != nil {
		return nil, err
	}
	program, err := lower.Pointwise(elements.Code, iterator, operandAlign(elements.Operands, align), target)
	if err == nil {
		renumberBuffers(program, elements.Operands)
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
		renumberBuffers(program, operands)
	}
	return program, err
}

// operandAlign returns the alignment of each operand of a form: the greatest power of 2 that divides both align and the
// operand's offset in bytes. This number also divides the operand's address. align is the argument of [Call].
func operandAlign(operands []graph.FormOperand, align []int) (list []int) {
	for _, operand := range operands {
		bits := align[operand.Index] | operand.Offset*operand.Meta.DType.Size()
		list = append(list, bits&-bits) // the lowest set bit
	}
	return list
}

// renumberBuffers renumbers the buffers of launches. The old numbers are indices of a form's operands. The new numbers
// are indices of the results and operands of the call. It adds the offsets of the form's operands.
func renumberBuffers(program *lower.Program, operands []graph.FormOperand) {
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
