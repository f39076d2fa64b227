package graphfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/graphtest"
)

func lookup(name string) *graph.Op { return graphtest.Lookup(name) }

// load reads a graph from text; files are not supported.
func load(text string) (*graph.Graph, error) {
	return graphfile.Read(strings.NewReader(text), lookup, graphfile.Options{Name: "g.json", Dir: "."})
}

func mustLoad(t testing.TB, text string) *graph.Graph {
	t.Helper()
	g, err := load(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// chain is a graph file of n adds in a row; reversed puts the last node first.
func chain(n int, reversed bool) string {
	var b strings.Builder
	b.WriteString(`{"version": 1, "name": "chain", "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 4, 5]}], "nodes": [` + "\n")
	for k := range n {
		i := k
		if reversed {
			i = n - 1 - k
		}
		from := "x"
		if i > 0 {
			from = fmt.Sprintf("n%d", i-1)
		}
		if k > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"name": "n%d", "op": "add", "inputs": [%q, "x"], "attrs": {"alpha": 2}}`, i, from)
	}
	fmt.Fprintf(&b, `], "outputs": ["n%d"]}`, n-1)
	return b.String()
}

func ptr[T any](v T) *T { return &v }

// readFile reads a graph file on disk whose constants open finds.
func readFile(t testing.TB, path string, open graphfile.OpenConst) (*graph.Graph, error) {
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	return graphfile.Read(f, lookup, graphfile.Options{Name: path, Dir: filepath.Dir(path), Open: open})
}
