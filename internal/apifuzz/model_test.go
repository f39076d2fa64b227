package apifuzz

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx"
)

// modelBytes is an ONNX model of one node with a symbolic dimension.
func modelBytes() []byte {
	dim := func(v *pb.TensorShapeProto_Dimension) *pb.TensorShapeProto_Dimension { return v }
	shape := &pb.TensorShapeProto{Dim: []*pb.TensorShapeProto_Dimension{
		dim(&pb.TensorShapeProto_Dimension{Value: &pb.TensorShapeProto_Dimension_DimParam{DimParam: "N"}}),
		dim(&pb.TensorShapeProto_Dimension{Value: &pb.TensorShapeProto_Dimension_DimValue{DimValue: 3}}),
	}}
	info := func(name string) *pb.ValueInfoProto {
		return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{
			TensorType: &pb.TypeProto_Tensor{ElemType: 1, Shape: shape}}}}
	}
	data, err := proto.Marshal(&pb.ModelProto{IrVersion: 8, OpsetImport: []*pb.OperatorSetIdProto{{Version: 17}},
		Graph: &pb.GraphProto{Name: "g", Input: []*pb.ValueInfoProto{info("x")}, Output: []*pb.ValueInfoProto{info("y")},
			Node: []*pb.NodeProto{{OpType: "Relu", Input: []string{"x"}, Output: []string{"y"}}}}})
	if err != nil {
		panic(err)
	}
	return data
}

func model() *onnx.Model {
	m, err := onnx.Parse(modelBytes(), "")
	if err != nil {
		panic(err)
	}
	return m
}
