package serve

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/internal/onnxpb"
)

// TestInputsWithDefaults sends requests that override the default [1, 2] of w in y = x + w, and requests that do not.
func TestInputsWithDefaults(t *testing.T) {
	info := func(name string, dims ...*onnxpb.Dimension) *onnxpb.ValueInfoProto {
		of := &onnxpb.TensorType{ElemType: int32(onnxpb.Float), Shape: &onnxpb.TensorShapeProto{Dim: dims}}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{TensorType: of}}
	}
	two := &onnxpb.Dimension{DimValue: new(int64(2))}
	model := writeModel(t, t.TempDir()+"/m.onnx", string(onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 3,
		OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: 13}}, Graph: &onnxpb.GraphProto{
			Node: []*onnxpb.NodeProto{{OpType: "Add", Input: []string{"x", "w"}, Output: []string{"y"}}},
			Initializer: []*onnxpb.TensorProto{{Name: "w", DataType: int32(onnxpb.Float), Dims: []int64{2},
				FloatData: []float32{1, 2}}},
			Input:  []*onnxpb.ValueInfoProto{info("x", &onnxpb.Dimension{DimParam: "N"}, two), info("w", two)},
			Output: []*onnxpb.ValueInfoProto{info("y")}}})))
	s := open(t, Options{}, model)
	const x = `{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [10, 20]}`
	for body, want := range map[string]string{
		`{"inputs": [` + x + `]}`: `"data":[11,22]`,
		`{"inputs": [` + x + `, {"name": "w", "shape": [2], "datatype": "FP32", "data": [5, 6]}]}`: `"data":[15,26]`,
		`{"inputs": [{"name": "w", "shape": [2], "datatype": "FP32", "data": [5, 6]}]}`:            `input \"x\" is missing`,
	} {
		assert.Contains(t, call(s, "POST", "/v2/models/m/infer", body).Body.String(), want, body)
	}
	assert.Contains(t, call(s, "GET", "/v2/models/m", "").Body.String(),
		`"inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]}]`)
}
