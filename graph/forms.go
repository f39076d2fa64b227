package graph

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Form describes a computation as data, from which the compiler of a device makes a kernel. It is an [*Elements], a
// [*Rows], a [*Gather] or a [*Contraction].
type Form interface{ isForm() }

func (*Elements) isForm()    {}
func (*Rows) isForm()        {}
func (*Gather) isForm()      {}
func (*Contraction) isForm() {}

// FormOperand is a result or an operand of a call, or a part of the memory of either.
type FormOperand struct {
	Index  int         // index in the list of the call's results followed by its operands
	Meta   tensor.Meta // the layout; its offset is not used
	Offset int         // distance in elements from the first element of the result or operand
}

// Elements computes each element of its outputs by an expression. Outputs have the shape to which the operands are
// broadcast.
type Elements struct {
	Code     *expr.Code    // its loads and stores have the dtypes of operands and outputs in memory
	Operands []FormOperand // outputs of Code, then operands of Code
}

// Gather copies elements of a table to an output, one for each position of the loops. The offset of the copied element
// in the table is the sum of loop index*stride over the loops, plus the sum of looked-up index*Step over the lookups.
// Offsets and strides are in bytes. For example, the rows of a float32 table [r, c] that an int64 vector [m] selects
// have the Shape [m, c] and
//
//	Operands  output: strides [4*c, 4]   table: strides [0, 4]   indices: strides [8, 0]
//	Lookups   {Operand: 2, Int64: true, Size: r, Step: 4*c}
type Gather struct {
	Size     int             // bytes of an element: 1, 2, 4, 8 or 16
	Shape    []int           // sizes of the loops
	Operands []GatherOperand // output, table, operands with indices
	Lookups  []GatherIndex
}

// GatherOperand is an operand of a [Gather].
type GatherOperand struct {
	Index   int   // as in [FormOperand]
	Offset  int   // distance in bytes from the first element of the result or operand
	Strides []int // by loop, in bytes
}

// GatherIndex describes a lookup: where the index is, and how it is used. A negative index counts from the end.
type GatherIndex struct {
	Operand int  // number of the operand with the indices, in Gather.Operands
	Offset  int  // bytes to add to the address that the operand's Offset and Strides give, to reach the index
	Int64   bool // the index is int64, else int32
	Size    int  // exclusive upper bound of indices
	Step    int  // bytes of the table per index
}

// Contraction sums products: Out = Alpha*sum(A*B) + Beta*Add, for every position of the loops of the result. Products
// of matrices and convolutions are contractions. For example, the row-major product of A [m, k] and B [k, n] has the
// Loops
//
//	{Size: m, Out: n, A: k}
//	{Size: n, Out: 1, B: 1}
//	{Size: k, A: 1, B: n, Summed: true}
type Contraction struct {
	// Loops lists the loops over the result, then the summed loops. Each of the two lists is from the slowest loop to the
	// fastest.
	Loops       []ContractionLoop
	Windows     []ContractionWindow // bounds of A in a convolution
	Out, A, B   ContractionOperand
	Add         ContractionOperand // used if HasAdd is set
	HasAdd      bool
	Alpha, Beta float64
	// Before is the offset of A's first element, in elements, from the first element of the first window, which is in
	// the padding. The offset in A is the sum of loop index*stride, minus Before.
	Before int
	// Epilogue is computed from the elements of Out, the first operand of its expression; nil for none. An output of the
	// expression overwrites Out.
	Epilogue *Elements
}

// ContractionOperand is an operand of a [Contraction].
type ContractionOperand struct {
	Index int // as in [FormOperand]
	DType tensor.DType
}

// ContractionLoop is a loop of a [Contraction]: the number of iterations, and the strides of Out, A, B and
// Add in elements.
type ContractionLoop struct {
	Size           int
	Out, A, B, Add int
	Summed         bool
}

// ContractionWindow bounds A in one dimension of an image: at index i of loop Result and index j of loop Tap, A is 0
// unless 0 <= i*Stride + j*Dilation - Before < Size.
type ContractionWindow struct {
	Result, Tap                    int // indices in Loops: the loop over the results, and the loop over the window
	Stride, Dilation, Before, Size int // Before is the padding before the image, and Size the size of the image
}

// FormsOf returns forms that compute a call one after another. It returns none if the op has no form for the call.
// call.Out has the final layouts.
func FormsOf(op *Op, call *Call) (forms []Form, err error) {
	defer func() {
		if r := recover(); r != nil { // for a call that Infer rejects, functions of the op may panic
			forms, err = nil, fmt.Errorf("the call has no form: %v", r)
		}
	}()
	if op == nil || call == nil || len(call.Out) == 0 {
		return nil, errors.New("a call without an op or results has no form")
	}
	for i := range call.In {
		if call.Packed(i) != nil { // forms read unpacked operands
			return nil, nil
		}
	}
	for i := range op.Impls {
		if formsOf := op.Impls[i].Forms; formsOf != nil {
			if forms, err := formsOf(call); len(forms) > 0 || err != nil {
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
		if rows, err := op.Rows(call); rows != nil || err != nil {
			return []Form{rows}, err
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
	form := new(Elements)
	for i, meta := range call.Out {
		form.Operands = append(form.Operands, FormOperand{Index: i, Meta: meta})
	}
	var dtypes []tensor.DType
	loadIndex := make([]int, len(code.In)) // loadIndex[i] is the index of operand i among the loaded operands
	for i, arg := range call.In {
		switch {
		case arg.Kind == Null:
			return nil
		case arg.Kind == TensorArg && i < len(code.In):
			loadIndex[i], dtypes = len(dtypes), append(dtypes, code.In[i])
			form.Operands = append(form.Operands, FormOperand{Index: len(call.Out) + i, Meta: call.Meta(i)})
		}
	}
	builder := expr.NewBuilder(dtypes...)
	outs := builder.Inline(code, func(i, part int) expr.Value { // part 0 is the real part, part 1 the imaginary part
		switch {
		case call.In[i].Kind == NumberArg:
			return builder.Number(code.In[i], call.In[i].Number, part)
		case part == 0:
			return builder.Load(loadIndex[i])
		}
		return builder.LoadImag(loadIndex[i])
	})
	var err error
	if form.Code, err = builder.Build(outs...); err != nil {
		return nil
	}
	return []Form{form}
}
