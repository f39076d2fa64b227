package onnx

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
)

// leastConverted is the minimum number of test vectors that must be saved and loaded again.
const leastConverted = 95

// TestVectorsAsGraphFiles converts networks and control flow, and saves, loads and runs the graphs. Branches and bodies
// whose shapes depend on data must survive.
func TestVectorsAsGraphFiles(t *testing.T) {
	dir := t.TempDir()
	done := 0
	for _, v := range vectors(t) {
		family, _, _ := strings.Cut(v.name, "/")
		if family != "control" && family != "sequences" && family != "texts" && family != "sounds" && family != "sizes" {
			continue
		}
		m, err := Parse(v.model, "")
		require.NoError(t, err, v.name)
		shapes := map[string][]int{}
		for name, x := range v.in {
			shapes[name] = x.Shape
		}
		o := Options{Shapes: shapes}
		if family == "sizes" {
			o = Options{} // the sizes stay symbolic in the file
		}
		g, err := m.Graph(o)
		require.NoError(t, err, v.name)
		path := filepath.Join(dir, "graph.json")
		require.NoError(t, graphfile.SaveFile(path, g), v.name)
		reloaded, err := graphfile.Load(path, kernels.Lookup)
		if err == nil {
			err = v.checkBound(reloaded)
		}
		if err != nil {
			t.Errorf("%s: %v", v.name, err)
			continue
		}
		done++
	}
	require.GreaterOrEqual(t, done, leastConverted)
}
