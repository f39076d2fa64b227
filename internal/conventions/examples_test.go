package conventions_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// public reports whether other modules can import the package in a folder. The path is relative to the root.
func public(dir string) bool {
	parts := strings.Split(dir, "/")
	return !slices.Contains([]string{"examples", "scripts"}, parts[0]) && !slices.Contains(parts, "cmd") &&
		!slices.Contains(parts, "internal")
}

// TestExamples checks that every public package has an example with an expected output.
func TestExamples(t *testing.T) {
	tests, packages := map[string][]*ast.File{}, map[string]bool{}
	fset := token.NewFileSet()
	walkGo(t, "", func(path string) error {
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil || !public(filepath.ToSlash(dir)) {
			return err
		}
		if !isTest(path) {
			packages[dir] = true
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		tests[dir] = append(tests[dir], f)
		return err
	})
	if len(packages) < 15 {
		t.Errorf("only %d public packages were found", len(packages))
	}
	for dir := range packages {
		if !slices.ContainsFunc(doc.Examples(tests[dir]...), func(e *doc.Example) bool { return e.Output != "" }) {
			t.Errorf("package %s has no example with an expected output", dir)
		}
	}
}
