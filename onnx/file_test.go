package onnx

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

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
	_, err := Load(inside, Options{})
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
	m, err := Open(t.Context(), "/dev/fd/"+strconv.Itoa(int(r.Fd())))
	require.NoError(t, err)
	_, err = m.Graph(Options{})
	assert.NoError(t, err)
}
