package conventions_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
)

var update = flag.Bool("update", false, "rewrite the generated lists in documents")

// generatedLists are tables in documents that are generated from lists in the code. Each table is between the lines
// <!-- name --> and <!-- end -->.
var generatedLists = []struct {
	file, name string
	table      func() string
}{
	{"docs/layouts.md", "strategies", func() string {
		rows := [][]string{{"strategy", "effect"}, {"---", "---"}}
		for _, s := range layout.All() {
			rows = append(rows, []string{"`" + s.Name() + "`", layout.DocOf(s)})
		}
		return markdown(rows)
	}},
	{"ARCHITECTURE.md", "passes", func() string {
		rows := [][]string{{"pass", "effect", "why there"}, {"---", "---", "---"}}
		for _, p := range passes.Passes() {
			rows = append(rows, []string{p.Name, p.Doc, p.Why})
		}
		return markdown(rows)
	}},
}

// markdown returns a table with the given rows.
func markdown(rows [][]string) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString("| " + strings.Join(r, " | ") + " |\n")
	}
	return b.String()
}

// TestGeneratedLists compares the tables of documents with the lists in the code; with -update it rewrites the tables.
func TestGeneratedLists(t *testing.T) {
	for _, l := range generatedLists {
		path := filepath.Join(root, l.file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, begins := strings.Cut(string(text), "<!-- "+l.name+" -->\n")
		have, after, ends := strings.Cut(rest, "<!-- end -->")
		want := l.table()
		switch {
		case !begins || !ends:
			t.Errorf("%s: there is no list between <!-- %s --> and <!-- end -->", l.file, l.name)
		case have == want:
		case *update:
			text := before + "<!-- " + l.name + " -->\n" + want + "<!-- end -->" + after
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s: the list of %s differs from the code: go test ./internal/conventions -run TestGeneratedLists -update",
				l.file, l.name)
		}
	}
}
