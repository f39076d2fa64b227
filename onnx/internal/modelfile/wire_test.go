package modelfile

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// withData returns the raw data of initializers to their messages.
func withData(m *pb.ModelProto, raw map[*pb.TensorProto]*tensor.Storage) *pb.ModelProto {
	for t, s := range raw {
		t.RawData = s.Bytes()
	}
	return m
}

// models returns the models of the conformance vectors.
func models(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/*.zip")
	require.NoError(t, err)
	all := map[string][]byte{}
	for _, path := range paths {
		archive, err := zip.OpenReader(path)
		require.NoError(t, err)
		for _, f := range archive.File {
			if filepath.Base(f.Name) != "model.onnx" {
				continue
			}
			r, err := f.Open()
			require.NoError(t, err)
			data, err := io.ReadAll(r)
			require.NoError(t, err)
			all[filepath.Base(path)+"/"+f.Name] = data
		}
		require.NoError(t, archive.Close())
	}
	return all
}

// TestWire reads all models field by field, and compares them with messages decoded as a whole.
func TestWire(t *testing.T) {
	weights := 0
	for name, data := range models(t) {
		var want pb.ModelProto
		require.NoError(t, pb.Unmarshal(data, &want), name)
		m, raw, err := readModel(context.Background(), bytes.NewReader(data), len(data), nil)
		require.NoError(t, err, name)
		assert.True(t, bytes.Equal(pb.Marshal(&want), pb.Marshal(withData(m, raw))), name)
		weights += len(raw)
	}
	assert.Greater(t, weights, 100)
}

// appended appends a field of bytes.
func appended(b []byte, n protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), value)
}

// TestWireUnusual reads encodings that protobuf accepts but no exporter writes, and encodings that it rejects.
func TestWireUnusual(t *testing.T) {
	tensorOf := func(name string, data ...byte) []byte {
		return pb.Marshal(&pb.TensorProto{Name: name, DataType: int32(pb.Uint8),
			Dims: []int64{int64(len(data))}, RawData: data})
	}
	group := protowire.AppendTag(protowire.AppendTag(nil, 99, protowire.StartGroupType), 99, protowire.EndGroupType)
	weight := tensorOf("w", 1, 2, 3)
	first := appended(pb.Marshal(&pb.GraphProto{Name: "first"}), graphInitializer, weight)
	second := appended(pb.Marshal(&pb.GraphProto{Name: "second"}), graphInitializer, tensorOf("v", 4))
	twice := appended(weight, tensorRawData, []byte{9})
	long := bytes.Repeat([]byte{7}, 3*readAhead+1)
	for name, c := range map[string]struct {
		data []byte
		raw  int
	}{
		"nothing":           {nil, 0},
		"two graphs":        {appended(appended(nil, modelGraph, first), modelGraph, second), 2},
		"data twice":        {appended(nil, modelGraph, appended(nil, graphInitializer, twice)), 1},
		"no data":           {appended(nil, modelGraph, appended(nil, graphInitializer, tensorOf("w"))), 0},
		"long text":         {appended(appended(nil, 2, long), modelGraph, first), 1},
		"long weight":       {appended(nil, modelGraph, appended(nil, graphInitializer, tensorOf("w", long...))), 1},
		"unknown field":     {appended(appended(nil, 98, []byte("?")), modelGraph, first), 1},
		"a group":           {append(appended(nil, modelGraph, first), group...), 0},
		"a group in weight": {appended(nil, modelGraph, appended(nil, graphInitializer, append(weight, group...))), 0},
	} {
		var want pb.ModelProto
		require.NoError(t, pb.Unmarshal(c.data, &want), name)
		m, raw, err := readModel(context.Background(), bytes.NewReader(c.data), len(c.data), nil)
		require.NoError(t, err, name)
		assert.Len(t, raw, c.raw, name)
		assert.True(t, bytes.Equal(pb.Marshal(&want), pb.Marshal(withData(m, raw))), name)
	}
	model := appended(nil, modelGraph, first)
	for n := 1; n < len(model); n++ {
		_, _, err := readModel(context.Background(), bytes.NewReader(model[:n]), n, nil)
		assert.ErrorContains(t, err, "truncated", n)
	}
	wrong := appended(nil, modelGraph, appended(nil, 2, []byte{0xff}))
	_, _, err := readModel(context.Background(), bytes.NewReader(wrong), 5, nil)
	assert.ErrorContains(t, err, "another format", "text that is no UTF-8")
}

// TestTruncatedFile reads a file that is shorter than its size was.
func TestTruncatedFile(t *testing.T) {
	data := appended(nil, modelGraph, appended(nil, graphInitializer, pb.Marshal(&pb.TensorProto{Name: "w",
		DataType: int32(pb.Uint8), Dims: []int64{1 << 16}, RawData: make([]byte, 1<<16)})))
	_, _, err := readModel(context.Background(), bytes.NewReader(data[:len(data)-100]), len(data), nil)
	assert.ErrorContains(t, err, "was truncated")
}
