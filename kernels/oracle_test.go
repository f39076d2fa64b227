package kernels_test

import (
	"archive/zip"
	"os"
	"path/filepath"
	"testing"
)

// oracleFolders unpacks what testdata/oracle has of PyTorch's answers to random calls of each
// family, one folder a family, and adds the folders, written by torch_oracle.py with any seed,
// that $GRAPHRUN_ORACLE lists.
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
