package conventions_test

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

const (
	maxFileLines     = 500
	maxFunctionLines = 59
	// maxFolderFiles limits the Go files of a folder, tests excluded. Families of ops, with a file for each op, are
	// exempt.
	maxFolderFiles = 40
)

var (
	generated     = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	unfinished    = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	vagueFilename = []string{"utils", "util", "common", "helpers", "helper", "types", "misc"}
)

// TestSizes limits the lines of handwritten Go files and of their functions, and rejects unfinished work and file names
// without a subject.
func TestSizes(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if skipped(d) {
			return filepath.SkipDir
		}
		base := strings.TrimSuffix(d.Name(), filepath.Ext(d.Name()))
		if slices.Contains(vagueFilename, strings.TrimSuffix(base, "_test")) {
			t.Errorf("%s: the name does not say the subject of the file", path)
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

// TestFolders checks that folders are small enough to be read as a list: a larger package should be split.
func TestFolders(t *testing.T) {
	files := map[string]int{}
	walkGo(t, "", func(path string) error {
		if !isTest(path) {
			folder, err := filepath.Rel(root, filepath.Dir(path))
			files[filepath.ToSlash(folder)]++
			return err
		}
		return nil
	})
	if len(files) < 20 {
		t.Fatalf("only %d folders were counted", len(files))
	}
	for folder, n := range files {
		if n > maxFolderFiles && !within(folder, "kernels/internal") {
			t.Errorf("%s has %d Go files, the limit is %d: split the package", folder, n, maxFolderFiles)
		}
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
			if unfinished.MatchString(c.Text) {
				t.Errorf("%s: finish the code, or describe its limits: %s", fset.Position(c.Pos()), c.Text)
			}
		}
	}
	if n := fset.File(file.Pos()).LineCount(); n > maxFileLines {
		t.Errorf("%s has %d lines, the limit is %d", path, n, maxFileLines)
	}
	if strings.HasSuffix(path, "_test.go") {
		return
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; n > maxFunctionLines {
			t.Errorf("%s: %s has %d lines, the limit is %d", fset.Position(f.Pos()), f.Name.Name, n, maxFunctionLines)
		}
	}
}
