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
	"QuickGelu": inFloat32(swish(1.702)), "Gelu": inFloat32(biasGelu("none")), "BiasGelu": inFloat32(biasGelu("none")),
	"FastGelu": inFloat32(biasGelu("tanh")), "BiasSplitGelu": inFloat32(biasSplitGelu),

	// Products.
	"FusedMatMul": inFloat32(fusedMatMul), "TransposeMatMul": inFloat32(fusedMatMul), "FusedGemm": inFloat32(fusedGemm),
	"FusedConv":   inFloat32(fusedConv),
	"MatMulNBits": matMulNBits, "GatherBlockQuantized": gatherBlockQuantized, "QMoE": quantizedExperts,

	// Normalizations and embeddings. The bias of a normalized sum is operand 4 or 3.
	"SkipLayerNormalization":           inFloat32(skipNorm(4, layerNormOfSum, layerStatistics)),
	"SkipSimplifiedLayerNormalization": inFloat32(skipNorm(3, rmsNormOfSum, rmsStatistics)), "GroupNorm": groupNorm,
	"EmbedLayerNormalization":  inFloat32(embedLayerNormalization),
	"QEmbedLayerNormalization": inFloat32(quantizedEmbedLayerNormalization),

	// Attention.
	"Attention": inFloat32(projectedAttention), "MultiHeadAttention": inFloat32(multiHeadAttention),
	"DecoderMaskedMultiHeadAttention": inFloat32(decoderMaskedAttention),
	"QAttention":                      inFloat32(quantizedAttention), "GroupQueryAttention": groupQueryAttention,
	"RotaryEmbedding": microsoftRotaryEmbedding,

	// Quantization.
	"QuantizeLinear": quantizeLinear, "DequantizeLinear": dequantizeLinear,
	"QLinearAdd": inFloat32(qlinearBinary("add")), "QLinearMul": inFloat32(qlinearBinary("mul")),
	"QLinearConcat": inFloat32(qlinearConcat),
	"QLinearWhere":  inFloat32(qlinearWhere), "QGemm": inFloat32(qGemm),
	"QLinearSigmoid": inFloat32(qlinearUnary(sigmoidOf)), "QLinearLeakyRelu": inFloat32(qlinearUnary(leakyReluOf)),
	"QLinearSoftmax":           inFloat32(qlinearUnary(softmaxOf)),
	"QLinearAveragePool":       inFloat32(qlinearUnary(channelsFirst(averagePoolOf))),
	"QLinearGlobalAveragePool": inFloat32(qlinearUnary(channelsFirst(globalAverage))),
	"MatMulIntegerToFloat":     inFloat32(integerToFloat), "DynamicQuantizeMatMul": dynamicQuantizeMatMul,
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
	"Sigmoid": unary("sigmoid"), "Sign": unary("sign"), "Sin": unary("sin"), "Sinh": unary("sinh"),
	"Sqrt": unary("sqrt"),
	"Tan":  unary("tan"), "Tanh": unary("tanh"), "BitwiseNot": unary("bitwise_not"), "IsInf": isInf,
	"Identity": identity, "BitCast": bitCast, "Cast": castOp, "CastLike": castLike, "Clip": clip,
	"Add": binary("add"), "Sub": binary("sub"), "Mul": binary("mul"), "Div": binary("div"), "Pow": inFloat32(pow),
	"Mod": mod, "And": binary("logical_and"), "Or": binary("logical_or"), "Xor": binary("logical_xor"),
	"Equal": binary("eq"), "Greater": binary("gt"), "GreaterOrEqual": binary("ge"), "Less": binary("lt"),
	"LessOrEqual": binary("le"), "BitwiseAnd": binary("bitwise_and"), "BitwiseOr": binary("bitwise_or"),
	"BitwiseXor": binary("bitwise_xor"), "BitShift": bitShift, "Max": extremum("maximum"), "Min": extremum("minimum"),
	"Sum": inFloat32(sumOf), "Mean": inFloat32(meanOf), "Where": where,
}

// Activations.
var activations = map[string]converter{
	"Relu": unary("relu"), "LeakyRelu": leakyRelu, "PRelu": prelu, "Elu": elu, "Celu": celu, "Selu": selu,
	"Gelu": gelu, "HardSigmoid": inFloat32(hardSigmoid), "HardSwish": hardSwish, "Mish": mish, "Softplus": softplus,
	"Softsign": inFloat32(softsign), "Shrink": inFloat32(shrink), "ThresholdedRelu": thresholdedRelu,
	"Softmax":    softmax("softmax"),
	"LogSoftmax": softmax("log_softmax"), "Hardmax": hardmax, "Dropout": inFloat32(dropout),
	"Swish": inFloat32(swish(1)), "SwiGLU": inFloat32(swiGLU),
	"Affine": inFloat32(affine), "Scale": scale, "ScaledTanh": inFloat32(scaledTanh),
	"ParametricSoftplus": inFloat32(parametricSoftplus),
}

// Reductions.
var reductions = map[string]converter{
	"ReduceSum": reduce("sum"), "ReduceMean": reduce("mean"), "ReduceMax": reduce("amax"), "ReduceMin": reduce("amin"),
	"ReduceProd": inFloat32(reduce("prod")), "ReduceL1": inFloat32(reduce("l1")), "ReduceL2": inFloat32(reduce("l2")),
	"ReduceLogSum": inFloat32(reduce("logsum")), "ReduceLogSumExp": inFloat32(reduce("logsumexp")),
	"ReduceSumSquare": inFloat32(reduce("sumsquare")),
	"ArgMax":          argExtremum("argmax"), "ArgMin": argExtremum("argmin"), "TopK": topK,
	"CumSum": cumulative("cumsum", 0), "CumProd": cumulative("cumprod", 1), // the neutral element of each op
	"LpNormalization": inFloat32(lpNormalization),
}

// Shapes and indexing.
var shapes = map[string]converter{
	"Shape": shapeOp, "Size": sizeOp, "Reshape": reshape, "Flatten": flatten, "Squeeze": squeeze,
	"Unsqueeze": unsqueeze,
	"Transpose": transpose, "Expand": expand, "Tile": tile, "Concat": concat, "Split": split, "Slice": slice,
	"Pad":    pad,
	"Gather": gather, "GatherElements": gatherElements, "GatherND": gatherND, "Scatter": scatterElements,
	"ScatterElements": scatterElements, "ScatterND": scatterND, "Compress": compress, "NonZero": nonZero,
	"Unique": unique,
	"OneHot": oneHot, "Constant": constant, "ConstantOfShape": constantOfShape, "Range": rangeOp, "EyeLike": eyeLike,
	"Trilu": trilu, "DepthToSpace": depthToSpace, "SpaceToDepth": spaceToDepth, "ReverseSequence": reverseSequence,
	"TensorScatter": tensorScatter,
	"Crop":          crop, "CenterCropPad": centerCropPad, "Col2Im": inFloat32(col2Im),
}

// Products and windows.
var products = map[string]converter{
	"MatMul": matMul, "Gemm": gemm, "Einsum": inFloat32(einsum), "Det": inFloat32(det), "Conv": conv,
	"ConvTranspose": inFloat32(convTranspose), "DeformConv": inFloat32(deformConv),
	"CausalConvWithState": inFloat32(causalConv),
	"LinearAttention":     linearAttention,
	"MaxPool":             maxPool, "AveragePool": averagePool, "LpPool": inFloat32(lpPool), "MaxUnpool": maxUnpool,
	"MaxRoiPool": maxRoiPool,
	"Attention":  inFloat32(attention), "RotaryEmbedding": rotaryEmbedding,
	"GlobalAveragePool": globalPool("mean"), "GlobalMaxPool": globalPool("amax"), "GlobalLpPool": globalLpPool,
}

// Normalizations.
var normalizations = map[string]converter{
	"BatchNormalization": batchNormalization, "InstanceNormalization": instanceNormalization, "LRN": inFloat32(lrn),
	"LayerNormalization": layerNormalization, "GroupNormalization": groupNormalization,
	"MeanVarianceNormalization": inFloat32(meanVarianceNormalization), "RMSNormalization": rmsNormalization,
	"SimplifiedLayerNormalization": rmsNormalization, // ONNX Runtime adds it to the default domain
}

// Losses.
var losses = map[string]converter{
	"NegativeLogLikelihoodLoss": inFloat32(nllLoss), "SoftmaxCrossEntropyLoss": inFloat32(crossEntropyLoss),
}

// Images and boxes.
var vision = map[string]converter{
	"Resize": resize, "Upsample": upsample, "GridSample": inFloat32(gridSample), "AffineGrid": inFloat32(affineGrid),
	"RoiAlign": inFloat32(roiAlign), "NonMaxSuppression": nonMaxSuppression, "ImageScaler": inFloat32(imageScaler),
}

// Recurrent networks: an op, and its maximum number of operands.
var recurrents = map[string]converter{
	"RNN": inFloat32(recurrent("onnx_rnn", 6)), "LSTM": inFloat32(recurrent("onnx_lstm", 8)),
	"GRU": inFloat32(recurrent("onnx_gru", 6)),
}

// Quantization.
var quantized = map[string]converter{
	"QuantizeLinear": quantizeLinear, "DequantizeLinear": dequantizeLinear,
	"DynamicQuantizeLinear": dynamicQuantizeLinear,
	"MatMulInteger":         matMulInteger, "ConvInteger": convInteger, "QLinearMatMul": qlinearMatMul,
	"QLinearConv": qlinearConv,
}

// Signals, text and random numbers. A cosine window is a - b*cos(x) + c*cos(2x) for the three numbers a, b, c.
var signals = map[string]converter{
	"HannWindow": cosineWindow(0.5, 0.5, 0), "HammingWindow": cosineWindow(25.0/46, 21.0/46, 0),
	"BlackmanWindow": cosineWindow(0.42, 0.5, 0.08),
	"DFT":            inFloat32(dft), "STFT": inFloat32(stft), "MelWeightMatrix": melWeightMatrix,
	"TfIdfVectorizer": tfIdf, "StringConcat": stringConcat, "StringSplit": stringSplit,
	"StringNormalizer": stringNormalizer, "RegexFullMatch": regexFullMatch,
	"RandomNormal": inFloat32(random("randn")), "RandomUniform": inFloat32(random("rand")),
	"RandomNormalLike": inFloat32(randomLike("randn")), "RandomUniformLike": inFloat32(randomLike("rand")),
	"Bernoulli": inFloat32(bernoulli), "Multinomial": inFloat32(multinomial),
}
