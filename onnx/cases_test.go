package onnx

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

const casesDir = "../../shared/onnx-tests/cases"

// knownFailures are cases that do not pass, with the reason.
var knownFailures = map[string]string{
	"node/test_castlike_BFLOAT16_to_FLOAT_expanded": "its input contradicts the shape that the model declares",
}

// TestCases runs the packed cases of the ONNX project if they are present.
func TestCases(t *testing.T) {
	if _, err := os.Stat(casesDir); err != nil {
		t.Skip("the ONNX project's cases are not in ../shared; TestVectors runs the project's own vectors")
	}
	passed, total := map[string]int{}, map[string]int{}
	err := filepath.WalkDir(casesDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "model.onnx" {
			return err
		}
		name, _ := filepath.Rel(casesDir, filepath.Dir(path))
		name = filepath.ToSlash(name)
		kind, _, _ := strings.Cut(name, "/")
		if kind == "light" && !testsize.All() {
			return nil
		}
		total[kind]++
		err = runCase(filepath.Dir(path))
		switch {
		case err == nil:
			passed[kind]++
		case knownFailures[name] == "":
			t.Errorf("%s: %v", name, err)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, total, "nothing was compared")
	for kind, n := range total {
		t.Logf("%s: %d/%d", kind, passed[kind], n)
	}
}

// runCase runs one case and compares its outputs.
func runCase(dir string) error {
	in, err := npz.ReadFile(filepath.Join(dir, "inputs.npz"))
	if err != nil {
		return err
	}
	want, err := npz.ReadFile(filepath.Join(dir, "outputs.npz"))
	if err != nil {
		return err
	}
	m, err := Open(context.Background(), filepath.Join(dir, "model.onnx"))
	if err != nil {
		return err
	}
	shapes := map[string][]int{}
	for name, x := range in {
		shapes[name] = x.Shape
	}
	g, err := m.Graph(Options{Shapes: shapes})
	if err != nil {
		return err
	}
	for _, v := range g.Inputs {
		if x := in[v.Name]; x != nil && x.DType == tensor.Uint16 && v.Meta.DType == tensor.BFloat16 {
			in[v.Name] = tensor.Must(x.View(x.Meta.WithDType(tensor.BFloat16)))
		}
	}
	got, err := execute(g, in)
	if err != nil {
		return err
	}
	for name, w := range want {
		if err := compare(got[name], w); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
	}
	return nil
}

// compare fails if numbers differ by more than 1e-5 + 1e-3 times the expected number.
func compare(got, want *tensor.Tensor) error {
	if got == nil {
		return fmt.Errorf("the result is missing")
	}
	if !slices.Equal(got.Shape, want.Shape) || got.DType != want.DType &&
		(got.DType != tensor.BFloat16 || want.DType != tensor.Uint16) {
		return fmt.Errorf("it is %v%v, want %v%v", got.DType, got.Shape, want.DType, want.Shape)
	}
	if got.DType == tensor.BFloat16 {
		got = tensor.Must(got.Contiguous().View(tensor.New(tensor.Uint16, got.Shape...)))
	}
	index := make([]int, len(want.Shape))
	for range want.Numel() {
		a, b := got.At(index...).Complex(), want.At(index...).Complex()
		if d := a - b; !near(real(d), real(a), real(b)) || !near(imag(d), imag(a), imag(b)) {
			return fmt.Errorf("at %v it is %v, want %v", index, a, b)
		}
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < want.Shape[i] {
				break
			}
			index[i] = 0
		}
	}
	return nil
}

// near is the condition of compare for numbers a and b, where d = a - b and b is expected.
func near(d, a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(d) <= 1e-5+1e-3*math.Abs(b)
}
