// Package operators has the converters of the ONNX operators of the default domain and of ONNX Runtime's domain
// com.microsoft. The converters of operators on sequences and of control flow are in package convert.
package operators

import (
	"fmt"

	"github.com/graphrun/graphrun/onnx/internal/convert"
)

// Standard has the converters of the default domain by operator name. Converters look up other operators with
// [node.ONNXOp], because a lookup in Standard would make its initialization cyclic.
var Standard = mergeTables(elements, activations, reductions, shapes, products, normalizations, losses, vision,
	recurrents, quantized, signals, convert.Control)

// Microsoft has the converters of the domain com.microsoft, the operators that ONNX Runtime adds to the standard.
var Microsoft = map[string]converter{
	// Activations.
	"QuickGelu": swish(1.702), "Gelu": biasGelu("none"), "BiasGelu": biasGelu("none"), "FastGelu": biasGelu("tanh"),
	"BiasSplitGelu": biasSplitGelu,

	// Products.
	"FusedMatMul": fusedMatMul, "TransposeMatMul": fusedMatMul, "FusedGemm": fusedGemm, "FusedConv": fusedConv,
	"MatMulNBits": matMulNBits, "GatherBlockQuantized": gatherBlockQuantized,

	// Normalizations and embeddings. The bias of a normalized sum is operand 4 or 3.
	"SkipLayerNormalization":           skipNorm(4, layerNormOfSum, layerStatistics),
	"SkipSimplifiedLayerNormalization": skipNorm(3, rmsNormOfSum, rmsStatistics),
	"GroupNorm":                        groupNorm,
	"EmbedLayerNormalization":          embedLayerNormalization,
	"QEmbedLayerNormalization":         quantizedEmbedLayerNormalization,

	// Attention.
	"Attention": projectedAttention, "MultiHeadAttention": multiHeadAttention, "QAttention": quantizedAttention,
	"GroupQueryAttention": groupQueryAttention, "RotaryEmbedding": microsoftRotaryEmbedding,

	// Quantization.
	"QuantizeLinear": quantizeLinear, "DequantizeLinear": dequantizeLinear,
	"QLinearAdd": qlinearBinary("add"), "QLinearMul": qlinearBinary("mul"), "QLinearConcat": qlinearConcat,
	"QLinearWhere": qlinearWhere, "QGemm": qGemm,
	"QLinearSigmoid": qlinearUnary(sigmoidOf), "QLinearLeakyRelu": qlinearUnary(leakyReluOf),
	"QLinearSoftmax": qlinearUnary(softmaxOf), "QLinearAveragePool": qlinearUnary(channelsFirst(averagePoolOf)),
	"QLinearGlobalAveragePool": qlinearUnary(channelsFirst(globalAverage)),
	"MatMulIntegerToFloat":     integerToFloat, "DynamicQuantizeMatMul": dynamicQuantizeMatMul,
	"DynamicQuantizeLSTM": dynamicQuantizeLSTM,
}

// mergeTables merges tables. It panics if two tables have the same operator.
func mergeTables(tables ...map[string]converter) map[string]converter {
	merged := map[string]converter{}
	for _, t := range tables {
		for name, c := range t {
			if merged[name] != nil {
				panic(fmt.Sprintf("onnx: operator %s is in two tables", name))
			}
			merged[name] = c
		}
	}
	return merged
}

// Elementwise operators.
var elements = map[string]converter{
	"Abs": unary("abs"), "Acos": unary("acos"), "Acosh": unary("acosh"), "Asin": unary("asin"), "Asinh": unary("asinh"),
	"Atan": unary("atan"), "Atanh": unary("atanh"), "Ceil": unary("ceil"), "Cos": unary("cos"), "Cosh": unary("cosh"),
	"Erf": unary("erf"), "Exp": unary("exp"), "Floor": unary("floor"), "IsNaN": unary("isnan"), "Log": unary("log"),
	"Neg": unary("neg"), "Not": unary("logical_not"), "Reciprocal": unary("reciprocal"), "Round": unary("round"),
	"Sigmoid": unary("sigmoid"), "Sign": unary("sign"), "Sin": unary("sin"), "Sinh": unary("sinh"), "Sqrt": unary("sqrt"),
	"Tan": unary("tan"), "Tanh": unary("tanh"), "BitwiseNot": unary("bitwise_not"), "IsInf": isInf,
	"Identity": identity, "BitCast": bitCast, "Cast": castOp, "CastLike": castLike, "Clip": clip,
	"Add": binary("add"), "Sub": binary("sub"), "Mul": binary("mul"), "Div": binary("div"), "Pow": pow,
	"Mod": mod, "And": binary("logical_and"), "Or": binary("logical_or"), "Xor": binary("logical_xor"),
	"Equal": binary("eq"), "Greater": binary("gt"), "GreaterOrEqual": binary("ge"), "Less": binary("lt"),
	"LessOrEqual": binary("le"), "BitwiseAnd": binary("bitwise_and"), "BitwiseOr": binary("bitwise_or"),
	"BitwiseXor": binary("bitwise_xor"), "BitShift": bitShift, "Max": extremum("maximum"), "Min": extremum("minimum"),
	"Sum": sumOf, "Mean": meanOf, "Where": where,
}

// Activations.
var activations = map[string]converter{
	"Relu": unary("relu"), "LeakyRelu": leakyRelu, "PRelu": prelu, "Elu": elu, "Celu": celu, "Selu": selu,
	"Gelu": gelu, "HardSigmoid": hardSigmoid, "HardSwish": hardSwish, "Mish": mish, "Softplus": softplus,
	"Softsign": softsign, "Shrink": shrink, "ThresholdedRelu": thresholdedRelu, "Softmax": softmax("softmax"),
	"LogSoftmax": softmax("log_softmax"), "Hardmax": hardmax, "Dropout": dropout,
	"Swish": swish(1), "SwiGLU": swiGLU,
	"Affine": affine, "Scale": scale, "ScaledTanh": scaledTanh, "ParametricSoftplus": parametricSoftplus,
}

// Reductions.
var reductions = map[string]converter{
	"ReduceSum": reduce("sum"), "ReduceMean": reduce("mean"), "ReduceMax": reduce("amax"), "ReduceMin": reduce("amin"),
	"ReduceProd": reduce("prod"), "ReduceL1": reduce("l1"), "ReduceL2": reduce("l2"), "ReduceLogSum": reduce("logsum"),
	"ReduceLogSumExp": reduce("logsumexp"), "ReduceSumSquare": reduce("sumsquare"),
	"ArgMax": argExtremum("argmax"), "ArgMin": argExtremum("argmin"), "TopK": topK,
	"CumSum": cumulative("cumsum", 0), "CumProd": cumulative("cumprod", 1), // the neutral element of each op
	"LpNormalization": lpNormalization,
}

// Shapes and indexing.
var shapes = map[string]converter{
	"Shape": shapeOp, "Size": sizeOp, "Reshape": reshape, "Flatten": flatten, "Squeeze": squeeze, "Unsqueeze": unsqueeze,
	"Transpose": transpose, "Expand": expand, "Tile": tile, "Concat": concat, "Split": split, "Slice": slice, "Pad": pad,
	"Gather": gather, "GatherElements": gatherElements, "GatherND": gatherND, "Scatter": scatterElements,
	"ScatterElements": scatterElements, "ScatterND": scatterND, "Compress": compress, "NonZero": nonZero, "Unique": unique,
	"OneHot": oneHot, "Constant": constant, "ConstantOfShape": constantOfShape, "Range": rangeOp, "EyeLike": eyeLike,
	"Trilu": trilu, "DepthToSpace": depthToSpace, "SpaceToDepth": spaceToDepth, "ReverseSequence": reverseSequence,
	"TensorScatter": tensorScatter,
	"Crop":          crop, "CenterCropPad": centerCropPad, "Col2Im": col2Im,
}

// Products and windows.
var products = map[string]converter{
	"MatMul": matMul, "Gemm": gemm, "Einsum": einsum, "Det": det, "Conv": conv, "ConvTranspose": convTranspose,
	"DeformConv": deformConv, "CausalConvWithState": causalConv, "LinearAttention": linearAttention,
	"MaxPool": maxPool, "AveragePool": averagePool, "LpPool": lpPool, "MaxUnpool": maxUnpool, "MaxRoiPool": maxRoiPool,
	"Attention": attention, "RotaryEmbedding": rotaryEmbedding,
	"GlobalAveragePool": globalPool("mean"), "GlobalMaxPool": globalPool("amax"), "GlobalLpPool": globalLpPool,
}

// Normalizations.
var normalizations = map[string]converter{
	"BatchNormalization": batchNormalization, "InstanceNormalization": instanceNormalization, "LRN": lrn,
	"LayerNormalization": layerNormalization, "GroupNormalization": groupNormalization,
	"MeanVarianceNormalization": meanVarianceNormalization, "RMSNormalization": rmsNormalization,
	"SimplifiedLayerNormalization": rmsNormalization, // ONNX Runtime adds it to the default domain
}

// Losses.
var losses = map[string]converter{
	"NegativeLogLikelihoodLoss": nllLoss, "SoftmaxCrossEntropyLoss": crossEntropyLoss,
}

// Images and boxes.
var vision = map[string]converter{
	"Resize": resize, "Upsample": upsample, "GridSample": gridSample, "AffineGrid": affineGrid, "RoiAlign": roiAlign,
	"NonMaxSuppression": nonMaxSuppression, "ImageScaler": imageScaler,
}

// Recurrent networks: an op, and its maximum number of operands.
var recurrents = map[string]converter{
	"RNN": recurrent("onnx_rnn", 6), "LSTM": recurrent("onnx_lstm", 8), "GRU": recurrent("onnx_gru", 6),
}

// Quantization.
var quantized = map[string]converter{
	"QuantizeLinear": quantizeLinear, "DequantizeLinear": dequantizeLinear, "DynamicQuantizeLinear": dynamicQuantizeLinear,
	"MatMulInteger": matMulInteger, "ConvInteger": convInteger, "QLinearMatMul": qlinearMatMul, "QLinearConv": qlinearConv,
}

// Signals, text and random numbers. A cosine window is a - b*cos(x) + c*cos(2x) for the three numbers a, b, c.
var signals = map[string]converter{
	"HannWindow": cosineWindow(0.5, 0.5, 0), "HammingWindow": cosineWindow(25.0/46, 21.0/46, 0),
	"BlackmanWindow": cosineWindow(0.42, 0.5, 0.08),
	"DFT":            dft, "STFT": stft, "MelWeightMatrix": melWeightMatrix, "TfIdfVectorizer": tfIdf,
	"RandomNormal": random("randn"), "RandomUniform": random("rand"), "RandomNormalLike": randomLike("randn"),
	"RandomUniformLike": randomLike("rand"), "Bernoulli": bernoulli, "Multinomial": multinomial,
}
