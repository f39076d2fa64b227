package quantized

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/product"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// quantMatmul describes an op that multiplies quantized matrices a and b. Its methods check calls of the op and
// decompose them. With zero points za and zb, and scales sa, sb and sy, the ops compute
//
//	matmul_integer:  sum = (a - za) @ (b - zb)
//	qlinear_matmul:  saturate(round((sum + bias) * sa * sb / sy) + zero point of the result)
//
// The fields are indices of operands. -1 means that the op has no such operand.
type quantMatmul struct {
	name           string
	a, b           int
	aZero, bZero   int // zero points of a and b
	aScale, bScale int // scales of a and b
}

// isScaled reports whether the op scales and quantizes the sums.
func (q *quantMatmul) isScaled() bool { return q.aScale >= 0 }

// MatmulInteger and QLinearMatmul are ONNX's operators.
var (
	MatmulInteger = quantMatmulOp("matmul_integer", "Multiplies matrices of bytes after subtracting their zero "+
		"points. The result is int32. `a_zero_point` has one element, or one for each row of `a`; `b_zero_point` "+
		"has one element, or one for each column of `b`. An omitted zero point is 0.",
		quantMatmul{name: "matmul_integer", a: 0, b: 1, aZero: 2, bZero: 3, aScale: -1, bScale: -1},
		"a", "b", "?a_zero_point", "?b_zero_point")
	QLinearMatmul = quantMatmulOp("qlinear_matmul", "Multiplies quantized matrices and quantizes the product. The "+
		"scale and the zero point of `a` have one element, or one for each row. Those of `b` have one element, or "+
		"one for each column. Those of the result, `y_scale` and `y_zero_point`, have one element. `bias` is "+
		"int32, one element for each column, and is added to the integer sums.",
		quantMatmul{name: "qlinear_matmul", a: 0, b: 3, aZero: 2, bZero: 5, aScale: 1, bScale: 4},
		"a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point",
		"y_scale", "y_zero_point", "?bias")
)

// quantMatmulOp defines an op that multiplies quantized matrices.
func quantMatmulOp(name, doc string, matmul quantMatmul, operands ...string) *graph.Op {
	u8, f32 := func(shape ...int) tensor.Meta { return tensor.New(tensor.Uint8, shape...) }, tensor.New(tensor.Float32)
	examples := []graph.Example{{In: []tensor.Meta{u8(2, 3, 4), tensor.New(tensor.Int8, 4, 5), u8(3),
		tensor.New(tensor.Int8, 5)}}, {In: []tensor.Meta{u8(3, 4), u8(4, 2)}}}
	if matmul.isScaled() {
		examples = []graph.Example{{In: []tensor.Meta{u8(3, 4), f32, u8(), u8(4, 5), tensor.New(tensor.Float32, 5), u8(5),
			f32, u8(), tensor.New(tensor.Int32, 5)}}}
	}
	return kit.Define[*kit.EmptyAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: quantParams(operands),
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				resultType, err := matmul.resultType(c)
				return c.NewResult(resultType), err
			},
			Ref:      matmul.ref,
			Examples: examples,
		},
		Lowerings: graph.Lowerings{Decompose: matmul.decompose},
	})
}

// resultType infers the type of the result.
func (q *quantMatmul) resultType(call *graph.Call) (tensor.Type, error) {
	if err := checkByteDTypes(q.name, call, q.a, q.b, q.aZero, q.bZero); err != nil {
		return tensor.Type{}, err
	}
	a, b := call.Type(q.a), call.Type(q.b)
	result, err := kit.InferredType(product.Matmul, &kit.EmptyAttrs{}, a.WithDType(tensor.Float32),
		b.WithDType(tensor.Float32))
	if err != nil {
		return result, err
	}
	result = tensor.NewType(tensor.Int32, result.Shape...)
	if err := q.checkParamCounts(call); err != nil {
		return result, err
	}
	if q.isScaled() {
		if err := checkByteDTypes(q.name, call, resultZeroOperand); err != nil {
			return result, err
		}
		haveOneElement := kit.HaveOneElement(call, resultScaleOperand, resultZeroOperand)
		if !isQuantizableFloat(call.Type(q.aScale).DType) || !haveOneElement {
			return result, fmt.Errorf("%s: expected y_scale and y_zero_point to have 1 element each, and scales to be floats",
				q.name)
		}
		if err := checkBias(q.name, call, columnsOf(b)); err != nil {
			return result, err
		}
		result.DType = call.Type(resultZeroOperand).DType
	}
	return result, nil
}

// checkParamCounts checks the number of zero points and scales. There must be one for each row of a or column of b, or
// a single one.
func (q *quantMatmul) checkParamCounts(call *graph.Call) error {
	a, b := call.Type(q.a), call.Type(q.b)
	rows, columns := sym.Of(1), columnsOf(b)
	if a.Rank() > 1 {
		rows = a.Shape[a.Rank()-2]
	}
	for _, param := range []struct {
		operand int
		name    string
		count   sym.Int
	}{{q.aZero, "a_zero_point", rows}, {q.bZero, "b_zero_point", columns}, {q.aScale, "a_scale", rows},
		{q.bScale, "b_scale", columns}} {
		// The type of an absent operand is invalid. checkParamCount accepts an invalid type.
		if err := checkParamCount(q.name, param.name, call.Type(param.operand), param.count); err != nil {
			return err
		}
	}
	return nil
}

// columnsOf returns the number of columns of the right operand b. It returns 1 for a vector.
func columnsOf(b tensor.Type) sym.Int {
	if b.Rank() > 1 {
		return b.Shape[b.Rank()-1]
	}
	return sym.Of(1)
}

// decompose adds a product of bytes if there is machine code for the operands, else a product of floats. The product of
// bytes also scales the sums if it supports the scales and the bias.
func (q *quantMatmul) decompose(parts *graph.Parts, call *graph.Call) ([]*graph.Value, error) {
	builder := quantBuilder{compose.NewBuilder(parts, call)}
	a, b := call.Meta(q.a), call.Meta(q.b)
	depth := a.Shape[a.Rank()-1]
	usesBytes := q.canMultiplyBytes(call, depth)
	if usesBytes && (!q.isScaled() || canScaleInProduct(call, q.aScale)) {
		return builder.Result(builder.bytesProduct(q, q.isScaled()))
	}
	var sums graph.Arg
	if usesBytes {
		const isScaled = false
		sums = builder.bytesProduct(q, isScaled)
	} else {
		dtype := exactDType(depth, a.DType, b.DType)
		sums = builder.Add(product.Matmul, nil, builder.minusZeroPoint(q.a, q.aZero, a.Rank()-2, dtype),
			builder.minusZeroPoint(q.b, q.bZero, b.Rank()-1, dtype))
	}
	if !q.isScaled() {
		return builder.Result(builder.toInt32(sums, depth))
	}
	rank := len(call.Out[0].Shape)
	if call.HasOperand(biasOperand) {
		sums = builder.Add(pointwise.Add, nil, sums, builder.Convert(tensor.Float64,
			builder.BroadcastAlong(call.In[biasOperand], rank-1, rank)))
	}
	// rowDim is the dimension of rows in the result. Rows are the second to last dimension. If b is a vector, the
	// result has no columns, and rows are the last dimension.
	rowDim := rank - 1 - min(b.Rank()-1, 1)
	return builder.Result(builder.requantize(sums, builder.vector(q.aScale, rowDim, rank, tensor.Float32),
		builder.vector(q.bScale, rank-1, rank, tensor.Float32)))
}

// canMultiplyBytes reports whether a product of bytes can compute the call. A sum has depth terms and is int32. Sums
// that are scaled must not wrap.
func (q *quantMatmul) canMultiplyBytes(call *graph.Call, depth int) bool {
	cannotWrap := !q.isScaled() || depth <= maxTerms
	return product.MultipliesBytes() && cannotWrap && zeroPointHasOperandDType(call, q.a, q.aZero) &&
		zeroPointHasOperandDType(call, q.b, q.bZero)
}

// canScaleInProduct reports whether the product of bytes can also add the bias and scale the sums. It requires a single
// scale of a. It also requires a bias of at most half of the int32 range, as maxTerms assumes.
func canScaleInProduct(call *graph.Call, aScale int) bool {
	isBiasSmall := !call.HasOperand(biasOperand) || magnitudesAtMost(call.Const(biasOperand), math.MaxInt32/2)
	return call.Meta(aScale).Numel() == 1 && isBiasSmall
}

// bytesProduct adds a node that multiplies bytes, and returns its result. The result is int32 sums. If isScaled is set,
// the result is the sums plus the bias, scaled and quantized to a byte dtype.
func (builder quantBuilder) bytesProduct(q *quantMatmul, isScaled bool) graph.Arg {
	const f32 = tensor.Float32
	in := []graph.Arg{builder.Call.In[q.a], builder.Call.In[q.b], builder.zeroPoints(q.aZero),
		builder.zeroPoints(q.bZero)}
	if isScaled {
		scale := builder.Add(pointwise.Mul, nil, builder.Convert(f32, builder.flattened(q.aScale)),
			builder.Convert(f32, builder.flattened(q.bScale)))
		scale = builder.Add(pointwise.Div, nil, scale, builder.Convert(f32, builder.flattened(resultScaleOperand)))
		bias := graph.Arg{}
		if builder.Call.HasOperand(biasOperand) {
			bias = builder.Call.In[biasOperand]
		}
		in = append(in, bias, scale, builder.flattened(resultZeroOperand))
	}
	return builder.Add(product.MatmulBytes, nil, in...)
}

// zeroPoints returns an operand that has zero points. It returns null if the operand is absent or all zeros.
func (builder quantBuilder) zeroPoints(operand int) graph.Arg {
	if !builder.Call.HasOperand(operand) || magnitudesAtMost(builder.Call.Const(operand), 0) {
		return graph.Arg{}
	}
	return builder.flattened(operand)
}

// flattened returns an operand as a vector or a single element.
func (builder quantBuilder) flattened(operand int) graph.Arg {
	if builder.Call.Meta(operand).Rank() > 1 {
		return builder.BroadcastAlong(builder.Call.In[operand], 0, 1)
	}
	return builder.Call.In[operand]
}

// ref computes the result of the op by its definition. It multiplies the operands minus their zero points in float64.
func (q *quantMatmul) ref(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	resultType, err := q.resultType(call)
	if err != nil {
		return nil, err
	}
	result, _ := resultType.Meta()
	zeroPoints := func(operand int) *tensor.Tensor { // nil if the operand is omitted
		if operand < len(in) {
			return in[operand]
		}
		return nil
	}
	a := minusZeroPoints(in[q.a], zeroPoints(q.aZero), in[q.a].Rank()-2)
	b := minusZeroPoints(in[q.b], zeroPoints(q.bZero), in[q.b].Rank()-1)
	sums, err := product.Matmul.Ref(&graph.Call{Attrs: &kit.EmptyAttrs{}, In: call.In,
		Out: []tensor.Meta{tensor.New(tensor.Float64, result.Shape...)}}, []*tensor.Tensor{a, b})
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(result.DType, result.Shape...)
	kit.EachIndex(result.Shape, func(index []int) {
		sum := sums[0].At(index...).Float()
		element := int64(sum)
		if q.isScaled() {
			element = q.quantizedElement(in, index, sum, result.DType)
		}
		out.Set(tensor.IntScalar(element), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// quantizedElement returns an element of the result of qlinear_matmul. sum is the element of matmul_integer at the same
// index.
func (q *quantMatmul) quantizedElement(in []*tensor.Tensor, index []int, sum float64, dtype tensor.DType) int64 {
	row, column := len(index)-2, len(index)-1 // the dimensions of rows and columns
	if len(in) > biasOperand && in[biasOperand] != nil {
		sum += kit.ElementAlong(in[biasOperand], index, column)
	}
	aScale := float32(kit.ElementAlong(in[q.aScale], index, row))
	bScale := float32(kit.ElementAlong(in[q.bScale], index, column))
	scale := aScale * bScale / float32(kit.ElementAlong(in[resultScaleOperand], index, 0))
	zeroPoint := kit.ElementAlong(in[resultZeroOperand], index, 0)
	return saturate(dtype, math.RoundToEven(float64(float32(sum)*scale))+zeroPoint)
}
