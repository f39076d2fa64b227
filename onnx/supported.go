package onnx

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
)

// SupportedOperator is an operator that can be imported.
type SupportedOperator struct {
	Domain, Name string   // the default domain is ""
	Since        int      // the first version of the domain's operator set that has the operator
	Restrictions []string // the calls that are rejected, besides calls with unsupported element types
}

// SupportedOperators lists the operators of this package and of o, sorted by domain and name. [SupportedOperator.Since]
// of an operator outside the default domain is 1, except for TreeEnsemble of ai.onnx.ml.
func SupportedOperators(o Options) ([]SupportedOperator, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	since := map[string]int{}
	for version, names := range operatorsSince {
		for _, name := range strings.Fields(names) {
			since[name] = version
		}
	}
	var list []SupportedOperator
	for key := range o.table {
		supported := SupportedOperator{Domain: key.domain, Name: key.name, Since: 1, Restrictions: restrictions[key]}
		switch first := since[key.name]; {
		case key.domain == "" && first > 0:
			supported.Since = first
		case key == operator{mlDomain, "TreeEnsemble"}:
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
		"QuantizeLinear Resize ReverseSequence RoiAlign ThresholdedRelu",
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
	20: "AffineGrid Gelu",
	23: "Attention RMSNormalization RotaryEmbedding",
	24: "Swish TensorScatter",
	26: "BitCast CumProd",
	27: "CausalConvWithState LinearAttention",
	28: "SwiGLU",
}

// restrictions lists, for each operator, the calls that are rejected.
var restrictions = map[operator][]string{
	{"", "Constant"}:         {"no sparse tensors"},
	{"", "DeformConv"}:       {"two spatial dimensions, padded alike on both sides"},
	{"", "MaxRoiPool"}:       {"regions and sizes of images must be known before the graph runs"},
	{"", "QuantizeLinear"}:   {"quantized elements of 4, 8 and 16 bits"},
	{"", "RMSNormalization"}: {"stash_type 1"},
	{"", "Scan"}:             {"operator set 8: no lengths of sequences"},
	{"", "SequenceMap"}:      {"sequences of known length"},
	{"", "TfIdfVectorizer"}:  {"no strings"},
	{microsoftDomain, "Attention"}: {"no do_rotary", "no past_present_share_buffer",
		"masks of at most three dimensions"},
	{microsoftDomain, "DynamicQuantizeLSTM"}: {"only weights are quantized: other operands are not rounded to bytes"},
	{microsoftDomain, "FusedConv"}:           {fusedActivations},
	{microsoftDomain, "FusedGemm"}:           {fusedActivations},
	{microsoftDomain, "GatherBlockQuantized"}: {"gather_axis must differ from quantize_axis",
		"elements of 2, 4 and 8 bits"},
	{microsoftDomain, "GroupQueryAttention"}: {"no position_ids, attention_bias, head_sink or quantized cache",
		"no smooth_softmax", "total_sequence_length must be known before the graph runs"},
	{microsoftDomain, "MatMulNBits"}: {"elements of 2, 4 and 8 bits", "no g_idx"},
	{microsoftDomain, "GroupNorm"}:   {"four dimensions"},
	{microsoftDomain, "MultiHeadAttention"}: {"no past_sequence_length", "no cache_indirection",
		"masks of at most three dimensions"},
	{microsoftDomain, "QAttention"}: {"no do_rotary", "no past_present_share_buffer",
		"masks of at most three dimensions"},
	{microsoftDomain, "QuantizeLinear"}:                   {"quantized elements of 4, 8 and 16 bits"},
	{mlDomain, "CastMap"}:                                 {mapRestriction, "max_map at most 65536"},
	{mlDomain, "DictVectorizer"}:                          {mapRestriction, "no values that are strings"},
	{mlDomain, "FeatureVectorizer"}:                       {"inputdimensions equal to the sizes of the operands"},
	{mlDomain, "LabelEncoder"}:                            {"integer keys in a small range or below 2^53"},
	{mlDomain, "LinearClassifier"}:                        {singleProbit},
	{mlDomain, "SVMClassifier"}:                           {singleProbit},
	{mlDomain, "TreeEnsembleClassifier"}:                  {singleProbit, "base_values: one for each class with weights"},
	{mlDomain, "ZipMap"}:                                  {"the maps must be results of the model"},
	{microsoftDomain, "RotaryEmbedding"}:                  {"no is_packed_batching", "scale 1"},
	{microsoftDomain, "SkipLayerNormalization"}:           {"outputs 1 and 2 must be unused"},
	{microsoftDomain, "SkipSimplifiedLayerNormalization"}: {"outputs 1 and 2 must be unused"},
}

const (
	mapRestriction = "maps must be inputs of the model"
	singleProbit   = "no post_transform PROBIT of two classes with a single score"
)

const fusedActivations = "activations Relu, Sigmoid, Tanh, Silu, LeakyRelu, Elu, Softplus, Softsign, " +
	"ThresholdedRelu, HardSigmoid and Clip"

// ErrNoConverter is wrapped by the error of a node whose operator has no converter.
var ErrNoConverter = errors.New("the operator is not supported")

// MissingOperator is an operator of a model without a converter.
type MissingOperator struct {
	Domain, Name string
	Nodes        []string // the names of its nodes, in the order of the model
	Suggestion   string   // a similar operator with a converter, or ""
}

// MissingOperators lists the operators of the model that cannot be imported. It also searches nested graphs, and
// functions that nodes call. It does not convert the model.
func (m *Model) MissingOperators(o Options) ([]MissingOperator, error) {
	if err := m.checkOpened(); err != nil {
		return nil, err
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	return m.missingOperators(o), nil
}

func (m *Model) missingOperators(o Options) []MissingOperator {
	found := map[operator][]string{}
	m.collectMissing(m.proto.Graph.Node, o, found, map[*pb.FunctionProto]bool{}, 0)
	var list []MissingOperator
	for key, nodes := range found {
		list = append(list, MissingOperator{key.domain, key.name, nodes, nearest(key, o.table)})
	}
	sorted.Func(list, func(a, b MissingOperator) int {
		return strings.Compare(operator{a.Domain, a.Name}.String(), operator{b.Domain, b.Name}.String())
	})
	return list
}

// collectMissing adds the names of nodes without a converter to found. seen has the functions that were visited.
func (m *Model) collectMissing(nodes []*pb.NodeProto, o Options, found map[operator][]string,
	seen map[*pb.FunctionProto]bool, depth int) {
	if depth > maxDepth {
		return // the conversion reports the mistake
	}
	for _, n := range nodes {
		key := operator{domainOf(n.Domain), n.OpType}
		if f := m.function(n, o); f != nil {
			if !seen[f] {
				seen[f] = true
				m.collectMissing(f.Node, o, found, seen, depth+1)
			}
		} else if o.table[key] == nil {
			found[key] = append(found[key], nameOf(n))
		}
		for _, a := range n.Attribute {
			for _, g := range append(slices.Clone(a.Graphs), a.G) {
				if g != nil {
					m.collectMissing(g.Node, o, found, seen, depth+1)
				}
			}
		}
	}
}

// nearest suggests an operator for a key without a converter. It returns "" if no operator is similar. An operator of
// this name in another domain is preferred to a similar name of the same domain.
func nearest(key operator, table map[operator]converter) string {
	for _, other := range sorted.Keys(domains) {
		if k := (operator{other, key.name}); other != key.domain && table[k] != nil {
			return k.String()
		}
	}
	return suggest.Nearest(key.name, func(yield func(string) bool) {
		for k := range table {
			if k.domain == key.domain && !yield(k.name) {
				return
			}
		}
	})
}
