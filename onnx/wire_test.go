package onnx

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
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

// TestWire reads all models field by field, and compares them with messages decoded as a whole.
func TestWire(t *testing.T) {
	weights := 0
	for _, v := range vectors(t) {
		var want pb.ModelProto
		require.NoError(t, pb.Unmarshal(v.model, &want), v.name)
		m, raw, err := readModel(context.Background(), bytes.NewReader(v.model), len(v.model), nil)
		require.NoError(t, err, v.name)
		assert.True(t, bytes.Equal(pb.Marshal(&want), pb.Marshal(withData(m, raw))), v.name)
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

// TestFileChanges changes files after and while they are read.
func TestFileChanges(t *testing.T) {
	w := &pb.TensorProto{Name: "w", DataType: int32(tFloat), Dims: []int64{1 << 16}, RawData: make([]byte, 4<<16)}
	w.RawData[3] = 0x40 // 2
	m := model(13, &pb.GraphProto{Name: "g", Initializer: []*pb.TensorProto{w},
		Input: infos(info("x", tFloat, 1<<16)), Output: infos(info("y", tFloat)),
		Node: []*pb.NodeProto{{OpType: "Add", Input: []string{"x", "w"}, Output: []string{"y"}}}})
	data := pb.Marshal(m)
	dir := t.TempDir()
	inside := filepath.Join(dir, "inside.onnx")
	require.NoError(t, os.WriteFile(inside, data, 0o600))
	outside := filepath.Join(dir, "outside.onnx")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "w.bin"), w.RawData, 0o600))
	w.RawData, w.DataLocation = nil, pb.External
	w.ExternalData = []*pb.StringStringEntryProto{{Key: "location", Value: "w.bin"}}
	other := pb.Marshal(m)
	require.NoError(t, os.WriteFile(outside, other, 0o600))
	for path, holds := range map[string]string{inside: inside, outside: filepath.Join(dir, "w.bin")} {
		g, err := Load(path, Options{})
		require.NoError(t, err)
		require.NoError(t, os.Truncate(holds, 0))
		values, err := tensor.ToSlice[float32](g.Value("w").Const)
		require.NoError(t, err)
		assert.Equal(t, []float32{2, 0}, values[:2])
	}
	_, _, err := readModel(context.Background(), bytes.NewReader(data[:len(data)-100]), len(data), nil)
	assert.ErrorContains(t, err, "was truncated")
	_, err = Load(inside, Options{})
	assert.ErrorContains(t, err, "not an ONNX model")
}

// TestOpenPipe reads a model from a pipe.
func TestOpenPipe(t *testing.T) {
	data := pb.Marshal(model(11, flattening(4)))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	go func() {
		defer w.Close()
		_, _ = io.Copy(w, bytes.NewReader(data))
	}()
	if _, err := os.Stat("/dev/fd"); err != nil {
		t.Skip("no file stands for what is open")
	}
	m, err := Open("/dev/fd/" + strconv.Itoa(int(r.Fd())))
	require.NoError(t, err)
	assert.NotNil(t, m.proto.Graph)
}
