package kernels_test

import (
	"archive/zip"
	"os"
	"path/filepath"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

// oracleFolders unpacks PyTorch's results of random calls from testdata/oracle, one folder per family, and adds the
// folders listed in $GRAPHRUN_ORACLE, which torch_oracle.py writes with any seed.
func oracleFolders(t *testing.T, families ...string) []string {
	t.Helper()
	var dirs []string
	for _, family := range families {
		z, err := zip.OpenReader(filepath.Join("testdata", "oracle", family+".zip"))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), family)
		if err := os.CopyFS(dir, z); err != nil {
			t.Fatal(err)
		}
		z.Close()
		dirs = append(dirs, dir)
	}
	return append(dirs, filepath.SplitList(os.Getenv("GRAPHRUN_ORACLE"))...)
}

// fromNumpy returns an array of an .npz file, which has bfloat16 values as uint16, as a tensor of dtype d.
func fromNumpy(t *tensor.Tensor, d tensor.DType) *tensor.Tensor {
	if d != tensor.BFloat16 || t.DType != tensor.Uint16 {
		return t
	}
	return tensor.Must(t.View(t.WithDType(d)))
}
