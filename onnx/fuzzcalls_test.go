package onnx

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// fuzzCalls describes calls of operators: operators, a colon, and parts separated by spaces, which are drawn in order.
//
//	F:N,C,S*     an operand: a class of dtypes (fuzzClasses; T and t: the dtype of operand 0 or 1) and a shape
//	L:k=axes     an operand with certain elements (fuzzValues), most often an initializer
//	_            an omitted operand
//	@p=0|1|2     an attribute: one of some integers
//	@k=S:1..3    a list of integers, one for each dimension of S* (SS: two)
//	@mode='a|b'  one of some strings
//	@alpha=f     a float
//	@axis=axis   integers by fuzzValues
//	?            before a part: it may be absent
//	>2           the number of results
//	13- or -12   operator sets
//
// A shape is * (any), + (at least one dimension), & (of operand 0), ~ (broadcasts to operand 0), ^ (of operand 0,
// except along axis), or sizes: a number, a letter that stands for the same size in the whole call, S* for 1 to 3
// sizes, r for the rank of operand 0, k for the number of axes.
const fuzzCalls = `
Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor IsNaN Log Reciprocal Round Sigmoid Sin Sinh Sqrt Tan: F:*
Tanh HardSwish Mish Softplus Softsign com.microsoft.QuickGelu com.microsoft.Gelu: F:*
Abs Neg Sign Relu: S:*
Identity Size: A:*
Not: B:*
BitwiseNot: X:*
IsInf: F:* ?@detect_negative=0|1 ?@detect_positive=0|1
Add Sub Mul Div: N:* T:~
Pow: N:* N:~
Mod: N:* T:~ ?@fmod=0|1
And Or Xor: B:* B:~
Equal: A:* T:~
Greater GreaterOrEqual Less LessOrEqual: N:* T:~
BitwiseAnd BitwiseOr BitwiseXor: X:* T:~
BitShift: U:* T:~ @direction='LEFT|RIGHT'
Max Min: N:* ?T:~ ?T:~
Sum Mean: F:* ?T:~ ?T:~
Where: B:* A:~ t:~
Clip: 11- N:* ?T: ?T:
Clip: -10 F:* ?@min=f ?@max=f
LeakyRelu Elu Celu ThresholdedRelu Swish: F:* ?@alpha=f
Selu: F:* ?@alpha=f ?@gamma=f
HardSigmoid: F:* ?@alpha=f ?@beta=f
Shrink: S:* ?@bias=f ?@lambd=f
Gelu: F:* ?@approximate='none|tanh'
PRelu: F:* T:~
Softmax LogSoftmax Hardmax: F:* ?@axis=axis
Dropout: 12- F:* ?f: ?B:=0
Cast: A:* @to=dtype
CastLike: A:* A:*
ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2: 13- N:* $k ?L:k=axes ?@keepdims=0|1 ?@noop_with_empty_axes=0|1
ReduceLogSum ReduceLogSumExp ReduceSumSquare: 18- N:* $k ?L:k=axes ?@keepdims=0|1 ?@noop_with_empty_axes=0|1
ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2: -17 N:* $k ?@axes=axes ?@keepdims=0|1
ReduceLogSum ReduceLogSumExp ReduceSumSquare: -17 N:* $k ?@axes=axes ?@keepdims=0|1
ArgMax ArgMin: N:+ ?@axis=axis ?@keepdims=0|1 ?@select_last_index=0|1
TopK: 10- N:+ ?@axis=axis L:1=along ?@largest=0|1 ?@sorted=0|1 >2
CumSum CumProd: N:+ L:=axis ?@exclusive=0|1 ?@reverse=0|1
LpNormalization: F:+ ?@axis=axis ?@p=1|2
Shape: A:* ?@start=axis ?@end=axis
Reshape: A:* L:k=reshape ?@allowzero=0|1
Flatten: A:* ?@axis=axis
Squeeze: 13- A:* $k ?L:k=ones
Squeeze: -12 A:* $k ?@axes=ones
Unsqueeze: 13- A:* $k L:k=new
Unsqueeze: -12 A:* $k @axes=new
Transpose: A:* ?@perm=perm
Expand: A:* L:k=expand
Tile: A:* L:r=0|1|2|3
Concat: A:+ @axis=axis ?T:^ ?T:^
Split: 13- A:+ @axis=axis L:2=halves >2
Split: -12 A:+ @axis=axis @split=halves >2
Split: 18- A:+ @axis=axis @num_outputs=2 >2
Slice: 10- A:+ $k L:k=start L:k=start ?L:k=axes ?L:k=step
Slice: -9 A:+ $k @starts=start @ends=start @axes=axes
Pad: 11- A:* L:rr=pad ?T: ?@mode='constant|reflect|edge|wrap'
Pad: 18- A:* $k L:kk=pad T: L:k=axes ?@mode='constant|reflect|edge|wrap'
Pad: -10 F:* @pads=rr:0..2 ?@mode='constant|reflect|edge' ?@value=f
Gather: A:+ ?@axis=axis K:*=along
GatherElements: A:+ ?@axis=axis K:&=along
GatherND: A:A,B,S* L:J,1=along
GatherND: A:A,B,C L:A,J,1=in:B @batch_dims=1
ScatterElements: A:+ ?@axis=axis K:&=along T:& ?@reduction='none|add|mul|min|max'
Scatter: A:+ ?@axis=axis K:&=along T:&
ScatterND: A:A,B,C L:J,1=in:A T:J,B,C ?@reduction='none|add|mul|min|max'
ScatterND: A:+ L:0,r=0 T:0
TensorScatter: F:A,B,C,D T:A,B,J,D ?L:A=0|1 ?@axis=-2|2 ?@mode='linear|circular'
Compress: A:+ ?@axis=axis B:J
Compress: A:* B:J
NonZero: A:*
Unique: N:* ?@axis=axis ?@sorted=0|1 >4
OneHot: K:*=-5|-1|0|1|2|3|5 L:=0|1|3|5 N:2 ?@axis=axis
ConstantOfShape: L:k=0|1|2|3
Range: K:=-2|0|3 T:=-3|0|1|7 T:=-2|-1|1|2|3
Range: f:=0|1|-2 f:=3|5|0 f:=1|2|-1
EyeLike: N:M,K ?@k=-6|-2|-1|0|1|2|6
Trilu: A:A,B,S* ?L:=-6|-1|0|1|2|6 ?@upper=0|1
DepthToSpace: A:N,4,H,W @blocksize=1|2 ?@mode='DCR|CRD'
SpaceToDepth: A:N,C,2,W @blocksize=1|2
SpaceToDepth: A:N,C,4,4 @blocksize=1|2|4
ReverseSequence: A:A,B,S* L:B=length:A
ReverseSequence: A:A,B,S* L:A=length:B @batch_axis=0 @time_axis=1
CenterCropPad: A:+ $k L:k=0|1|2|5 @axes=axes
CenterCropPad: A:+ L:r=0|1|3|6
Crop: F:N,C,3,4 @border=1:0..1
MatMul: N:A,B T:B,C
MatMul: N:B T:B,C
MatMul: N:A,B T:B
MatMul: F:N,A,B T:N,B,C
MatMul: F:N,A,B T:B,C
Gemm: N:A,B T:B,C ?T:A,C ?@alpha=f ?@beta=f
Gemm: F:B,A T:C,B ?T:C @transA=1 @transB=1
Einsum: F:A,B T:B,C @equation='ij,jk->ik|ij,jk|ij,jk->ki|ij,jk->i|ij,jk->|ij,jk->j|ij,jk->ijk'
Einsum: F:N,A,B T:N,B,C @equation='bij,bjk->bik|...ij,...jk->...ik|bij,bjk->bki|bij,cjk->ik'
Det: F:N,A,A
Conv: F:N,C,S* T:O,C,P* ?T:O ?@pads=SS:0..2 ?@strides=S:1..3 ?@dilations=S:1..2 ?@auto_pad='NOTSET|SAME_UPPER|SAME_LOWER|VALID'
Conv: F:N,C,S* T:C,1,P* @group=size:C ?@pads=SS:0..2 ?@strides=S:1..3
ConvTranspose: F:N,C,S* T:C,O,P* ?T:O ?@pads=SS:0..1 ?@strides=S:1..3 ?@dilations=S:1..2 ?@output_padding=S:0..1
MaxPool: F:N,C,S* @kernel_shape=S:1..3 ?@pads=SS:0..1 ?@strides=S:1..3 ?@dilations=S:1..2 ?@ceil_mode=0|1
MaxPool: F:N,C,S* @kernel_shape=S:1..3 ?@strides=S:1..3 ?@auto_pad='SAME_UPPER|SAME_LOWER|VALID' ?@storage_order=0|1 >2
AveragePool: F:N,C,S* @kernel_shape=S:1..3 ?@pads=SS:0..1 ?@strides=S:1..3 ?@count_include_pad=0|1 ?@ceil_mode=0|1
AveragePool: F:N,C,S* @kernel_shape=S:1..3 ?@strides=S:1..3 ?@auto_pad='SAME_UPPER|SAME_LOWER|VALID'
LpPool: F:N,C,S* @kernel_shape=S:1..3 ?@pads=SS:0..1 ?@strides=S:1..3 ?@p=1|2|3
GlobalAveragePool GlobalMaxPool: F:N,C,S*
GlobalLpPool: F:N,C,S* ?@p=1|2|3
MaxUnpool: F:N,C,2,2 L:&=0|1|2|3 @kernel_shape=2:2..2 ?@strides=2:1..2
BatchNormalization: F:N,C,S* T:C T:C T:C T:C=1|2 ?@epsilon=f
InstanceNormalization: F:N,C,S* T:C T:C ?@epsilon=f
LRN: F:N,C,S* @size=1|2|3|5 ?@alpha=f ?@beta=f ?@bias=f
LayerNormalization: F:N,M,D T:D ?T:D ?@epsilon=f >3
LayerNormalization: F:N,M,D T:M,D ?T:M,D @axis=1
RMSNormalization SimplifiedLayerNormalization: F:N,M,D T:D ?@epsilon=f
GroupNormalization: F:N,C,S* T:C T:C @num_groups=1
MeanVarianceNormalization: F:N,C,H,W $k ?@axes=axes
NegativeLogLikelihoodLoss: F:N,C,S* K:N,S*=length:C ?T:C ?@reduction='none|mean|sum' ?@ignore_index=0|1|-1
SoftmaxCrossEntropyLoss: F:N,C,S* K:N,S*=length:C ?T:C ?@reduction='none|mean|sum' ?@ignore_index=0|1|-1 >2
Resize: 11- F:N,C,H,W f: f:4=1|2|0.5|0.7 ?@mode='nearest|linear|cubic' ?@coordinate_transformation_mode='half_pixel|asymmetric|align_corners|pytorch_half_pixel' ?@nearest_mode='round_prefer_floor|round_prefer_ceil|floor|ceil'
Resize: 13- F:A,B,C,D _ _ L:4=expanded ?@mode='nearest|linear|cubic' ?@coordinate_transformation_mode='half_pixel|asymmetric|align_corners|pytorch_half_pixel|half_pixel_symmetric' ?@antialias=0|1
Resize: 18- F:+ $k _ _ L:k=1|2|5 @axes=axes ?@mode='nearest|linear'
Upsample: 9- F:N,C,H,W f:4=1|2 ?@mode='nearest|linear'
GridSample: F:N,C,H,W T:N,J,K,2 ?@mode='linear|nearest|cubic|bilinear|bicubic' ?@padding_mode='zeros|border|reflection' ?@align_corners=0|1
AffineGrid: F:N,2,3 L:4=shape:N,C,H,W ?@align_corners=0|1
Col2Im: F:N,4,4 L:2=3 L:2=2
QuantizeLinear: F:* f:=0.5|1|0.1 ?Q:=0|3
QuantizeLinear: F:N,C,S* f:C=0.5|1|0.1 Q:C=0|3 ?@axis=1
DequantizeLinear: Q:* f:=0.5|1|0.1 ?T:=0|3
DynamicQuantizeLinear: f:* >3
MatMulInteger: Q:A,B Q:B,C ?T: ?t:
HannWindow HammingWindow BlackmanWindow: K:=0|1|2|5 ?@periodic=0|1
DFT: 20- F:N,A,1 ?L: L:=1|-2 ?@onesided=0|1
DFT: 17- F:N,A,2 ?L:=1|2|4 ?@inverse=0|1
Bernoulli RandomNormalLike RandomUniformLike: F:*
com.microsoft.BiasGelu com.microsoft.FastGelu: F:N,M T:M
com.microsoft.FusedMatMul: F:N,A,B T:N,B,C ?@alpha=f
com.microsoft.SkipLayerNormalization: F:N,M,D T:& T:D T:D
ai.onnx.ml.Binarizer: f:N,C ?@threshold=f
ai.onnx.ml.Normalizer: f:N,C ?@norm='MAX|L1|L2'
ai.onnx.ml.ArrayFeatureExtractor: F:N,C L:J=in:C
`

// fuzzCall is a description of calls.
type fuzzCall struct {
	parts       []string
	first, last int64 // operator sets
}

var sortedCalls []convert.Operator

// parsedFuzzCalls returns the descriptions by operator.
func parsedFuzzCalls(t testing.TB) map[convert.Operator][]fuzzCall {
	t.Helper()
	calls := map[convert.Operator][]fuzzCall{}
	for line := range strings.Lines(strings.TrimSpace(fuzzCalls)) {
		operators, text, ok := strings.Cut(strings.TrimSpace(line), ": ")
		require.True(t, ok, line)
		c := fuzzCall{parts: strings.Fields(text), first: 1, last: 99}
		if before, isFirst := strings.CutSuffix(c.parts[0], "-"); isFirst {
			c.first, _ = strconv.ParseInt(before, 10, 64)
			c.parts = c.parts[1:]
		} else if after, isLast := strings.CutPrefix(c.parts[0], "-"); isLast {
			c.last, _ = strconv.ParseInt(after, 10, 64)
			c.parts = c.parts[1:]
		}
		for _, name := range strings.Fields(operators) {
			op := convert.Operator{Name: name}
			if i := strings.LastIndexByte(name, '.'); i >= 0 {
				op = convert.Operator{Domain: name[:i], Name: name[i+1:]}
			}
			calls[op] = append(calls[op], c)
		}
	}
	if sortedCalls == nil {
		for op := range calls {
			sortedCalls = append(sortedCalls, op)
		}
		sorted.Func(sortedCalls, func(a, b convert.Operator) int { return strings.Compare(a.String(), b.String()) })
	}
	return calls
}

// callDrawer draws one call.
type callDrawer struct {
	*fuzzDrawer
	node     *pb.NodeProto
	operands []*tensor.Tensor // nil if absent
	sizes    map[string][]int // sizes of letters
	axes     []int            // the axes of the call
	ints     map[string]int   // integer attributes
}

// call adds a node.
func (d *fuzzDrawer) call(op convert.Operator, c fuzzCall) {
	if d.m.opset < c.first || d.m.opset > c.last {
		if len(d.m.nodes) > 0 {
			return
		}
		d.m.opset = min(max(d.m.opset, c.first), c.last)
	}
	n := &callDrawer{fuzzDrawer: d, node: &pb.NodeProto{OpType: op.Name, Domain: op.Domain}, sizes: map[string][]int{},
		ints: map[string]int{}}
	outputs := 1
	for _, part := range c.parts {
		if count, ok := strings.CutPrefix(part, ">"); ok {
			outputs, _ = strconv.Atoi(count)
			outputs -= map[bool]int{true: d.n(outputs)}[op.Name != "Split"]
			continue
		}
		optional := part[0] == '?'
		if part = strings.TrimPrefix(part, "?"); part[0] == '@' {
			if !optional || d.n(2) == 0 {
				n.attribute(part[1:])
			}
			continue
		}
		switch {
		case part == "$k":
			n.drawAxes()
		case part == "_" || optional && d.n(2) == 0:
			n.operands, n.node.Input = append(n.operands, nil), append(n.node.Input, "")
		default:
			n.operand(part)
		}
	}
	for len(n.node.Input) > 0 && n.node.Input[len(n.node.Input)-1] == "" {
		n.node.Input = n.node.Input[:len(n.node.Input)-1]
	}
	for range outputs {
		n.node.Output = append(n.node.Output, d.name("y"))
	}
	if len(n.node.Attribute) > 0 && d.oneOf(16) {
		d.changeAttribute(n.node, pick(d, n.node.Attribute))
	}
	if op.Domain != "" && d.m.others[op.Domain] == 0 {
		d.m.addDomain(op.Domain, 1)
	}
	d.m.nodes = append(slices.Clip(d.m.nodes), n.node)
	d.m.results = append(slices.Clip(d.m.results), n.node.Output...)
}

// addDomain adds an operator set.
func (m *fuzzModel) addDomain(domain string, version int64) {
	others := map[string]int64{domain: version}
	for other, v := range m.others {
		others[other] = v
	}
	m.others = others
}

// rank returns the rank of operand 0.
func (n *callDrawer) rank() int {
	if len(n.operands) == 0 || n.operands[0] == nil {
		return 1
	}
	return n.operands[0].Rank()
}

// drawAxes draws distinct axes of operand 0, most often in the order of the dimensions.
func (n *callDrawer) drawAxes() {
	n.axes = nil
	for i := range n.rank() {
		if n.n(2) == 0 {
			n.axes = append(n.axes, i)
		}
	}
	if n.oneOf(4) {
		slices.Reverse(n.axes)
	}
}

// operand adds an operand: an earlier value that fits, or a new one.
func (n *callDrawer) operand(part string) {
	class := part[0]
	shape, values, hasValues := strings.Cut(part[2:], "=")
	dtypes := fuzzClasses[class]
	switch {
	case class == 'T' && n.operands[0] != nil:
		dtypes = []tensor.DType{n.operands[0].DType}
	case class == 't' && n.operands[1] != nil:
		dtypes = []tensor.DType{n.operands[1].DType}
	}
	dtype := pick(n.fuzzDrawer, dtypes)
	if !hasValues && n.n(4) > 0 {
		candidates := sorted.Keys(n.m.known)
		for range 6 {
			if len(candidates) == 0 {
				break
			}
			name := pick(n.fuzzDrawer, candidates)
			x := n.m.known[name]
			if slices.Contains(dtypes, x.DType) && x.Numel() < 2000 && x.Rank() <= 6 && n.fits(shape, x.Shape) {
				n.operands, n.node.Input = append(n.operands, x), append(n.node.Input, name)
				return
			}
		}
	}
	sizes := n.shape(shape)
	var x *tensor.Tensor
	if hasValues {
		list := n.values(values, sizes)
		if len(sizes) == 1 {
			sizes = []int{len(list)}
		}
		x = tensor.Zeros(dtype, sizes...)
		for i := range x.Numel() {
			if x.SetFlat(i, tensor.IntScalar(int64(list[i]))); dtype.IsFloat() {
				x.SetFlat(i, tensor.FloatScalar(list[i]))
			}
		}
	} else {
		x = n.numbers(dtype, sizes...)
	}
	n.operands = append(n.operands, x)
	n.node.Input = append(n.node.Input, n.input(x))
}

// fits reports whether a shape matches a description, and sets the letters.
func (n *callDrawer) fits(text string, shape []int) bool {
	switch text {
	case "*":
		return true
	case "+":
		return len(shape) > 0
	case "&":
		return slices.Equal(shape, n.operands[0].Shape)
	case "~":
		have := n.operands[0].Shape
		for i := range min(len(have), len(shape)) {
			if a, b := have[len(have)-1-i], shape[len(shape)-1-i]; a != b && a != 1 && b != 1 {
				return false
			}
		}
		return true
	case "^":
		return false
	}
	found := map[string][]int{}
	rest := shape
	list := fuzzLetters(text)
	for i, letter := range list {
		want, known := n.sizes[letter], n.sizes[letter] != nil
		if literal, err := strconv.Atoi(letter); err == nil {
			want, known = []int{literal}, true
		}
		count := 1
		if strings.HasSuffix(letter, "*") {
			if count = len(rest) - (len(list) - 1 - i); count < 1 || count > 3 || known && count != len(want) ||
				letter == "P*" && count != len(n.sizes["S*"]) {
				return false
			}
		}
		if len(rest) < count || known && !slices.Equal(want, rest[:count]) || found[letter] != nil &&
			!slices.Equal(found[letter], rest[:count]) {
			return false
		}
		found[letter], rest = rest[:count], rest[count:]
	}
	if len(rest) > 0 {
		return false
	}
	for letter, sizes := range found {
		n.sizes[letter] = sizes
	}
	return true
}

func fuzzLetters(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// shape draws a shape.
func (n *callDrawer) shape(text string) (shape []int) {
	switch text {
	case "*", "+":
		rank := n.n(6)
		if text == "+" && rank == 0 {
			rank = 1
		}
		for range rank {
			shape = append(shape, n.size())
		}
		return shape
	case "&":
		return slices.Clone(n.operands[0].Shape)
	case "^":
		shape = slices.Clone(n.operands[0].Shape)
		if axis, ok := n.axis(); ok {
			shape[axis] = n.size()
		}
		return shape
	case "~":
		shape = slices.Clone(n.operands[0].Shape)
		for i := range shape {
			if n.n(4) == 0 {
				shape[i] = 1
			} else if shape[i] == 1 && n.n(4) == 0 {
				shape[i] = n.size()
			}
		}
		switch n.n(6) {
		case 0:
			return nil
		case 1:
			return shape[n.n(len(shape)+1):]
		case 2:
			return append([]int{n.size()}, shape...)
		}
		return shape
	}
	for _, letter := range fuzzLetters(text) {
		known := n.sizes[letter]
		if known == nil {
			literal, err := strconv.Atoi(letter)
			switch {
			case err == nil:
				known = []int{literal}
			case letter == "r" || letter == "rr":
				known = []int{n.rank() * len(letter)}
			case letter == "k" && n.axes != nil:
				known = []int{len(n.axes)}
			case letter == "k":
				known = []int{n.n(5)}
			case letter == "kk":
				known = []int{2 * len(n.axes)}
			case strings.HasSuffix(letter, "*"):
				count := 1 + n.n(3)
				if letter == "P*" {
					count = len(n.sizes["S*"])
				}
				for range count {
					known = append(known, max(n.size(), map[bool]int{true: 1}[letter == "P*"]))
				}
			default:
				known = []int{n.size()}
			}
			n.sizes[letter] = known
		}
		shape = append(shape, known...)
	}
	return shape
}

// axis returns the axis attribute if it is in range; without an attribute, 0.
func (n *callDrawer) axis() (int, bool) {
	rank := n.rank()
	axis, given := n.ints["axis"]
	if !given && slices.Contains([]string{"TopK", "OneHot"}, n.node.OpType) {
		axis = -1
	}
	if axis < 0 {
		axis += rank
	}
	return axis, axis >= 0 && axis < rank
}

// values returns elements of an operand or of an attribute.
func (n *callDrawer) values(text string, shape []int) (list []float64) {
	count := tensor.Numel(shape)
	each := func(f func(i int) int) []float64 {
		for i := range count {
			list = append(list, float64(f(i)))
		}
		return list
	}
	rank := n.rank()
	signed := func(axis, rank int) int { return axis - rank*map[bool]int{true: 1}[n.oneOf(3)] }
	index := func(size int) int {
		if n.oneOf(64) {
			return pick(n.fuzzDrawer, []int{size, -size - 1, math.MaxInt32})
		}
		return signed(n.n(max(size, 1)), size)
	}
	kind, arg, _ := strings.Cut(text, ":")
	switch kind {
	case "axis":
		if n.oneOf(16) {
			return each(func(int) int { return pick(n.fuzzDrawer, []int{rank, -rank - 1, math.MaxInt32}) })
		}
		return each(func(int) int { return signed(n.n(max(rank, 1)), rank) })
	case "axes", "ones":
		if kind == "ones" && !n.oneOf(8) {
			n.axes = slices.DeleteFunc(n.axes, func(axis int) bool { return n.operands[0].Shape[axis] != 1 })
		}
		for _, axis := range n.axes {
			list = append(list, float64(signed(axis, rank)))
		}
		return list
	case "new":
		for _, axis := range n.axes {
			list = append(list, float64(signed(axis, rank+len(n.axes))))
		}
		return list
	case "perm":
		for _, axis := range n.rng.Perm(rank) {
			list = append(list, float64(axis))
		}
		return list
	case "along":
		if axis, ok := n.axis(); ok {
			size := n.operands[0].Shape[axis]
			if n.node.OpType == "TopK" {
				return each(func(int) int { return n.n(size + 1) })
			}
			return each(func(int) int { return index(size) })
		}
		return each(func(int) int { return 0 })
	case "in":
		return each(func(int) int { return index(n.sizes[arg][0]) })
	case "length":
		return each(func(int) int { return n.n(n.sizes[arg][0] + map[bool]int{true: 1}[n.node.OpType == "ReverseSequence"]) })
	case "size":
		return []float64{float64(n.sizes[arg][0])}
	case "shape":
		for _, size := range n.shape(arg) {
			list = append(list, float64(size))
		}
		return list
	case "pad":
		return each(func(int) int { return n.n(5) - map[bool]int{true: 2}[n.oneOf(4)] })
	case "start":
		if n.oneOf(8) {
			return each(func(int) int { return pick(n.fuzzDrawer, []int{math.MaxInt >> 11, math.MinInt >> 11, 0}) })
		}
		return each(func(int) int { return n.n(12) - 6 })
	case "step":
		return each(func(int) int { return pick(n.fuzzDrawer, []int{1, 1, 2, 3, -1, -2}) })
	case "halves":
		if axis, ok := n.axis(); ok {
			first := n.n(n.operands[0].Shape[axis] + 1)
			return []float64{float64(first), float64(n.operands[0].Shape[axis] - first)}
		}
		return []float64{1, 1}
	case "expand", "expanded":
		for _, size := range n.operands[0].Shape {
			if kind == "expanded" {
				list = append(list, float64(size*(1+n.n(2))))
			} else if size == 1 && n.n(2) == 0 {
				list = append(list, float64(n.size()))
			} else {
				list = append(list, float64(pick(n.fuzzDrawer, []int{size, 1})))
			}
		}
		if kind == "expand" && n.oneOf(3) {
			list = append([]float64{float64(n.size())}, list...)
		}
		return list
	case "reshape":
		return n.reshaped()
	case "dtype":
		return []float64{float64(elementType(pick(n.fuzzDrawer, fuzzClasses['A'])))}
	}
	choices := strings.Split(text, "|")
	for range count {
		x, err := strconv.ParseFloat(pick(n.fuzzDrawer, choices), 64)
		if err != nil {
			panic(fmt.Sprint("fuzzCalls: ", text))
		}
		list = append(list, x)
	}
	return list
}

// reshaped returns sizes with the number of elements of operand 0, some of them as -1 or 0.
func (n *callDrawer) reshaped() (list []float64) {
	shape := n.operands[0].Shape
	left := tensor.Numel(shape)
	if left == 0 {
		for _, size := range shape {
			list = append(list, float64(size))
		}
		n.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	for left > 1 && len(list) < 4 {
		factor := 1 + n.n(min(left, 64))
		for left%factor != 0 {
			factor--
		}
		list = append(list, float64(factor))
		left /= factor
	}
	if left > 1 {
		list = append(list, float64(left))
	}
	for range n.n(3) {
		list = slices.Insert(list, n.n(len(list)+1), 1)
	}
	for i := range list {
		if i < len(shape) && int(list[i]) == shape[i] && n.oneOf(3) {
			list[i] = 0
		}
	}
	if len(list) > 0 && n.oneOf(2) {
		list[n.n(len(list))] = -1
	}
	return list
}

// attribute adds an attribute.
func (n *callDrawer) attribute(part string) {
	name, values, _ := strings.Cut(part, "=")
	a := &pb.AttributeProto{Name: name}
	n.node.Attribute = append(n.node.Attribute, a)
	if text, ok := strings.CutPrefix(values, "'"); ok {
		a.Type, a.S = pb.AttributeString, []byte(pick(n.fuzzDrawer, strings.Split(strings.TrimSuffix(text, "'"), "|")))
		return
	}
	letters, limits, isRange := strings.Cut(values, ":")
	low, high, isInts := strings.Cut(limits, "..")
	switch {
	case values == "f":
		a.Type, a.F = pb.AttributeFloat, float32(pick(n.fuzzDrawer, []float64{0, 0.5, 1, 2, -1, 1e-5}))
	case isRange && isInts:
		a.Type = pb.AttributeInts
		spatial := len(n.sizes["S*"])
		count := map[string]int{"S": spatial, "SS": 2 * spatial, "rr": 2 * n.rank(), "1": 4, "2": 2}[letters]
		least, _ := strconv.Atoi(low)
		most, _ := strconv.Atoi(high)
		for range count {
			a.Ints = append(a.Ints, int64(least+n.n(most-least+1)))
		}
	case slices.Contains([]string{"axes", "ones", "new", "perm", "start", "halves"}, values):
		a.Type = pb.AttributeInts
		for _, x := range n.values(values, []int{len(n.axes)}) {
			a.Ints = append(a.Ints, int64(x))
		}
	default:
		a.Type, a.I = pb.AttributeInt, int64(n.values(values, []int{1})[0])
		n.ints[name] = int(a.I)
	}
}
