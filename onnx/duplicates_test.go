package onnx_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx"
)

// A large weight that is equal to another is a view of it; so is the transpose of another, if only products read it. A
// weight with one other element is not.
func TestDuplicateWeightsAreViews(t *testing.T) {
	const rows, cols = 300, 400
	table, transposed := make([]byte, 2*rows*cols), make([]byte, 2*rows*cols)
	for i := range rows {
		for j := range cols {
			x, y := (i*cols+j)*2, (j*rows+i)*2
			table[x], table[x+1] = byte(i*j), byte(i+j)
			copy(transposed[y:y+2], table[x:])
		}
	}
	other := append([]byte(nil), transposed...)
	other[len(other)-4]++
	weight := func(name string, data []byte, dims ...int64) *pb.TensorProto {
		return &pb.TensorProto{Name: name, DataType: int32(pb.Float16), Dims: dims, RawData: data}
	}
	node := func(op, out string, in ...string) *pb.NodeProto {
		return &pb.NodeProto{OpType: op, Input: in, Output: []string{out}}
	}
	value := func(name string, dtype pb.DataType, dims ...int64) *pb.ValueInfoProto {
		shape := &pb.TensorShapeProto{}
		for _, size := range dims {
			shape.Dim = append(shape.Dim, &pb.Dimension{DimValue: new(size)})
		}
		return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{TensorType: &pb.TensorType{ElemType: int32(dtype),
			Shape: shape}}}
	}
	tableWeight, transposedWeight := weight("table", table, rows, cols), weight("transposed", transposed, cols, rows)
	multiplied, added := node("MatMul", "y", "x", "transposed"), node("Add", "y", "transposed", "transposed")
	for name, c := range map[string]struct {
		weights []*pb.TensorProto
		reader  *pb.NodeProto
		isView  bool // the transposed weight, not the table
	}{
		"multiplied":                  {[]*pb.TensorProto{tableWeight, transposedWeight}, multiplied, true},
		"multiplied, and comes first": {[]*pb.TensorProto{transposedWeight, tableWeight}, multiplied, true},
		"added":                       {[]*pb.TensorProto{tableWeight, transposedWeight}, added, false},
	} {
		g := &pb.GraphProto{Name: "g", Initializer: append(c.weights, weight("equal", table, rows, cols),
			weight("other", other, cols, rows)), Node: []*pb.NodeProto{node("Gather", "rows", "table", "ids"), c.reader,
			node("Identity", "out.equal", "equal"), node("Identity", "out.other", "other")},
			Input: []*pb.ValueInfoProto{value("ids", pb.Int64, 2), value("x", pb.Float16, 2, cols)}}
		for _, out := range []string{"rows", "y", "out.equal", "out.other"} {
			g.Output = append(g.Output, &pb.ValueInfoProto{Name: out})
		}
		file := filepath.Join(t.TempDir(), "model.onnx")
		require.NoError(t, os.WriteFile(file, pb.Marshal(&pb.ModelProto{IrVersion: 8, Graph: g,
			OpsetImport: []*pb.OperatorSetIDProto{{Version: 17}}}), 0o600))
		imported, err := onnx.Load(file, onnx.Options{})
		require.NoError(t, err, name)
		first := imported.Value("table").Const
		assert.True(t, first.IsContiguous(), name)
		for weight, isView := range map[string]bool{"transposed": c.isView, "equal": true, "other": false} {
			v := imported.Value(weight)
			assert.Equal(t, isView, v.Const.Storage() == first.Storage(), "%s: %s", name, weight)
			assert.Equal(t, isView && weight == "transposed", !v.Const.IsContiguous(), "%s: %s", name, weight)
			want := map[string][]byte{"transposed": transposed, "equal": table, "other": other}[weight]
			assert.Equal(t, want, v.Const.Contiguous().Storage().Bytes(), "%s: %s", name, weight)
		}
	}
}
