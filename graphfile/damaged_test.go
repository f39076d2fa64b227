package graphfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
)

// TestDamagedConstants checks that errors name a constant's file as the graph file does, if it is missing or damaged.
func TestDamagedConstants(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ file, key string }{{"w.npy", ""}, {"w.npz", "k"}, {"w.safetensors", "k"}} {
		for _, there := range []bool{false, true} {
			if there {
				if err := os.WriteFile(filepath.Join(dir, c.file), []byte("abc"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text := `{"version": 1, "inputs": [], "constants": [{"name": "w", "dtype": "float32", "shape": [2], "file": "` +
				c.file + `", "key": "` + c.key + `"}], "nodes": [], "outputs": ["w"]}`
			_, err := graphfile.Read(strings.NewReader(strings.ReplaceAll(text, `, "key": ""`, "")), kernels.Lookup,
				graphfile.Options{Name: "g.json", Dir: dir})
			if err == nil || !strings.Contains(err.Error(), `constant "w": `+c.file+": ") || strings.Contains(err.Error(), dir) {
				t.Errorf("%s, there: %v: %v", c.file, there, err)
			}
		}
	}
}
