package onnx_test

import (
	"fmt"
	"log"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx"
)

// file returns the bytes of an .onnx file with one node: y = Scale(x), an operator of the domain com.example with an
// attribute factor.
func file() []byte {
	const float = int32(pb.Float)
	shaped := &pb.TensorType{ElemType: float, Shape: &pb.TensorShapeProto{Dim: []*pb.Dimension{
		{DimParam: "N"},
		{DimValue: new(int64(3))}}}}
	x := &pb.TypeProto{TensorType: shaped}
	data := pb.Marshal(&pb.ModelProto{IrVersion: 8,
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 17}, {Domain: "com.example", Version: 1}},
		Graph: &pb.GraphProto{Name: "scaled",
			Node: []*pb.NodeProto{{OpType: "Scale", Domain: "com.example", Input: []string{"x"}, Output: []string{"y"},
				Attribute: []*pb.AttributeProto{{Name: "factor", Type: pb.AttributeFloat, F: 0.5}}}},
			Input:  []*pb.ValueInfoProto{{Name: "x", Type: x}},
			Output: []*pb.ValueInfoProto{{Name: "y"}}}})
	return data
}

// A model becomes a graph, and its symbols stay symbols. A converter imports a custom operator as ops of the catalogue.
func Example() {
	m, err := onnx.Parse(file(), "")
	if err != nil {
		log.Fatal(err)
	}
	_, err = m.Graph(onnx.Options{})
	fmt.Println("refused:", err != nil)
	scale := func(n onnx.Node) ([]onnx.Value, error) {
		factor, err := n.Float("factor", 1)
		if err != nil {
			return nil, err
		}
		return n.Apply("mul", nil, n.Inputs()[0], factor)
	}
	g, err := m.Graph(onnx.Options{Operators: onnx.Operators{"com.example": {"Scale": scale}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Inputs[0].Dims, g.Nodes[0].Op.Name)
	if err := g.Bind(map[string]int{"N": 2}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Value("y").Meta)
	// Output:
	// refused: true
	// [N 3] mul
	// float32[2,3]@(3,1)
}
