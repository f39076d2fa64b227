package house_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// public reports whether people outside import the package in a folder, by its path from the root.
func public(dir string) bool {
	parts := strings.Split(dir, "/")
	return !slices.Contains([]string{"cmd", "examples", "scripts"}, parts[0]) && !slices.Contains(parts, "internal")
}

// TestExamples holds that every public package shows what it is for by an example whose output is checked.
func TestExamples(t *testing.T) {
	tests, packages := map[string][]*ast.File{}, map[string]bool{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil || !public(filepath.ToSlash(dir)) {
			return err
		}
		if !strings.HasSuffix(path, "_test.go") {
			packages[dir] = true
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		tests[dir] = append(tests[dir], f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 15 {
		t.Errorf("only %d public packages were found", len(packages))
	}
	for dir := range packages {
		if !slices.ContainsFunc(doc.Examples(tests[dir]...), func(e *doc.Example) bool { return e.Output != "" }) {
			t.Errorf("package %s has no example whose output is checked", dir)
		}
	}
}
