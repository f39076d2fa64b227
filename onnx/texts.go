package onnx

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// This file reads tensors of strings. A string is a code: its index in the list of all strings of the model. A tensor
// of strings is an int64 tensor of codes ([val.isText]), so operators that move elements need no special code for
// strings. Callers convert strings and codes with [graph.Labels]. A string of the caller that is not in the list has
// the code -1, because the model only compares it with its own strings.

// texts is the list of the strings of a model, in the order in which they were first read.
type texts struct {
	list  []string
	codes map[string]int
}

// code returns the code of a string, and adds the string to the list if necessary.
func (t *texts) code(s string) int {
	if known, ok := t.codes[s]; ok {
		return known
	}
	if t.codes == nil {
		t.codes = map[string]int{}
	}
	known := len(t.list)
	t.codes[s], t.list = known, append(t.list, s)
	return known
}

// decodeTexts returns a weight of strings as codes.
func (m *Model) decodeTexts(t *pb.TensorProto, shape []int) (*tensor.Tensor, error) {
	if len(t.StringData) != tensor.Numel(shape) {
		return nil, fmt.Errorf("%d strings of data, but the shape needs %d", len(t.StringData), tensor.Numel(shape))
	}
	data := make([]int64, len(t.StringData))
	for i, s := range t.StringData {
		data[i] = int64(m.texts.code(string(s)))
	}
	return tensor.FromSlice(data, shape...)
}

// codes returns strings as a constant vector.
func (n *node) codes(list ...string) *val {
	data := make([]int, len(list))
	for i, s := range list {
		data[i] = n.model.texts.code(s)
	}
	return n.markText(constValue(intTensor(data...)), true)
}

// markText records whether x is a tensor of strings, and returns x.
func (n *node) markText(x *val, isText bool) *val {
	x.isText = isText
	return x
}

// textOperators has the operators that accept strings. The value is true if all int64 results are strings, and false if
// the converter itself marks the results that are strings.
var textOperators = map[operator]bool{{"", "If"}: false, {"", "Loop"}: false,
	{"", "Identity"}: true, {"", "Reshape"}: true, {"", "Flatten"}: true,
	{"", "Squeeze"}: true, {"", "Unsqueeze"}: true, {"", "Transpose"}: true, {"", "Expand"}: true, {"", "Tile"}: true,
	{"", "Concat"}: true, {"", "Split"}: true, {"", "Slice"}: true, {"", "Gather"}: true, {"", "GatherElements"}: true,
	{"", "GatherND"}: true, {"", "Compress"}: true, {"", "Where"}: true, {"", "Equal"}: false, {"", "Shape"}: false,
	{"", "Size"}: false, {mlDomain, "ArrayFeatureExtractor"}: true, {mlDomain, "LabelEncoder"}: false,
	{mlDomain, "CategoryMapper"}: false, {mlDomain, "OneHotEncoder"}: false, {mlDomain, "DictVectorizer"}: false,
	{mlDomain, "CastMap"}: false}

// convertTexts calls the converter of a node, some operands of which are strings.
func (n *node) convertTexts(c converter, key operator) []*val {
	moves, ok := textOperators[key]
	if !ok {
		n.failf("strings are not supported as operands")
	}
	out := c(n)
	for _, x := range out {
		if moves && x != nil && x.kind == tensorKind && x.dtype() == tensor.Int64 {
			x.isText = true
		}
	}
	return out
}

// hasTexts reports whether any operand is a tensor of strings.
func (n *node) hasTexts() bool {
	return slices.ContainsFunc(n.in, func(x *val) bool { return x != nil && (x.isText || x.kind == mapKind) })
}

// labelTexts adds the strings of the model to the labels of inputs and outputs.
func (im *importer) labelTexts() {
	for name, l := range im.graph.Labels {
		if l.Strings != nil {
			l.Strings = slices.Clip(im.model.texts.list)
			im.graph.Labels[name] = l
		}
	}
}

// label records that an input or output is a tensor of strings, or that its rows are maps.
func (im *importer) label(name string, l graph.Labels) {
	if im.graph.Labels == nil {
		im.graph.Labels = map[string]graph.Labels{}
	}
	im.graph.Labels[name] = l
}

// addMapInput adds an input that is a map as two inputs: the keys and the values, vectors of the same unknown size.
func (im *importer) addMapInput(declared *pb.ValueInfoProto, mapType *pb.MapType) (*val, error) {
	part := func(suffix string, kind int32) (*val, error) {
		size := fmt.Sprintf("%s_size", declared.Name)
		dim := &pb.Dimension{DimParam: size}
		p := &pb.TypeProto{TensorType: &pb.TensorType{ElemType: kind, Shape: &pb.TensorShapeProto{Dim: []*pb.Dimension{dim}}}}
		return im.addModelInput(&pb.ValueInfoProto{Name: declared.Name + suffix, Type: p})
	}
	if mapType.ValueType == nil || mapType.ValueType.TensorType == nil {
		return nil, fmt.Errorf("a map without a type of its values is not supported")
	}
	keys, err := part(".keys", mapType.KeyType)
	if err != nil {
		return nil, err
	}
	values, err := part(".values", mapType.ValueType.TensorType.ElemType)
	if err != nil {
		return nil, err
	}
	return &val{name: declared.Name, kind: mapKind, members: []*val{keys, values}}, nil
}

// constantTexts returns the value of a Constant of strings.
func (n *node) constantTexts() *val {
	if list, ok := n.strings("value_strings"); ok {
		return n.codes(list...)
	}
	x := constValue(tensor.Must(tensor.FromSlice([]int64{int64(n.model.texts.code(n.text("value_string", "")))})))
	return n.markText(x, true)
}
