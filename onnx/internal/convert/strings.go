package convert

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// This file reads tensors of strings. A string is represented by a code, which is the index of the string in the list
// of all strings of the model. A tensor of strings is an int64 tensor of codes ([Value.hasStrings]), so operators that
// move elements need no special code for strings. Callers convert strings and codes with [graph.Labels]. An input
// string that is not in the list gets a negative code of its own: the model can compare and move it.

// StringCodes returns strings as a constant vector.
func (n *Node) StringCodes(list ...string) *Value {
	data := make([]int, len(list))
	for i, s := range list {
		data[i] = n.model.file.StringCode(s)
	}
	return n.MarkStrings(IntVector(data...), true)
}

// MarkStrings records whether x is a tensor of strings, and returns x.
func (n *Node) MarkStrings(x *Value, isText bool) *Value {
	x.hasStrings = isText
	return x
}

// convertStringNode calls the converter of a node that has operands of strings.
func (n *Node) convertStringNode(convertOperator Converter, operator Operator) []*Value {
	// If marksResults is true, all results of int64 are strings. Otherwise the converter has marked the string results.
	marksResults, ok := n.opts.Table.Strings[operator.String()]
	if !ok {
		n.Failf("strings are not supported as operands")
	}
	out := convertOperator(n)
	for _, x := range out {
		if marksResults && x != nil && x.kind == tensorKind && x.DType() == tensor.Int64 {
			x.hasStrings = true
		}
	}
	return out
}

// takesStrings reports whether any operand is a tensor of strings or a map, whose keys may be strings.
func (n *Node) takesStrings() bool {
	return slices.ContainsFunc(n.In, func(x *Value) bool { return x != nil && (x.hasStrings || x.kind == mapKind) })
}

// noTexts marks labels of strings until the model is read: see addTexts.
var noTexts = tensor.NewTexts(nil)

// addTexts adds the strings of the model to the graph and to the labels of inputs and outputs.
func (im *importer) addTexts() {
	texts := tensor.NewTexts(im.model.file.Strings())
	if len(texts.List()) > 0 {
		im.graph.Texts = texts
	}
	for name, labels := range im.graph.Labels {
		if labels.IsText() {
			labels.Texts, im.graph.Texts = texts, texts
			im.graph.Labels[name] = labels
		}
	}
}

// label records that the elements of an input or output are codes of strings, or that each row has the values of a map.
func (im *importer) label(name string, labels graph.Labels) {
	if im.graph.Labels == nil {
		im.graph.Labels = map[string]graph.Labels{}
	}
	im.graph.Labels[name] = labels
}

// addMapInput adds two inputs for an input of map type. They are the keys and the values, two vectors of the same
// unknown size.
func (im *importer) addMapInput(declared *pb.ValueInfoProto, mapType *pb.MapType) (*Value, error) {
	addVector := func(suffix string, elementType int32) (*Value, error) {
		size := fmt.Sprintf("%s_size", declared.Name)
		dim := &pb.Dimension{DimParam: size}
		shape := &pb.TensorShapeProto{Dim: []*pb.Dimension{dim}}
		vectorType := &pb.TypeProto{TensorType: &pb.TensorType{ElemType: elementType, Shape: shape}}
		return im.addModelInput(&pb.ValueInfoProto{Name: declared.Name + suffix, Type: vectorType})
	}
	if mapType.ValueType == nil || mapType.ValueType.TensorType == nil {
		return nil, fmt.Errorf("a map without a type of its values is not supported")
	}
	keys, err := addVector(".keys", mapType.KeyType)
	if err != nil {
		return nil, err
	}
	values, err := addVector(".values", mapType.ValueType.TensorType.ElemType)
	if err != nil {
		return nil, err
	}
	return &Value{name: declared.Name, kind: mapKind, members: []*Value{keys, values}}, nil
}

// MapOperand returns the keys and the values of operand 0, which must be a map.
func (n *Node) MapOperand() (keys, values *Value) {
	if !n.HasOperand(0) || n.In[0].kind != mapKind {
		n.Failf("%w", kindError{errors.New("operand 0 must be a map")})
	}
	return n.In[0].members[0], n.In[0].members[1]
}
