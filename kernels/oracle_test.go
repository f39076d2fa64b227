package kernels_test

import (
	"archive/zip"
	"os"
	"path/filepath"
	"testing"
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
