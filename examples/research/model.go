package main

import (
	"math"
	"os"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// domain is the ONNX domain of the operator ChannelNorm.
const domain = "com.example"

// export writes an ONNX file as an exporter would. The network downsamples a photo and applies a block of ConvNeXt,
// whose norm is a custom operator. Two heads follow, each with its own pooling of the same image.
func export(path string) error {
	const channels, wideChannels, classes = 16, 64, 10
	g := &pb.GraphProto{Name: "convnext_block",
		Input:  []*pb.ValueInfoProto{info("photo", 1, 3, 64, 64)},
		Output: []*pb.ValueInfoProto{info("class"), info("score")},
	}
	weight := func(name string, dims ...int64) string {
		g.Initializer = append(g.Initializer, wavesTensor(name, dims))
		return name
	}
	node := func(op, out string, attrs []*pb.AttributeProto, in ...string) {
		n := &pb.NodeProto{Name: out, OpType: op, Input: in, Output: []string{out}, Attribute: attrs}
		if op == "ChannelNorm" {
			n.Domain = domain
		}
		g.Node = append(g.Node, n)
	}
	node("AveragePool", "small", append(ints("kernel_shape", 4, 4), ints("strides", 4, 4)...), "photo")
	node("Conv", "stem", ints("pads", 1, 1, 1, 1), "small", weight("w0", channels, 3, 3, 3))
	node("Conv", "depthwise", append(ints("pads", 3, 3, 3, 3), group(channels)), "stem", weight("w1", channels, 1, 7, 7))
	epsilon := &pb.AttributeProto{Name: "epsilon", Type: pb.AttributeFloat, F: 1e-5}
	node("ChannelNorm", "norm", []*pb.AttributeProto{epsilon}, "depthwise")
	node("Conv", "widen", nil, "norm", weight("w2", wideChannels, channels, 1, 1))
	node("Relu", "act", nil, "widen")
	node("Conv", "narrow", nil, "act", weight("w3", channels, wideChannels, 1, 1))
	node("Add", "joined", nil, "narrow", "stem")
	for _, head := range []string{"class", "score"} {
		node("GlobalAveragePool", head+"_pool", nil, "joined")
		node("Flatten", head+"_flat", nil, head+"_pool")
		node("Gemm", head, nil, head+"_flat", weight("w_"+head, channels, classes))
	}
	data := pb.Marshal(&pb.ModelProto{IrVersion: 8, Graph: g,
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 17}, {Domain: domain, Version: 1}}})
	return os.WriteFile(path, data, 0o644)
}

// info declares an input or an output of float32.
func info(name string, dims ...int64) *pb.ValueInfoProto {
	t := &pb.TensorType{ElemType: int32(pb.Float)}
	if len(dims) > 0 {
		t.Shape = &pb.TensorShapeProto{}
	}
	for _, n := range dims {
		t.Shape.Dim = append(t.Shape.Dim, &pb.Dimension{DimValue: new(n)})
	}
	return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{TensorType: t}}
}

// ints returns a list with one attribute of integers.
func ints(name string, list ...int64) []*pb.AttributeProto {
	return []*pb.AttributeProto{{Name: name, Type: pb.AttributeInts, Ints: list}}
}

// group returns the attribute group of a convolution.
func group(n int64) *pb.AttributeProto {
	return &pb.AttributeProto{Name: "group", Type: pb.AttributeInt, I: n}
}

// wavesTensor returns a tensor of values in [-1, 1] in place of a trained weight.
func wavesTensor(name string, dims []int64) *pb.TensorProto {
	count := int64(1)
	for _, d := range dims {
		count *= d
	}
	t := &pb.TensorProto{Name: name, DataType: int32(pb.Float), Dims: dims}
	for i := range count {
		t.FloatData = append(t.FloatData, float32(math.Sin(float64(i+1)*float64(len(name)+7))))
	}
	return t
}
