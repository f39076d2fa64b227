package pointwise

import (
	"errors"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type addAttrs struct {
	Alpha tensor.Scalar `attr:"alpha" default:"1" doc:"factor of the second term"`
}

// Add is self + alpha*other.
var Add = kit.Define[*addAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "add",
		Doc: "Returns self + alpha * other, with broadcasting. For bools, returns the logical or of self and other if " +
			"`alpha` is true, and self otherwise.",
		Params: []graph.Param{kit.SelfOrNumber, kit.OtherOrNumber},
		Ref:    kit.PointwiseRef(&addition, addRef(1)),
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 3)},
			Attrs: graph.Attrs{"alpha": 2}}},
	},
	Lowerings: graph.Lowerings{Pointwise: &addition},
})

// IsPlainAdd reports whether a node is an add with alpha 1.
func IsPlainAdd(node *graph.Node) bool {
	if node == nil || node.Op.Base() != Add {
		return false
	}
	attrs, ok := node.Attrs.(*addAttrs)
	return ok && attrs.Alpha.Complex() == 1
}

// Sub is self - alpha*other.
var Sub = kit.Define[*addAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:     "sub",
		Doc:      "Returns self - alpha * other, with broadcasting. Bools are not supported.",
		Params:   []graph.Param{kit.SelfOrNumber, kit.OtherOrNumber},
		Ref:      kit.PointwiseRef(&subtraction, addRef(-1)),
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 3)}}},
	},
	Lowerings: graph.Lowerings{Pointwise: &subtraction},
})

// Rsub is other - alpha*self.
var Rsub = kit.Define[*addAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "rsub",
		Doc:    "Returns other - alpha * self, with broadcasting. Bools are not supported.",
		Params: []graph.Param{kit.Self, kit.OtherOrNumber},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			// aten calls sub with exchanged operands, so the layout of other has precedence.
			return subtraction.Infer(&graph.Call{In: []graph.Arg{c.In[1], c.In[0]}, Attrs: c.Attrs})
		},
		Ref: kit.PointwiseRef(&reverseSubtraction, func(c *graph.Call) kit.ScalarFunc {
			subtract := addRef(-1)(c)
			return func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
				return subtract(dtype, []tensor.Scalar{x[1], x[0]})
			}
		}),
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 3)}}},
	},
	Lowerings: graph.Lowerings{Pointwise: &reverseSubtraction},
})

var (
	reverseSubtraction = graph.Pointwise{Config: alphaConfig(binaryWithoutBools),
		Body: func(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
			body, err := subtraction.Body(c, iteration)
			return body.Exchange(0, 1), err
		}}
	addition    = graph.Pointwise{Config: alphaConfig(binary), Body: addBody(addKernels, 1)}
	subtraction = graph.Pointwise{Config: alphaConfig(binaryWithoutBools), Body: addBody(subKernels, -1)}
)

// binaryWithoutBools is binary, but rejects bools as aten's sub_check does: subtraction does not support them.
func binaryWithoutBools(call *graph.Call, outs []rule.Operand) (rule.Config, error) {
	isSelfBool, isOtherBool := call.Type(0).DType == tensor.Bool, call.Type(1).DType == tensor.Bool
	switch {
	case isSelfBool && isOtherBool:
		return rule.Config{}, errors.New("Subtraction, the `-` operator, with two bool tensors is not supported. Use the " +
			"`^` or `logical_xor()` operator instead.")
	case isSelfBool || isOtherBool:
		return rule.Config{}, errors.New("Subtraction, the `-` operator, with a bool tensor is not supported. If you are " +
			"trying to invert a mask, use the `~` or `logical_not()` operator instead.")
	}
	return binary(call, outs)
}

// alphaConfig returns a config that also checks alpha against the dtype of the result, as aten's alpha_check does.
func alphaConfig(config func(*graph.Call, []rule.Operand) (rule.Config, error)) func(*graph.Call,
	[]rule.Operand) (rule.Config, error) {
	return func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
		cfg, err := config(c, outs)
		alpha := kit.Attrs[*addAttrs](c).Alpha
		if err != nil || alpha.DType() == tensor.Int64 { // an integer alpha suits every dtype
			return cfg, err
		}
		iteration, err := cfg.Rule()
		if err != nil {
			return cfg, err
		}
		dtype := iteration.CommonDType()
		switch {
		case alpha.DType() == tensor.Bool && dtype != tensor.Bool:
			return cfg, errors.New("Boolean alpha only supported for Boolean results.")
		case alpha.DType().IsFloat() && dtype.IsIntegral(true):
			return cfg, errors.New("For integral input tensors, argument alpha must not be a floating point number.")
		case alpha.DType().IsComplex() && !dtype.IsComplex():
			return cfg, errors.New("For non-complex input tensors, argument alpha must not be a complex number.")
		}
		return cfg, nil
	}
}

var (
	addKernels = mergeKernels(kernelsOf(formula("x + y", "x", "y"), signedInts, unsignedInts, floats, complexes),
		kernelsOf(formula("x | y", "x", "y"), bools))
	subKernels   = kernelsOf(formula("x - y", "x", "y"), signedInts, unsignedInts, floats, complexes)
	scaledSum    = formula("x + alpha * y", "x", "y")
	firstOperand = formula("x", "x", "y")
)

// addBody returns the Body function of add or sub. sign is 1 for add and -1 for sub. If alpha is 1, plain has the
// kernels. Otherwise the kernel multiplies the second operand by sign*alpha. For bools, which only add supports, any
// alpha except 0 is like 1, and 0 selects the first operand.
func addBody(plain kernelTable, sign int64) func(*graph.Call, *rule.Rule) (rule.Kernel, error) {
	return func(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
		alpha := kit.Attrs[*addAttrs](c).Alpha
		body, err := plain.kernelFor("add", iteration) // aten's sub also runs the kernel of add
		switch {
		case err != nil || alpha.Complex() == 1:
			return body, err
		case iteration.DType(1) != tensor.Bool: // the dtype of self; 0 is the result
			return kernelWith(scaledSum, iteration, numbers{"alpha": timesSign(alpha, sign)}), nil
		case alpha.Complex() == 0:
			return kernelWith(firstOperand, iteration, nil), nil
		}
		return body, nil
	}
}

// timesSign returns sign times a plain number. The product has the kind of the number: integer, float or complex.
func timesSign(number tensor.Scalar, sign int64) tensor.Scalar {
	switch dtype := number.DType(); {
	case dtype.IsComplex():
		return tensor.ComplexScalar(kit.MulComplex(complex(float64(sign), 0), number.Complex()))
	case dtype.IsFloat():
		return tensor.FloatScalar(float64(sign) * number.Float())
	}
	return tensor.IntScalar(sign * number.Int())
}

// addRef returns the reference of add (sign 1) or sub (sign -1).
func addRef(sign int64) func(*graph.Call) kit.ScalarFunc {
	return func(c *graph.Call) kit.ScalarFunc {
		alpha := kit.Attrs[*addAttrs](c).Alpha
		// The conversion of the product to float64 forbids a fused multiply-add.
		byKind := kit.ByDTypeKind(
			func(x []int64) int64 { return x[0] + sign*alpha.Int()*x[1] },
			func(x []float64) float64 { return x[0] + float64(float64(sign)*alpha.Float()*x[1]) },
			func(x []complex128) complex128 {
				factor := kit.MulComplex(complex(float64(sign), 0), alpha.Complex())
				return x[0] + kit.MulComplex(factor, x[1])
			})
		return func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
			if dtype == tensor.Bool { // only add supports bools
				return tensor.BoolScalar(x[0].Int() != 0 || x[1].Int() != 0 && alpha.Int() != 0)
			}
			return byKind(dtype, x)
		}
	}
}
