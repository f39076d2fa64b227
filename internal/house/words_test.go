package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// vagueWords have a technical term or a noun that says more: is laid out, is loaded, is reported, is rejected, a pass
// over rows, a peephole, the number of elements.
var vagueWords = regexp.MustCompile(`\b(nobody|whoever|so many|lies?|told|brought|goes by|refuses?|refused|` +
	`refusing|sweeps?|idioms?|turned|fate|makes? up|made up)\b`)

// TestWords rejects vague words in comments.
func TestWords(t *testing.T) {
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			return nil
		}
		for _, group := range file.Comments {
			for _, c := range group.List {
				if word := vagueWords.FindString(c.Text); word != "" && !strings.HasPrefix(c.Text, "//go:") {
					t.Errorf("%s: %q is vague: name the thing: %s", fset.Position(c.Pos()), word, c.Text)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 300 {
		t.Errorf("only %d files were read", files)
	}
}
