// Package onnxpb has ONNX's protocol-buffer messages as plain Go structs, with their encoding. It has the messages and
// fields of onnx.proto that the importer reads; a test compares their numbers and types with that file. Other fields
// are skipped, as protobuf skips unknown fields.
package onnxpb

import "slices"

// DataType is the element type of a tensor. Tensors have it as an int32, as onnx.proto declares it.
type DataType int32

// The element types of onnx.proto.
const (
	Undefined DataType = iota
	Float
	Uint8
	Int8
	Uint16
	Int16
	Int32
	Int64
	String
	Bool
	Float16
	Double
	Uint32
	Uint64
	Complex64
	Complex128
	BFloat16
	Float8E4M3FN
	Float8E4M3FNUZ
	Float8E5M2
	Float8E5M2FNUZ
	Uint4
	Int4
)

// AttributeType is the type of an attribute.
type AttributeType int32

// The types of attributes that the importer knows.
const (
	AttributeUndefined AttributeType = iota
	AttributeFloat
	AttributeInt
	AttributeString
	AttributeTensor
	AttributeGraph
	AttributeFloats
	AttributeInts
	AttributeStrings
	_ // TENSORS
	_ // GRAPHS
	AttributeSparseTensor
)

// External is the location of a tensor whose data is in another file.
const External int32 = 1

// ModelProto is a model file.
type ModelProto struct {
	IrVersion     int64
	OpsetImport   []*OperatorSetIDProto
	Graph         *GraphProto
	MetadataProps []*StringStringEntryProto
	Functions     []*FunctionProto
}

func (m *ModelProto) fields(c *coder) {
	codeNumber(c, 1, int64Format, &m.IrVersion)
	codeMessage(c, 7, &m.Graph)
	codeMessages(c, 8, &m.OpsetImport)
	codeMessages(c, 14, &m.MetadataProps)
	codeMessages(c, 25, &m.Functions)
}

// OperatorSetIDProto is the version of the operators of a domain.
type OperatorSetIDProto struct {
	Domain  string
	Version int64
}

func (m *OperatorSetIDProto) fields(c *coder) {
	c.codeText(1, &m.Domain)
	codeNumber(c, 2, int64Format, &m.Version)
}

// FunctionProto is a function whose body is nodes.
type FunctionProto struct {
	Name, Domain, Overload string
	Input, Output          []string
	AttributeProto         []*AttributeProto
	Node                   []*NodeProto
	OpsetImport            []*OperatorSetIDProto
}

func (m *FunctionProto) fields(c *coder) {
	c.codeText(1, &m.Name)
	c.codeTexts(4, &m.Input)
	c.codeTexts(5, &m.Output)
	codeMessages(c, 7, &m.Node)
	codeMessages(c, 9, &m.OpsetImport)
	c.codeText(10, &m.Domain)
	codeMessages(c, 11, &m.AttributeProto)
	c.codeText(13, &m.Overload)
}

// GraphProto is the graph of a model, of a loop or of a branch.
type GraphProto struct {
	Node              []*NodeProto
	Name              string
	Initializer       []*TensorProto
	SparseInitializer []*SparseTensorProto
	Input, Output     []*ValueInfoProto
	ValueInfo         []*ValueInfoProto // the declared types of other values
}

func (m *GraphProto) fields(c *coder) {
	codeMessages(c, 1, &m.Node)
	c.codeText(2, &m.Name)
	codeMessages(c, 5, &m.Initializer)
	codeMessages(c, 11, &m.Input)
	codeMessages(c, 12, &m.Output)
	codeMessages(c, 13, &m.ValueInfo)
	codeMessages(c, 15, &m.SparseInitializer)
}

// NodeProto is a node of a graph.
type NodeProto struct {
	Input, Output                  []string
	Name, OpType, Domain, Overload string
	Attribute                      []*AttributeProto
}

func (m *NodeProto) fields(c *coder) {
	c.codeTexts(1, &m.Input)
	c.codeTexts(2, &m.Output)
	c.codeText(3, &m.Name)
	c.codeText(4, &m.OpType)
	codeMessages(c, 5, &m.Attribute)
	c.codeText(7, &m.Domain)
	c.codeText(8, &m.Overload)
}

// Graphs returns the graphs in the attributes of the node.
func (m *NodeProto) Graphs() (list []*GraphProto) {
	for _, a := range m.Attribute {
		for _, g := range append(slices.Clone(a.Graphs), a.G) {
			if g != nil {
				list = append(list, g)
			}
		}
	}
	return list
}

// AttributeProto is an attribute of a node. Type selects the field with its value.
type AttributeProto struct {
	Name, RefAttrName string
	Type              AttributeType
	F                 float32
	I                 int64
	S                 []byte
	T                 *TensorProto
	G                 *GraphProto
	Floats            []float32
	Ints              []int64
	Strings           [][]byte
	Graphs            []*GraphProto
	SparseTensor      *SparseTensorProto
}

func (m *AttributeProto) fields(c *coder) {
	c.codeText(1, &m.Name)
	codeNumber(c, 2, float32Format, &m.F)
	codeNumber(c, 3, int64Format, &m.I)
	c.codeBytes(4, &m.S)
	codeMessage(c, 5, &m.T)
	codeMessage(c, 6, &m.G)
	codeNumbers(c, 7, float32Format, &m.Floats)
	codeNumbers(c, 8, int64Format, &m.Ints)
	c.codeByteStrings(9, &m.Strings)
	codeMessages(c, 11, &m.Graphs)
	codeNumber(c, 20, int32Format, (*int32)(&m.Type))
	c.codeText(21, &m.RefAttrName)
	codeMessage(c, 22, &m.SparseTensor)
}

// TensorProto is a tensor. Its elements are in RawData, in the field of their type, or in another file.
type TensorProto struct {
	Dims         []int64
	DataType     int32
	Segment      *Segment
	FloatData    []float32
	Int32Data    []int32
	StringData   [][]byte
	Int64Data    []int64
	Name         string
	RawData      []byte
	DoubleData   []float64
	Uint64Data   []uint64
	ExternalData []*StringStringEntryProto
	DataLocation int32
}

func (m *TensorProto) fields(c *coder) {
	codeNumbers(c, 1, int64Format, &m.Dims)
	codeNumber(c, 2, int32Format, &m.DataType)
	codeMessage(c, 3, &m.Segment)
	codeNumbers(c, 4, float32Format, &m.FloatData)
	codeNumbers(c, 5, int32Format, &m.Int32Data)
	c.codeByteStrings(6, &m.StringData)
	codeNumbers(c, 7, int64Format, &m.Int64Data)
	c.codeText(8, &m.Name)
	c.codeBytes(9, &m.RawData)
	codeNumbers(c, 10, float64Format, &m.DoubleData)
	codeNumbers(c, 11, uint64Format, &m.Uint64Data)
	codeMessages(c, 13, &m.ExternalData)
	codeNumber(c, 14, int32Format, &m.DataLocation)
}

// Segment is TensorProto.Segment of onnx.proto: the range of a tensor that is stored in parts.
type Segment struct{ Begin, End int64 }

func (m *Segment) fields(c *coder) {
	codeNumber(c, 1, int64Format, &m.Begin)
	codeNumber(c, 2, int64Format, &m.End)
}

// SparseTensorProto is a sparse tensor, whose name is the name of its values.
type SparseTensorProto struct {
	Values, Indices *TensorProto
	Dims            []int64
}

func (m *SparseTensorProto) fields(c *coder) {
	codeMessage(c, 1, &m.Values)
	codeMessage(c, 2, &m.Indices)
	codeNumbers(c, 3, int64Format, &m.Dims)
}

// Name returns the name of the tensor.
func (m *SparseTensorProto) Name() string {
	if m.Values == nil {
		return ""
	}
	return m.Values.Name
}

// StringStringEntryProto is an entry of a map.
type StringStringEntryProto struct{ Key, Value string }

func (m *StringStringEntryProto) fields(c *coder) {
	c.codeText(1, &m.Key)
	c.codeText(2, &m.Value)
}

// ValueInfoProto declares a value.
type ValueInfoProto struct {
	Name string
	Type *TypeProto
}

func (m *ValueInfoProto) fields(c *coder) {
	c.codeText(1, &m.Name)
	codeMessage(c, 2, &m.Type)
}

// TensorType returns the type of a value that is declared as a tensor, or nil.
func (m *ValueInfoProto) TensorType() *TensorType {
	if m.Type == nil {
		return nil
	}
	return m.Type.TensorType
}

// Shape returns the declared shape of a tensor, or nil.
func (m *ValueInfoProto) Shape() *TensorShapeProto {
	if t := m.TensorType(); t != nil {
		return t.Shape
	}
	return nil
}

// TypeProto is the type of a value. At most one field is set. All are nil for other types, such as optionals.
type TypeProto struct {
	TensorType   *TensorType
	SequenceType *SequenceType
	MapType      *MapType
}

func (m *TypeProto) fields(c *coder) {
	if codeMessage(c, 1, &m.TensorType) {
		m.SequenceType, m.MapType = nil, nil
	}
	if codeMessage(c, 4, &m.SequenceType) {
		m.TensorType, m.MapType = nil, nil
	}
	if codeMessage(c, 5, &m.MapType) {
		m.TensorType, m.SequenceType = nil, nil
	}
}

// TensorType is TypeProto.Tensor of onnx.proto. A tensor of unknown rank has no shape.
type TensorType struct {
	ElemType int32
	Shape    *TensorShapeProto
}

func (m *TensorType) fields(c *coder) {
	codeNumber(c, 1, int32Format, &m.ElemType)
	codeMessage(c, 2, &m.Shape)
}

// SequenceType is TypeProto.Sequence of onnx.proto.
type SequenceType struct{ ElemType *TypeProto }

func (m *SequenceType) fields(c *coder) { codeMessage(c, 1, &m.ElemType) }

// MapType is TypeProto.Map of onnx.proto.
type MapType struct {
	KeyType   int32
	ValueType *TypeProto
}

func (m *MapType) fields(c *coder) {
	codeNumber(c, 1, int32Format, &m.KeyType)
	codeMessage(c, 2, &m.ValueType)
}

// TensorShapeProto is the shape of a tensor.
type TensorShapeProto struct{ Dim []*Dimension }

func (m *TensorShapeProto) fields(c *coder) { codeMessages(c, 1, &m.Dim) }

// Dimension is TensorShapeProto.Dimension of onnx.proto: a size, the name of a size, or neither.
type Dimension struct {
	DimValue *int64
	DimParam string
}

func (m *Dimension) fields(c *coder) {
	if codeOptionalNumber(c, 1, int64Format, &m.DimValue) {
		m.DimParam = ""
	}
	if c.codeText(2, &m.DimParam) {
		m.DimValue = nil
	}
}
