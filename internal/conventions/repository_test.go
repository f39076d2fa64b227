// Package conventions_test checks what gofmt, vet and staticcheck do not: imports between packages, links of comments,
// names in documents, generated lists, and that passes do not name ops. It has no code besides tests.
package conventions_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	// module is the import path of the root package.
	module = "github.com/graphrun/graphrun"
	// root is the path of the root folder from the folder of this package.
	root = "../.."
)

// skipped reports whether a folder contains no source code of the module.
func skipped(d fs.DirEntry) bool { return d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") }

// walkGo calls visit with the path of each Go file in and below a folder, which is relative to root.
func walkGo(t *testing.T, folder string, visit func(path string) error) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case skipped(d):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		return visit(path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isTest reports whether a Go file contains tests.
func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

// listed is the output of go list for a package. Imports are its direct imports, Deps also the indirect ones.
// Export is the file of the compiled form.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles, Imports, Deps  []string
}

// goList runs go list with the given arguments and decodes its output.
func goList(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Imports,Deps"},
		args...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
