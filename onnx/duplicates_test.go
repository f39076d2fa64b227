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

// A large weight that is the transpose of another, or equal to it, is a view. A weight with one other element is not.
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
	g := &pb.GraphProto{Name: "g", Initializer: []*pb.TensorProto{weight("table", table, rows, cols),
		weight("transposed", transposed, cols, rows), weight("equal", table, rows, cols), weight("other", other, cols, rows)}}
	for _, w := range g.Initializer {
		out := "out." + w.Name
		g.Node = append(g.Node, &pb.NodeProto{OpType: "Identity", Input: []string{w.Name}, Output: []string{out}})
		g.Output = append(g.Output, &pb.ValueInfoProto{Name: out})
	}
	file := filepath.Join(t.TempDir(), "model.onnx")
	require.NoError(t, os.WriteFile(file, pb.Marshal(&pb.ModelProto{IrVersion: 8, Graph: g,
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 17}}}), 0o600))
	imported, err := onnx.Load(file, onnx.Options{})
	require.NoError(t, err)
	first := imported.Value("table").Const
	for name, isView := range map[string]bool{"transposed": true, "equal": true, "other": false} {
		v := imported.Value(name)
		assert.Equal(t, isView, v.Const.Storage() == first.Storage(), name)
		want := map[string][]byte{"transposed": transposed, "equal": table, "other": other}[name]
		assert.Equal(t, want, v.Const.Contiguous().Storage().Bytes(), name)
	}
}
