// Package house_test holds the repository to its own rules: how long files and functions
// may be, what files may be called, and that nothing is left for later.
package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	vague     = []string{"utils", "util", "common", "helpers", "helper", "types", "misc"}
)

// TestSizes checks Go files written by hand.
func TestSizes(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		base := strings.TrimSuffix(d.Name(), filepath.Ext(d.Name()))
		if slices.Contains(vague, strings.TrimSuffix(base, "_test")) {
			t.Errorf("%s: the name does not say what is there", path)
		}
		if !d.IsDir() && filepath.Ext(path) == ".go" {
			checkFile(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, path string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
	if err != nil {
		t.Error(err)
		return
	}
	for _, group := range file.Comments {
		if generated.MatchString(group.List[0].Text) {
			return
		}
		for _, c := range group.List {
			if regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`).MatchString(c.Text) {
				t.Errorf("%s: finish it, or say what is so: %s", fset.Position(c.Pos()), c.Text)
			}
		}
	}
	if n := fset.File(file.Pos()).LineCount(); n > 500 {
		t.Errorf("%s has %d lines, the limit is 500", path, n)
	}
	if strings.HasSuffix(path, "_test.go") {
		return
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; n >= 60 {
			t.Errorf("%s: %s has %d lines, the limit is 59", fset.Position(f.Pos()), f.Name.Name, n)
		}
	}
}
