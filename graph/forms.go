package graph

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Form describes a computation as data. The compiler of a device, such as a GPU, makes a kernel from it. A form
// computes results of a [Call] from its operands. It is one of four types:
//
//	*Elements     each element of the results by an expression: y = x*2 + 1
//	*Rows         each row of the results by an expression with sums of the row, maxima ...: softmax
//	*Gather       copies of elements of a table at given indices: y[i] = table[indices[i]]
//	*Contraction  sums of products: y[i, j] = sum over k of a[i, k]*b[k, j]
//
// A form refers to results and operands by an index in one list, which has the results first and then the operands. For
// y = x + w, the indices are 0 (y), 1 (x) and 2 (w).
type Form interface{ isForm() }

func (*Elements) isForm()    {}
func (*Rows) isForm()        {}
func (*Gather) isForm()      {}
func (*Contraction) isForm() {}

// Elements computes each element of its outputs by an expression. Outputs have the shape to which the operands are
// broadcast. For example, let y = x + w be float32, with x of shape [2, 3] and w of shape [3]:
//
//	Code      y0 = x0 + x1
//	Operands  {Index: 0, Meta: float32[2, 3]}   {Index: 1, Meta: float32[2, 3]}   {Index: 2, Meta: float32[3]}
type Elements struct {
	Code     *expr.Code    // its loads and stores have the dtypes of operands and outputs in memory
	Operands []FormOperand // outputs of Code, then operands of Code
}

// FormOperand is a result or an operand of a call, or a part of its memory.
type FormOperand struct {
	Index  int         // index among the call's results and operands: see [Form]
	Meta   tensor.Meta // dtype, shape and strides; its offset is not used
	Offset int         // distance in elements from the first element of the result or operand
}

// Gather copies an element of a table to each element of an output. It is a nest of loops over the output. Each
// iteration copies one element of the table. The address of this element is the address of the table plus these byte
// offsets:
//
//	for each loop:    loop index * the table's stride in this loop
//	for each lookup:  index that is read from an operand * Step
//
// For example, y = table[indices] selects rows of a float32 table [r, c] by an int64 vector [m]:
//
//	Shape     [m, c]
//	Operands  y: strides [4*c, 4]   table: strides [0, 4]   indices: strides [8, 0]
//	Lookups   {Operand: 2, Int64: true, Size: r, Step: 4*c}
type Gather struct {
	Size     int             // bytes of an element: 1, 2, 4, 8 or 16
	Shape    []int           // sizes of the loops
	Operands []GatherOperand // output, table, operands with indices
	Lookups  []GatherIndex
}

// GatherOperand is an operand of a [Gather].
type GatherOperand struct {
	Index   int   // index among the call's results and operands: see [Form]
	Offset  int   // distance in bytes from the first element of the result or operand
	Strides []int // by loop, in bytes
}

// GatherIndex is a lookup in a [Gather]: it reads an index from an operand. A negative index counts from the end, unless
// FromStart is set.
type GatherIndex struct {
	Operand int  // number of the operand with the indices, in Gather.Operands
	Offset  int  // bytes from the operand's current element to the index; nonzero only in a tuple of indices
	Int64   bool // the index is int64, else int32
	Size    int  // exclusive upper bound of indices
	Step    int  // distance in bytes in the table between consecutive indices
	// FromStart means that a negative index is out of bounds.
	FromStart bool
}

// Contraction sums products: Out = Alpha*sum(A*B) + Beta*Add, for each element of Out. Products of matrices and
// convolutions are contractions. A contraction is a nest of loops: each loop has a stride in each operand. For example,
// the row-major product of A [m, k] and B [k, n] has the Loops
//
//	{Size: m, Out: n, A: k}
//	{Size: n, Out: 1, B: 1}
//	{Size: k, A: 1, B: n, Summed: true}
type Contraction struct {
	// Loops lists the loops over the result, followed by the summed loops. Both groups begin with the slowest loop.
	Loops       []ContractionLoop
	Windows     []ContractionWindow // in a convolution: the dimensions of A with padding
	Out, A, B   ContractionOperand
	Add         ContractionOperand // used if HasAdd is set
	HasAdd      bool
	Alpha, Beta float64
	// Before is the sum over the dimensions of A of padding * stride. It is subtracted from each offset in A, so that
	// an offset counts from the first element of A, and not from the padding before this element.
	Before int
	// Epilogue is an expression that is applied to the elements of Out, or nil. Out is the first operand of the
	// expression. An output of the expression overwrites Out.
	Epilogue *Elements
}

// ContractionOperand is an operand of a [Contraction].
type ContractionOperand struct {
	Index int // index among the call's results and operands: see [Form]
	DType tensor.DType
}

// ContractionLoop is a loop of a [Contraction]: the number of iterations, and the strides of Out, A, B and Add in
// elements.
type ContractionLoop struct {
	Size           int
	Out, A, B, Add int
	Summed         bool
}

// ContractionWindow is a dimension of A with padding: the window of a convolution moves over it. Iteration i of loop
// Result and iteration j of loop Tap read the element at position i*Stride + j*Dilation - Before. The element is 0 if
// the position is negative or not less than Size.
type ContractionWindow struct {
	Result, Tap      int // indices in Loops: the loop over the positions of the window, and the loop within the window
	Stride, Dilation int
	Before           int // padding before the first element
	Size             int // size of the dimension without padding
}

// FormsOf returns the forms that compute a call when they run in order. It returns none if the op has no form for the
// call. The forms come from one of the op's implementations, from its expression, or from its row program. call.Out
// must have the final layouts of the results.
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

// elementsOf returns the form of code, an expression of the call's operands. In the form's expression, constants
// replace operands that are numbers. elementsOf returns no form if an operand is absent.
func elementsOf(code *expr.Code, call *Call) []Form {
	if code == nil || len(code.In) > len(call.In) || len(code.Out) != len(call.Out) {
		return nil
	}
	form := new(Elements)
	for i, meta := range call.Out {
		form.Operands = append(form.Operands, FormOperand{Index: i, Meta: meta})
	}
	var dtypes []tensor.DType              // of the operands that are tensors
	loadIndex := make([]int, len(code.In)) // indexed by operand: its index among the operands that are tensors
	for i, arg := range call.In {
		switch {
		case arg.Kind == Null:
			return nil
		case arg.Kind == TensorArg && i < len(code.In): // code does not read any further operands
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
