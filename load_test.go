package graphrun_test

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/tensor"
)

//go:embed examples/models
var models embed.FS

// constants returns the data of a graph's constants in logical order, by name.
func constants(g *graph.Graph) map[string][]byte {
	data := map[string][]byte{}
	for _, v := range g.Constants {
		data[v.Name] = v.Data().CopyTo(tensor.New(v.Meta.DType, v.Meta.Shape...)).Storage().Bytes()
	}
	return data
}

// Embedded graph files and their constants are those on disk.
func TestLoadEmbedded(t *testing.T) {
	names, err := fs.Glob(models, "examples/models/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	withFiles := 0
	for _, name := range names {
		want, err := graphrun.Load(ctx, filepath.FromSlash(name))
		require.NoError(t, err)
		got, err := graphrun.Loader{FS: models}.Load(ctx, name)
		require.NoError(t, err)
		assert.Equal(t, constants(want), constants(got), name)
		text, err := models.ReadFile(name)
		require.NoError(t, err)
		if strings.Contains(string(text), `"file"`) {
			withFiles++
		}
		read, err := graphrun.Loader{FS: models}.Read(ctx, iotest.OneByteReader(bytes.NewReader(text)), name)
		require.NoError(t, err)
		assert.Equal(t, constants(want), constants(read), name)
	}
	assert.NotZero(t, withFiles)
}

// sequential is a file system whose files can be read only from front to back.
type sequential struct{ fs.FS }

func (s sequential) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return struct{ fs.File }{f}, nil
}

// identity is a model with y = x + w, where w is in a file of its folder.
func identity(t *testing.T, location string) []byte {
	t.Helper()
	value := func(name string) *pb.ValueInfoProto {
		dim := &pb.Dimension{DimValue: new(int64(2))}
		return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{
			TensorType: &pb.TensorType{ElemType: int32(pb.Float),
				Shape: &pb.TensorShapeProto{Dim: []*pb.Dimension{dim}}}}}
	}
	w := &pb.TensorProto{Name: "w", DataType: int32(pb.Float), Dims: []int64{2},
		DataLocation: pb.External,
		ExternalData: []*pb.StringStringEntryProto{{Key: "location", Value: location}}}
	data := pb.Marshal(&pb.ModelProto{IrVersion: 8, OpsetImport: []*pb.OperatorSetIDProto{{Version: 17}},
		Graph: &pb.GraphProto{Name: "identity", Initializer: []*pb.TensorProto{w},
			Node:  []*pb.NodeProto{{OpType: "Add", Input: []string{"x", "w"}, Output: []string{"y"}}},
			Input: []*pb.ValueInfoProto{value("x")}, Output: []*pb.ValueInfoProto{value("y")}}})
	return data
}

// withConstant is a graph file with y = x + w, where w is in a file.
func withConstant(file, key string) []byte {
	return []byte(`{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
 "constants": [{"name": "w", "dtype": "float32", "shape": [2], "file": "` + file + `", "key": "` + key + `"}],
 "nodes": [{"name": "y", "op": "add", "inputs": ["x", "w"]}], "outputs": ["y"]}`)
}

// weightFS is a file system with a weight [1, 2] in each format, and files that use them.
func weightFS(t *testing.T) fstest.MapFS {
	t.Helper()
	w := tensor.Must(tensor.FromSlice([]float32{1, 2}, 2))
	var npy, archive, tensors bytes.Buffer
	require.NoError(t, npz.WriteNPY(&npy, w))
	require.NoError(t, npz.WriteNPZ(&archive, []npz.Entry{{Name: "w", Tensor: w}}))
	require.NoError(t, safetensors.Write(&tensors, []safetensors.Entry{{Name: "w", Tensor: w}}, nil))
	files := fstest.MapFS{}
	for name, data := range map[string][]byte{
		"nets/w.bin": w.Storage().Bytes(), "w.bin": w.Storage().Bytes(), "w.npy": npy.Bytes(),
		"nets/w.npy": npy.Bytes(), "nets/sub/w.npz": archive.Bytes(), "nets/w.safetensors": tensors.Bytes(),
		"nets/a.onnx": identity(t, "w.bin"), "nets/b.json": withConstant("w.npy", ""),
		"nets/c.json": withConstant("sub/w.npz", "w"), "nets/d.json": withConstant("w.safetensors", "w"),
		"nets/model": identity(t, "./w.bin"), "nets/graph": withConstant("sub/../w.npy", ""),
		"root.onnx": identity(t, "w.bin"),
	} {
		files[name] = &fstest.MapFile{Data: data, Mode: 0o444}
	}
	return files
}

// Graph files and models find their data in the file system, whether its files have random access or not. A file
// without an extension is recognized by its contents.
func TestLoadFS(t *testing.T) {
	files := weightFS(t)
	in := map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{10, 20}, 2))}
	for _, fsys := range []fs.FS{files, sequential{files}, os.DirFS(onDisk(t, files))} {
		l := graphrun.Loader{FS: fsys}
		for _, name := range []string{"nets/a.onnx", "nets/b.json", "nets/c.json", "nets/d.json", "nets/model", "nets/graph",
			"root.onnx"} {
			g, err := l.Load(ctx, name)
			require.NoError(t, err, name)
			out, err := graphrun.Run(ctx, g, in)
			require.NoError(t, err, name)
			assert.Equal(t, []float64{11, 22}, []float64{out["y"].At(0).Float(), out["y"].At(1).Float()}, name)
			g, err = l.Read(ctx, struct{ io.Reader }{bytes.NewReader(files[name].Data)}, name)
			require.NoError(t, err, name)
			assert.Len(t, g.Inputs, 1)
		}
	}
}

// onDisk writes files to a folder and returns its path.
func onDisk(t *testing.T, files fstest.MapFS) string {
	t.Helper()
	dir := t.TempDir()
	for name, f := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		require.NoError(t, os.WriteFile(at, f.Data, 0o600))
	}
	return dir
}

// recording lists the names that are opened.
type recording struct {
	fs.FS
	opened *[]string
}

func (r recording) Open(name string) (fs.File, error) {
	*r.opened = append(*r.opened, name)
	return r.FS.Open(name)
}

// Nothing outside of the file's folder is opened, in the file system or on disk.
func TestLoadFSConfined(t *testing.T) {
	files := weightFS(t)
	t.Chdir(onDisk(t, files)) // with a w.npy, a w.bin and nets beside them
	for location, want := range map[string]string{
		"../w.npy":         "is outside the folder of",
		"sub/../../w.npy":  "is outside the folder of",
		"/etc/passwd":      "is outside the folder of",
		"none.npy":         "none.npy: there is no such file",
		"sub":              "", // a folder, or a file of no known format
		"sub/w.npz/w.npy":  "sub/w.npz/w.npy: there is no such file",
		"w.npy\x00/../w.x": "",
	} {
		for name, data := range map[string][]byte{"nets/a.onnx": identity(t, location),
			"nets/b.json": withConstant(strings.ReplaceAll(location, "\x00", `\u0000`), "")} {
			files[name] = &fstest.MapFile{Data: data, Mode: 0o444}
			var opened []string
			_, err := graphrun.Loader{FS: recording{files, &opened}}.Load(ctx, name)
			require.ErrorContains(t, err, want, "%s with %q", name, location)
			assert.True(t, strings.HasPrefix(err.Error(), name), "%v", err)
			for _, o := range opened {
				assert.True(t, fs.ValidPath(o) && path.Dir(o) != ".", "%s with %q opens %q", name, location, o)
			}
			_, err = graphrun.Loader{}.Read(ctx, bytes.NewReader(data), name)
			assert.ErrorContains(t, err, "was loaded without a folder of files")
		}
	}
	for _, name := range []string{"/nets/b.json", "../nets/b.json", "./nets/b.json", "", ".", "nets", "nets/none.json"} {
		_, err := graphrun.Loader{FS: files}.Load(ctx, name)
		assert.Error(t, err, name)
		_, err = graphrun.Loader{FS: files}.Open(ctx, name)
		assert.Error(t, err, name)
	}
	_, err := graphrun.Loader{FS: files}.Load(ctx, "nets/none.json")
	assert.EqualError(t, err, "nets/none.json: there is no such file")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// A file that ends early, or whose reader fails, is an error that names it. Bytes are read in place from where the
// reader stands.
func TestReadTruncated(t *testing.T) {
	files := weightFS(t)
	broken := errors.New("the line is broken")
	for _, name := range []string{"nets/a.onnx", "nets/b.json"} {
		data := files[name].Data
		for n := range len(data) {
			_, err := graphrun.Loader{FS: files}.Read(ctx, bytes.NewReader(data[:n]), name)
			if err == nil { // a model has optional fields at its end
				require.True(t, strings.HasSuffix(name, ".onnx") && n > len(data)/2, "%s: %d of %d bytes", name, n, len(data))
				continue
			}
			require.True(t, strings.HasPrefix(err.Error(), name+":"), "%v", err)
		}
		_, err := graphrun.Loader{FS: files}.Read(ctx, io.MultiReader(bytes.NewReader(data[:9]), iotest.ErrReader(broken)), name)
		assert.ErrorIs(t, err, broken)
		assert.ErrorContains(t, err, name+": ")

		r := bytes.NewReader(append([]byte("skipped"), data...))
		_, err = r.Seek(7, io.SeekStart)
		require.NoError(t, err)
		_, err = graphrun.Loader{FS: files}.Read(ctx, r, name)
		assert.NoError(t, err)
	}
	for _, name := range []string{"nets/w.bin", "nets/w.npy", "nets/sub/w.npz", "nets/w.safetensors"} {
		data := files[name].Data
		files[name] = &fstest.MapFile{Data: data[:len(data)-1], Mode: 0o444}
	}
	for _, name := range []string{"nets/a.onnx", "nets/b.json", "nets/c.json", "nets/d.json"} {
		_, err := graphrun.Loader{FS: files}.Load(ctx, name)
		assert.ErrorContains(t, err, name)
	}
}

func TestReadRefuses(t *testing.T) {
	_, err := graphrun.Loader{}.Read(ctx, nil, "x.json")
	assert.EqualError(t, err, "x.json: the reader is nil")
	ended, cancel := context.WithCancelCause(ctx)
	why := errors.New("enough")
	cancel(why)
	_, err = graphrun.Loader{}.Read(ended, struct{ io.Reader }{strings.NewReader("{}")}, "x.json")
	assert.ErrorIs(t, err, why)
	assert.ErrorContains(t, err, "x.json: ")
	_, err = graphrun.Loader{FS: models}.Load(ended, "examples/models/residual.json")
	assert.ErrorIs(t, err, why)
	var none context.Context
	_, err = graphrun.Loader{}.Read(none, strings.NewReader("{}"), "x.json")
	assert.ErrorContains(t, err, "the context is nil")
}

// A graph from a file system is saved with its constants: their files are not beside the new file.
func TestSaveFromFS(t *testing.T) {
	files := weightFS(t)
	dir := onDisk(t, files)
	t.Chdir(filepath.Join(dir, "nets")) // the same names are on disk
	g, err := graphrun.Loader{FS: fstest.MapFS{"b.json": files["nets/b.json"], "w.npy": files["nets/w.npy"]}}.
		Load(ctx, "b.json")
	require.NoError(t, err)
	require.NoError(t, graphfile.SaveFile("saved.json", g))
	text, err := os.ReadFile("saved.json")
	require.NoError(t, err)
	assert.Contains(t, string(text), `"data": [1`)
	assert.NotContains(t, string(text), "w.npy")
}
