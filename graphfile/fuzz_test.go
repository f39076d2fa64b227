package graphfile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/dot"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/tensor"
)

// FuzzLoad demands that no file makes the loader panic or hang, that every mistake has a place, and that a
// loaded graph is valid and survives writing and reading.
func FuzzLoad(f *testing.F) {
	f.Add(contract)
	f.Add(contractSaved)
	f.Add(nested)
	f.Add(chain(3, true))
	for _, m := range mistakes {
		f.Add(m.text)
	}
	var b strings.Builder
	g := everything()
	if err := graphfile.Save(&b, g); err != nil {
		f.Fatal(err)
	}
	f.Add(b.String())
	f.Add(constant(`{"name": "k", "dtype": "complex64", "shape": [2], "strides": [3], "data": [[1, "NaN"], [3e2, -0.0]]}`))
	dir, _ := weights(f)
	open := func(path, key string) (tensor.Meta, graphfile.ReadConst, error) {
		if key == "" {
			return tensor.Meta{}, nil, errors.New("no key")
		}
		return graphfile.Held(tensor.Zeros(tensor.Float32, len(key)%3, 3))
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := graphfile.Read(strings.NewReader(text), lookup, graphfile.Options{Name: "g.json", Dir: dir, Open: open})
		checkSome(t, text, dir, open, err == nil)
		if err != nil {
			checkPlaces(t, err)
			return
		}
		if err := graph.Verify(g, graph.Sorted|graph.Typed); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		first := save(t, g)
		h, err := graphfile.Read(strings.NewReader(first), lookup, graphfile.Options{Name: "g.json", Dir: dir, Open: open})
		if err != nil {
			t.Fatalf("%v\n%s\nwas\n%s", err, first, text)
		}
		if again := save(t, h); again != first {
			t.Fatalf("got\n%s\nthen\n%s", first, again)
		}
		if _, err := dot.Marshal(g); err != nil {
			t.Fatal(err)
		}
	})
}

// checkSome demands that the graph of ParseSome is valid, and complete if the file has no mistakes.
func checkSome(t *testing.T, text, dir string, open graphfile.OpenConst, right bool) {
	t.Helper()
	g, missing, err := graphfile.ParseSome(strings.NewReader(text), lookup,
		graphfile.Options{Name: "g.json", Dir: dir, Open: open})
	if err == nil {
		err = g.BindWithoutInference(nil)
	}
	if err != nil {
		if right {
			t.Fatalf("%v\n%s", err, text)
		}
		return
	}
	refused := g.InferAll()
	rest := g.WithoutRejected(refused)
	if err := graph.Verify(rest, graph.Sorted|graph.Typed); err != nil && !rest.Dynamic() {
		t.Fatalf("%v\n%s", err, text)
	}
	if right != (len(missing)+len(refused) == 0) {
		t.Fatalf("the file is right: %v, but there are %v and %v\n%s", right, missing, refused, text)
	}
}
