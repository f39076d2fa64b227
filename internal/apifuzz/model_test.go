package apifuzz

import (
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx"
)

// modelBytes returns an ONNX model with one node and a symbolic dimension.
func modelBytes() []byte {
	dim := func(v *pb.Dimension) *pb.Dimension { return v }
	shape := &pb.TensorShapeProto{Dim: []*pb.Dimension{
		dim(&pb.Dimension{DimParam: "N"}),
		dim(&pb.Dimension{DimValue: new(int64(3))}),
	}}
	info := func(name string) *pb.ValueInfoProto {
		return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{
			TensorType: &pb.TensorType{ElemType: 1, Shape: shape}}}
	}
	data := pb.Marshal(&pb.ModelProto{IrVersion: 8, OpsetImport: []*pb.OperatorSetIDProto{{Version: 17}},
		Graph: &pb.GraphProto{Name: "g", Input: []*pb.ValueInfoProto{info("x")}, Output: []*pb.ValueInfoProto{info("y")},
			Node: []*pb.NodeProto{{OpType: "Relu", Input: []string{"x"}, Output: []string{"y"}}}}})
	return data
}

func model() *onnx.Model {
	m, err := onnx.Parse(modelBytes(), "")
	if err != nil {
		panic(err)
	}
	return m
}
