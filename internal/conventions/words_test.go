package conventions_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// vagueWords have a technical term or a noun that says more: is laid out, is loaded, is reported, is rejected, a pass
// over rows, a peephole, the number of elements.
var vagueWords = regexp.MustCompile(`\b(nobody|whoever|so many|lies?|told|brought|goes by|refuses?|refused|` +
	`refusing|sweeps?|idioms?|turned|fate|makes? up|made up|tells?|meanwhile|whatever|beside|asleep|trade places|` +
	`hands? (out|over)|go(es)? on|takes? over|leaves? (out|away)|left out|past the|pays? off|repays?)\b`)

// TestWords rejects vague words in comments.
func TestWords(t *testing.T) {
	files := 0
	walkGo(t, "", func(path string) error {
		if isTest(path) {
			return nil
		}
		files++
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		for _, group := range file.Comments {
			for _, c := range group.List {
				if word := vagueWords.FindString(c.Text); word != "" && !strings.HasPrefix(c.Text, "//go:") {
					t.Errorf("%s: %q is vague, use a noun or a technical term: %s", fset.Position(c.Pos()), word, c.Text)
				}
			}
		}
		return nil
	})
	if files < 300 {
		t.Errorf("only %d files were read", files)
	}
}
