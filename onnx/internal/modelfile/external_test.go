package modelfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/files"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// secret is the content of files outside the model's folder.
const secret = 0xee

// externalFolder makes a model's folder with files, a folder and links. Some links lead to a secret file outside it.
func externalFolder(t testing.TB) string {
	top := t.TempDir()
	dir := filepath.Join(top, "model")
	count := func(from, n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte((from + i) % secret)
		}
		return b
	}
	for name, data := range map[string][]byte{"w.bin": count(0, 300), "sub/v.bin": count(7, 40), "empty.bin": nil,
		"with space": count(3, 9), "..w": count(5, 16), "../out.bin": bytes.Repeat([]byte{secret}, 400)} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	for name, to := range map[string]string{"in.lnk": "sub/v.bin", "out.lnk": "../out.bin", "up": "..",
		"abs.lnk": filepath.Join(top, "out.bin"), "far.lnk": "up/out.bin", "loop": "loop", "back": "../model/w.bin"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	return dir
}

// fileIn returns a file without tensors in a folder.
func fileIn(dir string) *File {
	return &File{folder: files.FolderOf(nil, dir, "the model"), paths: map[string]string{},
		tensors: map[*pb.TensorProto]*tensor.Tensor{}}
}

// FuzzExternal reads external data by arbitrary entries. The result is an error, or the stated bytes of a file in the
// folder.
func FuzzExternal(f *testing.F) {
	for _, location := range []string{"w.bin", "sub/v.bin", "sub/../w.bin", "./w.bin", "in.lnk", "out.lnk", "up/out.bin",
		"abs.lnk", "far.lnk", "loop", "back", "../out.bin", "sub/../../out.bin", "sub", ".", "..", "", "empty.bin", "..w",
		"with space", "no.bin", "w.bin/x", "/etc/passwd", "w.bin\x00", "C:w.bin", `..\out.bin`, "/dev/zero"} {
		f.Add(location, "0", "4", int64(1), int32(pb.Float))
	}
	f.Add("w.bin", "0", "1", int64(1), int32(pb.Float8E4M3FNUZ))
	for _, of := range [][2]string{{"296", "4"}, {"297", "4"}, {"300", "0"}, {"301", "0"}, {"-1", "4"}, {"0", "-4"},
		{"9223372036854775807", "4"}, {"9223372036854775805", "4"}, {"9223372036854775808", "4"}, {"0x4", "4"},
		{"+4", "4"}, {" 4", "4"}, {"", ""}, {"4", ""}, {"1e1", "4"}} {
		for _, dim := range []int64{0, 1, -1, 1 << 40, 1 << 61, 1<<63 - 1} {
			f.Add("w.bin", of[0], of[1], dim, int32(pb.Float))
		}
	}
	dir := externalFolder(f)
	f.Fuzz(func(t *testing.T, location, offset, length string, dim int64, kind int32) {
		w := &pb.TensorProto{Name: "w", DataType: kind, Dims: []int64{dim}, DataLocation: pb.External,
			ExternalData: []*pb.StringStringEntryProto{{Key: "location", Value: location}}}
		for key, v := range map[string]string{"offset": offset, "length": length} {
			if v != "" { // else the entry is not there
				w.ExternalData = append(w.ExternalData, &pb.StringStringEntryProto{Key: key, Value: v})
			}
		}
		m := fileIn(dir)
		got, err := m.decode(w)
		if err != nil {
			return
		}
		at, _ := strconv.Atoi("0" + strings.TrimPrefix(offset, "+"))
		root, err := filepath.EvalSymlinks(dir)
		require.NoError(t, err)
		path, err := filepath.EvalSymlinks(filepath.Join(dir, location))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(path, root+string(filepath.Separator)), "%q is read from %s", location, path)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		raw := got.Storage().Bytes()
		require.NotContains(t, raw, byte(secret))
		require.Equal(t, got.Meta.Bytes(), len(raw))
		if IsNarrow(pb.DataType(kind)) { // converted to float16: see TestNarrowWeights of package onnx
			return
		}
		if want := data[at : at+len(raw)]; w.DataType == int32(pb.Bool) {
			for i, b := range want {
				require.Equal(t, b != 0, raw[i] == 1, "%q, %s", location, offset)
			}
		} else {
			require.True(t, bytes.Equal(want, raw), "%q, %s: %v, want %v", location, offset, raw, want)
		}
	})
}

// TestExternalDataOverlaps reads tensors that share bytes of a file, in any order.
func TestExternalDataOverlaps(t *testing.T) {
	m := fileIn(externalFolder(t))
	for _, c := range [][2]int{{100, 50}, {0, 300}, {120, 60}, {300, 0}, {299, 1}} {
		w := &pb.TensorProto{Name: "w", DataType: int32(pb.Uint8), Dims: []int64{int64(c[1])},
			DataLocation: pb.External, ExternalData: []*pb.StringStringEntryProto{
				{Key: "location", Value: "w.bin"}, {Key: "offset", Value: strconv.Itoa(c[0])}}}
		got, err := m.decode(w)
		require.NoError(t, err)
		for i := range c[1] {
			require.Equal(t, int64((c[0]+i)%secret), got.At(i).Int())
		}
		if c[1] > 0 {
			got.Storage().Bytes()[0] = 0xff // of this tensor alone
		}
	}
}
