package conventions_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/sorted"
)

// maxTypes bounds the numbers of exported types of packages. A new type needs a reason: often a type exists that
// describes the same thing, such as a document of package report.
var maxTypes = map[string]int{
	"exec":              16,
	"experiment":        31,
	"graph":             97,
	"graph/batch":       1,
	"inspect":           15,
	"internal/batching": 2,
	"internal/program":  6,
	"passes":            10,
	"passes/layout":     27,
	"pricing":           12,
	"report":            31,
}

// TestTypes compares docs/concepts.txt with the exported types of the packages of [maxTypes], and their numbers with
// these bounds. `go test ./internal/conventions -run TestTypes -update` writes the file.
func TestTypes(t *testing.T) {
	text := strings.Builder{}
	text.WriteString("The nouns of the core: the exported types of its packages. Written by a test of internal/conventions.\n")
	for _, folder := range sorted.Keys(maxTypes) {
		types := exportedTypes(t, folder)
		if len(types) > maxTypes[folder] || len(types) == 0 {
			t.Errorf("package %s has %d exported types, more than %d", folder, len(types), maxTypes[folder])
		}
		fmt.Fprintf(&text, "\n%s: %d\n", folder, len(types))
		for _, name := range sorted.Keys(types) {
			fmt.Fprintf(&text, "  %-22s %s\n", name, types[name])
		}
	}
	path := filepath.Join(root, "docs", "concepts.txt")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if written, err := os.ReadFile(path); err != nil || string(written) != text.String() {
		t.Errorf("docs/concepts.txt is not the list of exported types (%v): run this test with -update", err)
	}
}

// exportedTypes returns the first sentence of the documentation of each exported type of a package.
func exportedTypes(t *testing.T, folder string) map[string]string {
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, path := range paths {
		if isTest(path) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE {
				continue
			}
			for _, spec := range group.Specs {
				declared := spec.(*ast.TypeSpec)
				text := declared.Doc.Text()
				if text == "" {
					text = group.Doc.Text()
				}
				if declared.Name.IsExported() {
					types[declared.Name.Name] = new(doc.Package).Synopsis(text)
				}
			}
		}
	}
	return types
}
