package onnx

import (
	"cmp"
	"strings"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/onnx/internal/convert"
)

// SupportedOperator is an operator that can be imported.
type SupportedOperator struct {
	Domain, Name string // the default domain is ""
	Since        int    // the first version of the domain's operator set that has the operator
	// Restrictions describes the nodes that are accepted ("scale 1") or rejected ("no g_idx"). Unsupported element types
	// are not listed.
	Restrictions []string
}

// SupportedOperators lists the operators of this package and of o, sorted by domain and name. [SupportedOperator.Since]
// of an operator outside the default domain is 1, except for TreeEnsemble of ai.onnx.ml.
func SupportedOperators(o Options) ([]SupportedOperator, error) {
	full, err := o.complete()
	if err != nil {
		return nil, err
	}
	since := map[string]int{}
	for version, names := range operatorsSince {
		for _, name := range strings.Fields(names) {
			since[name] = version
		}
	}
	var list []SupportedOperator
	for key := range full.Table.Converters {
		supported := SupportedOperator{Domain: key.Domain, Name: key.Name, Since: 1, Restrictions: restrictions[key.String()]}
		switch sinceVersion := since[key.Name]; {
		case key.Domain == "" && sinceVersion > 0:
			supported.Since = sinceVersion
		case key.String() == "ai.onnx.ml.TreeEnsemble":
			supported.Since = 5
		}
		list = append(list, supported)
	}
	sorted.Func(list, func(a, b SupportedOperator) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Name, b.Name))
	})
	return list, nil
}

// operatorsSince maps an operator set to the operators of the default domain that it added. Experimental operators of
// old models are in set 1.
var operatorsSince = map[int]string{
	1: "Abs Add Affine And ArgMax ArgMin AveragePool BatchNormalization Cast Ceil Clip Concat Constant Conv " +
		"ConvTranspose Crop DepthToSpace Div Dropout Elu Equal Exp Flatten Floor GRU Gather Gemm " +
		"GlobalAveragePool GlobalLpPool GlobalMaxPool Greater HardSigmoid Hardmax Identity If ImageScaler " +
		"InstanceNormalization LRN LSTM LeakyRelu Less Log LogSoftmax Loop LpNormalization LpPool MatMul Max " +
		"MaxPool MaxRoiPool Mean Min Mul Neg Not Or PRelu Pad ParametricSoftplus Pow RNN RandomNormal " +
		"RandomNormalLike RandomUniform RandomUniformLike Reciprocal ReduceL1 ReduceL2 ReduceLogSum " +
		"ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape " +
		"Scale ScaledTanh Selu Shape Sigmoid SimplifiedLayerNormalization Size Slice Softmax Softplus " +
		"Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tanh Tile TopK Transpose Unsqueeze Upsample Xor",
	7: "Acos Asin Atan Cos Multinomial Sin Tan",
	8: "Expand Scan",
	9: "Acosh Asinh Atanh Compress ConstantOfShape Cosh Erf EyeLike IsNaN MaxUnpool " +
		"MeanVarianceNormalization NonZero OneHot Scatter Shrink Sign Sinh TfIdfVectorizer Where",
	10: "ConvInteger DequantizeLinear IsInf MatMulInteger Mod NonMaxSuppression QLinearConv QLinearMatMul " +
		"QuantizeLinear Resize ReverseSequence RoiAlign StringNormalizer ThresholdedRelu",
	11: "BitShift ConcatFromSequence CumSum Det DynamicQuantizeLinear GatherElements GatherND Range Round " +
		"ScatterElements ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert " +
		"SequenceLength SplitToSequence Unique",
	12: "Celu Einsum GreaterOrEqual LessOrEqual NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
	14: "HardSwish Trilu",
	15: "Bernoulli CastLike Optional OptionalGetElement OptionalHasElement",
	16: "GridSample",
	17: "BlackmanWindow DFT HammingWindow HannWindow LayerNormalization MelWeightMatrix STFT SequenceMap",
	18: "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Col2Im GroupNormalization Mish",
	19: "DeformConv",
	20: "AffineGrid Gelu RegexFullMatch StringConcat StringSplit",
	23: "Attention RMSNormalization RotaryEmbedding",
	24: "Swish TensorScatter",
	26: "BitCast CumProd",
	27: "CausalConvWithState LinearAttention",
	28: "SwiGLU",
}

// restrictions has [SupportedOperator.Restrictions] by domain and name of the operator.
var restrictions = map[string][]string{
	"DeformConv":       {"two spatial dimensions, padded alike on both sides"},
	"QuantizeLinear":   {"quantized elements of 4, 8 and 16 bits"},
	"RMSNormalization": {"stash_type 1"},
	"SequenceMap":      {"sequences of known length"},
	"com.microsoft.Attention": {"no do_rotary", "no past_present_share_buffer",
		"masks of at most three dimensions"},
	"com.microsoft.DynamicQuantizeLSTM": {"only weights are quantized: other operands are not rounded to bytes"},
	"com.microsoft.FusedConv":           {fusedActivations},
	"com.microsoft.FusedGemm":           {fusedActivations},
	"com.microsoft.GatherBlockQuantized": {"gather_axis must differ from quantize_axis",
		"elements of 2, 4 and 8 bits"},
	"com.microsoft.DecoderMaskedMultiHeadAttention": {"masks of two dimensions"},
	"com.microsoft.GroupQueryAttention":             {"no quantized cache", "no sliding_window_cache"},
	"com.microsoft.MatMulNBits":                     {"elements of 2, 4 and 8 bits", "no g_idx"},
	"com.microsoft.GroupNorm":                       {"four dimensions"},
	"com.microsoft.MultiHeadAttention": {"masks of at most three dimensions",
		"cache_indirection with past_sequence_length"},
	"com.microsoft.QAttention": {"no do_rotary", "no past_present_share_buffer",
		"masks of at most three dimensions"},
	"com.microsoft.QMoE": {"integers of 2, 4 and 8 bits", "no use_sparse_mixer",
		"weights of the experts from a softmax of the k greatest scores, or from router_weights"},
	"com.microsoft.QuantizeLinear":                   {"quantized elements of 4, 8 and 16 bits"},
	"ai.onnx.ml.CastMap":                             {mapRestriction, "max_map at most 65536"},
	"ai.onnx.ml.DictVectorizer":                      {mapRestriction, "no values that are strings"},
	"ai.onnx.ml.FeatureVectorizer":                   {"inputdimensions equal to the sizes of the operands"},
	"ai.onnx.ml.LabelEncoder":                        {"integer keys in a small range or below 2^53"},
	"ai.onnx.ml.LinearClassifier":                    {singleProbit},
	"ai.onnx.ml.SVMClassifier":                       {singleProbit},
	"ai.onnx.ml.TreeEnsembleClassifier":              {singleProbit, "base_values: one for each class with weights"},
	"ai.onnx.ml.ZipMap":                              {"the maps must be results of the model"},
	"com.microsoft.RotaryEmbedding":                  {"no is_packed_batching", "scale 1"},
	"com.microsoft.SkipSimplifiedLayerNormalization": {"output 1 must be unused"},
}

const (
	mapRestriction = "maps must be inputs of the model"
	singleProbit   = "no post_transform PROBIT of two classes with a single score"
)

const fusedActivations = "activations Relu, Sigmoid, Tanh, Silu, LeakyRelu, Elu, Softplus, Softsign, " +
	"ThresholdedRelu, HardSigmoid and Clip"

// ErrNoConverter is wrapped by the error of a node whose operator has no converter.
var ErrNoConverter = convert.ErrNoConverter

// MissingOperator is an operator of a model without a converter.
type MissingOperator struct {
	Domain, Name string
	Nodes        []string // the names of its nodes, in the order of the model
	Suggestion   string   // a similar operator with a converter, or ""
	Instead      string   // what to do in place of the operator, or ""
}

// MissingOperators lists the operators of the model that cannot be imported. It also searches nested graphs, and
// functions that nodes call. It does not convert the model.
func (m *Model) MissingOperators(o Options) ([]MissingOperator, error) {
	if err := m.checkOpened(); err != nil {
		return nil, err
	}
	full, err := o.complete()
	if err != nil {
		return nil, err
	}
	var list []MissingOperator
	for _, op := range m.model.MissingOperators(full.Table) {
		list = append(list, MissingOperator{Domain: op.Operator.Domain, Name: op.Operator.Name, Nodes: op.Nodes,
			Suggestion: op.Suggestion, Instead: op.Instead})
	}
	return list, nil
}
