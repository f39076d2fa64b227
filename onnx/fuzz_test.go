package onnx

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// FuzzParse reads files with arbitrary contents. The result is a graph or an error.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	for _, m := range []*pb.ModelProto{
		model(11, flattening("N")), model(11, flattening(4)), model(13, choice()), model(13, powers()),
		model(13, runningSum("T")), model(13, runningSum(3)),
		externalModel("w.bin", "0", "8"),
	} {
		data := pb.Marshal(m)
		f.Add(data)
	}
	// Small models of single operators mutate into others.
	paths, _ := filepath.Glob(filepath.Join(casesDir, "node", "*", "model.onnx"))
	for _, p := range paths {
		if data, err := os.ReadFile(p); err == nil && len(data) < 4096 {
			f.Add(data)
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data, dir)
		if err != nil {
			return
		}
		for _, o := range []Options{{}, {Dims: map[string]int{"N": 2}}} {
			g, err := m.Graph(o)
			if err == nil && g == nil {
				t.Fatal("there is neither a graph nor an error")
			}
			some, missing, wrong := m.GraphSome(o)
			if wrong != nil {
				continue
			}
			refused := some.InferAll()
			if left := some.WithoutRejected(refused); err == nil && len(missing)+len(refused) > 0 {
				t.Fatalf("what is converted as a whole loses something in parts: %v, %v", missing, refused)
			} else if err := graph.Verify(left, graph.Sorted); err != nil && !left.Dynamic() {
				t.Fatal(err)
			}
		}
	})
}
