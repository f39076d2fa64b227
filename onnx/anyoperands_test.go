package onnx

import (
	"testing"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// TestAnyOperands gives every operator up to seven operands of each rank. Most calls are mistakes: a converter must
// refuse them with a place, and must not index what is not there.
func TestAnyOperands(t *testing.T) {
	shapes := [][]int{{}, {2}, {1, 2}, {2, 0, 1}, {1, 2, 3, 3}}
	for domain, list := range domains {
		for name := range list {
			for count := range 8 {
				for k := range 4 * len(shapes) {
					shape := shapes[k/4]
					m := &fuzzModel{opset: []int64{28, 10}[k%2], outputs: names("y")}
					n := &pb.NodeProto{OpType: name, Domain: domain, Output: names("y")}
					for i := range count {
						dtype := []tensor.DType{tensor.Float32, tensor.Int64}[k/2%2]
						in := &fuzzInput{name: string(rune('a' + i)), data: tensor.Zeros(dtype, shape...), constant: k%3 == 0}
						m.inputs, n.Input = append(m.inputs, in), append(n.Input, in.name)
					}
					if domain != "" {
						m.others = map[string]int64{domain: 1}
					}
					if k%2 == 0 {
						n.Attribute = append(n.Attribute, attrInt("axis", 0))
					}
					m.nodes = []*pb.NodeProto{n}
					if _, err := m.load(fuzzForm{}); err != nil && unplaced(err) != "" {
						t.Errorf("%s of %d operands of shape %v: %s", name, count, shape, unplaced(err))
					}
				}
			}
		}
	}
}
