package pointwise

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// PointwiseExpression computes an expression that the user gives as text.
var PointwiseExpression = kit.Define[*expressionAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "pointwise",
		Doc: "Computes a user-defined expression for each element, such as where(x > 0, x, alpha * y). Inputs are " +
			"broadcast, and each operation promotes as in PyTorch: `/` and functions of integers return float32; comparisons " +
			"return bool. The layout of the result follows the same rule as for other pointwise ops. Integer division by 0 " +
			"gives an unspecified number.",
		Params:          []graph.Param{{Name: "operands", Variadic: true, AcceptsNumber: true}},
		VariadicResults: true,
		Ref:             expressionRef,
		Examples: []graph.Example{
			kit.Example(graph.Attrs{"expr": "where(x > 0, x * sigmoid(x), alpha * y)", "alpha": 0.5}, kit.TransposedMatrix,
				kit.TransposedMatrix),
			kit.Example(graph.Attrs{"expr": "k * a + b", "params": []string{"a", "b"}, "k": 3}, kit.IntMatrix, kit.IntMatrix),
			kit.Example(graph.Attrs{"expr": "not x"}, kit.BoolMatrix),
		},
	},
	Facts: graph.Facts{FlopsPerElement: graph.ElementFlops{Simple: 2, Function: 1}}, // an estimate for any expression
	Lowerings: graph.Lowerings{
		Pointwise: &graph.Pointwise{
			Config:  expressionConfig,
			Body:    expressionBody,
			Results: expressionResults,
		},
	},
})

// The functions of this file use expressionOf, which parses the text of a call for the dtypes of its operands.
// expressionOf returns the formula (the parsed text), its code (the typed operations) and its kernel.

// expressionConfig returns the configuration of the iteration of a call.
func expressionConfig(call *graph.Call, outs []rule.Operand) (rule.Config, error) {
	typed, err := expressionOf(call)
	if err != nil {
		return rule.Config{}, err
	}
	cfg := rule.New().CheckAllSameDType(false)
	for i, out := range outs {
		if !out.Defined {
			out = rule.UndefinedOutputOf(typed.code.Out[i].DType)
		}
		cfg = cfg.Output(out)
	}
	for _, arg := range call.In {
		cfg = cfg.Input(arg.Operand())
	}
	return cfg, nil
}

// expressionBody returns the kernel of a call.
func expressionBody(c *graph.Call, _ *rule.Rule) (rule.Kernel, error) {
	typed, err := expressionOf(c)
	if err != nil {
		return rule.Kernel{}, err
	}
	return typed.kernel, nil
}

// expressionResults returns the number of results of a call.
func expressionResults(c *graph.Call) (int, error) {
	typed, err := expressionOf(c)
	if err != nil {
		return 0, err
	}
	return typed.formula.Results(), nil
}

// expressionRef is the reference of the op pointwise. It evaluates the expression for each element.
func expressionRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	typed, err := expressionOf(c)
	if err != nil {
		return nil, err
	}
	code := typed.code
	var shape []int
	for _, operand := range in {
		if shape, err = tensor.Broadcast(shape, operand.Shape); err != nil {
			return nil, err
		}
	}
	operands, out := make([]*tensor.Tensor, len(in)), make([]*tensor.Tensor, len(code.Out))
	for k, operand := range in {
		expanded, err := operand.CopyTo(tensor.New(code.In[k], operand.Shape...)).Expanded(shape)
		if err != nil {
			return nil, err
		}
		operands[k] = expanded.CopyTo(tensor.New(code.In[k], shape...)) // row-major
	}
	for k, output := range code.Out {
		out[k] = tensor.Zeros(output.DType, shape...)
	}
	x := make([]expr.Number, len(in))
	for i := range tensor.Numel(shape) {
		for k, operand := range operands {
			x[k] = numberAt(operand, i)
		}
		for k, y := range code.Eval(x...) {
			setNumber(out[k], i, y)
		}
	}
	return out, nil
}

// elementBytes returns the bytes of element i of a row-major tensor. For a complex element, re is the real part and im
// the imaginary part. Otherwise re is the element and im is nil.
func elementBytes(t *tensor.Tensor, i int) (re, im []byte) {
	size := t.DType.Size()
	bytes := unsafe.Slice((*byte)(unsafe.Add(t.Pointer(), i*size)), size)
	if t.DType.IsComplex() {
		return bytes[:size/2], bytes[size/2:]
	}
	return bytes, nil
}

// numberAt reads element i of a row-major tensor, and setNumber writes it. Elements are little-endian.
func numberAt(t *tensor.Tensor, i int) expr.Number {
	re, im := elementBytes(t, i)
	return expr.Number{Re: bitsOf(re), Im: bitsOf(im)}
}

func setNumber(t *tensor.Tensor, i int, number expr.Number) {
	re, im := elementBytes(t, i)
	for byteIndex := range re {
		re[byteIndex] = byte(number.Re >> (8 * byteIndex))
	}
	for byteIndex := range im {
		im[byteIndex] = byte(number.Im >> (8 * byteIndex))
	}
}

// bitsOf returns little-endian bytes as a number.
func bitsOf(bytes []byte) (bits uint64) {
	for i := range bytes {
		bits |= uint64(bytes[i]) << (8 * i)
	}
	return bits
}
