package tensor_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

// load reads vectors that testdata/gen.py made with PyTorch.
func load[T any](t *testing.T, name string) []T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var rows []T
	if err := json.Unmarshal(b, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Fatalf("%s holds no vectors", name)
	}
	return rows
}

func dtype(t *testing.T, name string) tensor.DType {
	t.Helper()
	d, err := tensor.ParseDType(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func raw(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
