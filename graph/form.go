package graph

import (
	"errors"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Form describes a computation as data, from which the compiler of a device makes a kernel. It is an [*Elements] or a
// [*Rows].
type Form interface{ isForm() }

func (*Elements) isForm() {}
func (*Rows) isForm()     {}

// FormOperand is a result or an operand of a call, or a part of its memory.
type FormOperand struct {
	Index  int         // index in the list of the call's results followed by its operands
	Meta   tensor.Meta // the layout; its offset is not used
	Offset int         // distance in elements from the first element of the result or operand
}

// Elements computes each element of its outputs by an expression. Outputs have the shape to which the operands are
// broadcast.
type Elements struct {
	Code     *expr.Code    // in the dtypes that operands and outputs have in memory
	Operands []FormOperand // outputs of Code, then operands of Code
}

// FormsOf returns forms that compute a call one after another. It returns none if the op has no form for the call.
// call.Out has the final layouts.
func FormsOf(op *Op, call *Call) ([]Form, error) {
	if op == nil || call == nil || len(call.Out) == 0 {
		return nil, errors.New("a call without an op or results has no form")
	}
	for i := range op.Impls {
		if f := op.Impls[i].Forms; f != nil {
			if forms, err := f(call); len(forms) > 0 || err != nil {
				return forms, err
			}
		}
	}
	if op.Expression != nil {
		if code, err := op.Expression(call); code != nil || err != nil {
			return elementsOf(code, call), err
		}
	}
	if op.Rows != nil {
		if r, err := op.Rows(call); r != nil || err != nil {
			return []Form{r}, err
		}
	}
	return nil, nil
}

// elementsOf returns the form of an expression of the call's operands. Numbers become constants of the expression. It
// returns no form if an operand is absent.
func elementsOf(code *expr.Code, call *Call) []Form {
	if code == nil || len(code.In) > len(call.In) || len(code.Out) != len(call.Out) {
		return nil
	}
	f := new(Elements)
	for i, m := range call.Out {
		f.Operands = append(f.Operands, FormOperand{Index: i, Meta: m})
	}
	var dtypes []tensor.DType
	position := make([]int, len(code.In))
	for i, a := range call.In {
		switch {
		case a.Kind == Null:
			return nil
		case a.Kind == TensorArg && i < len(code.In):
			position[i], dtypes = len(dtypes), append(dtypes, code.In[i])
			f.Operands = append(f.Operands, FormOperand{Index: len(call.Out) + i, Meta: call.Meta(i)})
		}
	}
	b := expr.NewBuilder(dtypes...)
	outs := b.Inline(code, func(i, part int) expr.Value {
		switch {
		case call.In[i].Kind == NumberArg:
			return b.Number(code.In[i], call.In[i].Number, part)
		case part == 0:
			return b.Load(position[i])
		}
		return b.LoadImag(position[i])
	})
	var err error
	if f.Code, err = b.Build(outs...); err != nil {
		return nil
	}
	return []Form{f}
}
